"""How far a registry that is a best guess can be relied on: which rows can go without a recorded event.

A broker may have registered before the recording began, over a connection that is not known to be its own. A scan, or
the end of that connection, then removes it without an event that tells. Until its live entry has been seen, or must
have ended, its place in its group is known only at the instant of an answer that shows it. If only answers are
recorded, this holds for every row: rows come, change and go unseen between answers.

A transition works on the best guess. `learn` decides how far its effect is certain. An event that determines a row
whatever was there before makes the row known; an event whose effect depends on something unknown makes rows doubtful.
Nothing counts as known because it is likely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from namesrv_core.history.intervals import HISTORY_OF
from namesrv_core.machine import events
from namesrv_core.machine.codes import Question, RequestCode
from namesrv_core.machine.past import ACTING, ANY, GROUP, ROUTE_KINDS, SETTLED, Entity, Mark, Part, Past, as_text
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import NOTHING_CERTAIN, Certainty, Change, Outcome, Registry, Step
from namesrv_core.machine.step import config_changed, live_key_of
from namesrv_core.machine.tables import MASTER_ID, PERM_WRITE, BrokerData, LiveKey

_HEARTBEATS = (events.BrokerHeartbeat, events.QueryDataVersion)
_ABOUT_ONE_NAME = (events.RegisterBroker, events.UnregisterBroker)
_REMOVALS = (events.UnregisterBroker, events.ChannelDestroyed, events.ScanNotActiveBroker)
# So long after another thread was to remove a broker an answer may still show it (see `inference.races`).
_REMOVAL_LAG_MS = 100


class Evidence(NamedTuple):
    """Knowledge from an answer: marks; `listed`: the topics of a complete list."""

    marks: tuple[Mark, ...] = ()
    listed: frozenset[str | None] | None = None


class Unseen(NamedTuple):
    """Rows of a broker name that may go, or have gone, unseen: members by id, the whole group, its queue data."""

    ids: Collection[int] = ()
    group: bool = False
    topics: bool = False


_NOTHING = Unseen()


@dataclass(slots=True)
class Belief:
    """The best guess at a name server's registry; `past`: what is known of it."""

    registry: Registry
    past: Past
    namesrv: Namesrv

    def has_settled(self, key: LiveKey) -> bool:
        """Return whether the entry under `key`, or its absence, stays as it is until a recorded event changes it.

        An ended lease waits for a scan. While the scan's phase is unknown, the time of that scan is unknown, too.
        """
        past, registry = self.past, self.registry
        if not past.knows(SETTLED, *key):
            return False
        live = registry.broker_live_table.get(key)
        return bool(past.phase_known) or live is None or registry.last_update_ms[key] + live.lease_ms >= past.now_ms

    def unseen_of(self, name: str | None) -> Unseen:
        """Return the rows of `name` that may go, or have gone, unseen.

        Queue data go with the group. In 5.x they lose the write bit if the group has no master and may have an acting one.
        """
        group = self.registry.broker_addr_table.get(name)
        if group is None:
            return _NOTHING
        ids = [
            broker_id
            for broker_id, addr in group.broker_addrs
            if not self.has_settled(live_key_of(self.namesrv, group.cluster_name, addr))
        ]
        if not ids:
            return _NOTHING
        is_all = len(ids) == len(group.broker_addrs)
        has_master = MASTER_ID in group.addr_of and MASTER_ID not in ids
        may_act = self.namesrv.profile.batches_unregistrations and (
            group.enable_acting_master or not self.past.knows(GROUP, name, ACTING)
        )
        return Unseen(ids, is_all, is_all or (may_act and not has_master))

    def doubt(self, name: str | None) -> None:
        """Mark the rows of `name` that may have gone unseen as doubtful."""
        unseen = self.unseen_of(name)
        doubted = [Entity("broker_addr", name, broker_id) for broker_id in unseen.ids]
        if unseen.group:
            doubted += [Entity(GROUP, name, ANY), Entity("cluster_addr", ANY, name)]
        if unseen.topics:
            doubted.append(Entity("topic_queue", ANY, name))
        self.past.note(Mark(entity, known=False) for entity in doubted)

    def settle_the_silent(self) -> None:
        """Settle members silent for longer than any lease: their entries must have ended, and rows gone with them are doubtful."""
        past = self.past
        if past.now_ms <= past.settle_ms:
            return
        past.settle_ms = past.now_ms + past.longest_lease_ms
        for name, group in self.registry.broker_addr_table.items():
            keys = [live_key_of(self.namesrv, group.cluster_name, addr) for _, addr in group.broker_addrs]
            silent = [key for key in keys if not past.knows(SETTLED, *key)]
            if not silent:
                continue
            self.doubt(name)
            for key in silent:
                gone_ms = self.gone_ms(key)
                if past.now_ms > gone_ms:
                    past.note([Mark(Entity(SETTLED, *key))])
                else:
                    past.settle_ms = min(past.settle_ms, gone_ms)

    def gone_ms(self, key: LiveKey) -> int:
        """Return the instant (ms) by which a scan has removed any entry under `key`, unless a new event renewed it."""
        last_ms = max(self.past.heard_from_ms, self.past.beats.get(key, 0))
        return last_ms + self.past.longest_lease_ms + self.namesrv.scan_period_ms

    def is_known(self, entity: Entity, *, present: bool) -> bool:
        """Return whether the registry's row of `entity`, or its absence, is reliable.

        `present`: the registry has the row. A row known to be absent cannot appear unseen if requests are recorded.
        """
        kind, one, other = entity
        known = self.past.hears and self.past.knows(kind, one, other)
        if not known or not present:
            return known
        if kind == "topic_queue":
            known = not self.unseen_of(as_text(other)).topics
        elif kind == "broker_addr":
            known = other not in self.unseen_of(as_text(one)).ids
        elif kind in ("cluster_addr", GROUP):
            known = not self.unseen_of(as_text(other if kind == "cluster_addr" else one)).group
        elif kind == "filter_server":
            known = self.past.knows(SETTLED, one, other)
        return known

    def knows_members(self, name: str | None) -> bool:
        """Return whether all members of `name` are known and none may have gone unseen."""
        return self.past.hears and self.past.knows_all("broker_addr", name) and not self.unseen_of(name).ids

    def knows_all_of(self, question: Question) -> bool:
        """Return whether everything on which the answer to `question` depends is known."""
        past = self.past
        if not past.hears:
            return False
        if question.code == RequestCode.GET_KV_CONFIG:
            return past.knows("kv_config", question.scope, question.subject)
        if question.code == RequestCode.GET_KVLIST_BY_NAMESPACE:
            return past.knows_all("kv_config", question.subject)
        if question.code == RequestCode.GET_BROKER_MEMBER_GROUP:
            return self.knows_members(question.subject)
        return (
            past.knows_all_topics()
            and past.knows_all("cluster_addr", ANY)
            and past.knows_all("broker_addr", ANY)
            and not any(self.unseen_of(name).ids for name in self.registry.broker_addr_table)
        )


