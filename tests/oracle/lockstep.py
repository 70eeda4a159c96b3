"""The core beside the real name server, event by event: the first difference, and the shortest sequence that shows it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.oracle.oracle import Oracle
from tests.oracle.sequences import Adversary, Ev
from tools.trace.trace import Trace, TraceError
from tools.trace.trace_state import canonical

_BATCH = 2_000


class Difference(NamedTuple):
    """Events of one life, of which the last is answered differently; both answers as canonical JSON."""

    events: list[Ev]
    real: str
    core: str


class Compared(NamedTuple):
    """How many events were compared and what was found."""

    events: int
    difference: Difference | None


def compare(oracle: Oracle, count: int, seed: int) -> Compared:
    """Compare result and state hash after each of at least `count` events; the first difference is minimised."""
    pairs = _core_answers(oracle.version, seed)
    compared, life, sent = 0, list[Ev](), list[tuple[Ev, str]]()
    while compared < count or sent:
        batch = [next(pairs) for _ in range(_BATCH)] if compared + len(sent) < count else []
        answers = oracle.texts(len(sent))  # the JVM has worked on them while the core took this batch
        oracle.send(ev for ev, _ in batch)
        for (ev, core), real in zip(sent, answers, strict=True):
            compared += 1
            if ev["op"] == "init":
                life = []
            life.append(ev)
            if core != real:
                oracle.texts(len(batch))
                return Compared(compared, minimal(oracle, life))
        sent = batch
    return Compared(compared, None)


def _core_answers(version: str, seed: int) -> Iterator[tuple[Ev, str]]:
    adversary = Adversary(random.Random(seed), version)
    trace = Trace()
    for ev in adversary.events():
        core, res = answered(trace, ev)
        yield ev, core
        for after in adversary.follow_up(ev, res.get("closed", [])):
            yield after, answered(trace, after)[0]


def answered(trace: Trace, ev: Ev) -> tuple[str, dict[str, Any]]:
    """Return the core's answer as canonical JSON, and its result."""
    try:
        res = trace.take(ev)
    except TraceError as error:
        return f"error: {error}", {}
    return f'{{"h":"{trace.state_hash()}","res":{canonical(res)}}}', res


def difference(oracle: Oracle, life: Sequence[Ev]) -> Difference | None:
    """Replay one life and return its first difference."""
    trace = Trace()
    oracle.send(life)
    answers = oracle.texts(len(life))
    for i, (ev, real) in enumerate(zip(life, answers, strict=True)):
        core, _ = answered(trace, ev)
        if core != real:
            return Difference(list(life[: i + 1]), real, core)
    return None


def minimal(oracle: Oracle, life: Sequence[Ev]) -> Difference:
    """Leave out events, in ever smaller pieces, as long as something still differs.

    Raises AssertionError if `life` shows no difference when it is replayed: then one side is not deterministic.
    """
    found = difference(oracle, life)
    assert found is not None, "the difference is gone when replayed"
    size = len(found.events) // 2
    while size:
        start = 1  # the first event is `init`
        while start < len(found.events) - 1:
            shorter = [*found.events[:start], *found.events[start + size :]]
            again = difference(oracle, shorter)
            if again is None:
                start += size
            else:
                found = again
        size //= 2
    return found


def explained(oracle: Oracle, found: Difference) -> str:
    """Return a difference to be read: the events, what each side answered, and the tables that differ."""
    trace = Trace()
    for ev in found.events:
        answered(trace, ev)
    real_state = oracle.take(found.events, states=True)[-1]["st"]
    core_state = trace.state()
    lines = [json.dumps(ev, ensure_ascii=False) for ev in found.events]
    lines += [f"real: {found.real}", f"core: {found.core}"]
    for table, rows in real_state.items():
        if rows != core_state.get(table):
            lines += [f"{table}, real: {canonical(rows)}", f"{table}, core: {canonical(core_state.get(table))}"]
    return "\n".join(lines)
