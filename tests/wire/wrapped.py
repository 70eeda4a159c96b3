"""Ways in which a packet gets into a capture: links, tags, tunnels, one inside the other; and ways to compress a file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import lz4.frame
from backports import zstd

MACS = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01"
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": partial(gzip.compress, compresslevel=1),
    "zstd": partial(zstd.compress, level=1),
    "xz": partial(lzma.compress, preset=0),
    "bzip2": partial(bz2.compress, compresslevel=1),
    "lz4": lz4.frame.compress,
}


class Wrapping(NamedTuple):
    """A link type, and what turns an IP packet into a frame of it."""

    link_type: int
    frame: Callable[[bytes], bytes]


def ether_type(ip: bytes) -> bytes:
    """Return the ether type of an IP packet."""
    return b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd"


def ethernet(ip: bytes) -> bytes:
    """Return an IP packet on Ethernet, with its padding."""
    return (MACS + ether_type(ip) + ip).ljust(60, b"\x00")


def tagged(frame: bytes, *tags: int) -> bytes:
    """Return an Ethernet frame with tags of these ether types."""
    return frame[:12] + b"".join(struct.pack(">HH", tag, 5) for tag in tags) + frame[12:]


def ipv4(protocol: int, payload: bytes, *, options: bytes = b"", part: int = 0x4000, ident: int = 7) -> bytes:
    """Return an IPv4 packet between two hosts of a tunnel."""
    size = 20 + len(options)
    head = struct.pack(">BBHHHBBH", 0x40 | size // 4, 0, size + len(payload), ident, part, 64, protocol, 0)
    return head + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + options + payload


def ipv6(following: int, payload: bytes) -> bytes:
    """Return an IPv6 packet between two hosts of a tunnel."""
    return struct.pack(">IHBB", 6 << 28, len(payload), following, 64) + b"\xfd" + bytes(30) + b"\x01" + payload


def udp(port: int, payload: bytes) -> bytes:
    """Return a UDP datagram."""
    return struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload


def vxlan(frame: bytes, port: int = 4789) -> bytes:
    """Return an Ethernet frame in VXLAN."""
    return ipv4(17, udp(port, b"\x08\x00\x00\x00\x00\x00\x2a\x00" + frame))


def geneve(ip: bytes, options: bytes = b"") -> bytes:
    """Return an IP packet on Ethernet in Geneve."""
    return ipv4(17, udp(6081, struct.pack(">BBHI", len(options) // 4, 0, 0x6558, 42 << 8) + options + ethernet(ip)))


def gre(protocol: int, payload: bytes, flags: int = 0, fields: bytes = b"") -> bytes:
    """Return what GRE carries."""
    return ipv4(47, struct.pack(">HH", flags, protocol) + fields + payload)


def with_options(ip: bytes) -> bytes:
    """Return an IP packet with IPv4 options, or IPv6 extension headers."""
    if ip[0] >> 4 == 4:
        size = struct.unpack_from(">H", ip, 2)[0] + 4
        return bytes([0x46]) + ip[1:2] + struct.pack(">H", size) + ip[4:20] + b"\x01\x01\x01\x00" + ip[20:]
    more = b"\x3c\x00" + bytes(6) + b"\x2b\x01" + bytes(14) + b"\x06\x00" + bytes(6)
    return (
        ip[:4] + struct.pack(">H", struct.unpack_from(">H", ip, 4)[0] + len(more)) + b"\x00" + ip[7:40] + more + ip[40:]
    )


def ppp(ip: bytes) -> bytes:
    """Return an IP packet behind a protocol of PPP."""
    return (b"\x00\x21" if ip[0] >> 4 == 4 else b"\x00\x57") + ip


def pppoe(ip: bytes) -> bytes:
    """Return an IP packet in PPPoE."""
    inner = ppp(ip)
    return MACS + b"\x88\x64" + struct.pack(">BBHH", 0x11, 0, 9, len(inner)) + inner


def labelled(what: bytes, labels: int, word: bytes = b"") -> bytes:
    """Return an Ethernet frame with labels of MPLS."""
    stack = b"".join(struct.pack(">I", (16 + n) << 12 | (n == labels - 1) << 8 | 64) for n in range(labels))
    return MACS + b"\x88\x47" + stack + word + what


def in_ip(ip: bytes) -> int:
    """Return the protocol number of an IP packet inside another."""
    return 4 if ip[0] >> 4 == 4 else 41


def cooked(ether: bytes, rest: bytes) -> bytes:
    """Return a packet as the first cooked format has it, as it comes in."""
    return struct.pack(">HHH", 0, 1, 6) + bytes(8) + ether + rest


def cooked2(ether: bytes, rest: bytes) -> bytes:
    """Return a packet as the second cooked format has it."""
    return ether + struct.pack(">HIHBB", 0, 7, 1, 0, 6) + bytes(8) + rest


def nflog(ip: bytes, order: str) -> bytes:
    """Return a packet as Netfilter logs it, between attributes, in a byte order."""
    family = 2 if ip[0] >> 4 == 4 else 10
    of = ((1, ether_type(ip) + bytes(2)), (10, b"Registry\x00"), (0x8014, bytes(8)), (9, ip), (3, bytes(4)))
    each = (struct.pack(order + "HH", 4 + len(data), kind) + data + bytes(-len(data) % 4) for kind, data in of)
    return struct.pack(">BBH", family, 0, 5) + b"".join(each)


def pktap(link_type: int, frame: bytes, order: str = "<", following: int = 1) -> bytes:
    """Return a frame of a link type behind the header of Apple's PKTAP, in a byte order."""
    head = struct.pack(order + "III24sIIII", 108, following, link_type, b"en0", 1, 2, 14, 0)
    return head.ljust(108, b"\x00") + frame


