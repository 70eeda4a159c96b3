"""The one loop: ordered events in, what each of them did out; and what it learns from answers about a past that was not recorded.

Ticks of the periodic scan are events too. They are not recorded anywhere, so the loop makes those that can expire
something, in between.

While a name server's past is unknown, each of its answers is compared with the registry. An answer that differs only
in unknown rows corrects the registry, and the rows that it shows are known from then on. An answer that differs in a
known row corrects nothing; the verification reports it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from namesrv_core.asking.answers import (
    LIST_CODES,
    acts_for,
    answer,
    answer_to,
    pickup_topic_route_data,
    route_answer,
    routed,
)
from namesrv_core.asking.shown import (
    SHOWING_CODES,
    Shown,
    ShownCluster,
    ShownRoute,
    ShownTopics,
    entries_shown,
    same_json,
    shown_by,
    shown_in,
)
from namesrv_core.history.intervals import TABLE_OF
from namesrv_core.history.verification import parts_read
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode
from namesrv_core.machine.events import NS_PER_MS, NS_PER_US, US_PER_MS, Event, RefreshRun, ScanNotActiveBroker
from namesrv_core.machine.past import ACTING, ANY, CLUSTER, GROUP, SETTLED, Entity, Mark, Part, Past, TablePart, as_text
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import NOTHING_CERTAIN, Change, Outcome, Registry, Step
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG, apply_step, live_key_of, step
from namesrv_core.machine.tables import MASTER_ID, PERM_WRITE, BrokerData, KvValue, LiveKey, QueueData
from namesrv_core.replay.belief import Belief, Evidence, certainty_of, doubt_what_went_silently, learn, rows_known

_KEPT_QUESTIONS = 10_000
Key = tuple[str, Part, Part]  # an Entity as a plain tuple: answers show many rows, most of them known already
_TOPIC = "topic"  # kind of Entity (topic, None): whether it is in a list of topics
_NOTHING_NEW = Step(Outcome.NO_EFFECT, certainty=NOTHING_CERTAIN)


def assimilate(belief: Belief, event: events.AnswerObserved) -> Step:
    """Return what an answer corrects in the registry; `result` is its Evidence, if there is any.

    An answer corrects nothing if an event took effect between question and answer: it may show the state before or
    after that. Nor does a route of one zone: it lacks the brokers of others. Acting masters are not taken over, because a route
    shows them under the master's id.
    """
    past, question, answered = belief.past, event.question, event.answered
    if question.code == RequestCode.GET_KVLIST_BY_NAMESPACE:
        namespace, outcome, entries = question.subject, _outcome_of(belief, event), entries_shown(answered)
        says_nothing = outcome == Outcome.NO_EFFECT and past.knows_all("kv_config", namespace)
        if entries is None or says_nothing or past.last_effect_ms >= event.request_seq // NS_PER_MS:
            return Step(outcome)
        changes = entries_corrected(belief.registry, namespace, entries) if outcome == Outcome.UNKNOWN_PAST else ()
        marks = _known(("kv_config", namespace, key) for key in (ANY, None, *entries))
        return Step(outcome, tuple(changes), result=Evidence(marks, None))
    in_zone = question.scope is not None and belief.namesrv.profile.filters_routes_by_zone
    if question.code not in SHOWING_CODES or in_zone:
        return Step(_outcome_of(belief, event))
    read = past.readings.get(question)
    if isinstance(read, _Read) and read.answered == answered:
        if read.compared is not None and read.compared.holds(belief):
            return _NOTHING_NEW
        shown: Shown | None = read.shown
    else:
        shown = _shown(belief, question, answered)
    if shown is None:
        return Step(Outcome.NO_EFFECT)
    if question not in past.readings and len(past.readings) >= _KEPT_QUESTIONS:
        del past.readings[next(iter(past.readings))]
    reading = _Reading(belief, event, shown)
    step = reading.step()
    past.readings[question] = _Read(answered, shown, reading.compared() if step is _NOTHING_NEW else None)
    return step


def _shown(belief: Belief, question: Question, answered: Answer) -> Shown | None:
    """Return the rows that an answer shows. A route that is the registry's own, as most are, need not be read."""
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        route = pickup_topic_route_data(belief.registry, question.subject, belief.namesrv)
        if route is not None and answered == route_answer(route, question, belief.namesrv):
            return shown_in(route)
    return shown_by(question, answered)


