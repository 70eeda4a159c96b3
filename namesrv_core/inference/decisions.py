"""Decisions on the order of racing events, by the answers that an order explains.

Races (`namesrv_core.inference.races`) are decided while the day is replayed. The unit of brokers concerned is replayed
in each possible order, on separate registries, until these are equal again, an answer decides, or a time limit is
reached. The order that explains most answers is taken; without evidence, the default. The replay of the day continues
with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import inf, prod
from operator import itemgetter
from typing import NamedTuple

from namesrv_core.asking.shown import ShownRoute, ShownTopics, shown_by, shown_of
from namesrv_core.history.intervals import StateChange
from namesrv_core.history.verification import Observed, all_verdicts, chosen
from namesrv_core.inference.races import Day, Items, Move, Named, Race, key_of, owners_of, races_of
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode
from namesrv_core.machine.events import (
    NS_PER_MS,
    NS_PER_US,
    BrokerHeartbeat,
    ChannelDestroyed,
    NamesrvStarted,
    QueryDataVersion,
)
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.schedule import TICK_LATE_NS
from namesrv_core.machine.tables import KvValue, LiveKey, TopicTable
from namesrv_core.replay.loop import TimedEvent, replay

MOST_ORDERS = 20
"""Number of orders that are carried at once. If a unit's races have more, only one race at a time is varied."""
# Times after a race at which the registries of its orders are compared, in seconds.
_HORIZONS_S = (0, 1, 5, 20, 60, 150, 600)
_BEATS = (BrokerHeartbeat, QueryDataVersion)
_OF_NAMESRV = (NamesrvStarted, events.UpdateNamesrvConfig)
_FIRST_NS = NS_PER_MS
"""At the end of a stall, events that precede the scans made up for are placed this long before that end."""
_ROOM_NS = NS_PER_US
"""This long after a race, all its events have taken effect in every order."""
_Choice = Mapping[str, int]  # the alternative of each race, by decision id


class Decided(NamedTuple):
    """A race and the number of the chosen alternative, from 0.

    `answers_for`: ids of the answers that the chosen order explains and another one does not; `answers_against`: those
    that only another one explains.
    """

    race: Race
    chosen: int
    answers_for: tuple[str, ...]
    answers_against: tuple[str, ...]


class Placed(NamedTuple):
    """An event that takes effect elsewhere than recorded, with the position of its effect."""

    event_id: str
    seq: int
    looked_up: LiveKey | None


class Deciding:
    """The races of a day, decided one after the other while its events are replayed.

    `recorded`: the day as recorded; `day`: the same with its events placed by the decisions so far; `has_moved`: whether
    these differ. `next_seq`: position at which the first undecided race begins.
    """

    def __init__(self, day: Day) -> None:
        self.recorded, self.day = day, thawed(day)
        self.has_moved = self.day is not day
        self._decided: list[Decided] = []
        found = (_Waiting(race.span, race.decision_id, race) for race in races_of(self.day))
        self._waiting = sorted(found, key=itemgetter(0))
        self._named: Named[TimedEvent] | None = None
        self.next_seq = self._waiting[0].span[0] if self._waiting else inf

    def decide_next(self, registry: Registry, position: int) -> None:
        """Decide the next race and those that meet it. `registry`: its state after `position`, before the race."""
        if self._named is None:
            self._named = Named(self.day.timed_events, lambda timed: concerned_by(timed.event))
        fork = _Fork(self.day, self._named, self._asked, registry, self._waiting, position)
        taken, found = fork.decide()
        self._waiting = fork.others
        self._decided += found
        if taken:
            before = self.day.timed_events
            self.day, self.has_moved = self.day._replace(timed_events=ordered(before, taken)), True
            self._named = None
            # Who is to come before or behind one that was moved comes before or behind it where it is now.
            now = {timed.event_id: timed.seq for timed in self.day.timed_events}
            moved = {timed.seq: seq for timed in before if (seq := now[timed.event_id]) != timed.seq}
            races = (one.race.following(moved) for one in self._waiting)
            self._waiting = sorted((_Waiting(race.span, race.decision_id, race) for race in races), key=itemgetter(0))
        self.next_seq = self._waiting[0].span[0] if self._waiting else inf

    @cached_property
    def _asked(self) -> Named[Observed]:
        return Named(self.day.observations(), lambda seen: _asked_about(seen.question))

    def finish(self, registry: Registry, position: int) -> None:
        """Continue the replay after `position` as far as needed, and decide the remaining races."""
        while self._waiting:
            span = position, (position := self._waiting[0].span[0] - 1)
            replayed(self.day, registry, between(self.day.timed_events, *span), span)
            self.decide_next(registry, position)

    @property
    def decided(self) -> list[Decided]:
        """Return the decisions by position."""
        return sorted(self._decided, key=lambda each: (each.race.seq, each.race.decision_id))

    @property
    def placed(self) -> list[Placed]:
        """Return the events that take effect elsewhere than recorded."""
        if not self.has_moved:
            return []
        recorded = {timed.event_id: timed for timed in self.recorded.timed_events}
        return [
            Placed(timed.event_id, timed.seq, getattr(timed.event, "looked_up", None))
            for timed in self.day.timed_events
            if timed.seq != (was := recorded[timed.event_id]).seq or timed.event is not was.event
        ]


