"""Rows as canonical text, and Merkle trees over them: SHA-256 alone, so that anybody can do it again (docs/auditors.md)."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_US: Final = dt.timedelta(microseconds=1)
Proof = list[tuple[str, str]]
"""The nodes beside the way from a leaf up to the root: `left` or `right`, and the hash in hex."""


def texts_of(rows: pa.Table) -> Iterable[str]:
    """Yield each row as a JSON array of its values, in the order of the columns.

    Instants are microseconds since 1970, days days since then; a struct is an object, a map an array of pairs.
    """
    columns = []
    for column in rows.columns:
        kind = column.type
        whole = pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind
        columns.append(column.cast(whole).to_pylist())
    return map(text_of, zip(*columns, strict=True))


def text_of(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_number)


def leaf_of(text: str) -> bytes:
    """Return the leaf of a text."""
    return hashlib.sha256(b"\0" + text.encode()).digest()


def leaves_of(rows: pa.Table) -> list[bytes]:
    """Return the leaf of each row."""
    return [leaf_of(text) for text in texts_of(rows)]


def root_of(leaves: Sequence[bytes]) -> str:
    """Return the root of a tree in hex: nodes are joined in pairs, one that is left over goes up as it is."""
    level = list(leaves) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:
        level = _above(level)
    return level[0].hex()


def proof_of(leaves: Sequence[bytes], index: int) -> Proof:
    """Return what is needed to come from one of the leaves to the root."""
    level, proof = list(leaves), Proof()
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            proof.append(("left" if beside < index else "right", level[beside].hex()))
        level, index = _above(level), index // 2
    return proof


def root_from(leaf: bytes, proof: Proof) -> str:
    """Return the root to which a proof leads from a leaf."""
    for side, other in proof:
        pair = (bytes.fromhex(other), leaf) if side == "left" else (leaf, bytes.fromhex(other))
        leaf = _joined(*pair)
    return leaf.hex()


def _above(level: Sequence[bytes]) -> list[bytes]:
    joined = [_joined(one, two) for one, two in zip(level[::2], level[1::2], strict=False)]
    return joined + list(level[2 * len(joined) :])


def _joined(one: bytes, two: bytes) -> bytes:
    return hashlib.sha256(b"\1" + one + two).digest()


def _number(value: Any) -> int:
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _US
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    raise TypeError(type(value).__name__)
