"""Segments that go on quickly, or take the whole way: the same rows, state and counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest

from namesrv_wire.packets.segments import INCOMING, OUTGOING, Segment, read_segments
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.server import Flow, Server
from namesrv_wire.servers.transcript import Transcript
from tests.examples import first_quick, more
from tests.places import CAPTURE, CHECKOUT

WAYS = ("plain", "one", "router", "host", "any", "changing")
PACKETS = 500
"""So many packets from the beginning of each part of the capture, and as many from somewhere in it: hours lie between them."""


@contextmanager
def whole_way() -> Iterator[None]:
    """Let no segment go on quickly."""

    def begin(server: Server, _: Flow, time_ns: int, source: tuple[str, int], *__: object) -> bool:
        return not server.begin(time_ns, source)

    with patch.object(Server, "go_on", begin):
        yield


def outcome(path: Path, *, quick: bool) -> tuple[object, ...]:
    """Return all that a transcript of a capture says, row by row for each name server, and its state."""
    transcript, rows = Transcript(), list[AnyRow]()
    with nullcontext() if quick else whole_way():
        for segments in read_segments(path):
            rows += transcript.feed(segments, path.name)
    rows += transcript.finish()
    of: dict[object, list[object]] = {}
    for row in rows:
        of.setdefault(row.values.get("namesrv_id"), []).append((row.table, row.values))
    shared = Counter(map(repr, of.pop(None, [])))
    return of, shared, transcript.carry(), transcript.counts


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((CHECKOUT / "examples").rglob("*.pcap*")), ids=lambda path: path.parent.name)
def test_a_real_capture_reads_the_same_both_ways(path: Path) -> None:
    """Rows, state and counts of a whole recording are equal."""
    assert outcome(path, quick=True) == outcome(path, quick=False)


@pytest.fixture(scope="module")
def parts() -> list[list[Segment]]:
    return list(read_segments(CAPTURE))


ACCIDENTS: Sequence[Callable[[Segment, int], Segment]] = (
    lambda one, n: one._replace(payload=one.payload[:n], lost=one.lost + len(one.payload[n:])),
    lambda one, n: one._replace(seq=(one.seq - n) & 0xFFFFFFFF, payload=bytes([n]) * n + one.payload),
    lambda one, n: one._replace(payload=bytes([n]) + one.payload[1:]),
    lambda one, n: one._replace(time_ns=one.time_ns + n * 1_000_000_000),
    lambda one, n: one._replace(time_ns=one.time_ns - n * 1_000_000_000),
    lambda one, n: one._replace(flags=one.flags ^ 1 << n % 6),
    lambda one, n: one._replace(seq=one.seq ^ 1 << n % 32),
    lambda one, n: one._replace(ack=one.ack ^ 1 << n % 32),
)
"""What networks, clocks and strangers do to a segment: it is cut, overlaps, has other bytes, another time, other numbers."""


def with_accidents(segments: list[Segment], chance: random.Random) -> list[Segment]:
    """Return segments of which some are lost, come twice, or are a little late; times rise, but for those of a few accidents."""
    order: list[Segment] = []
    for segment in segments:
        if chance.random() < 0.97:
            order.append(segment)
        if chance.random() < 0.02:
            order.append(segment)
        if chance.random() < 0.02 and len(order) > 5:
            order.insert(-chance.randrange(1, 5), order.pop())
    times = sorted(segment.time_ns for segment in order)
    found = [segment._replace(time_ns=time_ns) for segment, time_ns in zip(order, times, strict=True)]
    for at in range(chance.randrange(30), len(found), 30):
        found[at] = chance.choice(ACCIDENTS)(found[at], chance.randrange(200))
    return found


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


@pytest.mark.parametrize("seed", first_quick(*range(more(24))))
def test_quickly_is_as_the_whole_way(parts: list[list[Segment]], seed: int) -> None:
    """Whatever happened to segments, with short idle limits and carried states: rows, order, counts and states are equal.

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
