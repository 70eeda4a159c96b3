"""Rows of channel_events: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import EVENT, SEQ, digest

GOOD = EVENT | {"kind": "close", "closed_by": "client", "remote_addr": "10.0.0.1:4000", "pending_requests": 0}
PLANTED = {
    "kind_is_known": {"kind": "open"},
    "closed_by_is_known": {"closed_by": "nobody"},
    "has_a_channel": {"channel_id": None, "remote_addr": "10.0.0.1:4000"},
    "pending_is_not_negative": {"pending_requests": -1},
    "silence_is_not_negative": {"silent_ms": -1},
    "channel_is_of_its_remote": {"remote_addr": "10.0.0.2:4000"},
    "channel_closes_once": [{}, {"event_id": digest("again"), "seq": SEQ + 5000}],
}
