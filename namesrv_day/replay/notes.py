"""What the replay of a name server's day leaves: intervals and outcomes; and whether its runs of beats were such."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from namesrv_core.history.intervals import Histories, Interval, Member
from namesrv_core.inference.decisions import Deciding
from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.events import RefreshRun, ScanNotActiveBroker
from namesrv_core.machine.instants import NS_PER_US, US_PER_MS
from namesrv_core.machine.past import ANY, GROUP, SETTLED, Entity, Part
from namesrv_core.machine.register import live_key_of
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import BrokerLiveInfo, LiveKey
from namesrv_core.machine.step import step as step_of
from namesrv_core.replay.loop import TimedEvent, replay
from namesrv_day.arrow.rows import conformed
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay
from namesrv_day.day.timed import Report, Timed
from namesrv_day.hours import condense
from namesrv_day.hours.fold import MARGIN_US
from namesrv_day.replay.queues import UnmetQueues
from schemas import gold
from schemas.codec import columns_of
from schemas.table import LONG, Table
from schemas.tables.event_outcomes import detail_of, operation_of

_TELLING = (events.AnswerObserved, events.ResponseObserved, events.ChangeLogged)
_HEARTBEATS = (events.BrokerHeartbeat, events.QueryDataVersion)
_NAMELESS = (events.ScanNotActiveBroker, events.ChannelDestroyed, events.ChangeLogged)


class OutcomeOf(NamedTuple):
    """An event that was no plain refresh. `number`: of its content; None: a scan, which nobody sent.

    Heartbeats of a broker without a live entry are one, as long as there is none: `events` of them, until `last_time`.
    """

    number: int | None
    seq: int
    event_id: str
    effect_time: int
    events: int
    last_time: int
    outcome: str
    detail: str | None
    changes: int
    notifications: list[dict[str, Any]] | None
    brokers_gone: list[dict[str, Any]] | None


class Notes:
    """Notes of one replay: let it take the day's events, then look at what it gives.

    `broken`: periods of addresses, in which their beats were no runs after all. Where there is one, all else is of no use.
    """

    def __init__(
        self,
        day: NamesrvDay,
        start: tuple[Registry, Histories],
        unmet: UnmetQueues | None,
    ) -> None:
        """`unmet`: open rows that neither the registry nor the histories hold yet."""
        self._day, self._unmet = day, unmet
        # Of live entries that are not there: the numbers of the outcomes of heartbeats for them, by what these say.
        self._unknown: dict[LiveKey, dict[object, int]] = defaultdict(dict)
        self.registry, self._histories = start
        # Until when runs of an address go, by what may not change in the middle of them.
        self._runs: dict[object, dict[str | None, int]] = defaultdict(dict)
        self._closed: list[Interval] = []
        self.outcomes: list[OutcomeOf] = []
        self.broken: set[tuple[str | None, int]] = set()

    @property
    def intervals(self) -> Iterator[Interval]:
        """Yield the intervals that were closed, and those that are open."""
        yield from self._closed
        yield from self._histories.open_intervals()

    def take(self, told: Timed, deciding: Deciding | None = None, tell: Callable[[float], None] | None = None) -> None:
        """Replay the day's events, and decide what raced. Raises OrderError where they do not increase.

        What it notes is of no use once something has turned out to take effect elsewhere than recorded (`Deciding.has_moved`).
        """
        day, number, before_us = self._day, 0, 0

        def numbered() -> Iterator[TimedEvent]:
            nonlocal number
            position = day.from_seq - 1
            for number, timed in told.numbered(tell):  # noqa: B007  the number of the event that the loop below has
                while deciding is not None and (deciding.has_moved or timed.seq >= deciding.next_seq):
                    if deciding.has_moved:
                        deciding.finish(self.registry, position)
                        return
                    deciding.decide_next(self.registry, position)
                position = timed.seq
                yield timed

        for timed, step in replay(
            self.registry,
            numbered(),
            day.namesrv,
            day.schedule,
            namesrv_id=day.namesrv_id,
            # A tick at the very beginning of the day is its own.
            span=(day.from_seq - 1, day.until_seq),
        ):
            if deciding is not None and deciding.has_moved:
                return
            kind, turned = type(timed.event), self._turned()
            if turned and self._runs:
                self._break_runs_about(turned, before_us, timed)
            before_us = timed.seq // NS_PER_US
            of = None if kind is events.ScanNotActiveBroker else number
            report = None if of is None else told.reports[of]
            if isinstance(timed.event, events.RefreshRun):
                self._take_run(timed, timed.event, step, report, turns=bool(turned))
                continue
            if report is not None and not self._histories.has_reported(*report):
                self._report_version(timed, report)
            is_recorded = step.changes or (step.certainty is not None and step.certainty.known)
            closed = self._record(timed, step) if is_recorded else []
            if step.refreshed is not None:
                self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)
                if step.outcome is Outcome.REFRESHED:
                    continue
            if step.outcome is Outcome.UNKNOWN_BROKER and kind in _HEARTBEATS:
                key = live_key_of(day.namesrv.at(timed.seq), timed.event.cluster_name, timed.event.broker_addr)  # type: ignore[union-attr]
                self._note_unknown(key, timed, step, of)
            elif kind not in _TELLING or step.changes or step.outcome is Outcome.UNKNOWN_PAST:
                self._note(timed, step, of, closed if kind in _NAMELESS else [])

    def _turned(self) -> set[Entity]:
        """Return of what an event has turned what is known, since this was asked last."""
        past = self.registry.past
        if past is None or not past.turned:
            return set()
        turned, past.turned = past.turned, set()
        return turned

    def _break_runs_about(self, turned: set[Entity], from_us: int, timed: TimedEvent) -> None:
        """Break the runs in the middle of which it turns what is known of their broker: at `timed`, or unseen before it."""
        names = {_name_of(entity) for entity in turned} - {None}
        runs = self._runs if ANY in names else {name: self._runs[name] for name in names if name in self._runs}
        for until in runs.values():
            for addr, until_us in until.items():
                if until_us >= from_us:
                    self._break(addr, from_us - MARGIN_US, min(until_us, timed.seq // NS_PER_US) + MARGIN_US)

    def _is_settled(self, step: Step) -> bool:
        past = self.registry.past
        return past is None or step.refreshed is None or past.knows(SETTLED, *step.refreshed)

    def _take_run(
        self, timed: TimedEvent, run: events.RefreshRun, step: Step, report: Report | None, *, turns: bool
    ) -> None:
        """Note a run of beats; it is broken if one does more than renew a lease.

        Then the first of them is taken by itself; or all, if the second would do more again.
        """
        beat, first_us = run.beat, timed.seq // NS_PER_US
        is_reported = report is None or self._histories.has_reported(*report)
        if turns or not self._is_settled(step):
            self._break(beat.broker_addr, first_us, first_us if self._is_settled(step) else timed.effect_us)
        if not (_only_renews(step) and is_reported):
            again = step_of(self.registry, beat, timed.effect_us // US_PER_MS, self._day.namesrv.at(timed.seq))
            self._break(beat.broker_addr, first_us, first_us if _only_renews(again) else timed.effect_us)
            if report is not None and not is_reported:
                self._report_version(timed, report)
            self._record(timed, step)
        if step.refreshed is not None:
            self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)
            for concerned in _concerns(beat, step.refreshed, report):
                until = self._runs[concerned]
                until[beat.broker_addr] = max(until.get(beat.broker_addr, 0), timed.effect_us)

    def _note_unknown(self, key: LiveKey, timed: TimedEvent, step: Step, number: int | None) -> None:
        """Note a heartbeat for which there is no live entry: with those before that say the same, as long as there was none."""
        numbers, asked = self._unknown[key], (type(timed.event), timed.event)
        if asked not in numbers:
            numbers[asked] = len(self.outcomes)
            self._note(timed, step, number, [])
            return
        found = self.outcomes[numbers[asked]]
        self.outcomes[numbers[asked]] = found._replace(events=found.events + 1, last_time=timed.effect_us)

    def _break(self, broker_addr: str | None, from_us: int, until_us: int) -> None:
        first, last = ((us // condense.PERIOD_US) for us in (from_us, until_us))
        self.broken.update((broker_addr, period) for period in range(first, last + 1))

    def _break_runs(self, concerned: object, at_us: int) -> None:
        """Break the runs in the middle of which something changes that they stand on."""
        for addr, until_us in self._runs.get(concerned, {}).items():
            if at_us <= until_us:
                self._break(addr, at_us - MARGIN_US, at_us + MARGIN_US)

    def _report_version(self, timed: TimedEvent, report: Report) -> None:
        """Note a data version that is new, whatever becomes of the event that reports it."""
        self._break_runs(report.broker, timed.effect_us)
        closed = self._histories.report_version(*report, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us)
        if closed is not None:
            self._closed.append(closed)

    def _record(self, timed: TimedEvent, step: Step) -> list[Interval]:
        if self._runs:
            for concerned in set(map(_concerned, step.changes)):
                self._break_runs(concerned, timed.effect_us)
        for change in step.changes if self._unknown else ():
            if change.table == "broker_live_table":
                self._unknown.pop(LiveKey(*change.key), None)
        for interval in () if self._unmet is None else self._unmet.touched(step.changes):
            self._histories.carry(interval)
        closed = [
            *self._histories.record(
                step.changes, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us, certainty=step.certainty
            )
        ]
        self._closed += closed
        return closed

    def _note(self, timed: TimedEvent, step: Step, number: int | None, removed: Iterable[Interval]) -> None:
        if isinstance(timed.event, events.RecordingGap):
            for key, beat_ms in self.registry.last_update_ms.items():
                self._histories.refreshed(key, beat_ms)
        sent = [notification._asdict() for notification in step.notifications] or None
        outcome, gone, at_us = step.outcome.value, _brokers_in(removed) or None, timed.effect_us
        when = at_us, 1, at_us
        told = OutcomeOf(
            number, timed.seq, timed.event_id, *when, outcome, detail_of(step), len(step.changes), sent, gone
        )
        self.outcomes.append(told)


def _only_renews(step: Step) -> bool:
    return step.outcome is Outcome.REFRESHED and not (step.changes or step.notifications)


def _concerns(beat: events.Event, key: LiveKey, report: Report | None) -> list[object]:
    """Return what a beat stands on: its live entry, what its broker reported last, and, if it registers, its broker name."""
    found: list[object] = [key]
    if report is not None:
        found.append(report.broker)
    if isinstance(beat, events.RegisterBroker):
        found.append(beat.broker_name)
    return found


def _concerned(change: Change) -> object:
    """Return the broker name or the live entry about which a change is."""
    if change.table in ("broker_live_table", "filter_server_table"):
        return change.key
    return change.key[-1] if change.key else ()


def _name_of(entity: Entity) -> Part:
    """Return the broker name, or the live entry, about which something is known; None: about none."""
    kind, one, other = entity
    if kind in ("broker_live", "filter_server", SETTLED):
        return ANY if ANY in (one, other) else LiveKey(one, other)  # type: ignore[arg-type, return-value]
    if kind == "kv_config":
        return None
    return one if kind in ("broker_addr", GROUP) else other


def _brokers_in(removed: Iterable[Interval]) -> list[dict[str, Any]]:
    """Return the brokers whose places in groups, or live entries without one, were removed."""
    clusters: dict[tuple[Any, Any], str | None] = {}
    for interval in removed:
        if isinstance(interval.value, Member) and interval.value.broker_addr is not None:
            clusters[interval.key[0], interval.value.broker_addr] = interval.value.cluster_name
        elif isinstance(interval.value, BrokerLiveInfo):
            clusters.setdefault((interval.value.broker_name, interval.key[1]), LiveKey(*interval.key).cluster_name)  # type: ignore[arg-type]
    return [{"broker_name": name, "broker_addr": addr, "cluster_name": of} for (name, addr), of in clusters.items()]


# -- as columns: a table's rows of the day are built at once -----------------------------------------------------------

_SCAN = ScanNotActiveBroker()
_SAID = ("cluster_name", "broker_name", "broker_addr", "topic", "channel_id")


def history_rows(table: Table, intervals: Sequence[Interval], same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a history table that intervals make; `same`: columns with one value in all rows."""
    return _table_of(table, columns_of(table.name, intervals), same)


