"""Links, tags and tunnels, compression, fragments: the same segments come out of everything that a packet can lie in."""

from __future__ import annotations

import gzip
import lzma
import random
import struct
from itertools import islice, zip_longest
from pathlib import Path

import pytest
from backports import zstd
from dpkt import pcap as dpkt_pcap
from pcapng import FileScanner
from scapy.layers.inet import IP, TCP

from namesrv_wire.errors import MAX_FRAGMENTED, MAX_LEFT_OUT, MAX_NESTED, CaptureError
from namesrv_wire.packets.container import read_records
from namesrv_wire.packets.segments import CaptureStats, LeftOut, Peeled, Segment, described, read_segments
from tests.pcap import block, enhanced, interface, pcap, section
from tests.places import CAPTURE
from tests.wire.capture_files import PAYLOADS, V4
from tests.wire.counted import read_capture
from tests.wire.wrapped import COMPRESSIONS, COOKED, MACS, WRAPPINGS, ethernet, ipv4, ipv6, pktap, udp, vxlan

ALL = {**WRAPPINGS, **COOKED}
_FRAMES = dict((WRAPPINGS["raw"], WRAPPINGS["ethernet"], COOKED["cooked"]))


def ip_packets() -> list[bytes]:
    """Return some segments of both IP versions, one of them without payload."""
    more = (
        IP(src="10.0.0.1", dst="10.0.0.2")
        / TCP(sport=1, dport=2, flags="A", options=[("NOP", None)] * 4)
        / (b"x" * 300)
    )
    return [bytes(PAYLOADS["v4"]), bytes(PAYLOADS["v6"]), bytes(more), bytes(V4[IP].copy())[:-5]]


def fixed(ip: bytes) -> bytes:
    """Return an IPv4 packet whose length is what it has."""
    return ip[:2] + struct.pack(">H", len(ip)) + ip[4:] if ip[0] >> 4 == 4 else ip


PACKETS = [fixed(ip) for ip in ip_packets()]


def segments(path: Path, content: bytes) -> list[Segment]:
    """Return the segments of a capture, wherever they were seen."""
    path.write_bytes(content)
    return [segment._replace(interface=0) for segment in read_capture(path)]


def left_out(path: Path, content: bytes, ports: frozenset[int] = frozenset({4789})) -> tuple[int, str]:
    """Return how many segments a capture has, and what else it says of its packets."""
    path.write_bytes(content)
    stats = CaptureStats()
    assert len(list(read_capture(path, stats, ports))) == stats.segments
    return stats.segments, described(stats.left_out)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Segment]:
    """Return the segments as they are without anything around them, as Scapy reads them too."""
    found = segments(tmp_path_factory.mktemp("plain") / "a", pcap(PACKETS, 101))
    assert [len(segment.payload) for segment in found] == [5, 5, 300, 0]
    assert [segment.dst for segment in found] == ["10.0.0.2:9876", "[fd00::2]:9876", "10.0.0.2:2", "10.0.0.2:9876"]
    for segment, packet in zip(found, PACKETS, strict=True):
        if packet[0] >> 4 == 4:
            seen = IP(packet)[TCP]
            assert (segment.seq, segment.ack, segment.flags) == (seen.seq, seen.ack, int(seen.flags))
    return found


@pytest.mark.parametrize(
    ("name", "compression"), [(name, [*COMPRESSIONS][number % len(COMPRESSIONS)]) for number, name in enumerate(ALL)]
)
def test_whatever_a_packet_lies_in_it_is_the_same_segment(
    tmp_path: Path, plain: list[Segment], name: str, compression: str
) -> None:
    """Link types, tags, tunnels, and tunnels in tunnels, in one compression or another, as pcap and as pcapng."""
    link_type, frame = ALL[name]
    frames = [frame(packet) for packet in PACKETS]
    assert segments(tmp_path / "a", COMPRESSIONS[compression](pcap(frames, link_type))) == plain
    blocks = [enhanced(data, ticks=n * 1_000_000 + n) for n, data in enumerate(frames, 1)]
    as_pcapng = section() + interface(link_type=link_type) + b"".join(blocks)
    assert segments(tmp_path / "a", COMPRESSIONS[compression](as_pcapng)) == plain


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[Segment]]:
    """Return the first IP packets of the bundled capture, which is of Ethernet, and their segments."""
    (records,) = islice(read_records(CAPTURE), 1)
    data, starts, kept = records.data, records.start.tolist(), records.kept.tolist()
    found = [data[at + 14 : at + size] for at, size in zip(starts, kept, strict=True)]
    return found, segments(tmp_path_factory.mktemp("recorded") / "a", pcap(found, 101, stated_snap=1 << 18))


