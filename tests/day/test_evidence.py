"""What a day's rows tell of its name server, read as they are: its settings, when it scans and stood still, what may have raced."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import V4_9_7, Namesrv, NamesrvConfig
from namesrv_core.inference.settings import Known, Life, Statement, Votes
from namesrv_core.machine.schedule import Stall
from namesrv_day.context import NamesrvDay, namesrv_day
from namesrv_day.settle import (
    holds,
    known_settings,
    namesrv_on,
    scans,
    settings_of,
    settle,
    stalls,
    under_idle_limit,
    votes,
)
from schemas import gold
from tests.day.settle_given import (
    DAY,
    Given,
    Row,
    answered,
    asked_to,
    ended,
    life,
    registered,
    row,
    seq_at,
    unregistered,
)
from tests.situations import Language, Situation

START = [life(1_000, "start", "started"), life(1_001, "version", "identified", version=493)]


def group(addrs: dict[str, str], perm: int = 4, name: str = "broker-a") -> str:
    """Return a route as it is sent, of a group that allows acting masters."""
    data = {"brokerName": name, "brokerAddrs": addrs, "enableActingMaster": True}
    queue = {"brokerName": "broker-a", "perm": perm, "readQueueNums": 4, "writeQueueNums": 4}
    return json.dumps({"brokerDatas": [data], "queueDatas": [queue]}, separators=(",", ":"))


def clusters(addrs: dict[str, str]) -> str:
    """Return a list of clusters as it is sent, with one group, which allows acting masters."""
    data = {"brokerName": "broker-a", "brokerAddrs": addrs, "cluster": "C", "enableActingMaster": True}
    shown = {"brokerAddrTable": {"broker-a": data}, "clusterAddrTable": {"C": ["broker-a"]}}
    return json.dumps(shown, separators=(",", ":"))


def order_conf(ms: float, code: int, **values: Any) -> Row:
    """Return an order configuration of T, put (100) or deleted (102)."""
    entry: Row = {
        "namespace": "ORDER_TOPIC_CONFIG",
        "config_key": "T",
        "config_value": "broker-a:4" if code == 100 else None,
    }
    return asked_to(ms, f"conf-{ms}", code, **{**entry, **values})


def asked_for(topic: str, ms: float, body: str | None, code: int = 0, zone: str | None = None) -> Row:
    """Return the answer to a question for a topic's route, or for what of it is in a zone."""
    return answered(ms, f"a{ms}", 105, topic, body, response_code=code, scope=zone)


def lease(number: int, beat_ms: int, lease_ms: int = 10_000, **values: Any) -> Row:
    """Return a registration of a broker of its own, over a connection of its own."""
    named: Row = {"broker_name": f"b{number}", "broker_addr": f"10.0.1.{number}:10911", "channel_id": f"c{number}#1"}
    return registered(beat_ms, f"r{number}-{beat_ms}", heartbeat_timeout_ms=lease_ms, **{**named, **values})


def scanned(number: int, ms: float, closed_by: str = "namesrv", **values: Any) -> Row:
    return ended(ms, f"close-{number}-{ms}", "close", closed_by, **{"channel_id": f"c{number}#1", **values})


def end_of(*words: Any, **values: Any) -> Row:
    """Return an end; a channel that says `ms` was opened then."""
    if opened := re.fullmatch(r"(.*#)(\d+)ms", values.get("channel_id") or ""):
        values["channel_id"] = f"{opened[1]}{seq_at(int(opened[2]))}"
    return ended(*words, **values)


def light(ms: float, **values: Any) -> Row:
    """Return a light heartbeat."""
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.2:10911", "code": 904}
    return row(ms, f"h{ms}", **{**broker, **values})


