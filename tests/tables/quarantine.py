"""Rows of quarantine: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, SOURCE, digest

GOOD = {
    "reason": "bad_json",
    "length": 2,
    "sha256": digest("piece", 64),
    "first_bytes": "7b7d",
    "decoder_version": "1",
    "day": DAY,
    **SOURCE,
}


def own(n: int) -> dict[str, object]:
    return {"quarantine_id": digest(f"piece {n}")}


NULLED = "decoder_version"
PLANTED = {
    "source_file_is_a_name": {"source_file": "folder/capture.pcap"},
    "source_offset_counts_from_1": {"source_offset": 0},
    "quarantine_id_is_a_digest": {"quarantine_id": "1"},
    "reason_is_known": {"reason": "did not like it"},
    "length_is_not_negative": {"length": -1},
    "sha256_has_its_form": {"sha256": "1"},
    "first_bytes_are_few": {"first_bytes": "00" * 257},
    "quarantine_is_small": [{"quarantine_id": digest(f"rubbish {n}"), "ingest_run": "run-2"} for n in range(11)],
}
