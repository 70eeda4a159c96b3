"""Every recorded answer, asked of a registry that is rebuilt from the published tables as readers see them.

Reads   through `Answers`, so what a published run has pinned: histories, event_outcomes, order_decisions, namesrv_settings and
        map_capacities; the recorded answers, and what else was recorded on their day
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ask.engine import Answers
from namesrv_core.inference.settings import namesrv_of
from namesrv_day.arrow.rows import conformed, rows_of
from namesrv_day.arrow.sql import connection
from namesrv_day.day.day_events import BEATS
from namesrv_day.hours.answered import hours_from, singles_from
from namesrv_day.settle.settings import settings_of
from namesrv_day.verify.verify import VerifyInput, verdicts
from namesrv_wire.errors import Reason
from schemas import bronze, gold
from schemas.table import Table
from schemas.times import day_start_seq

Checks = Mapping[tuple[str, dt.date, int], Mapping[str, int]]
"""By name server, day and request code: how many answers, and of which class."""
COUNTS = tuple(name for name in gold.ANSWER_CHECKS.column_names if name not in ("namesrv_id", "day", "code"))
_OF_DAY = (gold.EVENT_OUTCOMES, gold.ORDER_DECISIONS, gold.NAMESRV_SETTINGS)
# What was so at some time of a day, as it was known when the day ended.
_ALIVE = """
    SELECT * REPLACE (
        CASE WHEN closed_at.seq < $until THEN valid_to END AS valid_to,
        CASE WHEN closed_at.seq < $until THEN closed_by END AS closed_by,
        CASE WHEN closed_at.seq < $until THEN closed_at END AS closed_at
    )
    FROM {table} WHERE namesrv_id = $id AND opened_at.seq < $until AND (closed_at IS NULL OR closed_at.seq >= $since)"""
_CAPACITIES = """
    SELECT * FROM map_capacities
    WHERE namesrv_id = $id AND day = (SELECT max(day) FROM namesrv_settings WHERE day < $day)"""
_UNREAD = """
    SELECT epoch_us(min(seen.event_time)) AS from_us, epoch_us(min(ends.event_time)) AS until_us
    FROM quarantine AS seen LEFT JOIN channel_events AS ends USING (channel_id)
    WHERE seen.namesrv_id = $id AND seen.reason = $reason GROUP BY channel_id ORDER BY from_us"""
# Whether brokers of elsewhere are the cause is told by comparing name servers, not by asking a registry.
_PUBLISHED = """
    WITH elsewhere AS (
        SELECT namesrv_id, day, code, count(*) AS answers FROM route_mismatches
        WHERE classification = 'other_address' GROUP BY ALL
    )
    SELECT c.* REPLACE (
        c.unknown_past - coalesce(e.answers, 0) AS unknown_past, c.mismatched + coalesce(e.answers, 0) AS mismatched
    )
    FROM answer_checks AS c LEFT JOIN elsewhere AS e USING (namesrv_id, day, code)"""


def published(answers: Answers) -> Checks:
    """Return how answers compare as was published, `other_address` counted with what does not match."""
    return _checks(answers.table(_PUBLISHED))


def asked_again(answers: Answers) -> Checks:
    """Return how all recorded answers compare with what is published, `other_address` counted with what does not match."""
    days = list(answers.ask("SELECT DISTINCT namesrv_id, day FROM namesrv_settings ORDER BY ALL").rows)
    found: dict[tuple[str, dt.date, int], Mapping[str, int]] = {}
    for namesrv_id, day in days:
        found.update(_checks(verdicts(_given(answers, namesrv_id, day)).answer_checks))
    return found


def differing(again: Checks, known: Checks) -> list[str]:
    """Return a sentence for each name server, day and request code whose answers compare otherwise than was published."""

    def words(counts: Mapping[str, int] | None) -> str:
        return "none" if counts is None else ", ".join(f"{count} {name}" for name, count in counts.items())

    return [
        f"answers of {key[0]} to {key[2]} on {key[1]}: published are {words(known.get(key))}, "
        f"asked of the published tables {words(again.get(key))}"
        for key in sorted({*again, *known})
        if again.get(key) != known.get(key)
    ]


def summed(checks: Checks) -> dict[str, int]:
    """Return the counts of all."""
    return {name: sum(counts[name] for counts in checks.values()) for name in COUNTS}


def _given(answers: Answers, namesrv_id: str, day: dt.date) -> VerifyInput:
    """Return one name server's day as readers see it."""

    def rows(table: Table, sql: str, **values: Any) -> pa.Table:
        return conformed(answers.table(sql.format(table=table.name), id=namesrv_id, **values), table)

    def of_day(table: Table) -> pa.Table:
        return rows(table, "SELECT * FROM {table} WHERE namesrv_id = $id AND day = $day", day=day)

    span = {"since": day_start_seq(day), "until": day_start_seq(day + dt.timedelta(days=1))}
    replayed = {table.name: of_day(table) for table in _OF_DAY}
    replayed |= {table.name: rows(table, _ALIVE, **span) for table in gold.HISTORY_TABLES}
    beats = {table.name: of_day(table) for table in BEATS}
    observed = connection().from_arrow(of_day(bronze.ROUTE_OBSERVATIONS))
    unread = [*answers.ask(_UNREAD, id=namesrv_id, reason=Reason.TLS.value).rows]

    def raw_beats(kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        found = beats[kind] if where is None else beats[kind].filter(where)
        return found if columns is None else found.select(columns)

    return VerifyInput(
        namesrv_id,
        day,
        namesrv_of(settings_of(replayed[gold.NAMESRV_SETTINGS.name]), span["since"]),
        hours_from(observed),
        lambda wanted: singles_from(observed, wanted),
        {table.name: of_day(table) for table in (bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)},
        raw_beats,
        replayed,
        unread,
        rows(gold.MAP_CAPACITIES, _CAPACITIES, day=day),
    )


def _checks(rows: pa.Table) -> Checks:
    return {
        (row["namesrv_id"], row["day"], row["code"]): {name: row[name] for name in COUNTS}
        for row in rows_of(conformed(rows, gold.ANSWER_CHECKS))
    }
