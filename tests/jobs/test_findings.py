"""Findings one by one: literal rows in which the code fires, beside rows in which it just does not.

What a whole day says, with all codes together, is in test_flag.py.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from schemas import gold
from schemas.views import finding_queries
from tests.jobs.rows import Event, Row, event, frame, interval, seq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from schemas.table import Table

NS = "10.0.0.9:9876"
DAY = dt.date(2026, 3, 1)
ADDR, OTHER_ADDR = "10.0.0.1:10911", "10.0.0.2:10911"


def at(event_id: str, clock: str) -> Event:
    """Return an event of the day."""
    return event(event_id, DAY, clock)


UP, SECOND, DOWN = at("up", "08:00"), at("second", "09:00"), at("down", "10:00")


class Case(NamedTuple):
    """Rows by table, and the findings in them: severity, subject, from, to, evidence."""

    code: str
    rows: dict[Table, list[Row]]
    found: list[tuple[Any, ...]]


def alive(opened: Event, closed: Event | None = None, **values: Any) -> Row:
    """Return a row of a history, in the slice of the day."""
    return {"namesrv_id": NS, "day": DAY, **interval(opened, closed), **values}


def member(name: str, broker_id: int, addr: str, opened: Event, closed: Event | None = None) -> Row:
    """Return a member of a group."""
    return alive(opened, closed, broker_name=name, broker_id=broker_id, broker_addr=addr, enable_acting_master=False)


def in_cluster(cluster: str, name: str, opened: Event, closed: Event | None = None) -> Row:
    """Return a broker name in a cluster's set."""
    return alive(opened, closed, cluster_name=cluster, broker_name=name)


def live(addr: str, opened: Event, closed: Event | None = None) -> Row:
    """Return a live entry."""
    beats = {"first_update_time": opened[1], "last_update_time": opened[1], "heartbeat_timeout_ms": 120_000}
    return alive(opened, closed, broker_addr=addr, **beats)


def gone_at(addr: str, *clocks: str) -> list[Row]:
    """Return live entries that end at these times, each ten seconds after it began."""
    rows = []
    for clock in clocks:
        end = at(f"{addr} {clock}", clock)
        rows.append(live(addr, (f"back {clock}", end[1] - dt.timedelta(seconds=10)), end))
    return rows


def vanished(topic: str, by: Event) -> Row:
    """Return the loss of a route."""
    when = {"seq": seq(by[1]), "effect_time": by[1], "caused_by": by[0], "day": DAY}
    return {"namesrv_id": NS, "topic": topic, **when, "change": "vanished", "route_before": "{}"}


def outcome(of: Event, operation: str, **values: Any) -> Row:
    """Return what became of an event."""
    when = {"seq": seq(of[1]), "event_id": of[0], "effect_time": of[1], "day": DAY}
    return {"namesrv_id": NS, **when, "operation": operation, "outcome": "applied", "changes": 1, **values}


def stale_conf(reason: str, topic: str, opened: Event, closed: Event) -> Row:
    """Return an interval in which a topic could not be served as it looks."""
    times = {"valid_from": opened[1], "opened_by": opened[0], "valid_to": closed[1], "closed_by": closed[0]}
    return {"namesrv_id": NS, "day": DAY, "topic": topic, "reason": reason, **times}


def reported(addr: str, opened: Event, before: int, now: int, *, older: bool) -> Row:
    """Return a data version with counter `now` after one with counter `before`."""
    versions: Row = {
        "data_version": {"state_version": 0, "timestamp": 5, "counter": now},
        "previous": {"state_version": 0, "timestamp": 5, "counter": before},
    }
    return alive(opened, broker_name="broker-a", broker_addr=addr, is_regression=older, **versions)


