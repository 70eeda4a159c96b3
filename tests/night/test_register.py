"""Views and functions in a metastore: Spark's own Thrift server on it, which knows nothing of ours, answers as `ask` does."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.ask.engine import Answers
from jobs.ask.saved import values_of
from jobs.session import ASKING, BRIEF
from schemas import asked
from schemas.dialect import duckdb_queries
from schemas.queries import Query, queries
from schemas.views import stored_tables
from tests.cli.both import lines
from tests.night.nights import CHECKOUT, Capture
from tests.night.test_queries import given

_SECONDS = 900
_AT = "TIMESTAMP'2026-11-21 09:00:00'"
_ASKED = (
    "SELECT count(*) AS rows FROM heartbeats",
    "SELECT code, subject, severity FROM findings ORDER BY code, subject, severity",
    f"SELECT topic, broker_name, perm FROM topic_queue_table_at({_AT}) ORDER BY topic, broker_name",
    f"SELECT broker_name, perm FROM route_at('TopicA', {_AT}) ORDER BY broker_name",
    f"SELECT topic, event_id FROM (SELECT 'TopicD' AS topic, caused_by AS event_id FROM why('TopicD', {_AT}))",
)
_NAMES = ("'; DROP VIEW findings; --", 'a"b`c', "\u202e\u200b", "\x1b[31m", "=HYPERLINK(1)", "x" * 10_000)
_AS_ASK_DOES = (
    "to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS\\'Z\\''))"
)
"""What makes of Spark's rows the JSON of `ask`, but for instants of whole seconds."""


@pytest.fixture(scope="module")
def port(whole: Capture, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Register the bundled capture's warehouse and keep Spark's own Thrift server open, as docs/sres.md does; give its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("registered")
    (folder / "spark-submit.sh").symlink_to(CHECKOUT / "spark-submit.sh")
    page = (CHECKOUT / "docs" / "sres.md").read_text(encoding="utf-8")
    registering, serving = (
        lines.replace("warehouse/demo", str(whole.path)).replace("/srv", str(folder)).replace("10000", str(number))
        for (lines,) in (
            re.findall(r"^```\n(\./spark-submit\.sh register [^`]*)^```$", page, re.MULTILINE),
            re.findall(r"^```\n(eval [^`]*HiveThriftServer2[^`]*)^```$", page, re.MULTILINE),
        )
    )
    command = ["bash", "-euc", registering]
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"Registered +\d\d views and functions of .* in database rocketmq", done.stdout)
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            ["bash", "-euc", serving.rstrip().replace('\n"$SPARK_HOME', '\nexec "$SPARK_HOME')],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + _SECONDS
        while not _listens(number):
            assert server.poll() is None, log.read_text()[-4_000:]
            assert time.monotonic() < deadline, log.read_text()[-4_000:]
            time.sleep(0.5)
        yield number
    finally:
        server.terminate()
        server.wait(_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _environment() -> dict[str, str]:
    """Return what a user's shell has; a JVM that lasts for a test compiles quickly, not for speed."""
    return {
        **os.environ,
        "NAMESRV_VENV": os.environ["VIRTUAL_ENV"],
        "SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} {BRIEF}",
    }


def beeline(port: int, *statements: str) -> subprocess.CompletedProcess[str]:
    """Run statements in one session of beeline, planned as `sql` plans what is small; it goes on behind a mistake."""
    asked = [argument for statement in statements for argument in ("-e", statement)]
    url = f"jdbc:hive2://127.0.0.1:{port}/rocketmq?{';'.join(f'{name}={value}' for name, value in ASKING.items())}"
    options = ["--outputformat=csv2", "--force=true", "--silent=true", "--nullemptystring=false"]
    command = [f"{os.environ['SPARK_HOME']}/bin/beeline", "-u", url, *options, *asked]
    environment = {**os.environ, "SPARK_BEELINE_OPTS": _environment()["SPARK_SUBMIT_OPTS"]}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)


def answers_in(said: str, statements: int) -> list[list[list[str]]]:
    """Return the rows of the answers, headers left out; behind each a marker was asked for. Prompts are no answers."""
    parts = re.sub(r"^(\d+: jdbc:hive2://\S+> ?)+", "", said, flags=re.MULTILINE).split("marker\nnext\n")
    assert len(parts) == statements + 1, said
    return [list(csv.reader(io.StringIO(part)))[1:] for part in parts[:-1]]


