"""KVConfigManager: configuration that survives a restart."""

from __future__ import annotations

from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.events import DeleteKvConfig, PutKvConfig
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import KvValue

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


def put_kv_config(registry: Registry, event: PutKvConfig) -> Step:
    """Create namespace and key as needed and set the value. Without namespace or key the request layer refuses.

    Source: RocketMQ 4.9.7 and 5.4.0 KVConfigManager.putKVConfig, DefaultRequestProcessor.putKVConfig. Before 4.9.0 it is
    not refused, and stored; that entry is not kept here.
    """
    if event.namespace is None or event.key is None:
        if registry.profile.stores_null_kv:  # under a null key, of which no question can get it back
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
