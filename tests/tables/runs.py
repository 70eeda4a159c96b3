"""Rows of runs: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, MINUTE, NOON, digest

GOOD = {
    "layout": 5,
    "started_time": NOON,
    "finished_time": NOON,
    "status": "published",
    "days": [DAY],
    "ingest_runs": ["run-1"],
    "sources": [digest("file", 64)],
    "inputs": [],
    "outputs": [],
    "coverage": [],
    "previous_sha256": digest("row", 64),
    "files_root": digest("files", 64),
    "files": [],
    "gone": [],
    "versions": {"t": 1},
    "digests": {},
    "counts": {"frames": 1},
    "seconds": {"replay": 1.0},
    "gate": "passed",
    "code_version": "1",
    "config_sha256": digest("config", 64),
}


def own(n: int) -> dict[str, object]:
    return {"run_id": f"run-{n}"}


NULLED = "code_version"
PLANTED = {
    "status_is_known": {"status": "lost"},
    "gate_agrees": {"gate": "heartbeats.key_is_unique"},
    "hashes_are_hex": {"config_sha256": "1"},
    "figures_are_not_negative": {"counts": {"frames": -1}},
    "time_does_not_run_back": {"finished_time": NOON - MINUTE},
}
