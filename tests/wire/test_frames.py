"""Frames: headers in both serializations, limits, and finding the next frame after a broken one."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_wire.errors import MAX_EXT_FIELDS, MAX_FRAME_BYTES, MAX_HEADER_BYTES, MIB, DecodeError, Reason
from namesrv_wire.protocol.frames import decode_frame
from namesrv_wire.secrets import is_secret
from namesrv_wire.streams.cutting import Cut, FrameCutter
from tests.wire.forge import binary_header, frame, long_string, request, response, short_string


def refusal(data: bytes) -> Reason:
    with pytest.raises(DecodeError) as caught:
        decode_frame(data)
    return caught.value.reason


def test_json_header_and_body() -> None:
    """All fields of a JSON header arrive, and the body is what follows it."""
    got = decode_frame(request(103, {"brokerName": "ä"}, b"{}", opaque=-5, flag=2, version=493, remark="r"))
    assert (got.code, got.language, got.version, got.opaque, got.flag, got.remark) == (103, "JAVA", 493, -5, 2, "r")
    assert got.ext == {"brokerName": "ä"}
    assert got.body == b"{}"
    assert got.is_one_way
    assert not got.is_response


def test_binary_header_and_body() -> None:
    """A binary header decodes to the same fields; an empty string is null, as in Java."""
    data = frame(binary_header(104, [(b"brokerName", b"a"), (b"x", b"")], opaque=7, version=493), b"body", 1)
    got = decode_frame(data)
    assert (got.code, got.language, got.version, got.opaque, got.flag) == (104, "JAVA", 493, 7, 0)
    assert got.ext == {"brokerName": "a", "x": None}
    assert got.body == b"body"


@given(
    # Of keys are left out what stays secret, and fastjson's commands.
    st.dictionaries(
        st.text(max_size=8).filter(lambda key: not (is_secret(key) or key.startswith(("$", "@")))),
        st.text(max_size=8),
        max_size=5,
    ),
    st.binary(max_size=20),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
)
def test_what_is_encoded_is_decoded(ext: dict[str, str], body: bytes, opaque: int, binary: bool) -> None:  # noqa: FBT001
    """Encoding and decoding round trips in both serializations; empty binary strings become null."""
    if binary:
        pairs = [(key.encode(), value.encode()) for key, value in ext.items()]
        got = decode_frame(frame(binary_header(105, pairs, opaque=opaque), body, 1))
        assert got.ext == {key: value or None for key, value in ext.items() if key}
    else:
        got = decode_frame(request(105, ext, body, opaque=opaque))
        assert got.ext == ext
    assert (got.code, got.opaque, got.body) == (105, opaque, body)


def test_unknown_serializations_are_refused() -> None:
    """Only 0 (JSON) and 1 (binary) exist."""
    for serialization in range(2, 256):
        assert refusal(frame(b"{}", b"", serialization)) is Reason.UNKNOWN_SERIALIZATION


@pytest.mark.parametrize("length", [-1, 0, 3, 2**31 - 1, MAX_FRAME_BYTES - 3])
def test_lying_lengths_are_refused_before_anything_is_allocated(length: int) -> None:
    """One below 4, or beyond 16 MiB with its own bytes, costs a quarantine piece and no memory; what is behind it is found."""
    cutter = FrameCutter(synced=True)
    tracemalloc.start()
    cuts = cutter.feed(struct.pack(">i", length) + b"\x00" * 16 + request(105, {"topic": "T"}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cuts[0].error is not None
    assert cuts[0].error.reason in (Reason.BAD_FRAME_LENGTH, Reason.FRAME_TOO_LONG)
    assert [decode_frame(cut.data).code for cut in cuts[1:]] == [105]
    assert peak < MIB


def test_header_length_is_compared_with_the_frame() -> None:
    """A header length beyond the frame, and one beyond 1 MiB, are refused."""
    assert refusal(struct.pack(">iI", 6, 3) + b"{}") is Reason.BAD_HEADER_LENGTH
    big = b"{" + b" " * MAX_HEADER_BYTES + b"}"
    assert refusal(frame(big)) is Reason.HEADER_TOO_LONG
    assert refusal(frame(b"\x00" * 20, b"", 1)) is Reason.BAD_HEADER


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 40])
def test_string_lengths_of_a_binary_header_are_bounded(size: int) -> None:
    """Negative lengths and ones beyond the header are refused without an allocation."""
    fixed = struct.pack(">hbhii", 105, 0, 407, 1, 0)
    tracemalloc.start()
    assert refusal(frame(fixed + struct.pack(">i", size) + b"abcd", b"", 1)) is Reason.BAD_HEADER
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB


@pytest.mark.parametrize(
    ("ext", "body"),
    [
        (struct.pack(">h", -1) + b"a" + long_string(b"b"), b""),
        (short_string(b"k") + struct.pack(">i", 6) + b"abcd", b"xy"),
    ],
)
def test_ext_fields_lie_within_a_binary_header(ext: bytes, body: bytes) -> None:
    """A key length below zero is no empty key; Java reads a value that runs on from the body, and finds that too short."""
    header = struct.pack(">hbhiiii", 105, 0, 407, 1, 0, 0, len(ext)) + ext
    assert refusal(frame(header, body, 1)) is Reason.BAD_HEADER


def test_too_many_ext_fields_are_refused_in_both_serializations() -> None:
    """1,025 fields are one too many; a map of as many keys as fit is never built."""
    fields = {f"k{n}": "v" for n in range(MAX_EXT_FIELDS + 1)}
    assert refusal(request(105, fields)) is Reason.TOO_MANY_EXT_FIELDS
    pairs = [(key.encode(), b"v") for key in fields]
    assert refusal(frame(binary_header(105, pairs), b"", 1)) is Reason.TOO_MANY_EXT_FIELDS
    tiny = b"\x00\x01k\x00\x00\x00\x00" * 100_000
    assert refusal(frame(binary_header(105)[:-4] + struct.pack(">i", len(tiny)) + tiny, b"", 1)) in (
        Reason.TOO_MANY_EXT_FIELDS,
        Reason.HEADER_TOO_LONG,
    )


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"[" * 100_000, Reason.JSON_TOO_DEEP),
        (b'{"a":' * 65 + b"1" + b"}" * 65, Reason.JSON_TOO_DEEP),
        (b'{"code":NaN}', Reason.AMBIGUOUS_JSON),
        (b'{"code":Infinity}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"code":' + b"9" * 1_000_000 + b"}", Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"code":2147483648}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"code":true}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"Code":5}', Reason.AMBIGUOUS_JSON),
        (b'{"code":5}', Reason.AMBIGUOUS_JSON),
        (b'{"code":1,"code":105,"opaque":1}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"extFields":[1]}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"extFields":{"a":{}}}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"extFields":{"a":"\xff"}}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"language":"java"}', Reason.AMBIGUOUS_JSON),
        (b'{"opaque":1,"language":"+7"}', Reason.AMBIGUOUS_JSON),
        (b"}", Reason.AMBIGUOUS_JSON),
        (b"[1]", Reason.AMBIGUOUS_JSON),
        (b'{"code":', Reason.AMBIGUOUS_JSON),
        (b"{}" * 65 + b'"' + b'\\"' * 500_000, Reason.AMBIGUOUS_JSON),
        (b"{}" * 65 + b'"' + b'\\"' * 500_000 + b"\\", Reason.AMBIGUOUS_JSON),
        (b"null", Reason.BAD_HEADER),
        (b"", Reason.BAD_JSON),
        (b"no JSON at all", Reason.BAD_JSON),
    ],
)
def test_hostile_json_headers_are_refused_quickly(header: bytes, reason: Reason) -> None:
    """Depth, NaN, endless numbers, wrong types and what two releases read differently end in a reason, and soon."""
    began = time.perf_counter()
    assert refusal(frame(header)) is reason
    assert time.perf_counter() - began < 2


def test_defaults_and_casts_of_a_json_header() -> None:
    """An absent language is JAVA, an unknown one none; quoted digits and fractions are numbers, as in both releases."""
    got = decode_frame(frame(b'{"code":"105","opaque":1.5,"version":null}'))
    assert (got.code, got.opaque, got.version, got.language) == (105, 1, 0, "JAVA")
    assert decode_frame(frame(b'{"opaque":1,"language":"COBOL"}')).language is None


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    """Broken UTF-8 in a binary header decodes as in Java, and half surrogate pairs never reach a row."""
    header = b'{"opaque":1,"code":105,"extFields":{"other":"\\ud800x"}}'
    assert decode_frame(frame(header)).ext == {"other": "\ufffdx"}
    pairs = [(b"topic", b"a\xff"), (b"other", b"\xed\xa0\x80")]
    assert decode_frame(frame(binary_header(105, pairs), b"", 1)).ext == {"topic": "a\ufffd", "other": "\ufffd"}
    # A surrogate that is cut is one of them, too, at the end or in front of something else.
    pairs = [(b"topic", b"a\xed\xa0"), (b"other", b"\xed\xbfA\xed\xa0\xc3\xa9\xe0\x80\xf0\x90")]
    ext = decode_frame(frame(binary_header(105, pairs), b"", 1)).ext
    assert ext == {"topic": "a\ufffd", "other": "\ufffdA\ufffd\u00e9\ufffd\ufffd\ufffd"}


@pytest.mark.parametrize("key", ["AccessKey", "accesskey", "SIGNATURE", "SecurityToken", "OnsChannel", "secretKey"])
def test_secret_ext_fields_are_dropped(key: str) -> None:
    """Credentials never leave the decoder, whatever their case or serialization."""
    assert decode_frame(request(105, {key: "s3cret", "topic": "T"})).ext == {"topic": "T"}
    pairs = [(key.encode(), b"s3cret"), (b"topic", b"T")]
    assert decode_frame(frame(binary_header(105, pairs), b"", 1)).ext == {"topic": "T"}


def test_numbers_in_ext_fields_become_text() -> None:
    """JSON numbers and booleans in ext fields are the strings that Java's map would hold."""
    header = json.dumps({"code": 104, "opaque": 1, "extFields": {"brokerId": 0, "x": True, "y": None}}).encode()
    assert decode_frame(frame(header)).ext == {"brokerId": "0", "x": "true", "y": None}