class Difference(NamedTuple):
    """A row with its value in the registry (`held`) and in the answer (`shown`); None: there is no row."""

    entity: Entity
    held: object | None
    shown: object | None


class _Compared(NamedTuple):
    """What was compared with the registry, found equal, and told nothing new. While it holds, that is so again.

    It holds until one of `parts` of the registry changes after change `since`, anything becomes doubtful after
    `doubt`, or the first member settles (`until_ms`).
    """

    parts: Sequence[TablePart]
    namesrv: Namesrv
    since: int
    doubt: int
    until_ms: float

    def holds(self, belief: Belief) -> bool:
        past = belief.past
        is_as_it_was = (self.namesrv, self.doubt) == (belief.namesrv, past.last_doubt) and past.now_ms <= self.until_ms
        return is_as_it_was and past.versions.unchanged_since(self.since, self.parts)


class _Read(NamedTuple):
    """The last answer to a question and the rows that it shows. `compared` None: it told something, or more was compared."""

    answered: Answer
    shown: Shown
    compared: _Compared | None


def _outcome_of(belief: Belief, event: events.AnswerObserved) -> Literal[Outcome.UNKNOWN_PAST, Outcome.NO_EFFECT]:
    """Return UNKNOWN_PAST if an answer without whole rows differs and may depend on something unknown."""
    question, answered = event.question, event.answered
    expected = answer(belief.registry, question, belief.namesrv)
    is_list = question.code in LIST_CODES
    differs = answered.fields != expected.fields or not same_json(answered.body, expected.body, ordered=False)
    if answered.code != expected.code:
        differs = not is_list  # lists may be disabled by configuration
    if not differs or belief.knows_all_of(question):
        return Outcome.NO_EFFECT
    return Outcome.UNKNOWN_PAST


