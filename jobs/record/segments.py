"""Files of an event log that is being written: a hidden one while it grows, then a compressed one under its name."""

from __future__ import annotations

import datetime as dt
import fcntl
import gzip
import json
import mmap
import os
import re
import shutil
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final

from jobs.errors import UsageError

_LIVE, _DONE = ".jsonl", ".jsonl.gz"
_UNSAFE: Final = re.compile(r"[^0-9A-Za-z.-]")


class Segment:
    """A file that grows. It is `.NAME.jsonl`, of which `nightly` takes whole lines, and `NAME.jsonl.gz` once it is finished.

    NAME is whose it is and its first second (UTC). A finished one has gzip's checksum. Raises OSError where it cannot be written.
    """

    def __init__(self, folder: Path, of: str) -> None:
        begun = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        names = (f"{safe_name(of)}-{begun}" + (f"_{n}" if n > 1 else "") for n in count(1))
        self._path = next(
            folder / f".{name}{_LIVE}"
            for name in names
            if not (folder / f".{name}{_LIVE}").exists() and not (folder / f"{name}{_DONE}").exists()
        )
        self._file = self._path.open("xb", buffering=0)
        self.bytes = 0
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, *lines: str) -> None:
        """Add lines; they are in the file when this returns, and outlive this process."""
        data = memoryview("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
        self.bytes += len(data)
        while data:
            data = data[self._file.write(data) :]

    def sync(self) -> None:
        """Have what was written outlive this machine's power."""
        os.fdatasync(self._file.fileno())

    def finish(self) -> None:
        """End it: from here on it is a finished file."""
        with self._file:
            _finish(self._path)


def make_folder(folder: Path) -> None:
    """Make a folder if need be. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"output {folder}: {error.strerror}") from error


def say(sentence: str) -> None:
    """Say something to whoever records."""
    sys.stderr.write(f"namesrv-history: {sentence}\n")
    sys.stderr.flush()


def safe_name(of: str) -> str:
    """Return a text as a part of a file's name."""
    return _UNSAFE.sub("_", of)


def left_over(folder: Path, of: str) -> Iterable[Path]:
    """Return the growing files of `of`, oldest first; somebody may write them."""
    return sorted(folder.glob(f".{safe_name(of)}-*{_LIVE}"))


def finish_left_over(folder: Path, of: str) -> None:
    """Finish the files of `of` that somebody who is no more has left; say so of each that ended in half a line.

    What is behind the last line feed goes, and so do lines at the end that are none, which a machine without power leaves.
    """
    for path in left_over(folder, of):
        with path.open("rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody writes it
                continue
            cut = _cut_torn_lines(file.fileno())
            _finish(path)
        if cut:
            say(f"{path.name}: {cut:,} bytes at its end are no whole line: cut, nobody was told of what they say")


def _cut_torn_lines(file: int) -> int:
    """Cut what is behind the last line that is whole; return how many bytes those were."""
    size = end = os.fstat(file).st_size
    if size:  # nothing cannot be mapped
        with mmap.mmap(file, size, access=mmap.ACCESS_READ) as data:
            while end > 0:
                begin = data.rfind(b"\n", 0, end - 1) + 1
                line = data[begin:end]
                if line.endswith(b"\n") and _is_object(line):
                    break
                end = begin
    os.ftruncate(file, end)
    return size - end


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _finish(path: Path) -> None:
    if path.stat().st_size == 0:
        path.unlink()
        return
    done = path.with_name(path.name.removeprefix(".").removesuffix(_LIVE) + _DONE)
    made = path.with_name(f".{done.name}")
    with path.open("rb") as plain, made.open("wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
        raw.flush()
        os.fsync(raw.fileno())
    made.replace(done)
    path.unlink()
