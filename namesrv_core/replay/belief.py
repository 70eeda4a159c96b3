"""A registry that is a best guess, and how far it can be relied on: what can go without an event that shows it.

A broker that has not been heard since the recording began may have a lease, and a connection that nobody knows to be
its own: the scan or the end of that connection takes it down, and no event tells. Until its live entry has been seen, or
must have ended, its place in its group is known only at the instant of an answer that shows it. So is everything where only
answers are recorded: what they do not show comes, changes and goes unseen between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from namesrv_core.machine.codes import Question, RequestCode
from namesrv_core.machine.draft import NOTHING_CERTAIN, Certainty
from namesrv_core.machine.past import ACTING, ANY, GROUP, SETTLED, Entity, Mark, Past, as_text
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import live_key_of
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import MASTER_ID, LiveKey


class Evidence(NamedTuple):
    """What an answer makes known; `listed`: the topics of a complete list."""

    marks: tuple[Mark, ...] = ()
    listed: frozenset[str | None] | None = None


class Unseen(NamedTuple):
    """What of a broker name may go, or have gone, unseen: members by their ids, its last member, its queue data."""

    ids: Collection[int] = ()
    group: bool = False
    topics: bool = False


_NOTHING = Unseen()


@dataclass(slots=True)
class Belief:
    """The registry of a name server as it is believed to be; `past`: what is known of it."""

    registry: Registry
    past: Past
    namesrv: Namesrv

    def has_settled(self, key: LiveKey) -> bool:
        """Return whether the entry under `key`, or its absence, stays as it is until an event shows otherwise.

        A lease that has ended waits for a scan; when that runs is unknown, too, while the server's start is.
        """
        past, registry = self.past, self.registry
        if not past.knows(SETTLED, *key):
            return False
        live = registry.broker_live_table.get(key)
        return bool(past.phase_known) or live is None or registry.last_update_ms[key] + live.lease_ms >= past.now_ms

    def has_live_entry(self, key: LiveKey) -> bool:
        """Return whether there is a live entry under `key`, of which something is known.

        One without a mark is from before a gap: an answer that shows its address says nothing of it.
        """
        return key in self.registry.broker_live_table and self.past.has_mark("broker_live", *key)

    def unseen_of(self, name: str | None) -> Unseen:
        """Return what of `name` may go, or have gone, unseen.

        Queue data go with the group, and in 5.x lose the write bit when a group that may have an acting master has no master.
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
        """Note doubts about all of `name` that may have gone unseen."""
        unseen = self.unseen_of(name)
        doubted = [Entity("broker_addr", name, broker_id) for broker_id in unseen.ids]
        if unseen.group:
            doubted += [Entity(GROUP, name, ANY), Entity("cluster_addr", ANY, name)]
        if unseen.topics:
            doubted.append(Entity("topic_queue", ANY, name))
        self.past.note(Mark(entity, known=False) for entity in doubted)

    def settle_the_silent(self) -> None:
        """Note the members whose entries must have ended by now: what went with them has gone, the rest stays."""
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
        """Return the instant after which a scan has removed an entry under `key`, if there was one and no new event."""
        return self.past.silent_until_ms(key) + self.namesrv.scan_period_ms

    def is_known(self, entity: Entity, *, present: bool) -> bool:
        """Return whether what the registry holds of `entity` can be relied on.

        `present`: the registry has it. What is known to be absent does not appear unseen, if brokers are heard.
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
        """Return whether all members of `name` are known, and none may have gone unseen."""
        return self.past.hears and self.past.knows_all("broker_addr", name) and not self.unseen_of(name).ids

    def knows_all_of(self, question: Question) -> bool:
        """Return whether all is known that the answer to `question` depends on."""
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
    """Return the rows that marks make known by their own keys."""
    return {entity for entity, known in marks if known and entity.one is not ANY and entity.other is not ANY}


def certainty_of(known: Iterable[Entity], begun: Iterable[Entity] = ()) -> Certainty:
    """Return what is known, and was before the event, as rows of histories."""
    rows = Certainty(frozenset(map(_row_key, known)), frozenset(map(_row_key, begun)))
    return rows if rows.known or rows.begun else NOTHING_CERTAIN


def _row_key(entity: Entity) -> tuple[str, tuple[object, ...]]:
    return entity.kind, (entity.one, entity.other)
