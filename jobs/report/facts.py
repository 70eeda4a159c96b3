"""What a report tells, read from the published tables: only slices of its days are opened, however long the history is."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobs.ask.engine import Answers
from jobs.errors import MissingDayError, UsageError

Row = dict[str, Any]
MOST_BEATS = 20_000_000
"""Of more beats the silences are not looked at: they are counted by the hour in refreshes_hourly."""
_AROUND = dt.timedelta(minutes=10)
_A_MOMENT = dt.timedelta(seconds=1)
_NEAR_THE_LIMIT = 0.5
_MOST_GAPS = 1_500


class Scope(NamedTuple):
    """What a report is about: a stretch of time, [start, end), and what of it; None: everything."""

    start: dt.datetime
    end: dt.datetime
    topic: str | None = None
    broker: str | None = None
    namesrv: str | None = None
    incident: str | None = None


@dataclass
class Facts:
    """What is told, rows as dicts; instants have a zone.

    `start`, `end`: the part of the stretch of time of which something is recorded.
    `namesrvs`: name servers with their version; `lives`: their starts, stops and gaps; `stays`: brokers in their tables;
    `changes`: events that changed routes, with what they changed; `queues`: of the topic that is asked for, what offered it;
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
    beats: int = 0


def facts_of(answers: Answers, scope: Scope) -> Facts:
    """Return what there is to tell. Raises MissingDayError where nothing is recorded then, UsageError for unknown names."""
    return _Reader(answers, scope).facts()


def scope_of_incident(answers: Answers, incident: str) -> Scope:
    """Return the scope of an incident, by the first digits of its id, and some minutes around it. Raises UsageError."""
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
    """Return the end of the last day that is published. Raises MissingDayError where there is none."""
    last = next(answers.ask("SELECT max(day) FROM slice_days").rows)[0]
    if last is None:
        raise MissingDayError("no day is published")
    return dt.datetime.combine(last + dt.timedelta(days=1), dt.time(), dt.timezone.utc)


class _Reader:
    """Asks for one part after the other."""

    def __init__(self, answers: Answers, scope: Scope) -> None:
        self._answers, self._scope = answers, scope
        self._days = self._published_days()
        self._brokers = self._brokers_of_scope()
        self._event_ids = self._of_incident()

    def facts(self) -> Facts:
        """Return everything."""
        known = {"run_id": self._answers.known.run_id, "finished_time": self._answers.known.finished_time}
        facts = Facts(self._scope, known, self._scope.start, self._scope.end)
        facts.namesrvs, facts.lives = self._rows(_NAMESRVS), self._rows(_LIVES)
        facts.stays = self._rows(_STAYS)
        facts.changes = self._rows(_CHANGES)
        facts.incidents = self._incidents(facts.changes)
        facts.divergence = self._rows(_DIVERGENCE) if self._scope.namesrv is None else []
        facts.queues = [] if self._scope.topic is None else self._rows(_QUEUES)
        facts.checks = self._rows(_CHECKS)
        (extent,) = self._rows(_EXTENT)
        facts.beats = extent["beats"]
        facts.start = max(self._scope.start, extent["first"] or self._scope.start)
        facts.end = min(self._scope.end, max(extent["last"] or self._scope.end, facts.start) + _A_MOMENT)
        if facts.beats <= MOST_BEATS:
            facts.gaps = self._rows(_GAPS)
        return facts

    def _published_days(self) -> list[dt.date]:
        sql = "SELECT DISTINCT day FROM slice_days ORDER BY day"
        published = [day for (day,) in self._answers.ask(sql).rows]
        first, last = self._scope.start.date(), (self._scope.end - dt.timedelta(microseconds=1)).date()
        found = [day for day in published if first <= day <= last]
        if not found:
            covered = f"published are {published[0]} to {published[-1]}" if published else "no day is published"
            raise MissingDayError(
                f"nothing is recorded between {self._scope.start:%F %R} and {self._scope.end:%F %R}: {covered}"
            )
        return found

    def _brokers_of_scope(self) -> list[str] | None:
        scope = self._scope
        if scope.topic is None and scope.broker is None:
            return None
        if scope.broker is not None:
            among = "SELECT DISTINCT broker_name FROM broker_live_history_slices WHERE day IN ({days})"
            kind, name = "broker", scope.broker
        else:
            among = "SELECT DISTINCT topic FROM topic_queue_history_slices WHERE day IN ({days})"
            kind, name = "topic", scope.topic or ""
        if (name,) not in list(self._answers.ask(among.format(days=self._among())).rows):
            raise UsageError(f"{kind} {name!r}: no name server had it in that time")
        if scope.broker is not None:
            return [scope.broker]
        sql = "SELECT DISTINCT broker_name FROM topic_queue_history_slices WHERE day IN ({days}) AND topic = $topic"
        return [found for (found,) in self._answers.ask(sql.format(days=self._among()), topic=scope.topic).rows]

    def _of_incident(self) -> Row | None:
        if self._scope.incident is None:
            return None
        return next(iter(self._dicts("SELECT * FROM incidents WHERE incident_id = $id", id=self._scope.incident)))

    def _incidents(self, changes: list[Row]) -> list[Row]:
        """Return the incidents of the time: all, or those that name what is asked for or began with an event that is shown."""
        found = self._rows(_INCIDENTS)
        name = self._scope.topic or self._scope.broker
        if self._scope.incident is not None:
            return [row for row in found if row["incident_id"] == self._scope.incident]
        if name is None:
            return found
        shown = {row["event_id"] for row in changes}
        return [row for row in found if _names(row, name) or row["root_event"] in shown]

    def _rows(self, sql: str) -> list[Row]:
        scope = self._scope
        values = {
            "a": scope.start,
            "b": scope.end,
            "topic": scope.topic,
            "namesrv": scope.namesrv,
            "brokers": self._brokers,
        }
        text = sql.format(days=self._among(), near=_NEAR_THE_LIMIT, most=_MOST_GAPS)
        return self._dicts(text, **{name: value for name, value in values.items() if f"${name}" in text})

    def _among(self) -> str:
        return ", ".join(f"DATE '{day}'" for day in self._days)

    def _dicts(self, sql: str, **values: Any) -> list[Row]:
        found = self._answers.ask(sql, **values)
        return [dict(zip(found.names, row, strict=True)) for row in found.rows]


