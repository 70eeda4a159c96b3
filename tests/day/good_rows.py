"""Rows that keep every rule of their table, with an identity of their own."""

from __future__ import annotations

from importlib import import_module
from itertools import count

import pyarrow as pa

from namesrv_day.arrow.rows import table_of
from namesrv_day.day.alive import on_a_day
from schemas import gold
from schemas.gold import INTERVAL_TABLES
from schemas.rules import TABLES
from tests.day.row_values import (
    E1,
    INTERVAL,
    NOON,
    ONE_DAY,
    QUEUES,
    SEQ,
    TOPICS,
    VERSION,
    addr_of,
    digest,
)

TIMED = {name for name, table in TABLES.items() if "event_id" in (column.name for column in table.derived)}
# One good row of every table; what makes a row differ from its neighbours is added by `row`.
GOOD: dict[str, dict] = {
    "topic_queue_history": INTERVAL | QUEUES | {"broker_name": "broker-a"},
    "broker_addr_history": INTERVAL | {"broker_id": 0, "cluster_name": "C", "enable_acting_master": False},
    "cluster_addr_history": INTERVAL | {"cluster_name": "C"},
    "broker_live_history": INTERVAL
    | {"heartbeat_timeout_ms": 120_000, "first_update_time": NOON, "last_update_time": NOON},
    "filter_server_history": INTERVAL | {"filter_servers": ["f"]},
    "kv_config_history": INTERVAL | {"namespace": "ORDER_TOPIC_CONFIG", "config_value": "v"},
    "topic_queue_mapping_history": INTERVAL | {"bname": "b", "total_queues": 1, "epoch": 1, "dirty": False},
    "data_version_history": INTERVAL | {"broker_name": "b", "data_version": VERSION, "is_regression": False},
}

OF_TABLES = {
    name: import_module(f"tests.tables.{name}") for name, table in TABLES.items() if table not in gold.HISTORY_TABLES
}
"""The rows of tables that are no histories have a file each."""
GOOD |= {name: of.GOOD for name, of in OF_TABLES.items()}

_numbers = count(1)


def own(table: str) -> dict[str, object]:
    n = next(_numbers)
    addr = addr_of(n)
    if "seq" in TABLES[table].column_names and "event_id" in TABLES[table].column_names:
        identity = {"seq": SEQ + n, "event_id": digest(f"event {n}"), "channel_id": f"10.0.0.1:4000#{n}"}
        return identity | ({"source_file": f"{n}.pcap"} if "source_file" in TABLES[table].column_names else {})
    if table in OF_TABLES:
        found: dict[str, object] = OF_TABLES[table].own(n)
        return found
    identities: dict[str, dict[str, object]] = {
        "topic_queue_history": {"topic": f"topic-{n}"},
        "broker_addr_history": {"broker_name": f"broker-{n}", "broker_addr": addr},
        "cluster_addr_history": {"broker_name": f"broker-{n}"},
        "broker_live_history": {"broker_addr": addr},
        "filter_server_history": {"broker_addr": addr},
        "kv_config_history": {"config_key": f"key-{n}"},
        "topic_queue_mapping_history": {"topic": f"topic-{n}"},
        "data_version_history": {"broker_addr": addr},
    }
    return identities[table]


def row(table: str, **different) -> dict:
    return GOOD[table] | own(table) | different


def good_rows() -> dict[str, list[dict]]:
    """Return rows that keep every rule, and what the planted ones refer to."""
    rows = {table: [row(table)] for table in TABLES}
    rows["registrations"].append(row("registrations", event_id=E1))
    rows["event_outcomes"].append(row("event_outcomes", event_id=E1, operation="register_broker", outcome="applied"))
    rows["topic_configs"].append(row("topic_configs", topic_config_digest=TOPICS))
    rows["broker_addr_history"].append(row("broker_addr_history", broker_name="broker-a"))
    rows["broker_addr_history"].append(row("broker_addr_history", broker_name="broker-c", valid_from=NOON - ONE_DAY))
    rows["kv_config_history"].append(row("kv_config_history", config_key=None, config_value=None))
    return rows


def frames(rows: dict[str, list[dict]]) -> dict[str, pa.Table]:
    """Return the tables of `rows`, intervals with the `day`; answers that are not explained are recorded, but for nobody's."""
    answers = {r["event_id"] for r in rows.get("route_mismatches", ())} - {digest("nobody")}
    if answers:
        recorded = [row("route_observations", event_id=event_id) for event_id in sorted(answers)]
        rows = rows | {"route_observations": rows["route_observations"] + recorded}
    for name in TIMED & rows.keys():
        rows = rows | {name: [of | {"stated_id": of["event_id"]} for of in rows[name]]}
    intervals = {
        table.name: pa.Table.from_pylist(rows[table.name], on_a_day(table))
        for table in INTERVAL_TABLES
        if table.name in rows
    }
    return {name: table_of(of, TABLES[name]) for name, of in rows.items()} | intervals
