"""Capture files byte by byte, for tests of the reader."""

from __future__ import annotations

import struct
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from namesrv_wire.packets.capture import Segment
from namesrv_wire.packets.columns import read_capture


def ether(**fields: object) -> Ether:
    """Return an Ethernet header with both addresses: Scapy asks the network for one that it lacks, and waits a second."""
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **fields)


V4 = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=9876, seq=7, ack=9, flags="PA") / b"hello"
V6 = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=40000, dport=9876, seq=7, ack=9, flags="PA") / b"hello"
PAYLOADS = {"v4": V4, "v6": V6}
RAW = bytes(V4)


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


def read(path: Path, content: bytes) -> list[Segment]:
    path.write_bytes(content)
    return list(read_capture(path))


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
