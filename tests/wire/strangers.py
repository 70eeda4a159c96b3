"""Puts connections of strangers into a capture: what anybody does who reaches a name server's port, as real ones answer it."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from namesrv_wire.packets.segments import ACK, FIN, RST, SYN
from tests import pcap
from tests.pcap import Record
from tests.wire.forge import Talk, ip_packet, register_json, request, response
from tests.wire.openings import V1

_MS = 1_000
_S = 1_000 * _MS
ADDRESS = "203.0.113.9"
"""Where strangers come from; no capture has it."""
NO_SUCH_TOPIC = "no such topic"
"""What they ask for."""
HTTP = b"GET / HTTP/1.1\r\nHost: namesrv\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(193))
ALERT = bytes.fromhex("15030300020228")


class Step(NamedTuple):
    """What one side sends, so many microseconds after the step before."""

    after_us: int
    from_server: bool
    flags: int
    payload: bytes = b""


def _client(after_us: int, flags: int = ACK, payload: bytes = b"") -> Step:
    return Step(after_us, False, flags, payload)


def _server(after_us: int, flags: int = ACK, payload: bytes = b"") -> Step:
    return Step(after_us, True, flags, payload)


def asking(*asked: tuple[bytes, bytes], after_us: int = _S) -> tuple[Step, ...]:
    """Return the steps of a client that sends requests, each so long after the last answer, and is answered."""
    said = (step for one, other in asked for step in (_client(after_us, payload=one), _server(300, payload=other)))
    return (*_OPEN, *said, *_closed(5 * _MS, _CLOSED_BY_CLIENT))


_OPEN = (_client(0, SYN), _server(60, SYN | ACK), _client(40))
_CLOSED_BY_SERVER = (_server(0, FIN | ACK), _client(200, FIN | ACK), _server(50))
_CLOSED_BY_CLIENT = (_client(0, FIN | ACK), _server(400, FIN | ACK), _client(50))


def _closed(after_us: int, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return (steps[0]._replace(after_us=after_us), *steps[1:])


def strangers(version: int) -> dict[str, tuple[Step, ...]]:
    """Return what strangers do, by name. `version`: the protocol version that the name server states in its answers.

    A bad frame ends a connection some milliseconds later, by the server; a silent one ends after 120 s.
    """
    asked = request(105, {"topic": NO_SUCH_TOPIC}, opaque=1, version=version)
    site = (
        "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
        if version > 450
        else "http://rocketmq.apache.org/docs/faq/"
    )
    remark = f"No topic route info in name server for the topic: {NO_SUCH_TOPIC}\nSee {site} for further details."
    told = response(code=17, version=version, remark=remark)
    half = request(103, {"brokerName": "nobody"}, register_json({"T": 4}), opaque=3)
    return {
        "http": (*_OPEN, _client(90, payload=HTTP), *_closed(3 * _MS, _CLOSED_BY_SERVER)),
        "zeros": (*_OPEN, _client(90, payload=bytes(64)), *_closed(19 * _MS, _CLOSED_BY_SERVER)),
        "zero, at once": (*_OPEN, _client(90, payload=bytes(4)), *_closed(80, _CLOSED_BY_SERVER)),
        "half a frame, then gone": (*_OPEN, _client(90, payload=half[:70]), *_closed(2 * _S, _CLOSED_BY_CLIENT)),
        "half a frame, then nothing": (*_OPEN, _client(90, payload=half[:70]), *_closed(120 * _S + 2_000, _CLOSED_BY_SERVER)),
        "half a frame, then reset": (*_OPEN, _client(90, payload=half[:70]), _client(50 * _MS, RST)),
        "silent": (*_OPEN, *_closed(120 * _S + 3_000, _CLOSED_BY_SERVER)),
        "silent, then gone": (*_OPEN, *_closed(7 * _S, _CLOSED_BY_CLIENT)),
        "no third packet": (_client(0, SYN), _server(60, SYN | ACK), _client(40, RST)),
        "never opened": (_client(0, SYN),),
        "a question": (*_OPEN, _client(90, payload=asked), _server(300, payload=told), *_closed(5 * _MS, _CLOSED_BY_CLIENT)),
        "a question, then rubbish": (
            *_OPEN, _client(90, payload=asked), _server(300, payload=told), _client(2 * _MS, payload=HTTP),
            *_closed(2 * _MS, _CLOSED_BY_SERVER),
        ),
        "proxy": (
            *_OPEN, _client(90, payload=V1 + asked), _server(300, payload=told), *_closed(5 * _MS, _CLOSED_BY_CLIENT)
        ),
        "tls": (
            *_OPEN, _client(90, payload=HELLO), _server(3 * _MS, payload=ALERT), *_closed(200, _CLOSED_BY_SERVER),
        ),
    }  # fmt: skip


def with_strangers(
    capture: Path,
    out: Path,
    servers: Sequence[tuple[str, int]],
    at_s: Sequence[float],
    kinds: Sequence[str] = (),
    more: Mapping[str, tuple[Step, ...]] | None = None,
) -> int:
    """Write `capture` (classic pcap) with strangers at (address and port, protocol version) of name servers.

    At each of the times, in seconds from the first packet, one of each kind comes 20 ms after the one before. Their packets
    are seen where those of another client are, and are cut as these. `more`: other kinds, by name. Returns how many connections
    there are in all.
    """
    data = gzip.decompress(capture.read_bytes())
    packets, longest = list(pcap.records(data)), int.from_bytes(data[16:20], "little")
    size = _LINK_HEADERS[int.from_bytes(data[20:24], "little")]
    added: list[Record] = []
    number = 0
    for server, version in servers:
        steps, headers = strangers(version) | dict(more or {}), _headers(packets, size, server)
        for at in at_s:
            for place, kind in enumerate(kinds or steps):
                number += 1
                begin_us = packets[0].time_us + int(at * _S) + place * 20 * _MS
                added += (
                    Record(at_us, (header + ip)[:longest], len(header + ip))
                    for at_us, from_server, ip in _connection(steps[kind], server, 1_024 + number, begin_us)
                    for header in headers[from_server]
                )
    last_us = packets[-1].time_us
    kept = sorted([*packets, *(packet for packet in added if packet.time_us <= last_us)], key=lambda one: one.time_us)
    content = pcap.capture(data, kept)
    out.write_bytes(gzip.compress(content, 1) if out.suffix == ".gz" else content)
    return number


_LINK_HEADERS = {1: 14, 276: 20}
"""Bytes before the IP header: Ethernet, and Linux cooked v2, in which a router sees each packet twice."""


def _headers(packets: Sequence[Record], size: int, server: str) -> tuple[list[bytes], list[bytes]]:
    """Return the link headers with which packets of a client are seen on their way to the server, and back."""
    host, port = server.rsplit(":", 1)
    mine = socket.inet_aton(host) + int(port).to_bytes(2, "big")
    found: dict[bytes, tuple[dict[bytes, bytes], dict[bytes, bytes]]] = {}
    for packet in packets:
        ip = packet.frame[size:]
        ends = ip[12:16] + ip[20:22], ip[16:20] + ip[22:24]
        if ip[0] >> 4 == 4 and ip[9] == 6 and mine in ends:
            back = ends[0] == mine
            # The last two bytes of a cooked header are left as they were in memory.
            found.setdefault(ends[back], ({}, {}))[back].setdefault(packet.frame[: size - 2], packet.frame[:size])
    there, back_again = max(found.values(), key=lambda seen: len(seen[0]) + len(seen[1]))
    return list(there.values()), list(back_again.values())


def _connection(steps: Sequence[Step], server: str, port: int, begin_us: int) -> Iterator[tuple[int, bool, bytes]]:
    """Yield when a packet of the connection is sent, whether the server sends it, and the packet."""
    talk = Talk(begin_us * 1_000, f"{ADDRESS}:{port}", server, 1_000_000 + port, 7_000_000 + port, gap_ns=0)
    for after_us, from_server, flags, payload in steps:
        talk.wait(after_us * 1_000).add(from_server, flags, payload)
    for segment in talk.segments:
        yield segment.time_ns // 1_000, segment.src == server, ip_packet(segment)
