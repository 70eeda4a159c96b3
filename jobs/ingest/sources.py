"""Input files of a run: found on a disk or in a store, identified by content, in order of time; and the counts of reading them."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from jobs.conf import PipelineConf
from jobs.errors import UsageError, first_line
from jobs.ingest import STANDARD_INPUT
from jobs.passes import InProcess, Passes
from jobs.store.places import Stored, filesystem_of, local_path, temporary_folder
from jobs.store.published import delta_uri
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.events import NS_PER_US
from namesrv_wire.compression import is_packed
from namesrv_wire.errors import END_NS, FIRST_NS, CaptureError, Reason
from namesrv_wire.logs.event_log import beginning_of, is_event_log
from namesrv_wire.logs.namesrv_log import LogConf, is_log, is_of_a_broker, time_of, zone_of
from namesrv_wire.packets.container import PCAP, read_records
from schemas import bronze

_T = TypeVar("_T")
_CHUNK = 8 << 20
_EMPTY = "input {} holds no files: is it the right folder, and mounted?"
_UNTOLD = (
    "{}: a name server's log states neither its name server nor its time zone: give --log-namesrv IP:PORT and --log-zone ZONE "
    "(or [log] in conf/). RocketMQ's own configuration writes GMT+8, whatever the host's zone"
)
_TIMESTAMP_STEP_NS = 2_000_000_000
"""Two changes of a file within this time may have the same timestamp."""


@dataclass(frozen=True)
class Source:
    """An input file. `kind`: capture, event_log, namesrv_log or broker_log."""

    path: Path
    kind: str
    sha256: str
    bytes: int
    first_time_ns: int
    changed_ns: int = 0
    """Time of the last change before the file was examined."""
    is_readable: bool = True
    """Whether it could be read to its end."""
    header: str = ""
    """For a capture: what all files of its recording point have in common."""
    fingerprint: str | None = None
    """Identifies the file without reading it: a hash of path, size and time."""
    name: str = ""
    """What it is called in rows and messages; no other file of its run is called so."""

    def change(self) -> str | None:
        """Return how the file has changed since it was examined; None if it has not."""
        if not self.is_readable:
            return f"{self.name}: it cannot be read to its end"
        try:
            now = self.path.stat()
        except OSError as error:
            return str(error)
        if now.st_size != self.bytes:
            how = "grows" if now.st_size > self.bytes else "shrinks"
            return (
                f"{self.name}: it {how} while it is read, from {self.bytes:,} to {now.st_size:,} bytes: give it again"
            )
        is_same = now.st_mtime_ns == self.changed_ns
        return None if is_same else f"{self.name}: it changes while it is read: give it again"

    def row(
        self, frames: int = 0, packets: int = 0, last_ns: int | None = None, error: str | None = None
    ) -> dict[str, object]:
        """Return the file's row for `sources`, without the columns that the whole run shares."""
        changed = self.change()
        if self.is_readable:
            error = changed or error
        elif error is not None and self.path.name not in error:
            error = f"{self.name}: {error}"
        # A file that was not read whole does not count as read, neither in its old content nor in its new one.
        own = self.sha256 if changed is None else hashlib.sha256(f"{self.sha256} {time.time_ns()}".encode()).hexdigest()
        return {
            "content_sha256": own,
            "source_file": self.name,
            "kind": self.kind,
            "bytes": self.bytes,
            "fingerprint": self.fingerprint if changed is None else None,
            "frames": frames,
            "packets": packets if self.kind == "capture" else None,
            "first_time": instant(self.first_time_ns or None),
            "last_time": instant(last_ns),
            "verdict": bronze.ACCEPTED if self.is_readable else bronze.UNREAD,
            "error": error or changed,
        }


