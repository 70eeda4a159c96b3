"""Silent connections of a name server: which are overdue, and since when it has done something."""

from __future__ import annotations

import random

import pytest

from namesrv_wire.packets.capture import ACK
from namesrv_wire.rows import AnyRow
from namesrv_wire.streams.closing import GIVE_UP_NS, Idle
from namesrv_wire.streams.connection import Connection
from tests.wire.forge import EPOCH_NS, REGISTER, SECOND_NS, Talk, merged, of_table, response, rows_of

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


def broker() -> Talk:
    """Return a broker's connection; its last byte came 3 ms after the epoch of these tests."""
    return Talk().open().ask(REGISTER).answer(response(3))


def fin_at(talk: Talk, second: float) -> Talk:
    """Add the name server's FIN, as the first that is seen of it."""
    talk.at_ns = EPOCH_NS + int(second * SECOND_NS)
    return talk.server_fin()


def ends(rows: list[AnyRow]) -> list[tuple[str, str, float, int]]:
    """Return the ends of connections: kind, by whom, the second in which it took effect, and the silence (s)."""
    return [
        (row["kind"], row["closed_by"], round(row["effect_time"] / 1e6 - EPOCH_NS / 1e9, 3), row["silent_ms"] // 1_000)
        for row in of_table(rows, "channel_events")
    ]


def acknowledging(from_s: int, until_s: int) -> Talk:
    """Return a client that sends a request a second, which is acknowledged and not answered while a process stands still."""
    talk = Talk(client="10.0.0.8:40000").open()
    for second in range(1, 10):
        talk.at_ns = EPOCH_NS + second * SECOND_NS
        talk.exchange(105, {"topic": "T"}, opaque=second)
    for second in range(from_s, until_s):
        talk.at_ns = EPOCH_NS + second * SECOND_NS
        talk.ask(REGISTER)._add(True, ACK)
    talk.at_ns = EPOCH_NS + until_s * SECOND_NS - 2_000_000
    return talk.answer(response(until_s))


BY_TIMER = [("idle", "timer", 120.003, 120), ("close", "timer", 120.003, 120)]


def test_a_fin_beyond_the_limit_is_a_late_sign() -> None:
    """The name server closed at the limit, and its FIN was lost with all else that it sent: seen is the one sent again."""
    rows = rows_of(fin_at(broker(), 173.003).segments)
    assert ends(rows) == [*BY_TIMER, ("late_close", "namesrv", 173.003, 173)]


def test_what_reached_nobody_ends_no_silence() -> None:
    """A broker behind a partition goes on beating, and none of it is acknowledged: the limit counts from what was."""
    talk = broker()
    at_seq = talk.client_seq
    for second in range(30, 170, 30):
        talk.at_ns = EPOCH_NS + second * SECOND_NS
        talk.ask(REGISTER)
    sent_seq, talk.client_seq = talk.client_seq, at_seq
    fin_at(talk, 173.003)
    talk.client_seq = sent_seq
    found = ends(rows_of(talk.segments))
    assert found == [*BY_TIMER, ("late_close", "namesrv", 173.003, 173)]


@pytest.mark.parametrize(
    ("fin_s", "expected"),
    [
        (150, [("idle", "namesrv", 150.0, 149), ("close", "namesrv", 150.0, 149)]),
        (
            173,
            [("idle", "timer", 149.998, 120), ("close", "timer", 149.998, 120), ("late_close", "namesrv", 173.0, 172)],
        ),
    ],
    ids=["its fin is seen", "its fin is lost"],
)
def test_who_stood_still_closes_when_it_goes_on(fin_s: int, expected: list[tuple[str, str, float, int]]) -> None:
    """Its machine acknowledges from before the limit on, and it answers at second 150: that is when it closes."""
    rows = rows_of(merged(fin_at(broker(), fin_s), acknowledging(100, 150)))
    assert [end for end in ends(rows) if end[2] > 100] == expected
