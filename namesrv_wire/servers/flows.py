"""Which connection a segment belongs to, by where it comes from and goes to."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from namesrv_wire.packets.capture import ACK, SYN, Segment
from namesrv_wire.protocol.frames import decode_frame
from namesrv_wire.servers.server import Flow, Server
from namesrv_wire.streams.connection import Connection
from namesrv_wire.streams.cutting import plausible_start


class Flows:
    """The connections of all name servers, and of endpoints that may be one."""

    def __init__(self) -> None:
        self.by_ends: dict[tuple[str, str], Flow] = {}
        """By source and destination."""
        self._handshakes: dict[tuple[int, int], tuple[Server, Connection]] = {}

    def clear(self) -> None:
        """Forget all connections."""
        self.by_ends.clear()
        self._handshakes.clear()

    def connections(self) -> Iterator[Connection]:
        """Yield the connections, each once or more often."""
        return (flow[1] for flow in self.by_ends.values())

    def with_handshake(self, handshake: tuple[int, int]) -> tuple[Server, Connection] | None:
        """Return the connection that began with these sequence numbers of client and server."""
        return self._handshakes.get(handshake)

    def enter(self, server: Server, connection: Connection) -> None:
        """Note where a connection's segments come from and go to."""
        self.by_ends[connection.client, server.id] = _flow(server, connection, False)
        self.by_ends[server.id, connection.client] = _flow(server, connection, True)
        for ends in connection.others:
            self.also(server, connection, ends)
        if connection.handshake is not None:
            self._handshakes[connection.handshake] = server, connection

    def also(self, server: Server, connection: Connection, ends: tuple[str, str]) -> None:
        """Note that a connection is also seen between these two."""
        if ends not in connection.others:
            connection.others.append(ends)
        for way in (ends, ends[::-1]):
            self.by_ends[way] = _flow(server, connection, None)

    def leave(self, server: Server, connection: Connection) -> None:
        """Forget a connection."""
        for client, endpoint in ((connection.client, server.id), *connection.others):
            flow = self.by_ends.get((client, endpoint))
            if flow is not None and flow[1] is connection:
                del self.by_ends[client, endpoint]
                del self.by_ends[endpoint, client]
        if connection.handshake is not None:
            self._handshakes.pop(connection.handshake, None)


def _flow(server: Server, connection: Connection, from_server: bool | None) -> Flow:  # noqa: FBT001  a flow's third item
    there, back = (connection.half(from_server=way) for way in (bool(from_server), not from_server))
    return server, connection, from_server, there.stream, back.stream, there.cutter


def likely_servers(segment: Segment, known: Collection[str]) -> Iterator[tuple[bool, str]]:
    """Yield the endpoints that may be the server, likeliest first: (it sent the segment, endpoint); `known`: candidates."""
    src, dst, flags = segment.src, segment.dst, segment.flags
    if flags & SYN:
        yield (True, src) if flags & ACK else (False, dst)
        return
    if dst in known:
        yield False, dst
    if src in known:
        yield True, src
    if segment.payload and plausible_start(segment.payload):
        yield (True, src) if _is_answer(segment.payload) else (False, dst)


def _is_answer(payload: bytes) -> bool:
    """Return whether the frame that `payload` begins with is a response."""
    header_length = int.from_bytes(payload[5:8], "big")
    header = payload[4 : 8 + header_length]
    return decode_frame(len(header).to_bytes(4, "big") + header).is_response
