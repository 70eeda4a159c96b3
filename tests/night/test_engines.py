"""The published tables opened by engines that know nothing of ours: each gives the rows that `ask` gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pandas import ArrowDtype
from pyspark.sql import SparkSession

from jobs.ask.engine import Answers, texts_of, values_of
from jobs.cli.output import plain
from jobs.cli.sql import answer as asked_of_spark
from jobs.cli.sql import register_views
from jobs.session import for_questions
from schemas import bronze, gold
from schemas.asked import statement
from schemas.queries import queries
from schemas.table import Table
from schemas.views import stored_tables
from tests.cli.both import in_memory, lines
from tests.ingest.given import warehouse_at
from tests.night.nights import Capture
from tests.night.test_queries import given

pytestmark = pytest.mark.slow
PUBLISHED = {
    name: table for name, table in stored_tables().items() if table in (*gold.TABLES, bronze.QUARANTINE, bronze.SOURCES)
}


def _pandas(path: str) -> pa.Table:
    return pa.Table.from_pandas(DeltaTable(path).to_pandas(types_mapper=ArrowDtype), preserve_index=False)


ENGINES: dict[str, Callable[[str], pa.Table]] = {
    "deltalake": lambda path: DeltaTable(path).to_pyarrow_table(),
    "pandas": _pandas,
    "polars": lambda path: pl.read_delta(path).to_arrow(),
}


def content(found: pa.Table, table: Table) -> list[str]:
    """Return the rows of stored columns, in an order of their own; a map is its entries, however an engine writes them."""
    rows = found.select([column.name for column in table.stored_columns]).to_pylist()
    return sorted(json.dumps(_entries(plain(row)), sort_keys=True) for row in rows)


def _entries(value: Any) -> Any:
    if isinstance(value, dict):
        is_entry = value.keys() == {"key", "value"}
        return [*map(_entries, value.values())] if is_entry else {of: _entries(one) for of, one in value.items()}
    return [_entries(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def asked(whole: Capture) -> dict[str, list[str]]:
    answers = Answers(str(whole.path))
    found = {name: content(answers.table(f"SELECT * FROM {name}"), table) for name, table in PUBLISHED.items()}
    assert sum(map(bool, found.values())) > 15
    return found


def _folder(warehouse: Path, table: Table) -> Path:
    return warehouse / table.layer / table.name


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_reads_delta_tables_sees_what_ask_sees(
    engine: str, whole: Capture, asked: dict[str, list[str]]
) -> None:
    """Every published table in its newest version, without the columns that follow from others."""
    there = {name: table for name, table in PUBLISHED.items() if _folder(whole.path, table).is_dir()}
    assert {name for name in PUBLISHED if asked[name]} <= set(there)
    for name, table in there.items():
        assert content(ENGINES[engine](str(_folder(whole.path, table))), table) == asked[name], name


def test_plain_spark_sees_what_ask_sees(spark: SparkSession, whole: Capture, asked: dict[str, list[str]]) -> None:
    """A session that was told nothing but Delta's JARs: `format("delta")` and the folder, of tables of each form.

    Between them they have every type of column, and every way of partitioning.
    """
    met = set[str]()
    for name, table in PUBLISHED.items():
        forms = {str(column.type) for column in table.stored_columns} | {f"by {table.partition_by}"}
        if asked[name] and not forms <= met:
            met |= forms
            found = spark.read.format("delta").load(str(_folder(whole.path, table))).toArrow()
            assert content(found, table) == asked[name], name
    assert len(met) > 20


def test_spark_answers_the_saved_queries_as_ask_does(spark: SparkSession, whole: Capture) -> None:
    """All of them, over the views and functions of a session: every value is equal."""
    session, answers = for_questions(spark.newSession()), Answers(str(whole.path))
    in_memory(register_views(session, warehouse_at(whole.path), texts=[query.sql for query in queries().values()]))
    for query in queries().values():
        values = values_of(query, texts_of(query, given(query)))
        of_duckdb = answers.ask(statement(f"query.{query.name}") or "", **values)
        of_spark = asked_of_spark(session, query.sql, values)
        assert lines(of_spark.columns, of_spark.collect()) == lines(*of_duckdb), query.name
