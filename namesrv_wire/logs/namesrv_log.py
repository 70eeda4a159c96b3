"""A name server's own log, as logback writes it, into rows of bronze tables: `namesrv.log`, and what was rotated out of it.

A line is `DATE TIME LEVEL THREAD - MESSAGE` (`%d %p %t - %m%n`, the pattern that all releases are shipped with). Its time is that
of the zone which the configuration names, or of the host's: the line does not say which. Lines that one call writes are one event;
its source is the first of them. What no line shows is left out: heartbeats, and what a registration leaves as it was.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from re import Match
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from namesrv_core.machine.step import LEASE_ENDED
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.errors import FIRST_BYTES, MAX_LINE_BYTES, DecodeError, Reason
from namesrv_wire.logs.event_log import SCHEMA, Block, Positions, lines_of, rows_of_object
from namesrv_wire.logs.log_lines import (
    ANY_CALL,
    MAX_ROUTE,
    UNREGISTERED,
    UNREGISTERED_5X,
    Kind,
    kind_of,
    require_bounded,
    rows_of,
)
from namesrv_wire.rows import AnyRow, digest_id, quarantine_row

LINE: Final = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))? +(?:TRACE|DEBUG|INFO|WARN|ERROR) +(\S.*?) - (.*)",
    re.DOTALL,
)
"""A line: date and time, thread, message."""
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?")
_KV: Final = re.compile(
    r"(?:putKVConfig (?P<put>update|create new)|deleteKVConfig delete a) config item, "
    r"Namespace: (?P<namespace>.*) Key: (?P<config_key>.*) Value: (?P<config_value>.*)",
    re.DOTALL,
)
_PERM: Final = re.compile(r"(?P<what>wipe|add) write perm of broker\[(?P<name>.*)\], client: (?P<client>\S+), -?\d+")
_ADMIN: Final = (
    "putKVConfig update ",
    "putKVConfig create new config ",
    "deleteKVConfig ",
    "wipe write perm of ",
    "add write perm of ",
)
_CHANNEL: Final = re.compile(
    r"NETTY SERVER PIPELINE: (channelActive|channelInactive|IDLE exception)(?:, the channel)? ?\[(\S+)\]"
)
_CLOSED: Final = re.compile(r"closeChannel: close the connection to remote address\[(\S+)\] result: true")
_BEGINS, _RUNS, _ENDS = "rocketmqHome=", "The Name Server boot success.", "shutdown hook done"
OTHER_LINES, BROKER_LINES, _MERGED_LINES = "other_log_lines", "broker_log_lines", "lines_of_one_event"
_QUIET_LINES: Final = "quiet_log_lines"
_QUIET: Final = ("configTable SIZE: ", "start scanNotActiveBroker")
"""What every name server writes again and again. Source: KVConfigManager.printAllPeriodically, scanNotActiveBroker."""
_OF_A_BROKER: Final = (
    "register broker[",
    "registerBroker Exception, ",
    "Registering current broker to name server completed.",
    "Failed to register current broker to name server.",
    "unregisterBroker OK, NamesrvAddr: ",
    "unregisterBroker Exception, ",
    "The broker[",
)
"""How lines of brokers' logs begin that are about name servers (4.9.7 and 5.x BrokerOuterAPI, BrokerStartup)."""
_MULTILINE: Final = (*_ADMIN[:3], "configTable NS: ")
_BLOCK_LINES: Final = 1 << 17
_MAX_CONNECTIONS: Final = 1 << 16
_NS_PER_S: Final = 1_000_000_000
_BACK_NS: Final = 5 * _NS_PER_S
"""By less, lines of several threads may be out of order."""
_CALL_NS: Final = 50_000_000
"""Lines of one call follow each other sooner."""
_EVIDENCE: Final = "a name server's log"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class LogConf(NamedTuple):
    """What logs do not state themselves: whose they are (ip:port), and in which time zone (`zone_of`)."""

    namesrv_id: str
    zone: str


NO_LOG_CONF: Final = LogConf("", "UTC")
"""Enough for a broker's log, of which nothing becomes a row."""


