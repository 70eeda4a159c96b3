"""Statements over Arrow tables: planned once for tables of the same columns, and the same as if planned each time."""

from __future__ import annotations

import datetime as dt
import gc
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from namesrv_day import arrow
from namesrv_day.arrow import ask

DAY = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the statements that are planned, as they are; none was planned before."""
    monkeypatch.setattr(arrow._local, "plans", {}, raising=False)
    found: list[str] = []

    class Noting(arrow._Planned):
        def __init__(self, query: str, tables: arrow.Tables) -> None:
            super().__init__(query, tables)
            found.append(query)

    monkeypatch.setattr(arrow, "_Planned", Noting)
    return found


def numbers(*values: int | None) -> dict[str, pa.Table]:
    return {"rows": pa.table({"n": pa.array(values, pa.int64())})}


def test_rows_are_other_ones_each_time(planned: list[str]) -> None:
    """A plan has no rows in it: it is run on none, some and many, joined with themselves, in turn."""
    query = "SELECT count(*) AS n, sum(a.n) AS total FROM rows AS a JOIN rows AS b USING (n)"
    for count in (0, 3, 2_000, 0, 5):
        (found,) = ask(query, numbers(*range(count))).to_pylist()
        assert found == {"n": count, "total": sum(range(count)) if count else None}
    assert len(planned) == 1


def test_what_no_rows_give_is_asked_once(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tables that have no rows, all of them, a statement gives the same each time; with a value it is another statement."""
    runs: list[str] = []
    run = arrow._Planned._run

    def noting(self: Any, tables: Any) -> Any:
        runs.append("")
        return run(self, tables)

    monkeypatch.setattr(arrow._Planned, "_run", noting)
    query = "SELECT count(*) AS n, $day AS day FROM rows JOIN others USING (n)"
    for day in (DAY, DAY + dt.timedelta(days=1)):
        for _ in range(3):
            none = {**numbers(), "others": numbers()["rows"]}
            assert ask(query, none, day=day).to_pylist() == [{"n": 0, "day": day}]
        some = {**numbers(1, 2), "others": numbers(2)["rows"]}
        assert ask(query, some, day=day).to_pylist() == [{"n": 1, "day": day}]
    assert (len(planned), len(runs)) == (2, 4)


def test_other_columns_are_another_plan(planned: list[str]) -> None:
    """Tables of the same name with other columns, types or order of columns are read as what they are."""
    texts = {"rows": pa.table({"n": ["b", "a"]})}
    once = {"rows": pa.table({"n": pa.array(["b", "a", "a"]).dictionary_encode()})}
    more = {"rows": pa.table({"m": [7], "n": [8]})}
    for _ in range(2):
        for tables, least in ((numbers(2, 1), 1), (texts, "a"), (once, "a"), (more, 8)):
            assert ask("SELECT min(n) AS least FROM rows", tables).to_pylist() == [{"least": least}]
    assert len(planned) == 4


@pytest.mark.parametrize(
    "value", [None, True, False, 0, -1, 2**31, 2**62, DAY, NOON, NOON.replace(microsecond=678_901), [1, 2], []]
)
def test_values_are_what_they_are_as_parameters(value: Any) -> None:
    """What a plan has in it is the value that DuckDB makes of a parameter, of the same type."""
    query = "SELECT $value AS v, typeof($value) AS t, n FROM rows WHERE n IS DISTINCT FROM $other ORDER BY n"
    as_parameters = query.replace("FROM rows", "FROM (VALUES (1), (3)) AS rows (n)")
    expected = arrow.connection().execute(as_parameters, {"value": value, "other": 2})

    assert [tuple(row.values()) for row in ask(query, numbers(3, 2, 1), value=value, other=2).to_pylist()] == [
        (v, t, n) for v, t, n in expected.fetchall()
    ]


