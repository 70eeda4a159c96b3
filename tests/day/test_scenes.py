"""Beats as runs and one by one, where keys are null, shared or odd: no table may tell them from one another."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_day.hours import condense
from tests.day.lives import MIDNIGHT_MS, Life, Line, told_apart

FIRST_S, LAST_S, APART_S = -1_200, 1_200, 30
"""Scenes last from twenty minutes before midnight to twenty after it, in seconds from it; brokers beat twice a minute."""


def registration(name: str | None, addr: str | None, topics: str = "TU", **more: object) -> Line:
    """Return a registration of a master, with topics named by letters."""
    configs = [{"topic": topic, "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6} for topic in topics]
    said = {"cluster_name": "C", "broker_name": name, "broker_addr": addr, "broker_id": 0, "topics": configs}
    version = {"data_version": {"timestamp": MIDNIGHT_MS, "counter": 1}}
    return {"kind": "registration", "channel_id": f"{addr}#1", "response_code": 0} | version | said | more


def query(name: str | None, addr: str | None, **more: object) -> Line:
    """Return a version query of a broker whose version is the registered one."""
    said = {"code": 322, "cluster_name": "C", "broker_name": name, "broker_addr": addr}
    version = {"data_version": {"timestamp": MIDNIGHT_MS, "counter": 1}}
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
ACTING = {"enable_acting_master": True}
GONE_S = -300


class Scene(NamedTuple):
    """What happens to a name server. `profiles`: the generations of those that go through it."""

    name: str
    told: Iterable[tuple[float, Line]]
    profiles: tuple[Profile, ...] = (V4_9_7, V5_4_0)


SCENES = [
    Scene("brokers without a name", [*broker(None, "1:1"), *broker(None, "1:2", 1), (600, registration(None, "1:1"))]),
    Scene("brokers without an address", [*broker("one", None), *broker("two", None, 1, until_s=-20)]),
    Scene("neither name nor address", [*broker(None, None, until_s=-20)]),
    Scene("a broker without a connection", [
        *broker("one", "1:1", until_s=GONE_S, channel_id=None), *broker("two", "2:2", 1, until_s=GONE_S),
    ]),
    Scene("the end of a group with an address that is null", [
        *broker("b", None), *broker("c", "2:1", 1), (300, {"kind": "channel", "event": "close", "channel_id": "2:1#1"}),
    ]),
    Scene("one address in two clusters", [
        *broker("one", "1:1", until_s=-600), *broker("one", "1:1", 20, cluster_name="D"), *broker("two", "1:2", until_s=20),
    ]),
    Scene("a name in two clusters of one bucket", [
        *broker("other", "2:1", cluster_name="BB"), *broker("one", "1:1", 1, cluster_name="Aa"),
        *broker("one", "1:1", 2, cluster_name="BB"), (300, {"kind": "channel", "event": "close", "channel_id": "1:1#1"}),
    ]),
    Scene("registrations without a version", [
        *beats(registration("one", "1:1", data_version=None), until_s=300),
        (310, registration("one", "1:1", "TUV", data_version=None)),
        *beats(registration("two", "1:2", data_version=None), 1, until_s=-60),
        *((at, registration("two", "1:2", "TW", data_version=None)) for at in range(30, 1_200, 30)),
    ]),
    *(
        Scene(f"a lease of {lease_ms} ms", [
            (FIRST_S + 5, registration("one", "1:1", heartbeat_timeout_ms=lease_ms)), *beats(query("one", "1:1")),
        ], (V5_4_0,))
        for lease_ms in (2**63 - 1, 10**16, -(10**16), 0, 1_500, 29_999, 30_000)
    ),
    Scene("a topic for a name and one that is unknown", [
        *broker("one", "1:1"), *broker("three", "3:1", topics="XY"),
        (300, {"kind": "admin", "code": 217, "topic": "X", "response_code": 0, "queue_datas": [
            {"broker_name": name, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} for name in ("one", "unknown")
        ]}),
    ], (V5_4_0,)),
    Scene("administrators who say nothing", [
        *broker("one", "1:1"),
        (300, {"kind": "admin", "code": 216, "cluster_name": "C"}), (400, {"kind": "admin", "code": 205}),
        (500, {"kind": "unregistration", "cluster_name": "C", "broker_id": 0}),
    ]),
    Scene("a master that leaves its slave", [
        *broker("one", "1:1", until_s=GONE_S, **ACTING), *broker("one", "1:2", 1, broker_id=1, **ACTING),
    ], (V5_4_0,)),
]  # fmt: skip


LIVES = [
    pytest.param(
        scene.name,
        profile,
        id=f"{scene.name} ({profile.name})",
        marks=[pytest.mark.slow] if others or number % 3 else [],
    )
    for number, scene in enumerate(SCENES)
    for others, profile in enumerate(reversed(scene.profiles))
]


class Told(NamedTuple):
    """A life as it was replayed beat by beat."""

    life: Life
    plain: dict[str, pa.Table]


@cache
def told_of(name: str, profile: Profile) -> Told:
    """Return what becomes of a name server that goes through a scene from its start on."""
    (scene,) = (scene for scene in SCENES if scene.name == name)
    life = Life([(FIRST_S, {"kind": "namesrv", "event": "started"}), *scene.told, *WELL], Namesrv(profile))
    return Told(life, life.replayed(folds=False))


@pytest.mark.parametrize(("name", "profile"), LIVES)
def test_no_table_tells_runs_from_single_beats(name: str, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short periods, most of every scene is runs: all tables are as they were beat by beat."""
    life, plain = told_of(name, profile)
    monkeypatch.setattr(condense, "SLOTS", 2)
    monkeypatch.setattr(condense, "PERIOD_US", 120_000_000)
    assert told_apart(plain, life.replayed()) == {}
