"""Event logs as rows, captures as segments, and what of a recording is accounted for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from namesrv_wire.logs.event_log import read_blocks
from namesrv_wire.packets.segments import DEFAULT_VXLAN_PORTS, CaptureStats, Segment, read_segments
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


def read_capture(
    path: Path, stats: CaptureStats | None = None, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS
) -> Iterator[Segment]:
    """Yield the segments of a capture one by one, as `read_segments` does many."""
    return chain.from_iterable(read_segments(path, stats, vxlan_ports))
