"""Attempts to connect that have no answer yet."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from namesrv_wire.packets.capture import Segment
from namesrv_wire.streams.sightings import place_of

MAX_SYNS: Final = 8_192


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
