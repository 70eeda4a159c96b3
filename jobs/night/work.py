"""What becomes of a name server on a day: it is settled and replayed."""

from __future__ import annotations

import datetime as dt
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import TamperedError
from jobs.night import stash
from jobs.night.opened import Files
from jobs.store.files import DataFile, write_file
from jobs.store.places import table_path
from namesrv_core.inference.settings import Value
from namesrv_core.machine.codes import ResponseCode
from namesrv_day.arrow.rows import conformed, empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import DURING
from namesrv_day.day.day_events import BEATS, EVENTS, OTHERS, RESPONSE_COLUMNS, day_events
from namesrv_day.day.timed import wrong_configs
from namesrv_day.flags.between import REFUSED
from namesrv_day.flags.registered import ASKED
from namesrv_day.hours.answered import HOURS as ANSWERS
from namesrv_day.hours.answered import asked_from, refused_from
from namesrv_day.hours.condense import HOURS, PERIOD_US
from namesrv_day.replay.replay import ReplayInput, replay
from namesrv_day.settle.settle import SettleInput, settle
from schemas import bronze, gold
from schemas.rules import TABLES
from schemas.table import Table

_OF_DAY = (*OTHERS, bronze.ROUTE_OBSERVATIONS, bronze.SNAPSHOTS)
# Equal answers have long bodies.
_ONCE = frozenset({"body"})
# To look at when a beat came first takes longer than it spares where nearly all came then, or there is much to compare with.
_MANY = 64
_MOST_OF_A_DAY = dt.timedelta(hours=16)
_SAID_OF_BEATS = {*EVENTS.names, "event_time", "effect_time", "response_code", "response_remark"}
REPLAYED = (gold.REFRESHES_HOURLY, gold.PAST_KNOWLEDGE)
"""The tables whose slices a replay writes. Which intervals are written is known when they are held against those there."""


@dataclass(frozen=True)
class NamesrvWork:
    """One name server's day: what is to be settled, and from which files.

    `today`: bronze tables of the day, and topic_configs; `start`: the last day before, and `before` its tables, with the intervals
    that were there on it or later; `ever`: namesrv_events and snapshots up to the day. `hours`, `answers`: where hours of beats and
    of answers are stashed. `settings_before`, `settings_later`, `scan_life`, `addresses`: rows of this name server, as
    `SettleInput` has them; `suspected`: as `flags.suspected.SUSPECTED`.
    """

    namesrv_id: str
    day: dt.date
    run_id: str
    today: Files
    start: dt.date | None
    before: Files
    ever: Files
    hours: tuple[str, ...]
    answers: tuple[str, ...]
    settings_before: pa.Table
    settings_later: pa.Table
    scan_life: pa.Table
    addresses: pa.Table
    suspected: pa.Table
    given: Mapping[str, Value]
    first_seen_seq: int | None
    going_on: bool


@dataclass(frozen=True)
class NamesrvReplayed:
    """What a name server's day came to, before it is judged.

    `tables`: its rows of those tables that are written so far, in `files`; `histories`: its intervals; `outcomes`: its rows of
    event_outcomes; `events`: how many the core took. `reconsidered_since`: from that position on earlier days were replayed with a
    value that turns out wrong.
    """

    files: dict[str, tuple[DataFile, ...]]
    tables: dict[str, pa.Table]
    histories: dict[str, pa.Table]
    outcomes: pa.Table
    events: int
    reconsidered_since: int | None


def replayed(work: NamesrvWork) -> NamesrvReplayed:
    """Settle and replay one name server's day, and write its slices."""
    today = work.today.of(work.namesrv_id)
    hours = hours_of(work)
    frames = {table.name: today.rows(table, once=_ONCE & {*table.column_names}) for table in _OF_DAY}
    frames["hours"] = hours
    settled = settle(_input(work, frames))
    context, with_answers = settled.context, settled.context.has_unknown_past
    frames[bronze.CHANNEL_EVENTS.name] = settled.channel_events
    done = replay(
        ReplayInput(
            context,
            work.day,
            hours,
            day_events(frames, tables=OTHERS, with_answers=with_answers),
            _open_rows(work),
            partial(topic_configs, work.today),
            partial(_single_beats, work, with_answers=with_answers),
            work.before.of(work.namesrv_id).rows(gold.MAP_CAPACITIES),
            frames[bronze.ROUTE_OBSERVATIONS.name] if settled.may_race else None,
        )
    )
    rows = {gold.NAMESRV_SETTINGS: settled.settings}
    rows |= {table: done.tables[table.name] for table in (gold.ORDER_DECISIONS, *REPLAYED)}
    outcomes = done.tables[gold.EVENT_OUTCOMES.name]
    histories = {table.name: done.tables[table.name] for table in gold.HISTORY_TABLES}
    tables = {table.name: conformed(of_table, table) for table, of_table in rows.items()}
    return NamesrvReplayed(written(work, rows), tables, histories, outcomes, done.events, settled.reconsidered_since)


