"""Expiry and lost channels: how a broker goes without saying so."""

from __future__ import annotations

from namesrv_core.machine.draft import NULL_POINTER, Draft, Outcome, Step
from namesrv_core.machine.events import ChannelDestroyed, ScanNotActiveBroker, UnregisterBroker
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import UNRECORDED, LiveKey
from namesrv_core.machine.unregister import submit_unregistrations

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
