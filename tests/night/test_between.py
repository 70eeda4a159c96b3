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


def told(warehouse: Path) -> list[tuple[str, str, int, int | None]]:
    """Return the divergences as stored: by whom which broker was lacked, from which day to which."""
    found = [row for row in rows(warehouse, gold.FINDINGS) if row["code"] == "NS_DIVERGENCE"]
    days = [[day and (day - FIRST_DAY).days for day in (row["told_on"], row["ended_on"])] for row in found]
    return sorted((row["namesrv_id"], row["subject"], *of) for row, of in zip(found, days, strict=True))


@pytest.mark.slow
def test_what_a_name_server_lacks_is_told_over_midnight_and_taken_back(tmp_path: Path) -> None:
    """One row, from the day on which it begins to that on which it ends; late events of the first day take it back."""
    started = [
        at(MIDNIGHT - 6 * MINUTE, {"kind": "namesrv", "event": "started", "namesrv_id": of}) for of in (ONE, OTHER)
    ]
    both = [line for of in (ONE, OTHER) for line in beats("a", of, -5, 5)]
    log = write(tmp_path / "one.jsonl", [*started, *both, *beats("b", ONE, -5, 5), *beats("b", OTHER, 2, 5)])
    warehouse = tmp_path / "w"
    night(warehouse, log)
    assert told(warehouse) == [(OTHER, "broker-b", 0, 1)]
    [found] = [row for row in rows(warehouse, gold.FINDINGS) if row["code"] == "NS_DIVERGENCE"]
    assert found["to_time"] - found["from_time"] == 7 * 60_000_000
    assert (found["topics"], found["topic_names"], found["begun_with"], len(found["evidence"])) == (2, ["T", "U"], 1, 2)
    night(warehouse, write(tmp_path / "late.jsonl", beats("b", OTHER, -5, 0)))
    assert told(warehouse) == []
    changed = {row["day"] for row in rows(warehouse, gold.RESTATEMENTS) if row["table_name"] == "findings"}
    assert len(changed) == 2
