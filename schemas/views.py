"""The SQL that readers meet, one statement a file: views, table functions, the queries of findings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

# In the order in which they are made: later ones use earlier ones.
VIEW_NAMES = ("events", "live_refreshes", "route_causes")
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
    "why",
)
FINDING_CODES = (
    "ADDR_MULTI_IDENTITY",
    "BROKER_FLAPPING",
    "BROKER_NAME_CONFLICT",
    "EXPIRED_BROKER",
    "EXPIRED_WHILE_ALIVE",
    "GHOST_BROKER",
    "MASS_TOPIC_LOSS",
    "NO_MASTER",
    "NO_WRITABLE_QUEUE",
    "NS_COLD_START",
    "ORPHAN_TOPIC",
    "PRIVATE_ADDR",
    "READ_LT_WRITE",
    "RESIDUAL_TOPIC",
    "SINGLE_BROKER_TOPIC",
    "STALE_ORDER_CONF",
    "VERSION_REGRESSION",
    "WRITE_PERM_LEFT_WIPED",
)


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
    return tuple(Statement(name, _sql("functions", name)) for name in FUNCTION_NAMES)


def finding_queries() -> tuple[Statement, ...]:
    """Return the query of each finding: gold tables stand as `{name}`, columns are those of `findings`."""
    return tuple(Statement(code, _sql("findings", code.lower())) for code in FINDING_CODES)


def _sql(folder: str, name: str) -> str:
    return (files("schemas") / "sql" / folder / f"{name}.sql").read_text(encoding="utf-8")
