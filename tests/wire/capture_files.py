"""Packets that Scapy makes, and captures of them read."""

from __future__ import annotations

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from namesrv_wire.packets.segments import Segment
from tests.wire.counted import read_capture


def ether(**fields: object) -> Ether:
    """Return an Ethernet header with both addresses: Scapy asks the network for one that it lacks, and waits a second."""
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **fields)


V4 = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=9876, seq=7, ack=9, flags="PA") / b"hello"
V6 = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=40000, dport=9876, seq=7, ack=9, flags="PA") / b"hello"
PAYLOADS = {"v4": V4, "v6": V6}
RAW = bytes(V4)


def read(path: Path, content: bytes) -> list[Segment]:
    path.write_bytes(content)
    return list(read_capture(path))
