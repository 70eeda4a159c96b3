"""Findings from a comparison of name servers: clocks or registries that disagree.

Each name server's day leaves a summary whose size depends on its number of brokers. Only for brokers with different
topics at two name servers, the topics themselves are read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_day.arrow.rows import conformed
from namesrv_day.arrow.sql import ask
from namesrv_day.flags.findings import About, Unsettled, told_of
from namesrv_day.flags.suspected import groups_of
from schemas.findings import BETWEEN, CATALOGUE, Finding, Thresholds
from schemas.gold import BROKER_ADDR_HISTORY, DATA_VERSION_HISTORY, FINDINGS, TOPIC_QUEUE_HISTORY
from schemas.sql_files import query
from schemas.times import day_start, instant_us

Span = tuple[int, int]
Queues = Callable[[Sequence[str], pa.Array], pa.Table]
"""Reads rows of the day's topic_queue_history for given name servers and broker names."""
_SERVED = pa.schema([("namesrv_id", pa.string()), ("from_us", pa.int64()), ("until_us", pa.int64())])
_DIVERGENCE, _SPLIT = (
    next(finding for finding in CATALOGUE if finding.code == code) for code in ("NS_DIVERGENCE", "NS_SPLIT")
)
REFUSED = pa.schema(
    [
        *(("topic", pa.string()), ("answers", pa.int64()), ("clients", pa.int64())),
        *(("first_us", pa.int64()), ("last_us", pa.int64()), ("event_id", pa.string())),
    ]
)
"""A topic for which clients were told that it does not exist: answers, hosts, the first and last time, the first answer."""


class Compared(NamedTuple):
    """The parts of name servers' days that are compared; every table has `namesrv_id`.

    `versions`: when each data version was first recorded. `routed`: for each broker name and change (`at_us`) its number of
    topics, and the exclusive-or of their hashes. `addresses`: those of brokers, with their clusters. `served`: times (from,
    until, µs) at which the registry existed and was known. `told`: findings from comparisons that stood at the beginning of
    the day. `refused`: `REFUSED`.
    """

    versions: pa.Table
    routed: pa.Table
    addresses: pa.Table
    served: pa.Table
    told: pa.Table
    refused: pa.Table


def refused_from(answers: pa.Table) -> pa.Table:
    """Return the topics refused as non-existent: `REFUSED`. `answers`: rows of route_observations."""
    codes = {"code": RequestCode.GET_ROUTEINFO_BY_TOPIC.value, "told": ResponseCode.TOPIC_NOT_EXIST.value}
    return ask(_REFUSED, {"answers": answers}, **codes).cast(REFUSED)


_REFUSED = """
SELECT subject AS topic, count(*) AS answers, count(DISTINCT regexp_replace(channel_id, ':[0-9]+#.*$', '')) AS clients,
    min(epoch_us(effect_time)) AS first_us, max(epoch_us(effect_time)) AS last_us, arg_min(event_id, effect_time) AS event_id
FROM answers WHERE code = $code AND response_code = $told GROUP BY subject
"""


def compared(
    slices: Mapping[str, pa.Table], told_before: pa.Table, served: Iterable[Span], refused: pa.Table, about: About
) -> Compared:
    """Return the parts of one name server's day that are compared.

    `slices`: its histories; `told_before`: `findings` that stood at the beginning of the day; `refused`: `REFUSED`.
    """
    start = day_start(about.day)
    versions = {DATA_VERSION_HISTORY.name: slices[DATA_VERSION_HISTORY.name]}
    queues = {TOPIC_QUEUE_HISTORY.name: slices[TOPIC_QUEUE_HISTORY.name]}
    members = slices[BROKER_ADDR_HISTORY.name].select(["cluster_name", "broker_name", "broker_addr"])
    spans = [{"namesrv_id": about.namesrv_id, "from_us": first, "until_us": last} for first, last in served]
    return Compared(
        ask(query("between/first_versions"), versions, start=start),
        _named(ask(query("between/routed"), queues, start=start), about.namesrv_id),
        _named(members.group_by(members.column_names).aggregate([]), about.namesrv_id),
        pa.Table.from_pylist(spans, schema=_SERVED),
        told_before.filter(pc.field("code").isin(BETWEEN)),
        _named(refused, about.namesrv_id),
    )


def served(
    recorded: Sequence[Mapping[str, Any]], unsettled: Unsettled | None, goes_on_from: dt.datetime | None = None
) -> list[Span]:
    """Return the times (from, until, µs) at which a name server's registry existed and was known, on a recorded day.

    `recorded`: `coverage.recorded_day`; `unsettled`: the time in which not all of its brokers were known; `goes_on_from`:
    the beginning of the day, if the day before is recorded, too. Then the day's first event does not begin the recording.
    """
    found: list[Span] = []
    for of in recorded:
        first, last = instant_us(goes_on_from or of["first_time"]), instant_us(of["last_time"])
        life = [
            (instant_us(mark["at"]), mark["kind"]) for mark in of["marks"] if mark["kind"] in ("started", "stopped")
        ]
        away = [
            (at, min((b for b, kind in life if b > at and kind == "started"), default=last))
            for at, kind in life
            if kind == "stopped"
        ]
        if life and life[0][1] == "started":
            away.append((first, life[0][0]))
        away += [
            (instant_us(mark["at"]), last if mark["until"] is None else instant_us(mark["until"]))
            for mark in of["marks"]
            if mark["kind"] in ("gap", "doubt")
        ]
        if unsettled is not None:
            away.append((unsettled.since_us, unsettled.until_us))
        at = first
        for begin, end in sorted(away):
            if begin > at:
                found.append((at, min(begin, last)))
            at = max(at, end)
        if at < last:
            found.append((at, last))
    return [(begin, end) for begin, end in found if begin < end]


