"""registerBroker: a broker enters the registry or renews its place."""

from __future__ import annotations

from typing import NamedTuple

from namesrv_core.machine.draft import NULL_POINTER, Draft, Notification, Outcome, Step
from namesrv_core.machine.events import RegisterBroker
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, Namesrv, Profile
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import (
    MASTER_ID,
    PERM_WRITE,
    BrokerData,
    BrokerLiveInfo,
    DataVersion,
    LiveKey,
)

REGISTER_FAILED = "register broker failed"
"""Remark of 5.x when it refuses a registration with a lone topic."""


class RegisterResult(NamedTuple):
    """Return value of registerBroker: for a slave, its master's addresses; otherwise both are None."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


def live_key_of(namesrv: Namesrv, cluster_name: str | None, broker_addr: str | None) -> LiveKey:
    """Return a broker's key in the live and filter tables: with its cluster in 5.x, without in 4.x."""
    return LiveKey(cluster_name if namesrv.profile.live_key_has_cluster else None, broker_addr)


def register_broker(registry: Registry, event: RegisterBroker, namesrv: Namesrv) -> Step:
    """Return the step of a registration; `result` is a RegisterResult, or None for a refused lone topic (5.x).

    In this order: the cluster set and the group are made if needed; another id of the group with the same address goes;
    5.x may reject (another live address with a newer state version holds the id) or refuse (the id is new to the group
    and there is exactly one topic, or `is_refused`); the address is set; topics are taken; the live entry is replaced;
    filter servers are set. A rejection, a refusal or an exception, which the server catches, keeps the steps before it.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.registerBroker.
    """
    key = live_key_of(namesrv, event.cluster_name, event.broker_addr)
    if event.is_refused and not namesrv.profile.refuses_lone_topic:
        return Step(Outcome.REFUSED_REQUEST, result=REGISTER_FAILED)
    draft, profile = Draft(registry), namesrv.profile
    if not (profile.concurrent_maps and event.cluster_name is None):
        draft.put("cluster_addr_table", (event.cluster_name, event.broker_name), value=True)
    if profile.concurrent_maps and None in (event.cluster_name, event.broker_name):
        return _failed(draft)  # a ConcurrentHashMap refuses the null key; the HashSet of names has already taken it
    old_group = draft.group(event.broker_name)
    group = old_group or BrokerData(event.cluster_name, ())
    first = old_group is None
    if profile.live_key_has_cluster:
        group = group._replace(enable_acting_master=bool(event.enable_acting_master), zone_name=event.zone_name)
    lowers_min_id = event.broker_id < min(group.addr_of, default=MASTER_ID)
    # A slave that takes over its master's address gives up its own id: since 4.5.0 an address has one id in a group.
    if event.broker_addr is not None and profile.one_id_per_addr:
        kept = (one for one in group.broker_addrs if one[1] != event.broker_addr or one[0] == event.broker_id)
        group = group._replace(broker_addrs=tuple(kept))
    old_addr = group.addr_of.get(event.broker_id)
    known_id = event.broker_id in group.addr_of
    may_rival = profile.rejects_older_state_version and not event.is_refused
    # The rival: the live entry, under the request's cluster, of another address that holds the id.
    is_taken = may_rival and old_addr not in (None, event.broker_addr)
    rival = draft.live(LiveKey(event.cluster_name, old_addr)) if is_taken else None
    if rival is not None:
        draft.put("broker_addr_table", (event.broker_name,), group)
        if rival.data_version is None or event.data_version is None:
            return _failed(draft)
        if rival.data_version.state_version > event.data_version.state_version:
            draft.put("broker_live_table", key, None)
            return Step(Outcome.REJECTED_STATE_VERSION, tuple(draft.changes), result=RegisterResult())
    is_lone = not known_id and (event.topics is None or len(event.topics) == 1)
    if event.is_refused or (profile.refuses_lone_topic and is_lone):
        draft.put("broker_addr_table", (event.broker_name,), group)
        fails = event.topics is None and not event.is_refused
        return _failed(draft) if fails else Step(Outcome.REFUSED_LONE_TOPIC, tuple(draft.changes))

    first = first or (not old_addr if profile.live_key_has_cluster else old_addr is None)
    group = group._replace(broker_addrs=tuple((group.addr_of | {event.broker_id: event.broker_addr}).items()))
    draft.put("broker_addr_table", (event.broker_name,), group)
    _take_topics(draft, event, namesrv, group, key, first=first)
    if profile.live_key_has_cluster and event.broker_addr is None:
        return _failed(draft)
    draft.put("broker_live_table", key, _live_of(event, namesrv))
    if event.filter_servers is not None:
        draft.put("filter_server_table", key, event.filter_servers or None)
    result = _result_for(draft, event, namesrv, group)
    notifications: tuple[Notification, ...] = ()
    if lowers_min_id and namesrv.config.notify_min_broker_id_changed:
        notifications = min_broker_id_notifications(group, None, event.ha_server_addr)
    outcome = Outcome.APPLIED if draft.changes else Outcome.REFRESHED
    return Step(outcome, tuple(draft.changes), refreshed=key, result=result, notifications=notifications)


