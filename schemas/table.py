"""Definition of a table: its columns with comments, grain, key and rules; and the functions that build columns and rules."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STRING = pa.string()
INT = pa.int32()
LONG = pa.int64()
TEXT_ONCE = pa.dictionary(pa.int32(), STRING)
BOOLEAN = pa.bool_()
DOUBLE = pa.float64()
TIMESTAMP = pa.timestamp("us", tz="UTC")
DATE = pa.date32()
CLOSED_MONTH = "closed_month"
"""Partition column of intervals: the UTC month in which they closed (`YYYY-MM`; NULL: open). It is not a column of the rows."""

Severity = Literal["critical", "warning"]
Kind = Literal["row", "unique", "reference", "query"]
Scope = Literal["row", "namesrv", "table"]
"""Rows that a rule needs together: any rows, all rows of a name server, or all rows of the table."""
Layer = Literal["bronze", "gold", "internal"]
Step = Literal["settle", "replay", "outcomes", "flags", "verify"]
_READ, _NAMED = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)\b(?!\.)"), re.compile(r"\b(\w+) AS \(")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its comment is what `DESCRIBE` shows; `required` columns are never NULL.

    `derived`: the Spark SQL over stored columns that gives its value; a derived column is not stored.
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
    """Return the names of the tables that one of our statements reads, in alphabetical order."""
    return tuple(sorted(set(_READ.findall(sql)) - set(_NAMED.findall(sql))))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a table.

    `holds` is a SQL boolean (DuckDB's) over one row. A row for which it is not TRUE breaks the rule. Rules of kind `row` check
    the table's rows; other kinds check those of the query `over`, which reads tables by their names. `scope`: counts of
    parts add up if each part has all rows of its name servers (`namesrv`), or any rows (`row`); `table`: never.
    `key`, of kind `unique`: the columns in which no two rows are the same.
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

    `rules`: its rules, besides those of all tables: required columns and a unique key (`schemas.rules`). `made_by`: for a gold
    table that is not a history, the step of a day's replay that writes it; `sql`: DuckDB's statement that makes it from the
    day's other tables, if there is one. `span`: for a table of intervals, the columns of a row's start and end (NULL: open).
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
    span: tuple[str, str] = ("valid_from", "valid_to")

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema, comments included; nullable wherever a column is not required."""
        return _schema(self.columns)

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """Return the Arrow schema of the stored columns."""
        return _schema(self.stored_columns)

    @property
    def is_by_day(self) -> bool:
        """Return whether it is partitioned by day."""
        return self.partition_by == ("day",)

    @property
    def has_intervals(self) -> bool:
        """Return whether its rows are intervals, partitioned by the month in which they closed."""
        return self.partition_by == (CLOSED_MONTH,)

    @cached_property
    def delta_schema(self) -> pa.Schema:
        """Return the Arrow schema of the Delta table."""
        return _schema(self.delta_columns)

    @cached_property
    def delta_columns(self) -> tuple[Column, ...]:
        """Return the stored columns, and for intervals the partition column `closed_month`."""
        month = Column(CLOSED_MONTH, STRING, "Month in which the interval closed, YYYY-MM; NULL = open; partition")
        return (*self.stored_columns, *([month] if self.has_intervals else []))

    @cached_property
    def stored_columns(self) -> tuple[Column, ...]:
        """Return the columns that are stored."""
        return tuple(column for column in self.columns if column.derived is None)

    @cached_property
    def derived(self) -> tuple[Column, ...]:
        """Return the derived columns, which are not stored."""
        return tuple(column for column in self.columns if column.derived is not None)

    @property
    def spark_schema(self) -> StructType:
        """Return the Spark schema of the stored columns, comments included."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  Spark may be missing, or slow to import

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
    """Return Spark's SQL name of an Arrow type; the inverse of `type_of`."""
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
    """Return a list type, its element named as Spark and Delta name it."""
    return pa.list_(pa.field("element", of))


def map_of(value: pa.DataType) -> pa.DataType:
    """Return a map type with string keys."""
    return pa.map_(STRING, value)


STRINGS = list_of(STRING)