def told(query: Query) -> str:
    """Return a saved query with what it is asked for as literals: the driver binds nothing, and beeline ends at some comments."""
    types = {one.name: one.type for one in query.parameters}
    literals = {name: _literal(value, types[name]) for name, value in values_of(query, given(query)).items()}
    sql = re.sub(r"^ *--.*\n", "", query.sql, flags=re.MULTILINE)
    return re.sub(r"(?<!:):(\w+)", lambda found: literals.get(found[1], found[0]), sql).rstrip().rstrip(";")


def _literal(value: object, of: str) -> str:
    if value is None or isinstance(value, int):
        return f"CAST({'NULL' if value is None else value} AS {of})"
    return f"TIMESTAMP'{value.isoformat()}'" if isinstance(value, dt.datetime) else f"'{value}'"


@pytest.mark.jvm
def test_beeline_is_answered_what_ask_is_answered(whole: Capture, port: int) -> None:
    """Functions at an instant, how many rows each stored table has, and a saved query of each group: every value is equal.

    All saved queries: `test_engines`, in a session of Spark's.
    """
    of_each = {query.group: query for query in queries().values()}.values()
    saved = [(query, f"SELECT hex({_AS_ASK_DOES}) FROM ({told(query)})") for query in of_each]
    counted = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS rows FROM {name}" for name in stored_tables())
    exact = [*_ASKED, f"SELECT * FROM ({counted}) ORDER BY name"]
    found = answered_by(port, [*exact, *(statement for _, statement in saved)])
    answers = Answers(str(whole.path))
    for statement, rows in zip(exact, found[: len(exact)], strict=True):
        assert rows == [["NULL" if cell is None else str(cell) for cell in row] for row in of_ask(answers, statement)]
    for (query, _), rows in zip(saved, found[len(exact) :], strict=True):
        of_duckdb = answers.ask(asked.statement(f"query.{query.name}") or "", **values_of(query, given(query)))
        told_as = (bytes.fromhex(row).decode().replace(".000000Z", "Z") for (row,) in rows)
        assert sorted(json.dumps(json.loads(row), sort_keys=True) for row in told_as) == lines(*of_duckdb), query.name


def answered_by(port: int, statements: list[str]) -> list[list[list[str]]]:
    """Return what beeline is answered to statements, in one session, all without an error."""
    marked = [part for statement in statements for part in (statement.rstrip().rstrip(";"), "SELECT 'next' AS marker")]
    done = beeline(port, *marked)
    assert "Error" not in done.stderr, done.stderr
    return answers_in(done.stdout, len(statements))


def of_ask(answers: Answers, statement: str) -> list[Any]:
    """Return the rows with which DuckDB answers a statement of Spark's."""
    (translated,) = duckdb_queries(statement)
    return list(answers.ask(translated).rows)


@pytest.mark.slow
@pytest.mark.jvm
def test_any_name_is_a_value_and_what_is_not_recorded_an_error_that_jdbc_shows(port: int) -> None:
    """Quotes, comments, semicolons, control characters and ten thousand characters: no such topic, and nothing else.

    An instant outside of what is recorded, and a session whose instants would be another zone's, are errors.
    """
    quoted = [name.replace("\\", "\\\\").replace("'", "\\'").replace(";", "\\u003b") for name in _NAMES]
    statements = [f"SELECT count(*) FROM route_at('{name}', {_AT})" for name in quoted]
    statements += ["SHOW VIEWS", "SELECT * FROM route_at('TopicA', TIMESTAMP'2027-01-01 00:00:00')"]
    statements += ["SET spark.sql.session.timeZone=Asia/Shanghai", f"SELECT * FROM route_at('TopicA', {_AT})"]
    done = beeline(port, *statements)
    assert len(re.findall(r"^(?:\d+: \S+> )*0$", done.stdout, re.MULTILINE)) == len(_NAMES), done.stdout
    assert "findings" in done.stdout
    assert done.stderr.count("Error: ") == 2, done.stderr
    assert "nothing is recorded at 2027-01-01 00:00:00 UTC; recorded is 127.0.0.1:9876 from 2026-11-21T" in done.stderr
    assert "instants are UTC here; this session has another zone" in done.stderr
