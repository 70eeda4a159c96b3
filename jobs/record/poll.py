"""Ask name servers what they know, again and again, and write their answers as event logs.

Questions are those of any client (source: both generations `DefaultRequestProcessor`, `MQClientAPIImpl`), and never more of
them a second than was asked for. One connection to a name server, one question at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import struct
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from jobs.errors import EXIT_OK, NotRecordedError, first_line
from jobs.record.segments import Segment, finish_left_over, make_folder, say
from namesrv_core.asking.shown import ShownCluster, ShownRoute, ShownTopics, shown_by
from namesrv_core.inference.settings import shown_text
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG
from namesrv_core.machine.tables import BrokerData
from namesrv_wire.codes import VERSION_NAMES, version_name
from namesrv_wire.errors import MAX_HEADER_BYTES, MAX_LENGTH, RECORDING_GAP_NS, DecodeError
from namesrv_wire.logs.event_log import line_of
from namesrv_wire.packets.segments import address_of
from namesrv_wire.protocol.frames import JSON, ROCKETMQ, Frame, decode_frame
from namesrv_wire.protocol.requests import KnownFrame
from namesrv_wire.rows import FrameRow, Place, fact_row, gap_until
from namesrv_wire.secrets import blot, is_secret

_CLUSTER = Question(RequestCode.GET_BROKER_CLUSTER_INFO)
_TOPICS = Question(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
_ORDERS = Question(RequestCode.GET_KVLIST_BY_NAMESPACE, ORDER_TOPIC_CONFIG)
_CONFIGURATION = Question(RequestCode.GET_NAMESRV_CONFIG)
_VERSION: Final = VERSION_NAMES.index("4.9.4")
"""Stated in questions: what clients had when standard JSON began."""
_FIRST, _BEHIND = VERSION_NAMES.index("4.3.0"), VERSION_NAMES.index("5.9.9")
_CONNECT_S: Final = 5
_NS_PER_S: Final = 1_000_000_000
_PLACE: Final = ("", 0)
_T = TypeVar("_T")


class Polling(NamedTuple):
    """How to ask: a round every so many seconds, so many questions a second, a new file every so many seconds.

    An answer is awaited for `wait_s`; who does not answer is asked again after `first_wait_s`, then after twice as long, up to
    `last_wait_s`.
    """

    folder: Path
    every_s: float = 5
    rate: float = 20
    rotate_s: float = 3_600
    wait_s: float = 20
    first_wait_s: float = 1
    last_wait_s: float = 60


class NoAnswerError(Exception):
    """A target does not answer as a name server does; the message says what it does."""


class Answered(NamedTuple):
    """An answer: when its question was sent (ns since the epoch), and when it was there."""

    asked_ns: int
    at_ns: int
    frame: Frame


class Connection:
    """One connection to a target. `namesrv_id`: the address at its other end; `channel_id`: as that end would call it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float) -> None:
        self._reader, self._writer, self._wait_s, self._opaque = reader, writer, wait_s, 0
        self.namesrv_id, here = (_named(writer.get_extra_info(end)) for end in ("peername", "sockname"))
        self.channel_id = f"{here}#{time.time_ns()}"

    async def ask(self, question: Question) -> Answered:
        """Return the answer to a question. Raises NoAnswerError where there is none."""
        self._opaque += 1
        asked_ns, begin = time.time_ns(), time.perf_counter_ns()
        self._writer.write(_request(question, self._opaque))
        frame = await _within(self._wait_s, self._answer(), "no answer")
        return Answered(asked_ns, asked_ns + time.perf_counter_ns() - begin, frame)

    def close(self) -> None:
        """End it."""
        self._writer.close()

    async def _answer(self) -> Frame:
        await self._writer.drain()
        while True:
            head = await self._reader.readexactly(8)
            length, word = struct.unpack(">iI", head)
            header_length, is_known = word & 0xFFFFFF, word >> 24 in (JSON, ROCKETMQ)
            if not is_known or not 4 <= length <= MAX_LENGTH or header_length > min(length - 4, MAX_HEADER_BYTES):
                raise NoAnswerError(f"it sends {head!r}, which begins no answer of a name server (or TLS is required)")
            frame = decode_frame(head + await self._reader.readexactly(length - 4))
            if frame.is_response and frame.opaque == self._opaque:
                return frame


