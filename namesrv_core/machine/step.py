"""`step` dispatches an event to its transition. The short transitions are here, too.

These are: heartbeats, permissions and topics, KVConfigManager, start and stop of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from namesrv_core.machine import events
from namesrv_core.machine.draft import NULL_POINTER, Draft, Outcome, Step
from namesrv_core.machine.events import (
    AddWritePerm,
    BrokerHeartbeat,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    QueryDataVersion,
    RegisterTopic,
    WipeWritePerm,
)
from namesrv_core.machine.logged import change_logged
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import config_changed, live_key_of, register_broker
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.removal import (
    on_channel_destroy,
    scan_not_active_broker,
    submit_unregistrations,
    unregister_broker,
)
from namesrv_core.machine.rows import PERM_READ, PERM_WRITE, DataVersion, KvValue, LiveKey


def start(registry: Registry) -> Step:
    """Return the step of a start: remaining routes are lost, the KV table is as in its file.

    Source: RocketMQ 4.9.7 and 5.4.0 NamesrvController.initialize, KVConfigManager.load.
    """
    # The file holds no nulls: a key with a null value does not come back.
    nulls = (
        Change("kv_config_table", (namespace, key), None)
        for namespace, entries in registry.kv_config_table.items()
        for key, value in entries.items()
        if value.text is None
    )
    return Step(Outcome.STARTED, (*_lost(registry), *nulls))


def stop(registry: Registry) -> Step:
    """Return the step of a stop: all routes, live entries and pending unregistrations are lost."""
    return Step(Outcome.STOPPED, _lost(registry))


def _lost(registry: Registry) -> tuple[Change, ...]:
    changes = [Change("topic_queue_table", key, None) for key in registry.topic_queue_table.keys_of_rows()]
    changes += [Change("broker_addr_table", (name,), None) for name in registry.broker_addr_table]
    changes += [
        Change("cluster_addr_table", (cluster, name), None)
        for cluster, names in registry.cluster_addr_table.items()
        for name in names
    ]
    changes += [Change("broker_live_table", key, None) for key in registry.broker_live_table]
    changes += [Change("filter_server_table", key, None) for key in registry.filter_server_table]
    changes += [
        Change("topic_queue_mapping_info_table", (topic, bname), None)
        for topic, mappings in registry.topic_queue_mapping_info_table.items()
        for bname in mappings
    ]
    if registry.pending_unregister:
        changes.append(Change("pending_unregister", (), ()))
    if registry.scan_halted:
        changes.append(Change("scan_halted", (), None))
    return tuple(changes)


class QueryDataVersionResult(NamedTuple):
    """Whether the version in the query differs from the stored one, and the stored one."""

    changed: bool
    data_version: DataVersion | None


def broker_heartbeat(registry: Registry, event: BrokerHeartbeat, namesrv: Namesrv) -> Step:
    """Renew the lease of a known address; an unknown one gets no entry.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.updateBrokerInfoUpdateTimestamp.
    """
    key = live_key_of(namesrv, event.cluster_name, event.broker_addr)
    if _has_no_hash(key, namesrv):
        return Step(Outcome.REFUSED_REQUEST, exception=NULL_POINTER)
    if key not in registry.broker_live_table:
        return Step(Outcome.UNKNOWN_BROKER)
    return Step(Outcome.REFRESHED, refreshed=key)


def query_data_version(registry: Registry, event: QueryDataVersion, namesrv: Namesrv) -> Step:
    """Compare versions and renew the lease: 4.x only if they are equal, 5.x always; the version sent is never stored.

    Source: RocketMQ 4.9.7 and 5.4.0 DefaultRequestProcessor.queryBrokerTopicConfig.
    """
    key = live_key_of(namesrv, event.cluster_name, event.broker_addr)
    if _has_no_hash(key, namesrv):
        return Step(Outcome.REFUSED_REQUEST, exception=NULL_POINTER)
    live = registry.broker_live_table.get(key)
    if live is None:
        return Step(Outcome.UNKNOWN_BROKER, result=QueryDataVersionResult(changed=True, data_version=None))
    changed = config_changed(live, event.data_version, namesrv.profile)
    result = QueryDataVersionResult(changed, live.data_version)
    if changed and not namesrv.profile.query_always_refreshes:
        return Step(Outcome.VERSION_DIFFERS, result=result)
    return Step(Outcome.REFRESHED, (), key, result)


def _has_no_hash(key: LiveKey, namesrv: Namesrv) -> bool:
    """Return whether a lookup in the live table throws: 5.x cannot hash a key with a missing part."""
    return namesrv.profile.live_key_has_cluster and None in key


ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


def put_kv_config(registry: Registry, event: PutKvConfig) -> Step:
    """Create namespace and key as needed and set the value. Without namespace or key the request layer refuses.

    Source: RocketMQ 4.9.7 and 5.4.0 KVConfigManager.putKVConfig, DefaultRequestProcessor.putKVConfig. Before 4.9.0 such
    an entry is stored instead; this replay does not keep it.
    """
    if event.namespace is None or event.key is None:
        if registry.profile.stores_null_kv:  # under a null key, from which no question can read it
            return Step(Outcome.NO_EFFECT)
        return Step(Outcome.REFUSED_REQUEST, result="namespace or key is null")
    changes = []
    entries = registry.kv_config_table.get(event.namespace)
    if entries is None:
        changes.append(Change("kv_config_table", (event.namespace, None), KvValue(None)))
    value = KvValue(event.value)
    if entries is None or entries.get(event.key) != value:
        changes.append(Change("kv_config_table", (event.namespace, event.key), value))
    return Step(Outcome.APPLIED if changes else Outcome.NO_EFFECT, tuple(changes))


def delete_kv_config(registry: Registry, event: DeleteKvConfig) -> Step:
    """Remove the key; its namespace stays, even empty. Without namespace or key there is nothing to remove.

    Source: RocketMQ 4.9.7 and 5.4.0 KVConfigManager.deleteKVConfig.
    """
    if event.key not in registry.kv_config_table.get(event.namespace, {}):
        return Step(Outcome.NO_EFFECT)
    return Step(Outcome.APPLIED, (Change("kv_config_table", (event.namespace, event.key), None),))


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
    """Set the permission to exactly read and write, whatever it was; `result` as for `wipe_write_perm`.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.addWritePermOfBrokerByLock.
    """
    draft = Draft(registry)
    draft.change_perms(event.broker_name, lambda _: PERM_READ | PERM_WRITE)
    return draft.step(Outcome.APPLIED)._replace(
        result=len(registry.topic_queue_table.topics_of_name(event.broker_name))
    )


def delete_topic(registry: Registry, event: DeleteTopic) -> Step:
    """Remove a topic: all of it, or only the queue data of the broker names that are now in the cluster's set.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.deleteTopic, both forms; before 4.9.4 only the first exists.
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

    A new topic is stored as a whole or not at all: every broker name needs a group. For a known topic the entries are
    put one by one until the first name without a group. If a name repeats, its last entry counts.

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
    """Return whether a lookup of `topic` in the topic table throws: a ConcurrentHashMap takes no null key."""
    return registry.profile.concurrent_maps and topic is None


