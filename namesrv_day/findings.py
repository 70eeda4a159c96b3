"""Findings of a day: one for each cause, from the day on which it begins to the day on which it ends.

The catalogue's queries yield single things. Things with one cause become one finding: those that outlast a day by their
identity (`schemas.findings.Finding.lasts`), the others if they begin soon after each other.

Some compare name servers: clocks or registries that disagree. Each name server's day leaves a summary whose size depends on its
number of brokers. Only for brokers with different topics at two name servers, the topics themselves are read.

Some suspect that several addresses are one name server process, or that one address is several processes. A broker that
registers at one address is in the answers at every other address of the same process. At another process it is not, unless it
registers there, too. A suspicion suggests a line for conf/; it does not join name servers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, combinations
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.events import NS_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_day.arrow import ask, conformed, empty, rows_of
from namesrv_day.context import LOOKED_BACK_AT
from namesrv_day.events import Frames
from namesrv_day.registered import SEEN, UNRENEWED
from schemas.findings import BETWEEN, CATALOGUE, Finding, Thresholds
from schemas.gold import BROKER_ADDR_HISTORY, DATA_VERSION_HISTORY, EXPIRED_BROKERS, FINDINGS, TOPIC_QUEUE_HISTORY
from schemas.sql_files import query
from schemas.table import LONG, STRING, STRINGS, TIMESTAMP
from schemas.times import day_start, instant_us

ENOUGH: Final = 5
"""Number of answers needed as evidence."""
LACKING_SHARE: Final = 0.25
"""Share of the brokers just registered at one address that may be missing in the answers at the other."""
RIVAL_TIMES: Final = 2
"""Of two addresses that are not one, an address is not the one of which it lacks more than this times the other's share."""
SHARED_FLIPS: Final = 20
SHARED_SHARE: Final = 0.25
"""Number and share of changes between answers without an explaining registration that indicate several processes."""
FRESH_NS: Final = 5_000 * NS_PER_MS
"""A broker counts as just registered for this long, or for half of its lease."""
_SETTLED_NS: Final = (BROKER_CHANNEL_EXPIRED_MS + 10_000) * NS_PER_MS
"""For this long, a recording may show brokers that registered before it began."""
_SHOWN: Final = 5
BEATS_AT: Final = pa.schema([("namesrv_id", STRING), ("broker_addr", STRING), ("first_seq", LONG), ("last_seq", LONG)])
"""First and last beat of a broker at a name server."""
BROKER_LISTS: Final = pa.schema(
    [("namesrv_id", STRING), ("seq", LONG), ("event_id", STRING), ("brokers", pa.list_(STRING))],
)
"""Answers to 106, which list all brokers; these in order."""
REGISTERED: Final = pa.schema(
    [
        *(("namesrv_id", STRING), ("broker_addr", STRING), ("broker_name", STRING), ("broker_id", LONG)),
        *(("seq", LONG), ("lease_ms", LONG)),
    ]
)
"""Accepted registrations."""
FIRST_SEEN: Final = pa.schema([("namesrv_id", STRING), ("first_seq", LONG)])
"""When a name server was first recorded on a day; more rows say the same."""
SUSPECTED: Final = pa.schema(
    [
        *(("namesrv_id", STRING), ("kind", STRING), ("others", STRINGS), ("answers", LONG), ("changes", LONG)),
        *(("at_both", LONG), ("first_seq", LONG), ("last_seq", LONG), ("evidence", STRINGS)),
    ]
)
"""A name server whose answers show brokers that registered elsewhere, or a content that no single process has.

`kind`: `one` with `others`, by all evidence; `unsure`: only some of `others` can be the same; `shared` by several processes;
`shows`: it only shows brokers registered elsewhere. `answers`: number in evidence; `changes` between answers of a shared
one; `at_both`: brokers that beat at two of them at once; `evidence`: the first few answers.
"""


