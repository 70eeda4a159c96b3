"""Connections on which something else than the remoting protocol is spoken, or something before it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.streams.cutting import Preamble, opening_of
from tests.wire.counted import accounted
from tests.wire.forge import BROKER, NAMESRV, REGISTER, SECOND_NS, Talk, in_parts, of_table, request, response, rows_of
from tests.wire.openings import HELLO, SERVER_HELLO, SIGNATURE, V1, V2, V2_6

NAMED = "192.0.2.7:4711"
KNOCKS = {
    "tls": HELLO,
    "http": b"GET /metrics HTTP/1.1\r\nHost: namesrv\r\n\r\n",
    "zeros": bytes(64),
    "half_frame": REGISTER[:30],
    "silent_connection": b"",
    "bad_proxy_preamble": b"PROXY TCP4 here there 1 2\r\n",
}


def quarantine(rows: list[AnyRow]) -> list[tuple[str, int]]:
    """Return reason and length of what was refused."""
    return [(row["reason"], row["length"]) for row in of_table(rows, "quarantine")]


@pytest.mark.parametrize("step", [1, 3, 7, 1_000])
@pytest.mark.parametrize("reason", KNOCKS)
def test_a_stranger_is_one_row(reason: str, step: int) -> None:
    """It says what the connection looks like, however its bytes come, whatever comes after, in both directions."""
    said = KNOCKS[reason]
    talk = Talk().open()
    for at in range(0, len(said), step):
        talk.ask(said[at : at + step])
    if reason not in ("half_frame", "silent_connection"):
        talk.answer(SERVER_HELLO).ask(said).ask(b"\x00\x00\x00\x00more")
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(talk.client_fin().server_fin().segments, transcript)
    ((found, length),) = quarantine(rows)
    assert found == reason
    assert length <= len(said)
    assert [row["kind"] for row in of_table(rows, "channel_events")] == ["close"]
    counts = transcript.counts
    assert (counts.frames, counts.pieces, accounted(counts)) == (0, 1, 1)


def test_a_stranger_goes_on_over_the_end_of_a_capture() -> None:
    """What was TLS in one capture is no news in the next."""
    talk = Talk().open().ask(HELLO).answer(SERVER_HELLO).ask(HELLO).client_fin().server_fin()
    for cut in range(3, len(talk.segments)):
        rows = in_parts(talk.segments, cut)
        assert quarantine(rows) == [("tls", len(HELLO))]


def test_tls_that_was_open_before_the_capture_is_named() -> None:
    """Records tell, where the handshake was not recorded."""
    other = Talk(client="10.0.0.3:40000").open().ask(REGISTER).answer(response(3))
    inside = (
        Talk(start_ns=other.at_ns).ask(b"\x17\x03\x03\x00\x05hello" * 2).answer(b"\x17\x03\x03\x10\x00" + bytes(90))
    )
    assert quarantine(rows_of(other.segments + inside.ask(HELLO).segments)) == [("tls", 20)]


def test_a_port_that_is_looked_at_is_told_when_the_connection_ends() -> None:
    """A connection that stays open without a byte may still speak; the idle limit ends it, too."""
    talk = Talk().open()
    assert quarantine(rows_of(talk.segments)) == []
    other = Talk(client="10.0.0.3:40000", start_ns=talk.at_ns + 130 * SECOND_NS).open().ask(REGISTER)
    silent = talk.segments + other.wait(700 * SECOND_NS).ask(REGISTER).segments
    assert quarantine(rows_of(silent)) == [("silent_connection", 0)]


@pytest.mark.parametrize("step", [1, 4, 13, 1_000])
@pytest.mark.parametrize(
    ("preamble", "named"),
    [
        (V1, NAMED),
        (V2, NAMED),
        (V2_6, "[fd00::7]:4711"),
        (b"PROXY TCP6 fd00:0::7 fd00::8 4711 9876\r\n", "[fd00::7]:4711"),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN a b c d\r\n", None),
        (SIGNATURE + b"\x20\x00\x00\x00", None),
        (SIGNATURE + b"\x20\x11\x00\x02xx", None),
        (SIGNATURE + b"\x21\x31" + struct.pack(">H", 216) + bytes(216), None),
    ],
    ids=[
        "v1",
        "v2",
        "v2 of IPv6",
        "v1 of IPv6",
        "v1 unknown",
        "v1 unknown with words",
        "v2 local",
        "v2 local with bytes",
        "unix",
    ],
)
def test_a_proxy_names_the_client(preamble: bytes, named: str | None, step: int) -> None:
    """Requests behind the preamble are read, and the address that it names stands beside the connection's in every row."""
    said = preamble + REGISTER
    talk = Talk().open()
    for at in range(0, len(said), step):
        talk.ask(said[at : at + step])
    talk.answer(response(3)).exchange(105, {"topic": "T"}, opaque=4).exchange(104, BROKER, opaque=5)
    rows = rows_of(talk.client_fin().server_fin().segments)
    assert quarantine(rows) == []
    found = [row.values for row in rows if row.table not in ("topic_configs", "namesrv_events")]
    assert [row.table for row in rows if row.values in found] == [
        *("registrations", "route_observations", "unregistrations", "channel_events")
    ]
    assert {row["proxied_addr"] for row in found} == {named}
    assert {row["channel_id"].split("#")[0] for row in found} == {talk.client}


