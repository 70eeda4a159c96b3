"""Files of event logs: gzip'd or not, many lines at a time."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Final, cast

from namesrv_wire.container import GZIP_MAGIC, Position
from namesrv_wire.errors import CaptureError, DecodeError, Reason
from namesrv_wire.event_log import Positions
from namesrv_wire.known_lines import KnownLines
from namesrv_wire.limits import MAX_LINE_BYTES
from namesrv_wire.rows import AnyRow, digest_id, quarantine_row
from namesrv_wire.tally import Tally

BLOCK_BYTES: Final = 4 << 20
"""How much of a log is in memory together, if no line is longer."""
# What is lost of compressed data in front of damage, at most.
_STEP_BYTES: Final = 16 << 10


def read_event_log(path: str | PathLike[str], tally: Tally | None = None) -> Iterator[AnyRow]:
    """Yield the rows of an event log in file order, as `read_lines`."""
    for rows in read_lines(path, tally):
        yield from rows


def read_lines(
    path: str | PathLike[str], tally: Tally | None = None, position: Position | None = None
) -> Iterator[list[AnyRow]]:
    """Yield the rows of an event log in file order, those of many lines at a time, and count its lines as frames of `tally`.

    A line that is none becomes a quarantine row with its number. A registration is preceded by the `topic_configs` row of its
    topics, unless that is there already. Lines without `seq` get their effect time in ns, made unique in file order; equal
    ones get the same `event_id` and `seq`. `position` follows. Raises `CaptureError` if the file is compressed and damaged.
    """
    name = Path(path).name
    lines = KnownLines(name, Positions())
    for first, block, beyond in _lines(path, position):
        rows: list[AnyRow] = []
        for number, line in enumerate(block, first):
            if not line or line.isspace():
                continue
            if tally is not None:
                tally.frames += 1
            length = len(line) + (beyond if number == first else 0)
            rows += _rows_or_refusal(lines, line, length, (name, number))
        yield rows


def _rows_or_refusal(lines: KnownLines, line: bytes, length: int, place: tuple[str, int]) -> list[AnyRow]:
    """Return the rows of a line of `length` bytes, or the quarantine row that says why there are none."""
    if length <= MAX_LINE_BYTES:
        try:
            return lines.rows(line, place[1])
        except DecodeError as refused:
            error = refused
    else:
        error = DecodeError(Reason.LINE_TOO_LONG, f"{length} bytes, at most {MAX_LINE_BYTES}")
    piece = line.rstrip(b"\r\n")[:MAX_LINE_BYTES]
    return [quarantine_row((None, None), (*place, None), error, piece, length, digest_id(content=piece))]


def _lines(path: str | PathLike[str], position: Position | None) -> Iterator[tuple[int, list[bytes], int]]:
    """Yield (number of the first of some lines, from 1, the lines, how many bytes of the first are left out).

    Of a line no more is kept than one byte beyond `MAX_LINE_BYTES`.
    """
    held, beyond, number, offset = b"", 0, 1, 0
    with Path(path).open("rb") as raw:
        if position is not None:
            position.follow(raw)
        try:
            for block in _blocks(raw):
                *whole, rest = (held + block).split(b"\n")
                if whole:
                    yield number, whole, beyond
                    number += len(whole)
                    beyond = 0
                offset += len(block)
                beyond += max(0, len(rest) - MAX_LINE_BYTES - 1)
                held = rest[: MAX_LINE_BYTES + 1]
        except (EOFError, OSError, zlib.error) as error:
            offset -= len(held) + beyond
            raise CaptureError(path, offset, f"the compressed data is damaged or ends early ({error})") from error
        yield number, [held], beyond


def _blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file, inflated if it is compressed, and all of them that are in front of damage."""
    packed = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    stream = gzip.GzipFile(fileobj=raw) if packed else cast("io.BufferedReader", raw)
    held, size = list[bytes](), 0
    while True:
        try:
            piece = stream.read1(_STEP_BYTES)
        except (EOFError, OSError, zlib.error):
            yield b"".join(held)
            raise
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES or not piece:
            yield b"".join(held)
            held, size = [], 0
        if not piece:
            return