def _names(row: Row, name: str) -> bool:
    """Return whether an incident touches a topic or broker; of many only the first few are named, and some in words."""
    listed = [*row["broker_names"], *row["topic_names"]]
    return name in listed or (len(listed) < row["brokers"] + row["topics"] and name in str(row["detail"]))


# -- questions -----------------------------------------------------------------------------------------------------------
# In DuckDB's dialect. What is open at the end of a day is there again on the next: rows are put together by where they began.

_OF_NAMESRV = "($namesrv IS NULL OR namesrv_id = $namesrv)"
_OF_BROKERS = "($brokers IS NULL OR list_contains($brokers, broker_name))"
_ALIVE = "from_time < $b AND (to_time IS NULL OR to_time > $a)"
_NAMESRVS = f"""
    SELECT namesrv_id, string_agg(DISTINCT value, ', ') FILTER (setting = 'version') AS version
    FROM namesrv_settings WHERE day IN ({{days}}) AND {_OF_NAMESRV} GROUP BY namesrv_id ORDER BY namesrv_id"""
_LIVES = f"""
    SELECT namesrv_id, kind, effect_time, event_id, properties FROM namesrv_events
    WHERE day IN ({{days}}) AND kind IN ('started', 'stopped', 'recording_gap', 'observed_from') AND {_OF_NAMESRV}
    ORDER BY namesrv_id, seq"""
_STAYS = f"""
    WITH rows AS (
        SELECT namesrv_id, coalesce(cluster_name, '') AS cluster, broker_addr, opened_at, min(valid_from) AS valid_from,
            max_by(valid_to, day) AS valid_to, min(opened_by) AS opened_by, max_by(closed_by, day) AS closed_by,
            min(broker_name) AS broker_name, min(heartbeat_timeout_ms) AS lease_ms
        FROM broker_live_history_slices WHERE day IN ({{days}}) AND {_OF_NAMESRV}
        GROUP BY namesrv_id, cluster, broker_addr, opened_at
    ), numbered AS (
        SELECT *, sum(comes) OVER (PARTITION BY namesrv_id, cluster, broker_addr ORDER BY opened_at) AS stay FROM (
            SELECT *, if(lag(closed_by) OVER (
                PARTITION BY namesrv_id, cluster, broker_addr ORDER BY opened_at
            ) IS NOT DISTINCT FROM opened_by, 0, 1) AS comes FROM rows
        )
    ), stays AS (
        SELECT namesrv_id, max(broker_name) AS broker_name, broker_addr, min(valid_from) AS from_time,
            if(count(valid_to) = count(*), max(valid_to), NULL) AS to_time, min_by(opened_by, opened_at) AS opened_by,
            arg_max_null(closed_by, opened_at) AS closed_by, max_by(lease_ms, opened_at) AS lease_ms
        FROM numbered GROUP BY namesrv_id, cluster, broker_addr, stay
    )
    SELECT s.*, o.operation AS left_by FROM stays AS s
    LEFT JOIN event_outcomes AS o ON o.day IN ({{days}}) AND o.namesrv_id = s.namesrv_id AND o.event_id = s.closed_by
    WHERE {_ALIVE} AND ($brokers IS NULL OR list_contains($brokers, s.broker_name))
    ORDER BY s.namesrv_id, s.broker_name, s.broker_addr, s.from_time"""
