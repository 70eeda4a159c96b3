"""The table snapshots: one state of a name server at an instant, from a file in the format namesrv-snapshot/1."""

from __future__ import annotations

from schemas.recorded import DAY, NAMESRV_ADDR, NAMESRV_ID, SOURCE, SOURCE_RULES
from schemas.rule import is_hex
from schemas.table import LONG, STRING, TIMESTAMP, Rule, Table, required

SNAPSHOTS = Table(
    "snapshots",
    "bronze",
    "one state of a name server at an instant, from a file in the format namesrv-snapshot/1",
    (
        NAMESRV_ID,
        NAMESRV_ADDR,
        required("seq", LONG, "Position of the instant, in ns since the epoch"),
        required("event_id", STRING, "Deterministic id from the content, 32 hex digits"),
        required("effect_time", TIMESTAMP, "The instant"),
        required("snapshot", STRING, "The file's text"),
        *SOURCE,
        DAY,
    ),
    key=("event_id",),
    rules=(
        *SOURCE_RULES,
        Rule("event_id_is_a_digest", is_hex("event_id", 32), "event_id is 32 hex digits."),
        Rule(
            "snapshot_is_json",
            "CASE WHEN json_valid(snapshot) THEN json_extract_string(snapshot, '$.format') IS NOT NULL END",
            "snapshot names its format.",
        ),
    ),
)
