"""Rows of watermarks: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import NOON, addr_of

GOOD = {"latest_time": NOON, "ingest_run": "run-1"}


def own(n: int) -> dict[str, object]:
    return {"namesrv_id": addr_of(n)}


PLANTED = {"namesrv_id_is_an_address": {"namesrv_id": "ns"}}
