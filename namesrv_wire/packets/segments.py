"""TCP segments of a capture, out of whatever they lie in: link types, tags and tunnels.

One table tells, for many packets at a time, what the headers in front of a segment are and how many bytes they take: each step
takes the packets whose next header is of one kind, and says of what kind the header behind it is. Packets may be nested in each
other as deep as `MAX_NESTED`.
"""

from __future__ import annotations

import socket
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache, partial
from operator import attrgetter, gt
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from namesrv_wire.errors import (
    FRAGMENT_NS,
    MAX_FRAGMENT_BYTES,
    MAX_FRAGMENT_PARTS,
    MAX_FRAGMENTED,
    MAX_HEADERS,
    MAX_LEFT_OUT,
    MAX_NESTED,
    CaptureError,
)
from namesrv_wire.packets.container import PADDING, Ints, Records, Truths, read_records

FIN, SYN, RST, ACK = 1, 2, 4, 16
OUTGOING, INCOMING = -1, -2
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


def address_of(host: str, port: int) -> str:
    """Return ip:port, or [v6]:port, as rows have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def packed_address(host: bytes, port: bytes) -> str:
    """Return the same of an address and a port as packets have them."""
    family = socket.AF_INET if len(host) == 4 else socket.AF_INET6
    return address_of(socket.inet_ntop(family, host), int.from_bytes(port, "big"))


@lru_cache(_MAX_PAIRS)  # captures repeat the same few
def ends_of(key: bytes) -> tuple[str, str]:
    """Return source and target, of which `key` has both addresses and then both ports, as bytes."""
    size = (len(key) - 4) // 2
    return packed_address(key[:size], key[-4:-2]), packed_address(key[size : 2 * size], key[-2:])


@dataclass(slots=True)
class _Cut:
    """What there is of a packet: bytes by offset, of so many fragments; how long it is, once the last one was there.

    Once it is whole no bytes are kept: `fragments` has its fragments by offset and hash, since some may be there twice.
    """

    since_ns: int
    count: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)
    size: int | None = None
    fragments: frozenset[tuple[int, int]] = frozenset()


class Fragments:
    """Fragments that wait for others of their packets, so many and so long; `lost`: those that waited in vain."""

    def __init__(self) -> None:
        self.lost = 0
        self.cut: OrderedDict[bytes, _Cut] = OrderedDict()
        self._bytes = 0

    def add(self, key: bytes, offset: int, data: bytes, time_ns: int, *, is_last: bool) -> bytes | None:
        """Add a fragment of the packet of `key`; return the packet if that is all of it now.

        A fragment that is there twice, of a packet that was whole, is none of the next packet with the same number.
        """
        while self.cut:  # let go of what has waited too long, or is too much
            oldest, cut = next(iter(self.cut.items()))
            is_much = len(self.cut) >= MAX_FRAGMENTED or self._bytes > MAX_FRAGMENT_BYTES
            if not is_much and time_ns - cut.since_ns <= FRAGMENT_NS:
                break
            self.lost += self._drop(oldest)
        cut = self.cut.setdefault(key, _Cut(time_ns))
        if cut.fragments:
            if (offset, hash(data)) in cut.fragments:
                return None
            self._drop(key)
            cut = self.cut[key] = _Cut(time_ns)
        cut.count += 1
        if offset not in cut.parts and offset + len(data) <= 1 << 16:
            cut.parts[offset] = data
            self._bytes += len(data)
        if is_last:
            cut.size = offset + len(data)
        if cut.size is not None:
            whole = bytearray()
            for at, part in sorted(cut.parts.items()):  # of what is there twice, the first
                if at > len(whole):
                    break
                whole += part[len(whole) - at :]
            if len(whole) >= cut.size:
                fragments = frozenset((at, hash(part)) for at, part in cut.parts.items())
                self._drop(key)
                self.cut[key] = _Cut(time_ns, fragments=fragments)
                return bytes(whole[: cut.size])
        if len(cut.parts) > MAX_FRAGMENT_PARTS:
            self.lost += self._drop(key)
        return None

    def _drop(self, key: bytes) -> int:
        cut = self.cut.pop(key)
        self._bytes -= sum(map(len, cut.parts.values()))
        return cut.count


LINUX_SLL, LINUX_SLL2 = 113, 276
DEFAULT_VXLAN_PORTS: Final = frozenset({4789, 8472})
"""Source: RFC 7348; Linux's own, which container networks use."""
_PORTS_SHOWN: Final = 3


