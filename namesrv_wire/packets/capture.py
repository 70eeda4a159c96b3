"""TCP segments out of a capture file: link layers, IPv4 and IPv6, TCP."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from struct import Struct
from typing import NamedTuple

from namesrv_wire.limits import MAX_IPV6_EXTENSIONS, MAX_VLAN_TAGS
from namesrv_wire.packets.container import Packet, read_packets

FIN, SYN, RST, ACK = 1, 2, 4, 16
OUTGOING, INCOMING = -1, -2
LINUX_SLL, LINUX_SLL2 = 113, 276
SLL_OUTGOING = 4
"""What the first cooked format says of a packet that this host sent."""

_NULL, _ETHERNET, _LOOP = 0, 1, 108
_RAW = frozenset({12, 14, 101})
_IPV4, _IPV6 = 228, 229
_VLAN = frozenset({0x8100, 0x88A8, 0x9100})
_BSD_IPV6 = frozenset({10, 24, 28, 30})
_EXTENSIONS = frozenset({0, 43, 60, 135, 139, 140})
_TCP_HEADER = Struct(">4xIIBB")
_MAX_PAIRS = 200_000


class Segment(NamedTuple):
    """One TCP segment. `src`, `dst` are 'ip:port' or '[v6]:port'; `lost` payload bytes were not captured.

    `interface`: where it was seen, if the capture tells; OUTGOING or INCOMING if it tells no more than that; else 0.
    """

    packet_no: int
    time_ns: int
    src: str
    dst: str
    seq: int
    ack: int
    flags: int
    payload: bytes
    lost: int = 0
    interface: int = 0


@dataclass(slots=True)
class CaptureStats:
    """What a reader met: packets, of which segments, and why the others were passed over."""

    packets: int = 0
    segments: int = 0
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    skipped: Counter[str] = field(default_factory=Counter)


def snapshot_length(path: str | PathLike[str]) -> tuple[int, int]:
    """Return how many bytes of a packet a capture has kept at most, and how long the longest was of which that is not all."""
    kept = longest = 0
    for packet in read_packets(path):
        if packet.lost:
            kept, longest = max(kept, len(packet.data)), max(longest, len(packet.data) + packet.lost)
    return kept, longest


class Endpoints:
    """The written forms of addresses and ports; kept, since captures repeat the same few."""

    def __init__(self) -> None:
        self._pairs: dict[bytes, tuple[str, str]] = {}

    def pair(self, key: bytes) -> tuple[str, str]:
        """Return source and target, of which `key` has both addresses and then both ports, as bytes."""
        found = self._pairs.get(key)
        if found is None:
            if len(self._pairs) >= _MAX_PAIRS:
                self._pairs.clear()
            size = (len(key) - 4) // 2
            found = self._pairs[key] = (
                _endpoint(key[:size], key[-4:-2]),
                _endpoint(key[size : 2 * size], key[-2:]),
            )
        return found


def _endpoint(address: bytes, port: bytes) -> str:
    number = int.from_bytes(port, "big")
    if len(address) == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{number}"
    return f"[{socket.inet_ntop(socket.AF_INET6, address)}]:{number}"


class _SkipError(Exception):
    """The packet holds no TCP segment; the message says why."""


def read_capture(path: str | PathLike[str], stats: CaptureStats | None = None) -> Iterator[Segment]:
    """Yield the TCP segments of a capture in file order; `packet_no` counts all packets of the file from 1.

    pcap (microseconds, nanoseconds, both byte orders) and pcapng, gzip'd or not; Ethernet with VLAN tags,
    Linux cooked v1 and v2, loopback, raw IP. Fragments and packets that are not TCP are counted in `stats`,
    not yielded. Raises `CaptureError` at once for a foreign file, and after the last one that can be read for one
    that ends early.
    """
    stats = CaptureStats() if stats is None else stats
    endpoints = Endpoints()
    for number, packet in enumerate(read_packets(path), 1):
        stats.packets = number
        if stats.first_time_ns is None:
            stats.first_time_ns = packet.time_ns
        stats.last_time_ns = packet.time_ns
        try:
            segment = _segment(number, packet, endpoints)
        except _SkipError as why:
            stats.skipped[str(why)] += 1
            continue
        stats.segments += 1
        yield segment


def _network_start(link_type: int, data: bytes) -> int:
    """Return where the IP header begins."""
    if link_type == _ETHERNET:
        at = 12
        for _ in range(MAX_VLAN_TAGS + 1):
            ether_type = int.from_bytes(data[at : at + 2], "big")
            if ether_type in (0x0800, 0x86DD):
                return at + 2
            if ether_type not in _VLAN:
                break
            at += 4
        raise _SkipError("not_ip")
    if link_type == LINUX_SLL:
        return _if_ip(data[14:16], 16)
    if link_type == LINUX_SLL2:
        return _if_ip(data[0:2], 20)
    if link_type in (_NULL, _LOOP):
        families = {int.from_bytes(data[0:4], "big"), int.from_bytes(data[0:4], "little")}
        if 2 in families or families & _BSD_IPV6:
            return 4
        raise _SkipError("not_ip")
    if link_type in _RAW or link_type in (_IPV4, _IPV6):
        return 0
    raise _SkipError(f"link_type_{link_type}")


def _if_ip(ether_type: bytes, start: int) -> int:
    if ether_type in (b"\x08\x00", b"\x86\xdd"):
        return start
    raise _SkipError("not_ip")


def _interface(packet: Packet) -> int:
    """Return where a packet was seen."""
    if packet.link_type == LINUX_SLL2:
        return packet.interface << 32 | int.from_bytes(packet.data[4:8], "big")
    if packet.link_type == LINUX_SLL and not packet.interface:
        return OUTGOING if int.from_bytes(packet.data[:2], "big") == SLL_OUTGOING else INCOMING
    return packet.interface


def segment_of(number: int, packet: Packet, endpoints: Endpoints) -> Segment | None:
    """Return the TCP segment in a packet, None if there is none."""
    try:
        return _segment(number, packet, endpoints)
    except _SkipError:
        return None


def _segment(number: int, packet: Packet, endpoints: Endpoints) -> Segment:
    """Return the TCP segment in a packet.

    Its end comes from the IP header, so link padding is no payload.
    """
    data, lost = packet.data, packet.lost
    at = _network_start(packet.link_type, data)
    if at >= len(data):
        raise _SkipError("malformed")
    version = data[at] >> 4
    if version == 4:
        start, end, src, dst = _ipv4(data, at)
    elif version == 6:
        start, end, src, dst = _ipv6(data, at)
    else:
        raise _SkipError("not_ip")
    if end == at:
        end = len(data) + lost  # a length of 0: segmentation was left to the network card
    if start + 20 > min(end, len(data)):
        raise _SkipError("malformed")
    seq, ack, offset, flags = _TCP_HEADER.unpack_from(data, start)
    body = start + (offset >> 4) * 4
    if body < start + 20 or body > end:
        raise _SkipError("malformed")
    payload = data[body:end]
    return Segment(
        number,
        packet.time_ns,
        *endpoints.pair(src + dst + data[start : start + 4]),
        seq,
        ack,
        flags,
        payload,
        end - body - len(payload),
        _interface(packet),
    )


def _ipv4(data: bytes, at: int) -> tuple[int, int, bytes, bytes]:
    if at + 20 > len(data):
        raise _SkipError("malformed")
    if data[at + 9] != 6:
        raise _SkipError("not_tcp")
    if (data[at + 6] & 0x3F) or data[at + 7]:
        raise _SkipError("fragments")
    header = (data[at] & 15) * 4
    if header < 20:
        raise _SkipError("malformed")
    end = at + (data[at + 2] << 8 | data[at + 3])
    return at + header, end, data[at + 12 : at + 16], data[at + 16 : at + 20]


def _ipv6(data: bytes, at: int) -> tuple[int, int, bytes, bytes]:
    if at + 40 > len(data):
        raise _SkipError("malformed")
    size = data[at + 4] << 8 | data[at + 5]
    following, start = data[at + 6], at + 40
    for _ in range(MAX_IPV6_EXTENSIONS):
        if following == 6:
            return start, at + 40 + size if size else at, data[at + 8 : at + 24], data[at + 24 : at + 40]
        if following == 44:
            raise _SkipError("fragments")
        if following not in _EXTENSIONS or start + 8 > len(data):
            raise _SkipError("not_tcp")
        following, start = data[start], start + (data[start + 1] + 1) * 8
    raise _SkipError("not_tcp")