@pytest.mark.parametrize("text", ["'; DROP TABLE rows; --", "$least", 'a"b', "\x00", "\\'"])
def test_texts_never_become_sql(planned: list[str], text: str) -> None:
    """Texts reach a statement as values, alone and in lists: what looks like SQL in them is text."""
    query = "SELECT n, $text AS said, len($texts) AS number FROM rows"
    found = ask(query, numbers(1), text=text, texts=[text, text]).to_pylist()
    assert (found, planned) == ([{"n": 1, "said": text, "number": 2}], [])


def test_many_rows_have_a_plan_of_their_own(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which plan is good for many rows depends on how many each table has: pairs in order of time are not tried one by one."""
    monkeypatch.setattr(arrow, "_FEW_IN_ORDER", 2_000)  # whatever DuckDB it is
    query = "SELECT count(b.n) AS n FROM rows AS a ASOF LEFT JOIN rows AS b ON a.n >= b.n"
    for count, plans in ((2_000, 1), (2_001, 1), (100_000, 1)):
        assert ask(query, numbers(*range(count)))["n"].to_pylist() == [count]
        assert len(planned) == plans


def test_tables_are_let_go(planned: list[str]) -> None:
    """A plan that waits for its next tables keeps none of the last ones in memory, also after a failure."""
    before = pa.total_allocated_bytes()
    ask("SELECT max(n) AS n FROM rows", {"rows": pa.table({"n": ["x" * 10_000] * 1_000})})
    with pytest.raises(duckdb.ConversionException):
        ask("SELECT CAST(max(n) AS INT) AS n FROM rows", {"rows": pa.table({"n": ["x" * 10_000] * 1_000})})
    gc.collect()
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert len(planned) == 2


def test_a_failure_leaves_the_plan_usable(planned: list[str]) -> None:
    """A statement that fails over some rows is run over others afterwards, by the same plan."""
    query = "SELECT sum(CAST('1' || if(n < 0, 'x', '') AS INT)) AS n FROM rows"
    with pytest.raises(duckdb.ConversionException):
        ask(query, numbers(-1))
    assert ask(query, numbers(1, 2)).to_pylist() == [{"n": 2}]
    assert len(planned) == 1


def test_what_was_asked_longest_ago_is_forgotten(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """There are never more plans than some: a process that asks ever new statements does not grow."""
    monkeypatch.setattr(arrow, "_MOST_PLANNED", 2)
    for n in (1, 2, 1, 3, 1, 2):
        assert ask(f"SELECT {n} AS n").to_pylist() == [{"n": n}]
    assert [query[7] for query in planned] == ["1", "2", "3", "2"]
    assert len(arrow._local.plans) == 2


def test_of_a_statement_the_last_values_are_planned(planned: list[str]) -> None:
    """Of one with ever other days in it a few plans are kept, and of others theirs: a process of many nights does not grow."""
    days = [DAY + dt.timedelta(days=number) for number in range(9)]
    for day in days:
        for query in ("SELECT $day AS day, n FROM rows", "SELECT max(n) AS most FROM rows"):
            ask(query, numbers(1), **({"day": day} if "day" in query else {}))
    assert (len(planned), len(arrow._local.plans)) == (len(days) + 1, arrow._MOST_OF_ONE + 1)
    for day in days[-arrow._MOST_OF_ONE :]:
        assert ask("SELECT $day AS day, n FROM rows", numbers(1), day=day).to_pylist() == [{"day": day, "n": 1}]
    assert len(planned) == len(days) + 1


def test_what_is_asked_apart_leaves_nothing_behind(planned: list[str]) -> None:
    """Apart, statements are planned on a database of its own, which is closed behind them; the one before is there again."""
    before = arrow.connection()
    assert ask("SELECT sum(n) AS n FROM rows", numbers(1, 2))["n"].to_pylist() == [3]
    with arrow.own_connection():
        own = arrow.connection()
        assert own is not before
        assert ask("SELECT sum(n) AS n FROM rows", numbers(3))["n"].to_pylist() == [3]
        assert len(planned) == 2
    with pytest.raises(duckdb.ConnectionException):
        own.execute("SELECT 1")
    assert arrow.connection() is before
    assert ask("SELECT sum(n) AS n FROM rows", numbers(4, 5))["n"].to_pylist() == [9]
    assert len(planned) == 2
