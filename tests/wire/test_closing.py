"""Silent connections of a name server: which are overdue, and since when it has done something."""

from __future__ import annotations

import random

from namesrv_wire.streams.closing import GIVE_UP_NS, Idle
from namesrv_wire.streams.connection import Connection

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
        found = idle.given_up(now_ns)
        assert found == late
        given_up += len(found)
        for connection in found:
            idle.forget(connection)
        chosen = draw.choice(connections)
        match draw.randrange(3):
            case 0:
                idle.heard(chosen, now_ns)
            case 1:
                idle.forget(chosen)
                connections[connections.index(chosen)] = Connection(chosen.client, now_ns, 1, ("f", 1))
            case _:
                expected = {c.client: c.first_active_ns or now_ns for c in idle.overdue.values()}
                idle.active(now_ns)
                assert {c.client: c.first_active_ns for c in idle.overdue.values()} == expected
    assert given_up > _CLIENTS
