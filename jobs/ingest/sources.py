"""The files that a run is to read: found, told apart by content, in order of time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from namesrv_wire.compression import is_packed, unpacked
from namesrv_wire.errors import CaptureError
from namesrv_wire.packets.container import read_records

_CHUNK = 1 << 20
_TRUTH = b'{"truth":'


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
            "frames": frames,
            "packets": packets if self.kind == "capture" else None,
            "first_time": instant(self.first_time_ns or None),
            "last_time": instant(last_ns),
            "error": changed or error if self.is_readable or error is None else self._named(error),
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


def expand(inputs: Iterable[str]) -> list[Path]:
    """Return the files that `inputs` name, in order of name. Raises FileNotFoundError naming what is missing.

    Folders are entered; what `simulate` notes there about its captures is no recording.
    """
    found: list[Path] = []
    for name in inputs:
        path = Path(name)
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.is_file() and not (p.name.startswith(".") or _is_truth(p)))
        elif path.is_file():
            found.append(path)
        else:
            raise FileNotFoundError(f"input {name}: no such file or folder")
    return found


def _is_truth(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_TRUTH)) == _TRUTH
    except OSError:
        return False


def sources_of(inputs: Sequence[str], snapshots: Sequence[str]) -> list[Source]:
    """Return the files in order of time. Raises FileNotFoundError naming what is missing."""
    found = [_source(path) for path in expand(inputs)]
    found += [replace(_source(path), kind="snapshot") for path in expand(snapshots)]
    return sorted(found, key=lambda source: (source.first_time_ns, source.path.name))


def _source(path: Path) -> Source:
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
    kind, first = _kind_and_time(path)
    return Source(path, kind, digest.hexdigest(), size, first, changed_ns, is_readable)


def _kind_and_time(path: Path) -> tuple[str, int]:
    """Return what kind of input a file is, by its first bytes, and the time of its first packet (0 if there is none)."""
    try:
        with path.open("rb") as file:
            head = unpacked(file).read1(64).lstrip()
    except OSError:
        return "capture", 0  # the reader says what is wrong with it
    if head.startswith(b"{"):
        return "event_log", 0
    try:
        times = (int(time_ns) for records in read_records(path) for time_ns in records.time_ns[records.is_timed][:1])
        return "capture", next(times, 0)
    except (CaptureError, OSError):
        return "capture", 0
