"""One replay unit on one day: the core's loop, and what it leaves: intervals, outcomes, refreshes, what is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from namesrv_core.history.intervals import Histories, Interval, Member
from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.past import Fact
from namesrv_core.machine.quiet import NotQuietError
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import BrokerLiveInfo, LiveKey
from namesrv_core.replay.loop import TimedEvent, replay
from namesrv_day.day.context import NamesrvDay
from namesrv_day.day.timed import Report
from schemas.tables.event_outcomes import detail_of

_HOUR_US = 3_600_000_000
_ANSWERS = (events.AnswerObserved, events.ResponseObserved)
_NAMELESS = (events.ScanNotActiveBroker, events.ChannelDestroyed)


class OutcomeOf(NamedTuple):
    """An event that was no plain refresh. `number`: of its content; None: a scan, which nobody sent."""

    number: int | None
    seq: int
    event_id: str
    effect_time: int
    outcome: str
    detail: str | None
    changes: int
    notifications: list[dict[str, Any]] | None
    brokers_gone: list[dict[str, Any]] | None


class Refreshes(NamedTuple):
    """The plain refreshes of a live entry in the hour that begins at `hour`; runs are not counted."""

    cluster_name: str | None
    broker_addr: str | None
    hour: int
    refreshes: int
    first_time: int
    last_time: int


class UnitReplay:
    """The replay of one unit: let it take its events, then look at what it gives."""

    def __init__(self, day: NamesrvDay, start: tuple[Registry, Histories], reports: Sequence[Report | None]) -> None:
        """`reports`: by number of content, the data version that it reports."""
        self._day, self._reports = day, reports
        self._registry, self._histories = start
        self._runs_until_us = 0
        self._number = 0
        self._hours: dict[tuple[LiveKey, int], list[int]] = {}
        self._closed: list[Interval] = []
        self.outcomes: list[OutcomeOf] = []

    @property
    def intervals(self) -> Iterator[Interval]:
        """Yield the intervals that were closed, and those that are open."""
        yield from self._closed
        yield from self._histories.open_intervals()

    @property
    def refreshes(self) -> Iterator[Refreshes]:
        """Yield the hours of live entries."""
        return (Refreshes(*key, hour, *counted) for (key, hour), counted in self._hours.items())

    @property
    def facts(self) -> Iterable[Fact]:
        """Return what is known of the past; nothing where everything is."""
        return () if self._registry.past is None else self._registry.past.dump()

    def take(self, numbered: Iterable[tuple[int, TimedEvent]]) -> None:
        """Replay the unit's events of the day, each with the number of its content.

        Raises NotQuietError where a run does more than renew a lease, OrderError where the events do not increase.
        """
        day = self._day
        for timed, step in replay(
            self._registry,
            self._fed(numbered),
            day.namesrv,
            day.schedule,
            namesrv_id=day.namesrv_id,
            span=(day.from_seq, day.until_seq),
        ):
            kind = type(timed.event)
            number = None if kind is events.ScanNotActiveBroker else self._number
            report = None if number is None else self._reports[number]
            if kind is events.RefreshRun:
                self._take_run(timed, step, report)
                continue
            if report is not None and not self._histories.has_reported(*report):
                self._report_version(timed, report)
            is_recorded = step.changes or (step.certainty is not None and step.certainty.known)
            closed = self._record(timed, step) if is_recorded else []
            if step.refreshed is not None:
                self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)
                if step.outcome is Outcome.REFRESHED:
                    self._count(step.refreshed, timed.effect_us)
                    continue
            if kind not in _ANSWERS or step.outcome is Outcome.UNKNOWN_PAST:
                self._note(timed, step, number, closed if kind in _NAMELESS else [])

    def _fed(self, numbered: Iterable[tuple[int, TimedEvent]]) -> Iterator[TimedEvent]:
        """Yield the events, and remember which content the last of them has."""
        for self._number, timed in numbered:
            yield timed

    def _take_run(self, timed: TimedEvent, step: Step, report: Report | None) -> None:
        """Note a run of heartbeats; they are counted where each of them was seen."""
        if step.refreshed is None or (report is not None and not self._histories.has_reported(*report)):
            raise NotQuietError(f"{timed.event_id}: reports another data version")
        self._runs_until_us = max(self._runs_until_us, timed.effect_us)
        self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)

    def _report_version(self, timed: TimedEvent, report: Report) -> None:
        """Note a data version that is new, whatever becomes of the event that reports it."""
        closed = self._histories.report_version(*report, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us)
        if closed is not None:
            self._closed.append(closed)

    def _record(self, timed: TimedEvent, step: Step) -> list[Interval]:
        if step.changes and timed.effect_us <= self._runs_until_us:
            raise NotQuietError(f"{timed.event_id}: changes something in the middle of a run")
        closed = [
            *self._histories.record(
                step.changes, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us, certainty=step.certainty
            )
        ]
        self._closed += closed
        return closed

    def _count(self, key: LiveKey, at_us: int) -> None:
        hour = key, at_us - at_us % _HOUR_US
        counted = self._hours.get(hour)
        if counted is None:
            self._hours[hour] = [1, at_us, at_us]
        else:
            counted[0] += 1
            counted[2] = at_us

    def _note(self, timed: TimedEvent, step: Step, number: int | None, removed: Iterable[Interval]) -> None:
        event = timed.event
        if isinstance(event, events.RecordingGap):
            for key, beat_ms in self._registry.last_update_ms.items():
                self._histories.refreshed(key, beat_ms)
        elif isinstance(event, events.StateKnown) and step.outcome is Outcome.RESTORED:
            for key, beat_ms in event.beats:
                self._histories.was_refreshed(key, beat_ms)
        sent = [notification._asdict() for notification in step.notifications] or None
        said = (step.outcome.value, detail_of(step), len(step.changes), sent, _brokers_in(removed) or None)
        self.outcomes.append(OutcomeOf(number, timed.seq, timed.event_id, timed.effect_us, *said))


def _brokers_in(removed: Iterable[Interval]) -> list[dict[str, Any]]:
    """Return the brokers whose places in groups, or live entries without one, were removed."""
    clusters: dict[tuple[Any, Any], str | None] = {}
    for interval in removed:
        if isinstance(interval.value, Member) and interval.value.broker_addr is not None:
            clusters[interval.key[0], interval.value.broker_addr] = interval.value.cluster_name
        elif isinstance(interval.value, BrokerLiveInfo):
            clusters.setdefault((interval.value.broker_name, interval.key[1]), LiveKey(*interval.key).cluster_name)  # type: ignore[arg-type]
    return [{"broker_name": name, "broker_addr": addr, "cluster_name": of} for (name, addr), of in clusters.items()]
