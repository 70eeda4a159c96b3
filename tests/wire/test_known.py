"""Frames decoded once: what a frame says never depends on what was decoded before it."""

from __future__ import annotations

import random
import re

import pytest

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.protocol.frames import Frame, decode_frame
from namesrv_wire.protocol.requests import KnownFrames
from tests.examples import more
from tests.wire.forge import binary_header, frame, request, response
from tests.wire.mutate import ODD_VALUES, mutated_frame
from tests.wire.seeds import forged_frames, real_frames

_DIGITS = re.compile(rb"\d+")


def directly(data: bytes) -> Frame | Reason:
    """Return what the decoder makes of a frame."""
    try:
        return decode_frame(data)
    except DecodeError as error:
        return error.reason


def through(frames: KnownFrames, data: bytes) -> Frame | Reason:
    """Return what is made of it with what is known of earlier ones."""
    try:
        known, opaque = frames.decode(data)
    except DecodeError as error:
        return error.reason
    return known.frame._replace(opaque=opaque)


def test_a_repeated_frame_is_decoded_once() -> None:
    """Equal frames are one object, whatever their opaque, in both serializations."""
    frames, made = KnownFrames(), set[int]()
    for number in (10, 99, 55):
        for data in (
            request(105, {"topic": "T"}, b"x", opaque=number),
            response(number, body=b"{}"),
            frame(binary_header(105, [(b"topic", b"T")], opaque=number), b"x", 1),
        ):
            assert through(frames, data) == decode_frame(data)
            made.add(id(frames.decode(data)[0]))
    assert len(made) == 3


POISON = [
    (b'{"code":105,"opaque":11,"opaque":11}', b'{"code":105,"opaque":12,"opaque":11}'),
    (b'{"code":105,"extFields":{"opaque":11},"opaque":11}', b'{"code":105,"extFields":{"opaque":12},"opaque":11}'),
    (
        b'{"code":105,"customHeader":{"opaque":11},"opaque":11}',
        b'{"code":105,"customHeader":{"opaque":12},"opaque":11}',
    ),
    (
        b'{"extFields":{"signature":{"opaque":11}},"opaque":11}',
        b'{"extFields":{"signature":{"opaque":12}},"opaque":11}',
    ),
    (b'{"extFields":{"a":"\\"opaque\\":11,"},"opaque":11}', b'{"extFields":{"a":"\\"opaque\\":12,"},"opaque":11}'),
    (b'{"extFields":{"\\"opaque":11},"opaque":11}', b'{"extFields":{"\\"opaque":12},"opaque":11}'),
    (b'{"x":{"opaque":11},"\\u006fpaque":11}', b'{"x":{"opaque":12},"\\u006fpaque":11}'),
    (b'{"code":105,"opaque":11}', b'{"code":105,"opaque":' + b"1" * 400 + b"}"),
    (b'{"code":105,"opaque":11}', b'{"code":105,"opaque":01}'),
    (b'{"code":105,"opaque":11}', b'{"code":105,"opaque":-0}'),
    (b'{"code":105,"opaque":1111111111}', b'{"code":105,"opaque":9999999999}'),
    (b'{"code":105,"opaque":11}', b'{"code":105,"opaque":1.}'),
    (b'{"code":105,"opaque": 1}', b'{"code":105,"opaque":11}'),
]


@pytest.mark.parametrize(("first", "second"), POISON, ids=range(len(POISON)))
@pytest.mark.parametrize("turned", [False, True])
def test_nobody_has_a_frame_taken_for_another(first: bytes, second: bytes, turned: bool) -> None:  # noqa: FBT001
    """Two opaques, one inside a value or a key, long and odd numbers: each is what it is, in any order."""
    frames = KnownFrames()
    for text in (second, first, second) if turned else (first, second, first):
        assert through(frames, frame(text)) == directly(frame(text))


def test_the_end_of_a_header_is_part_of_a_frame() -> None:
    """Digits that were taken for the end of a header, or a body's first bytes for it, would make one frame of two."""
    frames = KnownFrames()
    good, short = b'{"opaque":11}', b'{"opaque":111}'
    for text, body in ((good, b"}"), (short[:-1], b"}}"), (short, b""), (good[:-1], b"}}"), (good, b"}")):
        data = frame(text, body)
        assert through(frames, data) == directly(data)


@pytest.mark.parametrize("value", ODD_VALUES)
def test_odd_numbers_are_left_to_the_decoder(value: bytes) -> None:
    """Whatever stands where an opaque should."""
    frames = KnownFrames()
    for text in (b"5", value, b"7", value):
        data = frame(b'{"code":105,"opaque":' + text + b',"version":3}')
        assert through(frames, data) == directly(data)


@pytest.mark.parametrize("seed", range(more(4)))
def test_mutated_frames_are_what_they_are(seed: int) -> None:
    """Frames after accidents, each with its twins of other numbers, in one memory."""
    chance, frames = random.Random(seed), KnownFrames()
    seeds = [*real_frames(), *forged_frames()]
    for _ in range(300):
        data = mutated_frame(chance, chance.choice(seeds), chance.choice(seeds))
        at = data.find(b'"opaque":')
        twins = (
            [_DIGITS.sub(b"%d" % chance.randrange(10**k), data[at:], count=1) for k in range(1, 5)] if at > 0 else []
        )
        for other in (data, *(data[:at] + twin for twin in twins), data):
            assert through(frames, other) == directly(other)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that are all different are forgotten again, and none that is large is kept."""
    monkeypatch.setattr("namesrv_wire.protocol.requests.KNOWN_FRAMES_BYTES", 100_000)
    monkeypatch.setattr("namesrv_wire.protocol.requests.MAX_KNOWN_FRAME_BYTES", 10_000)
    frames, most = KnownFrames(), 0
    for number in range(200):
        data = request(105, {"topic": f"T{number}"}, b"x" * (number % 2 * 10_000), opaque=number)
        assert through(frames, data) == decode_frame(data)
        most = max(most, frames._known.kept_bytes)
    assert 90_000 < most <= 100_000


def test_a_data_version_without_a_time_has_that_of_each_arrival() -> None:
    """What a known registration says of its own is kept, and what the server's clock says is not."""
    frames = KnownFrames()
    for wrapper, times in ((b'{"dataVersion":{"counter":3}}', [7, 8]), (b'{"dataVersion":{"timestamp":9}}', [9, 9])):
        body = b'{"topicConfigSerializeWrapper":%s}' % wrapper
        known = [frames.decode(request(103, {"brokerName": "b"}, body, opaque=opaque))[0] for opaque in (1, 2)]
        assert [one.request(at)[0]["data_version"]["timestamp"] for one, at in zip(known, (7, 8), strict=True)] == times
