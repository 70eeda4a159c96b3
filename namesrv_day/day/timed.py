"""Events for the core. Each distinct content is built once; the loop then runs over positions, ids and times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.events import AnswerObserved, Event, QueryDataVersion, RefreshRun, RegisterBroker
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_core.replay.loop import TimedEvent
from namesrv_day.arrow.rows import distinct, rows_of, with_columns
from namesrv_wire.protocol.bodies import content_digest
from schemas import codec

# Columns that differ from row to row, and columns that neither the core nor an outcome reads.
_NOT_SAID = {"namesrv_id", "seq", "event_id", "effect_us", "received_us", "arrival_us", "request_seq"}
_NOT_SAID |= {"silent_ms", "pending_requests", "closed_by", "operation", "topic_count"}
_KINDS = ("kind", "channel_kind")
# As objects, rows take far more memory than as columns.
_ROWS_AT_A_TIME = 20_000


class Report(NamedTuple):
    """The data version of a broker (cluster name, broker name, address) in an event."""

    broker: tuple[str | None, str | None, str | None]
    version: DataVersion | None


class Timed:
    """Events in the order in which they took effect.

    `said`: one row for each distinct content, without columns that are NULL in all. `events` and `reports`: for each
    content, the core's event, and the data version that it reports, if any. `numbers`: the content's number, by event.
    """

    def __init__(self, rows: pa.Table, topic_tables: Mapping[str, TopicTable]) -> None:
        """`rows`: as from `day_events`; with a column `is_run`, it marks the runs. Raises the errors of `codec.event_of`."""
        order = pc.sort_indices(rows, [("seq", "ascending"), ("event_id", "ascending")])
        is_run = [name for name in rows.column_names if name == "is_run"]
        placed = rows.select(["seq", "event_id", "effect_us", "request_seq", *is_run]).take(order)
        self._rows = _in_time(placed).drop_columns(is_run)
        filled = (name for name in rows.column_names if name in _KINDS or rows[name].null_count < rows.num_rows)
        self.said, numbers = distinct(rows, [name for name in filled if name not in _NOT_SAID])
        self.numbers = numbers[order.to_numpy()]
        self.events: list[Event] = []
        self.reports: list[Report | None] = []
        absent = dict.fromkeys(rows.column_names)
        for row in rows_of(self.said):
            event = codec.event_of({**absent, **row}, topic_tables)
            self.reports.append(_report_of(event, row))
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
    said = configs["topic_config_digest"].to_pylist()
    return [digest for digest, content in zip(said, held, strict=True) if content_digest(*content) != digest]


def _records(lists: pa.ChunkedArray, record: type[TopicConfig | TopicQueueMappingInfo]) -> list[list[Any]]:
    """Return lists of structs as lists of `record`, which has the same fields."""
    found = lists.combine_chunks()
    structs = found.flatten()
    of_all: list[Any] = list(map(record, *(pc.struct_field(structs, name).to_pylist() for name in record._fields)))
    ends = np.cumsum(pc.fill_null(found.value_lengths(), 0).to_numpy()).tolist()
    return [of_all[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _report_of(event: Event, row: Mapping[str, Any]) -> Report | None:
    if not isinstance(event, (RegisterBroker, QueryDataVersion)):
        return None
    broker = (row.get("cluster_name"), row.get("broker_name"), row.get("broker_addr"))
    return Report(broker, event.data_version)


def _asked_at(event: Event, request_seq: int | None) -> Event:
    """Return the event; an answer gets the position of its question."""
    if type(event) is not AnswerObserved or request_seq is None:
        return event
    return AnswerObserved(event.question, event.answered, request_seq)
