"""A capture in parts: what is carried from one to the next, and what is forgotten."""

from __future__ import annotations

import random

import pytest

from namesrv_wire import Segment, Transcript, WireError
from namesrv_wire.limits import LINGER_NS
from tests.wire.forge import (
    BROKER,
    EPOCH_NS,
    MS_NS,
    NAMESRV,
    REGISTER,
    SECOND_NS,
    Talk,
    final,
    merged,
    request,
    response,
    rows_of,
)


def conversation() -> list[Segment]:
    """Return a capture with all kinds of rows, secrets, losses, a restart and silence."""
    secret = BROKER | {"AccessKey": 'abc\u00e9"\\def', "Signature": "123"}
    one = Talk().refused().open().ask(REGISTER).answer(response(3)).ask(request(104, secret, opaque=4))
    one.answer(response(4)).ask(b"\x00\x00\x00\x06\x00\x00\x00\x02{x").ask(REGISTER[:70]).ask(REGISTER[70:])
    one.wait(SECOND_NS).client_fin().wait(SECOND_NS).server_fin()
    two = Talk(client="10.0.0.3:1", start_ns=EPOCH_NS + 3 * MS_NS).open()
    for opaque in range(14):
        two.wait(10 * SECOND_NS).exchange(105, {"topic": "T", "Signature": "zz"}, opaque=opaque)
    two.wait(SECOND_NS).server_fin()
    three = Talk(client="10.0.0.4:1", start_ns=EPOCH_NS + 4 * MS_NS).open().ask(REGISTER).answer(response(3))
    four = Talk(client="10.0.0.5:1", start_ns=two.at_ns - SECOND_NS - MS_NS).open().exchange(106).server_fin()
    five = Talk(client="10.0.0.5:2", start_ns=two.at_ns + SECOND_NS).refused().open().ask(REGISTER)
    return merged(one, two, three, four, five)


@pytest.mark.parametrize("seed", range(60))
def test_cutting_a_capture_anywhere_changes_nothing(seed: int) -> None:
    """Parts read one after the other with the carry between give the rows of the whole."""
    segments = conversation()
    whole = final(rows_of(segments, Transcript()))
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(segments)), chance.choice([1, 2, 5])))
    rows, carry = [], None
    for low, high in zip([0, *cuts], [*cuts, len(segments)], strict=True):
        transcript = Transcript(carry=carry)
        rows += rows_of(segments[low:high], transcript)
        carry = transcript.carry()
    assert final(rows) == whole


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
        rows_of(
            talk.open().exchange(105, {"topic": "T"}).client_fin().server_fin().segments,
            transcript,
            finish=False,
        )
    assert len(transcript._flows.by_ends) < 2 * (LINGER_NS // SECOND_NS + 30)


def test_bounded_memory_for_a_flood_of_attempts() -> None:
    """SYNs that nobody answers, to many endpoints, keep a bounded number of candidates."""
    transcript = Transcript()
    for number in range(3_000):
        server = f"10.2.{number // 250}.{number % 250}:80"
        rows_of(Talk(server=server, client=f"10.1.0.1:{number}").refused().segments, transcript, finish=False)
    assert len(transcript._servers) <= 1_024
