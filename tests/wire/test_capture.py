"""Capture files: containers, link types, IP versions, damage."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1Q, Ether, Loopback
from scapy.packet import Packet
from scapy.utils import PcapNgWriter, PcapWriter

from namesrv_wire import CaptureError, CaptureStats, Segment, read_capture

V4 = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=9876, seq=7, ack=9, flags="PA") / b"hello"
V6 = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=40000, dport=9876, seq=7, ack=9, flags="PA") / b"hello"
PAYLOADS = {"v4": V4, "v6": V6}
LINKS = {
    "ethernet": (1, Ether()),
    "vlan": (1, Ether() / Dot1Q(vlan=5)),
    "two vlans": (1, Ether(type=0x88A8) / Dot1Q(vlan=5) / Dot1Q(vlan=6)),
    "cooked": (113, CookedLinux()),
    "cooked v2": (276, CookedLinuxV2()),
    "loopback": (0, None),
    "raw": (101, None),
}


def packet_bytes(link: str, inner: Packet) -> tuple[int, bytes]:
    link_type, outer = LINKS[link]
    if link == "loopback":
        family = 2 if inner.version == 4 else 30
        return link_type, struct.pack("<I", family) + bytes(inner)
    if outer is None:
        return link_type, bytes(inner)
    return link_type, bytes(outer / inner)


def pcap(
    packets: list[bytes],
    link_type: int = 1,
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    snap: int | None = None,
) -> bytes:
    """Return a classic pcap file; packet n has the time n s and n units."""
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)
    for number, packet in enumerate(packets, 1):
        kept = packet[:snap]
        out += struct.pack(order + "IIII", number, number, len(kept), len(packet)) + kept
    return out


def read(path: Path, content: bytes) -> list[Segment]:
    path.write_bytes(content)
    return list(read_capture(path))


@pytest.mark.parametrize("inner", PAYLOADS, ids=str)
@pytest.mark.parametrize("link", LINKS, ids=str)
def test_link_types(tmp_path: Path, link: str, inner: str) -> None:
    """The same segment comes out of every link type and both IP versions."""
    link_type, data = packet_bytes(link, PAYLOADS[inner])
    (segment,) = read(tmp_path / "a", pcap([data], link_type))
    src, dst = ("10.0.0.1:40000", "10.0.0.2:9876") if inner == "v4" else ("[fd00::1]:40000", "[fd00::2]:9876")
    assert segment == Segment(1, 1_000_001_000, src, dst, 7, 9, 24, b"hello", 0)


def test_bsd_loopback_of_scapy(tmp_path: Path) -> None:
    """The null link type as another program writes it."""
    path = tmp_path / "a.pcap"
    with PcapWriter(str(path), linktype=0) as writer:
        writer.write(Loopback(type=2) / V4)
    assert [segment.payload for segment in read_capture(path)] == [b"hello"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1_000), (0xA1B23C4D, 1)])
@pytest.mark.parametrize("packed", [False, True])
def test_containers(tmp_path: Path, order: str, magic: int, unit: int, packed: bool) -> None:  # noqa: FBT001
    """Both byte orders and units, packed or not; the file's name says nothing."""
    content = pcap([packet_bytes("ethernet", V4)[1]] * 2, 1, order, magic)
    segments = read(tmp_path / "capture.txt", gzip.compress(content) if packed else content)
    assert [(s.packet_no, s.time_ns) for s in segments] == [(1, 10**9 + unit), (2, 2 * 10**9 + 2 * unit)]


def test_pcapng(tmp_path: Path) -> None:
    """Pcapng as another program writes it, twice in one file (two sections)."""
    path = tmp_path / "a.pcapng"
    with PcapNgWriter(str(path)) as writer:
        packet = Ether() / V4
        packet.time = 5.25
        writer.write(packet)
    content = path.read_bytes()
    segments = read(path, content + content)
    assert [(s.packet_no, s.time_ns, s.payload) for s in segments] == [
        (1, 5_250_000_000, b"hello"), (2, 5_250_000_000, b"hello"),
    ]  # fmt: skip


