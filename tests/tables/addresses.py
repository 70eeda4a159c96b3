"""Rows of addresses: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import NAMESRV, addr_of

GOOD = {"namesrv_id": NAMESRV, "source": "given", "ingest_run": "run-1"}


def own(n: int) -> dict[str, object]:
    return {"namesrv_addr": addr_of(n)}


PLANTED = {"source_is_known": {"source": "hearsay"}, "other_address_is_another": {"namesrv_addr": "10.0.0.9:9876"}}
