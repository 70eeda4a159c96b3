"""How long people wait for an answer: without a JVM, in a process of its own and in one that stays open, and in warm Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from jobs.ask.engine import Answers
from jobs.cli.commands import DEMO_CAPTURE
from jobs.cli.views import register_views
from jobs.conf import PipelineConf
from jobs.session import for_questions
from jobs.store.warehouse import Warehouse
from schemas.dialect import duckdb_queries
from tools.bench.fleets import Fleets
from tools.bench.harness import Measured, Ratio, Side, timed
from tools.bench.processes import seconds_of

# Rounds behind which the JVM has compiled what is asked.
_QUESTIONS = 9


def questions(fleets: Fleets, rounds: int) -> list[Measured]:
    """Seconds that answers take on the bundled capture: a process of `ask`, the same kept open, a warm session of Spark."""
    path = fleets.folder / "asked"
    if not path.exists():
        seconds_of(["nightly", "--in-process", "--input", str(DEMO_CAPTURE), "--warehouse", str(path)], fleets.folder)
    one, other, spark = "TIMESTAMP'2026-11-21 08:58:00'", "TIMESTAMP'2026-11-21 09:05:00'", for_questions(fleets.spark)
    calls = {
        "a table": (f"topic_queue_table_at({one})", 1.0),
        "a route": (f"route_at('TopicA', {one})", 1.0),
        "why": (f"why('TopicD', {other})", 2.0),
        "route_diff": (f"route_diff({one}, {other})", 2.0),
    }
    house = Warehouse(str(path), PipelineConf(), "bench", dt.datetime.now(dt.timezone.utc))
    works: list[tuple[str, Callable[[], object], float]] = [
        ("registering all views in warm Spark", partial(register_views, spark, house), 3.0)
    ]
    answers = Answers(str(path))
    for name, (call, bar) in calls.items():
        sql = f"SELECT * FROM {call}"  # noqa: S608  text of ours
        works.append((f"{name} in warm Spark", partial(_collected, spark, sql), bar))
        works.append((f"{name}, `ask`, warm", partial(_rows, answers, duckdb_queries(sql)[0]), 0.03))
    process = ["ask", "route-at", "TopicA", "2026-11-21 08:58", "--warehouse", str(path)]
    works.append(("a route, `ask`, a process", partial(seconds_of, process, fleets.folder), 0.4))
    found: list[Measured] = []
    for name, work, bar in works:
        took, _ = timed([Side("question", partial(_done, work))], max(rounds, _QUESTIONS))
        found.append(Ratio(name, "question", 1.0, took, bar, notes={"longest": max(took["question"])}))
    return found


def _collected(spark: SparkSession, sql: str) -> object:
    return spark.sql(sql).collect()


def _rows(answers: Answers, sql: str) -> object:
    return list(answers.ask(sql).rows)


def _done(work: Callable[[], object]) -> None:
    """Do it; what it gives is not compared."""
    work()
