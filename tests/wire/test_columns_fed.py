"""Packets that are fed many at a time give the rows that they give one by one."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from namesrv_wire import Transcript
from namesrv_wire.packets.capture import INCOMING, OUTGOING, Endpoints
from namesrv_wire.packets.columns import Packets, read_columns
from namesrv_wire.rows import AnyRow
from tests.examples import more

WAYS = ("plain", "one", "router", "host", "any", "changing")
CAPTURE = Path(__file__).parents[2] / "examples" / "v4-lifecycle" / "capture.pcap.gz"
PACKETS = 500
"""So many packets from the beginning of each part of the capture, and as many from somewhere in it: hours lie between them."""


@pytest.fixture(scope="module")
def parts() -> list[Packets]:
    return list(read_columns(CAPTURE))


def told(rows: list[AnyRow]) -> list[tuple[str, dict[str, object]]]:
    """Return what rows say, in their order: the capture has one name server."""
    return [(row.table, row.values) for row in rows]


def with_accidents(packets: Packets, chance: random.Random) -> Packets:
    """Return packets of which some are lost, some come twice, and some are a little late; times rise all the same."""
    order: list[int] = []
    for index in range(len(packets.keys)):
        if chance.random() < 0.97:
            order.append(index)
        if chance.random() < 0.02:
            order.append(index)
        if chance.random() < 0.02 and len(order) > 5:
            order.insert(-chance.randrange(1, 5), order.pop())
    found = packets.only(order)
    found.time_ns = sorted(found.time_ns)
    found.numbers = None
    return found


def cut_smaller(packets: Packets, chance: random.Random) -> Packets:
    """Return packets of which the large ones came as several, as on a network."""
    columns: list[list[int]] = [[] for _ in range(6)]
    keys: list[bytes] = []
    own = (packets.time_ns, packets.seq, packets.ack, packets.flags, packets.start, packets.stop)
    for key, time_ns, seq, ack, flags, start, stop in zip(packets.keys, *own, strict=True):
        at = start
        while True:
            end = min(stop, at + chance.choice((3, 100, 536, 1_448)))
            keys.append(key)
            said = (time_ns, (seq + at - start) & 0xFFFFFFFF, ack, flags, at, end)
            for column, value in zip(columns, said, strict=True):
                column.append(value)
            at = end
            if at == stop:
                break
    time_ns, seq, ack, flags, begins, ends = columns
    return Packets(packets.first, packets.data, keys, time_ns, seq, ack, flags, begins, ends)


def sighted(packets: Packets, way: str, chance: random.Random) -> Packets:
    """Return packets as seen on one interface, on both of a router, on a host that tells going from coming, or on any."""
    endpoints, order, interfaces = Endpoints(), list[int](), list[int]()
    for index, key in enumerate(packets.keys):
        from_server = bool(key) and endpoints.pair(key)[0].endswith(":9876")
        seen = {
            "one": [3],
            "router": [5, 2] if from_server else [2, 5],
            "host": [OUTGOING if from_server else INCOMING],
            "any": [chance.choice((2, 5))],
        }[way]
        order += [index] * len(seen)
        interfaces += seen
    found = packets.only(order)
    found.interface, found.numbers = interfaces, None
    return found


@pytest.mark.parametrize(("seed", "way"), [(seed, WAYS[(5 * seed + seed // 6) % 6]) for seed in range(more(12))])
def test_many_at_a_time_are_as_one_by_one(parts: list[Packets], seed: int, way: str) -> None:
    """Lost, repeated, late and cut segments, short idle limits and carried states: rows, order, counts and states are equal.

    And wherever they were seen: `changing` by the part.
    """
    chance, idle_ms = random.Random(seed), (120_000, 2_000, 500)[seed % 3]
    one_by_one, many = Transcript(idle_ms), Transcript(idle_ms)
    endpoints = Endpoints()
    for number, whole in enumerate(parts):
        low = chance.randrange(PACKETS, len(whole.keys) - PACKETS)
        packets = whole.only([*range(PACKETS), *range(low, low + PACKETS)])
        for some in in_parts(cut_smaller(packets, chance) if seed % 2 else packets, chance):
            here = chance.choice(("plain", "one", "router", "host")) if way == "changing" else way
            seen = some if here == "plain" else sighted(some, here, chance)
            fed = with_accidents(seen, chance) if seed % 4 > 1 else seen
            singly = [row for segment in fed.segments(endpoints) for row in one_by_one.feed(segment, f"{number}")]
            together, _ = many.feed_all(fed, f"{number}")
            assert told(together) == told(singly)
    assert told(many.finish()) == told(one_by_one.finish())
    assert many.carry() == one_by_one.carry()
    assert many.counts == one_by_one.counts


def in_parts(packets: Packets, chance: random.Random) -> list[Packets]:
    """Return packets in some parts."""
    size = len(packets.keys)
    edges = sorted({0, size, *(chance.randrange(size) for _ in range(5))})
    return [packets.only(range(low, high)) for low, high in pairwise(edges)]