def outcome_rows(outcomes: Sequence[OutcomeOf], timed: Timed, same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of event_outcomes of events whose contents are those of `timed`; `same`: as above.

    An event that names no broker is about the first that went with it.
    """
    columns: dict[str, Any] = _columns(outcomes, OutcomeOf._fields)
    numbers = pa.array(columns["number"], LONG)
    columns |= {name: timed.said[name].take(numbers) for name in _SAID if name in timed.said.column_names}
    kinds = timed.said["channel_kind"].take(numbers).to_pylist()
    of_numbers = (_SCAN if number is None else timed.events[number] for number in columns["number"])
    of_numbers = (event.beat if isinstance(event, RefreshRun) else event for event in of_numbers)
    columns["operation"] = list(map(operation_of, of_numbers, kinds))
    rows = _table_of(gold.EVENT_OUTCOMES, columns, same)
    return conformed(ask(_OUTCOMES, {"outcomes": rows}), gold.EVENT_OUTCOMES)


_OUTCOMES = """
SELECT * REPLACE (
    coalesce(broker_name, brokers_gone[1].broker_name) AS broker_name,
    coalesce(broker_addr, brokers_gone[1].broker_addr) AS broker_addr,
    coalesce(cluster_name, brokers_gone[1].cluster_name) AS cluster_name
) FROM (SELECT * REPLACE (list_sort(notifications) AS notifications, list_sort(brokers_gone) AS brokers_gone) FROM outcomes)
"""


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: list(map(itemgetter(number), rows)) for number, name in enumerate(names)}


def _table_of(table: Table, columns: Mapping[str, Any], same: Mapping[str, Any]) -> pa.Table:
    """Return columns, lists or arrays, as `table` has them; one that is not given is NULL."""
    types = {field.name: field.type for field in table.schema}
    arrays = {
        name: pa.array(values, types[name]) if isinstance(values, list) else values
        for name, values in columns.items()
        if name in types
    }
    return conformed(pa.table(arrays), table, **same)
