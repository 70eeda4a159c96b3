"""Both roads, over midnight, on several name servers at once: no table may tell them from one another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.conf import PipelineConf
from jobs.night import work
from namesrv_day.hours import condense
from namesrv_day.settle import races
from schemas import gold
from tests.day.lives import MIDNIGHT_MS, Line
from tests.day.test_pack_roads import FIRST_S, SCENES, WELL
from tests.night.nights import Counting, night, rows

LEAVES = "a master that leaves its slave"
CHOSEN = {"one address in two clusters": 407, "registrations without a version": 493, LEAVES: 493}
"""Scenes that a name server each goes through, by its protocol version; a pack is tested on all of them."""


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
    """Return the name server that goes through a scene."""
    return f"10.0.0.{list(CHOSEN).index(name) + 1}:9876"


@pytest.mark.slow
def test_no_table_tells_the_roads_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short periods, most of every scene is a run or carried forward: all tables are as they were event by event.

    5.x takes the write permission of a group without master: its queue data are written anew, and no topic is lost.
    """
    monkeypatch.setattr(condense, "SLOTS", 2)
    for module in (condense, races, work):
        monkeypatch.setattr(module, "PERIOD_US", 120_000_000)
    log = tmp_path / "scenes.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines()), encoding="utf-8")
    said, events = {}, {}
    for road in (False, True):
        passes, conf = Counting(), PipelineConf(quiet_road=road)
        said[road] = night(tmp_path / f"{road}", log, passes=passes, conf=conf)
        events[road] = passes.events
    assert (said[True].status, said[True].quarantined, len(said[True].days)) == ("published", 0, 2)
    assert said[True].digests == said[False].digests
    assert events[True] < events[False] // 2
    left = [row for row in rows(tmp_path / "True", gold.EXPIRED_BROKERS) if row["namesrv_id"] == namesrv_of(LEAVES)]
    assert [(row["broker_addr"], row["topics_lost"]) for row in left] == [("1:1", [])]
