"""Rows that keep every rule of their table, with an identity of their own."""

from __future__ import annotations

import datetime as dt
import hashlib
from itertools import count

import pyarrow as pa

from namesrv_day.arrow.rows import table_of
from namesrv_day.day.alive import on_a_day
from namesrv_day.gate import keys
from schemas.gold import HISTORY_TABLES
from schemas.rules import TABLES

DAY = dt.date(2026, 3, 2)
DAY_BEFORE = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 2, 12)  # noqa: DTZ001  instants are UTC
SEQ = 1_772_452_800_000_000_000
MINUTE = dt.timedelta(minutes=1)
ONE_DAY = dt.timedelta(days=1)
NAMESRV = "10.0.0.9:9876"
VERSION = {"state_version": 0, "timestamp": 1, "counter": 1}


def digest(text: str, digits: int = 32) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


E1 = digest("registration of broker-a")
TOPICS = digest("topics")
SOURCE = {"source_file": "capture.pcap", "source_offset": 1, "ingest_run": "run-1"}
EVENT = {
    "namesrv_id": NAMESRV,
    "event_time": NOON,
    "effect_time": NOON,
    "channel_id": "10.0.0.1:4000#1",
    "namesrv_addr": NAMESRV,
    "day": DAY,
    **SOURCE,
}
REQUEST = {"one_way": False, "request_version": 407, "response_code": 0}
BROKER = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.1:10911", "broker_id": 0}
INTERVAL = {
    "namesrv_id": NAMESRV,
    "day": DAY,
    "valid_from": NOON,
    "opened_by": E1,
    "opened_at": {"seq": SEQ, "no": 0},
    "entered_at": {"seq": SEQ, "no": 0},
    "known_from": NOON,
    "beginning_seen": True,
}
CLOSED = {"valid_to": NOON + MINUTE, "closed_by": E1, "closed_at": {"seq": SEQ + 60_000_000_000, "no": 0}}
QUEUES = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}
ROUTE = '{"queueDatas":[]}'

