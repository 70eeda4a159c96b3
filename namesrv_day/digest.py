"""Digests of rows that add up: of the slices of a table follows that of the table, without reading it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from namesrv_day.sql import connection

Rows: TypeAlias = "pa.Table | duckdb.DuckDBPyRelation"
"""Rows at hand, or rows that DuckDB (this thread's) reads when it is asked."""
_MASK = (1 << 64) - 1
_ROWS_NAME = ("event_id", "nth", "stated_id", "source_file", "source_offset", "ingest_run")
# Names and sources are other ones in each of tens of millions of rows: to hash them takes as long as all the rest.
UNSAID: Final = {"heartbeats": _ROWS_NAME, "route_observations": (*_ROWS_NAME, "seq_rest", "request_rest")}
"""Columns, by table, of which the digests of its slices say nothing."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Rows, and the sum (mod 2^64) and exclusive-or of their 64-bit hashes: equal for equal rows in any order.

    Printed as `rows-sum-xor`, the last two as 16 hex digits.
    """

    rows: int = 0
    total: int = 0
    xor: int = 0

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Return the digest that `text` shows. Raises ValueError."""
        rows, total, xor = text.split("-")
        return cls(int(rows), int(total, 16), int(xor, 16))

    def __str__(self) -> str:
        return f"{self.rows}-{self.total:016x}-{self.xor:016x}"

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        return Digest(self.rows + other.rows, (self.total + other.total) & _MASK, self.xor ^ other.xor)

    def __sub__(self, other: Digest) -> Digest:
        """Return the digest of what is left when the rows of `other` are taken away."""
        return Digest(self.rows - other.rows, (self.total - other.total) & _MASK, self.xor ^ other.xor)


def sum_of(digests: Iterable[Digest]) -> Digest:
    """Return the digest of all rows together."""
    total = Digest()
    for digest in digests:
        total += digest
    return total


def digests_by(rows: Rows, *by: str, without: Iterable[str] = ()) -> dict[tuple[Any, ...], Digest]:
    """Return the digest of each group of rows that have the same values in the columns `by`; `without`: columns left out.

    A row's hash is DuckDB's over its values in the order of their columns; a test holds what it is for each type.
    """
    if isinstance(rows, pa.Table) and not rows.num_rows:
        return {}
    relation = connection().from_arrow(rows) if isinstance(rows, pa.Table) else rows
    columns = ", ".join(f'"{name}"' for name in relation.columns if name not in set(without))
    keys = ", ".join(f'"{name}"' for name in by)
    hashed = relation.project(f"{keys}{', ' if by else ''}hash({columns}) AS h")
    sums = "count(*) AS n, CAST(sum(h) % 18446744073709551616 AS UBIGINT) AS total, bit_xor(h) AS x"
    found = hashed.aggregate(f"{keys}{', ' if by else ''}{sums}", keys).to_arrow_table()
    return {
        tuple(row[name] for name in by): Digest(row["n"], row["total"] or 0, row["x"] or 0)
        for row in found.to_pylist()
        if row["n"]
    }


class Slice(NamedTuple):
    """What a table holds of one name server on one day; of a piece of quarantine the name server may be unknown."""

    table: str
    day: dt.date
    namesrv_id: str | None


def slices_of(table: str, rows: Rows) -> dict[Slice, Digest]:
    """Return the digest of each slice that rows of `table` make up, as the ledger has it; parts of a slice add up."""
    found = digests_by(rows, "day", "namesrv_id", without=UNSAID.get(table, ()))
    return {Slice(table, *key): digest for key, digest in found.items()}
