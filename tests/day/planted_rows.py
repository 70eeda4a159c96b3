"""For each rule a row that breaks it, and no other."""

from __future__ import annotations

import datetime as dt
import hashlib

from schemas.rules import RULES, TABLES, Rule
from tests.day.good_rows import (
    CLOSED,
    DAY_BEFORE,
    E1,
    MINUTE,
    NOON,
    ONE_DAY,
    QUEUES,
    SEQ,
    VERSION,
    digest,
    good_rows,
    own,
    row,
)

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
    "last_heartbeats": "namesrv_id",
    "map_capacities": "map_table",
    "namesrv_settings": "restart_value",
    "runs": "code_version",
    "restatements": "previous_run",
    **{table: "opened_by" for table in TABLES if table.endswith("_history")},
}
TWICE = {
    "route_changes": [
        {"change": "changed", "groups_before": 2, "groups_after": 1, "length_before": 90},
        {"change": "changed", "groups_before": 1, "groups_after": 2, "length_before": 60, "length_after": 90},
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
    "response_fields_are_read": {"response_fields": "{oops"},
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
    "opens_before_it_closes": CLOSED | {"closed_at": {"seq": SEQ, "no": 1}},
    "time_does_not_run_back": CLOSED | {"valid_to": NOON - MINUTE},
    "lives_in_its_slice": {"valid_from": NOON + ONE_DAY},
    "key_entered_before": {"entered_at": {"seq": SEQ, "no": 1}},
    "does_not_overlap": [{}, {"opened_at": {"seq": SEQ + 1, "no": 0}}],
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
        "queue_maps_are_read": {
            "mappings": [{"topic": "T", "total_queues": 1, "epoch": 0, "dirty": False, "curr_id_map": "{oops"}]
        },
    },
    "route_observations": {
        "code_belongs_here": {"code": 905, "subject": None},
        "subject_is_of_its_code": {"code": 206},
        "answer_follows_question": {"request_seq": SEQ + 1_000_000},
        "response_fields_are_read": {"response_fields": "[]"},
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
        "verdict_is_known": {"verdict": "perhaps"},
        "is_accepted": {"verdict": "refused"},
        "read_to_its_end": {"error": "cut short"},
    },
    "open_streams": {
        "state_is_intact": {"sha256": "1"},
        "state_is_json": {"state": "{", "sha256": hashlib.sha256(b"{").hexdigest()},
    },
    "addresses": {
        "source_is_known": {"source": "hearsay"},
        "other_address_is_another": {"namesrv_addr": "10.0.0.9:9876"},
    },
    "watermarks": {"namesrv_id_is_an_address": {"namesrv_id": "ns"}},
    "topic_queue_history": {
        "topic_is_named": {"topic": ""},
        "broker_has_a_group": {"broker_name": "nobody"},
    },
    "broker_addr_history": {
        "broker_id_is_not_negative": {"broker_id": -1},
        "no_member_has_no_address": {"broker_id": None},
        "address_has_one_id": [{}, {"broker_id": 1}],
        "empty_group_is_empty": [{}, {"broker_id": None, "broker_addr": None}],
        "does_not_overlap": [{}, {"opened_at": {"seq": SEQ + 1, "no": 0}, "broker_addr": "10.9.9.9:10911"}],
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
        "route_differs": {"parts": []},
        "parts_are_json": {"parts": [{"part": "queueDatas", "name": "broker-a", "text": "{"}]},
        "changes_follow_on": [
            {},
            {"change": "changed", "groups_before": 1, "length_before": 61, "seq": SEQ + 1_000_000},
        ],
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
    "map_capacities": {
        "capacity_is_a_power_of_two": {"capacity": 24},
        "only_inner_maps_lie_under_a_key": {"is_inner": False},
    },
    "namesrv_settings": {
        "setting_is_known": {"setting": "colour"},
        "source_is_known": {"source": "rumour"},
        "interval_is_positive": {"valid_from": NOON, "valid_to": NOON - MINUTE},
        "process_started_before": {"process_seq": SEQ + 1},
        "evidence_is_counted": {"answers_for": 0},
        "findings_have_evidence": {"evidence": []},
        "release_was_compared": {"setting": "version", "value": "5.3.9", "source": "given"},
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
        "changes_are_counted": {"changes": [{"key": "{}", "change": "added"}] * 4},
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


ALL_RULES = [(table, rule) for table, rules in RULES.items() for rule in rules]
IDS = [f"{table}.{rule.name}" for table, rule in ALL_RULES]


def planted_rows() -> dict[str, list[dict]]:
    """Return every good and every planted row, by table."""
    rows = good_rows()
    for table, rule in ALL_RULES:
        rows[table] += planted(table, rule)
    for table, cases in ELSEWHERE.values():
        base = row(table)
        rows[table] += [base | case for case in cases]
    return rows
