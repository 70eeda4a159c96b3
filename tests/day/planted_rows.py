"""For each rule a row that breaks it, and no other."""

from __future__ import annotations

import datetime as dt

from schemas.rules import RULES, TABLES
from schemas.table import Rule
from tests.day.good_rows import TOLD, breaking, good_rows, own, row, twice
from tests.day.row_values import CLOSED, DAY_BEFORE, MINUTE, NOON, ONE_DAY, QUEUES, SEQ, digest

NULLED = {
    table: told.get("nulled", "opened_by" if table.endswith("_history") else "ingest_run")
    for table, told in TOLD.items()
}
EVENT_PLANTS = {
    "event_id_is_a_digest": {"event_id": "1"},
    "day_is_day_of_effect": {"day": DAY_BEFORE},
    "source_file_is_relative": {"source_file": "/folder/capture.pcap"},
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
# A case that stands in another table than the one whose rule it breaks.
ELSEWHERE = {
    ("namesrv_events", "clock_does_not_go_back"): (
        "heartbeats",
        [{}, {"event_id": digest("late"), "seq": SEQ + 6000, "source_offset": 2, "event_time": NOON - MINUTE}],
    ),
    # Listed, but counted nowhere: to the list itself it is one more answer without explanation.
    ("answer_checks", "mismatches_are_listed"): ("route_mismatches", [{"classification": "mismatched", "code": 105}]),
}
ALSO_BROKEN = {("route_mismatches", "is_explained"): 1}


def planted(table: str, rule: Rule) -> list[dict]:
    """Return the rows of `table` that break `rule` once; none if nobody has thought of any."""
    n = list(TABLES).index(table)
    plants = breaking(table) | {"required_columns_present": {NULLED[table]: None}}
    copy = {"seq": SEQ + 10_000 + n, "channel_id": "10.0.0.1:4000#99999"} if "event_id" in own(table) else {}
    plants["key_is_unique"] = twice(table) or [{}, {} if table == "route_mismatches" else copy]
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
