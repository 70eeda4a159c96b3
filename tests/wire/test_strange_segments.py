"""Segments that a receiver does not take say nothing: whoever knows both addresses can send them in somebody's name."""

from __future__ import annotations

import pytest

from namesrv_wire.errors import MAX_LOST_BEFORE_RST
from namesrv_wire.packets.segments import ACK, FIN, RST, SYN, Segment
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.streams.cutting import Stream
from tests.wire.forge import BROKER, NAMESRV, Talk, final, in_parts, merged, request, rows_of
from tests.wire.test_transcript import alive_beside

FAR = [0x10000000, 0x20000000, 0x30000000, 0x70000000, -0x10000000, -0x20000000, -0x70000000]


def broker() -> Talk:
    """Return a broker's connection: it beats every second, asks in between, and is closed by RST."""
    talk = Talk().open()
    for opaque in range(1, 12):
        talk.exchange(322, BROKER, b'{"counter":1,"timestamp":1}', opaque=opaque).wait(900_000_000)
        talk.exchange(105, {"topic": "T"}, opaque=100 + opaque)
    return talk.client_rst()


def said(segments: list[Segment], transcript: Transcript | None = None) -> list[tuple[str, dict[str, object]]]:
    """Return what rows say, but for the numbers of packets."""
    rows: list[AnyRow] = rows_of(segments, transcript)
    return [(row.table, {k: v for k, v in row.values.items() if k != "source_offset"}) for row in rows]


def without_places(rows: list[AnyRow]) -> dict[tuple[str, str], dict[str, object]]:
    """Return the rows that stand in the end, without their place among others, which cuts may change."""
    return {key: {k: v for k, v in row.items() if k != "seq"} for key, row in final(rows).items()}


def with_strange(segments: list[Segment], *strange: Segment) -> list[Segment]:
    """Return a capture that has more segments."""
    ordered = sorted([*segments, *strange], key=lambda segment: segment.time_ns)
    return [segment._replace(packet_no=number) for number, segment in enumerate(ordered, 1)]


@pytest.mark.parametrize("ahead", FAR)
@pytest.mark.parametrize("from_server", [False, True])
@pytest.mark.parametrize(
    ("flags", "payload"),
    [(RST, b""), (RST | ACK, b""), (FIN | ACK, b""), (ACK, bytes(64)), (ACK, request(104, BROKER)), (ACK, b"")],
    ids=["RST", "RST ACK", "FIN", "zeros", "a request", "ACK"],
)
def test_what_lies_outside_of_the_window_changes_nothing(
    flags: int,
    payload: bytes,
    from_server: bool,  # noqa: FBT001
    ahead: int,
) -> None:
    """In either direction, in the middle of a broker's connection, three times: every row is what it was."""
    clean = merged(broker(), alive_beside(60))
    mine = [one for one in clean if (one.src if from_server else one.dst) == NAMESRV and one.payload]
    strange = [
        one._replace(
            time_ns=one.time_ns + 1_000, seq=(one.seq + ahead) & 0xFFFFFFFF, ack=(one.ack + ahead) & 0xFFFFFFFF,
            flags=flags, payload=payload,
        )
        for one in mine[2:12:4]
    ]  # fmt: skip
    assert len(strange) == 3
    assert said(with_strange(clean, *strange)) == said(clean)


def test_an_acknowledgement_that_is_not_taken_opens_no_window() -> None:
    """First one that says that far more has come, then a RST within that."""
    clean = merged(broker(), alive_beside(60))
    one = next(segment for segment in clean if segment.dst == NAMESRV and segment.payload)
    at, far = one.time_ns + 1_000, (one.seq + 0x1000000) & 0xFFFFFFFF
    from_server = one._replace(src=one.dst, dst=one.src, payload=b"", flags=ACK)
    ack = from_server._replace(time_ns=at, seq=(one.ack + 0x20000000) & 0xFFFFFFFF, ack=far)
    rst = one._replace(time_ns=at + 1_000, seq=far - 10, payload=b"", flags=RST)
    assert said(with_strange(clean, ack, rst)) == said(clean)


@pytest.mark.parametrize("flags", [RST, RST | ACK])
def test_a_reset_at_the_next_byte_is_one(flags: int) -> None:
    """Also behind a FIN, and where the capture has lost what the other side acknowledged."""
    stream = Stream()
    stream.begin(1_000)
    assert stream.takes(1_000, 0, None, rst=True)
    assert stream.takes(1_001, 0, None, rst=True)
    assert stream.takes(1_000 + MAX_LOST_BEFORE_RST, 0, None, rst=True)
    assert not stream.takes(1_001 + MAX_LOST_BEFORE_RST, 0, None, rst=True)
    assert not stream.takes(999, 0, None, rst=True)
    assert stream.takes(900, 0, 900, rst=True)
    assert stream.takes(1_500, 0, 1_500, rst=True)
    assert not stream.takes(1_501 + MAX_LOST_BEFORE_RST, 0, 1_500, rst=True)
    stream.push(1_100, bytes(10), 0, 0)
    assert stream.takes(1_110, 0, None, rst=True)
    talk = Talk().open().exchange(322, BROKER, b'{"counter":1,"timestamp":1}')
    kinds = [values["kind"] for table, values in said(talk.add(False, flags).segments) if table == "channel_events"]
    assert kinds == ["exception", "close"]


