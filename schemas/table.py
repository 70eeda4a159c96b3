"""What a table is: its columns with comments, its grain and key, and the rules that its rows keep."""

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
Layer = Literal["bronze", "gold"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its comment is what `DESCRIBE` shows; `required` columns are never NULL."""

    name: str
    type: T.DataType
    comment: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a table.

    `holds` is a Spark SQL boolean over one row of the table (or of `over`, a query with `{table}` for its
    name, whose rows are then judged instead); a row for which it is not TRUE breaks the rule. A critical rule that is broken stops
    publication, a warning is reported.
    """

    name: str
    holds: str
    says: str
    severity: Severity = "critical"
    over: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table: `grain` says what one row is, `key` identifies it, `rules` are its expectations."""

    name: str
    layer: Layer
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
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
