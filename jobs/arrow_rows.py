"""Rows in and out of a Python function that Spark hands Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
_ROWS_PER_BATCH = 10_000


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of batches. They are wide, and most columns of a batch are NULL throughout: those cost nothing."""
    for batch in batches:
        blank = dict.fromkeys(batch.schema.names)
        filled = [i for i, column in enumerate(batch.columns) if column.null_count < batch.num_rows]
        for row in batch.select(filled).to_pylist():
            yield {**blank, **row}


def batches_of(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of `schema`; a column that a row does not have is NULL. Holds one batch at a time."""
    pending: list[Row] = []
    for row in rows:
        pending.append(row)
        if len(pending) == _ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(pending, schema=schema)
            pending = []
    if pending:
        yield pa.RecordBatch.from_pylist(pending, schema=schema)
