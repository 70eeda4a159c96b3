"""How two versions of published days are compared."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from namesrv_day.across.restate import (
    HANDED_ON,
    HELD,
    LIVES,
    MAX_CHANGES,
    MAX_EVENTS,
    NewEvents,
    added_up,
    causes_of,
    compare,
    ends_otherwise,
    new_events,
    restatements,
    settings_differ,
)
from namesrv_day.arrow.rows import table_of
from namesrv_day.day.context import Rows
from schemas import gold
from schemas.table import Table
from schemas.times import day_start_us

DAY, NEXT = dt.date(2026, 3, 1), dt.date(2026, 3, 2)
NS, OTHER = "10.0.0.1:9876", "10.0.0.2:9876"
Row = dict[str, Any]
RUNS = {"run_id": "this", "previous_run": "last"}


def at(ms: float, day: dt.date = DAY) -> int:
    return day_start_us(day) + round(ms * 1_000)


def finding(subject: str, detail: str | None = "d", namesrv_id: str = NS, day: dt.date = DAY) -> Row:
    what = {
        "code": "NO_MASTER",
        "severity": "info",
        "subject": subject,
        "detail": detail,
        "evidence": [f"of {subject}"],
    }
    return {"namesrv_id": namesrv_id, **what, "from_time": at(1.234567, day), "told_on": day}


def findings(*rows: Row) -> dict[str, pa.Table]:
    return {gold.FINDINGS.name: table_of(rows, gold.FINDINGS)}


def test_slices_that_differ_are_counted_and_shown_by_key() -> None:
    """Added, removed and changed rows; an equal slice of another name server is none."""
    same = [finding("same", namesrv_id=OTHER)]
    old = findings(*same, finding("stays"), finding("goes"), finding("changes", "before"))
    new = findings(*same, finding("stays"), finding("comes"), finding("changes", "after"))
    (row,) = compare(new, old, DAY)
    shown = {json.loads(change["key"])["subject"]: change for change in row.pop("changes")}
    counts = {"rows_before": 3, "rows_after": 3, "rows_added": 2, "rows_removed": 2}
    assert row == {"day": DAY, "table_name": "findings", "namesrv_id": NS, **counts}
    assert {subject: change["change"] for subject, change in shown.items()} == {
        "comes": "added",
        "goes": "removed",
        "changes": "changed",
    }
    assert (shown["comes"]["before"], shown["goes"]["after"]) == (None, None)
    assert [json.loads(shown["changes"][side])["detail"] for side in ("before", "after")] == ["before", "after"]


def test_equal_rows_count_as_often_as_they_are_there() -> None:
    """A row that is there twice is one more than once; what it says has not changed."""
    (row,) = compare(findings(finding("a"), finding("a")), findings(finding("a")), DAY)
    assert (row["rows_before"], row["rows_after"], row["rows_added"], row["rows_removed"]) == (1, 2, 1, 0)
    assert row["changes"] == []


def test_changed_rows_are_json() -> None:
    """Keys without what is NULL, rows with it; instants in UTC with milliseconds, texts as they are."""
    (row,) = compare(findings(finding("ü/\n", None)), findings(), DAY)
    assert row["changes"] == [
        {
            "key": '{"code":"NO_MASTER","subject":"ü/\\n","from_time":"2026-03-01T00:00:00.001Z",'
            '"evidence":["of ü/\\n"],"told_on":"2026-03-01"}',
            "change": "added",
            "before": None,
            "after": '{"severity":"info","to_time":null,"detail":null,"brokers":null,"broker_names":null,"topics":null,'
            '"topic_names":null,"begun_with":null,"ended_on":null}',
        }
    ]
    member = {"broker_name": "b", "opened_by": "e", "opened_at": {"seq": 1, "no": 0}, "namesrv_id": NS, "day": DAY}
    frames = [
        {"broker_addr_history": table_of([{**member, **closed}], gold.BROKER_ADDR_HISTORY)}
        for closed in ({"closed_at": {"seq": 2, "no": None}}, {})
    ]
    ((change,),) = (row["changes"] for row in compare(frames[0], frames[1], DAY))
    assert (change["key"], change["change"]) == ('{"broker_name":"b","opened_at":{"seq":1,"no":0}}', "changed")
    assert '"closed_at":{"seq":2,"no":null}' in change["after"]
    assert '"closed_at":null' in change["before"]


def test_what_is_shown_is_bounded_and_what_is_counted_is_not() -> None:
    """One table's day shows so many rows, all name servers together, whatever a recomputation changes."""
    rows = [finding(f"{number:03}", namesrv_id=NS if number < MAX_CHANGES - 1 else OTHER) for number in range(150)]
    apart = [
        compare(findings(*(r for r in rows if r["namesrv_id"] == name)), findings(), DAY)[0] for name in (OTHER, NS)
    ]
    together = compare(findings(*rows), findings(), DAY)
    for compared in (apart, together):
        said = restatements(compared, {}, {}, NEXT, **RUNS).to_pylist()
        assert {row["namesrv_id"]: (row["rows_added"], len(row["changes"])) for row in said} == {
            NS: (MAX_CHANGES - 1, MAX_CHANGES - 1),
            OTHER: (150 - MAX_CHANGES + 1, 1),
        }


