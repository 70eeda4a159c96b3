"""Digests of rows that add up: of the slices of a table follows that of the table, without reading it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
