"""Rows of unregistrations: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import BROKER, EVENT, REQUEST

GOOD = EVENT | REQUEST | BROKER | {"code": 104}
