"""The table addresses: one address that is another address of a name server."""

from __future__ import annotations

from schemas.recorded import NAMESRV_ADDR, NAMESRV_ID
from schemas.table import STRING, Rule, Table, required

ADDRESSES = Table(
    "addresses",
    "bronze",
    "one address that is another address of a name server",
    (
        NAMESRV_ADDR,
        NAMESRV_ID,
        required(
            "source",
            STRING,
            "given (conf), stated (by an event log), joined (as findings suggest, where that is asked for)",
        ),
        required("ingest_run", STRING, "Run that noted it"),
    ),
    key=("namesrv_addr",),
    partition_by=(),
    rules=(
        Rule("source_is_known", "source IN ('given', 'stated', 'joined')", "source is given, stated or joined."),
        Rule("other_address_is_another", "namesrv_addr <> namesrv_id", "No address is its own other one."),
    ),
)