def rows_known(marks: Iterable[Mark]) -> set[Entity]:
    """Return the rows that `marks` make known by their own keys, not by patterns."""
    return {entity for entity, known in marks if known and entity.one is not ANY and entity.other is not ANY}


def certainty_of(known: Iterable[Entity], begun: Iterable[Entity] = ()) -> Certainty:
    """Return the rows known after an event, and those known before it, as rows of histories."""
    rows = Certainty(*(frozenset((kind, (one, other)) for kind, one, other in some) for some in (known, begun)))
    return rows if rows.known or rows.begun else NOTHING_CERTAIN


# -- what events tell -------------------------------------------------------------------------------------------------


def doubt_what_went_silently(belief: Belief, event: events.Event, at_ms: int) -> None:
    """Before an event, mark rows of its broker names that may have gone unseen by now as doubtful."""
    past = belief.past
    past.now_ms = at_ms
    if not past.hears:
        past.heard_from_ms = max(past.heard_from_ms, at_ms)  # a tick may lie in a gap
    belief.settle_the_silent()
    if isinstance(event, _ABOUT_ONE_NAME):
        belief.doubt(event.broker_name)
    elif isinstance(event, events.RegisterTopic):
        for name, _ in event.queue_datas or ():
            belief.doubt(name)


def learn(belief: Belief, event: events.Event, step: Step, at_ms: int) -> Step:
    """Mark what `step` makes known and doubtful, and return the step with its certainty. `belief`: before the step.

    `at_ms`: time of the event; for a run, of its last heartbeat.
    """
    past = belief.past
    if isinstance(event, _HEARTBEATS):
        key = live_key_of(belief.namesrv, event.cluster_name, event.broker_addr)
        if not past.knows(SETTLED, *key):
            past.beats[key] = at_ms
        return _with_certainty(step, NOTHING_CERTAIN)
    if isinstance(event, (events.AnswerObserved, events.ResponseObserved)):
        return _shown(past, step)
    changed = [entity for change in step.changes for entity in _entities_of(change)]
    if isinstance(event, events.ChangeLogged):
        return _logged(past, event, step, changed)
    begun = {entity for entity in changed if past.knows(*entity)}
    marks = list(_marks_of(belief, event, step))
    if step.changes or not all(mark.known for mark in marks):
        until_ms = past.now_ms + (_REMOVAL_LAG_MS if isinstance(event, _REMOVALS) else 0)
        past.last_effect_ms = max(past.last_effect_ms, until_ms)
    past.note(marks)
    if step.changes:
        past.versions.note(change for change in step.changes if not _is_known_renewal(belief, change))
    return _with_certainty(step, certainty_of(_rows_known(past, changed, marks), begun))


