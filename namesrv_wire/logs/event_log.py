"""JSON-lines event logs in the documented format `namesrv-event/1` (docs/event-log.md): fields, lines, and whole files.

A field has a name, a column, a way to read its value, and a value for one that is absent. Lines are read into rows of the bronze
tables, and written from them. Files are gzip'd or not, and are read many lines at a time.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, cast

from namesrv_core.asking.answers import refusal_of
from namesrv_core.inference.settings import change_text, shown_text
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.tables import queue_ids_of
from namesrv_wire.codes import EVENT_TABLES, request_name
from namesrv_wire.compression import is_packed, unpacked
from namesrv_wire.errors import END_NS, FIRST_NS, MAX_LINE_BYTES, MAX_TOPICS, CaptureError, DecodeError, Reason
from namesrv_wire.json_text import INT, LONG, Fraction, canonical_json, header_fields_of, parse_json, require_short
from namesrv_wire.logs.log_lines import logged
from namesrv_wire.protocol.bodies import topic_table
from namesrv_wire.protocol.requests import Kept, topic_configs_row
from namesrv_wire.rows import NOTHING, AnyRow, FrameRow, Row, Values, digest_id, gap_end_ms, quarantine_row

Reader = Callable[[str, object], Any]
"""Reads the value of a field with this name. Raises `DecodeError` for a wrong type or range."""
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_LIMIT: Final = 1 << 64
REQUIRED: Final = object()
"""Marks a field without default."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: the column it fills, how it is read, and its value when it is absent, or null but for `null_is_null`."""

    column: str
    read: Reader
    default: Any = None
    choices: frozenset[str] | None = None
    null_is_null: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of line: its bronze table and its fields."""

    table: str
    fields: dict[str, Field]


def checked(name: str, field: Field, line: object) -> Any:
    """Return the field's value from a line's object, or its default. Raises `DecodeError` for a wrong type or range."""
    if not isinstance(line, dict):
        raise _bad(f"{name}: its holder is no object")
    if name not in line:
        if field.default is REQUIRED:
            raise _bad(f"{name} is missing")
        return list(field.default) if isinstance(field.default, tuple) else field.default
    value = line[name]
    if value is None:
        if field.default is REQUIRED:
            raise _bad(f"{name} is null")
        return None if field.null_is_null else field.default
    read = field.read(name, value)
    if field.choices is not None and read not in field.choices:
        raise _bad(f"{name} is none of {', '.join(sorted(field.choices))}")
    return read


def whole_number(value: object) -> int | None:
    """Return the whole number that a JSON value is, or that it writes in quotes or with a point and zeros; None for any other."""
    if isinstance(value, Fraction):
        number = Decimal(value.text)
        return int(number) if -_LIMIT < number < _LIMIT and number == number.to_integral_value() else None
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else None
    return value if type(value) is int else None


def _number(low: int, high: int, kind: str) -> Reader:
    def read(name: str, value: object) -> int:
        number = whole_number(value)
        if number is None or not low <= number <= high:
            raise _bad(f"{name} is no {kind}")
        return number

    return read


def _string(name: str, value: object) -> str:
    text = _text(name, value)
    require_short(name, text)
    return text


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _bad(f"{name} is no string")
    return value


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _bad(f"{name} is no boolean")
    return value


def _record(fields: Mapping[str, Field]) -> Reader:
    """Return a reader of objects that have these fields."""

    def read(name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _bad(f"{name} is no object")
        return {key: checked(key, part, value) for key, part in fields.items()}

    return read


def _list_of(read: Reader) -> Reader:
    """Return a reader of lists of what `read` reads."""

    def read_all(name: str, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise _bad(f"{name} is no list")
        if len(value) > MAX_TOPICS:
            raise DecodeError(Reason.TOO_MANY_TOPICS, f"{name}: {len(value)} items, at most {MAX_TOPICS}")
        return [read(name, item) for item in value]

    return read_all


def _header_fields(name: str, value: object) -> str:
    text = canonical_json(value) if isinstance(value, dict) else _text(name, value)
    return canonical_json(dict(header_fields_of(text)))


def _queue_ids(name: str, value: object) -> str:
    text = canonical_json(value) if isinstance(value, dict) else _text(name, value)
    try:
        return canonical_json({str(key): queue for key, queue in queue_ids_of(text).items()})
    except ValueError as error:
        raise _bad(f"{name} is no JSON object of queue ids") from error


def _bad(detail: str) -> DecodeError:
    return DecodeError(Reason.BAD_LINE, detail)


_INT: Final = _number(*INT, "int")
_LONG: Final = _number(*LONG, "long")
_POSITION: Final = _number(0, END_NS - 1, "position in ns since the epoch")
_MILLISECONDS: Final = _number(0, END_NS // 1_000_000, "number of milliseconds")


def _fields(**fields: Field | Reader) -> dict[str, Field]:
    return {name: field if isinstance(field, Field) else Field(name, field) for name, field in fields.items()}


def _request(code: object, **fields: Field | Reader) -> dict[str, Field]:
    return _fields(
        code=Field("code", _INT, code),
        one_way=Field("one_way", _boolean, False),
        request_version=Field("request_version", _INT, 0),
        response_code=_INT,
        response_remark=_text,
        response_fields=_header_fields,
        response_body=_text,
        **fields,
    )


_BROKER: Final[dict[str, Field | Reader]] = {
    "cluster_name": _string,
    "broker_name": _string,
    "broker_addr": _string,
    "broker_id": _LONG,
}

NAMESRV_KINDS: Final = frozenset(
    {
        *("started", "stopped", "observed_from", "identified", "configured", "idle_limit_outlasted", "recording_gap"),
        *("min_broker_id_notified", "clock_went_back", "address_started", "address_stopped", "address_observed_from"),
        *("address_recording_gap", "logged"),
    }
)

COMMON: Final = _fields(
    namesrv_id=Field("namesrv_id", _string, REQUIRED),
    namesrv_addr=_string,
    time=Field("event_time", _string, REQUIRED),
    effect_time=_string,
    seq=_POSITION,
    event_id=_string,
    channel_id=_string,
    proxied_addr=_string,
)

_DATA_VERSION: Final = _fields(
    state_version=Field("state_version", _LONG, 0), timestamp=Field("timestamp", _LONG, REQUIRED), counter=_LONG
)
_NUMBERS: Final = _fields(
    read_queue_nums=Field("read_queue_nums", _INT, REQUIRED),
    write_queue_nums=Field("write_queue_nums", _INT, REQUIRED),
    perm=Field("perm", _INT, REQUIRED),
    topic_sys_flag=Field("topic_sys_flag", _INT, 0),
)
_QUEUE_DATA: Final = _fields(broker_name=_string, **_NUMBERS)
_TOPIC: Final = _fields(topic=Field("topic", _string, REQUIRED), **_NUMBERS)
_MAPPING: Final = _fields(
    topic=Field("topic", _string, REQUIRED),
    bname=_string,
    total_queues=Field("total_queues", _INT, REQUIRED),
    epoch=Field("epoch", _LONG, 0),
    dirty=Field("dirty", _boolean, False),
    scope=_string,
    curr_id_map=_queue_ids,
)

KINDS: Final[dict[str, Kind]] = {
    "heartbeat": Kind(
        "heartbeats", _request(REQUIRED, **_BROKER, data_version=_record(_DATA_VERSION), nth=Field("nth", _INT, 0))
    ),
    "registration": Kind(
        "registrations",
        _request(
            103,
            **_BROKER,
            ha_server_addr=_string,
            enable_acting_master=_boolean,
            heartbeat_timeout_ms=_LONG,
            zone_name=_string,
            data_version=_record(_DATA_VERSION),
            filter_servers=Field("filter_servers", _list_of(_string), (), null_is_null=True),
            compressed=Field("compressed", _boolean, False),
            body_bytes=Field("body_bytes", _LONG, 0),
            refusal=_string,
            topics=_list_of(_record(_TOPIC)),
            mappings=_list_of(_record(_MAPPING)),
        ),
    ),
    "unregistration": Kind("unregistrations", _request(104, **_BROKER)),
    "channel": Kind(
        "channel_events",
        _fields(
            event=Field("kind", _string, REQUIRED, frozenset({"close", "exception", "idle", "late_close"})),
            closed_by=Field("closed_by", _string, "client", frozenset({"client", "namesrv", "timer"})),
            remote_addr=_string,
            silent_ms=_MILLISECONDS,
            pending_requests=Field("pending_requests", _INT, 0),
        ),
    ),
    "admin": Kind(
        "admin_events",
        _request(
            REQUIRED,
            operation=_string,
            broker_name=_string,
            cluster_name=_string,
            topic=_string,
            queue_datas=_list_of(_record(_QUEUE_DATA)),
            namespace=_string,
            config_key=_string,
            config_value=_text,
        ),
    ),
    "namesrv": Kind(
        "namesrv_events",
        _fields(
            event=Field("kind", _string, REQUIRED, NAMESRV_KINDS),
            version=_INT,
            evidence=Field("evidence", _string, "event log"),
            properties=_text,
        ),
    ),
    "observation": Kind(
        "route_observations",
        _fields(
            code=Field("code", _INT, REQUIRED),
            subject=_string,
            scope=_string,
            request_seq=_POSITION,
            standard_json=Field("standard_json", _boolean, False),
            request_version=Field("request_version", _INT, 0),
            language=_string,
            response_code=Field("response_code", _INT, 0),
            response_version=Field("response_version", _INT, 0),
            remark=_text,
            response_fields=_header_fields,
            body=_text,
            nth=Field("nth", _INT, 0),
        ),
    ),
}


SCHEMA: Final = "namesrv-event/1"
_KIND_OF_TABLE: Final = {kind.table: name for name, kind in KINDS.items()}
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)[.,](\d{1,9}))?"
    r"(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)(?:\[[\w/+-]+\])?",
    re.ASCII | re.IGNORECASE,
)
"""As RFC 3339 and ISO 8601 have it, and Java's ZonedDateTime.toString: it leaves out seconds that are 0, and adds a zone's name."""
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

    def placed(self, row: AnyRow) -> AnyRow:
        """Return the row of a line, with a position if it did not state one: the same for an event that was met at this time."""
        if row.seq_is_given or not isinstance(row, FrameRow):
            return row
        events = self._taken.setdefault((row.namesrv_id, ~row.seq), {})
        self._taken.move_to_end((row.namesrv_id, ~row.seq))
        if len(self._taken) > _MAX_TIMES:
            self._taken.popitem(last=False)
        seq = events.setdefault(row.event_id, ~row.seq + len(events))
        return row._replace(seq=seq, request_seq=seq if row.request_seq == row.seq else row.request_seq)


class _Content(NamedTuple):
    """What a line holds beside the values that are its own.

    `topics`: of a registration, the row of its topic table; `until_ms`: of a gap in the recording, its end.
    """

    kind: Kind
    namesrv_id: str
    proxied_addr: str | None
    columns: Values
    topics: Row | None
    until_ms: int | None


_KNOWN: Final = Kept[tuple[Any, ...], _Content]()
"""Contents of lines that this process has read, of whatever file."""


def rows_of_line(line: bytes, source_file: str, number: int) -> list[AnyRow]:
    """Return the rows of one line: its own, behind that of its topics. Raises `DecodeError`."""
    value = parse_json(line, "line", is_ours=True)
    if not isinstance(value, dict):
        raise _bad("the line is no object")
    return rows_of_object(value, source_file, number)


def rows_of_object(value: Values, source_file: str, number: int) -> list[AnyRow]:
    """Return the rows of a line's object, taking values out of it. Raises `DecodeError`.

    One that does not state its position has one below 0, which also is that of the question if it is an answer: `Positions`.
    What lines share that differ only in values of their own is one object.
    """
    event_id = None if value.get("event_id") is not None else digest_id("line", canonical_json(value))
    own: Values = {name: value.pop(name) for name in _OWN if name in value}
    key = (repr(value), *own)
    content = _KNOWN.get(key)
    if content is None:
        content = _content_of(value, own)
        _KNOWN.keep(key, content, len(key[0]) * (8 if content.topics is not None else 2) + _OBJECT_BYTES)
    kind, columns = content.kind, content.columns
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
    elif content.until_ms is not None and content.until_ms < effect_ns // _NS_PER_MS:
        raise _bad("a gap in the recording ends before it begins")
    row = FrameRow(
        kind.table,
        content.namesrv_id,
        position,
        event_id,
        event_ns // 1_000,
        effect_ns // 1_000,
        channel,
        content.proxied_addr,
        source_file,
        number,
        columns,
        NOTHING,
        request_seq,
        nth,
        seq is not None,
    )
    return [row] if content.topics is None else [content.topics, row]


def _content_of(value: Values, own: Values) -> _Content:
    """Return the content of a line; `own`: what was taken out of it."""
    if value.get("schema") != SCHEMA:
        raise _bad(f"schema {_shown(value.get('schema'))}, {SCHEMA} expected")
    kind = KINDS.get(cast("str", value.get("kind"))) if isinstance(value.get("kind"), str) else None
    if kind is None:
        raise _bad(f"kind {_shown(value.get('kind'))}, one of {', '.join(KINDS)} expected")
    for name in (*value, *own):
        if name not in COMMON and name not in kind.fields and name not in ("schema", "kind"):
            why = "it may be a mistyped one of docs/event-log.md; take out what a log shipper has added"
            raise _bad(f"unknown field {_shown(name)}: {why}")
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
    return _Content(kind, cast("str", namesrv_id), proxied_addr, columns, topics, until_ms)


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
            columns["refusal"] = refusal_of(*answered)
    elif kind.table == "namesrv_events" and columns["kind"] == "logged":
        logged(columns["properties"])
    # Of texts about the configuration the same is kept as of captures.
    if code == RequestCode.UPDATE_NAMESRV_CONFIG and columns["config_value"] is not None:
        columns["config_value"] = change_text(columns["config_value"], again=True)
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


BLOCK_BYTES: Final = 16 << 20
"""A block is the lines that begin in so many bytes: blocks are read by themselves, by whoever has time."""
# So much is passed over at once of what is left of a line that is too long.
_READ_BYTES: Final = 256 << 10
# A block ends before its bytes are read if it has so many lines.
_BLOCK_LINES: Final = 1 << 14
_BOM: Final = codecs.BOM_UTF8
_BEGINNING_BYTES: Final = 64 << 10
# The first line may be the end of one, as where a log is cut by size.
_LINE: Final = re.compile(rb'^[ \t]*\{.*"namesrv-event/', re.MULTILINE)
_UNREADABLE: Final = (
    (re.compile(rb"\xff\xfe|\xfe\xff|[\[{]\0|\0+[\[{]"), "it is in UTF-16 or UTF-32: an event log is in UTF-8"),
    (re.compile(rb"\s*\[\s*[\[{\]\"]"), "it is a JSON array: an event log has one JSON object on each line"),
    (
        re.compile(rb"\s*\{[ \t\r]*\n"),
        "its objects go over several lines: an event log has one JSON object on each line",
    ),
    (re.compile(rb"\x1f\x8b|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh|\x04\x22\x4d\x18"), "it is compressed twice: unpack it once"),
    (re.compile(rb"(?s).{257}ustar|PK\x03\x04"), "it is an archive (tar or zip): give the files that are in it"),
)
"""How files begin that are no event log as a whole, though their lines may look like one's, and what is reported of them."""


