"""What a table is: its columns with comments, its grain and its key, and the rules that its rows keep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
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
_NAMES = {
    pa.string(): "STRING",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.date32(): "DATE",
}
CLOSED_MONTH = "closed_month"
"""By this, the UTC month in which they closed (`YYYY-MM`; NULL: they are open), intervals are cut. Only partitions have it."""

Severity = Literal["critical", "warning"]
Kind = Literal["row", "unique", "reference", "query"]
Scope = Literal["row", "namesrv", "table"]
"""Of which rows together a rule can be judged: of any, of all of one name server, or only of all there are."""
Layer = Literal["bronze", "gold", "internal", "truth"]
Step = Literal["settle", "replay", "outcomes", "flags", "verify"]
_READ, _NAMED = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)\b(?!\.)"), re.compile(r"\b(\w+) AS \(")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its comment is what `DESCRIBE` shows; `required` columns are never NULL.

    `derived`: Spark SQL of stored columns, whose value it is; it is not stored itself.
    """

    name: str
    type: pa.DataType
    comment: str
    required: bool = False
    derived: str | None = None


def required(name: str, of: pa.DataType, comment: str) -> Column:
    """Return a column that is never NULL."""
    return Column(name, of, comment, required=True)


def tables_in(sql: str) -> tuple[str, ...]:
    """Return the names of the tables that a statement of ours reads, in alphabetical order."""
    return tuple(sorted(set(_READ.findall(sql)) - set(_NAMED.findall(sql))))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a table.

    `holds` is a SQL boolean (DuckDB's) over one row of the table, or of `over`: a query that reads tables by their names and
    whose rows are judged instead. A row for which it is not TRUE breaks the rule. Only rules of kind `row` have no `over`.
    `scope`: counts of parts that are judged apart add up if each part has all rows of its name servers (`namesrv`), or
    whatever rows it has (`row`). `key`, of kind `unique`: the columns in which no two rows of the tables are the same.
    """

    name: str
    holds: str
    says: str
    severity: Severity = "critical"
    kind: Kind = "row"
    over: str | None = None
    scope: Scope = "row"
    key: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the names of the tables that `over` reads, in alphabetical order."""
        return tables_in(self.over or "")


@dataclass(frozen=True)
class Table:
    """A Delta table: `grain` says what one row is, `key` identifies it.

    `rules`: what must hold of it, beside that it has its required columns and a key of its own (`schemas.rules`). `made_by`: the
    step of a day's replay that writes its slices, of a gold table that is no history; `sql`: DuckDB's statement that makes them of
    the day's other tables, where that is one. `shows_changes`: `restatements` shows which rows a run changed. `span`: of a table
    of intervals the columns that say from when on a row was there, and when it was over (NULL: it is open).
    """

    name: str
    layer: Layer
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partition_by: tuple[str, ...] = ("day",)
    rules: tuple[Rule, ...] = field(default=(), compare=False)
    made_by: Step | None = field(default=None, compare=False)
    sql: str | None = field(default=None, compare=False)
    shows_changes: bool = field(default=False, compare=False)
    span: tuple[str, str] = ("valid_from", "valid_to")

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema, comments included; nullable wherever a column is not required."""
        return _schema(self.columns)

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """Return the same of the columns that are stored."""
        return _schema(self.stored_columns)

    @property
    def is_by_day(self) -> bool:
        """Return whether it is cut by day."""
        return self.partition_by == ("day",)

    @property
    def has_intervals(self) -> bool:
        """Return whether its rows are intervals, cut by the month in which they closed."""
        return self.partition_by == (CLOSED_MONTH,)

    @cached_property
    def delta_schema(self) -> pa.Schema:
        """Return the columns of the Delta table: those that are stored, and the month by which intervals are cut."""
        month = Column(CLOSED_MONTH, STRING, "Month in which the interval closed, YYYY-MM; NULL = open; partition")
        return _schema([*self.stored_columns, *([month] if self.has_intervals else [])])

    @cached_property
    def stored_columns(self) -> tuple[Column, ...]:
        """Return the columns that are stored."""
        return tuple(column for column in self.columns if column.derived is None)

    @cached_property
    def derived(self) -> tuple[Column, ...]:
        """Return the columns that are not stored."""
        return tuple(column for column in self.columns if column.derived is not None)

    @property
    def spark_schema(self) -> StructType:
        """Return the stored columns as Spark has them, comments included."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  who asks has Spark, others need not wait for it

        found, stored = from_arrow_schema(self.stored_schema), self.stored_schema
        for made, column in zip(found.fields, stored, strict=True):
            made.metadata = {"comment": column.metadata[b"comment"].decode()}
        return found

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Return the column names in order."""
        return tuple(column.name for column in self.columns)


def _schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(column.name, column.type, nullable=not column.required, metadata={"comment": column.comment})
            for column in columns
        ]
    )


def type_name(of: pa.DataType) -> str:
    """Return the name that Spark's SQL has for an Arrow type."""
    if pa.types.is_map(of):
        return f"MAP<{type_name(of.key_type)}, {type_name(of.item_type)}>"
    if pa.types.is_list(of):
        return f"ARRAY<{type_name(of.value_type)}>"
    if pa.types.is_struct(of):
        return f"STRUCT<{', '.join(f'{field.name}: {type_name(field.type)}' for field in of)}>"
    return _NAMES[of]


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
