"""The transitions, and `step`, which dispatches an event to its own.

In this order: registerBroker; how a broker goes (by its own request, at once in 4.x or through the batch queue in 5.x, by expiry,
with its channel); lines of a name server's own log, which show changes, never all fields of a request; heartbeats, permissions
and topics, KVConfigManager, start and stop of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from namesrv_core.machine import events
from namesrv_core.machine.events import (
    AddWritePerm,
    BrokerHeartbeat,
    ChangeLogged,
    ChannelDestroyed,
    DeleteKvConfig,
    DeleteTopic,
    LoggedRow,
    PutKvConfig,
    QueryDataVersion,
    RegisterBroker,
    RegisterTopic,
    ScanNotActiveBroker,
    UnregisterBroker,
    WipeWritePerm,
)
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.past import ANY, as_text
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, Namesrv, Profile
from namesrv_core.machine.registry import NULL_POINTER, Change, Draft, Notification, Outcome, Registry, Step
from namesrv_core.machine.tables import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    UNRECORDED,
    BrokerData,
    BrokerLiveInfo,
    DataVersion,
    KvValue,
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
    if draft.swallowed or (profile.live_key_has_cluster and event.broker_addr is None):
        return _failed(draft)
    timeout_ms = event.heartbeat_timeout_ms if profile.own_heartbeat_timeout else None
    live = BrokerLiveInfo(
        None if event.data_version is None else event.data_version.known_to(profile),
        BROKER_CHANNEL_EXPIRED_MS if timeout_ms is None else timeout_ms,
        event.channel_id,
        event.ha_server_addr,
        event.broker_name,
    )
    draft.put("broker_live_table", key, live)
    if event.filter_servers is not None:
        draft.put("filter_server_table", key, event.filter_servers or None)
    result = RegisterResult()
    if event.broker_id != MASTER_ID and (master_addr := group.addr_of.get(MASTER_ID)) is not None:
        # A slave is answered its master if that is live under the slave's cluster name.
        master = draft.live(live_key_of(namesrv, event.cluster_name, master_addr))
        result = result if master is None else RegisterResult(master.ha_server_addr, master_addr)
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
    never corrected. Before 4.9.4 it throws at queue data without a broker name.
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
            names = table.listed(topic) if profile.lists_queue_data else []
            is_null_met = None in names
            if names != [name] and name in (names[: names.index(None)] if is_null_met else names):
                if table.row((topic, name)) != written:
                    draft.put("topic_queue_table", (topic, name), None)
                elif not is_null_met:
                    continue
            if is_null_met:
                draft.swallowed = (NULL_POINTER,)
                return
            draft.put("topic_queue_table", (topic, name), written)
    if everything and profile.stores_topic_queue_mapping and not throws:
        for mapping in event.topics.mappings:
            draft.put("topic_queue_mapping_info_table", (mapping.topic, mapping.bname), mapping)


_CONCURRENT_MODIFICATION = "java.util.ConcurrentModificationException"


def scan_not_active_broker(registry: Registry, event: ScanNotActiveBroker, at_ms: int, namesrv: Namesrv) -> Step:
    """Return what one scan does at `at_ms` (epoch milliseconds); `result` is the number of removed entries (4.x).

    An entry has expired when its last update plus its timeout lies strictly before `at_ms`; at the deadline itself it
    lives.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.scanNotActiveBroker.
    """
    if registry.scan_halted:
        return Step(Outcome.SCAN_HALTED)
    live = registry.broker_live_table
    expired = live.expired_at(at_ms)
    if (began_ms := event.began_ms) is not None:  # whom it passed before it waited, it does not look at again
        expired = expired[len([*takewhile(lambda key: live.lease_end(key) >= began_ms, expired)]) :]
    if not namesrv.profile.batches_unregistrations:
        return _scan_at_once(registry, expired)
    channels = [live[key].channel_id for key in expired]
    # An entry without a channel throws when that is closed, and ends the scan.
    broken_at = channels.index(None) if None in channels else None
    expired = expired[:broken_at]
    held = [_holder(registry, key) for key in expired]
    requests = [request for request, _ in held if request is not None]
    step = submit_unregistrations(registry, requests, namesrv, defer=event.defer)
    if step.outcome == Outcome.APPLIED:
        step = step._replace(outcome=Outcome.EXPIRED)
    return step._replace(
        closed=tuple(channel for channel in channels[:broken_at] if channel),
        swallowed=sum((swallowed for _, swallowed in held), () if broken_at is None else (NULL_POINTER,)),
    )


def on_channel_destroy(registry: Registry, event: ChannelDestroyed, namesrv: Namesrv) -> Step:
    """Return what the end of a channel does: at most one live entry that was registered over it goes.

    4.x without such an entry takes the channel's remote address for a broker address.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.onChannelDestroy.
    """
    draft = Draft(registry)
    if event.looked_up is not None:
        keys = [event.looked_up]
    else:
        keys = draft.live_keys_of_channel(event.channel_id) if event.channel_id is not None else []
    if namesrv.profile.batches_unregistrations:
        # Of one that was found twice, the group that was found with it has gone; another one with that address stays.
        is_held = bool(keys) and keys[0] in registry.broker_live_table
        request, swallowed = _holder(registry, keys[0]) if is_held else (None, ())
        step = submit_unregistrations(registry, [request] if request else [], namesrv, defer=event.defer)
        step = step._replace(swallowed=step.swallowed + swallowed)
        return step._replace(outcome=Outcome.CHANNEL_LOST) if step.outcome == Outcome.APPLIED else step
    _destroy_at_once(draft, _destroyed_addr(keys, event.remote_addr))
    return draft.step(Outcome.CHANNEL_LOST)


def _scan_at_once(registry: Registry, expired: list[LiveKey]) -> Step:
    """The 4.x scan: each expired entry is taken out through the iterator, then its channel is destroyed.

    If another live entry shares the channel, the destruction hits that one, behind the iterator; should any entry
    follow, the iterator then throws, and the periodic scan never runs again.
    """
    draft = Draft(registry)
    closed: list[str] = []
    order = registry.broker_live_table.java_keys()
    removed = 0
    for key in expired:
        live = registry.broker_live_table[key]  # still there: what goes behind the iterator ends the scan
        if live.channel_id is None:
            return _ended(draft, NULL_POINTER, closed)
        if live.channel_id != UNRECORDED:
            closed.append(live.channel_id)
        draft.put("broker_live_table", key, None)
        removed += 1
        sharing = draft.live_keys_of_channel(live.channel_id)
        addr = _destroyed_addr(sharing, key.broker_addr)
        is_other = draft.live(LiveKey(None, addr)) is not None
        followed = is_other and any(draft.live(other) for other in order[order.index(key) + 1 :])
        _destroy_at_once(draft, addr)
        if followed:
            return _ended(draft, _CONCURRENT_MODIFICATION, closed)
    return draft.step(Outcome.EXPIRED)._replace(result=removed, closed=tuple(closed))


def _ended(draft: Draft, exception: str, closed: list[str]) -> Step:
    """Return the step of a 4.x scan that an exception has left: the periodic scan never runs again."""
    draft.changes.append(Change("scan_halted", (), value=True))
    return draft.step(Outcome.SCAN_FAILED)._replace(closed=tuple(closed), exception=exception)


def _destroyed_addr(keys: list[LiveKey], remote_addr: str | None) -> str | None:
    """Return the address that a channel's end takes down (4.x): that of its first live entry, else its remote one."""
    live_addr = keys[0].broker_addr if keys else None
    return remote_addr if live_addr is None else live_addr


