"""Which brokers fell silent and were removed: when, by what, and what went with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.rows import conformed, empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import DURING, BeatsDuring
from namesrv_day.day.day_events import BEATS, Frames
from schemas.gold import BROKER_ADDR_HISTORY, BROKER_LIVE_HISTORY, EVENT_OUTCOMES, EXPIRED_BROKERS, TOPIC_QUEUE_HISTORY
from schemas.sql_files import query


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


HEARD = pa.schema([("removed_by", pa.string()), ("broker_addr", pa.string())])


def heard_before(expired: pa.Table, beats_during: BeatsDuring) -> pa.Table:
    """Return a row (`HEARD`) for each beat that came of a broker between the last that renewed its lease and its removal.

    It was refused, or the name server handled it too late. `expired`: rows of `expired_brokers`; one that never came back says
    nothing afterwards either.
    """
    back = expired.filter(pc.is_valid(expired["returned_time"]))
    if not back.num_rows:
        return HEARD.empty_table()
    silent = during(back, "last_beat_time", "removed_time")
    beats = [beats_during(table.name, ["broker_addr", "event_time"], silent) for table in BEATS]
    return ask(_HEARD, {"expired": back, "beats": pa.concat_tables(beats)}).cast(HEARD)


def during(rows: pa.Table, begin: str, end: str) -> pa.Table:
    """Return the time (`DURING`) from `begin` to `end`, columns of rows of addresses."""
    return pa.table([rows[name] for name in ("broker_addr", begin, end)], names=DURING.names).cast(DURING)


_HEARD = """
SELECT removed_by, expired.broker_addr FROM expired JOIN beats
ON beats.broker_addr = expired.broker_addr AND event_time > last_beat_time AND event_time <= removed_time
"""
