"""Beats as runs and one by one, over midnight, on several name servers at once: no table may tell them from one another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.night import work
from namesrv_day.hours import condense
from namesrv_day.hours.fold import folded
from namesrv_day.replay import replay as replaying
from namesrv_day.settle import races
from schemas import gold
from tests.day.lives import MIDNIGHT_MS, Line, one_by_one
from tests.day.test_scenes import FIRST_S, SCENES, WELL
from tests.night.nights import Counting, night, rows

pytestmark = pytest.mark.slow

LEAVES = "a master that leaves its slave"
CHOSEN = {"one address in two clusters": 407, LEAVES: 493}
"""Scenes that a name server each goes through, by its protocol version; a replay is tested on all of them."""


def lines() -> Iterator[Line]:
    """Yield the lines of an event log, each with its name server's scene in `namesrv_id`."""
    for scene in SCENES:
        if scene.name in CHOSEN:
            told: list[tuple[float, Line]] = [
                (FIRST_S, {"kind": "namesrv", "event": "started"}),
                (FIRST_S, {"kind": "namesrv", "event": "identified", "version": CHOSEN[scene.name]}),
                *scene.told,
                *WELL,
            ]
            for at_s, line in sorted(told, key=lambda told: told[0]):
                time_ms = MIDNIGHT_MS + round(at_s * 1_000)
                yield {"schema": "namesrv-event/1", "namesrv_id": namesrv_of(scene.name), "time": time_ms, **line}


def namesrv_of(name: str) -> str:
    return f"10.0.0.{list(CHOSEN).index(name) + 1}:9876"


def test_no_table_tells_runs_from_single_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short periods, most of every scene is runs: all tables are as they were beat by beat.

    5.x takes the write permission of a group without master: its queue data are written anew, and no topic is lost.
    """
    monkeypatch.setattr(condense, "SLOTS", 2)
    for module in (condense, races, work):
        monkeypatch.setattr(module, "PERIOD_US", 120_000_000)
    log = tmp_path / "scenes.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines()), encoding="utf-8")
    said, events = {}, {}
    for name, fold in (("runs", folded), ("beats", one_by_one)):
        monkeypatch.setattr(replaying, "folded", fold)
        passes = Counting()
        said[name] = night(tmp_path / name, log, passes=passes)
        events[name] = passes.events
    assert (said["runs"].status, said["runs"].quarantined, len(said["runs"].days)) == ("published", 0, 2)
    assert said["runs"].digests == said["beats"].digests
    assert events["runs"] < events["beats"] // 2
    left = [row for row in rows(tmp_path / "runs", gold.EXPIRED_BROKERS) if row["namesrv_id"] == namesrv_of(LEAVES)]
    assert [(row["broker_addr"], row["topics_lost"]) for row in left] == [("1:1", [])]
