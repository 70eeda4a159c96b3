"""What a day's slices are made to say: two name servers, two days, literal rows in the real schemas.

10.0.0.9:9876 is a 4.x server: broker-a with a slave loses its master to a scan at 11:00 and has it back 30 s
later, is wiped at 12:00, stops reporting T2 at 13:00, and goes the next day. 10.0.0.8:9876 is a 5.x server
whose only broker was never live.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from jobs.flag import flag
from jobs.flag_routes import (
    open_orphans_from,
    orphaned_topics_from,
    reported_rows_from,
    route_rows_from,
    swept_from,
)
from jobs.tables import union_all
from namesrv_core import V4_9_7, V5_4_0, Namesrv
from schemas import bronze, gold
from tests.jobs.rows import Event, Row, event, frame, interval, seq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NS4, NS5 = "10.0.0.9:9876", "10.0.0.8:9876"
NAMESRVS = {NS4: Namesrv(V4_9_7), NS5: Namesrv(V5_4_0)}
MASTER, SLAVE, LONE = "10.0.0.1:10911", "10.0.0.2:10911", "172.17.0.2:10911"
DAY1, DAY2 = dt.date(2026, 3, 1), dt.date(2026, 3, 2)
LONG_AGO = dt.datetime(2026, 2, 1)  # noqa: DTZ001  the session's zone is UTC


REGISTER, SLAVE_UP = ("register", LONG_AGO), event("slave-up", DAY1, "10:00:10")
SCAN, BACK = event("scan", DAY1, "11:00"), event("back", DAY1, "11:00:30")
WIPE, SHRUNK = event("wipe", DAY1, "12:00"), event("shrunk", DAY1, "13:00")
UNREGISTER = event("unregister", DAY2, "09:00")
START5, UP5 = event("start5", DAY1, "07:59:58"), event("up5", DAY1, "08:00")


def sliced(ns: str, opened: Event, closed: Event | None = None, **values: Any) -> list[Row]:
    """Give the row of each of the two days in which the interval was alive."""
    rows = []
    for day in (DAY1, DAY2):
        ends_later = closed is not None and closed[1].date() > day
        if opened[1].date() <= day and (closed is None or closed[1].date() >= day):
            rows.append({"namesrv_id": ns, "day": day, **interval(opened, None if ends_later else closed), **values})
    return rows


def queues(topic: str, opened: Event, closed: Event | None = None, perm: int = 6) -> list[Row]:
    numbers = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": perm, "topic_sys_flag": 0}
    return sliced(NS4, opened, closed, topic=topic, broker_name="broker-a", **numbers)


def member(broker_id: int, addr: str, opened: Event, closed: Event | None = None) -> list[Row]:
    group = {"broker_name": "broker-a", "cluster_name": "C", "enable_acting_master": False}
    return sliced(NS4, opened, closed, broker_id=broker_id, broker_addr=addr, **group)


def live(addr: str, opened: Event, closed: Event | None = None, last: dt.datetime = LONG_AGO) -> list[Row]:
    beats = {"first_update_time": opened[1], "last_update_time": last, "heartbeat_timeout_ms": 120_000}
    return sliced(NS4, opened, closed, broker_name="broker-a", broker_addr=addr, **beats)


LAST_BEAT = dt.datetime(2026, 3, 1, 10, 57, 55)  # noqa: DTZ001  as above
HISTORIES: dict[str, list[Row]] = {
    "topic_queue_history": [
        *queues("T", REGISTER, WIPE),
        *queues("T", WIPE, UNREGISTER, perm=4),
        *queues("T2", REGISTER, UNREGISTER, perm=6),
        *sliced(
            NS5,
            UP5,
            topic="T",
            broker_name="broker-l",
            read_queue_nums=4,
            write_queue_nums=8,
            perm=6,
            topic_sys_flag=0,
        ),
    ],
    "broker_addr_history": [
        *member(0, MASTER, REGISTER, SCAN),
        *member(1, SLAVE, SLAVE_UP, UNREGISTER),
        *member(0, MASTER, BACK, UNREGISTER),
        *sliced(
            NS5,
            UP5,
            broker_name="broker-l",
            broker_id=0,
            broker_addr=LONE,
            cluster_name="D",
            enable_acting_master=False,
        ),
    ],
    "broker_live_history": [
        *live(MASTER, REGISTER, SCAN, LAST_BEAT),
        *live(SLAVE, SLAVE_UP, UNREGISTER),
        *live(MASTER, BACK, UNREGISTER),
    ],
    "cluster_addr_history": sliced(NS4, REGISTER, cluster_name="C", broker_name="broker-a")
    + sliced(NS4, REGISTER, cluster_name="C", broker_name="broker-z"),
}
OUTCOMES = [
    (NS4, SCAN, "scan", "expired"),
    (NS4, BACK, "register_broker", "applied"),
    (NS4, WIPE, "wipe_write_perm", "applied"),
    (NS4, SHRUNK, "register_broker", "applied"),
    (NS4, UNREGISTER, "unregister_broker", "applied"),
    (NS5, START5, "namesrv_started", "started"),
    (NS5, UP5, "register_broker", "applied"),
    # keeps the name server's horizon far from the broker's registration
    (NS5, event("later5", DAY1, "09:00"), "query_data_version", "unknown_broker"),
]


def registration(at: Event, digest: str, topic_count: int) -> Row:
    broker = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": MASTER, "broker_id": 0}
    request = {"code": 103, "one_way": False, "request_version": 407, "compressed": False, "body_bytes": 1}
    source = {"source_file": "f", "source_offset": 1, "ingest_run": "r"}
    when = {
        "event_id": at[0],
        "seq": seq(at[1]),
        "event_time": at[1],
        "effect_time": at[1],
        "day": at[1].date(),
    }
    content = {"topic_config_digest": digest, "topic_count": topic_count}
    return {"namesrv_id": NS4, **when, **broker, **request, **source, **content}


def topic_configs(digest: str, *topics: str) -> Row:
    configs = [(topic, 4, 4, 6, 0) for topic in topics]
    counted = {"topic_count": len(topics), "ingest_run": "r"}
    return {"topic_config_digest": digest, "topics": configs, "mappings": [], **counted}


REGISTRATIONS = [
    registration(event("full", DAY1, "10:30"), "both", 2),
    registration(event("single", DAY1, "12:30"), "only-t", 1),
    registration(SHRUNK, "t-and-new", 2),
    registration(event("same", DAY1, "13:30"), "t-and-new", 2),
    registration(event("next-day", DAY2, "00:00:30"), "t-and-new", 2),
]
CONFIGS = [
    topic_configs("both", "T", "T2"),
    topic_configs("only-t", "T"),
    topic_configs("t-and-new", "T", "New"),
]


def inputs(spark: SparkSession) -> tuple[dict[str, DataFrame], dict[str, DataFrame]]:
    outcomes = [
        {
            "namesrv_id": ns,
            "seq": seq(at),
            "event_id": event_id,
            "effect_time": at,
            "operation": operation,
            "outcome": outcome,
            "changes": 1,
            "day": at.date(),
        }
        for ns, (event_id, at), operation, outcome in OUTCOMES
    ]
    golds = {table.name: frame(spark, table, HISTORIES.get(table.name, [])) for table in gold.HISTORY_TABLES}
    golds["event_outcomes"] = frame(spark, gold.EVENT_OUTCOMES, outcomes)
    bronzes = {
        "registrations": frame(spark, bronze.REGISTRATIONS, REGISTRATIONS),
        "topic_configs": frame(spark, bronze.TOPIC_CONFIGS_TABLE, CONFIGS),
    }
    return golds, bronzes


@pytest.fixture(scope="module")
def flagged(spark: SparkSession) -> dict[str, DataFrame]:
    """Flag both days in one go; what comes out is kept for all tests of the module."""
    golds, bronzes = inputs(spark)
    found = flag(spark, golds, bronzes, NAMESRVS, [DAY1, DAY2])
    return {name: spark.createDataFrame(rows.collect(), rows.schema) for name, rows in found.items()}


def test_flagged_tables_have_the_columns_of_their_schemas(flagged: dict[str, DataFrame]) -> None:
    """Names, types and comments are those of the tables they are written to."""
    for table in (gold.ROUTE_CHANGES, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS, gold.FINDINGS):
        fields = flagged[table.name].schema.fields
        assert [(f.name, f.dataType.simpleString(), f.metadata["comment"]) for f in fields] == [
            (c.name, c.type.simpleString(), c.comment) for c in table.columns
        ]


def test_topics_of_which_nothing_changed_need_no_sweep(
    flagged: dict[str, DataFrame], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Day by day, with what the day before left open, stirred topics alone give what a sweep of all topics in one go gives."""
    golds, bronzes = inputs(spark)
    tables = (gold.ROUTE_CHANGES.name, gold.ORPHANED_TOPICS.name)
    swept: list[set[Any]] = []

    def noting(rows: list[DataFrame], namesrvs: Any) -> DataFrame:
        keys = union_all(frame.select("namesrv_id", "topic") for frame in rows).distinct()
        swept.append({tuple(row) for row in keys.collect()})
        return swept_from(rows, namesrvs)

    monkeypatch.setattr("jobs.flag.swept_from", noting)
    day1 = flag(spark, golds, bronzes, NAMESRVS, [DAY1])
    day2 = flag(spark, {**golds, "orphaned_topics": day1["orphaned_topics"]}, bronzes, NAMESRVS, [DAY2])
    for name in tables:
        assert_df_equality(day1[name].unionAll(day2[name]), flagged[name], ignore_row_order=True, ignore_metadata=True)
    assert swept == [{(NS4, "T"), (NS4, "T2"), (NS5, "T")}] * 2
    quiet = {
        **golds,
        **{
            name: frame.where("day = DATE'2026-03-02' AND closed_by IS NULL")
            for name, frame in golds.items()
            if "closed_by" in frame.columns
        },
    }
    flag(spark, quiet, bronzes, NAMESRVS, [DAY2])
    assert swept[-1] == set()


