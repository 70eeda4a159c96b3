"""The second pass, over one day: settles, replays and judges name servers, by their slices.

Judging raises flags, compares answers with the histories, and finds differences from an earlier publication of the day. Each task
counts rules, and takes digests, for all its name servers at once.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.night.work import Files, NamesrvWork
from jobs.passes import tell
from jobs.store.files import LONG_TEXTS, DataFile
from jobs.store.intervals import Written, write_intervals
from jobs.store.warehouse import DATA_TABLES
from namesrv_core.machine.profile import Namesrv
from namesrv_day.across.numbers import outcome_counts
from namesrv_day.arrow.digest import Digest, Slice, slices_of
from namesrv_day.arrow.rows import conformed
from namesrv_day.arrow.sql import ask
from namesrv_day.day.alive import beats_of, on_a_day, stored
from namesrv_day.day.context import SettleInput
from namesrv_day.day.coverage import Extent, extent_of, is_logged, recorded_day
from namesrv_day.day.day_events import OTHERS, Frames
from namesrv_day.flags.between import Compared, compared, refused_from, served
from namesrv_day.flags.findings import About
from namesrv_day.flags.flags import FlagInput, flag, unsettled
from namesrv_day.flags.registered import Recorded, asked_from
from namesrv_day.gate.rules import Measurement, measure
from namesrv_day.replay.replay import ReplayInput, replay
from namesrv_day.settle.settle import Settled, settle
from namesrv_day.verify.map_capacities import map_capacities
from namesrv_day.verify.verify import VerifyInput, verdicts
from schemas import bronze, gold
from schemas.table import words
from schemas.tables.event_outcomes import SYNTHETIC_OPERATIONS
from schemas.times import day_start

REPLAYED = (gold.PAST_KNOWLEDGE,)
"""Day-cut tables whose slices a replay writes. Intervals are written later, after a comparison with existing ones."""
JUDGED = tuple(table for step in ("outcomes", "flags", "verify") for table in gold.made_by(step) if table.is_by_day)
"""Day-cut tables whose slices judging a day writes."""
SETTLED = (gold.NAMESRV_SETTINGS, gold.ORDER_DECISIONS)
"""Tables that are taken over even if earlier days must be replayed first."""
_OF_DAY = (*OTHERS, bronze.ROUTE_OBSERVATIONS)
# Share of a replay in the time of a name server's day, about.
_REPLAY = 0.7


@dataclass(frozen=True)
class Judged:
    """Result of judging one name server's day.

    Written files, and the result for its intervals; `events` that the core took, and their count by outcome; `reconsidered_since`:
    from this position on earlier days were replayed with a value that turns out wrong; rows to compare with other name servers; its
    coverage (`coverage.recorded_day`).
    """

    namesrv_id: str
    files: dict[str, tuple[DataFile, ...]]
    events: int
    intervals: dict[str, Written]
    outcomes: Counter[str]
    reconsidered_since: int | None
    compared: Compared
    coverage: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class JudgedTogether:
    """Result of judging a day of several name servers: of each, and the counts over all their rows.

    `digests`: of the day's gold slices; `measurements`: their rules.
    """

    each: list[Judged] = field(default_factory=list)
    digests: dict[Slice, Digest] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)


def replay_namesrvs(work: Sequence[NamesrvWork]) -> JudgedTogether:
    """Settle, replay and judge one day of some name servers: the task of the pass. All their slices are in memory at one time."""
    each = []
    for number, one in enumerate(work):
        each.append(_judged(one, lambda share, behind=number: tell((behind + _REPLAY * share) / len(work))))  # type: ignore[misc]
    judged = [of for of, _ in each]
    slices = {table.name: pa.concat_tables([of[table.name] for _, of in each]) for table in DATA_TABLES}
    digests = {
        cut: digest for of in judged for written in of.intervals.values() for cut, digest in written.digests.items()
    }
    for table in (table for table in gold.REPORT_TABLES if table.is_by_day):
        digests |= slices_of(table.name, slices[table.name])
    return JudgedTogether(judged, digests, _measured(work, slices))


def _judged(work: NamesrvWork, tell: Callable[[float], None]) -> tuple[Judged, dict[str, pa.Table]]:
    """Return the result of judging one name server's day, and its slices."""
    frames = {table.name: work.today.rows(table, once=LONG_TEXTS & {*table.column_names}) for table in _OF_DAY}
    frames["hours"] = hours = work.hours()
    answers = frames[bronze.ROUTE_OBSERVATIONS.name]
    extent, life = extent_of(frames), {bronze.NAMESRV_EVENTS.name: frames[bronze.NAMESRV_EVENTS.name]}
    capacities = work.before.rows(gold.MAP_CAPACITIES)
    slices, settled, events = _replayed(work, frames, capacities, tell)
    files = work.write({table: slices[table.name] for table in (*SETTLED, *REPLAYED)})
    namesrv = settled.context.namesrv
    slices |= _flags(work, namesrv, {**slices, **life, "hours": hours}, answers, extent)
    slices |= _verdicts(work, namesrv, frames, slices, capacities)
    recorded = recorded_day(work.namesrv_id, work.day, {**slices, **life}, extent)
    # Intervals that closed on the day, and open ones unless a file already has them unchanged.
    intervals = {
        table.name: write_intervals(
            work.today.root,
            table,
            stored(table, slices[table.name]),
            work.namesrv_id,
            work.day,
            work.run_id,
            [work.before.files(table), work.opened.files(table)],
        )
        for table in gold.INTERVAL_TABLES
    }
    judged = Judged(
        work.namesrv_id,
        {**files, **work.write({table: slices[table.name] for table in JUDGED})},
        events,
        intervals,
        outcome_counts(slices[gold.EVENT_OUTCOMES.name], pc.sum(hours["beats"]).as_py() or 0),
        settled.reconsidered_since,
        _compared(work, {**slices, **life}, answers, recorded),
        recorded,
    )
    return judged, slices


