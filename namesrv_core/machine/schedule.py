"""When the periodic scan runs.

The name server scans at a fixed delay after its start and then periodically. The schedule is set a little before the
server accepts its first connection, so its phase is known only to about a second - until a scan closes the channel of
an expired broker: that packet is a tick. A tick is placed just before such a packet where there is one, and where the
timer says otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import SCAN_DELAY_MS

# Measured on 15 starts: the schedule is set 0.045 to 1.03 s before the first accepted connection.
START_BEFORE_FIRST_ACCEPT_NS = 500 * NS_PER_MS
_PHASE_ERROR_NS = 750 * NS_PER_MS


class ScanEpoch(NamedTuple):
    """The life of one process: `from_seq` is the position of its start, `origin_ns` when its schedule was set.

    `phase_known` is False for a server that was running before the recording began: any tick may then be off by half a
    period. `period_ms` is the time between its scans where that is not the schedule's.
    """

    from_seq: int
    origin_ns: int
    phase_known: bool
    period_ms: int | None = None


class ScanSchedule:
    """The ticks of one name server. Positions are on the scale of `seq`: nanoseconds since the epoch."""

    def __init__(self, epochs: Sequence[ScanEpoch], period_ms: int, server_closes: Sequence[int] = ()) -> None:
        """`server_closes`: positions where the server closed a channel that was neither idle nor closed by its peer."""
        self._period_ns = period_ms * NS_PER_MS
        self._closes = sorted(server_closes)
        self._epochs = [self._calibrated(epoch) for epoch in sorted(epochs)]
        self._starts = [epoch.from_seq for epoch in self._epochs]

    def first_tick(self, after_seq: int, lease_end_ms: int) -> int | None:
        """Return the first tick after `after_seq` at which a lease that ended at `lease_end_ms` has expired.

        None: no schedule. A lease that ended later than `after_seq` was given by the process that ran then, whatever
        ran at `after_seq`.
        """
        index = bisect_right(self._starts, max(after_seq, lease_end_ms * NS_PER_MS)) - 1
        if index < 0:
            return None
        epoch = self._epochs[index]
        period_ns = self._period_of(epoch)
        earliest_ns = max(after_seq, lease_end_ms * NS_PER_MS) - 2 * period_ns
        number = max(0, (earliest_ns - epoch.origin_ns - SCAN_DELAY_MS * NS_PER_MS) // period_ns)
        while True:
            tick = self._tick(epoch, number)
            if tick > after_seq and tick // NS_PER_MS > lease_end_ms:
                return tick
            number += 1

    def epoch_end(self, after_seq: int, until_seq: int) -> int:
        """Return where the epoch that holds at `after_seq` ends; `until_seq` if it lasts as long."""
        index = bisect_right(self._starts, after_seq)
        return min([until_seq, *self._starts[index : index + 1]])

    def _period_of(self, epoch: ScanEpoch) -> int:
        return self._period_ns if epoch.period_ms is None else epoch.period_ms * NS_PER_MS

    def _tick(self, epoch: ScanEpoch, number: int) -> int:
        nominal = epoch.origin_ns + SCAN_DELAY_MS * NS_PER_MS + number * self._period_of(epoch)
        close = self._close_near(nominal, _PHASE_ERROR_NS)
        return nominal if close is None else close - 1

    def _close_near(self, nominal: int, tolerance_ns: int) -> int | None:
        index = bisect_left(self._closes, nominal - tolerance_ns)
        if index < len(self._closes) and self._closes[index] <= nominal + tolerance_ns:
            return self._closes[index]
        return None

    def _calibrated(self, epoch: ScanEpoch) -> ScanEpoch:
        """Return the epoch with its phase moved to the first close by the server that fits a tick."""
        period_ns = self._period_of(epoch)
        tolerance = _PHASE_ERROR_NS if epoch.phase_known else period_ns // 2
        first = epoch.origin_ns + SCAN_DELAY_MS * NS_PER_MS
        for close in self._closes[bisect_left(self._closes, epoch.from_seq) :]:
            number = round((close - first) / period_ns)
            if number >= 0 and abs(close - first - number * period_ns) <= tolerance:
                return epoch._replace(origin_ns=epoch.origin_ns + close - first - number * period_ns)
        return epoch
