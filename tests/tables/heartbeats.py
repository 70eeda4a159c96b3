"""Rows of heartbeats: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import BROKER, EVENT, REQUEST, VERSION

GOOD = EVENT | REQUEST | BROKER | {"code": 322, "data_version": VERSION, "nth": 0}
PLANTED = {"code_belongs_here": {"code": 905, "data_version": None}, "light_heartbeat_has_no_version": {"code": 904}}
