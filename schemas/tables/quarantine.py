"""The table quarantine: one part of the input that could not be decoded or broke a rule."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from namesrv_wire.errors import PIECES, Reason
from schemas.recorded import SOURCE, SOURCE_RULES
from schemas.rule import has_form, is_hex, is_one_of
from schemas.table import DATE, LONG, STRING, TIMESTAMP, Column, Rule, Table, required

BROKEN_RULE = "broken_rule"
"""Reason code of a quarantined row that could be decoded but broke critical rules; its detail names them."""

QUARANTINE_REASONS = (*sorted(reason.value for reason in Reason), BROKEN_RULE)
_PIECES = sorted(reason.value for reason in PIECES)
QUARANTINE_SHARE = 0.01
"""Share of a run's frames above which quarantine stops it: whoever sends only rubbish must not hide in it."""

QUARANTINE_FLOOR = 10
"""Pieces that a run may always quarantine: one bad line is more than the share of a small file."""

QUARANTINE = Table(
    "quarantine",
    "bronze",
    "one part of the input that could not be decoded or broke a rule",
    (
        required("quarantine_id", STRING, "Deterministic id, 32 hex digits"),
        Column("namesrv_id", STRING, "Name server, if known"),
        Column("namesrv_addr", STRING, "Its address that was used, if known"),
        Column("event_time", TIMESTAMP, "When it was received, if known"),
        Column("channel_id", STRING, "Connection, if known"),
        required(
            "reason",
            STRING,
            "Reason code; broken_rule: it could be decoded, and says what cannot be; too_late, clock_went_back, ahead_of_clock, "
            "seq_taken: it could be decoded, and has no place in the history; tls, http, zeros, half_frame, "
            "silent_connection: what a whole connection looks like; truncated_packet: the first frame of a connection that the "
            "capture has cut",
        ),
        Column("detail", STRING, "What was met and what was expected; broken_rule: the table and its rules"),
        required("length", LONG, "Bytes of the refused part; broken_rule: of the row as JSON"),
        required("sha256", STRING, "SHA-256 of the refused part, hex"),
        required("first_bytes", STRING, "First bytes, hex, secrets blotted out; at most 256"),
        required("decoder_version", STRING, "Version of the decoder that refused it"),
        *SOURCE,
        required("day", DATE, "Last day with events of the run that refused it, or else that was known; partition"),
    ),
    key=("quarantine_id",),
    rules=(
        *SOURCE_RULES,
        Rule("quarantine_id_is_a_digest", is_hex("quarantine_id", 32), "quarantine_id is 32 hex digits."),
        Rule(
            "reason_is_known",
            is_one_of("reason", QUARANTINE_REASONS),
            f"The reason is one of: {', '.join(QUARANTINE_REASONS)}.",
        ),
        Rule("length_is_not_negative", "length >= 0", "length is 0 or more."),
        Rule("sha256_has_its_form", is_hex("sha256", 64), "sha256 is 64 hex digits."),
        Rule(
            "first_bytes_are_few",
            f"{has_form('first_bytes', '[0-9a-f]*')} AND length(first_bytes) % 2 = 0 AND length(first_bytes) <= 512",
            "first_bytes are at most 256 bytes in hex.",
        ),
        Rule(
            "quarantine_is_small",
            f"quarantined <= greatest({QUARANTINE_FLOOR}, {QUARANTINE_SHARE} * frames)",
            f"A run quarantines at most {QUARANTINE_SHARE:.0%} of its frames (or {QUARANTINE_FLOOR} of few).",
            severity="warning",  # the limit that stops a night is configuration
            kind="query",
            over=f"""
                SELECT ingest_run, sum(frames) AS frames, sum(quarantined) AS quarantined
                FROM (SELECT ingest_run, frames, 0 AS quarantined FROM sources
                      UNION ALL SELECT ingest_run, 0, 1 FROM quarantine WHERE NOT list_contains({_PIECES}, reason))
                GROUP BY ingest_run""",
            scope="table",
        ),
    ),
)
