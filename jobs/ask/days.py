"""Of which days a question about an instant must look into files: so its cost does not grow with the length of the history.

What is left out here the question's own conditions leave out, too; they are looked at only when each file has been planned for.
"""

from __future__ import annotations

import datetime as dt

from jobs.ask.engine import Answers, OnDays

_PUBLISHED = "SELECT DISTINCT unnest(days) AS day FROM runs WHERE status = 'published' ORDER BY day"
_CHANGED = """
    CREATE TEMPORARY TABLE route_days (
        topic TEXT, namesrv_id TEXT, day DATE, first_time TIMESTAMPTZ, last_time TIMESTAMPTZ, appeared_time TIMESTAMPTZ
    )"""
_CHANGED_OF_TOPIC = """
    INSERT INTO route_days
    SELECT topic, namesrv_id, day, min(effect_time), max(effect_time), min(effect_time) FILTER (change = 'appeared')
    FROM route_changes WHERE topic = $topic GROUP BY ALL"""
_OF_TOPIC = """
    WITH own AS (SELECT * FROM route_days WHERE topic = $topic),
    at_t AS (
        SELECT namesrv_id, max(day) FILTER (first_time <= $t) AS last, min(day) FILTER (last_time > $t) AS next,
            max(day) FILTER (appeared_time <= $t) AS appeared
        FROM own GROUP BY namesrv_id
    )
    SELECT own.day, own.day IS NOT DISTINCT FROM last OR own.day IS NOT DISTINCT FROM next
    FROM own JOIN at_t USING (namesrv_id)
    WHERE own.day IS NOT DISTINCT FROM next OR own.day BETWEEN coalesce(appeared, own.day) AND last"""


def published_days(answers: Answers) -> list[dt.date]:
    """Return the days that are published, in order."""
    return [day for (day,) in answers.ask(_PUBLISHED).rows]


def at(answers: Answers, *instants: dt.datetime) -> OnDays:
    """Return the days that tell what was so at some instants: the last day until then, and the one before it."""
    days = published_days(answers)
    until = [[day for day in days if day <= t.astimezone(dt.timezone.utc).date()] for t in instants]
    return OnDays(frozenset(day for found in until for day in found[-2:]))


def between(answers: Answers, t1: dt.datetime, t2: dt.datetime) -> OnDays:
    """Return the days for what was so at two instants, and for what happened between them."""
    first, last = (t.astimezone(dt.timezone.utc).date() for t in (t1, t2))
    passed = (day for day in published_days(answers) if first <= day <= last)
    return OnDays(frozenset([*at(answers, t1, t2).days, *passed]))


def of_topic(answers: Answers, topic: str) -> OnDays:
    """Return the days for all changes of a topic's route: those on which the log does not rule it out."""
    return OnDays((), answers.days_of("route_changes", "topic", topic))


def of_changes(answers: Answers, topic: str, t: dt.datetime) -> OnDays:
    """Return the days for the last change of a topic's route by an instant and for the next one, on each name server.

    What the route was then follows from its changes since it appeared. On which days it changed is read once, and of those days
    alone on which the log does not rule it out.
    """
    answers.once(_CHANGED)
    answers.once(_CHANGED_OF_TOPIC, of_topic(answers, topic), topic=topic)
    rows = list(answers.ask(_OF_TOPIC, topic=topic, t=t).rows)
    return OnDays(frozenset(day for day, is_told in rows if is_told), frozenset(day for day, _ in rows))
