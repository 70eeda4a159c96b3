"""Segments that go on quickly, or take the whole way: the same rows, state and counts."""

from __future__ import annotations

import gzip
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from namesrv_wire.errors import CaptureError
from namesrv_wire.packets.segments import INCOMING, OUTGOING, Segment, read_segments
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.server import Flow, Server
from namesrv_wire.servers.transcript import Transcript
from tests.examples import examples, first_quick, more
from tests.pcap import Record, capture, records
from tests.places import CAPTURE, CHECKOUT

RECORDS = 250
WAYS = ("plain", "one", "router", "host", "any", "changing")
PACKETS = 500
"""So many packets from the beginning of each part of the capture, and as many from somewhere in it: hours lie between them."""


DATA = gzip.decompress(CAPTURE.read_bytes())
WHOLE = list(records(DATA))
"""The packets of the bundled capture."""


@contextmanager
def whole_way() -> Iterator[None]:
    """Let no segment go on quickly."""

    def begin(server: Server, _: Flow, time_ns: int, source: tuple[str, int], *__: object) -> bool:
        return not server.begin(time_ns, source)

    with patch.object(Server, "go_on", begin):
        yield


def outcome(path: Path, *, quick: bool) -> tuple[object, ...]:
    """Return all that a transcript of a capture says, row by row for each name server, its state, and how reading ended."""
    transcript, rows, error = Transcript(), list[AnyRow](), None
    try:
        with nullcontext() if quick else whole_way():
            for segments in read_segments(path):
                rows += transcript.feed(segments, path.name)
    except CaptureError as stopped:
        error = str(stopped)
    rows += transcript.finish()
    of: dict[object, list[object]] = {}
    for row in rows:
        of.setdefault(row.values.get("namesrv_id"), []).append((row.table, row.values))
    shared = Counter(map(repr, of.pop(None, [])))
    return of, shared, transcript.carry(), transcript.counts, error


def overlapping(packet: Record, back: int, filler: int) -> Record:
    """Return a TCP segment over Ethernet and IPv4 that begins some bytes before its own, with other bytes there."""
    ip = 14
    tcp = ip + (packet.frame[ip] & 15) * 4
    body = tcp + (packet.frame[tcp + 12] >> 4) * 4
    seq = (struct.unpack_from(">I", packet.frame, tcp + 4)[0] - back) & 0xFFFFFFFF
    size = struct.unpack_from(">H", packet.frame, ip + 2)[0] + back
    frame = bytearray(packet.frame[:body] + bytes([filler]) * back + packet.frame[body:])
    struct.pack_into(">H", frame, ip + 2, size)
    struct.pack_into(">I", frame, tcp + 4, seq)
    return Record(packet.time_us, bytes(frame), len(frame))


def tagged(packet: Record) -> Record:
    """Return a packet within a VLAN."""
    frame = packet.frame[:12] + b"\x81\x00\x00\x05" + packet.frame[12:]
    return Record(packet.time_us, frame, len(frame))


def later(packet: Record, seconds: int) -> Record:
    """Return a packet of another time."""
    return packet._replace(time_us=packet.time_us + seconds * 1_000_000)


def flipped(packet: Record, number: int) -> Record:
    """Return a packet with one byte changed."""
    frame, at = packet.frame, number * 7 % len(packet.frame)
    return packet._replace(frame=frame[:at] + bytes([frame[at] ^ (1 + number)]) + frame[at + 1 :])


ONE: dict[str, Callable[[Record, int], Record]] = {
    "cut": lambda packet, number: packet._replace(frame=packet.frame[: 40 + number]),
    "overlap": lambda packet, number: overlapping(packet, number, number),
    "tag": lambda packet, _: tagged(packet),
    "later": later,
    "earlier": lambda packet, number: later(packet, -number),
    "flip": flipped,
}
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["lose", "copy", "swap", "late copy", *ONE]), st.integers(0, RECORDS - 1), st.integers(0, 200)
    ),
    max_size=25,
)


