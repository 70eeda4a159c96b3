"""Beats as runs and one by one, where keys are null, shared or odd: no table may tell them from one another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.machine.profile import profile_named
from namesrv_day import hours
from schemas.times import day_of
from tests.day.lives import MIDNIGHT_MS, Life, Line, told_apart
from tests.ingest.given import registration as registered
from tests.situations import Language, Situation

FIRST_S, LAST_S, APART_S = -1_200, 1_200, 30
"""Scenes last from twenty minutes before midnight to twenty after it, in seconds from it; brokers beat twice a minute."""


def registration(name: str | None, addr: str | None, topics: str = "TU", **more: Any) -> Line:
    """Return a registration of a master over its connection, with topics named by letters."""
    return registered(name, addr, topics, **{"channel_id": f"{addr}#1", "response_code": 0, **more})


def query(name: str | None, addr: str | None, **more: object) -> Line:
    """Return a version query of a broker whose version is the registered one."""
    said = {"code": 322, "cluster_name": "C", "broker_name": name, "broker_addr": addr}
    version = {"data_version": registered(name, addr, "")["data_version"]}
    return {"kind": "heartbeat", "response_code": 0} | said | version | more


def beats(line: Line, offset_s: float = 0.0, until_s: float = LAST_S) -> Iterable[tuple[float, Line]]:
    times = (FIRST_S + 10 + offset_s + APART_S * n for n in range((LAST_S - FIRST_S) // APART_S))
    return [(at, line) for at in times if at <= until_s]


def broker(
    name: str | None, addr: str | None, offset_s: float = 0.0, until_s: float = LAST_S, **more: object
) -> Iterable[tuple[float, Line]]:
    cluster = {"cluster_name": more["cluster_name"]} if "cluster_name" in more else {}
    first = (FIRST_S + 5 + offset_s, registration(name, addr, **more))  # type: ignore[arg-type]
    return [first, *beats(query(name, addr, **cluster), offset_s, until_s)]


WELL = [*broker("well", "9:1", 3), *broker("fine", "9:2", 4)]
"""Two brokers whom nothing of the others concerns."""


def registers(
    name: str | None,
    addr: str | None,
    offset_s: float = 0.0,
    until_s: float = LAST_S,
    since_s: float = FIRST_S,
    **more: Any,
) -> list[tuple[float, Line]]:
    return [said for said in beats(registration(name, addr, **more), offset_s, until_s) if said[0] >= since_s]


LANGUAGE = Language(
    {
        "namesrv": ("profiles", profile_named),
        "broker": ("told", lambda *values, **more: list(broker(*values, **more))),
        "registers": ("told", registers),
        "asks": ("told", lambda name, addr: list(beats(query(name, addr)))),
        "registered": ("told", lambda at, *values, **more: (at, registration(*values, **more))),
        "said": ("told", lambda at, line: (at, line)),
    },
    {},
    day_of(MIDNIGHT_MS * 1_000),
)
SCENES = [*LANGUAGE.read(Path(__file__).with_name("scenes.txt"))]
LIVES = [
    pytest.param(
        scene, profile, id=f"{scene.shows} ({profile.name})", marks=[pytest.mark.slow] if others or number % 3 else []
    )
    for number, scene in enumerate(SCENES)
    for others, profile in enumerate(scene.rows.get("profiles") or (V5_4_0, V4_9_7))
]


@pytest.mark.parametrize(("scene", "profile"), LIVES)
def test_no_table_tells_runs_from_single_beats(
    scene: Situation, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With short periods, most of every scene is runs: all tables are as they were beat by beat."""
    started = (FIRST_S, {"kind": "namesrv", "event": "started"})
    life = Life([started, *scene.rows["told"], *WELL], Namesrv(profile))
    plain = life.replayed(folds=False)
    monkeypatch.setattr(hours, "SLOTS", 2)
    monkeypatch.setattr(hours, "PERIOD_US", 120_000_000)
    assert told_apart(plain, life.replayed()) == {}
