"""What an operator should know about a name server's day: route changes, expired brokers, orphaned topics, findings ..."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import Namesrv
from namesrv_day.arrow.rows import conformed, rows_of, with_columns, with_microseconds
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import frame
from namesrv_day.day.coverage import is_logged
from namesrv_day.day.day_events import Frames
from namesrv_day.flags.expired import expired_brokers, heard_before
from namesrv_day.flags.findings import About, Unsettled, findings
from namesrv_day.flags.registered import Recorded, registered
from namesrv_day.flags.routes import Reports, news_of, swept_routes
from namesrv_day.flags.suspected import SUSPECTED
from namesrv_day.hours.condense import HOURS
from schemas import bronze, gold
from schemas.findings import Thresholds
from schemas.gold import EXPIRED_BROKERS, FINDINGS, ORPHANED_TOPICS, ROUTE_CHANGES
from schemas.table import Table, tables_in
from schemas.tables.state import fact_of
from schemas.times import day_start_us

_OF_THE_DAY = (
    *(*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.PAST_KNOWLEDGE, gold.NAMESRV_SETTINGS, bronze.NAMESRV_EVENTS),
)


@dataclass(frozen=True)
class FlagInput:
    """One name server on one day, as it was replayed.

    `today`: its slices of the histories, `event_outcomes`, `past_knowledge`, `namesrv_settings`, `namesrv_events`, its `hours`,
    and what is `suspected` of it (`suspected.SUSPECTED`). A table that is missing has no rows. `recorded` is asked only where
    something may have changed. `before`: `orphaned_topics` and `findings` that were open when the day began, and
    `expired_brokers` of days before, as `findings.findings` takes them. `seen_until`: when something was recorded of it last.
    """

    namesrv_id: str
    namesrv: Namesrv
    day: dt.date
    today: Frames
    recorded: Recorded
    before: Frames = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)
    seen_until: dt.datetime | None = None


def flag(given: FlagInput) -> dict[str, pa.Table]:
    """Return the tables of the day that flags make (`gold.made_by`); of routes only those of stirred topics are swept."""
    today = {table.name: frame(given.today, table) for table in _OF_THE_DAY}
    outcomes = today[gold.EVENT_OUTCOMES.name]
    refused = outcomes.filter(~pc.field("outcome").isin(["applied", "refreshed"]))["event_id"]
    hours, recorded = given.today.get("hours", HOURS.empty_table()), given.recorded
    reports = Reports(hours, recorded.raw_beats, recorded.topic_configs, refused)
    orphans = frame(given.before, ORPHANED_TOPICS)
    news = {table.name: news_of(today[table.name], given.day) for table in gold.HISTORY_TABLES}
    routes = swept_routes(today, news, reports, orphans, given.namesrv, given.day)
    unsettled, hears = _unsettled(today[gold.PAST_KNOWLEDGE.name]), _hears(today[gold.PAST_KNOWLEDGE.name])
    logged = is_logged(today[gold.PAST_KNOWLEDGE.name])
    settled = _settled(routes.orphans, unsettled, given.day)
    changes = routes.changes
    if logged:  # a route has brokers that no line shows
        settled, changes = settled.slice(0, 0), changes.slice(0, 0)
    elif not hears:
        settled = settled.filter(pc.not_equal(settled["reason"], "no_live_broker"))
    found = {
        ROUTE_CHANGES.name: _of(given.namesrv_id, _with_learned(changes, outcomes), ROUTE_CHANGES),
        ORPHANED_TOPICS.name: _of(given.namesrv_id, settled, ORPHANED_TOPICS),
        EXPIRED_BROKERS.name: expired_brokers(today),
        **{table.name: _of_sql(table, table.sql, today) for table in gold.made_by("flags") if table.sql is not None},
    }
    about = About(
        given.namesrv_id, given.day, given.thresholds, unsettled_until_start(today), hears, logged, given.seen_until
    )
    seen = {"suspected": given.today.get("suspected", SUSPECTED.empty_table())}
    seen |= {"heard": heard_before(found[EXPIRED_BROKERS.name], outcomes, recorded.beats_during)}
    seen |= registered({**today, ROUTE_CHANGES.name: found[ROUTE_CHANGES.name]}, hours, recorded, given.day)
    return {**found, FINDINGS.name: findings({**today, **found, **seen}, news, given.before, about)}


def _unsettled(past_knowledge: pa.Table) -> Unsettled | None:
    """Return while when something may have been missing only because it was not known yet; None: everything was known.

    It ends when every broker that is there has been heard, or a start has said who is there.
    """
    settings = past_knowledge.filter(pc.field("what") == "setting")
    number = dict(zip(settings["about"].to_pylist(), settings["number"].to_pylist(), strict=True))
    if "from_ms" not in number:
        return None
    heard_ms, complete_ms = number["from_ms"] + number["longest_lease_ms"], number["complete_ms"]
    until_ms = min(heard_ms, complete_ms) if complete_ms > 0 else heard_ms
    return Unsettled(number["from_ms"] * US_PER_MS, until_ms * US_PER_MS)


def _hears(past_knowledge: pa.Table) -> bool:
    """Return whether anything but answers was recorded, as `Past.hears`."""
    told = past_knowledge.filter(pc.is_in(past_knowledge["what"], pa.array(["setting", "beat"])))
    return not told.num_rows or Past.load(map(fact_of, rows_of(told))).hears


def unsettled_until_start(today: Frames) -> Unsettled | None:
    """Return the same, over with the first start of the day: `past_knowledge` remembers only the last one."""
    unsettled, outcomes = _unsettled(today[gold.PAST_KNOWLEDGE.name]), today[gold.EVENT_OUTCOMES.name]
    if unsettled is None:
        return None
    starts = with_microseconds(outcomes.filter(pc.field("operation") == "namesrv_started"))["effect_time"].to_pylist()
    return unsettled._replace(until_us=min([unsettled.until_us, *(us for us in starts if us >= unsettled.since_us)]))


def _settled(orphans: pa.Table, unsettled: Unsettled | None, day: dt.date) -> pa.Table:
    """Return the intervals without those of the day that ended while the name server's state was not settled."""
    if unsettled is None:
        return orphans
    begins, ends = (with_microseconds(orphans)[name] for name in ("valid_from", "valid_to"))
    kept = pc.or_(pc.greater(ends, unsettled.until_us), pc.less_equal(ends, unsettled.since_us))
    kept = pc.or_(kept, pc.less(begins, day_start_us(day)))
    return orphans.filter(pc.fill_null(kept, fill_value=True))


def _with_learned(changes: pa.Table, outcomes: pa.Table) -> pa.Table:
    """Return the route changes; those are only `learned` in which an answer showed what had been so before."""
    shown = outcomes.filter(pc.field("operation") == "observed_answer")["event_id"]
    kinds = pc.if_else(pc.is_in(changes["caused_by"], shown), "learned", changes["change"])
    return with_columns(changes, change=kinds)


def _of_sql(table: Table, sql: str, today: Frames) -> pa.Table:
    """Return the rows of a table that one statement makes of those of the day."""
    return conformed(ask(sql, {name: today[name] for name in tables_in(sql)}), table)


def _of(namesrv_id: str, rows: pa.Table, table: Table) -> pa.Table:
    named = rows.set_column(0, "namesrv_id", pa.repeat(namesrv_id, rows.num_rows))
    return conformed(named, table)