def instant(time_ns: int | None) -> datetime | None:
    """Return nanoseconds since the epoch as an instant."""
    return None if time_ns is None else datetime.fromtimestamp(time_ns / 1e9, timezone.utc)


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed, or cannot be read."""
    try:
        with path.open("rb") as file:
            return is_packed(file.read(8))
    except OSError:
        return True


@dataclass
class Given:
    """The input files of a run, available and in order of time.

    `known`: digests of files that were read before, recognized by path, size and time. `are_copies`: some are copies (of a pipe, or
    of a log that is being written), which only this machine sees. `empty`: a sentence for each folder without files; `errors`: a
    sentence for each file or folder that cannot be examined.
    """

    sources: Sequence[Source] = ()
    known: list[str] = field(default_factory=list)
    are_copies: bool = False
    empty: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@contextmanager
def given_files(warehouse: Warehouse, inputs: Sequence[str], passes: Passes) -> Iterator[Given]:
    """Yield `inputs` (files, folders, URLs, pipes, or `-` for standard input) as long as they are available.

    Folders are searched, linked ones too, each once. Tasks examine the objects of a store. Raises FileNotFoundError for a
    missing input, UsageError for a store that does not answer.
    """
    is_known = pc.field("fingerprint").is_valid()
    names = warehouse.rows(bronze.SOURCES, None, ["fingerprint", "content_sha256"], is_known)
    known: dict[str, str] = dict(zip(*names.to_pydict().values(), strict=True))
    given, found, untold = Given(), list[Source](), list[str]()
    with temporary_folder("inputs") as folder:
        for number, name in enumerate(inputs):
            own, path = folder / str(number), local_path(name)
            files: Mapping[Path, str | None]
            # A pipe, as shells make it of <(COMMAND), or a device such as /dev/null.
            is_named = name != STANDARD_INPUT and path is not None and (path.is_fifo() or path.is_char_device())
            if name == STANDARD_INPUT or is_named:
                own.mkdir()
                with (own / "standard-input").open("wb") as piped, contextlib.ExitStack() as opened:
                    pipe = opened.enter_context(Path(name).open("rb")) if is_named else sys.stdin.buffer
                    shutil.copyfileobj(pipe, piped, _CHUNK)
                files, given.are_copies = {Path(piped.name): None}, True
            elif path is None:
                files = _objects(name, warehouse.path)
                if not files:
                    given.empty.append(_EMPTY.format(name))
            elif path.is_dir():
                growing = dict.fromkeys(_growing(path, own))  # first: a log finished in between is then listed below
                given.are_copies |= bool(growing)
                below = sorted(_files_below(path, warehouse.path, given.errors))
                files = {file: _fingerprint(file) for file in below} | growing
                if not files:
                    given.empty.append(_EMPTY.format(name))
            elif path.is_file():
                files = {path: _fingerprint(path)}
            else:
                raise FileNotFoundError(f"input {name}: no such file or folder")
            if wrong := [file for file in files if _shown(file) != str(file)]:
                given.errors += [f"{_shown(file)}: cannot be read: this path is not UTF-8: rename it" for file in wrong]
                files = {file: of for file, of in files.items() if file not in wrong}
            given.known += [known[of] for of in files.values() if of is not None and of in known]
            new = [file for file, of in files.items() if of is None or of not in known]
            looking = InProcess() if path is not None or name == STANDARD_INPUT else passes
            look = partial(source_of, until_us=warehouse.until_us, log=warehouse.conf.log)
            for file, seen in zip(new, looking.each(look, new), strict=True):
                source = replace(seen, fingerprint=files[file])
                if source.kind == "namesrv_log" and warehouse.conf.log is None:
                    untold.append(file.name)
                    continue
                found.append(source)
        if untold and not found and not given.known:
            raise UsageError(_UNTOLD.format(", ".join(untold)))
        given.errors += [_UNTOLD.format(name) for name in untold]
        given.sources = sorted(_told_apart(found), key=lambda source: (source.first_time_ns, source.name))
        yield given


def _told_apart(sources: Sequence[Source]) -> Iterator[Source]:
    """Yield files by names that tell them apart: of several with the same name, by their paths below a common folder."""
    alike = defaultdict[str, dict[Path, str]](dict)
    for source in sources:
        alike[source.path.name][source.path.absolute()] = source.sha256
    for source in sources:
        name = source.path.name
        if len(set(alike[name].values())) > 1:
            folder = os.path.commonpath([path.parent for path in alike[name]])
            name = str(source.path.absolute().relative_to(folder))
        yield replace(source, name=name)


def _shown(path: Path | str) -> str:
    r"""Return a path, with \xNN for each byte that is not UTF-8, which no table can hold."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _files_below(folder: Path, warehouse: str, errors: list[str]) -> Iterator[Path]:
    """Yield the files below a folder, without a warehouse's own; add a sentence to `errors` for each that cannot be examined."""
    own = local_path(warehouse)
    entered = {_identity(own)} if own is not None and own.is_dir() else set[tuple[int, int]]()

    def failed(error: OSError) -> None:
        errors.append(f"{_shown(error.filename)}: cannot be listed: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        if (identity := _identity(Path(place))) in entered:
            folders.clear()
            continue
        entered.add(identity)
        for path in (Path(place, name) for name in names if not name.startswith(".")):
            if path.is_file():
                yield path
            elif path.is_symlink() and not path.exists():
                errors.append(f"{_shown(path.name)}: cannot be read: a link that leads nowhere")


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def _growing(folder: Path, copies: Path) -> Iterator[Path]:
    """Yield copies, up to the last whole line, of event logs in a folder that `record` is still writing (hidden files)."""
    for path in sorted(folder.rglob(".*.jsonl")):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            content = file.read()
            end = content.rfind(b"\n") + 1
            if end:
                copy = copies / path.relative_to(folder).with_name(path.name.removeprefix("."))
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content[:end])
                yield copy


