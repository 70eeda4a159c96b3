"""Silent connections of a name server: which are overdue, and since when it has done something."""

from __future__ import annotations

import random
import time

from namesrv_wire.streams.connection import GIVE_UP_NS, Connection, Idle

_LIMIT_MS = 120_000
_STEPS, _CLIENTS = 4_000, 40


def test_those_given_up_are_those_that_a_look_at_each_finds() -> None:
    """Whoever is heard, ends or falls silent, in any order: the same are given up, and in the same order.

    So is when the name server was first active since, as if all that are overdue were looked at each time.
    """
    draw, idle, now_ns = random.Random(7), Idle(_LIMIT_MS), 0
    connections = [Connection(f"10.0.0.1:{port}", 0, 1, ("f", 1)) for port in range(_CLIENTS)]
    given_up = 0
    for _ in range(_STEPS):
        now_ns += draw.randrange(1, 40_000_000_000)
        idle.passed(now_ns)
        late = [c for c in idle.overdue.values() if now_ns - (c.idle_ns or 0) > GIVE_UP_NS]
        assert idle.given_up == late
        given_up += len(late)
        for connection in late:
            idle.forget(connection)
        idle.given_up.clear()
        chosen = draw.choice(connections)
        match draw.randrange(3):
            case 0:
                idle.note_activity(chosen, now_ns)
            case 1:
                idle.forget(chosen)
                connections[connections.index(chosen)] = Connection(chosen.client, now_ns, 1, ("f", 1))
            case _:
                expected = {c.client: c.first_active_ns or now_ns for c in idle.overdue.values()}
                idle.active(now_ns)
                assert {c.client: c.first_active_ns for c in idle.overdue.values()} == expected
    assert given_up > _CLIENTS


def test_those_that_nobody_acknowledged_are_those_that_a_look_at_each_finds() -> None:
    """Whoever is heard, is acknowledged or ends, in any order: silence ends by what was acknowledged, or by the last byte."""
    draw, idle, now_ns = random.Random(11), Idle(_LIMIT_MS), 0
    connections = [Connection(f"10.0.0.1:{port}", 0, 1, ("f", 1)) for port in range(_CLIENTS)]
    unheard = 0
    for _ in range(_STEPS):
        now_ns += draw.randrange(1, 9_000_000_000)
        ends = {c: (c.taken_ns or c.last_byte_ns) + idle.limit_ns for c in idle.open.values()}
        due = {c: ends_ns for c, ends_ns in ends.items() if ends_ns < now_ns}
        assert not due or idle.due_ns < now_ns
        unheard += sum(c.taken_ns > 0 for c in due)
        assert {c: c.idle_ns for c in idle.passed(now_ns)} == due
        chosen = draw.choice(connections)
        if chosen.idle_ns is not None or not draw.randrange(8):
            idle.forget(chosen)
            connections[connections.index(chosen)] = chosen = Connection(chosen.client, now_ns, 1, ("f", 1))
        idle.note_activity(chosen, now_ns)
        if draw.randrange(2):
            chosen.taken_ns = 0
        elif not chosen.taken_ns:
            chosen.taken_ns = now_ns
    assert unheard > _STEPS // 100


def test_many_that_nobody_acknowledged_take_no_longer() -> None:
    """Of a capture that shows one direction nothing is acknowledged: each connection costs the same, however many there are."""
    count, step_ns = 20_000, 12_000_000
    began, idle, passed = time.process_time(), Idle(_LIMIT_MS), 0
    for number in range(1, count + 1):
        connection = Connection(f"10.0.0.1:{number}", number * step_ns, 1, ("f", 1))
        idle.note_activity(connection, number * step_ns)
        connection.taken_ns = number * step_ns
        if idle.due_ns < number * step_ns:
            passed += len(idle.passed(number * step_ns))
    assert passed == count - _LIMIT_MS * 1_000_000 // step_ns - 1
    assert time.process_time() - began < 5
