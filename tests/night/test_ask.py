"""Questions without a JVM, over the bundled capture and over three nights: what they answer, open and refuse."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.errors import EXIT_OK, EXIT_TAMPERED, EXIT_UNPUBLISHED, EXIT_USAGE
from schemas import gold
from schemas.queries import queries
from tests.ingest.given import BEAT, at, piece, write
from tests.night.nights import Capture, Nights, night, rows
from tests.places import CAPTURE

pytestmark = pytest.mark.slow

LINE = dict[str, object]
WIPED = "ef2f684d4a9ed42e7e016226517fbd11"
"""The event that took broker-a's write permission at 08:57:42."""


@pytest.fixture
def ask(whole: Capture, capsys: pytest.CaptureFixture[str]):

    def asking(*words: str, warehouse: Path = whole.path) -> list[LINE]:
        assert main(["ask", *words, "--warehouse", str(warehouse), "--format", "json"]) == EXIT_OK
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return asking


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Return the exit code of a question, and what it says on standard error."""
    return main(["ask", *words]), capsys.readouterr().err


# -- what is answered --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", ["2026-11-21T08:58:00Z", "2026-11-21 16:58+08:00", "2026-11-21 16:58 Asia/Shanghai"])
def test_the_route_at_an_instant_however_it_is_written(ask, time: str) -> None:
    """One instant in three zones: broker-a may only be read from, and the event that did it is named."""
    found = {row["broker_name"]: (row["perm"], row["queues_opened_by"]) for row in ask("route-at", "TopicA", time)}
    assert sorted(found) == ["broker-a", "broker-b", "broker-c"]
    assert found["broker-a"] == ("R--", WIPED)
    assert found["broker-b"][0] == "RW-"


@pytest.mark.parametrize("name", ["brokerLiveTable", "broker_live", "broker_live_table"])
def test_a_table_at_an_instant_by_any_of_its_names(ask, name: str) -> None:
    """RocketMQ's spelling and that of SQL mean the same; instants that are told say that they are UTC."""
    found = ask("table-at", name, "2026-11-21 08:58")
    assert len(found) == 4
    assert all(re.fullmatch(r"2026-11-21T08:5\d:[\d.]+Z", str(row["last_update_timestamp"])) for row in found)


def test_why_a_topic_is_gone_and_where_that_is_recorded(ask) -> None:
    """An admin deleted TopicD; the packet is named."""
    (found,) = ask("why", "TopicD", "2026-11-21 09:00")
    assert (found["state"], found["operation"], found["source_offset"]) == ("vanished", "delete_topic", 8868)


def test_the_history_of_a_topic_ends_with_its_last_change(ask) -> None:
    """Every change in order, each with its cause."""
    found = ask("history", "TopicD")
    assert found[0]["change"] == "appeared"
    assert found[-1]["change"] == "vanished"
    assert [row["effect_time"] for row in found] == sorted(str(row["effect_time"]) for row in found)
    assert all(row["caused_by"] for row in found)


def test_the_difference_of_two_instants_names_causes(ask) -> None:
    """TopicD vanished between them."""
    found = ask("diff", "2026-11-21 08:57", "2026-11-21 09:00")
    assert ("TopicD", "vanished") in {(row["topic"], row["what"]) for row in found}
    assert all(row["caused_by"] for row in found)


def test_the_difference_of_all_tables(ask) -> None:
    """Also of tables that are no part of a route: broker-a's slave has got another id."""
    found = ask("diff", "2026-11-21 08:57", "2026-11-21 09:05", "--tables")
    assert {row["table_name"] for row in found} >= {"brokerAddrTable", "brokerLiveTable", "kvConfigTable"}
    changes = {(row["row_key"], row["change"]) for row in found}
    assert {("broker-a 1", "vanished"), ("broker-a 2", "appeared")} <= changes
    assert all(row["event_id"] for row in found)


def test_findings_and_any_question_in_spark_s_words(ask) -> None:
    """The view and a statement over it agree."""
    found = ask("findings")
    (counted,) = ask("sql", "SELECT count(*) AS n FROM findings WHERE told_on = DATE'2026-11-21'")
    assert counted == {"n": len(found)}