class _Waiting(NamedTuple):
    """An undecided race."""

    span: tuple[int, int]
    decision_id: str
    race: Race


class _Fork:
    """The races of one unit that overlap in time, decided together; `others`: the remaining races."""

    def __init__(
        self,
        day: Day,
        named: Named[TimedEvent],
        asked: Named[Observed],
        registry: Registry,
        waiting: Sequence[_Waiting],
        position: int,
    ) -> None:
        """Start with the first of `waiting`, which are in order. `registry`: its state after `position`, before that race.

        `named`, `asked`: the events and the answers of the day.
        """
        (_, last), first_id, first = waiting[0]
        met = {node for timed in first.timed_events for node in nodes_of(timed.event)}
        self.unit = unit_around(registry, met, named, (position, _bound(day, last)))
        self.races, self.others = {first_id: first}, list[_Waiting]()
        for number, one in enumerate(waiting[1:], 1):
            if one.span[0] > last:  # all behind it begin later, too
                self.others += waiting[number:]
                break
            if self.unit.nodes.issuperset(node for timed in one.race.timed_events for node in nodes_of(timed.event)):
                self.races[one.decision_id] = one.race
                last = max(last, one.span[1])
            else:
                self.others.append(one)
        self.day, self.start, self._registry = day, position, registry
        self._last = last + _ROOM_NS
        self._bound = _bound(day, self._last)
        span = self.start, self._bound
        self.events = named.of({*self.unit.nodes, None}, span)
        # Typed: requests to wipe and to add write permission compare as equal, since they have equal fields.
        self._part_of = lru_cache(None, typed=True)(self.unit.part_of)
        asked_about = {*self.unit.nodes, None, *(("topic", topic) for topic in self.unit.topics)}
        self.observed = asked.of(asked_about, span)

    def part_of(self, observed: Observed, answered: Answer) -> object | None:
        """Return the part of an answer about this unit alone; of a list, the topics that no other one has registered by then."""
        part, since = self._part_of(observed.question, answered), self.unit.own_topics
        return {t for t in part.topics if observed.seq < since[t]} if isinstance(part, ShownTopics) else part

    def decide(self) -> tuple[Sequence[Move], list[Decided]]:
        """Return the order taken, as moves, and the decisions; among equally good ones the nearest to the default."""
        start, nearest = self.unit.own(self._registry), dict.fromkeys(self.races, 0)
        while True:
            courses = [_Course(self, choice, start) for choice in self._choices(nearest)]
            taken = self._taken(courses)
            if taken is courses[0] or self._tries_all:
                break
            nearest = dict(taken.choice)
        return taken.moves, [one for race in self.races.values() if (one := _decided(race, taken, courses)) is not None]

    def _taken(self, courses: Sequence[_Course]) -> _Course:
        """Replay the courses as far as needed, and return the first of those that explain most answers."""
        left = courses
        for seconds in _HORIZONS_S:
            halt = self._last + seconds * 10**9
            for timed in between(self.events, halt, self._bound):  # stop where no request is under way
                if self.day.received.get(timed.event_id, timed.seq) <= halt:
                    halt = timed.seq
            for course in left:
                course.advance(min(halt, self._bound))
            best = max(left, key=lambda course: len(course.explained))
            agree = [course.compare(best) for course in left]
            if seconds or all(agree):  # answers amid the race may show a passing state
                left = [course for course in left if len(course.explained) == len(best.explained)]
            if all(agree):
                break
        return left[0]

    @property
    def _tries_all(self) -> bool:
        return _orders(self.races.values()) <= MOST_ORDERS

    def _choices(self, nearest: dict[str, int]) -> list[_Choice]:
        """Return the orders to try, the default first; if they are too many, `nearest` and some that vary it.

        That is in all races that are not far, if these have few orders, and in one race at a time.
        """
        all_of = {name: race for name, race in self.races.items() if self._tries_all or not race.is_far}
        if _orders(all_of.values()) > MOST_ORDERS:
            all_of = {}
        numbers = {name: range(len(race.alternatives)) for name, race in self.races.items()}
        orders = product(*(numbers[name] for name in all_of))
        tried = [nearest | dict(zip(all_of, each, strict=True)) for each in orders]
        tried.sort(key=lambda choice: self._distance(choice, nearest))
        # Of single races those that are far, and then the earliest, are left out first.
        alone = sorted(self.races.keys() - all_of, key=[*self.races].index)
        alone.sort(key=lambda name: not self.races[name].is_far)
        single = [nearest | {name: n} for name in alone for n in numbers[name] if n != nearest[name]]
        # And each request before, or behind, all that it races with: of two unregistrations the other one would undo it.
        ends = defaultdict[tuple[str, int], list[str]](list)
        for name, race in self.races.items():
            for end in (0, -1):
                ends[race.timed_events[end].event_id, end].append(name)
        beyond = (names for names in ends.values() if len(names) > 1 and not all_of.keys() >= {*names})
        single = [*(nearest | dict.fromkeys(names, 1) for names in beyond), *single]
        single = single[max(0, len(single) + len(tried) - MOST_ORDERS) :]
        return [*tried, *sorted(single, key=lambda choice: self._distance(choice, nearest))]

    def _distance(self, choice: _Choice, nearest: _Choice) -> tuple[int, int]:
        """Return in how many races two orders differ, and in how many of these that are far."""
        differ = [race.is_far for name, race in self.races.items() if choice[name] != nearest[name]]
        return len(differ), sum(differ)


