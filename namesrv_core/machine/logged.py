"""Transitions for lines of a name server's own log. The lines show changes, never all fields of a request."""

from __future__ import annotations

from namesrv_core.machine.draft import Draft, Outcome, Step
from namesrv_core.machine.events import ChangeLogged, LoggedRow
from namesrv_core.machine.past import ANY, as_text
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import MASTER_ID, BrokerData, LiveKey

LEASE_ENDED, CHANNEL_LOST = "lease_ended", "channel_close"
"""Operations in lines about a removal without a request."""
_OUTCOMES = {LEASE_ENDED: Outcome.EXPIRED, CHANNEL_LOST: Outcome.CHANNEL_LOST}


def change_logged(registry: Registry, event: ChangeLogged) -> Step:
    """Return the changes that bring the registry into line with the log; none if the registry is known completely.

    Source: the log lines of RocketMQ 4.3.0 to 5.5.0 RouteInfoManager and KVConfigManager.
    """
    draft = Draft(registry)
    for row in event.rows if registry.past is not None else ():
        _take(draft, row)
    return draft.step(_OUTCOMES.get(event.operation, Outcome.APPLIED))


def _take(draft: Draft, row: LoggedRow) -> None:
    registry, (kind, one, other, value, _) = draft.registry, row
    if kind == "broker_addr":
        _take_group(draft, row)
    elif kind == "address":
        # One group loses the address, but the line does not name it: with several candidates nothing follows.
        names = draft.names_of_addr(as_text(one))
        if len(names) == 1:
            _without(draft, names[0], as_text(one))
    elif kind == "broker_live":
        key = LiveKey(as_text(one) if registry.profile.live_key_has_cluster else None, as_text(other))
        if value is None:
            draft.remove_live(key)
        else:
            draft.put("broker_live_table", key, value)
    elif kind == "topic_queue":
        if one is ANY:
            draft.remove_topics_of(as_text(other))
            return
        held = registry.topic_queue_table.get(as_text(one)) or ()
        for name in [*held] if other is ANY else [as_text(other)]:
            draft.put("topic_queue_table", (as_text(one), name), value)
    elif kind == "cluster_addr":
        clusters = draft.clusters_of_name(as_text(other)) if one is ANY else [as_text(one)]
        # A line that does not name the cluster counts only if the broker name is in exactly one.
        for cluster in clusters if len(clusters) == 1 else ():
            names = [*(registry.cluster_addr_table.get(cluster) or ())] if other is ANY else [as_text(other)]
            for name in names:
                draft.put("cluster_addr_table", (cluster, name), value)
    else:
        draft.put("kv_config_table", (as_text(one), as_text(other)), value)


def _take_group(draft: Draft, row: LoggedRow) -> None:
    """Remove a group with its queue data, or set its cluster and the address of its master."""
    name, group = as_text(row.one), draft.group(as_text(row.one))
    if not isinstance(row.value, tuple):
        draft.put("broker_addr_table", (name,), None)
        draft.remove_topics_of(name)
        return
    cluster, addr = row.value
    others = () if group is None else tuple(m for m in group.broker_addrs if m[0] != MASTER_ID and m[1] != addr)
    draft.put("broker_addr_table", (name,), BrokerData(cluster, ((MASTER_ID, addr), *others)))


def _without(draft: Draft, name: str | None, addr: str | None) -> None:
    group = draft.group(name)
    left = () if group is None else tuple(member for member in group.broker_addrs if member[1] != addr)
    # Another line tells when a group is gone: it may have members that no line has shown.
    draft.put("broker_addr_table", (name,), group._replace(broker_addrs=left) if group is not None and left else None)
