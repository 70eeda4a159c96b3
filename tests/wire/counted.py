"""Event logs as rows, and what of a recording is accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from namesrv_wire.logs.event_log import read_blocks
from namesrv_wire.rows import AnyRow, Counts


def accounted(counts: Counts) -> int:
    """Return frames and pieces by what became of them; equals their sum."""
    return counts.events.total() + counts.observations + counts.quarantined.total() + counts.ignored.total()


def read_event_log(path: Path, counts: Counts | None = None) -> Iterator[AnyRow]:
    """Yield the rows of an event log in file order, as `read_blocks`, and count its lines as frames of `counts`."""
    for block in read_blocks(path):
        if counts is not None:
            counts.frames += block.frames
        yield from block.rows
