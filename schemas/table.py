"""What a table is: its columns with comments, its grain and its key, the rules that its rows keep, and what rules are made of."""

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
"""By this, the UTC month in which they closed (`YYYY-MM`; NULL: they are open), intervals are cut. Only partitions have it."""

Severity = Literal["critical", "warning"]
Kind = Literal["row", "unique", "reference", "query"]
Scope = Literal["row", "namesrv", "table"]
"""Of which rows together a rule can be judged: of any, of all of one name server, or only of all there are."""
Layer = Literal["bronze", "gold", "internal"]
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
    the day's other tables, where that is one. `span`: of a table of intervals the columns that say from when on a row was
    there, and when it was over (NULL: it is open).
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
        """Return the columns of the Delta table."""
        return _schema(self.delta_columns)

    @cached_property
    def delta_columns(self) -> tuple[Column, ...]:
        """Return the columns that are stored, and the month by which intervals are cut."""
        month = Column(CLOSED_MONTH, STRING, "Month in which the interval closed, YYYY-MM; NULL = open; partition")
        return (*self.stored_columns, *([month] if self.has_intervals else []))

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
    """Return the name that Spark's SQL has for an Arrow type; the inverse of `type_of`."""
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
"""Types by the names that Spark's SQL has for them, and two of ours."""
_NAMES = {of: name for name, of in TYPES.items()}
_COLUMN = re.compile(r"(\w+)(\*?)(?: (\w+(?:<.*?>(?=: ))?): (.+))?")


def type_of(sql: str) -> pa.DataType:
    """Return the Arrow type that Spark's SQL calls so."""
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
    """Return the columns that a text says, a line each: `name TYPE: comment`, with a `*` behind the name if it is never NULL.

    A comment goes on in lines that are indented further. A name alone is that of one of the `USUAL` columns.
    """
    found = []
    for line in _lines_of(text):
        said = _COLUMN.fullmatch(re.sub(r"\n\s+", " ", line))
        if said is None:
            raise ValueError(f"no column: {line!r}")
        name, star, of, comment = said.groups()
        found.append(USUAL[name] if of is None else Column(name, type_of(of), comment, star == "*"))
    return tuple(found)


def rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of rows that a text says: `name: sentence`, and below, indented further, the condition in SQL.

    With a `?` behind its name it is a warning: real input may break it.
    """
    found = []
    for rule in _lines_of(text):
        head, _, holds = rule.partition("\n")
        name, _, says = head.partition(": ")
        found.append((warn if name.endswith("?") else Rule)(name.rstrip("?"), textwrap.dedent(holds), says))
    return tuple(found)


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with those below it that are indented further."""
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
    """Return a rule that real input may break."""
    if over is None:
        return Rule(name, holds, says, "warning")
    return Rule(name, holds, says, "warning", "query", over, "namesrv")


def query(name: str, holds: str, says: str, over: str) -> Rule:
    """Return a critical rule about the rows of the query `over`, of one name server each."""
    return Rule(name, holds, says, kind="query", over=over, scope="namesrv")


def reference(name: str, says: str, over: str, scope: Scope = "namesrv") -> Rule:
    """Return the critical rule that each row of the query `over` has a `known` counterpart."""
    return Rule(name, "known IS NOT NULL", says, kind="reference", over=over, scope=scope)


def known_event(table: str, column: str, where: str = "TRUE", also: str = "") -> Rule:
    """Return the rule that the events in `column` are in event_outcomes, `where` they are of the day.

    `also` adds events (day, namesrv_id, event_id) that may have been plain refreshes, which event_outcomes leaves out.
    """
    events = "SELECT day, namesrv_id, event_id FROM event_outcomes" + also
    return reference(
        f"{column}_is_known",
        f"Every {column} of the slice's own day is a recorded event.",
        f"""
        SELECT judged.day, judged.namesrv_id, judged.{column}, outcomes.event_id AS known
        FROM {table} AS judged
        LEFT JOIN (SELECT DISTINCT day, namesrv_id, event_id FROM ({events})) AS outcomes
          ON outcomes.day = judged.day AND outcomes.namesrv_id = judged.namesrv_id
         AND outcomes.event_id = judged.{column}
        WHERE judged.{column} IS NOT NULL AND {where}""",
    )