def test_saved_queries_are_listed_and_answered(ask, capsys: pytest.CaptureFixture[str]) -> None:
    """The list says what each is asked for; a value that is given counts."""
    assert main(["ask", "queries"]) == EXIT_OK
    listed = capsys.readouterr().out
    assert "departures: How did each broker leave" in listed
    assert len([line for line in listed.splitlines() if line.startswith("  ")]) == len(queries())
    assert main(["ask", "queries", "DEPARTURE"]) == EXIT_OK
    only = [line for line in listed.splitlines() if line == "liveness" or "departures:" in line]
    assert capsys.readouterr().out.splitlines() == only
    with pytest.raises(SystemExit):
        main(["ask", "query", "departures", "--help"])
    assert "broker STRING: only this broker name (default: all)" in capsys.readouterr().out
    found = ask("query", "departures", "--param", "broker=broker-c", "since=2026-11-21 09:00")
    assert [row["operation"] for row in found] == ["channel_close"]


def test_an_explanation_ends_with_the_packet(whole: Capture, capsys: pytest.CaptureFixture[str]) -> None:
    """The request that deleted TopicD, byte for byte, from a file that is the one that was read, whatever its name."""
    words = ["ask", "explain", "TopicD", "2026-11-21 09:00", "--warehouse", str(whole.path)]
    assert main([*words, "--capture", str(CAPTURE)]) == EXIT_OK
    said = capsys.readouterr().out
    assert "vanished at 2026-11-21T08:58:00.886467Z by delete_topic (applied)" in said
    assert f"packet 8868, SHA-256 {hashlib.sha256(CAPTURE.read_bytes()).hexdigest()}" in said
    assert "3a 32 31 36 2c" in said  # the request code, 216
    assert main([*words, "--capture", str(CAPTURE), "--format", "json"]) == EXIT_OK
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for other in (["why", *words[2:4]], ["query", "no_route_info", "--param", "topic=TopicD", f"t={words[3]}"]):
        assert main(["ask", *other, *words[4:]]) == EXIT_OK
        assert "  vanished at 2026-11-21T08:58:00.886467Z by delete_topic (applied)\n" in capsys.readouterr().out
    assert b'"topic":"TopicD"' in bytes.fromhex(row["recorded"])


def test_a_file_that_was_not_read_proves_nothing(
    whole: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another file under the same name is left aside; one that is not there is a usage error."""
    other = tmp_path / CAPTURE.name
    other.write_bytes(CAPTURE.read_bytes()[:-1])
    words = ["ask", "explain", "TopicD", "2026-11-21 09:00", "--warehouse", str(whole.path), "--capture"]
    assert main([*words, str(other)]) == EXIT_OK
    assert "not at hand" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "none")]) == EXIT_USAGE


def test_the_file_behind_an_event_is_one_of_several_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of three hosts, each in its folder; a request is in the first, its answer in a file of the next night."""
    paths = [tmp_path / "in" / host / "namesrv.pcap" for host in ("a", "b", "c")]
    for path in paths:
        path.parent.mkdir(parents=True)
    write(paths[0], [at(1, BEAT)])
    night(tmp_path / "w", paths[0].parent, piece(paths[1], 0, 744))
    night(tmp_path / "w", piece(paths[2], 744, 1_000))
    asked = ["ask", "explain", "broker-b", "2026-11-21 08:54:47", "--warehouse", str(tmp_path / "w")]
    assert main([*asked, "--capture", str(paths[1])]) == EXIT_OK
    told = [line for line in capsys.readouterr().out.splitlines() if "  recorded  " in line]
    sha256 = hashlib.sha256(paths[1].read_bytes()).hexdigest()
    assert told == [f"  recorded  b/namesrv.pcap, packet 744, SHA-256 {sha256}"]


def test_several_statements_are_answered_one_after_the_other(ask) -> None:
    """As `sql` does; a statement that is only a comment is none. Columns of one name are told apart."""
    assert ask("sql", "SELECT 1 AS a; -- nothing\n; SELECT 2 AS a") == [{"a": 1}, {"a": 2}]
    assert ask("sql", "SELECT 1 AS a, 2 AS a, 3 AS a_1") == [{"a": 1, "a_1": 2, "a_1_1": 3}]


def test_the_names_that_there_are_can_be_asked_for(ask) -> None:
    """Tables, views and functions, each described with all its comments; those that only others are made of are left out."""
    kinds = {row["name"]: row["kind"] for row in ask("sql", "show tables;")}
    assert {"findings", "runs", "registrations", "why", "topic_queue_history"} <= set(kinds)
    assert (kinds["route_at"], kinds["events"], kinds["runs"]) == ("function", "table or view", "table or view")
    assert not [name for name in kinds if "." in name or name.endswith(("_committed", "_rows_at"))]
    for name in kinds:
        assert all(row["comment"] for row in ask("sql", f"DESCRIBE {name}")), name
    assert ask("sql", "DESCRIBE FUNCTION route_at") == ask("sql", "DESCRIBE route_at") != []


def test_names_are_described_with_comments(ask, whole: Capture) -> None:
    """A table's columns, and what a function is asked for; what there is not is a mistake with the nearest names."""
    found = {row["column_name"]: row["comment"] for row in ask("sql", "describe findings;")}
    assert found["severity"] == "critical, warning or info"
    (route,) = ask("sql", "DESC route_at")
    assert route["function"] == "route_at(_topic, _t)"
    assert "TOPIC_NOT_EXIST" in str(route["comment"])
    assert main(["ask", "sql", "DESCRIBE finding", "--warehouse", str(whole.path)]) == EXIT_USAGE


def test_questions_come_from_standard_input(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is an argument."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 3 AS a"))
    assert ask("sql") == [{"a": 3}]


