"""Rows of namesrv_events: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import EVENT, digest

GOOD = EVENT | {"kind": "identified", "version": 407, "evidence": "an answer"}
PLANTED = {
    "kind_is_known": {"kind": "paused", "version": None},
    "version_if_identified": {"version": None},
    "properties_if_configured": {"properties": "{}"},
    "gap_has_an_end": {"kind": "recording_gap", "version": None, "properties": "until_ms=1"},
    "version_is_tried": {"version": 400},
    "seq_is_unique_in_all_events": [{}, {"event_id": digest("same seq")}],
}