def _orders(races: Collection[Race]) -> int:
    return prod(len(race.alternatives) for race in races)


class _Course:
    """A unit's events in one order, as far as they are replayed.

    `explained`: ids of the answers that it explains. `only_this`, `only_others`: those that only it, or only the best
    course, explains, as of the last comparison.
    """

    def __init__(self, fork: _Fork, choice: _Choice, start: Registry) -> None:
        self.choice, self._start = choice, start
        self.explained, self.only_this, self.only_others = frozenset[str](), frozenset[str](), frozenset[str]()
        self._fork, self._registry, self._position = fork, start.copy(), fork.start
        self._timeline, self._starts = list[StateChange](), list[int]()
        self.moves = [m for name, number in choice.items() for m in fork.races[name].alternatives[number].moves]
        self._events = ordered(fork.events, self.moves)
        self._changed: Counter[object] = Counter()
        self._has_differed = False

    def advance(self, until: int) -> None:
        """Continue the replay until `until`, inclusive."""
        fork, span, self._position = self._fork, (self._position, until), until
        timeline, starts = replayed(fork.day, self._registry, between(self._events, *span), span)
        self._timeline += timeline
        self._starts += starts
        asked = [one for one in between(fork.observed, *span) if fork.part_of(one, one.answered) is not None]
        # From the start on: a question may have been asked before this span.
        before, part_of = self._start.copy(), fork.part_of
        verdicts = all_verdicts(before, self._timeline, asked, fork.day.namesrv, starts=self._starts, part_of=part_of)
        self.explained |= {one.observed.event_id for one in chosen(verdicts) if one.matched}
        self._changed.update(change for of in timeline for change in of.changes)

    def compare(self, best: _Course) -> bool:
        """Note the answers that only one of the two explains; return whether their registries, and so their futures, agree."""
        self.only_this, self.only_others = self.explained - best.explained, best.explained - self.explained
        one, other = self._registry, best._registry
        agrees = one.holds_the_same_as(other) and one.last_update_ms == other.last_update_ms
        self._has_differed |= not agrees
        return agrees

    def has(self, race: Race) -> bool:
        """Return whether its events are in the order chosen for `race`: another choice may have moved one of them, too."""
        alone = ordered(race.timed_events, race.alternatives[self.choice[race.decision_id]].moves)
        places = [self._places[timed.event_id] for timed in alone if timed.event_id in self._places]
        return places == sorted(places)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {timed.event_id: place for place, timed in enumerate(self._events)}

    def did_the_same_as(self, other: _Course) -> bool:
        """Return whether both made the same changes and explain the same answers."""
        differs = self._has_differed or self.only_this or self.only_others
        return not differs and self._changed == other._changed


