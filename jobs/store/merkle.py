"""Rows as canonical text, and Merkle trees over them: SHA-256 alone, so that anybody can do it again (docs/auditors.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

_AT_ONCE = 8192
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def texts_of(rows: pa.Table) -> Iterable[str]:
    """Yield each row as a JSON array of its values, in the order of the columns.

    Instants are microseconds since 1970, days days since then; a struct is an object, a map an array of pairs.
    """
    columns = (column.cast(_with_numbers(column.type)).to_pylist() for column in rows.columns)
    return map(text_of, zip(*columns, strict=True))


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    """Return a type with numbers for its instants and days."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _with_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_numbers(kind.value_type)))
    return pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind


def text_of(value: Any) -> str:
    """Return a value as compact JSON."""
    return _ENCODER.encode(value)


def leaf_of(text: str) -> bytes:
    """Return the leaf of a text."""
    return hashlib.sha256(b"\0" + text.encode()).digest()


def leaves_of(rows: pa.Table) -> list[bytes]:
    """Return the leaf of each row."""
    parts = (rows.slice(start, _AT_ONCE) for start in range(0, rows.num_rows, _AT_ONCE))
    return [leaf_of(text) for part in parts for text in texts_of(part)]


def root_of(leaves: Sequence[bytes]) -> str:
    """Return the root of a tree in hex: nodes are joined in pairs, one that is left over goes up as it is."""
    level = list(leaves) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:
        level = _above(level)
    return level[0].hex()


def nodes_beside(leaves: Sequence[bytes], index: int) -> bytes:
    """Return the nodes beside the way from one of the leaves up to the root, one after the other."""
    level, nodes = list(leaves), b""
    while len(level) > 1:
        nodes += b"".join(level[index ^ 1 : (index ^ 1) + 1])  # one that is left over has none
        level, index = _above(level), index // 2
    return nodes


def _above(level: Sequence[bytes]) -> list[bytes]:
    pairs = zip(level[::2], level[1::2], strict=False)
    joined = [hashlib.sha256(b"\1" + one + two).digest() for one, two in pairs]
    return joined + list(level[2 * len(joined) :])
