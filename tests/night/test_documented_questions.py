"""What README and the pages for users say can be run, run: on the bundled capture, without a JVM."""

from __future__ import annotations

import datetime as dt
import re
import shlex
import shutil
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import EXIT_OK
from jobs.night import gate
from schemas.dialect import duckdb_queries
from tests.night.nights import CAPTURE, Capture, counted

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/sres.md", "docs/auditors.md", "docs/data-engineers.md")
_BLOCK = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(
    r"^\./spark-submit\.sh ((?:ask|audit|report|check|nightly|maintain|snapshot|sql) [^#\n]*)", re.MULTILINE
)
_ANSWERED = re.compile(r"```\n((?:\./spark-submit\.sh [^\n]*\n)+)```\n\n```answer\n(.*?)```", re.DOTALL)


def texts() -> dict[str, str]:
    """Return the pages, commands over several lines on one."""
    return {page: (CHECKOUT / page).read_text(encoding="utf-8").replace("\\\n", "") for page in PAGES}


STATEMENTS = [sql for text in texts().values() for block in _BLOCK.findall(text) for sql in block.split(";\n")]
COMMANDS = [command for text in texts().values() for command in _COMMAND.findall(text)]
ANSWERED = [found for text in texts().values() for found in _ANSWERED.findall(text)]


def test_there_is_something_to_ask() -> None:
    """The pages have statements and commands, or this test would see nothing."""
    assert len(STATEMENTS) > 15
    assert len(COMMANDS) > 20
    assert len(ANSWERED) > 2


@pytest.mark.slow
@pytest.mark.parametrize("sql", [sql for sql in STATEMENTS if "..." not in sql])
def test_every_statement_of_the_pages_can_be_asked(whole: Capture, sql: str) -> None:
    """In DuckDB; where it names an instant or a topic, these are the capture's."""
    for query in duckdb_queries(sql):
        assert Answers(str(whole.path)).ask(query).names


def run(command: str, whole: Capture, folder: Path) -> None:
    """Run a command as it stands there, but for folders and files; what changes a warehouse gets a copy."""
    words = shlex.split(command)
    if words[0] == "sql":
        for query in duckdb_queries(next(word for word in words if "SELECT" in word)):
            assert Answers(str(whole.path)).ask(query).names
        return
    places = {
        "--warehouse": whole.path,
        "--capture": CAPTURE,
        "--output": folder / "out",
        "--check": folder / "attested",
    }
    places |= {"--input": CAPTURE, "--summary": folder / "summary.json"}
    if words[0] in ("check", "maintain"):
        shutil.copytree(whole.path, folder / "copy", dirs_exist_ok=True)
        places["--warehouse"] = folder / "copy"
    elif words[0] == "nightly":
        words.append("--in-process")
        places["--warehouse"] = folder / "again"
    elif "--check" in words:
        made = ["--at", "2026-11-21 08:58", "--namesrv", "127.0.0.1:9876", "--output", str(places["--check"])]
        assert main(["audit", *made, "--warehouse", str(whole.path)]) == EXIT_OK
    for option, value in places.items():
        if option in words:
            words[words.index(option) + 1] = str(value)
    if "--as-known-at" in words:  # an instant by which the night of this test has published
        words[words.index("--as-known-at") + 1] = dt.datetime.now(dt.timezone.utc).isoformat()
    assert main(words) == EXIT_OK


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if "..." not in command and " --file " not in command]
)
def test_every_command_of_the_pages_is_answered(
    whole: Capture, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands there, but for the folder."""
    monkeypatch.setattr(gate, "judge", counted)
    run(command, whole, tmp_path)
    assert capsys.readouterr().out or "--output" in command or command.startswith("sql")


@pytest.mark.parametrize(("commands", "answer"), ANSWERED, ids=[answer.split()[0] for _, answer in ANSWERED])
def test_the_answers_of_the_pages_are_those_that_are_given(
    whole: Capture, commands: str, answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line, of the commands above them."""
    for command in _COMMAND.findall(commands):
        run(command, whole, tmp_path)
    out = capsys.readouterr().out
    assert [line for line in answer.splitlines() if line.strip() not in out] == []
