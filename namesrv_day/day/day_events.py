"""The events of a day, from all tables in one, with the positions at which they took effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import STANDARD_JSON_SINCE, refusal_told
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.register import REGISTER_FAILED
from namesrv_day.arrow.rows import conformed, with_columns, with_microseconds
from schemas import bronze, codec
from schemas.table import LONG, STRING, TEXT_ONCE, Table, struct_of

Frames = Mapping[str, pa.Table]
"""Tables by their names."""
BEATS = (bronze.HEARTBEATS, bronze.REGISTRATIONS)
OTHERS = tuple(table for table in bronze.EVENT_TABLES if table not in BEATS)
"""Tables of events other than brokers' beats."""
RESPONSES, RESPONSE = "responses", "-response"
"""The kind of events that are responses to requests, and the suffix of their ids after those of the requests."""
_TOLD = [code for table in ("heartbeats", "admin_events") for code in codec.RESPONSE_TABLES[table]]
RESPONSE_COLUMNS = ("event_time", "response_fields", "response_body", "response_remark")
_LIFE = pa.array(["started", "stopped", "recording_gap", "logged"])
_RENAMED = {bronze.CHANNEL_EVENTS.name: "channel_kind", bronze.NAMESRV_EVENTS.name: "namesrv_kind"}
_LEFT_OUT = {
    "event_time",
    "effect_time",
    "source_file",
    "source_offset",
    "ingest_run",
    "day",
    "evidence",
    "version",
    "nth",
}
_LEFT_OUT |= {
    "stated_id",
    "namesrv_addr",
    "body_bytes",
    "compressed",
    *(column.name for column in bronze.REQUEST if column.name != "code"),
}
_QUESTION = ("request_seq", "code", "subject", "scope", "standard_json")
_ANSWER = (*_QUESTION, "response_code", "remark", "response_fields", "body")
_LOOKED_UP = struct_of(cluster_name=STRING, broker_addr=STRING)


def _schema() -> pa.Schema:
    fields = {"namesrv_id": STRING, "kind": STRING, "seq": LONG, "event_id": STRING}
    fields |= {"effect_us": LONG, "received_us": LONG, "arrival_us": LONG}
    for table in bronze.EVENT_TABLES:
        kind = {"kind": _RENAMED[table.name]} if table.name in _RENAMED else {}
        fields |= {kind.get(c.name, c.name): c.type for c in table.columns if c.name not in _LEFT_OUT}
    answer = {c.name: c.type for c in bronze.ROUTE_OBSERVATIONS.columns if c.name in _ANSWER} | {"body": TEXT_ONCE}
    return pa.schema(list((fields | answer | {"looked_up": _LOOKED_UP}).items()))


EVENTS = _schema()
"""Columns of a day's events. `kind`: the table; `channel_kind` and `namesrv_kind`: the `kind` in these tables. Bodies, which
are long, are dictionary-encoded.

`received_us`: when a request had arrived; `arrival_us`: the same, for answered requests; `looked_up`: see `moved`.
"""


def day_events(
    frames: Frames, *, tables: Sequence[Table] = bronze.EVENT_TABLES, with_answers: bool = False
) -> pa.Table:
    """Return the events of `tables`, from their rows in `frames`, with the columns `EVENTS`; in no order.

    `with_answers`: answers, and responses to requests of `tables`, are events, too; for a name server with an unknown past.
    """
    found = [_events_of(frames[table.name], table) for table in tables]
    if with_answers:
        said = {
            bronze.REGISTRATIONS: _responses_of,
            bronze.HEARTBEATS: _responses_of,
            bronze.ADMIN_EVENTS: _responses_of,
            bronze.ROUTE_OBSERVATIONS: _answers_of,
        }
        found += [
            events_of(frames[table.name])
            for table, events_of in said.items()
            if table.name in frames and (table in tables or table not in bronze.EVENT_TABLES)
        ]
    return pa.concat_tables(found) if found else EVENTS.empty_table()


def observation_rows(observations: pa.Table) -> pa.Table:
    """Return answers with their ids, positions, and the columns from which the codec makes questions and answers.

    Answers about the configuration are left out: they show nothing of the registry.
    """
    observations = observations.filter(pc.field("code") != RequestCode.GET_NAMESRV_CONFIG)
    standard = pc.or_kleene(
        observations["standard_json"], pc.greater_equal(observations["request_version"], STANDARD_JSON_SINCE)
    )
    return with_columns(observations.select(["namesrv_id", "event_id", "seq", *_ANSWER]), standard_json=standard)