# One good row of every table; what makes a row differ from its neighbours is added by `row`.
GOOD: dict[str, dict] = {
    "heartbeats": EVENT | REQUEST | BROKER | {"code": 322, "data_version": VERSION, "nth": 0},
    "registrations": EVENT
    | REQUEST
    | BROKER
    | {"code": 103, "compressed": False, "body_bytes": 10, "topic_config_digest": TOPICS, "topic_count": 1},
    "unregistrations": EVENT | REQUEST | BROKER | {"code": 104},
    "channel_events": EVENT
    | {"kind": "close", "closed_by": "client", "remote_addr": "10.0.0.1:4000", "pending_requests": 0},
    "admin_events": EVENT
    | REQUEST
    | {
        "code": 217,
        "operation": "register_topic_in_namesrv",
        "queue_datas": [{"broker_name": "b", **QUEUES}],
    },
    "namesrv_events": EVENT | {"kind": "identified", "version": 407, "evidence": "an answer"},
    "topic_configs": {
        "topics": [{"topic": "T", **QUEUES}],
        "mappings": [],
        "topic_count": 1,
        "ingest_run": "run-1",
    },
    "route_observations": EVENT
    | {
        "code": 105,
        "subject": "T",
        "request_seq": SEQ,
        "standard_json": False,
        "request_version": 407,
        "response_code": 0,
        "response_version": 407,
        "body": ROUTE,
        "nth": 0,
        "seq_rest": 0,
        "request_rest": 0,
    },
    "snapshots": {
        "namesrv_id": NAMESRV,
        "namesrv_addr": NAMESRV,
        "effect_time": NOON,
        "snapshot": '{"format":"namesrv-snapshot/1"}',
        "day": DAY,
        **SOURCE,
    },
    "quarantine": {
        "reason": "bad_json",
        "length": 2,
        "sha256": digest("piece", 64),
        "first_bytes": "7b7d",
        "decoder_version": "1",
        "day": DAY,
        **SOURCE,
    },
    "sources": {
        "source_file": "capture.pcap",
        "kind": "capture",
        "bytes": 1,
        "frames": 100_000,
        "packets": 1,
        "days": [NOON.date()],
        "verdict": "accepted",
        "ingest_run": "run-1",
    },
    "open_streams": {
        "state": "{}",
        "sha256": hashlib.sha256(b"{}").hexdigest(),
        "last_time": NOON,
        "ingest_run": "run-1",
    },
    "addresses": {
        "namesrv_id": NAMESRV,
        "source": "given",
        "ingest_run": "run-1",
    },
    "watermarks": {"latest_time": NOON, "ingest_run": "run-1"},
    "topic_queue_history": INTERVAL | QUEUES | {"broker_name": "broker-a"},
    "broker_addr_history": INTERVAL | {"broker_id": 0, "cluster_name": "C", "enable_acting_master": False},
    "cluster_addr_history": INTERVAL | {"cluster_name": "C"},
    "broker_live_history": INTERVAL
    | {"heartbeat_timeout_ms": 120_000, "first_update_time": NOON, "last_update_time": NOON},
    "filter_server_history": INTERVAL | {"filter_servers": ["f"]},
    "kv_config_history": INTERVAL | {"namespace": "ORDER_TOPIC_CONFIG", "config_value": "v"},
    "topic_queue_mapping_history": INTERVAL | {"bname": "b", "total_queues": 1, "epoch": 1, "dirty": False},
    "data_version_history": INTERVAL | {"broker_name": "b", "data_version": VERSION, "is_regression": False},
    "event_outcomes": {
        "namesrv_id": NAMESRV,
        "effect_time": NOON,
        "operation": "scan",
        "outcome": "expired",
        "changes": 1,
        "day": DAY,
    },
    "refreshes_hourly": {
        "namesrv_id": NAMESRV,
        "hour": NOON,
        "refreshes": 2,
        "first_time": NOON,
        "last_time": NOON + MINUTE,
        "day": DAY,
    },
    "route_changes": {
        "namesrv_id": NAMESRV,
        "effect_time": NOON,
        "caused_by": E1,
        "change": "appeared",
        "parts": [{"part": "queueDatas", "name": "broker-a", "text": "{}"}],
        "groups_before": 0,
        "groups_after": 1,
        "length_before": 0,
        "length_after": 60,
        "day": DAY,
    },
    "expired_brokers": {
        "namesrv_id": NAMESRV,
        "cause": "scan",
        "last_beat_time": NOON,
        "heartbeat_timeout_ms": 120_000,
        "removed_time": NOON + 3 * MINUTE,
        "removed_by": E1,
        "detection_lag_ms": 180_000,
        "topics_lost": [],
        "day": DAY,
    },
    "orphaned_topics": {
        "namesrv_id": NAMESRV,
        "reason": "no_master",
        "valid_from": NOON,
        "opened_by": E1,
        "day": DAY,
    },
    "findings": {
        "namesrv_id": NAMESRV,
        "brokers": 1,
        "broker_names": ["broker-a"],
        "topics": 0,
        "topic_names": [],
        "code": "NO_MASTER",
        "severity": "info",
        "from_time": NOON,
        "evidence": [E1],
        "day": DAY,
    },
    "order_decisions": {
        "namesrv_id": NAMESRV,
        "kind": "register_and_close",
        "effect_time": NOON,
        "channel_ids": ["c"],
        "event_ids": [E1, E1],
        "alternatives": ["a", "b"],
        "chosen": 0,
        "answers_for": 1,
        "answers_against": 0,
        "evidence_for": [],
        "evidence_against": [],
        "day": DAY,
    },
    "route_mismatches": {
        "namesrv_id": NAMESRV,
        "code": 206,
        "request_time": NOON,
        "answer_time": NOON,
        "classification": "order",
        "day": DAY,
    },
    "answer_checks": {
        "namesrv_id": NAMESRV,
        "answers": 2,
        "matched": 2,
        "same_order": 2,
        "same_bytes": 2,
        "in_flight": 0,
        "explained": 0,
        "unknown_past": 0,
        "mismatched": 0,
        "day": DAY,
    },
    "past_knowledge": {
        "what": "known",
        "about": "topic_queue_table",
        "one": "T",
        "any_one": False,
        "any_other": True,
        "number": 0,
        "day": DAY,
    },
    "last_heartbeats": {"namesrv_id": NAMESRV, "last_update_time": NOON, "day": DAY},
    "map_capacities": {
        "map_table": "topic_queue_table",
        "is_inner": True,
        "outer_key": "T",
        "capacity": 32,
        "day": DAY,
    },
    "namesrv_settings": {
        "setting": "order_message_enable",
        "value": "true",
        "source": "inferred",
        "from_seq": SEQ,
        "process_seq": SEQ,
        "restart_value": "true",
        "answers_for": 1,
        "answers_against": 0,
        "evidence": [E1],
        "day": DAY,
    },
    "runs": {
        "layout": 5,
        "started_time": NOON,
        "finished_time": NOON,
        "status": "published",
        "days": [DAY],
        "ingest_runs": ["run-1"],
        "sources": [digest("file", 64)],
        "inputs": [],
        "outputs": [],
        "coverage": [],
        "versions": {"t": 1},
        "digests": {},
        "counts": {"frames": 1},
        "seconds": {"replay": 1.0},
        "gate": "passed",
        "code_version": "1",
        "config_sha256": digest("config", 64),
    },
    "restatements": {
        "run_id": "run-2",
        "previous_run": "run-1",
        "table_name": "topic_queue_history",
        "rows_before": 2,
        "rows_after": 3,
        "rows_added": 2,
        "rows_removed": 1,
        "cause": "events",
        "ingest_runs": ["run-2"],
        "new_events": 1,
        "event_ids": [E1],
        "changes": [{"key": "{}", "change": "added", "after": "{}"}],
        "day": DAY,
    },
}

