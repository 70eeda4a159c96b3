"""What an operator should know about a day: one finding a cause, told on the day it begins, and again on the day it ends.

The catalogue's queries say what is so of each thing. Things that have one cause are told together: those that outlast a day
by what they are known by (`schemas.findings.Finding.lasts`), the others if they begin soon after each other.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.rows import conformed, empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.day_events import Frames
from namesrv_day.flags.expired import HEARD
from namesrv_day.flags.registered import SEEN
from namesrv_day.flags.suspected import SUSPECTED
from schemas.findings import CATALOGUE, Finding, Having, Thresholds
from schemas.gold import EXPIRED_BROKERS, FINDINGS
from schemas.sql_files import query
from schemas.table import TIMESTAMP


class Unsettled(NamedTuple):
    """While not all brokers of a name server were known (µs): what ended then may only have been missing so long."""

    since_us: int
    until_us: int


class About(NamedTuple):
    """Whose findings of which day, from when on they count, and when something was recorded of it last on the day."""

    namesrv_id: str
    day: dt.date
    thresholds: Thresholds = Thresholds()
    unsettled: Unsettled | None = None
    seen_until: dt.datetime | None = None


def findings(tables: Frames, news: Frames, told: Frames, about: About) -> pa.Table:
    """Return the rows of `findings` of one name server's day: what began on it, and what of earlier days ended on it.

    `tables`: the day's slices of the tables that the catalogue reads, `expired.HEARD`, and what is `registered`. `news`: of the
    histories, the rows opened or closed on the day. `told`: `findings` and `expired_brokers` of days before. Of the first, rows
    may be missing that were over on the day on which they began; of the second, those of brokers that were back on their day,
    and those that `Thresholds.waited_us` leaves out.
    """
    standing = standing_from(told.get(FINDINGS.name, empty(FINDINGS)), about.day)
    tables = {
        **_SEEN,
        **tables,
        "expired_before": told.get(EXPIRED_BROKERS.name, empty(EXPIRED_BROKERS)),
        "about": pa.table({"namesrv_id": [about.namesrv_id], "seen_until": pa.array([about.seen_until], TIMESTAMP)}),
    }
    values = {**asdict(about.thresholds), "start": start_of(about.day)}
    things, asked = [_NO_THINGS], []
    for finding in CATALOGUE:
        if finding.is_between:
            continue
        stands = standing.filter(pc.field("code") == finding.code)
        if _may_be(finding, tables, news, stands):
            things.append(_things(finding, {**tables, "standing": stands}, values))
            asked.append(stands)
    return told_of(
        pa.concat_tables(things, promote_options="default"), pa.concat_tables([standing.slice(0, 0), *asked]), about
    )


def told_of(things: pa.Table, standing: pa.Table, about: About) -> pa.Table:
    """Return the rows of `findings` that are told of what is so. `standing`: what of the codes asked for had not ended."""
    if not things.num_rows and not standing.num_rows:
        return empty(FINDINGS)
    given = {"things": things, "standing": standing, "kinds": _KINDS}
    since_us, until_us = about.unsettled or (None, None)
    rows = ask(query("findings/told"), given, start=start_of(about.day), since_us=since_us, until_us=until_us)
    return of_findings(rows, namesrv_id=about.namesrv_id, day=about.day)


def standing_from(told: pa.Table, day: dt.date) -> pa.Table:
    """Return those of the findings told on days before `day` that had not ended then. `told`: rows of one name server."""
    return ask(query("findings/standing"), {"told": told}, day=day)


def stand_otherwise(new: pa.Table, old: pa.Table, day: dt.date) -> bool:
    """Return whether other findings stand when `day` ends by what is told now than by what was told: the next day needs both.

    Both: `findings` of one name server, of all days up to `day`.
    """
    order = [(name, "ascending") for name in ("code", "subject", "from_time", "severity", "detail")]
    now, then = (standing_from(told, day + dt.timedelta(days=1)).sort_by(order) for told in (new, old))
    return not now.equals(then)


def _may_be(finding: Finding, tables: Frames, news: Frames, standing: pa.Table) -> bool:
    """Return whether there may be a finding of one code, or one of those that stand may have ended."""
    if not finding.of:
        return True
    of_the_day = {**tables, **news}
    if not standing.num_rows and finding.begins:
        return any(_is_there(of_the_day, one) for one in finding.begins)
    if any(of_the_day[name].num_rows for name in finding.of):
        return True
    return bool(standing.num_rows) and not news.keys() & finding.of


def _is_there(tables: Frames, rows: str | Having) -> bool:
    if isinstance(rows, str):
        return bool(tables[rows].num_rows)
    column = tables[rows.table][rows.column]
    return column.null_count < len(column) if rows.value is None else bool(pc.any(pc.equal(column, rows.value)).as_py())


def _things(finding: Finding, tables: Frames, values: Mapping[str, Any]) -> pa.Table:
    """Return what is so of each thing, by the query of one code."""
    used = {name: table for name, table in tables.items() if name in finding.words}
    rows = ask(finding.sql, used, **{name: value for name, value in values.items() if f"${name}" in finding.words})
    return rows.append_column("code", pa.repeat(finding.code, rows.num_rows))


def start_of(day: dt.date) -> dt.datetime:
    """Return the first instant of a UTC day."""
    return dt.datetime.combine(day, dt.time(), dt.timezone.utc)


def of_findings(rows: pa.Table, **same: Any) -> pa.Table:
    """Return rows as `findings` has them; `same`: columns that have one value in all rows."""
    return conformed(rows, FINDINGS, **same)


_SEEN = {name: schema.empty_table() for name, schema in {"heard": HEARD, "suspected": SUSPECTED, **SEEN}.items()}
_NO_THINGS = empty(FINDINGS).drop_columns(["namesrv_id", "day", "brokers", "topics"])
_KINDS = pa.table({name: [getattr(one, name) for one in CATALOGUE] for name in ("code", "lasts", "near_us")})
