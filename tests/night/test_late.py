"""Late events: days are recomputed as if all had been read in time, and rows say what changed."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.__main__ import main
from jobs.errors import EXIT_OK
from jobs.night.nightly import Summary
from jobs.store.check import check
from schemas import gold
from tests.ingest import given
from tests.ingest.given import BEAT, DAY, DAY_MS, FIRST, NAMESRV, START_MS, Line, at, broker, warehouse_at, write
from tests.night.nights import audited, night, restatements, rows

pytestmark = pytest.mark.slow

DAYS = [(FIRST + n * DAY).isoformat() for n in range(3)]
LONG = {"heartbeat_timeout_ms": 20 * DAY_MS}
STARTED, IDENTIFIED = (
    {"kind": "namesrv", "event": "started"},
    {"kind": "namesrv", "event": "identified", "version": 493},
)
ORDERLY = [
    at(0.5, STARTED),
    at(0.6, IDENTIFIED),
    at(1, broker("a", "TU", 1) | LONG),
    at(2, broker("b", "TV", 1) | LONG),
    at(26, BEAT),
    at(30, broker("a", "TUW", 2) | LONG),
    at(36, BEAT | {"broker_addr": "10.0.0.98:10911"}),
]
LATE = [at(12, {"kind": "admin", "code": 205, "broker_name": "broker-b", "response_code": 0})]


def in_order(*lines: Iterable[Line]) -> list[Line]:
    return sorted((line for some in lines for line in some), key=lambda line: line["time"])


def run(path: Path, name: str, lines: list[Line]) -> Summary:
    return night(path, write(path.parent / f"{path.name}-{name}.jsonl", lines))


class Late(NamedTuple):
    """A warehouse after two days and an event of the first that came late, and what the two nights have said."""

    path: Path
    first: Summary
    second: Summary


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Late:
    path = tmp_path_factory.mktemp("late") / "w"
    return Late(path, run(path, "orderly", ORDERLY), run(path, "late", LATE))


# -- what changed ------------------------------------------------------------------------------------------------------


def test_late_events_give_the_tables_of_one_run_and_restatements_say_what_changed(
    late: Late, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two days, then an event of the first: all tables equal those of everything at once, and the difference is told.

    Both reports can be attested.
    """
    path, first, second = late
    assert (first.days, first.restated) == (DAYS[:2], 0)
    assert second.digests == run(tmp_path / "whole", "everything", in_order(ORDERLY, LATE)).digests
    assert first.digests != second.digests

    told = restatements(path)
    assert len(told) == second.restated
    assert {(row["run_id"], row["previous_run"], row["namesrv_id"]) for row in told} == {
        (second.run_id, first.run_id, NAMESRV)
    }
    # Both rows of broker-b that the wipe has closed are of its day; those it has opened are open still.
    queues = {row["day"]: row for row in told if row["table_name"] == "topic_queue_history"}
    assert {
        day: (row["cause"], row["rows_before"], row["rows_after"], row["new_events"]) for day, row in queues.items()
    } == {FIRST: ("events", 0, 2, 1)}
    untouched = {"kv_config_history", "data_version_history", "expired_brokers", "namesrv_settings"}
    assert untouched.isdisjoint(row["table_name"] for row in told)
    asked = ["ask", "query", "restated", "--param", f"day={FIRST}", "--warehouse", str(path), "--format", "json"]
    assert main(asked) == EXIT_OK
    saved = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["table_name"] for row in saved} == {row["table_name"] for row in told if row["day"] == FIRST}
    (event,) = {event for row in saved for event in row["event_ids"]}
    assert {row["closed_by"] for row in rows(path, gold.TOPIC_QUEUE_HISTORY) if row["valid_to"] is not None} >= {event}

    noon = dt.datetime.fromisoformat(f"{FIRST + DAY}T12:00:00+00:00")
    for known_at in (None, first.run_id):
        made = audited(path, (NAMESRV, noon), ["topicQueueTable"], known_at)
        perms = {row[2]: row[5] for row in made["tables"]["topicQueueTable"]["rows"]}
        assert (made["wrong"], perms["broker-b"]) == ([], 6 if known_at else 4)


def test_a_day_that_comes_to_be_before_a_published_one_restates_it(tmp_path: Path) -> None:
    """The second day was published; a late file makes a first one, whose broker the second then begins with."""
    assert run(tmp_path / "w", "second", [at(26, IDENTIFIED), at(26, BEAT)]).restated == 0
    late = run(tmp_path / "w", "first", [at(1, STARTED), at(2, broker("a", "TU", 1) | LONG)])
    assert late.days == DAYS[:2]
    told = {(row["day"], row["cause"]) for row in restatements(tmp_path / "w", late.run_id)}
    assert told == {(FIRST + DAY, "other_day")}


