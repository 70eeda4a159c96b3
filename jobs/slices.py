"""Slices of tables that a step reads again and again, held ready.

Opening a slice of a Delta table takes longer than reading one of a few thousand rows, and a slice without rows costs as much
as any other until Spark knows that it has none: then it leaves out all that depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from jobs.frames import Frames
from jobs.tables import empty, in_parallel, row_counts

_HELD_ROWS = 200_000
"""Larger slices are read anew each time: to keep them takes longer than that."""
_AT_A_TIME = 4


def held(spark: SparkSession, frames: Mapping[str, DataFrame]) -> tuple[Frames, dict[str, int]]:
    """Return the frames as they are best read several times, and how many rows each has.

    `spark.catalog.clearCache()` lets go of them.
    """
    # Files are looked for one table after the other, and meanwhile the cores wait.
    groups = [{name: frames[name] for name in sorted(frames)[start::_AT_A_TIME]} for start in range(_AT_A_TIME)]
    found = in_parallel({str(n): partial(row_counts, group) for n, group in enumerate(groups)})
    counts = {name: rows for group in found.values() for name, rows in group.items()}
    return {name: _held(spark, frame, counts[name]) for name, frame in frames.items()}, counts


def _held(spark: SparkSession, frame: DataFrame, rows: int) -> DataFrame:
    if not rows:
        return empty(spark, frame.schema)
    return frame.persist() if rows <= _HELD_ROWS else frame
