"""The table watermarks: how far one name server is known: what lies further back than the configured limit is too late."""

from __future__ import annotations

from schemas.recorded import ADDRESS_SAYS, IS_ADDRESS, NAMESRV_ID
from schemas.rule import warn
from schemas.table import STRING, TIMESTAMP, Table, required

WATERMARKS = Table(
    "watermarks",
    "bronze",
    "how far one name server is known: what lies further back than the configured limit is too late",
    (
        NAMESRV_ID,
        required("latest_time", TIMESTAMP, "Latest effect_time among its events and answers"),
        required("ingest_run", STRING, "Run that moved it"),
    ),
    key=("namesrv_id",),
    partition_by=(),
    rules=(warn("namesrv_id_is_an_address", IS_ADDRESS, ADDRESS_SAYS),),
)
