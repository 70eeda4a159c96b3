"""Dictionaries that iterate as Java's hash maps do.

Several results depend on the iteration order of the name server's maps: which of two broker names on one address is
taken down, which live entry a shared channel hits, the order of lists in a route. Keys iterate in the order of their
buckets, and within a bucket in the order in which they were put. A key that is put again keeps its place.

Source: JDK 8 and 17, HashMap and ConcurrentHashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LOAD_NUMERATOR, _LOAD_DENOMINATOR = 3, 4
_INT_MASK = 0xFFFFFFFF


@lru_cache(maxsize=1 << 18)
def string_hash(text: str | None) -> int:
    """Return Java's `String.hashCode` as an unsigned 32-bit number; 0 for null, as in Java's hash maps."""
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
    """Return `number` as a Java long: a sum beyond the largest long wraps around to the smallest."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def table_size_for(capacity: int) -> int:
    """Return the smallest power of two that is not below `capacity`."""
    return 1 << max(0, capacity - 1).bit_length()


def _room_of(capacity: int, concurrent: bool) -> int:  # noqa: FBT001
    return capacity * _LOAD_NUMERATOR // _LOAD_DENOMINATOR + (not concurrent)


class JavaMap(dict[K, V], Generic[K, V]):
    """A dict that also knows the iteration order of the Java map with the same history.

    Change it by `put`, `remove` and `resize` only. `capacity` is the number of buckets; it grows with the number of
    keys as in the Java class, and never shrinks. With `computes`, keys enter by HashMap.computeIfAbsent: at the head of
    their bucket, and the table grows when a key comes while it is over its bound already. Not reproduced: for a bucket
    of nine keys Java makes a tree, or lets a small table grow.
    """

    __slots__ = ("_order", "capacity", "computes", "concurrent", "hash_of")

    def __init__(self, capacity: int, hash_of: Callable[[K], int], *, concurrent: bool, computes: bool = False) -> None:
        super().__init__()
        self.capacity = capacity
        self.concurrent = concurrent
        self.computes = computes
        self.hash_of = hash_of
        self._order: list[K] | None = None

    def put(self, key: K, value: V) -> None:
        """Set `key`; a new key may make the table grow."""
        if self.computes and len(self) >= self.room:
            self._grow()
        if key in self:
            self[key] = value
            return
        self._order = None
        if self.computes:
            older = dict(self)
            self.clear()
            self[key] = value
            self.update(older)
            return
        self[key] = value
        if len(self) >= self.room:
            self._grow()

    def remove(self, key: K) -> V | None:
        """Remove `key` if it is there and return its value."""
        if key not in self:
            return None
        self._order = None
        return self.pop(key)

    def resize(self, capacity: int) -> None:
        """Grow to `capacity` buckets: the size of a map that once held more keys."""
        while self.capacity < capacity:
            self._grow()

    def twin(self) -> JavaMap[K, V]:
        """Return an independent copy; nested maps and the indexes of a table are copied, too."""
        other = type(self).__new__(type(self))
        for name in JavaMap.__slots__:  # the order is a list that is replaced, never changed
            setattr(other, name, getattr(self, name))
        for kind in type(self).__mro__[: type(self).__mro__.index(JavaMap)]:
            for name in getattr(kind, "__slots__", ()):
                setattr(other, name, _twin_of(getattr(self, name)))
        other.update((key, value.twin() if isinstance(value, JavaMap) else value) for key, value in self.items())  # type: ignore[misc]
        return other

    @property
    def room(self) -> int:
        """Return the number of keys at which the table grows."""
        return _room_of(self.capacity, self.concurrent)

    def capacity_of(self, keys: int) -> int:
        """Return the number of buckets after the map, starting from its present size, has held `keys` keys."""
        capacity = self.capacity
        while keys >= _room_of(capacity, self.concurrent):
            capacity *= 2
        return capacity

    def java_keys(self) -> list[K]:
        """Return the keys in Java's iteration order. The list is shared: do not change it."""
        if self._order is None:
            self._order = sorted(self, key=self.bucket_of)
        return self._order

    def in_order(self, keys: Collection[K]) -> list[K]:
        """Return `keys`, which are in the map, in Java's iteration order."""
        wanted = set(keys) if len(keys) > 1 else ()  # a single key needs no sorting
        return [key for key in self.java_keys() if key in wanted] if wanted else list(keys)

    def java_items(self) -> Iterator[tuple[K, V]]:
        """Yield the entries in Java's iteration order."""
        return ((key, self[key]) for key in self.java_keys())

    def bucket_of(self, key: K) -> int:
        """Return the bucket of `key`: its hash with the upper half folded in, modulo the capacity."""
        value = self.hash_of(key)
        return (value ^ value >> 16) & (self.capacity - 1)

    def _grow(self) -> None:
        """Double the table."""
        self._order = None
        if self.concurrent:
            # As ConcurrentHashMap.transfer orders the new buckets: the last keys of an old bucket that share a
            # destination keep their order; each key before them is pushed to the front of its new bucket.
            buckets: dict[int, list[K]] = {}
            for key in self:
                buckets.setdefault(self.bucket_of(key), []).append(key)
            for keys in buckets.values():
                hashes = [self.hash_of(key) for key in keys]
                highs = [bool((value ^ value >> 16) & self.capacity) for value in hashes]
                run_start = len(keys) - 1
                while run_start > 0 and highs[run_start - 1] == highs[-1]:
                    run_start -= 1
                for key in [*reversed(keys[:run_start]), *keys[run_start:]]:
                    self[key] = self.pop(key)
        self.capacity *= 2


def _twin_of(value: object) -> object:
    """Return a copy of an index or a heap; members never change and are shared."""
    if isinstance(value, dict):
        return {key: _twin_of(member) for key, member in value.items()}
    return list(value) if isinstance(value, list) else value


def string_map(
    capacity: int = 16, entries: Iterable[tuple[str | None, V]] = (), *, concurrent: bool = False
) -> JavaMap[str | None, V]:
    """Return a map with string keys after `entries` were put; `capacity`: number of buckets, a power of two."""
    made: JavaMap[str | None, V] = JavaMap(capacity, string_hash, concurrent=concurrent)
    for key, value in entries:
        made.put(key, value)
    return made
