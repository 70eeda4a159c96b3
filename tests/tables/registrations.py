"""Rows of registrations: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import BROKER, EVENT, REQUEST, TOPICS, digest

GOOD = (
    EVENT
    | REQUEST
    | BROKER
    | {"code": 103, "compressed": False, "body_bytes": 10, "topic_config_digest": TOPICS, "topic_count": 1}
)
PLANTED = {
    "topic_count_has_topics": {"topic_config_digest": None},
    "body_fits_a_frame": {"body_bytes": 16_777_217},
    "lease_is_not_negative": {"heartbeat_timeout_ms": -1},
    "refusal_is_answered_so": {"refusal": "body"},
    "topics_are_stored": {"topic_config_digest": digest("nowhere")},
}
