"""Crowded buckets of Java's hash maps: red-black trees whose keys are iterated in an order of their own.

A tree is searched by hash and key, but walked along a list beside it. Where in this list a key stands depends on the class and
on the tree's shape: a HashMap puts a new key behind its parent in the tree and brings the tree's root to the front, a
ConcurrentHashMap puts it at the front. A tree whose root has too few below it becomes a list again, in the list's order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar, cast

K = TypeVar("K", bound=Hashable)
Rank = tuple[object, ...]
"""By which keys are compared in a tree; no two keys of a map share one."""


class _Node:
    """A node: its key's rank, its colour, and its neighbours; children are those before (0) and behind (1) it."""

    __slots__ = ("children", "parent", "rank", "red")

    def __init__(self, rank: Rank) -> None:
        self.rank, self.red = rank, False
        self.parent: _Node | None = None
        self.children: list[_Node | None] = [None, None]

    @property
    def side(self) -> int:
        """Return which child of its parent the node is."""
        return int(self.parent is not None and self.parent.children[1] is self)


class Tree(Generic[K]):
    """The keys of one bucket. `order` is the list along which they are iterated: do not change it."""

    __slots__ = ("_is_concurrent", "_node_of", "_root", "order")

    def __init__(self, ranked: Iterable[tuple[K, Rank]], *, is_concurrent: bool) -> None:
        """Make a tree of a list of keys, at least one, with their ranks."""
        self._is_concurrent = is_concurrent
        self._node_of: dict[K, _Node] = {}
        self._root: _Node | None = None
        self.order: list[K] = []
        for key, rank in ranked:
            self._insert(key, rank)
            self.order.append(key)
        self._bring_root_to_front()

    def put(self, key: K, rank: Rank) -> None:
        """Put a key that is not in the tree."""
        parent = self._insert(key, rank)
        at = 0
        if parent is not None and not self._is_concurrent:
            at = 1 + next(place for place, other in enumerate(self.order) if self._node_of[other] is parent)
        self.order.insert(at, key)
        self._bring_root_to_front()

    def remove(self, key: K) -> bool:
        """Remove a key that is in the tree; return whether what is left becomes a list again."""
        self.order.remove(key)
        node = self._node_of.pop(key)
        root = self._root
        first = root and root.children[0]
        if root is None or root.children[1] is None or first is None or first.children[0] is None:
            return True
        self._delete(node)
        self._bring_root_to_front()
        return False

    def twin(self) -> Tree[K]:
        """Return a tree that holds the same and changes on its own."""
        return Tree.with_shape(
            list(self.order), self.shape(), [node.rank for node in self._ranked()], self._is_concurrent
        )

    def shape(self) -> list[int]:
        """Return of each key in `order` the place of its parent in it (-1: the root), times two, plus one if it is red."""
        place = {id(self._node_of[key]): at for at, key in enumerate(self.order)}
        nodes = self._ranked()
        return [2 * (-1 if node.parent is None else place[id(node.parent)]) + node.red for node in nodes]

    @staticmethod
    def with_shape(order: list[K], shape: list[int], ranks: list[Rank], is_concurrent: bool) -> Tree[K]:  # noqa: FBT001
        """Return the tree of which `order` and `shape` are these; `ranks` are those of its keys."""
        tree: Tree[K] = Tree((), is_concurrent=is_concurrent)
        tree.order = order
        nodes = [_Node(rank) for rank in ranks]
        tree._node_of = dict(zip(order, nodes, strict=True))
        for node, told in zip(nodes, shape, strict=True):
            parent, node.red = told >> 1, bool(told & 1)
            if parent < 0:
                tree._root = node
                continue
            node.parent = nodes[parent]
            node.parent.children[node.rank > node.parent.rank] = node
        return tree

    def _ranked(self) -> list[_Node]:
        return [self._node_of[key] for key in self.order]

    def _bring_root_to_front(self) -> None:
        """A HashMap finds its tree by the first of the list."""
        if self._is_concurrent or self._root is None:
            return
        at = next(place for place, key in enumerate(self.order) if self._node_of[key] is self._root)
        self.order.insert(0, self.order.pop(at))

    # -- the tree ----------------------------------------------------------------------------------------------------

    def _insert(self, key: K, rank: Rank) -> _Node | None:
        """Insert a node where it belongs; return its parent at that moment."""
        node = self._node_of[key] = _Node(rank)
        parent, below = None, self._root
        while below is not None:
            parent, below = below, below.children[rank > below.rank]
        if parent is None:
            self._root = node
            return None
        node.parent, node.red = parent, True
        parent.children[rank > parent.rank] = node
        self._mend_red(node)
        return parent

    def _mend_red(self, node: _Node) -> None:
        """Restore the rule that no red node has a red child, which `node` may break."""
        while (parent := node.parent) is not None and parent.red and (above := parent.parent) is not None:
            side = parent.side
            uncle = above.children[1 - side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                above.red = True
                node = above
                continue
            if node.side != side:
                self._rotate(parent, side)
                node, parent = parent, node
            parent.red, above.red = False, True
            self._rotate(above, 1 - side)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, node: _Node, side: int) -> None:
        """Let `node` sink to `side`; its other child takes its place."""
        riser = cast("_Node", node.children[1 - side])
        self._replace(node, riser)
        inner = node.children[1 - side] = riser.children[side]
        if inner is not None:
            inner.parent = node
        riser.children[side], node.parent = node, riser

    def _replace(self, node: _Node, other: _Node | None) -> None:
        """Put `other` where `node` is among its parent's children."""
        parent = node.parent
        if parent is None:
            self._root = other
        else:
            parent.children[node.side] = other
        if other is not None:
            other.parent = parent

    def _delete(self, node: _Node) -> None:
        """Take a node out; one with two children changes places with the next one behind it first."""
        if None not in node.children:
            follower = node.children[1]
            while follower is not None and follower.children[0] is not None:
                follower = follower.children[0]
            if follower is not None:
                self._swap(node, follower)
        child = node.children[0] or node.children[1]
        if child is not None:
            self._replace(node, child)
        if not node.red:
            self._mend_black(child or node)
        if child is None:
            self._replace(node, None)

    def _swap(self, node: _Node, follower: _Node) -> None:
        """Let two nodes change places and colours; `follower` stands below `node` and has no child before it."""
        node.red, follower.red = follower.red, node.red
        below, parent, side = follower.children[1], follower.parent, follower.side
        self._replace(node, follower)
        first, second = node.children
        follower.children = [first, node if parent is node else second]
        for child in follower.children:
            if child is not None:
                child.parent = follower
        if parent is not node and parent is not None:
            parent.children[side], node.parent = node, parent
        node.children = [None, below]
        if below is not None:
            below.parent = node

    def _mend_black(self, node: _Node) -> None:
        """Restore the rule that every way down has as many black nodes; those through `node` have one too few."""
        while not node.red and (parent := node.parent) is not None:
            side = node.side
            sibling = cast("_Node", parent.children[1 - side])  # the other ways have a black node more
            if sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, side)
                sibling = cast("_Node", parent.children[1 - side])
            near, far = sibling.children[side], sibling.children[1 - side]
            if not (near is not None and near.red) and not (far is not None and far.red):
                sibling.red = True
                node = parent
                continue
            if far is None or not far.red:
                sibling.red = True
                if near is not None:
                    near.red = False
                self._rotate(sibling, 1 - side)
                sibling, far = near or sibling, sibling
            sibling.red, parent.red = parent.red, False
            if far is not None:
                far.red = False
            self._rotate(parent, side)
            return
        node.red = False
