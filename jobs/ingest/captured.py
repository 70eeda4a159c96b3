"""Rows of a capture past the judge of their times to whoever collects them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from jobs.ingest.collecting import Collector
from jobs.ingest.sources import instant
from namesrv_wire.errors import UnorderedError
from namesrv_wire.lateness import Lateness
from namesrv_wire.packets.columns import Packets
from namesrv_wire.rows import FRAME_TABLES, AnyRow, FrameRow

_NS_PER_DAY = 86_400_000_000_000


class Captured:
    """Adds the rows of captures to `rows`.

    `counted`: events that an earlier run has counted. `known_from`: of captures that go back behind what was read, the position
    from which each name server is known: such a one begins somewhere, but in the middle of what is known.
    """

    def __init__(
        self, rows: Collector, lateness: Lateness, counted: Collection[str], known_from: Mapping[str, int] | None = None
    ) -> None:
        self._rows, self._lateness, self._counted = rows, lateness, counted
        self._known_from = known_from
        # Below 0: not the number of a line.
        self._frame = -1 if known_from is None else -2

    def add_all(self, rows: Sequence[AnyRow]) -> None:
        """Add rows."""
        of_frames: defaultdict[str, list[FrameRow]] = defaultdict(list)
        for row in rows:
            if isinstance(row, FrameRow):
                of_frames[row.namesrv_id].append(row)
            else:
                self._add(row)
        for namesrv_id, found in of_frames.items():
            effects = [row.effect_us for row in found]
            if self._lateness.lets_through(namesrv_id, min(effects), max(effects)):
                counted = self._counted
                is_counted = [None if row.event_id in counted else self._frame for row in found] if counted else None
                self._rows.add_frames(found, is_counted or [self._frame] * len(found))
            else:
                for each in found:
                    self._add(each)

    def _add(self, row: AnyRow) -> None:
        values, known_from = row.values, self._known_from or {}
        is_beginning = values.get("kind") == "observed_from"
        if is_beginning and known_from.get(values["namesrv_id"], values["seq"]) < values["seq"]:
            return
        is_frame = row.table in FRAME_TABLES and values.get("event_id") not in self._counted
        judged = self._lateness.judged(row, in_order=False)
        self._rows.add(judged, frame=self._frame if is_frame else None)


def in_order(found: Iterable[Packets], path: Path, limit_days: int, latest_ns: int = 0) -> Iterator[Packets]:
    """Yield packets up to one before which the clock goes back too far. Raises UnorderedError there.

    `latest_ns`: the latest time before them.
    """
    for packets in found:
        times = np.array([latest_ns, *packets.time_ns], np.int64)
        latest = np.maximum.accumulate(times)
        behind = np.flatnonzero(latest - times > limit_days * _NS_PER_DAY)
        if len(behind):
            at = int(behind[0])
            yield packets.upto(at - 1)
            back = f"from {instant(int(latest[at]))} to {instant(int(times[at]))}"
            raise UnorderedError(path, packets.first + at - 1, f"the clock goes back {back}, beyond late.limit_days")
        latest_ns = int(latest[-1])
        yield packets
