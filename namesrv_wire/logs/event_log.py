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
from typing import Any, Final, cast

from namesrv_core.asking.answers import refusal_told
from namesrv_core.inference.configuration import shown_text, told_text
from namesrv_core.machine.codes import RequestCode
from namesrv_wire.codes import EVENT_TABLES, request_name
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import Fraction, canonical_json, parse_json
from namesrv_wire.limits import END_NS, FIRST_NS
from namesrv_wire.logs.event_fields import COMMON, KINDS, MAPPING, TOPIC, Kind, checked, records, whole_number
from namesrv_wire.logs.log_lines import logged
from namesrv_wire.protocol.bodies import topic_table
from namesrv_wire.protocol.requests import topic_configs_row
from namesrv_wire.rows import AnyRow, FrameRow, Row, Values, digest_id, gap_end_ms, timed_id

SCHEMA: Final = "namesrv-event/1"
_KIND_OF_TABLE: Final = {kind.table: name for name, kind in KINDS.items()}
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:Z|([+-])([01]\d|2[0-3]):?([0-5]\d))", re.ASCII
)
_EXPECTED: Final = "ISO-8601 with T and Z or an offset, or epoch milliseconds, expected"
EVENT_ID = re.compile(r"[0-9a-f]{32}")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_TIMES: Final = 65_536
_NS_PER_MS: Final = 1_000_000
_EXACT_DIGITS: Final = 28
_ENVELOPE: Final = frozenset({"schema", "kind", "topics", "mappings"})


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
        if row.seq_is_given:
            return row
        if isinstance(row, FrameRow):
            seq = self.take(row.namesrv_id, ~row.seq, row.event_id)
            return row._replace(seq=seq, request_seq=seq if row.request_seq == row.seq else row.request_seq)
        values = row.values
        if "seq" not in values:
            return row
        seq = self.take(values["namesrv_id"], ~values["seq"], values["event_id"])
        asked = {"request_seq": seq} if values.get("request_seq") == values["seq"] else {}
        return row._replace(values={**values, "seq": seq, **asked})


def rows_of_line(line: bytes, source_file: str, number: int) -> list[Row]:
    """Return the rows of one line. Raises `DecodeError`.

    One that does not state its position has one below 0, which also is that of the question if it is an answer: `Positions`.
    """
    value = parse_json(line, "line", is_ours=True)
    if not isinstance(value, dict):
        raise _bad("the line is no object")
    if value.get("schema") != SCHEMA:
        raise _bad(f"schema {_shown(value.get('schema'))}, {SCHEMA} expected")
    kind = KINDS.get(cast("str", value.get("kind"))) if isinstance(value.get("kind"), str) else None
    if kind is None:
        raise _bad(f"kind {_shown(value.get('kind'))}, one of {', '.join(KINDS)} expected")
    allowed = _ENVELOPE if kind.table == "registrations" else {"schema", "kind"}
    unknown = [key for key in value if key not in COMMON and key not in kind.fields and key not in allowed]
    if unknown:
        raise _bad(f"unknown field {_shown(unknown[0])}")
    columns = {field.column: checked(key, field, value) for key, field in kind.fields.items()}
    rows: list[Row] = []
    if kind.table == "registrations":
        columns["topic_config_digest"] = columns["topic_count"] = None
        topics, mappings = (
            None if value.get(name) is None else records(name, fields, value[name])
            for name, fields in (("topics", TOPIC), ("mappings", MAPPING))
        )
        if topics is not None:
            table = topic_table(topics, mappings or [])
            columns["topic_config_digest"], columns["topic_count"] = table.digest, len(topics)
            rows = [topic_configs_row(table)]
    values = _envelope(value, columns, source_file, number)
    _complete(kind, values)
    return [*rows, Row(kind.table, values, seq_is_given=value.get("seq") is not None)]


def _envelope(value: Values, columns: Values, source_file: str, number: int) -> Values:
    """Return the whole row: the columns that all events share, then the kind's own."""
    namesrv_id = cast("str", checked("namesrv_id", COMMON["namesrv_id"], value))
    event_ns = nanoseconds(value.get("time"), "time")
    effect = value.get("effect_time")
    effect_ns = event_ns if effect is None else nanoseconds(effect, "effect_time")
    event_id = checked("event_id", COMMON["event_id"], value)
    if event_id is None:
        event_id = digest_id("line", canonical_json(value))
    elif EVENT_ID.fullmatch(event_id) is None:
        raise _bad("event_id is not 32 hex digits")
    seq = checked("seq", COMMON["seq"], value)
    if seq is None:
        seq = ~effect_ns
    return {
        "namesrv_id": namesrv_id,
        "seq": seq,
        "event_id": event_id,
        "event_time": event_ns // 1_000,
        "effect_time": effect_ns // 1_000,
        **{name: checked(name, COMMON[name], value) for name in ("channel_id", "proxied_addr")},
        **(
            {}
            if "namesrv_addr" not in value
            else {"namesrv_addr": checked("namesrv_addr", COMMON["namesrv_addr"], value)}
        ),
        "source_file": source_file,
        "source_offset": number,
        **columns,
    }


