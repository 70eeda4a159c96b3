"""The second pass over a day: name servers are settled, replayed, and judged by what their slices say together.

Flags are raised, answers held against the histories; and of a day that was published before it is told what is different now.
Rules are counted, and digests taken, of all name servers of a task at once.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.night.opened import Files, OfNamesrv
from jobs.night.work import (
    NamesrvReplayed,
    NamesrvWork,
    answers_of,
    beats_during,
    hours_of,
    questions_of,
    raw_beats,
    refused_of,
    replayed,
    topic_configs,
    topics_refused,
    written,
)
from jobs.store.files import DataFile
from jobs.store.intervals import Written, write_intervals
from jobs.store.warehouse import DATA_TABLES
from namesrv_core.inference.settings import namesrv_of
from namesrv_core.machine.profile import Namesrv
from namesrv_day.across.numbers import outcome_counts
from namesrv_day.across.restate import HANDED_ON, HELD, LIVES, compare, ends_otherwise
from namesrv_day.arrow.digest import Digest, Slice, slices_of
from namesrv_day.arrow.rows import conformed
from namesrv_day.arrow.sql import ask
from namesrv_day.day.alive import beats_of, on_a_day, stored
from namesrv_day.day.coverage import Extent, extent_of, is_logged, recorded_day
from namesrv_day.day.day_events import BEATS, Frames
from namesrv_day.flags.between import Compared, compared, served
from namesrv_day.flags.findings import About
from namesrv_day.flags.flags import FlagInput, flag, unsettled_until_start
from namesrv_day.flags.registered import Recorded
from namesrv_day.gate.rules import Measurement, measure
from namesrv_day.hours.answered import SINGLES, singles_from
from namesrv_day.settle.settings import settings_of
from namesrv_day.verify.map_capacities import map_capacities
from namesrv_day.verify.verify import VerifyInput, verdicts
from schemas import bronze, gold
from schemas.findings import Thresholds
from schemas.table import TIMESTAMP, Table, words
from schemas.tables.event_outcomes import SYNTHETIC_OPERATIONS
from schemas.times import day_start_seq

JUDGED = tuple(table for step in ("outcomes", "flags", "verify") for table in gold.made_by(step) if table.is_by_day)
"""The tables cut by day of which judging a day writes the slice."""


@dataclass(frozen=True)
class JudgeWork:
    """One name server's day.

    `told`: files of expired_brokers of days before. `published`: files of the day's gold tables as they were published; None: they
    never were. `opened`: of intervals that are published as open. `unread`: see `VerifyInput`.
    """

    of: NamesrvWork
    told: Files
    published: Files | None
    opened: Files
    unread: tuple[tuple[int, int | None], ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True)
class Judged:
    """What was judged of a name server's day.

    Files that were written, and what became of its intervals; `events` that the core took, and those by outcome;
    `reconsidered_since`: see `NamesrvReplayed`; what is compared with other name servers, None if nothing is; what is
    recorded of it (`coverage.recorded_day`). Of a day that was published: the findings that it had; slices that differ
    (`restate.compare`), whether what it hands on to the next day does, and whether that does at which any later day may look, or
    the intervals that are open at its end. Others had no end before.
    """

    namesrv_id: str
    files: dict[str, tuple[DataFile, ...]]
    events: int
    intervals: dict[str, Written]
    outcomes: Counter[str]
    reconsidered_since: int | None
    compared: Compared | None
    coverage: list[dict[str, Any]] = field(default_factory=list)
    published_findings: pa.Table | None = None
    differing: list[dict[str, Any]] = field(default_factory=list)
    ends_otherwise: bool = True
    lives_otherwise: bool = True
    holds_otherwise: bool = True


@dataclass(frozen=True)
class JudgedTogether:
    """What was judged of the days of some name servers: of each, and what was counted of all their rows.

    `digests`: of the day's gold slices; `measurements`: their rules.
    """

    each: list[Judged] = field(default_factory=list)
    digests: dict[Slice, Digest] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)


def replay_namesrvs(work: Sequence[JudgeWork]) -> JudgedTogether:
    """Settle, replay and judge one day of some name servers: the task of the pass. All of their slices are in memory then."""
    each = [_judged(one, replayed(one.of)) for one in work]
    judged = [of for of, _ in each]
    slices = {table.name: pa.concat_tables([of[table.name] for _, of in each]) for table in DATA_TABLES}
    digests = {
        cut: digest for of in judged for written in of.intervals.values() for cut, digest in written.digests.items()
    }
    for table in (table for table in gold.REPORT_TABLES if table.is_by_day):
        digests |= slices_of(table.name, slices[table.name])
    return JudgedTogether(judged, digests, _measured(work, slices))


def _judged(work: JudgeWork, done: NamesrvReplayed) -> tuple[Judged, dict[str, pa.Table]]:
    """Return what is judged of one name server's day that was replayed, and its slices."""
    of = work.of
    slices = {**done.tables, **done.histories}
    namesrv = namesrv_of(settings_of(slices[gold.NAMESRV_SETTINGS.name]), day_start_seq(of.day))
    extent = _extent(of)
    slices |= _outcomes(of, done.outcomes, namesrv, slices)
    slices |= _flags(work, namesrv, slices, extent)
    slices |= _verdicts(work, namesrv, slices)
    recorded = _recorded_day(of, slices, extent)
    judged = Judged(
        of.namesrv_id,
        {**done.files, **written(of, {table: slices[table.name] for table in JUDGED})},
        done.events,
        {table.name: _intervals(work, table, slices[table.name]) for table in gold.INTERVAL_TABLES},
        outcome_counts(slices),
        done.reconsidered_since,
        _compared(work, slices, recorded),
        recorded,
    )
    return judged if work.published is None else _differing(work, judged, slices, work.published), slices


