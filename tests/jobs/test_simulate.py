"""A simulated fleet: the same events however they are made, and the replay finds what was planted, no more and no less."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import night, nightly, tables
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.fleet import Fleet, FleetError, fleet_of
from jobs.fleet_events import heartbeats_from, registrations_from, topic_configs_from, with_identity
from jobs.fleet_plan import beats_of, plan_of
from jobs.replay import REPLAYED_TABLES
from jobs.simulate import LATE, ON_TIME, deliver, simulate
from jobs.warehouse import Warehouse
from schemas import bronze, truth

DAY = dt.date(2026, 1, 1)
TROUBLED = Fleet(
    DAY, brokers=5, namesrvs=2, topics=3, beats_per_minute=1, outages=0.1, outage_s=(30, 400), partitions=4, restarts=2
)


def house_at(spark: SparkSession, path: Path, run: str, *, quiet_road: bool = False) -> Warehouse:
    """Return a warehouse for one run."""
    conf = PipelineConf(quiet_road=quiet_road)
    return Warehouse(spark, str(path), conf, run, dt.datetime.now(dt.timezone.utc))


def night_of(spark: SparkSession, path: Path, run: str) -> nightly.Summary:
    """Run a night on what has been delivered."""
    return nightly.run(house_at(spark, path, run), [], Console(io.StringIO(), io.StringIO()))


def judged(spark: SparkSession, path: Path) -> tuple[DataFrame, DataFrame]:
    """Return the planted holes with the number of removals that were found for each, and the removals of no hole."""
    house = house_at(spark, path, "reader")
    holes = tables.read_table(spark, str(path), truth.HOLES).alias("h")
    removals = house.data()["expired_brokers"].alias("e")
    belongs = F.expr(
        "e.namesrv_id = h.namesrv_id AND e.broker_addr = h.broker_addr AND e.cause = 'scan' "
        "AND e.last_beat_time = date_trunc('MILLISECOND', h.last_beat_time) AND e.heartbeat_timeout_ms = h.lease_ms "
        "AND e.removed_time > h.lease_end_time AND e.removed_time <= h.removal_due_time "
        "AND e.returned_time = h.first_beat_time"
    )
    keys = [f"h.{name}" for name in truth.HOLES.column_names]
    found = holes.join(removals, belongs, "left").groupBy(*keys).agg(F.count("e.removed_by").alias("found"))
    return found, removals.join(holes, belongs, "left_anti")


def assert_truth_is_found(spark: SparkSession, path: Path) -> None:
    """Every hole longer than the lease is one removal at a tick that it allows; no other removal is claimed."""
    found, invented = judged(spark, path)
    rows = found.collect()
    assert not [row for row in rows if not row["expiries_min"] <= row["found"] <= row["expiries_max"]]
    assert invented.count() == 0
    kinds = {(row["kind"], row["expiries_min"]) for row in rows}
    assert kinds >= {("outage", 0), ("outage", 1), ("partition", 1), ("restart", 0)}


def test_removals_of_4x_are_the_planted_ones_when_events_come_late_and_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A night without the late events, then one with them and with repeated ones: the expiries are those of the plan."""
    fleet = fleet_like(TROUBLED, late=0.03, duplicates=0.03)
    events = deliver(house_at(spark, tmp_path, "on-time"), fleet, DAY, ON_TIME)
    first = night_of(spark, tmp_path, "first")
    late = deliver(house_at(spark, tmp_path, "late"), fleet, DAY, LATE)
    second = night_of(spark, tmp_path, "second")
    assert (first.status, second.status) == ("published", "published")
    assert (
        0.02 < (sum(second.tables[t] for t in ("heartbeats", "registrations")) - events) / events < 0.04 < late / events
    )
    assert_truth_is_found(spark, tmp_path)


def test_removals_of_5x_with_light_heartbeats_are_the_planted_ones(spark: SparkSession, tmp_path: Path) -> None:
    """The lease is the brokers' own, the first beat after a hole brings the broker back, and the quiet road loses nothing."""
    fleet = fleet_like(
        TROUBLED,
        version="5.4.0",
        form="light",
        beats_per_minute=4,
        timeout_ms=50_000,
        brokers=4,
        churn=0.5,
        outages=0.2,
        outage_s=(20, 120),
    )
    simulate(house_at(spark, tmp_path, "on-time"), fleet, [DAY])
    assert night_of(spark, tmp_path, "night").status == "published"
    assert_truth_is_found(spark, tmp_path)
    replayed = [house_at(spark, tmp_path, "plain"), house_at(spark, tmp_path, "quiet", quiet_road=True)]
    before = replayed_digests(replayed[0])
    night.replay(replayed[1], [DAY])
    assert replayed_digests(replayed[1]) == before


