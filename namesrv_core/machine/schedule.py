"""When the periodic scan runs.

The name server scans at a fixed delay after its start and then periodically. The schedule is set a little before the
server accepts its first connection, so its phase is known only to about a second - until a scan closes the channel of
an expired broker: that packet follows a tick at once. Between such packets the timer keeps its phase, before the first
of them, too. A tick that was late itself is placed just before its packet.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from namesrv_core.machine.events import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import SCAN_DELAY_MS

# Measured on 15 starts: the schedule is set 0.045 to 1.03 s before the first accepted connection.
START_BEFORE_FIRST_ACCEPT_NS = 500 * NS_PER_MS
JITTER_NS = 3 * NS_PER_MS
"""Packets of ticks of one timer, each the first of its tick, differ by no more than this from its period."""
TICK_LATE_NS = 300 * NS_PER_MS
"""A scan's packet leaves up to this long after the tick that the timer was to make: measured 0.12 s."""


class ScanEpoch(NamedTuple):
    """The life of one process: `from_seq` is the position of its start, `origin_ns` when its schedule was set.

    `phase_us`: by how much packets of its scans come after a multiple of the period; None: no packet tells, and a tick may be
    off by a second, or by half a period if the start was not seen. `period_ms` is the time between its scans where that is
    not the schedule's.
    """

    from_seq: int
    origin_ns: int
    phase_us: int | None = None
    period_ms: int | None = None


STALL_NS = 1_000_000_000
"""A request that waited this long for its answer met a name server that stood still."""


class Stall(NamedTuple):
    """The name server stood still from one position to the other; its timer makes up for the ticks when it goes on."""

    from_seq: int
    until_seq: int


class Hold(NamedTuple):
    """The tables were locked from one position to the other. A scan that finds an ended lease meanwhile waits for the lock."""

    from_seq: int
    until_seq: int


class Timer(NamedTuple):
    """When a process scans: the period, and one tick, which may be a guess."""

    period_ns: int
    tick: int
    is_guess: bool


