"""Conversion of rows between Arrow tables and plain Python, where times are microseconds since the epoch (UTC)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from namesrv_day.arrow.sql import ask
from schemas import asked
from schemas.table import Table

Row = Mapping[str, Any]
# As objects, rows take far more memory than as columns.
_ROWS_AT_A_TIME = 10_000


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dicts by column name, converted in batches."""
    numbers = with_microseconds(table)
    for start in range(0, numbers.num_rows, _ROWS_AT_A_TIME):
        yield from numbers.slice(start, _ROWS_AT_A_TIME).to_pylist()


def with_microseconds(table: pa.Table) -> pa.Table:
    """Return the table with its instants as microseconds since the epoch."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            us = table.column(number).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            table = table.set_column(number, field.name, us)
    return table


def table_of(rows: Iterable[Row], table: Table, **same: Any) -> pa.Table:
    """Return rows with the schema of `table`, without column comments; a column that a row lacks is NULL.

    `same`: columns with one value in all rows, such as `day`.
    """
    listed = [{**row, **same} for row in rows]
    return pa.Table.from_pylist(listed, schema=plain(table.schema))


def plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the same columns, nullable and without comments: constraints are checked only when written."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def conformed(rows: pa.Table, table: Table | pa.Schema, **same: Any) -> pa.Table:
    """Return `rows` with exactly the columns of `table`, in order and typed; a missing column becomes NULL.

    `same`: columns with one value in all rows.
    """
    for name, value in same.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(value), rows.num_rows))
    schema = table if isinstance(table, pa.Schema) else plain(table.schema)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def with_columns(rows: pa.Table, **columns: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return rows, a table or a batch, with the values of existing columns replaced by others of the same types."""
    for name, values in columns.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, values.cast(field.type))
    return rows


def distinct(rows: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return the distinct values of `columns`, and for each row the number of its values in that table."""
    names = ", ".join(f'"{name}"' for name in columns)
    numbered, texts = rows.select(columns).unify_dictionaries(), dict[str, pa.Array]()
    for at, name in enumerate(columns):
        if pa.types.is_dictionary(numbered[name].type):  # equal texts have equal numbers
            once = numbered[name].combine_chunks()
            numbered, texts[name] = numbered.set_column(at, name, once.indices), once.dictionary
    numbered = numbered.append_column("row", pa.array(np.arange(rows.num_rows)))
    found = ask(f"SELECT {names}, list(row) AS rows FROM said GROUP BY {names}", {"said": numbered})  # noqa: S608  names of ours
    places = found["rows"].combine_chunks()
    numbers = np.empty(rows.num_rows, dtype=np.int64)
    numbers[places.flatten().to_numpy()] = np.repeat(np.arange(found.num_rows), places.value_lengths().to_numpy())
    for name, once in texts.items():
        found = found.set_column(found.column_names.index(name), name, once.take(found[name].combine_chunks()))
    return found.drop_columns("rows"), numbers


def derived_of(table: Table) -> dict[str, str]:
    """Return the columns of `table` that are not stored, with the SQL that derives each."""
    return {column.name: asked.derived(table.name, column.name) for column in table.derived}


def with_derived(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows with the columns of `table` that are derived instead of stored."""
    for name, sql in derived_of(table).items():
        made = ask(f"SELECT {sql} FROM rows", {"rows": rows})[0]  # noqa: S608  text of ours
        at = rows.schema.get_field_index(name)
        rows = rows.append_column(name, made) if at < 0 else rows.set_column(at, name, made)
    return rows


def empty(table: Table) -> pa.Table:
    """Return `table` without rows."""
    return plain(table.schema).empty_table()
