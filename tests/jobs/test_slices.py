"""Slices that are held ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs import slices
from jobs.slices import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_frames_without_rows_are_known_to_be_empty(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted; what has none drops out of plans, what is small is cached, what is large is left as it is."""
    monkeypatch.setattr(slices, "_HELD_ROWS", 10)
    frames = {"none": spark.range(5).where("id > 7"), "few": spark.range(10), "many": spark.range(11)}
    ready, rows = held(spark, frames)
    assert rows == {"none": 0, "few": 10, "many": 11}
    assert [ready[name].count() for name in frames] == [0, 10, 11]
    assert ready["none"].schema == frames["none"].schema
    joined = ready["many"].join(ready["none"], on="id")
    assert joined._jdf.queryExecution().optimizedPlan().maxRows().get() == 0
    assert (ready["few"].storageLevel.useMemory, ready["many"].storageLevel.useMemory) == (True, False)
    ready["few"].unpersist()