def _decided(race: Race, taken: _Course, courses: Sequence[_Course]) -> Decided | None:
    """Return the decision with its evidence; None for an order that another decision undoes.

    None, too, for the default if other orders are unlikely or change nothing.
    """
    if not taken.has(race):
        return None
    number = taken.choice[race.decision_id]
    others = [course for course in courses if course.choice[race.decision_id] != number]
    if number == 0 and (race.is_far or (others and all(course.did_the_same_as(taken) for course in others))):
        return None
    found = (frozenset[str]().union(*(getattr(one, name) for one in others)) for name in ("only_others", "only_this"))
    return Decided(race, number, *(tuple(sorted(ids)) for ids in found))


def _bound(day: Day, last: int) -> int:
    return max(last, min(day.until_seq, last + _HORIZONS_S[-1] * 10**9))


def replayed(
    day: Day, registry: Registry, timed_events: Iterable[TimedEvent], span: tuple[int, int]
) -> tuple[list[StateChange], list[int]]:
    """Replay the events of `span`, without its first position; return the changes and the starts of the process."""
    after, until = span
    timeline, starts = [], []
    for timed, step in replay(
        registry, timed_events, day.namesrv, day.schedule, namesrv_id=day.namesrv_id, span=(after, until + 1)
    ):
        if type(timed.event) is NamesrvStarted:
            starts.append(timed.seq)
        if step.changes or isinstance(timed.event, _OF_NAMESRV):
            arrived = day.received[timed.event_id] if timed.event_id in day.answered else timed.seq
            timeline.append(StateChange(timed.seq, min(arrived, timed.seq), step.changes))
    return timeline, starts


def thawed(day: Day) -> Day:
    """Return the day with events that arrived during a stall of the name server moved to its end: none took effect before.

    Heartbeats of a broker whose connection goes on come first, even if they were answered a little later. Otherwise the
    scan that the server made up for would have found the lease ended and closed the connection.
    """
    moves = []
    owners = owners_of(day.namesrv, day.start, day.timed_events) if day.schedule.stalls else {}
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


def between(items: Sequence[Items], after: int, until: int) -> Sequence[Items]:
    """Return the items with a position after `after`, up to `until`; `items` are in order."""
    first = bisect_right(items, after, key=lambda item: item.seq)
    return items[first : bisect_right(items, until, key=lambda item: item.seq)]