def snap(ip: bytes) -> bytes:
    """Return an IP packet behind LLC and SNAP."""
    return b"\xaa\xaa\x03\x00\x00\x00" + ether_type(ip) + ip


def nsh(following: int, what: bytes, more: int = 0) -> bytes:
    """Return what a service chain carries, behind so many bytes of metadata."""
    return struct.pack(">HBBI", 2 + more // 4, 2, following, 0x00000AFF) + bytes(more) + what


def on_ethernet(tunnel: Callable[[bytes], bytes]) -> Wrapping:
    """Return a tunnel between two hosts on Ethernet."""
    return Wrapping(1, lambda ip: ethernet(tunnel(ip)))


WRAPPINGS = {
    "ethernet": Wrapping(1, ethernet),
    "VLAN": Wrapping(1, lambda ip: tagged(ethernet(ip), 0x8100)),
    "QinQ": Wrapping(1, lambda ip: tagged(ethernet(ip), 0x88A8, 0x8100)),
    "raw": Wrapping(101, bytes),
    "loopback": Wrapping(0, lambda ip: struct.pack("<I", 2 if ip[0] >> 4 == 4 else 30) + ip),
    "loopback, big": Wrapping(108, lambda ip: struct.pack(">I", 2 if ip[0] >> 4 == 4 else 24) + ip),
    "options": Wrapping(1, lambda ip: ethernet(with_options(ip))),
    "MPLS": Wrapping(1, lambda ip: labelled(ip, 1)),
    "MPLS, two labels": Wrapping(1, lambda ip: labelled(ip, 2)),
    "MPLS, Ethernet": Wrapping(1, lambda ip: labelled(ethernet(ip), 1)),
    "MPLS, Ethernet with a control word": Wrapping(1, lambda ip: labelled(ethernet(ip), 2, bytes(4))),
    "PPPoE": Wrapping(1, pppoe),
    "PPP": Wrapping(9, lambda ip: b"\xff\x03" + ppp(ip)),
    "HDLC": Wrapping(104, lambda ip: b"\x0f\x00" + ether_type(ip) + ip),
    "SNAP": Wrapping(1, lambda ip: (MACS + struct.pack(">H", 8 + len(ip)) + snap(ip)).ljust(60, b"\x00")),
    "SNAP in VLAN": Wrapping(1, lambda ip: MACS + b"\x81\x00\x00\x05" + struct.pack(">H", 8 + len(ip)) + snap(ip)),
    "NFLOG": Wrapping(239, lambda ip: nflog(ip, "<")),
    "NFLOG, big": Wrapping(239, lambda ip: nflog(ip, ">")),
    "PKTAP": Wrapping(258, lambda ip: pktap(1, ethernet(ip))),
    "PKTAP, big, loopback": Wrapping(
        258, lambda ip: pktap(0, b"\0\0\0" + (b"\x02" if ip[0] >> 4 == 4 else b"\x1e") + ip, ">")
    ),
    "IP in IP": on_ethernet(lambda ip: ipv4(in_ip(ip), ip)),
    "IP in IPv6": on_ethernet(lambda ip: ipv6(in_ip(ip), ip)),
    "IP in IP with options": on_ethernet(lambda ip: ipv4(in_ip(ip), ip, options=b"\x01\x01\x01\x00")),
    "AH": on_ethernet(lambda ip: ipv4(51, bytes([in_ip(ip), 4, 0, 0]) + bytes(20) + ip)),
    "GRE": on_ethernet(lambda ip: gre(int.from_bytes(ether_type(ip), "big"), ip)),
    "GRE, key and more": on_ethernet(lambda ip: gre(int.from_bytes(ether_type(ip), "big"), ip, 0xB000, bytes(12))),
    "GRE, Ethernet": on_ethernet(lambda ip: gre(0x6558, tagged(ethernet(ip), 0x8100), 0x2000, bytes(4))),
    "GRE over IPv6": on_ethernet(lambda ip: ipv6(47, b"\x00\x00" + ether_type(ip) + ip)),
    "ERSPAN I": on_ethernet(lambda ip: gre(0x88BE, ethernet(ip))),
    "ERSPAN II": on_ethernet(lambda ip: gre(0x88BE, b"\x10\x05" + bytes(6) + ethernet(ip), 0x1000, bytes(4))),
    "ERSPAN III": on_ethernet(lambda ip: gre(0x22EB, b"\x20\x05" + bytes(10) + ethernet(ip), 0x1000, bytes(4))),
    "ERSPAN III, platform": on_ethernet(
        lambda ip: gre(0x22EB, b"\x20\x05" + bytes(9) + b"\x01" + bytes(8) + ethernet(ip), 0x1000, bytes(4))
    ),
    "VXLAN": on_ethernet(lambda ip: vxlan(ethernet(ip))),
    "VXLAN of Linux": on_ethernet(lambda ip: vxlan(ethernet(ip), 8472)),
    "VXLAN, VLAN inside": on_ethernet(lambda ip: vxlan(tagged(ethernet(ip), 0x8100))),
    "VXLAN-GPE": on_ethernet(lambda ip: ipv4(17, udp(4790, b"\x0c\x00\x00\x03" + bytes(4) + ethernet(ip)))),
    "Geneve": on_ethernet(lambda ip: geneve(ip, bytes(12))),
    "VN-Tag": Wrapping(1, lambda ip: MACS + b"\x89\x26" + bytes(4) + ether_type(ip) + ip),
    "E-Tag, VLAN": Wrapping(1, lambda ip: MACS + b"\x89\x3f" + bytes(6) + b"\x81\x00\x00\x05" + ether_type(ip) + ip),
    "NSH": Wrapping(1, lambda ip: MACS + b"\x89\x4f" + nsh(1 if ip[0] >> 4 == 4 else 2, ip)),
    "NSH in VXLAN-GPE": on_ethernet(
        lambda ip: ipv4(17, udp(4790, b"\x0c\x00\x00\x04" + bytes(4) + nsh(3, ethernet(ip), 16)))
    ),
    "GTP-U": on_ethernet(lambda ip: ipv4(17, udp(2152, struct.pack(">BBHI", 0x30, 255, len(ip), 9) + ip))),
    "GTP-U, extensions": on_ethernet(
        lambda ip: ipv4(17, udp(2152, b"\x36\xff" + bytes(9) + b"\x85\x01\x00\x01\xc0\x02" + bytes(7) + ip))
    ),
    "TZSP": on_ethernet(lambda ip: ipv4(17, udp(37008, b"\x01\x00\x00\x01\x01" + ethernet(ip)))),
    "TZSP, fields": on_ethernet(
        lambda ip: ipv4(17, udp(37008, b"\x01\x00\x00\x01\x00\x0a\x01\xd3\x00\x01" + ethernet(ip)))
    ),
    "GUE": on_ethernet(lambda ip: ipv4(17, udp(6080, b"\x01" + bytes([in_ip(ip)]) + bytes(6) + ip))),
    "GUE, no header": on_ethernet(lambda ip: ipv4(17, udp(6080, ip))),
    "EtherIP": on_ethernet(lambda ip: ipv4(97, b"\x30\x00" + ethernet(ip))),
    "VXLAN in GRE in VLAN": Wrapping(
        1, lambda ip: tagged(ethernet(gre(0x0800, vxlan(ethernet(ip)), 0x2000, bytes(4))), 0x8100)
    ),
    "Geneve in VXLAN in IP": on_ethernet(lambda ip: ipv4(4, vxlan(ethernet(geneve(ip))))),
}
"""Of these a capture tells nothing of interfaces."""
COOKED = {
    "cooked": Wrapping(113, lambda ip: cooked(ether_type(ip), ip)),
    "cooked, VLAN": Wrapping(113, lambda ip: cooked(b"\x81\x00", b"\x00\x05" + ether_type(ip) + ip)),
    "cooked, SNAP": Wrapping(113, lambda ip: cooked(b"\x00\x04", snap(ip))),
    "cooked v2": Wrapping(276, lambda ip: cooked2(ether_type(ip), ip)),
    "cooked v2, VLAN": Wrapping(276, lambda ip: cooked2(b"\x81\x00", b"\x00\x05" + ether_type(ip) + ip)),
    "cooked v2, VXLAN": Wrapping(276, lambda ip: cooked2(b"\x08\x00", vxlan(ethernet(ip)))),
}
