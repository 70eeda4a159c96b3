"""One question, two engines: what Spark answers and what DuckDB answers, as lines of JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jobs.cli.output import write_rows
from schemas.dialect import duckdb_queries
from schemas.views import statements, stored_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.ask.engine import Answers
    from jobs.cli.sql import Views


def in_memory(views: Views) -> SparkSession:
    """Put rows in the place of Delta tables, and return the session.

    To look through a table's log at each place that names it takes Spark most of a question's time.
    """
    for name in views.made & stored_tables().keys():
        rows = views.spark.table(name)
        views.spark.createDataFrame(rows.toArrow(), rows.schema).createOrReplaceTempView(name)
    return views.spark


def lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return rows as JSON, in an order of their own."""
    out = io.StringIO()
    write_rows(out, "json", names, rows)
    # Spark keeps no order in a map.
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in out.getvalue().splitlines())


def asked(answers: Answers, sql: str) -> list[str]:
    """Return what DuckDB says to a statement of Spark's."""
    (query,) = duckdb_queries(sql)
    return lines(*answers.ask(query))


def on_spark(spark: SparkSession, sql: str) -> list[str]:
    """Return what Spark says."""
    frame = spark.sql(sql)
    return lines(frame.columns, frame.collect())


def everything(t1: str, t2: str, topic: str) -> list[str]:
    """Return a question for each view, and for each function at an instant `t1` (and `t2`), of a topic."""
    found = []
    for name, made in statements().items():
        values = {"topic": f"'{topic}'", "t": f"TIMESTAMP'{t1}'", "t1": f"TIMESTAMP'{t1}'", "t2": f"TIMESTAMP'{t2}'"}
        given = [values[parameter.name] for parameter in made.parameters]
        found.append(f"SELECT * FROM {name}" + (f"({', '.join(given)})" if given else ""))
    return found
