"""Dictionaries that iterate as Java's hash maps do.

Several answers of a name server depend on the iteration order of its maps: which of two broker names on one address is
taken down, which live entry a shared channel hits, the order of lists in a route. Keys stand in the order of their
buckets, inside a bucket in the order in which they were put; a key that is put again keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LOAD_NUMERATOR, _LOAD_DENOMINATOR = 3, 4
# A bucket of this many keys that gets another makes a table below the other bound grow; a larger table makes it a tree.
_CROWDED_BUCKET, _MIN_TREEIFY_CAPACITY = 8, 64
_INT_MASK = 0xFFFFFFFF


@lru_cache(maxsize=1 << 18)
def string_hash(text: str | None) -> int:
    """Return Java's `String.hashCode` as an unsigned 32-bit number; 0 for null, as hash maps take it."""
    if text is None:
        return 0
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & _INT_MASK
        return value
    units = text.encode("utf-16-be", errors="surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & _INT_MASK
    return value


def long_hash(number: int) -> int:
    """Return Java's `Long.hashCode` as an unsigned 32-bit number."""
    bits = number & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & _INT_MASK


def as_long(number: int) -> int:
    """Return what a sum is in Java's 64 bits: beyond the largest long it goes on at the smallest."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def table_size_for(capacity: int) -> int:
    """Return the smallest power of two that is not below `capacity`."""
    return 1 << max(0, capacity - 1).bit_length()


class JavaMap(dict[K, V], Generic[K, V]):
    """A dict that also knows the order in which the Java map of the same history would iterate.

    `put` and `remove` are the only ways to change it. `capacity` is the number of buckets; it grows as the Java class
    grows it and never shrinks. With `computes`, keys enter by HashMap.computeIfAbsent: at the head of their bucket, and
    the table grows when a key comes to one that is over its bound already. Buckets that Java turns into trees (nine
    keys in one bucket of a table of 64 or more) keep their list order here.
    """

    __slots__ = ("_hash_of", "_order", "capacity", "computes", "concurrent")

    def __init__(self, capacity: int, hash_of: Callable[[K], int], *, concurrent: bool, computes: bool = False) -> None:
        super().__init__()
        self.capacity = capacity
        self.concurrent = concurrent
        self.computes = computes
        self._hash_of = hash_of
        self._order: list[K] | None = None

    def put(self, key: K, value: V) -> None:
        """Set `key`; a new key may make the table grow."""
        if key in self:
            self[key] = value
            if self.concurrent and len(self) >= _CROWDED_BUCKET:
                self._relieve(key, crowded_at=_CROWDED_BUCKET)
            return
        full = self.capacity * _LOAD_NUMERATOR // _LOAD_DENOMINATOR
        if self.computes:
            if len(self) > full:
                self._grow()
            self._put_first(key, value)
        else:
            self[key] = value
        self._order = None
        if len(self) > _CROWDED_BUCKET:
            self._relieve(key, crowded_at=_CROWDED_BUCKET + 1)
        if not self.computes and (len(self) > full or (self.concurrent and len(self) == full)):
            self._grow()

    def remove(self, key: K) -> V | None:
        """Remove `key` if it is there and return its value."""
        if key not in self:
            return None
        self._order = None
        return self.pop(key)

    def twin(self) -> JavaMap[K, V]:
        """Return a map that holds the same and changes on its own; maps in it, and what a table notes beside, are copied too."""
        other = type(self).__new__(type(self))
        for name in JavaMap.__slots__:
            setattr(other, name, getattr(self, name))  # the order is a list that is replaced, never changed
        for kind in type(self).__mro__[: type(self).__mro__.index(JavaMap)]:
            for name in getattr(kind, "__slots__", ()):
                setattr(other, name, _twin_of(getattr(self, name)))
        other.update((key, value.twin() if isinstance(value, JavaMap) else value) for key, value in self.items())  # type: ignore[misc]
        return other

    def java_keys(self) -> list[K]:
        """Return the keys in Java's iteration order. The list is shared: do not change it."""
        if self._order is None:
            self._order = sorted(self, key=self.bucket_of)
        return self._order

    def java_items(self) -> Iterator[tuple[K, V]]:
        """Yield the entries in Java's iteration order."""
        return ((key, self[key]) for key in self.java_keys())

    def bucket_of(self, key: K) -> int:
        """Return the bucket of `key`: the hash with its upper half folded in, modulo the capacity."""
        value = self._hash_of(key)
        return (value ^ value >> 16) & (self.capacity - 1)

    def _put_first(self, key: K, value: V) -> None:
        older = dict(self)
        self.clear()
        self[key] = value
        self.update(older)

    def _relieve(self, key: K, *, crowded_at: int) -> None:
        """Grow a small table in which `key` is the `crowded_at`-th of its bucket, or a later one.

        A HashMap doubles, and looks only when it puts a ninth key; a ConcurrentHashMap goes on until its threshold is
        past thrice the old capacity, and looks also when it finds the eighth.
        """
        if self.capacity >= _MIN_TREEIFY_CAPACITY:
            return
        bucket = self.bucket_of(key)
        if [other for other in self if self.bucket_of(other) == bucket].index(key) + 1 < crowded_at:
            return
        if not self.concurrent:
            self._grow()
            return
        wanted = table_size_for(3 * self.capacity + 1)
        while self.capacity * _LOAD_NUMERATOR // _LOAD_DENOMINATOR < wanted:
            self._grow()

    def _grow(self) -> None:
        if self.concurrent:
            self._reorder_as_transfer()
        self.capacity *= 2

    def _reorder_as_transfer(self) -> None:
        """Put the keys into the order that `ConcurrentHashMap.transfer` leaves in the new buckets.

        Of each old bucket the last run of keys with one destination is taken over as it stands; the keys before it are
        pushed, one by one, to the front of their new bucket.
        """
        buckets: dict[int, list[K]] = {}
        for key in self:
            buckets.setdefault(self.bucket_of(key), []).append(key)
        order: list[K] = []
        for keys in buckets.values():
            highs = [bool((self._hash_of(key) ^ self._hash_of(key) >> 16) & self.capacity) for key in keys]
            run_start = len(keys) - 1
            while run_start > 0 and highs[run_start - 1] == highs[-1]:
                run_start -= 1
            order += [*reversed(keys[:run_start]), *keys[run_start:]]
        values = [self[key] for key in order]
        self.clear()
        self.update(zip(order, values, strict=True))


def _twin_of(value: object) -> object:
    """Return a copy of an index or a heap; members are shared, they never change."""
    if isinstance(value, dict):
        return {key: _twin_of(member) for key, member in value.items()}
    return list(value) if isinstance(value, list) else value


def nested_get(rows: JavaMap[str | None, JavaMap[str | None, V]], outer: str | None, inner: str | None) -> V | None:
    """Return the value under `inner` in the map under `outer`; None where one of them is missing."""
    values = rows.get(outer)
    return None if values is None else values.get(inner)


def string_map(capacity: int = 16, *, concurrent: bool = False, computes: bool = False) -> JavaMap[str | None, V]:
    """Return an empty map with string keys; `capacity` in buckets, already rounded to a power of two."""
    return JavaMap(capacity, string_hash, concurrent=concurrent, computes=computes)