Transition = Callable[[Registry, Any, int, Namesrv], Step]


def step(registry: Registry, event: events.Event, at_ms: int, namesrv: Namesrv) -> Step:
    """Return what `event` at `at_ms` (epoch milliseconds) does to `registry`, without changing it.

    Raises KeyError for anything but an event.
    """
    return _TRANSITIONS[type(event)](registry, event, at_ms, namesrv)


def apply_step(registry: Registry, event: events.Event, taken: Step, at_ms: int, namesrv: Namesrv) -> None:
    """Apply `taken`, the step of `event`: its changes, the lease that it renews, the maps of a new process."""
    if isinstance(event, events.RefreshRun):
        event = event.beat
    if type(event) is events.RegisterBroker:
        registry.cluster_addr_table.look_up(event.cluster_name)
    if taken.changes:
        registry.apply(taken.changes, at_ms)
    if taken.refreshed is not None:
        registry.broker_live_table.refresh(taken.refreshed, at_ms)
    if type(event) is events.NamesrvStarted:
        registry.restart(namesrv.profile)


_TRANSITIONS: dict[type, Transition] = {
    events.BrokerHeartbeat: lambda registry, event, _, namesrv: broker_heartbeat(registry, event, namesrv),
    events.QueryDataVersion: lambda registry, event, _, namesrv: query_data_version(registry, event, namesrv),
    events.RefreshRun: lambda registry, event, at_ms, namesrv: step(registry, event.beat, at_ms, namesrv),
    events.RegisterBroker: lambda registry, event, _, namesrv: register_broker(registry, event, namesrv),
    events.UnregisterBroker: lambda registry, event, _, namesrv: unregister_broker(registry, event, namesrv),
    events.DrainUnregistrations: lambda registry, _, __, namesrv: submit_unregistrations(
        registry, [], namesrv, defer=False
    ),
    events.ScanNotActiveBroker: scan_not_active_broker,
    events.ChannelDestroyed: lambda registry, event, _, namesrv: on_channel_destroy(registry, event, namesrv),
    events.WipeWritePerm: lambda registry, event, _, __: wipe_write_perm(registry, event),
    events.AddWritePerm: lambda registry, event, _, __: add_write_perm(registry, event),
    events.DeleteTopic: lambda registry, event, _, __: delete_topic(registry, event),
    events.RegisterTopic: lambda registry, event, _, __: register_topic(registry, event),
    events.PutKvConfig: lambda registry, event, _, __: put_kv_config(registry, event),
    events.DeleteKvConfig: lambda registry, event, _, __: delete_kv_config(registry, event),
    events.UpdateNamesrvConfig: lambda *_: Step(Outcome.NO_EFFECT),
    events.RefusedRequest: lambda _, event, __, ___: Step(Outcome.REFUSED_REQUEST, result=event.reason),
    events.AnswerObserved: lambda *_: Step(Outcome.NO_EFFECT),  # it tells something only if the past is not known
    events.ResponseObserved: lambda *_: Step(Outcome.NO_EFFECT),
    events.ChangeLogged: lambda registry, event, *_: change_logged(registry, event),
    events.NamesrvStarted: lambda registry, *_: start(registry),
    events.NamesrvStopped: lambda registry, *_: stop(registry),
}
