"""Releases between those that are replayed most: their own rules, and a word of one that nobody has compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.conf import DEFAULT_CONF, load_conf
from schemas import gold
from tests.ingest.given import NAMESRV, Line, at, broker, write
from tests.night.nights import night, rows
from tests.places import CASES

pytestmark = pytest.mark.slow


def test_a_prime_slave_of_5_1_0(tmp_path: Path) -> None:
    """Its topics lose their write bit whatever enableActingMaster says: every answer of the log is given, byte for byte."""
    said = night(tmp_path / "w", CASES / "r04_v510_answers.jsonl.gz")
    assert (said.status, said.verify["mismatched"]) == ("published", 0)
    verify = said.verify
    assert verify["answers"] == verify["matched"] == verify["same_order"] == verify["same_bytes"] > 0
    versions = [
        (row["value"], row["source"])
        for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS)
        if row["setting"] == "version"
    ]
    assert versions == [("5.1.0", "stated")]


STARTED: Line = {"kind": "namesrv", "event": "started"}
IDENTIFIED: Line = {"kind": "namesrv", "event": "identified"}


@pytest.mark.parametrize(
    ("given", "stated", "of_brokers", "told"),
    [
        (None, None, 491, ["namesrv_settings.release_was_compared"]),
        (None, 491, 491, ["namesrv_events.version_is_tried"]),
        ("5.4", 493, 491, []),
    ],
)
def test_a_release_that_was_not_compared_is_told_once(
    given: str | None, stated: int | None, of_brokers: int, told: list[str], tmp_path: Path
) -> None:
    """Where the name server states it, or conf/ gives it, or else the newest of its brokers says so; 491 is 5.3.9."""
    lines = [STARTED, *([{**IDENTIFIED, "version": stated}] if stated else [])]
    lines += [{**broker("a", "xy", 1), "request_version": of_brokers, "response_code": 0}] * 2
    log = write(tmp_path / "a.jsonl", [at(8 + number / 120, line) for number, line in enumerate(lines)])
    said = night(tmp_path / "w", log, conf=load_conf(DEFAULT_CONF, [f"{NAMESRV}={given}"] if given else []))
    assert [warning.split(":", maxsplit=1)[0].split(" ", maxsplit=1)[0] for warning in said.warnings] == told
