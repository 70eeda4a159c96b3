"""The events of a day, from all tables in one, with the positions at which they took effect; and as events for the core.

Each distinct content is built once; the loop then runs over positions, ids and times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import STANDARD_JSON_SINCE, refusal_of
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.events import NS_PER_US, AnswerObserved, Event, QueryDataVersion, RefreshRun, RegisterBroker
from namesrv_core.machine.step import REGISTER_FAILED
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_core.replay.loop import TimedEvent
from namesrv_day.arrow import conformed, distinct, rows_of, with_columns, with_microseconds
from namesrv_wire.protocol.bodies import content_digest
from schemas import bronze, codec
from schemas.table import LONG, STRING, TEXT_ONCE, Table, struct_of

Frames = Mapping[str, pa.Table]
"""Tables by their names."""
BEATS = (bronze.HEARTBEATS, bronze.REGISTRATIONS)
OTHERS = tuple(table for table in bronze.EVENT_TABLES if table not in BEATS)
"""Tables of events other than brokers' beats."""
RESPONSES, RESPONSE = "responses", "-response"
"""The kind of events that are responses to requests, and the suffix of their ids after those of the requests."""
_ANSWERED = [code for table in ("heartbeats", "admin_events") for code in codec.RESPONSE_TABLES[table]]
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
        makers = {
            bronze.REGISTRATIONS: _responses_of,
            bronze.HEARTBEATS: _responses_of,
            bronze.ADMIN_EVENTS: _responses_of,
            bronze.ROUTE_OBSERVATIONS: _answers_of,
        }
        found += [
            events_of(frames[table.name])
            for table, events_of in makers.items()
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
    remarks = requests["response_remark"].to_pylist() if "response_remark" in requests.column_names else repeat(None)
    why = [refusal_of(code, remark) for code, remark in zip(codes.to_pylist(), remarks, strict=False)]
    return requests.append_column("refusal", pa.array(why, STRING))


def _answers_of(observations: pa.Table) -> pa.Table:
    rows = observation_rows(observations)
    kind = pa.repeat(bronze.ROUTE_OBSERVATIONS.name, rows.num_rows)
    return as_events(rows, kind=kind, effect_us=pc.divide(rows["seq"], NS_PER_US))


def _responses_of(requests: pa.Table) -> pa.Table:
    """Return the responses to requests as events, each at the position after its request: it shows the state from then on."""
    taken = pc.field("code").isin(_ANSWERED)
    if "refusal" in requests.column_names:  # a lone topic is refused by the state of the registry
        taken = pc.field("refusal").is_null() | (pc.field("refusal") == REGISTER_FAILED)
    rows = requests.filter(pc.field("response_fields").is_valid() & taken)
    seq = pc.add(rows["seq"], 1)
    columns = {
        "kind": pa.repeat(RESPONSES, rows.num_rows),
        "seq": seq,
        "event_id": pc.binary_join_element_wise(rows["event_id"], RESPONSE, ""),
        "effect_us": pc.divide(seq, NS_PER_US),
        "request_seq": pc.multiply(with_microseconds(rows)["event_time"], NS_PER_US),
        "body": rows["response_body"],
        "remark": rows["response_remark"],
    }
    return as_events(rows.select([name for name in rows.column_names if name in EVENTS.names]), **columns)


# Columns that differ from row to row, and columns that neither the core nor an outcome reads.
_NOT_CONTENT = {"namesrv_id", "seq", "event_id", "effect_us", "received_us", "arrival_us", "request_seq"}
_NOT_CONTENT |= {"silent_ms", "pending_requests", "closed_by", "operation", "topic_count"}
_KINDS = ("kind", "channel_kind")
# As objects, rows take far more memory than as columns.
_ROWS_AT_A_TIME = 20_000


class Report(NamedTuple):
    """The data version of a broker (cluster name, broker name, address) in an event."""

    broker: tuple[str | None, str | None, str | None]
    version: DataVersion | None


class Timed:
    """Events in the order in which they took effect.

    `contents`: one row for each distinct content, without columns that are NULL in all. `events` and `reports`: for each
    content, the core's event, and the data version that it reports, if any. `numbers`: the content's number, by event.
    """

    def __init__(self, rows: pa.Table, topic_tables: Mapping[str, TopicTable]) -> None:
        """`rows`: as from `day_events`; with a column `is_run`, it marks the runs. Raises the errors of `codec.event_of`."""
        order = pc.sort_indices(rows, [("seq", "ascending"), ("event_id", "ascending")])
        is_run = [name for name in rows.column_names if name == "is_run"]
        placed = rows.select(["seq", "event_id", "effect_us", "request_seq", *is_run]).take(order)
        self._rows = _in_time(placed).drop_columns(is_run)
        filled = (name for name in rows.column_names if name in _KINDS or rows[name].null_count < rows.num_rows)
        self.contents, numbers = distinct(rows, [name for name in filled if name not in _NOT_CONTENT])
        self.numbers = numbers[order.to_numpy()]
        self.events: list[Event] = []
        self.reports: list[Report | None] = []
        absent = dict.fromkeys(rows.column_names)
        for row in rows_of(self.contents):
            event = codec.event_of({**absent, **row}, topic_tables)
            broker = (row.get("cluster_name"), row.get("broker_name"), row.get("broker_addr"))
            made = Report(broker, event.data_version) if isinstance(event, (RegisterBroker, QueryDataVersion)) else None
            self.reports.append(made)
            self.events.append(RefreshRun(event) if row.get("is_run") else event)  # type: ignore[arg-type]
        self._with_answers = any(type(event) is AnswerObserved for event in self.events)

    def numbered(self, tell: Callable[[float], None] | None = None) -> Iterator[tuple[int, TimedEvent]]:
        """Yield the events, each with the number of its content; `tell` is called now and then with the share done."""
        for first in range(0, self._rows.num_rows, _ROWS_AT_A_TIME):
            if tell is not None:
                tell(first / self._rows.num_rows)
            part = self._rows.slice(first, _ROWS_AT_A_TIME)
            numbers = self.numbers[first : first + part.num_rows].tolist()
            seqs, ids, times, asked = (column.to_pylist() for column in part.columns)
            events = map(self.events.__getitem__, numbers)
            if self._with_answers:
                events = map(_asked_at, events, asked)
            yield from zip(numbers, map(TimedEvent, seqs, ids, times, events), strict=True)


def _in_time(rows: pa.Table) -> pa.Table:
    """Return rows, in their order, with times that never decrease, even if the clock stepped back.

    Runs do not raise the times after them: a run has the time of its last beat, and other events come before that.
    """
    latest = rows["effect_us"]
    if "is_run" in rows.column_names:
        latest = pc.if_else(pc.fill_null(rows["is_run"], False), None, latest)
    latest = pc.fill_null_forward(pc.cumulative_max(latest, skip_nulls=True))
    return with_columns(rows, effect_us=pc.max_element_wise(rows["effect_us"], latest))


def topic_tables_of(configs: pa.Table) -> dict[str, TopicTable]:
    """Return the core's topic tables from rows of topic_configs, by digest."""
    topics, mappings = _records(configs["topics"], TopicConfig), _records(configs["mappings"], TopicQueueMappingInfo)
    return dict(zip(configs["topic_config_digest"].to_pylist(), map(TopicTable, topics, mappings), strict=True))


class TopicTables(dict[str, TopicTable]):
    """Topic tables by digest: those of `now`, and others that are read on first use."""

    def __init__(self, now: pa.Table, later: Callable[[], pa.Table]) -> None:
        """`now`, and the result of `later`: rows of topic_configs."""
        super().__init__(topic_tables_of(now))
        self._read_later = later

    def __missing__(self, digest: str) -> TopicTable:
        self[digest] = _LaterTopicTable(lambda: self.later.filter(pc.field("topic_config_digest") == digest))
        return self[digest]

    @cached_property
    def later(self) -> pa.Table:
        """Return the rows of topic_configs that are read on first use."""
        return self._read_later()


class _LaterTopicTable(TopicTable):
    """A topic table whose content is read on first use."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], pa.Table]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> Any:
        if name not in TopicTable.__slots__:
            raise AttributeError(name)
        (read,) = topic_tables_of(self._read()).values()
        for known in TopicTable.__slots__:
            setattr(self, known, getattr(read, known))
        return getattr(self, name)


def wrong_configs(configs: pa.Table) -> list[str]:
    """Return the digests of rows of topic_configs that differ from the digests of the rows' contents."""
    held = zip(
        _records(configs["topics"], TopicConfig), _records(configs["mappings"], TopicQueueMappingInfo), strict=True
    )
    digests = configs["topic_config_digest"].to_pylist()
    return [digest for digest, content in zip(digests, held, strict=True) if content_digest(*content) != digest]


def _records(lists: pa.ChunkedArray, record: type[TopicConfig | TopicQueueMappingInfo]) -> list[list[Any]]:
    """Return lists of structs as lists of `record`, which has the same fields."""
    found = lists.combine_chunks()
    structs = found.flatten()
    of_all: list[Any] = list(map(record, *(pc.struct_field(structs, name).to_pylist() for name in record._fields)))
    ends = np.cumsum(pc.fill_null(found.value_lengths(), 0).to_numpy()).tolist()
    return [of_all[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _asked_at(event: Event, request_seq: int | None) -> Event:
    """Return the event; an answer gets the position of its question."""
    if type(event) is not AnswerObserved or request_seq is None:
        return event
    return AnswerObserved(event.question, event.answered, request_seq)
