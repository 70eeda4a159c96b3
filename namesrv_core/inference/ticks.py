"""When a process scans, told by answers: a broker whose lease has ended stands in them until a scan has run.

Where no packet of a scan is seen, its timer is a guess (`namesrv_core.machine.schedule`). A day is replayed twice, with scans
as early as leases allow and as late as the period does; of an answer that only one of the replays explains follows that no
scan had run since the end of a lease, or that one had. A guess that fewer answers allow than another phase gives way to that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from namesrv_core.inference.decisions import explained_by
from namesrv_core.inference.evidence import Vote
from namesrv_core.inference.races import Day
from namesrv_core.inference.settings import SCAN_PHASE
from namesrv_core.machine.events import ScanNotActiveBroker
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.schedule import Timer
from namesrv_core.replay.loop import replay


class Told(NamedTuple):
    """What an answer tells: the timer ticks after `from_seq`, and by `until_seq`, inclusive, less than a period later."""

    from_seq: int
    until_seq: int
    seq: int
    event_id: str

    def allows(self, tick: int, period_ns: int) -> bool:
        """Return whether a timer does that has this one among its ticks."""
        return (tick - self.from_seq - 1) % period_ns < self.until_seq - self.from_seq


def scans_of(day: Day) -> list[int]:
    """Return the positions of the scans of a day that removed something."""
    taken = replay(
        day.start(),
        day.timed_events,
        day.namesrv,
        day.schedule,
        namesrv_id=day.namesrv_id,
        span=(day.from_seq, day.until_seq),
    )
    return [timed.seq for timed, _ in taken if type(timed.event) is ScanNotActiveBroker]


def told_by_answers(early: Day, late: Day) -> Iterator[Told]:
    """Yield what answers tell that one of two replays explains: a day with the earliest scans, and with the latest."""
    ends, by_early, by_late = scans_of(early), explained_by(early), explained_by(late)
    for observed in early.observations:
        is_late = observed.event_id in by_late
        timer = early.schedule.timer_at(observed.seq)
        if timer is None or is_late == (observed.event_id in by_early):
            continue
        period_ns = timer.period_ns
        # Of several leases that had ended it may be any: the last says least of a scan that had not run, the first of one that had.
        at = bisect_right(ends, observed.request_seq) - 1 if is_late else bisect_right(ends, observed.seq - period_ns)
        end = ends[at] if 0 <= at < len(ends) else observed.seq
        if is_late and 0 < observed.request_seq - end < period_ns:
            yield Told(observed.request_seq, end + period_ns, observed.seq, observed.event_id)
        elif not is_late and end < observed.seq:
            yield Told(end, observed.seq, observed.seq, observed.event_id)


def phase_votes(told: Sequence[Told], assumed: Timer) -> Iterator[Vote]:
    """Yield votes for the phase that most answers allow, if that are more than allow the one assumed, and for the next.

    Instead of a guess it is the middle of what they leave open; a packet of a scan may be late, but never early.
    """
    period_ns = assumed.period_ns
    left, allowed = list(told), sum(one.allows(assumed.tick, period_ns) for one in told)
    while left:
        tick = _best_tick(left, period_ns, None if assumed.is_guess else assumed.tick)
        agreeing = [one for one in left if one.allows(tick, period_ns)]
        if len(left) == len(told) and len(agreeing) <= allowed:
            return
        yield from (Vote(SCAN_PHASE, tick // NS_PER_US, one.seq, one.event_id) for one in agreeing)
        left = [one for one in left if not one.allows(tick, period_ns)]


def _best_tick(told: Sequence[Told], period_ns: int, before: int | None) -> int:
    """Return the middle of the longest stretch of a period, from 0, that most allow, or of these stretches the last `before`."""
    steps: Counter[int] = Counter()
    for one in told:
        steps[one.from_seq % period_ns] += 1
        steps[one.until_seq % period_ns] -= 1
    edges = sorted(steps)
    counts = list(accumulate(steps[edge] for edge in edges))  # beyond those over the end of the period, which all have
    spans = [
        ((after - edge) % period_ns, edge)
        for edge, after, count in zip(edges, [*edges[1:], edges[0]], counts, strict=True)
        if count == max(counts)
    ]
    if before is not None:
        return min(((edge + span) % period_ns for span, edge in spans), key=lambda end: (before - end) % period_ns)
    span, edge = max(spans)
    return (edge + (span + 1) // 2) % period_ns
