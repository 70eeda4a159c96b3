"""Rows of topic_configs: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import QUEUES, digest

GOOD = {"topics": [{"topic": "T", **QUEUES}], "mappings": [], "topic_count": 1, "ingest_run": "run-1"}


def own(n: int) -> dict[str, object]:
    return {"topic_config_digest": digest(f"topics {n}")}


PLANTED = {
    "digest_has_its_form": {"topic_config_digest": "1"},
    "topics_are_counted": {"topic_count": 2},
    "topics_are_named": {"topics": [{"topic": "", **QUEUES}]},
    "topics_are_named_once": {"topics": [{"topic": "T", **QUEUES}] * 2, "topic_count": 2},
    "mappings_are_plausible": {"mappings": [{"topic": "T", "total_queues": -1, "epoch": 0, "dirty": False}]},
    "queue_maps_are_read": {
        "mappings": [{"topic": "T", "total_queues": 1, "epoch": 0, "dirty": False, "curr_id_map": "{oops"}]
    },
}