class _Reading:
    """One answer compared with the registry. `until_ms`: when the first of its members without a live entry settles."""

    def __init__(self, belief: Belief, event: events.AnswerObserved, shown: Shown) -> None:
        self.belief, self.shown = belief, shown
        self.registry, self.past, self.namesrv = belief.registry, belief.past, belief.namesrv
        self.asked_ms = event.request_seq // NS_PER_MS
        self.question, self.topic = event.question, event.question.subject
        self.until_ms, self._acts = math.inf, False
        self._names = list(self._names_to_compare(shown)) if isinstance(shown, ShownRoute) else []

    def step(self) -> Step:
        """Return the step with the corrections and the evidence of the answer."""
        shown = self.shown
        differences = [pair for pair in self._pairs() if pair.held != pair.shown]
        # Amid an event it may show what is known as it was before that: then the verification decides, if it is all that differs.
        is_amid = self.past.last_effect_ms >= self.asked_ms
        if differences and (all if is_amid else any)(map(self.is_known, differences)):
            return Step(Outcome.NO_EFFECT)
        outcome = Outcome.UNKNOWN_PAST if differences else Outcome.NO_EFFECT
        if is_amid:
            return Step(outcome)
        listed = shown.topics if isinstance(shown, ShownTopics) else None
        reordered = tuple(self._reordered(shown)) if isinstance(shown, ShownRoute) else ()
        if not differences and not reordered:
            new = [*self.past.new_among(self._known_beside_groups()), *self._new_in_groups()]
            if listed is None and not new:
                return _NOTHING_NEW
            marks = _known(new)
            return Step(outcome, result=Evidence(marks, listed), certainty=certainty_of(rows_known(marks)))
        marks = (*self.doubts(differences), *_known(self.known_by()))
        changes = (*self.corrections(differences), *reordered)
        return Step(Outcome.UNKNOWN_PAST, changes, result=Evidence(marks, listed))

    def compared(self) -> _Compared | None:
        """Return that the answer told nothing new; None: it was compared with more than parts of the registry."""
        if self._acts:
            return None
        if isinstance(self.shown, ShownCluster):
            return self._compared([("broker_addr_table",), ("cluster_addr_table",), ("broker_live_table",)])
        parts = parts_read(self.question, self._rows_of(self.topic)) or ()
        return self._compared([*parts, *_live_parts(self.shown.groups.values())])  # type: ignore[union-attr]

    def _compared(self, parts: Sequence[TablePart]) -> _Compared:
        return _Compared(parts, self.namesrv, self.past.versions.number, self.past.last_doubt, self.until_ms)

    def _names_to_compare(self, shown: ShownRoute) -> Iterator[str | None]:
        """Yield the names of a route's groups, without those that were compared before and are as they were.

        A name with queue data has a group: a route without it ended with one that has no address (`pickup_topic_route_data`).
        """
        for name in filter(shown.groups.__contains__, shown.queue_datas):
            group, compared = self.past.groups_read.get(name, (None, None))
            if group == shown.groups[name] and compared.holds(self.belief) and not self._may_act(name, shown):
                self.until_ms = min(self.until_ms, compared.until_ms)
            else:
                yield name

    def _new_in_groups(self) -> Iterator[Key]:
        """Yield what a route that equals the registry makes known of its groups."""
        shown: Any = self.shown
        for name in self._names:
            new = self.past.new_among(self._known_of(name, shown))
            if not new and not self._may_act(name, shown):
                group = shown.groups[name]
                parts = [("broker_addr_table", name), *_live_parts([group])]
                self.past.groups_read[name] = group, self._compared(parts)
            yield from new

    # -- differences -----------------------------------------------------------------------------------------------

    def _pairs(self) -> Iterator[Difference]:
        """Yield each row in the registry or the answer with both values, equal ones included."""
        shown = self.shown
        groups, clusters = self.registry.broker_addr_table, self.registry.cluster_addr_table
        if isinstance(shown, ShownCluster):
            for name in (*groups, *(name for name in shown.groups if name not in groups)):
                yield from _group_pairs(name, groups.get(name), shown.groups.get(name))
            for cluster in (*clusters, *(cluster for cluster in shown.clusters if cluster not in clusters)):
                names = dict.fromkeys(shown.clusters.get(cluster, ()), True)
                yield from _pairs("cluster_addr", cluster, clusters.get(cluster), names)
            return
        if isinstance(shown, ShownTopics):
            topics = self.registry.topic_queue_table.keys()
            for topic in () if topics == shown.topics else (*topics, *(shown.topics - topics)):
                if (present := topic in shown.topics) != (topic in topics):
                    yield Difference(Entity(_TOPIC, topic, None), None if present else True, True if present else None)
            return
        for name in self._names:
            if self._may_act(name, shown):
                yield from self._acting_pairs(name, shown)
            else:
                yield from _group_pairs(name, groups.get(name), shown.groups[name])
        yield from _pairs("topic_queue", self.topic, self._rows_of(self.topic), shown.queue_datas)
        for key in (
            self._keys_of(shown.groups.values()) if self.registry.filter_server_table or shown.filter_servers else ()
        ):
            servers = self.registry.filter_server_table.get(key)
            yield Difference(Entity("filter_server", *key), servers, shown.filter_servers.get(key.broker_addr))
        if self.namesrv.config.order_message_enable and shown.queue_datas:
            entry = self.registry.kv_config_table.row((ORDER_TOPIC_CONFIG, self.topic))
            text = None if entry is None else entry.text
            yield Difference(Entity("kv_config", ORDER_TOPIC_CONFIG, self.topic), text, shown.order_topic_conf)
        if shown.queue_datas:
            mappings = self.registry.topic_queue_mapping_info_table.get(self.topic)
            yield from _pairs("topic_queue_mapping", self.topic, mappings, shown.mappings)

    def _acting_pairs(self, name: str | None, shown: ShownRoute) -> Iterator[Difference]:
        """Compare a group that may have an acting master: in a route's form if all members are known, else by true ids."""
        self._acts = True
        held, group = self.registry.broker_addr_table.get(name), shown.groups[name]
        if held is not None and self.belief.knows_members(name):
            yield from _group_pairs(name, routed(held, shown.queue_datas.get(name)), group)
            return
        if (true := self._true_group(name, shown)) is not None:
            yield from _group_pairs(name, held, true)
        acting = group.addr_of[MASTER_ID]
        if held is None or acting not in held.addr_of.values():
            yield Difference(Entity("broker_addr", name, ANY), None, acting)

    def is_known(self, difference: Difference) -> bool:
        """Return whether the registry's value is reliable, so that the answer cannot correct it."""
        entity, held, _ = difference
        if entity.kind != _TOPIC:
            return self.belief.is_known(entity, present=held is not None)
        if held is None:  # that a topic does not exist is known if all its rows are, that it does if one is
            return self.past.hears and self.past.knows_all("topic_queue", entity.one)
        rows = (Entity("topic_queue", entity.one, name) for name in self._rows_of(entity.one))
        return any(self.belief.is_known(row, present=True) for row in rows)

    def _rows_of(self, topic: Part) -> Mapping[str | None, QueueData]:
        return self.registry.topic_queue_table.get(topic) or {}  # type: ignore[arg-type]

    # -- what becomes known ----------------------------------------------------------------------------------------

    def doubts(self, differences: list[Difference]) -> Iterator[Mark]:
        """Yield doubts about the queue data of groups that lost a member: losing the master clears the write bit (5.x)."""
        if self.namesrv.profile.batches_unregistrations:
            for entity, held, shown in differences:
                if entity.kind == "broker_addr" and held is not None and shown is None:
                    yield Mark(Entity("topic_queue", ANY, entity.one), known=False)

    def known_by(self) -> Iterator[Key]:
        """Yield the entities that the answer makes known, whether they differ or not."""
        yield from self._known_beside_groups()
        if isinstance(self.shown, ShownRoute):
            for name in filter(self.shown.groups.__contains__, self.shown.queue_datas):
                yield from self._known_of(name, self.shown)

    def _known_beside_groups(self) -> Iterator[Key]:
        """Yield what the answer makes known but the groups of a route."""
        shown = self.shown
        if isinstance(shown, ShownCluster):
            for kind in ("broker_addr", GROUP, "cluster_addr"):
                yield (kind, ANY, ANY)
            for name, group in shown.groups.items():
                yield from self._known_members(name, group)
            for name in self.registry.broker_addr_table:
                if name not in shown.groups:
                    yield ("topic_queue", ANY, name)
            for cluster, names in shown.clusters.items():
                yield from (("cluster_addr", cluster, name) for name in names)
        if not isinstance(shown, ShownRoute):
            return
        yield ("topic_queue", self.topic, ANY)
        yield from (("topic_queue", self.topic, name) for name in shown.queue_datas)
        if shown.queue_datas:
            yield ("topic_queue_mapping", self.topic, ANY)
            yield from (("topic_queue_mapping", self.topic, bname) for bname in shown.mappings)
            if self.namesrv.config.order_message_enable:
                yield ("kv_config", ORDER_TOPIC_CONFIG, self.topic)

    def _known_of(self, name: str | None, shown: ShownRoute) -> Iterator[Key]:
        """Yield what a route makes known of a group."""
        yield from (("filter_server", *key) for key in self._keys_of([shown.groups[name]]))
        true = self._true_group(name, shown)
        if true is not None:
            yield (GROUP, name, ANY)
            if not self._may_act(name, shown):
                yield ("broker_addr", name, ANY)
            yield from self._known_members(name, true)

    def _known_members(self, name: str | None, group: BrokerData | None) -> Iterator[Key]:
        for broker_id, addr in () if group is None else group.broker_addrs:
            yield ("broker_addr", name, broker_id)
            key = live_key_of(self.namesrv, group.cluster_name, addr)  # type: ignore[union-attr]  # it has members
            if key in self.registry.broker_live_table and self.past.has_mark("broker_live", *key):
                # Its registration may have been refused. The address in the answer shows that it was not. Of an entry from
                # before a gap, which has no mark, it says nothing.
                yield from (("broker_live", *key), (SETTLED, *key))
            elif self.past.now_ms > (gone_ms := self.belief.gone_ms(key)):
                yield (SETTLED, *key)
            else:
                self.until_ms = min(self.until_ms, gone_ms)

    # -- corrections -----------------------------------------------------------------------------------------------

    def corrections(self, differences: list[Difference]) -> Iterator[Change]:
        """Yield the changes that bring the registry into line with the answer, groups before their queue data.

        A list of topics removes the topics that it does not name. It cannot add any: it does not show their rows.
        """
        shown = self.shown
        if isinstance(shown, ShownTopics):
            for difference in differences:
                for name in self._rows_of(difference.entity.one):
                    yield Change("topic_queue_table", (as_text(difference.entity.one), name), None)
            return
        for name in dict.fromkeys(
            as_text(d.entity.one) for d in differences if d.entity.kind in ("broker_addr", GROUP)
        ):
            group = self._true_group(name, shown) if isinstance(shown, ShownRoute) else shown.groups.get(name)
            if group is None and name in shown.groups:
                continue
            yield Change("broker_addr_table", (name,), group)
            for topic in self.registry.topic_queue_table.topics_of_name(name) if group is None else ():
                yield Change("topic_queue_table", (topic, name), None)
        for entity, _, value in differences:
            if entity.kind == "kv_config":
                if ORDER_TOPIC_CONFIG not in self.registry.kv_config_table:
                    yield Change("kv_config_table", (ORDER_TOPIC_CONFIG, None), KvValue(None))
                value = None if value is None else KvValue(as_text(value))  # noqa: PLW2901  a text in answers
            if entity.kind in TABLE_OF:
                yield Change(TABLE_OF[entity.kind], (as_text(entity.one), as_text(entity.other)), value)

    def _reordered(self, shown: ShownRoute) -> Iterator[Change]:
        """Yield changes that put listed queue data in the order shown, from the first misplaced one on (before 4.9.4)."""
        if not self.namesrv.profile.lists_queue_data:
            return
        rows = self.registry.topic_queue_table.get(self.topic)
        held = [name for name in (() if rows is None else rows.java_keys()) if name in shown.queue_datas]
        names = list(shown.queue_datas)
        same = next((at for at, name in enumerate(held) if name != names[at]), None)
        for name in () if same is None else names[same:]:
            yield Change("topic_queue_table", (as_text(self.topic), name), None)
            yield Change("topic_queue_table", (as_text(self.topic), name), shown.queue_datas[name])

    # -- acting masters --------------------------------------------------------------------------------------------

    def _may_act(self, name: object, shown: ShownRoute) -> bool:
        """Return whether the route may show a slave of `name` as its master."""
        group = shown.groups.get(name)  # type: ignore[call-overload]
        data = shown.queue_datas.get(name)  # type: ignore[call-overload]
        return (
            acts_for(self.topic, self.namesrv)
            and group is not None
            and group.enable_acting_master
            and MASTER_ID in group.addr_of
            and (data is None or not data.perm & PERM_WRITE)
        )

    def _true_group(self, name: str | None, shown: ShownRoute) -> BrokerData | None:
        """Return the group as far as a route shows it, with the id of an acting master from the registry.

        None if the route has no such group, or shows only an acting master whose id the registry does not know.
        """
        group = shown.groups.get(name)
        if group is None or not self._may_act(name, shown):
            return group
        held = self.registry.broker_addr_table.get(name)
        acting = group.addr_of[MASTER_ID]
        # With other flags a member has registered since, maybe this one as master.
        is_as_it_was = held is not None and held[2:] == group[2:]
        believed = tuple(member for member in held.broker_addrs if member[1] == acting) if held and is_as_it_was else ()
        members = (*believed, *(member for member in group.broker_addrs if member[0] != MASTER_ID))
        return group._replace(broker_addrs=members) if members else None

    def _keys_of(self, groups: Iterable[BrokerData]) -> list[LiveKey]:
        """Return the live keys of the addresses in groups, under which their filter servers are stored."""
        return [
            live_key_of(self.namesrv, group.cluster_name, addr) for group in groups for _, addr in group.broker_addrs
        ]