def ordered(timed_events: Iterable[TimedEvent], moves: Iterable[Move]) -> list[TimedEvent]:
    """Return the events in the order after `moves`, with strictly increasing positions.

    What is to come before, or behind, one that moves comes before, or behind, it where it is then.
    """
    timed_events = list(timed_events)
    by_id = {move.event_id: move for move in moves}
    moved = {timed.seq: by_id[timed.event_id] for timed in timed_events if timed.event_id in by_id}

    def place(timed: TimedEvent) -> tuple[int, ...]:
        move = by_id.get(timed.event_id)
        if move is None:
            return timed.seq, 0, timed.seq, 0
        at = moved.get(move.seq)
        if at is None or at is move or move.side == 0:
            return move.seq, move.side, timed.seq, 0
        return at.seq, at.side, move.seq, move.side, timed.seq

    found: list[TimedEvent] = []
    last = -1
    for timed in sorted(timed_events, key=place):
        if (move := by_id.get(timed.event_id)) is not None:
            event = timed.event
            if move.looked_up is not None and isinstance(event, ChannelDestroyed):
                event = event._replace(looked_up=move.looked_up)
            at_seq = place(timed)[0]
            timed = timed._replace(seq=at_seq, effect_us=at_seq // NS_PER_US, event=event)  # noqa: PLW2901
        last = max(timed.seq, last + 1)
        found.append(timed._replace(seq=last))
    return found


# -- units -------------------------------------------------------------------------------------------------------------
# A unit is a set of brokers that share nothing with the others. Broker names, addresses and connections that occur together
# in an event, or in the registry, belong to one unit. It can be replayed without the others: with the events that concern
# it, on a registry of its rows only, and compared by its part of each answer.

Node = tuple[str, str | None]
"""A kind (name, addr, channel) and the broker name, address or channel id; of a question for a route, topic and its name."""
_SEEN = (events.AnswerObserved, events.ResponseObserved)


@dataclass(frozen=True, eq=False)
class Unit:
    """Brokers that belong together. `topics`: all that they register; `own_topics`: those that no other unit has at first.

    `are_listed`: whether queue data are in the order in which they came.
    """

    nodes: frozenset[Node]
    topics: frozenset[str | None]
    find_own_topics: Callable[[], Mapping[str | None, float]]
    are_listed: bool = False

    @cached_property
    def own_topics(self) -> Mapping[str | None, float]:
        """Return own topics with the position at which another unit registers them, which only lists of topics ask about."""
        return self.find_own_topics()

    @cached_property
    def names(self) -> frozenset[str | None]:
        """Return the broker names."""
        return frozenset(value for kind, value in self.nodes if kind == "name")

    @cached_property
    def addrs(self) -> frozenset[str | None]:
        """Return the brokers' addresses."""
        return frozenset(value for kind, value in self.nodes if kind == "addr")

    def own(self, registry: Registry) -> Registry:
        """Return a registry with the rows of this unit, and all KV entries. It counts as completely known."""
        own = Registry(registry.profile)
        rows: list[Change] = []
        for namespace, values in registry.kv_config_table.java_items():
            rows.append(Change("kv_config_table", (namespace, None), KvValue(None)))
            rows += [Change("kv_config_table", (namespace, key), value) for key, value in values.java_items()]
        queues = registry.topic_queue_table
        for topic in dict.fromkeys(topic for name in self.names for topic in queues.topics_of_name(name)):
            own_queues = ((name, data) for name, data in queues[topic].items() if name in self.names)
            rows += [Change("topic_queue_table", (topic, name), data) for name, data in own_queues]
        for name in self.names:
            for cluster in registry.cluster_addr_table.clusters_of_name(name):
                rows.append(Change("cluster_addr_table", (cluster, name), value=True))
            rows.append(Change("broker_addr_table", (name,), registry.broker_addr_table.get(name)))
        for topic, mappings in registry.topic_queue_mapping_info_table.items():
            for name in self.names.intersection(mappings):
                rows.append(Change("topic_queue_mapping_info_table", (topic, name), mappings[name]))
        for key, live in registry.broker_live_table.items():
            if key.broker_addr in self.addrs:
                rows.append(Change("broker_live_table", key, live))
        for key, servers in registry.filter_server_table.items():
            if key.broker_addr in self.addrs:
                rows.append(Change("filter_server_table", key, servers))
        own.apply(rows, 0, registry.last_update_ms)
        own.pending_unregister, own.scan_halted = registry.pending_unregister, registry.scan_halted
        return own

    def part_of(self, question: Question | events.Event, answered: Answer) -> object | None:
        """Return the part of an answer about this unit alone, for comparisons; None if there is none."""
        if not isinstance(question, Question):
            if self.nodes.isdisjoint(nodes_of(question)):
                return None
            is_registration = isinstance(question, events.RegisterBroker)  # its body shows KV entries
            return answered.code, answered.fields, None if is_registration else answered.body
        code, whole = question.code, (answered.code, answered.body)
        if code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
            return whole
        if code == RequestCode.GET_BROKER_MEMBER_GROUP:
            return whole if question.subject in self.names else None
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and question.subject not in self.topics:
            return None
        shown = shown_by(question, answered)
        if shown is None or isinstance(shown, ShownTopics):
            return shown and ShownTopics(shown.topics & self.own_topics.keys())
        own = shown_of(shown, self.names)
        if isinstance(own, ShownRoute):
            return own._replace(order_topic_conf=None), self.are_listed and [*own.queue_datas]
        return own


def unit_around(registry: Registry, met: Iterable[Node], named: Named[TimedEvent], span: tuple[int, int]) -> Unit:
    """Return the unit that contains `met`, joined by the registry and by the events of `span` after it."""
    channels = defaultdict[str | None, set[Node]](set)
    for key, live in registry.broker_live_table.items():
        channels[key.broker_addr].add(("channel", live.channel_id))
    nodes, new = set[Node](), {*met}
    while new:
        nodes |= new
        joined = {node for timed in named.of(new, span) for node in nodes_of(timed.event)}
        for kind, value in new:
            if kind == "name" and (group := registry.broker_addr_table.get(value)) is not None:
                joined |= {("addr", addr) for _, addr in group.broker_addrs}
            elif kind == "addr":
                joined |= channels[value] - {("channel", None)}
                joined |= {("name", name) for name in registry.broker_addr_table.names_of_addr(value)}
            elif kind == "channel" and value is not None:
                joined |= {("addr", key.broker_addr) for key in registry.broker_live_table.keys_of_channel(value)}
        new = joined - nodes
    names = frozenset(value for kind, value in nodes if kind == "name")
    topics = {topic for name in names for topic in registry.topic_queue_table.topics_of_name(name)}
    # Read each table of topics once: most registrations share theirs.
    tables = {id(of): of for _, name, of in _registered(named.of(nodes, span)) if name in names}
    topics.update(topic for table in tables.values() for topic in table.names)

    def own_topics() -> Mapping[str | None, float]:
        near = [*_registered(between(named.items, *span))][::-1]
        first = {id(of): (seq, of) for seq, name, of in near if name not in names}
        since = dict[str | None, float]()
        for seq, table in sorted(first.values(), key=itemgetter(0), reverse=True):
            since.update(dict.fromkeys(table.names, seq))
        held = registry.topic_queue_table
        return {t: since.get(t, inf) for t in topics if names.issuperset(held.names_of_topic(t))}

    return Unit(frozenset(nodes), frozenset(topics), own_topics, registry.profile.lists_queue_data)


def _registered(timed_events: Iterable[TimedEvent]) -> Iterator[tuple[int, str | None, TopicTable]]:
    """Yield the position, the broker name and the topics of each registration that has any."""
    for seq, event in ((timed.seq, timed.event) for timed in timed_events):
        if isinstance(event, events.RegisterBroker) and event.topics:
            yield seq, event.broker_name, event.topics


def concerned_by(event: events.Event) -> Iterable[Node | None]:
    """Return whom an event may affect: the brokers that it names, or everybody if it names none."""
    return nodes_of(event) or (() if isinstance(event, _SEEN) else (None,))


def _asked_about(question: Question | events.Event) -> Iterable[Node | None]:
    """Return whom the answer to a question may tell something about."""
    if not isinstance(question, Question):
        return nodes_of(question)
    if question.code == RequestCode.GET_BROKER_MEMBER_GROUP:
        return (("name", question.subject),)
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return (("topic", question.subject),)
    return (None,)


def nodes_of(event: events.Event) -> frozenset[Node]:
    """Return the broker names, addresses and connections that an event mentions."""
    if isinstance(event, events.RefreshRun):
        event = event.beat
    if isinstance(event, events.RegisterTopic):
        return frozenset(("name", name) for name, _ in event.queue_datas or ())
    fields = (("name", "broker_name"), ("addr", "broker_addr"), ("channel", "channel_id"))
    found = {(kind, getattr(event, field)) for kind, field in fields if hasattr(event, field)}
    if isinstance(event, events.ChannelDestroyed):
        found.add(("addr", event.remote_addr))  # 4.x treats it as a broker's
    return frozenset(found - {("channel", None)})
