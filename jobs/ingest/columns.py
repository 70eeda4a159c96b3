"""Rows that frames or lines say as columns: what equal ones share becomes a column once, and is then taken by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from namesrv_day.arrow.rows import derived_of
from namesrv_day.arrow.sql import ask
from namesrv_wire.logs.known_lines import Lines
from namesrv_wire.rows import FrameRow, Values
from schemas.table import STRING, Table
from schemas.times import US_PER_DAY


def columns_of(rows: Sequence[FrameRow], table: Table, schema: pa.Schema, **other: Any) -> pa.RecordBatch:
    """Return rows of one table as columns of `schema`; `other`: further columns, or the one value of one."""
    columns = zip(*rows, strict=True)
    _, namesrv, seq, ids, received, effect, channel, proxied, files, offsets, said, answered, asked, nth, stated, _ = (
        columns
    )
    at_us = np.array(effect, np.int64)
    own = {
        "namesrv_id": namesrv,
        "seq": np.array(seq, np.int64),
        "event_id": ids,
        "event_time": np.array(received, np.int64),
        "effect_time": at_us,
        "channel_id": channel,
        "proxied_addr": proxied,
        "source_file": files,
        "source_offset": np.array(offsets, np.int64),
        "request_seq": asked,
        "nth": nth,
        "stated_id": stated,
        "day": (at_us // US_PER_DAY).astype(np.int32),
        "_seq_is_given": np.ones(len(rows), bool),
        **other,
    }
    # The columns of the answer go before those of the request.
    shared = [_Shared(*_once(answered)), _Shared(*_once(said))]
    found = pa.RecordBatch.from_arrays([_column(field, own, shared, len(rows)) for field in schema], schema=schema)
    if None not in ids:
        return found
    return _with(found, "event_id", pc.coalesce(found["event_id"], _timed_ids(found, table)))


def columns_of_lines(
    lines: Lines, table: Table, schema: pa.Schema, source_file: str, first: int, run_id: str
) -> pa.RecordBatch:
    """Return lines of an event log as columns of `schema`; `first`: the number of the line that is number 0."""
    size, numbers = len(lines.numbers), lines.numbers - first
    own = {
        "seq": lines.seq,
        "event_id": _texts_of(lines.ids),
        "event_time": lines.event_us,
        "effect_time": lines.effect_us,
        "source_file": source_file,
        "source_offset": numbers,
        "request_seq": lines.asked,
        "nth": lines.nth,
        "channel_id": lines.channels,
        "ingest_run": run_id,
        "day": (lines.effect_us // US_PER_DAY).astype(np.int32),
        "_n": numbers,
        "_frame": numbers,
        "_seq_is_given": np.full(size, lines.seq_is_given),
    }
    shared = [_Shared(lines.said, lines.which)]
    stated = {name: values for name, values in own.items() if values is not None}
    found = pa.RecordBatch.from_arrays([_column(field, stated, shared, size) for field in schema], schema=schema)
    if lines.nth is None:
        return found
    ids = found["event_id"]
    follows = pc.equal(ids, _timed_ids(found, table))
    return _with(found, "stated_id", pc.if_else(follows, pa.scalar(None, STRING), ids))


def _timed_ids(rows: pa.RecordBatch, table: Table) -> pa.Array:
    """Return the ids that follow from beats and answers (`rows.timed_id`), which state none."""
    met = _with(rows, "namesrv_addr", rows["namesrv_id"])
    made = ask(f"SELECT {derived_of(table)['event_id']} FROM met", {"met": pa.Table.from_batches([met])})  # noqa: S608
    return pa.concat_arrays(made[0].chunks)


def _with(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values.cast(rows.schema.field(at).type))


def _texts_of(fixed: NDArray[np.bytes_]) -> pa.Array:
    """Return texts in ASCII that all have the same size as a column."""
    ends = np.arange(len(fixed) + 1, dtype=np.int32) * fixed.itemsize
    return pa.StringArray.from_buffers(len(fixed), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(fixed)))


def _once(values: Sequence[Values]) -> tuple[list[Values], NDArray[np.int32]]:
    """Return values, of which equal ones are one object, each once, and for each place which of them is there."""
    distinct = {id(each): each for each in values}
    numbers = {key: number for number, key in enumerate(distinct)}
    return list(distinct.values()), np.fromiter((numbers[id(each)] for each in values), np.int32, len(values))


class _Shared:
    """Columns of values that many rows have in common: of `distinct` ones row after row those with these `numbers`."""

    def __init__(self, distinct: Sequence[Values], numbers: NDArray[np.int32]) -> None:
        self._distinct, self._numbers = distinct, numbers
        self.names = frozenset[str]().union(*distinct)

    def column(self, field: pa.Field) -> pa.Array:
        """Return the column of all rows."""
        values = pa.array([each.get(field.name) for each in self._distinct], field.type)
        if not pa.types.is_dictionary(field.type):
            return values.take(pa.array(self._numbers))
        return pa.DictionaryArray.from_arrays(values.indices.take(pa.array(self._numbers)), values.dictionary)


def _column(field: pa.Field, own: dict[str, Any], shared: Sequence[_Shared], size: int) -> pa.Array:
    if field.name in own:
        values = own[field.name]
        if isinstance(values, str):
            return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([values]))
        return values if isinstance(values, pa.Array) else pa.array(values, field.type)
    for columns in shared:
        if field.name in columns.names:
            return columns.column(field)
    return pa.nulls(size, field.type)