def _destroy_at_once(draft: Draft, broker_addr: str | None) -> None:
    """Take `broker_addr` out of the live and filter tables and out of the first group that lists it (4.x).

    The lowest id goes if it had several. An emptied group goes with its queue data and its place in the first cluster
    set that has it. The search throws at a member without an address. A group without a name does not end the search,
    and keeps its place in the cluster set.
    """
    if not broker_addr:
        return
    draft.remove_live(LiveKey(None, broker_addr))
    found, emptied = None, False
    for name in draft.names_of_addr(broker_addr, None):
        group = draft.group(name)
        assert group is not None  # it lists an address
        lost, addr = next(member for member in group.java_addrs() if member[1] in (broker_addr, None))
        if addr is None:
            draft.swallowed += (NULL_POINTER,)
            return
        kept = tuple(member for member in group.broker_addrs if member[0] != lost)
        draft.put("broker_addr_table", (name,), group._replace(broker_addrs=kept) if kept else None)
        found, emptied = name, emptied or not kept
        if found is not None:
            break
    if emptied:
        for cluster in draft.clusters_of_name(found)[: 0 if found is None else 1]:
            draft.put("cluster_addr_table", (cluster, found), None)
        draft.remove_topics_of(found)


def _holder(registry: Registry, key: LiveKey) -> tuple[UnregisterBroker | None, tuple[str, ...]]:
    """Return the request that takes down the first group of the key's cluster with its address; None: no such (5.x).

    The search throws at a member without an address, in whatever group of the cluster; that exception is returned.

    Source: RocketMQ 5.4.0 RouteInfoManager.setupUnRegisterRequest.
    """
    for name in Draft(registry).names_of_addr(key.broker_addr, None):
        group = registry.broker_addr_table[name]
        if group.cluster_name == key.cluster_name:
            broker_id, addr = next(member for member in group.java_addrs() if member[1] in (key.broker_addr, None))
            if addr is None:
                return None, (NULL_POINTER,)
            return UnregisterBroker(key.cluster_name, key.broker_addr, name, broker_id), ()
    return None, ()