def test_what_came_late_restates_the_last_day_and_what_follows_does_not(tmp_path: Path) -> None:
    """The end of a day goes on without being restated, also with the next day; an event before its end restates it."""
    assert run(tmp_path / "w", "first", [at(1, STARTED), at(2, broker("a", "TU", 1) | LONG), at(5, BEAT)]).restated == 0
    assert run(tmp_path / "w", "more", [at(6, broker("b", "T", 1) | LONG), at(7, BEAT)]).restated == 0
    late = run(tmp_path / "w", "late", [at(3, broker("c", "V", 1) | LONG), at(26, BEAT)])
    told = restatements(tmp_path / "w")
    assert late.restated == len(told) > 0
    assert {(row["run_id"], row["day"], row["namesrv_id"], row["cause"]) for row in told} == {
        (late.run_id, FIRST, NAMESRV, "events")
    }


def test_one_late_event_restates_no_other_name_server(tmp_path: Path) -> None:
    """Nor does a finding that two name servers have together seem to be gone; once their clocks agree, it is.

    Both heard the same four data versions, the second one a minute later than the first.
    """
    lines = [
        {**line, "namesrv_id": name, "time": line["time"] + later_ms}
        for name, later_ms in (("10.0.0.1:9876", 0), ("10.0.0.2:9876", 60_000))
        for line in (
            at(0.5, STARTED),
            at(0.6, IDENTIFIED),
            *(at(1 + version / 100, broker("a", "TU", version) | LONG) for version in range(1, 5)),
            at(26, BEAT),
        )
    ]
    first = run(tmp_path / "w", "both", in_order(lines))
    assert first.findings["CLOCK_SKEW"] == 1
    wipe = LATE[0] | {"namesrv_id": "10.0.0.2:9876"}
    assert run(tmp_path / "w", "late", [wipe]).restated > 0
    told = restatements(tmp_path / "w")
    assert {row["namesrv_id"] for row in told} == {"10.0.0.2:9876"}

    # Three versions that the second one heard at the same time after all make the median.
    same = [
        {**at(1 + version / 100, broker("a", "TU", version) | LONG), "namesrv_id": "10.0.0.2:9876"}
        for version in range(1, 5)
    ]
    agreed = run(tmp_path / "w", "same", same)
    assert agreed.digests == run(tmp_path / "whole", "everything", in_order(lines, [wipe], same)).digests
    assert "CLOCK_SKEW" not in agreed.findings
    gone = [row for row in restatements(tmp_path / "w", agreed.run_id) if row["namesrv_id"] == "10.0.0.1:9876"]
    assert [(row["table_name"], row["rows_before"] - row["rows_after"]) for row in gone] == [("findings", 1)]
    assert check(warehouse_at(tmp_path / "w")).wrong == []


# -- what a day hands on beside its rows -----------------------------------------------------------------------------------


def hours(day: int, hours: float, namesrv: str, said: Line) -> Line:
    """Return a line of a name server, so many hours after the midnight that begins the day (from 0)."""
    return at(24 * day + hours, said) | {"namesrv_id": namesrv}


def registration(name: str, addr: str, channel_id: str | None) -> Line:
    """Return a registration; in 4.x its lease is two minutes."""
    return given.registration(name, addr, "TU", channel_id=channel_id)


TICKS, HALTS = "10.0.0.4:9876", "10.0.0.3:9876"
HALTED_LATE = [hours(0, 10, HALTS, registration("a", "1:1", None))]
"""A broker without a connection, at which the scan of a 4.x name server dies."""
HALTING = [
    hours(0, 9, HALTS, STARTED),
    hours(0, 9, HALTS, IDENTIFIED | {"version": 407}),
    *HALTED_LATE,
    hours(0, 10.01, HALTS, registration("b", "2:2", "2:2#1")),
    *(hours(day, 12, HALTS, registration("b", "2:2", "2:2#1")) for day in (1, 2)),
]
TICKING = [
    hours(0, 8, TICKS, {"kind": "namesrv", "event": "observed_from"}),
    hours(0, 8, TICKS, IDENTIFIED | {"version": 407}),
    *(hours(day, 12, TICKS, registration("b", "2:2", "2:2#1")) for day in range(3)),
    *(hours(day, 12.2, TICKS, {"kind": "admin", "code": 205, "broker_name": "none"}) for day in range(3)),
]
CLOSED = [
    hours(0, 15.0001, TICKS, {"kind": "channel", "event": "close", "closed_by": "namesrv", "channel_id": "9:9#1"})
]
"""Only a scan explains it, and so it tells when all others tick."""


def test_nights_know_what_became_of_scans_on_any_day_before(tmp_path: Path) -> None:
    """A late event that ends a scan, or tells its ticks, and a night that begins a day later: as if read at once."""
    late = [*HALTED_LATE, *CLOSED]
    everything = in_order(HALTING, TICKING, CLOSED)
    third_ms = START_MS + 2 * DAY_MS
    two_days = [line for line in everything if line not in late and line["time"] < third_ms]
    first = run(tmp_path / "nights", "first", two_days)
    second = run(tmp_path / "nights", "late", late)
    assert (second.days, second.digests != first.digests) == (DAYS[:2], True)
    last = run(tmp_path / "nights", "last", [line for line in everything if line["time"] >= third_ms])
    assert DAYS[0] not in last.days
    assert last.digests == run(tmp_path / "everything", "everything", everything).digests
