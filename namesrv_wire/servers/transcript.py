"""Segments of a capture to rows: which endpoint is a name server, and which connection a segment belongs to.

At the end of a capture some rows hold for now only, and a state is left from which the next capture goes on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from namesrv_wire.errors import MAX_CANDIDATES, WireError
from namesrv_wire.json_text import canonical_json
from namesrv_wire.packets.segments import ACK, FIN, RST, SYN, Segment
from namesrv_wire.protocol.frames import decode_frame
from namesrv_wire.protocol.requests import KnownFrames
from namesrv_wire.rows import REVOKED, AnyRow, Counts, FrameRow, Place, Row
from namesrv_wire.servers.recording import UP, Hole, Life, Silence, Start
from namesrv_wire.servers.server import Flow, Server
from namesrv_wire.streams.connection import LATE_NS, Connection
from namesrv_wire.streams.cutting import plausible_start
from namesrv_wire.streams.sightings import BEGINNING_NS, Aside, Sightings, is_at_its_side

CARRY_SCHEMA: Final = "namesrv-carry/9"
_OF_LEDGER: Final = ("confirmed", "time_ns", "written_ns", "doubted_ns", "last_slot", "version", "provisional")
_OF_RECORDING: Final = ("last_packet_ns", "hole", "hole_end_ns", "silences", "start", "whole_since_ns", "is_behind")


def end_rows(server: Server) -> list[AnyRow]:
    """Return the rows that hold if nothing more is read.

    Earlier such rows that no longer hold are revoked.

    Unanswered requests of open connections take effect at their arrival; connections silent beyond the idle
    limit are closed by its timer; a name server that closed all its connections at once has stopped; one that started behind a
    silence has not started in it.
    """
    rows: list[FrameRow] = []
    for connection in server.connections.values():
        if connection.closed_ns is not None:
            continue
        rows += [pending.row for pending in connection.waiting if pending.row is not None]
        if connection.idle_ns is not None and server.recording.last_packet_ns > connection.idle_ns + LATE_NS:
            rows += server.endings.timer_rows(connection)
    start = server.recording.start
    if start is not None:
        rows.append(server.ledger.fact_row("started", start.evidence, start.seq, start.place))
    burst = None if server.life is None else server.life.burst
    if burst is not None and burst.complete and burst.count >= 2 and server.life and server.life.state == UP:
        place = Place(*burst.source, burst.first_ns)
        rows.append(server.ledger.fact_row("stopped", burst.evidence, burst.seq, place))
    now = {row.event_id: row.table for row in rows}
    gone = {event_id: table for event_id, table in server.ledger.provisional.items() if event_id not in now}
    server.ledger.provisional = now
    return [*rows, *(Row(REVOKED, {"table": table, "event_id": event_id}) for event_id, table in gone.items())]


def dump(server: Server) -> str:
    """Return a name server's state as strict JSON; call `end_rows` before."""
    ledger, recording, confirmed = server.ledger, server.recording, server.ledger.confirmed
    state = {
        "schema": CARRY_SCHEMA,
        "namesrv_id": server.id,
        "ledger": {name: getattr(ledger, name) for name in _OF_LEDGER},
        "recording": {name: getattr(recording, name) for name in _OF_RECORDING},
        "life": server.life and asdict(server.life),
        "syns": list(server.attempts.syns.items()),
        "held": list(ledger.held),
        "tally": {} if confirmed else {name: getattr(server.counts, name) for name in Counts.__slots__},
    }
    texts = {name: canonical_json(value) for name, value in state.items()}
    # One by one: as objects many connections take far more memory than as text.
    texts["open"], texts["overdue"], texts["closed"] = (
        f"[{','.join(canonical_json(connection.dump(server.recording.last_packet_ns)) for connection in connections)}]"
        for connections in (server.idle.open.values(), server.idle.overdue.values(), server.endings.lingering.values())
    )
    members = ",".join(f'"{name}":{texts[name]}' for name in sorted(texts))
    return f"{{{members}}}"


def load(server: Server, text: str) -> list[Connection]:
    """Put a state from `dump` into a new server and return its connections. Raises `WireError` for anything else."""
    try:
        state: dict[str, Any] = json.loads(text)
        if state["schema"] == CARRY_SCHEMA and state["namesrv_id"] == server.id:
            return _restored(server, state)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"state of {server.id} is no {CARRY_SCHEMA}: {error!r}") from error
    raise WireError(f"state of {server.id}: schema {state['schema']}, {CARRY_SCHEMA} expected")


