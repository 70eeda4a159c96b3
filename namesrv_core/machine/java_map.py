"""Dictionaries that iterate as Java's hash maps do.

Several answers of a name server depend on the iteration order of its maps: which of two broker names on one address is
taken down, which live entry a shared channel hits, the order of lists in a route. Keys stand in the order of their
buckets, inside a bucket in the order in which they were put; a key that is put again keeps its place.

Source: JDK 8 and 17, HashMap and ConcurrentHashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from namesrv_core.machine.java_tree import Rank, Tree

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LOAD_NUMERATOR, _LOAD_DENOMINATOR = 3, 4
# A bucket of this many keys that gets another makes a table below the other bound grow; a larger table makes it a tree.
CROWDED_BUCKET, MIN_TREEIFY_CAPACITY = 8, 64
_SMALL_CAPACITY = 16  # of a map that never grew: its buckets were never parted, and none is a tree
_UNTREEIFY = 6  # a tree that is parted when the table grows leaves a list of so many keys, or fewer
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


def room_of(capacity: int, *, concurrent: bool) -> int:
    """Return how many keys make a table grow that has `capacity` buckets."""
    full = capacity * _LOAD_NUMERATOR // _LOAD_DENOMINATOR
    return full if concurrent else full + 1


class Shape(NamedTuple):
    """What a map's content does not tell of its order: the number of buckets, and the order within some of them.

    `placed`: the keys of those buckets in the order of iteration, each with its node: what `Tree.shape` says of it where the
    bucket is a tree, None where it is a list.
    """

    capacity: int
    placed: tuple[tuple[Any, int | None], ...] = ()


class JavaMap(dict[K, V], Generic[K, V]):
    """A dict that also knows the order in which the Java map of the same history would iterate.

    `put` and `remove` are the only ways to change it. `capacity` is the number of buckets; it grows as the Java class
    grows it and never shrinks. With `computes`, keys enter by HashMap.computeIfAbsent: at the head of their bucket, and
    the table grows when a key comes to one that is over its bound already. A crowded bucket of a table of 64 or more
    becomes a tree (`java_tree`). Keys are removed as by Map.remove: an iterator, too, leaves a tree that has become
    small a tree. Keys of (cluster, address) with one hash have no order in Java; here it is that of their text.
    """

    __slots__ = ("_filled", "_order", "_trees", "capacity", "computes", "concurrent", "hash_of")
    grows = True  # by the number of its keys

    def __init__(self, capacity: int, hash_of: Callable[[K], int], *, concurrent: bool, computes: bool = False) -> None:
        super().__init__()
        self.capacity = capacity
        self.concurrent = concurrent
        self.computes = computes
        self.hash_of = hash_of
        self._order: list[K] | None = None
        self._filled: dict[int, int] | None = None  # keys by bucket, while there are enough to crowd one
        self._trees: dict[int, Tree[K]] = {}

    def put(self, key: K, value: V) -> None:
        """Set `key`; a new key may make the table grow."""
        if self.computes and len(self) > self._full:
            self.grow()
        if key in self:
            self[key] = value
            if self.concurrent and len(self) >= CROWDED_BUCKET:
                self._crowd(self.bucket_of(key), key)
            return
        self._order = None
        if len(self) < CROWDED_BUCKET - 1 and not self._trees:
            self._filled = None
            self._enter(key, value)
            return
        bucket = self.bucket_of(key)
        others = self._count(bucket)
        self._enter(key, value)
        self._note_count(bucket, others + 1)
        if bucket in self._trees:
            self._trees[bucket].put(key, self._rank(key))
        elif others >= CROWDED_BUCKET - self.computes:
            self._crowd(bucket, key)
        if self.grows and not self.computes and len(self) >= room_of(self.capacity, concurrent=self.concurrent):
            self.grow()

    def mutate(self, key: K, value: V) -> None:
        """Set a key that is there, as where Java changes an object that a map holds: the map sees nothing of it."""
        self[key] = value

    def remove(self, key: K) -> V | None:
        """Remove `key` if it is there and return its value."""
        if key not in self:
            return None
        self._order = None
        if self._filled is not None or self._trees:
            bucket = self.bucket_of(key)
            self._note_count(bucket, self._count(bucket) - 1)
            if bucket in self._trees and self._trees[bucket].remove(key):
                self._stand(self._trees.pop(bucket).order)
        return self.pop(key)

    def twin(self) -> JavaMap[K, V]:
        """Return a map that holds the same and changes on its own; maps in it, and what a table notes beside, are copied too."""
        other = type(self).__new__(type(self))
        own = {"_filled": None, "_trees": {bucket: tree.twin() for bucket, tree in self._trees.items()}}
        for name in JavaMap.__slots__:  # the order is a list that is replaced, never changed
            setattr(other, name, own[name] if name in own else getattr(self, name))
        for kind in type(self).__mro__[: type(self).__mro__.index(JavaMap)]:
            for name in getattr(kind, "__slots__", ()):
                setattr(other, name, _twin_of(getattr(self, name)))
        other.update((key, value.twin() if isinstance(value, JavaMap) else value) for key, value in self.items())  # type: ignore[misc]
        return other

    def java_keys(self) -> list[K]:
        """Return the keys in Java's iteration order. The list is shared: do not change it."""
        if self._order is None:
            place = {key: at for tree in self._trees.values() for at, key in enumerate(tree.order)}
            by_age = sorted(self, key=lambda key: place.get(key, 0)) if place else self
            self._order = sorted(by_age, key=self.bucket_of)
        return self._order

    def keys_by_age(self) -> Sequence[K]:
        """Return the keys in the order in which they came, as long as the map is small; one that grew knows only Java's order."""
        return list(self) if self.capacity <= _SMALL_CAPACITY else self.java_keys()

    def java_items(self) -> Iterator[tuple[K, V]]:
        """Yield the entries in Java's iteration order."""
        return ((key, self[key]) for key in self.java_keys())

    def shape_unlike(self, fresh: JavaMap[K, V]) -> Shape | None:
        """Return the shape if it is not that of `fresh`, a map into which the same keys were put; None if it is."""
        if (
            self.capacity == fresh.capacity
            and not (self._trees or fresh._trees)
            and self.java_keys() == fresh.java_keys()
        ):
            return None
        own, other = self._shape(fresh), fresh._shape(fresh)
        return None if own == other else own

    def reshape(self, shape: Shape) -> None:
        """Give a map into which keys were put the shape that `shape_unlike` told of one of the same keys.

        Of other keys the shape says nothing, and a tree of which some are missing is a list.
        """
        self._order, self._filled, self._trees = None, None, {}
        self.capacity = shape.capacity
        for bucket, of_bucket in groupby(shape.placed, lambda placed: self.bucket_of(placed[0])):
            placed = list(of_bucket)
            keys, nodes = [key for key, _ in placed], [node for _, node in placed if node is not None]
            if len(nodes) == len(keys) and all(key in self for key in keys):
                self._trees[bucket] = Tree.with_shape(keys, nodes, list(map(self._rank, keys)), self.concurrent)
            else:
                self._stand(keys)

    def spread_of(self, key: K) -> int:
        """Return the hash of `key` with its upper half folded in."""
        value = self.hash_of(key)
        return value ^ value >> 16

    def bucket_of(self, key: K) -> int:
        """Return the bucket of `key`: its spread hash, modulo the capacity."""
        value = self.hash_of(key)
        return (value ^ value >> 16) & (self.capacity - 1)

    def is_tree(self, bucket: int) -> bool:
        """Return whether a bucket is a tree now."""
        return bucket in self._trees

    @property
    def _full(self) -> int:
        return self.capacity * _LOAD_NUMERATOR // _LOAD_DENOMINATOR

    def _shape(self, fresh: JavaMap[K, V]) -> Shape:
        """Return the shape, with those buckets that are trees, or in which keys stand otherwise than in the dict `fresh`."""
        plain: dict[int, list[K]] = {}
        for key in fresh:
            plain.setdefault(self.bucket_of(key), []).append(key)
        placed: list[tuple[K, int | None]] = []
        for bucket, of_bucket in groupby(self.java_keys(), self.bucket_of):
            keys, tree = list(of_bucket), self._trees.get(bucket)
            if tree is not None:
                placed += zip(keys, tree.shape(), strict=True)
            elif keys != plain.get(bucket):
                placed += ((key, None) for key in keys)
        return Shape(self.capacity, tuple(placed))

    def _enter(self, key: K, value: V) -> None:
        if not self.computes:
            self[key] = value
            return
        older = dict(self)
        self.clear()
        self[key] = value
        self.update(older)

    def _stand(self, keys: Iterable[K]) -> None:
        """Let keys that are there stand behind all others, in this order."""
        for key in keys:
            if key in self:
                self[key] = self.pop(key)

    def _count(self, bucket: int) -> int:
        """Return how many keys are in a bucket."""
        if self._filled is None:
            self._filled = {}
            for key in self:
                at = self.bucket_of(key)
                self._filled[at] = self._filled.get(at, 0) + 1
        return self._filled.get(bucket, 0)

    def _note_count(self, bucket: int, count: int) -> None:
        if self._filled is not None:
            self._filled[bucket] = count

    def _rank(self, key: K) -> Rank:
        """Return by what a key is compared in a tree: its hash, signed in a HashMap, then as Comparable."""
        spread = self.spread_of(key)
        signed = spread & _INT_MASK >> 1 if self.concurrent else (spread ^ 1 << 31) - (1 << 31)
        return (signed, *_comparable(key))

    def _crowd(self, bucket: int, key: K) -> None:
        """Make room in a bucket into which `key` was put, or in which it was found: a small table grows, or it becomes a tree.

        A HashMap doubles; a ConcurrentHashMap goes on until its threshold is past thrice the old capacity. That one
        does so also when it finds the eighth key, or a later one.
        """
        if bucket in self._trees or self._count(bucket) < CROWDED_BUCKET:
            return
        keys = [other for other in self if self.bucket_of(other) == bucket]
        if self.concurrent and keys.index(key) + 1 < CROWDED_BUCKET:
            return
        if self.capacity >= MIN_TREEIFY_CAPACITY:
            self._order = None
            self._trees[bucket] = self._tree(keys)
        elif not self.concurrent:
            self.grow()
        else:
            wanted = table_size_for(3 * self.capacity + 1)
            while self._full < wanted:
                self.grow()

    def _tree(self, keys: Iterable[K]) -> Tree[K]:
        return Tree(((key, self._rank(key)) for key in keys), is_concurrent=self.concurrent)

    def grow(self) -> None:
        """Double the table, as the map does by itself."""
        trees, self._trees, self._order, self._filled = self._trees, {}, None, None
        if self.concurrent:
            self._reorder_as_transfer(trees)
        self.capacity *= 2
        for tree in trees.values():
            self._split(tree)

    def _split(self, tree: Tree[K]) -> None:
        """Part the keys of a tree between two buckets; a tree that goes to one of them whole stays as it is."""
        parts: dict[int, list[K]] = {}
        for key in tree.order:
            parts.setdefault(self.bucket_of(key), []).append(key)
        for bucket, keys in parts.items():
            if len(keys) <= _UNTREEIFY:
                self._stand(keys)
            else:
                self._trees[bucket] = tree if len(parts) == 1 else self._tree(keys)

    def _reorder_as_transfer(self, trees: Mapping[int, object]) -> None:
        """Put the keys of lists into the order that `ConcurrentHashMap.transfer` leaves in the new buckets.

        Of each old bucket the last run of keys with one destination is taken over as it stands; the keys before it are
        pushed, one by one, to the front of their new bucket.
        """
        buckets: dict[int, list[K]] = {}
        for key in self:
            buckets.setdefault(self.bucket_of(key), []).append(key)
        for bucket, keys in buckets.items():
            if bucket in trees:
                continue
            highs = [bool(self.spread_of(key) & self.capacity) for key in keys]
            run_start = len(keys) - 1
            while run_start > 0 and highs[run_start - 1] == highs[-1]:
                run_start -= 1
            self._stand([*reversed(keys[:run_start]), *keys[run_start:]])


def _comparable(key: object) -> Rank:
    """Return what orders keys of one hash as Java's compareTo does: texts by their UTF-16 units, null before all."""
    if isinstance(key, tuple):
        return tuple(order for part in key for order in _comparable(part))
    if isinstance(key, str):
        return (1, key.encode("utf-16-be", "surrogatepass"))
    return (0, b"") if key is None else (1, key)


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
