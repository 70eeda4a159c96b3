"""Rows as an attestation holds them: in one form whoever made them, with a digest that any tool can repeat."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

SHOWN_DIFFERENCES = 20
"""So many of the rows that only one side has are shown."""


class Rows(NamedTuple):
    """The rows of a table: names of columns, and for each row its values, ordered by their JSON texts."""

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
    """Return the one JSON text of a value: no blanks, keys sorted, letters as they are."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256_of(values: Iterable[object]) -> str:
    """Return the SHA-256, in hex, of values as `text_of` has them, each with a line end."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(text_of(value).encode("utf-8", errors="surrogatepass") + b"\n")
    return digest.hexdigest()


def only_in(one: Sequence[object], other: Sequence[object]) -> list[str]:
    """Return the JSON texts of what is in `one` more often than in `other`, in order."""
    return sorted((Counter(map(text_of, one)) - Counter(map(text_of, other))).elements())
