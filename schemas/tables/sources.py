"""The table sources: one file that was given, by content."""

from __future__ import annotations

from schemas.recorded import DAYS, SOURCE_FILE_IS_A_NAME
from schemas.rule import is_hex, is_one_of, warn
from schemas.table import LONG, STRING, TIMESTAMP, Column, Rule, Table, map_of, required

ACCEPTED, UNREAD, REFUSED = "accepted", "unread", "refused"
"""Verdicts on a file that was given."""
SOURCES = Table(
    "sources",
    "bronze",
    "one file that was given, by content",
    (
        required("content_sha256", STRING, "SHA-256 of the file as read"),
        required("source_file", STRING, "Name of the file, without its folder"),
        required(
            "kind",
            STRING,
            "capture, event_log, namesrv_log or snapshot; addresses: no file, but what is said of addresses is new, and rows "
            "are named anew",
        ),
        required("bytes", LONG, "Size of the file"),
        Column(
            "fingerprint",
            STRING,
            "Digest of its whole name, its size and the time of its last change, by which it is known without being read; NULL: "
            "it was as new as the reading of it",
        ),
        required("frames", LONG, "Frames (capture) or lines (event log) in it"),
        Column("packets", LONG, "Packets in it; NULL for an event log"),
        Column("first_time", TIMESTAMP, "Time of the first packet; NULL for an event log"),
        Column("last_time", TIMESTAMP, "Time of the last packet; NULL for an event log"),
        required("days", DAYS, "Days on which the run that read it has written or changed rows"),
        Column("error", STRING, "What is wrong with it, or why reading stopped early; NULL: nothing"),
        required(
            "verdict",
            STRING,
            "accepted; unread: nothing, or less than most, of it could be read; refused: it breaks a rule, and none of its rows "
            "is kept",
        ),
        Column(
            "counts",
            map_of(LONG),
            "What became of all that the run that read it has read, as in runs.counts; the same in each of its rows",
        ),
        required("ingest_run", STRING, "Run that read it"),
    ),
    key=("content_sha256",),
    partition_by=(),
    rules=(
        Rule("sha256_has_its_form", is_hex("content_sha256", 64), "content_sha256 is 64 hex digits."),
        SOURCE_FILE_IS_A_NAME,
        Rule(
            "kind_is_known",
            "kind IN ('capture', 'event_log', 'namesrv_log', 'snapshot', 'addresses')",
            "kind is capture, event_log, namesrv_log, snapshot or addresses.",
        ),
        Rule(
            "counts_are_not_negative",
            "bytes >= 0 AND frames >= 0 AND coalesce(packets, 0) >= 0",
            "bytes, frames and packets are 0 or more.",
        ),
        Rule(
            "packets_if_capture", "(kind = 'capture') = (packets IS NOT NULL)", "Captures, and only they, have packets."
        ),
        warn(
            "times_are_in_order",
            "first_time IS NULL OR last_time IS NULL OR first_time <= last_time",
            "A file does not end before it begins.",
        ),
        Rule(
            "verdict_is_known",
            is_one_of("verdict", (ACCEPTED, UNREAD, REFUSED)),
            "verdict is accepted, unread or refused.",
        ),
        warn(
            "is_accepted",
            f"verdict NOT IN ('{UNREAD}', '{REFUSED}')",
            "Most of the file could be read, and it breaks no rule.",
        ),
        warn("read_to_its_end", "error IS NULL", "Reading did not stop early."),
    ),
)