@dataclass(slots=True)
class Block:
    """Lines of an event log that follow each other. Numbers of lines count from `first`, which is 1 for the first of a part.

    `rows`: in their order, a topic table in front of its registration; the others have the numbers of their lines. `count`: of all
    lines, `frames`: of those that say something; `ignored`: of a name server's log, by rule (`namesrv_log.read_log`).
    """

    first: int
    count: int = 0
    frames: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    rows: list[AnyRow] = field(default_factory=list)


def read_blocks(path: Path, start: int = 0, stop: int | None = None, name: str = "") -> Iterator[Block]:
    """Yield the lines of an event log in file order, of one that is not compressed those that begin from `start` up to `stop`.

    These lie between blocks: they are multiples of `BLOCK_BYTES`. `name`: what rows call the file, by default as it is called.
    A line that is none becomes a quarantine row with its number. A registration is preceded by the `topic_configs` row of its
    topics, unless that is there already. Lines without `seq` get their effect time in ns, made unique in the order of a block;
    equal ones get the same `event_id` and `seq`. Raises `CaptureError` if the file is compressed and damaged, or no event log.
    """
    name = name or path.name
    reader = _Reader(name, 1)
    for line in lines_of(path, start, stop):
        if line is not None:
            reader.read(line)
        if reader.block.count and (line is None or reader.block.count >= _BLOCK_LINES):
            yield reader.block
            reader = _Reader(name, reader.block.first + reader.block.count)


