"""A long history costs no more to ask and to extend than a short one: what is read is counted, not timed."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.ask.engine import Answers
from jobs.cli.ask import explain
from jobs.cli.sql import register_views
from jobs.session import for_questions
from schemas import bronze, gold
from tests.cli.rows import publish
from tests.ingest.given import warehouse_at
from tests.rows import Row, changed, event, outcome, queues, sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from schemas.table import Table

FIRST, DAYS, TOPICS = dt.date(2026, 1, 1), 6, 3
HISTORY = gold.TOPIC_QUEUE_HISTORY
SINCE = event("event", "00:00", FIRST)


def of_day(number: int) -> dict[Table, list[Row]]:
    """Return the rows of a day: queues, and one event that made the route of `topic-<number>`."""
    at = event(f"event-{number}", "08:00", FIRST + dt.timedelta(days=number))
    began = [queues(f"topic-{topic}", "broker", SINCE, day=FIRST) for topic in range(TOPICS if number == 0 else 0)]
    return {
        HISTORY: began,
        gold.ROUTE_CHANGES: [changed(at, "appeared", f"topic-{number}")],
        gold.EVENT_OUTCOMES: [outcome(at, "register_broker")],
        bronze.REGISTRATIONS: [sent(at, source_offset=number)],
        bronze.HEARTBEATS: [sent(at, source_offset=number, code=904, nth=0)],
    }


def opened(frame: DataFrame) -> Counter[str]:
    """Return how many data files of each table were opened for an answer that was collected once: what its scans have counted."""
    found: Counter[str] = Counter()
    plans = [frame._jdf.queryExecution().executedPlan()]
    while plans:
        plan = plans.pop()
        plans += [plan.children().apply(number) for number in range(plan.children().size())]
        if plan.nodeName().startswith("Scan parquet"):
            path = Path(plan.relation().location().rootPaths().head().toString())
            found[path.parts[path.parts.index("runs-of-days") + 2]] += plan.metrics().apply("numFiles").value()
    return found


@pytest.fixture(scope="module")
def six_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with six days, one file a table, one commit and one published run each."""
    path = tmp_path_factory.mktemp("days") / "runs-of-days"
    for number in range(DAYS):
        publish(warehouse_at(path, f"run-{number:02}"), of_day(number))
    return path


@pytest.fixture(scope="module")
def views(spark: SparkSession, six_days: Path) -> SparkSession:
    """The functions that are asked, over them, in a session as questions have it."""
    session = for_questions(spark.newSession())
    register_views(session, warehouse_at(six_days, "look"), texts=["topic_queue_table_at why"])
    return session


@pytest.mark.parametrize("day", [0, 3, DAYS - 1])
def test_the_table_at_an_instant_is_read_once_whatever_the_day(views: SparkSession, day: int) -> None:
    """What has been so for six days is a row a topic, of one file."""
    at = f"TIMESTAMP'{FIRST + dt.timedelta(days=day)} 12:00:00'"
    found, every = (views.sql(f"SELECT * FROM {of}") for of in (f"topic_queue_table_at({at})", HISTORY.name))
    assert (len(found.collect()), len(every.collect())) == (TOPICS, TOPICS)
    assert opened(found) == opened(every) == {HISTORY.name: 1}


def test_why_looks_for_events_on_the_days_of_the_changes_it_tells_of(views: SparkSession) -> None:
    """Of changes and registrations one day is opened, none of beats; of outcomes once those of all days: which tell of beats?"""
    at = f"TIMESTAMP'{FIRST + dt.timedelta(days=5)}'"
    asked = views.sql(f"SELECT * FROM why('topic-3', {at})")
    (row,) = asked.collect()
    assert (row.state, row.operation, row.source_offset) == ("routed", "register_broker", 3)
    assert opened(asked) == {"route_changes": 1, "event_outcomes": DAYS + 1, "registrations": 1, "heartbeats": 0}


@pytest.mark.slow
def test_explain_tells_of_a_change_days_ago_and_of_a_topic_not_yet_there(six_days: Path) -> None:
    """Of six days it is one that tells; a topic not yet there is told of, too."""
    answers = Answers(str(six_days))
    at = dt.datetime.combine(FIRST + dt.timedelta(days=5), dt.time(), dt.timezone.utc)
    for topic, told in (("topic-3", "by register_broker (applied)"), ("topic-5", "not yet seen")):
        out = io.StringIO()
        explain(answers, {"topic": topic, "t": at}, [], "table", out)
        assert told in out.getvalue()