def _shown(past: Past, step: Step) -> Step:
    """Note what an answer or a response shows; return its step, in which no row's value before the event is known."""
    if not isinstance(step.result, Evidence):
        return step if step.certainty is not None else _with_certainty(step, NOTHING_CERTAIN)
    marks, listed = step.result
    if listed is not None:
        past.note_listed(listed)
    past.note(marks)
    if step.changes:
        past.versions.note(step.changes)
    if step.certainty is not None:
        return step
    changed = [entity for change in step.changes for entity in _entities_of(change)]
    return _with_certainty(step, certainty_of(_rows_known(past, changed, marks)))


def _logged(past: Past, event: events.ChangeLogged, step: Step, changed: list[Entity]) -> Step:
    """Note what log lines show; return their step, in which a row's value before is known only if its line tells it."""
    past.is_logged = True
    is_new_row = {(row.kind, row.one, row.other): row.is_new for row in event.rows}
    masters = {row.one for row in event.rows if row.kind == "broker_addr" and row.is_new}

    def is_new(entity: Entity) -> bool:
        is_master = entity.kind == "broker_addr" and entity.other == MASTER_ID
        return bool(is_new_row.get(entity)) or (is_master and entity.one in masters)

    shown = [
        Entity(row.kind, row.one, MASTER_ID if row.kind == "broker_addr" else row.other)
        for row in event.rows
        if row.value is not None
    ]
    past.note([Mark(entity) for entity in (*changed, *shown)])
    past.versions.note(step.changes)
    return _with_certainty(step, certainty_of({*changed, *shown}, filter(is_new, changed)))


def _is_known_renewal(belief: Belief, change: Change) -> bool:
    """Return whether a change only replaces a known live entry: answers depend on its existence, not on its fields."""
    return (
        change.table == "broker_live_table"
        and change.value is not None
        and LiveKey(*change.key) in belief.registry.broker_live_table
        and belief.past.knows("broker_live", *change.key)
    )