def test_tables_that_are_read_less_show_no_rows() -> None:
    """Their slices are counted all the same."""
    name = gold.REFRESHES_HOURLY.name
    row = {"namesrv_id": NS, "broker_addr": "a", "hour": at(0), "refreshes": 1, "day": DAY}
    new, old = (table_of([{**row, "refreshes": n}], gold.REFRESHES_HOURLY) for n in (1, 2))
    (found,) = compare({name: new}, {name: old}, DAY)
    assert (found["table_name"], found["rows_added"], found["rows_removed"], found["changes"]) == (name, 1, 1, [])


def recorded(*rows: tuple[dt.date, str, int, str, str]) -> pa.Table:
    """Return rows (day, namesrv_id, seq, event_id, ingest_run)."""
    columns = ("day", "namesrv_id", "seq", "event_id", "ingest_run")
    types = {"day": pa.date32(), "seq": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)


RECORDED = [
    *((DAY, NS, seq, f"old-{seq}", "known") for seq in (10, 20)),
    *((DAY, NS, 11 + number, f"new-{number:02}", "late") for number in range(MAX_EVENTS + 5)),
    *((DAY, OTHER, 10, "first", "known"), (DAY, OTHER, 11, "later", "late")),
    (NEXT, NS, 30, "next", "known"),
]


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3, len(RECORDED)])
def test_new_events_are_named_and_counted(parts: int) -> None:
    """However the rows are cut into parts. A name server's day goes on if all its new events lie behind the others."""
    heard = added_up(new_events(recorded(*RECORDED[part::parts]), {"known", "other"}) for part in range(parts))
    named = tuple((11 + number, f"new-{number:02}") for number in range(MAX_EVENTS))
    late = frozenset({"late"})
    assert heard == {
        (DAY, NS): NewEvents(MAX_EVENTS + 5, named, late, 20),
        (DAY, OTHER): NewEvents(1, ((11, "later"),), late, 10),
    }
    assert (heard[DAY, NS].follow, heard[DAY, OTHER].follow) == (False, True)


def test_events_of_a_day_of_which_nothing_was_known_do_not_go_on() -> None:
    """A name server that is heard of for the first time makes another day of it."""
    heard = added_up([new_events(recorded(*RECORDED), set())])
    assert heard[NEXT, NS] == NewEvents(1, ((30, "next"),), frozenset({"known"}), None)
    assert not heard[NEXT, NS].follow


def slices(*of: tuple[dt.date, str]) -> list[Row]:
    counts = {"rows_before": 1, "rows_after": 2, "rows_added": 1, "rows_removed": 0, "changes": []}
    return [{"day": day, "table_name": "findings", "namesrv_id": name, **counts} for day, name in of]


@pytest.mark.parametrize(
    ("others", "cause"),
    [({}, "earlier_day"), ({"configuration": True, "code": True}, "configuration"), ({"code": True}, "code")],
)
def test_causes_are_late_events_an_earlier_day_or_other_rules(others: dict[str, bool], cause: str) -> None:
    """The last day merely went on if all new events lie behind the others; an earlier one did not. The first are named."""
    heard = added_up([new_events(recorded(*RECORDED), {"known"})])
    compared = slices((NEXT, NS), (DAY, OTHER), (DAY, NS))
    causes = {"configuration": False, "code": False} | others
    said = restatements(compared, heard, causes, DAY, **RUNS)
    assert said.schema.equals(table_of((), gold.RESTATEMENTS).schema)
    rows = {(row["day"], row["namesrv_id"]): row for row in said.to_pylist()}
    assert {key: row["cause"] for key, row in rows.items()} == {(DAY, NS): "events", (NEXT, NS): cause}
    assert (rows[DAY, NS]["new_events"], rows[DAY, NS]["ingest_runs"]) == (MAX_EVENTS + 5, ["late"])
    assert rows[DAY, NS]["event_ids"] == [f"new-{number:02}" for number in range(MAX_EVENTS)]
    quiet = rows[NEXT, NS]
    assert (quiet["new_events"], quiet["event_ids"], quiet["ingest_runs"], quiet["changes"]) == (0, [], [], [])
    assert (quiet["run_id"], quiet["previous_run"]) == ("this", "last")
    followed = restatements(compared, heard, causes, NEXT, **RUNS)
    assert followed["cause"].to_pylist() == ["events", "events", cause]


