"""Other ways to the expiries of a day, to be timed beside the night: each returns (name server, broker, last beat in ms).

All of them say that a broker was removed where two neighbouring beats lie further apart than the lease and one period of
the scan; the fleets of the benchmarks have no gap between the lease and that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    import pandas as pd

Expiries = frozenset[tuple[str, str, int]]
SCANNED = (
    "namesrv_id", "cluster_name", "broker_name", "broker_addr", "code", "data_version", "channel_id", "effect_time", "seq",
)  # fmt: skip
"""The columns of a heartbeat on which its effect depends."""
_SLOTS = 60
_FULL = (1 << _SLOTS) - 1

_NEIGHBOURS = """
    SELECT namesrv_id, broker_addr, ms AS last_ms FROM (
      SELECT namesrv_id, broker_addr, ms, lead(ms) OVER (PARTITION BY namesrv_id, broker_addr ORDER BY ms) AS next_ms
      FROM {events})
    WHERE next_ms - ms > {silence_ms}"""


def expiries_of(rows: Iterable[Sequence[Any]]) -> Expiries:
    """Return rows (name server, broker, last beat in ms) as an answer."""
    return frozenset((str(row[0]), str(row[1]), int(row[2])) for row in rows)


def scan(frame: DataFrame) -> None:
    """Read the columns and throw them away: what no night can be faster than."""
    frame.select(*SCANNED).write.format("noop").mode("overwrite").save()


def beats_in_ms(events: DataFrame) -> DataFrame:
    """Return (namesrv_id, broker_addr, ms) of the day's heartbeats and registrations."""
    return events.select("namesrv_id", "broker_addr", F.unix_millis("effect_time").alias("ms"))


def window_sort(events: DataFrame, silence_ms: int) -> Expiries:
    """Spark SQL with a window: every event is sorted."""
    found = events.sparkSession.sql(
        _NEIGHBOURS.format(events="{events}", silence_ms="{silence_ms}"),
        events=beats_in_ms(events),
        silence_ms=silence_ms,
    )
    return expiries_of(found.collect())


def pandas_per_broker(events: DataFrame, silence_ms: int) -> Expiries:
    """A Python function for each broker that only counts gaps."""

    def gaps(beats: pd.DataFrame) -> pd.DataFrame:
        ordered = beats.sort_values("ms")
        silent = ordered["ms"].diff().shift(-1) > silence_ms
        return ordered[silent]

    schema = "namesrv_id STRING, broker_addr STRING, ms BIGINT"
    return expiries_of(beats_in_ms(events).groupBy("namesrv_id", "broker_addr").applyInPandas(gaps, schema).collect())


class Duck:
    """DuckDB on the same Parquet files, with as many threads as there are cores."""

    def __init__(self, files: Sequence[Sequence[str]]) -> None:
        """`files`: the Parquet files of the day, by table."""
        import duckdb  # noqa: PLC0415  the only part of the project that needs it

        self._duck = duckdb.connect()
        self._duck.execute("SET TimeZone = 'UTC'")
        read = "SELECT namesrv_id, broker_addr, epoch_us(effect_time) // 1000 AS ms FROM read_parquet({names})"
        tables = " UNION ALL ".join(read.format(names=list(names)) for names in files if names)
        self._duck.execute(f"CREATE VIEW events AS {tables}")

    def window(self, silence_ms: int) -> Expiries:
        """The same SQL as Spark's window."""
        sql = _NEIGHBOURS.format(events="events", silence_ms=silence_ms)
        return expiries_of(self._duck.execute(sql).fetchall())

    def bitmap(self, silence_ms: int, lease_ms: int) -> Expiries:
        """Our bitmap: what has a beat in every slot of half a lease is not looked at closely.

        A key is 60 slots. Closely looked at are keys that miss a slot or whose successor is missing, and their neighbours.
        """
        width = lease_ms // 2
        sql = f"""
            WITH keys AS (
              SELECT namesrv_id, broker_addr, ms // {width * _SLOTS} AS k,
                     bit_or(1::BIGINT << (ms // {width} % {_SLOTS})::INT) AS slots
              FROM events GROUP BY ALL),
            followed AS (
              SELECT *, lead(k) OVER (PARTITION BY namesrv_id, broker_addr ORDER BY k) AS next_k FROM keys),
            suspect AS (
              SELECT DISTINCT namesrv_id, broker_addr, unnest([k - 1, k, k + 1, coalesce(next_k, k)]) AS k
              FROM followed WHERE slots <> {_FULL} OR next_k > k + 1),
            looked_at AS (
              SELECT namesrv_id, broker_addr, ms FROM events
              SEMI JOIN suspect ON suspect.namesrv_id = events.namesrv_id AND suspect.broker_addr = events.broker_addr
                AND suspect.k = events.ms // {width * _SLOTS})
            """  # noqa: S608  numbers
        # Between two stretches that are looked at lies one that needs no look: no gap spans it.
        closely = """
            SELECT namesrv_id, broker_addr, ms AS last_ms FROM (
              SELECT namesrv_id, broker_addr, ms, lead(ms) OVER (PARTITION BY namesrv_id, broker_addr ORDER BY ms) AS next_ms
              FROM looked_at) AS pairs
            WHERE next_ms - ms > {silence_ms}
              AND NOT EXISTS (SELECT 1 FROM keys WHERE keys.namesrv_id = pairs.namesrv_id
                AND keys.broker_addr = pairs.broker_addr AND keys.k > ms // {key} AND keys.k < next_ms // {key})"""
        found = self._duck.execute(sql + closely.format(silence_ms=silence_ms, key=width * _SLOTS))
        return expiries_of(found.fetchall())

    def scan(self) -> None:
        """Read the three columns."""
        self._duck.execute("SELECT max(namesrv_id), max(broker_addr), max(ms) FROM events").fetchall()
