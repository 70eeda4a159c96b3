"""Findings of a day: one for each cause, from the day on which it begins to the day on which it ends.

The catalogue's queries yield single things. Things with one cause become one finding: those that outlast a day by their
identity (`schemas.findings.Finding.lasts`), the others if they begin soon after each other.
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
from namesrv_day.day.context import LOOKED_BACK_AT
from namesrv_day.day.day_events import Frames
from namesrv_day.flags.registered import HEARD, SEEN
from namesrv_day.flags.suspected import SUSPECTED
from schemas.findings import BETWEEN, CATALOGUE, Finding, Thresholds
from schemas.gold import BROKER_ADDR_HISTORY, EXPIRED_BROKERS, FINDINGS
from schemas.sql_files import query
from schemas.table import TIMESTAMP
from schemas.times import day_start


class Unsettled(NamedTuple):
    """Time (µs) in which not all brokers of a name server were known: rows missing then may have existed all along."""

    since_us: int
    until_us: int


class About(NamedTuple):
    """The name server and the day of findings, with the limits for them."""

    namesrv_id: str
    day: dt.date
    thresholds: Thresholds = Thresholds()
    unsettled: Unsettled | None = None
    hears: bool = True
    """Whether anything but answers was recorded."""
    is_logged: bool = False
    """Whether the name server is known only by its own log."""
    seen_until: dt.datetime | None = None  # when something was last recorded of it on the day


def findings(tables: Frames, news: Frames, told: Frames, about: About) -> pa.Table:
    """Return the rows of `findings` of one name server on a day: those that stood at its beginning, and new ones.

    `tables`: the day's slices of the tables that the catalogue reads, `registered.HEARD`, and the tables of `registered`.
    `news`: rows of histories opened or closed on the day. `told`: `findings` that were open at its beginning;
    `expired_brokers` of days before, of which may be missing brokers that were back on the same day and rows that
    `Thresholds.waited_us` excludes; and the tables `context.LOOKED_BACK_AT` of the last day before.
    """
    standing = told.get(FINDINGS.name, empty(FINDINGS)).filter(~pc.field("code").isin(BETWEEN))
    tables = {
        **_SEEN,
        **tables,
        "expired_before": told.get(EXPIRED_BROKERS.name, empty(EXPIRED_BROKERS)),
        "about": pa.table({"namesrv_id": [about.namesrv_id], "seen_until": pa.array([about.seen_until], TIMESTAMP)}),
    }
    values = {**asdict(about.thresholds), "start": day_start(about.day)}
    things, asked = [_NO_THINGS], set[str]()
    is_deaf = not about.hears and bool(tables[BROKER_ADDR_HISTORY.name].num_rows)
    for finding in CATALOGUE:
        if finding.is_between or (about.is_logged and not finding.shows_in_logs) or (finding.needs_events and is_deaf):
            continue
        stands = standing.filter(pc.field("code") == finding.code)
        if _may_be(finding, tables, news, stands):
            things.append(_things(finding, {**tables, "standing": stands}, told, values))
            asked.add(finding.code)
    is_asked = pc.field("code").isin(pa.array(asked, pa.string()))
    told_now = told_of(pa.concat_tables(things, promote_options="default"), standing.filter(is_asked), about)
    return pa.concat_tables([told_now, standing.filter(~is_asked)])


def told_of(things: pa.Table, standing: pa.Table, about: About) -> pa.Table:
    """Return the rows of `findings` on the day. `standing`: open findings of the codes that were queried."""
    if not things.num_rows and not standing.num_rows:
        return empty(FINDINGS)
    given = {"things": things, "standing": standing, "kinds": _KINDS}
    since_us, until_us = about.unsettled or (None, None)
    values = {"day": about.day, "start": day_start(about.day), "since_us": since_us, "until_us": until_us}
    return conformed(ask(query("findings/told"), given, **values), FINDINGS, namesrv_id=about.namesrv_id)


def _may_be(finding: Finding, tables: Frames, news: Frames, standing: pa.Table) -> bool:
    """Return whether a finding of one code may have begun, or one of those standing may have ended."""
    if not finding.of or (finding.looks_back and standing.num_rows):
        return True
    of_the_day = {**tables, **news}
    if any(of_the_day[name].num_rows for name in finding.of):
        return True
    return bool(standing.num_rows) and not news.keys() & finding.of


def _things(finding: Finding, tables: Frames, told: Frames, values: Mapping[str, Any]) -> pa.Table:
    """Return the things that the query of one code yields."""
    used = {name: table for name, table in tables.items() if name in finding.words}
    if finding.looks_back:
        earlier = used.keys() & told.keys() & {table.name for table in LOOKED_BACK_AT}
        used |= {name: pa.concat_tables([told[name], used[name]]) for name in earlier}
    rows = ask(finding.sql, used, **{name: value for name, value in values.items() if f"${name}" in finding.words})
    return rows.append_column("code", pa.repeat(finding.code, rows.num_rows))


_SEEN = {name: schema.empty_table() for name, schema in {"heard": HEARD, "suspected": SUSPECTED, **SEEN}.items()}
_NO_THINGS = empty(FINDINGS).drop_columns(["namesrv_id", "brokers", "topics", "begun_with", "told_on", "ended_on"])
_KINDS = pa.table({name: [getattr(one, name) for one in CATALOGUE] for name in ("code", "lasts", "near_us")})
