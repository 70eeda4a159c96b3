"""The SQL that readers meet, one statement a file, in Spark's dialect: views and table functions.

Below them lie the tables as they were published (a history table, and `findings`, as `<name>_slices`; `runs` and
`restatements` as `<name>_committed`; one with columns that follow from others as `<name>_stored`), `slice_days` (`SLICE_DAYS`:
the slices of histories that there are), `known_run` (finished_time: of the run as of which is read), `coverage_spans`
(what is recorded, and so to be said of each instant), and the function `days_in_force(t)`, which `days_in_force` writes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa

from schemas import bronze, gold
from schemas.findings import CATALOGUE, THRESHOLDS, Thresholds
from schemas.sql_files import query
from schemas.table import BOOLEAN, STRING, TIMESTAMP, Column, Table, list_of, struct_of

VIEW_NAMES = (
    "coverage",
    "events",
    "live_refreshes",
    "whole_routes",
    "client_routes",
    "cause_events",
    "causes",
    "orphaned_intervals",
    "broker_lives",
    "queue_changes",
    "address_changes",
    "heartbeat_gaps",
    "route_weights",
    "registry_rows",
    "finding_codes",
    "incidents",
    "namesrv_divergence",
)
FUNCTION_NAMES = (
    "coverage_at",
    "coverage_between",
    "topic_queue_rows_at",
    "broker_addr_rows_at",
    "cluster_addr_rows_at",
    "filter_server_rows_at",
    "kv_config_rows_at",
    "topic_queue_table_at",
    "broker_addr_table_at",
    "cluster_addr_table_at",
    "broker_live_table_at",
    "filter_server_table_at",
    "kv_config_table_at",
    "routes_rows_at",
    "routes_at",
    "route_at",
    "route_text_rows_at",
    "route_texts_at",
    "route_cause_rows_between",
    "route_diff",
    "registry_diff",
    "client_queues_at",
    "publish_info_at",
    "subscribe_info_at",
    "why",
)
# Functions that return the rows of a history table which were in force at an instant, columns and comments as there;
# broker_live_table_at has a statement of its own, since a row's lastUpdateTimestamp moves within its interval.
_TABLES_AT = {
    "topic_queue_table_at": (gold.TOPIC_QUEUE_HISTORY, "topicQueueTable as every name server held it at t"),
    "broker_addr_table_at": (
        gold.BROKER_ADDR_HISTORY,
        "brokerAddrTable as every name server held it at t, one row for each member",
    ),
    "cluster_addr_table_at": (gold.CLUSTER_ADDR_HISTORY, "clusterAddrTable as every name server held it at t"),
    "filter_server_table_at": (gold.FILTER_SERVER_HISTORY, "filterServerTable as every name server held it at t"),
    "kv_config_table_at": (gold.KV_CONFIG_HISTORY, "The KV configuration as every name server held it at t"),
}
DAYS_OF_EACH = "slice_days_of_each"
DAYS_IN_FORCE = f"""CREATE OR REPLACE TEMPORARY FUNCTION days_in_force(t TIMESTAMP) RETURNS ARRAY<DATE>
RETURN transform({DAYS_OF_EACH}, days -> array_max(filter(days, day -> day <= to_date(days_in_force.t))))"""

SLICE_DAYS = pa.schema(
    {"namesrv_id": STRING, "day": pa.date32(), "from_time": TIMESTAMP, "until": TIMESTAMP, "is_last": BOOLEAN}
)
"""Columns of `slice_days`, a row for each slice of histories: from which instant on, until which, exclusive, it is the one that
holds what was so, whatever the zone of the session; `is_last`: what is open in it is open now."""
_NEVER_ENDS = dt.datetime(9999, 1, 1, tzinfo=dt.timezone.utc)

COVERAGE_SPANS = pa.schema(
    {
        "from_time": TIMESTAMP,
        "until": TIMESTAMP,
        "nowhere": BOOLEAN,
        "recorded": STRING,
        "said": list_of(
            struct_of(
                namesrv_id=STRING,
                is_covered=BOOLEAN,
                recorded=BOOLEAN,
                running=BOOLEAN,
                known=BOOLEAN,
                known_since=TIMESTAMP,
                coverage=STRING,
                nothing=STRING,
            )
        ),
    }
)
"""Columns of `coverage_spans`, a row for each name server and time in which the same is to be said of it.