def suspected(
    beats: pa.Table,
    lists: pa.Table,
    registered: Callable[[], pa.Table],
    eve: Callable[[], pa.Table],
    apart: Collection[frozenset[str]],
    known: Collection[str],
) -> pa.Table:
    """Return a day's suspicions: `SUSPECTED`.

    `beats`, `lists`: `BEATS_AT`, `BROKER_LISTS`. Only if there may be a suspicion, `registered` reads `REGISTERED`, and `eve`
    `FIRST_SEEN` of the day before. `apart`: pairs that the configuration declares as two; `known`: name servers preferred as the
    name of a group.
    """
    given = {"beats": beats, "lists": lists, "registered": REGISTERED.empty_table()}
    values = {"flips": SHARED_FLIPS, "share": SHARED_SHARE, "shown": _SHOWN}
    shared = ask(query("flags/shared"), given, **values)
    if not shared.num_rows and not ask(query("flags/elsewhere"), given).num_rows:
        return SUSPECTED.empty_table()
    given |= {"registered": registered(), "eve": eve()}
    shared = list(rows_of(ask(query("flags/shared"), given, **values)))
    near = {"fresh_ns": FRESH_NS, "settled_ns": _SETTLED_NS, "lease_ms": BROKER_CHANNEL_EXPIRED_MS}
    pairs = {
        (row["one"], row["other"]): row for row in rows_of(ask(query("flags/suspects"), given, **near, shown=_SHOWN))
    }
    at_both = {frozenset((row["one"], row["other"])): row["brokers"] for row in rows_of(ask(_AT_BOTH, given))}
    several = {row["namesrv_id"] for row in shared}
    shows = {pair for pair, row in pairs.items() if row["answers"]}
    distinct = {*at_both, *apart}
    denied = {*distinct, *map(frozenset, _lacking(pairs, distinct))}
    likely = {pair for pair in shows if several.isdisjoint(pair) and frozenset(pair) not in denied}
    mutual = {pair for pair in likely if pair[::-1] in likely}
    # Two addresses that show each other's brokers explain what they show; one-sided pairs count for other addresses only.
    alone = {pair for pair in likely if pair[0] not in set(chain(*mutual))}
    rows, met = [{**row, "kind": "shared"} for row in shared], set[str]()
    elsewhere = {pair for pair in shows if pairs[pair]["answers"] >= ENOUGH and frozenset(pair) not in apart}
    names = beats["namesrv_id"].to_pylist()
    for some in (likely, elsewhere):
        linked = mutual | alone if some is likely else {pair for pair in some if (met | several).isdisjoint(pair)}
        for group in groups_of(linked):
            shown_by = [pairs[pair] for pair in sorted(some) if {*pair} <= group]
            answers = {
                name: sum(row["answers"] for row in shown_by if name in (row["one"], row["other"])) for name in group
            }
            if min(answers.values()) < ENOUGH:
                continue
            met |= group
            first, *others = sorted(group, key=lambda one: (one not in known, -names.count(one), one))
            two = [pair for pair in map(frozenset, combinations(sorted(group), 2)) if pair in denied]
            rows.append(
                {
                    "namesrv_id": first,
                    "kind": "unsure" if two else "one",
                    "others": others,
                    "answers": sum(row["answers"] for row in shown_by),
                    "at_both": max((at_both.get(pair, 0) for pair in two), default=0),
                    "first_seq": min(row["first_seq"] for row in shown_by),
                    "last_seq": max(row["last_seq"] for row in shown_by),
                    "evidence": [event_id for row in shown_by for event_id in row["evidence"]][:_SHOWN],
                }
            )
    rest = {one for one, _ in elsewhere} - {row["namesrv_id"] for row in rows}
    return pa.Table.from_pylist([*rows, *({"namesrv_id": one, "kind": "shows"} for one in sorted(rest))], SUSPECTED)


def _lacking(
    pairs: Mapping[tuple[str, str], Mapping[str, Any]], distinct: Collection[frozenset[str]]
) -> set[tuple[str, str]]:
    """Return the pairs of which the first's answers lack too many brokers that have just registered at the other to be one.

    That is by share, or beside that of an address which is not one with the other (`distinct`).
    """
    shares = {pair: row["lacking"] / (row["lacking"] + row["shown"]) for pair, row in pairs.items()}
    found = {pair for pair, share in shares.items() if share > LACKING_SHARE}
    for (one, other), share in shares.items():
        rivals = (less for (of, rival), less in shares.items() if of == one and frozenset((other, rival)) in distinct)
        if pairs[one, other]["lacking"] >= ENOUGH and any(share > RIVAL_TIMES * less for less in rivals):
            found.add((one, other))
    return found


def groups_of(pairs: Iterable[tuple[str, str]]) -> list[set[str]]:
    """Return the groups of name servers that `pairs` connect, directly or through others."""
    groups: list[set[str]] = []
    for pair in sorted(pairs):
        met = [group for group in groups if not group.isdisjoint(pair)]
        groups = [*(group for group in groups if group not in met), {*pair}.union(*met)]
    return groups


_AT_BOTH = """
SELECT a.namesrv_id AS one, b.namesrv_id AS other, count(*) AS brokers FROM beats AS a JOIN beats AS b USING (broker_addr)
WHERE one < other AND a.first_seq < b.last_seq AND b.first_seq < a.last_seq GROUP BY ALL
"""


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
"""A topic that clients were answered not to exist: answers, hosts, the first and last time, the first answer."""


