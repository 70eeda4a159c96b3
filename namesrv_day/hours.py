"""Repeated beats of brokers, condensed to hours, and folded into runs for the replay.

Condensing: equal beats become one row with a bit for each time slot. A bucket has sixty slots, and a slot is at most half a
lease. If every slot between the first and the last beat of a bucket has a beat, no lease can have ended. A bucket is one row of
an aggregate: no sort, a single reading.

Folding: while nothing else can happen to a broker, equal beats are one event. An estimate of what can happen affects the time
that a replay takes, never its result. The replay detects a run that did more than renew a lease, or was interrupted by a change,
and repeats that time beat by beat (`broken`).
"""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import NS_PER_MS, NS_PER_US, US_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow import ask, conformed, connection
from namesrv_day.context import NamesrvDay, frame
from namesrv_day.events import BEATS, Frames, as_events
from schemas import gold
from schemas.bronze import HEARTBEATS, REGISTRATIONS
from schemas.sql_files import query
from schemas.table import BOOLEAN, LONG, STRING

SLOTS = 60
"""Number of slots in a bucket."""
# Sixty slots are a bucket, and an hour is a multiple of buckets.
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
_CONTENT_OF: dict[str, dict[str, str]] = {
    # Registrations have a column `refusal`.
    HEARTBEATS.name: {**{name: name for name in _ASKED}, "refusal": _REFUSED},
    REGISTRATIONS.name: {name: name for name in (*_ASKED, *_REGISTERED)},
}
CONTENT = (*_ASKED, *VERSION, *_REGISTERED)
"""Content of a beat: beats with equal content have equal effect."""
MEASURES = ("slots", "beats", "first_us", "last_us", "lag_ns", "responses", "first_seq", "last_seq")
HOURS = pa.schema(
    [
        ("namesrv_id", STRING),
        ("kind", STRING),
        *((name, _TYPE_OF.get(name, LONG)) for name in CONTENT),
        *((name, LONG) for name in ("slot_us", "bucket", *MEASURES)),
    ]
)
"""Columns of condensed beats, one row for each distinct beat and bucket of a file.

`kind`: the table; `refusal`: why the beat was refused and so renewed nothing. Columns that the table of a beat lacks are
NULL; a version with only NULL fields is none.
`slot_us`: width of a slot; `bucket`: its number since the epoch, of 60 slots each; `slots`: a bit each; `beats`: their number, with
the first and last time and position; `lag_ns`: the longest time from arrival to effect of an answered one; `responses`: number
of recorded responses, which may show something of an unknown past.
"""


def leases_from(live: pa.Table, registered: pa.Table) -> pa.Table:
    """Return (namesrv_id, broker_addr, slot_us): the width of slots for the shortest lease of each address.

    `live`: open rows of broker_live_history; `registered`: the day's registrations. Leases that an address has or asks for
    count, granted or not: narrower slots are always correct. `slot_us` is NULL if a lease is too short for any slot.
    """
    tables = {"live": live, "registered": registered}
    found = ask(_LEASES, tables, default_ms=BROKER_CHANNEL_EXPIRED_MS, longest_ms=LONGEST_LEASE_MS)
    # Beats in neighbouring slots are less than two slots apart, so a lease of at least two slots cannot end between them.
    slots = [
        next((seconds * _US_PER_S for seconds in _SLOT_SECONDS if 2_000 * seconds <= lease_ms), None)
        for lease_ms in found["lease_ms"].to_pylist()
    ]
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
        **_CONTENT_OF[kind],
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
        "count(response_fields) AS responses",
        "min(seq) AS first_seq",
        "max(seq) AS last_seq",
    ]
    return conformed(beats.aggregate(", ".join(columns)).to_arrow_table(), HOURS, kind=kind)


PERIODS = pa.schema([("broker_addr", STRING), ("period", LONG)])
"""Periods (`PERIOD_US`) of addresses; a NULL address: beats without one."""
MARGIN_US = 2 * STALL_NS // NS_PER_US
"""An event may race with events between its arrival and its effect. A longer time between them counts as a stall."""


