"""The table heartbeats: one QUERY_DATA_VERSION (322) or BROKER_HEARTBEAT (904)."""

from __future__ import annotations

from schemas.recorded import (
    BROKER,
    BROKER_RULES,
    DATA_VERSION,
    FIELDS_ARE_READ,
    FOLLOWING_ID,
    REQUEST,
    REQUEST_RULES,
    STATED_ID,
    code_of,
    events,
)
from schemas.rule import is_code
from schemas.table import INT, Column, Rule, required

HEARTBEATS = events(
    "heartbeats",
    "one QUERY_DATA_VERSION (322) or BROKER_HEARTBEAT (904)",
    *REQUEST,
    *BROKER,
    Column("data_version", DATA_VERSION, "Version sent; NULL for 904"),
    required("nth", INT, "Number among its connection's heartbeats with the same code and event_time, from 0"),
    STATED_ID,
    derived={"event_id": FOLLOWING_ID.format(time="event_time")},
    rules=(
        *REQUEST_RULES,
        FIELDS_ARE_READ,
        *BROKER_RULES,
        code_of("heartbeats"),
        Rule(
            "light_heartbeat_has_no_version",
            f"{is_code('code', [322])} OR data_version IS NULL",
            "Only code 322 sends a version.",
        ),
    ),
)
"""Ids of beats are not stored: tens of millions of digests a day would be most of all bytes (`namesrv_wire.rows.timed_id`)."""