def beginning_of(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked, without a byte order mark; of one that is damaged those in front of it."""
    beginning = b""
    with suppress(OSError), path.open("rb") as raw:
        stream = unpacked(raw)
        while piece := stream.read1(_BEGINNING_BYTES - len(beginning)):
            beginning += piece
    return beginning.removeprefix(_BOM)


def is_event_log(beginning: bytes) -> bool:
    """Return whether a text that begins like this is to be read as an event log, or refused as one."""
    is_json = beginning.lstrip().startswith(b"{") or why_unreadable(beginning) is not None
    return is_json or _LINE.search(beginning) is not None


def why_unreadable(beginning: bytes) -> str | None:
    """Return why a file that begins like this is no event log, although it may hold one; None for any other."""
    return next((why for form, why in _UNREADABLE if form.match(beginning)), None)


class Line(NamedTuple):
    """A line without its line feed.

    `beyond`: bytes at its end that were left out. `is_cut`: no line feed ends it, but the end of the file.
    """

    content: bytes
    beyond: int
    is_cut: bool


class _Reader:
    def __init__(self, source_file: str, first: int) -> None:
        self.block = Block(first)
        self._source_file = source_file
        self._positions = Positions()
        self._topics: dict[str, Values] = {}

    def read(self, read: Line) -> None:
        """Read a line that follows those that were read."""
        block, line = self.block, read.content
        number = block.first + block.count
        block.count += 1
        while line.startswith(_BOM):  # in front of the first line, or of one of a file that was put behind another
            line = line.removeprefix(_BOM)
        if not line or line.isspace():
            return
        block.frames += 1
        length, place, topics = len(line) + read.beyond, (self._source_file, number), list[AnyRow]()
        try:
            *topics, row = rows_of_line(line, *place) if length <= MAX_LINE_BYTES else _too_long(length)
        except DecodeError as error:
            piece = line.rstrip(b"\r\n")[:MAX_LINE_BYTES]
            row = quarantine_row((None, None), (*place, None), error, piece, length, digest_id(content=piece))
        for table in topics:
            # Not again if it is the last one of its digest.
            known = self._topics.get(table.values["topic_config_digest"])
            if known is not table.values and known != table.values:
                self._topics[table.values["topic_config_digest"]] = table.values
                block.rows.append(table)
        block.rows.append(self._positions.placed(row))


def _too_long(length: int) -> NoReturn:
    raise DecodeError(Reason.LINE_TOO_LONG, f"{length} bytes, at most {MAX_LINE_BYTES}")


def lines_of(path: Path, start: int = 0, stop: int | None = None) -> Iterator[Line | None]:
    """Yield the lines of a file, as `read_blocks` does, and None behind the last one of a block."""
    if (why := why_unreadable(beginning_of(path))) is not None:
        raise CaptureError(path, 0, why)
    with path.open("rb") as raw:
        packed, offset, until = is_packed(raw.read(8)), start, stop or BLOCK_BYTES
        raw.seek(max(0, start - 1))
        stream = unpacked(raw) if packed else raw
        try:
            if start and raw.read(1) != b"\n":  # the end of a line of the block before
                offset += _passed(raw)[0]
            while stop is None or offset < stop:
                if offset >= until:
                    yield None
                    until = (offset // BLOCK_BYTES + 1) * BLOCK_BYTES
                line = stream.readline(MAX_LINE_BYTES + 1)
                if not line:
                    break
                is_whole = line.endswith(b"\n")
                more, is_ended = (0, True) if is_whole else _passed(stream)
                offset += len(line) + more
                yield Line(line[:-1] if is_whole else line, max(0, more - is_ended), not is_ended)
        except OSError as error:
            yield None
            raise CaptureError(path, offset, f"it cannot be read further: {error}") from error
        yield None


def _passed(stream: BufferedReader) -> tuple[int, bool]:
    """Pass over what is left of a line; return of how many bytes that is, and whether a line feed ends it."""
    size, piece = 0, b""
    while not piece.endswith(b"\n") and (piece := stream.readline(_READ_BYTES)):
        size += len(piece)
    return size, bool(piece)
