"""Capture files: containers, link types, IP versions, damage."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import CookedLinux, CookedLinuxV2
from scapy.utils import PcapNgWriter

from namesrv_wire.packets.segments import INCOMING, CaptureStats, Segment, described
from tests.pcap import block, enhanced, interface, option, pcap, section
from tests.wire.capture_files import RAW, V4, ether, read
from tests.wire.counted import read_capture


def test_cooked_links_say_where_a_packet_was_seen(tmp_path: Path) -> None:
    """The first cooked format tells coming from going, the second its interface; as another program writes them."""
    for link_type, link, expected in ((113, CookedLinux(), INCOMING), (276, CookedLinuxV2(ifindex=7), 7)):
        (segment,) = read(tmp_path / "a", pcap([bytes(link / V4)], link_type))
        ends = ("10.0.0.1:40000", "10.0.0.2:9876")
        assert segment == Segment(1, 1_000_001_000, *ends, 7, 9, 24, b"hello", 0, expected)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1_000), (0xA1B23C4D, 1)])
@pytest.mark.parametrize("packed", [False, True])
def test_containers(tmp_path: Path, order: str, magic: int, unit: int, packed: bool) -> None:  # noqa: FBT001
    """Both byte orders and units, packed or not; the file's name says nothing."""
    content = pcap([bytes(ether() / V4)] * 2, 1, order, magic)
    segments = read(tmp_path / "capture.txt", gzip.compress(content) if packed else content)
    assert [(s.packet_no, s.time_ns) for s in segments] == [(1, 10**9 + unit), (2, 2 * 10**9 + 2 * unit)]