def _objects(url: str, warehouse: str) -> dict[Path, str | None]:
    """Return the objects at or below a URL, without a warehouse's own, with the fingerprint of each."""
    own = f"{filesystem_of(warehouse.rstrip('/'))[1]}/"
    system, place = filesystem_of(url.rstrip("/"))
    try:
        named = system.get_file_info(place)
        is_file = named.type == pafs.FileType.File
        below = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        infos = [named] if is_file else system.get_file_info(below)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"input {url}: cannot be read: {first_line(error)}") from error
    if not infos:
        raise FileNotFoundError(f"input {url}: no such object, and nothing below it")
    return {
        Stored.at(f"{delta_uri(url).rstrip('/')}{info.path.removeprefix(place)}"): _fingerprint_of(
            f"{url} {info.path}", info.size, info.mtime_ns or time.time_ns()
        )
        for info in infos
        if info.is_file
        and (is_file or not info.base_name.startswith("."))
        and (place.startswith(own) or not info.path.startswith(own))
    }


def _fingerprint(path: Path) -> str | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return _fingerprint_of(str(path.absolute()), stat.st_size, stat.st_mtime_ns)


def _fingerprint_of(name: str, size: int, changed_ns: int) -> str | None:
    """Return the fingerprint of a file with this full path or URL; None if a change in this moment could go unnoticed."""
    if changed_ns > time.time_ns() - _TIMESTAMP_STEP_NS:
        return None
    return hashlib.sha256(f"{name}\n{size}\n{changed_ns}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def source_of(path: Path, until_us: int | None = None, log: LogConf | None = None) -> Source:
    """Return a recording in its current state; `until_us`: later times do not count; `log`: settings for name servers' logs."""
    digest, size, changed_ns, is_readable = hashlib.sha256(), 0, 0, True
    try:
        changed_ns = path.stat().st_mtime_ns
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:  # its reader reports this
        digest.update(f"{path} at byte {size}: {error}".encode())
        is_readable = False
    # The kind of input, from its first bytes, and the time of its first packet (0: there is none).
    head, kind, first_ns = beginning_of(path), "capture", 0
    is_capture = head[:4] in PCAP  # its packets may contain lines of logs
    header = (head[:24] if is_capture else head[:4]).hex()
    if not is_capture and is_event_log(head):
        kind, header = "event_log", ""
    elif not is_capture and is_of_a_broker(head):
        kind, header = "broker_log", ""
    elif not is_capture and is_log(head):
        kind, header, first_ns = "namesrv_log", "", 0 if log is None else time_of(head, zone_of(log.zone))
    else:
        last_ns = END_NS if until_us is None else until_us * NS_PER_US
        try:
            for records in read_records(path):
                can_be = (records.time_ns >= FIRST_NS) & (records.time_ns <= last_ns)
                times = records.time_ns[records.is_timed & can_be]
                if len(times):
                    first_ns, header = int(times[0]), f"{header} {records.link_type[0]}"
                    break
        except (CaptureError, OSError):  # its reader reports what is wrong with it
            pass
    return Source(path, kind, digest.hexdigest(), size, first_ns, changed_ns, is_readable, header, name=path.name)


# -- reading them ------------------------------------------------------------------------------------------------------


class UntilItStops(Generic[_T]):
    """Yields the items of a reader up to where it fails; `stopped`: the failure, known at the end.

    Only the reader's errors are caught: a full disk where its rows are written says nothing about the input.
    """

    def __init__(self, items: Iterable[_T]) -> None:
        self._items = items
        self.stopped: CaptureError | OSError | EOFError | None = None

    def __iter__(self) -> Iterator[_T]:
        try:
            yield from self._items
        except (CaptureError, OSError, EOFError) as why:
            self.stopped = why


_NUMBERS = ("frames", "pieces", "packets", "events", "observations", "duplicates", "quarantined", "sightings")
_REFUSED = frozenset((Reason.TOO_LATE.value, Reason.CLOCK_WENT_BACK.value, Reason.AHEAD_OF_CLOCK.value))
_DETAIL_CHARS = 200


# -- counts that must add up -------------------------------------------------------------------------------------------


@dataclass
class Read:
    """Result of reading, in counts and names.

    `pieces`: data that is not a whole frame; it is in quarantine or `ignored`. `sightings`: packets seen before, on another
    interface or before an address translation. `reasons`: quarantine rows by reason; `refused`: rows that were too late or whose
    clock went back. `sources` were read now, `known_sources` before. `left_out`: other content of captures and logs. `never_met`:
    name server addresses of conf/ or --namesrv that occur in nothing that was read, now or before.
    """

    frames: int = 0
    pieces: int = 0
    packets: int = 0
    sightings: int = 0
    events: int = 0
    observations: int = 0
    duplicates: int = 0
    quarantined: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)
    known_sources: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    never_met: list[str] = field(default_factory=list)


