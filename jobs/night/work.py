"""What a task is given of a name server's day: the names of files, few rows, and how these files are read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import TamperedError
from jobs.night import stash
from jobs.night.opened import Files
from jobs.store.files import DataFile, write_file
from jobs.store.places import table_path
from namesrv_core.inference.settings import Value
from namesrv_core.machine.codes import ResponseCode
from namesrv_day.arrow.rows import empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import DURING, LOOKED_BACK_AT
from namesrv_day.day.day_events import BEATS, EVENTS, RESPONSE_COLUMNS, day_events
from namesrv_day.day.timed import wrong_configs
from namesrv_day.flags.between import REFUSED
from namesrv_day.flags.registered import ASKED
from namesrv_day.hours.answered import HOURS as ANSWERS
from namesrv_day.hours.answered import SINGLES, asked_from, refused_from, singles_from
from namesrv_day.hours.condense import HOURS, PERIOD_US
from schemas import bronze, gold
from schemas.findings import Thresholds
from schemas.rules import TABLES
from schemas.table import Table

# To look at when a beat came first takes longer than it spares where nearly all came then, or there is much to compare with.
_MANY = 64
_MOST_OF_A_DAY = dt.timedelta(hours=16)
_SAID_OF_BEATS = {*EVENTS.names, "event_time", "effect_time", "response_code", "response_remark"}
# The periods of an address that follow each other are one time.
_PERIODS = """
SELECT broker_addr, make_timestamptz(min(period) * $period_us - 1) AS after,
    make_timestamptz((max(period) + 1) * $period_us - 1) AS last
