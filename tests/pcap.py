"""Capture files byte by byte: classic ones (little endian, microseconds) taken apart and put together, and any kind written."""

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


def pcap(
    packets: list[bytes],
    link_type: int = 1,
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    snap: int | None = None,
    stated_snap: int = 65535,
) -> bytes:
    """Return a classic pcap file; packet n has the time n s and n units."""
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, stated_snap, link_type)
    for number, packet in enumerate(packets, 1):
        kept = packet[:snap]
        out += struct.pack(order + "IIII", number, number, len(kept), len(packet)) + kept
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + b"\x00" * (-len(value) % 4)


def interface(order: str = "<", link_type: int = 101, snap: int = 0, options: bytes = b"") -> bytes:
    return block(order, 1, struct.pack(order + "HHI", link_type, 0, snap) + options)


def enhanced(
    data: bytes,
    order: str = "<",
    number: int = 0,
    ticks: int = 0,
    captured: int | None = None,
    original: int | None = None,
    options: bytes = b"",
) -> bytes:
    lengths = (len(data) if captured is None else captured, len(data) if original is None else original)
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, *lengths)
    return block(order, 6, head + data + b"\x00" * (-len(data) % 4) + options)
