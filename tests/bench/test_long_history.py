"""A long history costs no more to ask and to extend than a short one: what is read is counted, not timed."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs.ask import days
from jobs.ask.engine import Answers
from jobs.cli.explain import explain
from jobs.cli.views import register_views
from jobs.conf import PipelineConf
from jobs.session import for_questions
from jobs.store.warehouse import Warehouse
from schemas import bronze, gold
from tests.cli.rows import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from schemas.table import Table

FIRST, DAYS, TOPICS = dt.date(2026, 1, 1), 40, 3
HISTORY = gold.TOPIC_QUEUE_HISTORY
_ROW = {
    "namesrv_id": "ns", "broker_name": "broker", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6,
    "topic_sys_flag": 0, "valid_from": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), "opened_by": "event",
    "opened_at": {"seq": 1, "no": 0}, "beginning_seen": True,
}  # fmt: skip


def house_at(path: Path, run_id: str = "run") -> Warehouse:
    """Return the warehouse for one run."""
    return Warehouse(str(path), PipelineConf(), run_id, dt.datetime.now(dt.timezone.utc))


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
            found[path.parts[path.parts.index("runs-of-40-days") + 2]] += plan.metrics().apply("numFiles").value()
    return found


@pytest.fixture(scope="module")
def forty_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with 40 days, one file a table, one commit and one published run each."""
    path = tmp_path_factory.mktemp("forty") / "runs-of-40-days"
    for number in range(DAYS):
        publish(house_at(path, f"run-{number:02}"), of_day(number))
    return path


@pytest.fixture(scope="module")
def views(spark: SparkSession, forty_days: Path) -> SparkSession:
    """The functions that are asked, over them, in a session as questions have it."""
    session = for_questions(spark.newSession())
    register_views(session, house_at(forty_days), texts=["topic_queue_table_at why"])
    return session


@pytest.mark.parametrize("day", [0, 17, DAYS - 1])
def test_the_table_at_an_instant_is_read_once_whatever_the_day(views: SparkSession, day: int) -> None:
    """What has been so for forty days is a row a topic, of one file."""
    at = f"TIMESTAMP'{FIRST + dt.timedelta(days=day)} 12:00:00'"
    found, every = (views.sql(f"SELECT * FROM {of}") for of in (f"topic_queue_table_at({at})", HISTORY.name))
    assert (len(found.collect()), len(every.collect())) == (TOPICS, TOPICS)
    assert opened(found) == opened(every) == {HISTORY.name: 1}


def test_why_looks_for_events_on_the_days_of_the_changes_it_tells_of(views: SparkSession) -> None:
    """Of events of each kind the file of one day is opened; of outcomes once those of all days: which tell of beats?"""
    at = f"TIMESTAMP'{FIRST + dt.timedelta(days=30)}'"
    asked = views.sql(f"SELECT * FROM why('topic-17', {at})")
    (row,) = asked.collect()
    assert (row.state, row.operation, row.source_offset) == ("routed", "register_broker", 17)
    found = opened(asked)
    assert found.pop("route_changes") == DAYS
    assert found == {"event_outcomes": DAYS + 1, "registrations": 1, "heartbeats": 1}


@pytest.mark.slow
def test_without_a_jvm_why_plans_for_the_files_of_its_changes_alone(forty_days: Path) -> None:
    """Of forty days one file a table is left to look into, and the answer is that of all files; so for a topic not yet there."""
    answers = Answers(str(forty_days))
    at = dt.datetime.combine(FIRST + dt.timedelta(days=30), dt.time(), dt.timezone.utc)
    sql = "SELECT * FROM why($topic, $t)"
    for topic in ("topic-17", "topic-35", "nobody's"):
        whole = list(answers.ask(sql, topic=topic, t=at).rows)
        on_days = days.of_changes(answers, topic, at)
        assert list(answers.ask(sql, on_days, topic=topic, t=at).rows) == whole
        for table in ("route_changes", "event_outcomes", "registrations"):
            (files,) = next(answers.ask(f"SELECT len(getvariable('files_{table}'))", on_days).rows)
            assert files == 1
    assert [row[0] for row in answers.ask(f"SELECT count(*) FROM {HISTORY.name}").rows] == [TOPICS]


def test_on_which_days_a_topic_changed_is_read_of_files_whose_bounds_have_it(tmp_path: Path) -> None:
    """One file of three is read, once; of a name that the log has cut the bounds say less, and it is found all the same."""
    long = "topic-1" + "x" * 40
    for number, topic in enumerate(("topic-0", long, "topic-2")):
        changes = [{**row, "topic": topic} for row in of_day(number)[gold.ROUTE_CHANGES]]
        publish(house_at(tmp_path, f"run-{number}"), {**of_day(number), gold.ROUTE_CHANGES: changes})
    answers = Answers(str(tmp_path))
    at = dt.datetime.combine(FIRST + dt.timedelta(days=2), dt.time(23), dt.timezone.utc)
    for topic, number in (("topic-0", 0), (long, 1), ("topic-2", 2), ("topic-0", 0)):
        day = FIRST + dt.timedelta(days=number)
        assert days.of_changes(answers, topic, at) == ({day}, {day})
        assert day in answers.days_of("route_changes", "topic", topic)
        # the second file has no upper bound
        assert len(answers.days_of("route_changes", "topic", topic)) == (2 if number == 2 else 1)
    assert answers.days_of("route_changes", "topic", "a") == set()
    assert [row[0] for row in answers.ask("SELECT count(*) FROM route_days").rows] == [3]


@pytest.mark.slow
def test_the_history_of_a_topic_is_read_of_files_whose_bounds_have_it(forty_days: Path) -> None:
    """One file of forty, and the same answer as of all."""
    answers = Answers(str(forty_days))
    sql = "SELECT * FROM whole_routes WHERE topic = $topic"
    whole = list(answers.ask(sql, topic="topic-17").rows)
    assert [row[0] for row in answers.ask("SELECT len(getvariable('files_route_changes'))").rows] == [DAYS]
    assert list(answers.ask(sql, days.of_topic(answers, "topic-17"), topic="topic-17").rows) == whole
    assert [row[0] for row in answers.ask("SELECT len(getvariable('files_route_changes'))").rows] == [1]
    assert len(whole) == 1


@pytest.mark.slow
def test_explain_plans_for_the_files_of_its_changes_alone(forty_days: Path) -> None:
    """Of forty days one file of events is left to look into, that of the change told; a topic not yet there is told of, too."""
    answers = Answers(str(forty_days))
    at = dt.datetime.combine(FIRST + dt.timedelta(days=30), dt.time(), dt.timezone.utc)
    for topic, told in (("topic-17", "by register_broker (applied)"), ("topic-35", "not yet seen")):
        out = io.StringIO()
        explain(answers, {"topic": topic, "t": at}, [], "table", out)
        assert told in out.getvalue()
        for table in ("route_changes", "event_outcomes", "registrations"):
            assert next(answers.ask(f"SELECT len(getvariable('files_{table}'))").rows) == (1,)
