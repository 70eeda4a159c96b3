"""Decisions: what the answers say about orders that the wire does not show.

The day is replayed once. Where events race (`namesrv_core.inference.races`), the unit that they concern (`units`) is stepped in
each of the possible orders at once, on registries of its own, until these are the same again, an answer decides, or a bound is
met: the order that explains most answers is taken, the default where nothing speaks for another. The rest of the day goes on
from there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeVar

from namesrv_core.history.timeline import StateChange
from namesrv_core.history.verification import Observed, chosen, judged
from namesrv_core.inference.races import Day, Move, Race, key_of, owners_of, races_of
from namesrv_core.inference.units import Unit, nodes_of, unit_around
from namesrv_core.machine.events import BrokerHeartbeat, ChannelDestroyed, Event, NamesrvStarted, QueryDataVersion
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.question import Answer, Question
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_core.machine.schedule import TICK_LATE_NS
from namesrv_core.replay.loop import TimedEvent, replay

MOST_ORDERS = 20
"""Orders of a unit's races that are carried at once: where there are more, only one race at a time is in another order."""
# How far behind a race the registries of its orders are compared, in seconds.
_HORIZONS_S = (0, 1, 5, 20, 60, 150, 600)
_Timed = TypeVar("_Timed", TimedEvent, Observed)
_BEATS = (BrokerHeartbeat, QueryDataVersion)
_FIRST_NS = NS_PER_MS
"""So much before the end of a stall, where scans are made up for, stands what came before them."""
_ROOM_NS = NS_PER_US
"""So much behind a race all its events have found their places, in each order."""
_Choice = Mapping[str, int]  # of each race, by decision id, which alternative


class Decided(NamedTuple):
    """A race and the alternative that was taken, from 0.

    `answers_for`: ids of the answers that the order taken explains and another one does not; `answers_against`: those
    that only another one explains.
    """

    race: Race
    chosen: int
    answers_for: tuple[str, ...]
    answers_against: tuple[str, ...]


class Placed(NamedTuple):
    """An event that takes effect elsewhere than recorded, with its position among the day's events."""

    event_id: str
    seq: int
    looked_up: LiveKey | None


def decide(day: Day) -> tuple[list[Decided], list[Placed]]:
    """Return the decisions of a day by position, and the events that take effect elsewhere than recorded."""
    recorded, day = day.timed_events, thawed(day)
    waiting = sorted(races_of(day), key=lambda race: (race.span, race.decision_id))
    decided: list[Decided] = []
    registry, position = day.start(), day.from_seq - 1
    while waiting:
        first = waiting[0].span[0]
        replayed(day, registry, between(day.timed_events, position, first - 1), (position, first - 1))
        position = first - 1
        fork, waiting = _Fork.at(day, registry, waiting)
        found = fork.decide()
        decided += found
        if moves := [move for each in found for move in each.race.alternatives[each.chosen].moves]:
            day = day._replace(timed_events=ordered(day.timed_events, moves))
    decided.sort(key=lambda each: (each.race.seq, each.race.decision_id))
    return decided, _placed(recorded, day.timed_events)


