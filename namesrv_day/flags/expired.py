"""Which brokers fell silent and were removed: when, by what, and what went with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.logged import LEASE_ENDED
from namesrv_day.arrow.rows import conformed, empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import DURING, BeatsDuring
from namesrv_day.day.day_events import BEATS, Frames
from schemas.gold import BROKER_ADDR_HISTORY, BROKER_LIVE_HISTORY, EVENT_OUTCOMES, EXPIRED_BROKERS, TOPIC_QUEUE_HISTORY
from schemas.sql_files import query
from schemas.table import LONG, STRING, TIMESTAMP, list_of


def expired_brokers(slices: Frames) -> pa.Table:
    """Return the rows of `expired_brokers` of one name server's day: live entries removed by a scan or an idle close.

    `slices`: the day's histories and `event_outcomes`.
    """
    removals = slices[EVENT_OUTCOMES.name].filter(pc.field("operation").isin(["scan", "channel_idle", LEASE_ENDED]))
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


_REFUSED = (("refused_since", TIMESTAMP), ("refused_by", STRING), ("reasons", list_of(STRING)))
HEARD = pa.schema(
    [("removed_by", STRING), ("broker_addr", STRING), ("beats", LONG), ("refused", LONG), *_REFUSED],
)
"""What came of a broker between the last beat that renewed its lease and its removal, and how much of it had been refused by then:
since when, by which event first, and why."""


def heard_before(expired: pa.Table, outcomes: pa.Table, beats_during: BeatsDuring) -> pa.Table:
    """Return a row (`HEARD`) for each removed broker of which something came before its removal that did not renew its lease.

    It was refused, or the name server handled it too late. `expired`: rows of `expired_brokers`; `outcomes`: event_outcomes.
    """
    if not expired.num_rows:
        return HEARD.empty_table()
    expired = expired.filter(pc.field("last_beat_time").is_valid())
    silent = during(expired, "last_beat_time", "removed_time")
    parts = []
    for table in BEATS:
        columns = [name for name in _BEAT if name in table.column_names]
        parts.append(beats_during(table.name, columns, silent))
    beats = pa.concat_tables(parts, promote_options="default")
    told = outcomes.filter(pc.field("event_id").isin(beats["event_id"].combine_chunks()))
    return conformed(ask(query("flags/heard"), {"expired": expired, "beats": beats, "outcomes": told}), HEARD)


def during(rows: pa.Table, begin: str, end: str) -> pa.Table:
    """Return the time (`DURING`) from `begin` to `end`, columns of rows of addresses."""
    return pa.table([rows[name] for name in ("broker_addr", begin, end)], names=DURING.names).cast(DURING)


_BEAT = ("broker_addr", "event_id", "event_time", "effect_time", "code", "refusal")
