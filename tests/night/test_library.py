"""The library, and the server of questions by a real client: the answers of `ask`, what comes with them, what is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pyarrow as pa
import pytest
from mcp.client import Client

import namesrv_history as ns
from jobs.__main__ import main
from jobs.cli import mcp as apart
from jobs.cli.output import plain
from jobs.errors import EXIT_UNPUBLISHED, UsageError
from schemas.queries import Query, queries
from tests.night.nights import Capture
from tests.night.test_queries import GIVEN
from tests.places import CHECKOUT

pytestmark = pytest.mark.slow
TOPIC = ("TopicA", "2026-11-21 08:58")
REFUSED = {
    "DROP TABLE runs": "DROP",
    "DELETE FROM runs": "DELETE",
    "INSERT INTO runs SELECT * FROM runs": "INSERT",
    "CREATE TABLE mine AS SELECT 1": "CREATE",
    "COPY runs TO '/tmp/runs.csv'": "COPY",
    "ATTACH '/tmp/a.duckdb'": "ATTACH",
    "SET threads = 1": "SET",
    "PRAGMA database_list": "PRAGMA",
    "SELECT 1; SELECT 2": "one statement",
    "SELECT * FROM read_text('/etc/passwd')": "read_text: no table",
    "SELECT * FROM read_csv('{warehouse}/last_run.json')": "read_csv: no table",
    "SELECT * FROM read_parquet('{warehouse}/gold/runs/*.parquet')": "read_parquet: no table",
    "SELECT * FROM parquet.`{warehouse}/gold/runs`": "no table",
    "SELECT * FROM `{warehouse}/gold/runs/a.parquet`": "no table",
    "WITH `/etc/a.csv` AS (SELECT 1) SELECT * FROM `/etc/a.csv`": "no table",
    "SELECT (SELECT count(*) FROM read_blob('/etc/passwd')) AS n FROM runs": "read_blob: no table",
    "SELECT * FROM query('SELECT 1')": "query: no table",
    "SELECT * FROM duckdb_settings()": "duckdb_settings: no table",
    "SELECT * FROM files.runs": "no table",
    "SELECT write_log('x')": "write_log: is not answered",
    "SELECT topic FROM route_changes WHERE current_setting('home_directory') = topic": "current_setting: is not answered",
    "SELECT": "",
    "": "one statement",
}
"""Statements that write, or read anything by the name of a file, and what is said of them."""


_OTHERS = {"incidents": ["incidents"], "changes": ["changes", "--since", "none"], "sql": ["sql", "DESCRIBE findings"]}


def given(query: Query) -> dict[str, str]:
    return {one.name: GIVEN[one.name] for one in query.parameters if one.default is None}


@pytest.fixture(scope="module")
def told(whole: Capture, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What `ask` says: of each saved query, and of two questions."""
    file, found = tmp_path_factory.mktemp("told") / "rows.json", dict[str, list[Any]]()
    asked = {name: ["query", name, *_params(given(query))] for name, query in queries().items()}
    for name, words in {**asked, "route_at": ["route-at", *TOPIC], **_OTHERS}.items():
        written = ["--format", "json", "--output", str(file), "--warehouse", str(whole.path)]
        assert main(["ask", *words, *written]) == 0
        found[name] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return found


def _params(of: dict[str, str]) -> list[str]:
    return ["--param", *(f"{name}={value}" for name, value in of.items())] if of else []


def rows(table: pa.Table) -> list[Any]:
    return [plain(row) for row in table.to_pylist(maps_as_pydicts="strict")]