class _Fork:
    """The races of one unit that meet in time, decided together."""

    def __init__(self, day: Day, registry: Registry, unit: Unit, races: Sequence[Race]) -> None:
        """`registry`: as it is where the first of them begins."""
        self._day, self._unit, self._registry = day, unit, registry
        self._races = {race.decision_id: race for race in races}
        self._first = min(race.span[0] for race in races)
        self._last = max(race.span[1] for race in races) + _ROOM_NS
        ahead = between(day.timed_events, self._first - 1, _bound(day, self._last))
        self._events = [timed for timed in ahead if unit.concerns(timed.event)]
        self._parts: dict[tuple[type, Question | Event, Answer], str | None] = {}

    @classmethod
    def at(cls, day: Day, registry: Registry, races: Sequence[Race]) -> tuple[_Fork, list[Race]]:
        """Return the first of `races`, which are in order, with those that it meets, and all others."""
        first, last = races[0].span
        ahead = between(day.timed_events, first - 1, _bound(day, last))
        own, others = [races[0]], []
        met = {node for timed in races[0].timed_events for node in nodes_of(timed.event)}
        unit = unit_around(registry, met, ahead)
        for race in races[1:]:
            is_own = any(nodes_of(timed.event) and unit.concerns(timed.event) for timed in race.timed_events)
            if race.span[0] <= last and is_own:
                own.append(race)
                last = max(last, race.span[1])
            else:
                others.append(race)
        return cls(day, registry, unit, own), others

    def decide(self) -> list[Decided]:
        """Return the decisions: of orders that explain as many answers the one that is nearest to the default."""
        start = self._unit.own(self._registry)
        courses = [_Course(self, choice, start.copy()) for choice in self._choices()]
        left = courses
        for halt in self._halts():
            for course in left:
                course.advance(halt)
            best = max(left, key=lambda course: len(course.explained))
            agree = [course.compare(best) for course in left]
            left = [course for course in left if len(course.explained) == len(best.explained)]
            if all(agree):
                break
        taken = left[0]
        told = (self._decided(race, taken, courses) for race in self._races.values())
        return [each for each in told if each is not None]

    def _decided(self, race: Race, taken: _Course, courses: Sequence[_Course]) -> Decided | None:
        """Return the decision with its evidence; None if no other order would have changed anything, or was likely."""
        number = taken.choice[race.decision_id]
        others = [course for course in courses if course.choice[race.decision_id] != number]
        if number == 0 and (race.is_far or (others and all(course.did_the_same_as(taken) for course in others))):
            return None
        found = (
            frozenset[str]().union(*(getattr(course, name) for course in others))
            for name in ("only_others", "only_this")
        )
        return Decided(race, number, *(tuple(sorted(ids)) for ids in found))

    def _choices(self) -> list[_Choice]:
        """Return the orders that are tried, the default first."""
        numbers = {name: range(len(race.alternatives)) for name, race in self._races.items()}
        if prod(map(len, numbers.values())) <= MOST_ORDERS:
            tried = [dict(zip(numbers, each, strict=True)) for each in product(*numbers.values())]
            return sorted(tried, key=lambda choice: sum(map(bool, choice.values())))
        default = dict.fromkeys(numbers, 0)
        single = [default | {name: number} for name, of_race in numbers.items() for number in of_race[1:]]
        return [default, *single[1 - MOST_ORDERS :]]  # what came last is what is left

    def _halts(self) -> Iterator[int]:
        """Yield where the orders are compared: the end of the races, then further away, where nothing is under way."""
        bound = _bound(self._day, self._last)
        for seconds in _HORIZONS_S:
            halt = self._last + seconds * 10**9
            for timed in between(self._events, halt, bound):
                if self._day.received.get(timed.event_id, timed.seq) <= halt:
                    halt = timed.seq
            yield min(halt, bound)

    def course_of(self, choice: _Choice) -> list[TimedEvent]:
        """Return the unit's events in an order."""
        moves = [m for name, number in choice.items() for m in self._races[name].alternatives[number].moves]
        return ordered(self._events, moves)

    def explained(
        self, before: Registry, registry: Registry, events: Sequence[TimedEvent], span: tuple[int, int]
    ) -> tuple[frozenset[str], list[StateChange]]:
        """Replay a stretch, and return which answers it explains, and what it changed."""
        timeline, starts = replayed(self._day, registry, events, span)
        observed = between(self._day.observations, *span)
        asked = [seen for seen in observed if self.part_of(seen.question, seen.answered) is not None]
        verdicts = judged(before, timeline, asked, self._day.namesrv, starts=starts, part_of=self.part_of)
        return frozenset(one.observed.event_id for one in chosen(verdicts) if one.matched), timeline

    @property
    def start(self) -> int:
        """Return the position from which on the orders differ."""
        return self._first - 1

    def part_of(self, question: Question | Event, answered: Answer) -> str | None:
        """Return what an answer says of the unit."""
        key = (type(question), question, answered)
        if key not in self._parts:
            self._parts[key] = self._unit.part_of(question, answered)
        return self._parts[key]


class _Course:
    """A unit's events in one order, as far as they are replayed.

    `explained`: the answers that it explains; against the course that explained most, where it was still carried: `only_this`
    explains, and `only_others`.
    """

    def __init__(self, fork: _Fork, choice: _Choice, registry: Registry) -> None:
        self.choice = choice
        self.explained, self.only_this, self.only_others = frozenset[str](), frozenset[str](), frozenset[str]()
        self._fork, self._registry, self._position = fork, registry, fork.start
        self._events = fork.course_of(choice)
        self._changed: Counter[object] = Counter()
        self._has_differed = False

    def advance(self, until: int) -> None:
        """Replay on, until `until`, inclusive."""
        span, self._position = (self._position, until), until
        before, events = self._registry.copy(), between(self._events, *span)
        matched, timeline = self._fork.explained(before, self._registry, events, span)
        self.explained |= matched
        self._changed.update(change for of in timeline for change in of.changes)

    def compare(self, best: _Course) -> bool:
        """Note what only one of the two explains; return whether their registries are the same: so is then what follows."""
        self.only_this, self.only_others = self.explained - best.explained, best.explained - self.explained
        one, other = self._registry, best._registry
        agrees = one.holds_the_same_as(other) and one.last_update_ms == other.last_update_ms
        self._has_differed |= not agrees
        return agrees

    def did_the_same_as(self, other: _Course) -> bool:
        """Return whether it changed the same, and explains the same."""
        differs = self._has_differed or self.only_this or self.only_others
        return not differs and self._changed == other._changed


def _bound(day: Day, last: int) -> int:
    return max(last, min(day.until_seq, last + _HORIZONS_S[-1] * 10**9))


def _placed(recorded: Iterable[TimedEvent], taken: Iterable[TimedEvent]) -> list[Placed]:
    """Return the events whose position, or lookup, is not the recorded one."""
    before = {timed.event_id: timed for timed in recorded}
    return [
        Placed(timed.event_id, timed.seq, getattr(timed.event, "looked_up", None))
        for timed in taken
        if timed.seq != before[timed.event_id].seq or timed.event is not before[timed.event_id].event
    ]


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
