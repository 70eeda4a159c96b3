"""Rows in and out of a Python function that Spark hands Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
_ROWS_PER_BATCH = 10_000
# As objects, rows take far more memory than in their batch.
_ROWS_AT_A_TIME = 1_000


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield the rows of batches, some at a time.

    They are wide, and most columns are NULL in many rows after each other: those cost nothing.
    """
    for batch in batches:
        blank = dict.fromkeys(batch.schema.names)
        for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
            part = batch.slice(start, _ROWS_AT_A_TIME)
            filled = [i for i, column in enumerate(part.columns) if column.null_count < part.num_rows]
            for row in part.select(filled).to_pylist():
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
