"""Packets that a capture shows more than once: on several interfaces, and on both sides of an address translation.

One sighting is taken, the one nearest to the name server: what it sent where it came from, what it got where it went to.
What was lost on its way there was seen once, and never reached it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from namesrv_wire.packets.segments import FIN, INCOMING, OUTGOING, RST, Segment
from namesrv_wire.streams.connection import Connection

SIGHTING_NS: Final = 20_000_000
"""Sightings of a packet are no further apart; seen: 10 to 60 µs."""
ASIDE_NS: Final = 3_000_000_000
"""How long a client's segment on an unknown connection waits for another sighting, or for a word of the name server: what
was lost behind the first sighting is sent again."""
BEGINNING_NS: Final = 1_000_000
"""What comes so early may be the later sighting of something that came before the capture."""
_MAX_ASIDE: Final = 1_024
_MAX_RECENT: Final = 1_024
_MAX_PLACES: Final = 64
MAX_SYNS: Final = 8_192

Flow = tuple[str, str]
"""A connection by client and name server."""


def is_elsewhere(connection: Connection, segment: Segment, *, from_server: bool) -> bool:
    """Return whether a segment of a connection was seen on another interface than the name server's.

    Learns which that is: where something new of the name server is seen first, if the client's segments are seen there
    too; none, where ways there and back differ. In another file interfaces may have other numbers: something new is then seen
    elsewhere, and the side is learned anew.
    """
    here = place_of(segment.interface, from_server=from_server)
    if not from_server:
        if len(connection.client_seen) < _MAX_PLACES:
            connection.client_seen.add(here)
        return connection.side is not None and here != connection.side
    if here == connection.side:
        return False
    if not _is_news(connection, segment):
        return connection.side is not None
    # If there was a side, something has passed it unseen: it is no longer known.
    connection.side = here if connection.side is None and here in connection.client_seen else None
    return False


def is_at_its_side(connection: Connection, interface: int, *, from_server: bool) -> bool:
    """Return whether a segment was seen on the interface that is known to be the name server's: `is_elsewhere` says no."""
    return place_of(interface, from_server=from_server) == connection.side


def place_of(interface: int, *, from_server: bool) -> int:
    """Return the side of a capture that only tells coming from going: 1 is the name server's, seen from a router."""
    if interface not in (OUTGOING, INCOMING):
        return interface
    return int((interface == OUTGOING) != from_server)


def _is_news(connection: Connection, segment: Segment) -> bool:
    """Return whether a segment of the name server has bytes, or an end of the connection, that were not seen before."""
    if segment.flags & (FIN | RST):
        return connection.closed_ns is None
    next_seq = connection.from_server.stream.next_seq
    if next_seq is None or not segment.payload:
        return bool(segment.payload)
    ahead = (segment.seq + len(segment.payload) + segment.lost - next_seq) & 0xFFFFFFFF
    return 0 < ahead < 1 << 31


class Aside(NamedTuple):
    """A segment that waits, and the file it is from."""

    segment: Segment
    source_file: str


class Sightings:
    """Which connections are one: equal numbers in both handshakes, or equal numbers and bytes at the same time."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[int, int], tuple[int, bytes, Flow]] = OrderedDict()
        """Times and payloads of the last segments with payload or from a name server, by sequence number and acknowledgement."""
        self.aside: OrderedDict[Flow, list[Aside]] = OrderedDict()
        """First segments of connections that were open before the capture: they wait."""

    def note(self, place: tuple[int, int], time_ns: int, payload: bytes, flow: Flow) -> Flow | None:
        """Remember a segment; return of which other connection it was seen just before, if of any.

        `place`: its sequence number and acknowledgement.
        """
        earlier = self._recent.get(place)
        if earlier is not None and earlier[2] != flow:
            before_ns, before, of_flow = earlier
            if before == payload and abs(time_ns - before_ns) <= SIGHTING_NS:
                return of_flow
        self._recent[place] = time_ns, payload, flow
        if len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        return None

    def waited(self, flow: Flow) -> list[Aside]:
        """Return the segments of a connection that wait, and let them wait no longer."""
        return self.aside.pop(flow, [])

    def due(self, time_ns: int | None) -> list[Aside]:
        """Return the segments that have waited long enough at `time_ns`; all of them for None."""
        due: list[Aside] = []
        while self.aside:
            waiting = next(iter(self.aside.values()))
            is_waiting = time_ns is not None and 0 <= time_ns - waiting[0].segment.time_ns <= ASIDE_NS
            if is_waiting and len(self.aside) <= _MAX_ASIDE and len(waiting) <= _MAX_ASIDE:
                break
            due += self.aside.popitem(last=False)[1]
        return due


class Attempts:
    """SYNs of one name server's clients without an answer."""

    def __init__(self) -> None:
        self.syns: OrderedDict[str, int] = OrderedDict()
        """Client and sequence number."""
        self.seen: dict[str, set[int]] = {}
        """Interfaces on which these were seen."""

    def note(self, client: str, segment: Segment) -> None:
        """Note a SYN, or another sighting of one."""
        if self.syns.get(client) != segment.seq:
            self.seen.pop(client, None)
        self.syns[client] = segment.seq
        self.syns.move_to_end(client)
        if segment.interface:
            self.seen.setdefault(client, set()).add(place_of(segment.interface, from_server=False))
        if len(self.syns) > MAX_SYNS:
            self.seen.pop(self.syns.popitem(last=False)[0], None)

    def is_refused(self, client: str, ack: int, *, is_seen_twice: bool) -> bool:
        """Return whether a RST refuses an attempt; it is forgotten, also as seen on the other side of an address translation."""
        seq = self.syns.get(client)
        if seq is None or (seq + 1) & 0xFFFFFFFF != ack:
            return False
        for other in [client, *(c for c, s in self.syns.items() if is_seen_twice and s == seq)]:
            self.forget(other)
        return True

    def forget(self, client: str) -> set[int]:
        """Forget a client's attempt; return on which interfaces it was seen."""
        self.syns.pop(client, None)
        return self.seen.pop(client, set())
