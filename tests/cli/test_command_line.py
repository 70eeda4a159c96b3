"""The command line: what it promises without starting Spark."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.cli.arguments import parser
from jobs.cli.output import Console, write_table
from jobs.cli.sql import statements_of
from tests.places import CHECKOUT
from tools.fleet.__main__ import main as simulate
from tools.trace.__main__ import run_trace

JOBS = ("demo", "nightly", "ingest", "check", "sql", "export")


@pytest.mark.parametrize("job", JOBS)
def test_every_job_has_help(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`<job> --help` explains the job and ends with 0."""
    with pytest.raises(SystemExit) as ended:
        main([job, "--help"])
    assert ended.value.code == 0
    assert job in capsys.readouterr().out


def test_help_names_every_job_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The overview lists all jobs and what each exit code means."""
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert [job for job in JOBS if job not in text] == []
    assert [code for code in [*range(16), 130] if f"{code} " not in text] == []


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["nightly"], ["nope"], ["export"], ["nightly", "--input"], ["check", "x"]),
        *(["nightly", "--input", ""], ["check", "--warehouse", ""], ["ask", "sql", ""]),  # a variable that is not set
        ["record", "--poll", "127.0.0.1:1", "--output", "s3://bucket/polls"],
    ],
)
def test_a_wrong_call_is_a_usage_error(arguments: list[str]) -> None:
    """What cannot be run ends with 2 before anything starts."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["nightly", "--input", "not-there.pcap"],
        ["nightly", "--from", "tomorrow"],
        ["nightly", "--from", "2026-03-02", "--to", "2026-03-01"],
        ["nightly", "--from", "2026-03-01", "--conf-file", "not-there.toml"],
        ["nightly", "--from", "2026-03-01", "--summary", "not-there/summary.json"],
        ["nightly", "--from", "2026-03-01", "--namesrv", "x:1=3.2.6"],
        ["nightly", "--from", "2026-03-01", "--warehouse", "w\udce4"],
        ["check", "--warehouse", "README.md"],
        ["check", "--warehouse", "s3://"],
        ["sql", "--query", "nope"],
        ["sql", "--file", "not-there.sql"],
        ["sql", "SELECT 1", "--file", "-"],
        ["sql", "SELECT 1", "--output", "."],
        ["sql", "SELECT 1", "--as-known-at", "2026-13-01"],
        ["export", "--output", "not-there/log.jsonl"],
    ],
)
def test_what_cannot_be_is_one_line_before_anything_is_loaded(arguments: list[str]) -> None:
    """Code 2, and neither Spark nor what reads tables has been imported: so it takes less than a second."""
    code = (
        "import sys; from jobs.__main__ import main; code = main(sys.argv[1:]); "
        "print(code, *{'pyspark', 'pyarrow', 'duckdb', 'deltalake'}.intersection(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["2"]
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("namesrv-history: ")


def test_look_ups_take_no_settings_that_they_do_not_use() -> None:
    """Who only reads is not asked how name servers are configured."""
    for job in (["check"], ["maintain"], ["sql", "SELECT 1"], ["export", "--output", "x"]):
        for option in (["--namesrv", "x:1"], ["--conf-file", "x"]):
            with pytest.raises(SystemExit):
                parser().parse_args([*job, *option])


def test_inputs_and_name_servers_may_be_given_several_times() -> None:
    """Both options take one or more and may be repeated: none is dropped without a word."""
    words = "nightly --input a.pcap b.pcap --namesrv x:1=4.9.7 y:2=5.4.0 --namesrv z:3 --input c.pcap"
    found = parser().parse_args(words.split())
    assert found.input == ["a.pcap", "b.pcap", "c.pcap"]
    assert found.namesrv == ["x:1=4.9.7", "y:2=5.4.0", "z:3"]


def test_a_fleet_that_cannot_be_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, code 2, and no warehouse."""
    assert simulate(["--start", "2026-03-01", "--brokers", "0"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_malformed_trace_line_is_named() -> None:
    """A line that is no event ends the trace with its number and code 2."""
    out, err = io.StringIO(), io.StringIO()
    assert run_trace(io.BytesIO(b'{"ev": {"op": "nope", "t_ms": 0}}\n'), out, err, "4.9.7", "full") == 2
    assert "line 1" in err.getvalue()


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (
            "SELECT 'broker-a:4;broker-b:4', \"a;b\"; SELECT `c;d` ;\n;",
            ["SELECT 'broker-a:4;broker-b:4', \"a;b\"", "SELECT `c;d`"],
        ),
        ("-- it's; one\nSELECT 1; -- what's\n", ["-- it's; one\nSELECT 1"]),
        ("SELECT 1 /* don't; \"x */, 2; /* nothing */", ["SELECT 1 /* don't; \"x */, 2"]),
        ("SELECT r'\\'; SELECT 'it\\'s;', 1", ["SELECT r'\\'", "SELECT 'it\\'s;', 1"]),
        ("SELECT 4 - 1; SELECT '--;'; SELECT 'open; quote", ["SELECT 4 - 1", "SELECT '--;'", "SELECT 'open; quote"]),
        (" -- nothing\n ;;", []),
    ],
)
def test_statements_are_split_outside_of_quotes_and_comments(text: str, statements: list[str]) -> None:
    """A semicolon in a string, such as an order configuration, or in a comment ends no statement; quotes in comments are none."""
    assert statements_of(text) == statements


def test_names_from_the_wire_do_not_steer_a_terminal() -> None:
    """Control characters are escaped, and long cells are cut, in what the commands print."""
    out = io.StringIO()
    console = Console(out, io.StringIO())
    write_table(out, ["topic"], [["a\x1b[31m\nb"], ["x" * 100], [None]])
    console.line("NOT READ a\x9b2J\u202eb.pcap\nexit code 0")
    assert not set("\x1b\x9b\u202e") & set(out.getvalue())
    assert "NULL" in out.getvalue()
    assert "a\\u009b2J\\u202eb.pcap\\nexit code 0\n" in out.getvalue()
    assert max(len(line) for line in out.getvalue().splitlines()) <= 62


@pytest.mark.slow
def test_nothing_that_a_process_prints_steers_a_terminal(tmp_path: Path) -> None:
    """ESC, C1 and marks of direction leave no process raw, in results as in errors; JSON stays what it was."""
    event = {"ev": {"op": "init", "t_ms": 0, "profile": "4.9.7", "channels": {"a\x1b]0;\u009b": "\u202e"}}}
    ran = _process(["-m", "tools.trace"], json.dumps(event, ensure_ascii=False))
    refused = _process(
        ["-m", "jobs", "nightly", "--input", str(tmp_path / "no\x1b[2J\u2066.pcap"), "--warehouse", str(tmp_path / "w")]
    )
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["i"] == 0
    assert refused.returncode == 2
    assert "no\\u001b[2J\\u2066.pcap" in refused.stderr
    assert not set("\x1b\x9b\u202e\u2066") & set(ran.stdout + ran.stderr + refused.stderr)


@pytest.mark.slow
def test_what_an_encoding_lacks_is_escaped() -> None:
    """In a terminal of another encoding than UTF-8, such as GBK, a command prints all the same."""
    code = "from jobs import __main__ as entry; entry.main = lambda _: print('\u4e3b') or 0; entry.guarded()"
    ran = _process(["-c", code], PYTHONIOENCODING="ascii:strict")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "\\u4e3b\n", "")


def _process(arguments: list[str], given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    run = partial(subprocess.run, cwd=CHECKOUT, env={**os.environ, **more}, capture_output=True, encoding="utf-8")
    return run([sys.executable, *arguments], input=given, check=False)