class Kind(IntEnum):
    """What is at a place of a packet. Those below 0 end it: there is no TCP segment."""

    ETHERNET = 1
    VLAN = 2
    COOKED = 3
    COOKED2 = 4
    FAMILY = 5
    IP = 6
    IPV4 = 7
    IPV6 = 8
    MPLS = 9
    PPPOE = 10
    PPP = 11
    HDLC = 12
    EXTENSION = 13
    AUTHENTICATION = 14
    FRAGMENT6 = 15
    UDP = 16
    GRE = 17
    ERSPAN2 = 18
    ERSPAN3 = 19
    VXLAN = 20
    VXLAN_GPE = 21
    GENEVE = 22
    ETHERIP = 23
    TCP = 24
    LLC = 25
    NFLOG = 26
    PKTAP = 27
    VNTAG = 28
    ETAG = 29
    NSH = 30
    GTP = 31
    GTP_EXTENSION = 32
    TZSP = 33
    TZSP_FIELD = 34
    GUE = 35
    LINK_TYPE = -1
    ETHER_TYPE = -2
    PROTOCOL = -3
    UDP_PORT = -4
    FRAGMENT = -5
    MALFORMED = -6
    TOO_DEEP = -7
    NO_TIME = -8
    WAITS = -9
    """A fragment: its packet goes on with the last one of them."""
    UNCONFIGURED = -10
    """UDP to a port that is not configured as VXLAN's, though it looks like that, and holds TCP."""
    PPP_PROTOCOL = -11
    NEXT = -12
    """What VXLAN or NSH says that it holds, and is not read."""


# Source: the list of link types of tcpdump.org; 14 is raw IP where systems of old say so.
_LINKS: Final = {
    0: Kind.FAMILY,
    108: Kind.FAMILY,
    1: Kind.ETHERNET,
    LINUX_SLL: Kind.COOKED,
    LINUX_SLL2: Kind.COOKED2,
    **dict.fromkeys((12, 14, 101, 228, 229), Kind.IP),
    9: Kind.PPP,
    50: Kind.PPP,
    51: Kind.PPPOE,
    104: Kind.HDLC,
    219: Kind.MPLS,
    239: Kind.NFLOG,
    258: Kind.PKTAP,
}
# Source: IEEE's ether types; 0x6558 is Ethernet in GRE and Geneve, 0x88BE and 0x22EB are ERSPAN's.
_ETHER_TYPES: Final = {
    0x0800: Kind.IPV4,
    0x86DD: Kind.IPV6,
    0x6558: Kind.ETHERNET,
    0x8864: Kind.PPPOE,
    0x880B: Kind.PPP,
    **dict.fromkeys((0x8100, 0x88A8, 0x9100, 0x9200, 0x9300), Kind.VLAN),
    **dict.fromkeys((0x8847, 0x8848), Kind.MPLS),
    0x8926: Kind.VNTAG,
    0x893F: Kind.ETAG,
    0x894F: Kind.NSH,
    0x88BE: Kind.ERSPAN2,
    0x22EB: Kind.ERSPAN3,
}
# Source: IANA's protocol numbers. IPv6 has some more, as extension headers.
_PROTOCOLS: Final = {
    6: Kind.TCP,
    17: Kind.UDP,
    47: Kind.GRE,
    4: Kind.IPV4,
    41: Kind.IPV6,
    94: Kind.IPV4,
    97: Kind.ETHERIP,
    137: Kind.MPLS,
    51: Kind.AUTHENTICATION,
}
_EXTENSIONS: Final = {**dict.fromkeys((0, 43, 60, 135, 139, 140), Kind.EXTENSION), 44: Kind.FRAGMENT6}
# Of PPP, and of VXLAN and NSH (RFC 8300) with other contents.
_PPP: Final = {0x0021: Kind.IPV4, 0x0057: Kind.IPV6, 0x0281: Kind.MPLS, 0x0031: Kind.ETHERNET}
_GPE: Final = {1: Kind.IPV4, 2: Kind.IPV6, 3: Kind.ETHERNET, 4: Kind.NSH, 5: Kind.MPLS}
_PORTS: Final = {
    2152: Kind.GTP,
    4754: Kind.GRE,
    4790: Kind.VXLAN_GPE,
    6080: Kind.GUE,
    6081: Kind.GENEVE,
    6635: Kind.MPLS,
    37008: Kind.TZSP,
}
_FAMILIES: Final = (2, 10, 24, 28, 30)
"""Internet addresses, as Linux and the BSDs number them. Source: the list of link types, LINKTYPE_NULL."""
_TUNNELS: Final = {
    Kind.VXLAN: "VXLAN",
    Kind.VXLAN_GPE: "VXLAN-GPE",
    Kind.GENEVE: "Geneve",
    Kind.GRE: "GRE",
    Kind.MPLS: "MPLS",
    Kind.ERSPAN2: "ERSPAN",
    Kind.ERSPAN3: "ERSPAN",
    Kind.PPPOE: "PPPoE",
    Kind.ETHERIP: "EtherIP",
    Kind.NSH: "NSH",
    Kind.GTP: "GTP-U",
    Kind.TZSP_FIELD: "TZSP",
    Kind.GUE: "GUE",
}
# Headers with an ether type of what follows: how long they are, and where it is.
_TYPED: Final = {
    Kind.ETHERNET: (14, 12),
    Kind.VLAN: (4, 2),
    Kind.VNTAG: (6, 4),
    Kind.ETAG: (8, 6),
    Kind.COOKED: (16, 14),
    Kind.COOKED2: (20, 0),
    Kind.HDLC: (4, 2),
}
_MAY_HIDE: Final = frozenset({Kind.LINK_TYPE, Kind.TOO_DEEP, Kind.NO_TIME})
_NAMED_TYPES: Final = {0x0806: "ARP", 0x88CC: "LLDP", 0x88E5: "MACsec", 0x8863: "PPPoE discovery"}
_FIRST_TYPE: Final = 0x600
"""Below it an ether type is a length: spanning tree and the like, whose frames say no type. Source: IEEE 802.3."""
_NFULA_PAYLOAD: Final = 9
"""Source: Linux, nfnetlink_log.h."""
_NAMED_PROTOCOLS: Final = {
    1: "ICMP",
    2: "IGMP",
    50: "ESP",
    58: "ICMPv6",
    89: "OSPF",
    112: "VRRP",
    115: "L2TP",
    132: "SCTP",
}


