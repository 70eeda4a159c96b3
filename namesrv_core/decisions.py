"""Orders that the wire does not show, and what the answers say about them.

Where two threads of the name server raced, both orders of two events are possible. The replay takes a default order;
here each such choice is weighed: the name server's whole day is replayed both ways, and the answers that only one of
them explains are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from namesrv_core.events import NamesrvStarted
from namesrv_core.profile import Namesrv
from namesrv_core.registry import Registry
from namesrv_core.replay import TimedEvent, replay
from namesrv_core.schedule import ScanSchedule
from namesrv_core.timeline import StateChange
from namesrv_core.verification import Observed, verify


class Candidate(NamedTuple):
    """Two events whose order is open. `moved_seq`: where `moved_id` stands if the other order is taken."""

    decision_id: str
    seq: int
    moved_id: str
    moved_seq: int


class Weighed(NamedTuple):
    """A decision: 0 is the default order.

    The answers are ids of observations that only one of the two orders explains.
    """

    candidate: Candidate
    chosen: int
    for_chosen: tuple[str, ...]
    against_chosen: tuple[str, ...]


class Day(NamedTuple):
    """One name server's day: the registry it starts from is made anew for each replay.

    `arrivals`: by position, when the event there had arrived, where that was earlier than its effect. Scans run from
    `from_seq`, where the day begins, until `until_seq`.
    """

    start: Callable[[], Registry]
    timed_events: Sequence[TimedEvent]
    arrivals: Mapping[str, int]
    observations: Sequence[Observed]
    namesrv: Namesrv
    schedule: ScanSchedule
    namesrv_id: str
    until_seq: int
    from_seq: int = 0


def weigh(day: Day, candidates: Sequence[Candidate]) -> list[Weighed]:
    """Return the decisions in order; each starts from those before it. The order that more answers support is taken."""
    moved: dict[str, int] = {}
    matched = _matched(day, moved)
    weighed = []
    for candidate in sorted(candidates, key=lambda c: (c.seq, c.decision_id)):
        other_moved = {**moved, candidate.moved_id: candidate.moved_seq}
        other = _matched(day, other_moved)
        only_default = tuple(sorted(matched - other))
        only_other = tuple(sorted(other - matched))
        if len(only_other) > len(only_default):
            moved, matched = other_moved, other
            weighed.append(Weighed(candidate, 1, only_other, only_default))
        else:
            weighed.append(Weighed(candidate, 0, only_default, only_other))
    return weighed


def _matched(day: Day, moved: Mapping[str, int]) -> set[str]:
    """Return the observations that a replay with `moved` events explains."""
    placed = (timed._replace(seq=moved.get(timed.event_id, timed.seq)) for timed in day.timed_events)
    timed_events = sorted(placed, key=lambda timed: (timed.seq, timed.event_id))
    timeline, starts = [], []
    for timed, step in replay(
        day.start(),
        timed_events,
        day.namesrv,
        day.schedule,
        namesrv_id=day.namesrv_id,
        from_seq=day.from_seq,
        until_seq=day.until_seq,
    ):
        if type(timed.event) is NamesrvStarted:
            starts.append(timed.seq)
        if step.changes:
            timeline.append(StateChange(timed.seq, day.arrivals.get(timed.event_id, timed.seq), step.changes))
    verdicts = verify(day.start(), timeline, day.observations, day.namesrv, starts=starts)
    return {verdict.observed.event_id for verdict in verdicts if verdict.matched}