def _restored(server: Server, state: dict[str, Any]) -> list[Connection]:
    ledger, recording, confirmed = server.ledger, server.recording, server.ledger.confirmed
    for of, names in ((ledger, _OF_LEDGER), (recording, _OF_RECORDING)):
        for name in names:
            setattr(of, name, state["ledger" if of is ledger else "recording"][name])
    ledger.confirmed |= confirmed
    recording.hole = recording.hole and Hole(*recording.hole)
    recording.silences = [Silence(*silence) for silence in recording.silences]
    recording.start = recording.start and Start(*recording.start[:2], Place(*recording.start[2]))
    server.will_purge_after(recording.last_packet_ns)
    server.life = state["life"] and Life.load(state["life"])
    server.attempts.syns.update(state["syns"])
    ledger.held.extend(Row(*row) if len(row) == len(Row._fields) else FrameRow(*row) for row in state["held"])
    ledger.counts.load(state["tally"])
    connections = []
    for name in ("open", "overdue", "closed"):
        for described in state[name]:
            connection = Connection.load(described)
            connections.append(connection)
            server.connections[connection.client] = connection
            if name == "closed":
                server.endings.lingering[connection.client] = connection
            else:
                server.idle.restore(connection)
                server.watch(connection)
    return connections


def _flow(server: Server, connection: Connection, from_server: bool | None) -> Flow:  # noqa: FBT001  a flow's third item
    there, back = (connection.half(from_server=way) for way in (bool(from_server), not from_server))
    return server, connection, from_server, there.stream, back.stream, there.cutter


_OPENS_OR_ENDS: Final = SYN | FIN | RST
DEFAULT_IDLE_MS = 120_000
"""Source: both generations `NettyServerConfig.serverChannelMaxIdleTimeSeconds`."""