@given(st.data())
def test_any_segmentation_gives_the_same_frames(data: st.DataObject) -> None:
    """Frames that are split or merged by TCP come out whole."""
    frames = [request(105, {"topic": "T" * n}, b"b" * n, opaque=n) for n in range(data.draw(st.integers(1, 5)))]
    stream = b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=10)))
    edges = [0, *cuts, len(stream)]
    cutter = FrameCutter(synced=True)
    got = [cut.data for low, high in pairwise(edges) for cut in cutter.feed(stream[low:high])]
    assert got == frames


@given(st.binary(max_size=60), st.booleans())
def test_a_stream_that_begins_inside_a_frame_finds_the_next_one(junk: bytes, binary: bool) -> None:  # noqa: FBT001
    """Bytes before the first plausible frame are skipped. At most what they pretend to be is lost with them."""
    wanted = frame(binary_header(105, [(b"topic", b"T")]), b"", 1) if binary else request(105, {"topic": "T"})
    cutter = FrameCutter(synced=False)
    cuts = cutter.feed(junk.replace(b"\x00", b"\x01") + wanted + response())
    assert [cut.data for cut in cuts] == [wanted, response()]


@pytest.mark.slow
def test_searching_for_a_frame_start_costs_bounded_time() -> None:
    """A megabyte made of false frame starts is passed in seconds, and memory stays bounded."""
    false_start = struct.pack(">iI", 8_000_000, 8_000) + b"{"
    cutter = FrameCutter(synced=False)
    began = time.perf_counter()
    for _ in range(64):
        cutter.feed(false_start * (16_384 // len(false_start)))
    cutter.feed(b"\x01" * 10_000)
    assert time.perf_counter() - began < 20
    assert len(cutter.buffer) < 4 * MIB


def test_a_hole_refuses_the_frame_it_hits_and_no_other() -> None:
    """The frame with missing bytes is one refused piece; the next whole one is read."""
    cutter = FrameCutter(synced=True)
    first = request(105, {"topic": "T"})
    assert cutter.feed(first + first[:20]) == [Cut(0, first)]
    (broken,) = cutter.gap(len(first) - 20)
    assert broken.error is not None
    assert broken.error.reason is Reason.LOST_SEGMENT
    assert broken.length == len(first)
    assert [cut.data for cut in cutter.feed(first)] == [first]
