"""Packets that a capture shows more than once: `-i any` on a router, before and after an address translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from namesrv_wire.packets.segments import INCOMING, OUTGOING, Segment
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from tests.places import recorded
from tests.wire.counted import read_capture
from tests.wire.forge import (
    EPOCH_NS,
    MS_NS,
    NAMESRV,
    REGISTER,
    SECOND_NS,
    Talk,
    final,
    merged,
    request,
    response,
    rows_of,
)

INNER, OUTER = "10.0.0.2:40000", "192.0.2.1:50000"
"""A client as it calls itself, and as the name server knows it."""
CLIENTS_SIDE, SERVERS_SIDE = 3, 7
HOP_NS = 30_000


def brokers(start_ns: int = EPOCH_NS) -> list[Segment]:
    """Return what the name server's host sees of two brokers: one behind a translation, one that is not."""
    talks = []
    for client, seq in ((OUTER, 1_000), ("10.0.0.3:40000", 5_000)):
        talk = Talk(client=client, start_ns=start_ns + seq * 1_000, client_seq=seq, server_seq=9 * seq).open()
        talk.ask(REGISTER).answer(response(3)).wait(SECOND_NS)
        for opaque in range(4, 9):
            talk.exchange(105, {"topic": "T"}, opaque=opaque).ask(request(904, {"brokerName": "b"}, flag=2))
            talk.wait(SECOND_NS)
        talks.append(talk.client_fin().server_fin())
    return merged(*talks)


def by_router(segments: Iterable[Segment], interface: Callable[[bool, bool], int]) -> list[Segment]:
    """Return what a router sees: each segment coming and going, what is before the translation with the client's own address.

    `interface`: of a sighting, by whether it is on the server's side and whether the server sent it.
    """
    seen = []
    for segment in segments:
        sent = segment.src == NAMESRV
        inner = segment._replace(
            src=INNER if segment.src == OUTER else segment.src, dst=INNER if segment.dst == OUTER else segment.dst
        )
        for is_servers, view in ((True, segment), (False, inner)):
            hops = HOP_NS * (is_servers != sent)
            seen.append(view._replace(time_ns=segment.time_ns + hops, interface=interface(is_servers, sent)))
    seen.sort(key=lambda segment: segment.time_ns)
    return [segment._replace(packet_no=number) for number, segment in enumerate(seen, 1)]


def numbered(is_servers: bool, sent: bool) -> int:  # noqa: FBT001, ARG001
    """Return the interface as `-i any` numbers it today."""
    return SERVERS_SIDE if is_servers else CLIENTS_SIDE


def coming_or_going(is_servers: bool, sent: bool) -> int:  # noqa: FBT001
    """Return what the first cooked format tells."""
    return INCOMING if is_servers == sent else OUTGOING


def said(rows: Iterable[AnyRow]) -> Counter[str]:
    """Return what rows say, but for times and what follows from them."""
    unlike = ("seq", "event_id", "event_time", "effect_time", "request_seq", "channel_id", "silent_ms", "quarantine_id")
    return Counter(
        f"{table} {str(values.get('channel_id')).split('#')[0]} "
        f"{sorted((name, str(value)) for name, value in values.items() if name not in unlike)}"
        for (table, _), values in final(rows).items()
    )


@pytest.mark.parametrize("interface", [numbered, coming_or_going])
def test_a_router_shows_what_the_server_saw(interface: Callable[[bool, bool], int]) -> None:
    """Equal rows, in the name server's view of addresses; what was seen before is counted and nothing else."""
    here = brokers()
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(by_router(here, interface), transcript)
    assert said(rows) == said(rows_of(here))
    assert INNER not in str(rows)
    assert (transcript.counts.packets, transcript.counts.sightings) == (
        2 * len(here),
        len(here) - 3,
    )  # but for handshakes


