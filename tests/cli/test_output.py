"""Rows as a table, JSON lines or CSV, and files that are there whole or not at all."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import time
from argparse import Namespace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from jobs.ask.engine import Answer
from jobs.cli.ask import ask, explain
from jobs.cli.output import Console, Guarded, opened, waiting, write_lines, write_rows
from jobs.errors import UsageError, printable

AT = dt.datetime(2026, 3, 1, 12, 0, 0, 5)  # noqa: DTZ001  as Spark gives instants of a session in UTC
ZONED = dt.datetime(2026, 3, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))


def written(form: str, names: list[str], rows: list[list[Any]], limit: int | None = None) -> tuple[str, bool]:
    out = io.StringIO()
    more = write_rows(out, form, names, iter(rows), limit)
    return out.getvalue(), more


@pytest.mark.parametrize("form", ["json", "csv"])
def test_all_rows_are_written_unless_a_limit_is_given(form: str) -> None:
    """JSON and CSV do not stop at a thousand rows; a limit leaves rows out, which is said."""
    many = [[n] for n in range(2_500)]
    text, more = written(form, ["n"], many)
    assert (len(text.splitlines()), more) == (2_500 + (form == "csv"), False)
    text, more = written(form, ["n"], many, limit=7)
    assert (len(text.splitlines()), more) == (7 + (form == "csv"), True)


def test_a_table_shows_a_thousand_rows_and_says_that_there_are_more() -> None:
    """What is left out of a table is said under it."""
    text, more = written("table", ["n"], [[n] for n in range(1_001)])
    assert more
    assert text.endswith("  (1000 row(s), more not shown)\n")
    assert written("table", ["n"], [[1]], limit=1) == ("  n\n  -\n  1\n  (1 row(s))\n", False)


class Terminal(io.StringIO):
    """Text that somebody looks at."""

    def isatty(self) -> bool:
        """See `io`."""
        return True


@pytest.mark.parametrize(("columns", "rows", "is_upright"), [(3, 2, False), (3, 1, True), (12, 2, True)])
def test_a_terminal_is_never_too_narrow(
    columns: int, rows: int, *, is_upright: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is wider, no text is cut, nothing steers it; one row, or rows of many columns, stand upright."""
    monkeypatch.setenv("COLUMNS", "60")
    names, out = [f"column_{n}" for n in range(columns)], Terminal()
    text = "\x1b[31m" + "word " * 30 + "[bold]:smile:" + "x" * 90
    write_rows(out, "table", names, [[text, *[n] * (columns - 1)] for n in range(rows)])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert "\x1b" not in out.getvalue()
    folded = "".join("".join(lines).split())
    for piece in ("\\u001b[31mword", "[bold]:smile:xxx"):
        assert piece in folded or not is_upright
    assert out.getvalue().count("x" * 9) >= 5 * rows
    assert (lines[0].split()[:2] == ["column_0", "\\u001b[31mword"]) is is_upright
    assert lines[-1] == f"  ({rows} row(s))"


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_what_is_one_word_is_one_at_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants, addresses and events are never cut in pieces: where they do not fit beside each other, rows stand upright."""
    monkeypatch.setenv("COLUMNS", str(columns))
    row = ["127.0.0.2:10911", AT, AT, "ef2f684d4a9ed42e7e016226517fbd11", "long words " * 9]
    out = Terminal()
    write_rows(out, "table", list("abcde"), [row, row])
    assert out.getvalue().count("2026-03-01T12:00:00.000005Z") == 4
    assert all(out.getvalue().count(str(word)) == 2 for word in (row[0], row[3]))
    assert max(map(len, out.getvalue().splitlines())) <= columns


@pytest.mark.parametrize("columns", [8, 40, 80])
def test_lines_fit_a_terminal_and_lose_nothing(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too long goes on below, indented; a file gets each line whole."""
    monkeypatch.setenv("COLUMNS", str(columns))
    line, out, file = "  who  \x1b" + "name \u8def\u7531 " * 9 + "x" * 90, Terminal(), io.StringIO()
    for stream in (out, file):
        write_lines(stream, ["", line, "short"], 4)
    first, *folded, last = out.getvalue().splitlines()
    assert (first, last) == ("", "short")
    assert all(len(one) + sum(char > "\u1000" for char in one) <= columns for one in folded)
    assert all(one.startswith("    ") for one in folded[1:])
    assert "".join("".join(folded).split()) == "".join(printable(line).split())
    assert file.getvalue() == f"\n{line}\nshort\n"


class Answered:
    """A warehouse that knows of one change, by an event at hand."""

    share = None

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, sql: str, **_: object) -> Answer:
        """See `Answers`."""
        if "route_at" in sql:
            return Answer(["broker_name"], iter([(self.name,)]))
        row = {
            "namesrv_id": "10.0.0.1:9876",
            "state": "routed",
            "change": "appeared",
            "changed_time": AT,
            "operation": "register_broker",
            "outcome": "applied",
            "caused_by": "e" * 32,
            "cluster_name": "c",
            "broker_name": self.name,
            "broker_addr": "10.0.0.2:10911",
            "channel_id": "10.0.0.2:40706#1795251480851714000",
            "source_file": "events.jsonl",
            "source_offset": 1,
            "source_kind": "log",
            "content_sha256": "d" * 64,
            "ingest_run": "run",
        }
        return Answer(list(row), iter([tuple(row.values())]))


