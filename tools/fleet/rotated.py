"""Capture files of equal parts of a time, written one after the other, and beside them the truth; each whole or not at all."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, cast

from jobs.errors import UsageError
from tools.fleet.packets import FILE_HEADER, Fact, Packet, records

_LEVEL = 1
# Packets that are made at once.
_AT_A_TIME = 1 << 14


class Rotated:
    """Takes packets in order of time, and facts; `from_ns`, `until_ns`: the time that the files share among them."""

    def __init__(self, files: Sequence[Path], truth: Path, from_ns: int, until_ns: int) -> None:
        self._paths = [*files, truth]
        self._from_ns = from_ns
        self._ends = [from_ns + (until_ns - from_ns) * part // len(files) for part in range(1, len(files) + 1)]
        self._part = -1
        self._stack = ExitStack()
        self._file: BinaryIO
        self.packets = [0] * len(files)
        """Packets by file."""
        self.told: Counter[str] = Counter()
        """Facts by what they are about."""

    def __enter__(self) -> Rotated:  # noqa: PYI034  typing has no Self before Python 3.11
        try:
            self._truth = self._opened(self._paths[-1])
            self._next()
        except UsageError as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            while self._part < len(self.packets) - 1:
                self._next()
        self._stack.close()
        for path in self._paths:
            part = _part_of(path)
            if part.exists() and kind is None:
                part.replace(path)
            else:
                part.unlink(missing_ok=True)

    def begin_before(self, from_ns: int) -> None:
        """Have the first file begin earlier."""
        self._from_ns = from_ns

    def write(self, packets: Sequence[Packet]) -> None:
        """Write packets; those from before the first file are left out, those from after the last belong to it."""
        at = bisect_left(packets, self._from_ns, key=attrgetter("time_ns"))
        while at < len(packets):
            is_last = self._part == len(self.packets) - 1
            end = len(packets) if is_last else bisect_left(packets, self._ends[self._part], key=attrgetter("time_ns"))
            some = packets[at:end]
            for start in range(0, len(some), _AT_A_TIME):
                self._file.write(records(some[start : start + _AT_A_TIME], sum(self.packets) + start))
            for number, packet in enumerate(some, self.packets[self._part] + 1):
                if packet.told is not None:
                    self.tell({**packet.told, "file": self._paths[self._part].name, "packet": number})
            self.packets[self._part] += len(some)
            at = end
            if at < len(packets):
                self._next()

    def tell(self, fact: Fact) -> None:
        """Write a fact as a line of JSON."""
        self._truth.write(json.dumps(fact, default=dt.datetime.isoformat).encode() + b"\n")
        self.told[fact["truth"]] += 1

    def _next(self) -> None:
        self._part += 1
        self._file = self._opened(self._paths[self._part])
        self._file.write(FILE_HEADER)

    def _opened(self, path: Path) -> BinaryIO:
        try:
            file = self._stack.enter_context(_part_of(path).open("wb"))
        except OSError as error:
            raise UsageError(f"output {path}: cannot be written: {error.strerror or error}") from error
        if path.suffix != ".gz":
            return file
        # Neither a name nor a time in its header: equal packets are equal bytes.
        compressed = self._stack.enter_context(gzip.GzipFile("", "wb", _LEVEL, file, mtime=0))
        return cast("BinaryIO", compressed)


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")
