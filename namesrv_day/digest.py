"""Digests of rows that add up: of the slices of a table follows that of the table, without reading it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from namesrv_day.sql import ask

_MASK = (1 << 64) - 1


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


def digests_by(rows: pa.Table, *by: str, without: Iterable[str] = ()) -> dict[tuple[Any, ...], Digest]:
    """Return the digest of each group of rows that have the same values in the columns `by`; `without`: columns left out.

    A row's hash is DuckDB's over its values in the order of their columns; a test holds what it is for each type.
    """
    columns = ", ".join(f'"{name}"' for name in rows.column_names if name not in set(without))
    keys = "".join(f'"{name}", ' for name in by)
    found = ask(
        f"SELECT {keys}count(*) AS n, CAST(sum(h) % 18446744073709551616 AS UBIGINT) AS total, bit_xor(h) AS x "  # noqa: S608
        f"FROM (SELECT {keys}hash({columns}) AS h FROM rows) GROUP BY {keys.removesuffix(', ') or '()'}",
        {"rows": rows},
    )
    return {
        tuple(row[name] for name in by): Digest(row["n"], row["total"] or 0, row["x"] or 0)
        for row in found.to_pylist()
        if row["n"]
    }