@pytest.mark.parametrize("begin", range(4, 12))
def test_a_recording_that_begins_later_takes_the_same_side(begin: int) -> None:
    """Without a handshake, equal numbers and bytes at one time tell that connections are one."""
    here = brokers()[begin:]
    there = by_router(brokers(), numbered)
    there = [segment for segment in there if segment.time_ns >= here[0].time_ns]
    assert said(rows_of(there)) == said(rows_of(here))


def test_what_was_lost_behind_the_router_is_read_when_it_comes_again() -> None:
    """The first sighting never reached the name server: the request arrives with the second try."""
    talk = Talk().open().ask(REGISTER)
    lost = talk.segments[-1]
    again = lost._replace(time_ns=lost.time_ns + 300 * MS_NS)
    seen = by_router([*talk.segments[:-1], again], numbered)
    seen.insert(4, lost._replace(interface=CLIENTS_SIDE))
    (row,) = [row for row in rows_of(seen) if row.table == "registrations"]
    assert row.values["event_time"] == (again.time_ns + HOP_NS) // 1_000


@pytest.mark.parametrize("moved", [None, *range(3, 26)])
def test_what_goes_over_two_interfaces_in_turn_loses_nothing(moved: int | None) -> None:
    """A host may get on one and send on the other (None): neither is then a second sighting.

    Where a link fails over, what was seen on the other one alone, and is acknowledged, has reached the name server.
    """
    here = brokers()
    others = [segment.src == NAMESRV if moved is None else number >= moved for number, segment in enumerate(here)]
    seen = [segment._replace(interface=1 + is_other) for segment, is_other in zip(here, others, strict=True)]
    transcript = Transcript(namesrv=[NAMESRV])
    assert said(rows_of(seen, transcript)) == said(rows_of(here))
    assert transcript.counts.sightings == 0


def test_interfaces_of_another_file_have_other_numbers() -> None:
    """The side is learned anew in each file; the other side of a translation is remembered over the end of a capture."""
    seen = by_router(brokers(), numbered)
    first, rest = seen[:21], [segment._replace(interface=segment.interface + 1) for segment in seen[21:]]
    transcript = Transcript(namesrv=[NAMESRV])
    rows = transcript.feed(first, "a") + transcript.finish()
    transcript = Transcript(namesrv=[NAMESRV], carry=transcript.carry())
    rows += transcript.feed(rest, "b") + transcript.finish()
    assert said(rows) == said(rows_of(brokers()))


def test_a_packet_that_the_capture_missed_on_one_side_is_taken_from_the_other() -> None:
    """An answer that was only seen on the client's side is an answer."""
    seen = by_router(brokers(), numbered)
    missed = next(s for s in seen if s.src == NAMESRV and s.payload and s.interface == SERVERS_SIDE and s.dst != OUTER)
    rows = rows_of([segment for segment in seen if segment is not missed])
    assert said(rows) == said(rows_of(brokers()))


def test_refused_attempts_behind_a_translation_are_one() -> None:
    """What is refused is counted once: the count is the evidence of a start."""
    seen = by_router(
        merged(Talk(client=OUTER).refused(), Talk(client=OUTER, start_ns=EPOCH_NS + SECOND_NS).open()), numbered
    )
    (fact,) = [row.values for row in rows_of(seen) if row.table == "namesrv_events"]
    assert fact["evidence"] == "first accepted connection after 1 refused"


@pytest.mark.slow
def test_one_life_seen_by_a_host_and_by_a_router() -> None:
    """Two real servers, brokers behind a translation, 1 % loss: rows of the same content, times apart by some milliseconds."""
    folder = recorded("network")
    host, router = (rows_of(read_capture(folder / f"{name}.pcap.gz"), Transcript()) for name in ("host", "any"))
    assert said(host) == said(router)
    times = [
        sorted(
            str((row.table, row.values.get("namesrv_id"), row.values["event_time"] // 1_000_000))
            for row in rows
            if "seq" in row.values
        )
        for rows in (host, router)
    ]
    assert len(times[0]) == len(times[1]) > 11_000