def _rows_known(past: Past, changed: Iterable[Entity], marks: Iterable[Mark]) -> set[Entity]:
    return {entity for entity in changed if past.knows(*entity)} | rows_known(marks)


def _with_certainty(step: Step, certainty: Certainty) -> Step:
    return Step._make((*step[:-1], certainty))


def _entities_of(change: Change) -> Iterator[Entity]:
    """Yield the entities of a change, by the keys of the histories."""
    if change.table == "broker_addr_table":
        if isinstance(change.value, BrokerData):
            for broker_id, _ in change.value.broker_addrs:
                yield Entity("broker_addr", change.key[0], broker_id)
    elif change.table in HISTORY_OF:
        yield Entity(HISTORY_OF[change.table], change.key[0], change.key[1])


def _marks_of(belief: Belief, event: events.Event, step: Step) -> Iterator[Mark]:
    past = belief.past
    if isinstance(event, events.RegisterBroker):
        yield from _Registration(belief, event, step).marks()
    elif isinstance(event, events.UnregisterBroker):
        yield from _unregistration(belief, event, step)
    elif isinstance(event, events.ScanNotActiveBroker | events.ChannelDestroyed):
        yield from _removal(belief, step)
    elif isinstance(event, events.DeleteTopic):
        yield from _topic_deletion(belief, event)
    elif isinstance(event, events.RegisterTopic):
        yield from _topic_registration(belief, event)
    elif isinstance(event, events.PutKvConfig | events.DeleteKvConfig):
        yield _known("kv_config", event.namespace, event.key)
    elif isinstance(event, events.NamesrvStarted | events.NamesrvStopped) and not past.is_logged:
        past.beats.clear()
        past.phase_known = True
        past.complete_ms = past.now_ms
        for kind in ROUTE_KINDS:
            yield _known(kind, ANY, ANY)


def _known(kind: str, one: Part, other: Part) -> Mark:
    return Mark(Entity(kind, one, other))


def _doubt(kind: str, one: Part, other: Part) -> Mark:
    return Mark(Entity(kind, one, other), known=False)


