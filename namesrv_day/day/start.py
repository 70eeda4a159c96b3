"""The state in which a day begins, from the rows that were open at the end of the day before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from namesrv_core.history.intervals import Histories, Interval, MapCapacity, Position, restored
from namesrv_core.machine.past import Fact
from namesrv_core.machine.registry import Registry
from namesrv_day.arrow.rows import rows_of, with_microseconds
from namesrv_day.day.context import NamesrvDay
from namesrv_day.day.day_events import Frames
from schemas import gold
from schemas.codec import POSITIONS, intervals_of
from schemas.tables.state import fact_of


def started(
    context: NamesrvDay, carried: Iterable[Interval], facts: list[Fact], capacities: Iterable[MapCapacity]
) -> tuple[Registry, Histories]:
    """Return the registry and the open intervals with which a name server begins the day.

    `carried`: the open intervals; `facts`: the knowledge of the past; `capacities`: numbers of buckets of maps.
    """
    carried = list(carried)
    registry = Registry(context.namesrv.profile)
    registry.scan_halted = context.scan_halted
    registry.past = context.past_of(facts)
    restored(registry, carried, capacities)
    return registry, Histories(carried)


def intervals_in(rows: Frames) -> list[Interval]:
    """Return the intervals of the rows of history tables."""
    histories = [table.name for table in gold.HISTORY_TABLES if table.name in rows]
    return [interval for name in histories for interval in intervals_from(name, rows[name])]


def intervals_from(history: str, rows: pa.Table) -> list[Interval]:
    """Return the intervals of rows of one history table, in their order."""
    columns: dict[str, list[Any]] = {}
    for name, values in zip(rows.column_names, with_microseconds(rows).columns, strict=True):
        columns[name] = _positions_of(values) if name in POSITIONS else values.to_pylist()
    return intervals_of(history, columns)


def facts_in(rows: Frames) -> list[Fact]:
    """Return the knowledge of the past in the rows of past_knowledge."""
    name = gold.PAST_KNOWLEDGE.name
    return [fact_of(row) for row in rows_of(rows[name])] if name in rows else []


def capacities_in(rows: pa.Table) -> list[MapCapacity]:
    """Return the numbers of buckets in rows of map_capacities: of maps whose open rows do not tell it."""
    return [MapCapacity(**row) for row in rows_of(rows.select(MapCapacity._fields))]


def _positions_of(values: pa.ChunkedArray) -> list[Position | None]:
    seqs, numbers = (part.to_pylist() for part in values.combine_chunks().flatten())
    if not values.null_count:
        return list(map(Position, seqs, numbers))
    return [None if seq is None else Position(seq, no) for seq, no in zip(seqs, numbers, strict=True)]
