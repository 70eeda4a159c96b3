"""Link types, tags and tunnels: what the headers in front of a TCP segment are, and how many bytes they take.

One table, for many packets at a time: each step takes the packets whose next header is of one kind, and says of what kind the
header behind it is. Packets may be nested in each other as deep as `MAX_NESTED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from namesrv_wire.limits import MAX_HEADERS, MAX_NESTED
from namesrv_wire.packets.capture import Fragments
from namesrv_wire.packets.container import PADDING, Ints, Records, Truths

LINUX_SLL, LINUX_SLL2 = 113, 276
DEFAULT_VXLAN_PORTS: Final = frozenset({4789, 8472})
"""Source: RFC 7348; Linux's own, which container networks use."""
_PORTS_TOLD: Final = 3


class Kind(IntEnum):
    """What stands at a place of a packet. Those below 0 end it: there is no TCP segment."""

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
    NOT_TOLD = -10
    """UDP to a port that is not said to be VXLAN's, though it looks like that, and holds TCP."""
    PPP_PROTOCOL = -11
    NEXT = -12
    """What VXLAN says that it holds, where it holds something else than Ethernet."""


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
# Of PPP, and of VXLAN with other contents.
_PPP: Final = {0x0021: Kind.IPV4, 0x0057: Kind.IPV6, 0x0281: Kind.MPLS, 0x0031: Kind.ETHERNET}
_GPE: Final = {1: Kind.IPV4, 2: Kind.IPV6, 3: Kind.ETHERNET}
_PORTS: Final = {4790: Kind.VXLAN_GPE, 6081: Kind.GENEVE, 6635: Kind.MPLS, 4754: Kind.GRE}
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
}
# Headers that say by an ether type what follows: how long they are, and where it stands.
_TYPED: Final = {
    Kind.ETHERNET: (14, 12),
    Kind.VLAN: (4, 2),
    Kind.COOKED: (16, 14),
    Kind.COOKED2: (20, 0),
    Kind.HDLC: (4, 2),
}
_MAY_HIDE: Final = frozenset({Kind.LINK_TYPE, Kind.TOO_DEEP, Kind.NO_TIME})
_NAMED_TYPES: Final = {0x0806: "ARP", 0x88CC: "LLDP", 0x88E5: "MACsec", 0x8863: "PPPoE discovery", 0x894F: "NSH"}
_FIRST_TYPE: Final = 0x600
"""Below it an ether type is a length: spanning tree and the like, whose frames say no type. Source: IEEE 802.3."""
_NSH: Final = 4
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


def told(left_out: Mapping[LeftOut, int]) -> str:
    """Return what was left out, in words: how many packets, of what, and of which ports most of them are."""
    ports: dict[str, Counter[int]] = {}
    for one, count in left_out.items():
        ports.setdefault(one.what, Counter())[one.port] += count
    parts = []
    for what, counts in sorted(ports.items(), key=lambda each: (-each[1].total(), each[0])):
        most = [f"{count:,} of port {port}" for port, count in counts.most_common(_PORTS_TOLD + 1) if port]
        of_ports = f", of which {', '.join(most[:_PORTS_TOLD])}" if most else ""
        parts.append(f"{counts.total():,} in {what}{of_ports}")
    return "; ".join(parts)


class Peeled:
    """Packets on the way to their TCP headers. Columns, an item a packet.

    `kind`, `at`: what stands next, and where. `end`: where in the data ends what was kept of it; `stop`: where the innermost
    packet ends. `addr`: where its addresses stand, each of `width` bytes. `number`: ether type, protocol or port of what ends it.
    `outer`: the tunnel around it; `suspect`: the port of a tunnel that is not said to be one.
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
            Kind.VXLAN_GPE: (8, self._vxlan_gpe),
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
        """Go on behind a header of so many bytes, with the ether type that stands at a place of it."""
        self.number[which] = ether_type = self.two(self.at[which] + place)
        self._go(which, size, _BY_ETHER_TYPE[ether_type])

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

    def _vxlan_gpe(self, which: Ints) -> None:
        following = self.one(self.at[which] + 3)
        self.number[which] = following
        self._go(which, 8, _BY_GPE[following])

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
        kind = np.where(is_hidden, int(Kind.NOT_TOLD), np.where(is_other, int(Kind.UDP_PORT), kind))
        codes, counts = np.unique(-kind << 48 | number << 24 | outer << 16 | suspect, return_counts=True)
        found: dict[LeftOut, int] = {}
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            one = _named(-(code >> 48), code >> 24 & 0xFFFFFF, code >> 16 & 0xFF, code & 0xFFFF)
            found[one] = found.get(one, 0) + count
        return found


def _named(kind: int, number: int, outer: int, suspect: int) -> LeftOut:
    """Return what a packet is, by what ended the way to its TCP segment."""
    if kind == Kind.NOT_TOLD:
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
        Kind.NEXT: "NSH" if number == _NSH else f"protocol {number}",
        Kind.FRAGMENT: "IP fragments",
        Kind.MALFORMED: "damaged or cut headers",
        Kind.TOO_DEEP: f"tunnels more than {MAX_NESTED} deep",
        Kind.NO_TIME: "pcapng simple packet blocks, which have no time",
    }[Kind(kind)]
    return LeftOut(what + within, 0, Kind(kind) in _MAY_HIDE)