`from_time` NULL: since ever; `until` NULL: for ever. `nowhere`: no name server is recorded then; `recorded`: in words, what is;
`said`: what `coverage_at` returns, in a list of one.
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """A SQL statement and the name of what it makes or asks."""

    name: str
    sql: str


def stored_tables() -> dict[str, Table]:
    """Return the tables by the name under which readers' SQL finds their rows as they were published."""
    sliced = (*gold.HISTORY_TABLES, gold.FINDINGS)
    committed = (gold.RUNS, gold.RESTATEMENTS)
    under = {f"{table.name}_slices": table for table in sliced}
    under |= {f"{table.name}_committed": table for table in committed}
    under |= {f"{table.name}_stored": table for table in bronze.TABLES if table.derived}
    others = (table for table in (*gold.TABLES, *bronze.TABLES) if table not in under.values())
    return under | {table.name: table for table in others}


def statements() -> dict[str, Statement]:
    """Return every statement by the name of what it makes, those first that others use."""
    made = [
        *(Statement(table.name, _whole(table)) for table in gold.HISTORY_TABLES),
        Statement("findings", query("findings/readers_view")),
        *(Statement(name, query(f"ledger/{name}")) for name in ("runs", "restatements")),
        *(Statement(table.name, _with_derived(table)) for table in bronze.TABLES if table.derived),
        *views(),
        *functions(),
    ]
    return {one.name: one for one in made}


def views() -> tuple[Statement, ...]:
    """Return the views over the bronze and gold views, in the order in which they can be made."""
    made = {
        "finding_codes": _finding_codes(),
        "whole_routes": query("views/whole_routes").replace("{route_text}", _route_text("parts")),
    }
    return tuple(Statement(name, made.get(name) or query(f"views/{name}")) for name in VIEW_NAMES)


def functions() -> tuple[Statement, ...]:
    """Return the table functions, in the order in which they can be made."""
    made = {name: sql for table in _TABLES_AT for name, sql in _at(table, *_TABLES_AT[table]).items()}
    why = query("functions/why").replace("{route_text_before}", _route_text("n.parts_before"))
    made["why"] = why.replace("{route_text}", _route_text("n.parts"))
    return tuple(Statement(name, made.get(name) or query(f"functions/{name}")) for name in FUNCTION_NAMES)


def slice_rows(slice_days: Sequence[tuple[str, dt.date]]) -> list[dict[str, Any]]:
    """Return the rows of `slice_days` for the (namesrv_id, day) of the slices that there are, in order."""
    found: list[dict[str, Any]] = []
    for (name, day), (other, later) in pairwise([*slice_days, ("", dt.date.max)]):
        is_last = other != name or later == dt.date.max
        until = _NEVER_ENDS if is_last else midnight(later)
        found.append({"namesrv_id": name, "day": day, "from_time": midnight(day), "until": until, "is_last": is_last})
    return found


def midnight(day: dt.date) -> dt.datetime:
    """Return the instant at which a day begins in UTC."""
    return dt.datetime.combine(day, dt.time(), dt.timezone.utc)