def across(of: Compared, queues: Queues, day: dt.date, thresholds: Thresholds) -> pa.Table:
    """Return the rows of `findings` on `day` that come from comparing name servers. `of`: the parts of all of them."""
    clocks = ask(query("between/clocks_apart"), {"first_versions": of.versions})
    found = [conformed(clocks, FINDINGS, told_on=day, ended_on=day)]
    fleets, diverged = _fleets(of), dict[str, pa.Table]()
    for names in fleets:
        if len(names) > 1:
            diverged |= _divergence(Compared(*(_of(table, names) for table in of)), queues, day, thresholds)
    split = _split(of, fleets, queues, day, thresholds)
    for code, new in ((_DIVERGENCE.code, diverged), (_SPLIT.code, split)):
        # Findings of name servers that were not compared stand as before.
        rest = of.told.filter((pc.field("code") == code) & ~pc.field("namesrv_id").isin(pa.array(new, pa.string())))
        found += [*new.values(), rest]
    return pa.concat_tables(found)


def _split(
    of: Compared, fleets: Sequence[Sequence[str]], queues: Queues, day: dt.date, thresholds: Thresholds
) -> dict[str, pa.Table]:
    """Return NS_SPLIT by name server: topics that it refused and that others of its cluster, without a common broker, route."""
    stands = of.told.filter(pc.field("code") == _SPLIT.code)
    if len(fleets) < 2 or not (of.refused.num_rows or stands.num_rows):
        return {}
    fleet = {name: number for number, names in enumerate(fleets) for name in names}
    members = of.addresses.filter(pc.field("namesrv_id").isin([*fleet]) & pc.field("cluster_name").is_valid())
    numbers = pa.array([fleet[name] for name in members["namesrv_id"].to_pylist()], pa.int64())
    apart = ask(_APART, {"members": members.append_column("fleet", numbers)})
    names = apart["namesrv_id"].unique().to_pylist()
    if not names:
        return {}
    brokers = apart["broker_name"].unique()
    given = {
        "fleets": apart,
        "queues": queues(names, brokers.combine_chunks() if isinstance(brokers, pa.ChunkedArray) else brokers),
        "served": of.served,
        "refused": of.refused,
        "standing": _of(stands, names),
    }
    return _findings_of(_SPLIT, given, names, day, thresholds)


_APART = """
SELECT DISTINCT namesrv_id, cluster_name, broker_name, fleet FROM members
WHERE cluster_name IN (SELECT cluster_name FROM members GROUP BY cluster_name HAVING count(DISTINCT fleet) > 1)
"""


def _divergence(of: Compared, queues: Queues, day: dt.date, thresholds: Thresholds) -> dict[str, pa.Table]:
    """Return NS_DIVERGENCE by name server, among those that share brokers: topics that it lacked and others had."""
    tables = {"routed": of.routed, "served": of.served}
    apart = ask(query("between/apart"), tables, diverged_us=thresholds.diverged_us)["broker_name"].combine_chunks()
    names = of.served["namesrv_id"].unique().to_pylist()
    stands = _of(of.told.filter(pc.field("code") == _DIVERGENCE.code), names)
    if not len(apart) and not stands.num_rows:
        return {}
    given = {"queues": queues(names, apart), "served": of.served, "standing": stands}
    return _findings_of(_DIVERGENCE, given, names, day, thresholds)


def _findings_of(
    finding: Finding, given: Mapping[str, pa.Table], names: Iterable[str], day: dt.date, thresholds: Thresholds
) -> dict[str, pa.Table]:
    """Return the findings of one code by name server: from its query over `given`, and from those `standing`."""
    things = ask(finding.sql, given, start=day_start(day), diverged_us=thresholds.diverged_us)
    things = things.append_column("code", pa.repeat(finding.code, things.num_rows))

    def of_server(name: str) -> pa.Table:
        own = _of(things, [name]).drop_columns(["namesrv_id"])
        return told_of(own, _of(given["standing"], [name]), About(name, day, thresholds))

    return {name: of_server(name) for name in names}


def _fleets(of: Compared) -> list[list[str]]:
    """Return groups of name servers that share a broker's name and address, directly or through others."""
    whose: dict[tuple[str, str], str] = {}
    servers = of.served["namesrv_id"].unique().to_pylist()
    pairs = {(name, name) for name in servers}
    for name, broker, addr in zip(
        *(of.addresses[column].to_pylist() for column in ("namesrv_id", "broker_name", "broker_addr")), strict=True
    ):
        if name in servers and addr is not None:
            pairs.add((whose.setdefault((broker, addr), name), name))
    return [sorted(names) for names in groups_of(pairs)]


def _of(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.filter(pc.field("namesrv_id").isin(names))


def _named(rows: pa.Table, namesrv_id: str) -> pa.Table:
    return rows.append_column("namesrv_id", pa.repeat(namesrv_id, rows.num_rows))


def together(parts: Iterable[Compared]) -> Compared:
    """Return the parts of several name servers combined."""
    return Compared(*(pa.concat_tables(tables) for tables in zip(*parts, strict=True)))
