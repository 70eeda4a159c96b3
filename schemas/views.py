"""The SQL that readers meet, one statement a file, in Spark's dialect: views and table functions.

Below them lie the tables as they were published (`runs` as `runs_committed`; one with columns that follow
from others as `<name>_stored`), `known_run` (finished_time: of the run as of which is read), and `coverage_spans` (what is
recorded, and so to be said of each instant).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from schemas import bronze, gold
from schemas.findings import CATALOGUE, THRESHOLDS, Thresholds
from schemas.sql_files import query
from schemas.table import BOOLEAN, STRING, TIMESTAMP, Table, type_name, type_of, words

VIEW_NAMES = (
    *(
        "coverage",
        "other_events",
        "events",
        "live_refreshes",
        "whole_routes",
        "client_routes",
        "cause_events",
        "causes",
    ),
    *("broker_lives", "queue_changes", "address_changes", "heartbeat_gaps", "route_weights", "registry_rows"),
    "between_answers",
    *("finding_codes", "incidents", "namesrv_divergence", "restatements"),
)
FUNCTION_NAMES = (
    *("coverage_at", "coverage_between"),
    *("topic_queue_rows_at", "broker_addr_rows_at", "cluster_addr_rows_at", "filter_server_rows_at"),
    *("kv_config_rows_at", "topic_queue_table_at", "broker_addr_table_at", "cluster_addr_table_at"),
    *("broker_live_table_at", "filter_server_table_at", "kv_config_table_at"),
    *("routes_rows_at", "routes_at", "route_at", "route_text_rows_at", "route_cause_rows_between"),
    *("route_diff", "registry_diff", "client_queues_at", "publish_info_at", "subscribe_info_at", "why"),
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
COVERAGE_SPANS = pa.schema(
    {
        "from_time": TIMESTAMP,
        "until": TIMESTAMP,
        "nowhere": BOOLEAN,
        "recorded": STRING,
        "said": type_of(
            "ARRAY<STRUCT<namesrv_id: STRING, is_covered: BOOLEAN, recorded: BOOLEAN, running: BOOLEAN, known: BOOLEAN, "
            "known_since: TIMESTAMP, coverage: STRING, nothing: STRING>>"
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
    under = {"runs_committed": gold.RUNS}
    under |= {f"{table.name}_stored": table for table in bronze.TABLES if table.derived}
    others = (table for table in (*gold.TABLES, *bronze.TABLES) if table not in under.values())
    return under | {table.name: table for table in others}


def statements() -> dict[str, Statement]:
    """Return every statement by the name of what it makes, those first that others use."""
    made = [
        Statement("runs", query("ledger/runs")),
        *(Statement(table.name, _with_derived(table)) for table in bronze.TABLES if table.derived),
        *views(),
        *functions(),
    ]
    return {one.name: one for one in made}


def views() -> tuple[Statement, ...]:
    """Return the views over the bronze and gold views, in the order in which they can be made."""
    made = {
        "finding_codes": _finding_codes(),
        "restatements": query("views/restatements").format(recorded=words(of.name for of in bronze.RECORDED_TABLES)),
        "whole_routes": query("views/whole_routes").replace("{route_text}", _route_text("parts")),
    }
    return tuple(Statement(name, made.get(name) or query(f"views/{name}")) for name in VIEW_NAMES)


def functions() -> tuple[Statement, ...]:
    """Return the table functions, in the order in which they can be made."""
    made = {name: sql for table in _TABLES_AT for name, sql in _at(table, *_TABLES_AT[table]).items()}
    made["why"] = query("functions/why").replace("{route_text}", _route_text("p"))
    return tuple(Statement(name, made.get(name) or query(f"functions/{name}")) for name in FUNCTION_NAMES)


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


def _with_derived(table: Table) -> str:
    made = (f"{of.derived} AS {of.name}" if of.derived else of.name for of in table.columns)
    declared = ",\n    ".join(f"{column.name} COMMENT {_quoted(column.comment)}" for column in table.columns)
    sql, grain = query("views/with_derived"), _quoted(table.grain)
    return sql.format(table=table.name, grain=grain, declared=declared, columns=", ".join(made))


def _at(function: str, history: Table, comment: str) -> dict[str, str]:
    """Return the statements of a function that returns a table at an instant, and of that which it calls for the rows."""
    columns = [column for column in history.columns if column not in gold.INTERVAL]
    types = {column.name: type_name(column.type) for column in history.columns}

    def nothing(spark_type: str) -> str:
        # NULL of a type; of a plain one no planner sees that it is, and leaves the rows out before `coverage_at` has run.
        if spark_type == "STRING":
            return "c.nothing"
        return f"CAST({'NULL' if '<' in spark_type else 'c.nothing'} AS {spark_type})"

    rows = function.replace("_table_at", "_rows_at")
    said = {
        "function": function,
        "rows": rows,
        "history": history.name,
        "comment": comment,
        "declared": ",\n    ".join(f"{of.name} {types[of.name]} COMMENT {_quoted(of.comment)}" for of in columns),
        "columns": ", ".join(f"r.{column.name}" for column in columns),
        "nothing": ", ".join(nothing(types[column.name]) for column in columns[1:]),
    }
    return {rows: query("functions/rows_at").format(**said), function: query("functions/table_at").format(**said)}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
