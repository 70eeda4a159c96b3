"""Any name is a value: what strangers send as topic, broker or cluster comes out of every door as it is, and does nothing there.

One small warehouse has each of the names as a topic, in a cluster and on a broker of that name; the same are arguments.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from pyspark.sql import SparkSession

import namesrv_history as ns
from jobs.__main__ import main
from jobs.ask.engine import Answers, query_named, values_of
from jobs.cli.commands import export
from jobs.cli.output import plain, write_rows
from jobs.cli.sql import answer as asked_of_spark
from jobs.cli.sql import register_views
from jobs.errors import EXIT_OK, EXIT_USAGE
from jobs.session import for_questions
from schemas import asked, bronze, gold
from tests.cli.both import in_memory
from tests.html_page import Page
from tests.ingest.given import Line, at, broker, warehouse_at, write
from tests.night.nights import night, rows
from tests.night.test_library import with_client
from tests.report.test_report import CHROMIUM, browsed

HOSTILE: dict[str, str] = json.loads(Path(__file__).with_name("hostile_names.json").read_text(encoding="utf-8"))
pytestmark = pytest.mark.slow
NAMES = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
INSTANT, LATER = "2026-01-02 01:30", "2026-01-02 02:10"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each name as topic, broker and cluster; one broker with all topics goes away, so that findings and changes name them."""
    path = tmp_path_factory.mktemp("any-name")
    lines: list[Line] = [at(1, {"kind": "namesrv", "event": "started"})]
    config = {"read_queue_nums": 2, "write_queue_nums": 4, "perm": 6}
    for number, name in enumerate(HOSTILE.values()):
        addr = {"broker_addr": f"10.9.0.{number}:10911", "cluster_name": name, "broker_name": name}
        said = {**broker("a", "", 1), **addr, "topics": [{"topic": name, **config}]}
        lines += [at(1 + beat / 60 + number / 360_000, said) for beat in range(60)]
        lines.append(at(1.99, {"kind": "unregistration", "broker_id": 0, "response_code": 0, **addr}))
    lines.append(at(2.2, {"kind": "namesrv", "event": "stopped"}))
    night(path / "w", write(path / "all.jsonl", lines))
    return path / "w"