def unregister_broker(registry: Registry, event: UnregisterBroker, namesrv: Namesrv) -> Step:
    """Return what UNREGISTER_BROKER does. The live entry of the address goes in any case.

    4.x removes the *id* from the group, whatever its address. A group without addresses goes, with its place in the
    *request's* cluster set and all its queue data. Perms of what remains are untouched.

    Source: RocketMQ 4.9.7 RouteInfoManager.unregisterBroker; 5.4.0 .submitUnRegisterBrokerRequest.
    """
    if namesrv.profile.batches_unregistrations:
        return submit_unregistrations(registry, [event], namesrv, defer=event.defer)
    if event.broker_id is None:
        return Step(Outcome.REFUSED_REQUEST, exception=NULL_POINTER)
    draft = Draft(registry)
    draft.remove_live(live_key_of(namesrv, event.cluster_name, event.broker_addr))
    group = draft.group(event.broker_name)
    if group is not None:
        kept = tuple(member for member in group.broker_addrs if member[0] != event.broker_id)
        if kept:
            draft.put("broker_addr_table", (event.broker_name,), group._replace(broker_addrs=kept))
        else:
            draft.put("broker_addr_table", (event.broker_name,), None)
            draft.put("cluster_addr_table", (event.cluster_name, event.broker_name), None)
            draft.remove_topics_of(event.broker_name)
    return draft.step(Outcome.APPLIED)


def submit_unregistrations(
    registry: Registry, requests: Sequence[UnregisterBroker], namesrv: Namesrv, *, defer: bool
) -> Step:
    """Queue `requests`; unless `defer`, apply all that is queued as one batch (5.x). A full queue takes no more.

    Source: RocketMQ 5.4.0 BatchUnregistrationService.
    """
    room = max(0, namesrv.config.un_register_broker_queue_capacity - len(registry.pending_unregister))
    queued = (*registry.pending_unregister, *requests[:room])
    if defer:
        if len(requests) > room == 0:
            return Step(Outcome.REFUSED_REQUEST)
        if not requests:
            return Step(Outcome.NO_EFFECT)
        return Step(Outcome.QUEUED, (Change("pending_unregister", (), queued),))
    step = unregister_brokers(
        registry, [request for request in queued if isinstance(request, UnregisterBroker)], namesrv
    )
    if registry.pending_unregister:
        step = step._replace(changes=(Change("pending_unregister", (), ()), *step.changes))
    return step._replace(batch=len(queued))