def _table(size: int, of: dict[int, Kind], other: Kind) -> Ints:
    found = np.full(size, int(other), np.int64)
    for number, kind in of.items():
        found[number] = kind
    return found


_BY_LINK: Final = _table(1 << 16, _LINKS, Kind.LINK_TYPE)
_BY_ETHER_TYPE: Final = _table(1 << 16, _ETHER_TYPES, Kind.ETHER_TYPE)
_BY_PROTOCOL: Final = _table(256, _PROTOCOLS, Kind.PROTOCOL)
_BY_HEADER: Final = _table(256, {**_PROTOCOLS, **_EXTENSIONS}, Kind.PROTOCOL)
_BY_PPP: Final = _table(1 << 16, _PPP, Kind.PPP_PROTOCOL)
_BY_GPE: Final = _table(256, _GPE, Kind.NEXT)


class LeftOut(NamedTuple):
    """What a packet without a TCP segment is, and its port: the lower one, or 0 for none.

    `may_hide`: it may hold a segment all the same, which is not read.
    """

    what: str
    port: int = 0
    may_hide: bool = False


def described(left_out: Mapping[LeftOut, int]) -> str:
    """Return what was left out, in words: how many packets, of what, and of which ports most of them are."""
    ports: dict[str, Counter[int]] = {}
    for one, count in left_out.items():
        ports.setdefault(one.what, Counter())[one.port] += count
    parts = []
    for what, counts in sorted(ports.items(), key=lambda each: (-each[1].total(), each[0])):
        most = [f"{count:,} of port {port}" for port, count in counts.most_common(_PORTS_SHOWN + 1) if port]
        of_ports = f", of which {', '.join(most[:_PORTS_SHOWN])}" if most else ""
        parts.append(f"{counts.total():,} in {what}{of_ports}")
    return "; ".join(parts)


