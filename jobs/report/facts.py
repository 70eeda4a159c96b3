"""The contents of a report, read from the published tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from jobs.ask.engine import Answers
from jobs.errors import MissingDayError, UsageError, nobody, shortened
from jobs.store.coverage import text_of
from namesrv_wire.codes import request_name, version_name
from schemas import asked
from schemas.sql_files import query
from schemas.times import day_start

_LONGEST = 800
_FIELDS: Mapping[str, str] = {
    "cluster_name": "clusterName",
    "broker_name": "brokerName",
    "broker_addr": "brokerAddr",
    "broker_id": "brokerId",
    "ha_server_addr": "haServerAddr",
    "enable_acting_master": "enableActingMaster",
    "heartbeat_timeout_ms": "heartbeatTimeoutMillis",
    "zone_name": "__ZONE_NAME",
    "topic": "topic",
    "namespace": "namespace",
    "config_key": "key",
    "config_value": "value",
    "refusal": "refused",
    "kind": "what",
    "closed_by": "closed by",
    "silent_ms": "silent, ms",
    "pending_requests": "requests without answer",
    "evidence": "as the recording shows",
    "properties": "properties",
    "response_remark": "answer's remark",
    "response_fields": "answer's fields",
    "response_body": "answer's body",
}
"""Columns of event tables that are shown unchanged, in this order, with their titles."""


def fields_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a row of `schemas/sql/report/packets.sql` as names with printable values, cut if very long."""
    fields = ((name, "" if value is None else shortened(str(value), _LONGEST)) for name, value in _parts(row))
    return [(name, value) for name, value in fields if value not in ("", "{}")]


def _parts(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    code = row["code"]
    if code is not None:
        how = ", one-way" if row["one_way"] else ""
        yield "request", f"{request_name(code).upper()} ({code}){how}, version {version_name(row['request_version'])}"
    yield "received", text_of(row["event_time"])
    yield "took effect", text_of(row["effect_time"])
    via = "" if row["proxied_addr"] is None else f", for {row['proxied_addr']}"
    yield "connection", None if row["channel_id"] is None else f"{row['channel_id']}{via}"
    *others, remark, fields, body = ((label, row[name]) for name, label in _FIELDS.items())
    yield from others
    if row["body_bytes"]:
        packed = ", compressed" if row["compressed"] else ""
        yield "body", f"{row['body_bytes']:,} bytes{packed}"
    if (version := row["data_version"]) is not None:
        yield "dataVersion", ", ".join(f"{name} {value}" for name, value in version.items() if value is not None)
    if row["topics"]:
        more = (row["topic_count"] or 0) - len(row["topics"])
        yield "topics", "; ".join([*map(_topic, row["topics"]), *([f"{more:,} more"] if more > 0 else [])])
    yield "filterServerList", row["filter_servers"] and ", ".join(row["filter_servers"])
    yield "queueDatas", row["queue_datas"] and "; ".join(map(_topic, row["queue_datas"]))
    if code is not None:
        yield "answer", "none was seen" if row["response_code"] is None else f"code {row['response_code']}"
    yield from (remark, fields, body)
    yield "recorded in", f"{row['source_file']}, packet or line {row['source_offset']:,}"


def _topic(one: Mapping[str, Any]) -> str:
    name = one.get("topic", one.get("broker_name"))
    return f"{name} (read {one['read_queue_nums']}, write {one['write_queue_nums']}, perm {one['perm']})"


Row = dict[str, Any]
MOST_BEATS = 5_000_000
"""Number of heartbeats above which gaps are left out: sorting them would take more than a gigabyte."""
_CONDITIONS = {
    "of_namesrv": "($namesrv IS NULL OR namesrv_id = $namesrv)",
    "of_brokers": "($brokers IS NULL OR list_contains($brokers, broker_name))",
    "alive": "from_time < $b AND (to_time IS NULL OR to_time > $a)",
}
_AROUND = dt.timedelta(minutes=10)
_NEAR_THE_LIMIT = 0.5
_STATEMENTS = 13
_MOST_GAPS = 1_500
MOST_STATES = 25_000
"""Number of rows above which tables at an instant are left out: the page would grow beyond some megabytes."""
MOST_PACKETS = 5_000


class Scope(NamedTuple):
    """The scope of a report: a time range, [start, end), and filters; None: no filter."""

    start: dt.datetime
    end: dt.datetime
    topic: str | None = None
    broker: str | None = None
    namesrv: str | None = None
    incident: str | None = None


@dataclass
class Facts:
    """What the page shows, rows as dicts; instants have a zone.

    `start`, `end`: the part of the time range of which something is recorded.
    `namesrvs`: name servers with their version; `lives`: their starts, stops and gaps; `stays`: brokers in their tables;
    `changes`: events that changed routes, with what they changed; `queues`: of the topic that is asked for, what offered it;
    `registry`: rows of all tables with the time in which they were there, `covered`: what is known when, both in microseconds.
    `packets`: by event that is named in these what is recorded of it (`fields_of`), of the first some thousands.
    `gaps`: silences of more than half the lease, the longest ones, and removals of silent brokers; `beats`: how many beats.
    """

    scope: Scope
    known: Row
    start: dt.datetime
    end: dt.datetime
    namesrvs: list[Row] = field(default_factory=list)
    lives: list[Row] = field(default_factory=list)
    stays: list[Row] = field(default_factory=list)
    incidents: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    queues: list[Row] = field(default_factory=list)
    divergence: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)
    checks: list[Row] = field(default_factory=list)
    registry: list[Row] = field(default_factory=list)
    covered: list[Row] = field(default_factory=list)
    packets: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    beats: int = 0