class _Registration:
    """Marks of one registration. They depend on whether it was accepted and whether it wrote its topics."""

    def __init__(self, belief: Belief, event: events.RegisterBroker, step: Step) -> None:
        self.registry, self.past, self.namesrv = belief.registry, belief.past, belief.namesrv
        self.event, self.step, self.profile = event, step, self.namesrv.profile
        self.name, self.broker_id = event.broker_name, event.broker_id
        self.group = self.registry.broker_addr_table.get(self.name)
        self.addrs = {} if self.group is None else self.group.addr_of
        self.key = live_key_of(self.namesrv, event.cluster_name, event.broker_addr)
        self.id_known = self.past.knows("broker_addr", self.name, self.broker_id)

    def marks(self) -> Iterator[Mark]:
        """Yield the marks after the registration."""
        if self.step.swallowed and not self.step.changes:
            return
        event, past, name = self.event, self.past, self.name
        yield _known("cluster_addr", event.cluster_name, name)
        yield _known(GROUP, name, ACTING)
        if event.heartbeat_timeout_ms is not None and self.profile.own_heartbeat_timeout:
            past.longest_lease_ms = max(past.longest_lease_ms, event.heartbeat_timeout_ms)
        if not self._counts():
            yield _doubt("broker_addr", name, self.broker_id)
            yield _doubt("broker_live", *self.key)
            yield _doubt(SETTLED, *self.key)
            past.beats[self.key] = past.now_ms
        elif self.step.outcome in (Outcome.APPLIED, Outcome.REFRESHED):
            yield _known("broker_addr", name, self.broker_id)
            if self.step.swallowed:  # it ended at the latest among its topics, before the live entry
                return
            yield _known("broker_live", *self.key)
            yield _known(SETTLED, *self.key)
            if event.filter_servers is not None:
                yield _known("filter_server", *self.key)
        elif self.step.outcome == Outcome.REJECTED_STATE_VERSION:
            yield _known("broker_live", *self.key)
            yield _known(SETTLED, *self.key)
        if self.step.outcome in (Outcome.APPLIED, Outcome.REFRESHED) or not self._counts():
            yield from self._topics()

    def _counts(self) -> bool:
        """Return whether its acceptance, or its refusal, is certain."""
        lone = self.event.topics is None or len(self.event.topics) == 1
        if self.profile.refuses_lone_topic and lone and not self.id_known:
            return False
        if not self.profile.rejects_older_state_version:
            return True
        old_addr = self.addrs.get(self.broker_id)
        same = self.broker_id not in self.addrs or old_addr == self.event.broker_addr
        return self.id_known and (same or self.past.knows("broker_live", self.event.cluster_name, old_addr))

    def _role(self) -> bool | None:
        """Return whether its topics count: a master's, and in 5.x those of the slave with the smallest id; None: unknown."""
        if self.event.topics is None:
            return False
        if self.broker_id == MASTER_ID:
            return True
        if not self.profile.takes_prime_slave_topics or self.event.enable_acting_master is None:
            return False
        if any(
            broker_id < self.broker_id
            for broker_id in self.addrs
            if self.past.knows("broker_addr", self.name, broker_id)
        ):
            return False
        return True if self.past.knows_all("broker_addr", self.name) else None

    def _writes(self) -> bool | None:
        """Return whether it writes all its topics, because the id is new or the version differs; None: unknown."""
        first = (
            not self.addrs.get(self.broker_id)
            if self.profile.live_key_has_cluster
            else self.addrs.get(self.broker_id) is None
        )
        changed = config_changed(self.registry.broker_live_table.get(self.key), self.event.data_version, self.profile)
        live_known = self.past.knows("broker_live", *self.key)
        if (self.id_known and first) or (live_known and changed):
            return True
        return False if self.id_known and live_known else None

    def _topics(self) -> Iterator[Mark]:
        role, topics, name = self._role(), self.event.topics, self.name
        if role is False or topics is None:
            return
        certain = bool(role) and self._counts()
        writes = self._writes() if certain else None
        if self.namesrv.deletes_unlisted_topics and not topics.mappings:
            if certain:
                unknown = [topic for topic in topics.queue_datas if not self.past.knows("topic_queue", topic, name)]
                yield _known("topic_queue", ANY, name)
                yield from (_doubt("topic_queue", topic, name) for topic in unknown)
            else:
                held = self.registry.topic_queue_table.topics_of_name(name)
                yield from (_doubt("topic_queue", topic, name) for topic in held if topic not in topics.queue_datas)
        never = self.profile.prime_slave_never_writes
        read_only = self.broker_id != MASTER_ID and (never or bool(self.event.enable_acting_master))
        for topic, queue_data in topics.queue_datas.items() if writes is not False else ():
            if writes:
                yield _known("topic_queue", topic, name)
                continue
            # A row may be known, and the same whether or not it was written. If the registration counts, it brings back a
            # missing topic (5.x).
            written = queue_data._replace(perm=queue_data.perm & ~PERM_WRITE) if read_only else queue_data
            row = self.registry.queue_data(topic, name)
            is_same = certain and self.profile.repairs_missing_topics if row is None else row == written
            if not (is_same and self.past.knows("topic_queue", topic, name)):
                yield _doubt("topic_queue", topic, name)
        for mapping in topics.mappings if self.profile.stores_topic_queue_mapping else ():
            if writes is not False:
                mark = _known if writes else _doubt
                yield mark("topic_queue_mapping", mapping.topic, mapping.bname)


