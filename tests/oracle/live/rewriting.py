"""What a router does to a packet: the way it goes, its lifetime, and a subnet's addresses and ports instead of its own.

Source: RFC 791, RFC 8200, RFC 1071 (checksums), RFC 3022 (masquerading of a subnet behind one address).
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Final, NamedTuple

_ETHERNET: Final = 14
_IPV4, _IPV6, _TCP = 0x0800, 0x86DD, 6
_FIRST_PORT, _PORTS = 32_768, 28_232
End = tuple[bytes, int]
"""An address and a port."""


class Link(NamedTuple):
    """An interface of the router: its subnets, its own hardware address, and that of the one host behind it."""

    subnets: tuple[str, ...]
    own: bytes
    host: bytes

    def has(self, address: bytes) -> bool:
        """Return whether an address is behind it."""
        return any(ip_address(address) in ip_network(subnet) for subnet in self.subnets)


class Packet:
    """An Ethernet frame of IPv4 without fragments, or of IPv6 without extension headers, that may be changed."""

    def __init__(self, frame: bytes) -> None:
        self.data = bytearray(frame)
        (self._kind,) = struct.unpack_from("!H", frame, 12)
        self.is_ip = self._kind in (_IPV4, _IPV6)
        self._width = 4 if self._kind == _IPV4 else 16
        self._source = _ETHERNET + (12 if self._kind == _IPV4 else 8)
        self._tcp = _ETHERNET + (frame[_ETHERNET] % 16 * 4 if self._kind == _IPV4 else 40)
        self.is_tcp = self.is_ip and frame[_ETHERNET + (9 if self._kind == _IPV4 else 6)] == _TCP

    @property
    def source(self) -> End:
        """Where it comes from; the port is 0 if it is not TCP."""
        return self._end(0)

    @property
    def target(self) -> End:
        """Where it goes to."""
        return self._end(1)

    def send_from(self, end: End) -> None:
        """Have another source."""
        self._put(0, end)

    def send_to(self, end: End) -> None:
        """Have another target."""
        self._put(1, end)

    def passed_on(self, link: Link) -> bytes:
        """Return the frame as it leaves through a link: one hop less to live, checksums made anew."""
        self.data[:12] = link.host + link.own
        is_ipv4 = self._kind == _IPV4
        self.data[_ETHERNET + (8 if is_ipv4 else 7)] -= 1
        if is_ipv4:
            self._sum(_ETHERNET + 10, _ETHERNET, self._tcp)
        if self.is_tcp:
            (stated,) = struct.unpack_from("!H", self.data, _ETHERNET + (2 if is_ipv4 else 4))
            # Behind it an Ethernet frame may be padded.
            until = _ETHERNET + stated + (0 if is_ipv4 else 40)
            ends, size = self.source[0] + self.target[0], until - self._tcp
            self._sum(self._tcp + 16, self._tcp, until, ends + struct.pack("!HH" if is_ipv4 else "!II", _TCP, size))
        return bytes(self.data)

    def _sum(self, at: int, since: int, until: int, before: bytes = b"") -> None:
        self.data[at : at + 2] = bytes(2)
        struct.pack_into("!H", self.data, at, checksum(before + self.data[since:until]))

    def _end(self, which: int) -> End:
        at = self._source + which * self._width
        port = struct.unpack_from("!H", self.data, self._tcp + 2 * which)[0] if self.is_tcp else 0
        return bytes(self.data[at : at + self._width]), port

    def _put(self, which: int, end: End) -> None:
        at = self._source + which * self._width
        self.data[at : at + self._width] = end[0]
        struct.pack_into("!H", self.data, self._tcp + 2 * which, end[1])


class Masquerade:
    """Gives connections from a subnet one address, and ports of their own; `own`: that address."""

    def __init__(self, subnet: str, own: str) -> None:
        self._subnet, self._own = IPv4Network(subnet), ip_address(own).packed
        self._outside: dict[tuple[End, End], int] = {}
        self._inside: dict[tuple[int, End], End] = {}

    def translate(self, packet: Packet) -> None:
        """Change what comes from the subnet or goes back to it; leave all else alone."""
        source, target = packet.source, packet.target
        if not packet.is_tcp or len(source[0]) != len(self._own):
            return
        if ip_address(source[0]) in self._subnet and ip_address(target[0]) not in self._subnet:
            packet.send_from((self._own, self._port(source, target)))
        elif target[0] == self._own and (target[1], source) in self._inside:
            packet.send_to(self._inside[target[1], source])

    def _port(self, source: End, target: End) -> int:
        """Return the port that stands for a connection: its own where nobody else has it, else the first that is free."""
        port = self._outside.get((source, target), source[1])
        number = 0
        while self._inside.get((port, target), source) != source:
            port, number = _FIRST_PORT + (source[1] + number) % _PORTS, number + 1
        self._outside[source, target], self._inside[port, target] = port, source
        return port


def checksum(data: bytes) -> int:
    """Return the Internet checksum of bytes, of which an odd last one counts as the upper half of a word."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
