"""Rows of open_streams: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

import hashlib

from tests.day.row_values import NOON, addr_of

GOOD = {"state": "{}", "sha256": hashlib.sha256(b"{}").hexdigest(), "last_time": NOON, "ingest_run": "run-1"}


def own(n: int) -> dict[str, object]:
    return {"namesrv_addr": addr_of(n)}


PLANTED = {
    "state_is_intact": {"sha256": "1"},
    "state_is_json": {"state": "{", "sha256": hashlib.sha256(b"{").hexdigest()},
}
