"""JSON-lines event logs in the documented format `namesrv-event/1`.

Lines are read into rows of the bronze tables (`log_file` reads whole files) and written from them.

The format is described in docs/event-log.md.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from namesrv_core.asking.answers import refusal_told
from namesrv_core.inference.configuration import shown_text, told_text
from namesrv_core.machine.codes import RequestCode
from namesrv_wire.codes import EVENT_TABLES, request_name
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import Fraction, canonical_json, parse_json
from namesrv_wire.limits import END_NS, FIRST_NS
from namesrv_wire.logs.event_fields import COMMON, KINDS, Kind, checked, whole_number
from namesrv_wire.logs.log_lines import logged
from namesrv_wire.protocol.bodies import topic_table
from namesrv_wire.protocol.requests import Kept, topic_configs_row
from namesrv_wire.rows import NOTHING, AnyRow, FrameRow, Row, Values, digest_id, gap_end_ms

SCHEMA: Final = "namesrv-event/1"
_KIND_OF_TABLE: Final = {kind.table: name for name, kind in KINDS.items()}
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?:Z|([+-])([01]\d|2[0-3]):?([0-5]\d))", re.ASCII
)
_EXPECTED: Final = "ISO-8601 with T and Z or an offset, or epoch milliseconds, expected"
EVENT_ID = re.compile(r"[0-9a-f]{32}")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_TIMES: Final = 65_536
_NS_PER_MS: Final = 1_000_000
_EXACT_DIGITS: Final = 28
_OWN: Final = ("time", "effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")
"""Fields that are other ones in each line: recorders write the rest again and again."""
# What a line takes as objects, beyond its bytes.
_OBJECT_BYTES: Final = 4_096


class Positions:
    """Gives lines without `seq` a position: their time in ns, made unique per name server in file order."""

    def __init__(self) -> None:
        self._taken: OrderedDict[tuple[str, int], dict[str, int]] = OrderedDict()

    def take(self, namesrv_id: str, effect_ns: int, event_id: str) -> int:
        """Return the position; the same one for an event that was met before at this time."""
        key = (namesrv_id, effect_ns)
        events = self._taken.setdefault(key, {})
        self._taken.move_to_end(key)
        if len(self._taken) > _MAX_TIMES:
            self._taken.popitem(last=False)
        return events.setdefault(event_id, effect_ns + len(events))

    def placed(self, row: AnyRow) -> AnyRow:
        """Return the row of a line, with a position if it did not state one."""
        if row.seq_is_given or not isinstance(row, FrameRow):
            return row
        seq = self.take(row.namesrv_id, ~row.seq, row.event_id)
        return row._replace(seq=seq, request_seq=seq if row.request_seq == row.seq else row.request_seq)


class _Said(NamedTuple):
    """What a line says beside the values that are its own.

    `topics`: of a registration, the row of its topic table; `until_ms`: of a gap in the recording, its end.
    """

    kind: Kind
    namesrv_id: str
    proxied_addr: str | None
    columns: Values
    topics: Row | None
    until_ms: int | None


_KNOWN: Final = Kept[tuple[Any, ...], _Said]()
"""What lines said that this process has read, of whatever file."""


def rows_of_line(line: bytes, source_file: str, number: int) -> list[AnyRow]:
    """Return the rows of one line: its own, behind that of its topics. Raises `DecodeError`."""
    value = parse_json(line, "line", is_ours=True)
    if not isinstance(value, dict):
        raise _bad("the line is no object")
    return rows_said(value, source_file, number)


def rows_said(value: Values, source_file: str, number: int) -> list[AnyRow]:
    """Return the rows of a line that says `value`, of which that takes parts out. Raises `DecodeError`.

    One that does not state its position has one below 0, which also is that of the question if it is an answer: `Positions`.
    What lines share that differ only in values of their own is one object.
    """
    event_id = None if value.get("event_id") is not None else digest_id("line", canonical_json(value))
    own: Values = {name: value.pop(name) for name in _OWN if name in value}
    key = (repr(value), *own)
    said = _KNOWN.get(key)
    if said is None:
        said = _said_in(value, own)
        _KNOWN.keep(key, said, len(key[0]) * (8 if said.topics is not None else 2) + _OBJECT_BYTES)
    kind, columns = said.kind, said.columns
    event_ns = nanoseconds(own.get("time"), "time")
    effect = own.get("effect_time")
    effect_ns = event_ns if effect in (None, own.get("time")) else nanoseconds(effect, "effect_time")
    seq, channel = (checked(name, COMMON[name], own) for name in ("seq", "channel_id"))
    if event_id is None:
        event_id = checked("event_id", COMMON["event_id"], own)
        if EVENT_ID.fullmatch(event_id) is None:
            raise _bad("event_id is not 32 hex digits")
    position = ~effect_ns if seq is None else seq
    nth, request_seq = (checked(n, kind.fields[n], own) if n in kind.fields else None for n in ("nth", "request_seq"))
    if "request_seq" in kind.fields and request_seq is None:
        request_seq = position
    if kind.table == "channel_events" and columns["remote_addr"] is None:
        if channel is None:
            raise _bad("remote_addr or channel_id is required")
        columns = {**columns, "remote_addr": channel.partition("#")[0]}
    elif said.until_ms is not None and said.until_ms < effect_ns // _NS_PER_MS:
        raise _bad("a gap in the recording ends before it begins")
    row = FrameRow(
        kind.table,
        said.namesrv_id,
        position,
        event_id,
        event_ns // 1_000,
        effect_ns // 1_000,
        channel,
        said.proxied_addr,
        source_file,
        number,
        columns,
        NOTHING,
        request_seq,
        nth,
        seq is not None,
    )
    return [row] if said.topics is None else [said.topics, row]


def _said_in(value: Values, own: Values) -> _Said:
    """Return what a line says; `own`: what was taken out of it."""
    if value.get("schema") != SCHEMA:
        raise _bad(f"schema {_shown(value.get('schema'))}, {SCHEMA} expected")
    kind = KINDS.get(cast("str", value.get("kind"))) if isinstance(value.get("kind"), str) else None
    if kind is None:
        raise _bad(f"kind {_shown(value.get('kind'))}, one of {', '.join(KINDS)} expected")
    for name in (*value, *own):
        if name not in COMMON and name not in kind.fields and name not in ("schema", "kind"):
            raise _bad(f"unknown field {_shown(name)}")
    columns = {field.column: checked(name, field, value) for name, field in kind.fields.items() if name not in _OWN}
    namesrv_id, proxied_addr = (checked(name, COMMON[name], value) for name in ("namesrv_id", "proxied_addr"))
    if "namesrv_addr" in value:
        columns["namesrv_addr"] = checked("namesrv_addr", COMMON["namesrv_addr"], value)
    topics = None
    if kind.table == "registrations":
        columns["topic_config_digest"] = columns["topic_count"] = None
        listed, mappings = columns.pop("topics"), columns.pop("mappings")
        if listed is not None:
            table = topic_table(listed, mappings or [])
            columns["topic_config_digest"], columns["topic_count"] = table.digest, len(listed)
            topics = topic_configs_row(table)
    _complete(kind, columns)
    is_gap = kind.table == "namesrv_events" and columns["kind"] in ("recording_gap", "address_recording_gap")
    until_ms = gap_end_ms(columns["properties"]) if is_gap else None
    return _Said(kind, cast("str", namesrv_id), proxied_addr, columns, topics, until_ms)


def _complete(kind: Kind, columns: Values) -> None:
    """Fill in what follows from other fields; raise if a code does not belong to its kind."""
    code = columns.get("code")
    if kind.table in ("heartbeats", "registrations", "unregistrations", "admin_events"):
        if EVENT_TABLES.get(cast("int", code)) != kind.table:
            raise _bad(f"code {code} is no {_KIND_OF_TABLE[kind.table]}")
        if kind.table == "admin_events" and columns["operation"] is None:
            columns["operation"] = request_name(cast("int", code))
        if kind.table == "registrations" and columns["refusal"] is None:
            answered = (columns[name] for name in ("response_code", "response_remark", "topic_count"))
            columns["refusal"] = refusal_told(*answered)
    elif kind.table == "namesrv_events" and columns["kind"] == "logged":
        logged(columns["properties"])
    # Of texts about the configuration the same is kept as of captures.
    if code == RequestCode.UPDATE_NAMESRV_CONFIG and columns["config_value"] is not None:
        columns["config_value"] = told_text(columns["config_value"], again=True)
    elif code == RequestCode.GET_NAMESRV_CONFIG and columns.get("body") is not None:
        columns["body"] = shown_text(columns["body"], again=True)
    elif kind.table == "namesrv_events" and columns["kind"] == "configured" and columns["properties"] is not None:
        columns["properties"] = shown_text(columns["properties"], again=True)


def nanoseconds(value: object, name: str) -> int:
    """Return ns since the epoch of an ISO-8601 time with its offset from UTC, or of epoch milliseconds.

    Raises `DecodeError` for anything else, and for a time at which there is no name server: before 2000, or from 2262 on.
    """
    ns = None
    if isinstance(value, str) and (found := _TIME.fullmatch(value)) is not None:
        try:
            whole_ns = _second_ns(found[1])
        except ValueError as error:
            raise _bad(f"{name} {_shown(value)}: {error}") from None
        offset_min = (60 * int(found[4] or 0) + int(found[5] or 0)) * (-1 if found[3] == "-" else 1)
        ns = whole_ns - offset_min * 60_000_000_000 + int((found[2] or "0").ljust(9, "0"))
    elif (ms := whole_number(value)) is not None:
        ns = ms * _NS_PER_MS
    elif isinstance(value, Fraction) and len(value.text) < _EXACT_DIGITS and 0 < Decimal(value.text) < END_NS:
        exact = Decimal(value.text) * _NS_PER_MS
        ns = int(exact) if exact == exact.to_integral_value() else None
    if ns is None:
        raise _bad(f"{name} {_shown(value)}: {_EXPECTED}")
    if FIRST_NS <= ns < END_NS:
        return ns
    hint = "; epoch seconds?" if FIRST_NS <= ns * 1_000 < END_NS else ""
    raise _bad(f"{name} {_shown(value)} lies before 2000 or after 2261: {_EXPECTED}{hint}")


@lru_cache(4_096)
def _second_ns(text: str) -> int:
    """Return the ns since the epoch of a second in UTC. Raises ValueError for one that no clock shows."""
    since = datetime.fromisoformat(f"{text}+00:00") - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000


def line_of(row: AnyRow, topic_configs: Mapping[str, Any] | None = None) -> str:
    """Return the line of an event or observation row.

    A registration also needs the values of its `topic_configs` row.

    Reading the line gives the same rows again, `seq` and `event_id` included. Raises `KeyError` for another
    table.
    """
    name = _KIND_OF_TABLE[row.table]
    values = row.values
    line: Values = {
        "schema": SCHEMA,
        "kind": name,
        "namesrv_id": values["namesrv_id"],
        "time": _iso(values["event_time"]),
        "effect_time": _iso(values["effect_time"]),
        "seq": values["seq"],
        "event_id": values["event_id"],
        "channel_id": values["channel_id"],
        "proxied_addr": values["proxied_addr"],
        "namesrv_addr": None if values.get("namesrv_addr") == values["namesrv_id"] else values.get("namesrv_addr"),
    }
    values = {"topics": None, "mappings": None, **(topic_configs or {}), **values}
    line |= {key: values[field.column] for key, field in KINDS[name].fields.items()}
    return json.dumps(
        {key: value for key, value in line.items() if value is not None or key in ("filter_servers", "data_version")},
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
    )


def _iso(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _shown(value: object) -> str:
    return repr(value)[:60]


def _bad(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_LINE, detail)