def test_a_proxy_may_speak_tls_behind_its_preamble() -> None:
    """The connection is TLS, and the row of its end says for whom."""
    rows = rows_of(Talk().open().ask(V1 + HELLO).client_fin().server_fin().segments)
    assert quarantine(rows) == [("tls", len(HELLO))]
    assert [row["proxied_addr"] for row in of_table(rows, "channel_events")] == [NAMED]


def test_what_a_proxy_said_is_known_in_the_next_capture() -> None:
    """The address is carried with the connection, and so is half a preamble."""
    talk = Talk().open().ask(V2[:9]).ask(V2[9:]).ask(REGISTER).answer(response(3)).client_fin().server_fin()
    for cut in range(3, len(talk.segments)):
        rows = in_parts(talk.segments, cut)
        assert {row["proxied_addr"] for row in of_table(rows, "registrations") + of_table(rows, "channel_events")} == {
            NAMED
        }


@pytest.mark.parametrize(
    "preamble",
    [
        b"PROXY " + b"x" * 200,
        b"PROXY TCP4 192.0.2.7 192.0.2.8 4711\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.8 99999 9876\r\n",
        b"PROXY TCP4 fd00::7 192.0.2.8 4711 9876\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.8 \xb2 9876\r\n",
        b"PROXY UDP4 192.0.2.7 192.0.2.8 4711 9876\r\n",
        b"PROXY \r\n",
        SIGNATURE + b"\x31\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\x00\x0b" + bytes(11),
        SIGNATURE + b"\x21\x21\x00\x0c" + bytes(12),
    ],
)
def test_a_preamble_that_lies_is_one_row(preamble: bytes) -> None:
    """What follows would be guesswork."""
    rows = rows_of(Talk().open().ask(preamble).ask(REGISTER).client_fin().server_fin().segments)
    assert [reason for reason, _ in quarantine(rows)] == ["bad_proxy_preamble"]
    assert of_table(rows, "registrations") == []


def test_a_preamble_that_never_ends_waits_for_no_more_than_it_may_have() -> None:
    """The longest of version 2 is 65,551 bytes, whatever comes."""
    rows = rows_of(
        Talk().open().ask(SIGNATURE + b"\x21\x11\xff\xff").ask(bytes(4_000)).client_fin().server_fin().segments
    )
    assert quarantine(rows) == [("half_frame", 4_016)]


@given(st.binary(min_size=4, max_size=300), st.sampled_from([b"", b"PROXY ", SIGNATURE, SIGNATURE + b"\x21\x11"]))
def test_no_bytes_raise_anything(data: bytes, start: bytes) -> None:
    """Anything is a preamble within its bytes, a stranger, or nothing that is known."""
    found = opening_of(start + data)
    assert not isinstance(found, Preamble) or found.size <= len(start + data)


def test_words_of_a_proxy_in_the_middle_are_none() -> None:
    """Only what a connection begins with is a preamble."""
    rows = rows_of(Talk().open().ask(REGISTER).answer(response(3)).ask(V1 + request(104, BROKER, opaque=5)).segments)
    assert [reason for reason, _ in quarantine(rows)] == ["frame_too_long"]
    assert len(of_table(rows, "unregistrations")) == 1


def test_a_second_preamble_is_none() -> None:
    """A proxy says one: thousands in a row, as anybody can send them, are no frames, and the next frame is found."""
    segments = Talk().open().ask(V1 * 2_000 + request(104, BROKER, opaque=5)).segments
    (row,) = of_table(found := rows_of(segments), "quarantine")
    assert (row["reason"], row["length"]) == ("frame_too_long", 1_999 * len(V1))
    assert len(of_table(found, "unregistrations")) == 1
