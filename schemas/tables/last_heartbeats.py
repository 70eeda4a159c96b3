"""The table last_heartbeats: one live entry at the end of a day, and when it was renewed last."""

from __future__ import annotations

from schemas.gold_histories import BROKER_ADDR, DAY
from schemas.recorded import NAMESRV_ID
from schemas.table import STRING, TIMESTAMP, Column, Table, required

LAST_HEARTBEATS = Table(
    "last_heartbeats",
    "internal",
    "one live entry at the end of a day, and when it was renewed last",
    (
        NAMESRV_ID,
        Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
        BROKER_ADDR,
        # A lease goes on from the end of a recording gap, which may lie on a later day: no rule holds it against the day.
        required("last_update_time", TIMESTAMP, "lastUpdateTimestamp when the day ended"),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr"),
    made_by="outcomes",
)
