"""Captures of very many connections, and connections of very many frames: memory stays, and nothing gets lost."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from namesrv_wire.packets.segments import Segment
from namesrv_wire.rows import Counts
from namesrv_wire.servers.transcript import Transcript
from tests.wire.counted import accounted
from tests.wire.forge import MS_NS, NAMESRV, Talk, of_table, request, response, rows_of

ROUTE = 105


def connections(count: int) -> Iterator[Segment]:
    """Yield the packets of so many clients that come and never go: each tenth asks something, the others say nothing."""
    number, start_ns = 0, Talk().at_ns
    for client in range(count):
        talk = Talk(
            start_ns + client * MS_NS, f"10.0.{client >> 8 & 255}.{client & 255}:{20_000 + (client >> 16)}", gap_ns=1
        )
        talk.open()
        if client % 10 == 0:
            talk.exchange(ROUTE, {"topic": "T"}, opaque=client)
        for segment in talk.segments:
            number += 1
            yield segment._replace(packet_no=number)


def frames(count: int, *, answered: bool) -> Iterator[Segment]:
    """Yield the packets of one connection with so many questions."""
    talk = Talk(gap_ns=1_000).open()
    yield from talk.segments
    for opaque in range(count):
        talk.segments.clear()
        talk.ask(request(ROUTE, {"topic": "T"}, opaque=opaque))
        yield from (talk.answer(response(opaque)) if answered else talk).segments


def peak_of(segments: Iterable[Segment]) -> tuple[int, Counts]:
    """Return the most memory that reading takes beyond what it gives out, and what was met."""
    transcript = Transcript(namesrv=[NAMESRV])
    tracemalloc.start()
    try:
        for segment in segments:
            transcript.feed([segment], "many.pcap")
        return tracemalloc.get_traced_memory()[1], transcript.counts
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_more_connections_than_are_watched_take_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twice the connections as many are watched as before, and all frames are accounted for."""
    monkeypatch.setattr("namesrv_wire.servers.server.MAX_CONNECTIONS", 200)
    # Of fewer than some 2,000 not all that is kept is full.
    (few, _), (many, counts) = (peak_of(connections(count)) for count in (2_400, 4_800))
    assert many <= 1.2 * few
    assert (counts.frames, counts.observations) == (960, 480)
    assert counts.frames + counts.pieces == accounted(counts)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [True, False])
def test_more_frames_of_a_connection_take_no_more_memory(monkeypatch: pytest.MonkeyPatch, answered: bool) -> None:  # noqa: FBT001
    """Questions that are never answered are forgotten beyond a limit; all frames are accounted for."""
    monkeypatch.setattr("namesrv_wire.servers.exchange.MAX_PENDING", 200)
    (few, _), (many, counts) = (peak_of(frames(count, answered=answered)) for count in (800, 3_200))
    assert many <= 1.2 * few
    assert counts.frames == accounted(counts) == 3_200 * (1 + answered)
    assert counts.observations == 3_200 * answered


def test_more_connections_with_holes_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each the capture has lost a segment; those beyond the limit are forgotten with what waits behind it."""
    monkeypatch.setattr("namesrv_wire.servers.server.MAX_CONNECTIONS", 5)
    transcript = Transcript(namesrv=[NAMESRV])
    for number in range(500):
        talk = Talk(Talk().at_ns + number * MS_NS, f"10.0.0.2:{20_000 + number}", gap_ns=1).open()
        talk.ask(request(ROUTE, {"topic": "T"})).ask(request(ROUTE, {"topic": "U"})).answer(response(1))
        transcript.feed([*talk.segments[:2], *talk.segments[3:]], "forged.pcap")
    (server,) = transcript._servers.values()
    assert len(server.connections) <= 5
    assert server.holed.keys() <= server.connections.keys()


def test_a_brokers_connection_outlives_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many strangers come, the connection of a broker is watched: its close is known."""
    monkeypatch.setattr("namesrv_wire.servers.server.MAX_CONNECTIONS", 50)
    broker = Talk().open().exchange(103, {"brokerName": "b", "brokerAddr": "a:1", "brokerId": "0", "clusterName": "C"})
    opened = broker.segments[:]
    broker.wait(30_000 * MS_NS).client_fin().server_fin()
    rows = rows_of([*opened, *connections(2_000), *broker.segments[len(opened) :]])
    closed = [row["channel_id"] for row in of_table(rows, "channel_events") if row["kind"] == "close"]
    assert [channel.partition("#")[0] for channel in closed] == [broker.client]


def brokers(count: int) -> list[Talk]:
    """Return conversations of so many brokers, a millisecond apart, each of which registers."""
    named = {"brokerName": "b", "brokerAddr": "a:1", "brokerId": "0", "clusterName": "C"}
    ends = (f"10.{number >> 8}.{number & 255}.2:20000" for number in range(count))
    return [Talk(Talk().at_ns + at * MS_NS, end, gap_ns=1).open().exchange(103, named) for at, end in enumerate(ends)]


@pytest.mark.parametrize("is_carried", [False, True])
def test_of_more_brokers_than_are_watched_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
    is_carried: bool,  # noqa: FBT001
) -> None:
    """Each costs the same, however many there are; a stranger among them goes first, also behind the end of a capture."""
    count = 3_000
    monkeypatch.setattr("namesrv_wire.servers.server.MAX_CONNECTIONS", count)
    transcript, talks = Transcript(namesrv=[NAMESRV]), brokers(2 * count)
    stranger = Talk(talks[count // 2].at_ns, "192.0.2.1:4000", gap_ns=1).open()
    began = time.process_time()
    for number, talk in enumerate(talks):
        transcript.feed([*talk.segments, *(stranger.segments if number == count // 2 else [])], "many.pcap")
        if number == count - 2 and is_carried:
            transcript = Transcript(namesrv=[NAMESRV], carry=transcript.carry())
    (server,) = transcript._servers.values()
    kept = len(server.connections)
    assert list(server.connections) == [talk.client for talk in talks[-kept:]]
    assert 0.95 * count < kept <= count
    assert time.process_time() - began < 5


@pytest.mark.parametrize("stands_still", [False, True])
def test_a_stop_of_many_takes_no_longer(stands_still: bool) -> None:  # noqa: FBT001
    """A name server closes all its brokers' connections at once: each costs the same, however many there are.

    It stops, unless the last of them has waited for an answer for long: it may have stood still, and go on.
    """
    transcript, talks = Transcript(namesrv=[NAMESRV]), brokers(4_000)
    talks[-1].ask(request(ROUTE, {"topic": "T"}, opaque=7))
    transcript.feed((segment for talk in talks for segment in talk.segments), "many.pcap")
    began, stops_ns = time.process_time(), talks[-1].at_ns + (10_000 * MS_NS if stands_still else MS_NS)
    for number, talk in enumerate(talks):
        known, talk.at_ns = len(talk.segments), stops_ns + number * 1_000
        transcript.feed(talk.server_fin().segments[known:], "many.pcap")
    (server,) = transcript._servers.values()
    assert server.life is not None
    assert server.life.burst is not None
    assert (server.life.burst.count, server.life.burst.is_end) == (4_000, not stands_still)
    assert time.process_time() - began < 1
