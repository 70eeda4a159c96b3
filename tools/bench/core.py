"""The core beside the real RouteInfoManager: the same events, decoded beforehand, one thread each, in one run.

A ratio counts only if both sides hold equal tables at the end. What the number of registered brokers does to the core's cost of an
event is measured beside it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from namesrv_core import PROFILES, Namesrv, Registry, take
from namesrv_core.machine import events
from tests.oracle.oracle import Oracle
from tools.bench.harness import AnswersDifferError, Ratio
from tools.trace.trace_events import event_of
from tools.trace.trace_state import StateText

Ev = dict[str, Any]
T0_MS = 1_700_000_000_000
TOPICS = 50
VERSIONS = ("4.9.7", "5.4.0")


class Case(NamedTuple):
    """Events of one kind; `bars` are the largest ratios to Java that are wanted, by release."""

    name: str
    evs: list[Ev]
    bars: dict[str, float]


def registration(version: str, number: int, t_ms: int, counter: int) -> Ev:
    """Return a full registration of broker `number` with 50 topics of its own cluster."""
    dv = {"ts": T0_MS, "counter": counter, **({"state": 0} if version == "5.4.0" else {})}
    topics = [{"name": f"Topic{n}", "r": 8, "w": 8 + counter % 2, "perm": 6, "sys": 0} for n in range(TOPICS)]
    identity = {
        "cluster": "C",
        "addr": f"10.0.{number // 250}.{number % 250}:10911",
        "name": f"broker-{number}",
        "id": 0,
    }
    return {
        "op": "register",
        "t_ms": t_ms,
        **identity,
        "ha": "",
        "dv": dv,
        "topics": topics,
        "filters": [],
        "ch": f"c{number}",
    }


def heartbeat(version: str, number: int, t_ms: int) -> Ev:
    """Return a version query of broker `number`, whose version is the stored one."""
    asked = registration(version, number, t_ms, 0)
    return {"op": "query_dv", "t_ms": t_ms, **{name: asked[name] for name in ("cluster", "addr", "name", "dv")}}


def cases(version: str, brokers: int, count: int) -> Iterator[Case]:
    """Yield the kinds of events, `count` of each, over `brokers` registered brokers."""
    turns = [(n % brokers, T0_MS + 1 + n // brokers, n // brokers) for n in range(count)]
    yield Case(
        "heartbeats (QUERY_DATA_VERSION)", [heartbeat(version, b, t) for b, t, _ in turns], {"4.9.7": 8, "5.4.0": 8}
    )
    yield Case("unchanged registrations", [registration(version, b, t, 0) for b, t, _ in turns], {"5.4.0": 2})
    changed = [registration(version, b, t, turn + 1) for b, t, turn in turns]
    yield Case("changed registrations", changed, {"4.9.7": 6, "5.4.0": 6})


def beginning(version: str, brokers: int) -> list[Ev]:
    """Return the events after which `brokers` brokers are registered."""
    init = {"op": "init", "profile": version, "t_ms": T0_MS, "config": {}}
    return [init, *(registration(version, number, T0_MS, 0) for number in range(brokers))]


def decoded(evs: Iterable[Ev]) -> list[tuple[events.Event, int]]:
    """Return trace events as the core takes them, with their times."""
    return [(event_of(ev["op"], ev, {}), ev["t_ms"]) for ev in evs]


def fresh(version: str, brokers: int) -> Registry:
    """Return a registry with `brokers` brokers."""
    registry = Registry(PROFILES[version])
    for event, t_ms in decoded(beginning(version, brokers)[1:]):
        take(registry, event, t_ms, Namesrv(PROFILES[version]))
    return registry


def core_ns(registry: Registry, timed: Sequence[tuple[events.Event, int]]) -> int:
    """Apply events and return the nanoseconds that it took."""
    namesrv = Namesrv(registry.profile)
    gc.collect()
    began = time.perf_counter_ns()
    for event, t_ms in timed:
        take(registry, event, t_ms, namesrv)
    return time.perf_counter_ns() - began


def beside_java(version: str, rounds: int, brokers: int = 20, count: int = 4_000) -> Iterator[Ratio]:
    """Yield how the core's nanoseconds an event compare with Java's. Raises AnswersDifferError, JvmUnavailableError."""
    with closing(Oracle(version)) as oracle:
        for case in (case for case in cases(version, brokers, count) if version in case.bars):
            oracle.take(beginning(version, brokers))
            registry, timed = fresh(version, brokers), decoded(case.evs)
            for _ in range(rounds):  # a JIT compiler is slow at first
                oracle.timed(case.evs)
            values = {
                "Java": [oracle.timed(case.evs) / count for _ in range(rounds)],
                "core": [core_ns(registry, timed) / count for _ in range(rounds)],
            }
            last = {**case.evs[-1], "op": "heartbeat"} if version == "5.4.0" else case.evs[-1]
            if oracle.take([last])[0]["h"] != hash_after(registry, last):
                raise AnswersDifferError(f"{version}, {case.name}: the tables of Java and of the core differ")
            yield Ratio(f"{version}, {case.name}, core ÷ Java", "core", "Java", values, case.bars[version], unit="ns")


def hash_after(registry: Registry, ev: Ev) -> str:
    """Return the hash of the registry's tables after one more event."""
    take(registry, event_of(ev["op"], ev, {}), ev["t_ms"], Namesrv(registry.profile))
    return StateText(registry).digest()


def by_size(version: str, rounds: int) -> Iterator[Ratio]:
    """Yield what 1,000 registered brokers cost an event, against 10."""
    small, large = fresh(version, 10), fresh(version, 1_000)
    for case in [*cases(version, 10, 2_000), scans(2_000)]:
        timed = decoded(case.evs)
        # In turns, so that both meet the same noise.
        costs = [(core_ns(small, timed), core_ns(large, timed)) for _ in range(rounds)]
        values = {
            name: [ns / len(timed) for ns in of]
            for name, of in zip(("10", "1,000"), zip(*costs, strict=True), strict=True)
        }
        yield Ratio(f"{version}, {case.name}, 1,000 brokers ÷ 10", "1,000", "10", values, 1.2, unit="ns")


def scans(count: int) -> Case:
    """Return scans in which nothing has expired."""
    return Case(
        "scans that expire nobody", [{"op": "scan", "t_ms": T0_MS + 1_000 + n // 100} for n in range(count)], {}
    )
