"""Courses: a day's events in one of their possible orders, replayed and held against the answers."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from namesrv_core.history.timeline import StateChange
from namesrv_core.history.verification import Observed, verify
from namesrv_core.inference.races import Day, Move, key_of, owners_of
from namesrv_core.machine.events import BrokerHeartbeat, ChannelDestroyed, NamesrvStarted, QueryDataVersion
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.schedule import TICK_LATE_NS
from namesrv_core.replay.loop import TimedEvent, replay

_Timed = TypeVar("_Timed", TimedEvent, Observed)
_BEATS = (BrokerHeartbeat, QueryDataVersion)
_FIRST_NS = NS_PER_MS
"""So much before the end of a stall, where scans are made up for, stands what came before them."""


class Chunk(NamedTuple):
    """What a course does up to one of its halts: answers that match and do not, what changed, the registry then."""

    matched: frozenset[str]
    unmatched: frozenset[str]
    timeline: tuple[StateChange, ...]
    registry: Registry

    def changes_the_same_as(self, other: Chunk) -> bool:
        """Return whether the same rows were changed, in whatever order."""
        return _counted(self.timeline) == _counted(other.timeline)


def _counted(timeline: Iterable[StateChange]) -> Counter[Change]:
    return Counter(change for state_change in timeline for change in state_change.changes)


class Course:
    """One possible course of events from `position` on; `registry` is changed."""

    def __init__(self, day: Day, registry: Registry, position: int, moves: Iterable[Move]) -> None:
        self._day = day
        self._registry = registry
        self._position = position
        self._moves = tuple(moves)
        self._chunks: list[Chunk] = []

    def chunk(self, number: int, halts: Sequence[int]) -> Chunk:
        """Return what happens up to the halt of that number, from the one before it."""
        while len(self._chunks) <= number:
            self._chunks.append(self._judged(halts[len(self._chunks)]))
        return self._chunks[number]

    def run(self, until: int) -> tuple[list[StateChange], list[int]]:
        """Replay until `until`, inclusive, and return the changes and the starts of the process."""
        timed_events = ordered(between(self._day.timed_events, self._position, until), self._moves)
        span = self._position, until
        self._position = until
        return replayed(self._day, self._registry, timed_events, span)

    def _judged(self, until: int) -> Chunk:
        before, asked = self._registry.copy(), between(self._day.observations, self._position, until)
        timeline, starts = self.run(until)
        verdicts = verify(before, timeline, asked, self._day.namesrv, starts=starts)
        matched = frozenset(verdict.observed.event_id for verdict in verdicts if verdict.matched)
        unmatched = frozenset(verdict.observed.event_id for verdict in verdicts if not verdict.matched)
        return Chunk(matched, unmatched, tuple(timeline), self._registry.copy())


def replayed(
    day: Day, registry: Registry, timed_events: Iterable[TimedEvent], span: tuple[int, int]
) -> tuple[list[StateChange], list[int]]:
    """Replay the events of a stretch, behind its first position up to its last; return changes and starts of the process."""
    after, until = span
    timeline, starts = [], []
    for timed, step in replay(
        registry, timed_events, day.namesrv, day.schedule, namesrv_id=day.namesrv_id, span=(after, until + 1)
    ):
        if type(timed.event) is NamesrvStarted:
            starts.append(timed.seq)
        if step.changes:
            arrived = day.received[timed.event_id] if timed.event_id in day.answered else timed.seq
            timeline.append(StateChange(timed.seq, min(arrived, timed.seq), step.changes))
    return timeline, starts


def thawed(day: Day) -> Day:
    """Return the day with what came while the name server stood still at the end of that: nothing took effect before.

    Beats of a broker whose connection goes on come first, also if they were answered a little later: had the scan that the
    server made up for met the entry without them, it would have closed the connection.
    """
    moves = []
    owners = owners_of(day.namesrv, day.start(), day.timed_events) if day.schedule.stalls else {}
    for stall in day.schedule.stalls:
        until_seq = stall.until_seq + TICK_LATE_NS
        waited = between(day.timed_events, stall.from_seq, until_seq)
        ended = {
            key
            for timed in waited
            if type(timed.event) is ChannelDestroyed
            for key in owners.get(timed.event.channel_id, ())
        }
        for timed in waited:
            if day.received.get(timed.event_id, timed.seq) >= stall.until_seq:
                continue
            if isinstance(timed.event, _BEATS) and key_of(day.namesrv, timed.event) not in ended:
                moves.append(Move(timed.event_id, stall.until_seq - _FIRST_NS, -1))
            elif timed.seq < stall.until_seq and (
                timed.event_id in day.received or type(timed.event) is ChannelDestroyed
            ):
                moves.append(Move(timed.event_id, stall.until_seq, -1))
    return day._replace(timed_events=ordered(day.timed_events, moves)) if moves else day


def between(items: Sequence[_Timed], after: int, until: int) -> Sequence[_Timed]:
    """Return the items with a position after `after`, up to `until`; `items` are in order."""
    first = bisect_right(items, after, key=lambda item: item.seq)
    return items[first : bisect_right(items, until, key=lambda item: item.seq)]


def ordered(timed_events: Iterable[TimedEvent], moves: Iterable[Move]) -> list[TimedEvent]:
    """Return the events in the order that the moves make, with positions that increase strictly."""
    by_id = {move.event_id: move for move in moves}

    def place(timed: TimedEvent) -> tuple[int, int, int]:
        move = by_id.get(timed.event_id)
        return (timed.seq, 0, timed.seq) if move is None else (move.seq, move.side, timed.seq)

    found: list[TimedEvent] = []
    last = -1
    for timed in sorted(timed_events, key=place):
        moved = _moved(timed, by_id[timed.event_id]) if timed.event_id in by_id else timed
        last = max(moved.seq, last + 1)
        found.append(moved._replace(seq=last))
    return found


def _moved(timed: TimedEvent, move: Move) -> TimedEvent:
    event = timed.event
    if move.looked_up is not None and isinstance(event, ChannelDestroyed):
        event = event._replace(looked_up=move.looked_up)
    return timed._replace(seq=move.seq, effect_us=move.seq // NS_PER_US, event=event)
