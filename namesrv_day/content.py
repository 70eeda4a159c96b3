"""Comparison of tables by content: as multisets of rows, regardless of order, files and text types."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow import ask
from schemas import bronze, gold

Tables = Mapping[str, pa.Table]
SHOWN = 5
"""Number of differing rows that are shown for a table."""
_KEYS = {table.name: table.key for table in (*bronze.TABLES, *gold.TABLES)}


Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Difference of one table between two sides, as multisets of rows.

    `columns`: those that only one side has, with the name of the side. `rows`: the first few differing rows as (left,
    right), paired if both sides have the key.
    """

    table: str
    both: int
    only_left: int = 0
    only_right: int = 0
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[Row | None, Row | None]] = ()

    @property
    def is_equal(self) -> bool:
        """Return whether both sides are equal."""
        return not (self.only_left or self.only_right or self.columns)

    def key_of(self, row: Row) -> Row:
        """Return the day of a row and the columns of its table's key."""
        day = row.get("day") or (row.get("valid_from") or "")[:10]
        return {
            "day": str(day),
            **{name: row[name] for name in _KEYS.get(self.table, ()) if name in row and name != "day"},
        }


def compare_tables(
    name: str, left: pa.Table, right: pa.Table, ignore: Iterable[str] = (), shown: int = SHOWN
) -> Difference:
    """Return the difference of two tables, without the columns `ignore` (`column` or `table.column`)."""
    ignored = set(ignore)
    sides = [
        table.select([c for c in sorted(table.column_names) if not {c, f"{name}.{c}"} & ignored])
        for table in map(comparable, (left, right))
    ]
    common = [column for column in sides[0].column_names if column in sides[1].column_names]
    lonely = tuple(
        f"{column} only {which}"
        for table, which in zip(sides, ("left", "right"), strict=True)
        for column in table.column_names
        if column not in common
    )
    if not common:
        return Difference(name, 0, left.num_rows, right.num_rows, lonely)
    # Rows that one side has more often than the other, in the order of all columns.
    sql = "SELECT * FROM these EXCEPT ALL SELECT * FROM those ORDER BY ALL"
    left_rows, right_rows = (
        ask(sql, {"these": these.select(common), "those": those.select(common)})
        for these, those in (sides, sides[::-1])
    )
    both = left.num_rows - left_rows.num_rows
    key = [column for column in _KEYS.get(name, ()) if column in common]
    ones, others = (rows.slice(0, 100 * shown).to_pylist() for rows in (left_rows, right_rows))
    pairs = _paired(ones, others, key)[:shown]
    return Difference(name, both, left_rows.num_rows, right_rows.num_rows, lonely, pairs)


def comparable(table: pa.Table) -> pa.Table:
    """Return a table with one type for each kind of value: instants as text in UTC, bytes as hex digits, maps as JSON."""
    parts = []
    for column in table.schema:
        kind, name = column.type, f'"{column.name}"'
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_timestamp(kind):
            name = f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%f') AS {name}"
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            name = f"lower(hex({name})) AS {name}"
        elif pa.types.is_null(kind):
            name = f"CAST({name} AS VARCHAR) AS {name}"
        elif pa.types.is_integer(kind):
            name = f"CAST({name} AS BIGINT) AS {name}"
        elif pa.types.is_map(kind):
            pairs = f"list_sort(map_entries({name}))"
            name = f"CAST(to_json({pairs}) AS VARCHAR) AS {name}"
        elif pa.types.is_nested(kind):
            name = f"CAST(to_json({name}) AS VARCHAR) AS {name}"
        parts.append(name)
    return ask(f"SELECT {', '.join(parts)} FROM t", {"t": table}) if parts else table  # noqa: S608  columns of ours


def _paired(ones: Sequence[Row], others: Sequence[Row], key: Sequence[str]) -> list[tuple[Row | None, Row | None]]:
    """Return pairs of rows of both sides with the same key, then rows without a partner."""
    waiting: dict[str, list[Row]] = {}
    for row in others:
        waiting.setdefault(_json([row[name] for name in key] if key else row), []).append(row)
    found: list[tuple[Row | None, Row | None]] = []
    for row in ones:
        same = waiting.get(_json([row[name] for name in key] if key else row))
        found.append((row, same.pop(0) if same else None))
    found += [(None, row) for rows in waiting.values() for row in rows]
    return sorted(found, key=lambda pair: None in pair)


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


# -- rows of an attestation: in one canonical form, with a digest that any tool can reproduce --------------------------

SHOWN_DIFFERENCES = 20
"""Number of rows of only one side that are shown."""


class Rows(NamedTuple):
    """Rows of a table: column names, and each row's values; the rows are ordered by their JSON texts."""

    columns: list[str]
    rows: list[list[Any]]

    @property
    def sha256(self) -> str:
        """Return the SHA-256, in hex, of the rows' JSON texts, each with a line end."""
        return sha256_of(self.rows)


def rows_of_table(table: pa.Table) -> Rows:
    """Return the rows of a table; instants become ISO 8601 texts with six decimals, in UTC."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            texts = pc.strftime(table.column(number), format="%Y-%m-%dT%H:%M:%SZ")
            table = table.set_column(number, field.name, texts)
    rows = [list(row.values()) for row in table.to_pylist()]
    return Rows(table.column_names, sorted(rows, key=text_of))


def text_of(value: object) -> str:
    """Return the canonical JSON text of a value: no blanks, keys sorted, non-ASCII letters unescaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256_of(values: Iterable[object]) -> str:
    """Return the SHA-256, in hex, of the values' texts by `text_of`, each with a line end."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(text_of(value).encode("utf-8", errors="surrogatepass") + b"\n")
    return digest.hexdigest()


def only_in(one: Sequence[object], other: Sequence[object]) -> list[str]:
    """Return the sorted JSON texts of the values that `one` has more often than `other`."""
    return sorted((Counter(map(text_of, one)) - Counter(map(text_of, other))).elements())
