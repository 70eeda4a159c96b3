"""Classic captures (little endian, microseconds), taken apart and put together again."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Record(NamedTuple):
    """A packet: its time, in microseconds since 1970, what is kept of it, and its length."""

    time_us: int
    frame: bytes
    length: int


def records(data: bytes) -> Iterator[Record]:
    """Yield the packets of a capture."""
    offset = 24
    while offset < len(data):
        seconds, us, kept, length = struct.unpack_from("<IIII", data, offset)
        yield Record(seconds * 1_000_000 + us, data[offset + 16 : offset + 16 + kept], length)
        offset += 16 + kept


def capture(head: bytes, packets: Iterable[Record]) -> bytes:
    """Return a capture with the head of another."""
    packed = (
        struct.pack("<IIII", *divmod(time_us, 1_000_000), len(frame), length) + frame
        for time_us, frame, length in packets
    )
    return head[:24] + b"".join(packed)


def stretch(data: bytes, since_s: float, until_s: float) -> bytes:
    """Return what a capture has from so many seconds behind its first packet until so many."""
    packets = list(records(data))
    since_us, until_us = (packets[0].time_us + round(seconds * 1_000_000) for seconds in (since_s, until_s))
    return capture(data, (packet for packet in packets if since_us <= packet.time_us < until_us))