def replayed_digests(house: Warehouse) -> dict[str, str]:
    """Return a digest of each table that the replay gives."""
    return tables.digests({table.name: house.table(table) for table in REPLAYED_TABLES})


def fleet_like(fleet: Fleet, **other: object) -> Fleet:
    """Return a fleet with some options changed."""
    return fleet_of({name: getattr(fleet, name) for name in fleet.__dataclass_fields__} | other)


@pytest.fixture(scope="module")
def rows_of(spark: SparkSession) -> Callable[..., dict[str, DataFrame]]:
    """Make the events of a fleet's day in as many partitions as asked for."""

    def make(fleet: Fleet, day: dt.date, partitions: int) -> dict[str, DataFrame]:
        plan = plan_of(spark, fleet, day, partitions)
        beats = beats_of(with_identity(plan, fleet, day), fleet)
        configs = topic_configs_from(spark, fleet, plan)
        return {
            "heartbeats": heartbeats_from(beats, fleet, day),
            "registrations": registrations_from(beats, configs, fleet, day),
        }

    return make


def test_events_depend_on_options_and_seed_alone(rows_of: Callable[..., dict[str, DataFrame]]) -> None:
    """Other partitions give the same digests; another seed gives others."""
    fleet = fleet_like(TROUBLED, churn=0.5, registrations=0.05)

    def digests(of: Fleet, partitions: int) -> dict[str, str]:
        frames = rows_of(of, DAY + dt.timedelta(days=1), partitions)
        return tables.digests({name: frame.drop("owner") for name, frame in frames.items()})

    assert digests(fleet, 1) == digests(fleet, 5)
    assert not set(digests(fleet, 1).values()) & set(digests(fleet_like(fleet, seed=2), 1).values())


def test_positions_are_unique_and_only_holes_are_silent(
    rows_of: Callable[..., dict[str, DataFrame]], spark: SparkSession
) -> None:
    """No two events of a name server share a position or an id; beats and lost beats add up to the plan."""
    fleet = fleet_like(TROUBLED, jitter_ms=20_000)
    frames = rows_of(fleet, DAY, 2)
    events = tables.union_all(f.select("namesrv_id", "seq", "event_id", "effect_time", "day") for f in frames.values())
    row = events.agg(
        F.count("*").alias("all"),
        F.count_distinct("namesrv_id", "seq").alias("seqs"),
        F.count_distinct("event_id").alias("ids"),
        F.count_if(F.to_date("effect_time") != F.col("day")).alias("astray"),
    ).collect()[0]
    lost = plan_of(spark, fleet, DAY, 1).agg(F.sum(F.col("k_to") - F.col("k_from"))).collect()[0][0]
    assert row.asDict() == {"all": fleet.namesrvs * fleet.brokers * fleet.beats_per_day - lost,
                            "seqs": row["all"], "ids": row["all"], "astray": 0}  # fmt: skip


def test_a_day_is_delivered_once(spark: SparkSession, tmp_path: Path) -> None:
    """A repeated call writes nothing; another fleet is refused; brokers change when the plan says so."""
    fleet = fleet_like(TROUBLED, churn=1.0, brokers=2, namesrvs=1)
    house = house_at(spark, tmp_path, "one")
    days = [DAY, DAY + dt.timedelta(days=1)]
    assert len(simulate(house, fleet, days).events) == 2
    before = {t.name: tables.version_of(spark, str(tmp_path), t) for t in bronze.TABLES}
    assert simulate(house, fleet, days).events == {}
    assert before == {t.name: tables.version_of(spark, str(tmp_path), t) for t in bronze.TABLES}
    with pytest.raises(FleetError, match="other options"):
        simulate(house, fleet_like(fleet, seed=2), days)
    versions = house.bronze()["registrations"].groupBy("broker_name").agg(F.max("data_version.counter").alias("last"))
    assert {row["last"] for row in versions.collect()} == {2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "light"}, "has none"),
        ({"timeout_ms": 5_000}, "no other"),
        ({"late": 1.5}, "no share"),
        ({"topics": 1}, "single topic"),
        ({"beats_per_minute": 7}, "whole number"),
        ({"version": "9.9"}, "no release"),
        ({"jitter_ms": 60_000}, "longer than a beat"),
    ],
)
def test_impossible_fleets_are_refused(options: dict[str, object], message: str) -> None:
    """The message says which option cannot be."""
    with pytest.raises(FleetError, match=message):
        fleet_like(TROUBLED, **options)
