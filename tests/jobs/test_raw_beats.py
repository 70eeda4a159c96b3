"""Which beats are replayed one by one: those of eventful hours, looked for among all of a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs import day_plan

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

HOUR_US = 3_600_000_000
NS = "10.0.0.9:9876"
BEATS = "namesrv_id STRING, broker_name STRING, broker_addr STRING, effect_us BIGINT"
UNITS = "namesrv_id STRING, node STRING, unit STRING"
EVENTFUL = "namesrv_id STRING, unit STRING, period BIGINT"
# A unit has nodes of names and connections, too; beats without an address have a node of their own.
NODES = [
    (NS, "a:1:1", "u"),
    (NS, "a", "u"),
    (NS, "n:one", "u"),
    (NS, "c:1:4000#1", "u"),
    (NS, "a:2:1", "v"),
    (NS, "n:two", "v"),
]
OF_HOUR = [(NS, "one", "1:1", HOUR_US), (NS, "one", None, HOUR_US + 1), (NS, "one", "1:1", 2 * HOUR_US - 1)]
OTHERS = [(NS, "one", "1:1", HOUR_US - 1), (NS, "two", "2:1", HOUR_US), ("10.0.0.8:9876", "one", "1:1", HOUR_US)]


def test_beats_of_eventful_hours_are_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without an address, of few brokers and of more than can be named to a reader."""
    beats = spark.createDataFrame([*OF_HOUR, *OTHERS], BEATS)
    unit_of = spark.createDataFrame(NODES, UNITS)
    eventful = spark.createDataFrame([(NS, "u", 1)], EVENTFUL)
    for few in (1_000, 0):
        monkeypatch.setattr(day_plan, "_FEW_ADDRS", few)
        found = [tuple(row) for row in day_plan._raw_beats(beats, unit_of, eventful).collect()]
        assert sorted(found, key=str) == sorted(OF_HOUR, key=str)


def test_a_reader_is_told_the_addresses_of_eventful_hours(spark: SparkSession) -> None:
    """The beats of others, nearly all, need not be read; those without an address may be anybody's."""
    hours = spark.createDataFrame([(NS, "a:1:1", 1), (NS, "n:one", 1), (NS, "c:1:4000#1", 1)], day_plan._EVENTFUL)
    hours = hours.withColumnRenamed("unit", "node")
    beats = spark.createDataFrame([*OF_HOUR, *OTHERS], BEATS)
    assert {row["broker_addr"] for row in day_plan._within(beats, hours).collect()} == {"1:1", None}
