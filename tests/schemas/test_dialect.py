"""Readers' SQL in DuckDB's dialect: it is made once, and what is made is right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from namesrv_day.arrow import connection
from schemas import asked
from schemas.dialect import NotTranslatedError, duckdb_queries


@pytest.mark.slow
def test_what_was_translated_is_kept_until_a_source_changes(tmp_path: Path) -> None:
    """A copy of `schemas` translates once; after a change of a file it translates again, and says what the file says."""
    shutil.copytree(Path(asked.__file__).parent, tmp_path / "schemas", ignore=shutil.ignore_patterns(asked.KEPT))
    code = "import sys; from schemas import asked; print(asked.statement('query.flapping'), 'sqlglot' in sys.modules)"
    words, known = (
        [sys.executable, "-c", code],
        {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )

    def said() -> str:
        ran = subprocess.run(words, cwd=tmp_path, env=known, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    (first, translated), (second, again) = said().rsplit(" ", 1), said().rsplit(" ", 1)
    assert (translated, again) == ("True", "False")
    assert first.strip() == second.strip() == (asked.statement("query.flapping") or "").strip()
    query = tmp_path / "schemas" / "sql" / "queries" / "liveness" / "flapping.sql"
    query.write_text(query.read_text(encoding="utf-8").replace("SELECT", "SELECT 'changed',", 1), encoding="utf-8")
    assert "'changed'" in said()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (r"SELECT 'it''s', 'a\'b', r'\d'", ("it's", "a'b", r"\d")),
        ("SELECT get(array(1, 2), 0), get(array(1), 1), try_element_at(map('a', 1), 'a')", (1, None, 1)),
        ("SELECT map_contains_key(map('a', 1), 'a'), map_contains_key(map('a', 1), 'b')", (True, False)),
        ("SELECT max_by(a, b) FROM VALUES (1, 1), (NULL, 2) AS t(a, b)", (None,)),
        ("SELECT max_by(struct(t.*), b).a FROM VALUES (1, 1), (5, 2) AS t(a, b)", (5,)),
        ("SELECT collect_list(a), size(collect_list(a)) FROM VALUES (1) AS t(a) WHERE a > 1", ([], 0)),
        (
            "SELECT from_json('{\"a\": 1}', 'a INT').a, from_json('no', 'a INT').a, from_json(NULL, 'a INT')",
            (1, None, None),
        ),
        (r"SELECT regexp_replace('ab', '(b)', '<$1>')", ("a<b>",)),
        (
            "SELECT timestampdiff(MILLISECOND, TIMESTAMP'2026-01-01 00:00:00.0009', TIMESTAMP'2026-01-01 00:00:00.0011')",
            (0,),
        ),
        ("SELECT percentile(a, 0.5), percentile_approx(a, 0.5) FROM VALUES (1), (2) AS t(a)", (1.5, 1)),
        ("SELECT datediff(DATE'2026-01-03', DATE'2026-01-01')", (2,)),
        (r"SELECT '%RETRY%g' LIKE '\%RETRY\%%', '%DLQ%g' LIKE '\%RETRY\%%', 'a_b' LIKE 'a\\_b'", (True, False, True)),
        (
            "SELECT CAST(a / 60 AS INT), CAST(-a / 60 AS BIGINT) FROM VALUES (119) AS t(a) GROUP BY CAST(a / 60 AS INT), a",
            (1, -1),
        ),
        ("SELECT CAST(9007199254740993 AS BIGINT), CAST('7' AS INT), CAST(true AS INT)", (9007199254740993, 7, 1)),
        ("SELECT dayofweek(a), weekday(a), date_part('dow', a) FROM VALUES (DATE'2026-05-20') AS t(a)", (4, 2, 4)),
        (
            "SELECT datediff(SECOND, TIMESTAMP'2026-01-01 00:00:00.9', TIMESTAMP'2026-01-01 00:00:02')",
            (1,),
        ),
        ("SELECT format_string('%.1f', 4.5D)", ("4.5",)),
        ("SELECT hour(to_utc_timestamp(TIMESTAMP'2026-01-01 02:00:00', 'Asia/Shanghai'))", (18,)),
        (
            "SELECT date_format(TIMESTAMP'2026-01-01 02:03:04.567', \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\")",
            ("2026-01-01T02:03:04.567Z",),
        ),
        ("SELECT concat('a', NULL), 7 / 2, 7 div 2, NULL <=> NULL", (None, 3.5, 3, True)),
        ("SELECT a FROM VALUES (2), (NULL), (1) AS t(a) ORDER BY a LIMIT 1", (None,)),
        (
            "SELECT CAST(date_add(DATE'2026-01-31', 1) AS STRING), date_sub(DATE'2026-01-02', 1) = DATE'2026-01-01'",
            ("2026-02-01", True),
        ),
        ("SELECT hour(TIMESTAMP'2026-01-01 02:00:00+08:00')", (18,)),
    ],
)
def test_duckdb_gives_what_spark_defines(sql: str, expected: tuple[object, ...]) -> None:
    """Where the two differ, and the translator alone would get it wrong or might: quotes, places in lists, NULLs, units."""
    (query,) = duckdb_queries(sql)
    assert connection().execute(query).fetchall() == [expected]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        *(
            (sql, f"no question: {sql.split()[0]}; only SELECT")
            for sql in (
                "DROP TABLE runs",
                "CREATE VIEW v AS SELECT 1",
                "SET x = 1",
                "INSERT INTO t SELECT 1",
                "hm",
                "EXPLAIN SELECT 1",
            )
        ),
        ("SELECT date_format(a, 'ww')", "DuckDB would answer otherwise"),
        ("SELECT b FROM t LATERAL VIEW OUTER explode(a) AS b", "DuckDB would answer otherwise"),
    ],
)
def test_only_questions_are_translated(sql: str, why: str) -> None:
    """Nothing that would change something, or that is no SQL, or would be answered otherwise, reaches DuckDB."""
    with pytest.raises(NotTranslatedError, match=why):
        duckdb_queries(sql)


def test_a_mistake_is_told_without_the_colours_of_a_terminal() -> None:
    """The translator marks the place with escape codes, which are no part of the message."""
    with pytest.raises(NotTranslatedError) as caught:
        duckdb_queries("SELECT (1")
    assert "\x1b" not in str(caught.value)


def test_what_a_question_touches_comes_before_what_is_made_of_it() -> None:
    """`why` needs events and route changes, not the routes; each name comes after those it is made of."""
    made_by = lambda name: asked.statement(name) or ""  # noqa: E731
    found = asked.needed("SELECT * FROM WHY('T', now())", asked.names(), made_by)
    assert found[-1] == "why"
    assert {"events", "registrations", "route_changes", "event_outcomes"} <= set(found)
    assert not {"routes_at", "orphaned_topics", "findings"} & set(found)
    for place, name in enumerate(found):
        words = set(re.findall(r"\w+", made_by(name).lower())) & asked.names() - {name}
        assert words <= set(found[:place]), name
