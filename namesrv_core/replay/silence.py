"""What can go without an event that shows it.

A broker that has not been heard since the recording began may have a lease, and a connection that nobody knows to be
its own: the scan or the end of that connection takes it down, and no event tells. Until its live entry has been seen, or
must have ended, its place in its group is known only at the instant of an answer that shows it. So is everything where only
answers are recorded: what they do not show comes, changes and goes unseen between them.
"""

from __future__ import annotations

from collections.abc import Iterator

from namesrv_core.machine.codes import Question, RequestCode
from namesrv_core.machine.past import ACTING, ANY, GROUP, SETTLED, Entity, Mark, Past, as_text
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import live_key_of
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import MASTER_ID, LiveKey


def has_settled(registry: Registry, past: Past, key: LiveKey) -> bool:
    """Return whether the entry under `key`, or its absence, stays as it is until an event shows otherwise.

    A lease that has ended waits for a scan; when that runs is unknown, too, while the server's start is.
    """
    if not past.knows(SETTLED, *key):
        return False
    live = registry.broker_live_table.get(key)
    return bool(past.phase_known) or live is None or registry.last_update_ms[key] + live.lease_ms >= past.now_ms


def unsettled_ids(registry: Registry, past: Past, name: str | None, namesrv: Namesrv) -> list[int]:
    """Return the ids of the members of `name` that may go, or have gone, unseen."""
    group = registry.broker_addr_table.get(name)
    if group is None:
        return []
    return [
        broker_id
        for broker_id, addr in group.broker_addrs
        if not has_settled(registry, past, live_key_of(namesrv, group.cluster_name, addr))
    ]


def group_stays(registry: Registry, past: Past, name: str | None, namesrv: Namesrv) -> bool:
    """Return whether the group of `name` cannot lose its last member unseen."""
    group = registry.broker_addr_table.get(name)
    unsettled = unsettled_ids(registry, past, name, namesrv)
    return group is None or not unsettled or len(unsettled) < len(group.broker_addrs)


def topics_stay(registry: Registry, past: Past, name: str | None, namesrv: Namesrv) -> bool:
    """Return whether the queue data of `name` cannot change unseen.

    They go with the group, and in 5.x lose the write bit when a group that may have an acting master has no master.
    """
    if not group_stays(registry, past, name, namesrv):
        return False
    group = registry.broker_addr_table.get(name)
    if group is None or not namesrv.profile.batches_unregistrations:
        return True
    unsettled = unsettled_ids(registry, past, name, namesrv)
    may_act = group.enable_acting_master or not past.knows(GROUP, name, ACTING)
    return not unsettled or not may_act or (MASTER_ID in group.addr_of and MASTER_ID not in unsettled)


def doubts_of(registry: Registry, past: Past, name: str | None, namesrv: Namesrv) -> Iterator[Mark]:
    """Yield doubts about all of `name` that may have gone unseen."""
    for broker_id in unsettled_ids(registry, past, name, namesrv):
        yield Mark(Entity("broker_addr", name, broker_id), known=False)
    if not group_stays(registry, past, name, namesrv):
        yield Mark(Entity(GROUP, name, ANY), known=False)
        yield Mark(Entity("cluster_addr", ANY, name), known=False)
    if not topics_stay(registry, past, name, namesrv):
        yield Mark(Entity("topic_queue", ANY, name), known=False)


def settle_the_silent(registry: Registry, past: Past, namesrv: Namesrv) -> None:
    """Note the members whose entries must have ended by now: what went with them has gone, the rest stays."""
    if past.now_ms <= past.settle_ms:
        return
    past.settle_ms = past.now_ms + past.longest_lease_ms
    for name, group in registry.broker_addr_table.items():
        keys = [live_key_of(namesrv, group.cluster_name, addr) for _, addr in group.broker_addrs]
        silent = [key for key in keys if not past.knows(SETTLED, *key)]
        if not silent:
            continue
        past.note(list(doubts_of(registry, past, name, namesrv)))
        for key in silent:
            gone_ms = past.silent_until_ms(key) + namesrv.scan_period_ms
            if past.now_ms > gone_ms:
                past.note([Mark(Entity(SETTLED, *key))])
            else:
                past.settle_ms = min(past.settle_ms, gone_ms)


def is_known(registry: Registry, past: Past, entity: Entity, namesrv: Namesrv, *, present: bool) -> bool:
    """Return whether what the registry holds of `entity` can be relied on.

    `present`: the registry has it. What is known to be absent does not appear unseen, if brokers are heard.
    """
    kind, one, other = entity
    known = past.hears and past.knows(kind, one, other)
    if not known or not present:
        return known
    if kind == "topic_queue":
        known = topics_stay(registry, past, as_text(other), namesrv)
    elif kind == "broker_addr":
        known = other not in unsettled_ids(registry, past, as_text(one), namesrv)
    elif kind in ("cluster_addr", GROUP):
        known = group_stays(registry, past, as_text(other if kind == "cluster_addr" else one), namesrv)
    elif kind == "filter_server":
        known = past.knows(SETTLED, one, other)
    return known


def knows_members(registry: Registry, past: Past, name: str | None, namesrv: Namesrv) -> bool:
    """Return whether all members of `name` are known, and none may have gone unseen."""
    return past.hears and past.knows_all("broker_addr", name) and not unsettled_ids(registry, past, name, namesrv)


def knows_all_of(registry: Registry, past: Past, question: Question, namesrv: Namesrv) -> bool:
    """Return whether all is known that the answer to `question` depends on."""
    if not past.hears:
        return False
    if question.code == RequestCode.GET_KV_CONFIG:
        return past.knows("kv_config", question.scope, question.subject)
    if question.code == RequestCode.GET_KVLIST_BY_NAMESPACE:
        return past.knows_all("kv_config", question.subject)
    if question.code == RequestCode.GET_BROKER_MEMBER_GROUP:
        return knows_members(registry, past, question.subject, namesrv)
    names = list(registry.broker_addr_table)
    return (
        past.knows_all_topics()
        and past.knows_all("cluster_addr", ANY)
        and past.knows_all("broker_addr", ANY)
        and not any(unsettled_ids(registry, past, name, namesrv) for name in names)
    )
