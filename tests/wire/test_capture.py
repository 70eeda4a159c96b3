"""Capture files: containers, link types, IP versions, damage."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


RAW = packet_bytes("raw", V4)[1]


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
    obsolete = struct.pack(order + "HHIIII", 0, 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + padded
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
    lengths = (
        len(data) if captured is None else captured,
        len(data) if original is None else original,
    )
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, *lengths)
    return block(order, 6, head + data + b"\x00" * (-len(data) % 4) + options)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_interfaces_have_their_own_link_type_and_time(tmp_path: Path, order: str) -> None:
    """Each packet is read by its interface; a section starts its interfaces anew, in its own byte order."""
    other = "<" if order == ">" else ">"
    ethernet = packet_bytes("ethernet", V4)[1]
    nanoseconds = option(order, 9, b"\x09")
    offset = option(order, 14, struct.pack(order + "q", 1_700_000_000))
    content = [
        section(order),
        interface(order, 101),
        interface(order, 1, options=nanoseconds),
        interface(order, 101, options=option(order, 9, b"\x8a") + offset + option(order, 0, b"")),
        enhanced(RAW, order, 0, 1_700_000_000_000_001),
        enhanced(ethernet, order, 1, 1_700_000_000_000_000_001),
        enhanced(RAW, order, 2, 1_025),
        section(other),
        interface(other, 1),
        enhanced(ethernet, other, 0, 2),
    ]
    segments = read(tmp_path / "a", b"".join(content))
    assert [segment.payload for segment in segments] == [b"hello"] * 4
    assert [segment.time_ns for segment in segments] == [
        1_700_000_000_000_001_000,
        1_700_000_000_000_000_001,
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
    data = bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1, dport=2, flags="A")) + b"\x00" * 6
    (segment,) = read(tmp_path / "a", pcap([data]))
    assert (segment.payload, segment.lost) == (b"", 0)


def test_snap_length_is_noticed(tmp_path: Path) -> None:
    """Bytes that were not captured are counted as lost."""
    (segment,) = read(tmp_path / "a", pcap([bytes(Ether() / V4)], snap=56))
    assert (segment.payload, segment.lost) == (b"he", 3)


def test_snap_length_is_noticed_without_an_ip_length(tmp_path: Path) -> None:
    """Where segmentation was left to the network card, only the container knows how much was cut."""
    packet = IP(src="10.0.0.1", dst="10.0.0.2", len=0) / TCP(sport=1, dport=2, flags="A") / b"hello"
    data = bytes(packet)
    for content in (
        pcap([data], 101, snap=42, stated_snap=42),
        section() + interface() + enhanced(data[:42], original=len(data)),
        section() + interface(snap=42) + block("<", 3, struct.pack("<I", len(data)) + data[:42] + bytes(2)),
    ):
        (segment,) = read(tmp_path / "a", content)
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
    "content", [b"", b"PK\x03\x04zip", b"\x7fELF", b'{"a":1}', gzip.compress(b"no capture", mtime=0)]
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


def test_what_was_unpacked_in_front_of_damage_is_given_out(tmp_path: Path) -> None:
    """Every packet that is whole in the readable part of a cut-off compressed file comes out."""
    data = bytes(Ether() / V4)
    content = gzip.compress(pcap([bytes(Ether() / V4 / str(number)) for number in range(3_000)]))
    path = tmp_path / "a"
    for end in range(len(content) // 2, len(content) - 8, 397):
        path.write_bytes(content[:end])
        readable = zlib.decompressobj(wbits=31).decompress(content[:end])
        whole, at = 0, 24
        while at + 16 <= len(readable):
            at += 16 + int.from_bytes(readable[at + 8 : at + 12], "little")
            whole += at <= len(readable)
        stats = CaptureStats()
        with pytest.raises(CaptureError, match="compressed data"):
            list(read_capture(path, stats))
        assert stats.packets == whole > len(data)


FORMS = {
    "pcap": [pcap([], 101), pcap([RAW], 101)[24:], pcap([RAW], 101)[24:]],
    "pcap, big, ns": [pcap([], 101, ">", 0xA1B23C4D), pcap([RAW], 101, ">")[24:], pcap([RAW], 101, ">")[24:]],
    "pcapng": [section(), interface(), enhanced(RAW), block("<", 0xBAD, b"????"), enhanced(RAW)],
    "pcapng, big": [section(">"), interface(">"), enhanced(RAW, ">"), section(), interface(), enhanced(RAW)],
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_cut_at_every_byte(tmp_path: Path, form: str, packed: bool) -> None:  # noqa: FBT001
    """A cut between records is an end; any other one is an error behind the whole packets before it."""
    records = FORMS[form]
    content = b"".join(records)
    ends, packets_at = [0], [0]
    for record in records:
        ends.append(ends[-1] + len(record))
        packets_at.append(packets_at[-1] + (RAW in record))
    path = tmp_path / "a"
    for cut in range(len(content)):
        path.write_bytes(gzip.compress(content[:cut]) if packed else content[:cut])
        stats = CaptureStats()
        if cut in ends[1:]:
            list(read_capture(path, stats))
        else:
            with pytest.raises(CaptureError) as caught:
                list(read_capture(path, stats))
            assert caught.value.file == str(path)
            assert caught.value.offset <= cut
        assert stats.packets == max(n for n, end in zip(packets_at, ends, strict=True) if end <= cut)


def refused_cheaply(path: Path, content: bytes) -> CaptureError:
    """Return the error of a file, having seen that reading it took no more than the largest block."""
    list(read_capture_until_error(path, pcap([RAW], 101)))  # what is made once is made now
    tracemalloc.start()
    try:
        (error,) = read_capture_until_error(path, content)
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20
    finally:
        tracemalloc.stop()
    return error


def read_capture_until_error(path: Path, content: bytes) -> list[CaptureError]:
    path.write_bytes(content)
    try:
        list(read_capture(path))
    except CaptureError as error:
        return [error]
    return []


PACKINGS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gzip": gzip.compress}


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
@pytest.mark.parametrize("size", [2**32 - 1, 2**31 - 1, 2**20 + 1])
def test_a_lying_packet_length_is_refused(tmp_path: Path, size: int, packing: str) -> None:
    """A packet of 2 or 4 GiB is damage, not an allocation."""
    whole = pcap([bytes(Ether() / V4)])
    content = whole + struct.pack("<IIII", 9, 9, size, size) + b"x"
    error = refused_cheaply(tmp_path / "a", PACKINGS[packing](content))
    assert error.offset == len(whole)
    assert "damaged header" in error.what


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [0, 4, 8, 11, 36, 2**22 + 16, 2**31 - 1, 2**32 - 4, 2**32 - 1])
def test_lying_pcapng_block_lengths_are_refused(tmp_path: Path, order: str, size: int, packing: str) -> None:
    """A block of any kind that is tiny, huge or longer than the file ends in an error at its first byte."""
    whole = section(order) + interface(order) + enhanced(RAW, order)
    mark = struct.pack(order + "I", 0x1A2B3C4D)
    for kind in (0, 1, 2, 3, 4, 6, 10, 0xBAD, 0x0A0D0D0A):
        content = whole + struct.pack(order + "II", kind, size) + mark + struct.pack(order + "I", 12)
        error = refused_cheaply(tmp_path / "a", PACKINGS[packing](content))
        assert len(whole) <= error.offset <= len(content)


@pytest.mark.parametrize("captured", [len(RAW) + 4, 2**31 - 1, 2**32 - 1])
def test_a_packet_larger_than_its_block_is_refused(tmp_path: Path, captured: int) -> None:
    """No packet reaches out of its block, whatever it says of its length."""
    whole = section() + interface()
    for damaged in (
        enhanced(RAW, captured=captured),
        enhanced(b"", captured=captured),
        block("<", 2, struct.pack("<HHIIII", 0, 0, 0, 0, captured, captured) + RAW),
        block("<", 3, struct.pack("<I", captured) + RAW),
        block("<", 6, b"\x00" * 8),
        block("<", 1, b"\x01\x00"),
        interface(options=option("<", 9, b"ab")),
        interface(options=option("<", 14, b"ab")),
    ):
        error = refused_cheaply(tmp_path / "a", whole + damaged + enhanced(RAW))
        assert error.offset == len(whole)


@pytest.mark.parametrize("damaged", [enhanced(RAW), enhanced(RAW, number=2**32 - 1), block("<", 3, bytes(8))])
def test_a_packet_of_no_interface_is_refused(tmp_path: Path, damaged: bytes) -> None:
    """The interface of a packet is one of its own section."""
    error = refused_cheaply(tmp_path / "a", section() + interface() + section() + damaged)
    assert "not described" in error.what


def test_too_many_interfaces_are_refused(tmp_path: Path) -> None:
    """What is kept of a file does not grow with it."""
    error = read_capture_until_error(tmp_path / "a", section() + interface() * 5_000)[0]
    assert (error.offset, error.what) == (28 + 4_096 * 20, "more than 4096 interfaces")


def test_lying_pcapng_section_headers_are_refused(tmp_path: Path) -> None:
    """Section lengths that are odd, tiny, huge or unequal end in an error, and so does a foreign mark."""
    start = struct.pack("<I", 0x0A0D0D0A)
    for size in (0, 13, 2**32 - 4, 28):
        with pytest.raises(CaptureError):
            read(tmp_path / "a", start + struct.pack("<IIHHqI", size, 0x1A2B3C4D, 1, 0, -1, 32))
    with pytest.raises(CaptureError, match=r"at byte 0: .*byte order magic"):
        read(tmp_path / "a", start + struct.pack("<IIHHqI", 28, 0x12345678, 1, 0, -1, 28))


@pytest.mark.parametrize("start", [b"\x0a\x0d\x0d", b"\xd4\xc3\xb2", b"\xa1\xb2\xc3\xd5", b"\x1f\x8b", b"\x00"])
def test_half_a_magic_is_foreign(tmp_path: Path, start: bytes) -> None:
    """A file that only resembles a capture is refused at its first byte."""
    for content in (start, start + b"\x00" * 64 if len(start) == 4 else start):
        (error,) = read_capture_until_error(tmp_path / "a", content)
        assert error.offset == 0


@settings(max_examples=300)
@given(st.sampled_from(list(FORMS)), st.booleans(), st.data())
def test_no_damage_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    packed: bool,  # noqa: FBT001
    data: st.DataObject,
) -> None:
    """Whatever bytes are changed, a file is read or refused with `CaptureError`."""
    content = bytearray(b"".join(FORMS[form]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 4))
        content[at : at + 4] = data.draw(st.binary(min_size=1, max_size=4))
    path = tmp_path_factory.getbasetemp() / "damaged"
    for error in read_capture_until_error(path, gzip.compress(content) if packed else bytes(content)):
        assert 0 <= error.offset <= len(content)
