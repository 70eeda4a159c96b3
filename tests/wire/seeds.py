"""Whole frames and bodies to start mutations from: real ones of 4.9.7 and 5.4.0, and forged ones for what is rare."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from namesrv_wire.packets.segments import Segment
from namesrv_wire.protocol.frames import decode_frame
from tests.pcap import Record, capture, enhanced, interface, pcap, section
from tests.places import CAPTURE
from tests.wire.counted import read_capture
from tests.wire.forge import binary_header, compressed_body, frame, ip_packet, long_string, register_json, request

FRAMES_5 = Path(__file__).parent / "frames-5.4.0.txt.gz"
MAPPING = (
    b'{"topic":"T","bname":"b","totalQueues":8,"epoch":3,"dirty":false,"scope":"__global__","currIdMap":{2:0,4:1}}'
)
OLD_VERSION, VERSION_4, VERSION_5 = 36, 407, 493


@cache
def real_frames() -> tuple[bytes, ...]:
    """Return one whole frame of every kind that the bundled capture holds, and the kept frames of 5.4.0."""
    kinds: dict[object, bytes] = {}
    for segment in read_capture(CAPTURE):
        data = segment.payload
        if len(data) < 8 or int.from_bytes(data[:4], "big") + 4 != len(data):
            continue
        got = decode_frame(data)
        kind = (got.code, got.flag, got.serialization, tuple(got.ext), got.ext.get("compressed"), got.body[:8])
        if len(data) < len(kinds.get(kind, data + b"x")):
            kinds[kind] = data
    kept = gzip.decompress(FRAMES_5.read_bytes()).split()
    return (*kinds.values(), *(base64.b64decode(line) for line in kept))


@cache
def forged_frames() -> tuple[bytes, ...]:
    """Return frames with what the real ones lack: odd texts, many fields, both serializations."""
    ext = {"brokerName": "b\u00e4\u6f22\U0001f600", "brokerId": "0", "empty": "", "topic": "%RETRY%a b"}
    pairs = [(key.encode(), value.encode()) for key, value in ext.items()]
    many = {f"key{n}": "v" * (n % 7) for n in range(60)}
    header = {"code": 105, "opaque": 7, "flag": 0, "version": 493, "language": "GO", "extFields": {**ext, "n": None}}
    return (
        request(105, ext, opaque=-1, version=VERSION_5, remark='a "remark"\n'),
        request(322, many, b'{"counter":3,"stateVersion":1,"timestamp":1700000000000}'),
        frame(json.dumps(header, ensure_ascii=False).encode(), b"body"),
        frame(json.dumps({**header, "serializeTypeCurrentRPC": "JSON"}, indent=1).encode()),
        frame(binary_header(105, pairs, opaque=-1, version=VERSION_5), b"", 1),
        frame(binary_header(103, [(key.encode(), b"v") for key in many]), register_json({"T": 4}), 1),
    )


@cache
def register_bodies() -> tuple[tuple[int, bool, bytes], ...]:
    """Return registration bodies with their protocol version and whether they are compressed."""
    found = [
        (got.version, (got.ext.get("compressed") or "").lower() == "true", got.body)
        for got in map(decode_frame, real_frames())
        if got.code == 103 and not got.is_response and len(got.body) < 8_000
    ]
    topics = [b"T 4 4 6 SINGLE_TAG", b"a 16 16 6 MULTI_TAG", b"%RETRY%g 1 1 6 SINGLE_TAG"]
    plain = zlib.decompress(compressed_body(topics, b'["f:1","f:2"]'))
    mapped = zlib.compress(plain + struct.pack(">i", 1) + long_string(MAPPING))
    attributes = zlib.compress(
        zlib.decompress(compressed_body([b'T 4 4 6 SINGLE_TAG {"+a":"b"}'])) + struct.pack(">i", 0)
    )
    wrapper = json.loads(register_json({"T": 4, "U": 8}))["topicConfigSerializeWrapper"]
    static = register_json(
        {"T": 4}, topicQueueMappingInfoMap={"T": json.loads(MAPPING.replace(b"2:", b'"2":').replace(b"4:", b'"4":'))}
    )
    return (
        *found,
        (VERSION_4, True, compressed_body(topics, b'["f:1"]')),
        (VERSION_5, True, mapped),
        (VERSION_5, True, attributes),
        (OLD_VERSION, False, json.dumps(wrapper).encode()),
        (VERSION_5, False, static),
    )


def pcap_of(segments: Iterable[Segment]) -> Iterator[bytes]:
    """Yield a conversation as a pcap and as a pcapng file, both with raw IPv4 packets."""
    packets = [(segment.time_ns // 1_000, ip_packet(segment)) for segment in segments]
    yield capture(pcap([], link_type=101), [Record(us, data, len(data)) for us, data in packets])
    yield b"".join([section(), interface(snap=65_535), *(enhanced(data, ticks=us) for us, data in packets)])
