"""The table runs: the ledger through which readers find published tables."""

from __future__ import annotations

from schemas.table import Table, columns, each, is_hex, rules

RUNS = Table(
    "runs",
    "gold",
    "one run; the ledger through which readers find published tables",
    columns("""
        run_id* STRING: Id of the run
        layout* INT: Layout of the warehouse that the run wrote
        parent_run STRING: Published run that it builds on; NULL for the first
        started_time* TIMESTAMP: Start
        finished_time* TIMESTAMP: End
        status* STRING: published, or refused by the quality gate
        days* ARRAY<DATE>: Days that it recomputed
        ingest_runs* ARRAY<STRING>: Ingest runs whose rows it is the first to cover
        sources* ARRAY<STRING>: SHA-256 of the files that those ingest runs read
        late_namesrvs* ARRAY<STRING>: Name servers with late rows: on their last known day, those ingest runs read rows from
            before the end of what was known
        inputs* ARRAY<STRUCT<table: STRING, day: DATE, namesrv_id: STRING, digest: STRING>>: Rows that it read, by table, day
            and name server: the events of its days, and the gold partitions from which it started; a digest is rows-sum-xor
            of 64-bit row hashes
        outputs* ARRAY<STRUCT<table: STRING, day: DATE, namesrv_id: STRING, digest: STRING>>: Gold partitions that it wrote,
            likewise: of a history the intervals that closed on a day and, with day NULL, all that are open now
        coverage* ARRAY<STRUCT<namesrv_id: STRING, day: DATE, first_time: TIMESTAMP, last_time: TIMESTAMP, marks:
            ARRAY<STRUCT<kind: STRING, at: TIMESTAMP, until: TIMESTAMP>>>>: What is recorded of each name server on its
            days: the first and the last event or answer, and marks in between: started, stopped, log_started (the start is
            known only from its own log), observed_from (the recording begins in the middle of its life), gap (until: its
            end), doubt (all brokers fell silent: an outage or a gap). The view coverage joins the days
        previous_sha256* STRING: Hash of the chain up to the row before (64 zeros for the first row), computed as in
            docs/auditors.md
        files_root* STRING: Merkle root of all data files that readers see after the run
        files* ARRAY<STRUCT<table: STRING, path: STRING, sha256: STRING, pieces: ARRAY<STRUCT<rows: BIGINT, root: STRING>>>>:
            Files that are new since the row before, including commits of Delta logs, with the SHA-256 of their bytes; for
            histories, reports and small tables the Merkle root of the rows of each piece that was once written together
        gone* ARRAY<STRUCT<table: STRING, path: STRING>>: Files that readers no longer see
        versions* MAP<STRING, BIGINT>: Delta version of every table after the run
        digests* MAP<STRING, STRING>: Digest of every table partitioned by day, over all its days
        counts* MAP<STRING, BIGINT>: Frames read, by their fate (ignored.*: the rule that ignored them); events of the run's
            days by outcome (outcome.*), plain refreshes as outcome.refreshed
        seconds* MAP<STRING, DOUBLE>: Duration of each step in seconds
        gate* STRING: passed, or the critical rules that failed
        code_version* STRING: Version of this software
        config_sha256* STRING: SHA-256 of the configuration in force
        report STRING: The part of the run's summary about its days, as JSON; NULL if the run was refused
    """),
    key=("run_id",),
    partition_by=(),
    rules=rules(f"""
        status_is_known: status is published or refused.
            status IN ('published', 'refused')
        gate_agrees: What is published passed the gate, what is refused did not.
            status NOT IN ('published', 'refused') OR (status = 'published') = (gate = 'passed')
        hashes_are_hex: config_sha256, previous_sha256 and files_root are 64 hex digits.
            {" AND ".join(is_hex(name, 64) for name in ("config_sha256", "previous_sha256", "files_root"))}
        figures_are_not_negative: Versions, counts and seconds are 0 or more.
            {" AND ".join(each(f"map_values({figures})", "e >= 0") for figures in ("versions", "counts", "seconds"))}
        time_does_not_run_back?: A run does not end before it starts.
            started_time <= finished_time
    """),
)