class Target:
    """One name server that is asked. `failed`: why it does not answer; None while it does."""

    def __init__(self, address: tuple[str, int], polling: Polling) -> None:
        self.host, self.port = address
        self.name = address_of(*address)
        self.failed: str | None = None
        self.has_answered = False
        self._polling = polling
        self._connection: Connection | None = None
        self._segment: Segment | None = None
        self._segment_until = 0.0
        self._identified: tuple[str, int] | None = None
        """The name server of the file, and its version."""
        self._configured = ""
        """How it was configured, as the file tells."""
        self._groups: dict[str | None, BrokerData] = {}
        self._asked: dict[str | None, float] = {}
        """When the route of each listed topic was asked for last; 0: it is to be asked for first."""
        self._names: dict[str | None, frozenset[str | None]] = {}
        """The broker names in the last route of each topic."""
        self._next = 0.0
        self._last_seq = self._last_answer_ns = self._failed_ns = 0
        self._strange = False

    async def run(self) -> None:
        """Ask until this is cancelled; then the file is finished."""
        polling, failures = self._polling, 0
        try:
            while True:
                begin = time.monotonic()
                try:
                    await self._round(begin + polling.every_s)
                    failures, wait_s = 0, polling.every_s
                except NoAnswerError as error:
                    self._hang_up()
                    if self.failed is None:
                        self.failed, self._failed_ns = str(error), self._last_answer_ns
                        say(f"{self.name}: {error}; asked again, after one minute at most")
                    wait_s = min(polling.last_wait_s, polling.first_wait_s * 2 ** min(failures, 16))
                    failures += 1
                    begin = time.monotonic()
                await asyncio.sleep(max(0.0, begin + wait_s - time.monotonic()))
        finally:
            self._hang_up()
            self._finish()

    async def _round(self, until: float) -> None:
        """Ask for what is there, then for routes as long as there is time."""
        if self._segment is not None and time.monotonic() >= self._segment_until:
            await asyncio.to_thread(self._finish)
        shown = await self._ask(_CLUSTER)
        if not isinstance(shown, ShownCluster):
            raise NoAnswerError("its answer is none of a name server's")
        changed = {name for name in {*shown.groups, *self._groups} if shown.groups.get(name) != self._groups.get(name)}
        self._groups = shown.groups
        listed = await self._ask(_TOPICS)
        if isinstance(listed, ShownTopics):
            gone = {topic for topic in self._asked if topic not in listed.topics}
            asked = self._asked
            self._asked = {topic: asked.get(topic, 0.0) for topic in sorted(listed.topics, key=str)}
            self._asked |= dict.fromkeys(gone, 0.0)  # once more: that a list lacks them does not say whose they were
        else:
            gone = set()
        for topic, names in self._names.items():
            if topic in self._asked and names & changed:
                self._asked[topic] = 0.0
        await self._ask(_ORDERS)
        await self._ask(_CONFIGURATION)
        # However slow it is to tell what is there, half of the time is for routes, or for one at least.
        until = max(until, time.monotonic() + self._polling.every_s / 2)
        for number, topic in enumerate(sorted(self._asked, key=self._asked.__getitem__)):
            if number and max(self._next, time.monotonic()) >= until:
                break
            route = await self._ask(Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic, standard_json=True))
            self._names[topic] = frozenset(route.queue_datas) if isinstance(route, ShownRoute) else frozenset()
            self._asked[topic] = time.monotonic()
            if topic in gone:
                del self._asked[topic], self._names[topic]

    async def _ask(self, question: Question) -> object:
        """Return what the answer to a question shows, when it is written; None: nothing. It is asked when it is time for it."""
        await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + 1 / self._polling.rate
        if self._connection is None:
            wait_s = self._polling.wait_s
            opening = asyncio.open_connection(self.host, self.port)
            self._connection = Connection(*await _within(min(wait_s, _CONNECT_S), opening, "no connection"), wait_s)
        answered = await self._connection.ask(question)
        frame = answered.frame
        if question == _CONFIGURATION:
            # Routes depend on it, so it is written when it is new.
            text = shown_text(frame.body.decode("utf-8", "replace"))
            if frame.code == ResponseCode.SUCCESS and text != self._configured and self._segment is not None:
                self._configured = text
                evidence = "answer to a question about the configuration"
                fact = self._fact(self._connection, answered.at_ns, "configured", evidence, properties=text)
                self._segment.write(line_of(fact))
            return None
        if frame.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED or frame.version < 0:
            raise NoAnswerError(f"it does not know request {question.code}: no name server")
        body = frame.body.decode("utf-8", "replace") if frame.body else None
        shown = shown_by(question, Answer(frame.code, body, frame.remark))
        if question == _CLUSTER and shown is None:
            raise NoAnswerError(
                f"answer {frame.code} to a question about the cluster: {frame.remark or 'no cluster'}"[:200]
            )
        self._write(question, answered, self._connection)
        return shown

    # -- what is written -----------------------------------------------------------------------------------------------

    def _write(self, question: Question, answered: Answered, connection: Connection) -> None:
        """Write an answer, behind what it tells of the name server; a gap begins a file, so that times only go forwards."""
        # It did not answer for so long before this that nothing counts as recorded then.
        ends_gap = self._failed_ns > 0 and answered.asked_ns - self._failed_ns >= RECORDING_GAP_NS
        if ends_gap:
            self._finish()
        if self._segment is None:
            self._segment = Segment(self._polling.folder, self.name)
            self._segment_until = time.monotonic() + self._polling.rotate_s
        version = answered.frame.version
        if self._identified != (connection.namesrv_id, version):
            facts = []
            if ends_gap:
                evidence, until = f"not polled: {self.failed}", gap_until(self._failed_ns, answered.asked_ns)
                facts.append(self._fact(connection, self._failed_ns, "recording_gap", evidence, properties=until))
            facts.append(self._fact(connection, answered.asked_ns, "observed_from", "polls"))
            evidence = f"version {version} in the header of an answer: {version_name(version)}"
            facts.append(self._fact(connection, answered.asked_ns, "identified", evidence, version=version))
            for fact in facts:
                self._segment.write(line_of(fact))
            self._identified, self._configured = (connection.namesrv_id, version), ""
        if self.failed is not None:
            say(f"{self.name}: it answers again")
            self.failed, self._failed_ns = None, 0
        is_strange = not _FIRST <= version <= _BEHIND
        if is_strange != self._strange:
            known = "none of" if is_strange else "one of"
            say(f"{self.name}: its release is {version_name(version)}, {known} those that are replayed, 4.3 to 5.9")
        self._strange, self.has_answered = is_strange, True
        self._last_answer_ns = answered.at_ns
        self._segment.write(line_of(self._observation(question, answered, connection)))

    def _fact(self, of: Connection, at_ns: int, kind: str, evidence: str, **more: Any) -> FrameRow:
        return fact_row(of.namesrv_id, self._position(at_ns), Place(*_PLACE, at_ns), kind, evidence, **more)

    def _observation(self, question: Question, answered: Answered, connection: Connection) -> FrameRow:
        request_seq, seq = self._position(answered.asked_ns), self._position(answered.at_ns)
        observed = KnownFrame(answered.frame).observed
        if question == _ORDERS:
            observed["body"] = _without_secrets(observed["body"])
        if observed["remark"] is not None:
            observed["remark"] = blot(observed["remark"].encode()).decode("utf-8", "replace")
        times = answered.asked_ns // 1_000, answered.at_ns // 1_000
        columns = {
            "code": int(question.code),
            "subject": question.subject,
            "scope": None,
            "standard_json": question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC,
            "request_version": _VERSION,
            "language": "PYTHON",
        }
        own = ("route_observations", connection.namesrv_id, seq, None, *times, connection.channel_id, None, *_PLACE)
        return FrameRow(*own, columns, observed, request_seq, nth=0)

    def _position(self, at_ns: int) -> int:
        """Return a position that nothing else has; where a clock goes back, positions do."""
        is_back = at_ns < self._last_seq - _NS_PER_S
        self._last_seq = at_ns if is_back else max(at_ns, self._last_seq + 1)
        return self._last_seq

    def _finish(self) -> None:
        self._identified = None
        if self._segment is not None:
            segment, self._segment = self._segment, None
            segment.finish()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def record(arguments: argparse.Namespace) -> int:
    """Record until a signal, or for a time; return the exit code. Raises UsageError, and NotRecordedError if nobody answered."""
    folder = Path(arguments.output)
    make_folder(folder)
    polling = Polling(folder, arguments.every, arguments.rate, arguments.rotate)
    return asyncio.run(poll(list(dict.fromkeys(arguments.poll)), polling, arguments.for_s))