class Compared(NamedTuple):
    """The parts of name servers' days that are compared; every table has `namesrv_id`.

    `versions`: when each data version was first recorded. `routed`: for each broker name and change (`at_us`) its number of
    topics, and the exclusive-or of their hashes. `addresses`: those of brokers, with their clusters. `served`: times (from,
    until, µs) at which the registry existed and was known. `open_findings`: those from comparisons, open at the beginning of
    the day. `refused`: `REFUSED`.
    """

    versions: pa.Table
    routed: pa.Table
    addresses: pa.Table
    served: pa.Table
    open_findings: pa.Table
    refused: pa.Table


def refused_from(answers: pa.Table) -> pa.Table:
    """Return the topics refused as non-existent: `REFUSED`. `answers`: rows of route_observations."""
    codes = {"code": RequestCode.GET_ROUTEINFO_BY_TOPIC.value, "refused": ResponseCode.TOPIC_NOT_EXIST.value}
    return ask(_REFUSED, {"answers": answers}, **codes).cast(REFUSED)


_REFUSED = """
SELECT subject AS topic, count(*) AS answers, count(DISTINCT regexp_replace(channel_id, ':[0-9]+#.*$', '')) AS clients,
    min(epoch_us(effect_time)) AS first_us, max(epoch_us(effect_time)) AS last_us, arg_min(event_id, effect_time) AS event_id
FROM answers WHERE code = $code AND response_code = $refused GROUP BY subject
"""


