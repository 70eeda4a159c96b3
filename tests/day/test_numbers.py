"""What a run says of its days, in numbers."""

from __future__ import annotations

import datetime as dt
from typing import Any

from namesrv_day.arrow import table_of
from namesrv_day.numbers import outcome_counts, report_of, verify_numbers
from schemas import gold

DAY, NEXT = dt.date(2026, 3, 1), dt.date(2026, 3, 2)
Row = dict[str, Any]


def checked(code: int, **counts: int) -> Row:
    named = ("answers", "matched", "same_order", "same_bytes", "in_flight", "explained", "unknown_past", "mismatched")
    return {"namesrv_id": "n", "code": code, **dict.fromkeys(named, 0), **counts, "day": DAY}


CHECKS: list[Row] = [
    checked(105, answers=10, matched=7, same_order=6, same_bytes=5, in_flight=1, unknown_past=2, mismatched=1),
    checked(206, answers=5, matched=5, same_order=5, same_bytes=5),
    checked(105, answers=1, matched=1) | {"namesrv_id": "m"},
    *(checked(103, answers=3, matched=2, mismatched=1) | {"day": day} for day in (DAY, NEXT)),
    checked(322, answers=1, matched=1),
]
WRONG: Row = {"answer_time": dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc), "event_id": "e", "subject": "T"}
MISMATCHES: list[Row] = [
    *(
        {"namesrv_id": "n", "code": 105, "classification": which} | WRONG
        for which in ("unknown_past", "unknown_past", "mismatched")
    ),
    {"code": 103, "classification": "order_decision"},
]


def test_answers_about_routes_are_counted_apart_from_others() -> None:
    """Matches are of those about routes only; what explains an answer, and what nothing does, is counted of all."""
    frames = {
        "answer_checks": table_of(CHECKS, gold.ANSWER_CHECKS),
        "route_mismatches": table_of(MISMATCHES, gold.ROUTE_MISMATCHES),
        "order_decisions": table_of([{"decision_id": "d"}] * 2, gold.ORDER_DECISIONS),
    }
    assert verify_numbers(frames) == {
        "answers": 16,
        "matched": 13,
        "same_order": 11,
        "same_bytes": 10,
        "in_flight": 1,
        "mismatched": 3,
        "first_mismatched": ["2026-03-01T00:00:00.000000Z n: get_routeinfo_by_topic T (answer e)"],
        "explained": {"unknown_past": 2, "order_decision": 1},
        "others": {"register_broker": {"answers": 6, "matched": 4}, "query_data_version": {"answers": 1, "matched": 1}},
        "order_decisions": 2,
    }


def test_a_report_shows_findings_and_the_settings_of_the_last_day() -> None:
    """Of several values of a day the last; a day without anything to say is all zeros."""
    names = ("findings", "namesrv_settings", "answer_checks", "route_mismatches", "order_decisions")
    tables = {table.name: table for table in gold.TABLES}
    frames = {name: table_of((), tables[name]) for name in names}
    assert report_of(frames, [DAY])["verify"]["answers"] == 0
    held = {"setting": "version", "source": "stated", "answers_for": 1, "answers_against": 0}
    values = [("n", DAY, 0, "4.9.7"), ("n", NEXT, 0, "4.9.7"), ("n", NEXT, 9, "5.4.0"), ("gone", DAY, 0, "5.4.0")]
    frames["namesrv_settings"] = table_of(
        ({**held, "namesrv_id": n, "day": day, "from_seq": seq, "value": v} for n, day, seq, v in values),
        gold.NAMESRV_SETTINGS,
    )
    frames["findings"] = table_of(({"code": code} for code in ("A", "B", "A")), gold.FINDINGS)
    report = report_of(frames, [NEXT, DAY])
    assert report["findings"] == {"A": 2, "B": 1}
    last = {"value": "5.4.0", "source": "stated", "answers_for": 1, "answers_against": 0}
    assert report["settings"] == {"n": {"version": last}}


def test_plain_refreshes_are_outcomes_too() -> None:
    """Beats that have no row, which may stand for many; none is a number, too."""

    def counts(outcomes: list[tuple[str, str, int]], beats: int) -> dict[str, int]:
        rows = ({"operation": operation, "outcome": outcome, "events": n} for operation, outcome, n in outcomes)
        return outcome_counts(table_of(rows, gold.EVENT_OUTCOMES), beats)

    beaten = [("register_broker", "applied", 1), ("query_data_version", "unknown_broker", 90)]
    assert counts([*beaten, ("scan", "applied", 1)], 99) == {"applied": 2, "refreshed": 8, "unknown_broker": 90}
    assert dict(counts([], 0)) == {"refreshed": 0}