async def poll(addresses: list[tuple[str, int]], polling: Polling, for_s: float | None = None) -> int:
    """Ask name servers at these addresses until SIGINT or SIGTERM, or for so many seconds; return the exit code."""
    targets = [Target(address, polling) for address in addresses]
    for target in targets:
        finish_left_over(polling.folder, target.name)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    asking = [asyncio.ensure_future(target.run()) for target in targets]
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([stopped, *asking], timeout=for_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        pending = {*asking}
        while pending:  # before Python 3.12 `wait_for` forgets to end if what it waits for is there at the same moment
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.1)
    for task in asking:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            raise error
    if not any(target.has_answered for target in targets):
        why = "; ".join(f"{target.name}: {target.failed or 'no answer yet'}" for target in targets)
        raise NotRecordedError(f"nothing is recorded, no name server has answered ({why})")
    return EXIT_OK


async def _within(wait_s: float, what: Awaitable[_T], without: str) -> _T:
    """Return what comes from a target within a time. Raises NoAnswerError for all that goes wrong there."""
    try:
        return await asyncio.wait_for(what, wait_s)
    except asyncio.TimeoutError:
        raise NoAnswerError(f"{without} within {wait_s:g} s") from None
    except EOFError:
        raise NoAnswerError("it closes the connection") from None
    except OSError as error:
        number = error.errno or 0
        raise NoAnswerError(os.strerror(number).lower() if number > 0 else first_line(error)) from error
    except DecodeError as error:
        raise NoAnswerError(first_line(error)) from error


def _request(question: Question, opaque: int) -> bytes:
    fields: dict[str, str] = {}
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        fields = {"topic": question.subject or "", "acceptStandardJsonOnly": "true"}
    elif question.subject is not None:
        fields = {"namespace": question.subject}
    header: dict[str, Any] = {"code": int(question.code), "flag": 0, "language": "PYTHON", "opaque": opaque}
    header |= {"serializeTypeCurrentRPC": "JSON", "version": _VERSION, "extFields": fields}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(text), len(text)) + text


def _named(end: tuple[Any, ...] | None) -> str:
    if end is None:
        raise NoAnswerError("it closes the connection")
    return address_of(*end[:2])


def _without_secrets(body: str | None) -> str | None:
    """Return a list of KV entries with those replaced that sound like secrets, byte for byte if there is none."""
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        table = json.loads(body or "")["table"]
        hidden = {
            key: "x" * len(value) if is_secret(key) else blot(value.encode()).decode("utf-8", "replace")
            for key, value in table.items()
        }
        return body if hidden == table else json.dumps({"table": hidden}, ensure_ascii=False, separators=(",", ":"))
    return body
