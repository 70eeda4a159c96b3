"""What is not recorded is not empty: coverage over days, gaps and several name servers, and what is asked outside of it.

One 5.4.0 server is recorded on three days, as in `three_days`; a second one only on the first.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.cli.pages import write_pages
from jobs.errors import EXIT_MISSING_DAY, EXIT_OK, EXIT_USAGE, NotRecordedError
from jobs.store.coverage import covered_of, span_rows
from schemas.dialect import duckdb_queries
from tests.cli.rows import recorded_day
from tests.ingest.given import NAMESRV
from tests.night.nights import night
from tests.night.three_days import DAYS, LOGS, beat, registration, write_log

pytestmark = pytest.mark.slow

OTHER = "10.0.0.2:9876"
NOBODY_THEN = "nothing is recorded at 2027-01-01 00:00:00 UTC; recorded: 10.0.0.1:9876 from 2026-03-01T10:00:00Z to "


def at(day: dt.date, clock: str) -> dt.datetime:
    return dt.datetime.combine(day, dt.time.fromisoformat(clock), dt.timezone.utc)


def of_other(path: Path) -> Path:
    path.write_text(
        write_log(path.parent, DAYS[0], LOGS[0], "-2").read_text().replace(NAMESRV, OTHER), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse of both servers, after a night for the first day and one for the others."""
    folder = tmp_path_factory.mktemp("two")
    night(folder / "w", write_log(folder, DAYS[0], LOGS[0]), of_other(folder / "other.jsonl"))
    night(folder / "w", *(write_log(folder, day, log) for day, log in zip(DAYS[1:], LOGS[1:], strict=True)))
    return folder / "w"


def asked(warehouse: Path, sql: str) -> list[dict[str, Any]]:
    (query,) = duckdb_queries(sql)
    names, rows = Answers(str(warehouse)).ask(query)
    return [dict(zip(names, row, strict=True)) for row in rows]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    found = capsys.readouterr()
    return code, found.out + found.err


def test_coverage_ends_with_the_last_thing_that_was_read(two: Path) -> None:
    """Of each name server by itself; the nights between its events are quiet, not gaps, and known from its start on."""
    found = asked(two, "SELECT * FROM coverage ORDER BY namesrv_id, from_time")
    assert {(row["namesrv_id"], row["recorded"], row["running"]) for row in found} == {
        (NAMESRV, True, True),
        (OTHER, True, True),
    }
    first = {row["namesrv_id"]: row["known_from"] for row in found}
    ends = {row["namesrv_id"]: row["to_time"] for row in found}
    assert first == dict.fromkeys((NAMESRV, OTHER), at(DAYS[0], "10:00:00"))
    assert ends == {NAMESRV: at(DAYS[2], "12:00:00.000001"), OTHER: at(DAYS[0], "10:01:00.000001")}


@pytest.mark.parametrize(
    "function",
    [
        "topic_queue_table_at({t}) WHERE topic = 'T'",
        "broker_live_table_at({t}) WHERE broker_name = 'x'",
        "kv_config_table_at({t}) WHERE namespace = 'x'",
        "route_at('T', {t})",
        "routes_at({t}) WHERE topic = 'x'",
        "why('T', {t})",
        "route_diff(TIMESTAMP'2026-03-02 12:00:00', {t}) WHERE topic = 'x'",
        "registry_diff({t}, TIMESTAMP'2026-03-02 12:00:00')",
        "coverage_at({t})",
    ],
)
def test_every_function_refuses_an_instant_of_which_nothing_is_recorded(two: Path, function: str) -> None:
    """After the last event, before the first, and for no instant; whatever the question then filters by."""
    for t in ("TIMESTAMP'2027-01-01 00:00:00'", "TIMESTAMP'2026-03-01 09:59:59'", "CAST(NULL AS TIMESTAMP)"):
        with pytest.raises(NotRecordedError, match=r"^nothing is recorded at .* recorded: 10\.0\.0\.1:9876 from "):
            asked(two, f"SELECT * FROM {function.format(t=t)}")


def test_a_name_server_that_is_not_recorded_then_says_so_beside_those_that_are(two: Path) -> None:
    """On the second day: rows of the one, and of the other the range that is recorded of it, never an empty table."""
    found = asked(two, "SELECT * FROM route_at('T', TIMESTAMP'2026-03-02 12:30:00') ORDER BY namesrv_id")
    assert [(row["namesrv_id"], row["broker_name"], row["known"]) for row in found] == [
        (NAMESRV, "broker-a", True),
        (OTHER, None, False),
    ]
    assert found[1]["coverage"] == "not recorded; recorded: 2026-03-01T10:00:00Z to 2026-03-01T10:01:00Z"
    states = {
        row["namesrv_id"]: row["state"] for row in asked(two, "SELECT * FROM why('T', TIMESTAMP'2026-03-02 12:30:00')")
    }
    assert states == {NAMESRV: "routed", OTHER: "not recorded"}
    differ = asked(two, "SELECT * FROM route_diff(TIMESTAMP'2026-03-01 10:00:30', TIMESTAMP'2026-03-02 12:30:00')")
    assert [(row["what"], row["known"]) for row in differ if row["namesrv_id"] == OTHER] == [("not known", False)]
    assert {row["what"] for row in differ if row["namesrv_id"] == NAMESRV} == {"appeared"}


