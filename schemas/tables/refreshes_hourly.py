"""The table refreshes_hourly: one hour of one live entry's plain refreshes."""

from __future__ import annotations

from schemas.table import OF_AN_HOUR, Rule, Table, columns

REFRESHES_HOURLY = Table(
    "refreshes_hourly",
    "gold",
    "one hour of one live entry's plain refreshes",
    columns("""
        namesrv_id
        cluster_name STRING: Cluster in the key (5.x); NULL in 4.x
        broker_addr
        hour* TIMESTAMP: Start of the hour
        refreshes* BIGINT: Plain refreshes in it
        first_time* TIMESTAMP: First of them
        last_time* TIMESTAMP: Last of them
        day
    """),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "hour"),
    made_by="replay",
    rules=(
        Rule("hour_was_refreshed", "refreshes >= 1", "An hour without refresh has no row."),
        *OF_AN_HOUR,
    ),
)