class Transcript:
    """Turns captures into rows of the bronze tables, per name server and connection.

    `idle_ms` is the name servers' idle limit, one for all or by `ip:port`. An endpoint counts as a name server once it answers a
    registry request, and its rows are held back until then; those that `namesrv` names count as one from the beginning.
    `carry` is what an earlier transcript's `carry()` returned: this one goes on where that one ended, and the rows of both together
    are those of one transcript of everything, where a later row replaces an earlier one with the same `event_id`.
    """

    def __init__(
        self,
        idle_ms: Mapping[str, int] | int = DEFAULT_IDLE_MS,
        namesrv: Collection[str] = (),
        carry: Mapping[str, str] | None = None,
    ) -> None:
        self._idle_ms = idle_ms
        self._namesrv = frozenset(namesrv)
        self._frames = KnownFrames()
        self._servers: dict[str, Server] = {}
        self._by_ends: dict[tuple[str, str], Flow] = {}
        """Connections of all name servers, and of endpoints that may be one, by source and destination."""
        self._handshakes: dict[tuple[int, int], tuple[Server, Connection]] = {}
        self._sightings = Sightings()
        self._packets = 0
        self._first_ns = 0
        self._rows: list[AnyRow] = []
        """What all of them have written since `_new_rows`."""
        self.counted_before: set[str] = set()
        """Events that an earlier transcript has counted, and of which rows may come again: they had no answer yet."""
        for namesrv_id in sorted(self._namesrv):
            self._server(namesrv_id)
        for namesrv_id, state in (carry or {}).items():
            server = self._server(namesrv_id)
            for connection in load(server, state):
                self._enter(server, connection)
                self.counted_before.update(pending.row.event_id for pending in connection.waiting if pending.row)

    def feed(self, segments: Iterable[Segment], source_file: str) -> list[AnyRow]:
        """Return the rows that follow from segments, which come in capture order. Those of each name server are in order."""
        flows, aside, note = self._by_ends, self._sightings.aside, self._sightings.note
        for segment in segments:
            self._packets += 1
            number, time_ns, src, dst, seq, ack, flags, payload, lost, interface = segment
            flow = None if flags & _OPENS_OR_ENDS or lost or aside else flows.get((src, dst))
            # Which of several sightings is taken is found out packet by packet, until the name server's side is known.
            if (
                flow is None
                or flow[2] is None
                or (interface and not is_at_its_side(flow[1], interface, from_server=flow[2]))
            ):
                self._first_ns = self._first_ns or time_ns
                for waited in self._sightings.due(time_ns):
                    self._feed(*waited, has_waited=True)
                self._feed(segment, source_file)
                continue
            server, connection, from_server = flow[0], flow[1], flow[2]
            if interface and (payload or from_server):
                note((seq, ack), time_ns, payload, (connection.client, server.id))
            if not server.go_on(flow, time_ns, (source_file, number), seq, ack, flags, payload):
                self._take(server, connection, segment, from_server=from_server)
        return self._new_rows()

    def _new_rows(self) -> list[AnyRow]:
        rows = self._rows.copy()
        self._rows.clear()
        return rows

    def _feed(self, segment: Segment, source_file: str, *, has_waited: bool = False) -> None:
        flow = self._by_ends.get((segment.src, segment.dst))
        if flow is not None and not segment.flags & SYN:
            server, connection, from_server, *_ = flow
            if from_server is None:
                server.counts.packets += 1
                server.counts.sightings += 1
                return
            if segment.interface and (segment.payload or from_server):
                # The first sighting of it may have been set aside.
                seen = (segment.seq, segment.ack), segment.time_ns, segment.payload, (connection.client, server.id)
                earlier = self._sightings.note(*seen)
                if earlier is not None and (waited := self._sightings.waited(earlier)):
                    server.counts.sightings += len(waited)
                    self._also(server, connection, earlier)
            if server.begin(segment.time_ns, (source_file, segment.packet_no)):
                self._take(server, connection, segment, from_server=from_server)
            return
        found = self._server_of(segment)
        if found is None:
            return
        server, from_server = found
        can_be_sighted = segment.interface and (segment.payload or from_server) and not segment.flags & SYN
        if flow is None and can_be_sighted and not has_waited:
            if self._sighted(server, segment, source_file, from_server=from_server):
                return
            if (segment.src, segment.dst) in self._by_ends:
                self._feed(segment, source_file)
                return
        if server.begin(segment.time_ns, (source_file, segment.packet_no)):
            self._unknown(server, segment, flow, from_server=from_server)

    def _sighted(self, server: Server, segment: Segment, source_file: str, *, from_server: bool) -> bool:
        """Look whether an unknown connection is a known one, seen once more; return whether that is all.

        Of the client's segments the later sighting is nearer to the name server: the first one waits for it.
        """
        flow = (segment.dst if from_server else segment.src, server.id)
        earlier = self._sightings.note((segment.seq, segment.ack), segment.time_ns, segment.payload, flow)
        known = None if earlier is None else self._by_ends.get(earlier)
        if known is not None:
            known[0].counts.packets += 1
            known[0].counts.sightings += 1 + len(self._sightings.waited(flow))
            self._also(known[0], known[1], flow)
            return True
        waited = [] if earlier is not None else self._sightings.waited(flow)
        is_beginning = bool(segment.payload) and segment.time_ns - self._first_ns <= BEGINNING_NS
        if earlier is None and from_server and (waited or not is_beginning):
            for aside in waited:
                self._feed(*aside, has_waited=True)
            return False
        if earlier is not None and not from_server:
            server.counts.sightings += len(self._sightings.waited(earlier))
            if not server.begin(segment.time_ns, (source_file, segment.packet_no)):
                return True
            connection = server.joined(flow[0])
            self._enter(server, connection)
            self._also(server, connection, earlier)
            return False
        if not from_server:
            self._sightings.aside[flow] = [*waited, Aside(segment, source_file)]
        server.counts.packets += from_server
        return True

    def pass_hole(self, source_file: str, last_ns: int = 0) -> None:
        """Note that the file at hand could not be read to its end, behind a packet at `last_ns`; 0: it has none.

        For name servers that it shows it becomes a gap, if it may have held more than what shows in their connections.
        """
        for server in self._servers.values():
            is_seen = source_file in server.ledger.files
            server.recording.may_miss(Hole(last_ns or server.recording.last_packet_ns, source_file, is_seen))

    def step_back(self, endpoints: Collection[str], until_ns: int) -> list[AnyRow]:
        """Return the rows that say of name servers that what has times from `until_ns` on was recorded before what was fed.

        The clock went back; what they held at that time is not known from what was fed. Noted once of each.
        """
        for server in self._servers.values():
            last_ns, is_behind = server.recording.last_packet_ns, server.recording.is_behind
            if server.id in endpoints and 0 < last_ns < until_ns and not is_behind:
                server.recording.step_back(until_ns)
        return self._new_rows()

    def end_beside(self, known_from: Mapping[str, int]) -> list[AnyRow]:
        """Return the rows that say of name servers known from `known_from` on that what follows was read before what was fed.

        What went on from the one to the other is not known. Call after `finish()`.
        """
        for server in self._servers.values():
            if server.ledger.confirmed and server.recording.last_packet_ns > 0 and server.id in known_from:
                server.recording.end_beside(known_from[server.id])
        return self._new_rows()

    def taken(self, namesrv_ids: Collection[str], begin_ns: int, end_ns: int) -> None:
        """Note that what these name servers did from one time to another is read by somebody else: it has no place here."""
        for namesrv_id in namesrv_ids:
            server = self._server(namesrv_id)
            server.ledger.confirmed = True
            server.recording.taken_by_others(begin_ns, end_ns)

    def taken_until(self, last_ns: Mapping[str, int]) -> None:
        """Note until when somebody else has read of name servers: what comes before that has no place here."""
        for server in self._servers.values():
            server.recording.taken_until(last_ns.get(server.id, 0))

    def finish(self) -> list[AnyRow]:
        """Return the rows that hold if no further segment comes, of the name servers that have shown one.

        `carry()` afterwards lets a next transcript go on.
        """
        for waited in self._sightings.due(None):
            self._feed(*waited, has_waited=True)
        rows = self._new_rows()
        for server in self._servers.values():
            if server.ledger.confirmed and server.ledger.files:
                rows += end_rows(server)
        return rows

    def carry(self, only: Collection[str] | None = None) -> dict[str, str]:
        """Return each name server's state as strict JSON, by `ip:port`, or `only` those of some; without secrets.

        Call after `finish()`.
        """
        wanted = self._servers if only is None else only
        return {namesrv_id: dump(server) for namesrv_id, server in self._servers.items() if namesrv_id in wanted}

    def shown(self) -> set[str]:
        """Return the name servers of which packets were fed."""
        return {server.id for server in self._servers.values() if server.ledger.confirmed and server.ledger.files}

    def clients(self) -> dict[str, set[str]]:
        """Return the hosts that connections of name servers have come from, as far as these are remembered."""
        return {
            namesrv_id: {client.rpartition(":")[0] for client in self._servers[namesrv_id].connections}
            for namesrv_id in self.shown()
        }

    def place_of(self, segment: Segment) -> tuple[int, int, int] | None:
        """Return how far a segment with bytes lies ahead of the first byte that its connection has shown, and of the last.

        And the time of the last one of the connection. None: the connection is unknown, or another one by now.
        """
        flow = self._by_ends.get((segment.src, segment.dst))
        if flow is None or flow[2] is None:
            return None
        stream = flow[1].half(from_server=flow[2]).stream
        ahead = stream.ahead(segment.seq)
        return None if stream.next_seq is None else (ahead + stream.position, ahead, flow[1].last_byte_ns)

    def last_time_ns(self) -> dict[str, int]:
        """Return the time of the last packet of each name server that has shown any."""
        last_ns = {
            server.id: server.recording.last_packet_ns for server in self._servers.values() if server.ledger.confirmed
        }
        return {namesrv_id: ns for namesrv_id, ns in last_ns.items() if ns}

    def files(self) -> set[str]:
        """Return the files that have packets of name servers."""
        return {file for server in self._servers.values() if server.ledger.confirmed for file in server.ledger.files}

    @property
    def counts(self) -> Counts:
        """The figures over all name servers; `packets` counts all segments that were fed."""
        total = Counts()
        for server in self._servers.values():
            if server.ledger.confirmed:
                total.add(server.counts)
        total.packets = self._packets
        return total

    def _enter(self, server: Server, connection: Connection) -> None:
        """Note where a connection's segments come from and go to."""
        self._by_ends[connection.client, server.id] = _flow(server, connection, False)
        self._by_ends[server.id, connection.client] = _flow(server, connection, True)
        for ends in connection.others:
            self._also(server, connection, ends)
        if connection.handshake is not None:
            self._handshakes[connection.handshake] = server, connection

    def _also(self, server: Server, connection: Connection, ends: tuple[str, str]) -> None:
        """Note that a connection is also seen between these two."""
        if ends not in connection.others:
            connection.others.append(ends)
        for way in (ends, ends[::-1]):
            self._by_ends[way] = _flow(server, connection, None)

    def _leave(self, server: Server, connection: Connection) -> None:
        """Forget a connection."""
        for client, endpoint in ((connection.client, server.id), *connection.others):
            flow = self._by_ends.get((client, endpoint))
            if flow is not None and flow[1] is connection:
                del self._by_ends[client, endpoint]
                del self._by_ends[endpoint, client]
        if connection.handshake is not None:
            self._handshakes.pop(connection.handshake, None)

    def _server(self, namesrv_id: str) -> Server:
        server = self._servers.get(namesrv_id)
        if server is None:
            if len(self._servers) >= MAX_CANDIDATES:
                # The one that has been a candidate for longest goes, one that was only knocked at before others.
                candidates = [each for each in self._servers.values() if not each.ledger.confirmed]
                oldest = min(candidates, key=lambda candidate: bool(candidate.connections), default=None)
                if oldest is not None:
                    for connection in list(oldest.connections.values()):
                        self._leave(oldest, connection)
                    del self._servers[oldest.id]
            idle_ms = self._idle_ms
            limit = idle_ms if isinstance(idle_ms, int) else idle_ms.get(namesrv_id, DEFAULT_IDLE_MS)
            server = Server(
                namesrv_id, limit, self._frames, self._leave, self._rows, confirmed=namesrv_id in self._namesrv
            )
            self._servers[namesrv_id] = server
        return server

    def _server_of(self, segment: Segment) -> tuple[Server, bool] | None:
        """Return the likeliest server of a segment that belongs to no known connection, and whether it sent the segment."""
        src, dst, flags, payload = segment.src, segment.dst, segment.flags, segment.payload
        if flags & SYN:
            from_server = bool(flags & ACK)
        elif dst in self._servers or src in self._servers:
            from_server = dst not in self._servers
        elif payload and plausible_start(payload):
            header = payload[4 : 8 + int.from_bytes(payload[5:8], "big")]
            from_server = decode_frame(len(header).to_bytes(4, "big") + header).is_response
        else:
            return None
        return self._server(src if from_server else dst), from_server

    def _unknown(self, server: Server, segment: Segment, flow: Flow | None, *, from_server: bool) -> None:
        """Handle a segment outside the known connections. Attempts to connect, refusals, connections already open."""
        flags = segment.flags
        client = segment.dst if from_server else segment.src
        if flags & SYN and not flags & ACK:
            connection = server.connections.get(client)
            if connection is None or connection.syn_seq != segment.seq:
                server.attempts.note(client, segment)
        elif flags & SYN:
            handshake = ((segment.ack - 1) & 0xFFFFFFFF, segment.seq)
            earlier = server.connections.get(client)
            if earlier is not None and earlier.syn_seq == handshake[0]:
                return
            if earlier is not None and earlier.closed_ns is None and server.attempts.syns.get(client) != handshake[0]:
                # Anybody can send it: what comes next says whether there is another connection now.
                earlier.unasked = (*handshake, segment.interface)
                return
            if earlier is not None:
                server.replaced(earlier)
            known = self._handshakes.get(handshake) if segment.interface else None
            if known is not None:  # nearer to the name server, since what it sends is seen there first
                known[0].counts.sightings += 1
                self._also(*known, (client, server.id))
                server.attempts.forget(client)
            else:
                self._enter(server, server.accepted(client, handshake, segment.interface))
        elif flags & RST:
            is_seen_twice = bool(segment.interface)
            if from_server and server.attempts.is_refused(client, segment.ack, is_seen_twice=is_seen_twice):
                server.refused()
        elif segment.payload and flow is None:
            connection = server.joined(client)
            self._enter(server, connection)
            server.segment(connection, segment, from_server=from_server)
        elif flags & FIN and from_server and flow is None:
            self._enter(server, server.left(client))

    def _take(self, server: Server, connection: Connection, segment: Segment, *, from_server: bool) -> None:
        """Take in a segment of a connection, or of the one that a SYN/ACK began in its place."""
        if server.segment(connection, segment, from_server=from_server) or connection.unasked is None:
            return
        *handshake, interface = connection.unasked
        server.replaced(connection)
        begun = server.accepted(connection.client, (handshake[0], handshake[1]), interface)
        self._enter(server, begun)
        server.segment(begun, segment, from_server=from_server)