def days_in_force(slice_days: Collection[tuple[str, dt.date]]) -> str:
    """Return the statement of the function `days_in_force(t)`: the days whose slices hold what was so at t.

    The days are in its text, so that for a literal t it is a constant before anything is read, and partitions are pruned. Each
    place that calls it has that text parsed and analysed: days that follow each other are told by the first and the last.
    """
    days: dict[str, list[dt.date]] = {}
    for name, day in sorted(slice_days, key=lambda one: one[1]):
        days.setdefault(name, []).append(day)
    of_each = {f"concat({', '.join(_sequences(found))})" for found in days.values()} or {"array(DATE'1970-01-01')"}
    return DAYS_IN_FORCE.replace(DAYS_OF_EACH, f"array({', '.join(sorted(of_each))})")


def runs_of_days(days: Sequence[dt.date]) -> Iterator[tuple[dt.date, dt.date]]:
    """Yield the first and the last of days that follow each other. `days`: in order, each once."""
    for _, run in groupby(enumerate(days), key=lambda numbered: numbered[1].toordinal() - numbered[0]):
        found = [day for _, day in run]
        yield found[0], found[-1]


def _sequences(days: Sequence[dt.date]) -> Iterator[str]:
    return (f"sequence(DATE'{first}', DATE'{last}')" for first, last in runs_of_days(days))


def _route_text(parts: str) -> str:
    """Return what makes a route of its parts, a sorted list of (part, name, text)."""
    return query("views/route_text").replace("{parts}", parts).strip()


def _finding_codes() -> str:
    rows: list[str] = []
    for finding in CATALOGUE:
        said, threshold = finding.said, "CAST(NULL AS STRING)"
        if "threshold" in said:
            name = said["threshold"]
            field, unit = THRESHOLDS[name]
            threshold = _quoted(f"{name} = {getattr(Thresholds(), field) // unit}")
        texts = (_quoted(text) for text in (finding.code, said["meaning"], said["severity"]))
        of_code = (*texts, threshold, _quoted(said["remedy"]), str(finding.is_static).upper())
        rows.append(f"({', '.join(of_code)})")
    return query("views/finding_codes").format(codes=",\n    ".join(rows))


def _whole(table: Table) -> str:
    columns = [column for column in table.columns if column.name != "day"]
    return query("views/whole_intervals").format(
        history=table.name,
        grain=_quoted(table.grain),
        declared=",\n    ".join(f"{column.name} COMMENT {_quoted(column.comment)}" for column in columns),
        columns=", ".join(f"r.{column.name}" for column in columns),
    )


def _with_derived(table: Table) -> str:
    return query("views/with_derived").format(
        table=table.name,
        grain=_quoted(table.grain),
        declared=",\n    ".join(f"{column.name} COMMENT {_quoted(column.comment)}" for column in table.columns),
        columns=", ".join(
            f"{column.derived} AS {column.name}" if column.derived else column.name for column in table.columns
        ),
    )


def _at(function: str, history: Table, comment: str) -> dict[str, str]:
    """Return the statements of a function that returns a table at an instant, and of that which it calls for the rows."""
    columns = [column for column in history.columns if column not in gold.INTERVAL]
    types = {field.name: field.dataType.simpleString() for field in history.spark_schema}
    rows = function.replace("_table_at", "_rows_at")
    said = {
        "function": function,
        "rows": rows,
        "history": history.name,
        "comment": comment,
        "declared": ",\n    ".join(_declared(column, types[column.name]) for column in columns),
        "columns": ", ".join(f"r.{column.name}" for column in columns),
        "nothing": ", ".join(_nothing(types[column.name]) for column in columns[1:]),
    }
    return {rows: query("functions/rows_at").format(**said), function: query("functions/table_at").format(**said)}


def _nothing(spark_type: str) -> str:
    """Return a NULL of a type; of a plain one no planner sees that it is, and leaves the rows out before `coverage_at` has run."""
    if spark_type == "string":
        return "c.nothing"
    return f"CAST(NULL AS {spark_type})" if "<" in spark_type else f"CAST(c.nothing AS {spark_type.upper()})"


def _declared(column: Column, spark_type: str) -> str:
    return f"{column.name} {spark_type} COMMENT {_quoted(column.comment)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
