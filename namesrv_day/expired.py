"""Which brokers fell silent and were removed: when, by what, and what went with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.day_events import Frames
from namesrv_day.rows import conformed, empty
from namesrv_day.sql import ask
from schemas.findings import query
from schemas.gold import BROKER_ADDR_HISTORY, BROKER_LIVE_HISTORY, EVENT_OUTCOMES, EXPIRED_BROKERS, TOPIC_QUEUE_HISTORY


def expired_brokers(slices: Frames) -> pa.Table:
    """Return the rows of `expired_brokers` of one name server's day: live entries removed by a scan or an idle close.

    `slices`: the day's histories and `event_outcomes`.
    """
    removals = slices[EVENT_OUTCOMES.name].filter(pc.field("operation").isin(["scan", "channel_idle"]))
    if not removals.num_rows:
        return empty(EXPIRED_BROKERS)
    touched = pc.field("closed_by").isin(removals["event_id"]) | pc.field("opened_by").isin(removals["event_id"])
    tables = {
        "removals": removals,
        "live": slices[BROKER_LIVE_HISTORY.name],
        "members": slices[BROKER_ADDR_HISTORY.name],
        "queues": slices[TOPIC_QUEUE_HISTORY.name].filter(touched),
    }
    return conformed(ask(query("flags/expired"), tables), EXPIRED_BROKERS)