_ONE_DAY = dt.timedelta(days=1)
_OF_DAYS = "SELECT * FROM files.{name} WHERE day IN ({days})"
"""SQL of some days' rows of a table partitioned by day."""
_THEN = """
    SELECT * REPLACE (if(goes_on, NULL, valid_to) AS valid_to, if(goes_on, NULL, closed_by) AS closed_by,
        if(goes_on, NULL, closed_at) AS closed_at)
    FROM (
        SELECT *, valid_to >= TIMESTAMPTZ '{end}' AS goes_on FROM files.{name}
        WHERE valid_from < TIMESTAMPTZ '{end}' AND (valid_to IS NULL OR valid_to >= TIMESTAMPTZ '{begin}')
    )"""
"""SQL of some days' intervals of a history, as known when the last day ended."""


def facts_of(answers: Answers, scope: Scope, share: Callable[[int, int], None] = nobody) -> Facts:
    """Return the facts of a report; `share` receives the number of statements answered, and of how many.

    Raises MissingDayError where nothing is recorded then, UsageError for unknown names.
    """
    published = _all_days(answers)
    first, last = scope.start.date(), (scope.end - dt.timedelta(microseconds=1)).date()
    days = [day for day in published if first <= day <= last]
    if not days:
        covered = f"published are {published[0]} to {published[-1]}" if published else "no day is published"
        raise MissingDayError(f"nothing is recorded between {scope.start:%F %R} and {scope.end:%F %R}: {covered}")
    # Of tables that grow with days, views read only these.
    listed, begin, end = ", ".join(f"DATE '{day}'" for day in days), day_start(days[0]), day_start(days[-1] + _ONE_DAY)
    forms = {
        name: _OF_DAYS if table.cut == ("day",) else _THEN
        for name, table in asked.stored().items()
        if table.cut == ("day",) or "closed_at" in table.columns
    }
    of_days = {name: form.format(name=name, days=listed, begin=begin, end=end) for name, form in forms.items()}
    with answers.showing(of_days):
        return _facts(answers, scope, share)


