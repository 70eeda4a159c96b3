"""The table runs: one run: the ledger through which readers find published tables."""

from __future__ import annotations

from schemas.rule import each, is_hex, warn
from schemas.table import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Rule,
    Table,
    list_of,
    map_of,
    required,
    struct_of,
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
            "What it read, by table, day and name server: the events of its days, and the gold partitions from which it "
            "started; digests are rows-sum-xor of 64-bit row hashes",
        ),
        required(
            "outputs",
            SLICES,
            "The partitions of gold tables that it wrote, likewise: of a history the intervals that closed on a day, and, without "
            "a day, all that are open now",
        ),
        required(
            "coverage",
            RECORDED_DAYS,
            "What is recorded of each name server on its days: the first and the last event or answer, and what lies between: "
            "started, stopped, log_started (only its own log tells of the start), "
            "observed_from (the recording begins in the middle of its life), snapshot, gap (until: its end), "
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
    rules=(
        Rule("status_is_known", "status IN ('published', 'refused')", "status is published or refused."),
        Rule(
            "gate_agrees",
            "status NOT IN ('published', 'refused') OR (status = 'published') = (gate = 'passed')",
            "What is published passed the gate, what is refused did not.",
        ),
        Rule("config_has_a_digest", is_hex("config_sha256", 64), "config_sha256 is 64 hex digits."),
        Rule(
            "figures_are_not_negative",
            " AND ".join(each(f"map_values({figures})", "e >= 0") for figures in ("versions", "counts", "seconds")),
            "Versions, counts and seconds are 0 or more.",
        ),
        warn("time_does_not_run_back", "started_time <= finished_time", "A run does not end before it starts."),
    ),
)
