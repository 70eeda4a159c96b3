"""What a run has to say of its days, in numbers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.tables import in_parallel, of_days
from namesrv_core.asking.answers import ROUTE_QUESTIONS
from namesrv_wire.codes import request_name


def report_of(frames: Mapping[str, DataFrame], days: Collection[dt.date]) -> dict[str, Any]:
    """Return findings by code, how the answers compare, and the settings in force, of `days`. `frames`: gold tables."""
    cut = {name: of_days(frame, days) for name, frame in frames.items()}
    settings = of_days(frames["namesrv_settings"], [max(days)])
    return in_parallel(
        {
            "findings": lambda: _counted(cut["findings"], "code"),
            "verify": lambda: verify_numbers(cut),
            "settings": lambda: settings_in_force(settings),
        }
    )


def outcome_counts(frames: Mapping[str, DataFrame], days: Collection[dt.date]) -> dict[str, int]:
    """Return how many events of `days` came to what; plain refreshes, which are counted by hour, are `refreshed`."""
    outcomes = _counted(of_days(frames["event_outcomes"], days), "outcome")
    refreshed = of_days(frames["refreshes_hourly"], days).agg(F.sum("refreshes").alias("n")).collect()[0]["n"]
    return {**outcomes, "refreshed": outcomes.get("refreshed", 0) + (refreshed or 0)}


def settings_in_force(namesrv_settings: DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the last value of each setting by name server, with its source and the answers for and against it."""
    columns = ("value", "source", "answers_for", "answers_against")
    last = F.max_by(F.struct(*columns), F.struct("day", "from_seq")).alias("last")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in namesrv_settings.groupBy("namesrv_id", "setting").agg(last).orderBy("namesrv_id", "setting").collect():
        found.setdefault(row["namesrv_id"], {})[row["setting"]] = row["last"].asDict()
    return found


def verify_numbers(frames: Mapping[str, DataFrame]) -> dict[str, Any]:
    """Return how the answers compare: those about routes, clusters and topics, and beside them all `others`.

    Answers, matched, explained by class, mismatched, and of the matched those equal in order and in bytes. `others`:
    answers and matched by name of the request, for KV entries, member groups and responses to events.
    """
    about_routes = F.col("code").isin(sorted(map(int, ROUTE_QUESTIONS)))
    checks, mismatches = frames["answer_checks"], frames["route_mismatches"].where(about_routes)
    sums = [F.sum(c).alias(c) for c in ("answers", "matched", "same_order", "same_bytes", "in_flight", "mismatched")]
    row = checks.where(about_routes).agg(*sums).collect()[0]
    numbers = {name: int(value or 0) for name, value in row.asDict().items()}
    others = checks.where(~about_routes).groupBy("code").agg(*sums[:2]).orderBy("code").collect()
    return {
        **numbers,
        "explained": _counted(mismatches.where("classification <> 'mismatched'"), "classification"),
        "others": {request_name(o["code"]): {"answers": o["answers"], "matched": o["matched"]} for o in others},
        "order_decisions": frames["order_decisions"].count(),
    }


def _counted(frame: DataFrame, by: str) -> dict[str, int]:
    return {row[by]: row["count"] for row in frame.groupBy(by).count().collect()}
