"""When a process scans, told by answers: a broker whose lease has ended stands in them until a scan has run.

Where no packet of a scan is seen, its timer is a guess (`namesrv_core.machine.schedule`). That the broker stands in an answer says
that no scan had run since the end of the lease, that it does not says that one had: each is an interval of the period. A guess
that fewer answers allow than another phase gives way to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from namesrv_core.inference.evidence import Vote
from namesrv_core.inference.settings import SCAN_PHASE
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.schedule import TICK_LATE_NS, Timer


class Told(NamedTuple):
    """What an answer tells: the timer ticks after `from_seq`, and by `until_seq`, inclusive, less than a period later."""

    from_seq: int
    until_seq: int
    seq: int
    event_id: str

    def allows(self, tick: int, period_ns: int) -> bool:
        """Return whether a timer does that has this one among its ticks."""
        return (tick - self.from_seq - 1) % period_ns < self.until_seq - self.from_seq


class Seen(NamedTuple):
    """A broker still `stands` in an answer, or no longer: its lease ended just before `from_seq`.

    `until_seq`: up to when only a scan can have been the reason; `request_seq`, `seq`: of the answer.
    """

    from_seq: int
    until_seq: int
    request_seq: int
    seq: int
    event_id: str
    stands: bool


def told_by(seen: Seen, period_ns: int) -> Iterator[Told]:
    """Yield what an answer tells that was given less than a period after the end of a lease."""
    ended = seen.from_seq - 1
    if seen.stands and ended < (not_by := min(seen.request_seq, seen.until_seq)) < ended + period_ns:
        yield Told(not_by, ended + period_ns, seen.seq, seen.event_id)
    if not seen.stands and ended < (by := min(seen.seq, seen.until_seq)) < ended + period_ns:
        yield Told(ended, by, seen.seq, seen.event_id)


def phase_votes(told: Sequence[Told], assumed: Timer) -> Iterator[Vote]:
    """Yield votes for the phase that most answers allow, if that are more than allow the one assumed, and for the next.

    Instead of a guess it is the middle of what they leave open. A packet of a scan may be late, but never early, and never later
    than ticks are.
    """
    period_ns = assumed.period_ns

    def allowed(tick: int) -> int:
        return sum(one.allows(tick, period_ns) for one in told)

    if assumed.is_guess:
        tick = _best_tick(told, period_ns)
    else:  # of those shortly before one that a packet shows that most allow; of several the last
        early = sorted({0, *((assumed.tick - one.until_seq) % period_ns for one in told)})
        tick = max(((assumed.tick - by) % period_ns for by in early if by <= TICK_LATE_NS), key=allowed)
    if allowed(tick) <= allowed(assumed.tick):
        return
    left = list(told)
    while left:
        agreeing = [one for one in left if one.allows(tick, period_ns)]
        yield from (Vote(SCAN_PHASE, tick // NS_PER_US, one.seq, one.event_id) for one in agreeing)
        left = [one for one in left if not one.allows(tick, period_ns)]
        tick = _best_tick(left, period_ns)


def _best_tick(told: Sequence[Told], period_ns: int) -> int:
    """Return the middle of the longest stretch of a period, from 0, that most allow; 0 for nothing told."""
    steps: Counter[int] = Counter()
    for one in told:
        steps[one.from_seq % period_ns] += 1
        steps[one.until_seq % period_ns] -= 1
    edges = sorted(steps)
    counts = list(accumulate(steps[edge] for edge in edges))  # beyond those over the end of the period, which all have
    spans = (
        ((after - edge) % period_ns, edge)
        for edge, after, count in zip(edges, [*edges[1:], *edges[:1]], counts, strict=True)
        if count == max(counts)
    )
    span, edge = max(spans, default=(0, 0))
    return (edge + (span + 1) // 2) % period_ns