def _pairs(
    kind: str, one: str | None, held: Mapping[str | None, object] | None, shown: Mapping[str | None, object]
) -> Iterator[Difference]:
    held = {} if held is None else held
    if held == shown:
        return
    for other in (*held, *(key for key in shown if key not in held)):
        yield Difference(Entity(kind, one, other), held.get(other), shown.get(other))


def _group_pairs(name: str | None, held: BrokerData | None, shown: BrokerData | None) -> Iterator[Difference]:
    if held == shown:
        return
    held_addrs: dict[int, str | None] = {} if held is None else held.addr_of
    shown_addrs: dict[int, str | None] = {} if shown is None else shown.addr_of
    for broker_id in (*held_addrs, *(number for number in shown_addrs if number not in held_addrs)):
        yield Difference(Entity("broker_addr", name, broker_id), held_addrs.get(broker_id), shown_addrs.get(broker_id))
    for part, what in ((CLUSTER, lambda group: (group.cluster_name,)), (ACTING, lambda group: group[2:])):
        yield Difference(
            Entity(GROUP, name, part), None if held is None else what(held), None if shown is None else what(shown)
        )


def _live_parts(groups: Iterable[BrokerData]) -> Iterator[TablePart]:
    """Yield the parts of the registry with the live entries of groups."""
    return (("broker_live_table", addr) for group in groups for _, addr in group.broker_addrs)


