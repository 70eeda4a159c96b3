"""Rows of admin_events: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import EVENT, QUEUES, REQUEST

GOOD = (
    EVENT
    | REQUEST
    | {"code": 217, "operation": "register_topic_in_namesrv", "queue_datas": [{"broker_name": "b", **QUEUES}]}
)
PLANTED = {"operation_is_of_its_code": {"operation": "delete_kv_config"}}
