"""The files that a run is to read: found, told apart by content, in order of time."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from namesrv_wire.capture import read_capture
from namesrv_wire.errors import CaptureError

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """An input file. `kind`: capture, event_log or snapshot."""

    path: Path
    kind: str
    sha256: str
    bytes: int
    first_time_ns: int

    def row(
        self, frames: int = 0, packets: int = 0, last_ns: int | None = None, error: str | None = None
    ) -> dict[str, object]:
        """Return its row for `sources`, but for what the whole run has in common."""
        return {
            "content_sha256": self.sha256,
            "source_file": self.path.name,
            "kind": self.kind,
            "bytes": self.bytes,
            "frames": frames,
            "packets": packets if self.kind == "capture" else None,
            "first_time": instant(self.first_time_ns or None),
            "last_time": instant(last_ns),
            "error": error,
        }


def instant(time_ns: int | None) -> datetime | None:
    """Return nanoseconds since the epoch as an instant."""
    return None if time_ns is None else datetime.fromtimestamp(time_ns / 1e9, timezone.utc)


def expand(inputs: Iterable[str]) -> list[Path]:
    """Return the files that `inputs` name, folders entered, in order of name. Raises FileNotFoundError naming what is missing."""
    found: list[Path] = []
    for name in inputs:
        path = Path(name)
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        elif path.is_file():
            found.append(path)
        else:
            raise FileNotFoundError(f"input {name}: no such file or folder")
    return found


def sources_of(inputs: Sequence[str], snapshots: Sequence[str]) -> list[Source]:
    """Return the files in order of time. Raises FileNotFoundError naming what is missing."""
    found = [_source(path) for path in expand(inputs)]
    found += [replace(_source(path), kind="snapshot") for path in expand(snapshots)]
    return sorted(found, key=lambda source: (source.first_time_ns, source.path.name))


def _source(path: Path) -> Source:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    kind, first = _kind_and_time(path)
    return Source(path, kind, digest.hexdigest(), size, first)


def _kind_and_time(path: Path) -> tuple[str, int]:
    """Return what kind of input a file is, by its first bytes, and the time of its first packet (0 if there is none)."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == _GZIP_MAGIC
        with gzip.open(path) if compressed else path.open("rb") as file:
            head = file.read(64).lstrip()
    except (OSError, EOFError):
        return "capture", 0  # the reader says what is wrong with it
    if head.startswith(b"{"):
        return "event_log", 0
    try:
        first = next(iter(read_capture(path)), None)
    except CaptureError:
        return "capture", 0
    return "capture", 0 if first is None else first.time_ns
