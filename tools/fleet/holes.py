"""What the fleet simulator knows of its own events without any replay: a test holds the replayed tables against it."""

from __future__ import annotations

from schemas.bronze import DAY
from schemas.table import USUAL, Table, columns

HOLES = Table(
    "holes",
    "truth",
    "one silence of one broker at one name server that was planted",
    (
        USUAL["namesrv_id"],
        *columns("""
            kind* STRING: outage (of the broker), partition (from this name server) or restart
            broker_name* STRING: Broker
            broker_addr* STRING: Its address
            hole_from* TIMESTAMP: From when its beats are lost; a restart: when the process stopped
            hole_to* TIMESTAMP: Until when; a restart: when the new process started
            last_beat_time* TIMESTAMP: Last beat before
            first_beat_time* TIMESTAMP: First beat after, a registration
            lost_beats* BIGINT: Beats that were lost
            lease_ms* BIGINT: Lease in milliseconds
            lease_end_time* TIMESTAMP: A scan removes the broker if its tick lies after this instant
            removal_due_time* TIMESTAMP: The last instant at which the first such tick can lie
            expiries_min* INT: Removals that must be found, 0 or 1
            expiries_max* INT: Removals that may be found, 0 or 1: that depends on the phase of the scan
        """),
        DAY,
    ),
    key=("day", "namesrv_id", "broker_name", "hole_from"),
)