class Peeled:
    """Packets on the way to their TCP headers. Columns, an item a packet.

    `kind`, `at`: what is next, and where. `end`: where in the data ends what was kept of it; `stop`: where the innermost
    packet ends. `addr`: where its addresses are, each of `width` bytes. `number`: ether type, protocol or port of what ends it.
    `outer`: the tunnel around it; `suspect`: the port of a tunnel that is not configured as one.
    """

    def __init__(self, records: Records, fragments: Fragments, vxlan_ports: Collection[int]) -> None:
        size = len(records.start)
        self.data = records.data
        self._records, self._fragments = records, fragments
        self.kind = np.where(records.is_timed, _BY_LINK[records.link_type], int(Kind.NO_TIME))
        self.at = records.start.copy()
        self.end = records.start + records.kept
        self.stop = records.start + records.original
        self.addr, self.width = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.number = records.link_type.copy()
        self.outer, self.suspect, self._depth = (np.zeros(size, np.int64) for _ in range(3))
        self._headers = 0
        self._ports = _table(1 << 16, {**_PORTS, **dict.fromkeys(vxlan_ports, Kind.VXLAN)}, Kind.UDP_PORT)

    def one(self, at: Ints, size: int = 1) -> Ints:
        """Return the bytes at these places, or the numbers of so many bytes that begin there."""
        numbers: Ints = np.ndarray(len(self.data) + 1 - size, f">u{size}", self.data, strides=(1,))
        return numbers[at].astype(np.int64)

    def two(self, at: Ints) -> Ints:
        """Return the numbers of two bytes at these places."""
        return self.one(at, 2)

    def four(self, at: Ints) -> Ints:
        """Return the numbers of four bytes at these places."""
        return self.one(at, 4)

    def append(self, more: bytes) -> int:
        """Have these bytes behind the data; return where."""
        place = len(self.data)
        self.data += more + bytes(PADDING)
        return place

    def peel(self) -> Truths:
        """Take off header by header; return which packets have a TCP header then, at `at`."""
        steps: dict[int, tuple[int, Callable[[Ints], None]]] = {
            **{kind: (size, partial(self._typed, size, at)) for kind, (size, at) in _TYPED.items()},
            Kind.LLC: (0, self._llc),
            Kind.NFLOG: (4, self._nflog),
            Kind.PKTAP: (12, self._pktap),
            Kind.FAMILY: (4, self._family),
            Kind.IP: (1, self._ip),
            Kind.IPV4: (20, self._ipv4),
            Kind.IPV6: (40, self._ipv6),
            Kind.MPLS: (4, self._mpls),
            Kind.PPPOE: (8, self._pppoe),
            Kind.PPP: (1, self._ppp),
            Kind.EXTENSION: (8, partial(self._extension, 1, 8)),
            Kind.AUTHENTICATION: (8, partial(self._extension, 2, 4)),
            Kind.FRAGMENT6: (8, self._fragment6),
            Kind.UDP: (8, self._udp),
            Kind.GRE: (4, self._gre),
            Kind.ERSPAN2: (8, self._erspan2),
            Kind.ERSPAN3: (12, self._erspan3),
            Kind.VXLAN: (8, self._vxlan),
            Kind.VXLAN_GPE: (8, partial(self._next, 8)),
            Kind.NSH: (8, lambda which: self._next((self.one(self.at[which] + 1) & 63) * 4, which)),
            Kind.GTP: (8, self._gtp),
            Kind.GTP_EXTENSION: (4, self._gtp_extension),
            Kind.TZSP: (5, self._tzsp),
            Kind.TZSP_FIELD: (1, self._tzsp_field),
            Kind.GUE: (4, self._gue),
            Kind.GENEVE: (8, self._geneve),
            Kind.ETHERIP: (2, lambda which: self._go(which, 2, int(Kind.ETHERNET))),
        }
        for self._headers in range(MAX_HEADERS):
            going = np.flatnonzero((self.kind > 0) & (self.kind != Kind.TCP))
            if not len(going):
                break
            kinds = self.kind[going]
            for kind in np.unique(kinds).tolist():
                size, step = steps[kind]
                of_kind = going if len(going) and (kinds == kind).all() else going[kinds == kind]
                is_there = self.at[of_kind] + size <= self.end[of_kind]
                if not is_there.all():
                    self.kind[of_kind[~is_there]] = Kind.MALFORMED
                    of_kind = of_kind[is_there]
                if kind in _TUNNELS:
                    self.outer[of_kind] = kind
                step(of_kind)
        self.kind[(self.kind > 0) & (self.kind != Kind.TCP)] = Kind.TOO_DEEP
        found: Truths = self.kind == Kind.TCP
        return found

    def _go(self, which: Ints, size: Ints | int, kind: Ints | int) -> None:
        self.at[which] += size
        self.kind[which] = kind

    def _typed(self, size: Ints | int, place: int, which: Ints) -> None:
        """Go on behind a header of so many bytes, with the ether type that is at a place of it."""
        self.number[which] = ether_type = self.two(self.at[which] + place)
        self._go(which, size, np.where(ether_type < _FIRST_TYPE, int(Kind.LLC), _BY_ETHER_TYPE[ether_type]))

    def _llc(self, which: Ints) -> None:
        """Of frames with a length in place of a type, SNAP has the type behind it (RFC 1042); others say none."""
        at = self.at[which]
        is_snap = (self.four(at) == 0xAAAA0300) & (self.two(at + 4) == 0) & (at + 8 <= self.end[which])
        self.kind[which] = Kind.ETHER_TYPE
        self._typed(8, 6, which[is_snap])

    def _nflog(self, which: Ints) -> None:
        """Of Netfilter's log (LINKTYPE_NFLOG): IP is in the attribute NFULA_PAYLOAD.

        Length and type of an attribute are in the byte order of the host that wrote them, which the type, a small number, tells.
        """
        self._go(which, 4, int(Kind.MALFORMED))
        for _ in range(MAX_HEADERS):
            which = which[self.at[which] + 4 <= self.end[which]]
            at = self.at[which]
            is_big = self.one(at + 2) & 0x3F == 0
            size = np.where(is_big, self.two(at), self.one(at) | self.one(at + 1) << 8)
            is_payload = (np.where(is_big, self.one(at + 3), self.one(at + 2)) == _NFULA_PAYLOAD) & (size >= 4)
            found = which[is_payload]
            self.end[found] = np.minimum(self.end[found], (at + size)[is_payload])
            self._go(found, 4, int(Kind.IP))
            is_other = ~is_payload & (size >= 4)
            which = which[is_other]
            self.at[which] += (size + -size % 4)[is_other]

    def _pktap(self, which: Ints) -> None:
        """Of Apple (LINKTYPE_PKTAP): its length, 1 if a packet follows, and of which link type, in the order of its host."""
        at = self.at[which]
        is_big = self.two(at) == 0
        size, following, link = (
            np.where(is_big, self.two(at + n + 2), self.one(at + n) | self.one(at + n + 1) << 8) for n in (0, 4, 8)
        )
        self.number[which] = np.where(following == 1, link, 0)
        self._go(which, size, np.where(following == 1, _BY_LINK[link], int(Kind.ETHER_TYPE)))
        self.kind[which[size < 12]] = Kind.MALFORMED

    def _family(self, which: Ints) -> None:
        """Of the loopback link types: the family in either byte order."""
        family = self.four(self.at[which])
        swapped = family >> 24 | (family >> 8 & 0xFF00)
        is_known = np.isin(family, _FAMILIES) | (np.isin(swapped, _FAMILIES) & (family & 0xFFFF == 0))
        self.number[which] = 0
        self._go(which, 4, np.where(is_known, int(Kind.IP), int(Kind.ETHER_TYPE)))

    def _ip(self, which: Ints) -> None:
        version = self.one(self.at[which]) >> 4
        self.number[which] = 0
        kind = np.where(version == 4, int(Kind.IPV4), np.where(version == 6, int(Kind.IPV6), int(Kind.ETHER_TYPE)))
        self._go(which, 0, kind)

    def _protocol(self, which: Ints, size: Ints | int, protocol: Ints, table: Ints) -> None:
        """Go on behind an IP header, or an extension of one, with what it says that follows."""
        self.number[which] = protocol
        self._go(which, size, table[protocol])
        self.kind[which[self._depth[which] > MAX_NESTED]] = Kind.TOO_DEEP

    def _ipv4(self, which: Ints) -> None:
        at = self.at[which]
        first, total, part = self.one(at), self.two(at + 2), self.two(at + 6)
        size = (first & 15) * 4
        # A length of 0: segmentation was left to the network card.
        stop = np.where(total > 0, at + total, self.stop[which])
        is_right = (first >> 4 == 4) & (size >= 20) & (at + size <= self.end[which]) & (at + size <= stop)
        self.stop[which] = stop
        self.end[which] = np.minimum(self.end[which], stop)
        self._depth[which] += 1
        self.addr[which], self.width[which] = at + 12, 4
        self._protocol(which, size, self.one(at + 9), _BY_PROTOCOL)
        self.kind[which[~is_right]] = Kind.MALFORMED
        pieces = list[tuple[int, bytes, int, bool]]()
        for index in which[is_right & (part & 0x3FFF > 0)].tolist():
            place = int(self.addr[index]) - 12
            head = self.data[place : place + 20]
            key = head[4:6] + head[9:10] + head[12:]
            offset = int.from_bytes(head[6:8], "big")
            pieces.append((index, key, (offset & 0x1FFF) * 8, not offset & 0x2000))
        self._join(pieces)

    def _ipv6(self, which: Ints) -> None:
        at = self.at[which]
        total = self.two(at + 4)
        stop = np.where(total > 0, at + 40 + total, self.stop[which])
        is_right = self.one(at) >> 4 == 6
        self.stop[which] = stop
        self.end[which] = np.minimum(self.end[which], stop)
        self._depth[which] += 1
        self.addr[which], self.width[which] = at + 8, 16
        self._protocol(which, 40, self.one(at + 6), _BY_HEADER)
        self.kind[which[~is_right]] = Kind.MALFORMED

    def _extension(self, more: int, unit: int, which: Ints) -> None:
        """Go on behind a header that says its length in units, but for some more."""
        at = self.at[which]
        self._protocol(which, (self.one(at + 1) + more) * unit, self.one(at), _BY_HEADER)

    def _fragment6(self, which: Ints) -> None:
        at = self.at[which]
        following, part = self.one(at), self.two(at + 2)
        self._protocol(which, 8, following, _BY_HEADER)
        pieces = list[tuple[int, bytes, int, bool]]()
        for index in which[part & 0xFFF9 > 0].tolist():
            place, addr = int(self.at[index]) - 8, int(self.addr[index])
            key = self.data[place + 4 : place + 8] + self.data[place : place + 1] + self.data[addr : addr + 32]
            offset = int.from_bytes(self.data[place + 2 : place + 4], "big")
            pieces.append((index, key, offset & 0xFFF8, not offset & 1))
        self._join(pieces)

    def _join(self, pieces: Iterable[tuple[int, bytes, int, bool]]) -> None:
        """Take fragments: which packet each is, whose part, from which byte on, and whether it is the last one.

        With the last one that was missing, its packet goes on with all of them. Behind as many headers only: of packets with more
        of them fragments come later, whatever their order in the file.
        """
        joined, place = list[bytes](), len(self.data)
        for index, key, offset, is_last in pieces:
            kind, at, end, stop = (int(column[index]) for column in (self.kind, self.at, self.end, self.stop))
            if kind < 0:
                continue
            self.kind[index] = Kind.FRAGMENT
            if stop > end:  # of which not all was kept
                continue
            self.kind[index] = Kind.WAITS
            whole = self._fragments.add(
                bytes([self._headers]) + key,
                offset,
                self.data[at:end],
                int(self._records.time_ns[index]),
                is_last=is_last,
            )
            if whole is not None:
                self.kind[index], self.at[index] = kind, place
                place += len(whole)
                self.end[index] = self.stop[index] = place
                joined.append(whole)
        if joined:  # at once: each time, all data are copied
            self.append(b"".join(joined))

    def _mpls(self, which: Ints) -> None:
        """Of the lowest label: IP behind it, or Ethernet, with or without a control word (RFC 4448)."""
        at = self.at[which]
        is_lowest = self.one(at + 2) & 1 > 0
        version, known = self.one(at + 4) >> 4, _BY_ETHER_TYPE[self.two(at + 16)] > 0
        is_worded = (version == 0) & (~known | (_BY_ETHER_TYPE[self.two(at + 20)] > 0))
        ethernet = np.where(is_worded, 8, 4)
        kind = np.where(version == 4, int(Kind.IPV4), np.where(version == 6, int(Kind.IPV6), int(Kind.ETHERNET)))
        is_ip = (version == 4) | (version == 6)
        size = np.where(is_lowest & ~is_ip, ethernet, 4)
        self._go(which, size, np.where(is_lowest, kind, int(Kind.MPLS)))

    def _pppoe(self, which: Ints) -> None:
        protocol = self.two(self.at[which] + 6)
        self.number[which] = protocol
        self._go(which, 8, np.where(self.two(self.at[which]) == 0x1100, _BY_PPP[protocol], int(Kind.PPP_PROTOCOL)))

    def _ppp(self, which: Ints) -> None:
        """Addresses and control may be there, and a protocol below 256 may be one byte (RFC 1661, 6.5)."""
        at = self.at[which]
        framed = np.where(self.two(at) == 0xFF03, 2, 0)
        is_short = self.one(at + framed) & 1 > 0
        protocol = np.where(is_short, self.one(at + framed), self.two(at + framed))
        self.number[which] = protocol
        self._go(which, framed + np.where(is_short, 1, 2), _BY_PPP[protocol])

    def _udp(self, which: Ints) -> None:
        """A tunnel is known by the port that it goes to; what looks like VXLAN at another one is looked into, to be named."""
        at = self.at[which]
        source, port = self.two(at), self.two(at + 2)
        # The highest bit: a group policy, which has a number behind it.
        kind, flags = self._ports[port], self.one(at + 8) & 0x7F
        looks = (kind == Kind.UDP_PORT) & (flags == 8) & (self.one(at + 15) == 0) & (self.suspect[which] == 0)
        looks &= (at + 58 <= self.end[which]) & np.isin(
            _BY_ETHER_TYPE[self.two(at + 28)], (Kind.IPV4, Kind.IPV6, Kind.VLAN)
        )
        self.suspect[which[looks]] = port[looks]
        self.number[which] = np.minimum(source, port)
        self._go(which, 8, np.where(looks, int(Kind.VXLAN), kind))

    def _gre(self, which: Ints) -> None:
        """Source: RFC 2784, 2890, 2637; without a sequence number ERSPAN is of type I, and has no header of its own."""
        at = self.at[which]
        flags, ether_type = self.two(at), self.two(at + 2)
        has_sum, has_key, has_seq = (flags & bit > 0 for bit in (0x8000, 0x2000, 0x1000))
        version = flags & 7
        size = 4 + 4 * (has_sum.astype(np.int64) + has_key + has_seq)
        size = np.where(version == 1, 8 + 4 * (has_seq.astype(np.int64) + (flags & 0x80 > 0)), size)
        self._typed(size, 2, which)
        is_first = (ether_type == 0x88BE) & ~has_seq
        self.kind[which[is_first]] = Kind.ETHERNET
        self.outer[which[is_first]] = Kind.ERSPAN2
        self.kind[which[(version > 1) | (flags & 0x4000 > 0)]] = Kind.MALFORMED

    def _erspan2(self, which: Ints) -> None:
        is_third = self.one(self.at[which]) >> 4 == 2
        self._go(which, np.where(is_third, 0, 8), np.where(is_third, int(Kind.ERSPAN3), int(Kind.ETHERNET)))

    def _erspan3(self, which: Ints) -> None:
        at = self.at[which]
        last = self.two(at + 10)
        kind = np.where(last >> 10 & 31 == 2, int(Kind.IP), int(Kind.ETHERNET))
        self._go(which, 12 + 8 * (last & 1), kind)

    def _vxlan(self, which: Ints) -> None:
        is_right = self.one(self.at[which]) & 8 > 0
        self._go(which, 8, np.where(is_right, int(Kind.ETHERNET), int(Kind.UDP_PORT)))

    def _next(self, size: Ints | int, which: Ints) -> None:
        """Go on behind a header of so many bytes, of which the fourth says what follows."""
        self.number[which] = following = self.one(self.at[which] + 3)
        self._go(which, size, _BY_GPE[following])

    def _gtp(self, which: Ints) -> None:
        """Of a user's packets only (3GPP TS 29.281): any of three flags makes the header four bytes longer."""
        at = self.at[which]
        flags = self.one(at)
        is_extended = (flags & 4 > 0) & (self.one(at + 11) > 0)
        kind = np.where(is_extended, int(Kind.GTP_EXTENSION), int(Kind.IP))
        is_right = (flags >> 4 == 3) & (self.one(at + 1) == 255)
        self._go(which, np.where(flags & 7 > 0, 12, 8), np.where(is_right, kind, int(Kind.UDP_PORT)))

    def _gtp_extension(self, which: Ints) -> None:
        at, end = self.at[which], self.end[which]
        size = self.one(at) * 4
        is_last = self.one(np.minimum(at + size, end) - 1) == 0
        kind = np.where(is_last, int(Kind.IP), int(Kind.GTP_EXTENSION))
        self._go(which, size, np.where(size > 0, kind, int(Kind.MALFORMED)))

    def _tzsp(self, which: Ints) -> None:
        """Of sniffers that send what they see: Ethernet behind fields, the last of which is an end.

        Its port may also be a client's own, to which a server answers.
        """
        is_ethernet = self.four(self.at[which]) | 1 << 16 == 0x0101_0001
        self._go(which, 4, np.where(is_ethernet, int(Kind.TZSP_FIELD), int(Kind.UDP_PORT)))

    def _tzsp_field(self, which: Ints) -> None:
        at = self.at[which]
        field = self.one(at)
        kind = np.where(field == 1, int(Kind.ETHERNET), int(Kind.TZSP_FIELD))
        self._go(which, np.where(field > 1, 2 + self.one(at + 1), 1), kind)

    def _gue(self, which: Ints) -> None:
        """As Linux has it (draft-ietf-intarea-gue): of version 1 there is no header; what only controls holds no packet."""
        at, port = self.at[which], self.number[which]
        first = self.one(at)
        self._protocol(which, np.where(first >> 6 == 0, 4 + (first & 31) * 4, 0), self.one(at + 1), _BY_PROTOCOL)
        self.kind[which[first >> 6 == 1]] = Kind.IP
        is_other = (first >> 6 > 1) | (first >> 5 == 1)
        self.kind[which[is_other]], self.number[which[is_other]] = Kind.UDP_PORT, port[is_other]

    def _geneve(self, which: Ints) -> None:
        at = self.at[which]
        self._typed(8 + (self.one(at) & 63) * 4, 2, which)

    def left_out(self) -> dict[LeftOut, int]:
        """Return how many packets have no TCP segment, by what they are; but for fragments that wait for others."""
        which = np.flatnonzero((self.kind < 0) & (self.kind != Kind.WAITS) | (self.suspect > 0) & (self.kind > 0))
        kind, number, outer, suspect = (column[which] for column in (self.kind, self.number, self.outer, self.suspect))
        is_hidden, is_other = kind > 0, (kind < 0) & (suspect > 0)
        at = self.at[which][is_hidden]
        number[is_hidden] = np.minimum(self.two(at), self.two(at + 2))
        number[is_other] = suspect[is_other]
        kind = np.where(is_hidden, int(Kind.UNCONFIGURED), np.where(is_other, int(Kind.UDP_PORT), kind))
        codes, counts = np.unique(-kind << 48 | number << 24 | outer << 16 | suspect, return_counts=True)
        found: dict[LeftOut, int] = {}
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            one = _named(-(code >> 48), code >> 24 & 0xFFFFFF, code >> 16 & 0xFF, code & 0xFFFF)
            found[one] = found.get(one, 0) + count
        return found