def written(work: NamesrvWork, rows: Mapping[Table, pa.Table]) -> dict[str, tuple[DataFile, ...]]:
    """Write rows of tables as files of the day; return the files, none for a table without rows."""
    found: dict[str, tuple[DataFile, ...]] = {}
    for table, of_table in rows.items():
        name = f"{work.run_id}-{len(found)}"
        some = [write_file(of_table, work.today.root, table, work.day, name)] if of_table.num_rows else []
        found[table.name] = tuple(some)
    return found


def _input(work: NamesrvWork, frames: Mapping[str, pa.Table]) -> SettleInput:
    before, ever = work.before.of(work.namesrv_id), work.ever.of(work.namesrv_id)
    capacities = {gold.MAP_CAPACITIES.name: before.rows(gold.MAP_CAPACITIES)}
    return SettleInput(
        work.namesrv_id,
        work.day,
        frames,
        partial(raw_beats, work),
        partial(topic_configs, work.today),
        carried=ChainMap({**capacities, gold.EVENT_OUTCOMES.name: work.scan_life}, _open_rows(work)),  # type: ignore[arg-type]  # it only reads
        ever={
            bronze.NAMESRV_EVENTS.name: ever.rows(bronze.NAMESRV_EVENTS),
            bronze.SNAPSHOTS.name: ever.rows(bronze.SNAPSHOTS),
        },
        settings_before=work.settings_before,
        settings_later=work.settings_later,
        given=work.given,
        first_seen_seq=work.first_seen_seq,
        going_on=work.going_on,
        addresses=work.addresses,
    )


def _open_rows(work: NamesrvWork) -> Mapping[str, pa.Table]:
    """Return the rows that were open when the day began, and what was known of the past, each table read when it is asked for."""
    tables = [*gold.HISTORY_TABLES, gold.PAST_KNOWLEDGE]
    return work.before.of(work.namesrv_id).frames(tables, work.start, still=True)


def hours_of(work: NamesrvWork) -> pa.Table:
    """Return the condensed beats of a name server's day."""
    return _taken(work, work.hours, "hours", HOURS)


def answers_of(work: NamesrvWork) -> pa.Table:
    """Return the condensed answers of a name server's day."""
    return _taken(work, work.answers, "answers", ANSWERS)


def questions_of(work: NamesrvWork) -> pa.Table:
    """Return the questions for routes of a name server's day, the first and the last of each hour: `ASKED`."""
    found = work.today.of(work.namesrv_id).ask(bronze.ROUTE_OBSERVATIONS, asked_from)
    return ASKED.empty_table() if found is None else found.cast(ASKED)


def topics_refused(work: NamesrvWork) -> pa.Table:
    """Return the topics that clients were refused on a name server's day because there are none: `REFUSED`."""
    condensed = _taken(work, work.answers, "answers", pa.schema([ANSWERS.field("response_code")]))
    if not pc.any(pc.equal(condensed["response_code"], ResponseCode.TOPIC_NOT_EXIST.value)).as_py():
        return REFUSED.empty_table()
    found = work.today.of(work.namesrv_id).ask(bronze.ROUTE_OBSERVATIONS, refused_from)
    return REFUSED.empty_table() if found is None else found.cast(REFUSED)


def refused_of(work: NamesrvWork, reason: str) -> pa.Table:
    """Return what came of a name server's day and was put into quarantine for one reason."""
    begin = dt.datetime.combine(work.day, dt.time(), dt.timezone.utc)
    on_the_day = (pc.field("event_time") >= begin) & (pc.field("event_time") < begin + dt.timedelta(days=1))
    return work.today.of(work.namesrv_id).rows(bronze.QUARANTINE, where=on_the_day & (pc.field("reason") == reason))


