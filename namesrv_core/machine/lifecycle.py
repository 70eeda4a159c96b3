"""Start and stop of the process: the routes are in memory only, the KV table is in a file."""

from __future__ import annotations

from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.events import StateKnown
from namesrv_core.machine.profile import PROFILES
from namesrv_core.machine.registry import Change, Registry


def start(registry: Registry) -> Step:
    """Return what a start does: whatever the registry still held of routes is gone, the KV table is as in its file.

    Source: RocketMQ 4.9.7 and 5.4.0 NamesrvController.initialize, KVConfigManager.load.
    """
    # The file holds no nulls: a key whose value is null does not come back.
    nulls = (
        Change("kv_config_table", (namespace, key), None)
        for namespace, entries in registry.kv_config_table.items()
        for key, value in entries.items()
        if value.text is None
    )
    return Step(Outcome.STARTED, (*_lost(registry), *nulls))


def stop(registry: Registry) -> Step:
    """Return what a stop does: all routes, live entries and pending unregistrations are lost."""
    return Step(Outcome.STOPPED, _lost(registry))


def restore(registry: Registry, event: StateKnown) -> Step:
    """Return what a snapshot changes: what the registry was believed to hold goes, what the snapshot says comes.

    Only while something is unknown of the past; a snapshot of another generation is refused.
    """
    if PROFILES[event.profile].live_key_has_cluster != registry.profile.live_key_has_cluster:
        return Step(Outcome.REFUSED_REQUEST, result=f"snapshot of a {event.profile} name server")
    if registry.past is None:
        return Step(Outcome.NO_EFFECT)
    lost = list(_lost(registry))
    if event.knows_kv:
        lost += [
            Change("kv_config_table", (namespace, key), None)
            for namespace, entries in registry.kv_config_table.items()
            for key in (*entries, None)
        ]
    return Step(Outcome.RESTORED, (*lost, *event.changes))


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
