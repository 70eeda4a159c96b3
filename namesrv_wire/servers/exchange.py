"""Requests and answers on the connections of one name server, matched by opaque, and their rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from namesrv_core.inference.settings import shown_text
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_wire.codes import CONFIRMING, EVENT_TABLES, REQUEST_CODE_NOT_SUPPORTED, request_name, version_name
from namesrv_wire.errors import MAX_HELD_ROWS, MAX_PENDING, STRANGERS, DecodeError, Reason
from namesrv_wire.protocol.requests import KnownFrame, KnownFrames, refused_as, topic_configs_row
from namesrv_wire.rows import (
    FRAME_TABLES,
    NOTHING,
    AnyRow,
    Counts,
    FrameRow,
    Place,
    Values,
    digest_id,
    event_row,
    fact_row,
    gap_until,
    quarantine_row,
)
from namesrv_wire.streams.connection import Connection, Pending
from namesrv_wire.streams.cutting import Cut, Head, head_of

MAX_DIGESTS: Final = 65_536
NOTIFY_MIN_BROKER_ID_CHANGE: Final = 905


class Exchange:
    """Decodes frames; a request takes effect with its answer, an answer to a question is an observation."""

    def __init__(self, ledger: Ledger, frames: KnownFrames, registers: Callable[[Connection], None]) -> None:
        """`registers` is called where a broker registers on a connection for the first time."""
        self.ledger = ledger
        self._frames, self._registers = frames, registers
        self._digests: set[str] = set()

    def frame(self, connection: Connection, cut: Cut, *, from_server: bool) -> None:
        """Take in one frame, or a piece that is none, that ended with this packet.

        Of one that `is_late` it is not known when it came: as an answer it shows nothing, and as a request it has had its own.
        """
        if cut.error is not None:
            self.refused(connection, cut, from_server=from_server)
            return
        ledger = self.ledger
        counts = ledger.counts
        counts.frames += 1
        try:
            known, opaque = self._frames.decode(cut.data)
        except DecodeError as error:
            self._undecodable(connection, cut, error, from_server=from_server)
            return
        frame = known.frame
        if from_server:
            if frame.flag & 1:
                self._answer(connection, known, opaque, is_late=cut.is_late)
                return
            if len(connection.reverse) < MAX_PENDING and not frame.flag & 2:
                connection.reverse[opaque] = frame.code
            counts.ignored[known.request_name] += 1
            if frame.code == NOTIFY_MIN_BROKER_ID_CHANGE:
                ledger.fact("min_broker_id_notified", f"request {frame.code} to {connection.client}")
        elif frame.flag & 1:
            code = connection.reverse.pop(opaque, None)
            counts.ignored["response:unmatched" if code is None else f"response:{code}"] += 1
        elif connection.closed_ns is not None:
            counts.ignored[_after_close(frame.code)] += 1
        elif frame.code in EVENT_TABLES:
            self._event(connection, known, opaque, cut)
        else:
            try:
                question = known.question
            except DecodeError as error:
                ledger.quarantine(connection, cut, error, len(cut.data), from_server=False)
                return
            counts.ignored[known.request_name] += 1
            if not frame.flag & 2 and not cut.is_late:
                self._await(connection, opaque, Pending(frame.code, ledger.slot(), ledger.time_ns, None, question))

    def refused(self, connection: Connection, cut: Cut, *, from_server: bool) -> None:
        """Take in a piece that is no frame; a stranger has nothing else, and cut frames are counted once a connection."""
        assert cut.error is not None
        counts, reason = self.ledger.counts, cut.error.reason
        counts.pieces += 1
        if reason is Reason.LOST_SEGMENT and from_server:
            connection.lost_ns = self.ledger.time_ns
        if reason in (Reason.TRUNCATED_PACKET, Reason.LOST_SEGMENT):
            head = head_of(cut.data)
            self._unread(connection, head, from_server=from_server)
            is_first = not (cut.position or cut.data)
            if head is None and (connection.beats or is_first) and not from_server:
                self.doubt(f"bytes of {connection.channel_id} are missing")
        if reason is Reason.TRUNCATED_PACKET:
            counts.cut_frames += 1
            if connection.is_cut:
                counts.ignored["cut_frame"] += 1
                return
            connection.is_cut = True
        self.ledger.quarantine(connection, cut, cut.error, cut.length, from_server=from_server)
        if reason in STRANGERS:
            connection.give_up()

    def _undecodable(self, connection: Connection, cut: Cut, error: DecodeError, *, from_server: bool) -> None:
        """Quarantine a whole frame, of which its beginning alone is used."""
        self.ledger.quarantine(connection, cut, error, len(cut.data), from_server=from_server)
        self._unread(connection, head_of(cut.data), from_server=from_server)

    def _unread(self, connection: Connection, head: Head | None, *, from_server: bool) -> None:
        """Use what the beginning of a frame says that could not be read: that a broker beats, what was answered, by whom.

        Behind a request that may have changed the registry nothing is known.
        """
        if head is None or head.is_answer is not from_server:
            return
        if not from_server:
            connection.asked_cut |= head.code in CONFIRMING
            connection.beats |= EVENT_TABLES.get(head.code) in ("heartbeats", "registrations")
            if head.code in EVENT_TABLES:
                unread = Pending(head.code, self.ledger.slot(), self.ledger.time_ns, None, None)
                if head.opaque is None or head.is_one_way:
                    self.unanswered(connection, unread)
                else:
                    self._await(connection, head.opaque, unread)
            return
        if head.version is not None:
            self._identify(head.version)
        pending = None if head.opaque is None else connection.pending.pop(head.opaque, None)
        self._confirm(connection, pending, head.code)
        if pending is not None and pending.question is None:
            self._answered(connection, pending, head.code, NOTHING)

    def _answered(self, connection: Connection, pending: Pending, code: int, answered: Values) -> None:
        """Let a request take effect, now that its answer has left: its row, if it could be read."""
        if pending.row is not None:
            ledger, is_open = self.ledger, connection.closed_ns is None
            seq, at_us = (
                (ledger.slot(), ledger.time_ns // 1_000) if is_open else (pending.row.seq, pending.row.effect_us)
            )
            ledger.emit(pending.row.answered_at(seq, at_us, answered))
        elif code == ResponseCode.SUCCESS:
            self.unanswered(connection, pending)

    def unanswered(self, connection: Connection, pending: Pending) -> None:
        """Write a request without an answer. Of one that could not be read it is not known what it has changed."""
        if pending.row is not None:
            self.ledger.emit(pending.row)
        elif pending.code in EVENT_TABLES:
            self.doubt(f"{request_name(pending.code)} of {connection.channel_id} could not be read")

    def doubt(self, evidence: str) -> None:
        """Note that the registry may have changed unseen; once, until something else is read."""
        ledger = self.ledger
        if ledger.written_ns > ledger.doubted_ns:
            until = gap_until(ledger.time_ns, ledger.time_ns + 1_000_000)
            ledger.fact("recording_gap", evidence, properties=until)
            ledger.doubted_ns = ledger.time_ns

    def _confirm(self, connection: Connection, pending: Pending | None, code: int) -> None:
        """Note an answer of this code: only a name server answers some questions."""
        is_asked = pending.code in CONFIRMING if pending is not None else connection.asked_cut
        if is_asked and not self.ledger.confirmed and code != REQUEST_CODE_NOT_SUPPORTED:
            self.ledger.confirm()

    def _event(self, connection: Connection, known: KnownFrame, opaque: int, cut: Cut) -> None:
        ledger, frame = self.ledger, known.frame
        time_ns, table = ledger.time_ns, EVENT_TABLES[frame.code]
        try:
            columns, topics = known.request(time_ns // 1_000_000)
        except DecodeError as error:
            self._undecodable(connection, cut, error, from_server=False)
            return
        ledger.counts.events[table] += 1
        connection.beats = connection.beats or table in ("heartbeats", "registrations")
        if table == "registrations":
            lease_ms = columns.get("heartbeat_timeout_ms")
            connection.lease_ms = BROKER_CHANNEL_EXPIRED_MS if lease_ms is None else lease_ms
            if connection.broker_addr is None:
                connection.broker_addr = columns["broker_addr"]
                self._registers(connection)
        if topics is not None and topics.digest not in self._digests:
            if len(self._digests) >= MAX_DIGESTS:
                self._digests.clear()
            self._digests.add(topics.digest)
            ledger.emit(topic_configs_row(topics))
        # One that waited behind a hole was there when it was answered.
        early = connection.early.pop(opaque, None) if cut.is_late else None
        at_us = time_ns // 1_000 if early is None else early[1]
        seq, channel, nth, identity = ledger.slot(), connection.channel_id, None, None
        if table == "heartbeats":
            nth = connection.nth_at(frame.code, at_us)
        else:
            parts = (ledger.id, channel, "request", frame.code, cut.position, opaque)
            identity = digest_id(*parts, content=frame.body)
        own = (table, ledger.id, seq, identity, at_us, at_us, channel, connection.proxied, *ledger.source)
        row = FrameRow(*own, columns, NOTHING, nth=nth)
        if frame.flag & 2 or cut.is_late:
            ledger.emit(row if early is None else row.answered_at(*early))
        else:
            self._await(connection, opaque, Pending(frame.code, seq, time_ns, row, None))

    def _await(self, connection: Connection, opaque: int, pending: Pending) -> None:
        if len(connection.pending) >= MAX_PENDING:
            self.unanswered_at_arrival(connection)
            connection.pending.clear()
        earlier = connection.pending.pop(opaque, None)
        if earlier is not None:  # its number is used again: no answer is its own any more
            self.unanswered(connection, earlier)
        connection.pending[opaque] = pending

    def _answer(self, connection: Connection, known: KnownFrame, opaque: int, *, is_late: bool) -> None:
        ledger, frame = self.ledger, known.frame
        pending = connection.pending.pop(opaque, None)
        if frame.version != ledger.version:
            self._identify(frame.version)
        if not ledger.confirmed:
            self._confirm(connection, pending, frame.code)
        if pending is None:
            ledger.counts.ignored["response:unmatched"] += 1
            # Of what changes nothing an answer has a body, or a value. The first one may be to what came before the recording.
            is_first = connection.syn_seq is None and not connection.from_client.stream.position
            if not (is_first or frame.code or frame.body or "value" in frame.ext):
                self.doubt(f"{connection.channel_id} is told that something is done, and what was not seen")
            if not connection.from_client.stream.chunks:
                connection.early.clear()
            elif len(connection.early) < MAX_PENDING:
                connection.early[opaque] = ledger.slot(), ledger.time_ns // 1_000, known.answer
            return
        if connection.lost_ns:
            self._lost(connection, pending.time_ns)
        if pending.question is not None:
            if is_late:
                ledger.counts.ignored["response:late"] += 1
                return
            ledger.counts.observations += 1
            observed, text = known.observed, None
            if pending.code == RequestCode.GET_NAMESRV_CONFIG:  # without secrets
                text = None if observed["body"] is None else shown_text(observed["body"])
                observed = {**observed, "body": text}
            asked_us, at_us, channel = pending.time_ns // 1_000, ledger.time_ns // 1_000, connection.channel_id
            own = ("route_observations", ledger.id, ledger.slot(), None, asked_us, at_us, channel, connection.proxied)
            nth = connection.nth_at(pending.code, at_us)
            ledger.emit(FrameRow(*own, *ledger.source, pending.question, observed, pending.seq, nth))
            if text and frame.code == ResponseCode.SUCCESS:
                ledger.fact("configured", "answer to a question about the configuration", properties=text)
            return
        ledger.counts.ignored[f"response:{pending.code}"] += 1
        self._answered(connection, pending, frame.code, NOTHING if pending.row is None else known.answer)

    def _lost(self, connection: Connection, asked_ns: int) -> None:
        """Write requests whose answers a hole has, now that what was asked at `asked_ns`, later, is answered: they took effect."""
        until_ns = min(asked_ns, connection.lost_ns)
        oldest = next(iter(connection.pending.values()), None)  # they are in order
        if oldest is not None and oldest.time_ns <= until_ns:
            for pending in connection.wait_for(lambda pending: pending.time_ns > until_ns):
                self.unanswered(connection, pending)
        if asked_ns > connection.lost_ns:
            connection.lost_ns = 0

    def unanswered_at_arrival(self, connection: Connection) -> None:
        """Write the unanswered requests of a connection with their arrival as effect."""
        for pending in connection.waiting:
            self.unanswered(connection, pending)

    def withdraw(self, connection: Connection, after_ns: int) -> None:
        """Take back a connection's unanswered requests from behind a time: they reached nobody.

        What an earlier end of capture has counted stays so.
        """
        counts, provisional = self.ledger.counts, self.ledger.provisional
        for pending in connection.wait_for(lambda pending: pending.time_ns <= after_ns):
            if pending.row is not None and pending.row.event_id not in provisional:
                counts.events[pending.row.table] -= 1
                counts.ignored[_after_close(pending.code)] += 1

    def _identify(self, version: int) -> None:
        if version == self.ledger.version:
            return
        self.ledger.version = version
        evidence = f"version {version} in the header of an answer: {version_name(version)}"
        self.ledger.fact("identified", evidence, version=version)


def _after_close(code: int) -> str:
    return f"request:{code}:after_close"


SLOT_STEP: Final = 16
"""Positions between packets that share a nanosecond."""
MAX_FINAL_COLUMNS: Final = 4_096


class Ledger:
    """Writes rows at strictly increasing positions; holds them back until the endpoint is `confirmed`."""

    def __init__(self, namesrv_id: str, out: list[AnyRow], *, confirmed: bool) -> None:
        self.id = namesrv_id
        self.confirmed = confirmed
        self.counts = Counts()
        self.version: int | None = None
        """Protocol version in the last answer."""
        self.last_slot = 0
        self.provisional: dict[str, str] = {}
        """Rows that an earlier end of capture made on the strength of what was known then: id and table."""
        self.held: deque[AnyRow] = deque()
        self.out = out
        self.source = ("", 0)
        """File and packet number of the packet at hand."""
        self.files: set[str] = set()
        """Files with packets of this name server."""
        self.time_ns = 0
        """Time of the packet at hand."""
        self.written_ns = 0
        """Time of the last packet that was read and showed something of the registry."""
        self.doubted_ns = -1
        """Time of the last one behind which nothing is known."""
        self.is_base_taken = False
        """Whether something was written at the packet at hand."""
        self._final_columns: dict[tuple[int, str | None], tuple[Values, Values]] = {}
        """Columns of registrations as decoded, and with their final `refusal`; by the id of the former and that refusal."""

    def begin(self, time_ns: int, source: tuple[str, int]) -> None:
        """Open a packet: what is written from now on happens at its time and place."""
        if source[0] != self.source[0]:
            self.files.add(source[0])
        self.time_ns = time_ns
        self.source = source
        self.is_base_taken = False
        self.counts.packets += 1

    def at(self, time_ns: int) -> None:
        """Have what is written from now on happen at a time, near the packet at hand."""
        self.time_ns = time_ns
        self.is_base_taken = False

    def note_gap(self) -> None:
        """Note that a gap covers what the packet at hand shows to be missing: nothing more is to be doubted for it."""
        self.doubted_ns = self.written_ns = self.time_ns

    def confirm(self) -> None:
        """Release the rows held back: this endpoint is a name server."""
        self.confirmed = True
        held, self.held = self.held, deque()
        for row in held:
            self.emit(row)

    def reserve(self, time_ns: int) -> int:
        """Return the first of two positions at a time before the packet at hand, for a timer."""
        self.last_slot = first = max(self.last_slot + SLOT_STEP, time_ns)
        self.last_slot += 1
        return first

    @property
    def place(self) -> Place:
        """Where and when the packet at hand was read."""
        return Place(*self.source, self.time_ns)

    def fact(self, kind: str, evidence: str, **more: Any) -> None:
        """Write a row of `namesrv_events`, as `fact_row`."""
        self.emit(self.fact_row(kind, evidence, **more))

    def fact_row(
        self, kind: str, evidence: str, seq: int | None = None, place: Place | None = None, **more: Any
    ) -> FrameRow:
        """Return a row of `namesrv_events`: at the packet at hand, unless a position and a place are given."""
        return fact_row(self.id, self.slot() if seq is None else seq, place or self.place, kind, evidence, **more)

    def channel_row(
        self, connection: Connection, seq: int, place: Place, kind: str, closed_by: str, silent_ms: int, pending: int
    ) -> FrameRow:
        """Return the row of one end of a connection, as the name server met it, with so many requests `pending`."""
        identity = digest_id(self.id, connection.channel_id, kind, "")
        columns: Values = {"kind": kind, "closed_by": closed_by, "remote_addr": connection.client}
        columns |= {"silent_ms": silent_ms, "pending_requests": pending}
        row = event_row("channel_events", self.id, seq, identity, connection.channel_id, place, **columns)
        return row._replace(proxied_addr=connection.proxied)

    def slot(self) -> int:
        """Return the next free position of this packet."""
        if not self.is_base_taken:
            self.is_base_taken = True
            self.last_slot = max(self.last_slot + SLOT_STEP, self.time_ns)
        self.last_slot += 1
        return self.last_slot

    def emit(self, row: AnyRow) -> None:
        """Write a row."""
        if row.table not in ("quarantine", "channel_events"):  # after which as much is known as before
            self.written_ns = self.time_ns
        if not self.confirmed:
            if len(self.held) >= MAX_HELD_ROWS:
                dropped = self.held.popleft()
                self.counts.dropped_rows += dropped.table in FRAME_TABLES
            self.held.append(row)
            return
        if isinstance(row, FrameRow):
            if row.table == "registrations":
                columns, refusal = row.columns, refused_as(row.columns, row.answered, self.version)
                if refusal != columns["refusal"]:  # equal columns, with their final `refusal`, stay one object
                    known = self._final_columns.get((id(columns), refusal))
                    if known is None:
                        if len(self._final_columns) >= MAX_FINAL_COLUMNS:
                            self._final_columns.clear()
                        known = self._final_columns[id(columns), refusal] = (columns, {**columns, "refusal": refusal})
                    row = row._replace(columns=known[1])
            if self.provisional:
                self.provisional.pop(row.event_id, None)
        self.out.append(row)

    def quarantine(
        self, connection: Connection, cut: Cut, error: DecodeError, length: int, *, from_server: bool
    ) -> None:
        """Write a quarantine row for a refused piece of `length` bytes."""
        self.counts.quarantined[error.reason.value] += 1
        identity = f"{'answer' if from_server else 'request'} {cut.position}"
        self.emit(quarantine_row((self.id, connection.channel_id), self.place, error, cut.data, length, identity))