def test_route_changes_name_their_cause_and_skip_the_day_boundary(
    flagged: dict[str, DataFrame], spark: SparkSession
) -> None:
    """A route that stands at midnight changes on neither day; every name server has its own."""
    rows = [
        (NS4, "T", "slave-up", "changed", DAY1),
        (NS4, "T", "scan", "changed", DAY1),
        (NS4, "T", "back", "changed", DAY1),
        (NS4, "T", "wipe", "changed", DAY1),
        (NS4, "T", "unregister", "vanished", DAY2),
        (NS4, "T2", "slave-up", "changed", DAY1),
        (NS4, "T2", "scan", "changed", DAY1),
        (NS4, "T2", "back", "changed", DAY1),
        (NS4, "T2", "unregister", "vanished", DAY2),
        (NS5, "T", "up5", "appeared", DAY1),
    ]
    columns = ["namesrv_id", "topic", "caused_by", "change", "day"]
    expected = spark.createDataFrame(rows, flagged["route_changes"].select(columns).schema)
    assert_df_equality(flagged["route_changes"].select(columns), expected, ignore_row_order=True)


def test_expired_brokers_tell_lag_return_and_the_topics_lost(
    flagged: dict[str, DataFrame], spark: SparkSession
) -> None:
    """The lag counts from the last refresh; a slave that stays keeps the queue data, so no topic is lost."""
    row: tuple[Any, ...] = (
        *(
            NS4,
            "C",
            "broker-a",
            MASTER,
            "scan",
            LAST_BEAT,
            120_000,
            SCAN[1],
            "scan",
            125_000,
            BACK[1],
            "back",
        ),
        *([], DAY1),
    )
    expected = spark.createDataFrame([row], flagged["expired_brokers"].schema)
    assert_df_equality(flagged["expired_brokers"], expected)