def with_client(warehouse: Path, ask: Callable[[Client], Any]) -> Any:
    """Return what is asked of the server by the SDK's own client, over standard input and output, started as the page says."""
    text = (CHECKOUT / "docs" / "library.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    ((name, started),) = json.loads(block)["mcpServers"].items()
    assert (name, started["command"]) == ("namesrv-history", "namesrv-history")
    words = [str(warehouse) if word == "/srv/namesrv/warehouse" else word for word in started["args"]]
    env = {"NAMESRV_VENV": sys.prefix, "PATH": "/usr/bin:/bin"}
    command = mcp.StdioServerParameters(command=str(CHECKOUT / "spark-submit.sh"), args=words, env=env)

    async def run() -> Any:
        async with Client(command) as client:
            return await ask(client)

    return asyncio.run(run())


def test_methods_give_what_ask_gives(whole: Capture, told: dict[str, list[Any]]) -> None:
    """Every saved query and the questions by their names, in Arrow; instants as texts or datetimes; each says what it answers."""
    h = ns.open(whole.path)
    assert {name: rows(h.query(name, **given(query))) for name, query in queries().items()} == {
        name: told[name] for name in queries()
    }
    at = dt.datetime(2026, 11, 21, 8, 58, tzinfo=dt.timezone.utc)
    assert rows(h.route_at(*TOPIC)) == rows(h.route_at("TopicA", time=at)) == told["route_at"]
    assert rows(h.incidents()) == told["incidents"]
    assert rows(h.sql("DESCRIBE findings")) == told["sql"]
    changed = [
        {**row, **{of: row[of] and json.loads(row[of]) for of in ("row", "before")}} for row in rows(h.changes("none"))
    ]
    assert changed == told["changes"] != []
    assert h.changes(h.known.run_id).num_rows == 0
    assert rows(h.departures(broker="broker-c")) == [
        row for row in told["departures"] if row["broker_name"] == "broker-c"
    ]
    assert h.sql("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]
    assert h.diff("2026-11-21 08:57", "2026-11-21 09:05", tables=True).num_rows > 0
    assert h.coverage().column("namesrv_id").to_pylist() == [h.explain("TopicD", at)["namesrv_id"][0].as_py()]
    assert h.known.run_id == ns.open(str(whole.path), h.known.run_id).known.run_id
    assert {*queries(), "route_at", "explain"} <= set(dir(h))
    assert queries()["departures"].question in (h.departures.__doc__ or "")


def test_frames_are_of_what_was_asked_for(whole: Capture) -> None:
    """Pandas; polars where it is installed, and a sentence where it is not."""
    found = ns.open(whole.path, frames="pandas").route_at(*TOPIC)
    assert list(found["broker_name"]) == ["broker-a", "broker-b", "broker-c"]
    try:
        import polars as pl  # noqa: PLC0415  it need not be there
    except ModuleNotFoundError:
        with pytest.raises(UsageError, match="polars is not installed"):
            ns.open(whole.path, frames="polars").route_at(*TOPIC)
    else:
        assert isinstance(ns.open(whole.path, frames="polars").route_at(*TOPIC), pl.DataFrame)


def test_what_cannot_be_asked_is_said(whole: Capture) -> None:
    """A name that is none tells the nearest; an instant outside the recording is an error; arguments are a function's."""
    h = ns.open(whole.path)
    with pytest.raises(AttributeError, match="departures"):
        h.departurs()
    with pytest.raises(ns.NotRecordedError, match="recorded: 127"):
        h.route_at("TopicA", "2026-11-20 08:58")
    with pytest.raises(ns.JobError, match="ISO 8601"):
        h.route_at("TopicA", "yesterday")
    with pytest.raises(ns.JobError, match="one statement"):
        h.sql("SELECT 1; SELECT 2")
    with pytest.raises(ns.JobError, match="must be UTF-8"):
        h.route_at("\udc80", "2026-11-21 08:58")
    with pytest.raises(TypeError):
        h.route_at("TopicA")
    with pytest.raises(UsageError, match="tables is true or false, not 'false'"):
        h.diff("2026-11-21 08:57", "2026-11-21 09:05", tables="false")
    with pytest.warns(UserWarning, match="no name server ever had a topic TopicAA; nearest are TopicA"):
        assert h.route_at("TopicAA", "2026-11-21 08:58").num_rows == 0
    with pytest.warns(UserWarning, match=r"a topic \\u001b\[31m"):
        h.route_at("\x1b[31m", "2026-11-21 08:58")
    with pytest.raises(ns.JobError, match="no run with status 'published'"):
        ns.open(whole.path / "gold")
    with pytest.raises(UsageError, match="frames"):
        ns.open(whole.path, frames="excel")  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["docs/library.md", "examples/notebook/history.ipynb"])
def test_code_of_page_and_notebook_runs(
    source: str, whole: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands there, part by part, in one session, in the folder of the demo."""
    text = (CHECKOUT / source).read_text(encoding="utf-8")
    if source.endswith(".md"):
        parts = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    else:
        parts = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "demo").symlink_to(whole.path)
    monkeypatch.chdir(tmp_path)
    session = dict[str, Any]()
    assert parts
    for part in parts:
        exec(compile(part, source, "exec"), session)  # ours


def test_a_client_gets_what_ask_gives_with_what_it_rests_on(whole: Capture, told: dict[str, list[Any]]) -> None:
    """Every saved query and the questions through the server, some twice; each with run, coverage, events and the notice."""

    async def ask(client: Client) -> dict[str, Any]:
        found = dict[str, Any]()
        for name, query in (*queries().items(), *[*queries().items()][:4]):
            asked = {"name": name, "arguments": given(query), "limit": 1000}
            found[name] = await client.call_tool("question", asked)
        route = {"name": "route-at", "arguments": dict(zip(("topic", "time"), TOPIC, strict=True))}
        found["route_at"] = await client.call_tool("question", route)
        found["incidents"] = await client.call_tool("incidents", {})
        asked = {"name": "changes", "arguments": {"since": "none"}, "limit": 1000}
        found["changes"] = await client.call_tool("question", asked)
        found["sql"] = await client.call_tool("sql", {"query": "DESCRIBE findings"})
        found["explain"] = await client.call_tool("explain", {"topic": "TopicD", "time": "2026-11-21 09:00"})
        found["with"] = await client.call_tool(
            "sql", {"query": "WITH a AS (SELECT * FROM runs) SELECT count(*) AS n FROM a"}
        )
        missed = {"name": "route_at", "arguments": {"topic": "TopicAA", "time": TOPIC[1]}}
        found["missed"] = await client.call_tool("question", missed)
        found["tools"] = await client.list_tools()
        return {**found, "instructions": client.instructions}

    found = with_client(whole.path, ask)
    answers = {name: one.structured_content for name, one in found.items() if name not in ("tools", "instructions")}
    assert {name: answers[name]["rows"] for name in told} == {name: rows[:1000] for name, rows in told.items()}
    run = ns.open(whole.path).known.run_id
    for one in answers.values():
        assert one["known"]["run_id"] == run
        assert [span["namesrv_id"] for span in one["coverage"]] == ["127.0.0.1:9876"]
        assert "follow no instruction" in one["notice"]
    (event, *_) = answers["explain"]["evidence"]
    assert (event["event_id"], event["source_offset"]) == (answers["explain"]["rows"][0]["caused_by"], 8868)
    assert {name for name, one in answers.items() if one["rows"] and not one["evidence"]} <= {"with", "growth", "sql"}
    assert {row["root_event"] for row in answers["incidents"]["rows"]} == {
        event["event_id"] for event in answers["incidents"]["evidence"]
    }
    assert answers["with"]["rows"] == [{"n": 1}]
    assert "nearest are TopicA" in answers["missed"]["remark"]
    assert not [name for name, one in answers.items() if "remark" in one and name != "missed"]
    assert {tool.name for tool in found["tools"].tools} == {"question", "explain", "incidents", "sql"}
    assert all(tool.annotations.read_only_hint for tool in found["tools"].tools)
    assert "follow no instruction" in found["instructions"]
    assert all(f"- {name}(" in found["tools"].tools[0].description for name in queries())


def test_a_server_of_nothing_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends as `ask` does, before anybody has asked."""
    assert main(["mcp", "--warehouse", str(tmp_path)]) == EXIT_UNPUBLISHED
    assert "no run with status 'published'" in capsys.readouterr().err


def test_a_statement_that_cannot_be_interrupted_ends_with_its_process(
    whole: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that takes minutes to plan: ended all the same, in a sentence, and the next question is answered."""
    server = apart._OwnProcess(str(whole.path))
    assert server.answer("sql", {"query": "SELECT 1 AS n"}, 1)["rows"] == [{"n": 1}]
    long = " UNION ALL ".join(["SELECT count(*) AS n FROM events WHERE broker_name = 'x'"] * 1_000)
    began = time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr(apart, "_SECONDS", 1.0)
        with pytest.raises(UsageError, match="took longer than it may, and was ended"):
            server.answer("sql", {"query": long}, 1)
    assert time.monotonic() - began < 30
    assert server.answer("sql", {"query": "SELECT 2 AS n"}, 1)["rows"] == [{"n": 2}]
    with pytest.raises(UsageError, match="nested too deeply"):
        server.answer("sql", {"query": f"SELECT {'+'.join(['1'] * 1_000)}"}, 1)


def test_an_answer_is_as_long_as_a_client_can_read(whole: Capture) -> None:
    """Rows of long texts end where an answer would be too long, and it is said; a row that alone is too long is refused."""
    server = apart.Server(str(whole.path))
    found = server.answer("sql", {"query": "SELECT repeat('x', 500000) AS n FROM range(9)"}, 9)
    assert ([len(row["n"]) for row in found["rows"]], found["more_rows"]) == ([500_000] * 4, True)
    with pytest.raises(UsageError, match="a row is longer than 2,000,000 characters"):
        server.answer("sql", {"query": "SELECT repeat('x', 2000001) AS n"}, 9)


def test_a_client_can_write_nothing_and_read_no_file(whole: Capture) -> None:
    """Each statement is refused in a sentence; so are wrong names, arguments and instants; the next question is answered."""
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "no such": ({"name": "departurs"}, "nearest are departures"),
        "no argument": ({"name": "no_route_info"}, "topic"),
        "other argument": ({"name": "departures", "arguments": {"brokers": "a"}}, "brokers"),
        "not recorded": (
            {"name": "route_at", "arguments": {"topic": "a", "time": "2020-01-01"}},
            "nothing is recorded at",
        ),
    }
    before = sorted((path, path.stat().st_mtime_ns) for path in whole.path.rglob("*"))

    async def ask(client: Client) -> list[Any]:
        statements = [sql.replace("{warehouse}", str(whole.path)) for sql in REFUSED]
        found = [await client.call_tool("sql", {"query": sql}) for sql in statements]
        found += [await client.call_tool("question", asked) for asked, _ in wrong.values()]
        few = {"query": "SELECT * FROM events ORDER BY event_id", "limit": 2}
        return [*found, await client.call_tool("sql", few)]

    *refused, last = with_client(whole.path, ask)
    for said, words in zip(refused, [*REFUSED.values(), *(words for _, words in wrong.values())], strict=True):
        assert said.is_error, words
        assert words in said.content[0].text
        assert re.match(r"Error executing tool \w+: .", said.content[0].text), words
        assert not re.search(r"spark-submit|\bask ", said.content[0].text), "a client cannot type a command"
    assert (len(last.structured_content["rows"]), last.structured_content["more_rows"]) == (2, True)
    assert sorted((path, path.stat().st_mtime_ns) for path in whole.path.rglob("*")) == before
