"""From segments to rows where the input is damaged, refused or secret."""

from __future__ import annotations

import pytest

from namesrv_wire.servers.transcript import Transcript
from tests.wire.counted import accounted
from tests.wire.forge import (
    BROKER,
    NAMESRV,
    REGISTER,
    SECOND_NS,
    Talk,
    of_table,
    register_json,
    request,
    response,
    rows_of,
)


def test_a_broken_frame_does_not_lose_the_rest() -> None:
    """Undecodable headers and lying lengths are quarantined, and the frames behind them are read."""
    bad = b"\x00\x00\x00\x06\x00\x00\x00\x02{x"
    lie = b"\x7f\xff\xff\xff\x00\x00\x00\x02{}"
    talk = Talk().open().ask(bad + REGISTER).answer(response(3)).ask(lie + request(104, BROKER, opaque=5))
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(talk.segments, transcript)
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["ambiguous_json", "frame_too_long"]
    assert len(of_table(rows, "registrations")) == len(of_table(rows, "unregistrations")) == 1
    assert accounted(transcript.counts) == transcript.counts.frames + transcript.counts.pieces == 5


def test_a_lost_segment_is_given_up_and_the_stream_goes_on() -> None:
    """Once the name server acknowledged what the capture lost, the hole is one refused piece."""
    talk = Talk().open().ask(REGISTER[:40]).ask(REGISTER[40:90]).ask(REGISTER[90:]).wait(2 * SECOND_NS)
    talk.answer(response(3)).exchange(104, BROKER, opaque=8)
    segments = [s for n, s in enumerate(talk.segments) if n != 3]
    rows = rows_of(segments)
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["lost_segment"]
    assert len(of_table(rows, "unregistrations")) == 1


@pytest.mark.parametrize("asked_later", [0, 1, 2])
def test_a_request_whose_answer_the_capture_lost_took_effect_on_arrival(asked_later: int) -> None:
    """Whether another answer shows the hole or the client's last acknowledgement alone; written once, when that is known."""
    talk = Talk().open().ask(REGISTER).answer(response(3))
    for opaque in range(asked_later):
        talk.wait(2 * SECOND_NS).exchange(105, {"topic": "T"}, opaque=10 + opaque)
    closed = talk.wait(60 * SECOND_NS).client_fin().server_fin().segments
    rows = rows_of([segment for n, segment in enumerate(closed) if n != 3])
    (row,) = of_table(rows, "registrations")
    assert (row["response_code"], row["effect_time"]) == (None, row["event_time"])
    (close,) = of_table(rows, "channel_events")
    assert close["pending_requests"] == (asked_later == 0)
    # Of the answer that waited behind the hole nobody knows when it came.
    assert len(of_table(rows, "route_observations")) == (asked_later == 2)


@pytest.mark.parametrize(
    ("ext", "body", "refusal"),
    [
        ({"bodyCrc32": "1"}, register_json({"T": 4}), "crc32_mismatch"),
        ({"compressed": "false"}, b"x\x9c\x00", "undecodable_body"),
        ({"compressed": "true"}, register_json({"T": 4}), "undecodable_body"),
        ({"bodyCrc32": "0"}, register_json({"T": 4}), None),
        ({"bodyCrc32": "junk"}, register_json({"T": 4}), None),
    ],
)
def test_refused_registrations_stay_events(ext: dict[str, str], body: bytes, refusal: str | None) -> None:
    """What the request layer refuses is kept with its reason and without content."""
    talk = Talk().open().ask(request(103, BROKER | ext, body)).answer(response(1, 1 if refusal else 0))
    (row,) = of_table(rows_of(talk.segments), "registrations")
    assert row["refusal"] == refusal
    assert (row["topic_config_digest"] is None) == (refusal is not None)


def test_a_body_beyond_our_limits_is_quarantined() -> None:
    """A limit of ours says nothing about the name server: the frame is no event."""
    talk = Talk().open().ask(request(103, BROKER, b"[" * 1000)).exchange(105, {"topic": "T"}, opaque=2)
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(talk.segments, transcript)
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["json_too_deep"]
    assert not of_table(rows, "registrations")
    assert accounted(transcript.counts) == transcript.counts.frames


def test_secrets_reach_neither_rows_nor_the_carry() -> None:
    """A planted credential is in no row, no refused piece and no state, whole or cut off."""
    secret = "pl4nted-s3cret"
    ask = request(103, BROKER | {"AccessKey": secret, "Signature": secret}, register_json({"T": 4}))
    broken = ask.replace(b'"code":103', b'"code":1x3')
    talk = Talk().open().ask(ask).answer(response(1)).ask(broken).ask(ask[: ask.index(secret.encode()) + 9])
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(talk.segments, transcript)
    everything = repr(rows) + repr(transcript.carry())
    assert len(of_table(rows, "quarantine")) == 1
    for form in (secret, secret[:9], secret.encode().hex(), secret[:9].encode().hex()):
        assert form not in everything


def test_a_packet_without_a_time_opens_a_life_all_the_same() -> None:
    """A server whose first packets are stamped with the epoch itself is read: nothing runs out before them."""
    rows = rows_of(Talk(start_ns=0, gap_ns=0).open().ask(REGISTER).answer(response(3)).server_fin().segments)
    assert len(of_table(rows, "registrations")) == 1


LONG = "x" * 1_025


@pytest.mark.parametrize(
    "payload",
    [
        request(103, {**BROKER, "brokerName": LONG}, register_json({"T": 4}), opaque=2),
        request(103, BROKER, register_json({LONG: 4}), opaque=2),
        request(904, {**BROKER, "clusterName": LONG}, opaque=2),
        request(100, {"namespace": LONG, "key": "k", "value": "v"}, opaque=2),
        request(217, {"topic": LONG}, b'{"queueDatas":[]}', opaque=2),
        request(105, {"topic": LONG}, opaque=2),
    ],
)
def test_a_frame_with_a_name_that_is_none_for_its_length_costs_itself(payload: bytes) -> None:
    """It is in quarantine with its reason; what its connection says before and behind it is stored."""
    talk = Talk().open().ask(REGISTER).answer(response(3)).ask(payload).answer(response(2))
    rows = rows_of(talk.ask(REGISTER).answer(response(3)).segments)
    assert len(of_table(rows, "registrations")) == 2
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["name_too_long"]


def test_a_long_value_is_no_name() -> None:
    """What a KV entry holds, or a remark says, may be long."""
    talk = Talk().open().ask(REGISTER).answer(response(3)).exchange(100, {"namespace": "n", "key": "k", "value": LONG})
    rows = rows_of(talk.segments)
    assert (len(of_table(rows, "admin_events")), of_table(rows, "quarantine")) == (1, [])