def test_orphaned_topics_are_cut_by_day_and_keep_their_beginning(
    flagged: dict[str, DataFrame], spark: SparkSession
) -> None:
    """What is open at the end of the first day goes on in the second with its beginning."""
    rows = [
        *(
            (NS4, topic, None, reason, *SCAN, *BACK, DAY1)
            for topic in ("T", "T2")
            for reason in ("no_master", "no_writable_queue")
        ),
        (NS4, "T", None, "no_writable_queue", *WIPE, None, None, DAY1),
        (NS4, "T", None, "no_writable_queue", *WIPE, *UNREGISTER, DAY2),
        (NS4, "T2", "broker-a", "residual", *SHRUNK, None, None, DAY1),
        (NS4, "T2", "broker-a", "residual", *SHRUNK, *UNREGISTER, DAY2),
        (NS5, "T", None, "no_live_broker", *UP5, None, None, DAY1),
        (NS5, "T", None, "no_live_broker", *UP5, None, None, DAY2),
    ]
    columns = ["namesrv_id", "topic", "broker_name", "reason"]
    columns += ["opened_by", "valid_from", "closed_by", "valid_to", "day"]
    found = flagged["orphaned_topics"].select(columns)
    assert_df_equality(found, spark.createDataFrame(rows, found.schema), ignore_row_order=True)


