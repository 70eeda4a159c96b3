"""Rows of snapshots: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, NAMESRV, NOON, SOURCE

GOOD = {
    "namesrv_id": NAMESRV,
    "namesrv_addr": NAMESRV,
    "effect_time": NOON,
    "snapshot": '{"format":"namesrv-snapshot/1"}',
    "day": DAY,
    **SOURCE,
}
PLANTED = {
    "event_id_is_a_digest": {"event_id": "1"},
    "source_file_is_a_name": {"source_file": "folder/state.json"},
    "source_offset_counts_from_1": {"source_offset": 0},
    "snapshot_is_json": {"snapshot": "routes"},
}
