"""The numbers that a run reports about its days."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import ROUTE_QUESTIONS
from namesrv_day.arrow import ask
from namesrv_day.events import Frames
from namesrv_wire.codes import request_name
from schemas.sql_files import query
from schemas.table import INT

_ABOUT_ROUTES = pc.field("code").isin(pa.array(sorted(map(int, ROUTE_QUESTIONS)), INT))
_NAMED = ("answer_time", "namesrv_id", "code", "subject", "event_id")
_FIRST = 5
_BEAT_OPERATIONS = ("register_broker", "broker_heartbeat", "query_data_version")
_SUMS = ("answers", "matched", "same_order", "same_bytes", "in_flight")


def report_of(frames: Frames, days: Collection[dt.date]) -> dict[str, Any]:
    """Return counts of findings by code, of compared answers, and the settings in force. `frames`: gold slices of `days`."""
    settings = frames["namesrv_settings"]
    return {
        "findings": counted(frames["findings"], "code"),
        "verify": verify_numbers(frames),
        "settings": settings_in_force(settings.filter(pc.field("day") == max(days))),
    }


def outcome_counts(outcomes: pa.Table, beats: int) -> Counter[str]:
    """Return the number of events by outcome; beats without a row in event_outcomes count as `refreshed`.

    `outcomes`: event_outcomes of a name server's day; `beats`: its number of beats. Counts add up (`Counter.update`).
    """
    of_outcomes = outcomes.group_by("outcome").aggregate([("events", "sum")])
    found = Counter(dict(zip(of_outcomes["outcome"].to_pylist(), of_outcomes["events_sum"].to_pylist(), strict=True)))
    others = pc.sum(outcomes.filter(pc.field("operation").isin(_BEAT_OPERATIONS))["events"]).as_py() or 0
    found["refreshed"] += beats - others
    return found


def settings_in_force(namesrv_settings: pa.Table) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the last value of each setting by name server, with its source and the answers for and against it."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in ask(query("across/last_settings"), {"namesrv_settings": namesrv_settings}).to_pylist():
        found.setdefault(row["namesrv_id"], {})[row["setting"]] = row["last"]
    return found


def verify_numbers(frames: Frames) -> dict[str, Any]:
    """Return the results of verification: for answers about routes, clusters and topics, and for all `others`.

    For the former: numbers of answers, of matched ones, and of those among them that are equal in order and in bytes.
    `others`: answers and matched by name of the request, for KV entries, member groups and responses to events. Explained
    (by class) and mismatched count both kinds. `first_mismatched`: a sentence for each of the first few.
    """
    checks, mismatches = frames["answer_checks"], frames["route_mismatches"]
    about_routes, others = checks.filter(_ABOUT_ROUTES), checks.filter(~_ABOUT_ROUTES)
    of_code = others.group_by("code").aggregate([("answers", "sum"), ("matched", "sum")]).sort_by("code").to_pylist()
    is_wrong = pc.field("classification") == "mismatched"
    order = [("answer_time", "ascending"), ("namesrv_id", "ascending"), ("event_id", "ascending")]
    wrong = mismatches.filter(is_wrong).select(_NAMED).sort_by(order)
    return {
        **{name: pc.sum(about_routes[name]).as_py() or 0 for name in _SUMS},
        "mismatched": pc.sum(checks["mismatched"]).as_py() or 0,
        "first_mismatched": [
            f"{row['answer_time'].strftime('%Y-%m-%dT%H:%M:%S.%fZ')} {row['namesrv_id']}: {request_name(row['code'])}"
            f"{'' if row['subject'] is None else ' ' + row['subject']} (answer {row['event_id']})"
            for row in wrong.slice(0, _FIRST).to_pylist()
        ],
        "explained": counted(mismatches.filter(~is_wrong), "classification"),
        "others": {
            request_name(row["code"]): {"answers": row["answers_sum"], "matched": row["matched_sum"]} for row in of_code
        },
        "order_decisions": frames["order_decisions"].num_rows,
    }


def counted(rows: pa.Table, by: str) -> dict[str, int]:
    """Return the number of rows for each value of a column."""
    return {found["values"]: found["counts"] for found in pc.value_counts(rows[by]).to_pylist()}
