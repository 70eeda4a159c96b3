"""What a table is: its columns with comments, its grain and its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import types as T

STRING = T.StringType()
INT = T.IntegerType()
LONG = T.LongType()
BOOLEAN = T.BooleanType()
DOUBLE = T.DoubleType()
TIMESTAMP = T.TimestampType()
DATE = T.DateType()
STRINGS = T.ArrayType(T.StringType(), containsNull=True)
BIG_MAP = T.MapType(T.StringType(), T.LongType(), valueContainsNull=True)

Severity = Literal["critical", "warning"]
Layer = Literal["bronze", "gold", "truth"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its comment is what `DESCRIBE` shows; `required` columns are never NULL."""

    name: str
    type: T.DataType
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
    def schema(self) -> T.StructType:
        """Return the Spark schema, comments included; nullable wherever a column is not required."""
        return T.StructType(
            [
                T.StructField(column.name, column.type, not column.required, {"comment": column.comment})
                for column in self.columns
            ]
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the column names in order."""
        return tuple(column.name for column in self.columns)


def struct_of(**fields: T.DataType) -> T.StructType:
    """Return a struct type with these fields in order, all nullable."""
    return T.StructType([T.StructField(name, of, nullable=True) for name, of in fields.items()])