_INCIDENTS = """
    SELECT * FROM incidents WHERE first_time < $b AND (last_time IS NULL OR last_time >= $a)
        AND ($namesrv IS NULL OR list_contains(namesrv_ids, $namesrv))
    ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, first_time, code, subject"""
_CHANGES = f"""
    WITH changed AS (
        SELECT namesrv_id, caused_by AS event_id, min(effect_time) AS effect_time, min(seq) AS seq,
            count(*) FILTER (change = 'appeared') AS appeared, count(*) FILTER (change = 'changed') AS changed,
            count(*) FILTER (change = 'vanished') AS vanished, count(*) FILTER (change = 'learned') AS learned,
            list(DISTINCT topic ORDER BY topic) AS topics
        FROM route_changes
        WHERE day IN ({{days}}) AND effect_time >= $a AND effect_time < $b AND ($topic IS NULL OR topic = $topic)
            AND {_OF_NAMESRV}
        GROUP BY namesrv_id, caused_by
    )
    SELECT c.* EXCLUDE (topics, seq), c.topics[:5] AS topics, len(c.topics) AS topic_count, w.operation, w.outcome,
        w.broker_name, w.broker_addr, w.channel_id, w.source_file, w.source_offset
    FROM changed AS c
    LEFT JOIN causes AS w ON w.day IN ({{days}}) AND w.namesrv_id = c.namesrv_id AND w.event_id = c.event_id
    WHERE $brokers IS NULL OR $topic IS NOT NULL OR list_contains($brokers, w.broker_name)
    ORDER BY c.effect_time, c.namesrv_id, c.seq"""
_QUEUES = f"""
    SELECT namesrv_id, broker_name, min(valid_from) AS from_time, max_by(valid_to, day) AS to_time, min(perm) AS perm,
        min(read_queue_nums) AS read_queues, min(write_queue_nums) AS write_queues, min(opened_by) AS opened_by
    FROM topic_queue_history_slices WHERE day IN ({{days}}) AND topic = $topic AND {_OF_NAMESRV}
    GROUP BY namesrv_id, broker_name, opened_at HAVING {_ALIVE}
    ORDER BY namesrv_id, broker_name, from_time"""
_DIVERGENCE = f"""
    WITH rows AS (
        SELECT namesrv_id, topic, broker_name, opened_at, min(valid_from) AS valid_from, max_by(valid_to, day) AS valid_to,
            min(opened_by) AS opened_by, max_by(closed_by, day) AS closed_by
        FROM topic_queue_history_slices WHERE day IN ({{days}}) AND ($topic IS NULL OR topic = $topic) AND {_OF_BROKERS}
        GROUP BY namesrv_id, topic, broker_name, opened_at
    ), steps AS (
        SELECT topic, broker_name, since, min(event_id) AS event_id, sum(step) AS step FROM (
            SELECT topic, broker_name, valid_from AS since, opened_by AS event_id, 1 AS step FROM rows
            UNION ALL SELECT topic, broker_name, valid_to, closed_by, -1 FROM rows WHERE valid_to IS NOT NULL
        ) GROUP BY topic, broker_name, since HAVING sum(step) <> 0
    ), states AS (
        SELECT topic, broker_name, event_id, since AS from_time, lead(since) OVER in_time AS to_time,
            sum(step) OVER in_time AS known
        FROM steps WINDOW in_time AS (PARTITION BY topic, broker_name ORDER BY since)
    ), apart AS (
        SELECT s.* FROM states AS s, (SELECT count(DISTINCT namesrv_id) AS all_of_them FROM slice_days WHERE day IN ({{days}}))
        WHERE known > 0 AND known < all_of_them AND {_ALIVE}
    )
    SELECT a.broker_name, a.from_time, a.to_time, list(DISTINCT r.namesrv_id ORDER BY r.namesrv_id) AS known_to,
        count(DISTINCT a.topic) AS topic_count, list(DISTINCT a.topic ORDER BY a.topic)[:5] AS topics, a.event_id
    FROM apart AS a JOIN rows AS r ON r.topic IS NOT DISTINCT FROM a.topic AND r.broker_name IS NOT DISTINCT FROM a.broker_name
        AND r.valid_from <= a.from_time AND (r.valid_to IS NULL OR r.valid_to > a.from_time)
    GROUP BY a.broker_name, a.from_time, a.to_time, a.event_id ORDER BY a.from_time, a.broker_name"""
