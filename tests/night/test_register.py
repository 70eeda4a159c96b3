"""Views and functions in a metastore: Spark's own Thrift server on it, which knows nothing of ours, answers as `ask` does."""

from __future__ import annotations

import csv
import io
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from jobs.ask.engine import Answers
from jobs.session import ASKING
from schemas.dialect import duckdb_queries
from schemas.table import Table
from schemas.views import stored_tables
from tests.conftest import INTERPRETED
from tests.night.nights import Capture
from tests.night.pages import shell
from tests.places import CHECKOUT

_SECONDS = 900
_AT = "TIMESTAMP'2026-11-21 09:00:00'"
_ASKED = (
    "SELECT count(*) AS rows FROM heartbeats",
    "SELECT code, subject, severity FROM findings ORDER BY code, subject, severity",
    f"SELECT broker_name, perm FROM route_at('TopicA', {_AT}) ORDER BY broker_name",
)
_NAMES = ("'; DROP VIEW findings; --", 'a"b`c', "\u202e\u200b", "\x1b[31m", "=HYPERLINK(1)", "x" * 10_000)


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
        command, cwd=folder, env=shell(), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"Registered +\d\d views and functions of .* in database rocketmq", done.stdout)
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            ["bash", "-euc", serving.rstrip().replace('\n"$SPARK_HOME', '\nexec "$SPARK_HOME')],
            cwd=folder,
            env=shell(),
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


def beeline(port: int, *statements: str) -> subprocess.CompletedProcess[str]:
    """Run statements in one session of beeline, planned as `sql` plans what is small; it goes on behind a mistake."""
    asked = [argument for statement in statements for argument in ("-e", statement)]
    settings = ";".join(f"{name}={value}" for name, value in {**ASKING, **INTERPRETED}.items())
    url = f"jdbc:hive2://127.0.0.1:{port}/rocketmq?{settings}"
    options = ["--outputformat=csv2", "--force=true", "--silent=true", "--nullemptystring=false"]
    command = [f"{os.environ['SPARK_HOME']}/bin/beeline", "-u", url, *options, *asked]
    environment = {**os.environ, "SPARK_BEELINE_OPTS": shell()["SPARK_SUBMIT_OPTS"]}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)


def _is_there(whole: Capture, table: Table) -> bool:
    return (whole.path / table.layer / table.name).is_dir()


@pytest.mark.slow
@pytest.mark.jvm
def test_beeline_is_answered_what_ask_is_answered(whole: Capture, port: int) -> None:
    """Functions at an instant, and how many rows a table of each form has: every value is equal. Any name is a value.

    Quotes, comments, semicolons, control characters and ten thousand characters: no such topic, and nothing else. An instant
    outside of what is recorded, and a session whose instants would be another zone's, are errors that JDBC shows. Saved
    queries: `test_engines`, in a session of Spark's.
    """
    # One of each way of partitioning, there or not: all views of stored tables are made alike.
    forms = {(table.partition_by, _is_there(whole, table)): name for name, table in stored_tables().items()}
    assert len(forms) > 3
    counted = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS rows FROM {name}" for name in forms.values())
    exact = [*_ASKED, f"SELECT * FROM ({counted}) ORDER BY name"]
    quoted = [name.replace("\\", "\\\\").replace("'", "\\'").replace(";", "\\u003b") for name in _NAMES]
    unknown = [
        f"SELECT count(*) FROM route_at('{quoted[0]}', {_AT})",
        "SELECT count(*) FROM findings WHERE subject IN ({})".format(", ".join(f"'{name}'" for name in quoted)),
    ]
    done = beeline(
        port,
        *(part for statement in [*exact, *unknown] for part in (statement, "SELECT 'next' AS marker")),
        "SHOW VIEWS",
        "SELECT * FROM route_at('TopicA', TIMESTAMP'2027-01-01 00:00:00')",
        "SET spark.sql.session.timeZone=Asia/Shanghai",
        f"SELECT * FROM route_at('TopicA', {_AT})",
    )
    # Prompts are no answers, and headers are left out; behind each answer a marker was asked for.
    *parts, views = re.sub(r"^(\d+: jdbc:hive2://\S+> ?)+", "", done.stdout, flags=re.MULTILINE).split("marker\nnext\n")
    found = [list(csv.reader(io.StringIO(part)))[1:] for part in parts]
    assert found[len(exact) :] == [[["0"]]] * len(unknown), done.stdout
    answers = Answers(str(whole.path))
    for statement, rows in zip(exact, found, strict=False):
        (translated,) = duckdb_queries(statement)
        told = answers.ask(translated).rows
        assert rows == [["NULL" if cell is None else str(cell) for cell in row] for row in told], done.stderr
    assert "findings" in views
    assert done.stderr.count("Error: ") == 2, done.stderr
    assert "nothing is recorded at 2027-01-01 00:00:00 UTC; recorded: 127.0.0.1:9876 from 2026-11-21T" in done.stderr
    assert "instants are UTC here; this session has another zone" in done.stderr
