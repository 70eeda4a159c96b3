"""Files of event logs: gzip'd or not, many lines at a time."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from namesrv_wire.compression import is_packed, unpacked
from namesrv_wire.errors import CaptureError, DecodeError, Reason
from namesrv_wire.limits import MAX_LINE_BYTES
from namesrv_wire.logs.event_log import Positions, rows_of_line
from namesrv_wire.rows import AnyRow, Values, digest_id, quarantine_row

BLOCK_BYTES: Final = 16 << 20
"""A block is the lines that begin in so many bytes: blocks are read by themselves, by whoever has time."""
# So much is passed over at once of what is left of a line that is too long.
_READ_BYTES: Final = 256 << 10
# A block ends before its bytes are read if it has so many lines.
_BLOCK_LINES: Final = 1 << 14
_BOM: Final = codecs.BOM_UTF8
_BEGINNING_BYTES: Final = 64 << 10
# The first line may be the end of one, as where a log is cut by size.
_LINE: Final = re.compile(rb'^[ \t]*\{.*"namesrv-event/', re.MULTILINE)
_UNREADABLE: Final = (
    (re.compile(rb"\xff\xfe|\xfe\xff|[\[{]\0|\0+[\[{]"), "it is in UTF-16 or UTF-32: an event log is in UTF-8"),
    (re.compile(rb"\s*\[\s*[\[{\]\"]"), "it is a JSON array: an event log has one JSON object on each line"),
    (
        re.compile(rb"\s*\{[ \t\r]*\n"),
        "its objects go over several lines: an event log has one JSON object on each line",
    ),
    (re.compile(rb"(?s).{257}ustar|PK\x03\x04"), "it is an archive (tar or zip): give the files that are in it"),
)
"""How files begin that are no event log as a whole, though their lines may look like one's, and what is said of them."""


@dataclass(slots=True)
class Block:
    """Lines of an event log that follow each other. Numbers of lines count from `first`, which is 1 for the first of a part.

    `rows`: in their order, a topic table in front of its registration; the others have the numbers of their lines. `count`: of all
    lines, `frames`: of those that say something; `ignored`: of a name server's log, by rule (`namesrv_log.read_log`).
    """

    first: int
    count: int = 0
    frames: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    rows: list[AnyRow] = field(default_factory=list)


def read_blocks(path: Path, start: int = 0, stop: int | None = None) -> Iterator[Block]:
    """Yield the lines of an event log in file order, of one that is not compressed those that begin from `start` up to `stop`.

    These lie between blocks: they are multiples of `BLOCK_BYTES`.
    A line that is none becomes a quarantine row with its number. A registration is preceded by the `topic_configs` row of its
    topics, unless that is there already. Lines without `seq` get their effect time in ns, made unique in the order of a block;
    equal ones get the same `event_id` and `seq`. Raises `CaptureError` if the file is compressed and damaged, or no event log.
    """
    name = path.name
    reader = _Reader(name, 1)
    for line in lines_of(path, start, stop):
        if line is not None:
            reader.read(line)
        if reader.block.count and (line is None or reader.block.count >= _BLOCK_LINES):
            yield reader.block
            reader = _Reader(name, reader.block.first + reader.block.count)


def beginning_of(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked, without a byte order mark; of one that is damaged those in front of it."""
    beginning = b""
    with suppress(OSError), path.open("rb") as raw:
        stream = unpacked(raw)
        while piece := stream.read1(_BEGINNING_BYTES - len(beginning)):
            beginning += piece
    return beginning.removeprefix(_BOM)


def is_event_log(beginning: bytes) -> bool:
    """Return whether a text that begins like this is to be read as an event log, or refused as one."""
    is_json = beginning.lstrip().startswith(b"{") or why_unreadable(beginning) is not None
    return is_json or _LINE.search(beginning) is not None


def why_unreadable(beginning: bytes) -> str | None:
    """Return why a file that begins like this is no event log, although it may hold one; None for any other."""
    return next((why for form, why in _UNREADABLE if form.match(beginning)), None)


class Line(NamedTuple):
    """A line without its line feed.

    `beyond`: bytes at its end that were left out. `is_cut`: no line feed ends it, but the end of the file.
    """

    content: bytes
    beyond: int
    is_cut: bool


class _Reader:
    def __init__(self, source_file: str, first: int) -> None:
        self.block = Block(first)
        self._source_file = source_file
        self._positions = Positions()
        self._told: dict[str, Values] = {}

    def read(self, read: Line) -> None:
        """Read a line that follows those that were read."""
        block, line = self.block, read.content
        number = block.first + block.count
        block.count += 1
        while line.startswith(_BOM):  # in front of the first line, or of one of a file that was put behind another
            line = line.removeprefix(_BOM)
        if not line or line.isspace():
            return
        block.frames += 1
        length, place, topics = len(line) + read.beyond, (self._source_file, number), list[AnyRow]()
        try:
            *topics, row = rows_of_line(line, *place) if length <= MAX_LINE_BYTES else _too_long(length)
        except DecodeError as error:
            piece = line.rstrip(b"\r\n")[:MAX_LINE_BYTES]
            row = quarantine_row((None, None), (*place, None), error, piece, length, digest_id(content=piece))
        for table in topics:
            self._tell(table)
        block.rows.append(self._positions.placed(row))

    def _tell(self, topics: AnyRow) -> None:
        """Add a topic table, unless it is the last one that was told with its digest."""
        digest = topics.values["topic_config_digest"]
        told = self._told.get(digest)
        if told is not topics.values and told != topics.values:
            self._told[digest] = topics.values
            self.block.rows.append(topics)


def _too_long(length: int) -> NoReturn:
    raise DecodeError(Reason.LINE_TOO_LONG, f"{length} bytes, at most {MAX_LINE_BYTES}")


def lines_of(path: Path, start: int = 0, stop: int | None = None) -> Iterator[Line | None]:
    """Yield the lines of a file, as `read_blocks` does, and None behind the last one of a block."""
    if (why := why_unreadable(beginning_of(path))) is not None:
        raise CaptureError(path, 0, why)
    with path.open("rb") as raw:
        packed, offset, until = is_packed(raw.read(8)), start, stop or BLOCK_BYTES
        raw.seek(max(0, start - 1))
        stream = unpacked(raw) if packed else raw
        try:
            if start and raw.read(1) != b"\n":  # the end of a line of the block before
                offset += _passed(raw)[0]
            while stop is None or offset < stop:
                if offset >= until:
                    yield None
                    until = (offset // BLOCK_BYTES + 1) * BLOCK_BYTES
                line = stream.readline(MAX_LINE_BYTES + 1)
                if not line:
                    break
                is_whole = line.endswith(b"\n")
                more, is_ended = (0, True) if is_whole else _passed(stream)
                offset += len(line) + more
                yield Line(line[:-1] if is_whole else line, max(0, more - is_ended), not is_ended)
        except OSError as error:
            yield None
            raise CaptureError(path, offset, f"it cannot be read further: {error}") from error
        yield None


def _passed(stream: BufferedReader) -> tuple[int, bool]:
    """Pass over what is left of a line; return of how many bytes that is, and whether a line feed ends it."""
    size, piece = 0, b""
    while not piece.endswith(b"\n") and (piece := stream.readline(_READ_BYTES)):
        size += len(piece)
    return size, bool(piece)
