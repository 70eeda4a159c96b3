"""unregisterBroker: a broker leaves, at once (4.x) or through the batch queue (5.x)."""

from __future__ import annotations

from collections.abc import Sequence

from namesrv_core.machine.draft import NULL_POINTER, Draft, Notification, Outcome, Step
from namesrv_core.machine.events import UnregisterBroker
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import live_key_of, min_broker_id_notifications
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import MASTER_ID


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
        kept = tuple(member for member in group.broker_addrs if not _leaves(member, request, namesrv))
        if kept:
            draft.put("broker_addr_table", (name,), group._replace(broker_addrs=kept))
            reduced[name] = None
            if was_min:
                offline[name] = (
                    request.broker_addr if namesrv.profile.matches_addr else group.addr_of[min(group.addr_of)]
                )
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
    return draft.step(Outcome.APPLIED)._replace(notifications=_notifications(draft, offline, namesrv))


def _leaves(member: tuple[int, str | None], request: UnregisterBroker, namesrv: Namesrv) -> bool:
    """Return whether a member of the group is meant: 5.0.0 asks for the id, as 4.x does, later releases for the address."""
    broker_id, addr = member
    return addr == request.broker_addr if namesrv.profile.matches_addr else broker_id == request.broker_id


def _notifications(draft: Draft, offline: dict[str | None, str | None], namesrv: Namesrv) -> tuple[Notification, ...]:
    """Return the notifications at the end of a batch, name by name in the order of a default HashMap."""
    if not namesrv.config.notify_min_broker_id_changed:
        return ()
    sent: list[Notification] = []
    for name, addr in string_map(entries=offline.items()).java_items():
        group = draft.group(name)
        if group is not None and group.enable_acting_master:
            sent += min_broker_id_notifications(group, addr, None)
    return tuple(sent)