def compared(
    slices: Mapping[str, pa.Table], open_findings: pa.Table, served: Iterable[Span], refused: pa.Table, about: About
) -> Compared:
    """Return the parts of one name server's day that are compared.

    `slices`: its histories; `open_findings`: those at the beginning of the day; `refused`: `REFUSED`.
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
        open_findings.filter(pc.field("code").isin(BETWEEN)),
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
    clocks = ask(query("between/clock_skew"), {"first_versions": of.versions})
    found = [conformed(clocks, FINDINGS, told_on=day, ended_on=day)]
    fleets, diverged = _fleets(of), dict[str, pa.Table]()
    for names in fleets:
        if len(names) > 1:
            diverged |= _divergence(Compared(*(_of(table, names) for table in of)), queues, day, thresholds)
    split = _split(of, fleets, queues, day, thresholds)
    for code, new in ((_DIVERGENCE.code, diverged), (_SPLIT.code, split)):
        # Findings of name servers that were not compared stay as before.
        rest = of.open_findings.filter(pc.field("code") == code)
        found += [*new.values(), rest.filter(~pc.field("namesrv_id").isin(pa.array(new, pa.string())))]
    return pa.concat_tables(found)


def _split(
    of: Compared, fleets: Sequence[Sequence[str]], queues: Queues, day: dt.date, thresholds: Thresholds
) -> dict[str, pa.Table]:
    """Return NS_SPLIT by name server: topics that it refused and that others of its cluster, without a common broker, route."""
    own = of.open_findings.filter(pc.field("code") == _SPLIT.code)
    if len(fleets) < 2 or not (of.refused.num_rows or own.num_rows):
        return {}
    fleet = {name: number for number, names in enumerate(fleets) for name in names}
    members = of.addresses.filter(pc.field("namesrv_id").isin([*fleet]) & pc.field("cluster_name").is_valid())
    numbers = pa.array([fleet[name] for name in members["namesrv_id"].to_pylist()], pa.int64())
    clusters = ask(_SPLIT_CLUSTERS, {"members": members.append_column("fleet", numbers)})
    names = clusters["namesrv_id"].unique().to_pylist()
    if not names:
        return {}
    brokers = clusters["broker_name"].unique()
    given = {
        "fleets": clusters,
        "queues": queues(names, brokers.combine_chunks() if isinstance(brokers, pa.ChunkedArray) else brokers),
        "served": of.served,
        "refused": of.refused,
        "open_findings": _of(own, names),
    }
    return _findings_of(_SPLIT, given, names, day, thresholds)


_SPLIT_CLUSTERS = """
SELECT DISTINCT namesrv_id, cluster_name, broker_name, fleet FROM members
WHERE cluster_name IN (SELECT cluster_name FROM members GROUP BY cluster_name HAVING count(DISTINCT fleet) > 1)
"""


def _divergence(of: Compared, queues: Queues, day: dt.date, thresholds: Thresholds) -> dict[str, pa.Table]:
    """Return NS_DIVERGENCE by name server, among those that share brokers: topics that it lacked and others had."""
    tables = {"routed": of.routed, "served": of.served}
    found = ask(query("between/diverged"), tables, diverged_us=thresholds.diverged_us)["broker_name"].combine_chunks()
    names = of.served["namesrv_id"].unique().to_pylist()
    own = _of(of.open_findings.filter(pc.field("code") == _DIVERGENCE.code), names)
    if not len(found) and not own.num_rows:
        return {}
    given = {"queues": queues(names, found), "served": of.served, "open_findings": own}
    return _findings_of(_DIVERGENCE, given, names, day, thresholds)


def _findings_of(
    finding: Finding, given: Mapping[str, pa.Table], names: Iterable[str], day: dt.date, thresholds: Thresholds
) -> dict[str, pa.Table]:
    """Return the findings of one code by name server: from its query over `given`, and from those `open_findings`."""
    things = ask(finding.sql, given, start=day_start(day), diverged_us=thresholds.diverged_us)
    things = things.append_column("code", pa.repeat(finding.code, things.num_rows))

    def of_server(name: str) -> pa.Table:
        own = _of(things, [name]).drop_columns(["namesrv_id"])
        return finding_rows(own, _of(given["open_findings"], [name]), About(name, day, thresholds))

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


def findings(tables: Frames, news: Frames, before: Frames, about: About) -> pa.Table:
    """Return the rows of `findings` of one name server on a day: those open at its beginning, and new ones.

    `tables`: the day's slices of the tables that the catalogue reads, `registered.UNRENEWED`, and the tables of `registered`.
    `news`: rows of histories opened or closed on the day. `before`: `findings` that were open at its beginning;
    `expired_brokers` of days before, of which may be missing brokers that were back on the same day and rows that
    `Thresholds.waited_us` excludes; and the tables `context.LOOKED_BACK_AT` of the last day before.
    """
    open_findings = before.get(FINDINGS.name, empty(FINDINGS)).filter(~pc.field("code").isin(BETWEEN))
    tables = {
        **_SEEN,
        **tables,
        "expired_before": before.get(EXPIRED_BROKERS.name, empty(EXPIRED_BROKERS)),
        "about": pa.table({"namesrv_id": [about.namesrv_id], "seen_until": pa.array([about.seen_until], TIMESTAMP)}),
    }
    values = {**asdict(about.thresholds), "start": day_start(about.day)}
    things, asked = [_NO_THINGS], set[str]()
    is_deaf = not about.hears and bool(tables[BROKER_ADDR_HISTORY.name].num_rows)
    for finding in CATALOGUE:
        if finding.is_between or (about.is_logged and not finding.shows_in_logs) or (finding.needs_events and is_deaf):
            continue
        open_ones = open_findings.filter(pc.field("code") == finding.code)
        if _may_be(finding, tables, news, open_ones):
            used = {name: of for name, of in {**tables, "open_findings": open_ones}.items() if name in finding.words}
            if finding.looks_back:
                earlier = used.keys() & before.keys() & {table.name for table in LOOKED_BACK_AT}
                used |= {name: pa.concat_tables([before[name], used[name]]) for name in earlier}
            named = {name: value for name, value in values.items() if f"${name}" in finding.words}
            rows = ask(finding.sql, used, **named)
            things.append(rows.append_column("code", pa.repeat(finding.code, rows.num_rows)))
            asked.add(finding.code)
    is_asked = pc.field("code").isin(pa.array(asked, pa.string()))
    rows_now = finding_rows(pa.concat_tables(things, promote_options="default"), open_findings.filter(is_asked), about)
    return pa.concat_tables([rows_now, open_findings.filter(~is_asked)])


def finding_rows(things: pa.Table, open_findings: pa.Table, about: About) -> pa.Table:
    """Return the rows of `findings` on the day. `open_findings`: open findings of the codes that were queried."""
    if not things.num_rows and not open_findings.num_rows:
        return empty(FINDINGS)
    given = {"things": things, "open_findings": open_findings, "kinds": _KINDS}
    since_us, until_us = about.unsettled or (None, None)
    values = {"day": about.day, "start": day_start(about.day), "since_us": since_us, "until_us": until_us}
    return conformed(ask(query("findings/rows"), given, **values), FINDINGS, namesrv_id=about.namesrv_id)


def _may_be(finding: Finding, tables: Frames, news: Frames, open_findings: pa.Table) -> bool:
    """Return whether a finding of one code may have begun, or an open one may have ended."""
    if not finding.of or (finding.looks_back and open_findings.num_rows):
        return True
    of_the_day = {**tables, **news}
    if any(of_the_day[name].num_rows for name in finding.of):
        return True
    return bool(open_findings.num_rows) and not news.keys() & finding.of


_SEEN = {name: of.empty_table() for name, of in {"unrenewed": UNRENEWED, "suspected": SUSPECTED, **SEEN}.items()}
_NO_THINGS = empty(FINDINGS).drop_columns(["namesrv_id", "brokers", "topics", "begun_with", "told_on", "ended_on"])
_KINDS = pa.table({name: [getattr(one, name) for one in CATALOGUE] for name in ("code", "lasts", "near_us")})
