"""Files of an event log that is being written: a hidden one while it grows, then a compressed one under its name."""

from __future__ import annotations

import datetime as dt
import fcntl
import gzip
import os
import re
import shutil
from itertools import count
from pathlib import Path
from typing import Final

_LIVE, _DONE = ".jsonl", ".jsonl.gz"
_UNSAFE: Final = re.compile(r"[^0-9A-Za-z.-]")


class Segment:
    """A file that grows. It is `.NAME.jsonl`, which `nightly` passes over in a folder, and `NAME.jsonl.gz` once it is finished.

    NAME is whose it is and its first second (UTC). Raises OSError where it cannot be written.
    """

    def __init__(self, folder: Path, of: str) -> None:
        begun = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        names = (f"{safe_name(of)}-{begun}" + (f"_{n}" if n > 1 else "") for n in count(1))
        self._path = next(
            folder / f".{name}{_LIVE}"
            for name in names
            if not (folder / f".{name}{_LIVE}").exists() and not (folder / f"{name}{_DONE}").exists()
        )
        self._file = self._path.open("x", encoding="utf-8", errors="surrogatepass")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, line: str) -> None:
        """Add a line; it is in the file when this returns."""
        self._file.write(f"{line}\n")
        self._file.flush()

    def finish(self) -> None:
        """End it: from here on it is a finished file."""
        with self._file:
            _finish(self._path)


def safe_name(of: str) -> str:
    """Return a text as a part of a file's name."""
    return _UNSAFE.sub("_", of)


def finish_left_over(folder: Path, of: str) -> None:
    """Finish the files of `of` that somebody who is no more has left: of the last line there may be a part, which goes."""
    for path in sorted(folder.glob(f".{safe_name(of)}-*{_LIVE}")):
        with path.open("rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody writes it
                continue
            _cut_last_line(file.fileno())
            _finish(path)


def _cut_last_line(file: int) -> None:
    """Cut what stands behind the last line feed."""
    end = os.fstat(file).st_size
    while end > 0:
        begin = max(0, end - (1 << 16))
        found = os.pread(file, end - begin, begin).rfind(b"\n")
        if found >= 0:
            os.ftruncate(file, begin + found + 1)
            return
        end = begin
    os.ftruncate(file, 0)


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
