"""The doors of a warehouse: where it lies, which instants are asked for, what a statement may see, and what it costs."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import (
    EXIT_MISSING_DAY,
    EXIT_OK,
    EXIT_TAMPERED,
    EXIT_USAGE,
    BrokenLogError,
    NotRecordedError,
    UsageError,
)
from jobs.report.charts import changes
from jobs.report.page import PAGES
from jobs.store.files import digests_of
from jobs.store.places import table_path
from schemas import asked, bronze, gold
from schemas.table import Table
from tests.ingest.given import NAMESRV, warehouse_at
from tests.night.nights import Nights, night, rows
from tests.night.three_days import DAYS

AT = dt.datetime.combine(DAYS[-1], dt.time(11), dt.timezone.utc)
END = "9999-12-31T23:59:59.999999Z"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unprepared")]


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Run a command; return its exit code and what it said. No command shows a stack."""
    capsys.readouterr()
    try:
        code = main([*map(str, words)])
    except SystemExit as end:  # the parser's way
        code = int(str(end.code))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return code, shown.out + shown.err


# -- where it lies -----------------------------------------------------------------------------------------------------


def test_no_column_is_read_off_the_folders_above_a_warehouse(nights: Nights, tmp_path: Path) -> None:
    """A folder `column=value` for each column that any table has: every table is what it is elsewhere, for every reader.

    Of which day a file is, the log says, not a folder above it.
    """
    columns = sorted({column for table in asked.stored().values() for column in table.columns} | {"filename"})
    deep = tmp_path
    for column in ["day=2026-11-22", *(f"{column}=zz" for column in columns if column != "day")]:
        deep = deep / column if len(str(deep / column)) < 2_000 else deep
    deep.mkdir(parents=True)
    shutil.copytree(nights.path, deep / "w")
    here, there = Answers(str(nights.path)), Answers(str(deep / "w"))
    for name in asked.stored():
        sql = f"SELECT * FROM {name} ORDER BY ALL"
        assert list(there.ask(sql).rows) == list(here.ask(sql).rows), name
    for function in ("broker_addr_table_at", "broker_live_table_at", "routes_at"):
        sql = f"SELECT * FROM {function}($t) ORDER BY ALL"
        found = list(there.ask(sql, t=AT).rows)
        assert found, function
        assert found == list(here.ask(sql, t=AT).rows)
    for table in (bronze.REGISTRATIONS, gold.BROKER_ADDR_HISTORY):
        one, other = (warehouse_at(path) for path in (nights.path, deep / "w"))
        assert rows(deep / "w", table) == rows(nights.path, table)
        assert digests_of(other.path, table, other.files(table)) == digests_of(one.path, table, one.files(table))
    assert night(deep / "w", nights.logs[0]).status == "nothing_to_do"


def test_files_of_other_days_are_still_left_out(nights: Nights) -> None:
    """The day of a file is a constant of its name: a condition on it opens no other file."""
    answers = Answers(str(nights.path))
    sql = f"EXPLAIN ANALYZE SELECT * FROM namesrv_settings WHERE day = DATE '{DAYS[0]}'"
    ((_, plan),) = answers.ask(sql).rows
    assert "Scanning Files: 1/3" in plan


# -- instants ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [END, "9999-12-31", "9999-01-01", "0001-01-01", "0001-01-01T00:00+14:00"])
def test_no_instant_stands_for_ever(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str], at: str
) -> None:
    """The last instants that there are, and the first ones, are asked for as any other: nothing is recorded then (7)."""
    output = ["--output", tmp_path / "out"]
    for words in (
        ["ask", "table-at", "brokerAddrTable", at],
        ["ask", "route-at", "T", at],
        ["ask", "why", "T", at],
        ["ask", "diff", f"{DAYS[0]} 10:30", at] if at > "2" else ["ask", "diff", at, f"{DAYS[0]} 10:30"],
        ["audit", "--namesrv", NAMESRV, "--at", at],
        ["report", "--from", at, *output],
    ):
        code, line = said(capsys, *words, "--warehouse", nights.path)
        assert (code, "nothing is recorded" in line) == (EXIT_MISSING_DAY, True), words


def test_nor_in_sql(nights: Nights) -> None:
    """Years that no calendar of Python's has, and what DuckDB calls infinity."""
    answers = Answers(str(nights.path))
    for at in ("9999-12-31 23:59:59.999999", "20000-01-01", "infinity", "-infinity", "0044-03-15 (BC)"):
        with pytest.raises(NotRecordedError):
            list(answers.ask(f"SELECT * FROM topic_queue_table_at(TIMESTAMPTZ '{at}')").rows)


# -- statements --------------------------------------------------------------------------------------------------------


