"""Carry forward, as columns, what a day did not change."""

from __future__ import annotations

import pyarrow as pa

from namesrv_core.machine.profile import Profile
from namesrv_day.arrow.rows import conformed, empty
from namesrv_day.arrow.sql import ask
from namesrv_day.day.day_events import Frames
from namesrv_day.plan.placing import carried
from schemas import gold
from schemas.table import LONG


def forwarded(open_rows: Frames, hours: pa.Table, quiet: pa.Table, profile: Profile) -> dict[str, pa.Table]:
    """Return the day's rows, by history table, of the nodes that are `quiet`; the column `day` stays as it was.

    `open_rows`: what was open when the day began; `hours`: its beats, which say of a live entry when it beat last.
    """
    rows = {name: carried(rows, name, quiet).drop_columns("unit") for name, rows in open_rows.items()}
    live = gold.BROKER_LIVE_HISTORY.name
    if live in rows:
        rows[live] = _renewed(rows[live], hours, profile)
    return rows


def _renewed(live: pa.Table, hours: pa.Table, profile: Profile) -> pa.Table:
    """Return live rows with their first and last beat of the day; a lease is counted in milliseconds."""
    numbered = live.select(_ENTRY).append_column("row", pa.array(range(live.num_rows), LONG))
    found = ask(_LAST_BEATS, {"live": numbered, "hours": hours}, with_cluster=profile.live_key_has_cluster)
    for name, values in (("first_update_time", live["last_update_time"]), ("last_update_time", found["last_beat"])):
        at = live.schema.get_field_index(name)
        live = live.set_column(at, live.schema.field(at), values.cast(live.schema.field(at).type))
    return live


def refreshes_hourly(hours: pa.Table, profile: Profile, counted: pa.Table | None = None) -> pa.Table:
    """Return the rows of refreshes_hourly, without `day`, of beats that all are plain refreshes (`plan.uneventful`).

    `counted`: rows of those that were replayed one by one; an hour of a live entry that is in both is one row.
    """
    counted = empty(gold.REFRESHES_HOURLY) if counted is None else counted
    found = ask(_HOURLY, {"hours": hours, "counted": counted}, with_cluster=profile.live_key_has_cluster)
    return conformed(found, gold.REFRESHES_HOURLY)


_ENTRY = ["cluster_name", "broker_addr", "last_update_time"]
_LAST_BEATS = """
WITH beats AS (
    SELECT if($with_cluster, cluster_name, NULL) AS cluster, broker_addr AS addr,
        make_timestamptz(max(last_us) // 1000 * 1000) AS last_beat
    FROM hours GROUP BY ALL
)
SELECT coalesce(last_beat, last_update_time) AS last_beat FROM live LEFT JOIN beats
    ON addr IS NOT DISTINCT FROM broker_addr AND cluster IS NOT DISTINCT FROM if($with_cluster, cluster_name, NULL)
ORDER BY row
"""
_HOURLY = """
SELECT namesrv_id, cluster_name, broker_addr, hour, CAST(sum(refreshes) AS BIGINT) AS refreshes,
    min(first_time) AS first_time, max(last_time) AS last_time
FROM (
    SELECT namesrv_id, if($with_cluster, cluster_name, NULL) AS cluster_name, broker_addr,
        date_trunc('hour', make_timestamptz(first_us)) AS hour, beats AS refreshes,
        make_timestamptz(first_us) AS first_time, make_timestamptz(last_us) AS last_time
    FROM hours
    UNION ALL
    SELECT namesrv_id, cluster_name, broker_addr, hour, refreshes, first_time, last_time FROM counted
) GROUP BY ALL
"""