def words(values: Iterable[str | int]) -> str:
    """Return SQL literals, separated by commas."""
    return ", ".join(repr(value) for value in values)


def present(table: Table) -> Rule:
    """Return the rule that the required columns of `table`, which are stored, are never NULL."""
    required = [column.name for column in table.columns if column.required and column.derived is None]
    return Rule(
        "required_columns_present",
        " AND ".join(f"{name} IS NOT NULL" for name in required),
        f"None of these is NULL: {', '.join(required)}.",
    )


def unique(table: str, key: Sequence[str], name: str = "key_is_unique") -> Rule:
    """Return the rule that no two rows of `table` have the same `key`."""
    return told_apart(name, key, [table], f"No two rows have the same {', '.join(key)}.")


def told_apart(name: str, key: Sequence[str], tables: Iterable[str], says: str) -> Rule:
    """Return the rule that no two rows of `tables` together have the same `key`."""
    columns = ", ".join(key)
    over = f"SELECT {columns}, count(*) AS copies FROM ({union(tables, columns)}) AS keys GROUP BY {columns}"
    scope: Scope = "namesrv" if "namesrv_id" in key else "table"
    return Rule(name, "copies = 1", says, kind="unique", over=over, scope=scope, key=tuple(key))


def is_hex(column: str, digits: int) -> str:
    """Return the SQL condition that `column` is so many lower-case hex digits."""
    return has_form(column, f"[0-9a-f]{{{digits}}}")


def has_form(column: str, pattern: str) -> str:
    """Return the SQL condition that all of `column` has the form of a regular expression, a line break at its end included."""
    return f"regexp_full_match({column}, '{pattern}')"


def is_one_of(column: str, values: Iterable[str | int]) -> str:
    """Return the SQL condition that `column` is one of `values`."""
    return f"{column} IN ({words(values)})"


def is_code(column: str, codes: Iterable[int]) -> str:
    """Return the SQL condition that `column` is one of `codes`."""
    # DuckDB's statistics prove ranges, and neither lists nor equations.
    return " OR ".join(f"{column} BETWEEN {code} AND {code}" for code in codes)


def is_day_of(column: str) -> str:
    """Return the SQL condition that `day` is the UTC date of the instant `column`."""
    # Of instants, a date is a matter of time zones, and takes ten times as long.
    return f"epoch_us({column}) - epoch_us(day) BETWEEN 0 AND 86399999999"


def each(array: str, condition: str) -> str:
    """Return the SQL condition that `condition` is true of every element `e` of `array`, which is not NULL."""
    return f"len(list_filter({array}, lambda e: NOT coalesce({condition}, FALSE))) = 0"


def queues(rows: str = "") -> tuple[Rule, ...]:
    """Return the rules of queue data: of the row's own columns, or of the structs in the array `rows`."""

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
    """Return the query of `columns` (SQL) of all `tables`."""
    return " UNION ALL ".join(f"SELECT {columns} FROM {name}" for name in tables)


DAY_OF_EFFECT = Rule("day_is_day_of_effect", is_day_of("effect_time"), "day is the UTC date of effect_time.")
LIVES_IN_ITS_SLICE, INTERVAL_DOES_NOT_RUN_BACK = rules("""
    lives_in_its_slice: A partition holds intervals that were alive during its day.
        CAST(valid_from AS DATE) <= day AND (valid_to IS NULL OR CAST(valid_to AS DATE) = day)
    time_does_not_run_back: valid_from is not after valid_to.
        valid_to IS NULL OR valid_from <= valid_to
""")