def block(order: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_blocks(tmp_path: Path, order: str) -> None:
    """Byte order, nanosecond resolution, simple and obsolete packets, unknown blocks."""
    data = packet_bytes("raw", V4)[1]
    padded = data + b"\x00" * (-len(data) % 4)
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    interface = struct.pack(order + "HHI", 101, 0, 0) + struct.pack(order + "HHB3x", 9, 1, 9)
    time = 7 * 10**9 + 3
    enhanced = struct.pack(order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + padded
    obsolete = (
        struct.pack(order + "HHIIII", 0, 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + padded
    )
    simple = struct.pack(order + "I", len(data)) + padded
    blocks = [
        (0x0A0D0D0A, section),
        (1, interface),
        (6, enhanced),
        (0xBAD, b"????"),
        (2, obsolete),
        (3, simple),
    ]
    content = b"".join(block(order, kind, body) for kind, body in blocks)
    segments = read(tmp_path / "a", content)
    assert [(s.packet_no, s.time_ns) for s in segments] == [(1, time), (2, time), (3, 0)]


def test_ethernet_padding_is_no_payload(tmp_path: Path) -> None:
    """The payload ends where the IP header says, not where the frame ends."""
    data = (
        bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1, dport=2, flags="A")) + b"\x00" * 6
    )
    (segment,) = read(tmp_path / "a", pcap([data]))
    assert (segment.payload, segment.lost) == (b"", 0)


def test_snap_length_is_noticed(tmp_path: Path) -> None:
    """Bytes that were not captured are counted as lost."""
    (segment,) = read(tmp_path / "a", pcap([bytes(Ether() / V4)], snap=56))
    assert (segment.payload, segment.lost) == (b"he", 3)


def test_what_is_no_tcp_is_counted(tmp_path: Path) -> None:
    """Fragments, other protocols and stumps are passed over and counted; IPv6 extension headers are read."""
    stats = CaptureStats()
    packets = [
        bytes(Ether() / IP(frag=3, proto=6) / (b"x" * 40)),
        bytes(Ether() / IP(flags="MF") / TCP()),
        bytes(Ether() / IP(proto=17) / (b"x" * 40)),
        bytes(Ether() / IPv6() / IPv6ExtHdrFragment(offset=1) / (b"x" * 40)),
        bytes(Ether(type=0x806)) + b"x" * 28,
        bytes(Ether() / V4)[:40],
        b"",
        bytes(Ether() / IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrDestOpt() / TCP(flags="S") / b"ab"),
    ]
    path = tmp_path / "a"
    path.write_bytes(pcap(packets))
    segments = list(read_capture(path, stats))
    assert [(s.packet_no, s.payload) for s in segments] == [(8, b"ab")]
    assert stats.skipped == {"fragments": 3, "not_tcp": 1, "not_ip": 2, "malformed": 1}
    assert (stats.packets, stats.segments) == (8, 1)
    assert (stats.first_time_ns, stats.last_time_ns) == (1_000_001_000, 8_000_008_000)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04zip", b"\x7fELF", b'{"a":1}', gzip.compress(b"no capture")]
)
def test_foreign_files_are_refused_at_once(tmp_path: Path, content: bytes) -> None:
    """What is no capture says so, with the file and the byte."""
    with pytest.raises(CaptureError, match="at byte 0: not a capture"):
        read(tmp_path / "a", content)


@pytest.mark.parametrize("cut", range(1, 100))
def test_a_truncated_file_gives_what_is_whole_and_then_an_error(tmp_path: Path, cut: int) -> None:
    """Wherever a file ends too early, whole packets come first and the error names the byte."""
    data = bytes(Ether() / V4)
    content = pcap([data, data])
    path = tmp_path / "a"
    path.write_bytes(content[:-cut])
    segments: list[Segment] = []
    record = 16 + len(data)
    if cut == record:
        assert len(list(read_capture(path))) == 1
        return
    with pytest.raises(CaptureError) as caught:
        segments.extend(read_capture(path))
    assert len(segments) == (1 if cut < record else 0)
    assert caught.value.offset <= len(content) - cut
    assert str(path) in str(caught.value)


def test_damaged_gzip_gives_what_is_whole_and_then_an_error(tmp_path: Path) -> None:
    """A cut-off or flipped compressed file is an error after the packets that could be read."""
    content = gzip.compress(pcap([bytes(Ether() / V4)] * 5_000))
    path = tmp_path / "a"
    for damaged in (content[:-20], content[:-6] + b"\x00" * 6):
        path.write_bytes(damaged)
        stats = CaptureStats()
        with pytest.raises(CaptureError, match="compressed data"):
            list(read_capture(path, stats))
        assert stats.packets > 0


@pytest.mark.parametrize("size", [2**32 - 1, 2**20 + 1])
def test_a_lying_packet_length_is_refused(tmp_path: Path, size: int) -> None:
    """A packet of 4 GiB is damage, not an allocation."""
    content = pcap([bytes(Ether() / V4)]) + struct.pack("<IIII", 9, 9, size, size) + b"x"
    with pytest.raises(CaptureError, match="damaged header"):
        read(tmp_path / "a", content)


def test_lying_pcapng_lengths_are_refused(tmp_path: Path) -> None:
    """Block lengths that are odd, tiny, huge or unequal end in an error."""
    start = struct.pack("<I", 0x0A0D0D0A)
    for size in (0, 13, 2**32 - 4, 28):
        with pytest.raises(CaptureError):
            read(tmp_path / "a", start + struct.pack("<IIHHqI", size, 0x1A2B3C4D, 1, 0, -1, 32))
