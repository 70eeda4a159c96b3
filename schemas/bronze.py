"""The bronze tables: what was recorded, one row per event, answer or refused input, as read from its source.

One envelope for all events. `event_time` is when the name server had received the event's last byte; `effect_time` and
`seq` are when it took effect: a request with its response, a request without response when it arrived (or just before
its connection closed), a close when the name server handled it.
"""

from __future__ import annotations

from schemas.recorded import DATA_VERSION, REQUEST
from schemas.tables.addresses import ADDRESSES
from schemas.tables.admin_events import ADMIN_EVENTS
from schemas.tables.channel_events import CHANNEL_EVENTS
from schemas.tables.heartbeats import HEARTBEATS
from schemas.tables.namesrv_events import NAMESRV_EVENTS
from schemas.tables.open_streams import OPEN_STREAMS
from schemas.tables.quarantine import QUARANTINE
from schemas.tables.registrations import REGISTRATIONS
from schemas.tables.route_observations import ROUTE_OBSERVATIONS
from schemas.tables.snapshots import SNAPSHOTS
from schemas.tables.sources import ACCEPTED, REFUSED, SOURCES, UNREAD
from schemas.tables.topic_configs import TOPIC_CONFIGS_TABLE
from schemas.tables.unregistrations import UNREGISTRATIONS
from schemas.tables.watermarks import WATERMARKS

__all__ = (
    "ACCEPTED",
    "ADDRESSES",
    "ADMIN_EVENTS",
    "CHANNEL_EVENTS",
    "DATA_VERSION",
    "EVENT_TABLES",
    "HEARTBEATS",
    "NAMESRV_EVENTS",
    "OPEN_STREAMS",
    "QUARANTINE",
    "RECORDED_TABLES",
    "REFUSED",
    "REGISTRATIONS",
    "REQUEST",
    "ROUTE_OBSERVATIONS",
    "SNAPSHOTS",
    "SOURCES",
    "TABLES",
    "TOPIC_CONFIGS_TABLE",
    "UNREAD",
    "UNREGISTRATIONS",
    "WATERMARKS",
)

EVENT_TABLES = (HEARTBEATS, REGISTRATIONS, UNREGISTRATIONS, CHANNEL_EVENTS, ADMIN_EVENTS, NAMESRV_EVENTS)
RECORDED_TABLES = (*EVENT_TABLES, ROUTE_OBSERVATIONS)
"""What happened, and what was answered."""
TABLES = (
    *EVENT_TABLES,
    TOPIC_CONFIGS_TABLE,
    ROUTE_OBSERVATIONS,
    SNAPSHOTS,
    QUARANTINE,
    SOURCES,
    OPEN_STREAMS,
    ADDRESSES,
    WATERMARKS,
)
