"""Folding a day's heartbeats and registrations into runs: while nothing else can happen to a broker, equal beats are one event.

An estimate of what can happen affects the time that a replay takes, never its result. The replay detects a run that did
more than renew a lease, or was interrupted by a change, and repeats that time beat by beat (`broken`).
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US, US_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, frame
from namesrv_day.day.day_events import Frames, as_events
from namesrv_day.hours import condense
from namesrv_day.hours.condense import LONGEST_LEASE_MS
from schemas import gold
from schemas.sql_files import query
from schemas.table import BOOLEAN, LONG, STRING

PERIODS = pa.schema([("broker_addr", STRING), ("period", LONG)])
"""Periods (`condense.PERIOD_US`) of addresses; a NULL address stands for beats without one."""
MARGIN_US = 2 * STALL_NS // NS_PER_US
"""An event may race with events between its arrival and its effect. A longer time between them counts as a stall."""
_US_PER_S = 1_000_000


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
        period_us=condense.PERIOD_US,
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
    period = pc.divide(hours["first_us"], condense.PERIOD_US)
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