def test_a_statement_sees_no_file_but_the_warehouse(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither read nor asked for, nor is the door opened from within; `--unsafe` opens it."""
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n", encoding="utf-8")
    for sql in (f"SELECT * FROM read_csv('{secret}')", f"SELECT * FROM read_text('{secret}')"):
        code, line = said(capsys, "ask", "sql", sql, "--warehouse", nights.path)
        assert (code, "--unsafe" in line) == (EXIT_USAGE, True)
        assert said(capsys, "ask", "sql", sql, "--unsafe", "--warehouse", nights.path)[0] == EXIT_OK
    answers = Answers(str(nights.path))
    for sql in (
        "SET enable_external_access = TRUE",
        "SET allowed_directories = ['/']",
        f"COPY (SELECT 1) TO '{secret}'",
    ):
        with pytest.raises(UsageError):
            answers.ask(sql)
    assert secret.read_text(encoding="utf-8").startswith("a,b")
    assert said(capsys, "ask", "sql", "SELECT count(*) FROM registrations", "--warehouse", nights.path)[0] == EXIT_OK


def test_a_statement_may_have_so_much_memory(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """More is refused in one sentence, that says how more is given."""
    sql = "SELECT count(DISTINCT a.id + b.id * 10000) FROM range(10000) AS a(id), range(1000) AS b(id)"
    code, line = said(capsys, "ask", "sql", sql, "--memory", 50, "--warehouse", nights.path)
    assert (code, "--memory" in line) == (EXIT_USAGE, True)


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "sql", f"SELECT {'(' * 3_000}1{')' * 3_000}"],
        ["ask", "sql", f"SELECT 1{' + 1' * 2_000}"],
        ["ask", "sql", "SELECT \x00"],
        ["ask", "findings", "--limit", "9" * 20],
        ["ask", "findings", "--limit", "-1"],
        ["ask", "sql", "SELECT 1", "--memory", "0"],
        ["ask", "sql", "SELECT 1", "--memory", "9" * 20],
        ["maintain", "--dry-run", "--retain-days", "9" * 20],
        ["maintain", "--dry-run", "--retain-days", "9999999999"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_absurd_numbers_and_depths_are_usage_errors(
    nights: Nights, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """One sentence and code 2, whatever the option."""
    assert said(capsys, *words, "--warehouse", nights.path)[0] == EXIT_USAGE


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_chart_of_hostile_names_is_drawn() -> None:
    """Control characters, marks of direction and tags in a name server's id stay text."""
    change = dict.fromkeys(("appeared", "changed", "vanished", "learned"), 1)
    names = [
        f"10.0.0.1\x1b[31m{char}:9876" for char in ("\x00", "\x07", "\x9b", "\u202e", "\ufffe", "\ud800", "</svg>")
    ]
    hostile = [{**change, "namesrv_id": name, "effect_time": AT} for name in names]
    chart = changes(hostile, (AT, AT + dt.timedelta(hours=1)), 860)
    svg = str(PAGES.get_template("parts.html").module.svg(chart))  # type: ignore[attr-defined]  # a macro
    assert "\\u001b" in svg
    assert svg.count("</svg>") == 1
    assert not any(char in svg for char in "\x1b\x00\x07\x9b\u202e")


# -- logs --------------------------------------------------------------------------------------------------------------


def newest(warehouse: Path, table: Table) -> Path:
    return max(Path(table_path(str(warehouse), table), "_delta_log").glob("*.json"))


@pytest.mark.parametrize("table", [gold.BROKER_ADDR_HISTORY, bronze.SOURCES])
def test_an_emptied_commit_is_noticed_by_whoever_reads(
    copied: Path, nights: Nights, capsys: pytest.CaptureFixture[str], table: Table
) -> None:
    """It would read as one that changed nothing: who reads the log says so; `ask` answers of what was published."""
    newest(copied, table).write_bytes(b"")
    reader = {stored.table: name for name, stored in asked.stored().items()}[table.name]
    count = ["ask", "sql", f"SELECT count(*) FROM {reader}"]
    assert said(capsys, *count, "--warehouse", copied)[0] == EXIT_OK
    for words in ([*count, "--verified"], ["nightly", "--in-process", "--input", nights.logs[-1]], ["check"]):
        code, line = said(capsys, *words, "--warehouse", copied)
        assert (code, table.name in line) == (EXIT_TAMPERED, True), words


def test_a_commit_that_lost_lines_is_noticed(copied: Path, nights: Nights) -> None:
    """All lines that are left can be read, and fewer files are named: rows are counted against the ledger. No file is opened."""
    log = newest(copied, gold.BROKER_ADDR_HISTORY)
    kept = [line for line in log.read_text(encoding="utf-8").splitlines() if '"add"' not in line]
    log.write_text("\n".join(kept), encoding="utf-8")
    question = "SELECT * FROM broker_addr_history ORDER BY ALL"
    with pytest.raises(BrokenLogError, match=r"broker_addr_history: the log of .* rows, but .* were published"):
        list(Answers(str(copied), nights.summaries[-1].run_id).ask(question).rows)
    assert list(Answers(str(copied)).ask(question).rows) == list(Answers(str(nights.path)).ask(question).rows)
    with pytest.raises(BrokenLogError, match="broker_addr_history: the log of"):
        night(copied, nights.logs[-1])
