"""The table restatements."""

from __future__ import annotations

from schemas.recorded import NAMESRV_ID
from schemas.rule import each
from schemas.table import DATE, LONG, STRING, STRINGS, Rule, Table, list_of, required, struct_of

RESTATEMENTS = Table(
    "restatements",
    "gold",
    "one partition - a table's day of one name server - that a run published with other rows than the run before it",
    (
        required("run_id", STRING, "Run that changed it"),
        required("previous_run", STRING, "Published run before it, whose rows were others"),
        required("table_name", STRING, "Gold table"),
        NAMESRV_ID,
        required("rows_before", LONG, "Rows of the partition in the previous run"),
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
    rules=(
        Rule(
            "something_changed",
            "rows_added + rows_removed > 0 AND least(rows_added, rows_removed) >= 0",
            "A restated partition has rows that were added or removed.",
        ),
        Rule(
            "rows_add_up",
            "rows_before + rows_added - rows_removed = rows_after",
            "Rows before, and those added less those removed, are the rows after.",
        ),
        Rule(
            "cause_is_known",
            "cause IN ('events', 'earlier_day', 'configuration', 'code')",
            "cause is events, earlier_day, configuration or code.",
        ),
        Rule(
            "events_are_counted",
            "(cause = 'events') = (new_events > 0) AND new_events >= len(event_ids)",
            "New events, and only they, are the cause events; there are as many as are named, or more.",
        ),
        Rule(
            "changes_are_counted",
            "len(changes) <= rows_added + rows_removed AND "
            + each("changes", "e.change IN ('added', 'removed', 'changed')"),
            "No more rows are shown than changed.",
        ),
    ),
)