class Folded(NamedTuple):
    """A day's beats, folded.

    `singles`: periods of addresses whose beats are replayed one by one (`PERIODS`). `hours`: the condensed rows of all
    others. `runs`: these as events (`day_events.EVENTS`, with `is_run` true), in no order.
    """

    singles: pa.Table
    hours: pa.Table
    runs: pa.Table


def folded(
    hours: pa.Table, others: pa.Table, open_rows: Frames, context: NamesrvDay, broken: pa.Table | None = None
) -> Folded:
    """Return the beats of a name server's day, as runs where possible.

    `hours`: the condensed beats; `others`: the day's other events (`day_events`); `open_rows`: rows open at its beginning;
    `broken`: periods of addresses whose beats are known to be no run (`PERIODS`).
    """
    profile = context.namesrv.profile
    hours = hours.append_column("row", pa.array(range(hours.num_rows), LONG))
    found = ask(
        query("hours/fold"),
        {
            "hours": hours,
            "live": frame(open_rows, gold.BROKER_LIVE_HISTORY).select(_LIVE),
            "reported": frame(open_rows, gold.DATA_VERSION_HISTORY).select(_REPORTED),
            "others": others.select(_LOOKED_AT),
            "deleted": _deleted(others, open_rows),
            "broken": PERIODS.empty_table() if broken is None else broken,
        },
        period_us=PERIOD_US,
        margin_us=MARGIN_US,
        expiry_us=2 * context.namesrv.scan_period_ms * US_PER_MS + _US_PER_S,
        until_ms=context.until_seq // NS_PER_MS,
        default_ms=BROKER_CHANNEL_EXPIRED_MS,
        longest_ms=LONGEST_LEASE_MS,
        stall_ns=STALL_NS,
        is_unknown=context.has_unknown_past,
        own_lease=profile.own_heartbeat_timeout,
        with_cluster=profile.live_key_has_cluster,
        with_state=profile.has_state_version,
        knows_light=profile.has_topic_registration,
        light=int(RequestCode.BROKER_HEARTBEAT),
        asked=int(RequestCode.QUERY_DATA_VERSION),
        deletion=int(RequestCode.DELETE_TOPIC_IN_NAMESRV),
        # After a change of configuration, the same beat of any broker may have another effect.
        changes_us=[seq // NS_PER_US for seq, _ in context.namesrv.later],
    )
    hours = hours.append_column("behind", found["behind"])
    kept = hours.filter(pc.invert(found["is_single"]))
    runs = ask(query("hours/runs"), {"hours": kept}, with_cluster=profile.live_key_has_cluster)
    events = as_events(runs).append_column("is_run", pa.repeat(pa.scalar(True, BOOLEAN), runs.num_rows))
    return Folded(periods_of(hours.filter(found["is_single"])), kept, events)


def periods_of(hours: pa.Table) -> pa.Table:
    """Return the periods and addresses of condensed beats: `PERIODS`."""
    period = pc.divide(hours["first_us"], PERIOD_US)
    return hours.select(["broker_addr"]).append_column("period", period).group_by(PERIODS.names).aggregate([])


def _deleted(others: pa.Table, open_rows: Frames) -> pa.Table:
    """Return (topic, broker_name), as at the beginning of the day, of topics that are deleted on it."""
    deletions = others.filter(pc.equal(others["code"], RequestCode.DELETE_TOPIC_IN_NAMESRV))
    columns = ["topic", "broker_name"]
    if not deletions.num_rows:
        return others.select(columns).slice(0, 0)
    queues = frame(open_rows, gold.TOPIC_QUEUE_HISTORY).select(columns)
    return queues.filter(pc.is_in(queues["topic"], value_set=pc.unique(deletions["topic"])))


_LIVE = (
    *("cluster_name", "broker_addr", "broker_name", "channel_id", "ha_server_addr", "data_version"),
    *("heartbeat_timeout_ms", "last_update_time"),
)
_REPORTED = ("cluster_name", "broker_name", "broker_addr", "data_version")
_LOOKED_AT = (
    *("kind", "code", "broker_addr", "broker_name", "channel_id", "remote_addr", "topic", "queue_datas"),
    *("received_us", "effect_us"),
)
