"""The table refreshes_hourly: one hour of one live entry's plain refreshes."""

from __future__ import annotations

from schemas.gold_histories import BROKER_ADDR, DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import OF_AN_HOUR
from schemas.table import LONG, STRING, TIMESTAMP, Column, Rule, Table, required

REFRESHES_HOURLY = Table(
    "refreshes_hourly",
    "gold",
    "one hour of one live entry's plain refreshes",
    (
        NAMESRV_ID,
        Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
        BROKER_ADDR,
        required("hour", TIMESTAMP, "Start of the hour"),
        required("refreshes", LONG, "Plain refreshes in it"),
        required("first_time", TIMESTAMP, "First of them"),
        required("last_time", TIMESTAMP, "Last of them"),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "hour"),
    made_by="replay",
    rules=(
        Rule("hour_was_refreshed", "refreshes >= 1", "An hour without refresh has no row."),
        *OF_AN_HOUR,
    ),
)
