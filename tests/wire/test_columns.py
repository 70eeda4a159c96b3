"""Packets read as columns: the same segments, the same rows and the same state as packet by packet."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from namesrv_wire import AnyRow, CaptureError, Segment, Transcript, read_capture
from namesrv_wire.packets.capture import Endpoints
from namesrv_wire.packets.columns import read_columns
from tests.examples import examples
from tests.wire.capture_files import LINKS, PAYLOADS, enhanced, interface, packet_bytes, pcap, section
from tests.wire.forge import NAMESRV

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "examples" / "v4-lifecycle" / "capture.pcap.gz"
RECORDS = 250


def records() -> list[bytes]:
    """Return the records of the bundled capture."""
    data, at, found = gzip.decompress(CAPTURE.read_bytes()), 24, []
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at:end])
        at = end
    return found


WHOLE = records()
HEAD = gzip.decompress(CAPTURE.read_bytes())[:24]


def outcome(path: Path, *, columns: bool) -> tuple[object, ...]:
    """Return all that a transcript of a capture says, row by row for each name server, its state, and how reading ended."""
    transcript, rows, error = Transcript(), list[AnyRow](), None
    try:
        if columns:
            for packets in read_columns(path):
                rows += transcript.feed_all(packets, path.name)[0]
        else:
            for segment in read_capture(path):
                rows += transcript.feed(segment, path.name)
    except CaptureError as stopped:
        error = str(stopped)
    rows += transcript.finish()
    of: dict[object, list[object]] = {}
    for row in rows:
        of.setdefault(row.values.get("namesrv_id"), []).append((row.table, row.values))
    shared = Counter(map(repr, of.pop(None, [])))
    return of, shared, transcript.carry(), transcript.counts, transcript.counts_by_namesrv(), error


def segments_of(path: Path) -> list[Segment]:
    """Return the segments that the columns of a capture stand for."""
    endpoints = Endpoints()
    found = [packets.segment(n, endpoints) for packets in read_columns(path) for n in range(len(packets.keys))]
    return [segment for segment in found if segment is not None]


def cut_short(record: bytes, kept: int) -> bytes:
    """Return a record of which only the first bytes were captured."""
    size = min(kept, len(record) - 16)
    return record[:8] + struct.pack("<I", size) + record[12 : 16 + size]


def overlapping(record: bytes, back: int, filler: int) -> bytes:
    """Return a TCP segment over Ethernet and IPv4 that begins some bytes before its own, with other bytes there."""
    ip = 16 + 14
    tcp = ip + (record[ip] & 15) * 4
    body = tcp + (record[tcp + 12] >> 4) * 4
    seq = (struct.unpack_from(">I", record, tcp + 4)[0] - back) & 0xFFFFFFFF
    size = struct.unpack_from(">H", record, ip + 2)[0] + back
    packet = bytearray(record[:body] + bytes([filler]) * back + record[body:])
    struct.pack_into(">H", packet, ip + 2, size)
    struct.pack_into(">I", packet, tcp + 4, seq)
    struct.pack_into("<II", packet, 8, len(packet) - 16, len(packet) - 16)
    return bytes(packet)


def tagged(record: bytes) -> bytes:
    """Return a packet within a VLAN."""
    packet = bytearray(record[:28] + b"\x81\x00\x00\x05" + record[28:])
    struct.pack_into("<II", packet, 8, len(packet) - 16, len(packet) - 16)
    return bytes(packet)


def later(record: bytes, seconds: int) -> bytes:
    """Return a packet of another time."""
    return struct.pack("<I", struct.unpack_from("<I", record)[0] + seconds) + record[4:]


def flipped(record: bytes, number: int) -> bytes:
    """Return a record with one byte of its packet changed."""
    at = 16 + number * 7 % (len(record) - 16)
    return record[:at] + bytes([record[at] ^ (1 + number)]) + record[at + 1 :]


ONE: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda record, number: cut_short(record, 40 + number),
    "overlap": lambda record, number: overlapping(record, number, number),
    "tag": lambda record, _: tagged(record),
    "later": later,
    "earlier": lambda record, number: later(record, -number),
    "flip": flipped,
}
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["lose", "copy", "swap", "late copy", *ONE]),
        st.integers(0, RECORDS - 1),
        st.integers(0, 200),
    ),
    max_size=25,
)


def changed(found: list[bytes], changes: list[tuple[str, int, int]]) -> list[bytes]:
    """Return records with things done to them that networks, clocks and strangers do."""
    for what, at, number in changes:
        record = found[at]
        if not record:
            continue
        if what == "lose":
            found[at] = b""
        elif what == "copy":
            found[at] = record + record
        elif what == "late copy":
            found[min(at + number, len(found) - 1)] += record
        elif what == "swap":
            other = min(at + 1 + number % 5, len(found) - 1)
            found[at], found[other] = found[other], found[at]
        elif len(record) == 16 + struct.unpack_from("<I", record, 8)[0]:
            found[at] = ONE[what](record, number)
    return found


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, len(WHOLE) - RECORDS),
    CHANGES,
    st.integers(0, 60),
    st.sampled_from([64, 1_500, 100_000]),
    st.booleans(),
)
def test_whatever_happened_to_a_capture_both_ways_say_the_same(
    tmp_path: Path,
    first: int,
    changes: list[tuple[str, int, int]],
    torn: int,
    chunk: int,
    packed: bool,  # noqa: FBT001
) -> None:
    """Losses, copies, overlaps, reordering, cut packets, clocks, damage, a torn end: rows, state, counts, errors are equal."""
    data = HEAD + b"".join(changed(WHOLE[first : first + RECORDS], changes))
    data = data[: len(data) - torn]
    path = tmp_path / "some.pcap"
    path.write_bytes(gzip.compress(data, 1)[: None if chunk > 64 else -9] if packed else data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("namesrv_wire.packets.container.CHUNK_BYTES", chunk)
        patch.setattr("namesrv_wire.packets.container.CHUNK_PACKETS", 1 + chunk // 64)
        assert outcome(path, columns=True) == outcome(path, columns=False)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.pcap*")), ids=lambda path: path.parent.name)
def test_a_real_capture_reads_the_same_both_ways(path: Path) -> None:
    """Rows, state and counts of a whole recording are equal."""
    assert outcome(path, columns=True) == outcome(path, columns=False)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("version", PAYLOADS)
@pytest.mark.parametrize(
    ("order", "magic"), [("<", 0xA1B2C3D4), (">", 0xA1B2C3D4), ("<", 0xA1B23C4D), (">", 0xA1B23C4D)]
)
def test_every_link_layer_gives_the_same_segments(
    tmp_path: Path, link: str, version: str, order: str, magic: int
) -> None:
    """Link types, byte orders and clocks; packets cut at every byte, and one that is longer than the file says."""
    link_type, packet = packet_bytes(link, PAYLOADS[version])
    path = tmp_path / "some.pcap"
    for stated_snap in (65_535, 60):
        cut = [packet[:size] for size in range(len(packet) + 1)]
        path.write_bytes(pcap([*cut, packet + bytes(9), packet], link_type, order, magic, stated_snap=stated_snap))
        assert segments_of(path) == list(read_capture(path))


def test_pcapng_is_read_one_by_one(tmp_path: Path) -> None:
    """A format without columns gives its segments all the same, and an error after them."""
    packet = packet_bytes("raw", PAYLOADS["v4"])[1]
    path = tmp_path / "some.pcapng"
    path.write_bytes(section() + interface() + enhanced(packet) * 5)
    assert segments_of(path) == list(read_capture(path))
    path.write_bytes(section() + interface() + enhanced(packet) * 5 + b"\x06\x00\x00\x00zz")
    assert outcome(path, columns=True) == outcome(path, columns=False)
    assert NAMESRV not in Transcript().carry()


def test_what_is_no_capture_says_so(tmp_path: Path) -> None:
    """A foreign file, an empty one and a lying length have the errors of the careful reader."""
    path = tmp_path / "some.pcap"
    lies = HEAD + WHOLE[0] + struct.pack("<IIII", 1, 1, 1 << 30, 1 << 30) + bytes(99)
    for content in (b"", b"GET / HTTP/1.1", HEAD[:10], HEAD, lies, gzip.compress(lies)):
        path.write_bytes(content)
        assert outcome(path, columns=True) == outcome(path, columns=False)


@pytest.mark.parametrize(
    "content", [b"\x1f\x8bxx", gzip.compress(HEAD)[:12], b""], ids=["no gzip", "torn at once", "empty"]
)
def test_a_file_of_which_nothing_can_be_unpacked_says_the_same(tmp_path: Path, content: bytes) -> None:
    """Damage in the first bytes is an error of the capture, read either way."""
    path = tmp_path / "a.pcap.gz"
    path.write_bytes(content)
    assert outcome(path, columns=True) == outcome(path, columns=False)
    assert outcome(path, columns=True)[-1] is not None
