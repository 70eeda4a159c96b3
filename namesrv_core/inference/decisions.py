"""Decisions: what the answers say about orders that the wire does not show.

Where events raced (`namesrv_core.inference.races`), the name server's registry is replayed in each of the possible orders, from a
quiet instant before them until the registries are the same again, and the answers that only one of the orders explains
are counted. The order that explains most is taken, the default where nothing speaks for another. Where several brokers
raced at once - a frozen name server that thaws - and answers are still unexplained, a search moves single events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

from namesrv_core.history.timeline import StateChange
from namesrv_core.history.verification import Observed, verify
from namesrv_core.inference.races import Alternative, Day, Move, Race, races_of
from namesrv_core.machine.events import ChannelDestroyed, NamesrvStarted
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_core.replay.loop import TimedEvent, replay

# A request that waited this long for its answer met a name server that stood still.
STALL_NS = 1_000_000_000
# How far behind a race registries are compared, in seconds; then at the end of the day.
_HORIZONS_S = (0, 1, 5, 20, 60, 150, 600)
# Unexplained answers before this one of them make two decisions be tried together.
_NEAR = 3
_MAX_PAIRS = 200
_MAX_SEARCHED = 400


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
_Timed = TypeVar("_Timed", TimedEvent, Observed)


def decide(day: Day) -> tuple[list[Decided], list[Placed]]:
    """Return the decisions of a day by position, and the events that they move."""
    races = races_of(day)
    spans = _spans(day, races)
    decided: list[Decided] = []
    moves: list[Move] = []
    registry, position = day.start(), day.from_seq - 1
    for span, together in _by_span(spans, races):
        _Course(day, registry, position, ()).run(span.first - 1)
        burst = _Burst(day, registry, span, spans, together)
        found, registry = burst.decide()
        position = span.last
        decided += found
        moves += [move for d in found for move in d.race.alternatives[d.chosen].moves]
    return decided, _placed(day, moves)


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


class _Chunk(NamedTuple):
    """What a course does up to one of its halts: answers that match and do not, what changed, the registry then."""

    matched: frozenset[str]
    unmatched: frozenset[str]
    timeline: tuple[StateChange, ...]
    registry: Registry

    def changes_the_same_as(self, other: _Chunk) -> bool:
        """Return whether the same rows were changed, in whatever order."""
        return _counted(self.timeline) == _counted(other.timeline)


def _counted(timeline: Iterable[StateChange]) -> Counter[Change]:
    return Counter(change for state_change in timeline for change in state_change.changes)


class _Course:
    """One possible course of events from `position` on; `registry` is changed."""

    def __init__(self, day: Day, registry: Registry, position: int, moves: Iterable[Move]) -> None:
        self._day = day
        self._registry = registry
        self._position = position
        self._moves = tuple(moves)
        self._chunks: list[_Chunk] = []

    def chunk(self, number: int, halts: Sequence[int]) -> _Chunk:
        """Return what happens up to the halt of that number, from the one before it."""
        while len(self._chunks) <= number:
            self._chunks.append(self._judged(halts[len(self._chunks)]))
        return self._chunks[number]

    def run(self, until: int) -> tuple[list[StateChange], list[int]]:
        """Replay until `until`, inclusive, and return the changes and the starts of the process."""
        day, timeline, starts = self._day, [], []
        for timed, step in replay(
            self._registry,
            _ordered(_between(day.timed_events, self._position, until), self._moves),
            day.namesrv,
            day.schedule,
            namesrv_id=day.namesrv_id,
            span=(self._position, until + 1),
        ):
            if type(timed.event) is NamesrvStarted:
                starts.append(timed.seq)
            if step.changes:
                arrived = day.received[timed.event_id] if timed.event_id in day.answered else timed.seq
                timeline.append(StateChange(timed.seq, min(arrived, timed.seq), step.changes))
        self._position = until
        return timeline, starts

    def _judged(self, until: int) -> _Chunk:
        before, asked = self._registry.copy(), _between(self._day.observations, self._position, until)
        timeline, starts = self.run(until)
        verdicts = verify(before, timeline, asked, self._day.namesrv, starts=starts)
        matched = frozenset(verdict.observed.event_id for verdict in verdicts if verdict.matched)
        unmatched = frozenset(verdict.observed.event_id for verdict in verdicts if not verdict.matched)
        return _Chunk(matched, unmatched, tuple(timeline), self._registry.copy())


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
        self._courses: dict[tuple[Move, ...], _Course] = {}

    def decide(self) -> tuple[list[Decided], Registry]:
        """Return the decisions, and the registry at the end of the span."""
        choice = self._best_choice()
        decided = [self._decided(race, choice) for race in self._races.values()]
        searched = self._searched(self._moves_of(choice))
        if searched is not None:
            decided.append(searched)
        kept = [d for d in decided if d is not None]
        moves = [move for d in kept for move in d.race.alternatives[d.chosen].moves]
        return kept, self._course(moves).chunk(0, self._halts).registry

    def _best_choice(self) -> Choice:
        """Change one decision at a time, or two at once, for as long as more answers are explained."""
        choice: Choice = {}
        while True:
            singles = list(self._others(choice))
            best = max(singles, key=lambda other: self._difference(choice, other).gain, default=choice)
            if self._difference(choice, best).gain <= 0:
                course = self._course(self._moves_of(choice))
                if not any(
                    course.chunk(number, self._halts).unmatched for number in range(min(_NEAR, len(self._halts)))
                ):
                    return choice
                pairs = [one | other for one, other in combinations(singles, 2)][:_MAX_PAIRS]
                best = max(pairs, key=lambda other: self._difference(choice, other).gain, default=choice)
                if self._difference(choice, best).gain <= 0:
                    return choice
            choice = best

    def _others(self, choice: Choice) -> Iterator[Choice]:
        for decision_id, race in self._races.items():
            for number in range(len(race.alternatives)):
                if number != choice.get(decision_id, 0):
                    yield choice | {decision_id: number}

    def _decided(self, race: Race, choice: Choice) -> Decided | None:
        """Return the decision with its evidence; None if no other order would have changed anything."""
        chosen = choice.get(race.decision_id, 0)
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

    def _course(self, moves: Iterable[Move]) -> _Course:
        key = tuple(sorted(moves))
        if key not in self._courses:
            self._courses[key] = _Course(self._day, self._start.copy(), self._span.first - 1, key)
        return self._courses[key]

    def _moves_of(self, choice: Choice) -> tuple[Move, ...]:
        return tuple(
            move
            for decision_id, number in choice.items()
            for move in self._races[decision_id].alternatives[number].moves
        )

    def _searched(self, moves: tuple[Move, ...]) -> Decided | None:
        """Search for single moves that explain answers of the span itself and leave the registry behind it as it is."""
        found, left = moves, _MAX_SEARCHED
        reached = self._course(moves).chunk(0, self._halts)
        while reached.unmatched and left > 0:
            tries = [(*found, move) for move in self._single_moves(found, reached.timeline)][:left]
            left -= len(tries)
            chunks = [self._course(tried).chunk(0, self._halts) for tried in tries]
            fit = [n for n, chunk in enumerate(chunks) if chunk.registry.holds_the_same_as(reached.registry)]
            best = min(fit, key=lambda n: len(chunks[n].unmatched), default=None)
            if best is None or len(chunks[best].unmatched) >= len(reached.unmatched):
                break
            found, reached = tries[best], chunks[best]
        if found == moves:
            return None
        difference = self._compared(found, moves)
        return Decided(
            self._burst_race(found[len(moves) :]),
            1,
            tuple(sorted(difference.only_one)),
            tuple(sorted(difference.only_other)),
        )

    def _single_moves(self, moves: Sequence[Move], timeline: Sequence[StateChange]) -> Iterator[Move]:
        """Yield the moves of a request before any event that took effect after its arrival, and of a close behind any."""
        placed = {move.event_id: (move.seq, move.side) for move in moves}
        recorded = _between(self._day.timed_events, self._span.first - 1, self._span.last)
        # A move is relative to where events were recorded, not to where an earlier move has pushed them.
        place = {timed.event_id: (timed.seq, 0) for timed in recorded} | placed
        changed = {state_change.seq for state_change in timeline}
        effective = [timed for timed in _ordered(recorded, moves) if timed.seq in changed]
        for moved in effective:
            if moved.event_id in placed:
                continue
            is_close = type(moved.event) is ChannelDestroyed
            for anchor in effective:
                seq, side = place[anchor.event_id]
                if is_close and moved.seq < anchor.seq:
                    yield Move(moved.event_id, seq, side + 1)
                elif not is_close and self._day.received.get(moved.event_id, moved.seq) <= anchor.seq < moved.seq:
                    yield Move(moved.event_id, seq, side - 1)

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


def _between(items: Sequence[_Timed], after: int, until: int) -> Sequence[_Timed]:
    """Return the items with a position after `after`, up to `until`; `items` are in order."""
    first = bisect_right(items, after, key=lambda item: item.seq)
    return items[first : bisect_right(items, until, key=lambda item: item.seq)]


def _ordered(timed_events: Iterable[TimedEvent], moves: Iterable[Move]) -> list[TimedEvent]:
    """Return the events in the order that the moves make, with positions that increase strictly."""
    by_id = {move.event_id: move for move in moves}

    def place(timed: TimedEvent) -> tuple[int, int, int]:
        move = by_id.get(timed.event_id)
        return (timed.seq, 0, timed.seq) if move is None else (move.seq, move.side, timed.seq)

    ordered: list[TimedEvent] = []
    last = -1
    for timed in sorted(timed_events, key=place):
        moved = _moved(timed, by_id[timed.event_id]) if timed.event_id in by_id else timed
        last = max(moved.seq, last + 1)
        ordered.append(moved._replace(seq=last))
    return ordered


def _moved(timed: TimedEvent, move: Move) -> TimedEvent:
    event = timed.event
    if move.looked_up is not None and isinstance(event, ChannelDestroyed):
        event = event._replace(looked_up=move.looked_up)
    return timed._replace(seq=move.seq, effect_us=move.seq // NS_PER_US, event=event)


def _placed(day: Day, moves: Sequence[Move]) -> list[Placed]:
    """Return the events whose position, or lookup, is not the recorded one."""
    recorded = {timed.event_id: timed.seq for timed in day.timed_events}
    looked_up = {move.event_id: move.looked_up for move in moves}
    return [
        Placed(timed.event_id, timed.seq, looked_up.get(timed.event_id))
        for timed in _ordered(day.timed_events, moves)
        if timed.seq != recorded[timed.event_id] or timed.event_id in looked_up
    ]


def explained_by(day: Day) -> frozenset[str]:
    """Return the ids of the answers that a replay of the whole day, in the order recorded, explains."""
    return _Course(day, day.start(), day.from_seq - 1, ()).chunk(0, [day.until_seq]).matched
