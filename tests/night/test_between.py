"""Nights over two name servers of which one lacks a broker: told over midnight, and taken back when late events say otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas import gold
from tests.ingest.given import FIRST as FIRST_DAY
from tests.ingest.given import Line, at, broker, write
from tests.night.nights import night, rows

ONE, OTHER = "10.0.0.1:9876", "10.0.0.2:9876"
MINUTE = 1 / 60
MIDNIGHT = 24.0


def beats(name: str, namesrv: str, first: float, last: float) -> list[Line]:
    """Return registrations of a broker every half minute, from and until so many minutes after midnight."""
    said = {**broker(name, "TU", 1), "namesrv_id": namesrv}
    times = range(round(first * 2), round(last * 2))
    return [at(MIDNIGHT + half * MINUTE / 2 + ord(name) / 36_000_000, said) for half in times]


def told(warehouse: Path) -> list[tuple[str, str, int, bool]]:
    """Return the divergences as stored: by whom which broker was lacked, on which day, and whether it had ended then."""
    found = [row for row in rows(warehouse, gold.FINDINGS) if row["code"] == "NS_DIVERGENCE"]
    return sorted(
        (row["namesrv_id"], row["subject"], (row["day"] - FIRST_DAY).days, row["to_time"] is not None) for row in found
    )


@pytest.mark.slow
def test_what_a_name_server_lacks_is_told_over_midnight_and_taken_back(tmp_path: Path) -> None:
    """Told on the day on which it begins and on the day on which it ends; late events of the first day take back both."""
    started = [
        at(MIDNIGHT - 6 * MINUTE, {"kind": "namesrv", "event": "started", "namesrv_id": of}) for of in (ONE, OTHER)
    ]
    both = [line for of in (ONE, OTHER) for line in beats("a", of, -5, 5)]
    log = write(tmp_path / "one.jsonl", [*started, *both, *beats("b", ONE, -5, 5), *beats("b", OTHER, 2, 5)])
    house = tmp_path / "w"
    night(house, log)
    assert told(house) == [(OTHER, "broker-b", 0, False), (OTHER, "broker-b", 1, True)]
    first, last = sorted(
        (row for row in rows(house, gold.FINDINGS) if row["code"] == "NS_DIVERGENCE"), key=lambda row: row["day"]
    )
    assert first["from_time"] == last["from_time"]
    assert last["to_time"] - last["from_time"] == 7 * 60_000_000
    assert (first["topics"], first["topic_names"], first["evidence"][0]) == (2, ["T", "U"], last["evidence"][0])
    night(house, write(tmp_path / "late.jsonl", beats("b", OTHER, -5, 0)))
    assert told(house) == []
    changed = {row["day"] for row in rows(house, gold.RESTATEMENTS) if row["table_name"] == "findings"}
    assert len(changed) == 2
