"""A name server's work without its sockets: what a request does, what it is answered with, and the lines that tell of both.

Source: RocketMQ 4.9.7 and 5.3.3 NamesrvController, DefaultRequestProcessor, ClientRequestProcessor, BrokerHousekeepingService.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from jobs.record.properties import Properties
from namesrv_core.asking.answers import (
    QUESTIONS,
    STANDARD_JSON_SINCE,
    UNDECODABLE_BODY,
    answer,
    answer_to,
    kv_list_json,
    question_of,
    writer,
)
from namesrv_core.asking.shown import read_json
from namesrv_core.history.verification import parts_read
from namesrv_core.inference.settings import shown_text
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.events import NS_PER_MS
from namesrv_core.machine.past import TablePart, Versions
from namesrv_core.machine.registry import Change, Notification, Registry, Step
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS
from namesrv_core.machine.step import apply_step, step
from namesrv_core.machine.tables import KvValue, TopicTable
from namesrv_wire.codes import EVENT_TABLES, version_name
from namesrv_wire.errors import DecodeError
from namesrv_wire.logs.event_log import line_of
from namesrv_wire.protocol import bodies
from namesrv_wire.protocol.frames import answer_frame, completed, one_way_frame
from namesrv_wire.protocol.requests import KnownFrame, KnownFrames, refused_as
from namesrv_wire.rows import FrameRow, Place, Values, digest_id, event_row, fact_row
from schemas.codec import event_of, fields_json, topic_table_of

_NS_PER_US: Final = 1_000
_SINCE_5X: Final = frozenset(
    {RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.GET_BROKER_MEMBER_GROUP, RequestCode.BROKER_HEARTBEAT}
)
_NOTIFY: Final = 905
_MAX_ANSWERS, _MAX_ANSWER_BYTES, _MAX_TOPIC_TABLES = 4_096, 64 << 20, 1_024
_NOT_READY: Final = Answer(ResponseCode.SYSTEM_ERROR, None, "name server not ready")


class Channel(NamedTuple):
    """A connection. `id`: as events name it; `remote_addr`: its peer, ip:port."""

    id: str
    remote_addr: str


class _Kept(NamedTuple):
    """An answer that holds as long as none of `parts` has changed since the change of that number; its body as bytes."""

    answer: Answer
    body: bytes
    number: int
    parts: list[TablePart] | None


class Service:
    """One name server. Whoever owns it takes `lines` and writes them before any answer leaves, and closes what is in `closing`.

    `is_event`: among `lines` is something that changes the registry, or a lease. `kv_text`: what the KV file is to hold.
    `notifications`: address and frame of requests that the name server sends. `notes`: sentences for whoever runs it.
    """

    def __init__(self, properties: Properties, version: int, namesrv_id: str, repeat_s: float) -> None:
        """`repeat_s`: an answer equal to the last one to the same question is recorded again after this time."""
        self.namesrv, self._version, self._id = properties.namesrv, version, namesrv_id
        self._properties, self._repeat_ns = properties, int(repeat_s * 1_000_000_000)
        self.registry = Registry(self.namesrv.profile)
        self.lines: list[str] = []
        self.is_event = False
        self.kv_text: str | None = None
        self.closing: list[str] = []
        self.notifications: list[tuple[str, bytes]] = []
        self.notes: list[str] = []
        self._frames, self._versions = KnownFrames(), Versions()
        self._topics: dict[str, TopicTable] = {}
        self._answers: dict[Question, _Kept] = {}
        self._answer_bytes = 0
        self._recorded: dict[tuple[Any, ...], tuple[Answer, int]] = {}
        self._last_ns = self._start_ms = self._tick_ns = self._sent = 0

    # -- its life ------------------------------------------------------------------------------------------------------

    def start(self, entries: Iterable[events.PutKvConfig | events.DeleteKvConfig], namespaces: Iterable[str]) -> None:
        """Begin, with the KV entries and `namespaces` of the file, and what was recorded since it was written."""
        for namespace in namespaces:
            self.registry.apply([Change("kv_config_table", (namespace, None), KvValue(None))], 0)
        for entry in entries:
            self._apply(entry, 0)
        at_ns = self._slot()
        if self.registry.kv_config_table:  # whence they come is not recorded
            self._fact("observed_from", at_ns, "KV entries from a file")
            at_ns = self._slot()
        self._fact("started", at_ns, "it says so itself")
        evidence = f"version {self._version} in the header of an answer: {version_name(self._version)}"
        self._fact("identified", self._slot(), evidence, version=self._version)
        self._fact("configured", self._slot(), "it says so itself", properties=shown_text(self._properties.text))
        for name in self.registry.kv_config_table:
            body = kv_list_json(self.registry, name, self.namesrv)
            asked: Values = {"code": int(RequestCode.GET_KVLIST_BY_NAMESPACE), "subject": name, "scope": None}
            asked |= {"standard_json": False, "request_version": self._version, "language": None}
            self._observe(asked, Answer(ResponseCode.SUCCESS, body), self._slot(), None)
        self._start_ms = at_ns // NS_PER_MS
        first_ns = at_ns - START_BEFORE_FIRST_ACCEPT_NS + self.namesrv.profile.scan_delay_ms * NS_PER_MS
        period_ns = self.namesrv.scan_period_ms * NS_PER_MS
        self._tick_ns = first_ns if first_ns > at_ns else first_ns + period_ns

    def stop(self) -> None:
        """End: all routes are lost."""
        self._fact("stopped", self._slot(), "it says so itself")

    def pass_time(self) -> float:
        """Run the scans that are due; return in how many seconds the next one is."""
        now_ns = max(time.time_ns(), self._last_ns)
        while self._tick_ns <= now_ns:
            tick_ns = self._tick_ns
            self._tick_ns += self.namesrv.scan_period_ms * NS_PER_MS
            taken = self._apply(events.ScanNotActiveBroker(), tick_ns // NS_PER_MS)
            if taken.changes or taken.closed:
                self.is_event = True
            self.closing += taken.closed
            for channel_id in dict.fromkeys(taken.closed):
                channel = Channel(channel_id, channel_id.partition("#")[0])
                self._ended(channel, "close", "namesrv", None, max(self._last_ns, tick_ns) + _NS_PER_US)
        return max(0.0, (self._tick_ns - now_ns) / 1_000_000_000)

    def ended(self, channel: Channel, kinds: Iterable[str], closed_by: str, silent_ms: int) -> None:
        """Note the end of a connection."""
        self.pass_time()
        for kind in kinds:
            self._ended(channel, kind, closed_by, silent_ms, self._slot())

    def _ended(self, channel: Channel, kind: str, closed_by: str, silent_ms: int | None, at_ns: int) -> None:
        self._last_ns = at_ns
        identity = digest_id(self._id, channel.id, kind, "")
        columns: Values = {"kind": kind, "closed_by": closed_by, "remote_addr": channel.remote_addr}
        columns |= {"silent_ms": silent_ms, "pending_requests": 0}
        self._apply(events.ChannelDestroyed(channel.id, channel.remote_addr), at_ns // NS_PER_MS)
        self._write(self._row("channel_events", at_ns, identity, channel.id, **columns))

    # -- requests ------------------------------------------------------------------------------------------------------

    def take(self, data: bytes, channel: Channel) -> bytes | None:
        """Return the answer to a frame; None: there is none. Raises DecodeError for what is no frame."""
        self.pass_time()
        known, opaque = self._frames.decode(data)
        frame = known.frame
        if frame.is_response:
            return None
        answered: tuple[Answer, bytes | None] | None
        try:
            if not self._is_known(frame.code):
                remark = f" request type {frame.code} not supported"
                refusal = Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, remark)
                answered = (refusal, None) if self.namesrv.profile.has_topic_registration else None
            elif frame.code in EVENT_TABLES:
                answered = self._event(known, opaque, channel), None
            else:
                answered = self._question(known, channel)
        except DecodeError as error:  # a body that cannot be read, by a real one or by this one
            self.notes.append(f"{channel.remote_addr}: a request {frame.code} is refused: {error}")
            answered = Answer(ResponseCode.SYSTEM_ERROR, None, str(error)), None
        if answered is None or frame.is_one_way:
            return None
        reply, body = answered
        if body is None:
            body = b"" if reply.body is None else reply.body.encode("utf-8", "replace")
        return answer_frame(reply, body, frame, opaque, self.namesrv, self._version)

    def _is_known(self, code: int) -> bool:
        profile = self.namesrv.profile
        if code == RequestCode.ADD_WRITE_PERM_OF_BROKER:
            return profile.has_add_write_perm
        is_known = code in EVENT_TABLES or code in QUESTIONS or code == RequestCode.GET_NAMESRV_CONFIG
        return is_known and (profile.has_topic_registration or code not in _SINCE_5X)

    def _event(self, known: KnownFrame, opaque: int, channel: Channel) -> Answer:
        """Return the answer to a request that may change something, which is done and written."""
        frame, at_ns, is_4x = known.frame, self._slot(), not self.namesrv.profile.has_topic_registration
        table = EVENT_TABLES[frame.code]
        columns, topics = known.request(at_ns // NS_PER_MS)
        values: Values = {**columns}
        tables: dict[str, TopicTable] = {}
        if table == "registrations":
            values["refusal"] = refused_as(columns, {}, self._version)
            if is_4x and frame.version < 0:  # it looks at the version first, 5.x at the checksum
                values["refusal"] = UNDECODABLE_BODY
            if topics is not None:
                tables[topics.digest] = self._topic_table(topics)
        identity, nth = None, 0 if table == "heartbeats" else None
        if nth is None:
            identity = digest_id(self._id, channel.id, "request", frame.code, at_ns, opaque, content=frame.body)
        row = self._row(table, at_ns, identity, channel.id, **values)._replace(nth=nth)
        event = event_of({**row.values, "kind": table}, tables)
        if frame.code == RequestCode.UPDATE_NAMESRV_CONFIG:
            event = events.RefusedRequest(
                "Can not update config path" if is_4x else "Can not update config in black list."
            )
        taken = self._apply(event, at_ns // NS_PER_MS)
        self.notifications += [self._notified(each) for each in taken.notifications if each.to]
        reply = answer_to(event, taken, self.registry, self.namesrv)
        if frame.code == RequestCode.UPDATE_NAMESRV_CONFIG:
            reply = reply._replace(code=ResponseCode.NO_PERMISSION)
        if not frame.is_one_way:
            answered = {"response_code": int(reply.code), "response_remark": reply.remark, "response_body": reply.body}
            row = row._replace(answered={**answered, "response_fields": fields_json(reply) or "{}"})
        self._write(row, topics)
        return reply

    def _question(self, known: KnownFrame, channel: Channel) -> tuple[Answer, bytes | None]:
        """Return the answer to a question, and its body as bytes if that is there."""
        frame, asked = known.frame, known.question or {}
        at_ns = self._slot()
        if frame.code == RequestCode.GET_NAMESRV_CONFIG:
            reply = Answer(ResponseCode.SUCCESS, self._properties.text)
            self._observe(asked, reply._replace(body=shown_text(reply.body or "")), at_ns, channel.id)
            return reply, None
        if (
            frame.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            and at_ns // NS_PER_MS - self._start_ms < self._properties.wait_ms
        ):
            return _NOT_READY, None
        standard = frame.version >= STANDARD_JSON_SINCE or bool(asked["standard_json"])
        kept = self._answered(question_of(frame.code, frame.ext, standard_json=standard))
        key = (frame.code, asked["subject"], asked["scope"], standard, frame.version, frame.language)
        before = self._recorded.get(key)
        if before is None or before[0] is not kept.answer or at_ns - before[1] >= self._repeat_ns:
            if len(self._recorded) >= _MAX_ANSWERS:
                self._recorded.clear()
            self._recorded[key] = kept.answer, at_ns
            self._observe(asked, kept.answer, at_ns, channel.id)
        return kept.answer, kept.body

    def _answered(self, question: Question) -> _Kept:
        kept = self._answers.get(question)
        if kept is not None:
            number, parts = kept.number, kept.parts
            holds = self._versions.number == number if parts is None else self._versions.unchanged_since(number, parts)
            if holds:
                return kept
            self._answer_bytes -= len(kept.body)
        reply = completed(answer(self.registry, question, self.namesrv), self.namesrv)
        body = b"" if reply.body is None else reply.body.encode("utf-8", "replace")
        if kept is not None and kept.answer == reply:
            reply = kept.answer
        if len(self._answers) >= _MAX_ANSWERS or self._answer_bytes + len(body) > _MAX_ANSWER_BYTES:
            self._answers.clear()
            self._answer_bytes = 0
        names = self.registry.topic_queue_table.get(question.subject, ())
        made = _Kept(reply, body, self._versions.number, parts_read(question, names))
        self._answers[question] = made
        self._answer_bytes += len(body)
        return made

    def _apply(self, event: events.Event, at_ms: int) -> Step:
        taken = step(self.registry, event, at_ms, self.namesrv)
        apply_step(self.registry, event, taken, at_ms, self.namesrv)
        if taken.changes:
            self._versions.note(taken.changes)
        if isinstance(event, (events.PutKvConfig, events.DeleteKvConfig)):
            write = writer(self.namesrv)
            spaces = (
                (name, write.mapping((key, write.text(value.text)) for key, value in entries.java_items()))
                for name, entries in self.registry.kv_config_table.java_items()
            )
            self.kv_text = write.record([("configTable", write.mapping(spaces))])
        return taken

    def _topic_table(self, topics: bodies.TopicTable) -> TopicTable:
        known = self._topics.get(topics.digest)
        if known is None:
            if len(self._topics) >= _MAX_TOPIC_TABLES:
                self._topics.clear()
            known = self._topics[topics.digest] = topic_table_of(topics.topics, topics.mappings)
        return known

    def _notified(self, notification: Notification) -> tuple[str, bytes]:
        fields = {
            "minBrokerId": str(notification.min_broker_id),
            "minBrokerAddr": notification.min_broker_addr,
            "offlineBrokerAddr": notification.offline_broker_addr,
            "haBrokerAddr": notification.ha_broker_addr,
        }
        self._sent += 1
        present = {name: value for name, value in fields.items() if value is not None}
        return notification.to or "", one_way_frame(_NOTIFY, present, self._sent, self.namesrv, self._version)

    # -- what is written -----------------------------------------------------------------------------------------------

    def _slot(self) -> int:
        """Return a position that nothing else has: each has a microsecond of its own. Where a clock goes back, it waits."""
        self._last_ns = max(self._last_ns + _NS_PER_US, time.time_ns() // _NS_PER_US * _NS_PER_US)
        return self._last_ns

    def _row(self, table: str, at_ns: int, identity: str | None, channel_id: str | None, **columns: Any) -> FrameRow:
        return event_row(table, self._id, at_ns, identity, channel_id, Place("", 0, at_ns), **columns)

    def _fact(self, kind: str, at_ns: int, evidence: str, **more: Any) -> None:
        self._write(fact_row(self._id, at_ns, Place("", 0, at_ns), kind, evidence, **more))

    def _observe(self, asked: Values, reply: Answer, at_ns: int, channel_id: str | None) -> None:
        columns = {"response_code": int(reply.code), "response_version": self._version, "remark": reply.remark}
        columns |= {"response_fields": fields_json(reply), "body": reply.body}
        row = self._row("route_observations", at_ns, None, channel_id, **asked, **columns)
        self.lines.append(line_of(row._replace(request_seq=at_ns, nth=0)))

    def _write(self, row: FrameRow, topics: bodies.TopicTable | None = None) -> None:
        self.is_event = True
        configs = None if topics is None else {"topics": topics.topics, "mappings": topics.mappings}
        self.lines.append(line_of(row, configs))


def kv_entries_in(path: Path) -> tuple[list[events.PutKvConfig | events.DeleteKvConfig], list[str]]:
    """Return what a KV file of a name server says: its entries, and its namespaces; nothing where there is none.

    Raises ValueError for a file that is none.
    """
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [], []
    table = found.get("configTable") if isinstance(found, dict) else None
    if not isinstance(table, dict) or not all(isinstance(entries, dict) for entries in table.values()):
        raise ValueError("no KV file of a name server")
    entries = [(name, key, value) for name, of in table.items() for key, value in of.items() if value is not None]
    return [events.PutKvConfig(name, key, str(value)) for name, key, value in entries], list(table)


def kv_events_in(lines: Iterable[bytes]) -> list[events.PutKvConfig | events.DeleteKvConfig]:
    """Return the changes of KV entries in lines of an event log."""
    found: list[events.PutKvConfig | events.DeleteKvConfig] = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # the last one may be torn
            event = json.loads(line) if b'"config_key"' in line else {}
            if event.get("response_code", 0) != ResponseCode.SUCCESS or "config_key" not in event:
                continue
            named = event["namespace"], event["config_key"]
            is_put = event["code"] == RequestCode.PUT_KV_CONFIG
            found.append(
                events.PutKvConfig(*named, event.get("config_value")) if is_put else events.DeleteKvConfig(*named)
            )
    return found


def write_kv(path: Path, text: str, *, is_synced: bool) -> None:
    """Write a KV file, so that there is the old one or the new one at any time. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.tmp")
    with made.open("wb") as file:
        file.write(text.encode("utf-8", "replace"))
        if is_synced:
            file.flush()
            os.fsync(file.fileno())
    made.replace(path)
