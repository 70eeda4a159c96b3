"""The table restatements."""

from __future__ import annotations

from schemas.table import Table, columns, each, rules

RESTATEMENTS = Table(
    "restatements",
    "gold",
    "one partition - a table's day of one name server - that a run published with other rows than the run before it",
    columns("""
        run_id* STRING: Run that changed it
        previous_run* STRING: Published run before it, whose rows were others
        table_name* STRING: Gold table
        namesrv_id
        rows_before* BIGINT: Rows of the partition in the previous run
        rows_after* BIGINT: Rows of it now
        rows_added* BIGINT: Rows that were not there before; a changed row is one added and one removed
        rows_removed* BIGINT: Rows that are gone
        cause* STRING: events (late or repeated ones of that day), earlier_day (what a day before it left is different),
            configuration, code
        ingest_runs* ARRAY<STRING>: Ingest runs whose events of that day no earlier run knew
        new_events* BIGINT: How many events and answers those are
        event_ids* ARRAY<STRING>: The first 20 of them
        changes* ARRAY<STRUCT<key: STRING, change: STRING, before: STRING, after: STRING>>: Rows that changed, by the
            table's key: change is added, removed or changed, before and after are the rest of the row as JSON. Of the
            tables that are read most, at most 100 a day
        day* DATE: Day that was published before; partition
    """),
    key=("day", "run_id", "table_name", "namesrv_id"),
    rules=rules(f"""
        something_changed: A restated partition has rows that were added or removed.
            rows_added + rows_removed > 0 AND least(rows_added, rows_removed) >= 0
        rows_add_up: Rows before, and those added less those removed, are the rows after.
            rows_before + rows_added - rows_removed = rows_after
        cause_is_known: cause is events, earlier_day, configuration or code.
            cause IN ('events', 'earlier_day', 'configuration', 'code')
        events_are_counted: New events, and only they, are the cause events; there are as many as are named, or more.
            (cause = 'events') = (new_events > 0) AND new_events >= len(event_ids)
        changes_are_counted: No more rows are shown than changed.
            len(changes) <= rows_added + rows_removed AND {each("changes", "e.change IN ('added', 'removed', 'changed')")}
    """),
)
