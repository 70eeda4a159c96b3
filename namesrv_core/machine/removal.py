"""How a broker goes: by its own request, at once (4.x) or through the batch queue (5.x), by expiry, with its channel."""

from __future__ import annotations

from collections.abc import Sequence

from namesrv_core.machine.draft import NULL_POINTER, Draft, Notification, Outcome, Step
from namesrv_core.machine.events import ChannelDestroyed, ScanNotActiveBroker, UnregisterBroker
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import live_key_of, min_broker_id_notifications
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import MASTER_ID, UNRECORDED, LiveKey

_CONCURRENT_MODIFICATION = "java.util.ConcurrentModificationException"


def scan_not_active_broker(registry: Registry, event: ScanNotActiveBroker, at_ms: int, namesrv: Namesrv) -> Step:
    """Return what one scan does at `at_ms` (epoch milliseconds); `result` is the number of removed entries (4.x).

    An entry has expired when its last update plus its timeout lies strictly before `at_ms`; at the deadline itself it
    lives.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.scanNotActiveBroker.
    """
    if registry.scan_halted:
        return Step(Outcome.SCAN_HALTED)
    expired = registry.broker_live_table.expired_at(at_ms)
    if not namesrv.profile.batches_unregistrations:
        return _scan_at_once(registry, expired)
    channels = [registry.broker_live_table[key].channel_id for key in expired]
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
        request, swallowed = _holder(registry, keys[0]) if keys else (None, ())
        step = submit_unregistrations(registry, [request] if request else [], namesrv, defer=event.defer)
        step = step._replace(swallowed=step.swallowed + swallowed)
        return step._replace(outcome=Outcome.CHANNEL_LOST) if step.outcome == Outcome.APPLIED else step
    swallowed = _destroy_at_once(draft, _destroyed_addr(keys, event.remote_addr))
    return draft.step(Outcome.CHANNEL_LOST)._replace(swallowed=swallowed)


def _scan_at_once(registry: Registry, expired: list[LiveKey]) -> Step:
    """The 4.x scan: each expired entry is taken out through the iterator, then its channel is destroyed.

    If another live entry shares the channel, the destruction hits that one, behind the iterator; should any entry
    follow, the iterator then throws, and the periodic scan never runs again.
    """
    draft = Draft(registry)
    closed: list[str] = []
    swallowed: tuple[str, ...] = ()
    order = registry.broker_live_table.java_keys()
    removed = 0
    for key in expired:
        live = registry.broker_live_table[key]  # still there: what goes behind the iterator ends the scan
        if live.channel_id is None:
            return _ended(draft, NULL_POINTER, closed, swallowed)
        if live.channel_id != UNRECORDED:
            closed.append(live.channel_id)
        draft.put("broker_live_table", key, None)
        removed += 1
        sharing = draft.live_keys_of_channel(live.channel_id)
        addr = _destroyed_addr(sharing, key.broker_addr)
        is_other = draft.live(LiveKey(None, addr)) is not None
        followed = is_other and any(draft.live(other) for other in order[order.index(key) + 1 :])
        swallowed += _destroy_at_once(draft, addr)
        if followed:
            return _ended(draft, _CONCURRENT_MODIFICATION, closed, swallowed)
    return draft.step(Outcome.EXPIRED)._replace(result=removed, closed=tuple(closed), swallowed=swallowed)


def _ended(draft: Draft, exception: str, closed: list[str], swallowed: tuple[str, ...]) -> Step:
    """Return the step of a 4.x scan that an exception has left: the periodic scan never runs again."""
    draft.changes.append(Change("scan_halted", (), value=True))
    return Step(
        Outcome.SCAN_FAILED, tuple(draft.changes), closed=tuple(closed), swallowed=swallowed, exception=exception
    )


def _destroyed_addr(keys: list[LiveKey], remote_addr: str | None) -> str | None:
    """Return the address that a channel's end takes down (4.x): that of its first live entry, else its remote one."""
    live_addr = keys[0].broker_addr if keys else None
    return remote_addr if live_addr is None else live_addr


def _destroy_at_once(draft: Draft, broker_addr: str | None) -> tuple[str, ...]:
    """Take `broker_addr` out of the live and filter tables and out of the first group that lists it (4.x).

    The lowest id goes if it had several. An emptied group goes with its queue data and its place in the first cluster
    set that has it. The search throws at a member without an address; that exception is returned. A group without a
    name does not end the search, and keeps its place in the cluster set.
    """
    if not broker_addr:
        return ()
    draft.remove_live(LiveKey(None, broker_addr))
    found, emptied = None, False
    for name in draft.names_of_addr(broker_addr, None):
        group = draft.group(name)
        assert group is not None  # it lists an address
        lost, addr = next(member for member in group.java_addrs() if member[1] in (broker_addr, None))
        if addr is None:
            return (NULL_POINTER,)
        kept = tuple(member for member in group.broker_addrs if member[0] != lost)
        draft.put("broker_addr_table", (name,), group._replace(broker_addrs=kept) if kept else None)
        found, emptied = name, emptied or not kept
        if found is not None:
            break
    if emptied:
        for cluster in draft.clusters_of_name(found)[: 0 if found is None else 1]:
            draft.put("cluster_addr_table", (cluster, found), None)
        draft.remove_topics_of(found)
    return ()


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
        kept = tuple(
            (broker_id, addr)
            for broker_id, addr in group.broker_addrs
            if (addr != request.broker_addr if by_addr else broker_id != request.broker_id)
        )
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
