"""Condensing heartbeats and registrations to hours: equal beats become one row with a bit for each time slot.

A bucket has sixty slots, one bit each, and a slot is at most half a lease. If every slot between the first and the last
beat of a bucket has a beat, no lease can have ended. A bucket is one row of an aggregate: no sort, a single reading.
"""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_day.arrow.rows import conformed
from namesrv_day.arrow.sql import ask, connection
from namesrv_day.day.day_events import BEATS
from schemas.bronze import HEARTBEATS, REGISTRATIONS
from schemas.table import LONG, STRING

SLOTS = 60
"""Number of slots in a bucket."""
_SLOT_SECONDS = (60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1)
PERIOD_US = 3_600_000_000
"""Within a period, an address's beats are replayed either one by one or as part of runs. It is a multiple of buckets."""
LONGEST_LEASE_MS = 10**12
"""31 years. With a longer lease the server's sum may overflow, and the lease ends at once or at an unknown time."""
_US_PER_S = 1_000_000
_NO_LEASE_SLOT_US = 60 * _US_PER_S
VERSION = {"version_state": "state_version", "version_timestamp": "timestamp", "version_counter": "counter"}
"""Columns of a data version, with the fields of bronze's struct `VERSION_OF`."""
_TYPE_OF = {column.name: column.type for table in BEATS for column in table.columns} | dict.fromkeys(VERSION, LONG)
VERSION_OF = "data_version"
_ASKED = ("cluster_name", "broker_name", "broker_addr", "code")
_REGISTERED = (
    *("broker_id", "channel_id", "ha_server_addr", "enable_acting_master", "heartbeat_timeout_ms", "zone_name"),
    *("topic_config_digest", "filter_servers", "refusal"),
)
_REFUSED = "CASE WHEN response_code <> 0 THEN 'response code ' || response_code END"
_SAID: dict[str, dict[str, str]] = {
    # Registrations have a column `refusal`.
    HEARTBEATS.name: {**{name: name for name in _ASKED}, "refusal": _REFUSED},
    REGISTRATIONS.name: {name: name for name in (*_ASKED, *_REGISTERED)},
}
SAID = (*_ASKED, *VERSION, *_REGISTERED)
"""Content of a beat: beats with equal content have equal effect."""
MEASURES = ("slots", "beats", "first_us", "last_us", "lag_ns", "told", "first_seq", "last_seq")
HOURS = pa.schema(
    [
        ("namesrv_id", STRING),
        ("kind", STRING),
        *((name, _TYPE_OF.get(name, LONG)) for name in SAID),
        *((name, LONG) for name in ("slot_us", "bucket", *MEASURES)),
    ]
)
"""Columns of condensed beats, one row for each distinct beat and bucket of a file.

`kind`: the table; `refusal`: why the beat was refused and so renewed nothing. Columns that the table of a beat lacks are
NULL; a version with only NULL fields is none.
`slot_us`: width of a slot; `bucket`: its number since the epoch, of 60 slots each; `slots`: a bit each; `beats`: their number, with
the first and last time and position; `lag_ns`: the longest time from arrival to effect of an answered one; `told`: number
of recorded responses, which may show something of an unknown past.
"""


def leases_from(live: pa.Table, registered: pa.Table) -> pa.Table:
    """Return (namesrv_id, broker_addr, slot_us): the width of slots for the shortest lease of each address.

    `live`: open rows of broker_live_history; `registered`: the day's registrations. Leases that an address has or asks for
    count, granted or not: narrower slots are always correct. `slot_us` is NULL if a lease is too short for any slot.
    """
    tables = {"live": live, "registered": registered}
    found = ask(_LEASES, tables, default_ms=BROKER_CHANNEL_EXPIRED_MS, longest_ms=LONGEST_LEASE_MS)
    slots = [_slot_us(lease_ms) for lease_ms in found["lease_ms"].to_pylist()]
    return found.select(["namesrv_id", "broker_addr"]).append_column("slot_us", pa.array(slots, LONG))


_LEASES = """
SELECT namesrv_id, broker_addr, min(if(lease_ms BETWEEN 0 AND $longest_ms, lease_ms, 0)) AS lease_ms FROM (
    SELECT namesrv_id, broker_addr, heartbeat_timeout_ms AS lease_ms FROM live
    UNION ALL
    SELECT namesrv_id, broker_addr, least(coalesce(heartbeat_timeout_ms, $default_ms), $default_ms) FROM registered
) GROUP BY namesrv_id, broker_addr
"""


def hours_from(beats: duckdb.DuckDBPyRelation, kind: str, leases: pa.Table) -> pa.Table:
    """Return the condensed rows of one table of beats, `kind`: columns `HOURS`, in no order.

    `beats`: a relation of this thread's `sql.connection`, with the table's columns; `leases`: `leases_from` of all their
    name servers.
    """
    beats = beats.set_alias("b")
    slot_us = "slot_of_lease"
    widths = pc.unique(pc.drop_null(leases["slot_us"])).to_pylist()
    if len(widths) > 1:
        # An address without a lease gets slots of a default width.
        of_leases = connection().from_arrow(leases.rename_columns(["of_namesrv", "of_addr", slot_us])).set_alias("l")
        is_its = "of_namesrv = b.namesrv_id AND of_addr IS NOT DISTINCT FROM b.broker_addr"
        beats = beats.join(of_leases, is_its, how="left")
        slot_us = f"coalesce({slot_us}, {_NO_LEASE_SLOT_US})"
    else:
        slot_us = str(widths[0] if widths else _NO_LEASE_SLOT_US)
    # The version's fields are separate keys: with a struct among its keys, DuckDB would not hash them by column.
    keys = {
        "namesrv_id": "namesrv_id",
        **_SAID[kind],
        **{name: f"{VERSION_OF}.{part}" for name, part in VERSION.items()},
    }
    slot = f"epoch_us(effect_time) // {slot_us}"
    columns = [
        *(f"{sql} AS {name}" for name, sql in keys.items()),
        f"{slot_us} AS slot_us",
        f"({slot}) // {SLOTS} AS bucket",
        f"bit_or(1::BIGINT << (({slot}) % {SLOTS})) AS slots",
        "count(*) AS beats",
        "min(epoch_us(effect_time)) AS first_us",
        "max(epoch_us(effect_time)) AS last_us",
        f"max(CASE WHEN response_code IS NOT NULL THEN seq - epoch_us(event_time) * {NS_PER_US} END) AS lag_ns",
        "count(response_fields) AS told",
        "min(seq) AS first_seq",
        "max(seq) AS last_seq",
    ]
    return conformed(beats.aggregate(", ".join(columns)).to_arrow_table(), HOURS, kind=kind)


@cache
def _slot_us(lease_ms: int) -> int | None:
    """Return the width (us) of a slot for a lease; None: the lease is too short for any.

    Beats in neighbouring slots are less than two slots apart, so a lease of at least two slots cannot end between them.
    Sixty slots are a bucket, and an hour is a multiple of buckets.
    """
    return next((seconds * _US_PER_S for seconds in _SLOT_SECONDS if 2_000 * seconds <= lease_ms), None)