def _named(kind: int, number: int, outer: int, suspect: int) -> LeftOut:
    """Return what a packet is, by what ended the way to its TCP segment."""
    if kind == Kind.UNCONFIGURED:
        return LeftOut(f"VXLAN to UDP port {suspect} (not in vxlan_ports)", number, may_hide=True)
    within = f" in {_TUNNELS[Kind(outer)]}" if outer and not suspect else ""
    if kind == Kind.UDP_PORT:
        return LeftOut(f"UDP{within}", number)
    ether_type = f"ether type {number:#06x}" if number >= _FIRST_TYPE else "IEEE 802.3 frames"
    what = {
        Kind.LINK_TYPE: f"frames of link type {number}",
        Kind.ETHER_TYPE: _NAMED_TYPES.get(number) or (ether_type if number else "no IP"),
        Kind.PROTOCOL: _NAMED_PROTOCOLS.get(number, f"IP protocol {number}"),
        Kind.PPP_PROTOCOL: f"PPP protocol {number:#06x}",
        Kind.NEXT: f"protocol {number}",
        Kind.FRAGMENT: "IP fragments",
        Kind.MALFORMED: "damaged or cut headers",
        Kind.TOO_DEEP: f"tunnels more than {MAX_NESTED} deep",
        Kind.NO_TIME: "pcapng simple packet blocks, which have no time",
    }[Kind(kind)]
    return LeftOut(what + within, 0, Kind(kind) in _MAY_HIDE)