class ScanSchedule:
    """The ticks of one name server. Positions are on the scale of `seq`: nanoseconds since the epoch."""

    def __init__(
        self,
        epochs: Sequence[ScanEpoch],
        period_ms: int,
        scan_closes: Sequence[int] = (),
        stalls: Sequence[Stall] = (),
        holds: Sequence[Hold] = (),
    ) -> None:
        """`scan_closes`: positions where the server closed the channel of a broker whose lease had ended."""
        self._period_ns = period_ms * NS_PER_MS
        self._closes = sorted(scan_closes)
        self.stalls, self.holds = sorted(stalls), sorted(holds)
        self._epochs = sorted(epochs)
        for number, epoch in enumerate(self._epochs):
            if epoch.phase_us is not None:  # the origin moves to the nearest instant that has this phase
                period_ns, first = self._period_of(epoch), epoch.origin_ns + SCAN_DELAY_MS * NS_PER_MS
                shift = (epoch.phase_us * NS_PER_US - 1 - first) % period_ns  # just before the packet
                moved_ns = epoch.origin_ns + shift - (period_ns if 2 * shift > period_ns else 0)
                self._epochs[number] = epoch._replace(origin_ns=moved_ns)
        self._starts = [epoch.from_seq for epoch in self._epochs]

    def first_tick(self, after_seq: int, lease_end_ms: int) -> int | None:
        """Return the first tick after `after_seq` at which a lease that ended at `lease_end_ms` has expired.

        None: no schedule. A lease that ended later than `after_seq` was given by the process that ran then, whatever
        ran at `after_seq`.
        """
        epoch = self._epoch_at(max(after_seq, lease_end_ms * NS_PER_MS))
        if epoch is None:
            return None
        period_ns = self._period_of(epoch)
        earliest_ns = max(after_seq, lease_end_ms * NS_PER_MS)
        # Ticks of a pause are made at its end.
        near = _at(self.stalls, earliest_ns - 1), _at(self.holds, earliest_ns - 1)
        earliest_ns = min([earliest_ns, *(pause.from_seq for pause in near if pause)]) - 2 * period_ns
        number = max(0, (earliest_ns - epoch.origin_ns - SCAN_DELAY_MS * NS_PER_MS) // period_ns)
        while True:
            due, tick = self._tick(epoch, number)
            if tick > after_seq and due // NS_PER_MS > lease_end_ms:
                return tick
            number += 1

    def judged_ms(self, tick: int) -> int:
        """Return the time (ms) by which the scan at `tick` judges leases: one that a stall held up may come long after that."""
        index = bisect_left(self.stalls, tick - TICK_LATE_NS, key=lambda stall: stall.until_seq)
        is_late = index < len(self.stalls) and self.stalls[index].until_seq == tick + 1 - TICK_LATE_NS
        return (self.stalls[index].until_seq if is_late else tick) // NS_PER_MS

    def began_ms(self, tick: int) -> int | None:
        """Return when (ms) the scan at `tick` found its first ended lease, if it waited for the lock and no other came behind."""
        number = bisect_left(self.holds, tick - NS_PER_US, key=lambda hold: hold.until_seq)
        hold = next((one for one in self.holds[number : number + 1] if one.until_seq == tick - NS_PER_US), None)
        epoch = None if hold is None else self._epoch_at(hold.from_seq)
        if hold is None or epoch is None:
            return None
        first = (hold.from_seq - epoch.origin_ns - SCAN_DELAY_MS * NS_PER_MS) // self._period_of(epoch)
        found = [due for due, at in (self._tick(epoch, max(0, first - 1) + n) for n in range(4)) if at == tick]
        return found[0] // NS_PER_MS if len(found) == 1 else None

    def knows_phase(self, seq: int) -> bool:
        """Return whether packets tell when the process scans that runs at `seq`, or that is the first to run."""
        epoch = self._epoch_at(seq) or next(iter(self._epochs), None)
        return epoch is not None and epoch.phase_us is not None

    def timer_at(self, seq: int) -> Timer | None:
        """Return when scans run at `seq`, as it is taken to be; None: there are none."""
        epoch = self._epoch_at(seq)
        if epoch is None:
            return None
        return Timer(self._period_of(epoch), epoch.origin_ns + SCAN_DELAY_MS * NS_PER_MS, epoch.phase_us is None)

    def _epoch_at(self, seq: int) -> ScanEpoch | None:
        index = bisect_right(self._starts, seq) - 1
        return None if index < 0 else self._epochs[index]

    def _period_of(self, epoch: ScanEpoch) -> int:
        return self._period_ns if epoch.period_ms is None else epoch.period_ms * NS_PER_MS

    def _tick(self, epoch: ScanEpoch, number: int) -> tuple[int, int]:
        """Return when a tick finds its first ended lease, and when it is made: just before its packet, if one is seen.

        One of a stall is made after what had waited: that is worked off at once, and a beat among it renews its broker's lease. If
        it closes nothing, no lease had ended when the stall did.
        One that a hold meets waits for the lock with its first ended lease in hand, behind all others that do.
        """
        tick = epoch.origin_ns + SCAN_DELAY_MS * NS_PER_MS + number * self._period_of(epoch)
        if epoch.phase_us is not None:
            index = bisect_left(self._closes, tick - JITTER_NS)
            if index < len(self._closes) and self._closes[index] <= tick + TICK_LATE_NS:
                tick = self._closes[index] - 1
        due = tick
        if (stall := _at(self.stalls, tick)) is not None:
            index = bisect_left(self._closes, stall.until_seq)
            late = stall.until_seq + TICK_LATE_NS
            close = min([late, *self._closes[index : index + 1]])
            due, tick = (stall.until_seq if close == late else close - 1), close - 1
        hold = _at(self.holds, due)
        return due, tick if hold is None else hold.until_seq + NS_PER_US


def _at(pauses: Sequence[Stall] | Sequence[Hold], seq: int) -> Stall | Hold | None:
    index = bisect_right(pauses, seq, key=lambda pause: pause.from_seq) - 1
    return pauses[index] if index >= 0 and seq < pauses[index].until_seq else None
