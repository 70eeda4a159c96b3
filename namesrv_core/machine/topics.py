"""Permissions and topics: what administrators change."""

from __future__ import annotations

from namesrv_core.machine.draft import NULL_POINTER, Draft, Outcome, Step
from namesrv_core.machine.events import AddWritePerm, DeleteTopic, RegisterTopic, WipeWritePerm
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import PERM_READ, PERM_WRITE


def wipe_write_perm(registry: Registry, event: WipeWritePerm) -> Step:
    """Clear the write bit in all queue data of the broker name; `result` is the number of its topics, changed or not.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.wipeWritePermOfBrokerByLock.
    """
    draft = Draft(registry)
    draft.wipe_write_perm(event.broker_name)
    return draft.step(Outcome.APPLIED)._replace(
        result=len(registry.topic_queue_table.topics_of_name(event.broker_name))
    )


def add_write_perm(registry: Registry, event: AddWritePerm) -> Step:
    """Set the permission to read and write, exactly, whatever it was; `result` as for `wipe_write_perm`.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.addWritePermOfBrokerByLock.
    """
    draft = Draft(registry)
    draft.change_perms(event.broker_name, lambda _: PERM_READ | PERM_WRITE)
    return draft.step(Outcome.APPLIED)._replace(
        result=len(registry.topic_queue_table.topics_of_name(event.broker_name))
    )


def delete_topic(registry: Registry, event: DeleteTopic) -> Step:
    """Remove a topic: all of it, or the queue data of the names that stand in the cluster's set now.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.deleteTopic, both forms; before 4.9.4 there was the first only.
    """
    draft = Draft(registry)
    cluster_name = event.cluster_name if registry.profile.deletes_topic_of_cluster else None
    if _topic_is_refused(registry, event.topic) and (not cluster_name or cluster_name in registry.cluster_addr_table):
        return Step(Outcome.NO_EFFECT, swallowed=(NULL_POINTER,))
    present = registry.topic_queue_table.names_of_topic(event.topic)
    names = registry.cluster_addr_table.get(cluster_name, ()) if cluster_name else present
    for name in present:
        if name in names:
            draft.put("topic_queue_table", (event.topic, name), None)
    return draft.step(Outcome.APPLIED)


def register_topic(registry: Registry, event: RegisterTopic) -> Step:
    """Store queue data that a broker sends for one topic (5.x).

    A new topic is stored whole or not at all: every name needs a group. For a known topic the entries are put one by
    one until the first name without a group. A name that repeats: the last one counts.

    Source: RocketMQ 5.4.0 RouteInfoManager.registerTopic; before 5.1.4 a known topic stays as it is.
    """
    draft = Draft(registry)
    queue_datas = event.queue_datas or ()
    if queue_datas and _topic_is_refused(registry, event.topic):
        return Step(Outcome.NO_EFFECT, swallowed=(NULL_POINTER,))
    is_known = bool(registry.topic_queue_table.names_of_topic(event.topic))
    if is_known and not registry.profile.adds_to_known_topic:
        return Step(Outcome.NO_EFFECT)
    missing = next((i for i, (name, _) in enumerate(queue_datas) if draft.group(name) is None), None)
    swallowed: tuple[str, ...] = ()
    if missing is not None:
        swallowed = (NULL_POINTER,) if queue_datas[missing][0] is None else ()
        queue_datas = queue_datas[:missing] if is_known else ()
    for name, queue_data in dict(queue_datas).items():
        draft.put("topic_queue_table", (event.topic, name), queue_data)
    return draft.step(Outcome.APPLIED)._replace(swallowed=swallowed)


def _topic_is_refused(registry: Registry, topic: str | None) -> bool:
    """Return whether the topic table throws when it is asked for `topic`: a ConcurrentHashMap takes no null key."""
    return registry.profile.concurrent_maps and topic is None
