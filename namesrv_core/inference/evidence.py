"""What speaks for a setting's value: answers and closes that only one value explains. Nothing is replayed for it.

What one row of a recording tells by itself, a list that was refused, say, is read off there (`namesrv_day.settle`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import NamedTuple

from namesrv_core.asking.answers import SYNC_BROKER_MEMBER_GROUP_PREFIX
from namesrv_core.asking.shown import ShownRoute, shown_by
from namesrv_core.inference.settings import SCAN_PHASE, Life, Statement, Value, Votes
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.events import NS_PER_MS, NS_PER_US
from namesrv_core.machine.schedule import JITTER_NS, TICK_LATE_NS, Timer
from namesrv_core.machine.tables import MASTER_ID, PERM_WRITE

SHOWN = 5
"""Event ids that are kept as evidence."""

ONE_SCAN_NS = 100 * NS_PER_MS
"""Packets of one scan follow each other within this time; the first of them tells when it ran."""
_TICK_LATE_MS = TICK_LATE_NS // NS_PER_MS  # a thawing server's packets are later and fit nothing
_SEQ = attrgetter("seq")
_PERIODS_MS = (500, 1_000, 2_000, 3_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000)


class Vote(NamedTuple):
    """One event that only `value` explains."""

    name: str
    value: Value
    seq: int
    event_id: str


class RouteAnswer(NamedTuple):
    """A successful answer to GET_ROUTEINFO_BY_TOPIC: positions of the request's last byte and of the answer's."""

    event_id: str
    request_seq: int
    seq: int
    topic: str | None
    body: str


class Membership(NamedTuple):
    """A broker registered under this id."""

    seq: int
    broker_name: str | None
    broker_addr: str | None
    broker_id: int


class Expiry(NamedTuple):
    """The server closed the channel of a broker, `late_ms` after its lease had ended: what a scan does."""

    seq: int
    event_id: str
    late_ms: int


class TickWindow(NamedTuple):
    """What an answer shows: the timer ticks after `from_seq`, and by `until_seq`, inclusive, less than a period later."""

    from_seq: int
    until_seq: int
    seq: int
    event_id: str

    def allows(self, tick: int, period_ns: int) -> bool:
        """Return whether a timer does that has this one among its ticks."""
        return (tick - self.from_seq - 1) % period_ns < self.until_seq - self.from_seq


def acting_master_votes(answers: Iterable[RouteAnswer], memberships: Iterable[Membership]) -> Iterator[Vote]:
    """Yield what routes say about supportActingMaster.

    Where a group that allows acting masters has no master and no writable queue, it is on if a slave's address is shown
    as id 0, off if the slaves are shown with their own ids.
    """
    ids: dict[tuple[object, object], list[Membership]] = {}
    for membership in sorted(memberships, key=_SEQ):
        ids.setdefault((membership.broker_name, membership.broker_addr), []).append(membership)
    groups: dict[str, list[tuple[str | None, dict[int, str | None]]]] = {}  # most answers are repeated again and again
    for answer in answers:
        if (answer.topic or "").startswith(SYNC_BROKER_MEMBER_GROUP_PREFIX):
            continue
        if answer.body not in groups:
            groups[answer.body] = [*_read_only_groups(answer.body)]
        for name, addrs in groups[answer.body]:
            if MASTER_ID not in addrs:
                yield Vote("support_acting_master", False, answer.seq, answer.event_id)
                continue
            own = ids.get((name, addrs[MASTER_ID]), [])
            asked, answered = (bisect_right(own, seq, key=_SEQ) for seq in (answer.request_seq, answer.seq))
            of_window = {membership.broker_id for membership in own[max(0, asked - 1) : answered]}
            if asked and len(of_window) == 1 and MASTER_ID not in of_window:
                yield Vote("support_acting_master", True, answer.seq, answer.event_id)


def scan_period_votes(expiries: Sequence[Expiry], default_ms: int) -> Iterator[Vote]:
    """Yield what the closes of expired brokers say about the scan's period.

    Those of scans are on one grid, and none comes more than a period after its lease. The default is kept if more closes fit
    it than do not, else the longest usual period is taken that nearly all fit; two closes are needed.
    """
    for period_ms in (default_ms, *reversed(_PERIODS_MS)):
        soon = [expiry for expiry in expiries if expiry.late_ms <= period_ms + _TICK_LATE_MS]
        grids = (
            [e for e in soon if _off_ns(e.seq - first.seq, period_ms * NS_PER_MS) <= TICK_LATE_NS] for first in soon
        )
        fitting: list[Expiry] = max(grids, key=len, default=[])
        enough = len(expiries) // 2 if period_ms == default_ms else len(expiries) * 3 // 4
        if len(fitting) > max(1, enough):
            yield from (Vote("scan_period_ms", period_ms, expiry.seq, expiry.event_id) for expiry in fitting)
            return


def first_of_scans(expiries: Iterable[Expiry]) -> list[Expiry]:
    """Return the first close of each scan, in order: the others follow it closely."""
    ordered = sorted(expiries)
    return ordered[:1] + [after for one, after in pairwise(ordered) if after.seq - one.seq > ONE_SCAN_NS]


def scan_phase_votes(expiries: Sequence[Expiry], period_ms: int, known_us: int | None = None) -> Iterator[Vote]:
    """Yield what closes (`first_of_scans`) say about the scans' phase: microseconds after a multiple of the period.

    Closes within a timer's jitter say the same, as most of them do first; those around `known_us` say that again. What
    contradicts the others is a vote for another phase; but as many, or more, that come as late as ticks may say nothing against
    the earlier ones. One that comes more than a period after its lease is a packet sent again: it says nothing of its scan.
    """
    period_ns, phase_us = period_ms * NS_PER_MS, known_us
    left = [expiry for expiry in expiries if expiry.late_ms * NS_PER_MS <= period_ns + TICK_LATE_NS]
    while left:
        if phase_us is None:
            # Of phases with which as many closes agree the earliest: a packet may be late, but never early.
            phases = [expiry.seq % period_ns // NS_PER_US for expiry in left]
            phase_us = max(phases, key=lambda one: (sum(_is_in_phase(e, one, period_ns) for e in left), -one))
        agreeing = [expiry for expiry in left if _is_in_phase(expiry, phase_us, period_ns)]
        yield from (Vote(SCAN_PHASE, phase_us, expiry.seq, expiry.event_id) for expiry in agreeing)
        late = [e for e in left if e not in agreeing and (e.seq - phase_us * NS_PER_US) % period_ns <= TICK_LATE_NS]
        left = [e for e in left if e not in agreeing and not (e in late and 0 < len(agreeing) <= len(late))]
        phase_us = None


def _is_in_phase(expiry: Expiry, phase_us: int, period_ns: int) -> bool:
    return _off_ns(expiry.seq - phase_us * NS_PER_US, period_ns) <= JITTER_NS


# Answers show when a process scans, too: a broker whose lease has ended is in them until a scan has run. Where no packet
# of a scan is seen, its timer is a guess (`machine.schedule`): one that fewer answers allow than another phase gives way to that.


def phase_votes(windows: Sequence[TickWindow], assumed: Timer) -> Iterator[Vote]:
    """Yield votes for the phase that most answers allow, if that are more than allow the one assumed.

    Instead of a guess it is the middle of what they leave open, and the next best ones have votes, too. A packet of a scan may be
    late, but never early, and never later than ticks are: whatever else answers contradict has gone without a scan.
    """
    period_ns = assumed.period_ns

    def allowed(tick: int) -> int:
        return sum(one.allows(tick, period_ns) for one in windows)

    if assumed.is_guess:
        tick = _best_tick(windows, period_ns)
    else:  # of those shortly before one that a packet shows that most allow; of several the last
        early = sorted({0, *((assumed.tick - one.until_seq) % period_ns for one in windows)})
        tick = max(((assumed.tick - by) % period_ns for by in early if by <= TICK_LATE_NS), key=allowed)
    if allowed(tick) <= allowed(assumed.tick):
        return
    left = list(windows)
    while left:
        agreeing = [one for one in left if one.allows(tick, period_ns)]
        yield from (Vote(SCAN_PHASE, tick // NS_PER_US, one.seq, one.event_id) for one in agreeing)
        left = [one for one in left if assumed.is_guess and not one.allows(tick, period_ns)]
        tick = _best_tick(left, period_ns)


def _best_tick(windows: Sequence[TickWindow], period_ns: int) -> int:
    """Return the middle of the longest part of a period, from 0, that most allow; 0 without windows."""
    steps: Counter[int] = Counter()
    for one in windows:
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


def count_votes(votes: Iterable[Vote], lives: Sequence[Life], statements: Sequence[Statement] = ()) -> list[Votes]:
    """Return the votes by process, setting and value. What comes after a recorded change speaks for the change."""
    starts = [life.from_seq for life in lives]
    changed: dict[tuple[int, str], int] = {}
    for statement in statements:
        if statement.changes:
            for name in statement.values:
                changed.setdefault((life_seq(starts, statement.seq), name), statement.seq)
    found: dict[tuple[int, str, Value], list[Vote]] = {}
    for vote in votes:
        of = life_seq(starts, vote.seq)
        until_seq = changed.get((of, vote.name))
        if until_seq is None or vote.seq < until_seq:
            found.setdefault((of, vote.name, vote.value), []).append(vote)
    return [
        Votes(of, name, value, len(ids), tuple(list(ids.values())[:SHOWN]))
        for (of, name, value), cast in found.items()
        if (ids := {(v.seq, v.event_id): v.event_id for v in sorted(cast, key=lambda v: (v.seq, v.event_id))})
    ]


def life_seq(starts: Sequence[int], seq: int) -> int:
    """Return the start of the process that ran at `seq`, or of the first; `starts` in order."""
    return starts[max(0, bisect_right(starts, seq) - 1)]


def _read_only_groups(body: str) -> Iterator[tuple[str | None, dict[int, str | None]]]:
    """Yield name and addresses of the groups in a route that may have an acting master, without a writable queue."""
    shown = shown_by(Question(RequestCode.GET_ROUTEINFO_BY_TOPIC), Answer(ResponseCode.SUCCESS, body))
    if not isinstance(shown, ShownRoute):
        return
    for name, group in shown.groups.items():
        data = shown.queue_datas.get(name)
        if group.enable_acting_master and group.broker_addrs and not (data and data.perm & PERM_WRITE):
            yield name, group.addr_of


def _off_ns(distance_ns: int, period_ns: int) -> int:
    """Return how far a distance is from a multiple of the period."""
    off_ns = distance_ns % period_ns
    return min(off_ns, period_ns - off_ns)