_numbers = count(1)


def own(table: str) -> dict[str, object]:
    """Return the columns that give a row an identity of its own."""
    n = next(_numbers)
    addr = f"10.1.{n // 256}.{n % 256}:10911"
    if "seq" in TABLES[table].column_names and "event_id" in TABLES[table].column_names:
        identity = {"seq": SEQ + n, "event_id": digest(f"event {n}"), "channel_id": f"10.0.0.1:4000#{n}"}
        return identity | ({"source_file": f"{n}.pcap"} if "source_file" in TABLES[table].column_names else {})
    identities: dict[str, dict[str, object]] = {
        "topic_configs": {"topic_config_digest": digest(f"topics {n}")},
        "quarantine": {"quarantine_id": digest(f"piece {n}")},
        "sources": {"content_sha256": digest(f"file {n}", 64)},
        "open_streams": {"namesrv_addr": addr},
        "addresses": {"namesrv_addr": addr},
        "watermarks": {"namesrv_id": addr},
        "topic_queue_history": {"topic": f"topic-{n}"},
        "broker_addr_history": {"broker_name": f"broker-{n}", "broker_addr": addr},
        "cluster_addr_history": {"broker_name": f"broker-{n}"},
        "broker_live_history": {"broker_addr": addr},
        "filter_server_history": {"broker_addr": addr},
        "kv_config_history": {"config_key": f"key-{n}"},
        "topic_queue_mapping_history": {"topic": f"topic-{n}"},
        "data_version_history": {"broker_addr": addr},
        "refreshes_hourly": {"broker_addr": addr},
        "route_changes": {"topic": f"topic-{n}", "seq": SEQ + n},
        "expired_brokers": {"broker_addr": addr},
        "orphaned_topics": {"topic": f"topic-{n}"},
        "findings": {"subject": f"subject-{n}"},
        "order_decisions": {"decision_id": digest(f"decision {n}")},
        "route_mismatches": {"event_id": digest(f"answer {n}")},
        "answer_checks": {"code": 1000 + n},
        "past_knowledge": {"namesrv_id": addr},
        "last_heartbeats": {"broker_addr": addr},
        "map_capacities": {"namesrv_id": addr},
        "namesrv_settings": {"namesrv_id": addr},
        "runs": {"run_id": f"run-{n}"},
        "restatements": {"namesrv_id": addr},
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
    """Return the tables of `rows`, histories with the `day`; answers that are not explained are recorded, but for nobody's."""
    answers = {r["event_id"] for r in rows.get("route_mismatches", ())} - {digest("nobody")}
    if answers:
        recorded = [row("route_observations", event_id=event_id) for event_id in sorted(answers)]
        rows = rows | {"route_observations": rows["route_observations"] + recorded}
    for name in keys.TIMED.keys() & rows.keys():
        rows = rows | {name: [of | {"stated_id": of["event_id"]} for of in rows[name]]}
    histories = {
        table.name: pa.Table.from_pylist(rows[table.name], on_a_day(table))
        for table in HISTORY_TABLES
        if table.name in rows
    }
    return {name: table_of(of, TABLES[name]) for name, of in rows.items()} | histories