def _facts(answers: Answers, scope: Scope, share: Callable[[int, int], None]) -> Facts:
    values = {
        "a": scope.start,
        "b": scope.end,
        "topic": scope.topic,
        "namesrv": scope.namesrv,
        "brokers": _brokers_of(answers, scope),
    }
    limits = {"near": _NEAR_THE_LIMIT, "most": _MOST_GAPS, "most_states": MOST_STATES + 1}

    done = count()

    def rows(name: str) -> list[Row]:
        """Return the rows of a statement of `schemas/sql/report`."""
        share(next(done), _STATEMENTS)
        text = query(f"report/{name}").format(**limits, **_CONDITIONS)
        return answers.ask(text, **{name: value for name, value in values.items() if f"${name}" in text}).dicts()

    known = {"run_id": answers.known.run_id, "finished_time": answers.known.finished_time}
    facts = Facts(scope, known, scope.start, scope.end)
    facts.namesrvs, facts.lives, facts.stays, facts.changes = map(rows, ("namesrvs", "lives", "stays", "changes"))
    if scope.namesrv is not None and not facts.namesrvs:
        raise UsageError(f"name server {scope.namesrv!r}: nothing is recorded of it in that time")
    facts.incidents = _incidents_of(scope, rows("incidents"), facts.changes)
    facts.divergence = rows("divergence") if len(facts.namesrvs) > 1 else []
    facts.queues = [] if scope.topic is None else rows("queues")
    facts.checks, facts.registry, facts.covered = map(rows, ("checks", "registry", "covered"))
    numbers = {row["namesrv_id"]: f"NS{number}" for number, row in enumerate(facts.namesrvs, start=1)}
    (extent,) = rows("extent")
    facts.beats = extent["beats"]
    facts.start = max(scope.start, extent["first"] or scope.start)
    facts.end = min(scope.end, max(extent["last"] or scope.end, facts.start) + dt.timedelta(seconds=1))
    if facts.beats <= MOST_BEATS:
        facts.gaps = rows("gaps")
    # Events that the page names, those of its tables first.
    by_column = ((facts.changes, "event_id"), (facts.stays, "closed_by"), (facts.divergence, "event_id"))
    all_of = (*by_column, (facts.incidents, "root_event"), (facts.registry, "opened_by"))
    named = dict.fromkeys(row[name] for rows, name in all_of for row in rows if row[name] is not None)
    values["events"] = list(named)[:MOST_PACKETS]
    facts.packets = {row["event_id"]: fields_of(row) for row in rows("packets")}
    for row in (*facts.namesrvs, *facts.queues, *facts.gaps):
        row["ns"] = numbers.get(row["namesrv_id"], "NS?")  # short for a phone, where cut addresses would look alike
    return facts


def scope_of_incident(answers: Answers, incident: str) -> Scope:
    """Return the scope of an incident, given the first digits of its id: its time and some minutes around. Raises UsageError."""
    sql = "SELECT incident_id, first_time, last_time FROM incidents WHERE starts_with(incident_id, $id)"
    found = list(answers.ask(sql, id=incident).rows)
    if len(found) != 1:
        raise UsageError(
            f"incident {incident!r}: {len(found)} incidents have an id that begins so; `ask incidents` lists them"
        )
    name, first, last = found[0]
    end = last or answers_end(answers)
    return Scope(first - _AROUND, max(end, first) + _AROUND, incident=name)


def answers_end(answers: Answers) -> dt.datetime:
    """Return the end of the last published day. Raises MissingDayError if there is none."""
    last = max(_all_days(answers), default=None)
    if last is None:
        raise MissingDayError("no day is published")
    return day_start(last + _ONE_DAY)


def _all_days(answers: Answers) -> list[dt.date]:
    """Return the published days, in order."""
    sql = "SELECT DISTINCT unnest(days) AS day FROM runs WHERE status = 'published' ORDER BY day"
    return [day for (day,) in answers.ask(sql).rows]


def _brokers_of(answers: Answers, scope: Scope) -> list[str] | None:
    """Return the names of the broker asked for, or of those with the topic; None: all. Raises UsageError for an unknown one."""
    if scope.broker is not None:
        kind, name, among = "broker", scope.broker, "SELECT DISTINCT broker_name FROM broker_live_history"
    elif scope.topic is not None:
        kind, name, among = "topic", scope.topic, "SELECT DISTINCT topic FROM topic_queue_history"
    else:
        return None
    if (name,) not in list(answers.ask(among).rows):
        raise UsageError(f"{kind} {name!r}: no name server had it in that time")
    if kind == "broker":
        return [name]
    sql = "SELECT DISTINCT broker_name FROM topic_queue_history WHERE topic = $topic"
    return [found for (found,) in answers.ask(sql, topic=name).rows]


def _incidents_of(scope: Scope, found: list[Row], changes: list[Row]) -> list[Row]:
    """Return the incidents in scope: all of the time, or those that name the filter's value or began with a shown event."""
    name = scope.topic or scope.broker
    if scope.incident is not None:
        return [row for row in found if row["incident_id"] == scope.incident]
    if name is None:
        return found
    shown = {row["event_id"] for row in changes}

    def names_it(row: Row) -> bool:
        """Return whether an incident may name it: of many topics or brokers it lists only the first few, some only in words."""
        listed = [*row["broker_names"], *row["topic_names"]]
        return name in listed or (len(listed) < row["brokers"] + row["topics"] and name in str(row["detail"]))

    return [row for row in found if names_it(row) or row["root_event"] in shown]
