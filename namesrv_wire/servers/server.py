"""One name server: its connections, requests with their answers, closes, and the rows that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from namesrv_core.machine.schedule import STALL_NS
from namesrv_wire.codes import EVENT_TABLES
from namesrv_wire.errors import GAP_ACKED_NS, LINGER_NS, MAX_CONNECTIONS, MAX_LINGERING, MAX_REORDER_CHUNKS, SILENCE_NS
from namesrv_wire.packets.segments import ACK, FIN, RST, Segment
from namesrv_wire.protocol.requests import KnownFrames
from namesrv_wire.rows import AnyRow, Place
from namesrv_wire.servers.exchange import Exchange, Ledger
from namesrv_wire.servers.recording import DOWN, HIDDEN, STARTED_IN_A_HOLE, UP, Burst, Endings, Life, Recording
from namesrv_wire.streams.connection import Connection, Idle
from namesrv_wire.streams.cutting import MASK, Cut, FrameCutter, Stream, head_of
from namesrv_wire.streams.sightings import Attempts, is_elsewhere, place_of

_PURGE_NS: Final = LINGER_NS // 8
_MADE_AT_ONCE: Final = 64
"""Where more connections come than are watched, this part of them is forgotten at once: all are looked at for it."""

Flow: TypeAlias = "tuple[Server, Connection, bool | None, Stream, Stream, FrameCutter]"
"""A direction of a connection. Whether the server sent it, or (None) it is of another sighting of the connection; the streams
there and back, and who cuts the first into frames."""


class Server:
    """A name server, or an endpoint that might be one. Then its rows are held back until it is `confirmed`."""

    def __init__(
        self,
        namesrv_id: str,
        idle_ms: int,
        frames: KnownFrames,
        forget: Callable[[Server, Connection], None],
        out: list[AnyRow],
        *,
        confirmed: bool,
    ) -> None:
        """`out`: where its rows go."""
        self.id, self.ledger = namesrv_id, Ledger(namesrv_id, out, confirmed=confirmed)
        self.counts = self.ledger.counts
        self.exchange = Exchange(self.ledger, frames, self._registers)
        self.connections: dict[str, Connection] = {}
        self.idle = Idle(idle_ms)
        self.life: Life | None = None
        self.attempts = Attempts()
        self.recording = Recording(self.ledger, self.idle, self.exchange, self.connections)
        self.endings = Endings(self.ledger, self.idle, self.exchange, self.recording)
        self.holed: dict[str, Connection] = {}
        """Connections of which the capture has lost something that the other side has got: given up in time."""
        self._forget = forget
        self._purge_ns = 0
        self._stalled = 0, False
        """Of which burst of closings it is known whether the process had stood still before."""

    def begin(self, time_ns: int, source: tuple[str, int]) -> bool:
        """Open a packet: note time and place, and let timers pass that ran out before it.

        Returns False if it has no place, since its clock went back to a time that was read already.
        """
        ledger, recording, idle = self.ledger, self.recording, self.idle
        if ledger.time_ns <= time_ns <= recording.calm_until_ns:
            ledger.begin(time_ns, source)
            recording.last_packet_ns = max(recording.last_packet_ns, time_ns)
            return True
        if not recording.has_place(time_ns, source):
            return False
        ledger.begin(time_ns, source)
        if self.life is None:
            self.life = Life((ledger.slot(), time_ns, *ledger.source))
        recording.go_on(time_ns, self.life)
        if idle.due_ns < time_ns:
            for connection in idle.passed(time_ns):
                connection.idle_seq = ledger.reserve(connection.idle_ns or 0)
        for connection in idle.given_up:
            self.endings.by_timer(connection)
        idle.given_up.clear()
        recording.last_packet_ns = max(recording.last_packet_ns, time_ns)
        if time_ns >= self._purge_ns or len(self.endings.lingering) > MAX_LINGERING:
            self._purge()
        recording.calm_until_ns = min(idle.due_ns, self._purge_ns - 1, time_ns + SILENCE_NS)
        for _, connection in sorted(self.holed.items()):
            self._give_up(connection, is_active=False)
        return True

    def _give_up(self, connection: Connection, *, is_active: bool) -> None:
        """Take what is behind a hole that is given up; if its connection is not active, behind what the capture has lost."""
        for way, half in enumerate((connection.from_client, connection.from_server)):
            acked = connection.acks[way]
            if is_active or half.stream.has_lost(acked):
                for cut in half.cuts(half.stream.overdue(self.ledger.time_ns, acked)):
                    self.exchange.frame(connection, cut, from_server=bool(way))
        self.watch(connection)

    def watch(self, connection: Connection) -> None:
        """Note whether the capture has lost something of a connection, and until when a packet gives nothing up."""
        self.holed.pop(connection.client, None)
        for way, half in enumerate((connection.from_client, connection.from_server)):
            since_ns = half.stream.hole_since_ns
            if since_ns is not None and half.stream.has_lost(connection.acks[way]):
                self.holed[connection.client] = connection
                self.recording.calm_until_ns = min(self.recording.calm_until_ns, since_ns + GAP_ACKED_NS)

    def segment(self, connection: Connection, segment: Segment, *, from_server: bool) -> bool:
        """Take in one segment of a connection; `begin` was called for it.

        Returns False, and takes nothing, if it belongs to the connection that a SYN/ACK began in the place of this one.
        """
        if connection.unasked is not None and connection.is_over_with(segment, from_server=from_server):
            return False
        if self._is_elsewhere(connection, segment, from_server=from_server):
            return True
        time_ns = segment.time_ns
        mine, size = connection.half(from_server=from_server), len(segment.payload) + segment.lost
        if not connection.takes(segment, from_server=from_server):
            return True
        if from_server and self.idle.overdue:
            self.idle.sign(time_ns)
        if connection.went_on_unseen(segment, from_server=from_server):
            self.recording.pass_unrecorded(connection, is_new=False)
        if segment.flags & ACK:
            self._acknowledged(connection, segment, from_server=from_server)
            if not from_server and connection.has_lost_fin(segment.ack):
                self._ends(connection, segment, time_ns - connection.last_byte_ns, from_server=True)
        if connection.from_client.stream.chunks or connection.from_server.stream.chunks:
            self._give_up(connection, is_active=True)
        advanced = False
        silent_since = connection.last_byte_ns
        if size:
            before = mine.stream.position
            if mine.stream.lost_from is not None:
                self.ledger.note_gap()
            cuts = mine.cuts(mine.stream.push(segment.seq, segment.payload, segment.lost, time_ns))
            advanced = mine.stream.position > before
            if advanced:
                self.note_bytes(connection, from_server=from_server)
                is_used = not before and connection.half(from_server=not from_server).stream.position > 0
                if is_used and self._is_new(connection):
                    self.recording.pass_unrecorded(connection, is_new=True)
            for cut in cuts:
                self.exchange.frame(connection, cut, from_server=from_server)
            if mine.stream.chunks:
                self.watch(connection)
        if segment.flags & (FIN | RST):
            silent_ns = 0 if advanced else time_ns - silent_since
            self._ends(connection, segment, silent_ns, from_server=from_server)
        return True

    def _is_new(self, connection: Connection) -> bool:
        """Return whether nobody saw a connection begin: it did so before the recording, or in what was not recorded."""
        return connection.syn_seq is None and connection.client not in self.attempts.syns

    def _registers(self, connection: Connection) -> None:
        """Note that a broker registers on a connection for the first time."""
        self.recording.pass_anew(connection, is_new=self._is_new(connection))

    def _acknowledged(self, connection: Connection, segment: Segment, *, from_server: bool) -> None:
        """Note an acknowledgement.

        If the server has bytes of a broker that nobody saw, the end of a change that begins, or answers to what may have been the
        first ones, it may know more.
        """
        stream = connection.from_client.stream
        # One byte may be the client's FIN.
        is_unseen = from_server and stream.ahead(segment.ack) > 1
        head = head_of(connection.from_client.cutter.buffer) if is_unseen else None
        is_change = connection.beats or (head is not None and head.code in EVENT_TABLES)
        if is_unseen and (is_change or (segment.payload and not stream.position)):
            self.exchange.doubt(f"bytes of {connection.channel_id} are acknowledged, and were not seen")
        connection.note_ack(segment.ack, from_server=from_server)

    def _is_elsewhere(self, connection: Connection, segment: Segment, *, from_server: bool) -> bool:
        """Return whether a segment was seen on another interface than the name server's.

        What the client sent past that, and the name server acknowledges, has reached it all the same: it is taken in.
        """
        ledger, now_ns = self.ledger, self.ledger.time_ns
        for missed in connection.missed(segment.ack) if from_server and segment.flags & ACK else ():
            ledger.counts.sightings -= 1
            ledger.at(max(missed.time_ns, ledger.last_slot))
            self.segment(connection, missed._replace(interface=0), from_server=False)
            ledger.at(now_ns)
        if not segment.interface or not is_elsewhere(connection, segment, from_server=from_server):
            return False
        ledger.counts.sightings += 1
        if not from_server and len(connection.elsewhere) < MAX_REORDER_CHUNKS:
            connection.elsewhere.append(segment)
        return True

    def go_on(
        self, flow: Flow, time_ns: int, source: tuple[str, int], seq: int, ack: int, flags: int, data: bytes
    ) -> bool:
        """Open a packet, and take in its segment, as `begin` and `segment` do, if it is the next one and no hole is open.

        None of its flags opens or ends a connection. Returns whether nothing is left to be done. Most of a capture is such.
        """
        _, connection, is_from_server, stream, back, cutter = flow
        from_server, idle = bool(is_from_server), self.idle
        ledger, recording = self.ledger, self.recording
        if ledger.time_ns <= time_ns <= recording.calm_until_ns:  # as `begin`, without a call
            ledger.begin(time_ns, source)
            if time_ns > recording.last_packet_ns:  # noqa: PLR1730
                recording.last_packet_ns = time_ns
        elif not self.begin(time_ns, source):
            return True
        if seq != stream.next_seq or stream.chunks or back.chunks or connection.idle_ns is not None:
            return False
        if from_server and (idle.unsigned or idle.inactive or connection.elsewhere):
            return False
        if from_server and back.ahead(ack) > 1:
            return False
        if flags & ACK:
            connection.note_ack(ack, from_server=from_server)
        if data:
            stream.next_seq = (seq + len(data)) & MASK
            stream.position += len(data)
            self.note_bytes(connection, from_server=from_server)
            whole = cutter.whole(data)
            if whole:
                cut = Cut(cutter.position - len(whole), whole)
                self.exchange.frame(connection, cut, from_server=from_server)
            elif whole is None:
                for cut in cutter.feed(data):
                    self.exchange.frame(connection, cut, from_server=from_server)
        return True

    def refused(self) -> None:
        """Note that an attempt to connect was answered by RST: nothing listens."""
        assert self.life is not None
        life = self.life
        life.refused += 1
        burst = life.burst
        if life.state != UP:
            self.recording.pass_silences(self.ledger.time_ns)
            return
        self.recording.pass_refused()
        # What was not active since a hole may have ended in it.
        open_now = [each for each in self.idle.open.values() if each.last_byte_ns > self.recording.hole_end_ns]
        ends_all = burst is not None and burst.ends_all(broker_is_open=any(each.beats for each in open_now))
        if open_now and not ends_all:
            return
        if burst is not None and (burst.complete or ends_all):
            self._stopped(burst)
        else:
            self.ledger.fact("stopped", "connections are refused and none is open")
        for connection in [*self.idle.overdue.values()]:
            self.endings.by_timer(connection)
        for connection in sorted(self.idle.open.values(), key=lambda each: (each.last_byte_ns, each.channel_id)):
            connection.lost_ns = self.ledger.time_ns  # what it has got, it took before it stopped
            self.endings.close(connection, "namesrv", ("close",), self.ledger.time_ns - connection.last_byte_ns)
        self.recording.pass_silences(self.ledger.time_ns)
        life.burst = None
        life.state = DOWN

    def _stopped(self, burst: Burst) -> None:
        self.ledger.fact("stopped", burst.evidence, seq=burst.seq, place=Place(*burst.source, burst.first_ns))

    def accepted(self, client: str, handshake: tuple[int, int], interface: int) -> Connection:
        """Note a SYN/ACK: a new connection, maybe the first of a new life. `handshake`: both initial sequence numbers."""
        assert self.life is not None
        life = self.life
        if life.state == UP and life.burst is not None and life.burst.is_end:
            self._stopped(life.burst)
            self.recording.pass_silences(life.burst.last_ns)
            life.state = DOWN
        self._up("accepts connections and none was refused before")
        life.alive()
        if self.idle.overdue:
            self.idle.sign(self.ledger.time_ns)
        life.refused = 0
        connection = Connection(client, self.ledger.time_ns, handshake[0], self.ledger.source)
        connection.handshake = handshake
        connection.note_ack((handshake[0] + 1) & 0xFFFFFFFF, from_server=True)
        connection.from_client.stream.begin(handshake[0] + 1)
        connection.from_server.stream.begin(handshake[1] + 1)
        seen = self.attempts.forget(client)
        if interface:
            here, connection.client_seen = place_of(interface, from_server=True), seen
            connection.side = here if here in connection.client_seen else None
        self._add(connection)
        return connection

    def joined(self, client: str) -> Connection:
        """Note traffic on a connection that was open before the capture began, or that has begun in a silence not recorded.

        Or its SYN was recorded, and the answer to that was not: what the client sends follows the SYN.
        """
        self._up("traffic on a connection opened before the first packet")
        connection = Connection(client, self.ledger.time_ns, None, self.ledger.source)
        if (syn := self.attempts.syns.get(client)) is not None:
            connection.from_client.stream.begin(syn + 1)
        self._add(connection)
        return connection

    def left(self, client: str) -> Connection:
        """Note the name server's FIN on a connection of which nothing was seen: what its client sends now reaches nobody.

        It may be a copy of an earlier one, whose process has stopped since: when the connection ended, nobody knows.
        """
        connection = Connection(client, self.ledger.time_ns, None, self.ledger.source)
        self._add(connection)
        self.endings.ended(connection)
        return connection

    def replaced(self, connection: Connection) -> None:
        """Note that the client's port was used for a new connection: the old one is dead."""
        if connection.closed_ns is None:
            self.endings.close(connection, "client", ("close",), self.ledger.time_ns - connection.last_byte_ns)
        self._drop(connection)

    def _add(self, connection: Connection) -> None:
        if len(self.connections) >= MAX_CONNECTIONS:
            # Some of the oldest go at once, those of no broker first, since strangers may be many.
            in_order = sorted(self.connections.values(), key=lambda each: each.beats)
            for old in in_order[: 1 + len(in_order) // _MADE_AT_ONCE]:
                self._drop(old)
            self.recording.whole_since_ns = self.ledger.time_ns  # they may be used again
        self.connections[connection.client] = connection
        self.idle.note_activity(connection, self.ledger.time_ns)

    def _drop(self, connection: Connection) -> None:
        self.idle.forget(connection)
        self.endings.lingering.pop(connection.client, None)
        if self.connections.get(connection.client) is connection:
            del self.connections[connection.client]
            self.holed.pop(connection.client, None)
        self._forget(self, connection)

    def _purge(self) -> None:
        """Forget connections that ended long ago, at times that do not depend on where reading began."""
        now = self.ledger.time_ns // _PURGE_NS * _PURGE_NS
        self.will_purge_after(now)
        while self.endings.lingering:
            connection = next(iter(self.endings.lingering.values()))
            if len(self.endings.lingering) <= MAX_LINGERING and now - (connection.closed_ns or 0) <= LINGER_NS:
                return
            self._drop(connection)

    def will_purge_after(self, time_ns: int) -> None:
        """Note that connections which ended long before this time are forgotten."""
        self._purge_ns = (time_ns // _PURGE_NS + 1) * _PURGE_NS

    def note_bytes(self, connection: Connection, *, from_server: bool) -> None:
        """Note new bytes on a connection. The server's own show that it lives and has not closed this connection."""
        time_ns, idle = self.ledger.time_ns, self.idle
        connection.last_source = self.ledger.source
        if not from_server and not connection.taken_ns:
            connection.taken_ns = connection.last_byte_ns
        if from_server:
            assert self.life is not None
            if self.life.burst is not None:
                self.life.alive()
            if time_ns - self.life.sent_ns >= STALL_NS:
                self._read_late(self.life.sent_ns)
            self.life.sent_ns = time_ns
            if idle.overdue:
                self._active()
        if connection.closed_ns is not None:
            return
        if connection.idle_ns is not None:
            if from_server and idle.is_outlasted(connection, time_ns):
                # It still uses a connection that the idle limit should have closed.
                before_ns = connection.idle_ns - idle.limit_ns
                until_ns = connection.last_byte_ns if connection.last_byte_ns > before_ns else time_ns
                silent_ms = (until_ns - before_ns) // 1_000_000
                evidence = f"{connection.channel_id} was silent for {silent_ms} ms and then used again"
                self.ledger.fact("idle_limit_outlasted", evidence)
            if not from_server:
                connection.last_byte_ns = time_ns
                return
        idle.note_activity(connection, time_ns)

    def _ends(self, connection: Connection, segment: Segment, silent_ns: int, *, from_server: bool) -> None:
        """Apply a FIN or RST.

        A close takes effect with the name server's own FIN or RST, an exception with the client's RST. What the name server's side
        has not acknowledged by its own it has not got.
        """
        now_ns, idle, endings = self.ledger.time_ns, self.idle, self.endings
        if connection.closed_ns is not None:
            return
        if not from_server:
            if not segment.flags & RST:
                connection.client_fin_ns = connection.client_fin_ns or now_ns
            elif connection.idle_ns is not None and idle.verdict(connection, now_ns, 0) == "timer":
                endings.by_timer(connection, "client", silent_ns)
            else:
                endings.close(connection, "client", ("exception", "close"), silent_ns)
            return
        if connection.is_nobodys(segment):
            endings.reached_nobody(connection)
            return
        if connection.taken_ns:
            self.exchange.withdraw(connection, connection.taken_ns)
            silent_ns = now_ns - connection.taken_ns
        self._active()
        verdict = idle.verdict(connection, now_ns, silent_ns)
        closed_by = "namesrv" if connection.client_fin_ns is None else "client"
        if verdict == "timer":
            endings.by_timer(connection, closed_by, silent_ns)
        elif verdict == "idle" and closed_by == "namesrv":
            endings.close(connection, closed_by, ("idle", "close"), silent_ns)
        elif closed_by == "client":
            endings.close(connection, closed_by, ("close",), silent_ns)
        else:
            assert self.life is not None
            before = self.ledger.slot()
            endings.close(connection, closed_by, ("close",), silent_ns)
            burst = self.life.closing(
                before, now_ns, self.ledger.source, is_broker=connection.beats, still_open=bool(idle.open)
            )
            if not burst.living:
                burst.living += self._is_living(connection, silent_ns, burst)

    def _active(self) -> None:
        """Note that the process does something: what should have been closed while it stood still is closed now."""
        for connection in self.idle.active(self.ledger.time_ns):
            connection.idle_seq = self.ledger.reserve(self.ledger.time_ns)

    def _read_late(self, since_ns: int) -> None:
        """Note that the process sends something after a pause: if a request waited for it, all that has come is read only now."""
        now_ns, idle = self.ledger.time_ns, self.idle
        waiting = (pending for each in self.connections.values() for pending in each.pending.values())
        known = (pending.time_ns for pending in waiting if pending.row or pending.question)
        waited = [time_ns for time_ns in known if since_ns < time_ns <= now_ns - STALL_NS]
        for connection in [*idle.open.values(), *idle.overdue.values()] if waited else ():
            if connection.last_byte_ns >= min(waited):
                idle.note_activity(connection, now_ns)

    def _is_living(self, connection: Connection, silent_ns: int, burst: Burst) -> bool:
        """Return whether a name server that goes on has no reason to close a connection: its scan takes brokers alone.

        One that stood still takes those too that have beaten meanwhile.
        """
        if not connection.beats:
            return connection.from_server.stream.position > 0
        if connection.lease_ms is None or silent_ns >= connection.lease_ms * 1_000_000:
            return False
        if self._stalled[0] != burst.seq:
            before_ns = self.ledger.time_ns - STALL_NS
            waiting = (pending for each in self.connections.values() for pending in each.pending.values())
            self._stalled = burst.seq, any(pending.time_ns <= before_ns for pending in waiting)
        return not self._stalled[1]

    def _up(self, evidence: str) -> None:
        """Note that the name server is up. Since now if connections were refused before, else since nobody knows when."""
        assert self.life is not None
        life = self.life
        if life.state == UP:
            return
        seq, time_ns, file, packet_no = life.first
        place = Place(file, packet_no, time_ns)
        if life.state == HIDDEN and not life.refused:
            self.ledger.fact("started", STARTED_IN_A_HOLE, seq=seq, place=place)
        elif life.state in (DOWN, HIDDEN) or life.refused:
            self.recording.pass_start(f"first accepted connection after {life.refused} refused")
        else:
            self.ledger.fact("observed_from", evidence, seq=seq, place=place)
        life.state = UP