@dataclass
class Ingested(Read):
    """Result of ingest. Invariant: frames + pieces = events + observations + duplicates + quarantined + the sum of `ignored`.

    The two sides are counted independently: readers count frames and ignored data, staging counts the rest. `unordered`: files
    whose clock went back too far. `days`: days with rows that the run has written or changed.
    """

    unordered: list[str] = field(default_factory=list)
    days: list[dt.date] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Return all counts by name, as in the ledger and in `sources`."""
        return {
            **{name: getattr(self, name) for name in _NUMBERS},
            "ignored": sum(self.ignored.values()),
            **{f"ignored.{rule}": count for rule, count in sorted(self.ignored.items())},
            **{f"quarantined.{reason}": count for reason, count in sorted(self.reasons.items())},
            **self.refused,
        }

    def take_up(self, counts: Mapping[str, int]) -> None:
        """Add the `counts` of an earlier run that published nothing: the run that publishes its rows reports them, once."""
        for name, count in counts.items():
            kind, _, which = name.partition(".")
            if name in _NUMBERS:
                setattr(self, name, getattr(self, name) + count)
            elif which and kind in ("ignored", "quarantined"):
                (self.ignored if kind == "ignored" else self.reasons)[which] += count
            elif name in _REFUSED:
                self.refused[name] += count

    @property
    def unaccounted(self) -> int:
        """Return the number of frames and pieces in none of the classes; other than 0, some were lost or counted twice."""
        classes = self.events + self.observations + self.duplicates + self.quarantined
        return self.frames + self.pieces - classes - sum(self.ignored.values())


class ReadSource(NamedTuple):
    """A file that was read: its row for `sources`, and the numbers of its staged rows."""

    source: Source
    row: dict[str, Any]
    numbers: range


@dataclass(slots=True)
class Quarantined:
    """A file's whole frames or lines in quarantine: counts by reason, and the first one's offset and detail."""

    counts: Counter[str] = field(default_factory=Counter)
    first: tuple[int, str] = (0, "")

    def add(self, reason: str, offset: int, detail: str) -> None:
        """Add one frame or line."""
        if not self.counts or offset < self.first[0]:
            self.first = offset, detail
        self.counts[reason] += 1

    def add_behind(self, other: Quarantined, line: int) -> None:
        """Add those of a block of lines that begins at `line`."""
        if other.counts and not self.counts:
            self.first = line + other.first[0], other.first[1]
        self.counts.update(other.counts)

    def described(self, name: str, frames: int) -> str:
        """Return in words how many of a file's frames or lines these are."""
        shown = ", ".join(f"{reason} {of:,}" for reason, of in sorted(self.counts.items()))
        offset, detail = self.first
        return (
            f"{name}: {self.counts.total():,} of {frames:,} frames or lines are no events ({shown}; the first at {offset:,}: "
            f"{detail[:_DETAIL_CHARS]})"
        )

    def refusal(self, conf: PipelineConf, name: str, frames: int) -> str | None:
        """Return why a file with so many frames or lines is refused; None if it is not."""
        count = self.counts.total()
        if count <= conf.quarantine_share_max * frames or count <= conf.quarantine_frames_min:
            return None
        limits = f"more than {conf.quarantine_share_max:.1%} and {conf.quarantine_frames_min:,}"
        return f"{self.described(name, frames)}: refused, since that is {limits} (conf: ingest.quarantine_share_max)"
