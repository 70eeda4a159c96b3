"""Requests and answers on the connections of one name server, matched by opaque, and their rows."""

from __future__ import annotations

from typing import Final

from namesrv_core.asking.answers import question_of
from namesrv_core.inference.settings import properties_of
from namesrv_wire.body_cache import BodyCache
from namesrv_wire.codes import CONFIRMING, EVENT_TABLES, OBSERVED, REQUEST_CODE_NOT_SUPPORTED, version_name
from namesrv_wire.connection import Connection, Pending
from namesrv_wire.errors import STRANGERS, DecodeError, Reason
from namesrv_wire.frames import Cut, Frame, decode_frame, head_of
from namesrv_wire.ledger import Ledger
from namesrv_wire.limits import MAX_PENDING
from namesrv_wire.requests import (
    asks_standard_json,
    body_text,
    fields_json,
    request_columns,
    response_columns,
    topic_configs_row,
)
from namesrv_wire.rows import Place, Row, beat_id, digest_id, envelope

MAX_DIGESTS: Final = 65_536
GET_NAMESRV_CONFIG: Final = 319
NOTIFY_MIN_BROKER_ID_CHANGE: Final = 905


class Exchange:
    """Decodes frames; a request takes effect with its answer, an answer to a question is an observation."""

    def __init__(self, ledger: Ledger, bodies: BodyCache) -> None:
        self.ledger = ledger
        self._bodies = bodies
        self._digests: set[str] = set()

    def frame(self, connection: Connection, cut: Cut, *, from_server: bool) -> None:
        """Take in one frame, or a piece that is none, that ended with this packet."""
        if cut.error is not None:
            self.refused(connection, cut, from_server=from_server)
            return
        self.ledger.tally.frames += 1
        try:
            frame = decode_frame(cut.data)
        except DecodeError as error:
            self.ledger.quarantine(connection, cut, error, len(cut.data), from_server=from_server)
            return
        if from_server:
            if frame.flag & 1:
                self._answer(connection, frame, cut.position)
            else:
                if len(connection.reverse) < MAX_PENDING and not frame.flag & 2:
                    connection.reverse[frame.opaque] = frame.code
                self.ledger.tally.ignored[f"request:{frame.code}"] += 1
                if frame.code == NOTIFY_MIN_BROKER_ID_CHANGE:
                    place = Place(*self.ledger.source, self.ledger.time_ns)
                    evidence = f"request {frame.code} to {connection.client}"
                    self.ledger.fact("min_broker_id_notified", self.ledger.slot(), place, None, evidence)
        elif frame.flag & 1:
            code = connection.reverse.pop(frame.opaque, None)
            self.ledger.tally.ignored["response:unmatched" if code is None else f"response:{code}"] += 1
        elif connection.closed_ns is not None:
            self.ledger.tally.ignored[f"request:{frame.code}:after_close"] += 1
        else:
            self._request(connection, frame, cut)

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
        if pending is not None and pending.values is not None and pending.table is not None:
            self._take_effect(connection, pending)

    def _confirm(self, connection: Connection, pending: Pending | None, code: int) -> None:
        """Note an answer of this code: only a name server answers some questions."""
        is_asked = pending.code in CONFIRMING if pending is not None else connection.asked_cut
        if is_asked and not self.ledger.confirmed and code != REQUEST_CODE_NOT_SUPPORTED:
            self.ledger.confirm()

    def _take_effect(self, connection: Connection, pending: Pending) -> None:
        """Write an event whose answer is here."""
        assert pending.values is not None
        assert pending.table is not None
        if connection.closed_ns is None:
            pending.values["seq"], pending.values["effect_time"] = self.ledger.slot(), self.ledger.time_ns // 1_000
        self.ledger.emit(Row(pending.table, pending.values))

    def _request(self, connection: Connection, frame: Frame, cut: Cut) -> None:
        code = frame.code
        table = EVENT_TABLES.get(code)
        if table is not None:
            self._event(connection, frame, cut, table)
            return
        self.ledger.tally.ignored[f"request:{code}"] += 1
        if not frame.flag & 2:
            question = None
            if code in OBSERVED:
                standard_json = asks_standard_json(frame)
                asked = question_of(code, frame.ext, standard_json=standard_json)
                question = [asked.subject, asked.scope, standard_json, frame.version, frame.language]
            self._await(
                connection,
                frame.opaque,
                Pending(code, self.ledger.slot(), self.ledger.time_ns, None, None, question),
            )

    def _event(self, connection: Connection, frame: Frame, cut: Cut, table: str) -> None:
        time_ns = self.ledger.time_ns
        try:
            columns, topics = request_columns(frame, time_ns // 1_000_000, self._bodies)
        except DecodeError as error:
            self.ledger.quarantine(connection, cut, error, len(cut.data), from_server=False)
            return
        self.ledger.tally.events[table] += 1
        connection.beats = connection.beats or table in ("heartbeats", "registrations")
        if topics is not None and topics.digest not in self._digests:
            if len(self._digests) >= MAX_DIGESTS:
                self._digests.clear()
            self._digests.add(topics.digest)
            self.ledger.emit(topic_configs_row(topics))
        seq = self.ledger.slot()
        if table == "heartbeats":
            nth = connection.beat(frame.code, time_ns // 1_000)
            identity = beat_id(self.ledger.id, connection.channel_id, frame.code, time_ns // 1_000, nth)
            columns |= {"nth": nth, "stated_id": None}
        else:
            place_in_stream = ("request", frame.code, cut.position, frame.opaque)
            identity = digest_id(self.ledger.id, connection.channel_id, *place_in_stream, content=frame.body)
        place = Place(*self.ledger.source, time_ns)
        values = envelope(self.ledger.id, seq, identity, time_ns, time_ns, connection.channel_id, place) | columns
        if connection.proxied is not None:
            values["proxied_addr"] = connection.proxied
        if frame.flag & 2:
            self.ledger.emit(Row(table, values))
        else:
            self._await(connection, frame.opaque, Pending(frame.code, seq, time_ns, table, values, None))

    def _await(self, connection: Connection, opaque: int, pending: Pending) -> None:
        if len(connection.pending) + len(connection.orphans) >= MAX_PENDING:
            self.unanswered_at_arrival(connection)
            connection.pending.clear()
        earlier = connection.pending.pop(opaque, None)
        if earlier is not None:
            connection.orphans.append(earlier)
        connection.pending[opaque] = pending

    def _answer(self, connection: Connection, frame: Frame, position: int) -> None:
        pending = connection.pending.pop(frame.opaque, None)
        self._identify(frame.version)
        self._confirm(connection, pending, frame.code)
        if pending is None:
            self.ledger.tally.ignored["response:unmatched"] += 1
            return
        if pending.question is not None:
            self.ledger.tally.observations += 1
            self._observation(connection, pending, frame, position)
            return
        self.ledger.tally.ignored[f"response:{pending.code}"] += 1
        if pending.code == GET_NAMESRV_CONFIG and frame.code == 0:
            self._configured(frame)
        if pending.values is None or pending.table is None:
            return
        pending.values |= response_columns(frame)
        self._take_effect(connection, pending)

    def _observation(self, connection: Connection, pending: Pending, frame: Frame, position: int) -> None:
        ledger = self.ledger
        subject, scope, standard_json, version, language = pending.question or (None, None, False, 0, None)
        channel = connection.channel_id
        identity = digest_id(
            self.ledger.id, channel, "answer", pending.code, position, frame.opaque, content=frame.body
        )
        place = Place(*self.ledger.source, self.ledger.time_ns)
        values = envelope(ledger.id, ledger.slot(), identity, pending.time_ns, ledger.time_ns, channel, place)
        values["proxied_addr"] = connection.proxied
        values["code"] = pending.code
        values["subject"] = subject
        values["scope"] = scope
        values["request_seq"] = pending.seq
        values["standard_json"] = standard_json
        values["request_version"] = version
        values["language"] = language
        values["response_code"] = frame.code
        values["response_version"] = frame.version
        values["remark"] = frame.remark
        values["response_fields"] = fields_json(frame)
        values["body"] = body_text(frame)
        ledger.emit(Row("route_observations", values))

    def unanswered_at_arrival(self, connection: Connection) -> None:
        """Write the unanswered requests of a connection with their arrival as effect."""
        for pending in [*connection.orphans, *connection.pending.values()]:
            if pending.values is not None and pending.table is not None:
                self.ledger.emit(Row(pending.table, dict(pending.values)))
        connection.orphans.clear()

    def _configured(self, frame: Frame) -> None:
        """Keep what the name server says of its settings; the rest of its configuration is nobody's business."""
        stated = properties_of(frame.body.decode("utf-8", "replace"))
        if stated:
            place = Place(*self.ledger.source, self.ledger.time_ns)
            text = "\n".join(f"{name}={value}" for name, value in sorted(stated.items()))
            evidence = "answer to a question about the configuration"
            self.ledger.fact("configured", self.ledger.slot(), place, None, evidence, text)

    def _identify(self, version: int) -> None:
        if version == self.ledger.version:
            return
        self.ledger.version = version
        place = Place(*self.ledger.source, self.ledger.time_ns)
        evidence = f"version {version} in the header of an answer: {version_name(version)}"
        self.ledger.fact("identified", self.ledger.slot(), place, version, evidence)