def moved(events: pa.Table, moves: pa.Table) -> pa.Table:
    """Return events with those in `moves` (event_id, seq, looked_up) placed where they take effect.

    `looked_up`: the live entry that a close finds by its connection, if a race decided that.
    """
    if not moves.num_rows:
        return events
    at = pc.index_in(events["event_id"], value_set=moves["event_id"])
    seq, is_moved = pc.take(moves["seq"], at), pc.is_valid(at)
    new = {
        "seq": pc.if_else(is_moved, seq, events["seq"]),
        "effect_us": pc.if_else(is_moved, pc.divide(seq, NS_PER_US), events["effect_us"]),
        "looked_up": pc.take(moves["looked_up"], at),
    }
    return with_columns(events, **new)


def topic_digests(events: pa.Table) -> pa.ChunkedArray:
    """Return the distinct digests of topic tables in registrations among `events`."""
    return pc.drop_null(pc.unique(events["topic_config_digest"]))


def as_events(rows: pa.Table, **columns: pa.ChunkedArray) -> pa.Table:
    """Return rows with the columns `EVENTS`: from `columns`, else from `rows`, else NULL."""
    return conformed(pa.table({name: rows[name] for name in rows.column_names} | columns), EVENTS)


def _events_of(rows: pa.Table, table: Table) -> pa.Table:
    if table.name in _RENAMED:
        rows = rows.rename_columns({"kind": _RENAMED[table.name]})
    if table is bronze.NAMESRV_EVENTS:
        rows = rows.filter(pc.is_in(rows["namesrv_kind"], value_set=_LIFE))
    rows = with_microseconds(rows)
    columns = {"kind": pa.repeat(table.name, rows.num_rows), "effect_us": rows["effect_time"]}
    if "response_code" in rows.column_names:
        if table is not bronze.REGISTRATIONS:
            rows = _with_refusal(rows)
        received, answered = rows["event_time"], pc.is_valid(rows["response_code"])
        columns |= {"received_us": received, "arrival_us": pc.if_else(answered, received, pa.scalar(None, LONG))}
    return as_events(rows.select([name for name in rows.column_names if name not in _LEFT_OUT]), **columns)


def _with_refusal(requests: pa.Table) -> pa.Table:
    """Return requests with a column `refusal` from their answers: why they were refused; NULL: they were not."""
    codes = requests["response_code"]
    if not pc.any(pc.not_equal(codes, ResponseCode.SUCCESS.value)).as_py():
        return requests
    said = requests["response_remark"].to_pylist() if "response_remark" in requests.column_names else repeat(None)
    why = [refusal_told(code, remark) for code, remark in zip(codes.to_pylist(), said, strict=False)]
    return requests.append_column("refusal", pa.array(why, STRING))


def _answers_of(observations: pa.Table) -> pa.Table:
    rows = observation_rows(observations)
    kind = pa.repeat(bronze.ROUTE_OBSERVATIONS.name, rows.num_rows)
    return as_events(rows, kind=kind, effect_us=pc.divide(rows["seq"], NS_PER_US))


def _responses_of(requests: pa.Table) -> pa.Table:
    """Return the responses to requests as events, each at the position after its request: it shows the state from then on."""
    taken = pc.field("code").isin(_TOLD)
    if "refusal" in requests.column_names:  # a lone topic is refused by the state of the registry
        taken = pc.field("refusal").is_null() | (pc.field("refusal") == REGISTER_FAILED)
    rows = requests.filter(pc.field("response_fields").is_valid() & taken)
    seq = pc.add(rows["seq"], 1)
    said = {
        "kind": pa.repeat(RESPONSES, rows.num_rows),
        "seq": seq,
        "event_id": pc.binary_join_element_wise(rows["event_id"], RESPONSE, ""),
        "effect_us": pc.divide(seq, NS_PER_US),
        "request_seq": pc.multiply(with_microseconds(rows)["event_time"], NS_PER_US),
        "body": rows["response_body"],
        "remark": rows["response_remark"],
    }
    return as_events(rows.select([name for name in rows.column_names if name in EVENTS.names]), **said)
