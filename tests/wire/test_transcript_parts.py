"""A capture in parts: what is carried from one to the next, and what is forgotten."""

from __future__ import annotations

import random

import pytest

from namesrv_wire.errors import LINGER_NS, WireError
from namesrv_wire.servers.transcript import Transcript
from tests.wire.forge import EPOCH_NS, NAMESRV, SECOND_NS, Talk, conversation, final, in_parts, rows_of


@pytest.mark.parametrize("seed", range(60))
def test_cutting_a_capture_anywhere_changes_nothing(seed: int) -> None:
    """Parts read one after the other with the carry between give the rows of the whole."""
    segments = conversation()
    whole = final(rows_of(segments, Transcript()))
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(segments)), chance.choice([1, 2, 5])))
    assert final(in_parts(segments, *cuts, namesrv=())) == whole


def test_a_foreign_carry_is_refused() -> None:
    """A state that is none of ours is an error that names it, never a guess."""
    for state in (
        "",
        "[]",
        "{}",
        "null",
        '{"schema":"namesrv-carry/2"}',
        '{"schema":"x","namesrv_id":"' + NAMESRV + '"}',
    ):
        with pytest.raises(WireError, match=NAMESRV):
            Transcript(carry={NAMESRV: state})


def test_ended_connections_are_forgotten() -> None:
    """Memory does not grow with the number of connections that ended."""
    transcript = Transcript(namesrv=[NAMESRV])
    for number in range(300):
        talk = Talk(client=f"10.1.0.1:{number}", start_ns=EPOCH_NS + number * SECOND_NS)
        rows_of(talk.open().exchange(105, {"topic": "T"}).client_fin().server_fin().segments, transcript, finish=False)
    assert len(transcript._by_ends) < 2 * (LINGER_NS // SECOND_NS + 30)


@pytest.mark.slow
def test_bounded_memory_for_a_flood_of_attempts() -> None:
    """SYNs that nobody answers, to many endpoints, keep a bounded number of candidates."""
    transcript = Transcript()
    for number in range(3_000):
        server = f"10.2.{number // 250}.{number % 250}:80"
        rows_of(Talk(server=server, client=f"10.1.0.1:{number}").refused().segments, transcript, finish=False)
    assert len(transcript._servers) <= 1_024