def test_pcapng(tmp_path: Path) -> None:
    """Pcapng as another program writes it, twice in one file (two sections)."""
    path = tmp_path / "a.pcapng"
    with PcapNgWriter(str(path)) as writer:
        packet = ether() / V4
        packet.time = 5.25
        writer.write(packet)
    content = path.read_bytes()
    segments = read(path, content + content)
    assert [(s.packet_no, s.time_ns, s.payload) for s in segments] == [
        (1, 5_250_000_000, b"hello"), (2, 5_250_000_000, b"hello"),
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_blocks(tmp_path: Path, order: str) -> None:
    """Byte order, nanosecond resolution, obsolete packets, unknown blocks; simple packets have no time, and are left out."""
    data = RAW
    padded = data + b"\x00" * (-len(data) % 4)
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    interface = struct.pack(order + "HHI", 101, 0, 0) + struct.pack(order + "HHB3x", 9, 1, 9)
    time = 7 * 10**9 + 3
    enhanced = struct.pack(order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + padded
    obsolete = struct.pack(order + "HHIIII", 0, 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + padded
    simple = struct.pack(order + "I", len(data)) + padded
    blocks = [(0x0A0D0D0A, section), (1, interface), (6, enhanced), (0xBAD, b"????"), (2, obsolete), (3, simple)]
    content = b"".join(block(order, kind, body) for kind, body in blocks)
    (tmp_path / "a").write_bytes(content)
    stats = CaptureStats()
    segments = list(read_capture(tmp_path / "a", stats))
    assert [(s.packet_no, s.time_ns) for s in segments] == [(1, time), (2, time)]
    assert described(stats.left_out) == "1 in pcapng simple packet blocks, which have no time"
    assert (stats.packets, stats.first_time_ns, stats.last_time_ns) == (3, time, time)


def test_unknown_blocks_may_stand_anywhere(tmp_path: Path) -> None:
    """In front of an interface, or of a section in another byte order, they hide neither."""
    unknown = [block(order, 0xBAD, bytes(36)) for order in "<>"]
    little = [section(), unknown[0], interface(), unknown[0], unknown[0], interface(link_type=1), unknown[0]]
    content = [*little, enhanced(bytes(ether() / V4), number=1), unknown[0], section(">"), unknown[1], interface(">")]
    segments = read(tmp_path / "a", b"".join([*content, enhanced(RAW, ">"), unknown[1], section(), interface()]))
    assert [(segment.payload, segment.interface) for segment in segments] == [(b"hello", 2), (b"hello", 0)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_interfaces_have_their_own_link_type_and_time(tmp_path: Path, order: str) -> None:
    """Each packet is read by its interface; a section starts its interfaces anew, in its own byte order."""
    other = "<" if order == ">" else ">"
    ethernet = bytes(ether() / V4)
    nanoseconds = option(order, 9, b"\x09")
    offset = option(order, 14, struct.pack(order + "q", 1_700_000_000))
    content = [
        section(order),
        interface(order, 101),
        interface(order, 1, options=nanoseconds),
        interface(order, 101, options=option(order, 9, b"\x8a") + offset + option(order, 0, b"")),
        enhanced(RAW, order, 0, 1_700_000_000_000_001),
        enhanced(ethernet, order, 1, 1_700_000_000_000_001_001),
        enhanced(RAW, order, 2, 1_025),
        section(other),
        interface(other, 1),
        enhanced(ethernet, other, 0, 2),
    ]
    segments = read(tmp_path / "a", b"".join(content))
    assert [segment.payload for segment in segments] == [b"hello"] * 4
    assert [segment.time_ns for segment in segments] == [
        1_700_000_000_000_001_000,
        1_700_000_000_000_001_001,
        1_700_000_001_000_976_562,
        2_000,
    ]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit", "units"), [(0xA1B2C3D4, 1_000, 10**6), (0xA1B23C4D, 1, 10**9)])
def test_times_are_exact(tmp_path: Path, order: str, magic: int, unit: int, units: int) -> None:
    """No time of 32-bit seconds loses a unit, though dpkt gives microseconds as floating point."""
    times = [
        (second, fraction)
        for second in (0, 1, 1_700_000_000, 2**31 - 1, 2**31, 2**32 - 1)
        for fraction in (0, 1, 2, units // 3, units // 2, units - 2, units - 1)
    ]
    content = pcap([], 101, order, magic)
    for second, fraction in times:
        content += struct.pack(order + "IIII", second, fraction, len(RAW), len(RAW)) + RAW
    segments = read(tmp_path / "a", content)
    expected = [second * 10**9 + fraction * unit for second, fraction in times]
    assert [segment.time_ns for segment in segments] == expected


def test_pcap_with_longer_packet_headers(tmp_path: Path) -> None:
    """The form of pcap that old Linux systems wrote, with eight more bytes in front of each packet."""
    content = pcap([], 101, magic=0xA1B2CD34)
    content += (struct.pack("<IIII", 5, 7, len(RAW), len(RAW)) + bytes(8) + RAW) * 2
    segments = read(tmp_path / "a", content)
    assert [(s.time_ns, s.payload) for s in segments] == [(5_000_007_000, b"hello")] * 2


def test_options_nobody_needs_are_not_decoded(tmp_path: Path) -> None:
    """Texts that are not UTF-8, addresses, repeated and private options refuse no file."""
    text = option("<", 1, b"\xff\xfe") + option("<", 0x8001, b"a") * 2 + option("<", 12, b"x") * 2
    content = [
        section(),
        interface(options=text + option("<", 5, bytes(17))),
        block("<", 4, struct.pack("<HH", 1, 6) + b"\x7f\x00\x00\x01\xff\x00\x00\x00"),
        enhanced(RAW, options=text),
        block("<", 5, bytes(12)),
    ]
    assert [segment.payload for segment in read(tmp_path / "a", b"".join(content))] == [b"hello"]


def test_ethernet_padding_is_no_payload(tmp_path: Path) -> None:
    """The payload ends where the IP header says, not where the frame ends."""
    data = bytes(ether() / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1, dport=2, flags="A")) + b"\x00" * 6
    (segment,) = read(tmp_path / "a", pcap([data]))
    assert (segment.payload, segment.lost) == (b"", 0)


def test_snap_length_is_noticed(tmp_path: Path) -> None:
    """Bytes that were not captured are counted as lost."""
    (segment,) = read(tmp_path / "a", pcap([bytes(ether() / V4)], snap=56))
    assert (segment.payload, segment.lost) == (b"he", 3)


def test_snap_length_is_noticed_without_an_ip_length(tmp_path: Path) -> None:
    """Where segmentation was left to the network card, only the container knows how much was cut."""
    packet = IP(src="10.0.0.1", dst="10.0.0.2", len=0) / TCP(sport=1, dport=2, flags="A") / b"hello"
    data = bytes(packet)
    for content in (
        pcap([data], 101, snap=42, stated_snap=42),
        section() + interface() + enhanced(data[:42], original=len(data)),
    ):
        (segment,) = read(tmp_path / "a", content)
        assert (segment.payload, segment.lost) == (b"he", 3)


def test_what_is_no_tcp_is_counted(tmp_path: Path) -> None:
    """Lone fragments, other protocols and stumps are passed over and named; IPv6 extension headers are read."""
    stats = CaptureStats()
    packets = [
        bytes(ether() / IP(frag=3, proto=6) / (b"x" * 40)),
        bytes(ether() / IP(flags="MF") / TCP()),
        bytes(ether() / IP() / UDP(sport=50000, dport=53) / (b"x" * 40)),
        bytes(ether() / IPv6() / IPv6ExtHdrFragment(nh=6, offset=1) / (b"x" * 40)),
        bytes(ether(type=0x806)) + b"x" * 28,
        bytes(ether() / V4)[:40],
        b"",
        bytes(ether() / IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrDestOpt() / TCP(flags="S") / b"ab"),
    ]
    path = tmp_path / "a"
    path.write_bytes(pcap(packets))
    segments = list(read_capture(path, stats))
    assert [(s.packet_no, s.payload) for s in segments] == [(8, b"ab")]
    assert {(one.what, one.port): count for one, count in stats.left_out.items()} == {
        ("IP fragments", 0): 3,
        ("UDP", 53): 1,
        ("ARP", 0): 1,
        ("damaged or cut headers", 0): 2,
    }
    assert (stats.packets, stats.segments) == (8, 1)
    assert (stats.first_time_ns, stats.last_time_ns) == (1_000_001_000, 8_000_008_000)