def _taken(work: NamesrvWork, places: Sequence[str], name: str, columns: pa.Schema) -> pa.Table:
    """Return the rows of a name server that were stashed; nowhere is anything where nobody has told any on that day."""
    if not places:
        return columns.empty_table()
    return stash.take(places, name, pc.field("namesrv_id") == work.namesrv_id, columns.names)


def topic_configs(files: Files, digests: pa.ChunkedArray) -> pa.Table:
    """Return the topic tables of some digests. Raises TamperedError if one is not there, or is not what its digest says."""
    table = bronze.TOPIC_CONFIGS_TABLE
    if not len(digests):
        return empty(table)
    found = files.rows(table, where=pc.field("topic_config_digest").isin(_flat(digests)))
    require_configs(files.root, found, digests.to_pylist())
    return found


def require_configs(root: str, configs: pa.Table, digests: Iterable[str | None] = ()) -> None:
    """Raise TamperedError if one of `digests` is not there, or a row of topic_configs is not what its digest says."""
    missing = set(digests).difference(configs["topic_config_digest"].to_pylist(), [None])
    if wrong := [*wrong_configs(configs), *sorted(map(str, missing))]:
        where = table_path(root, bronze.TOPIC_CONFIGS_TABLE)
        raise TamperedError(f"topic_configs: {where} does not hold what was read as {wrong[0]}")


def raw_beats(
    work: NamesrvWork, kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None
) -> pa.Table:
    """Return single beats of one table, as `RawBeats`."""
    return work.today.of(work.namesrv_id).rows(TABLES[kind], columns, where)


def beats_during(
    work: NamesrvWork, kind: str, columns: Sequence[str], during: pa.Table, at: str = "event_time"
) -> pa.Table:
    """Return single beats of one table, as `BeatsDuring`; `at`: the column that says when."""
    same = f"rows.broker_addr IS NOT DISTINCT FROM during.broker_addr AND {at} > during.after AND {at} <= during.last"
    spans, when = _spans(during), "true"
    if len(spans) < _MANY and sum((last - after for after, last in spans), dt.timedelta()) < _MOST_OF_A_DAY:
        # Files are read only where one of the spans lies.
        each = (f"{at} > TIMESTAMPTZ '{after}' AND {at} <= TIMESTAMPTZ '{last}'" for after, last in spans)
        when = " OR ".join(each) or "false"
    clause = f"SEMI JOIN during ON {same} WHERE {when}"
    return work.today.of(work.namesrv_id).few(TABLES[kind], columns, clause, {"during": during})


def _spans(during: pa.Table) -> list[tuple[dt.datetime, dt.datetime]]:
    """Return the time of any address."""
    merged: list[tuple[dt.datetime, dt.datetime]] = []
    for after, last in sorted(zip(during["after"].to_pylist(), during["last"].to_pylist(), strict=True)):
        if merged and after <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((after, last))
    return merged


def _single_beats(work: NamesrvWork, beaten: pa.Table, *, with_answers: bool) -> pa.Table:
    """Return the single beats of (broker_addr, period) as events, where they were recorded."""
    more = RESPONSE_COLUMNS if with_answers else ()
    during = ask(_PERIODS, {"beaten": beaten}, period_us=PERIOD_US).cast(DURING)
    frames = {table.name: beats_during(work, table.name, _said(table, more), during, "effect_time") for table in BEATS}
    return day_events(frames, tables=BEATS, with_answers=with_answers)


# The periods of an address that follow each other are one time.
_PERIODS = """
SELECT broker_addr, make_timestamptz(min(period) * $period_us - 1) AS after,
    make_timestamptz((max(period) + 1) * $period_us - 1) AS last
FROM (SELECT *, period - row_number() OVER (PARTITION BY broker_addr ORDER BY period) AS run FROM beaten)
GROUP BY broker_addr, run
"""


def _said(table: Table, more: Collection[str]) -> list[str]:
    """Return the columns of a table of beats of which events are made, and `more`."""
    return [name for name in table.column_names if name in _SAID_OF_BEATS or name in more]


def _flat(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
