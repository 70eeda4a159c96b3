"""Bursts: in which order a name server worked off what had come while it stood still, as its answers tell.

Threads of several pools work off at once what lies in the queues of a frozen name server, so that almost any order is
possible. What answers show, in the burst and behind it, tells which one it was. Each unit (`units`) is searched by itself:
from the recorded order on, single events are put elsewhere, the order that leaves fewest answers unexplained first. Then
the orders of all units are made one (`merging`): an answer that shows several of them shows them at one instant.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count, pairwise
from typing import NamedTuple

from namesrv_core.history.timeline import StateChange
from namesrv_core.history.verification import Judged, Observed, chosen, judged
from namesrv_core.inference.courses import between, replayed
from namesrv_core.inference.merging import Graph, Held, Instant, Item, assigned
from namesrv_core.inference.races import LAG_NS, Day, Move, owners_of
from namesrv_core.inference.units import Unit, units_of
from namesrv_core.machine import events
from namesrv_core.machine.question import Answer, Question
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.replay.loop import TimedEvent

MOST_ORDERS = 1_000
"""Orders of a unit that are tried at most; then the best of these is taken."""
_BEATS = (events.BrokerHeartbeat, events.QueryDataVersion, events.RefreshRun)  # they renew leases: nothing shows when
_MOVABLE = (
    events.RegisterBroker,
    events.UnregisterBroker,
    events.ChannelDestroyed,
    events.WipeWritePerm,
    events.AddWritePerm,
)


_Order = tuple[Item, ...]


class _Run(NamedTuple):
    """What an order does: how many answers it leaves unexplained, and what those of the burst match.

    `away`: by how much, in ns, answers of the burst stood before or after they were given, all together. `effects`: what
    changed, each time by which event of the burst; None: by a scan.
    """

    unexplained: int
    away: int
    effects: tuple[tuple[int | None, tuple[Change, ...]], ...]
    answers: list[Judged]

    @property
    def cost(self) -> tuple[int, int]:
        """Return how unlikely the order is."""
        return self.unexplained, self.away


def order_of(day: Day, registry: Registry, held: Sequence[Held], span: tuple[int, int], until: int) -> list[Move]:
    """Return the moves that make the order of a burst which explains most of its answers, and of those behind it.

    `registry` is that before the burst; `held`: its events by position; `span`: its first and last position; `until`: how far
    answers behind it are looked at.
    """
    orders = []
    for unit in units_of(registry, between(day.timed_events, span[0] - 1, until)):
        search = _Search(day, unit, registry, held, span, until)
        orders.append((search, search.best()))
    recorded = {each.timed.event_id: each.timed for each in held}
    return [
        Move(timed.event_id, timed.seq, 0, getattr(timed.event, "looked_up", None))
        for timed in _merged(held, orders)
        if timed.seq != recorded[timed.event_id].seq or timed.event is not recorded[timed.event_id].event
    ]


class _Search:
    """The orders of one unit's events in a burst."""

    def __init__(
        self, day: Day, unit: Unit, registry: Registry, held: Sequence[Held], span: tuple[int, int], until: int
    ) -> None:
        self._day, self._unit, self._held, self._span, self._until = day, unit, held, span, until
        self._start = unit.own(registry)
        self.recorded: _Order = tuple(Item(n) for n, each in enumerate(held) if unit.concerns(each.timed.event))
        self._owners = owners_of(day.namesrv, self._start, (held[item.number].timed for item in self.recorded))
        self._parts: dict[tuple[type, Question | events.Event, Answer], str | None] = {}
        self._asked = self._told(between(day.observations, span[0] - 1, span[1]))
        later = between(day.timed_events, span[1], until)
        self._later_events = [timed for timed in later if unit.concerns(timed.event)]
        self._later_asked = self._told(between(day.observations, span[1], until))
        self._ends: list[tuple[Registry, int]] = []

    def _told(self, observations: Iterable[Observed]) -> list[Observed]:
        """Return the answers that say something of the unit."""
        return [seen for seen in observations if self._part_of(seen.question, seen.answered) is not None]

    def _part_of(self, question: Question | events.Event, answered: Answer) -> str | None:
        key = (type(question), question, answered)
        if key not in self._parts:
            self._parts[key] = self._unit.part_of(question, answered)
        return self._parts[key]

    def best(self) -> _Order:
        """Return the order that leaves fewest answers unexplained; of several the one that was found first."""
        found = self.recorded
        least = self.run(found)
        serial, seen, effects = count(), {found}, {least.effects}
        waiting = [(least.cost, next(serial), found)]
        left = MOST_ORDERS
        while waiting and left > 0:
            _, _, order = heapq.heappop(waiting)
            for other in self._others(order):
                if left == 0:
                    break
                if other in seen:
                    continue
                left -= 1
                seen.add(other)
                tried = self.run(other)
                if tried.effects in effects:
                    continue
                effects.add(tried.effects)
                heapq.heappush(waiting, (tried.cost, next(serial), other))
                if tried.cost < least.cost:
                    found, least = other, tried
        return found

    def run(self, order: _Order) -> _Run:
        """Replay the burst in an order and hold it against the answers."""
        registry = self._start.copy()
        before, taken = registry.copy(), assigned(self._held, order)
        timeline, starts = replayed(self._day, registry, taken, (self._span[0] - 1, self._span[1]))
        numbers = {timed.seq: item.number for timed, item in zip(taken, order, strict=True)}
        effects = tuple((numbers.get(change.seq), change.changes) for change in timeline)
        answers = self._judged(before, self._possible(timeline, taken, order), self._asked, starts)
        unexplained = _unexplained(answers) + self._unexplained_later(registry)
        return _Run(unexplained, _away(answers, [change.seq for change in timeline]), effects, answers)

    def _unexplained_later(self, registry: Registry) -> int:
        """Return how many answers behind the burst are not explained by what it left."""
        for known, number in self._ends:
            if known.holds_the_same_as(registry) and known.last_update_ms.keys() == registry.last_update_ms.keys():
                return number
        before = registry.copy()
        timeline, starts = replayed(self._day, registry.copy(), self._later_events, (self._span[1], self._until))
        answers = self._judged(before, timeline, self._later_asked, starts)
        self._ends.append((registry, _unexplained(answers)))
        return self._ends[-1][1]

    def _judged(
        self, before: Registry, timeline: Sequence[StateChange], asked: Sequence[Observed], starts: Sequence[int]
    ) -> list[Judged]:
        return judged(before, timeline, asked, self._day.namesrv, starts=starts, part_of=self._part_of)

    def _possible(
        self, timeline: Sequence[StateChange], taken: Sequence[TimedEvent], order: _Order
    ) -> list[StateChange]:
        """Return the changes of an order, each with the times between which it can have been made in that order."""
        latest = list(accumulate((self._held[item.number].latest for item in reversed(order)), min))[::-1]
        earliest = accumulate((self._held[item.number].earliest for item in order), max)
        times = {timed.seq: each for timed, each in zip(taken, zip(latest, earliest, strict=True), strict=True)}
        return [StateChange(*times.get(change.seq, (change.seq, change.seq)), change.changes) for change in timeline]

    def _others(self, order: _Order) -> Iterator[_Order]:
        """Yield the orders in which one event stands elsewhere, as far as times allow: the nearest places first."""
        for at, item in enumerate(order):
            if not self._is_movable(item):
                continue
            held, rest = self._held[item.number], order[:at] + order[at + 1 :]
            for to in range(at - 1, -1, -1):
                if held.earliest > self._held[order[to].number].latest:
                    break
                yield (*rest[:to], item, *rest[to:])
            for to in range(at + 1, len(order)):
                if self._held[order[to].number].earliest > held.latest:
                    break
                yield (*rest[:to], item, *rest[to:])
                for key in self._owners.get(getattr(held.timed.event, "channel_id", None), ()):
                    if type(held.timed.event) is events.ChannelDestroyed and item.looked_up is None:
                        yield (*rest[:to], item._replace(looked_up=key), *rest[to:])

    def _is_movable(self, item: Item) -> bool:
        return isinstance(self._held[item.number].timed.event, _MOVABLE)

    def instants(self, run: _Run) -> dict[str, tuple[Observed, list[Instant]]]:
        """Return, by answer, between which events of the burst it may show the unit: the nominal place first."""
        made_by = [None, *(number for number, _ in run.effects), None]
        found = {}
        for observed, window, verdicts in run.answers:
            matched = sorted(number for number, verdict in verdicts.items() if verdict.matched)
            stretches = [(first, last) for first, last in _stretches(matched)]
            stretches.sort(key=lambda each: not each[0] <= window.nominal <= each[1])
            if stretches:
                found[observed.event_id] = observed, [Instant(made_by[a], made_by[b + 1]) for a, b in stretches]
        return found


