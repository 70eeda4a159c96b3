"""One replay unit on one day: rows in, rows out. Plain Python around the core; Spark hands the rows over as Arrow batches.

In come, in this order: the topic configurations that the unit's registrations name (`rank` 0), the rows that were open
at the end of the day before (`rank` 1), the day's events by `seq` (`rank` 2). Out go rows of the history tables, of
`event_outcomes` and of `refreshes_hourly`, told apart by `table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from jobs.arrow_rows import Row, rows_of
from namesrv_core.history.intervals import Histories, Interval, restored
from namesrv_core.inference.past import Fact, Past
from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.loop import Taken, TimedEvent, replay
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.quiet import NotQuietError
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey, TopicTable
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_core.machine.step import step
from schemas import codec
from schemas.intervals import carried_over, interval_of, interval_row

TOPIC_CONFIG_RANK, CARRIED_RANK, EVENT_RANK = 0, 1, 2
_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class NamesrvDay:
    """What the replay of one name server's day needs beside the rows: where it starts, and the end of what is known of it."""

    namesrv_id: str
    namesrv: Namesrv
    schedule: ScanSchedule
    from_seq: int
    until_seq: int
    scan_halted: bool = False
    unknown_from_ms: int | None = None
    past_is_carried: bool = False
    has_gap: bool = False

    @property
    def has_unknown_past(self) -> bool:
        """Return whether something about the name server's past is not known at some time of this day."""
        return self.past_is_carried or self.unknown_from_ms is not None or self.has_gap

    def past_of(self, carried: Sequence[Fact]) -> Past | None:
        """Return what is known where the day begins; None: everything."""
        if carried:
            return Past.load(carried)
        return None if self.unknown_from_ms is None else Past(self.unknown_from_ms)


def replayed_units(batches: Iterable[pa.RecordBatch], contexts: Mapping[str, NamesrvDay]) -> Iterator[dict[str, Any]]:
    """Yield the output rows of units, whose rows come one unit after the other, each in the order of `UnitReplay.rows`.

    A unit that is not as quiet as its runs say ends with a row of the table `not_quiet`.
    """
    for (namesrv_id, unit), rows in _units(batches):
        try:
            yield from UnitReplay(contexts[namesrv_id]).rows(rows)
        except NotQuietError:  # noqa: PERF203  one for each unit
            yield {"table": "not_quiet", "namesrv_id": namesrv_id, "unit": unit}


def failed_trials(batches: Iterable[pa.RecordBatch], contexts: Mapping[str, NamesrvDay]) -> Iterator[dict[str, Any]]:
    """Yield the units, (namesrv_id, unit), of which a beat does more than renew a lease; their rows come as for a replay.

    The topics of a registration are left out here, on both sides; who gives no version writes them with every registration.
    """
    for (namesrv_id, unit), rows in _units(batches):
        if not _only_renews(contexts[namesrv_id], rows):
            yield {"namesrv_id": namesrv_id, "unit": unit}


def _units(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, str], Iterator[Row]]]:
    return groupby(rows_of(batches), key=itemgetter("namesrv_id", "unit"))