@pytest.mark.parametrize(
    ("name", "compression"),
    zip(["VXLAN", "Geneve", "GRE, key and more", "ERSPAN II", "cooked v2, VLAN"], [*COMPRESSIONS][1:], strict=True),
)
def test_real_traffic_is_the_same_in_tunnels_and_compressed(
    tmp_path: Path, recorded: tuple[list[bytes], list[Segment]], name: str, compression: str
) -> None:
    """All segments of a piece of the bundled capture: whatever is made of them does not tell how they came."""
    packets, expected = recorded
    assert len(expected) > 2_000
    link_type, frame = ALL[name]
    content = pcap([frame(packet) for packet in packets], link_type, stated_snap=1 << 18)
    assert segments(tmp_path / "a", COMPRESSIONS[compression](content)) == expected


@pytest.mark.parametrize("name", ALL)
def test_of_a_packet_that_was_cut_what_is_there_is_read(tmp_path: Path, plain: list[Segment], name: str) -> None:
    """At every byte: a segment and what is lost of it, as long as its TCP header is there."""
    link_type, frame = ALL[name]
    whole = frame(PACKETS[2])
    head = whole.index(b"x" * 300)
    records = [struct.pack("<IIII", size + 1, 0, size, len(whole)) + whole[:size] for size in range(len(whole))]
    found = segments(tmp_path / "a", pcap([], link_type, stated_snap=0) + b"".join(records))
    for segment in found:
        kept = segment.packet_no - 1 - head
        if kept < 0:  # without its options a header is one all the same
            assert kept >= -4
            assert not segment.payload
        else:
            expected = plain[2]._replace(packet_no=segment.packet_no, time_ns=segment.time_ns)
            assert segment == expected._replace(payload=b"x" * min(300, kept), lost=max(0, 300 - kept))
    assert [segment.packet_no - 1 for segment in found][-(len(whole) - head) :] == [*range(head, len(whole))]


@pytest.mark.parametrize("name", ALL)
def test_no_frame_however_damaged_is_more_than_a_refusal(tmp_path: Path, name: str) -> None:
    """Bytes are changed at random: each packet is a segment, or is named."""
    link_type, frame = ALL[name]
    dice, frames = random.Random(name), list[bytes]()
    for _ in range(300):
        data = bytearray(frame(dice.choice(PACKETS)))
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        frames.append(bytes(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.2 else data))
    path, stats = tmp_path / "a", CaptureStats()
    path.write_bytes(pcap(frames, link_type))
    found = list(read_capture(path, stats))
    assert (stats.packets, stats.segments) == (300, len(found))
    assert len(found) + stats.left_out.total() == 300


def pieces(payload: bytes, size: int) -> list[tuple[int, bytes]]:
    """Return parts of a payload by offset."""
    return [(at, payload[at : at + size]) for at in range(0, len(payload), size)]