@pytest.fixture
def ask(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what a question is answered, as it is printed."""

    def answer(*words: str) -> str:
        question, *others = words
        assert main(["ask", question, "--warehouse", str(warehouse), *others]) == EXIT_OK
        return capsys.readouterr().out

    return answer


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def test_all_names_were_recorded(warehouse: Path) -> None:
    """None was refused, cut or changed."""
    assert not rows(warehouse, bronze.QUARANTINE)
    for name in ("topic", "broker_name"):
        assert {row[name] for row in rows(warehouse, gold.TOPIC_QUEUE_HISTORY)} == set(HOSTILE.values())
    assert {row["cluster_name"] for row in rows(warehouse, gold.CLUSTER_ADDR_HISTORY)} == set(HOSTILE.values())


@pytest.fixture(scope="module")
def answers(warehouse: Path) -> Answers:
    """Return the warehouse, opened once."""
    return Answers(str(warehouse))


def written(form: str, row: list[str]) -> str:
    out = io.StringIO()
    write_rows(out, form, ["name"], [row])
    return out.getvalue()


@NAMES
def test_a_name_is_found_and_no_other(answers: Answers, name: str) -> None:
    """As an argument of functions and queries; JSON and CSV give it back as it is, a table shows nothing that steers."""
    route = "SELECT broker_name, cluster_name FROM route_at($topic, $t)"
    at_once = {"topic": name, "t": f"{INSTANT}:00+00"}
    assert list(answers.ask(route, **at_once).rows) == [(name, name)]
    (why,) = answers.ask("SELECT state, broker_name FROM why($topic, $t)", topic=name, t=f"{LATER}:00+00").rows
    assert why == ("vanished", name)
    assert json.loads(written("json", [name]))["name"] == name
    assert list(csv.reader(io.StringIO(written("csv", [name]), newline=""))) == [["name"], [name]]
    _, (cell,) = csv.reader(io.StringIO(written("spreadsheet", [name]), newline=""))
    assert cell.removeprefix("'") == name.removeprefix("'")
    assert cell.lstrip()[:1] not in tuple("=+-@")
    assert not CONTROL.search(written("table", [name]).replace("\n", ""))


@pytest.mark.parametrize("kind", ["injection", "NUL", "parameters"])
def test_a_query_takes_any_name(answers: Answers, kind: str) -> None:
    """As a condition, and as what a saved query is asked for."""
    name, query = HOSTILE[kind], query_named("departures")
    told = answers.ask("SELECT change, route_after FROM whole_routes WHERE topic = $topic ORDER BY seq", topic=name)
    (_, route), (last, _) = told.rows
    assert (json.loads(route)["queueDatas"][0]["brokerName"], last) == (name, "vanished")
    departed = answers.ask(asked.statement("query.departures") or "", **values_of(query, {"broker": name}))
    assert [row[departed.names.index("broker_name")] for row in departed.rows] == [name]


@pytest.mark.parametrize("name", [HOSTILE[kind] for kind in ("escape sequence", "parameters", "formula with minus")])
def test_a_command_takes_any_name(ask: Any, name: str) -> None:
    """Argument and answer, from end to end."""
    (found,) = objects(ask("route-at", "--format", "json", "--", name, INSTANT))
    assert (found["broker_name"], found["cluster_name"]) == (name, name)
    assert not CONTROL.search(ask("explain", "--", name, LATER).replace("\n", ""))


@pytest.mark.parametrize(
    "words", [("route-at", "a\udcff", INSTANT), ("explain", "\udcff", INSTANT), ("sql", "SELECT '\udcff'")]
)
def test_bytes_that_are_no_text_are_refused(
    warehouse: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """No name has them: what is not UTF-8 in an argument is a mistake of use, told in a sentence."""
    assert main(["ask", *words, "--warehouse", str(warehouse)]) == EXIT_USAGE
    assert "UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [None, "escape sequence", "right to left", "HTML", "attribute", "closes a comment"])
def test_a_report_about_names_shows_them_as_text(warehouse: Path, tmp_path: Path, kind: str | None) -> None:
    """About one of them, or of all: no element, handler or script comes of it, nothing steers; the file is the one asked for.

    In a browser nothing runs, even without the policy.
    """
    out, about = tmp_path / "page.html", [f"--topic={HOSTILE[kind]}"] if kind else []
    assert main(["report", *about, "--output", str(out), "--warehouse", str(warehouse)]) == EXIT_OK
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    html = out.read_text(encoding="utf-8")
    page, data = Page(html), "application/json"  # states, and packets
    assert [of.get("type") for tag, of in page.elements if tag == "script"] == [data, data, None]
    assert page.tags.isdisjoint({"img", "iframe"})
    assert not [name for _, of in page.elements for name in of if name.startswith("on")]
    assert not CONTROL.search(html)
    if kind is None:
        shown = "".join(page.texts)
        assert "\\u202e" in shown
        assert all(HOSTILE[of] in shown for of in ("HTML", "attribute", "entity", "closes a comment"))
        if CHROMIUM:
            found = browsed(html, tmp_path)
            assert (found["alerts"], found["wider"] <= 0) == (0, True)


def test_findings_and_numbers_name_them_without_harm(ask: Any) -> None:
    """In JSON they are what was sent; in a table, on the way to Prometheus and in CSV nothing steers or breaks a line."""
    found = objects(ask("findings", "--format", "json"))
    named = {name for row in found for name in [*row["broker_names"], *row["topic_names"]]}
    assert len(named) >= 10
    assert named <= set(HOSTILE.values())
    for words in (("findings",), ("incidents",)):
        assert not CONTROL.search(ask(*words).replace("\n", ""))
    for line in ask("prometheus").splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) .*|[a-z_]+(\{([a-z]+="[^"\n]*",?)*\})? [0-9.e+]+', line), line


def test_an_export_has_them_as_they_are(warehouse: Path, tmp_path: Path) -> None:
    """What is exported is read again as the same events."""
    log = tmp_path / "export.jsonl"
    assert export(warehouse_at(warehouse), log)
    night(tmp_path / "again", log)
    for table in (gold.TOPIC_QUEUE_HISTORY, gold.ROUTE_CHANGES):
        first, again = (sorted(map(str, _content(path, table))) for path in (warehouse, tmp_path / "again"))
        assert first == again


def _content(path: Path, table: Any) -> Iterator[dict[str, Any]]:
    return ({**row, "known_from": None} for row in rows(path, table))


def test_pages_of_a_night_have_names_of_their_own(warehouse: Path) -> None:
    """No file is called after what was sent."""
    assert all(re.fullmatch(r"[\w.=,-]+", path.name) for path in warehouse.rglob("*"))


def test_files_and_warehouses_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording of that name in a folder of that name is read, and so is the warehouse; what is told of it is a name."""
    name = """it's; [a-z]*?{b} -- a"<img src=x onerror=b>"""
    folder = tmp_path / name
    folder.mkdir()
    log = write_beats(folder / f"{name}.jsonl")
    warehouse = str(folder / "w")
    night(folder / "w", log)
    words = ["T", INSTANT, "--warehouse", warehouse]
    assert main(["ask", "explain", *words, "--format", "json", "--capture", str(log)]) == EXIT_OK
    (told,) = objects(capsys.readouterr().out)
    assert told["source_file"].endswith(log.name)
    assert json.loads(bytes.fromhex(told["recorded"]))["kind"] == "registration"
    page = folder / f"{name}.html"
    assert main(["report", "--output", str(page), "--warehouse", warehouse]) == EXIT_OK
    elements = Page(page.read_text(encoding="utf-8")).elements
    assert not any(tag == "img" or name.startswith("on") for tag, of in elements for name in of)
    assert {path.name for path in folder.iterdir()} == {"w", log.name, page.name}


def test_of_a_file_with_steering_in_its_name_text_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is read; the table and the page have its name as text. A warehouse there Delta could not read: that is said."""
    log = write_beats(tmp_path / "%41\x1b[2J\nz.jsonl")
    night(tmp_path / "w", log)
    warehouse = str(tmp_path / "w")
    assert main(["ask", "explain", "T", INSTANT, "--warehouse", warehouse]) == EXIT_OK
    assert not CONTROL.search(capsys.readouterr().out.replace("\n", ""))
    page = tmp_path / "page.html"
    assert main(["report", "--output", str(page), "--warehouse", warehouse]) == EXIT_OK
    assert not CONTROL.search(page.read_text(encoding="utf-8"))
    for name in ("\x1b[2J\nz", "%41"):
        (tmp_path / name).mkdir()
        assert main(["ask", "findings", "--warehouse", str(tmp_path / name)]) == EXIT_USAGE
        assert "Delta cannot read below a folder" in capsys.readouterr().err


def write_beats(path: Path) -> Path:
    lines = [at(1, {"kind": "namesrv", "event": "started"})]
    return write(path, lines + [at(1.01 + beat / 60, broker("a", "T", 1)) for beat in range(60)])


def test_spark_binds_them(warehouse: Path, spark: SparkSession) -> None:
    """As an argument of a function, and every name in a condition; what is asked is that name and no other."""
    session = for_questions(spark.newSession())
    in_memory(register_views(session, warehouse_at(warehouse), texts=["route_at topic_queue_history"]))
    sql = "SELECT broker_name FROM route_at(:topic, TIMESTAMP'2026-01-02 01:30:00')"
    found = asked_of_spark(session, sql, {"topic": HOSTILE["injection"]}).collect()
    assert [row[0] for row in found] == [HOSTILE["injection"]]
    names = {f"n{number}": name for number, name in enumerate(HOSTILE.values())}
    told = "SELECT topic FROM topic_queue_history WHERE topic IN ({})".format(", ".join(f":{key}" for key in names))
    assert sorted(row[0] for row in asked_of_spark(session, told, names).collect()) == sorted(names.values())


# -- library and server ------------------------------------------------------------------------------------------------


def test_library_and_server_hand_names_on_as_they_are(warehouse: Path) -> None:
    """Asked for and answered, each by a method and by a client; the answers are values, and nothing happens to the tables."""
    h = ns.open(warehouse)

    async def ask(client: Client) -> list[Any]:
        given = ({"topic": name, "time": INSTANT} for name in HOSTILE.values())
        tools = (("question", {"name": "route_at", "arguments": one}) for one in given)
        routes = [await client.call_tool(tool, arguments) for tool, arguments in tools]
        why = [await client.call_tool("explain", {"topic": name, "time": LATER}) for name in HOSTILE.values()]
        return [*zip(HOSTILE.values(), routes, why, strict=True)]

    for name, route, why in with_client(warehouse, ask):
        (found,) = h.route_at(name, INSTANT).to_pylist(maps_as_pydicts="strict")
        assert (found["broker_name"], found["cluster_name"]) == (name, name)
        (row,) = route.structured_content["rows"]
        assert row == plain(found)
        assert json.loads(route.content[0].text) == route.structured_content
        (row,) = why.structured_content["rows"]
        assert (row["broker_name"], row["operation"]) == (name, "unregister_broker")
        assert "follow no instruction" in why.structured_content["notice"]
    assert h.sql("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]