def _known(keys: Iterable[Key]) -> tuple[Mark, ...]:
    return tuple(Mark(Entity(*key)) for key in keys)


# -- responses ---------------------------------------------------------------------------------------------------------


def assimilate_response(belief: Belief, event: events.ResponseObserved) -> Step:
    """Return what the response to a request just applied corrects; `result` is its Evidence, if there is any.

    The response to a registration shows the whole order configuration, and to a slave its master, but not the master's
    live entry. The response to a version query, which creates no live entry, corrects nothing.
    """
    registry, past, namesrv = belief.registry, belief.past, belief.namesrv
    asked, answered = event
    expected = answer_to(asked, step(registry, asked, past.now_ms, namesrv), registry, namesrv)
    if isinstance(asked, events.QueryDataVersion):
        key = live_key_of(namesrv, asked.cluster_name, asked.broker_addr)
        is_unknown = (answered.body, answered.fields) != (expected.body, expected.fields) and not past.knows(
            "broker_live", *key
        )
        return Step(Outcome.UNKNOWN_PAST if is_unknown else Outcome.NO_EFFECT)
    if isinstance(asked, (events.WipeWritePerm, events.AddWritePerm)):  # answered with the broker name's topic count
        is_unknown = answered.fields != expected.fields and not past.knows_all_topics()
        return Step(Outcome.UNKNOWN_PAST if is_unknown else Outcome.NO_EFFECT)
    changes: list[Change] = []
    marks: list[Mark] = []
    unknown: list[bool] = []
    if answered.code != expected.code:  # a lone topic is refused only if the id is new to the group
        unknown.append(not past.knows("broker_addr", asked.broker_name, asked.broker_id))
    elif answered.fields != expected.fields:
        # What it shows is known if the group's master is, or its absence, and also the master's live entry. A master is shown
        # only with its live entry, so the one shown is known not to be there if its entry is.
        group, shown_addr = registry.broker_addr_table.get(asked.broker_name), dict(answered.fields).get("masterAddr")
        addr = None if group is None else group.addr_of.get(MASTER_ID)
        key = live_key_of(namesrv, asked.cluster_name, addr)
        knows_entry = addr is None or (past.knows("broker_live", *key) and belief.has_settled(key))
        shown_key = live_key_of(namesrv, asked.cluster_name, shown_addr)
        has_gone = shown_addr is not None and shown_key not in registry.broker_live_table
        has_gone &= past.knows("broker_live", *shown_key) and belief.has_settled(shown_key)
        is_known = knows_entry and past.knows("broker_addr", asked.broker_name, MASTER_ID)
        unknown.append(not (is_known or has_gone))
        if group is not None and shown_addr not in (None, addr):
            slaves = (member for member in group.broker_addrs if member[0] != MASTER_ID)
            shown_group = group._replace(broker_addrs=((MASTER_ID, shown_addr), *slaves))
            changes.append(Change("broker_addr_table", (asked.broker_name,), shown_group))
            marks.append(Mark(Entity("broker_addr", asked.broker_name, MASTER_ID)))
    if not same_json(answered.body, expected.body, ordered=False):
        unknown.append(not past.knows_all("kv_config", ORDER_TOPIC_CONFIG))
    if not all(unknown):
        return Step(Outcome.NO_EFFECT)
    if answered.body is not None and (shown := entries_shown(answered)) is not None:
        changes += entries_corrected(registry, ORDER_TOPIC_CONFIG, shown)
        marks += [Mark(Entity("kv_config", ORDER_TOPIC_CONFIG, topic)) for topic in shown]
        marks.append(Mark(Entity("kv_config", ORDER_TOPIC_CONFIG, ANY)))
    outcome = Outcome.UNKNOWN_PAST if unknown else Outcome.NO_EFFECT
    return Step(outcome, tuple(changes), result=Evidence(tuple(marks)))


