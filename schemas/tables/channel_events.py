"""The table channel_events."""

from __future__ import annotations

from schemas.recorded import events
from schemas.rule import warn
from schemas.table import INT, LONG, STRING, Column, Rule, required

CHANNEL_EVENTS = events(
    "channel_events",
    "one end of a connection as the name server met it; an idle close or an exception is followed by its close",
    required(
        "kind",
        STRING,
        "close, exception, idle, or late_close (the packet that ended a connection after its idle limit)",
    ),
    required("closed_by", STRING, "client, namesrv, or timer (idle close without a packet)"),
    required("remote_addr", STRING, "Remote ip:port"),
    Column("silent_ms", LONG, "Milliseconds since the last byte on the connection, either direction"),
    required("pending_requests", INT, "Requests on the connection that had no response when it ended"),
    rules=(
        Rule(
            "kind_is_known",
            "kind IN ('close', 'exception', 'idle', 'late_close')",
            "kind is close, exception, idle or late_close.",
        ),
        Rule(
            "closed_by_is_known",
            "closed_by IN ('client', 'namesrv', 'timer')",
            "closed_by is client, namesrv or timer.",
        ),
        Rule("has_a_channel", "channel_id IS NOT NULL", "A channel event names its connection."),
        Rule("pending_is_not_negative", "pending_requests >= 0", "pending_requests is 0 or more."),
        warn("silence_is_not_negative", "silent_ms IS NULL OR silent_ms >= 0", "silent_ms is 0 or more."),
        warn(
            "channel_is_of_its_remote",
            "channel_id IS NULL OR starts_with(channel_id, remote_addr || '#')",
            "channel_id begins with remote_addr.",
        ),
        warn(
            "channel_closes_once",
            "closes <= 1",
            "A connection is closed once.",
            over="""
                SELECT namesrv_id, channel_id, count_if(kind = 'close') AS closes
                FROM channel_events GROUP BY namesrv_id, channel_id""",
        ),
    ),
)