def test_an_explanation_and_the_list_of_queries_fit_40_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of them runs over, whatever a broker is called; the bytes of an event stay one after the other."""
    monkeypatch.setenv("COLUMNS", "40")
    recorded = tmp_path / "events.jsonl"
    recorded.write_bytes(bytes(range(97, 123)) + b"\n")
    monkeypatch.setattr("jobs.cli.ask.sha256_of_file", lambda _: "d" * 64)
    out = Terminal()
    explain(Answered("b" * 200), {"topic": "T", "t": AT}, [recorded], "table", out)  # type: ignore[arg-type]
    monkeypatch.setattr("sys.stdout", listed := Terminal())
    ask(Namespace(question="queries", filter=None))
    for text in (out.getvalue(), listed.getvalue()):
        assert max(map(len, text.splitlines())) <= 40
    assert "  0007  68 69 6a 6b 6c 6d 6e  hijklmn" in out.getvalue().splitlines()
    assert "".join(out.getvalue().split()).count("b" * 200) == 2
    assert "  departures:" in listed.getvalue()


def test_who_waits_for_long_is_told_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal, after a while: the share that is done and the time that is left; no file gets any of it."""
    monkeypatch.setattr("jobs.cli.output._PATIENCE_S", 0)
    for stream, is_told in ((Terminal(), True), (io.StringIO(), False)):
        with waiting(lambda: 0.5, stream):
            time.sleep(0.3 if is_told else 0)
        assert ("50% done, about 0 s left" in stream.getvalue()) is is_told
    with waiting(err=(told := Terminal())) as share:
        share(0, 3)
        share(2, 3)
    assert "0 s so far" in told.getvalue()
    assert "67% done" in told.getvalue()
    assert told.getvalue().endswith("\r\033[K")
    shown = Terminal()
    console = Console(io.StringIO(), shown)
    console.begin("replay")
    console.share(1, 4)
    assert "25% done, about 0 s left" in shown.getvalue()


def test_instants_say_their_zone_in_every_form() -> None:
    """An instant without zone is UTC, one with another zone is moved there, and the text says so."""
    for form in ("table", "json", "csv"):
        text, _ = written(form, ["at", "zoned"], [[AT, ZONED]])
        assert "2026-03-01T12:00:00.000005Z" in text
        assert "2026-03-01T12:00:00Z" in text


def test_values_come_back_from_json() -> None:
    """What is nested, has keys that are no text, or is no number of JSON, is JSON all the same."""
    row: list[Any] = [
        {0: "a", 1: ["b", None]},
        Decimal("1.50"),
        float("nan"),
        b"\x01\xff",
        dt.date(2026, 3, 1),
        True,
        None,
    ]
    text, _ = written("json", list("abcdefg"), [row])
    values = ({"0": "a", "1": ["b", None]}, "1.50", "nan", "01ff", "2026-03-01", True, None)
    assert json.loads(text) == dict(zip("abcdefg", values, strict=True))


def test_csv_is_read_back() -> None:
    """Separators, quotes and line ends in values do not break rows; NULL is empty, what is nested is JSON."""
    text, _ = written("csv", ["a", "b", "c"], [['x,"y"\nz', None, {"k": [1]}]])
    assert list(csv.reader(io.StringIO(text))) == [["a", "b", "c"], ['x,"y"\nz', "", '{"k": [1]}']]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", " \r\n=1", "=cmd|' /C calc'!A0"])
def test_a_formula_is_none_in_a_spreadsheet(text: str) -> None:
    """An apostrophe stands before it; numbers, and texts that are none, stay as they are; CSV gives all of them as they are."""
    others = ["a=1", "1-1", "", -1, [-1], None]
    for form, before in (("spreadsheet", "'"), ("csv", "")):
        found, _ = written(form, list("abcdefg"), [[text, *others]])
        assert list(csv.reader(io.StringIO(found, newline="")))[1] == [
            before + text,
            "a=1",
            "1-1",
            "",
            "-1",
            "[-1]",
            "",
        ]


def test_escapes_keep_json_what_it_was() -> None:
    """Text that JSON carries is the same after its unprintable characters were escaped."""
    text = "a\x1b\x7f\x9b\u202e\ud800\U000e0001\u00e9\u4e2d"
    shown = io.StringIO()
    Guarded(shown).write(json.dumps([text], ensure_ascii=False) + "\n")
    assert json.loads(shown.getvalue()) == [text]
    assert shown.getvalue().rstrip("\n").isprintable()
    assert printable("\u00e9\u4e2d") == "\u00e9\u4e2d"


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """What fails half-way leaves what was there before, and nothing beside it; a link stays one, as /dev/stdout is."""
    path = tmp_path / "rows.csv.gz"
    with opened(path) as file:
        file.write("old\x1b\n")
    with pytest.raises(TypeError), opened(path) as file:
        file.writelines(["new", None])  # type: ignore[list-item]  # it fails half-way
    with gzip.open(path, "rt", encoding="utf-8") as read:
        assert read.read() == "old\x1b\n"
    assert list(tmp_path.iterdir()) == [path]
    (link := tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    with opened(link) as file:
        file.write("through\n")
    assert (link.is_symlink(), (tmp_path / "rows.csv").read_text()) == (True, "through\n")
    with pytest.raises(UsageError, match="cannot be written"), opened(tmp_path / "none" / "rows.csv"):
        pass