def _merged(held: Sequence[Held], orders: Sequence[tuple[_Search, _Order]]) -> list[TimedEvent]:
    """Return the events of all units in one order, in which those of each unit follow each other as in its own."""
    items = [Item(number) for number in range(len(held))]
    pairs = [(n, m) for n, one in enumerate(held) for m, other in enumerate(held) if one.latest < other.earliest]
    shown: dict[str, tuple[Observed, list[list[Instant]]]] = {}
    for search, order in orders:
        pairs += [(one.number, other.number) for one, other in pairwise(order)]
        for item in order:
            items[item.number] = max(items[item.number], item, key=lambda each: each.looked_up is not None)
        for event_id, (observed, instants) in search.instants(search.run(order)).items():
            shown.setdefault(event_id, (observed, []))[1].append(instants)
    free = Graph(tuple(held), (0,) * len(held))
    graph = free.with_pairs(pairs) or free
    for observed, of_units in sorted(shown.values(), key=lambda each: (each[0].seq, each[0].event_id)):
        graph = graph.showing(observed, of_units) or graph
    return assigned(graph.held, [items[number] for number in graph.order()])


def held_in(day: Day, timed_events: Iterable[TimedEvent], stalled_until: int | None, last: int) -> list[Held]:
    """Return the events of a span with the positions between which they took effect; `last`: its end.

    A request took effect between its arrival and its response. What got none, and the end of a connection, waits at most
    `LAG_NS`, where the name server stood still (until `stalled_until`) as long as the span lasts.
    """
    found = []
    for timed in timed_events:
        if isinstance(timed.event, (events.AnswerObserved, events.ResponseObserved)):
            continue  # what was seen stands where it was seen
        arrived = min(day.received.get(timed.event_id, timed.seq), timed.seq)
        latest = timed.seq
        if timed.event_id not in day.answered and isinstance(timed.event, (*_MOVABLE, *_BEATS)):
            latest = max(latest, last if stalled_until is not None else min(last, timed.seq + LAG_NS))
        earliest = arrived if stalled_until is None else min(max(arrived, stalled_until), timed.seq)
        found.append(Held(timed, earliest, latest))
    return found


def _unexplained(answers: Iterable[Judged]) -> int:
    return sum(not verdict.matched for verdict in chosen(answers))


def _away(answers: Iterable[Judged], changed: Sequence[int]) -> int:
    """Return by how much, in all, answers stood before or after they were given; `changed`: when each change was made."""
    away = 0
    for observed, _, verdicts in answers:
        stood = (
            (changed[number - 1] if number else 0, changed[number] if number < len(changed) else observed.seq)
            for number, verdict in verdicts.items()
            if verdict.matched
        )
        away += min((max(since - observed.seq, observed.seq - until, 0) for since, until in stood), default=0)
    return away


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each stretch of numbers that follow each other."""
    first = None
    for at, number in enumerate(numbers):
        if first is None:
            first = number
        if at + 1 == len(numbers) or numbers[at + 1] != number + 1:
            yield first, number
            first = None
