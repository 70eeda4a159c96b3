"""Write the events of a simulated fleet into the bronze tables, and beside them the truth about what was planted.

Writes  heartbeats, registrations, topic_configs, namesrv_events and sources; truth.holes
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import tables
from jobs.fleet import Fleet, FleetError
from jobs.fleet_events import (
    heartbeats_from,
    namesrv_events_from,
    registrations_from,
    source_prefix,
    topic_configs_from,
    with_identity,
)
from jobs.fleet_plan import beats_of, plan_of
from jobs.fleet_truth import holes_from
from jobs.ingest_write import write_staged
from jobs.session import tune_for
from jobs.staging import FRAMES, SEQ_IS_GIVEN
from jobs.unfinished import take_back_unfinished
from jobs.warehouse import Warehouse
from schemas import bronze, truth
from schemas.table import Table

_ROWS_PER_FILE = 3_000_000
_SMALL_EVENTS = 500_000
ON_TIME, LATE = "on time", "late"


@dataclass
class Simulated:
    """What `simulate` has written: events by day and delivery, and days that had been written before."""

    events: dict[str, int] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)


def simulate(house: Warehouse, fleet: Fleet, days: Sequence[dt.date]) -> Simulated:
    """Deliver each of `days` in order: its events that come on time, then what is late of the day before.

    A day that this fleet has delivered is not written again. The slices of the days belong to the fleet: what else is
    in them is replaced. Raises FleetError if another fleet was simulated into the warehouse.
    """
    done = Simulated()
    take_back_unfinished(house)
    tune_for(house.spark, small=fleet.namesrvs * fleet.brokers * fleet.beats_per_day < _SMALL_EVENTS)
    for day in sorted(days):
        for delivered, delivery in ((day, ON_TIME), (day - dt.timedelta(days=1), LATE)):
            if delivered < fleet.start or (delivery == LATE and not (fleet.late or fleet.duplicates)):
                continue
            name = f"{delivered} {delivery}"
            if _is_known(house, fleet, delivered, delivery):
                done.known.append(name)
            else:
                done.events[name] = deliver(house, fleet, delivered, delivery)
    return done


def deliver(house: Warehouse, fleet: Fleet, day: dt.date, delivery: str) -> int:
    """Write one delivery of one day and note its sources; return the number of events in it.

    What comes late, and what comes a second time, goes the way of real input through `write_staged`.
    """
    events = fleet.namesrvs * fleet.brokers * fleet.beats_per_day
    files = max(house.spark.sparkContext.defaultParallelism, -(-events // _ROWS_PER_FILE))
    # Kept, because beats that are computed from one long expression are computed by code too long to be compiled.
    hours = plan_of(house.spark, fleet, day, min(files, fleet.namesrvs * fleet.brokers))
    plan = with_identity(hours, fleet, day).persist()
    beats = beats_of(plan, fleet)
    topic_configs = topic_configs_from(house.spark, fleet, plan).persist()
    digests = topic_configs.select("owner", "version", "topic_config_digest")
    sent = beats.where(~F.col("is_late") if delivery == ON_TIME else F.col("is_late") | F.col("is_duplicate"))
    frames = {
        bronze.HEARTBEATS: heartbeats_from(sent, fleet, day),
        bronze.REGISTRATIONS: registrations_from(sent, digests, fleet, day),
    }
    if delivery == ON_TIME:
        _store_once(house, topic_configs)
        frames[bronze.NAMESRV_EVENTS] = namesrv_events_from(plan, fleet, day)
        frames[truth.HOLES] = holes_from(plan, fleet, day)
        for table, frame in frames.items():
            _write_day(house, frame, table, day)
        house.forget(*bronze.TABLES)
        today = F.col("day") == F.lit(day)
        counted = {table: house.table(table).where(today) for table in bronze.EVENT_TABLES if table in frames}
    else:
        counted = {table: _of_run(house, frame, table) for table, frame in frames.items()}
        given = {FRAMES: F.lit(1), SEQ_IS_GIVEN: F.lit(True)}
        staged = {table.name: frame.withColumns(given) for table, frame in counted.items()}
        write_staged(house.spark, house.path, staged, [day], day, has_logs=False)
    topic_configs.unpersist()
    plan.unpersist()
    events = _note_sources(
        house, fleet, day, delivery, tables.union_all(f.select("source_file") for f in counted.values())
    )
    house.forget(*bronze.TABLES)
    return events


def _of_run(house: Warehouse, frame: DataFrame, table: Table) -> DataFrame:
    return tables.conformed(frame.withColumn("ingest_run", F.lit(house.run_id)), table)


def _write_day(house: Warehouse, frame: DataFrame, table: Table, day: dt.date) -> None:
    """Replace the slice of `day`, in as many files as the frame has partitions."""
    writer = _of_run(house, frame, table).write.format("delta").partitionBy(*table.partition_by).mode("overwrite")
    where = f"day = DATE'{day.isoformat()}'"
    writer.option("replaceWhere", where).save(tables.table_path(house.path, table))


def _store_once(house: Warehouse, topic_configs: DataFrame) -> None:
    """Append the topic tables that are not stored yet."""
    table = bronze.TOPIC_CONFIGS_TABLE
    known = house.table(table).select("topic_config_digest")
    fresh = topic_configs.dropDuplicates(["topic_config_digest"]).join(known, on="topic_config_digest", how="left_anti")
    tables.append(_of_run(house, fresh, table), house.path, table)


def _source_sha256(fleet: Fleet, file: str, delivery: str) -> str:
    return hashlib.sha256(f"{fleet.sha256} {file} {delivery}".encode()).hexdigest()


def _source_files(fleet: Fleet, day: dt.date) -> list[str]:
    return [f"{source_prefix(day)}{number}" for number in range(fleet.namesrvs)]


def _is_known(house: Warehouse, fleet: Fleet, day: dt.date, delivery: str) -> bool:
    """Return whether this fleet's delivery was written. Raises FleetError if another fleet's was."""
    of_day = house.table(bronze.SOURCES).where(F.col("source_file").startswith(source_prefix(day)))
    found = {row["content_sha256"] for row in of_day.select("content_sha256").collect()}
    files = _source_files(fleet, day)
    if found - {_source_sha256(fleet, file, d) for file in files for d in (ON_TIME, LATE)}:
        raise FleetError(f"{house.path}: {day} was simulated with other options")
    return _source_sha256(fleet, files[0], delivery) in found


def _note_sources(house: Warehouse, fleet: Fleet, day: dt.date, delivery: str, events: DataFrame) -> int:
    """Write the rows of `sources` by which a night finds the delivery; return the number of its events."""
    counts = {row["source_file"]: row["count"] for row in events.groupBy("source_file").count().collect()}
    rows = [
        {
            "content_sha256": _source_sha256(fleet, file, delivery),
            "source_file": file,
            "kind": "event_log",
            "bytes": 0,
            "frames": counts.get(file, 0),
            "days": [day],
            "ingest_run": house.run_id,
        }
        for file in _source_files(fleet, day)
    ]
    tables.append(house.spark.createDataFrame(rows, bronze.SOURCES.schema), house.path, bronze.SOURCES)
    return sum(counts.values())
