"""The one loop: ordered events in, what each of them did out.

Ticks of the periodic scan are events too. They are not recorded anywhere, so the loop makes those that can expire
something, in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.events import Event, RefreshRun, ScanNotActiveBroker
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US, US_PER_MS
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_core.machine.step import apply_step, step
from namesrv_core.replay.assimilation import assimilate, assimilate_response
from namesrv_core.replay.belief import Belief, doubt_what_went_silently, learn


class TimedEvent(NamedTuple):
    """An event with its position (`seq`), its id, and the instant (microseconds since the epoch) of its effect."""

    seq: int
    event_id: str
    effect_us: int
    event: Event


class Taken(NamedTuple):
    """An event and what it did."""

    timed: TimedEvent
    step: Step


class OrderError(ValueError):
    """Events that do not come in strictly increasing order."""


def replay(
    registry: Registry,
    timed_events: Iterable[TimedEvent],
    namesrv: Namesrv,
    schedule: ScanSchedule | None = None,
    *,
    namesrv_id: str = "",
    span: tuple[int, int | None] = (0, None),
) -> Iterator[Taken]:
    """Apply `timed_events` to `registry` and yield each with its step, scans in between included.

    Scans run in the `span`: from where a registry that was carried over stands, until the end of what is known. Raises
    OrderError where (seq, event_id) does not increase.
    """
    position, until_seq = span
    has_changed = True  # since the last tick

    def scans_before(seq: int) -> Iterator[Taken]:
        """Run the ticks before `seq` that can expire something."""
        nonlocal position, has_changed
        is_logged = registry.past is not None and registry.past.is_logged  # the log says what scans removed
        while schedule is not None and not registry.scan_halted and not is_logged:
            # A live entry that a scan could not remove is worth another tick only after something else has changed.
            # One of these may be renewed, and end again before any other does.
            lease_end = 0 if has_changed and registry.broker_live_table.has_ended_leases else registry.next_lease_end()
            if lease_end is None or lease_end * NS_PER_MS >= seq:
                return
            tick = schedule.first_tick(position, lease_end)
            if tick is None or tick >= seq:
                return
            timed = TimedEvent(tick, scan_id(namesrv_id, tick), tick // NS_PER_US, ScanNotActiveBroker())
            step = take(registry, timed.event, tick // NS_PER_MS, namesrv.at(tick))
            position, has_changed = tick, bool(step.changes)
            if step.changes:
                yield Taken(timed, step)

    last_seq, last_id = -1, ""
    for timed in timed_events:
        seq, event_id, effect_us, event = timed
        if seq <= last_seq and (seq < last_seq or event_id <= last_id):
            raise OrderError(
                f"seq {seq} ({event_id}) after {last_seq} ({last_id}) at {namesrv_id}: events must be strictly increasing"
            )
        last_seq, last_id = seq, event_id
        yield from scans_before(seq)
        since_ms = seq // NS_PER_MS if type(event) is RefreshRun else None
        step = take(registry, event, effect_us // US_PER_MS, namesrv.at(seq), since_ms)
        position, has_changed = seq, has_changed or bool(step.changes)
        yield Taken(timed, step)
    if until_seq is not None:
        yield from scans_before(until_seq)


def scan_id(namesrv_id: str, tick: int) -> str:
    """Return the event id of the scan of `namesrv_id` at position `tick`."""
    return hashlib.sha256(f"scan {namesrv_id} {tick}".encode()).hexdigest()[:32]


# -- one event ---------------------------------------------------------------------------------------------------------

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
        doubt_what_went_silently(belief, told, at_ms if since_ms is None else since_ms)
        if isinstance(event, events.AnswerObserved):
            taken = assimilate(belief, event)
        elif isinstance(event, events.ResponseObserved):
            taken = assimilate_response(belief, event)
        else:
            taken = step(registry, event, at_ms, namesrv)
        taken = learn(belief, told, taken, at_ms)
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