def _replayed(
    work: NamesrvWork, frames: Frames, capacities: pa.Table, tell: Callable[[float], None]
) -> tuple[dict[str, pa.Table], Settled, int]:
    """Return the slices of a settled and replayed day, the settled facts, and the number of events that the core took.

    `frames`: recorded rows of the day, with condensed heartbeats as `hours`; `capacities`: map_capacities of the day before.
    """
    open_rows = work.open_rows([*gold.HISTORY_TABLES, gold.PAST_KNOWLEDGE])
    settled = settle(
        SettleInput(
            work.namesrv_id,
            work.day,
            frames,
            work.raw_beats,
            work.topic_configs,
            open_rows,
            work.earlier.rows(bronze.NAMESRV_EVENTS),
            work.background,
        )
    )
    done = replay(
        ReplayInput(
            settled.context,
            work.day,
            frames["hours"],
            settled.others,
            open_rows,
            work.topic_configs,
            partial(work.single_beats, with_answers=settled.context.has_unknown_past),
            capacities,
            frames[bronze.ROUTE_OBSERVATIONS.name],
            tell,
        )
    )
    found = {table.name: conformed(done.tables[table.name], table) for table in (gold.ORDER_DECISIONS, *REPLAYED)}
    found[gold.NAMESRV_SETTINGS.name] = conformed(settled.settings, gold.NAMESRV_SETTINGS)
    found |= {table.name: done.tables[table.name] for table in (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES)}
    found[gold.LAST_HEARTBEATS.name] = beats_of(work.day, found[gold.BROKER_LIVE_HISTORY.name])
    namesrv = settled.context.namesrv
    found[gold.MAP_CAPACITIES.name] = map_capacities(found, capacities, namesrv, work.namesrv_id, work.day)
    return found, settled, done.events