@pytest.mark.parametrize("order", ["in order", "last first", "mixed", "twice"])
@pytest.mark.parametrize("outer", ["plain", "VXLAN", "GRE"])
def test_fragments_are_put_together(tmp_path: Path, plain: list[Segment], outer: str, order: str) -> None:
    """Of the innermost packet or of its tunnel, in any order: the segment comes with the last of them."""
    packet = PACKETS[2]
    protocol, payload = (6, packet[20:]) if outer == "plain" else (17, vxlan(ethernet(packet))[20:])
    if outer == "GRE":
        protocol, payload = 47, b"\x00\x00\x08\x00" + packet
    parts = pieces(payload, 64)
    cut = [ipv4(protocol, part, part=at // 8 | (0x2000 if at + len(part) < len(payload) else 0)) for at, part in parts]
    if outer == "plain":
        cut = [one[:12] + packet[12:20] + one[20:] for one in cut]
    frames = [ethernet(one) for one in cut]
    frames = {
        "in order": frames,
        "last first": frames[::-1],
        "mixed": random.Random(1).sample(frames, len(frames)),
        "twice": [*frames[:3], *frames[:3], *frames[3:]],
    }[order]
    (found,) = segments(tmp_path / "a", pcap(frames))
    assert found == plain[2]._replace(packet_no=len(frames), time_ns=found.time_ns)
    assert left_out(tmp_path / "a", pcap(frames)) == (1, "")


def test_fragments_are_put_together_without_copying_the_capture(
    tmp_path: Path, plain: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred packets, each in two parts: what was read so far is copied once, not for each packet."""
    copied, append = list[int](), Peeled.append

    def counted(self: Peeled, more: bytes) -> int:
        copied.append(len(more))
        return append(self, more)

    monkeypatch.setattr(Peeled, "append", counted)
    body = vxlan(ethernet(PACKETS[2]))[20:]
    frames = [
        ethernet(ipv4(17, part, part=at // 8 | (0x2000 if at == 0 else 0), ident=number))
        for number in range(100)
        for at, part in pieces(body, 320)
    ]
    assert len(frames) == 200
    found = segments(tmp_path / "a", pcap(frames))
    assert {segment.payload for segment in found} == {plain[2].payload}
    assert (len(found), len(copied)) == (100, 1)


@pytest.mark.parametrize("ways", [("direct", "direct"), ("direct", "VXLAN"), ("VXLAN", "direct")])
def test_a_fragment_that_was_seen_twice_is_none_of_the_next_packet(tmp_path: Path, ways: tuple[str, str]) -> None:
    """Each fragment seen twice, one sighting behind the other: with the same number the next packet is whole all the same.

    Direct and in a tunnel it is there twice, as any other packet is.
    """
    frames, expected = list[bytes](), list[bytes]()
    for letter in b"abc":
        body = PACKETS[2][20:].replace(b"x", bytes([letter]))
        expected += [bytes([letter]) * 300] * len(set(ways))
        for at, part in pieces(body, 160):
            cut = ipv4(6, part, part=at // 8 | (0x2000 if at + len(part) < len(body) else 0))
            cut = cut[:12] + PACKETS[2][12:20] + cut[20:]
            frames += [ethernet(cut if way == "direct" else vxlan(ethernet(cut))) for way in ways]
    assert [segment.payload for segment in segments(tmp_path / "a", pcap(frames))] == expected
    assert left_out(tmp_path / "a", pcap(frames)) == (len(expected), "")


def test_fragments_of_ipv6_are_put_together(tmp_path: Path, plain: list[Segment]) -> None:
    """Behind an extension header; of one that is missing the others are named."""
    packet = PACKETS[1]
    parts = pieces(packet[40:], 16)
    cut = [
        ipv6(44, struct.pack(">BBHI", 6, 0, at | (at + len(part) < len(packet) - 40), 9) + part) for at, part in parts
    ]
    frames = [ethernet(one[:8] + packet[8:40] + one[40:]) for one in cut]
    (found,) = segments(tmp_path / "a", pcap(frames))
    assert found == plain[1]._replace(packet_no=len(frames), time_ns=found.time_ns)
    assert left_out(tmp_path / "a", pcap(frames[1:])) == (0, f"{len(frames) - 1} in IP fragments")


def test_fragments_that_never_become_a_packet_are_few_in_memory(tmp_path: Path) -> None:
    """However many begin: the oldest go, and all are named."""
    count = 3 * MAX_FRAGMENTED
    frames = [ethernet(ipv4(6, bytes(64), part=0x2000, ident=n)) for n in range(count)]
    assert left_out(tmp_path / "a", pcap(frames)) == (0, f"{count:,} in IP fragments")


@pytest.mark.parametrize("tunnel", ["IP in IP", "VXLAN, VLAN inside", "Geneve", "GRE, Ethernet", "ERSPAN II"])
@pytest.mark.parametrize("depth", [2, MAX_NESTED - 1, MAX_NESTED, 20])
def test_a_tunnel_in_a_tunnel_has_an_end(tmp_path: Path, depth: int, tunnel: str) -> None:
    """Those deeper than `MAX_NESTED` are named, whatever they are."""
    packet = PACKETS[0]
    for _ in range(depth):
        packet = WRAPPINGS[tunnel].frame(packet)[14:]
    is_read = depth < MAX_NESTED
    name = {"IP in IP": "", "Geneve": " in Geneve", "GRE, Ethernet": " in GRE", "ERSPAN II": " in ERSPAN"}
    said = f"1 in tunnels more than {MAX_NESTED} deep{name.get(tunnel, ' in VXLAN')}"
    assert left_out(tmp_path / "a", pcap([ethernet(packet)])) == ((1, "") if is_read else (0, said))


def test_tags_without_end_are_no_work_without_end(tmp_path: Path) -> None:
    """A frame of tags alone is named."""
    frame = ethernet(PACKETS[0])
    frame = frame[:12] + b"\x81\x00\x00\x05" * 2_000 + frame[12:]
    assert left_out(tmp_path / "a", pcap([frame])) == (0, f"1 in tunnels more than {MAX_NESTED} deep")


def test_vxlan_to_another_port_is_named_and_read_once_its_port_is(tmp_path: Path) -> None:
    """With the ports of what it holds; UDP that only begins alike is UDP."""
    other = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40_000, dport=10_911, flags="A"))
    frames = [ethernet(vxlan(ethernet(packet), 14_789)) for packet in (PACKETS[0], PACKETS[0], other)]
    frames += [
        ethernet(ipv4(17, udp(53, b"\x08\x00\x00\x00\x00\x00\x01\x00" + bytes(60)))),
        ethernet(ipv4(17, udp(53, b""))),
    ]
    content = pcap(frames)
    policed = ethernet(
        vxlan(ethernet(PACKETS[0]), 14_789).replace(b"\x08" + bytes(5) + b"\x2a", b"\x88\x00\x00\x05\0\0\x2a")
    )
    assert left_out(tmp_path / "a", pcap([policed]))[1].startswith("1 in VXLAN to UDP port 14789 (not in vxlan_ports)")
    hidden = "3 in VXLAN to UDP port 14789 (not in vxlan_ports), of which 2 of port 9876, 1 of port 10911"
    what = f"{hidden}; 2 in UDP, of which 2 of port 53"
    assert left_out(tmp_path / "a", content) == (0, what)
    assert left_out(tmp_path / "a", content, frozenset({14_789})) == (3, "2 in UDP, of which 2 of port 53")


def test_a_length_that_lies_costs_its_packet_only(tmp_path: Path, plain: list[Segment]) -> None:
    """Of Netfilter's attributes and of Apple's header, too small or beyond the end; Apple's may hold no packet, or another link."""
    good, short = WRAPPINGS["NFLOG"].frame(PACKETS[0]), 4 + 8
    lying = [good[:short] + struct.pack("<H", size) + good[short + 2 :] for size in (0, 3, 40_000, 65_535)]
    endless = good[:4] + struct.pack("<HH", 4, 2) * 20_000
    frames = [*lying, endless, good[:4], good]
    found = segments(tmp_path / "a", pcap(frames, 239, stated_snap=1 << 18))
    assert found == [plain[0]._replace(packet_no=len(frames), time_ns=found[0].time_ns)]
    assert left_out(tmp_path / "a", pcap(frames, 239, stated_snap=1 << 18)) == (1, "6 in damaged or cut headers")
    good = WRAPPINGS["PKTAP"].frame(PACKETS[0])
    lying = [struct.pack("<I", size) + good[4:] for size in (0, 11, 40_000)]
    frames = [*lying, pktap(1, b"", following=0), pktap(147, bytes(60)), pktap(258, good), good]
    said = "3 in damaged or cut headers; 1 in frames of link type 147; 1 in no IP"
    assert left_out(tmp_path / "a", pcap(frames, 258)) == (2, said)


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    """By ether type, protocol, port, and the tunnel around it; frames that have a length for a type are of one kind."""
    frames = [
        *(MACS + struct.pack(">H", size) + b"\x42\x42\x03" + bytes(60) for size in (38, 39)),
        ethernet(PACKETS[0])[:12] + b"\x08\x06" + bytes(40),
        ethernet(ipv4(50, bytes(40))),
        ethernet(ipv4(17, udp(53, bytes(9)))),
        ethernet(vxlan(ethernet(ipv4(1, bytes(40))))),
        b"short",
        MACS + b"\x88\x64" + struct.pack(">BBHHH", 0x11, 0, 9, 4, 0xC021) + bytes(40),
        ethernet(ipv4(17, udp(4790, b"\x0c\x00\x00\x09" + bytes(44)))),
        ethernet(vxlan(ethernet(ipv4(17, udp(37_008, b"\x01\x23\x81\x80" + bytes(44)))))),
        ethernet(ipv4(17, udp(6080, b"\x20\x01" + bytes(44)))),
        ethernet(ipv4(17, udp(2152, b"\x32\x01" + bytes(44)))),
        ethernet(ipv4(17, udp(2152, b"\x34\xff" + bytes(9) + b"\x85" + bytes(44)))),
    ]
    said = (
        "2 in IEEE 802.3 frames; 1 in ARP; 1 in ESP; 1 in ICMP in VXLAN; 1 in PPP protocol 0xc021 in PPPoE; "
        "1 in UDP, of which 1 of port 53; 1 in UDP in GTP-U, of which 1 of port 2152; 1 in UDP in GUE, of which 1 of port 6080; "
        "1 in UDP in VXLAN, of which 1 of port 37008; 1 in damaged or cut headers; 1 in damaged or cut headers in GTP-U; "
        "1 in protocol 9 in VXLAN-GPE"
    )
    assert left_out(tmp_path / "a", pcap(frames)) == (0, said)
    assert left_out(tmp_path / "a", pcap(frames, 147)) == (0, "13 in frames of link type 147")


@pytest.mark.slow
def test_what_is_left_out_is_counted_by_so_many_names_at_most(tmp_path: Path) -> None:
    """However many ports there are: the most frequent keep their names, of the others there is one number."""
    often, count = 3 * [ethernet(ipv4(17, udp(53, b"")))], MAX_LEFT_OUT + 1_000
    each = [ethernet(ipv4(17, struct.pack(">HHHH", 60_000, 1_000 + n % 50_000, 8, 0), ident=n)) for n in range(count)]
    path, stats = tmp_path / "a", CaptureStats()
    path.write_bytes(pcap(often + each + often))
    assert not list(read_capture(path, stats))
    assert (stats.left_out[LeftOut("UDP", 53)], stats.left_out.total()) == (6, count + 6)
    assert len(stats.left_out) <= MAX_LEFT_OUT
    assert f" in more than {MAX_LEFT_OUT:,} other kinds and ports" in described(stats.left_out)


def test_interfaces_of_other_links_are_read_beside_each_other(tmp_path: Path, plain: list[Segment]) -> None:
    """Packet by packet of another link type, blocks without a time between them: numbers count all."""
    links = [ALL["ethernet"], ALL["raw"], ALL["VXLAN"], ALL["PPP"]]
    content = section() + b"".join(interface(link_type=link.link_type) for link in links)
    for n in range(40):
        data = links[n % 4].frame(PACKETS[n % 3])
        content += enhanced(data, number=n % 4, ticks=n + 1)
        content += block("<", 3, struct.pack("<I", len(data)) + data + bytes(-len(data) % 4)) if n % 5 == 0 else b""
    path, stats = tmp_path / "a", CaptureStats()
    path.write_bytes(content)
    found = list(read_capture(path, stats))
    assert [segment.payload for segment in found] == [plain[n % 3].payload for n in range(40)]
    assert [segment.interface for segment in found] == [n % 4 + 1 for n in range(40)]
    assert [segment.packet_no for segment in found] == [n + 1 + -(-n // 5) for n in range(40)]
    assert [segment.time_ns for segment in found] == [(n + 1) * 1_000 for n in range(40)]
    assert (stats.packets, stats.left_out.total()) == (48, 8)


def test_records_are_those_of_the_libraries(tmp_path: Path) -> None:
    """Bytes and times of a recording, as dpkt reads them, and python-pcapng from another form of it."""
    data = gzip.decompress(CAPTURE.read_bytes())
    path = tmp_path / "a.pcap"
    path.write_bytes(data)
    found = [
        (time_ns, records.data[at : at + size])
        for records in read_records(path)
        for time_ns, at, size in zip(
            records.time_ns.tolist(), records.start.tolist(), records.kept.tolist(), strict=True
        )
    ]
    with path.open("rb") as file:
        for (time_ns, packet), (time_s, seen) in zip_longest(found, dpkt_pcap.Reader(file)):
            assert packet == seen
            assert abs(time_ns - time_s * 1e9) < 1_000
    few = found[:500]
    nanoseconds = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    content = section() + interface(link_type=0, options=nanoseconds)
    path.write_bytes(content + b"".join(enhanced(packet, ticks=time_ns) for time_ns, packet in few))
    with path.open("rb") as file:
        blocks = [each for each in FileScanner(file) if hasattr(each, "packet_data")]
    ((records),) = read_records(path)
    assert [each.packet_data for each in blocks] == [packet for _, packet in few]
    assert records.time_ns.tolist() == [time_ns for time_ns, _ in few]


def test_captures_that_were_joined_are_read_one_behind_the_other(tmp_path: Path, plain: list[Segment]) -> None:
    """As `cat` does it, of every byte order, resolution and link; also with nothing behind a header, and with half a header."""
    forms = [("<", 0xA1B2C3D4, 101), (">", 0xA1B2C3D4, 1), ("<", 0xA1B23C4D, 113), ("<", 0xA1B2C3D4, 101)]
    parts = [pcap([_FRAMES[link](one) for one in PACKETS], link, order, magic) for order, magic, link in forms]
    joined = b"".join([*parts, pcap([])])
    found = segments(tmp_path / "a", joined)
    assert [segment.packet_no for segment in found] == [*range(1, 17)]
    assert [segment._replace(packet_no=0, time_ns=0) for segment in found] == 4 * [
        segment._replace(packet_no=0, time_ns=0) for segment in plain
    ]
    seconds = [1_000_000_000 * n for n in range(1, 5)]
    assert [segment.time_ns // 1_000_000_000 * 1_000_000_000 for segment in found] == 4 * seconds
    with pytest.raises(CaptureError, match="ends inside a record: 20 bytes"):
        segments(tmp_path / "a", joined[:-4])


# -- compressed files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [name for name in COMPRESSIONS if name != "plain"])
def test_compressed_files_may_be_joined_padded_and_torn(tmp_path: Path, plain: list[Segment], compression: str) -> None:
    """Members follow each other; what was unpacked in front of a torn end is read, and the end is an error."""
    packed, content = COMPRESSIONS[compression], pcap(PACKETS * 500, 101)
    path = tmp_path / "a"
    whole = packed(content[:70]) + packed(content[70:])
    all_of_it = segments(path, content)
    assert len(segments(path, whole)) == 4 * 500
    assert len(segments(path, whole + bytes(512))) == 4 * 500
    for damaged in (whole[:-9], whole + b"something else"):
        path.write_bytes(damaged)
        found, reading = list[Segment](), read_capture(path)
        with pytest.raises(CaptureError, match="compressed data"):
            found.extend(each for each in reading)
        assert found == all_of_it[: len(found)]
    assert found == all_of_it
    assert found[0] == plain[0]


@pytest.mark.parametrize("compression", ["xz", "zstd"])
def test_what_takes_too_much_memory_is_not_unpacked(tmp_path: Path, compression: str) -> None:
    """Files that say that they need a window of 256 MiB: refused for that, whatever they hold."""
    if compression == "xz":
        packed = lzma.compress(pcap(PACKETS), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}])
    else:
        compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 28})
        packed = compressor.compress(pcap(PACKETS), compressor.FLUSH_BLOCK) + compressor.flush()
    path = tmp_path / "a"
    path.write_bytes(packed)
    with pytest.raises(CaptureError, match=r"takes more than 128 MiB to unpack"):
        list(read_capture(path))


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_frames_that_hold_nothing_are_passed_over(tmp_path: Path, compression: str) -> None:
    """As parallel compressors write them, at the beginning too."""
    skipped = struct.pack("<II", 0x184D2A53, 70_000) + bytes(70_000)
    content = pcap(PACKETS, 101)
    packed = COMPRESSIONS[compression]
    assert len(segments(tmp_path / "a", skipped + packed(content[:99]) + skipped + packed(content[99:]))) == len(
        PACKETS
    )


@pytest.mark.slow
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("good", [0, 3])
def test_zeros_without_end_are_read_once_and_not_kept(tmp_path: Path, compression: str, good: int) -> None:
    """A record of nothing at no time is damage: what follows is not unpacked."""
    content = pcap(PACKETS[:good], 101) + bytes(40 << 20)
    path, stats = tmp_path / "a", CaptureStats()
    path.write_bytes(COMPRESSIONS[compression](content))
    sizes = (sum(len(segment.payload) for segment in segments) for segments in read_segments(path, stats))
    with pytest.raises(CaptureError, match="nothing but zeros"):
        assert max(sizes) < 6 << 20
    assert (stats.packets, stats.segments, stats.left_out) == (good, good, {})
