"""What a report tells, read from the published tables."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobs.ask.engine import Answers
from jobs.errors import MissingDayError, UsageError
from schemas.sql_files import query

Row = dict[str, Any]
MOST_BEATS = 20_000_000
"""Of more beats the silences are not looked at: they are counted by the hour in refreshes_hourly."""
_CONDITIONS = {
    "of_namesrv": "($namesrv IS NULL OR namesrv_id = $namesrv)",
    "of_brokers": "($brokers IS NULL OR list_contains($brokers, broker_name))",
    "alive": "from_time < $b AND (to_time IS NULL OR to_time > $a)",
}
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


_ONE_DAY = dt.timedelta(days=1)
_THEN = """(
    SELECT * REPLACE (if(goes_on, NULL, valid_to) AS valid_to, if(goes_on, NULL, closed_by) AS closed_by,
        if(goes_on, NULL, closed_at) AS closed_at)
    FROM (
        SELECT *, valid_to >= TIMESTAMPTZ '{end}' AS goes_on FROM {name}
        WHERE valid_from < TIMESTAMPTZ '{end}' AND (valid_to IS NULL OR valid_to >= TIMESTAMPTZ '{begin}')
    )
)"""


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
    last = max(_all_days(answers), default=None)
    if last is None:
        raise MissingDayError("no day is published")
    return _midnight(last + _ONE_DAY)


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.timezone.utc)


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
        facts.namesrvs, facts.lives = self._rows("namesrvs"), self._rows("lives")
        facts.stays = self._rows("stays")
        facts.changes = self._rows("changes")
        facts.incidents = self._incidents(facts.changes)
        facts.divergence = self._rows("divergence") if self._scope.namesrv is None else []
        facts.queues = [] if self._scope.topic is None else self._rows("queues")
        facts.checks = self._rows("checks")
        (extent,) = self._rows("extent")
        facts.beats = extent["beats"]
        facts.start = max(self._scope.start, extent["first"] or self._scope.start)
        facts.end = min(self._scope.end, max(extent["last"] or self._scope.end, facts.start) + _A_MOMENT)
        if facts.beats <= MOST_BEATS:
            facts.gaps = self._rows("gaps")
        return facts

    def _published_days(self) -> list[dt.date]:
        published = _all_days(self._answers)
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
            among = "SELECT DISTINCT broker_name FROM {broker_live_history}"
            kind, name = "broker", scope.broker
        else:
            among = "SELECT DISTINCT topic FROM {topic_queue_history}"
            kind, name = "topic", scope.topic or ""
        if (name,) not in list(self._answers.ask(among.format(**self._then)).rows):
            raise UsageError(f"{kind} {name!r}: no name server had it in that time")
        if scope.broker is not None:
            return [scope.broker]
        sql = "SELECT DISTINCT broker_name FROM {topic_queue_history} WHERE topic = $topic"
        return [found for (found,) in self._answers.ask(sql.format(**self._then), topic=scope.topic).rows]

    def _of_incident(self) -> Row | None:
        if self._scope.incident is None:
            return None
        return next(iter(self._dicts("SELECT * FROM incidents WHERE incident_id = $id", id=self._scope.incident)))

    def _incidents(self, changes: list[Row]) -> list[Row]:
        """Return the incidents of the time: all, or those that name what is asked for or began with an event that is shown."""
        found = self._rows("incidents")
        name = self._scope.topic or self._scope.broker
        if self._scope.incident is not None:
            return [row for row in found if row["incident_id"] == self._scope.incident]
        if name is None:
            return found
        shown = {row["event_id"] for row in changes}
        return [row for row in found if _names(row, name) or row["root_event"] in shown]

    def _rows(self, name: str) -> list[Row]:
        """Return what a statement of `schemas/sql/report` gives."""
        scope = self._scope
        values = {
            "a": scope.start,
            "b": scope.end,
            "topic": scope.topic,
            "namesrv": scope.namesrv,
            "brokers": self._brokers,
        }
        text = query(f"report/{name}").format(
            days=self._among(), near=_NEAR_THE_LIMIT, most=_MOST_GAPS, **self._then, **_CONDITIONS
        )
        return self._dicts(text, **{name: value for name, value in values.items() if f"${name}" in text})

    @property
    def _then(self) -> dict[str, str]:
        """Return by the names of histories what reads their intervals of the days, as they were known when the last one ended."""
        begin, end = _midnight(self._days[0]), _midnight(self._days[-1] + _ONE_DAY)
        return {
            name: _THEN.format(name=name, begin=begin, end=end)
            for name in ("broker_live_history", "topic_queue_history")
        }

    def _among(self) -> str:
        return ", ".join(f"DATE '{day}'" for day in self._days)

    def _dicts(self, sql: str, **values: Any) -> list[Row]:
        return self._answers.ask(sql, **values).dicts()


def _names(row: Row, name: str) -> bool:
    """Return whether an incident touches a topic or broker; of many only the first few are named, and some in words."""
    listed = [*row["broker_names"], *row["topic_names"]]
    return name in listed or (len(listed) < row["brokers"] + row["topics"] and name in str(row["detail"]))


def _all_days(answers: Answers) -> list[dt.date]:
    """Return the days that are published, in order."""
    sql = "SELECT DISTINCT unnest(days) AS day FROM runs WHERE status = 'published' ORDER BY day"
    return [day for (day,) in answers.ask(sql).rows]