DATA_VERSION = struct_of(state_version=LONG, timestamp=LONG, counter=LONG)
TYPES = {
    "STRING": STRING,
    "INT": INT,
    "BIGINT": LONG,
    "BOOLEAN": BOOLEAN,
    "DOUBLE": DOUBLE,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
    "DATA_VERSION": DATA_VERSION,
    "POSITION": struct_of(seq=LONG, no=INT),
}
"""Types by their Spark SQL names, and two of our own."""
_NAMES = {of: name for name, of in TYPES.items()}
_COLUMN = re.compile(r"(\w+)(\*?)(?: (\w+(?:<.*?>(?=: ))?): (.+))?")


def type_of(sql: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type name."""
    kind, _, inner = sql.partition("<")
    if not inner:
        return TYPES[kind]
    if kind == "ARRAY":
        return list_of(type_of(inner[:-1]))
    if kind == "MAP":
        return map_of(type_of(inner[:-1].removeprefix("STRING, ")))
    parts, depth = [""], 0
    for character in inner[:-1]:
        depth += (character == "<") - (character == ">")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    fields = (part.strip().partition(": ") for part in parts)
    return struct_of(**{name: type_of(of) for name, _, of in fields})


def columns(text: str) -> tuple[Column, ...]:
    """Return the columns of a text, a line each: `name TYPE: comment`, with a `*` behind the name if the column is never NULL.

    A comment continues on lines that are indented further. A name alone is one of the `USUAL` columns.
    """
    found = []
    for line in _lines_of(text):
        matched = _COLUMN.fullmatch(re.sub(r"\n\s+", " ", line))
        if matched is None:
            raise ValueError(f"no column: {line!r}")
        name, star, of, comment = matched.groups()
        found.append(USUAL[name] if of is None else Column(name, type_of(of), comment, star == "*"))
    return tuple(found)


def rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text: lines `name: sentence`, each followed by its SQL condition, indented further.

    A `?` behind the name makes the rule a warning, which real input may break.
    """
    found = []
    for rule in _lines_of(text):
        head, _, holds = rule.partition("\n")
        name, _, says = head.partition(": ")
        found.append((warn if name.endswith("?") else Rule)(name.rstrip("?"), textwrap.dedent(holds), says))
    return tuple(found)


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with the further indented lines below it."""
    return re.split(r"\n(?=\S)", textwrap.dedent(text).strip())


USUAL = {
    column.name: column
    for column in columns("""
        namesrv_id* STRING: Name server: its address, or one of its addresses, ip:port
        namesrv_addr* STRING: Address of the name server that was used, ip:port as seen
        cluster_name STRING: Cluster name
        broker_name STRING: Broker name
        broker_addr STRING: Broker address, ip:port
        day* DATE: UTC date; partition
    """)
}
"""Columns that many tables have, by name."""


def warn(name: str, holds: str, says: str, over: str | None = None) -> Rule:
    """Return a warning: a rule that real input may break."""
    if over is None:
        return Rule(name, holds, says, "warning")
    return Rule(name, holds, says, "warning", "query", over, "namesrv")


def query(name: str, holds: str, says: str, over: str) -> Rule:
    """Return a critical rule about the rows of the query `over`, which needs all rows of a name server."""
    return Rule(name, holds, says, kind="query", over=over, scope="namesrv")


def reference(name: str, says: str, over: str, scope: Scope = "namesrv") -> Rule:
    """Return the critical rule that each row of the query `over` has a `known` counterpart."""
    return Rule(name, "known IS NOT NULL", says, kind="reference", over=over, scope=scope)


def known_event(table: str, column: str, where: str = "TRUE", also: str = "") -> Rule:
    """Return the rule that the events in `column` are in event_outcomes; `where`: condition that selects those of the day.

    `also` adds a query of events (day, namesrv_id, event_id) that event_outcomes lacks because they were plain refreshes.
    """
    events = "SELECT day, namesrv_id, event_id FROM event_outcomes" + also
    return reference(
        f"{column}_is_known",
        f"Every {column} of the slice's own day is a recorded event.",
        f"""
        SELECT checked.day, checked.namesrv_id, checked.{column}, outcomes.event_id AS known
        FROM {table} AS checked
        LEFT JOIN (SELECT DISTINCT day, namesrv_id, event_id FROM ({events})) AS outcomes
          ON outcomes.day = checked.day AND outcomes.namesrv_id = checked.namesrv_id
         AND outcomes.event_id = checked.{column}
        WHERE checked.{column} IS NOT NULL AND {where}""",
    )


def words(values: Iterable[str | int]) -> str:
    """Return SQL literals, separated by commas."""
    return ", ".join(repr(value) for value in values)


def present(table: Table) -> Rule:
    """Return the rule that the required stored columns of `table` are never NULL."""
    required = [column.name for column in table.columns if column.required and column.derived is None]
    return Rule(
        "required_columns_present",
        " AND ".join(f"{name} IS NOT NULL" for name in required),
        f"None of these is NULL: {', '.join(required)}.",
    )


def unique(table: str, key: Sequence[str], name: str = "key_is_unique") -> Rule:
    """Return the rule that no two rows of `table` have the same `key`."""
    return unique_across(name, key, [table], f"No two rows have the same {', '.join(key)}.")


def unique_across(name: str, key: Sequence[str], tables: Iterable[str], says: str) -> Rule:
    """Return the rule that no two rows of `tables` together have the same `key`."""
    columns = ", ".join(key)
    over = f"SELECT {columns}, count(*) AS copies FROM ({union(tables, columns)}) AS keys GROUP BY {columns}"
    scope: Scope = "namesrv" if "namesrv_id" in key else "table"
    return Rule(name, "copies = 1", says, kind="unique", over=over, scope=scope, key=tuple(key))


def is_hex(column: str, digits: int) -> str:
    """Return the SQL condition that `column` is so many lower-case hex digits."""
    return has_form(column, f"[0-9a-f]{{{digits}}}")


def has_form(column: str, pattern: str) -> str:
    """Return the SQL condition that all of `column`, a line break at its end included, matches a regular expression."""
    return f"regexp_full_match({column}, '{pattern}')"


def is_one_of(column: str, values: Iterable[str | int]) -> str:
    """Return the SQL condition that `column` is one of `values`."""
    return f"{column} IN ({words(values)})"


def is_code(column: str, codes: Iterable[int]) -> str:
    """Return the SQL condition that `column` is one of `codes`."""
    # DuckDB can prove ranges by statistics, but neither lists nor equations.
    return " OR ".join(f"{column} BETWEEN {code} AND {code}" for code in codes)


def is_day_of(column: str) -> str:
    """Return the SQL condition that `day` is the UTC date of the instant `column`."""
    # Casting an instant to a date involves time zones and takes ten times as long.
    return f"epoch_us({column}) - epoch_us(day) BETWEEN 0 AND 86399999999"


def each(array: str, condition: str) -> str:
    """Return the SQL condition that `condition` is true for every element `e` of `array`, which must not be NULL."""
    return f"len(list_filter({array}, lambda e: NOT coalesce({condition}, FALSE))) = 0"


def queues(rows: str = "") -> tuple[Rule, ...]:
    """Return the rules of queue data, in the row's own columns or in the structs of the array `rows`."""

    def all_of(condition: str) -> str:
        return f"{rows} IS NULL OR {each(rows, condition)}" if rows else condition

    e = "e." if rows else ""
    return (
        warn("perm_is_three_bits", all_of(f"{e}perm BETWEEN 0 AND 7"), "A permission is 0 to 7."),
        warn(
            "queue_numbers_are_plausible",
            all_of(f"{e}read_queue_nums BETWEEN 0 AND 65536 AND {e}write_queue_nums BETWEEN 0 AND 65536"),
            "Queue numbers are 0 to 65,536.",
        ),
        warn("sys_flag_is_two_bits", all_of(f"{e}topic_sys_flag BETWEEN 0 AND 3"), "A topic's system flag is 0 to 3."),
    )


def union(tables: Iterable[str], columns: str) -> str:
    """Return the query that selects `columns` (SQL) from all `tables`."""
    return " UNION ALL ".join(f"SELECT {columns} FROM {name}" for name in tables)


DAY_OF_EFFECT = Rule("day_is_day_of_effect", is_day_of("effect_time"), "day is the UTC date of effect_time.")
LIVES_IN_ITS_SLICE, INTERVAL_DOES_NOT_RUN_BACK = rules("""
    lives_in_its_slice: A partition holds intervals that were alive during its day.
        CAST(valid_from AS DATE) <= day AND (valid_to IS NULL OR CAST(valid_to AS DATE) = day)
    time_does_not_run_back: valid_from is not after valid_to.
        valid_to IS NULL OR valid_from <= valid_to
""")
