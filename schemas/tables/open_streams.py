"""The table open_streams."""

from __future__ import annotations

from schemas.recorded import NAMESRV_ADDR
from schemas.table import STRING, TIMESTAMP, Rule, Table, required

OPEN_STREAMS = Table(
    "open_streams",
    "bronze",
    "the connections of one address of a name server where reading stopped, so that the next capture continues them",
    (
        NAMESRV_ADDR,
        required("state", STRING, "Open connections, half-received frames and unanswered requests as strict JSON"),
        required("sha256", STRING, "SHA-256 of state, hex"),
        required("last_time", TIMESTAMP, "Time of the last packet seen"),
        required("ingest_run", STRING, "Run that wrote it"),
    ),
    key=("namesrv_addr",),
    partition_by=(),
    rules=(
        Rule("state_is_intact", "sha256 = sha256(state)", "sha256 is the SHA-256 of state."),
        Rule("state_is_json", "json_valid(state)", "state is JSON."),
    ),
)