def test_ask_export_and_audit_refuse_with_their_code(two: Path, tmp_path: Path, capsys) -> None:
    """7, and a sentence that says what is recorded; nothing is written."""
    where, out = ["--warehouse", str(two)], tmp_path / "state.json"
    for words in (
        ["route-at", "T", "2027-01-01"],
        ["why", "T", "2027-01-01"],
        ["explain", "T", "2027-01-01"],
        ["table-at", "kvConfigTable", "2027-01-01"],
        ["diff", "2026-03-02", "2027-01-01"],
        ["diff", "--tables", "2026-03-02", "2027-01-01"],
        ["query", "topics_on_one_name_server", "--param", "t=2027-01-01"],
    ):
        code, told = said(capsys, "ask", *words, *where)
        assert (code, NOBODY_THEN in told) == (EXIT_MISSING_DAY, True), words
    for param in ("since=2027-01-01", "until=2026-03-01"):
        code, told = said(capsys, "ask", "query", "departures", "--param", param, *where)
        assert (code, "nothing is recorded" in told) == (EXIT_MISSING_DAY, True)
    code, told = said(capsys, "ask", "query", "departures", "--param", "since=2020-01-01", *where)
    assert (code, "recorded: 10.0.0.1:9876 from" in told) == (EXIT_OK, True)
    code, told = said(capsys, "audit", "--at", "2027-01-01", "--namesrv", NAMESRV, *where)
    assert code == EXIT_MISSING_DAY
    code, told = said(capsys, "export", "--output", str(out), "--warehouse", str(tmp_path / "none"))
    assert (code, out.exists()) == (EXIT_MISSING_DAY, False)


def test_an_earlier_run_knows_no_more_than_it_had_read(two: Path, capsys) -> None:
    """The first night had read one day; and nobody knows yet what will be known."""
    (first, *_) = sorted(row["run_id"] for row in asked(two, "SELECT run_id FROM runs"))
    words = ["ask", "route-at", "T", "2026-03-02 12:30", "--format", "json", "--warehouse", str(two)]
    code, told = said(capsys, *words, "--as-known-at", str(first))
    assert (code, "nothing is recorded at 2026-03-02 12:30:00 UTC" in told) == (EXIT_MISSING_DAY, True)
    assert said(capsys, *words)[0] == EXIT_OK
    assert said(capsys, *words, "--as-known-at", "2999-01-01")[0] == EXIT_USAGE


def test_a_day_without_a_row_is_a_gap_and_what_follows_is_known_in_part(tmp_path: Path) -> None:
    """Nobody recorded the second day: in it, and after it, rows are only believed; what shows itself is known again."""
    late = [beat("12:00:00"), registration("broker-c", "13:00:00", "V", 10**9), beat("14:00:00")]
    logs = [write_log(tmp_path, DAYS[0], LOGS[0]), write_log(tmp_path, DAYS[2], late)]
    night(tmp_path / "w", *logs)
    in_gap = asked(tmp_path / "w", "SELECT * FROM route_at('T', TIMESTAMP'2026-03-02 12:00:00') ORDER BY broker_name")
    assert [(row["broker_name"], row["known"]) for row in in_gap] == [(None, False), ("broker-a", False)]
    assert {row["coverage"] for row in in_gap} == {
        "not recorded: a gap from 2026-03-01T10:01:00Z to 2026-03-03T12:00:00Z"
    }
    index = write_pages(str(tmp_path / "w"), [], tmp_path / "none")
    assert index is not None
    stands = re.sub(r"<[^>]*>", "", index.read_text(encoding="utf-8"))
    assert "14:00:00.000, but not 2026-03-01 10:01:00.000 to 2026-03-03 12:00:00.000\n" in stands
    assert "1name server recorded" in stands
    (why,) = asked(tmp_path / "w", "SELECT * FROM why('W', TIMESTAMP'2026-03-02 12:00:00')")
    assert (why["state"], why["known"]) == ("not known", False)
    after = asked(tmp_path / "w", "SELECT * FROM routes_at(TIMESTAMP'2026-03-03 13:30:00')")
    assert {(row["topic"], row["known"]) for row in after} == {
        (None, False),
        ("T", False),
        ("T-2", False),
        ("V", True),
        ("V-2", True),
    }


def test_marks_make_spans() -> None:
    """A gap, an end and a start, what is doubted, and a life of which the beginning was not recorded."""
    day = DAYS[0]
    (mid_life,) = covered_of(
        [
            recorded_day(
                NAMESRV,
                day,
                ("observed_from", at(day, "00:00"), None),
                ("gap", at(day, "02:00"), at(day, "03:00")),
                ("stopped", at(day, "04:00"), None),
                ("started", at(day, "05:00"), None),
                ("doubt", at(day, "06:00"), at(day, "07:00")),
            )
        ]
    )
    told = [(s.begin.hour, s.recorded, s.running, s.known, s.known_since.hour, s.doubtful) for s in mid_life.spans]
    assert told == [
        (0, True, True, False, 0, False),
        (2, False, None, False, 3, False),
        (3, True, True, False, 3, False),
        (4, True, False, True, 4, False),
        (5, True, True, True, 5, False),
        (6, True, True, True, 5, True),
        (7, True, True, True, 5, False),
    ]
    words = [row["said"][0]["coverage"] for row in span_rows([mid_life])]
    assert words[0] == "known in part: what appeared since 2026-03-01T00:00:00Z; in full from 2026-03-01T04:00:00Z on"
    assert words[3] == "known in full: it was not running"
    assert [row["nowhere"] for row in span_rows([])] == [True], "of nobody, nothing is recorded at any time"


def test_the_ledger_says_what_was_recorded(two: Path) -> None:
    """A day's row has its first and its last event and the start between; a start is a mark."""
    (told,) = asked(two, "SELECT coverage FROM runs ORDER BY finished_time LIMIT 1")
    assert [(one["namesrv_id"], [mark["kind"] for mark in one["marks"]]) for one in told["coverage"]] == [
        (NAMESRV, ["started"]),
        (OTHER, ["started"]),
    ]
    assert json.loads(json.dumps(told, default=str))
