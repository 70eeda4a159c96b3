"""The one dispatch: (registry, event, time, name server) to what the event does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.heartbeat import broker_heartbeat, query_data_version
from namesrv_core.machine.kv import delete_kv_config, put_kv_config
from namesrv_core.machine.lifecycle import restore, start, stop
from namesrv_core.machine.logged import change_logged
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import register_broker
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.scan import on_channel_destroy, scan_not_active_broker
from namesrv_core.machine.topics import add_write_perm, delete_topic, register_topic, wipe_write_perm
from namesrv_core.machine.unregister import submit_unregistrations, unregister_broker

Transition = Callable[[Registry, Any, int, Namesrv], Step]


def step(registry: Registry, event: events.Event, at_ms: int, namesrv: Namesrv) -> Step:
    """Return what `event` at `at_ms` (epoch milliseconds) does to `registry`. Nothing is changed.

    Raises KeyError for something that is not an event.
    """
    return _TRANSITIONS[type(event)](registry, event, at_ms, namesrv)


def apply_step(registry: Registry, event: events.Event, taken: Step, at_ms: int, namesrv: Namesrv) -> None:
    """Apply what `step` said that `event` does: its changes, the lease that it renews, the maps of a new process."""
    if isinstance(event, events.RefreshRun):
        event = event.beat
    if type(event) is events.RegisterBroker:
        registry.cluster_addr_table.look_up(event.cluster_name)
    if taken.changes:
        registry.apply(taken.changes, at_ms, dict(event.beats) if isinstance(event, events.StateKnown) else None)
    if taken.refreshed is not None:
        registry.refresh(taken.refreshed, at_ms)
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
    events.AnswerObserved: lambda *_: Step(Outcome.NO_EFFECT),  # it teaches only where the past is not known
    events.ResponseObserved: lambda *_: Step(Outcome.NO_EFFECT),
    events.StateKnown: lambda registry, event, *_: restore(registry, event),
    events.ChangeLogged: lambda registry, event, *_: change_logged(registry, event),
    events.NamesrvStarted: lambda registry, *_: start(registry),
    events.NamesrvStopped: lambda registry, *_: stop(registry),
}