CASES = {
    "two groups at one address": Case(
        "ADDR_MULTI_IDENTITY",
        {gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, UP, DOWN), member("b", 0, ADDR, SECOND)]},
        [("critical", ADDR, SECOND[1], DOWN[1], ["down", "second", "up"])],
    ),
    "two ids at one address": Case(
        "ADDR_MULTI_IDENTITY",
        {gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, UP), member("a", 1, ADDR, SECOND)]},
        [("critical", ADDR, SECOND[1], None, ["second", "up"])],
    ),
    "one address handed over": Case(
        "ADDR_MULTI_IDENTITY",
        {gold.BROKER_ADDR_HISTORY: [member("a", 0, ADDR, UP, SECOND), member("b", 0, ADDR, SECOND)]},
        [],
    ),
    "three times gone within an hour": Case(
        "BROKER_FLAPPING",
        {
            gold.BROKER_LIVE_HISTORY: [
                *gone_at(ADDR, "08:00:00", "08:30:00", "09:00:00", "12:00:00"),
                *gone_at(OTHER_ADDR, "08:00:00", "08:30:00", "09:00:00.000001"),
            ]
        },
        [
            (
                "critical",
                ADDR,
                at("", "08:00")[1],
                at("", "09:00")[1],
                [f"{ADDR} 08:00:00", f"{ADDR} 08:30:00", f"{ADDR} 09:00:00"],
            )
        ],
    ),
    "a row that its own event replaces is not gone": Case(
        "BROKER_FLAPPING",
        {
            gold.BROKER_LIVE_HISTORY: [
                *gone_at(ADDR, "08:10:00", "08:20:00"),
                live(ADDR, at("back", "08:25"), at("changed", "08:30")),
                live(ADDR, at("changed", "08:30")),
            ]
        },
        [],
    ),
    "one name in two clusters": Case(
        "BROKER_NAME_CONFLICT",
        {
            gold.CLUSTER_ADDR_HISTORY: [
                in_cluster("C", "a", UP, DOWN),
                in_cluster("D", "a", SECOND),
                in_cluster("D", "b", SECOND),
            ]
        },
        [("critical", "a", SECOND[1], DOWN[1], ["down", "second", "up"])],
    ),
    "one name after another cluster let it go": Case(
        "BROKER_NAME_CONFLICT",
        {gold.CLUSTER_ADDR_HISTORY: [in_cluster("C", "a", UP, SECOND), in_cluster("D", "a", SECOND)]},
        [],
    ),
    "five topics lost with one event": Case(
        "MASS_TOPIC_LOSS",
        {
            gold.ROUTE_CHANGES: [
                *(vanished(f"T{number}", DOWN) for number in range(5)),
                *(vanished(f"T{number}", SECOND) for number in range(4)),
            ],
            gold.EVENT_OUTCOMES: [
                outcome(DOWN, "unregister_broker", broker_name="a", broker_addr=ADDR),
                outcome(SECOND, "scan"),
            ],
        },
        [("critical", f"a {ADDR}", DOWN[1], DOWN[1], ["down"])],
    ),
    "a name server that stops loses all of them": Case(
        "MASS_TOPIC_LOSS",
        {
            gold.ROUTE_CHANGES: [vanished(f"T{number}", DOWN) for number in range(5)],
            gold.EVENT_OUTCOMES: [outcome(DOWN, "namesrv_stopped")],
        },
        [("info", "namesrv_stopped", DOWN[1], DOWN[1], ["down"])],
    ),
    "order configuration that does not fit": Case(
        "STALE_ORDER_CONF",
        {
            gold.ORPHANED_TOPICS: [
                stale_conf("stale_order_conf", "T", UP, DOWN),
                stale_conf("no_master", "T2", UP, DOWN),
            ]
        },
        [("warning", "T", UP[1], DOWN[1], ["up", "down"])],
    ),
    "an older version than before": Case(
        "VERSION_REGRESSION",
        {
            gold.DATA_VERSION_HISTORY: [
                reported(ADDR, SECOND, 7, 6, older=True),
                reported(OTHER_ADDR, SECOND, 6, 7, older=False),
                # reported the day before, and still what it reports
                reported(OTHER_ADDR, event("yesterday", dt.date(2026, 2, 28), "09:00"), 7, 6, older=True),
            ]
        },
        [("warning", f"broker-a {ADDR}", SECOND[1], None, ["second"])],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_finding_fires_where_it_should_and_only_there(case: Case, spark: SparkSession) -> None:
    """Severity, subject, span and evidence are those of the rows at fault; rows at the boundary stay unnamed."""
    sql = {query.name: query.sql for query in finding_queries()}[case.code]
    frames: Any = {table.name: frame(spark, table, rows) for table, rows in case.rows.items()}

    rows = spark.sql(sql, **frames).select("code", "severity", "subject", "from_time", "to_time", "evidence").collect()

    assert [tuple(row) for row in rows] == [(case.code, *found) for found in case.found]
