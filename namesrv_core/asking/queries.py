"""Queries over a registry: routes and topic lists, as the name server builds them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, TypeVar

from namesrv_core.machine.java_map import JavaMap, string_map, table_size_for
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import MASTER_ID, PERM_WRITE, BrokerData, LiveKey, QueueData, TopicQueueMappingInfo
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG

SYNC_BROKER_MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
_UNIT_FLAG, _UNIT_SUB_FLAG = 1, 2
_V = TypeVar("_V")


class TopicRouteData(NamedTuple):
    """A route, with its lists in the order in which the name server builds them.

    `broker_datas`: groups by broker name, as `routed` returns them. `filter_server_table`: address -> list or None.
    `topic_queue_mapping_by_broker`: None if the server has no such table or entry. `order_topic_conf`: only with
    orderMessageEnable.
    """

    queue_datas: tuple[tuple[str | None, QueueData], ...]
    broker_datas: tuple[tuple[str | None, BrokerData], ...]
    filter_server_table: tuple[tuple[str | None, tuple[str, ...] | None], ...]
    order_topic_conf: str | None
    topic_queue_mapping_by_broker: tuple[tuple[str | None, TopicQueueMappingInfo], ...] | None


def pickup_topic_route_data(registry: Registry, topic: str | None, namesrv: Namesrv) -> TopicRouteData | None:
    """Return the route of `topic`; None if it is unknown or none of its broker names has a group (TOPIC_NOT_EXIST).

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.pickupTopicRouteData, and the request processors for
    orderTopicConf.
    """
    table = registry.topic_queue_table.get(topic)
    if table is None:
        return None
    queue_datas = tuple(table.java_items())
    groups = [
        (name, group)
        for name in _name_set(tuple(table.java_keys()), namesrv.profile.sized_name_set)
        if (group := registry.broker_addr_table.get(name)) is not None
    ]
    if not groups:
        return None
    if namesrv.profile.live_key_has_cluster and registry.filter_server_table:
        broken = (any(_has_no_hash(of.cluster_name, a) for _, a in of.broker_addrs) for _, of in groups)
        groups = groups[: next((n for n, is_last in enumerate(broken, 1) if is_last), None)]
    acts = acts_for(topic, namesrv)
    brokers = tuple((name, routed(group, table.get(name) if acts else None)) for name, group in groups)
    order_topic_conf = None
    if namesrv.config.order_message_enable:
        entry = registry.kv_config_table.row((ORDER_TOPIC_CONFIG, topic))
        order_topic_conf = None if entry is None else entry.text
    mappings = registry.topic_queue_mapping_info_table.get(topic)
    return TopicRouteData(
        queue_datas,
        brokers,
        _filter_servers(registry, groups, namesrv),
        order_topic_conf,
        None if mappings is None else tuple(mappings.java_items()),
    )


def acts_for(topic: str | None, namesrv: Namesrv) -> bool:
    """Return whether routes of a topic show a slave as master if the group has none."""
    return namesrv.config.support_acting_master and not (topic or "").startswith(SYNC_BROKER_MEMBER_GROUP_PREFIX)


def within_zone(route: TopicRouteData, zone: str, *, sorted_maps: bool) -> TopicRouteData:
    """Return a route without the groups that have a master and are in another zone (names compared without case).

    Their queue data and filter servers go with them. The filter parses the route from its JSON, which fills its maps
    again: without nulls, and in the order of the keys if the JSON was sorted (`sorted_maps`).

    Source: RocketMQ 5.4.0 ZoneRouteRPCHook.
    """
    dropped = {
        name: group
        for name, group in route.broker_datas
        if MASTER_ID in group.addr_of and (group.zone_name or "").lower() != zone.lower()
    }
    gone = {addr for group in dropped.values() for _, addr in group.broker_addrs}
    mappings = route.topic_queue_mapping_by_broker
    servers = ((addr, found) for addr, found in route.filter_server_table if found is not None)
    return route._replace(
        queue_datas=tuple(entry for entry in route.queue_datas if entry[0] not in dropped),
        broker_datas=tuple(entry for entry in route.broker_datas if entry[0] not in dropped),
        filter_server_table=tuple(entry for entry in _refilled(servers, sorted_maps) if entry[0] not in gone),
        topic_queue_mapping_by_broker=None if mappings is None else _refilled(mappings, sorted_maps),
    )


def _refilled(entries: Iterable[tuple[str | None, _V]], in_order: bool) -> tuple[tuple[str | None, _V], ...]:  # noqa: FBT001
    ordered = sorted(entries, key=lambda entry: entry[0] or "") if in_order else entries
    return tuple(string_map(entries=ordered).java_items())


@lru_cache(256)
def _name_set(table: tuple[str | None, ...], is_sized: bool) -> list[str | None]:  # noqa: FBT001  hashed at each call
    """Return the topic's broker names in the order of the server's HashSet of them. The list is shared."""
    capacity = max(16, table_size_for(int(len(table) / 0.75) + 1)) if is_sized else 16
    return string_map(capacity, ((name, True) for name in table)).java_keys()


@lru_cache(4_096)
def routed(group: BrokerData, acting_for: QueueData | None) -> BrokerData:
    """Return the group as a route shows it, with its members in Java's iteration order.

    `acting_for`: the group's queue data of the topic, on a server that supports acting masters. Then the smallest id
    is shown as master if the group has none and enables acting masters, and the queue data lacks the write bit.
    """
    addrs = group.java_addrs()
    if (
        acting_for is not None
        and addrs
        and group.enable_acting_master
        and MASTER_ID not in group.addr_of
        and not acting_for.perm & PERM_WRITE
    ):
        min_id = min(group.addr_of)
        members = (*(member for member in addrs if member[0] != min_id), (MASTER_ID, group.addr_of[min_id]))
        addrs = BrokerData(group.cluster_name, members).java_addrs()
    return group._replace(broker_addrs=tuple(addrs))


def _has_no_hash(cluster_name: str | None, addr: str | None) -> bool:
    """Return whether a lookup by this live key throws in 5.x: the route then ends with that broker.

    Source: RocketMQ 5.4.0 BrokerAddrInfo.hashCode.
    """
    return cluster_name is None or (cluster_name != "" and addr is None)


def _filter_servers(
    registry: Registry, groups: list[tuple[str | None, BrokerData]], namesrv: Namesrv
) -> tuple[tuple[str | None, tuple[str, ...] | None], ...]:
    if not registry.filter_server_table:
        return ()
    found: JavaMap[str | None, tuple[str, ...] | None] = string_map()
    for _, group in groups:
        for _, addr in group.java_addrs():
            cluster = group.cluster_name if namesrv.profile.live_key_has_cluster else None
            if namesrv.profile.live_key_has_cluster and _has_no_hash(cluster, addr):
                break
            servers = registry.filter_server_table.get(LiveKey(cluster, addr))
            if servers is not None or namesrv.profile.lists_absent_filter_servers:
                found.put(addr, servers)
    return tuple(found.java_items())


def all_topic_list(registry: Registry, namesrv: Namesrv) -> list[str | None]:
    """Return all topics, in the order of the set into which the server copies them.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getAllTopicList, TopicList.
    """
    return _topic_set(registry.topic_queue_table.java_keys(), namesrv)


def topics_by_cluster(registry: Registry, cluster_name: str | None, namesrv: Namesrv) -> list[str | None]:
    """Return the topics with queue data of a broker name in the cluster's set; an unknown cluster has none.

    Source: RocketMQ 4.9.2, 4.9.7 and 5.4.0 RouteInfoManager.getTopicsByCluster.
    """
    members = registry.cluster_addr_table.get(cluster_name)
    names = [] if members is None else members.java_keys()
    if namesrv.profile.lists_queue_data and None in names:
        names = names[: names.index(None)]  # comparing a null name with another throws
    topics = [
        topic for name in names for topic, queue_datas in registry.topic_queue_table.java_items() if name in queue_datas
    ]
    return _topic_set(topics, namesrv)


def system_topic_list(registry: Registry, namesrv: Namesrv) -> tuple[list[str | None], str | None]:
    """Return all cluster names with the names in their sets, and the first address of the first group that has one.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getSystemTopicList.
    """
    names = [
        entry
        for cluster, members in registry.cluster_addr_table.java_items()
        for entry in (cluster, *members.java_keys())
    ]
    if namesrv.profile.topic_list == "newKeySet" and None in names:
        return _topic_set(names[: names.index(None)], namesrv), None  # the list takes no null: the query ends there
    addr = next((g.java_addrs()[0][1] for _, g in registry.broker_addr_table.java_items() if g.broker_addrs), None)
    return _topic_set(names, namesrv), addr


def unit_topic_list(registry: Registry, namesrv: Namesrv, *, unit: bool | None, sub: bool | None) -> list[str | None]:
    """Return the topics whose first queue data has the unit bit and the unit-sub bit as asked; None: either.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getUnitTopics, .getHasUnitSubTopicList,
    .getHasUnitSubUnUnitTopicList.
    """
    topics = []
    for topic, queue_datas in registry.topic_queue_table.java_items():
        flag = queue_datas[queue_datas.java_keys()[0]].topic_sys_flag
        is_unit, is_sub = bool(flag & _UNIT_FLAG), bool(flag & _UNIT_SUB_FLAG)
        if unit in (None, is_unit) and sub in (None, is_sub):
            topics.append(topic)
    return _topic_set(topics, namesrv)


def _topic_set(topics: list[str | None], namesrv: Namesrv) -> list[str | None]:
    kind = namesrv.profile.topic_list
    if kind == "CopyOnWriteArraySet":
        return list(dict.fromkeys(topics))
    return string_map(entries=((topic, True) for topic in topics), concurrent=kind == "newKeySet").java_keys()
