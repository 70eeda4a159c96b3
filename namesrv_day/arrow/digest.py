"""Digests of rows that can be added: the digest of a table is the sum of those of its slices, without reading it."""

# ruff: noqa: S608  the SQL is made of names of columns in this package

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.sql import ask
from schemas import gold

Rows: TypeAlias = "pa.Table | duckdb.DuckDBPyRelation"
"""Rows in memory, or rows that this thread's DuckDB reads on demand."""
_MASK = (1 << 64) - 1
_ROWS_NAME = ("event_id", "nth", "stated_id", "source_file", "source_offset", "ingest_run")
# Ids and sources differ in each of tens of millions of rows: hashing them takes as long as hashing all other columns.
UNSAID: Final = {"heartbeats": _ROWS_NAME, "route_observations": (*_ROWS_NAME, "seq_rest", "request_rest")}
"""Columns, by table, that the digests of its slices do not cover."""
_ENDS = {table.name: table.span[1] for table in gold.INTERVAL_TABLES}
_WHEN = ("seq", "event_time", "effect_time")
APART: Final = {"heartbeats": _WHEN, "registrations": (*_WHEN, *_ROWS_NAME[:1], *_ROWS_NAME[3:])}
"""Columns, by table, that differ in each row while thousands of rows are equal in the others; they are hashed separately."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Number of rows, and the sum (mod 2^64) and exclusive-or of their 64-bit hashes: equal for equal rows in any order.

    Printed as `rows-sum-xor`, the last two as 16 hex digits.
    """

    rows: int = 0
    total: int = 0
    xor: int = 0

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Return the digest printed as `text`. Raises ValueError for any other text."""
        rows, total, xor = text.split("-")
        return cls(int(rows), int(total, 16), int(xor, 16))

    def __str__(self) -> str:
        return f"{self.rows}-{self.total:016x}-{self.xor:016x}"

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        return Digest(self.rows + other.rows, (self.total + other.total) & _MASK, self.xor ^ other.xor)

    def __sub__(self, other: Digest) -> Digest:
        """Return the digest of the rows that remain without those of `other`."""
        return Digest(self.rows - other.rows, (self.total - other.total) & _MASK, self.xor ^ other.xor)


def sum_of(digests: Iterable[Digest]) -> Digest:
    """Return the digest of all rows together."""
    return sum(digests, Digest())


def digests_by(
    rows: Rows, *by: str, without: Iterable[str] = (), apart: Sequence[str] = ()
) -> dict[tuple[Any, ...], Digest]:
    """Return the digest of each group of rows with equal values in the columns `by`; `without`: columns left out.

    A row's hash is DuckDB's over its values in the order of the columns; a test pins it for each type. With `apart`, it
    combines two hashes (`joined`): one of these columns and one of the others.
    """
    if isinstance(rows, pa.Table) and not rows.num_rows:
        return {}
    columns = rows.column_names if isinstance(rows, pa.Table) else rows.columns
    said = [name for name in columns if name not in {*without, *apart}]
    of = {"h": hash_of(apart or said), **({"said": hash_of(said)} if apart else {})}
    keys = [f'"{name}"' for name in by] + [name for name in of if name != "h"]
    hashed = ", ".join([*(f'"{name}"' for name in by), *(f"{sql} AS {name}" for name, sql in of.items())])
    sums = ", ".join([*keys, "count(*) AS n", *(f"{sql} AS {name}" for name, sql in SUMS.items())])
    if isinstance(rows, pa.Table):
        grouped = f"GROUP BY {', '.join(keys)}" if keys else ""
        found = ask(f"SELECT {sums} FROM (SELECT {hashed} FROM rows) {grouped}", {"rows": rows})
    else:
        found = rows.project(hashed).aggregate(sums, ", ".join(keys)).to_arrow_table()
    return joined(found, *by) if apart else _digests(found, *by)


SUMS: Final = {"total": "CAST(sum(h) % 18446744073709551616 AS UBIGINT)", "x": "bit_xor(h)"}
"""Aggregates of hashes `h`: SQL by column."""


def joined(found: pa.Table, *by: str) -> dict[tuple[Any, ...], Digest]:
    """Return digests from the `SUMS` of groups of rows that are equal except for the columns `APART`.

    `found`: columns `by`; `said`, the hash of the columns that are equal in `n` rows; `total` and `x` of the hashes of the
    others. A row counts with the product of its two hashes (the first made odd) in the sum, else with their exclusive-or.
    """
    said, n, total, x = (found[name].to_numpy() for name in ("said", "n", "total", "x"))
    products = (said << np.uint64(1) | np.uint64(1)) * total
    hashes = {"n": n, "h": products, "x": x ^ np.where(n % 2, said, np.uint64(0))}
    keys = [f'"{name}"' for name in by]
    sums = [*keys, "CAST(sum(n) AS BIGINT) AS n", f"{SUMS['total']} AS total", "bit_xor(x) AS x"]
    rows = pa.table({**{name: found[name] for name in by}, **hashes})
    grouped = f"GROUP BY {', '.join(keys)}" if keys else ""
    return _digests(ask(f"SELECT {', '.join(sums)} FROM rows {grouped}", {"rows": rows}), *by)


def _digests(found: pa.Table, *by: str) -> dict[tuple[Any, ...], Digest]:
    return {
        tuple(row[name] for name in by): Digest(row["n"], row["total"] or 0, row["x"] or 0)
        for row in found.to_pylist()
        if row["n"]
    }


def hash_of(columns: Iterable[str]) -> str:
    """Return SQL for the hash of columns."""
    return "hash({})".format(", ".join(f'"{name}"' for name in columns))


class Slice(NamedTuple):
    """The rows of a table for one name server on one day; for quarantine the name server may be unknown.

    For intervals: those that closed on the day; `day` None: those that are open.
    """

    table: str
    day: dt.date | None
    namesrv_id: str | None


def slices_of(table: str, rows: Rows) -> dict[Slice, Digest]:
    """Return the digest of each slice in rows of `table`, as in the ledger; digests of parts of a slice can be added."""
    if table in _ENDS:
        with_day = _with_day(rows, _ENDS[table])
        return {
            Slice(table, *key): digest
            for key, digest in digests_by(with_day, "day", "namesrv_id", without=["day"]).items()
        }
    apart = APART.get(table, ())
    found = digests_by(rows, "day", "namesrv_id", without=UNSAID.get(table, ()), apart=apart)
    return {Slice(table, *key): digest for key, digest in found.items()}


def _with_day(rows: Rows, ends: str) -> Rows:
    """Return intervals with the day on which they closed."""
    if isinstance(rows, pa.Table):
        return rows.append_column("day", pc.cast(rows[ends], pa.date32()))
    return rows.project(f"*, CAST({ends} AS DATE) AS day")