def unregister_brokers(registry: Registry, requests: Sequence[UnregisterBroker], namesrv: Namesrv) -> Step:
    """Return what one batch does (5.x): the group of the name loses the *address*, the id is not compared (5.0.0: the id).

    A group that still exists, has acting masters enabled and no master loses the write bit of all its queue data - even
    if the request removed nothing. Topics are cleaned after all requests.

    Source: RocketMQ 5.4.0 RouteInfoManager.unRegisterBroker, .cleanTopicByUnRegisterRequests.
    """
    draft = Draft(registry)
    removed: dict[str | None, None] = {}
    reduced: dict[str | None, None] = {}
    offline: dict[str | None, str | None] = {}
    for request in requests:
        name = request.broker_name
        key = live_key_of(namesrv, request.cluster_name, request.broker_addr)
        if None not in key:
            draft.remove_live(key)
        group = draft.group(name)
        if None in (*key, name) or (group is not None and group.broker_addrs and request.broker_id is None):
            # No map of 5.x takes a null key, and no id is compared with null: the exception ends the batch.
            return draft.step(Outcome.APPLIED)._replace(swallowed=(NULL_POINTER,))
        if group is None:
            reduced[name] = None
            continue
        was_min = request.broker_id == min(group.addr_of, default=None)
        # 5.0.0 asks for the id, as 4.x does, later releases for the address.
        by_addr = namesrv.profile.matches_addr
        # It is compared with one address after the other; one that is missing throws, and ends the batch.
        ahead = {number for number, _ in takewhile(lambda member: member[1] is not None, group.java_addrs())}
        kept = tuple(
            (broker_id, addr)
            for broker_id, addr in group.broker_addrs
            if (addr != request.broker_addr or broker_id not in ahead if by_addr else broker_id != request.broker_id)
        )
        if by_addr and len(ahead) < len(group.broker_addrs):
            draft.put("broker_addr_table", (name,), group._replace(broker_addrs=kept))
            return draft.step(Outcome.APPLIED)._replace(swallowed=(NULL_POINTER,))
        if kept:
            draft.put("broker_addr_table", (name,), group._replace(broker_addrs=kept))
            reduced[name] = None
            if was_min:
                offline[name] = request.broker_addr if by_addr else group.addr_of[min(group.addr_of)]
        else:
            draft.put("broker_addr_table", (name,), None)
            draft.put("cluster_addr_table", (request.cluster_name, name), None)
            removed[name] = None
    for name in removed:
        draft.remove_topics_of(name)
    for name in reduced:
        group = draft.group(name)
        if group is not None and group.enable_acting_master and min(group.addr_of, default=1) > MASTER_ID:
            draft.wipe_write_perm(name)
    sent: list[Notification] = []
    # Name by name, in the order of a default HashMap.
    for name, addr in string_map(entries=offline.items()).java_items():
        group = draft.group(name) if namesrv.config.notify_min_broker_id_changed else None
        if group is not None and group.enable_acting_master:
            sent += min_broker_id_notifications(group, addr, None)
    return draft.step(Outcome.APPLIED)._replace(notifications=tuple(sent))


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
    if kind == "broker_addr" and isinstance(value, tuple):
        cluster, addr = value
        group = draft.group(as_text(one))
        others = () if group is None else tuple(m for m in group.broker_addrs if m[0] != MASTER_ID and m[1] != addr)
        draft.put("broker_addr_table", (as_text(one),), BrokerData(cluster, ((MASTER_ID, addr), *others)))
    elif kind == "broker_addr":
        draft.put("broker_addr_table", (as_text(one),), None)
        draft.remove_topics_of(as_text(one))
    elif kind == "address":
        # One group loses the address, but the line does not name it: with several candidates nothing follows.
        names = draft.names_of_addr(as_text(one))
        if len(names) == 1 and (group := draft.group(names[0])) is not None:
            left = tuple(member for member in group.broker_addrs if member[1] != as_text(one))
            # Another line tells when a group is gone: it may have members that no line has shown.
            draft.put("broker_addr_table", (names[0],), group._replace(broker_addrs=left) if left else None)
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
        if registry.profile.stores_null_kv:  # under a null key, which only a question without one reads
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
    found = draft.wipe_write_perm(event.broker_name)
    return draft.step(Outcome.APPLIED)._replace(result=found)


def add_write_perm(registry: Registry, event: AddWritePerm) -> Step:
    """Set the permission to exactly read and write, whatever it was; `result` as for `wipe_write_perm`.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.addWritePermOfBrokerByLock.
    """
    draft = Draft(registry)
    found = draft.change_perms(event.broker_name, lambda _: PERM_READ | PERM_WRITE)
    return draft.step(Outcome.APPLIED)._replace(result=found)


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