def live(addr: str, channel: str, heard_ms: float = 0, **values: Any) -> Row:
    """Return what a broker that registered like `registered` left open the day before."""
    broker: Row = {"cluster_name": "C", "broker_addr": addr, "broker_name": "broker-a", "channel_id": channel}
    said: Row = {"data_version": {"state_version": 0, "timestamp": 1, "counter": 1}, "heartbeat_timeout_ms": 120_000}
    return {**broker, **said, "last_update_time": seq_at(heard_ms) // 1_000, **values}


def asked_version(ms: float, **values: Any) -> Row:
    return row(ms, "a", code=322, one_way=False, request_version=493, response_code=0, broker_name="b", **values)


IDLE = "channel_max_idle_ms"
OLD_LIFE = Life(0, "5.4.0", "v")


def limit(ms: int | None, since_ms: float | None = None) -> Known:
    """Return what is known where answers show the idle limit of a process that started long ago, or at `since_ms`."""
    lives = [OLD_LIFE] if since_ms is None else [OLD_LIFE, Life(seq_at(since_ms))]
    return Known(lives, votes=[Votes(lives[-1].from_seq, IDLE, ms, 1, ("a",))])


LANGUAGE = Language(
    {
        "answered": ("route_observations", answered),
        "answers": (
            "route_observations",
            lambda first, end, step: [answered(ms, f"o{ms}", 105, "T", None) for ms in range(first, end, step)],
        ),
        "asked": ("admin_events", asked_to),
        "asked_for": ("route_observations", asked_for),
        "asked_version": ("heartbeats", asked_version),
        "ended": ("channel_events", end_of),
        "configured": ("namesrv", NamesrvConfig),
        "fact_carried": (
            gold.PAST_KNOWLEDGE,
            lambda: {"what": "known", "about": "topic_queue", "any_one": True, "any_other": True, "number": 1},
        ),
        "first_seen": ("input", lambda ms: ("first_seen_seq", seq_at(ms))),
        "given": ("given", lambda name, value: (name, value)),
        "going_on": ("input", lambda: ("going_on", True)),
        "limit": ("limit", limit),
        "limit_given": ("limit", lambda ms: Known([OLD_LIFE], given={IDLE: ms})),
        "limit_stated": (
            "limit",
            lambda ms: Known([OLD_LIFE], [Statement(seq_at(2_000), "s", {IDLE: ms}, changes=False)]),
        ),
        "outcome": (gold.EVENT_OUTCOMES, lambda seq, outcome: {"seq": seq, "event_id": f"{seq}", "outcome": outcome}),
        "yesterday": ("earlier", lambda *words, **values: life(*words, day=DAY - dt.timedelta(days=1), **values)),
        "lease": ("registrations", lease),
        "life": ("namesrv_events", life),
        "light": ("heartbeats", light),
        "live": (gold.BROKER_LIVE_HISTORY, live),
        "member": (
            gold.BROKER_ADDR_HISTORY,
            lambda name, addr, broker_id, **more: dict(broker_name=name, broker_addr=addr, broker_id=broker_id, **more),
        ),
        "order_conf": ("admin_events", order_conf),
        "order_kept": (
            gold.KV_CONFIG_HISTORY,
            lambda key, value: {"namespace": "ORDER_TOPIC_CONFIG", "config_key": key, "config_value": value},
        ),
        "registered": ("registrations", registered),
        "scanned": ("channel_events", scanned),
        "unregistered": ("unregistrations", unregistered),
        "waited": (
            "route_observations",
            lambda since_ms, ms: answered(ms, f"w{ms}", 105, "T", None, request_seq=seq_at(since_ms)),
        ),
    },
    {
        "ROUTE": json.dumps({"queueDatas": [], "brokerDatas": []}),
        "ORDERED": json.dumps({"orderTopicConf": "broker-a:4"}),
        "CLUSTERS": clusters({"1": "10.0.0.2:10911"}),
        "ACTING": group({"0": "10.0.0.2:10911"}),
        "SLAVE_ALONE": group({"1": "10.0.0.2:10911"}),
        "WRITABLE": group({"0": "10.0.0.2:10911"}, perm=6),
        "OTHER_MASTER": group({"0": "10.0.0.9:10911"}),
        "WITH": group({"0": "10.0.0.2:10911"}, perm=6),
        "WITHOUT": group({}, perm=6).replace("broker-a", "broker-b"),
        "{}": "{}",
    },
    DAY,
)


def situations() -> list[tuple[str, Situation]]:
    """Return what is looked for in each situation, with the rows of the one that it adds to."""
    found: list[tuple[str, Situation]] = []
    base = Situation("", "", {}, [], [])
    for situation in LANGUAGE.read(Path(__file__).with_name("evidence.txt")):
        if situation.name != "with":
            base = situation
            found.append((base.name, base))
            continue
        tables = {*base.rows, *situation.rows}
        rows = {table: [*base.rows.get(table, ()), *situation.rows.get(table, ())] for table in tables}
        found.append((base.name, situation._replace(rows=rows)))
    return found


def in_ms(seq: int) -> str:
    return f"{(seq - seq_at(0)) / 1_000_000:.6f}".rstrip("0").rstrip(".")


def unknown(day: NamesrvDay) -> list[str]:
    """Return what of the past is not known."""
    since = [] if day.unknown_from_ms is None else [f"since {in_ms(day.unknown_from_ms * 1_000_000)}"]
    lines = since + ["carried"] * day.past_is_carried + ["gap"] * day.has_gap
    assert day.has_unknown_past == bool(lines)
    return lines


OF_CONTEXT: dict[str, Callable[[NamesrvDay, list[int]], list[str]]] = {
    "halted": lambda day, _: ["halted"] * day.scan_halted,
    "ticks": lambda day, asked: [
        "-" if tick is None else in_ms(tick) for tick in (day.schedule.first_tick(at, 0) for at in asked)
    ],
    "unknown": lambda day, _: unknown(day),
    "until": lambda day, _: [in_ms(day.until_seq)],
}


def told(what: str, given: Given, situation: Situation) -> list[str]:
    """Return what a day tells, as lines."""
    if what == "ends":
        (of_limit,) = situation.rows["limit"]
        ends = under_idle_limit(
            given.input, namesrv_on(of_limit, DAY), stalls(given.input), is_given=bool(of_limit.given)
        )
        assert ends.schema == given.input.today["channel_events"].schema
        rows = ends.sort_by("seq").to_pylist()
        return [f"{r['event_id']} {r['kind']} {r['closed_by']} {in_ms(r['seq'])} {r['silent_ms']}" for r in rows]
    if what in OF_CONTEXT:
        day = namesrv_day(given.input, Namesrv(V4_9_7, *situation.rows.get("namesrv", [])), {})
        return OF_CONTEXT[what](day, [seq_at(float(word)) for word in situation.asked])
    if what == "stalls":
        return [" ".join(f"{(seq - seq_at(0)) / 1_000_000:g}" for seq in stall) for stall in stalls(given.input)]
    known, closes = known_settings(given.input), list[int]()
    if what == "holds":
        return [" ".join(f"{(seq - seq_at(0)) / 1_000_000:.10g}" for seq in hold) for hold in holds(given.input, known)]
    if what == "votes":
        cast = votes(given.input, known)
    else:
        of_day, ends = given.input, given.input.today["channel_events"]
        cast, closes = scans(of_day, known, ends, stalls(of_day), holds(of_day, known))
    lines = [
        f"{v.name} {json.dumps(v.value)} {v.answers} {(v.life_seq - seq_at(0)) // 1_000_000} {' '.join(v.evidence)}"
        for v in cast
    ]
    return [*sorted(lines), *(f"close {(seq - seq_at(0)) // 1_000_000}" for seq in closes)]


@pytest.mark.parametrize(("what", "situation"), situations(), ids=lambda of: getattr(of, "shows", of))
def test_what_a_day_tells(what: str, situation: Situation) -> None:
    """Votes with their number (and process, and evidence, where the line says them), closes of scans, stalls."""
    apart = ("earlier", "given", "input", "limit", "namesrv")
    rows = {table: of for table, of in situation.rows.items() if isinstance(table, str) and table not in apart}
    if what in ("votes", "scans"):
        rows["namesrv_events"] = [*START, *rows.get("namesrv_events", ())]
    carried = {table: of for table, of in situation.rows.items() if not isinstance(table, str)}
    settings, more = (dict(situation.rows.get(name, [])) for name in ("given", "input"))
    given = Given(rows, carried=carried, given=settings, earlier=situation.rows.get("earlier", []), **more)
    expected = [line.split() for line in situation.found if not line.startswith("reads ")]
    found = [line.split() for line in told(what, given, situation)]
    assert [line[: len(of)] for line, of in zip(found, expected, strict=True)] == expected
    for line in situation.found:
        if line.startswith("reads "):
            assert given.reads == [(kind, False) for kind in line.split()[1:] if kind != "-"]


def test_closes_that_contradict_each_other_are_weighed() -> None:
    """The phase of most is taken, and what speaks against it is counted; they are never added up."""
    at_ms = [16_000, 21_002, 22_700, 26_003, 31_500]
    beats = [lease(number, ms - 12_000) for number, ms in enumerate(at_ms)]
    closes = [scanned(number, ms) for number, ms in enumerate(at_ms)]
    given = Given({"namesrv_events": START, "registrations": beats, "channel_events": closes})
    [period, phase] = [s for s in settings_of(settle(given.input).settings) if s.name.startswith("scan")]
    assert (period.value, period.source.value) == (5_000, "inferred")
    assert (phase.value, phase.source.value, phase.answers_for, phase.answers_against) == (1_000_000, "inferred", 3, 2)
    ticks = settle(given.input).context.schedule
    assert ticks.first_tick(seq_at(22_000), 0) == seq_at(26_003) - 1


def test_ticks_of_a_stall_are_made_at_its_end() -> None:
    """What they close says nothing of the timer: it keeps its phase."""
    other: Row = {"broker_name": "b", "broker_addr": "10.0.0.3:10911", "channel_id": "d#1"}
    beats = [registered(2_000, "r", heartbeat_timeout_ms=10_000), registered(39_000, "s", received_ms=13_000, **other)]
    rows = {
        "registrations": beats,
        "channel_events": [ended(39_001, "c", "close", "namesrv")],
        "namesrv_events": [life(1_000, "start", "started"), life(1_001, "v", "identified", version=493)],
    }
    settled = settle(Given(rows).input)
    assert "scan_phase_us" not in settled.settings["setting"].to_pylist()
    ticks = settled.context.schedule
    assert ticks.first_tick(seq_at(12_500), seq_at(12_000) // 1_000_000) == seq_at(39_001) - 1  # the first close
    assert ticks.first_tick(seq_at(39_001) - 1, 0) == seq_at(40_500)
    assert stalls(Given(rows).input) == [Stall(seq_at(13_000), seq_at(39_000))]
