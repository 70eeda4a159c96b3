"""What the fleet simulator knows of its own events without any replay: a test holds the replayed tables against it."""

from __future__ import annotations

from schemas.bronze import DAY, NAMESRV_ID
from schemas.table import INT, LONG, STRING, TIMESTAMP, Column, Table

HOLES = Table(
    "holes",
    "truth",
    "one silence of one broker at one name server that was planted",
    (
        NAMESRV_ID,
        Column("kind", STRING, "outage (of the broker), partition (from this name server) or restart", required=True),
        Column("broker_name", STRING, "Broker", required=True),
        Column("broker_addr", STRING, "Its address", required=True),
        Column(
            "hole_from", TIMESTAMP, "From when its beats are lost; a restart: when the process stopped", required=True
        ),
        Column("hole_to", TIMESTAMP, "Until when; a restart: when the new process started", required=True),
        Column("last_beat_time", TIMESTAMP, "Last beat before", required=True),
        Column("first_beat_time", TIMESTAMP, "First beat after, a registration", required=True),
        Column("lost_beats", LONG, "Beats that were lost", required=True),
        Column("lease_ms", LONG, "Lease in milliseconds", required=True),
        Column(
            "lease_end_time", TIMESTAMP, "A scan removes the broker if its tick lies after this instant", required=True
        ),
        Column("removal_due_time", TIMESTAMP, "The last instant at which the first such tick can lie", required=True),
        Column("expiries_min", INT, "Removals that must be found, 0 or 1", required=True),
        Column(
            "expiries_max",
            INT,
            "Removals that may be found, 0 or 1: that depends on the phase of the scan",
            required=True,
        ),
        DAY,
    ),
    key=("day", "namesrv_id", "broker_name", "hole_from"),
)
TABLES = (HOLES,)