def _intervals(work: JudgeWork, table: Table, rows: pa.Table) -> Written:
    """Write what a day has made of intervals: what closed on it, and of what is open what is not there as it is."""
    of = work.of
    there = [files.of(of.namesrv_id).files_of(table) for files in (of.before, work.opened)]
    return write_intervals(of.before.root, table, stored(table, rows), of.namesrv_id, of.day, of.run_id, there)


def _differing(work: JudgeWork, judged: Judged, slices: Frames, published: Files) -> Judged:
    """Return what was judged of a day that was published, with what is different now."""
    name = judged.namesrv_id
    before = {table.name: published.of(name).on(table, work.of.day) for table in DATA_TABLES}
    # Of findings that is known when name servers were compared.
    held = {table: rows for table, rows in HELD.items() if table is not gold.FINDINGS}
    holds_otherwise = ends_otherwise(slices, before, held)
    return replace(
        judged,
        published_findings=before[gold.FINDINGS.name],
        differing=compare(slices, before, work.of.day),
        holds_otherwise=holds_otherwise,
        ends_otherwise=holds_otherwise or ends_otherwise(slices, before, HANDED_ON),
        lives_otherwise=ends_otherwise(slices, before, LIVES),
    )


def _extent(of: NamesrvWork) -> Extent | None:
    today, beats = of.today.of(of.namesrv_id), hours_of(of)
    times = [
        today.rows(table, ["effect_time"])["effect_time"] for table in bronze.RECORDED_TABLES if table not in BEATS
    ]
    return extent_of([*times, *(beats[name].cast(TIMESTAMP) for name in ("first_us", "last_us"))])


def _recorded_day(of: NamesrvWork, slices: Frames, extent: Extent | None) -> list[dict[str, Any]]:
    life = {bronze.NAMESRV_EVENTS.name: of.today.of(of.namesrv_id).rows(bronze.NAMESRV_EVENTS)}
    return recorded_day(of.namesrv_id, of.day, {**slices, **life}, extent)


def _compared(work: JudgeWork, slices: Frames, recorded: Sequence[dict[str, Any]]) -> Compared:
    about = About(work.of.namesrv_id, work.of.day, work.thresholds)
    told = _stood(work.of)[gold.FINDINGS.name]
    # What a log does not show may be there all the same: nothing is compared with it.
    is_log = is_logged(slices[gold.PAST_KNOWLEDGE.name])
    spans = [] if is_log else served(recorded, unsettled_until_start(slices))
    return compared(slices, told, spans, topics_refused(work.of), about)


def _stood(of: NamesrvWork) -> Frames:
    """Return what was told and not over when the day began."""
    return of.before.of(of.namesrv_id).frames([gold.FINDINGS, gold.ORPHANED_TOPICS], of.start, still=True)


def _outcomes(of: NamesrvWork, outcomes: pa.Table, namesrv: Namesrv, slices: Frames) -> dict[str, pa.Table]:
    beats = beats_of(of.day, slices[gold.BROKER_LIVE_HISTORY.name])
    made = {gold.EVENT_OUTCOMES.name: outcomes, gold.LAST_HEARTBEATS.name: beats}
    capacities = map_capacities({**slices, **made}, _capacities_before(of), namesrv, of.namesrv_id, of.day)
    return {**made, gold.MAP_CAPACITIES.name: capacities}


def _capacities_before(of: NamesrvWork) -> pa.Table:
    return of.before.of(of.namesrv_id).rows(gold.MAP_CAPACITIES)


