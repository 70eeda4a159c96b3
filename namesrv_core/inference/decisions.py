"""Decisions: what the answers say about orders that the wire does not show.

Where events raced (`namesrv_core.inference.races`), the name server's registry is replayed in each of the possible orders, from a
quiet instant before them until the registries are the same again, and the answers that only one of the orders explains
are counted. The order that explains most is taken, the default where nothing speaks for another. Where answers are still
unexplained, or too much raced at once - a frozen name server that thaws - all that was on its way is searched for an order
(`namesrv_core.inference.bursts`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from namesrv_core.inference.bursts import held_in, order_of
from namesrv_core.inference.courses import Course, between, ordered, thawed
from namesrv_core.inference.races import Alternative, Day, Move, Race, races_of
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_core.machine.schedule import STALL_NS
from namesrv_core.replay.loop import TimedEvent

# How far behind a race registries are compared, in seconds; then at the end of the day.
_HORIZONS_S = (0, 1, 5, 20, 60, 150, 600)
# Unexplained answers before this one of them make two decisions be tried together.
_NEAR = 3
# More races than this in one span are not decided one by one: so many pairs of them would be as many replays.
_MOST_RACES = 20


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


Choice = dict[str, int]  # by decision id; the default may be left out


def decide(day: Day) -> tuple[list[Decided], list[Placed]]:
    """Return the decisions of a day by position, and the events that take effect elsewhere than recorded."""
    recorded, day = day.timed_events, thawed(day)
    races = races_of(day)
    spans = _spans(day, races)
    decided: list[Decided] = []
    moves: list[Move] = []
    registry, position = day.start(), day.from_seq - 1
    for span, together in _by_span(spans, races):
        Course(day, registry, position, ()).run(span.first - 1)
        burst = _Burst(day, registry, span, spans, together)
        found, registry = burst.decide()
        position = span.last
        decided += found
        moves += [move for d in found for move in d.race.alternatives[d.chosen].moves]
    return decided, _placed(recorded, ordered(day.timed_events, moves))


class _Span(NamedTuple):
    """A stretch of time in which something was on its way: a request without its response, or a race."""

    first: int
    last: int


def _spans(day: Day, races: Sequence[Race]) -> list[_Span]:
    """Return the stretches, in order; between them everything that had arrived had also taken effect."""
    open_times = [(day.received.get(timed.event_id, timed.seq), timed.seq) for timed in day.timed_events]
    open_times += [(observed.request_seq, observed.seq) for observed in day.observations]
    for race in races:
        seqs = [timed.seq for timed in race.timed_events]
        seqs += [move.seq for alternative in race.alternatives for move in alternative.moves]
        open_times.append((min(seqs), max(seqs)))
    merged: list[_Span] = []
    for first, last in sorted(open_times):
        if merged and first <= merged[-1].last:
            merged[-1] = merged[-1]._replace(last=max(last, merged[-1].last))
        else:
            merged.append(_Span(first, last))
    return merged


def _by_span(spans: Sequence[_Span], races: Iterable[Race]) -> list[tuple[_Span, list[Race]]]:
    """Return the spans in which something is to be decided: those with races, and stalls, where all may have raced."""
    together: dict[_Span, list[Race]] = {span: [] for span in spans if span.last - span.first >= STALL_NS}
    for race in races:
        together.setdefault(spans[bisect_right(spans, race.seq, key=lambda span: span.first) - 1], []).append(race)
    return sorted(together.items(), key=lambda item: item[0])


class _Difference(NamedTuple):
    """How another course differs from one: answers that only one of them explains; `nothing`: not even the changes."""

    only_one: frozenset[str]
    only_other: frozenset[str]
    nothing: bool

    @property
    def gain(self) -> int:
        """Return how many more answers the other one explains."""
        return len(self.only_other) - len(self.only_one)


class _Burst:
    """The races of one span, decided together."""

    def __init__(
        self, day: Day, registry: Registry, span: _Span, spans: Sequence[_Span], races: Sequence[Race]
    ) -> None:
        self._day = day
        self._start = registry
        self._span = span
        self._races = {race.decision_id: race for race in races}
        self._halts = _halts(spans, span, day.until_seq)
        self._courses: dict[tuple[Move, ...], Course] = {}

    def decide(self) -> tuple[list[Decided], Registry]:
        """Return the decisions, and the registry at the end of the span."""
        kept: list[Decided] = []
        if len(self._races) <= _MOST_RACES:
            choice = self._best_choice()
            kept = [d for d in (self._decided(race, choice) for race in self._races.values()) if d is not None]
        moves = tuple(move for d in kept for move in d.race.alternatives[d.chosen].moves)
        if self._leaves_unexplained(moves):
            found = self._searched(moves)
            kept = kept if found is None else [found]
        moves = tuple(move for d in kept for move in d.race.alternatives[d.chosen].moves)
        return kept, self._course(moves).chunk(0, self._halts).registry

    def _best_choice(self) -> Choice:
        """Change one decision at a time, or two at once, for as long as more answers are explained."""
        choice: Choice = {}
        while True:
            singles = list(self._others(choice))
            best = max(singles, key=lambda other: self._difference(choice, other).gain, default=choice)
            if self._difference(choice, best).gain <= 0:
                if not self._leaves_unexplained(self._moves_of(choice)):
                    return choice
                pairs = [one | other for one, other in combinations(singles, 2)]
                best = max(pairs, key=lambda other: self._difference(choice, other).gain, default=choice)
                if self._difference(choice, best).gain <= 0:
                    return choice
            choice = best

    def _leaves_unexplained(self, moves: Sequence[Move]) -> bool:
        course = self._course(moves)
        return any(course.chunk(number, self._halts).unmatched for number in range(min(_NEAR, len(self._halts))))

    def _others(self, choice: Choice) -> Iterator[Choice]:
        for decision_id, race in self._races.items():
            for number in range(len(race.alternatives)):
                if number != choice.get(decision_id, 0):
                    yield choice | {decision_id: number}

    def _decided(self, race: Race, choice: Choice) -> Decided | None:
        """Return the decision with its evidence; None if no other order would have changed anything, or was likely."""
        chosen = choice.get(race.decision_id, 0)
        if chosen == 0 and race.is_far:
            return None
        others = [choice | {race.decision_id: n} for n in range(len(race.alternatives)) if n != chosen]
        differences = [self._difference(choice, other) for other in others]
        if chosen == 0 and all(difference.nothing for difference in differences):
            return None
        answers_for = frozenset[str]().union(*(difference.only_one for difference in differences))
        answers_against = frozenset[str]().union(*(difference.only_other for difference in differences))
        return Decided(race, chosen, tuple(sorted(answers_for)), tuple(sorted(answers_against)))

    def _difference(self, one: Choice, other: Choice) -> _Difference:
        return self._compared(self._moves_of(one), self._moves_of(other))

    def _compared(self, one: Sequence[Move], other: Sequence[Move]) -> _Difference:
        """Compare two courses until their registries are the same, at the latest at the end of the day."""
        courses = self._course(one), self._course(other)
        only_one, only_other = frozenset[str](), frozenset[str]()
        nothing = True
        for number in range(len(self._halts)):
            chunks = courses[0].chunk(number, self._halts), courses[1].chunk(number, self._halts)
            only_one |= chunks[0].matched - chunks[1].matched
            only_other |= chunks[1].matched - chunks[0].matched
            nothing = nothing and chunks[0].changes_the_same_as(chunks[1])
            registries = chunks[0].registry, chunks[1].registry
            if (
                registries[0].holds_the_same_as(registries[1])
                and registries[0].last_update_ms == registries[1].last_update_ms
            ):
                break
            nothing = False
        return _Difference(only_one, only_other, nothing and not only_one and not only_other)

    def _course(self, moves: Iterable[Move]) -> Course:
        key = tuple(sorted(moves))
        if key not in self._courses:
            self._courses[key] = Course(self._day, self._start.copy(), self._span.first - 1, key)
        return self._courses[key]

    def _moves_of(self, choice: Choice) -> tuple[Move, ...]:
        return tuple(
            move
            for decision_id, number in choice.items()
            for move in self._races[decision_id].alternatives[number].moves
        )

    def _searched(self, moves: tuple[Move, ...]) -> Decided | None:
        """Search for an order of all that was on its way; None if there is none that explains more than `moves` do."""
        first, last = self._span
        stalled_until = next((s.until_seq for s in self._day.schedule.stalls if first <= s.until_seq <= last), None)
        held = held_in(self._day, between(self._day.timed_events, first - 1, last), stalled_until, last)
        found = order_of(self._day, self._start, held, (first, last), self._halts[-2:][0])
        difference = self._compared(moves, found)
        if difference.gain <= 0:
            return None
        return Decided(
            self._burst_race(found), 1, tuple(sorted(difference.only_other)), tuple(sorted(difference.only_one))
        )

    def _burst_race(self, moves: Sequence[Move]) -> Race:
        ids = {move.event_id for move in moves}
        timed_events = tuple(timed for timed in self._day.timed_events if timed.event_id in ids)
        default = Alternative("in the order of their responses and closes")
        return Race(
            "burst_order", timed_events, (default, Alternative("an order that explains the answers", tuple(moves)))
        )


def _halts(spans: Sequence[_Span], span: _Span, until_seq: int) -> list[int]:
    """Return the quiet instants at which courses are compared: the end of the span, then further and further away."""
    ends = [other.last for other in spans if other.last >= span.last]
    halts = [ends[min(bisect_left(ends, span.last + seconds * 10**9), len(ends) - 1)] for seconds in _HORIZONS_S]
    return sorted({*halts, max(until_seq, ends[-1])})


def _placed(recorded: Iterable[TimedEvent], taken: Iterable[TimedEvent]) -> list[Placed]:
    """Return the events whose position, or lookup, is not the recorded one."""
    before = {timed.event_id: timed for timed in recorded}
    return [
        Placed(timed.event_id, timed.seq, getattr(timed.event, "looked_up", None))
        for timed in taken
        if timed.seq != before[timed.event_id].seq or timed.event is not before[timed.event_id].event
    ]


def explained_by(day: Day) -> frozenset[str]:
    """Return the ids of the answers that a replay of the whole day, in the order recorded, explains."""
    return Course(thawed(day), day.start(), day.from_seq - 1, ()).chunk(0, [day.until_seq]).matched
