"""The order of a registry's maps where its rows do not tell it: tables that grew, crowded buckets, keys older than their rows.

A map never shrinks, so that what it holds says less than what it held. Told is where a map is unlike one into which its
content was put afresh (`intervals.restored`), and that one can be given the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, get_args

from namesrv_core.machine.java_map import JavaMap, Shape
from namesrv_core.machine.registry import TABLES, Registry, TableName
from namesrv_core.machine.tables import NestedTable

_TABLES: tuple[TableName, ...] = tuple(name for name in get_args(TableName) if name in TABLES)


class MapOrder(NamedTuple):
    """One map of a registry: a table's own, or, `is_inner`, the one under `outer` in it; and its shape."""

    table: TableName
    is_inner: bool
    outer: str | None
    shape: Shape


def orders_unlike(registry: Registry, fresh: Registry) -> Iterator[MapOrder]:
    """Yield the maps of `registry` that are unlike those of `fresh`, which holds the same."""
    for table in _TABLES:
        own, other = getattr(registry, table), getattr(fresh, table)
        if (shape := own.shape_unlike(other)) is not None:
            yield MapOrder(table, False, None, shape)
        for outer, inner in own.items() if isinstance(own, NestedTable) else ():
            if outer in other and (shape := inner.shape_unlike(other[outer])) is not None:
                yield MapOrder(table, True, outer, shape)


def reorder(registry: Registry, orders: Iterable[MapOrder]) -> None:
    """Give the maps of a registry that was made of its content the order that `orders_unlike` told."""
    for order in orders:
        table: JavaMap[Any, Any] = getattr(registry, order.table)
        found = table.get(order.outer) if order.is_inner else table
        if found is not None:
            found.reshape(order.shape)
