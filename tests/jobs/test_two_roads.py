"""Both roads, and units apart and together, where keys are null, shared or odd: no table may tell them from one another."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import night, nightly, quiet, tables, units
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.warehouse import Warehouse, days_of
from tests.jobs.test_night import unnumbered

Line = dict[str, Any]
Told = Iterable[tuple[float, Line]]
MIDNIGHT_MS = 1_767_398_400_000  # of 2026-01-03
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


def beats(line: Line, offset_s: float = 0.0, until_s: float = LAST_S) -> Told:
    """Return a beat again and again."""
    times = (FIRST_S + 10 + offset_s + APART_S * n for n in range((LAST_S - FIRST_S) // APART_S))
    return [(at, line) for at in times if at <= until_s]


def broker(name: str | None, addr: str | None, offset_s: float = 0.0, until_s: float = LAST_S, **more: object) -> Told:
    """Return a broker's registration and version queries."""
    cluster = {"cluster_name": more["cluster_name"]} if "cluster_name" in more else {}
    first = (FIRST_S + 5 + offset_s, registration(name, addr, **more))  # type: ignore[arg-type]
    return [first, *beats(query(name, addr, **cluster), offset_s, until_s)]


WELL = [*broker("well", "9:1", 3), *broker("fine", "9:2", 4)]
"""Two brokers whom nothing of the others concerns."""
ACTING = {"enable_acting_master": True}
GONE_S = -300


class Scene(NamedTuple):
    """What happens to a name server. `versions`: protocol versions of those that go through it."""

    name: str
    told: Told
    versions: tuple[int, ...] = (407, 493)


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
        ], (493,))
        for lease_ms in (2**63 - 1, 10**16, -(10**16), 0, 1_500, 29_999, 30_000)
    ),
    Scene("a topic for a name and one that is unknown", [
        *broker("one", "1:1"), *broker("three", "3:1", topics="XY"),
        (300, {"kind": "admin", "code": 217, "topic": "X", "response_code": 0, "queue_datas": [
            {"broker_name": name, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} for name in ("one", "unknown")
        ]}),
    ], (493,)),
    Scene("administrators who say nothing", [
        *broker("one", "1:1"),
        (300, {"kind": "admin", "code": 216, "cluster_name": "C"}), (400, {"kind": "admin", "code": 205}),
        (500, {"kind": "unregistration", "cluster_name": "C", "broker_id": 0}),
    ]),
    Scene("a master that leaves its slave", [
        *broker("one", "1:1", until_s=GONE_S, **ACTING), *broker("one", "1:2", 1, broker_id=1, **ACTING),
    ], (493,)),
]  # fmt: skip


def lines_of(scenes: Iterable[Scene]) -> Iterator[Line]:
    """Yield event-log lines of name servers of their own for each scene and version."""
    numbered = [(scene, version) for scene in scenes for version in scene.versions]
    for number, (scene, version) in enumerate(numbered, 1):
        started: list[tuple[float, Line]] = [
            (FIRST_S, {"kind": "namesrv", "event": "started"}),
            (FIRST_S, {"kind": "namesrv", "event": "identified", "version": version}),
        ]
        for at, line in sorted([*started, *scene.told, *WELL], key=lambda told: told[0]):
            time_ms = MIDNIGHT_MS + round(at * 1_000)
            yield {"schema": "namesrv-event/1", "namesrv_id": namesrv_of(number), "time": time_ms, **line}


def namesrv_of(number: int) -> str:
    return f"10.0.0.{number}:9876"


NAMES = {
    namesrv_of(number): name
    for number, name in enumerate((f"{s.name} ({version})" for s in SCENES for version in s.versions), 1)
}
House = Callable[..., Warehouse]


@pytest.fixture(scope="module")
def house_at(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Open the warehouse in which all scenes have been replayed event by event, unit by unit, and published."""
    folder = tmp_path_factory.mktemp("scenes")
    log = folder / "scenes.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines_of(SCENES)), encoding="utf-8")

    def house(run_id: str, *, quiet_road: bool) -> Warehouse:
        conf = PipelineConf(quiet_road=quiet_road)
        return Warehouse(spark, str(folder / "w"), conf, run_id, dt.datetime.now(dt.timezone.utc))

    summary = nightly.run(house("plain", quiet_road=False), [str(log)], Console(io.StringIO(), io.StringIO()))
    assert (summary.status, summary.quarantined, len(summary.days)) == ("published", 0, 2)
    return house


def replayed(house: Warehouse) -> Warehouse:
    """Replay and flag all days once more; `house` again."""
    days = days_of(house.recorded())
    night.replay(house, days)
    night.flag_days(house, days)
    return house


def told_apart(one: dict[str, DataFrame], other: dict[str, DataFrame]) -> dict[str, set[str]]:
    """Return the scenes, by table, of which the two have other rows; digests say it of the whole, rows of whom."""
    mine, others = tables.digests(one), tables.digests(other)
    differing = [name for name in one if mine[name] != others[name]]
    return {name: names_in(one[name], other[name]) | names_in(other[name], one[name]) for name in differing}


def names_in(rows: DataFrame, others: DataFrame) -> set[str]:
    """Return the scenes of `rows` that are not among `others`."""
    one, other = (frame.select("namesrv_id", F.to_json(F.struct("*"))) for frame in (rows, others))
    return {NAMES[row["namesrv_id"]] for row in one.exceptAll(other).collect()}


def held(frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """Keep the rows as they are now, without what maps cannot be compared in."""
    return {name: tables.cut_short(frame) for name, frame in frames.items() if "namesrv_id" in frame.columns}


@pytest.fixture(scope="module")
def plain(house_at: House) -> dict[str, DataFrame]:
    """Return all tables as the first run left them."""
    return held(house_at("read", quiet_road=False).data())


def test_no_table_tells_the_roads_apart(
    house_at: House, plain: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With short periods, most of every scene is a run or carried forward: all tables are as they were event by event."""
    monkeypatch.setattr(quiet, "SLOTS", 2)
    monkeypatch.setattr(quiet, "PERIOD_US", 120_000_000)
    assert told_apart(plain, held(replayed(house_at("quiet", quiet_road=True)).data())) == {}


def test_no_table_tells_units_from_the_whole(
    house_at: House, plain: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where something of a scene acts beyond its unit, its name server is replayed as one."""
    monkeypatch.setattr(units, "must_stay_whole", lambda _, namesrvs, __: dict.fromkeys(namesrvs, True))
    whole = held(unnumbered(replayed(house_at("whole", quiet_road=False)).data()))
    assert told_apart(held(unnumbered(plain)), whole) == {}


def test_topics_of_a_slave_that_stays_are_not_lost(plain: dict[str, DataFrame]) -> None:
    """5.x takes the write permission of a group without master: its queue data are written anew, not removed."""
    scene = next(name for name, told in NAMES.items() if told.startswith("a master that leaves"))
    expired = plain["expired_brokers"].where(f"namesrv_id = '{scene}'")
    assert [(row["broker_addr"], row["topics_lost"]) for row in expired.collect()] == [("1:1", [])]
