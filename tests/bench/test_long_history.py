"""A long history costs no more to ask and to extend than a short one: what is read is counted, not timed."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs.ask.engine import Answers
from jobs.cli.ask import explain
from jobs.cli.views import register_views
from jobs.session import for_questions
from schemas import bronze, gold
from tests.cli.rows import publish
from tests.ingest.given import warehouse_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from schemas.table import Table

FIRST, DAYS, TOPICS = dt.date(2026, 1, 1), 6, 3
HISTORY = gold.TOPIC_QUEUE_HISTORY
_ROW = {
    "namesrv_id": "ns", "broker_name": "broker", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6,
    "topic_sys_flag": 0, "valid_from": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), "opened_by": "event",
    "opened_at": {"seq": 1, "no": 0}, "beginning_seen": True,
}  # fmt: skip


def of_day(number: int) -> dict[Table, list[dict[str, Any]]]:
    """Return the rows of a day: queues, and one event that made the route of `topic-<number>`."""
    day = FIRST + dt.timedelta(days=number)
    at = dt.datetime.combine(day, dt.time(8), dt.timezone.utc)
    told = {"namesrv_id": "ns", "seq": number + 1, "effect_time": at, "day": day}
    event = {**told, "event_id": f"event-{number}", "event_time": at}
    change = {**told, "topic": f"topic-{number}", "caused_by": f"event-{number}", "change": "appeared"}
    change |= {"groups_before": 0, "groups_after": 1, "parts": [{"part": "queueDatas", "name": "broker", "text": "{}"}]}
    return {
        HISTORY: [{**_ROW, "topic": f"topic-{topic}"} for topic in range(TOPICS if number == 0 else 0)],
        gold.ROUTE_CHANGES: [change],
        gold.EVENT_OUTCOMES: [{**event, "operation": "register_broker", "outcome": "applied"}],
        bronze.REGISTRATIONS: [{**event, "source_file": "f.pcap", "source_offset": number}],
        bronze.HEARTBEATS: [{**event, "code": 904, "nth": 0, "source_file": "f.pcap", "source_offset": number}],
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
