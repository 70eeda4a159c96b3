"""One recorded event taken: what it does to the registry, and what it tells about a past that is not known."""

from __future__ import annotations

from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.step import apply_step, step
from namesrv_core.replay import bootstrap
from namesrv_core.replay.assimilation import assimilate
from namesrv_core.replay.belief import Belief
from namesrv_core.replay.responses import assimilate_response

_SINCE_5X = (events.BrokerHeartbeat, events.RegisterTopic)


def is_unknown(event: events.Event, namesrv: Namesrv) -> bool:
    """Return whether a request, or a run of such, is one that the release does not know: 4.x does nothing then.

    Source: RocketMQ 4.9.7 DefaultRequestProcessor.processRequest.
    """
    asked = event.beat if isinstance(event, events.RefreshRun) else event
    if isinstance(asked, events.AddWritePerm):
        return not namesrv.profile.has_add_write_perm
    return isinstance(asked, _SINCE_5X) and not namesrv.profile.has_topic_registration


def take(registry: Registry, event: events.Event, at_ms: int, namesrv: Namesrv, since_ms: int | None = None) -> Step:
    """Return what `event` at `at_ms` (epoch milliseconds) does to `registry`, after applying it.

    `since_ms`: of a run, when its first heartbeat came: from then on counts what it tells of the past.

    What a gap in the recording leaves is applied by itself. Raises KeyError for something that is not an event.
    """
    if type(event) is events.RecordingGap:
        return _pass_over(registry, event, at_ms)
    if is_unknown(event, namesrv):
        return Step(Outcome.NO_EFFECT)
    if registry.past is None:
        taken = step(registry, event, at_ms, namesrv)
    else:
        belief = Belief(registry, registry.past, namesrv)
        told = event.beat if isinstance(event, events.RefreshRun) else event
        bootstrap.doubt_what_went_silently(belief, told, at_ms if since_ms is None else since_ms)
        if isinstance(event, events.AnswerObserved):
            taken = assimilate(belief, event)
        elif isinstance(event, events.ResponseObserved):
            taken = assimilate_response(belief, event)
        else:
            taken = step(registry, event, at_ms, namesrv)
        taken = bootstrap.learn(belief, told, taken, at_ms)
    apply_step(registry, event, taken, at_ms, namesrv)
    return taken


def _pass_over(registry: Registry, event: events.RecordingGap, at_ms: int) -> Step:
    """Take the gap that begins at `at_ms`: from its end on nothing is known but what events and answers show.

    What was held when it began is the best guess. Nothing is invented for the time between, least of all an outage of all brokers.
    A lease that had not ended when the gap began counts from its end: the broker may have beaten until then. One that had
    ended goes with the next scan, as it would have.
    """
    # Of a gap of a millisecond, which one event leaves, others may come before its end.
    heard_ms = event.until_ms if event.until_ms > at_ms + 1 else min(event.until_ms, at_ms)
    for key, live in registry.broker_live_table.items():
        if registry.last_update_ms[key] + live.lease_ms >= at_ms:
            registry.broker_live_table.refresh(key, max(heard_ms, registry.last_update_ms[key]))
    registry.past = Past(event.until_ms)
    return Step(Outcome.UNRECORDED, result=event.until_ms)
