"""Which brokers fell silent and were removed: when, by what, and what went with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.rows import conformed, empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import BeatsDuring, Stretch
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


# To look for more of them takes longer than it spares.
_MOST_STRETCHES = 64
HEARD = pa.schema([("removed_by", pa.string()), ("broker_addr", pa.string())])


def heard_before(expired: pa.Table, beats_during: BeatsDuring) -> pa.Table:
    """Return a row (`HEARD`) for each beat that came of a broker between the last that renewed its lease and its removal.

    It was refused, or the name server handled it too late. `expired`: rows of `expired_brokers`; one that never came back says
    nothing afterwards either.
    """
    back = expired.filter(pc.is_valid(expired["returned_time"]))
    if not back.num_rows:
        return HEARD.empty_table()
    addrs, silent = back["broker_addr"].unique().to_pylist(), stretches(back, "last_beat_time", "removed_time")
    beats = [beats_during(table.name, ["broker_addr", "event_time"], addrs, silent) for table in BEATS]
    return ask(_HEARD, {"expired": back, "beats": pa.concat_tables(beats)}).cast(HEARD)


def stretches(rows: pa.Table, begin: str, end: str) -> list[Stretch]:
    """Return the time from `begin` to `end`, columns of some rows, as few stretches, in order."""
    spans = sorted(zip(rows[begin].to_pylist(), rows[end].to_pylist(), strict=True))
    merged: list[Stretch] = []
    for first, last in spans:
        if merged and (first <= merged[-1][1] or len(merged) == _MOST_STRETCHES):
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


_HEARD = """
SELECT removed_by, expired.broker_addr FROM expired JOIN beats
ON beats.broker_addr = expired.broker_addr AND event_time > last_beat_time AND event_time <= removed_time
"""
