"""What README and the page for SREs say can be asked, asked: of the bundled capture, without a JVM."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import EXIT_OK
from schemas.dialect import duckdb_queries
from tests.night.nights import CAPTURE, Capture

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/sres.md", "docs/auditors.md")
_BLOCK = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"^\./spark-submit\.sh ((?:ask|audit|report) [^#\n]*)", re.MULTILINE)


def texts() -> dict[str, str]:
    return {page: (CHECKOUT / page).read_text(encoding="utf-8") for page in PAGES}


STATEMENTS = [sql for text in texts().values() for block in _BLOCK.findall(text) for sql in block.split(";\n")]
COMMANDS = [command for text in texts().values() for command in _COMMAND.findall(text)]


def test_there_is_something_to_ask() -> None:
    """The pages have statements and commands, or this test would see nothing."""
    assert len(STATEMENTS) > 15
    assert len(COMMANDS) > 4


@pytest.mark.parametrize("sql", [sql for sql in STATEMENTS if "..." not in sql])
def test_every_statement_of_the_pages_can_be_asked(whole: Capture, sql: str) -> None:
    """In DuckDB; where it names an instant or a topic, these are the capture's."""
    for query in duckdb_queries(sql):
        assert Answers(str(whole.path)).ask(query).names


@pytest.mark.parametrize("command", [command for command in COMMANDS if '"SELECT ..."' not in command])
def test_every_command_of_the_pages_is_answered(
    whole: Capture, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands there, but for the folder."""
    words, attested = shlex.split(command), tmp_path / "attestation.json"
    places = {"--warehouse": str(whole.path), "--capture": str(CAPTURE), "--output": str(tmp_path / "out")}
    places["--check"] = str(attested)
    if "--check" in words:
        made = ["--at", "2026-11-21 08:58", "--namesrv", "127.0.0.1:9876", "--output", str(attested)]
        assert main(["audit", *made, "--warehouse", str(whole.path)]) == EXIT_OK
    if "--as-known-at" in words:  # an instant by which the night of this test has published
        words[words.index("--as-known-at") + 1] = "2100-01-01T00:00:00Z"
    for option, value in places.items():
        if option in words:
            words[words.index(option) + 1] = value
    assert main(words) == EXIT_OK
    assert capsys.readouterr().out or "--output" in words
