"""Rows that frames or lines say as columns: what equal ones share becomes a column once, and is then taken by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from namesrv_wire.logs.line_columns import Lines
from namesrv_wire.rows import FrameRow, Values
from schemas.times import US_PER_DAY


def columns_of(rows: Sequence[FrameRow], schema: pa.Schema, **other: Any) -> pa.RecordBatch:
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
    shared = [_Shared(answered), _Shared(said)]
    return pa.RecordBatch.from_arrays([_column(field, own, shared, len(rows)) for field in schema], schema=schema)


def columns_of_lines(lines: Lines, schema: pa.Schema, source_file: str, first: int, run_id: str) -> pa.RecordBatch:
    """Return lines of an event log as columns of `schema`; `first`: the number of the line that is number 0."""
    size, numbers = len(lines.numbers), lines.numbers - first
    own = {
        "seq": lines.seq,
        "event_id": lines.ids,
        "event_time": lines.event_us,
        "effect_time": lines.effect_us,
        "source_file": source_file,
        "source_offset": numbers,
        "request_seq": lines.asked,
        "nth": lines.nth,
        "stated_id": lines.stated,
        "channel_id": lines.channels,
        "ingest_run": run_id,
        "day": (lines.effect_us // US_PER_DAY).astype(np.int32),
        "_n": numbers,
        "_frame": numbers,
        "_seq_is_given": np.full(size, lines.seq_is_given),
    }
    shared = [_Shared(lines.said)]
    stated = {name: values for name, values in own.items() if values is not None}
    return pa.RecordBatch.from_arrays([_column(field, stated, shared, size) for field in schema], schema=schema)


class _Shared:
    """Columns of values that many rows have in common."""

    def __init__(self, values: Sequence[Values]) -> None:
        distinct = {id(each): each for each in values}
        numbers = {key: number for number, key in enumerate(distinct)}
        self._distinct = list(distinct.values())
        self._numbers: NDArray[np.int32] = np.fromiter((numbers[id(each)] for each in values), np.int32, len(values))
        self.names = frozenset[str]().union(*self._distinct)

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
