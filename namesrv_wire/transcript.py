"""Segments of a capture to rows.

Which endpoint is a name server, and which connection a segment belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from namesrv_wire.body_cache import BodyCache
from namesrv_wire.capture import ACK, RST, SYN, Segment
from namesrv_wire.carry import dump, end_rows, load
from namesrv_wire.connection import Connection
from namesrv_wire.frames import decode_frame, plausible_start
from namesrv_wire.limits import MAX_CANDIDATES
from namesrv_wire.rows import Row
from namesrv_wire.server import MAX_SYNS, Server
from namesrv_wire.tally import Tally

DEFAULT_IDLE_MS = 120_000
"""Source: both generations `NettyServerConfig.serverChannelMaxIdleTimeSeconds`."""


class Transcript:
    """Turns captures into rows of the bronze tables, per name server and connection.

    `idle_ms` is the name servers' idle limit, one for all or by `ip:port`. `namesrv` names the name servers;
    without it an endpoint counts as one once it answers a registry request, and its rows are held back until
    then. `carry` is what an earlier transcript's `carry()` returned: this one goes on where that one ended,
    and the rows of both together are those of one transcript of everything, where a later row replaces an
    earlier one with the same `event_id`.
    """

    def __init__(
        self,
        idle_ms: Mapping[str, int] | int = DEFAULT_IDLE_MS,
        namesrv: Collection[str] | None = None,
        carry: Mapping[str, str] | None = None,
    ) -> None:
        self._idle_ms = idle_ms
        self._namesrv = None if namesrv is None else frozenset(namesrv)
        self._bodies = BodyCache()
        self._servers: dict[str, Server] = {}
        self._flows: dict[tuple[str, str], tuple[Server, Connection, bool]] = {}
        self._packets = 0
        self._foreign_connections = 0
        self.counted_before: set[str] = set()
        """Events that an earlier transcript has counted, and of which rows may come again: they had no answer yet."""
        for namesrv_id in sorted(self._namesrv or ()):
            self._server(namesrv_id)
        for namesrv_id, state in (carry or {}).items():
            server = self._server(namesrv_id)
            for connection in load(server, state):
                self._enter(server, connection)
                waiting = (*connection.orphans, *connection.pending.values())
                self.counted_before.update(str(pending.values["event_id"]) for pending in waiting if pending.values)

    def feed(self, segment: Segment, source_file: str) -> list[Row]:
        """Return the rows that follow from one segment; segments come in capture order."""
        self._packets += 1
        flow = self._flows.get((segment.src, segment.dst))
        if flow is not None and not segment.flags & SYN:
            server, connection, from_server = flow
            server.begin(segment, source_file)
            server.segment(connection, segment, from_server=from_server)
            return server.ledger.take() if server.ledger.out else []
        found = self._server_of(segment)
        if found is None:
            return []
        server, from_server = found
        server.begin(segment, source_file)
        self._unknown(server, segment, flow, from_server=from_server)
        return server.ledger.take()

    def finish(self) -> list[Row]:
        """Return the rows that hold if no further segment comes.

        `carry()` afterwards lets a next transcript go on.
        """
        rows: list[Row] = []
        for server in self._servers.values():
            if server.confirmed:
                rows += end_rows(server)
        return rows

    def carry(self) -> dict[str, str]:
        """Return each name server's state as strict JSON, by `ip:port`; without secrets.

        Call after `finish()`.
        """
        return {namesrv_id: dump(server) for namesrv_id, server in self._servers.items()}

    def last_time_ns(self) -> dict[str, int]:
        """Return the time of the last packet of each name server."""
        return {namesrv_id: server.last_packet_ns for namesrv_id, server in self._servers.items() if server.confirmed}

    @property
    def counts(self) -> Tally:
        """The figures over all name servers; `packets` counts all segments that were fed."""
        total = Tally()
        for tally in self.counts_by_namesrv().values():
            total.add(tally)
        total.packets = self._packets
        total.foreign_connections = self._foreign_connections + sum(
            server.tally.connections for server in self._servers.values() if not server.confirmed
        )
        return total

    def counts_by_namesrv(self) -> dict[str, Tally]:
        """Return the figures of each name server, by `ip:port`."""
        return {namesrv_id: server.tally for namesrv_id, server in self._servers.items() if server.confirmed}

    def _server(self, namesrv_id: str) -> Server:
        server = self._servers.get(namesrv_id)
        if server is None:
            if len(self._servers) >= MAX_CANDIDATES:
                self._drop_candidate()
            idle_ms = self._idle_ms
            limit = idle_ms if isinstance(idle_ms, int) else idle_ms.get(namesrv_id, DEFAULT_IDLE_MS)
            confirmed = self._namesrv is not None and namesrv_id in self._namesrv
            server = Server(namesrv_id, limit, self._bodies, self._leave, confirmed=confirmed)
            self._servers[namesrv_id] = server
        return server

    def _drop_candidate(self) -> None:
        """Forget the endpoint that has been a candidate for longest."""
        for namesrv_id, server in self._servers.items():
            if not server.confirmed:
                self._foreign_connections += server.tally.connections
                for connection in list(server.connections.values()):
                    self._leave(server, connection)
                del self._servers[namesrv_id]
                return

    def _enter(self, server: Server, connection: Connection) -> None:
        self._flows[connection.client, server.id] = (server, connection, False)
        self._flows[server.id, connection.client] = (server, connection, True)

    def _leave(self, server: Server, connection: Connection) -> None:
        flow = self._flows.get((connection.client, server.id))
        if flow is not None and flow[1] is connection:
            del self._flows[connection.client, server.id]
            del self._flows[server.id, connection.client]

    def _server_of(self, segment: Segment) -> tuple[Server, bool] | None:
        """Return the server of a segment that belongs to no known connection.

        The flag says whether the server sent the segment.
        """
        flags = segment.flags
        for from_server, endpoint in self._order(segment):
            if self._namesrv is not None and endpoint not in self._namesrv:
                continue
            server = self._servers.get(endpoint)
            if server is None and (flags & SYN or segment.payload):
                server = self._server(endpoint)
            return None if server is None else (server, from_server)
        if self._namesrv is not None and flags & SYN and not flags & ACK:
            self._foreign_connections += 1
        return None

    def _order(self, segment: Segment) -> Iterator[tuple[bool, str]]:
        """Yield the endpoints that may be the server, likeliest first: (it sent the segment, endpoint)."""
        src, dst, flags = segment.src, segment.dst, segment.flags
        if flags & SYN:
            yield (True, src) if flags & ACK else (False, dst)
            return
        known = self._servers
        if dst in known:
            yield False, dst
        if src in known:
            yield True, src
        if segment.payload and plausible_start(segment.payload):
            is_answer = _is_answer(segment.payload)
            yield (True, src) if is_answer else (False, dst)

    def _unknown(
        self,
        server: Server,
        segment: Segment,
        flow: tuple[Server, Connection, bool] | None,
        *,
        from_server: bool,
    ) -> None:
        """Handle a segment outside the known connections.

        Attempts to connect, refusals, connections already open.
        """
        flags = segment.flags
        client = segment.dst if from_server else segment.src
        if flags & SYN and not flags & ACK:
            connection = server.connections.get(client)
            if connection is None or connection.syn_seq != segment.seq:
                server.syns[client] = segment.seq
                server.syns.move_to_end(client)
                if len(server.syns) > MAX_SYNS:
                    server.syns.popitem(last=False)
        elif flags & SYN:
            self._syn_ack(server, client, segment)
        elif flags & RST:
            if from_server and client in server.syns and (server.syns[client] + 1) & 0xFFFFFFFF == segment.ack:
                del server.syns[client]
                server.refused()
        elif segment.payload and flow is None:
            connection = server.joined(client)
            self._enter(server, connection)
            server.segment(connection, segment, from_server=from_server)

    def _syn_ack(self, server: Server, client: str, segment: Segment) -> None:
        syn_seq = (segment.ack - 1) & 0xFFFFFFFF
        earlier = server.connections.get(client)
        if earlier is not None:
            if earlier.syn_seq == syn_seq:
                return
            server.replaced(earlier)
        server.syns.pop(client, None)
        self._enter(server, server.accepted(client, syn_seq, segment.seq))


def _is_answer(payload: bytes) -> bool:
    """Return whether the frame that `payload` begins with is a response."""
    header_length = int.from_bytes(payload[5:8], "big")
    header = payload[4 : 8 + header_length]
    return decode_frame(len(header).to_bytes(4, "big") + header).is_response