def _only_renews(day: NamesrvDay, rows: Iterable[Row]) -> bool:
    carried, beats = [], []
    for row in rows:
        if row["rank"] == CARRIED_RANK:
            carried.append(interval_of(row["kind"], row))
        else:
            beats.append(row)
    registry = Registry(day.namesrv.profile)
    restored(registry, carried)
    versions = Histories([interval for interval in carried if interval.table == "data_version"])
    try:
        for row in beats:
            if row["topic_config_digest"] is not None and row["data_version"] is None:
                return False
            event = codec.run_of({**row, "topic_config_digest": None}, {})
            taken = step(registry, event, row["effect_us"] // US_PER_MS, day.namesrv)
            if taken.refreshed is None or _reports_news(versions, event, row):
                return False
    except NotQuietError:
        return False
    return True


def _reports_news(versions: Histories, event: events.Event, row: Row) -> bool:
    """Return whether a run's beat reports another data version than its broker did last."""
    beat = event.beat if isinstance(event, events.RefreshRun) else event
    if not isinstance(beat, (events.RegisterBroker, events.QueryDataVersion)):
        return False
    key = (row["cluster_name"], row["broker_name"], row["broker_addr"])
    return not versions.has_reported(key, beat.data_version)


class UnitReplay:
    """The replay of one unit: feed it its rows, then take what is open."""

    def __init__(self, day: NamesrvDay) -> None:
        self._day = day
        self._runs_until_us = 0
        self._topic_tables: dict[str, TopicTable] = {}
        self._carried: list[Interval] = []
        self._past: list[Fact] = []
        self._histories = Histories()
        self._registry = Registry(day.namesrv.profile)
        self._hours: dict[tuple[LiveKey, int], list[int]] = {}
        self._row_of: dict[str, Row] = {}

    def rows(self, rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
        """Yield the unit's output rows."""
        rows = iter(rows)
        first = self._take_preamble(rows)
        self._histories = Histories([carried_over(interval) for interval in self._carried])
        registry = self._registry
        registry.scan_halted = self._day.scan_halted
        registry.past = self._day.past_of(self._past)
        restored(registry, self._carried)
        for taken in replay(
            registry,
            self._timed_events(first, rows),
            self._day.namesrv,
            self._day.schedule,
            namesrv_id=self._day.namesrv_id,
            from_seq=self._day.from_seq,
            until_seq=self._day.until_seq,
        ):
            yield from self._rows_of(taken)
        for interval in self._histories.open_intervals():
            yield self._interval_row(interval)
        yield from self._hour_rows()
        for fact in registry.past.dump() if registry.past is not None else ():
            yield {"table": "past_knowledge", **codec.past_row(fact, self._day.namesrv_id)}

    def _take_preamble(self, rows: Iterator[Row]) -> Row | None:
        """Take topic configurations and carried rows; return the first event's row."""
        for row in rows:
            if row["rank"] == TOPIC_CONFIG_RANK:
                self._topic_tables[row["topic_config_digest"]] = codec.topic_table_of(row)
            elif row["rank"] == CARRIED_RANK and row["kind"] == "past_knowledge":
                self._past.append(codec.fact_of(row))
            elif row["rank"] == CARRIED_RANK:
                self._carried.append(interval_of(row["kind"], row))
            else:
                return row
        return None

    def _timed_events(self, first: Row | None, rest: Iterator[Row]) -> Iterator[TimedEvent]:
        row = first
        while row is not None:
            self._row_of = {row["event_id"]: row}
            decode = codec.run_of if row.get("is_run") else codec.event_of
            yield TimedEvent(row["seq"], row["event_id"], row["effect_us"], decode(row, self._topic_tables))
            row = next(rest, None)

    def _rows_of(self, taken: Taken) -> Iterator[dict[str, Any]]:
        timed, step = taken
        row = self._row_of.get(timed.event_id, {})
        if isinstance(timed.event, events.RefreshRun):
            self._take_run(timed, step, row)
            return
        if step.changes and timed.effect_us <= self._runs_until_us:
            raise NotQuietError(f"{timed.event_id}: changes something in the middle of a run")
        yield from self._version_row(timed, row)
        for interval in self._histories.record(
            step.changes, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us, certainty=step.certainty
        ):
            yield self._interval_row(interval)
        if isinstance(timed.event, events.AnswerObserved) and step.outcome != Outcome.UNKNOWN_PAST:
            return
        for key, beat_ms in self._leases_set_by(timed.event, step):
            self._histories.refreshed(key, beat_ms)
        if step.refreshed is not None:
            self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)
            if step.outcome == Outcome.REFRESHED:
                self._count_refresh(step.refreshed, timed.effect_us)
                return
        yield {"table": "event_outcomes", **codec.outcome_row(taken, row, self._day.namesrv_id)}

    def _leases_set_by(self, event: events.Event, step: Step) -> Iterable[tuple[LiveKey, int]]:
        """Return the live entries of which an event that is no heartbeat says when they beat last."""
        if isinstance(event, events.RecordingGap):
            return self._registry.last_update_ms.items()
        return event.beats if isinstance(event, events.StateKnown) and step.outcome == Outcome.RESTORED else ()

    def _take_run(self, timed: TimedEvent, step: Step, row: Row) -> None:
        """Note a run of heartbeats: SQL counts them, since it has seen each."""
        if step.refreshed is None or _reports_news(self._histories, timed.event, row):
            raise NotQuietError(f"{timed.event_id}: reports another data version")
        self._runs_until_us = max(self._runs_until_us, timed.effect_us)
        self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)

    def _version_row(self, timed: TimedEvent, row: Row) -> Iterator[dict[str, Any]]:
        """A registration or version query reports a data version, whatever becomes of it."""
        if not isinstance(timed.event, (events.RegisterBroker, events.QueryDataVersion)):
            return
        key = (row["cluster_name"], row["broker_name"], row["broker_addr"])
        closed = self._histories.report_version(
            key, timed.event.data_version, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us
        )
        if closed is not None:
            yield self._interval_row(closed)

    def _interval_row(self, interval: Interval) -> dict[str, Any]:
        return {"table": f"{interval.table}_history", **interval_row(interval, self._day.namesrv_id)}

    def _count_refresh(self, key: LiveKey, at_us: int) -> None:
        hour = at_us - at_us % _HOUR_US
        counted = self._hours.setdefault((key, hour), [0, at_us, at_us])
        counted[0] += 1
        counted[2] = at_us

    def _hour_rows(self) -> Iterator[dict[str, Any]]:
        for (key, hour), (refreshes, first_us, last_us) in self._hours.items():
            yield {
                "table": "refreshes_hourly",
                "namesrv_id": self._day.namesrv_id,
                "cluster_name": key.cluster_name,
                "broker_addr": key.broker_addr,
                "hour": hour,
                "refreshes": refreshes,
                "first_time": first_us,
                "last_time": last_us,
            }