def _compared(work: NamesrvWork, slices: Frames, answers: pa.Table, recorded: Sequence[dict[str, Any]]) -> Compared:
    about = About(work.namesrv_id, work.day, work.thresholds)
    told = work.open_rows([gold.FINDINGS])[gold.FINDINGS.name]
    # A log may not show everything, so nothing is compared with it.
    is_log = is_logged(slices[gold.PAST_KNOWLEDGE.name])
    goes_on = work.start == work.day - dt.timedelta(days=1) and work.background.settings_before.num_rows
    goes_on_from = day_start(work.day) if goes_on else None
    spans = [] if is_log else served(recorded, next(iter(unsettled(slices)), None), goes_on_from)
    return compared(slices, told, spans, refused_from(answers), about)


def _flags(
    work: NamesrvWork, namesrv: Namesrv, slices: Frames, answers: pa.Table, extent: Extent | None
) -> dict[str, pa.Table]:
    """Return the tables of `flag`. `slices`: those of the replay, with the day's namesrv_events and `hours`."""
    before = {
        **work.open_rows([gold.FINDINGS, gold.ORPHANED_TOPICS]),
        gold.EXPIRED_BROKERS.name: work.earlier.rows(gold.EXPIRED_BROKERS),
        **work.closed_before(),
    }
    recorded = Recorded(
        work.raw_beats, work.beats_during, work.topic_configs, work.arrivals, partial(asked_from, answers), work.refused
    )
    seen_until, today = None if extent is None else extent.last, {**slices, "suspected": work.suspected}
    return flag(FlagInput(work.namesrv_id, namesrv, work.day, today, recorded, before, work.thresholds, seen_until))


def _verdicts(
    work: NamesrvWork, namesrv: Namesrv, frames: Frames, slices: Frames, capacities: pa.Table
) -> dict[str, pa.Table]:
    return verdicts(
        VerifyInput(
            work.namesrv_id,
            work.day,
            namesrv,
            frames,
            work.raw_beats,
            slices,
            work.unread,
            capacities,
            is_told_elsewhere=bool(work.suspected.num_rows),
        )
    )


def _measured(work: Sequence[NamesrvWork], slices: Frames) -> list[Measurement]:
    """Return the counted rules of the day's slices. `work`: the day of some name servers; `slices`: all their slices."""
    day = work[0].day
    # Rules about intervals cover those that existed on the day.
    intervals = {table.name: conformed(slices[table.name], on_a_day(table), day=day) for table in gold.INTERVAL_TABLES}
    frames = {**slices, **intervals, **_recorded(Files.together([one.today for one in work]), day, slices)}
    return measure(frames, slices, [day], which=lambda rule: rule.scope != "table")


def _recorded(today: Files, day: dt.date, slices: Frames) -> dict[str, pa.Table]:
    """Return the recorded rows that the day's slices name, with the columns that rules need."""
    named, tables = ask(_NAMED, slices, day=day), bronze.RECORDED_TABLES
    placed = named.filter(pc.field("seq").is_valid())
    seqs = {"seqs": pa.table({"seq": pc.unique(placed["seq"])})}
    # Nearly all lie at the position of an outcome, so only these are read. A decision on the order has moved a few.
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


_IDENTITY = ("namesrv_id", "seq", "event_id", "effect_time", "day")
_NAMED = f"""
WITH others AS (
    SELECT event_id FROM route_mismatches
    UNION SELECT opened_by FROM data_version_history WHERE CAST(valid_from AS DATE) = $day
    UNION SELECT closed_by FROM data_version_history UNION SELECT opened_by FROM orphaned_topics
    UNION SELECT closed_by FROM orphaned_topics
)
-- An outcome for what a response told of an unknown past has the event's id with a suffix.
SELECT DISTINCT regexp_replace(event_id, '-response$', '') AS event_id, seq FROM event_outcomes
WHERE operation NOT IN ({words(SYNTHETIC_OPERATIONS)})
UNION ALL SELECT event_id, NULL FROM others WHERE event_id IS NOT NULL AND event_id NOT IN (SELECT event_id FROM event_outcomes)
"""  # noqa: S608  names of ours
"""Events that slices name and that may be recorded on their day; with the position, if an outcome has it."""