def test_a_reset_behind_bytes_that_the_capture_lost_is_one() -> None:
    """A broker that dies: its last request is not in the capture, and was not acknowledged."""
    talk = Talk().open().exchange(322, BROKER, b'{"counter":1,"timestamp":1}').wait(1_000_000_000)
    before = len(talk.segments)
    talk.ask(request(322, BROKER, b'{"counter":2,"timestamp":1}')).client_rst()
    segments = [*talk.segments[:before], talk.segments[-1]]
    assert talk.segments[-1].flags & RST
    kinds = [values["kind"] for table, values in said(segments) if table == "channel_events"]
    assert kinds == ["exception", "close"]


def test_what_was_lost_in_the_capture_is_a_hole_as_before() -> None:
    """Once the other side has acknowledged it, whatever its size; a window without that, and before the first byte."""
    stream = Stream()
    stream.begin(0)
    assert stream.takes(4 * 1024 * 1024, 100, None)
    assert not stream.takes(4 * 1024 * 1024 + 1, 100, None)
    assert stream.takes(4 * 1024 * 1024, 100, 0)
    assert not stream.takes(4 * 1024 * 1024 + 1, 100, 0)
    assert stream.takes(40 * 1024 * 1024, 100, 39 * 1024 * 1024)
    stream.push(0, b"a", 0, 0)
    assert stream.takes(40 * 1024 * 1024, 100, None)
    assert Stream().takes(123_456_789, 100, 5)


@pytest.mark.parametrize("ahead", [0x1000000, 0x400001, 0x100000, 2_000])
@pytest.mark.parametrize("from_server", [False, True])
@pytest.mark.parametrize("pause_s", [1, 70])
def test_a_segment_ahead_of_the_first_byte_hides_nothing(ahead: int, pause_s: int, from_server: bool) -> None:  # noqa: FBT001
    """Just behind the handshake, beyond the window or within it: nobody has acknowledged it, so nobody has got it."""
    talk = Talk().open()
    for opaque in range(1, 5):
        talk.exchange(322, BROKER, b'{"counter":1,"timestamp":1}', opaque=opaque).wait(pause_s * 1_000_000_000)
    clean = merged(talk, alive_beside(6 * pause_s))
    first = next(one for one in clean if (one.src if from_server else one.dst) == NAMESRV and one.payload)
    forged = first._replace(
        time_ns=first.time_ns - 1_000, seq=(first.seq + ahead) & 0xFFFFFFFF, payload=request(104, BROKER, opaque=9)
    )
    assert said(with_strange(clean, forged), Transcript(namesrv=[NAMESRV])) == said(clean)


def test_a_new_connection_of_the_same_port_has_its_own_numbers() -> None:
    """A SYN and its answer are no segments of the connection before."""
    first = Talk().open().exchange(105, {"topic": "T"}).wait(1_000_000_000)
    again = Talk(start_ns=first.at_ns, client_seq=0x50000000, server_seq=0x60000000).open()
    again.exchange(105, {"topic": "T"}, opaque=7)
    rows = said(with_strange(first.segments, *again.segments))
    assert sum(table == "route_observations" for table, _ in rows) == 2


def syn_ack(talk: Talk, at: int, ack: int = 0x44444444, seq: int = 0x77777777) -> Segment:
    """Return a SYN/ACK towards the client of `talk`, of a connection that it did not ask for, behind segment `at`."""
    before = talk.segments[at]
    return before._replace(
        time_ns=before.time_ns + 1_000, src=NAMESRV, dst=talk.client, seq=seq, ack=ack, flags=SYN | ACK, payload=b""
    )


@pytest.mark.parametrize("answer", [None, 0, RST, ACK, FIN | ACK], ids=["none", "old", "RST", "ACK", "FIN"])
def test_a_syn_ack_that_nobody_asked_for_begins_no_connection(answer: int | None) -> None:
    """Whatever somebody adds to it, short of what only its client can say; also over the end of a file."""
    talk = broker()
    clean = merged(talk, alive_beside(60))
    strange = [syn_ack(talk, at) for at in (2, 7, 20)]
    if answer is not None:
        last = strange[-1]
        further = last._replace(
            time_ns=last.time_ns + 1_000, src=last.dst, dst=last.src, seq=0x44444445, ack=5, flags=answer
        )
        strange.append(further if answer else further._replace(seq=talk.segments[20].ack, ack=0x77777778, flags=ACK))
    captured = with_strange(clean, *strange)
    assert said(captured) == said(clean)
    for cut in range(0, len(captured), 3):
        assert without_places(in_parts(captured, cut)) == without_places(rows_of(clean))


@pytest.mark.parametrize("has_third", [True, False])
def test_a_connection_of_which_the_capture_lost_the_syn_takes_the_place_of_one_that_was_open(
    has_third: bool,  # noqa: FBT001
) -> None:
    """From its third packet on, or if that is lost too, from the first that the one before would not take; also over files."""
    first = Talk().open().exchange(322, BROKER, b'{"counter":1,"timestamp":1}').wait(1_000_000_000)
    again = Talk(start_ns=first.at_ns, client_seq=0x50000000, server_seq=0x60000000).open()
    again.add(False, ACK).exchange(105, {"topic": "T"}, opaque=7).client_rst()
    kept = again.segments[1:] if has_third else [again.segments[1], *again.segments[3:]]
    captured = with_strange(first.segments, *kept)
    told = said(captured)
    assert [values["kind"] for table, values in told if table == "channel_events"] == ["close", "exception", "close"]
    assert sum(table == "route_observations" for table, _ in told) == 1
    for cut in range(len(captured)):
        assert without_places(in_parts(captured, cut)) == without_places(rows_of(captured))
