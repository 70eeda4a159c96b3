"""When a process scans, told by answers: a broker whose lease has ended stands in them until a scan has run.

Where no packet of a scan is seen, its timer is a guess (`namesrv_core.machine.schedule`). A day is replayed twice, with scans
as early as leases allow and as late as the period does; of an answer that only one of the replays explains follows that no
scan had run since the end of a lease, or that one had. A guess that fewer answers allow than another phase gives way to that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from namesrv_core.history.verification import Observed
from namesrv_core.inference.decisions import explained_by
from namesrv_core.inference.evidence import Vote
from namesrv_core.inference.races import Day
from namesrv_core.inference.settings import SCAN_PHASE
from namesrv_core.machine.events import (
    BrokerHeartbeat,
    NamesrvStarted,
    QueryDataVersion,
    RefreshRun,
    RegisterBroker,
    ScanNotActiveBroker,
)
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.register import live_key_of
from namesrv_core.machine.rows import LiveKey
from namesrv_core.machine.schedule import TICK_LATE_NS, Timer
from namesrv_core.replay.loop import replay

_NEVER: Final = 1 << 63


class Told(NamedTuple):
    """What an answer tells: the timer ticks after `from_seq`, and by `until_seq`, inclusive, less than a period later."""

    from_seq: int
    until_seq: int
    seq: int
    event_id: str

    def allows(self, tick: int, period_ns: int) -> bool:
        """Return whether a timer does that has this one among its ticks."""
        return (tick - self.from_seq - 1) % period_ns < self.until_seq - self.from_seq


class Removal(NamedTuple):
    """A live entry that a scan took out, and where."""

    seq: int
    key: LiveKey


class Doubt(NamedTuple):
    """A removal by the earliest scan, and where the latest one made it too, or else (`is_lasting`) the next beat prevented it."""

    seq: int
    until_seq: int
    is_lasting: bool


def removals_of(day: Day) -> list[Removal]:
    """Return what the scans of a day removed, in order."""
    taken = replay(
        day.start(),
        day.timed_events,
        day.namesrv,
        day.schedule,
        namesrv_id=day.namesrv_id,
        span=(day.from_seq, day.until_seq),
    )
    return [
        Removal(timed.seq, LiveKey(*change.key))
        for timed, step in taken
        if type(timed.event) is ScanNotActiveBroker
        for change in step.changes
        if change.table == "broker_live_table" and change.value is None
    ]


def told_by_answers(early: Day, late: Day) -> Iterator[Told]:
    """Yield what answers tell that one of two replays explains: a day with the earliest scans, and with the latest.

    Where they differ for good, since a beat came between the earliest scan and the latest, all later answers may differ for that
    reason: they tell when that scan ran, if there is one such reason and no other, and else nothing.
    """
    doubts = _doubts(early, removals_of(late))
    by_early, by_late = explained_by(early), explained_by(late)
    starts = [timed.seq for timed in early.timed_events if type(timed.event) is NamesrvStarted]
    for observed in early.observations:
        is_late = observed.event_id in by_late
        timer = early.schedule.timer_at(observed.seq)
        if timer is None or is_late == (observed.event_id in by_early):
            continue
        at = bisect_right(starts, observed.seq)
        began = starts[at - 1] if at else 0
        open_now = [
            doubt
            for doubt in doubts
            if began <= doubt.seq < observed.seq and (doubt.is_lasting or observed.request_seq <= doubt.until_seq)
        ]
        if any(doubt.is_lasting for doubt in open_now):
            open_now = open_now if len(open_now) == 1 else []
        yield from _told(observed, open_now, timer.period_ns, is_late=is_late)


def _told(observed: Observed, doubts: Sequence[Doubt], period_ns: int, *, is_late: bool) -> Iterator[Told]:
    """Yield what an answer tells. Of several leases that had ended it may be any: what it says of each of them is told."""
    if not doubts:
        return
    # The last says least of a scan that had not run, the first of one that had.
    doubt = doubts[-1] if is_late else doubts[0]
    if is_late and doubt.seq < (not_by := min(observed.request_seq, doubt.until_seq)) < doubt.seq + period_ns:
        yield Told(not_by, doubt.seq + period_ns, observed.seq, observed.event_id)
    elif not is_late and doubt.seq < (by := min(observed.seq, doubt.until_seq)) < doubt.seq + period_ns:
        yield Told(doubt.seq, by, observed.seq, observed.event_id)


def _doubts(early: Day, late: Iterable[Removal]) -> list[Doubt]:
    """Return what the earliest scans removed, in order, and what the latest did with it."""
    removed: dict[LiveKey, list[int]] = {}
    for removal in late:
        removed.setdefault(removal.key, []).append(removal.seq)
    beats: dict[LiveKey, list[int]] = {}
    for timed in early.timed_events:
        event = timed.event.beat if isinstance(timed.event, RefreshRun) else timed.event
        if isinstance(event, (RegisterBroker, BrokerHeartbeat, QueryDataVersion)):
            key = live_key_of(early.namesrv, event.cluster_name, event.broker_addr)
            beats.setdefault(key, []).append(timed.seq)
    found = []
    for seq, key in removals_of(early):
        taken, beaten = (_first_behind(seqs.get(key, ()), seq) for seqs in (removed, beats))
        found.append(Doubt(seq, min(taken, beaten), beaten < taken))
    return found


def _first_behind(seqs: Sequence[int], seq: int) -> int:
    at = bisect_left(seqs, seq)
    return seqs[at] if at < len(seqs) else _NEVER


def phase_votes(told: Sequence[Told], assumed: Timer) -> Iterator[Vote]:
    """Yield votes for the phase that most answers allow, if that are more than allow the one assumed, and for the next.

    Instead of a guess it is the middle of what they leave open. A packet of a scan may be late, but never early, and never later
    than ticks are.
    """
    period_ns = assumed.period_ns
    tick = _best_tick(told, period_ns) if assumed.is_guess else _corrected(told, assumed)
    if _allowed(told, tick, period_ns) <= _allowed(told, assumed.tick, period_ns):
        return
    left = list(told)
    while left:
        agreeing = [one for one in left if one.allows(tick, period_ns)]
        yield from (Vote(SCAN_PHASE, tick // NS_PER_US, one.seq, one.event_id) for one in agreeing)
        left = [one for one in left if not one.allows(tick, period_ns)]
        tick = _best_tick(left, period_ns)


def _allowed(told: Sequence[Told], tick: int, period_ns: int) -> int:
    return sum(one.allows(tick, period_ns) for one in told)


def _corrected(told: Sequence[Told], assumed: Timer) -> int:
    """Return the tick that most allow, from 0, of those shortly before one that a packet shows; of several the last."""
    ends = {(assumed.tick - one.until_seq) % assumed.period_ns for one in told}
    ticks = ((assumed.tick - early) % assumed.period_ns for early in sorted({0, *ends}) if early <= TICK_LATE_NS)
    return max(ticks, key=lambda tick: _allowed(told, tick, assumed.period_ns))


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