def test_rows_go_to_a_file_and_as_csv(whole: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is written to a file is not printed, and CSV is read back as it was."""
    out = tmp_path / "f.csv"
    words = ["ask", "findings", "--warehouse", str(whole.path), "--format", "csv", "--output", str(out)]
    assert main(words) == EXIT_OK
    assert capsys.readouterr().out == ""
    found = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert {row["code"] for row in found} >= {"EXPIRED_BROKER", "NS_COLD_START"}


# -- names that people give --------------------------------------------------------------------------------------------


def test_a_misspelt_topic_gets_the_nearest_names(whole: Capture, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody ever had TopicAA; a topic that is gone was there once, and nothing is said."""
    where = ["--warehouse", str(whole.path)]
    code, said = refused(capsys, "route-at", "TopicAA", "2026-11-21 08:58", *where)
    assert code == EXIT_OK
    assert "no name server ever had a topic TopicAA; nearest are TopicA" in said
    for words in (
        ("why", "topicd", "2026-11-21 08:58"),
        ("explain", "topicd", "2026-11-21 08:58"),
        ("query", "no_route_info", "--param", "topic=topicd", "--param", "t=2026-11-21 09:00"),
    ):
        assert "no name server ever had a topic topicd; nearest are" in refused(capsys, *words, *where)[1]
    assert refused(capsys, "explain", "TopicD", "2026-11-21 08:54:30", *where) == (EXIT_OK, "")
    assert refused(capsys, "route-at", "TopicD", "2026-11-21 09:00", *where) == (EXIT_OK, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("route-at", "TopicA", "yesterday"), "expected ISO 8601"),
        (("route-at", "TopicA", "2026-11-21 08:00 Mars/Base"), "expected ISO 8601"),
        (("route-at", "TopicA", "2026-11-21 08:00+01:00 Asia/Shanghai"), "an offset and a zone"),
        (("route-at", "TopicA", "2026-10-25 02:30 Europe/Berlin"), "clocks were changed"),
        (("table-at", "brokerTable", "2026-11-21 08:00"), "expected one of topicQueueTable"),
        (("diff", "2026-11-21 09:00", "2026-11-21 08:00"), "give the earlier instant first"),
        (("sql", "DELETE FROM runs"), "only SELECT"),
        (("sql", "SELECT nope FROM findings"), "nope"),
        (("sql", "SELECT * FROM finding"), "no table, view or function finding; nearest are findings"),
        (("sql", "SELECT * FROM Rout_At('T', TIMESTAMP'2026-11-21 08:00:00')"), "rout_at; nearest are route_at"),
        (("sql", "SELECT * FROM xyzzy"), "no table, view or function xyzzy. SHOW TABLES lists"),
        (("sql", "SHOW FUNCTIONS"), "only SELECT"),
        (("queries", "departurs"), "no saved query has 'departurs' in its name or question; nearest are departures"),
    ],
)
def test_a_question_that_cannot_be_is_a_sentence(
    whole: Capture, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    """Usage: exit code 2, what was met, what was expected."""
    where = [] if words[0] == "queries" else ["--warehouse", str(whole.path)]
    code, err = refused(capsys, *words, *where)
    assert code == EXIT_USAGE
    assert said in err


# -- what is read ------------------------------------------------------------------------------------------------------


def test_an_earlier_run_answers_as_it_did(nights: Nights, ask) -> None:
    """By its id and by an instant: the ledger's rows of then, and none of later days."""
    runs = rows(nights.path, gold.RUNS)
    first = runs[0]
    for asked in (
        first["run_id"],
        dt.datetime.fromtimestamp(first["finished_time"] / 1e6, dt.timezone.utc).isoformat(),
    ):
        told = ask("sql", "SELECT run_id FROM runs", "--as-known-at", asked, warehouse=nights.path)
        assert told == [{"run_id": first["run_id"]}]
    days = ask(
        "sql", "SELECT DISTINCT day FROM event_outcomes", "--as-known-at", first["run_id"], warehouse=nights.path
    )
    assert len(days) < len(ask("sql", "SELECT DISTINCT day FROM event_outcomes", warehouse=nights.path))


_UNPRIVILEGED = [
    "setpriv",
    "--bounding-set",
    "-dac_override,-dac_read_search",
    "--inh-caps",
    "-dac_override,-dac_read_search",
]


@pytest.mark.skipif(
    os.name != "posix" or not (os.geteuid() or shutil.which("setpriv")), reason="rights do not bind root here"
)
def test_who_reads_needs_no_right_to_write(nights: Nights, tmp_path: Path) -> None:
    """A warehouse in which nobody may write is asked, reported and audited; a page that would go into it is refused, in words."""
    warehouse, page, proof = tmp_path / "w", tmp_path / "page.html", tmp_path / "proof.json"
    shutil.copytree(nights.path, warehouse)
    folders = [warehouse, *(path for path in warehouse.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    noon = "2026-03-03 12:00"
    asked = [
        ["ask", "route-at", "T", noon, "--verified"],
        ["report", "--output", str(page)],
        ["audit", "--at", noon, "--namesrv", "10.0.0.1:9876", "--output", str(proof)],
        ["report", "--output", str(warehouse / "page.html")],
    ]
    script = tmp_path / "asks.py"
    script.write_text(
        f"from jobs.__main__ import main\nprint([main([*w, '--warehouse', {str(warehouse)!r}]) for w in {asked!r}])",
        encoding="utf-8",
    )
    command = [*([] if os.geteuid() else _UNPRIVILEGED), sys.executable, str(script)]
    given = {**os.environ, "PYTHONPATH": "."}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=given)
    finally:
        for path in folders:
            path.chmod(0o755)
    assert done.stdout.endswith(f"{[EXIT_OK] * 3 + [EXIT_USAGE]}\n"), done.stderr
    refused = f"namesrv-history: output {warehouse}/page.html: cannot be written: Permission denied\n"
    assert done.stderr.endswith(refused)
    assert page.stat().st_size > 0


def test_nothing_published_and_a_damaged_file_have_their_exit_codes(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """6 with the remedy, and 8 with the file."""
    code, said = refused(capsys, "findings", "--warehouse", str(tmp_path / "none"))
    assert code == EXIT_UNPUBLISHED
    assert "run the nightly job first" in said
    code, said = refused(capsys, "findings", "--warehouse", str(nights.path), "--as-known-at", "nobody")
    named = f"no run had been published by nobody; the last one is {nights.summaries[-1].run_id}"
    assert (code, named in said) == (EXIT_UNPUBLISHED, True)
    shutil.copytree(nights.path, tmp_path / "w")
    for path in (tmp_path / "w" / "gold" / "findings").rglob("*.parquet"):
        path.write_bytes(b"no parquet")
    code, said = refused(capsys, "findings", "--warehouse", str(tmp_path / "w"))
    assert (code, ".parquet" in said) == (EXIT_TAMPERED, True)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="DuckDB 1.5, the last for Python 3.10, imports them itself")
@pytest.mark.parametrize("question", ["route-at", "why", "explain"])
def test_asking_needs_neither_spark_nor_arrow_nor_a_log_of_delta(question: str, whole: Capture, tmp_path: Path) -> None:
    """What takes long to import is not imported: an answer takes less time than either."""
    import subprocess  # noqa: PLC0415  a process of its own, whose modules can be looked at

    script = tmp_path / "asks.py"
    heavy = ("pyspark", "pyarrow", "pandas", "numpy", "sqlglot", "py4j", "deltalake", "duckdb", "logging", "inspect")
    words = ["ask", question, "TopicA", "2026-11-21 08:58", "--warehouse", str(whole.path)]
    script.write_text(
        f"import sys\nfrom jobs.__main__ import main\nassert main({words!r}) == 0\n"
        f"print(sorted({{*{heavy!r}}} & set(sys.modules)))\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env={"PYTHONPATH": "."}
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
