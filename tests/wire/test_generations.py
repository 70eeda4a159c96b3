"""What only some releases can read of a compressed registration, and what an answer says of a refusal."""

from __future__ import annotations

import zlib

import pytest

from namesrv_wire.logs.event_log import rows_of_line
from namesrv_wire.packets.segments import CaptureStats
from namesrv_wire.protocol.frames import decode_frame
from namesrv_wire.protocol.requests import refused_as, request_columns
from namesrv_wire.servers.transcript import Transcript
from tests.places import CASES
from tests.wire.counted import read_capture
from tests.wire.forge import compressed_body, of_table, request

BROKER = {"clusterName": "C", "brokerAddr": "a:1", "brokerName": "b", "brokerId": "0", "compressed": "true"}
V4_9_7, V5_0_0, V5_1_0, V5_4_0 = 407, 413, 433, 493


def said_by(topic: bytes, version: int) -> dict[str, object]:
    """Return what a compressed registration of one topic says, of a broker of that version."""
    body = compressed_body([topic])
    if version >= V5_0_0:
        body = zlib.compress(zlib.decompress(body) + bytes(4))  # no mappings, counted
    return request_columns(decode_frame(request(103, BROKER, body, version=version)), 0)[0]


@pytest.mark.parametrize(
    ("topic", "broker", "refusing"),
    [
        (b"T 4 4 6 SINGLE_TAG", V4_9_7, {V5_0_0}),
        (b"T 4 4 6 SINGLE_TAG", V5_4_0, set()),
        (b"T 4 4 6 SINGLE_TAG {}", V5_4_0, {V4_9_7}),
        (b"T 4 4 6 SINGLE_TAG {}", V4_9_7, {V4_9_7, V5_0_0}),
    ],
)
def test_releases_that_cannot_read_it(topic: bytes, broker: int, refusing: set[int]) -> None:
    """4.x takes five words a topic; 5.0.0 alone wants mappings from brokers that have none. Where no release is known all do."""
    said = said_by(topic, broker)
    refused = {v for v in (None, V4_9_7, V5_0_0, V5_1_0, V5_4_0) if refused_as(said, {}, v) == "undecodable_body"}
    assert refused == refusing


def test_no_text_is_null_to_some_releases() -> None:
    """A registration as before 3.0.11 is taken without topics by 5.0 to 5.3, which read bytes that are no UTF-8 as null."""
    ext = BROKER | {"compressed": "false"}
    said, topics = request_columns(decode_frame(request(103, ext, b"\xff" * 9, version=0)), 0)
    assert (topics, said["data_version"], said["filter_servers"]) == (None, None, None)
    refused = {v for v in (V4_9_7, V5_0_0, V5_1_0, V5_4_0) if refused_as(said, {}, v) == "undecodable_body"}
    assert refused == {V4_9_7, V5_4_0}
    for body, version in ((b"nonsense!", 0), (b"\xff" * 9, V5_1_0)):  # neither has a null body of today's kind
        assert (
            request_columns(decode_frame(request(103, ext, body, version=version)), 0)[0]["refusal"]
            == "undecodable_body"
        )


def test_what_was_taken_was_read() -> None:
    """Against an answer that says so, no rule holds; a refusal that no rule foresees has the words of the answer."""
    said = said_by(b"T 4 4 6 SINGLE_TAG {}", V5_4_0)
    assert refused_as(said, {"response_code": 0}, V4_9_7) is None
    busy = {"response_code": 2, "response_remark": "[OVERLOAD]system busy"}
    assert refused_as(said, busy, V5_4_0) == "[OVERLOAD]system busy"
    assert refused_as(said, busy, V4_9_7) == "undecodable_body"


def test_a_5x_broker_at_a_4x_name_server() -> None:
    """Of the capture of a 4.9.7, every compressed registration of a 5.x broker is refused, whatever was learnt first."""
    transcript = Transcript()
    capture = CASES / "c1_5x_compressed_at_497.pcap.gz"
    rows = transcript.feed(list(read_capture(capture, CaptureStats())), "c1")
    registrations = of_table(rows + transcript.finish(), "registrations")
    refused = [row for row in registrations if row["compressed"]]
    assert len(refused) == 20
    assert {row["refusal"] for row in refused} == {"undecodable_body"}
    assert {row["response_code"] for row in refused} == {1}
    assert [row["refusal"] for row in registrations if not row["compressed"]] == [None] * 20


def test_a_line_says_a_refusal_with_its_answer() -> None:
    """An event log need not say it twice."""
    line = (
        b'{"schema":"namesrv-event/1","kind":"registration","namesrv_id":"n:1","time":1767312000000,"broker_name":"b","topics":[],'
        b'"response_code":2,"response_remark":"[OVERLOAD]system busy"}'
    )
    (row,) = of_table(rows_of_line(line, "log", 1), "registrations")
    assert row["refusal"] == "[OVERLOAD]system busy"