def _flags(work: JudgeWork, namesrv: Namesrv, slices: Frames, extent: Extent | None) -> dict[str, pa.Table]:
    of = work.of
    events = {bronze.NAMESRV_EVENTS.name: of.today.of(of.namesrv_id).rows(bronze.NAMESRV_EVENTS), "hours": hours_of(of)}
    events["suspected"] = of.suspected
    told = {**_stood(of), gold.EXPIRED_BROKERS.name: work.told.of(of.namesrv_id).rows(gold.EXPIRED_BROKERS)}
    own = of.today.of(of.namesrv_id)

    def arrivals(ids: pa.Array) -> pa.Table:
        is_one = pc.field("event_id").isin(ids)
        parts = (own.rows(each, _ARRIVED, is_one) for each in (bronze.UNREGISTRATIONS, bronze.CHANNEL_EVENTS))
        return pa.concat_tables(parts)

    recorded = Recorded(
        partial(raw_beats, of),
        partial(beats_during, of),
        partial(topic_configs, of.today),
        arrivals,
        partial(questions_of, of),
        partial(refused_of, of),
    )
    return flag(
        FlagInput(
            of.namesrv_id,
            namesrv,
            of.day,
            {**slices, **events},
            recorded,
            told,
            work.thresholds,
            None if extent is None else extent.last,
        )
    )


def _verdicts(work: JudgeWork, namesrv: Namesrv, slices: Frames) -> dict[str, pa.Table]:
    of = work.of
    own = of.today.of(of.namesrv_id)
    today = {table.name: own.rows(table) for table in _ANSWERED}

    def singles(wanted: pa.Table) -> pa.Table:
        found = own.ask(bronze.ROUTE_OBSERVATIONS, partial(singles_from, wanted=wanted))
        return SINGLES.empty_table() if found is None else found

    given = VerifyInput(
        of.namesrv_id,
        of.day,
        namesrv,
        answers_of(of),
        singles,
        today,
        partial(raw_beats, of),
        slices,
        work.unread,
        _capacities_before(of),
        is_told_elsewhere=bool(of.suspected.num_rows),
    )
    found = verdicts(given)
    return {gold.ANSWER_CHECKS.name: found.answer_checks, gold.ROUTE_MISMATCHES.name: found.route_mismatches}


def _measured(work: Sequence[JudgeWork], slices: Frames) -> list[Measurement]:
    """Return the rules of the day's slices, counted. `work`: the days of some name servers; `slices`: all of theirs."""
    names, day = [one.of.namesrv_id for one in work], work[0].of.day
    # Rules about intervals look at those that were there on the day.
    intervals = {table.name: conformed(slices[table.name], on_a_day(table), day=day) for table in gold.INTERVAL_TABLES}
    frames = {**slices, **intervals, **_recorded(work[0].of.today.of(*names), day, slices)}
    return measure(frames, slices, [day], which=lambda rule: rule.scope != "table")


def _recorded(today: OfNamesrv, day: dt.date, slices: Frames) -> dict[str, pa.Table]:
    """Return the rows of bronze tables that the day's slices name, as far as rules look at them."""
    named, tables = ask(_NAMED, slices, day=day), (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS)
    placed = named.filter(pc.field("seq").is_valid())
    seqs = {"seqs": pa.table({"seq": pc.unique(placed["seq"])})}
    # Nearly all lie where an outcome tells: elsewhere nothing is read. A decision on their order has moved a few.
    is_placed = pc.field("event_id").isin(placed["event_id"].combine_chunks())
    found = {
        table: today.few(table, _IDENTITY, "SEMI JOIN seqs USING (seq)", seqs).filter(is_placed) for table in tables
    }
    known = pa.concat_tables([rows.select(["event_id"]) for rows in found.values()])["event_id"].combine_chunks()
    others = named.filter(~pc.field("event_id").isin(known))["event_id"].combine_chunks()
    if len(others):
        is_other = pc.field("event_id").isin(others)
        found = {
            table: pa.concat_tables([rows, today.rows(table, _IDENTITY, is_other)]) for table, rows in found.items()
        }
    return {table.name: conformed(rows, table) for table, rows in found.items()}


_ARRIVED = ("event_id", "event_time")
_IDENTITY = ("namesrv_id", "seq", "event_id", "effect_time", "day")
_NAMED = f"""
WITH others AS (
    SELECT event_id FROM route_mismatches
    UNION SELECT opened_by FROM data_version_history WHERE CAST(valid_from AS DATE) = $day
    UNION SELECT closed_by FROM data_version_history UNION SELECT opened_by FROM orphaned_topics
    UNION SELECT closed_by FROM orphaned_topics
)
-- What the response to an event told of an unknown past has the event's id and a suffix.
SELECT DISTINCT regexp_replace(event_id, '-response$', '') AS event_id, seq FROM event_outcomes
WHERE operation NOT IN ({words(SYNTHETIC_OPERATIONS)})
UNION ALL SELECT event_id, NULL FROM others WHERE event_id IS NOT NULL AND event_id NOT IN (SELECT event_id FROM event_outcomes)
"""  # noqa: S608  names of ours
"""The events that slices name and that may be recorded on their day, with their positions, where an outcome tells them."""
_ANSWERED = (bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)
