"""Requests and answers on the connections of one name server, matched by opaque, and their rows."""

from __future__ import annotations

from typing import Final

from namesrv_core.inference.configuration import shown_text
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_wire.codes import CONFIRMING, EVENT_TABLES, REQUEST_CODE_NOT_SUPPORTED, version_name
from namesrv_wire.errors import STRANGERS, DecodeError, Reason
from namesrv_wire.limits import MAX_PENDING
from namesrv_wire.protocol.bodies import BodyCache
from namesrv_wire.protocol.known import KnownFrame, KnownFrames
from namesrv_wire.protocol.requests import topic_configs_row
from namesrv_wire.rows import NOTHING, FrameRow, Values, digest_id
from namesrv_wire.servers.ledger import Ledger
from namesrv_wire.streams.connection import Connection, Pending
from namesrv_wire.streams.cutting import Cut, head_of

MAX_DIGESTS: Final = 65_536
NOTIFY_MIN_BROKER_ID_CHANGE: Final = 905


class Exchange:
    """Decodes frames; a request takes effect with its answer, an answer to a question is an observation."""

    def __init__(self, ledger: Ledger, bodies: BodyCache, frames: KnownFrames) -> None:
        self.ledger = ledger
        self._bodies = bodies
        self._frames = frames
        self._digests: set[str] = set()

    def frame(self, connection: Connection, cut: Cut, *, from_server: bool) -> None:
        """Take in one frame, or a piece that is none, that ended with this packet."""
        if cut.error is not None:
            self.refused(connection, cut, from_server=from_server)
        else:
            self.take(connection, cut.position, cut.data, from_server=from_server)

    def take(self, connection: Connection, position: int, data: bytes, *, from_server: bool) -> None:
        """Take in the bytes of one frame at a position of their stream."""
        ledger = self.ledger
        tally = ledger.tally
        tally.frames += 1
        try:
            known, opaque = self._frames.decode(data)
        except DecodeError as error:
            ledger.quarantine(connection, Cut(position, data), error, len(data), from_server=from_server)
            return
        frame = known.frame
        if from_server:
            if frame.flag & 1:
                self._answer(connection, known, opaque)
                return
            if len(connection.reverse) < MAX_PENDING and not frame.flag & 2:
                connection.reverse[opaque] = frame.code
            tally.ignored[known.request_name] += 1
            if frame.code == NOTIFY_MIN_BROKER_ID_CHANGE:
                ledger.fact("min_broker_id_notified", f"request {frame.code} to {connection.client}")
        elif frame.flag & 1:
            code = connection.reverse.pop(opaque, None)
            tally.ignored["response:unmatched" if code is None else f"response:{code}"] += 1
        elif connection.closed_ns is not None:
            tally.ignored[_after_close(frame.code)] += 1
        elif frame.code in EVENT_TABLES:
            self._event(connection, known, opaque, Cut(position, data))
        else:
            try:
                question = known.question()
            except DecodeError as error:
                ledger.quarantine(connection, Cut(position, data), error, len(data), from_server=False)
                return
            tally.ignored[known.request_name] += 1
            if not frame.flag & 2:
                self._await(connection, opaque, Pending(frame.code, ledger.slot(), ledger.time_ns, None, question))

    def refused(self, connection: Connection, cut: Cut, *, from_server: bool) -> None:
        """Take in a piece that is no frame; a stranger has nothing else, and cut frames are told once a connection."""
        assert cut.error is not None
        tally, reason = self.ledger.tally, cut.error.reason
        tally.pieces += 1
        if reason is Reason.TRUNCATED_PACKET:
            tally.cut_frames += 1
            self._cut_frame(connection, cut.data, from_server=from_server)
            if connection.is_cut:
                tally.ignored["cut_frame"] += 1
                return
            connection.is_cut = True
        self.ledger.quarantine(connection, cut, cut.error, cut.length, from_server=from_server)
        if reason in STRANGERS:
            connection.give_up()

    def _cut_frame(self, connection: Connection, data: bytes, *, from_server: bool) -> None:
        """Use what the beginning of a cut frame says: that a broker beats, that an event was answered, by whom."""
        head = head_of(data)
        if head is None or head.is_answer is not from_server:
            return
        if not from_server:
            connection.asked_cut |= head.code in CONFIRMING
            connection.beats |= EVENT_TABLES.get(head.code) in ("heartbeats", "registrations")
            return
        if head.version is not None:
            self._identify(head.version)
        pending = None if head.opaque is None else connection.pending.pop(head.opaque, None)
        self._confirm(connection, pending, head.code)
        if pending is not None and pending.row is not None:
            self._take_effect(connection, pending.row, NOTHING)

    def _confirm(self, connection: Connection, pending: Pending | None, code: int) -> None:
        """Note an answer of this code: only a name server answers some questions."""
        is_asked = pending.code in CONFIRMING if pending is not None else connection.asked_cut
        if is_asked and not self.ledger.confirmed and code != REQUEST_CODE_NOT_SUPPORTED:
            self.ledger.confirm()

    def _take_effect(self, connection: Connection, row: FrameRow, answered: Values) -> None:
        ledger, is_open = self.ledger, connection.closed_ns is None
        seq, at_us = (ledger.slot(), ledger.time_ns // 1_000) if is_open else (row.seq, row.effect_us)
        ledger.emit(row.answered_at(seq, at_us, answered))

    def _event(self, connection: Connection, known: KnownFrame, opaque: int, cut: Cut) -> None:
        ledger, frame = self.ledger, known.frame
        time_ns, table = ledger.time_ns, EVENT_TABLES[frame.code]
        try:
            columns, topics = known.request(time_ns // 1_000_000, self._bodies)
        except DecodeError as error:
            ledger.quarantine(connection, cut, error, len(cut.data), from_server=False)
            return
        ledger.tally.events[table] += 1
        connection.beats = connection.beats or table in ("heartbeats", "registrations")
        if table == "registrations":
            lease_ms = columns.get("heartbeat_timeout_ms")
            connection.lease_ms = BROKER_CHANNEL_EXPIRED_MS if lease_ms is None else lease_ms
        if topics is not None and topics.digest not in self._digests:
            if len(self._digests) >= MAX_DIGESTS:
                self._digests.clear()
            self._digests.add(topics.digest)
            ledger.emit(topic_configs_row(topics))
        seq, at_us, channel, nth, identity = ledger.slot(), time_ns // 1_000, connection.channel_id, None, None
        if table == "heartbeats":
            nth = connection.nth_at(frame.code, at_us)
        else:
            said = (ledger.id, channel, "request", frame.code, cut.position, opaque)
            identity = digest_id(*said, content=frame.body)
        own = (table, ledger.id, seq, identity, at_us, at_us, channel, connection.proxied, *ledger.source)
        row = FrameRow(*own, columns, NOTHING, nth=nth)
        if frame.flag & 2:
            ledger.emit(row)
        else:
            self._await(connection, opaque, Pending(frame.code, seq, time_ns, row, None))

    def _await(self, connection: Connection, opaque: int, pending: Pending) -> None:
        if len(connection.pending) + len(connection.orphans) >= MAX_PENDING:
            self.unanswered_at_arrival(connection)
            connection.pending.clear()
        earlier = connection.pending.pop(opaque, None)
        if earlier is not None:
            connection.orphans.append(earlier)
        connection.pending[opaque] = pending

    def _answer(self, connection: Connection, known: KnownFrame, opaque: int) -> None:
        ledger, frame = self.ledger, known.frame
        pending = connection.pending.pop(opaque, None)
        if frame.version != ledger.version:
            self._identify(frame.version)
        if not ledger.confirmed:
            self._confirm(connection, pending, frame.code)
        if pending is None:
            ledger.tally.ignored["response:unmatched"] += 1
            return
        if pending.question is not None:
            ledger.tally.observations += 1
            observed, text = known.observed(), None
            if pending.code == RequestCode.GET_NAMESRV_CONFIG:  # without secrets
                text = None if observed["body"] is None else shown_text(observed["body"])
                observed = {**observed, "body": text}
            self._observation(connection, pending, observed, pending.question)
            if text and frame.code == ResponseCode.SUCCESS:
                ledger.fact("configured", "answer to a question about the configuration", properties=text)
            return
        ledger.tally.ignored[f"response:{pending.code}"] += 1
        if pending.row is None:
            return
        self._take_effect(connection, pending.row, known.answer())

    def _observation(self, connection: Connection, pending: Pending, observed: Values, said: Values) -> None:
        ledger, channel = self.ledger, connection.channel_id
        asked_us, at_us = pending.time_ns // 1_000, ledger.time_ns // 1_000
        nth, proxied, (file, packet) = connection.nth_at(pending.code, at_us), connection.proxied, ledger.source
        own = ("route_observations", ledger.id, ledger.slot(), None, asked_us, at_us, channel, proxied, file, packet)
        ledger.emit(FrameRow(*own, said, observed, pending.seq, nth))

    def unanswered_at_arrival(self, connection: Connection) -> None:
        """Write the unanswered requests of a connection with their arrival as effect."""
        for pending in connection.waiting:
            if pending.row is not None:
                self.ledger.emit(pending.row)
        connection.orphans.clear()

    def withdraw(self, connection: Connection, after_ns: int) -> None:
        """Take back a connection's unanswered requests from behind a time: they reached nobody.

        What an earlier end of capture has counted stays so.
        """
        tally, provisional = self.ledger.tally, self.ledger.provisional
        for pending in connection.waiting:
            if pending.time_ns > after_ns and pending.row is not None and pending.row.event_id not in provisional:
                tally.events[pending.row.table] -= 1
                tally.ignored[_after_close(pending.code)] += 1
        connection.orphans = [pending for pending in connection.orphans if pending.time_ns <= after_ns]
        connection.pending = {
            opaque: pending for opaque, pending in connection.pending.items() if pending.time_ns <= after_ns
        }

    def _identify(self, version: int) -> None:
        if version == self.ledger.version:
            return
        self.ledger.version = version
        evidence = f"version {version} in the header of an answer: {version_name(version)}"
        self.ledger.fact("identified", evidence, version=version)


def _after_close(code: int) -> str:
    return f"request:{code}:after_close"
