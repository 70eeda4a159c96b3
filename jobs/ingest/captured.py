"""Rows of a capture past the judge of their times to whoever collects them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jobs.ingest.collecting import Collector
from jobs.ingest.sources import instant
from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.errors import DecodeError, Reason, UnorderedError
from namesrv_wire.lateness import Lateness, ahead_of_clock
from namesrv_wire.packets.columns import Packets
from namesrv_wire.rows import FRAME_TABLES, AnyRow, FrameRow, Row, quarantine_row

_NS_PER_DAY = 86_400_000_000_000


class Captured:
    """Adds the rows of captures to `rows`.

    `counted`: events that an earlier run has counted. `frame`: stands for its frames, of which equal ones are one. `known_from`: of
    captures that go back behind what was read, the position from which each name server is known: such a one begins somewhere, but
    in the middle of what is known.
    """

    def __init__(
        self,
        rows: Collector,
        lateness: Lateness,
        counted: Collection[str],
        frame: int,
        known_from: Mapping[str, int] | None = None,
    ) -> None:
        self._rows, self._lateness, self._counted, self._frame = rows, lateness, counted, frame
        self._known_from = known_from

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


@dataclass(slots=True)
class Ahead:
    """Packets of a capture that lie after the clock of who reads it, `until_us`: how many, and quarantine rows for them.

    A row stands for such packets that follow each other: of a capture whose clock was wrong there may be millions.
    """

    until_us: int | None
    packets: int = 0
    rows: list[Row] = field(default_factory=list)

    def without(self, packets: Packets, name: str) -> Packets:
        """Return those packets of a capture that do not."""
        if self.until_us is None or max(packets.time_ns, default=0) <= self.until_us * NS_PER_US:
            return packets
        is_ahead = np.array(packets.time_ns, np.int64) > self.until_us * NS_PER_US
        places = np.flatnonzero(is_ahead)
        self.packets += len(places)
        for stretch in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            first, size = int(stretch[0]), len(stretch)
            us = packets.time_ns[first] // NS_PER_US
            piece = packets.data[packets.start[first] : packets.stop[first]]
            why = ahead_of_clock(us, self.until_us) + (f"; so are the next {size - 1} packets" if size > 1 else "")
            place = (name, packets.number(first), packets.time_ns[first])
            error, identity = DecodeError(Reason.AHEAD_OF_CLOCK, why), f"{us} {size}"
            self.rows.append(quarantine_row((None, None), place, error, bytes(piece), len(piece), identity))
        return packets.only(np.flatnonzero(~is_ahead).tolist())


def in_order(
    found: Iterable[Packets], path: Path, limit_days: int, ahead: Ahead, latest_ns: int = 0
) -> Iterator[Packets]:
    """Yield packets up to one before which the clock goes back too far. Raises UnorderedError there.

    Those that lie after the reader's own clock are left to `ahead`. `latest_ns`: the latest time before them.
    """
    for some in found:
        packets = ahead.without(some, path.name)
        times = np.array([latest_ns, *packets.time_ns], np.int64)
        latest = np.maximum.accumulate(times)
        behind = np.flatnonzero(latest - times > limit_days * _NS_PER_DAY)
        if len(behind):
            at = int(behind[0])
            yield packets.only(range(at - 1))
            back = f"from {instant(int(latest[at]))} to {instant(int(times[at]))}"
            raise UnorderedError(path, packets.number(at - 1), f"the clock goes back {back}, beyond late.limit_days")
        latest_ns = int(latest[-1])
        yield packets