def _unregistration(belief: Belief, event: events.UnregisterBroker, step: Step) -> Iterator[Mark]:
    past, name = belief.past, event.broker_name
    key = live_key_of(belief.namesrv, event.cluster_name, event.broker_addr)
    for kind in ("broker_live", "filter_server", SETTLED):
        yield _known(kind, *key)
    if not belief.namesrv.profile.batches_unregistrations:
        yield _known("broker_addr", name, event.broker_id)
    if past.knows_all("broker_addr", name):
        yield from _after_loss(belief, name, step)
        yield _known("cluster_addr", event.cluster_name, name)
    else:
        yield from _doubts_about(name)


def _removal(belief: Belief, step: Step) -> Iterator[Mark]:
    """Yield the marks of a lost channel or a scan: rows known to have existed are gone, the others are doubtful.

    If such a row is seen again, the removal was wrong. That is a fault of the event, not of an unknown past.
    """
    registry, past = belief.registry, belief.past
    certain = True
    for change in step.changes:
        if change.table == "broker_live_table":
            key = LiveKey(*change.key)
            certain = certain and past.knows("broker_live", *key)
            yield from (Mark(Entity(kind, *key), certain) for kind in ("broker_live", "filter_server", SETTLED))
            if not certain:
                past.beats[key] = past.now_ms
    for change in step.changes:
        if change.table == "broker_addr_table":
            name = change.key[0]
            group = registry.broker_addr_table.get(name)
            kept = change.value.addr_of if isinstance(change.value, BrokerData) else {}
            lost = [] if group is None else [i for i in group.addr_of if i not in kept]
            shown = certain and all(past.knows("broker_addr", name, broker_id) for broker_id in lost)
            if shown and past.knows_all("broker_addr", name):
                yield from _after_loss(belief, name, step)
            else:
                yield from _doubts_about(name)
                yield from (Mark(Entity("broker_addr", name, broker_id), known=shown) for broker_id in lost)


def _after_loss(belief: Belief, name: str | None, step: Step) -> Iterator[Mark]:
    """Yield the marks of a completely known group after the loss of a member: all its rows go with its last member."""
    left: object | None = belief.registry.broker_addr_table.get(name)
    for change in step.changes:
        if change.table == "broker_addr_table" and change.key[0] == name:
            left = change.value
    if left is None:
        yield _known("topic_queue", ANY, name)
        yield _known(GROUP, name, ANY)
    elif not belief.past.knows(GROUP, name, ACTING):
        yield _doubt("topic_queue", ANY, name)


def _doubts_about(name: str | None) -> Iterator[Mark]:
    """Yield the doubts about an incompletely known group after the loss of a member: all of it may be gone."""
    yield _doubt("topic_queue", ANY, name)
    yield _doubt("cluster_addr", ANY, name)
    yield _doubt(GROUP, name, ANY)


def _topic_deletion(belief: Belief, event: events.DeleteTopic) -> Iterator[Mark]:
    registry, past, profile = belief.registry, belief.past, belief.namesrv.profile
    topic, cluster = event.topic, event.cluster_name if profile.deletes_topic_of_cluster else None
    if not cluster:
        yield _known("topic_queue", topic, ANY)
        return
    for name in registry.cluster_addr_table.get(cluster) or ():
        if past.knows("cluster_addr", cluster, name):
            yield _known("topic_queue", topic, name)
    for name in registry.topic_queue_table.get(topic) or ():
        if not past.knows("cluster_addr", cluster, name):
            yield _doubt("topic_queue", topic, name)


def _topic_registration(belief: Belief, event: events.RegisterTopic) -> Iterator[Mark]:
    """Yield the marks of its entries: known if all names certainly have groups, so that all entries are stored."""
    names = [name for name, _ in event.queue_datas or ()]
    groups = [belief.registry.broker_addr_table.get(name) for name in names]
    certain = all(
        group is not None and any(belief.past.knows("broker_addr", name, broker_id) for broker_id in group.addr_of)
        for name, group in zip(names, groups, strict=True)
    )
    for name in names:
        yield Mark(Entity("topic_queue", event.topic, name), known=certain)