FOLLOWING = {(DAY, NS): NewEvents(1, ((11, "e"),), frozenset(), 10)}
LATE = {(DAY, NS): NewEvents(1, ((9, "e"),), frozenset(), 10)}
SAME = {"configuration": False, "code": False}


@pytest.mark.parametrize(
    ("days", "published", "heard", "others", "resettled", "causes"),
    [
        pytest.param([NEXT], [DAY], {}, SAME, True, None, id="no published day"),
        pytest.param([DAY, NEXT], [DAY], FOLLOWING, SAME, True, None, id="it went on"),
        pytest.param([DAY], [DAY], FOLLOWING, {**SAME, "code": True}, False, {**SAME, "code": True}, id="other code"),
        pytest.param([DAY], [DAY], LATE, SAME, False, SAME, id="late events"),
        pytest.param([DAY], [DAY, NEXT], FOLLOWING, SAME, False, SAME, id="not the last day"),
        pytest.param([DAY, NEXT], [NEXT], {}, SAME, False, SAME, id="a day before it"),
        pytest.param([DAY, NEXT], [DAY, NEXT], {}, SAME, False, SAME, id="two published days"),
        pytest.param([DAY], [DAY], {}, SAME, False, None, id="nothing new"),
        pytest.param([DAY], [DAY], {}, SAME, True, {"configuration": True, "code": False}, id="configured otherwise"),
    ],
)
def test_a_day_that_merely_went_on_is_not_compared(
    days: list[dt.date],
    published: list[dt.date],
    heard: dict[tuple[dt.date, str], NewEvents],
    others: dict[str, bool],
    resettled: bool,  # noqa: FBT001  a parameter of the test
    causes: dict[str, bool] | None,
) -> None:
    """It was the last one, nothing before it was replayed, and everything new lies behind what was known."""
    assert causes_of(days, published, heard, others, lambda _: resettled) == causes


def test_settings_differ_by_their_values() -> None:
    """Neither order nor what speaks for them counts."""
    one, two = ({"namesrv_id": NS, "setting": s, "from_seq": 0, "value": "1", "answers_for": 1} for s in "ab")
    rows, swapped, other = (
        table_of(some, gold.NAMESRV_SETTINGS)
        for some in ([one, two], [two, {**one, "answers_for": 5}], [{**one, "value": "2"}, two])
    )
    assert not settings_differ(rows, swapped)
    assert settings_differ(rows, other)


OPEN = {"namesrv_id": NS, "topic": "T", "opened_by": "e"}
CLOSED = {**OPEN, "closed_by": "f", "valid_to": at(1)}
OUTCOME = {"namesrv_id": NS, "event_id": "e", "outcome": "started", "day": DAY}


@pytest.mark.parametrize(
    ("what", "table", "row", "is_handed_on"),
    [
        (HELD, gold.TOPIC_QUEUE_HISTORY, OPEN, True),
        (HELD, gold.TOPIC_QUEUE_HISTORY, CLOSED, False),
        (HANDED_ON, gold.PAST_KNOWLEDGE, {"namesrv_id": NS, "what": "known", "day": DAY}, True),
        (HANDED_ON, gold.NAMESRV_SETTINGS, {"namesrv_id": NS, "setting": "version", "day": DAY}, True),
        (HELD, gold.FINDINGS, finding("f"), True),
        (HELD, gold.FINDINGS, {**finding("f"), "ended_on": DAY}, False),
        (HANDED_ON, gold.FINDINGS, finding("f"), False),
        (LIVES, gold.EVENT_OUTCOMES, OUTCOME, True),
        (LIVES, gold.EVENT_OUTCOMES, {**OUTCOME, "outcome": "applied"}, False),
        (LIVES, gold.TOPIC_QUEUE_HISTORY, OPEN, False),
        (HELD, gold.ORPHANED_TOPICS, OPEN, True),
        (HELD, gold.ORPHANED_TOPICS, CLOSED, False),
    ],
)
def test_a_day_ends_otherwise_if_it_hands_on_other_rows(
    what: Rows, table: Table, row: Row, *, is_handed_on: bool
) -> None:
    """Rows that come, go or change; what was closed that day is no longer there the next."""
    some, others = ({table.name: table_of([one], table)} for one in (row, {**row, "namesrv_id": OTHER}))
    assert not ends_otherwise(some, dict(some), what)
    assert [ends_otherwise(*sides, what) for sides in ((some, {}), ({}, some), (some, others))] == [is_handed_on] * 3
