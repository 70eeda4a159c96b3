"""Other ways to the expiries of a day, to be timed beside the night: each returns (name server, broker, last beat in ms).

All of them say that a broker was removed where two neighbouring beats lie further apart than the lease and one period of
the scan; the fleets of the benchmarks have no gap between the lease and that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    import pandas as pd

Expiries = frozenset[tuple[str, str, int]]
SCANNED = (
    "namesrv_id", "cluster_name", "broker_name", "broker_addr", "code", "data_version", "channel_id", "effect_time", "seq",
)  # fmt: skip
"""The columns of a heartbeat on which its effect depends."""

_NEIGHBOURS = """
    SELECT namesrv_id, broker_addr, ms AS last_ms FROM (
      SELECT namesrv_id, broker_addr, ms, lead(ms) OVER (PARTITION BY namesrv_id, broker_addr ORDER BY ms) AS next_ms
      FROM {events})
    WHERE next_ms - ms > {silence_ms}"""


def expiries_of(rows: Iterable[Sequence[Any]]) -> Expiries:
    """Return rows (name server, broker, last beat in ms) as an answer."""
    return frozenset((str(row[0]), str(row[1]), int(row[2])) for row in rows)


def scan(heartbeats: DataFrame) -> None:
    """Read the columns and throw them away: the yardstick."""
    heartbeats.select(*SCANNED).write.format("noop").mode("overwrite").save()


def beats_in_ms(events: DataFrame) -> DataFrame:
    """Return (namesrv_id, broker_addr, ms) of heartbeats and registrations."""
    return events.select("namesrv_id", "broker_addr", F.unix_millis("effect_time").alias("ms"))


def window_sort(events: DataFrame, silence_ms: int) -> Expiries:
    """Spark SQL with a window: every event is sorted."""
    sql = _NEIGHBOURS.format(events="{events}", silence_ms="{silence_ms}")
    return expiries_of(events.sparkSession.sql(sql, events=beats_in_ms(events), silence_ms=silence_ms).collect())


def pandas_per_broker(events: DataFrame, silence_ms: int) -> Expiries:
    """A Python function for each broker that only counts gaps."""

    def gaps(beats: pd.DataFrame) -> pd.DataFrame:
        ordered = beats.sort_values("ms")
        silent = ordered["ms"].diff().shift(-1) > silence_ms
        return ordered[silent]

    schema = "namesrv_id STRING, broker_addr STRING, ms BIGINT"
    return expiries_of(beats_in_ms(events).groupBy("namesrv_id", "broker_addr").applyInPandas(gaps, schema).collect())


def duck_window(files: Sequence[str], silence_ms: int) -> Expiries:
    """The same SQL as Spark's window in DuckDB, on Parquet files of heartbeats and registrations; a thread a core."""
    with duckdb.connect() as duck:
        read = duck.read_parquet(list(files), hive_partitioning=False, union_by_name=True)
        read.project("namesrv_id, broker_addr, epoch_us(effect_time) // 1000 AS ms").create_view("events")
        return expiries_of(duck.execute(_NEIGHBOURS.format(events="events", silence_ms=silence_ms)).fetchall())