def zone_of(name: str) -> tzinfo:
    """Return a time zone: `UTC`, `GMT+8`, `+05:30`, or a name of the IANA database. Raises ValueError where there is none."""
    found = _OFFSET.fullmatch(name)
    if found is not None and int(found[2]) < 24 and int(found[3] or 0) < 60:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    if name in ("UTC", "GMT", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(f"{name!r} is no time zone: {error}") from error
    except KeyError as error:
        raise ValueError(
            f"{name!r} is no time zone that this host knows; GMT+8 and the like need no database"
        ) from error


def is_log(beginning: bytes) -> bool:
    """Return whether a text that begins like this is a log of this form, perhaps from the middle of a line or a stack trace on."""
    return any(LINE.match(line) for line in beginning.split(b"\n"))


def is_of_a_broker(beginning: bytes) -> bool:
    """Return whether such a text is of a broker's log: what that says of name servers needs neither a zone nor whose it is."""
    found = [line[9] for each in beginning.split(b"\n") if (line := LINE.match(each))]
    return any(text.startswith(tuple(map(str.encode, _OF_A_BROKER))) for text in found) and not any(
        map(_is_known, found)
    )


def time_of(beginning: bytes, zone: tzinfo) -> int:
    """Return when a log begins, in ns since the epoch; 0: not stated."""
    first = next((found for line in beginning.split(b"\n") if (found := LINE.match(line))), None)
    try:
        return 0 if first is None else _ns(_local(first), zone, 0)
    except DecodeError:
        return 0


def read_log(path: Path, conf: LogConf, name: str = "") -> Iterator[Block]:
    """Yield the lines of a log in file order, as `read_blocks` does those of an event log.

    `Block.ignored` counts the lines that say nothing of a table (`OTHER_LINES`; of those a broker's about name servers:
    `BROKER_LINES`; of those that every name server writes at any time: `_QUIET_LINES`), and those that belong to an event of an
    earlier one. Rows that are facts (`is_fact`) are of no line.
    Raises `CaptureError` if the file is compressed and damaged.
    """
    reader, number = _Log(name or path.name, conf), 1
    block = Block(number)
    for line in lines_of(path):
        if line is not None:
            content = line.content.removesuffix(b"\r").removeprefix(BOM_UTF8).lstrip(b"\0")  # of a host that crashed
            reader.read(number, content, is_cut=line.is_cut, is_long=line.beyond > 0)
            number += 1
        if line is None or number - block.first >= _BLOCK_LINES:
            yield reader.ended(block, number)
            block = Block(number)


def is_fact(row: AnyRow) -> bool:
    """Return whether a row of a log is about the log itself: where it begins, and of which generation it is."""
    return row.table == "namesrv_events" and row.seq_is_given


class _Call(NamedTuple):
    """Lines that one call wrote: the first one's number and time, and what they say."""

    number: int
    at_ns: int
    last_ns: int
    operation: str
    messages: list[str]


class _Log:
    """Reads lines in their order. What is kept of connections and threads goes on from block to block."""

    def __init__(self, source_file: str, conf: LogConf) -> None:
        self._file, self._conf, self._zone = source_file, conf, zone_of(conf.zone)
        self._found: list[tuple[int, dict[str, Any]]] = []
        self._rows: list[tuple[int, AnyRow]] = []
        self._count, self._ignored = 0, Counter[str]()
        self._held: tuple[int, Match[bytes], bytearray] | None = None
        """A KV line, whose value may go on in the next line."""
        self._calls: dict[str, _Call] = {}
        self._expired: dict[str, None] = {}
        self._opened: dict[str, int] = {}
        self._ends: dict[str, dict[str, Any]] = {}
        self._idle: set[str] = set()
        self._start: tuple[int, int] | None = None
        self._times: dict[str, int] = {}
        self._first_ns = self._last_ns = 0
        self._is_begun = self._is_identified = False

    def read(self, number: int, line: bytes, *, is_cut: bool, is_long: bool) -> None:
        """Read a line. `is_cut`: nothing ends it: its writer may not be done; `is_long`: it goes on beyond what is here."""
        self._count += bool(line.strip())
        found = LINE.fullmatch(line)
        if self._held is not None and found is None and not is_cut and len(self._held[2]) + len(line) < MAX_ROUTE:
            self._held[2].extend(b"\n" + line)
            self._ignored[_MERGED_LINES] += bool(line.strip())
            return
        self._end_held()
        if found is None:
            self._ignored[OTHER_LINES] += bool(line.strip())
        elif is_cut or is_long:
            why = "half a line: nothing ends it" if is_cut else f"longer than {MAX_LINE_BYTES} bytes"
            self._refuse_known(number, found[9], DecodeError(Reason.BAD_LINE, why))
        elif found[9].startswith(tuple(map(str.encode, _MULTILINE))):
            self._held = number, found, bytearray(found[9])
        else:
            self._read_message(number, found, found[9])

    def ended(self, block: Block, number: int) -> Block:
        """Return the block of all lines before `number`, with the rows of those that were read since the last one."""
        self._end_held()
        for thread in [*self._calls]:
            self._end_call(thread)
        for at, value in self._found:
            self._make_rows(at, value, block.first)
        positions = Positions()
        self._rows.sort(key=lambda row: row[0])
        self._ignored[OTHER_LINES] += sum(at < block.first and not is_fact(row) for at, row in self._rows)
        block.rows = [positions.placed(row) for _, row in self._rows]
        block.count, block.frames, block.ignored = number - block.first, self._count, +self._ignored
        self._found, self._rows, self._count, self._ignored = [], [], 0, Counter()
        self._ends = {}
        return block

    def _end_held(self) -> None:
        if self._held is not None:
            number, found, text = self._held
            self._held = None
            self._read_message(number, found, bytes(text))

    def _make_rows(self, at: int, value: dict[str, Any], first: int) -> None:
        try:
            self._rows += [(at, row) for row in rows_of_object({**value}, self._file, max(at, first - 1))]
        except DecodeError as error:
            self._refuse(at, json.dumps(value).encode(), error)

    # -- times -----------------------------------------------------------------------------------------------------------

    def _at(self, found: Match[bytes]) -> int:
        """Return a line's time in ns since the epoch. Raises `DecodeError` for one that its zone has not, or has twice.

        An hour that a clock passes twice is decided by the lines before it: it is the first one until a time goes back.
        """
        local = _local(found)
        first, second = (_ns(local, self._zone, fold) for fold in (0, 1))
        if first == second:
            at_ns = first
        elif first > second:
            raise DecodeError(
                Reason.BAD_LINE, f"{local}: no clock of {self._conf.zone} showed that: is it another time zone?"
            )
        elif first < self._last_ns - _BACK_NS:
            at_ns = second
        elif self._last_ns and first - self._last_ns < second - first:
            at_ns = first
        else:
            raise DecodeError(
                Reason.BAD_LINE, f"{local} is twice in {self._conf.zone}, and no line before it says which is meant"
            )
        self._last_ns, self._first_ns = at_ns, self._first_ns or at_ns
        return at_ns

    # -- messages --------------------------------------------------------------------------------------------------------

    def _read_message(self, number: int, found: Match[bytes], text: bytes) -> None:
        known = _is_known(text)
        try:
            at_ns = self._at(found)
            if not known:
                self._read_other(number, at_ns, text.decode("utf-8", "replace"))
                return
            message = require_bounded(text.decode("utf-8"))
            if message.startswith(_ADMIN):
                self._read_admin(number, at_ns, message)
            else:
                self._read_change(number, at_ns, found[8].decode("utf-8", "replace").rstrip(" "), message)
        except UnicodeDecodeError as error:
            self._refuse(number, text, DecodeError(Reason.BAD_LINE, f"it is not in UTF-8: {error.reason}"))
        except DecodeError as error:
            self._refuse_known(number, text, error)

    def _read_change(self, number: int, at_ns: int, thread: str, message: str) -> None:
        kind = kind_of(message)
        if kind is None:
            return
        parts, _ = rows_of(kind, message)
        self._identify(number, parts)
        before, operation = self._calls.get(thread), self._operation(kind, thread, parts)
        goes_on = before is not None and at_ns - before.last_ns <= _CALL_NS and not kind.begins
        if operation == ANY_CALL:
            operation = before.operation if before is not None and goes_on else UNREGISTERED
        if before is not None and goes_on and before.operation == operation and "\n" not in message:
            before.messages.append(message)
            self._calls[thread] = before._replace(last_ns=at_ns)
            self._ignored[_MERGED_LINES] += 1
            return
        self._end_call(thread)
        if "\n" in message:
            raise DecodeError(Reason.BAD_LINE, "it goes over several lines")
        self._calls[thread] = _Call(number, at_ns, at_ns, operation, [message])

    def _operation(self, kind: Kind, thread: str, matched: Match[str]) -> str:
        """Return what a call was: in 5.x a lease that ended is an unregistration too, as a line before has shown."""
        parts = matched.groupdict()
        address = f"{parts.get('cluster')}|{parts.get('addr5')}"
        if kind.operation == LEASE_ENDED and parts["addr5"]:
            self._expired[address] = None
        elif kind.operation == UNREGISTERED and parts["addr5"]:
            return UNREGISTERED_5X if self._expired.pop(address, True) else LEASE_ENDED
        is_scan = "NSSc" in thread and kind.operation not in (UNREGISTERED, "kv_config_told")
        return LEASE_ENDED if is_scan else kind.operation

    def _end_call(self, thread: str) -> None:
        call = self._calls.pop(thread, None)
        if call is not None:
            text = "\n".join([call.operation, *call.messages])
            self._add(call.number, call.at_ns, "namesrv", text, event="logged", properties=text, evidence=_EVIDENCE)

    def _identify(self, number: int, matched: Match[str]) -> None:
        """Note of which generation the name server is, once for each start: no line states the release."""
        parts = matched.groupdict()
        if self._is_identified or not (parts.get("addr4") or parts.get("addr5") or parts.get("addr")):
            return
        release = "5.4.0" if parts.get("addr5") else "4.9.7"
        evidence = f"lines of {_EVIDENCE}, as {release[0]}.x writes them; no line says which release it is"
        self._is_identified, version = True, VERSION_NAMES.index(release)
        self._add(
            number,
            self._last_ns,
            "namesrv",
            f"identified {release}",
            event="identified",
            version=version,
            evidence=evidence,
            seq=self._last_ns - 3,
        )

    def _read_admin(self, number: int, at_ns: int, message: str) -> None:
        perm, kv = _PERM.fullmatch(message), _KV.fullmatch(message)
        fields: dict[str, object]
        if perm is not None:
            code = 205 if perm["what"] == "wipe" else 327
            fields = {"code": code, "broker_name": perm["name"], "channel_id": self._channel(perm["client"], at_ns)}
        elif kv is not None and not (message.count(" Key: ") > 1 or message.count(" Value: ") > 1):
            fields = {name: kv[name] for name in ("namespace", "config_key")}
            fields |= {"code": 100, "config_value": kv["config_value"]} if kv["put"] else {"code": 102}
        else:
            raise DecodeError(
                Reason.BAD_LINE, "it goes on otherwise than a name server writes it, or in more ways than one"
            )
        self._add(number, at_ns, "admin", message, **fields)

    def _read_other(self, number: int, at_ns: int, message: str) -> None:
        """Read what says nothing of a table: of connections, of the process, and all else."""
        if (end := _CHANNEL.fullmatch(message)) is not None:
            self._read_channel(number, at_ns, end[1], end[2])
        elif (closed := _CLOSED.fullmatch(message)) is not None and closed[1] in self._ends:
            self._ends[closed[1]]["closed_by"] = "timer" if closed[1] in self._idle else "namesrv"
            self._ignored[OTHER_LINES] += 1
        elif message.startswith(_BEGINS):
            self._start = number, at_ns
            self._ignored[OTHER_LINES] += 1
        elif message.startswith((_RUNS, _ENDS)):
            # It had begun when it first wrote of its configuration; what ran before is over since then.
            began, self._start = (number, at_ns) if self._start is None else self._start, None
            event = "started" if message.startswith(_RUNS) else "stopped"
            self._is_identified = self._is_identified and event == "stopped"
            place = began if event == "started" else (number, at_ns)
            self._opened.clear()
            self._add(*place, "namesrv", event, event=event, evidence=f"{_EVIDENCE}: {message[:80]}")
        else:
            is_quiet = message.startswith(_QUIET)
            rule = BROKER_LINES if message.startswith(_OF_A_BROKER) else _QUIET_LINES if is_quiet else OTHER_LINES
            self._ignored[rule] += 1

    def _read_channel(self, number: int, at_ns: int, what: str, remote: str) -> None:
        if what == "channelActive":
            self._ignored[OTHER_LINES] += 1
            if len(self._opened) >= _MAX_CONNECTIONS:
                del self._opened[next(iter(self._opened))]
            self._opened[remote] = at_ns
            self._idle.discard(remote)
            return
        is_idle = what == "IDLE exception"
        fields = {"event": "idle" if is_idle else "close", "closed_by": "timer" if is_idle else "client"}
        fields |= {"channel_id": self._channel(remote, at_ns), "remote_addr": remote}
        if is_idle:
            self._idle.add(remote)
        self._ends[remote] = self._add(number, at_ns, "channel", f"{what} {remote}", **fields)
        if not is_idle:
            self._opened.pop(remote, None)

    def _channel(self, remote: str, at_ns: int) -> str:
        """Return the name of a connection: of one that was opened before the log begins, by the time of its first line."""
        return f"{remote}#{self._opened.setdefault(remote, at_ns)}"

    # -- what is found ---------------------------------------------------------------------------------------------------

    def _add(self, number: int, at_ns: int, kind: str, text: str, **fields: object) -> dict[str, Any]:
        """Note an event; `text`: its lines. Equal ones of one instant are distinguished by their order."""
        if not self._is_begun:
            self._is_begun = True
            began = self._first_ns or at_ns
            # In front of all that its first instant has.
            self._add(1, began, "namesrv", "begins", event="observed_from", evidence=_EVIDENCE, seq=began - 1)
            self._add(1, began, "namesrv", "log", event="logged", properties="log", evidence=_EVIDENCE, seq=began - 2)
        name = self._conf.namesrv_id
        key = f"{at_ns} {text}"
        nth = self._times[key] = self._times.get(key, -1) + 1
        if len(self._times) > _MAX_CONNECTIONS:
            del self._times[next(iter(self._times))]
        event_id = digest_id("log", name, at_ns, text, nth)
        time = (
            (_EPOCH + timedelta(microseconds=at_ns // 1_000)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        )
        value = {"schema": SCHEMA, "kind": kind, "namesrv_id": name, "time": time, "event_id": event_id, **fields}
        self._found.append((number, value))
        return value

    def _refuse_known(self, number: int, text: bytes, error: DecodeError) -> None:
        """Refuse a line that begins as one that says something; any other is another one."""
        if _is_known(text):
            self._refuse(number, text, error)
        else:
            self._ignored[OTHER_LINES] += 1

    def _refuse(self, number: int, text: bytes, error: DecodeError) -> None:
        whose, place = (self._conf.namesrv_id, None), (self._file, number, None)
        self._rows.append((number, quarantine_row(whose, place, error, text, len(text), digest_id(content=text))))


def _is_known(text: bytes) -> bool:
    """Return whether a message begins as one that says something of a table."""
    message = text[:FIRST_BYTES].decode("utf-8", "replace")
    return message.startswith(_ADMIN) or kind_of(message) is not None


def _local(found: Match[bytes]) -> datetime:
    """Return the time that a line shows. Raises `DecodeError` for what is none."""
    try:
        whole = datetime(*(int(part) for part in found.groups()[:6]))  # type: ignore[arg-type]  # noqa: DTZ001  its zone is given
    except ValueError as error:
        raise DecodeError(Reason.BAD_LINE, f"no time: {error}") from error
    return whole + timedelta(microseconds=int((found[7] or b"0").ljust(6, b"0")))


def _ns(local: datetime, zone: tzinfo, fold: int) -> int:
    since = local.replace(tzinfo=zone, fold=fold) - _EPOCH
    return (since.days * 86_400 + since.seconds) * _NS_PER_S + since.microseconds * 1_000
