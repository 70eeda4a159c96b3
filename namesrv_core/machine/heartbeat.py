"""Heartbeats: what renews a lease without changing a row."""

from __future__ import annotations

from typing import NamedTuple

from namesrv_core.machine.draft import NULL_POINTER, Outcome, Step
from namesrv_core.machine.events import BrokerHeartbeat, QueryDataVersion
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import live_key_of
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import DataVersion, LiveKey


class QueryDataVersionResult(NamedTuple):
    """Whether the version asked about differs from the stored one, and the stored one."""

    changed: bool
    data_version: DataVersion | None


def broker_heartbeat(registry: Registry, event: BrokerHeartbeat, namesrv: Namesrv) -> Step:
    """Renew the lease of a known address; nothing is created for an unknown one.

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
    sent = None if event.data_version is None else event.data_version.known_to(namesrv.profile)
    changed = live.data_version is None or live.data_version != sent
    result = QueryDataVersionResult(changed, live.data_version)
    if changed and not namesrv.profile.query_always_refreshes:
        return Step(Outcome.VERSION_DIFFERS, result=result)
    return Step(Outcome.REFRESHED, (), key, result)


def _has_no_hash(key: LiveKey, namesrv: Namesrv) -> bool:
    """Return whether a look at the live table throws: the key of 5.x cannot be hashed with a part missing."""
    return namesrv.profile.live_key_has_cluster and None in key