def changed(packets: list[Record], changes: list[tuple[str, int, int]]) -> list[Record]:
    """Return packets with things done to them that networks, clocks and strangers do."""
    found = [[packet] for packet in packets]
    for what, at, number in changes:
        if not found[at]:
            continue
        if what == "lose":
            found[at] = []
        elif what == "copy":
            found[at] = found[at] * 2
        elif what == "late copy":
            behind = min(at + number, len(found) - 1)
            found[behind] = found[behind] + found[at]
        elif what == "swap":
            other = min(at + 1 + number % 5, len(found) - 1)
            found[at], found[other] = found[other], found[at]
        elif len(found[at]) == 1:
            found[at] = [ONE[what](found[at][0], number)]
    return [packet for some in found for packet in some]


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    data = capture(DATA, changed(WHOLE[first : first + RECORDS], changes))
    data = data[: len(data) - torn]
    path = tmp_path / "some.pcap"
    path.write_bytes(gzip.compress(data, 1)[: None if chunk > 64 else -9] if packed else data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("namesrv_wire.packets.container.CHUNK_BYTES", chunk)
        patch.setattr("namesrv_wire.packets.container.CHUNK_PACKETS", 1 + chunk // 64)
        assert outcome(path, quick=True) == outcome(path, quick=False)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((CHECKOUT / "examples").rglob("*.pcap*")), ids=lambda path: path.parent.name)
def test_a_real_capture_reads_the_same_both_ways(path: Path) -> None:
    """Rows, state and counts of a whole recording are equal."""
    assert outcome(path, quick=True) == outcome(path, quick=False)


@pytest.fixture(scope="module")
def parts() -> list[list[Segment]]:
    return list(read_segments(CAPTURE))


def with_accidents(segments: list[Segment], chance: random.Random) -> list[Segment]:
    """Return segments of which some are lost, some come twice, and some are a little late; times rise all the same."""
    order: list[Segment] = []
    for segment in segments:
        if chance.random() < 0.97:
            order.append(segment)
        if chance.random() < 0.02:
            order.append(segment)
        if chance.random() < 0.02 and len(order) > 5:
            order.insert(-chance.randrange(1, 5), order.pop())
    times = sorted(segment.time_ns for segment in order)
    return [segment._replace(time_ns=time_ns) for segment, time_ns in zip(order, times, strict=True)]


def cut_smaller(segments: list[Segment], chance: random.Random) -> list[Segment]:
    """Return segments of which the large ones came as several, as on a network."""
    found: list[Segment] = []
    for segment in segments:
        at, payload = 0, segment.payload
        while True:
            end = at + chance.choice((3, 100, 536, 1_448))
            found.append(segment._replace(seq=(segment.seq + at) & 0xFFFFFFFF, payload=payload[at:end]))
            at = end
            if at >= len(payload):
                break
    return found


def sighted(segments: list[Segment], way: str, chance: random.Random) -> list[Segment]:
    """Return segments as seen on one interface, on both of a router, on a host that tells going from coming, or on any."""
    found: list[Segment] = []
    for segment in segments:
        from_server = segment.src.endswith(":9876")
        seen = {
            "one": [3],
            "router": [5, 2] if from_server else [2, 5],
            "host": [OUTGOING if from_server else INCOMING],
            "any": [chance.choice((2, 5))],
        }[way]
        found += (segment._replace(interface=interface) for interface in seen)
    return found


@pytest.mark.parametrize("seed", first_quick(*range(more(8))))
def test_quickly_is_as_the_whole_way(parts: list[list[Segment]], seed: int) -> None:
    """Lost, repeated, late and cut segments, short idle limits and carried states: rows, order, counts and states are equal.

    And wherever they were seen: `changing` by the part.
    """
    chance, idle_ms = random.Random(seed), (120_000, 2_000, 500)[seed % 3]
    way = WAYS[(5 * seed + seed // 6) % 6]
    slow, quick = Transcript(idle_ms), Transcript(idle_ms)
    for number, whole in enumerate(parts):
        low = chance.randrange(PACKETS, len(whole) - PACKETS)
        segments = whole[:PACKETS] + whole[low : low + PACKETS]
        for some in in_parts(cut_smaller(segments, chance) if seed % 2 else segments, chance):
            here = chance.choice(("plain", "one", "router", "host")) if way == "changing" else way
            seen = some if here == "plain" else sighted(some, here, chance)
            fed = with_accidents(seen, chance) if seed % 4 > 1 else seen
            with whole_way():
                slowly = slow.feed(fed, f"{number}")
            assert quick.feed(fed, f"{number}") == slowly
    assert quick.finish() == slow.finish()
    assert quick.carry() == slow.carry()
    assert quick.counts == slow.counts


def in_parts(segments: list[Segment], chance: random.Random) -> list[list[Segment]]:
    """Return segments in some parts."""
    size = len(segments)
    edges = sorted({0, size, *(chance.randrange(size) for _ in range(5))})
    return [segments[low:high] for low, high in pairwise(edges)]