def entries_corrected(registry: Registry, namespace: str | None, shown: Mapping[str, str | None]) -> Iterator[Change]:
    """Yield changes that make a namespace's KV entries those of a list; null values, which no list shows, stay."""
    held: Mapping[str | None, KvValue] = registry.kv_config_table.get(namespace) or {}
    if namespace not in registry.kv_config_table:
        yield Change("kv_config_table", (namespace, None), KvValue(None))
    listed: dict[str | None, KvValue] = {key: KvValue(text) for key, text in shown.items()}
    for key in dict.fromkeys((*held, *listed)):
        value, was = listed.get(key), held.get(key)
        if value != was and (value, was) != (None, KvValue(None)):
            yield Change("kv_config_table", (namespace, key), value)


class TimedEvent(NamedTuple):
    """An event with its position (`seq`), its id, and the instant (microseconds since the epoch) of its effect."""

    seq: int
    event_id: str
    effect_us: int
    event: Event


class Taken(NamedTuple):
    """An event and what it did."""

    timed: TimedEvent
    step: Step


class OrderError(ValueError):
    """Events that do not come in strictly increasing order."""


def replay(
    registry: Registry,
    timed_events: Iterable[TimedEvent],
    namesrv: Namesrv,
    schedule: ScanSchedule | None = None,
    *,
    namesrv_id: str = "",
    span: tuple[int, int | None] = (0, None),
) -> Iterator[Taken]:
    """Apply `timed_events` to `registry` and yield each with its step, scans in between included.

    Scans run in the `span`: from where a registry that was carried over is, until the end of what is known. Raises
    OrderError where (seq, event_id) does not increase.
    """
    position, until_seq = span
    has_changed = True  # since the last tick

    def scans_before(seq: int) -> Iterator[Taken]:
        """Run the ticks before `seq` that can expire something."""
        nonlocal position, has_changed
        is_logged = registry.past is not None and registry.past.is_logged  # the log says what scans removed
        while schedule is not None and not registry.scan_halted and not is_logged:
            # A live entry that a scan could not remove is worth another tick only after something else has changed.
            # One of these may be renewed, and end again before any other does.
            lease_end = 0 if has_changed and registry.broker_live_table.has_ended_leases else registry.next_lease_end()
            if lease_end is None or lease_end * NS_PER_MS >= seq:
                return
            tick = schedule.first_tick(position, lease_end)
            if tick is None or tick >= seq:
                return
            began_ms = schedule.began_ms(tick)
            timed = TimedEvent(
                tick, scan_id(namesrv_id, tick), tick // NS_PER_US, ScanNotActiveBroker(began_ms=began_ms)
            )
            step = take(registry, timed.event, schedule.judged_ms(tick), namesrv.at(tick))
            position, has_changed = tick, bool(step.changes) or began_ms is not None
            if step.changes:
                yield Taken(timed, step)

    last_seq, last_id = -1, ""
    for timed in timed_events:
        seq, event_id, effect_us, event = timed
        if seq <= last_seq and (seq < last_seq or event_id <= last_id):
            raise OrderError(
                f"seq {seq} ({event_id}) after {last_seq} ({last_id}) at {namesrv_id}: events must be strictly increasing"
            )
        last_seq, last_id = seq, event_id
        yield from scans_before(seq)
        since_ms = seq // NS_PER_MS if type(event) is RefreshRun else None
        step = take(registry, event, effect_us // US_PER_MS, namesrv.at(seq), since_ms)
        position, has_changed = seq, has_changed or bool(step.changes)
        yield Taken(timed, step)
    if until_seq is not None:
        yield from scans_before(until_seq)


def scan_id(namesrv_id: str, tick: int) -> str:
    """Return the event id of the scan of `namesrv_id` at position `tick`."""
    return hashlib.sha256(f"scan {namesrv_id} {tick}".encode()).hexdigest()[:32]


# -- one event ---------------------------------------------------------------------------------------------------------

_SINCE_5X = (events.BrokerHeartbeat, events.RegisterTopic)


def is_unknown(event: events.Event, namesrv: Namesrv) -> bool:
    """Return whether a request, or a run of such, is one that the release does not know: 4.x does nothing then.

    Source: RocketMQ 4.9.7 DefaultRequestProcessor.processRequest.
    """
    asked = event.beat if isinstance(event, events.RefreshRun) else event
    if isinstance(asked, events.AddWritePerm):
        return not namesrv.profile.has_add_write_perm
    return isinstance(asked, _SINCE_5X) and not namesrv.profile.has_topic_registration


def take(registry: Registry, event: events.Event, at_ms: int, namesrv: Namesrv, since_ms: int | None = None) -> Step:
    """Return what `event` at `at_ms` (epoch milliseconds) does to `registry`, after applying it.

    `since_ms`: of a run, when its first heartbeat came: from then on counts what it tells of the past.

    What a gap in the recording leaves is applied by itself. Raises KeyError for something that is not an event.
    """
    if type(event) is events.RecordingGap:
        return _pass_over(registry, event, at_ms)
    if is_unknown(event, namesrv):
        return Step(Outcome.NO_EFFECT)
    if registry.past is None:
        taken = step(registry, event, at_ms, namesrv)
    else:
        belief = Belief(registry, registry.past, namesrv)
        single = event.beat if isinstance(event, events.RefreshRun) else event
        doubt_what_went_silently(belief, single, at_ms if since_ms is None else since_ms)
        if isinstance(event, events.AnswerObserved):
            taken = assimilate(belief, event)
        elif isinstance(event, events.ResponseObserved):
            taken = assimilate_response(belief, event)
        else:
            taken = step(registry, event, at_ms, namesrv)
        taken = learn(belief, single, taken, at_ms)
    apply_step(registry, event, taken, at_ms, namesrv)
    return taken


def _pass_over(registry: Registry, event: events.RecordingGap, at_ms: int) -> Step:
    """Take the gap that begins at `at_ms`: from its end on nothing is known but what events and answers show.

    What was held when it began is the best guess. Nothing is invented for the time between, least of all an outage of all brokers.
    A lease that had not ended when the gap began counts from its end: the broker may have beaten until then. One that had
    ended goes with the next scan, as it would have.
    """
    # Of a gap of a millisecond, which one event leaves, others may come before its end.
    beat_ms = event.until_ms if event.until_ms > at_ms + 1 else min(event.until_ms, at_ms)
    for key, live in registry.broker_live_table.items():
        if registry.last_update_ms[key] + live.lease_ms >= at_ms:
            registry.broker_live_table.refresh(key, max(beat_ms, registry.last_update_ms[key]))
    registry.past = Past(event.until_ms)
    return Step(Outcome.UNRECORDED, result=event.until_ms)
