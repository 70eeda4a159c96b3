"""Carry forward, as columns, what a day did not change."""

from __future__ import annotations

import pyarrow as pa

from namesrv_core.machine.profile import Profile
from namesrv_day.arrow.rows import conformed, empty, with_columns
from namesrv_day.arrow.sql import ask
from namesrv_day.day.day_events import Frames
from namesrv_day.plan.placing import carried
from schemas import gold
from schemas.sql_files import query
from schemas.table import LONG


def forwarded(open_rows: Frames, hours: pa.Table, quiet: pa.Table, profile: Profile) -> dict[str, pa.Table]:
    """Return the day's rows, by history table, of the nodes that are `quiet`.

    `open_rows`: what was open when the day began; `hours`: its beats, which say of a live entry when it beat last.
    """
    rows = {name: carried(rows, name, quiet).drop_columns("unit") for name, rows in open_rows.items()}
    live = gold.BROKER_LIVE_HISTORY.name
    if live in rows:
        rows[live] = _renewed(rows[live], hours, profile)
    return rows


def _renewed(live: pa.Table, hours: pa.Table, profile: Profile) -> pa.Table:
    """Return live rows with their last beat of the day; a lease is counted in milliseconds."""
    numbered = live.select(_ENTRY).append_column("row", pa.array(range(live.num_rows), LONG))
    found = ask(
        query("replay/last_beats"), {"live": numbered, "hours": hours}, with_cluster=profile.live_key_has_cluster
    )
    return with_columns(live, last_update_time=found["last_beat"].cast(live.schema.field("last_update_time").type))


def refreshes_hourly(hours: pa.Table, profile: Profile, counted: pa.Table | None = None) -> pa.Table:
    """Return the rows of refreshes_hourly, without `day`, of beats that all are plain refreshes (`plan.uneventful`).

    `counted`: rows of those that were replayed one by one; an hour of a live entry that is in both is one row.
    """
    counted = empty(gold.REFRESHES_HOURLY) if counted is None else counted
    found = ask(query("replay/hourly"), {"hours": hours, "counted": counted}, with_cluster=profile.live_key_has_cluster)
    return conformed(found, gold.REFRESHES_HOURLY)


_ENTRY = ["cluster_name", "broker_addr", "last_update_time"]
