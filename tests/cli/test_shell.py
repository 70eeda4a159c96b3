"""`sql` at a terminal: statements over several lines, mistakes that end nothing, names, timing."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.cli import sql as cli_sql
from jobs.cli.output import Console
from jobs.cli.sql import shell
from jobs.errors import UsageError

GIVEN = argparse.Namespace(format="table", output=None, limit=None)


class Session:
    """Notes what it is asked instead of asking Spark."""

    spark = None

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.asked: list[list[str]] = []

    def register(self, text: str) -> None:
        """See `Views`."""
        self.registered.append(text)

    def show(self, _spark: Any, statements: list[str], *_: Any) -> None:
        """Note statements; one of them is a mistake."""
        self.asked.append(statements)
        if "mistake" in statements[0]:
            raise UsageError("no such name")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Give a session that notes what it is asked."""
    found = Session()
    monkeypatch.setattr(cli_sql, "show_sql", found.show)
    return found


def run(session: Session, *lines: str) -> str:
    """Type lines into a shell and return what it says."""
    typed: Iterator[str] = iter(lines)
    out = io.StringIO()

    def read(_prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    shell(lambda: session, GIVEN, Console(out, io.StringIO()), read)  # type: ignore[arg-type,return-value]
    return out.getvalue()


def test_a_statement_is_asked_when_it_ends(session: Session) -> None:
    """Not before its semicolon, whatever lines and quotes are in between; two on a line are asked together."""
    run(session, "SELECT 'a;", "b' AS x", ";", "", "SELECT 1; SELECT 2;", "-- nothing", "EXIT", "SELECT 3;")
    assert session.asked == [["SELECT 'a;\nb' AS x"], ["SELECT 1", "SELECT 2"]]


def test_a_mistake_ends_nothing(session: Session) -> None:
    """It is told with the time that it took, and the next question is answered."""
    said = run(session, "SELECT mistake;", "SELECT 1;")
    assert "no such name" in said
    assert session.asked == [["SELECT mistake"], ["SELECT 1"]]
    assert said.count(" s\n") == 2


def test_tables_are_all_there_are(session: Session) -> None:
    """The word alone is enough, and all names are made before they are listed."""
    run(session, "tables", "SELECT * FROM findings;")
    assert session.asked == [["SHOW TABLES"], ["SELECT * FROM findings"]]
    assert session.registered == ["SHOW TABLES", "SELECT * FROM findings;"]