FROM (SELECT *, period - row_number() OVER (PARTITION BY broker_addr ORDER BY period) AS run FROM beaten)
GROUP BY broker_addr, run
"""


@dataclass(frozen=True)
class NamesrvWork:
    """One name server's day, and the files in which there may be rows of it.

    `today`: bronze tables of the day, and topic_configs; `start`: the last day before, and `before` its tables, with the intervals
    that were there on it or later; `ever`: namesrv_events and snapshots up to the day; `told`: expired_brokers of days before.
    `published`: gold tables of the day as they were published; None: they never were; `opened`: of intervals that are published as
    open. `hours`, `answers`: where hours of beats and of answers are stashed. `settings_before`, `settings_later`, `scan_life`,
    `addresses`: rows of this name server, as `SettleInput` has them; `suspected`: as `flags.suspected.SUSPECTED`; `unread`: see
    `VerifyInput`.
    """

    namesrv_id: str
    day: dt.date
    run_id: str
    today: Files
    start: dt.date | None
    before: Files
    ever: Files
    told: Files
    published: Files | None
    opened: Files
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
    unread: tuple[tuple[int, int | None], ...]
    thresholds: Thresholds

    def write(self, rows: Mapping[Table, pa.Table]) -> dict[str, tuple[DataFile, ...]]:
        """Write rows of tables as files of the day; return the files, none for a table without rows."""
        found: dict[str, tuple[DataFile, ...]] = {}
        for table, of_table in rows.items():
            name = f"{self.run_id}-{len(found)}"
            some = [write_file(of_table, self.today.root, table, self.day, name)] if of_table.num_rows else []
            found[table.name] = tuple(some)
        return found

    def open_rows(self, tables: Iterable[Table]) -> Mapping[str, pa.Table]:
        """Return what was there of tables, and not over, when the day began, each read when it is asked for."""
        return self.before.frames(tables, self.start, still=True)

    def closed_before(self) -> dict[str, pa.Table]:
        """Return what findings look back at of the last day before (`context.LOOKED_BACK_AT`)."""
        found = {}
        for table, what in LOOKED_BACK_AT.items() if self.start else ():
            closed = [file for file in self.before.files(table) if file.closed is not None or not table.has_intervals]
            rows = self.before.having({table.name: tuple(closed)}).on(table, self.start, where=what)
            found[table.name] = rows.filter(what)
        return found

    def capacities(self) -> pa.Table:
        """Return map_capacities of the day before."""
        return self.before.rows(gold.MAP_CAPACITIES)

    def condensed_beats(self) -> pa.Table:
        """Return the condensed beats: `condense.HOURS`."""
        return self._stashed(self.hours, "hours", HOURS)

    def condensed_answers(self) -> pa.Table:
        """Return the condensed answers: `answered.HOURS`."""
        return self._stashed(self.answers, "answers", ANSWERS)

    def questions(self) -> pa.Table:
        """Return the questions for routes, the first and the last of each hour: `ASKED`."""
        with self.today.reading(bronze.ROUTE_OBSERVATIONS) as rows:
            return asked_from(rows).cast(ASKED)

    def single_answers(self, wanted: pa.Table) -> pa.Table:
        """Return single ones of the condensed answers, as `VerifyInput` looks them up."""
        if not self.today.files(bronze.ROUTE_OBSERVATIONS):
            return SINGLES.empty_table()
        with self.today.reading(bronze.ROUTE_OBSERVATIONS) as rows:
            return singles_from(rows, wanted)

    def topics_refused(self) -> pa.Table:
        """Return the topics that clients were refused because there are none: `REFUSED`."""
        codes = self._stashed(self.answers, "answers", pa.schema([ANSWERS.field("response_code")]))["response_code"]
        if not pc.any(pc.equal(codes, ResponseCode.TOPIC_NOT_EXIST.value)).as_py():
            return REFUSED.empty_table()
        with self.today.reading(bronze.ROUTE_OBSERVATIONS) as rows:
            return refused_from(rows).cast(REFUSED)

    def refused(self, reason: str) -> pa.Table:
        """Return what came on the day and was put into quarantine for one reason."""
        begin = dt.datetime.combine(self.day, dt.time(), dt.timezone.utc)
        on_the_day = (pc.field("event_time") >= begin) & (pc.field("event_time") < begin + dt.timedelta(days=1))
        return self.today.rows(bronze.QUARANTINE, where=on_the_day & (pc.field("reason") == reason))

    def arrivals(self, ids: pa.Array) -> pa.Table:
        """Return when events arrived that end brokers' lives."""
        is_one = pc.field("event_id").isin(ids)
        ending = (bronze.UNREGISTRATIONS, bronze.CHANNEL_EVENTS)
        return pa.concat_tables([self.today.rows(table, ("event_id", "event_time"), is_one) for table in ending])

    def topic_configs(self, digests: pa.ChunkedArray) -> pa.Table:
        """Return the topic tables of some digests. Raises TamperedError if one is not there, or is not what its digest says."""
        table = bronze.TOPIC_CONFIGS_TABLE
        if not len(digests):
            return empty(table)
        flat = digests.combine_chunks() if isinstance(digests, pa.ChunkedArray) else digests
        found = self.today.rows(table, where=pc.field("topic_config_digest").isin(flat))
        require_configs(self.today.root, found, digests.to_pylist())
        return found

    def raw_beats(
        self, kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> pa.Table:
        """Return single beats of one table, as `RawBeats`."""
        return self.today.rows(TABLES[kind], columns, where)

    def beats_during(self, kind: str, columns: Sequence[str], during: pa.Table, at: str = "event_time") -> pa.Table:
        """Return single beats of one table, as `BeatsDuring`; `at`: the column that says when."""
        same = (
            f"rows.broker_addr IS NOT DISTINCT FROM during.broker_addr AND {at} > during.after AND {at} <= during.last"
        )
        spans, when = _spans(during), "true"
        if len(spans) < _MANY and sum((last - after for after, last in spans), dt.timedelta()) < _MOST_OF_A_DAY:
            # Files are read only where one of the spans lies.
            each = (f"{at} > TIMESTAMPTZ '{after}' AND {at} <= TIMESTAMPTZ '{last}'" for after, last in spans)
            when = " OR ".join(each) or "false"
        return self.today.few(TABLES[kind], columns, f"SEMI JOIN during ON {same} WHERE {when}", {"during": during})

    def single_beats(self, beaten: pa.Table, *, with_answers: bool) -> pa.Table:
        """Return the single beats of (broker_addr, period) as events, where they were recorded."""
        during = ask(_PERIODS, {"beaten": beaten}, period_us=PERIOD_US).cast(DURING)
        said = {*_SAID_OF_BEATS, *(RESPONSE_COLUMNS if with_answers else ())}
        frames = {}
        for table in BEATS:
            columns = [name for name in table.column_names if name in said]
            frames[table.name] = self.beats_during(table.name, columns, during, "effect_time")
        return day_events(frames, tables=BEATS, with_answers=with_answers)

    def _stashed(self, places: Sequence[str], name: str, columns: pa.Schema) -> pa.Table:
        """Return its rows that were stashed; nowhere is anything where nobody has told any on that day."""
        if not places:
            return columns.empty_table()
        return stash.take(places, name, pc.field("namesrv_id") == self.namesrv_id, columns.names)


def require_configs(root: str, configs: pa.Table, digests: Collection[str | None] = ()) -> None:
    """Raise TamperedError if one of `digests` is not there, or a row of topic_configs is not what its digest says."""
    missing = set(digests).difference(configs["topic_config_digest"].to_pylist(), [None])
    if wrong := [*wrong_configs(configs), *sorted(map(str, missing))]:
        where = table_path(root, bronze.TOPIC_CONFIGS_TABLE)
        raise TamperedError(f"topic_configs: {where} does not hold what was read as {wrong[0]}")


def _spans(during: pa.Table) -> list[tuple[dt.datetime, dt.datetime]]:
    """Return the time of any address."""
    merged: list[tuple[dt.datetime, dt.datetime]] = []
    for after, last in sorted(zip(during["after"].to_pylist(), during["last"].to_pylist(), strict=True)):
        if merged and after <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((after, last))
    return merged