_EXTENT = f"""
    SELECT min(first) AS first, max(last) AS last, sum(beats) AS beats FROM (
        SELECT min(effect_time) AS first, max(effect_time) AS last, count(*) AS beats FROM registrations
            WHERE day IN ({{days}}) AND {_OF_NAMESRV}
        UNION ALL SELECT min(effect_time), max(effect_time), count(*) FROM heartbeats WHERE day IN ({{days}}) AND {_OF_NAMESRV}
        UNION ALL SELECT min(effect_time), max(effect_time), 0 FROM event_outcomes WHERE day IN ({{days}}) AND {_OF_NAMESRV}
    )"""
_GAPS = f"""
    WITH renewing AS (
        SELECT namesrv_id, coalesce(cluster_name, '') AS cluster, broker_addr, seq, effect_time FROM registrations
        WHERE day IN ({{days}}) AND refusal IS NULL AND {_OF_NAMESRV}
        UNION ALL
        SELECT namesrv_id, coalesce(cluster_name, ''), broker_addr, seq, effect_time FROM heartbeats
        WHERE day IN ({{days}}) AND {_OF_NAMESRV}
    ), refused AS (
        SELECT namesrv_id, seq FROM event_outcomes WHERE day IN ({{days}}) AND outcome NOT IN ('applied', 'refreshed')
    ), beats AS (
        SELECT namesrv_id, broker_addr, seq, effect_time, lag(effect_time) OVER (
            PARTITION BY namesrv_id, cluster, broker_addr ORDER BY seq
        ) AS after_time
        FROM renewing ANTI JOIN refused USING (namesrv_id, seq)
    ), leases AS (
        SELECT DISTINCT namesrv_id, broker_addr, broker_name, heartbeat_timeout_ms AS lease_ms, valid_from
        FROM broker_live_history_slices WHERE day IN ({{days}}) AND {_OF_BROKERS}
    ), arrivals AS (
        SELECT namesrv_id, opened_at.seq AS seq FROM broker_live_history_slices WHERE day IN ({{days}})
        EXCEPT SELECT namesrv_id, closed_at.seq FROM broker_live_history_slices WHERE day IN ({{days}})
    ), gaps AS (
        SELECT b.namesrv_id, l.broker_name, b.broker_addr, b.after_time, b.effect_time AS until_time,
            epoch_ms(b.effect_time) - epoch_ms(b.after_time) AS gap_ms, l.lease_ms, 'beat' AS ended_by
        FROM (SELECT * FROM beats WHERE effect_time - after_time > INTERVAL 1 SECOND) AS b
        ASOF JOIN leases AS l ON l.namesrv_id = b.namesrv_id AND l.broker_addr = b.broker_addr AND b.after_time >= l.valid_from
        -- what is between two stays is an absence, no silence
        ANTI JOIN arrivals AS came ON came.namesrv_id = b.namesrv_id AND came.seq = b.seq
        UNION ALL
        SELECT namesrv_id, broker_name, broker_addr, last_beat_time, removed_time, detection_lag_ms, heartbeat_timeout_ms, cause
        FROM expired_brokers WHERE day IN ({{days}}) AND {_OF_NAMESRV} AND {_OF_BROKERS}
    )
    SELECT * FROM gaps WHERE gap_ms >= {{near}} * lease_ms AND until_time >= $a AND until_time < $b
    ORDER BY gap_ms * 1.0 / lease_ms DESC LIMIT {{most}}"""
_CHECKS = f"""
    SELECT namesrv_id, sum(answers) AS answers, sum(matched) AS matched, sum(explained) AS explained,
        sum(unknown_past) AS unknown_past, sum(mismatched) AS mismatched
    FROM answer_checks WHERE day IN ({{days}}) AND {_OF_NAMESRV} GROUP BY namesrv_id ORDER BY namesrv_id"""
