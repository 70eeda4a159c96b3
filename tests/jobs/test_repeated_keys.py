"""Keys that are there twice, found without grouping them."""

from __future__ import annotations

import pytest

from jobs.repeated_keys import repeated_hashes


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], (0, 0)),
        ([("a", 1), ("a", 2), ("b", 1)], (3, 0)),
        ([("a", 1), ("b", 1), ("a", 1), ("a", 1)], (4, 2)),
        ([("a", None), ("a", None), (None, 1)], (3, 1)),
    ],
    ids=["none", "all different", "three alike", "NULL is a key like any other"],
)
def test_copies_are_counted(spark, keys, expected):
    """Each row counts, and each row whose key another row has had; rows of equal keys need not be neighbours."""
    frame = spark.createDataFrame(keys, "namesrv_id STRING, seq BIGINT").repartition(3)

    assert repeated_hashes(frame) == expected


def test_of_many_keys_every_copy_is_found(spark):
    """Of 100,000 keys in many partitions, every thousandth of which is there twice, exactly the copies are counted."""
    keys = spark.range(100_000, numPartitions=7).selectExpr("concat('event-', id) AS event_id")
    copies = spark.range(0, 100_000, 1_000, 5).selectExpr("concat('event-', id) AS event_id")

    assert repeated_hashes(keys.unionAll(copies)) == (100_100, 100)
