"""Files of event logs: gzip'd or not, many lines at a time."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Final

from namesrv_wire.errors import CaptureError, DecodeError, Reason
from namesrv_wire.limits import MAX_LINE_BYTES
from namesrv_wire.logs.event_log import Positions
from namesrv_wire.logs.known_lines import TOPICS, KnownLines, Shape
from namesrv_wire.logs.line_columns import Alike, Lines
from namesrv_wire.packets.container import GZIP_MAGIC
from namesrv_wire.rows import Row, Values, digest_id, quarantine_row
from namesrv_wire.tally import Tally

BLOCK_BYTES: Final = 16 << 20
"""A block is the lines that begin in so many bytes: blocks are read by themselves, by whoever has time."""
# What is lost of compressed data in front of damage, at most.
_STEP_BYTES: Final = 16 << 10
_READ_BYTES: Final = 1 << 20
_KNOWN: Final = [KnownLines()]
"""What was parsed by this process, whatever the file."""


@dataclass(slots=True)
class Block:
    """Lines of an event log that follow each other. Numbers of lines count from `first`, which is 1 for the first of a part.

    `lines`: those that are known; `rows`: of the others, and topic tables, with the numbers of their lines. `count`: of all lines,
    `frames`: of those that say something.
    """

    first: int
    count: int = 0
    frames: int = 0
    lines: list[Lines] = field(default_factory=list)
    rows: list[tuple[int, Row]] = field(default_factory=list)

    def in_order(self, source_file: str) -> Iterator[tuple[int, Row]]:
        """Yield all rows with the numbers of their lines; a topic table in front of its registration."""
        known = (row for lines in self.lines for row in lines.rows(source_file))
        yield from sorted(chain(self.rows, known), key=lambda numbered: numbered[0])


def read_event_log(path: str | PathLike[str], tally: Tally | None = None) -> Iterator[Row]:
    """Yield the rows of an event log in file order, as `read_blocks`, and count its lines as frames of `tally`."""
    name = Path(path).name
    for block in read_blocks(path):
        if tally is not None:
            tally.frames += block.frames
        for _, row in block.in_order(name):
            yield row


def read_blocks(path: str | PathLike[str], start: int = 0, stop: int | None = None) -> Iterator[Block]:
    """Yield the lines of an event log in file order, of one that is not compressed those that begin from `start` up to `stop`.

    These lie between blocks: they are multiples of `BLOCK_BYTES`.
    A line that is none becomes a quarantine row with its number. A registration is preceded by the `topic_configs` row of its
    topics, unless that is there already. Lines without `seq` get their effect time in ns, made unique in the order of a block;
    equal ones get the same `event_id` and `seq`. Raises `CaptureError` if the file is compressed and damaged.
    """
    name, number = Path(path).name, 1
    for lines, beyond in _blocks_of_lines(path, start, stop):
        block = Block(number)
        number += len(lines)
        _read(block, lines, beyond, name)
        yield block


def _read(block: Block, lines: list[bytes], beyond: int, name: str) -> None:
    """Read the lines of a block; `beyond`: bytes of the last one that were left out."""
    known_lines, alike, told = _KNOWN[0], dict[Shape, Alike](), dict[str, Values]()
    block.count = len(lines)
    careful = list[int]()
    for number, line in enumerate(lines, block.first):
        if not line or line.isspace():
            continue
        block.frames += 1
        known, values = known_lines.find(line) if len(line) <= MAX_LINE_BYTES else (None, [])
        if known is None:
            length = len(line) + beyond * (number == block.first + len(lines) - 1)
            rows = _rows_or_refusal(known_lines, line, length, (name, number))
            block.rows += [(number, row) for row in rows if row.table != TOPICS or _is_news(row, told)]
            continue
        if known.topics is not None and _is_news(known.topics, told):
            block.rows.append((number, known.topics))
        found = alike.get(known.shape)
        if found is None:
            found = alike[known.shape] = Alike(known.shape)
        found.numbers.append(number)
        found.known.append(known)
        found.values.append(values)
    for found in alike.values():
        columns, others = found.columns()
        block.lines += [columns] if columns is not None else []
        careful += others
    for number in careful:
        line = lines[number - block.first]
        rows = _rows_or_refusal(known_lines, line, len(line), (name, number))
        block.rows += [(number, row) for row in rows if row.table != TOPICS]
    _place(block)


def _is_news(topics: Row, told: dict[str, Values]) -> bool:
    """Return whether a topic table is not the last one that was told with its digest; it is from now on."""
    digest = topics.values["topic_config_digest"]
    if told.get(digest) is topics.values:
        return False
    told[digest] = topics.values
    return True


def _place(block: Block) -> None:
    """Give the lines of a block that state no position one, in their order."""
    positions, open_rows = Positions(), list[tuple[int, int, Lines | None]]()
    for at, (number, row) in enumerate(block.rows):
        if not row.seq_is_given and "seq" in row.values:
            open_rows.append((number, at, None))
    for lines in block.lines:
        if not lines.seq_is_given:
            open_rows += [(number, at, lines) for at, number in enumerate(lines.numbers.tolist())]
    for _, at, of in sorted(open_rows, key=itemgetter(0)):
        if of is None:
            number, row = block.rows[at]
            block.rows[at] = number, positions.placed(row)
        else:
            effect_ns, asked = ~int(of.seq[at]), of.asked is not None and of.asked[at] == of.seq[at]
            of.seq[at] = positions.take(of.said[at]["namesrv_id"], effect_ns, of.ids[at])
            if of.asked is not None and asked:
                of.asked[at] = of.seq[at]


def _rows_or_refusal(known: KnownLines, line: bytes, length: int, place: tuple[str, int]) -> list[Row]:
    """Return the rows of a line of `length` bytes, or the quarantine row that says why there are none."""
    if length <= MAX_LINE_BYTES:
        try:
            return known.parsed(line, *place)
        except DecodeError as refused:
            error = refused
    else:
        error = DecodeError(Reason.LINE_TOO_LONG, f"{length} bytes, at most {MAX_LINE_BYTES}")
    piece = line.rstrip(b"\r\n")[:MAX_LINE_BYTES]
    return [quarantine_row((None, None), (*place, None), error, piece, length, digest_id(content=piece))]


def _blocks_of_lines(path: str | PathLike[str], start: int, stop: int | None) -> Iterator[tuple[list[bytes], int]]:
    """Yield the lines of each block, and how many bytes of the last one are left out."""
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(max(0, start - 1))
        held, offset = _Held(is_foreign=start > 0 and raw.read(1) != b"\n"), start
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        while stop is None or offset < stop or (held.last and not held.is_foreign):
            left = BLOCK_BYTES if stop is None else stop - offset
            window, error = _window(stream, min(left, BLOCK_BYTES) if left > 0 else _STEP_BYTES)
            offset += len(window)
            found = held.lines_with(window, is_damaged=error is not None)
            if found[0]:
                yield found
            rest = held.rest_of(window, is_damaged=error is not None) if left > 0 else []
            if rest:
                yield rest, 0
            if error is not None:
                offset -= len(held.last) + held.beyond
                why = "the compressed data is damaged or ends early" if packed else "it cannot be read further"
                raise CaptureError(path, offset, f"{why} ({error})") from error
            if not window:
                return


class _Held:
    """The lines of a block whose last one goes on. `is_foreign`: that began before the block, and is none of it.

    Of a line no more is kept than one byte beyond `MAX_LINE_BYTES`.
    """

    def __init__(self, *, is_foreign: bool) -> None:
        self.is_foreign = is_foreign
        self.last = b"-" * is_foreign
        self.beyond = 0
        self._lines: list[bytes] = []
        self._at = 0

    def lines_with(self, window: bytes, *, is_damaged: bool) -> tuple[list[bytes], int]:
        """Return the lines, and the bytes left out, if the last one ends in these bytes, or with the file."""
        self._at = 0
        if not self.last:
            return [], 0
        end = window.find(b"\n")
        self._keep(self.last + (window if end < 0 else window[:end]))
        self._at = len(window) if end < 0 else end + 1
        if end < 0 and (window or is_damaged):
            return self._taken() if is_damaged else [], 0
        found, beyond = ([], 0) if self.is_foreign else ([*self._lines, self.last], self.beyond)
        self.is_foreign, self._lines, self.last, self.beyond = False, [], b"", 0
        return found, beyond

    def rest_of(self, window: bytes, *, is_damaged: bool) -> list[bytes]:
        """Return the lines that begin behind the one that ended, and hold them if the last of them goes on."""
        if self.last:
            return []
        *self._lines, last = window[self._at :].split(b"\n")
        self._keep(last)
        return [] if last and not is_damaged else self._taken()

    def _keep(self, line: bytes) -> None:
        self.beyond += max(0, len(line) - MAX_LINE_BYTES - 1)
        self.last = line[: MAX_LINE_BYTES + 1]

    def _taken(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        return lines


def _window(stream: io.BufferedReader | gzip.GzipFile, size: int) -> tuple[bytes, Exception | None]:
    """Return so many bytes, fewer at the end, and in front of damage, which is returned as well."""
    held, left = list[bytes](), size
    step = _STEP_BYTES if isinstance(stream, gzip.GzipFile) else _READ_BYTES
    while left > 0:
        try:
            piece = stream.read1(min(left, step))
        except (EOFError, OSError, zlib.error) as error:
            return b"".join(held), error
        if not piece:
            break
        held.append(piece)
        left -= len(piece)
    return b"".join(held), None
