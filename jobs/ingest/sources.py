"""The files that a run is to read: found, told apart by content, in order of time."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType

from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.compression import is_packed
from namesrv_wire.errors import CaptureError
from namesrv_wire.limits import END_NS
from namesrv_wire.logs.log_file import beginning_of, why_unreadable
from namesrv_wire.packets.container import PCAP, read_records
from schemas.bronze import ACCEPTED, UNREAD

_CHUNK = 1 << 20
_TRUTH = b'{"truth":'
_SAME_NS = 2_000_000_000
"""So long two changes of a file may have one time."""


@dataclass(frozen=True)
class Source:
    """An input file. `kind`: capture, event_log or snapshot."""

    path: Path
    kind: str
    sha256: str
    bytes: int
    first_time_ns: int
    changed_ns: int = 0
    """When the file was changed last, before it was looked at."""
    is_readable: bool = True
    """Whether it could be read to its end."""
    header: str = ""
    """Of a capture, what the files of one recording point have in common."""
    fingerprint: str | None = None
    """By what it is known without being read."""

    def change(self) -> str | None:
        """Return what has become of the file since it was looked at; None: nothing."""
        if not self.is_readable:
            return f"{self.path.name}: it cannot be read to its end"
        try:
            now = self.path.stat()
        except OSError as error:
            return str(error)
        if now.st_size != self.bytes:
            how = "grows" if now.st_size > self.bytes else "shrinks"
            return f"{self.path.name}: it {how} while it is read, from {self.bytes:,} to {now.st_size:,} bytes: give it again"
        return (
            None
            if now.st_mtime_ns == self.changed_ns
            else f"{self.path.name}: it changes while it is read: give it again"
        )

    def _named(self, error: str) -> str:
        return error if self.path.name in error else f"{self.path.name}: {error}"

    def unread(self, why: str, verdict: str = UNREAD) -> dict[str, object]:
        """Return its row for `sources` if nothing of it counts as read."""
        return {**self.row(error=why), "verdict": verdict}

    def row(
        self, frames: int = 0, packets: int = 0, last_ns: int | None = None, error: str | None = None
    ) -> dict[str, object]:
        """Return its row for `sources`, but for what the whole run has in common."""
        changed = self.change()
        # What was not read whole does not count as read: neither what the file was nor what it has become.
        own = self.sha256 if changed is None else hashlib.sha256(f"{self.sha256} {time.time_ns()}".encode()).hexdigest()
        return {
            "content_sha256": own,
            "source_file": self.path.name,
            "kind": self.kind,
            "bytes": self.bytes,
            "fingerprint": self.fingerprint if changed is None else None,
            "frames": frames,
            "packets": packets if self.kind == "capture" else None,
            "first_time": instant(self.first_time_ns or None),
            "last_time": instant(last_ns),
            "verdict": ACCEPTED if self.is_readable else UNREAD,
            "error": changed or error if self.is_readable or error is None else self._named(error),
        }


def fingerprint_of(name: str, size: int, changed_ns: int) -> str | None:
    """Return by what a file of this whole name or URL is known; None if it may still change without being told apart."""
    if changed_ns > time.time_ns() - _SAME_NS:
        return None
    return hashlib.sha256(f"{name}\n{size}\n{changed_ns}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


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
class Found:
    """What the inputs of a run come to: files, in order of name.

    `empty`: a sentence for each folder in which there is no file; `errors`: one for each thing below that cannot be looked at.
    """

    files: list[Path] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def expand(inputs: Iterable[str]) -> Found:
    """Return what `inputs` name. Raises FileNotFoundError naming what is missing.

    Folders are entered, linked ones too, each once; what `simulate` notes there about its captures is no recording.
    """
    found = Found()
    for name in inputs:
        path = Path(name)
        if path.is_dir():
            files = sorted(_files_below(path, found.errors))
            found.files += files
            if not files:
                found.empty.append(f"input {name} holds no files: is it the right folder, and mounted?")
        elif path.is_file():
            found.files.append(path)
        else:
            raise FileNotFoundError(f"input {name}: no such file or folder")
    return found


def _files_below(folder: Path, errors: list[str]) -> Iterator[Path]:
    """Yield the recordings below a folder; what cannot be looked at adds a sentence to `errors`."""
    entered = set[tuple[int, int]]()

    def failed(error: OSError) -> None:
        errors.append(f"{error.filename}: cannot be listed: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        said = os.stat(place)  # noqa: PTH116  it is a text
        if (said.st_dev, said.st_ino) in entered:
            folders.clear()
            continue
        entered.add((said.st_dev, said.st_ino))
        for path in (Path(place, name) for name in names if not name.startswith(".")):
            if path.is_file():
                yield from () if _is_truth(path) else (path,)
            elif path.is_symlink() and not path.exists():
                errors.append(f"{path.name}: cannot be read: a link that leads nowhere")


def _is_truth(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_TRUTH)) == _TRUTH
    except OSError:
        return False


def sources_of(
    files: Iterable[Path],
    states: Iterable[Path],
    until_us: int | None = None,
    known: Mapping[str, str] = MappingProxyType({}),
    fingerprints: Mapping[Path, str | None] = MappingProxyType({}),
) -> tuple[list[Source], list[str]]:
    """Return recordings and snapshots in order of time, and the digests of those that are `known` by their fingerprints.

    `until_us`: what lies after that has no time. `fingerprints`: of copies, those of what they were made of.
    """
    found, digests = list[Source](), list[str]()
    for path, is_state in [*((path, False) for path in files), *((path, True) for path in states)]:
        own = fingerprints[path] if path in fingerprints else _fingerprint(path)
        if own is not None and own in known:
            digests.append(known[own])
            continue
        source = replace(_source(path, until_us), fingerprint=own)
        found.append(replace(source, kind="snapshot") if is_state else source)
    return sorted(found, key=lambda source: (source.first_time_ns, source.path.name)), digests


def _fingerprint(path: Path) -> str | None:
    try:
        said = path.stat()
    except OSError:
        return None
    return fingerprint_of(str(path.absolute()), said.st_size, said.st_mtime_ns)


def _source(path: Path, until_us: int | None) -> Source:
    digest, size, changed_ns, is_readable = hashlib.sha256(), 0, 0, True
    try:
        changed_ns = path.stat().st_mtime_ns
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:  # its reader says so
        digest.update(f"{path} at byte {size}: {error}".encode())
        is_readable = False
    kind, first, header = _kind_and_time(path, until_us)
    return Source(path, kind, digest.hexdigest(), size, first, changed_ns, is_readable, header)


def _kind_and_time(path: Path, until_us: int | None) -> tuple[str, int, str]:
    """Return what kind of input a file is, by its first bytes, the time of its first packet (0: there is none), and its header."""
    head = beginning_of(path)
    if head.lstrip().startswith(b"{") or why_unreadable(head) is not None:
        return "event_log", 0, ""
    header = (head[:24] if head[:4] in PCAP else head[:4]).hex()
    last_ns = END_NS if until_us is None else until_us * NS_PER_US
    try:
        for records in read_records(path):
            times = records.time_ns[records.is_timed & (records.time_ns <= last_ns)]
            if len(times):
                return "capture", int(times[0]), f"{header} {records.link_type[0]}"
    except (CaptureError, OSError):  # its reader says what is wrong with it
        return "capture", 0, header
    return "capture", 0, header
