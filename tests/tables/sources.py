"""Rows of sources: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import MINUTE, NOON, digest

GOOD = {
    "source_file": "capture.pcap",
    "kind": "capture",
    "bytes": 1,
    "frames": 100_000,
    "packets": 1,
    "days": [NOON.date()],
    "verdict": "accepted",
    "ingest_run": "run-1",
}


def own(n: int) -> dict[str, object]:
    return {"content_sha256": digest(f"file {n}", 64)}


PLANTED = {
    "sha256_has_its_form": {"content_sha256": "1"},
    "source_file_is_a_name": {"source_file": "folder/capture.pcap"},
    "kind_is_known": {"kind": "rumour", "packets": None},
    "counts_are_not_negative": {"bytes": -1},
    "packets_if_capture": {"packets": None},
    "times_are_in_order": {"first_time": NOON, "last_time": NOON - MINUTE},
    "verdict_is_known": {"verdict": "perhaps"},
    "is_accepted": {"verdict": "refused"},
    "read_to_its_end": {"error": "cut short"},
}
