"""What the fleet simulator knows of its own events without any replay: a test holds the replayed tables against it."""

from __future__ import annotations

from schemas.recorded import DAY, NAMESRV_ID
from schemas.table import INT, LONG, STRING, TIMESTAMP, Table, required

HOLES = Table(
    "holes",
    "truth",
    "one silence of one broker at one name server that was planted",
    (
        NAMESRV_ID,
        required("kind", STRING, "outage (of the broker), partition (from this name server) or restart"),
        required("broker_name", STRING, "Broker"),
        required("broker_addr", STRING, "Its address"),
        required("hole_from", TIMESTAMP, "From when its beats are lost; a restart: when the process stopped"),
        required("hole_to", TIMESTAMP, "Until when; a restart: when the new process started"),
        required("last_beat_time", TIMESTAMP, "Last beat before"),
        required("first_beat_time", TIMESTAMP, "First beat after, a registration"),
        required("lost_beats", LONG, "Beats that were lost"),
        required("lease_ms", LONG, "Lease in milliseconds"),
        required("lease_end_time", TIMESTAMP, "A scan removes the broker if its tick lies after this instant"),
        required("removal_due_time", TIMESTAMP, "The last instant at which the first such tick can lie"),
        required("expiries_min", INT, "Removals that must be found, 0 or 1"),
        required("expiries_max", INT, "Removals that may be found, 0 or 1: that depends on the phase of the scan"),
        DAY,
    ),
    key=("day", "namesrv_id", "broker_name", "hole_from"),
)
