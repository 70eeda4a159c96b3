"""The gate, on literal rows: every rule is broken by one planted case, and by no other."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from itertools import count

import pytest
from pyspark.sql import types as T

from jobs import quality, tables
from jobs.quality import Measurement
from jobs.repeated_keys import repeated_hashes
from schemas import gold
from schemas.rules import RULES, TABLES, Rule
from schemas.rules.rule import has_form, is_hex

DAY = dt.date(2026, 3, 2)
DAY_BEFORE = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 2, 12)  # noqa: DTZ001  the session's zone is UTC
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
    "opened_at": (SEQ, 0),
    "entered_at": (SEQ, 0),
    "known_from": NOON,
    "beginning_seen": True,
}
CLOSED = {"valid_to": NOON + MINUTE, "closed_by": E1, "closed_at": (SEQ + 60_000_000_000, 0)}
QUEUES = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}
ROUTE = '{"queueDatas":[]}'

# One good row of every table; what makes a row differ from its neighbours is added by `row`.
GOOD: dict[str, dict] = {
    "heartbeats": EVENT | REQUEST | BROKER | {"code": 322, "data_version": VERSION},
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
    },
    "snapshots": {
        "namesrv_id": NAMESRV,
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
        "ingest_run": "run-1",
    },
    "open_streams": {
        "state": "{}",
        "sha256": hashlib.sha256(b"{}").hexdigest(),
        "last_time": NOON,
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
        "route_after": ROUTE,
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
        "layout": gold.LAYOUT,
        "started_time": NOON,
        "finished_time": NOON,
        "status": "published",
        "days": [DAY],
        "ingest_runs": ["run-1"],
        "sources": [digest("file", 64)],
        "inputs": [],
        "outputs": [],
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
        "changes": [("{}", "added", None, "{}")],
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
        "open_streams": {"namesrv_id": addr},
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
        "namesrv_settings": {"namesrv_id": addr},
        "runs": {"run_id": f"run-{n}"},
        "restatements": {"namesrv_id": addr},
    }
    return identities[table]


def row(table: str, **different) -> dict:
    return GOOD[table] | own(table) | different


def carried_twice(**different) -> list[dict]:
    """Return an open row of broker-c in the slices of two days: carried as it should be."""
    opened = row("broker_addr_history", broker_name="broker-c", valid_from=NOON - ONE_DAY, **different)
    return [opened | {"day": DAY_BEFORE}, opened | {"day": DAY}]


def good_rows() -> dict[str, list[dict]]:
    """Return rows that keep every rule, and what the planted ones refer to."""
    rows = {table: [row(table)] for table in TABLES}
    rows["registrations"].append(row("registrations", event_id=E1))
    rows["event_outcomes"].append(row("event_outcomes", event_id=E1, operation="register_broker", outcome="applied"))
    rows["topic_configs"].append(row("topic_configs", topic_config_digest=TOPICS))
    rows["broker_addr_history"].append(row("broker_addr_history", broker_name="broker-a"))
    rows["broker_addr_history"] += carried_twice()
    rows["kv_config_history"].append(row("kv_config_history", config_key=None, config_value=None))
    return rows


NULLED = {
    **dict.fromkeys(TABLES, "ingest_run"),
    "quarantine": "decoder_version",
    "event_outcomes": "event_id",
    "refreshes_hourly": "namesrv_id",
    "route_changes": "topic",
    "expired_brokers": "topics_lost",
    "orphaned_topics": "topic",
    "findings": "subject",
    "order_decisions": "channel_ids",
    "route_mismatches": "code",
    "answer_checks": "namesrv_id",
    "past_knowledge": "number",
    "namesrv_settings": "restart_value",
    "runs": "code_version",
    "restatements": "previous_run",
    **{table: "opened_by" for table in TABLES if table.endswith("_history")},
}
TWICE = {
    "route_changes": [
        {"change": "changed", "route_before": '{"a":1}', "route_after": '{"b":1}'},
        {"change": "changed", "route_before": '{"b":1}', "route_after": '{"a":1}'},
    ],
    "orphaned_topics": [{"valid_to": NOON, "closed_by": E1}] * 2,
}
EVENT_PLANTS = {
    "event_id_is_a_digest": {"event_id": "1"},
    "day_is_day_of_effect": {"day": DAY_BEFORE},
    "source_file_is_a_name": {"source_file": "folder/capture.pcap"},
    "source_offset_counts_from_1": {"source_offset": 0},
    "effect_follows_arrival": {"event_time": NOON + dt.timedelta(microseconds=1)},
    "namesrv_id_is_an_address": {"namesrv_id": "ns"},
    "channel_id_has_its_form": {"channel_id": "10.0.0.1:4000#now"},
}
REQUEST_PLANTS = {
    "one_way_has_no_response": {"one_way": True},
    "remark_needs_response": {"response_code": None, "response_remark": "why"},
    "response_code_is_usual": {"response_code": 99},
    "code_belongs_here": {"code": 905},
}
BROKER_PLANTS = {"broker_is_named": {"broker_name": None}, "broker_id_is_not_negative": {"broker_id": -1}}
QUEUE_PLANTS = {
    "perm_is_three_bits": {"perm": 8},
    "queue_numbers_are_plausible": {"read_queue_nums": 65_537},
    "sys_flag_is_two_bits": {"topic_sys_flag": 4},
}
HISTORY_PLANTS = {
    "closes_whole": CLOSED | {"closed_by": None},
    "opens_before_it_closes": CLOSED | {"closed_at": (SEQ, 1)},
    "time_does_not_run_back": CLOSED | {"valid_to": NOON - MINUTE},
    "lives_in_its_slice": {"valid_from": NOON + ONE_DAY},
    "key_entered_before": {"entered_at": (SEQ, 1)},
    "does_not_overlap": [{}, {"opened_at": (SEQ + 1, 0)}],
    "is_carried_to_the_next_day": {"day": DAY_BEFORE, "valid_from": NOON - ONE_DAY},
    "its_events_are_known": {"opened_by": digest("nobody")},
}
QUEUES_OF = {
    "admin_events": lambda q: {"queue_datas": [{"broker_name": "b", **QUEUES, **q}]},
    "topic_configs": lambda q: {"topics": [{"topic": "T", **QUEUES, **q}]},
    "topic_queue_history": lambda q: q,
}
OWN_PLANTS: dict[str, dict] = {
    "heartbeats": {
        "code_belongs_here": {"code": 905, "data_version": None},
        "light_heartbeat_has_no_version": {"code": 904},
    },
    "registrations": {
        "topic_count_has_topics": {"topic_config_digest": None},
        "body_fits_a_frame": {"body_bytes": 16_777_217},
        "lease_is_not_negative": {"heartbeat_timeout_ms": -1},
        "refusal_is_answered_so": {"refusal": "body"},
        "topics_are_stored": {"topic_config_digest": digest("nowhere")},
    },
    "channel_events": {
        "kind_is_known": {"kind": "open"},
        "closed_by_is_known": {"closed_by": "nobody"},
        "has_a_channel": {"channel_id": None, "remote_addr": "10.0.0.1:4000"},
        "pending_is_not_negative": {"pending_requests": -1},
        "silence_is_not_negative": {"silent_ms": -1},
        "channel_is_of_its_remote": {"remote_addr": "10.0.0.2:4000"},
        "channel_closes_once": [{}, {"event_id": digest("again"), "seq": SEQ + 5000}],
    },
    "admin_events": {"operation_is_of_its_code": {"operation": "delete_kv_config"}},
    "namesrv_events": {
        "kind_is_known": {"kind": "paused", "version": None},
        "version_if_identified": {"version": None},
        "properties_if_configured": {"properties": "{}"},
        "gap_has_an_end": {"kind": "recording_gap", "version": None, "properties": "until_ms=1"},
        "version_is_tried": {"version": 400},
        "seq_is_unique_in_all_events": [{}, {"event_id": digest("same seq")}],
    },
    "topic_configs": {
        "digest_has_its_form": {"topic_config_digest": "1"},
        "topics_are_counted": {"topic_count": 2},
        "topics_are_named": {"topics": [{"topic": "", **QUEUES}]},
        "topics_are_named_once": {"topics": [{"topic": "T", **QUEUES}] * 2, "topic_count": 2},
        "mappings_are_plausible": {"mappings": [{"topic": "T", "total_queues": -1, "epoch": 0, "dirty": False}]},
    },
    "route_observations": {
        "code_belongs_here": {"code": 905, "subject": None},
        "subject_is_of_its_code": {"code": 206},
        "answer_follows_question": {"request_seq": SEQ + 1_000_000},
        "response_code_is_usual": {"response_code": 99},
        "route_has_a_body": {"body": None},
    },
    "quarantine": {
        "source_file_is_a_name": {"source_file": "folder/capture.pcap"},
        "source_offset_counts_from_1": {"source_offset": 0},
        "quarantine_id_is_a_digest": {"quarantine_id": "1"},
        "reason_is_known": {"reason": "did not like it"},
        "length_is_not_negative": {"length": -1},
        "sha256_has_its_form": {"sha256": "1"},
        "first_bytes_are_few": {"first_bytes": "00" * 257},
        "quarantine_is_small": [{"quarantine_id": digest(f"rubbish {n}"), "ingest_run": "run-2"} for n in range(11)],
    },
    "sources": {
        "sha256_has_its_form": {"content_sha256": "1"},
        "source_file_is_a_name": {"source_file": "folder/capture.pcap"},
        "kind_is_known": {"kind": "rumour", "packets": None},
        "counts_are_not_negative": {"bytes": -1},
        "packets_if_capture": {"packets": None},
        "times_are_in_order": {"first_time": NOON, "last_time": NOON - MINUTE},
        "read_to_its_end": {"error": "cut short"},
    },
    "open_streams": {
        "state_is_intact": {"sha256": "1"},
        "state_is_json": {"state": "{", "sha256": hashlib.sha256(b"{").hexdigest()},
    },
    "watermarks": {"namesrv_id_is_an_address": {"namesrv_id": "ns"}},
    "topic_queue_history": {
        "topic_is_named": {"topic": ""},
        "broker_has_a_group": {"broker_name": "nobody"},
        "is_carried_to_the_next_day": {
            "day": DAY_BEFORE,
            "valid_from": NOON - ONE_DAY,
            "broker_name": "broker-c",
        },
    },
    "broker_addr_history": {
        "broker_id_is_not_negative": {"broker_id": -1},
        "no_member_has_no_address": {"broker_id": None},
        "address_has_one_id": [{}, {"broker_id": 1}],
        "empty_group_is_empty": [{}, {"broker_id": None, "broker_addr": None}],
        "does_not_overlap": [{}, {"opened_at": (SEQ + 1, 0), "broker_addr": "10.9.9.9:10911"}],
    },
    "cluster_addr_history": {"names_are_not_empty": {"broker_name": ""}},
    "broker_live_history": {
        "lease_is_not_negative": {"heartbeat_timeout_ms": -1},
        "updates_are_in_order": {"last_update_time": NOON - MINUTE},
        "no_update_after_its_end": CLOSED | {"last_update_time": NOON + 2 * MINUTE},
        "time_does_not_run_back": CLOSED
        | {
            "valid_to": NOON - MINUTE,
            "first_update_time": NOON - MINUTE,
            "last_update_time": NOON - MINUTE,
        },
    },
    "filter_server_history": {"list_is_not_empty": {"filter_servers": []}},
    "kv_config_history": {
        "namespace_has_no_value": {"namespace": "N", "config_key": None},
        "key_has_a_namespace": {"namespace": "missing"},
        "is_carried_to_the_next_day": {
            "day": DAY_BEFORE,
            "valid_from": NOON - ONE_DAY,
            "namespace": "yesterday",
            "config_key": None,
            "config_value": None,
        },
    },
    "topic_queue_mapping_history": {"mapping_is_plausible": {"total_queues": -1}},
    "data_version_history": {
        "version_differs_from_previous": {"previous": VERSION},
        "regression_has_two_versions": {"is_regression": True},
    },
    "event_outcomes": {
        "day_is_day_of_effect": {"day": DAY_BEFORE},
        "outcome_is_known": {"outcome": "shrugged"},
        "operation_has_its_form": {
            "operation": "Scan",
            "event_id": E1,
            "day": DAY_BEFORE,
            "effect_time": NOON - ONE_DAY,
        },
        "changes_are_counted": {"changes": -1},
        "refusal_changes_no_row": {"outcome": "no_effect"},
        "seq_is_unique": [{}, {"event_id": digest("same seq")}],
        "event_is_recorded": {"operation": "register_broker"},
    },
    "refreshes_hourly": {
        "hour_was_refreshed": {"refreshes": 0},
        "times_lie_in_the_hour": {"last_time": NOON + 60 * MINUTE},
        "hour_lies_in_its_day": {"day": DAY_BEFORE},
    },
    "route_changes": {
        "day_is_day_of_effect": {"day": DAY_BEFORE},
        "change_is_what_it_says": {"change": "vanished"},
        "route_differs": {"change": "changed", "route_before": ROUTE},
        "routes_are_json": {"route_after": "{"},
        "changes_follow_on": [{}, {"change": "changed", "route_before": "{}", "seq": SEQ + 1_000_000}],
        "caused_by_is_known": {"caused_by": digest("nobody")},
    },
    "expired_brokers": {
        "cause_is_known": {"cause": "boredom"},
        "removed_that_day": {"day": DAY_BEFORE},
        "removed_after_last_beat": {
            "cause": "idle_channel",
            "removed_time": NOON - MINUTE,
            "detection_lag_ms": -60_000,
        },
        "lag_is_the_difference": {"detection_lag_ms": 190_000},
        "scan_removes_after_the_lease": {"heartbeat_timeout_ms": 180_000},
        "returns_whole": {"returned_by": E1},
        "removed_by_is_known": {"removed_by": digest("nobody")},
        "returned_by_is_known": {"returned_by": digest("nobody"), "returned_time": NOON + 4 * MINUTE},
    },
    "orphaned_topics": {
        "reason_is_known": {"reason": "lonely"},
        "residual_names_the_broker": {"reason": "residual"},
        "closes_whole": {"valid_to": NOON},
        "time_does_not_run_back": {"valid_to": NOON - MINUTE, "closed_by": E1},
        "lives_in_its_slice": {"valid_from": NOON + ONE_DAY},
        "does_not_overlap": [{}, {"valid_from": NOON + MINUTE}],
        "opened_by_is_known": {"opened_by": digest("nobody")},
        "closed_by_is_known": {"valid_to": NOON, "closed_by": digest("nobody")},
    },
    "findings": {
        "code_has_its_form": {"code": "no master"},
        "severity_is_known": {"severity": "dreadful"},
        "time_does_not_run_back": {"to_time": NOON - MINUTE},
        "begins_by_its_day": {"from_time": NOON + ONE_DAY},
        "has_evidence": {"evidence": []},
    },
    "order_decisions": {
        "day_is_day_of_effect": {"day": DAY_BEFORE},
        "decision_id_is_a_digest": {"decision_id": "1"},
        "chosen_is_an_alternative": {"chosen": 2},
        "there_is_a_choice": {"alternatives": ["a"]},
        "answers_are_counted": {"answers_against": -1},
        "answers_agree": {"answers_against": 2},
    },
    "route_mismatches": {
        "answered_that_day": {"day": DAY_BEFORE},
        "is_explained": [{"classification": "mismatched", "code": 206}],
        "answer_follows_question": {"request_time": NOON + MINUTE},
        "answer_is_recorded": {"event_id": digest("nobody")},
        "decision_is_recorded": {"decision_id": digest("nobody")},
    },
    "answer_checks": {
        "every_answer_is_counted": {"answers": 3},
        "counts_are_plausible": {"same_order": 3},
        "nothing_is_mismatched": {
            "matched": 1,
            "same_order": 1,
            "same_bytes": 1,
            "mismatched": 1,
            "code": 206,
        },
        "mismatches_are_listed": {"code": 105},
    },
    "snapshots": {
        "event_id_is_a_digest": {"event_id": "1"},
        "source_file_is_a_name": {"source_file": "folder/state.json"},
        "source_offset_counts_from_1": {"source_offset": 0},
        "snapshot_is_json": {"snapshot": "routes"},
    },
    "past_knowledge": {
        "what_is_named": {"what": "guessed"},
        "any_has_no_part": {"any_one": True},
    },
    "namesrv_settings": {
        "setting_is_known": {"setting": "colour"},
        "source_is_known": {"source": "rumour"},
        "interval_is_positive": {"valid_from": NOON, "valid_to": NOON - MINUTE},
        "process_started_before": {"process_seq": SEQ + 1},
        "evidence_is_counted": {"answers_for": 0},
        "findings_have_evidence": {"evidence": []},
        "no_value_was_taken_that_later_days_refute": [
            {"day": DAY_BEFORE, "value": "false", "source": "default", "evidence": []},
            {},
        ],
    },
    "runs": {
        "status_is_known": {"status": "lost"},
        "gate_agrees": {"gate": "heartbeats.key_is_unique"},
        "config_has_a_digest": {"config_sha256": "1"},
        "figures_are_not_negative": {"counts": {"frames": -1}},
        "time_does_not_run_back": {"finished_time": NOON - MINUTE},
    },
    "restatements": {
        "something_changed": {"rows_added": 0, "rows_removed": 0, "rows_after": 2, "changes": []},
        "rows_add_up": {"rows_after": 4},
        "cause_is_known": {"cause": "whim", "new_events": 0, "event_ids": []},
        "events_are_counted": {"new_events": 0},
        "changes_are_counted": {"changes": [("{}", "added", None, "{}")] * 4},
    },
}

# A case that stands in another table than the one whose rule it breaks.
ELSEWHERE = {
    ("namesrv_events", "clock_does_not_go_back"): (
        "heartbeats",
        [
            {},
            {"event_id": digest("late"), "seq": SEQ + 6000, "source_offset": 2, "event_time": NOON - MINUTE},
        ],
    ),
    # Listed, but counted nowhere: to the list itself it is one more answer without explanation.
    ("answer_checks", "mismatches_are_listed"): (
        "route_mismatches",
        [{"classification": "mismatched", "code": 105}],
    ),
}
ALSO_BROKEN = {("route_mismatches", "is_explained"): 1}


def planted(table: str, rule: Rule) -> list[dict]:
    """Return the rows of `table` that break `rule` once; none if nobody has thought of any."""
    n = list(TABLES).index(table)
    plants = OWN_PLANTS.get(table, {}) | {"required_columns_present": {NULLED[table]: None}}
    copy = {"seq": SEQ + 10_000 + n, "channel_id": "10.0.0.1:4000#99999"} if "event_id" in own(table) else {}
    plants["key_is_unique"] = TWICE.get(table, [{}, {} if table == "route_mismatches" else copy])
    shared: dict = {}
    if "event_time" in TABLES[table].column_names and table != "quarantine":
        shared |= EVENT_PLANTS | {"seq_is_effect_time": {"seq": SEQ + 2_000_000_000 + n}}
    if "one_way" in TABLES[table].column_names:
        shared |= REQUEST_PLANTS
    if table in {"heartbeats", "registrations", "unregistrations"}:
        shared |= BROKER_PLANTS
    if table in QUEUES_OF:
        shared |= {name: QUEUES_OF[table](queues) for name, queues in QUEUE_PLANTS.items()}
    if table.endswith("_history"):
        shared |= HISTORY_PLANTS
    different = (shared | plants).get(rule.name, [])
    base = row(table)
    return [base | one for one in ([different] if isinstance(different, dict) else different)]


def frames(spark, rows: dict[str, list[dict]]) -> dict:
    """Return the tables of `rows`, whose columns may all be NULL: stored tables would refuse some rows."""
    answers = [row("route_observations", event_id=r["event_id"]) for r in rows["route_mismatches"]]
    known = {r["event_id"]: r for r in answers if r["event_id"] != digest("nobody")}
    rows = rows | {"route_observations": rows["route_observations"] + list(known.values())}
    return {
        name: spark.createDataFrame(
            [tuple(r.get(column) for column in table.column_names) for r in rows[name]],
            T.StructType([T.StructField(c.name, c.type) for c in table.columns]),
        ).coalesce(1)
        for name, table in TABLES.items()
        if name in rows
    }


ALL_RULES = [(table, rule) for table, rules in RULES.items() for rule in rules]
IDS = [f"{table}.{rule.name}" for table, rule in ALL_RULES]


@pytest.fixture(scope="module")
def measured(spark) -> dict[tuple[str, str], Measurement]:
    """Give what is measured of one set of tables that holds every good and every planted row."""
    rows = good_rows()
    for table, rule in ALL_RULES:
        rows[table] += planted(table, rule)
    for where, cases in ELSEWHERE.values():
        base = row(where)
        rows[where] += [base | case for case in cases]
    return {(m.table, m.rule): m for m in quality.measure(spark, frames(spark, rows))}


@pytest.fixture(scope="module")
def unspoilt(spark) -> list[Measurement]:
    """Give what is measured of good rows only."""
    return quality.measure(spark, frames(spark, good_rows()))


@pytest.mark.parametrize(("table", "rule"), ALL_RULES, ids=IDS)
def test_a_planted_row_breaks_its_rule_and_no_other(table, rule, measured):
    """Each rule is broken as often as planted: a case that broke a second rule would be counted there."""
    assert planted(table, rule) or (table, rule.name) in ELSEWHERE, "no row is planted for this rule"

    measurement = measured[table, rule.name]

    assert measurement.broken == 1 + ALSO_BROKEN.get((table, rule.name), 0), measurement.sample
    assert len(measurement.sample) == measurement.broken


def test_good_rows_break_no_rule(unspoilt):
    """Every rule of every table is counted, and rows that are as they should be break none."""
    assert [(m.table, m.rule) for m in unspoilt] == [(table, rule.name) for table, rule in ALL_RULES]
    assert [m for m in unspoilt if m.broken or m.missing] == []


@pytest.mark.parametrize("which", ["unspoilt", "measured"])
def test_keys_are_counted_alike_in_either_way(spark, request, monkeypatch, which):
    """Of many rows the hashes of the keys are compared first, and copies counted only where two are equal: the same counts."""
    grouped = request.getfixturevalue(which)
    grouped = {(m.table, m.rule): m for m in grouped} if which == "unspoilt" else grouped
    rows, searched = good_rows(), []
    if which == "measured":
        for table, rule in ALL_RULES:
            rows[table] += planted(table, rule) if rule.kind == "unique" else []
    wanted = {(m.table, m.rule) for m in grouped.values() if m.kind == "unique"}

    def noted(keys):
        searched.append(repeated_hashes(keys))
        return searched[-1]

    monkeypatch.setattr(quality, "_MANY_BYTES", 0)
    monkeypatch.setattr(quality, "repeated_hashes", noted)

    hashed = {(m.table, m.rule): m for m in quality.measure(spark, frames(spark, rows))}

    assert len(searched) == len(wanted)
    assert any(repeated for _, repeated in searched) == (which == "measured")
    assert {key: hashed[key].broken for key in wanted} == {key: grouped[key].broken for key in wanted}
    if which == "unspoilt":
        assert [m for m in hashed.values() if m != grouped[m.table, m.rule]] == []


def test_the_gate_stops_on_critical_rules_only(measured, unspoilt, tmp_path):
    """Broken warnings are told, and the gate stays open; one broken critical rule shuts it."""
    warned = [measured[m.table, m.rule] if m.severity == "warning" else m for m in unspoilt]
    broken = [measured[m.table, m.rule] if (m.table, m.rule) == ("runs", "gate_agrees") else m for m in unspoilt]

    open_gate, shut_gate = (quality.judge(of, tmp_path / name) for name, of in [("a", warned), ("b", broken)])

    assert (open_gate.passed, open_gate.critical) == (True, [])
    assert open_gate.warnings == [f"{m.table}.{m.rule}" for m in unspoilt if m.severity == "warning"]
    assert (shut_gate.passed, shut_gate.critical, shut_gate.warnings) == (False, ["runs.gate_agrees"], [])
    assert (shut_gate.tables, shut_gate.rules) == (len(RULES), len(ALL_RULES))


def test_data_docs_name_the_rules_and_are_pruned(measured, tmp_path, monkeypatch):
    """A page of each judgement shows rule, sentence and count, never the rows; old judgements go."""
    monkeypatch.setattr(quality, "KEPT_RESULTS", 2)
    of_runs = [m for m in measured.values() if m.table == "runs"]

    for _ in range(4):
        verdict = quality.judge(of_runs, tmp_path)

    pages = sorted((tmp_path / "validations" / "runs").rglob("*.html"))
    page = pages[-1].read_text(encoding="utf-8")
    assert verdict.docs_path.is_file()
    assert "runs" in verdict.docs_path.read_text(encoding="utf-8")
    assert len(pages) == len(list((tmp_path / quality.RESULTS / "runs").rglob("*.json"))) == 2
    for m in of_runs:
        assert m.rule in page
        assert m.says in page
        assert not any(sample in page for sample in m.sample)


def test_no_rule_judges_what_is_not_there(spark, monkeypatch):
    """Tables of which Spark knows that they are empty are measured without a query, and give what the query would give."""
    known = {name: tables.empty(spark, table.schema) for name, table in TABLES.items()}
    unknown = {name: frame.unionAll(frame.limit(1)) for name, frame in known.items()}
    unasked = quality.measure(spark, known)
    monkeypatch.setattr(quality, "_has_no_rows", lambda _: False)
    assert quality.measure(spark, unknown) == unasked
    assert {m.rows for m in unasked} == {0}


def test_a_rule_without_its_tables_is_reported(spark, tmp_path):
    """A rule that reads a table which was not given is neither passed nor broken, but named as skipped."""
    only = {"quarantine": frames(spark, good_rows())["quarantine"]}

    measurements = quality.measure(spark, only)
    verdict = quality.judge(measurements, tmp_path)

    skipped = next(m for m in measurements if m.rule == "quarantine_is_small")
    assert (skipped.rows, skipped.broken, skipped.missing) == (None, None, ("sources",))
    assert verdict.skipped == ["quarantine.quarantine_is_small"]
    assert verdict.passed


def test_a_form_ends_where_the_value_ends(spark):
    """A digest, an address or a name with a line break behind it has not their form."""
    rows = [("ab",), ("ab\n",), ("\nab",), ("a",), ("xy",), ("AB",), ("",)]
    found = spark.createDataFrame(rows, "v STRING").selectExpr("v", has_form("v", "[a-z]+"), is_hex("v", 2))

    assert [tuple(row) for row in found.collect()] == [
        ("ab", True, True),
        ("ab\n", False, False),
        ("\nab", False, False),
        ("a", True, False),
        ("xy", True, False),
        ("AB", False, False),
        ("", False, False),
    ]


def test_reasons_name_the_critical_rules_that_a_row_breaks(spark):
    """A row that breaks a warning has no reason; one that breaks critical rules has their names in order."""
    rows = {
        **{table: [] for table in TABLES},
        "heartbeats": [
            row("heartbeats", source_offset=1),
            row("heartbeats", source_offset=2, broker_id=-1),
            row("heartbeats", source_offset=3, code=905, data_version=None, one_way=True),
        ],
    }

    judged = quality.with_reasons(frames(spark, rows)["heartbeats"], "heartbeats")

    assert sorted((r.source_offset, r[quality.REASONS]) for r in judged.collect()) == [
        (1, []),
        (2, []),
        (3, ["one_way_has_no_response", "code_belongs_here"]),
    ]
    assert judged.columns == [*TABLES["heartbeats"].column_names, quality.REASONS]


def test_samples_are_keys_as_json(measured):
    """A sample shows which row it was, not what strangers put into it."""
    (sample,) = measured["heartbeats", "broker_id_is_not_negative"].sample
    assert list(json.loads(sample)) == ["event_id"]