_OTHERS: Final = f"more than {MAX_LEFT_OUT:,} other kinds and ports"
_SLL_OUTGOING: Final = 4
"""What the first cooked format says of a packet that this host sent."""
DISORDER_NS: Final = 100_000_000


@dataclass(slots=True)
class CaptureStats:
    """What a reader met: packets, of which segments, and what the others were that were left out."""

    packets: int = 0
    segments: int = 0
    read_bytes: int = 0
    """Of the file, as it lies on disk."""
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    kept_bytes: int = 0
    longest_bytes: int = 0
    """Of packets of which not all was kept: how much of one was at most, and how long the longest was, by their own headers.
    Not everybody who cuts packets says so in the file's."""

    def add(self, records: Records, missing: Ints, segments: int, left_out: Mapping[LeftOut, int]) -> None:
        """Add some packets, of which so many bytes are `missing`."""
        self.read_bytes, kept, is_cut = records.read_bytes, records.kept, missing > 0
        self.kept_bytes = max(self.kept_bytes, int(kept[is_cut].max(initial=0)))
        self.longest_bytes = max(self.longest_bytes, int((kept + missing)[is_cut].max(initial=0)))
        self.packets += len(records.start)
        self.segments += segments
        self.left_out.update(left_out)
        if len(self.left_out) > MAX_LEFT_OUT:  # keep the most frequent by name and port, of the rest how many there are
            known = Counter(dict(self.left_out.most_common(MAX_LEFT_OUT // 2)))
            for one, count in (self.left_out - known).items():
                known[LeftOut(_OTHERS, 0, one.may_hide)] += count
            self.left_out = known
        times = records.time_ns[records.is_timed]
        if len(times):
            self.first_time_ns = int(times[0]) if self.first_time_ns is None else self.first_time_ns
            self.last_time_ns = int(times[-1])


def read_segments(
    path: Path, stats: CaptureStats | None = None, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS
) -> Iterator[list[Segment]]:
    """Yield the TCP segments of a capture in order, many at a time; memory does not grow with the file.

    `packet_no` counts all packets of the file from 1; what lies out of order by a little is put into that of its times.

    pcap and pcapng, compressed or not; link types and tunnels are those of `links`. `stats` counts. Raises
    `CaptureError` at once for a foreign file, and after the last packet that can be read for one that ends early.
    """
    yield from _in_order(_as_they_lie(path, CaptureStats() if stats is None else stats, vxlan_ports))


def _as_they_lie(path: Path, stats: CaptureStats, vxlan_ports: Collection[int]) -> Iterator[list[Segment]]:
    fragments, waited = Fragments(), LeftOut("IP fragments", 0)
    try:
        for records in read_records(path):
            peeled = Peeled(records, fragments, vxlan_ports)
            is_tcp = peeled.peel()
            missing = np.where(is_tcp, peeled.stop - peeled.end, 0)
            segments = _segments(records, peeled, is_tcp)
            stats.add(records, missing, len(segments), peeled.left_out())
            yield segments
    finally:
        if (lost := fragments.lost + sum(cut.count for cut in fragments.cut.values())) > 0:
            stats.left_out[waited] += lost


_TIME: Final = attrgetter("time_ns")


def _in_order(some: Iterable[list[Segment]]) -> Iterator[list[Segment]]:
    """Yield segments in the order of their times.

    Several queues of a network card, or interfaces, bring them out of order by a little. Where time goes back by more, the clock
    was set (NTP steps one by 128 ms at least), and they stay where they are. From where the first one lies out of order on, the
    last ones wait for those that follow.
    """
    held, is_disordered = list[Segment](), False
    try:
        for found in some:
            times = [*map(_TIME, found)]
            is_disordered |= any(map(gt, times, times[1:]))
            if not is_disordered:
                yield found
                continue
            segments = _in_time([*held, *found])
            count = len(segments)
            while count and 0 <= segments[-1].time_ns - segments[count - 1].time_ns < DISORDER_NS:
                count -= 1
            held = segments[count:]
            yield segments[:count]
    except CaptureError:
        if held:
            yield held
        raise
    if held:
        yield held


def _in_time(segments: list[Segment]) -> list[Segment]:
    """Return segments in the order of their times, between steps of the clock."""
    runs, latest_ns = [list[Segment]()], 0
    for segment in segments:
        if segment.time_ns < latest_ns - DISORDER_NS:
            runs.append([])
            latest_ns = segment.time_ns
        latest_ns = max(latest_ns, segment.time_ns)
        runs[-1].append(segment)
    return [segment for run in runs for segment in sorted(run, key=_TIME)]


def _segments(records: Records, peeled: Peeled, is_tcp: Truths) -> list[Segment]:
    """Return the segments of packets, whose end is what their IP headers say: padding of a link is no payload."""
    which = np.flatnonzero(is_tcp)
    at, end, stop = (column[which] for column in (peeled.at, peeled.end, peeled.stop))
    size = (peeled.one(at + 12) >> 4) * 4
    is_right = (at + 20 <= end) & (size >= 20) & (at + size <= stop)
    peeled.kind[which[~is_right]] = Kind.MALFORMED
    is_right &= peeled.suspect[which] == 0
    which, at, end, stop, size = (column[is_right] for column in (which, at, end, stop, size))
    last = np.minimum(end, stop)
    first = np.minimum(at + size, last)
    # Addresses and ports adjoin; where something lies between them, they are put together after the data.
    key, width = peeled.addr[which], peeled.width[which]
    split = np.flatnonzero(key + 2 * width != at)
    if len(split):
        places = zip(*(each[split].tolist() for each in (key, width, at)), strict=True)
        made = [peeled.data[a : a + 2 * size] + peeled.data[port : port + 4] for a, size, port in places]
        key[split] = peeled.append(b"".join(made)) + np.cumsum([0, *map(len, made[:-1])])
    # Where packets were seen, if the capture tells; if all that the link type tells is whether this host sent them, then that.
    interface, link, start = (column[which] for column in (records.interface, records.link_type, records.start))
    own = peeled.four(np.where(link == LINUX_SLL2, start + 4, 0))
    interface = np.where(link == LINUX_SLL2, interface << 32 | own, interface)
    way = np.where(peeled.two(start) == _SLL_OUTGOING, OUTGOING, INCOMING)
    interface = np.where((link == LINUX_SLL) & (interface == 0), way, interface)
    data = peeled.data
    pairs = [ends_of(data[low:high]) for low, high in _lists(key, key + 2 * width + 4)]
    payloads = [data[begin:until] for begin, until in _lists(first, last)]
    lost = stop - at - size - (last - first)
    found = zip(
        *(column.tolist() for column in (records.first + which, records.time_ns[which])),
        *([pair[way] for pair in pairs] for way in (0, 1)),
        *(column.tolist() for column in (peeled.four(at + 4), peeled.four(at + 8), peeled.one(at + 13))),
        payloads,
        *(column.tolist() for column in (lost, interface)),
        strict=True,
    )
    return list(map(Segment._make, found))


def _lists(*columns: Ints) -> zip[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)
