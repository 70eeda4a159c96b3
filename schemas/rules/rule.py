"""What a rule is, and the pieces that rules of several tables are made of."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from schemas.table import Severity, Table

Kind = Literal["row", "unique", "reference", "query"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a table.

    `holds` is a Spark SQL boolean over one row of the table, or of `over`: a query that names tables as
    `{table_name}` and whose rows are judged instead. A row for which it is not TRUE breaks the rule. Only
    rules of kind `row` have no `over`. `keys`, of kind `unique`: the query of the keys that `over` counts.
    """

    name: str
    holds: str
    says: str
    severity: Severity = "critical"
    kind: Kind = "row"
    over: str | None = None
    keys: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the names of the tables that `over` reads, in alphabetical order."""
        fields = (field for _, field, _, _ in string.Formatter().parse(self.over or ""))
        return tuple(sorted({field for field in fields if field}))


def warn(name: str, holds: str, says: str, over: str | None = None) -> Rule:
    """Return a rule that real input may break."""
    return Rule(name, holds, says, "warning", "row" if over is None else "query", over)


def words(values: Iterable[str | int]) -> str:
    """Return SQL literals, separated by commas."""
    return ", ".join(repr(value) for value in values)


def present(table: Table) -> Rule:
    """Return the rule that the required columns of `table` are never NULL."""
    required = [column.name for column in table.columns if column.required]
    return Rule(
        "required_columns_present",
        " AND ".join(f"{name} IS NOT NULL" for name in required),
        f"None of these is NULL: {', '.join(required)}.",
    )


def unique(table: str, key: Iterable[str], name: str = "key_is_unique") -> Rule:
    """Return the rule that no two rows of `table` have the same `key`."""
    columns = ", ".join(key)
    return told_apart(name, columns, f"SELECT {columns} FROM {{{table}}}", f"No two rows have the same {columns}.")


def told_apart(name: str, columns: str, keys: str, says: str) -> Rule:
    """Return the rule that no two rows of the query `keys` are the same; `columns` are all of its columns."""
    over = f"SELECT {columns}, count(*) AS copies FROM ({keys}) GROUP BY {columns}"
    return Rule(name, "copies = 1", says, kind="unique", over=over, keys=keys)


def is_hex(column: str, digits: int) -> str:
    """Return the SQL condition that `column` is so many lower-case hex digits."""
    # No regular expression: its `$` lets a line break follow, and over tens of millions of rows it takes twice as long. Digits
    # are a byte each, and bytes need not be counted.
    return f"octet_length({column}) = {digits} AND unhex({column}) IS NOT NULL AND lower({column}) = {column}"


def has_form(column: str, pattern: str) -> str:
    """Return the SQL condition that all of `column` has the form of a regular expression; `$` would let a line break follow."""
    return f"{column} RLIKE r'^(?:{pattern})\\z'"


def is_one_of(column: str, values: Iterable[str | int]) -> str:
    """Return the SQL condition that `column` is one of `values`."""
    return f"{column} IN ({words(values)})"


def queues(rows: str = "") -> tuple[Rule, ...]:
    """Return the rules of queue data: of the row's own columns, or of the structs in the array `rows`."""

    def each(condition: str) -> str:
        return f"{rows} IS NULL OR forall({rows}, q -> {condition})" if rows else condition

    q = "q." if rows else ""
    return (
        warn("perm_is_three_bits", each(f"{q}perm BETWEEN 0 AND 7"), "A permission is 0 to 7."),
        warn(
            "queue_numbers_are_plausible",
            each(f"{q}read_queue_nums BETWEEN 0 AND 65536 AND {q}write_queue_nums BETWEEN 0 AND 65536"),
            "Queue numbers are 0 to 65,536.",
        ),
        warn(
            "sys_flag_is_two_bits",
            each(f"{q}topic_sys_flag BETWEEN 0 AND 3"),
            "A topic's system flag is 0 to 3.",
        ),
    )


def union(tables: Iterable[str], columns: str) -> str:
    """Return the query of `columns` (SQL) of all `tables`."""
    return " UNION ALL ".join(f"SELECT {columns} FROM {{{name}}}" for name in tables)


DAY_OF_EFFECT = Rule("day_is_day_of_effect", "day = CAST(effect_time AS DATE)", "day is the UTC date of effect_time.")
LIVES_IN_ITS_SLICE = Rule(
    "lives_in_its_slice",
    "CAST(valid_from AS DATE) <= day AND (valid_to IS NULL OR CAST(valid_to AS DATE) = day)",
    "A slice holds intervals that were alive during its day.",
)
INTERVAL_DOES_NOT_RUN_BACK = Rule(
    "time_does_not_run_back", "valid_to IS NULL OR valid_from <= valid_to", "valid_from is not after valid_to."
)