def test_findings_carry_code_subject_and_evidence(flagged: dict[str, DataFrame], spark: SparkSession) -> None:
    """Each finding of the first day names the events that prove it."""
    rows = [
        (NS4, "EXPIRED_BROKER", "warning", f"broker-a {MASTER}", ["scan", "back"]),
        (NS4, "EXPIRED_WHILE_ALIVE", "warning", f"broker-a {MASTER}", ["scan", "back"]),
        (NS4, "NO_MASTER", "critical", "broker-a", ["scan", "back"]),
        (NS4, "NO_WRITABLE_QUEUE", "critical", "T", ["scan", "back"]),
        (NS4, "NO_WRITABLE_QUEUE", "critical", "T2", ["scan", "back"]),
        (NS4, "NO_WRITABLE_QUEUE", "critical", "T", ["wipe"]),
        (NS4, "RESIDUAL_TOPIC", "warning", "T2@broker-a", ["shrunk"]),
        (NS4, "SINGLE_BROKER_TOPIC", "info", "T", ["wipe"]),
        (NS4, "SINGLE_BROKER_TOPIC", "info", "T2", ["register"]),
        (NS4, "WRITE_PERM_LEFT_WIPED", "warning", "broker-a", ["wipe"]),
        (NS5, "GHOST_BROKER", "critical", f"broker-l {LONE}", ["up5"]),
        (NS5, "NS_COLD_START", "warning", NS5, ["start5", "up5"]),
        (NS5, "ORPHAN_TOPIC", "critical", "T", ["up5"]),
        (NS5, "PRIVATE_ADDR", "info", LONE, ["up5"]),
        (NS5, "READ_LT_WRITE", "warning", "T@broker-l", ["up5"]),
    ]
    found = flagged["findings"].where(F.col("day") == F.lit(DAY1))
    found = found.select("namesrv_id", "code", "severity", "subject", "evidence")
    assert_df_equality(found, spark.createDataFrame(rows, found.schema), ignore_row_order=True)


def test_findings_have_one_row_for_each_key(flagged: dict[str, DataFrame]) -> None:
    """The key of the table holds, so a rerun writes the same rows."""
    for table in (gold.ROUTE_CHANGES, gold.ORPHANED_TOPICS, gold.FINDINGS):
        rows = [tuple(map(str, row)) for row in flagged[table.name].select(*table.key).collect()]
        assert len(rows) == len(set(rows))


def test_a_day_alone_gives_what_both_days_together_give(spark: SparkSession, flagged: dict[str, DataFrame]) -> None:
    """The second day continues the published orphans of the first; how a run is cut changes nothing."""
    golds, bronzes = inputs(spark)
    slices = {name: rows.where(F.col("day") == F.lit(DAY2)) for name, rows in golds.items()}
    first = flagged["orphaned_topics"].where(F.col("day") == F.lit(DAY1))
    rows = [
        *route_rows_from(slices),
        reported_rows_from(slices, bronzes, [DAY2]),
        open_orphans_from(first, DAY2),
    ]
    alone = orphaned_topics_from(swept_from(rows, NAMESRVS)).select(flagged["orphaned_topics"].columns)
    second = flagged["orphaned_topics"].where(F.col("day") == F.lit(DAY2))
    assert_df_equality(alone, second, ignore_row_order=True, ignore_metadata=True)
