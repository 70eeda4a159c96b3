"""What a table is: its columns with comments, its grain and its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STRING = pa.string()
INT = pa.int32()
LONG = pa.int64()
BOOLEAN = pa.bool_()
DOUBLE = pa.float64()
TIMESTAMP = pa.timestamp("us", tz="UTC")
DATE = pa.date32()

Severity = Literal["critical", "warning"]
Layer = Literal["bronze", "gold", "truth"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its comment is what `DESCRIBE` shows; `required` columns are never NULL."""

    name: str
    type: pa.DataType
    comment: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table: `grain` says what one row is, `key` identifies it."""

    name: str
    layer: Layer
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partition_by: tuple[str, ...] = ("day",)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema, comments included; nullable wherever a column is not required."""
        return pa.schema(
            [
                pa.field(column.name, column.type, nullable=not column.required, metadata={"comment": column.comment})
                for column in self.columns
            ]
        )

    @property
    def spark_schema(self) -> StructType:
        """Return the same as Spark has it, comments included."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  who asks has Spark, others need not wait for it

        found = from_arrow_schema(self.schema)
        for field, column in zip(found.fields, self.columns, strict=True):
            field.metadata = {"comment": column.comment}
        return found

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the column names in order."""
        return tuple(column.name for column in self.columns)


def struct_of(**fields: pa.DataType) -> pa.DataType:
    """Return a struct type with these fields in order, all nullable."""
    return pa.struct(list(fields.items()))


def list_of(of: pa.DataType) -> pa.DataType:
    """Return the type of a list, with the name that Spark and Delta give its elements."""
    return pa.list_(pa.field("element", of))


def map_of(value: pa.DataType) -> pa.DataType:
    """Return the type of a map with text as keys."""
    return pa.map_(STRING, value)


STRINGS = list_of(STRING)
BIG_MAP = map_of(LONG)
