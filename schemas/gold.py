"""The gold tables: what the replay makes of the events, and the ledger of what was published."""

from __future__ import annotations

from schemas.bronze import NAMESRV_ID
from schemas.gold_histories import (
    BROKER_ADDR_HISTORY,
    BROKER_LIVE_HISTORY,
    CLUSTER_ADDR_HISTORY,
    DATA_VERSION_HISTORY,
    FILTER_SERVER_HISTORY,
    HISTORY_TABLES,
    INTERVAL,
    KV_CONFIG_HISTORY,
    TOPIC_QUEUE_HISTORY,
    TOPIC_QUEUE_MAPPING_HISTORY,
)
from schemas.gold_reports import (
    ANSWER_CHECKS,
    EVENT_OUTCOMES,
    EXPIRED_BROKERS,
    FINDINGS,
    LAST_HEARTBEATS,
    MAP_CAPACITIES,
    NAMESRV_SETTINGS,
    ORDER_DECISIONS,
    ORPHANED_TOPICS,
    PAST_KNOWLEDGE,
    REFRESHES_HOURLY,
    REPORT_TABLES,
    ROUTE_CHANGES,
    ROUTE_MISMATCHES,
)
from schemas.table import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
    list_of,
    map_of,
    required,
    struct_of,
)

__all__ = (
    "ANSWER_CHECKS",
    "BROKER_ADDR_HISTORY",
    "BROKER_LIVE_HISTORY",
    "CLUSTER_ADDR_HISTORY",
    "DATA_VERSION_HISTORY",
    "EVENT_OUTCOMES",
    "EXPIRED_BROKERS",
    "FILTER_SERVER_HISTORY",
    "FINDINGS",
    "HISTORY_TABLES",
    "INTERVAL",
    "KV_CONFIG_HISTORY",
    "LAST_HEARTBEATS",
    "MAP_CAPACITIES",
    "NAMESRV_SETTINGS",
    "ORDER_DECISIONS",
    "ORPHANED_TOPICS",
    "PAST_KNOWLEDGE",
    "RECORDED_DAYS",
    "REFRESHES_HOURLY",
    "REPORT_TABLES",
    "RESTATEMENTS",
    "ROUTE_CHANGES",
    "ROUTE_MISMATCHES",
    "RUNS",
    "SLICES",
    "TABLES",
    "TOPIC_QUEUE_HISTORY",
    "TOPIC_QUEUE_MAPPING_HISTORY",
)

SLICES = list_of(struct_of(table=STRING, day=DATE, namesrv_id=STRING, digest=STRING))
RECORDED_DAYS = list_of(
    struct_of(
        namesrv_id=STRING,
        day=DATE,
        first_time=TIMESTAMP,
        last_time=TIMESTAMP,
        marks=list_of(struct_of(kind=STRING, at=TIMESTAMP, until=TIMESTAMP)),
    )
)
RUNS = Table(
    "runs",
    "gold",
    "one run: the ledger through which readers find published tables",
    (
        required("run_id", STRING, "Run"),
        required("layout", INT, "Layout of the warehouse that the run wrote"),
        Column("parent_run", STRING, "Published run on which it builds; NULL for the first"),
        required("started_time", TIMESTAMP, "Start"),
        required("finished_time", TIMESTAMP, "End"),
        required("status", STRING, "published or refused (gate)"),
        required("days", list_of(DATE), "Days recomputed"),
        required("ingest_runs", STRINGS, "Ingest runs whose rows it is the first to cover"),
        required("sources", STRINGS, "SHA-256 of the files that those ingest runs read"),
        required(
            "inputs",
            SLICES,
            "What it read, cut by table, day and name server: the events of its days, and the gold slices from which it "
            "started; digests are rows-sum-xor of 64-bit row hashes",
        ),
        required(
            "outputs",
            SLICES,
            "The slices of gold tables that it wrote, likewise: of a history the intervals that closed on a day, and with no day "
            "all that are open now",
        ),
        required(
            "coverage",
            RECORDED_DAYS,
            "What is recorded of each name server on its days: the first and the last event or answer, and what lies between: "
            "started, stopped, observed_from (the recording begins in the middle of its life), snapshot, gap (until: its end), "
            "doubt (all brokers fell silent: an outage or a gap). The view coverage puts days together",
        ),
        required("versions", map_of(LONG), "Delta version of every table after the run"),
        required("digests", map_of(STRING), "Digest of every table that is cut by day, all its days together"),
        required(
            "counts",
            map_of(LONG),
            "Frames read, by what became of them (ignored.*: by which rule); events of the run's days by outcome (outcome.*), "
            "plain refreshes as outcome.refreshed",
        ),
        required("seconds", map_of(DOUBLE), "Seconds by step"),
        required("gate", STRING, "passed, or the critical rules that failed"),
        required("code_version", STRING, "Version of this software"),
        required("config_sha256", STRING, "SHA-256 of the configuration in force"),
        Column("report", STRING, "What the run's summary says of its days, as JSON; NULL if it was refused"),
    ),
    key=("run_id",),
    partition_by=(),
)
RESTATEMENTS = Table(
    "restatements",
    "gold",
    "one slice - a table's day of one name server - that a run published with other rows than the run before it",
    (
        required("run_id", STRING, "Run that changed it"),
        required("previous_run", STRING, "Published run before it, whose rows were others"),
        required("table_name", STRING, "Gold table"),
        NAMESRV_ID,
        required("rows_before", LONG, "Rows of the slice in the previous run"),
        required("rows_after", LONG, "Rows of it now"),
        required("rows_added", LONG, "Rows that were not there before; a changed row is one added and one removed"),
        required("rows_removed", LONG, "Rows that are gone"),
        required(
            "cause",
            STRING,
            "events (late or repeated ones of that day), earlier_day (what a day before it left is different), "
            "configuration, code",
        ),
        required("ingest_runs", STRINGS, "Ingest runs whose events of that day no earlier run knew"),
        required("new_events", LONG, "How many events and answers those are"),
        required("event_ids", STRINGS, "The first 20 of them"),
        required(
            "changes",
            list_of(struct_of(key=STRING, change=STRING, before=STRING, after=STRING)),
            "Rows that changed, by the table's key: change is added, removed or changed, before and after are the rest of the "
            "row as JSON. Of the tables that are read most, at most 100 a day",
        ),
        required("day", DATE, "Day that was published before; partition"),
    ),
    key=("day", "run_id", "table_name", "namesrv_id"),
)

TABLES = (*HISTORY_TABLES, *REPORT_TABLES, RUNS, RESTATEMENTS)