def _failed(draft: Draft) -> Step:
    """Return the step of a registration that ran into a NullPointerException: the changes before it stay."""
    return draft.step(Outcome.APPLIED)._replace(result=RegisterResult(), swallowed=(NULL_POINTER,))


def config_changed(live: BrokerLiveInfo | None, data_version: DataVersion | None, profile: Profile) -> bool:
    """Return whether a live entry is missing, has no version, or has another version than the one sent.

    Source: RouteInfoManager.isBrokerTopicConfigChanged. It compares with the last writer of the entry, whoever that was.
    """
    sent = None if data_version is None else data_version.known_to(profile)
    return live is None or live.data_version is None or live.data_version != sent


def min_broker_id_notifications(
    group: BrokerData, offline_addr: str | None, ha_addr: str | None
) -> tuple[Notification, ...]:
    """Return the notifications about the group's smallest id.

    If an address went offline, all remaining members are notified; otherwise all but the smallest id, or that one if
    it is alone.

    Source: RocketMQ 5.4.0 RouteInfoManager.notifyMinBrokerIdChanged, .chooseBrokerAddrsToNotify.
    """
    if not group.broker_addrs:
        return ()
    addrs = group.java_addrs()
    min_id = min(group.addr_of)
    everyone = offline_addr is not None or len(addrs) == 1
    return tuple(
        Notification(addr, min_id, group.addr_of[min_id], offline_addr, ha_addr)
        for broker_id, addr in addrs
        if everyone or broker_id != min_id
    )


def _take_topics(
    draft: Draft, event: RegisterBroker, namesrv: Namesrv, group: BrokerData, key: LiveKey, *, first: bool
) -> None:
    """Write the registration's topics if they count: a master's, and in 5.x those of the slave with the smallest id.

    4.x writes all topics if the configuration changed, otherwise none. 5.x decides per topic, so an unchanged
    registration still brings back missing topics. Without a change, perms and queue numbers of a present topic are
    never corrected.
    """
    profile, name = namesrv.profile, event.broker_name
    is_prime_slave = (
        profile.takes_prime_slave_topics
        and event.enable_acting_master is not None
        and event.broker_id != MASTER_ID
        and event.broker_id == min(group.addr_of)
    )
    if event.topics is None or not (event.broker_id == MASTER_ID or is_prime_slave):
        return
    table = draft.registry.topic_queue_table
    everything = first or config_changed(draft.live(key), event.data_version, profile)
    says_nothing = not everything and (not profile.repairs_missing_topics or table.has_topics(name, event.topics))
    is_deleting = namesrv.deletes_unlisted_topics and not event.topics.mappings
    if says_nothing and not is_deleting:
        return
    present = table.topics_of_name(name)
    if is_deleting:
        for topic in [topic for topic in present if topic not in event.topics.names]:
            draft.put("topic_queue_table", (topic, name), None)
    # Without an address 5.x throws where it looks up the stored version: at once, or, in a first registration, after
    # the topics.
    throws = profile.live_key_has_cluster and event.broker_addr is None
    if says_nothing or (throws and not first):
        return
    read_only = is_prime_slave and (group.enable_acting_master or profile.prime_slave_never_writes)
    for topic, data in event.topics.queue_datas.items():
        if everything or topic not in present:
            written = data._replace(perm=data.perm & ~PERM_WRITE) if read_only else data
            if profile.lists_queue_data and topic in present and table.names_of_topic(topic) != [name]:
                if table.row((topic, name)) == written:
                    continue
                draft.put("topic_queue_table", (topic, name), None)
            draft.put("topic_queue_table", (topic, name), written)
    if everything and profile.stores_topic_queue_mapping and not throws:
        for mapping in event.topics.mappings:
            draft.put("topic_queue_mapping_info_table", (mapping.topic, mapping.bname), mapping)


def _live_of(event: RegisterBroker, namesrv: Namesrv) -> BrokerLiveInfo:
    timeout_ms = event.heartbeat_timeout_ms if namesrv.profile.own_heartbeat_timeout else None
    return BrokerLiveInfo(
        None if event.data_version is None else event.data_version.known_to(namesrv.profile),
        BROKER_CHANNEL_EXPIRED_MS if timeout_ms is None else timeout_ms,
        event.channel_id,
        event.ha_server_addr,
        event.broker_name,
    )


def _result_for(draft: Draft, event: RegisterBroker, namesrv: Namesrv, group: BrokerData) -> RegisterResult:
    """Return the master's address and HA address for a slave whose master is live under the slave's cluster name."""
    if event.broker_id == MASTER_ID:
        return RegisterResult()
    master_addr = group.addr_of.get(MASTER_ID)
    if master_addr is None:
        return RegisterResult()
    live = draft.live(live_key_of(namesrv, event.cluster_name, master_addr))
    return RegisterResult() if live is None else RegisterResult(live.ha_server_addr, master_addr)
