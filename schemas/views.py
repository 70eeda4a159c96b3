"""The SQL that readers meet, one statement a file: views and table functions."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from schemas import gold
from schemas.table import Column, Table

# In the order in which they are made: later ones use earlier ones.
VIEW_NAMES = ("events", "live_refreshes", "route_causes", "client_routes")
FUNCTION_NAMES = (
    "topic_queue_table_at",
    "broker_addr_table_at",
    "cluster_addr_table_at",
    "broker_live_table_at",
    "filter_server_table_at",
    "kv_config_table_at",
    "routes_at",
    "route_at",
    "route_texts_at",
    "route_diff",
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


@dataclass(frozen=True, slots=True)
class Statement:
    """A SQL statement and the name of what it makes or asks."""

    name: str
    sql: str


def views() -> tuple[Statement, ...]:
    """Return the views over the bronze and gold views, in the order in which they can be made."""
    return tuple(Statement(name, _sql("views", name)) for name in VIEW_NAMES)


def functions() -> tuple[Statement, ...]:
    """Return the table functions, in the order in which they can be made."""
    return tuple(
        Statement(name, _table_at(name, *_TABLES_AT[name]) if name in _TABLES_AT else _sql("functions", name))
        for name in FUNCTION_NAMES
    )


def _table_at(function: str, history: Table, comment: str) -> str:
    columns = [column for column in history.columns if column not in gold.INTERVAL]
    types = {field.name: field.dataType.simpleString() for field in history.spark_schema}
    return _sql("functions", "table_at").format(
        function=function,
        history=history.name,
        comment=comment,
        declared=",\n    ".join(_declared(column, types[column.name]) for column in columns),
        columns=", ".join(f"r.{column.name}" for column in columns),
    )


def _declared(column: Column, spark_type: str) -> str:
    comment = column.comment.replace("'", "''")
    return f"{column.name} {spark_type} COMMENT '{comment}'"


def _sql(folder: str, name: str) -> str:
    return (files("schemas") / "sql" / folder / f"{name}.sql").read_text(encoding="utf-8")