def _complete(kind: Kind, values: Values) -> None:
    """Fill in what follows from other fields; raise if a code does not belong to its kind."""
    code = values.get("code")
    if kind.table in ("heartbeats", "registrations", "unregistrations", "admin_events"):
        if EVENT_TABLES.get(cast("int", code)) != kind.table:
            raise _bad(f"code {code} is no {_KIND_OF_TABLE[kind.table]}")
        if kind.table == "admin_events" and values["operation"] is None:
            values["operation"] = request_name(cast("int", code))
        if kind.table == "registrations" and values["refusal"] is None:
            said = (values[name] for name in ("response_code", "response_remark", "topic_count"))
            values["refusal"] = refusal_told(*said)
    elif kind.table == "channel_events" and values["remote_addr"] is None:
        if values["channel_id"] is None:
            raise _bad("remote_addr or channel_id is required")
        values["remote_addr"] = str(values["channel_id"]).partition("#")[0]
    elif kind.table == "route_observations" and values["request_seq"] is None:
        values["request_seq"] = values["seq"]
    elif (
        kind.table == "namesrv_events"
        and values["kind"] in ("recording_gap", "address_recording_gap")
        and gap_end_ms(values["properties"]) < values["effect_time"] // 1_000
    ):
        raise _bad("a gap in the recording ends before it begins")
    elif kind.table == "namesrv_events" and values["kind"] == "logged":
        logged(values["properties"])
    # Of texts about the configuration the same is kept as of captures.
    if code == RequestCode.UPDATE_NAMESRV_CONFIG and values["config_value"] is not None:
        values["config_value"] = told_text(values["config_value"], again=True)
    elif code == RequestCode.GET_NAMESRV_CONFIG and values.get("body") is not None:
        values["body"] = shown_text(values["body"], again=True)
    elif kind.table == "namesrv_events" and values["kind"] == "configured" and values["properties"] is not None:
        values["properties"] = shown_text(values["properties"], again=True)
    if "nth" in values:
        at = "event_time" if kind.table == "heartbeats" else "effect_time"
        own = (values[name] for name in ("namesrv_id", "channel_id", "code", at, "nth"))
        values["stated_id"] = None if values["event_id"] == timed_id(*own) else values["event_id"]


def nanoseconds(value: object, name: str) -> int:
    """Return ns since the epoch of an ISO-8601 time with its offset from UTC, or of epoch milliseconds.

    Raises `DecodeError` for anything else, and for a time at which there is no name server: before 2000, or from 2262 on.
    """
    ns, ms = None, whole_number(value)
    if ms is not None:
        ns = ms * _NS_PER_MS
    elif isinstance(value, Fraction) and len(value.text) < _EXACT_DIGITS and 0 < Decimal(value.text) < END_NS:
        exact = Decimal(value.text) * _NS_PER_MS
        ns = int(exact) if exact == exact.to_integral_value() else None
    elif isinstance(value, str) and (found := _TIME.fullmatch(value)) is not None:
        try:
            whole = datetime(*(int(part) for part in found.groups()[:6]), tzinfo=timezone.utc)  # type: ignore[misc,arg-type]
        except ValueError as error:
            raise _bad(f"{name} {_shown(value)}: {error}") from None
        offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0)) * (-1 if found[8] == "-" else 1)
        since = whole - _EPOCH - offset
        ns = (since.days * 86_400 + since.seconds) * 1_000_000_000 + int((found[7] or "0").ljust(9, "0"))
    if ns is None:
        raise _bad(f"{name} {_shown(value)}: {_EXPECTED}")
    if FIRST_NS <= ns < END_NS:
        return ns
    hint = "; epoch seconds?" if FIRST_NS <= ns * 1_000 < END_NS else ""
    raise _bad(f"{name} {_shown(value)} lies before 2000 or after 2261: {_EXPECTED}{hint}")


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
    line |= {key: values[field.column] for key, field in KINDS[name].fields.items()}
    if row.table == "registrations" and topic_configs is not None:
        line |= {"topics": topic_configs["topics"], "mappings": topic_configs["mappings"]}
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
