"""What happens in a simulated fleet on a day, as Spark columns: the plan of each hour, and the beats that follow from it.

A beat is known from its number alone: when it comes, whether it is lost, and what it says are hashes of the seed, the name
server, the broker and that number. So rows are the same whatever their partitioning, and no state is kept between them.
Times with the name `_us` are microseconds since the fleet's first day began.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs.fleet import (
    HOLES_BEGIN_US,
    HOLES_END_US,
    HOURS_PER_DAY,
    LIGHT,
    PARTITION_GROUPS,
    PPM,
    QUERY,
    RESTART_S,
    US_PER_HOUR,
    US_PER_S,
    Fleet,
)
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.instants import US_PER_MS
from schemas.times import day_start_us

OUTAGE, PARTITION, RESTART = "outage", "partition", "restart"
_HEARTBEAT_CODE = {QUERY: RequestCode.QUERY_DATA_VERSION, LIGHT: RequestCode.BROKER_HEARTBEAT}


def plan_of(spark: SparkSession, fleet: Fleet, day: dt.date, partitions: int) -> DataFrame:
    """Return what is planned for `day`, one row per name server `n`, broker `b` and hour `h` since the fleet's start.

    `hole`: outage, partition, restart or NULL, with its ends `from_us` and `to_us`; beats from number `k_from` up to, not
    with, `k_to` are lost. `k_first`: number of the hour's first beat; `k_change`: of the day's beat with which the
    broker's configuration goes from `version_before` to `version_after` (NULL: it stays). `life_us`: when the name server's
    process had started with which the hour begins. In order of name server, broker and hour.
    """
    first_hour = fleet.number_of(day) * HOURS_PER_DAY
    rows = fleet.namesrvs * fleet.brokers * HOURS_PER_DAY
    hours = spark.range(0, rows, 1, partitions).select(
        F.expr(f"CAST(id DIV {fleet.brokers * HOURS_PER_DAY} AS INT)").alias("n"),
        F.expr(f"CAST(id DIV {HOURS_PER_DAY} % {fleet.brokers} AS INT)").alias("b"),
        F.expr(f"CAST(id % {HOURS_PER_DAY} AS INT) + {first_hour}").alias("h"),
    )
    hours = hours.join(F.broadcast(lives_of(spark, fleet, day)), on=["n", "h"], how="inner")
    hours = _with_holes(hours, fleet).withColumn("k_first", F.col("h").cast("bigint") * fleet.beats_per_hour)
    return _with_versions(hours, fleet, fleet.number_of(day))


def lives_of(spark: SparkSession, fleet: Fleet, day: dt.date) -> DataFrame:
    """Return per name server `n` and hour `h` of `day` whether it `restarts`, and since when its process runs, `life_us`."""
    first_hour = fleet.number_of(day) * HOURS_PER_DAY
    hours = spark.range(0, fleet.namesrvs * (first_hour + HOURS_PER_DAY), 1, 1).select(
        F.expr(f"CAST(id % {fleet.namesrvs} AS INT)").alias("n"),
        F.expr(f"CAST(id DIV {fleet.namesrvs} AS INT)").alias("h"),
    )
    chance = round(fleet.restarts * PPM / HOURS_PER_DAY)
    hours = hours.withColumn("restarts", _draw(fleet, "restart", PPM, "n", "h") < chance)
    end = F.when(F.col("restarts"), _hole_end(fleet, RESTART, RESTART_S, _namesrv_key()))
    before = Window.partitionBy("n").orderBy("h").rowsBetween(Window.unboundedPreceding, -1)
    life = F.coalesce(F.last(end, ignorenulls=True).over(before), F.lit(0).cast("bigint"))
    return hours.withColumn("life_us", life).where(F.col("h") >= first_hour)


def beats_of(plan: DataFrame, fleet: Fleet) -> DataFrame:
    """Return the beats of `plan`, with the identity of their hour, that are sent.

    `k`: number; `at_us`: when, in microseconds since the epoch; `registers`: it is a registration; `version`, `version_ms`:
    of the broker's configuration, and when it was made; `is_late`, `is_duplicate`: how it is delivered.
    """
    begin_us = day_start_us(fleet.start)
    of_hour = F.sequence(F.lit(0).cast("bigint"), F.lit(fleet.beats_per_hour - 1).cast("bigint"))
    beats = plan.withColumn("k", F.explode(of_hour)).withColumn("k", F.col("k") + F.col("k_first"))
    sent = F.col("hole").isNull() | (F.col("k") < F.col("k_from")) | (F.col("k") >= F.col("k_to"))
    beats = beats.where(sent)
    is_changed = F.col("k") >= F.col("k_change")
    is_after_restart = F.expr(f"hole = '{RESTART}'") & (F.col("k") >= F.col("k_to"))
    return beats.withColumns(
        {
            "at_us": _beat_us(fleet, F.col("k")) + F.lit(begin_us),
            "registers": _registers(fleet),
            "version": F.when(is_changed, F.col("version_after")).otherwise(F.col("version_before")),
            "version_us": F.when(is_changed, F.col("k_change") * fleet.interval_us).otherwise(F.col("made_us")),
            "channel_id": F.when(is_after_restart, F.col("channel_after")).otherwise(F.col("channel_before")),
            "is_late": _chance(fleet, "late", fleet.late),
            "is_duplicate": _chance(fleet, "duplicate", fleet.duplicates),
        }
    ).withColumn("version_ms", F.expr(f"({begin_us} + version_us) DIV {US_PER_MS}"))


def _registers(fleet: Fleet) -> Column:
    """Return whether a beat is a registration: a broker's first, the first after a hole, after a change, and those by option."""
    k = F.col("k")
    asked = (k == 0) | k.eqNullSafe(F.col("k_change")) | (F.col("hole").isNotNull() & (k == F.col("k_to")))
    if fleet.beats_per_registration:
        asked = asked | (k % fleet.beats_per_registration == 0)
    return asked | _chance(fleet, "registration", fleet.registrations)


def _chance(fleet: Fleet, purpose: str, share: float) -> Column:
    return F.lit(False) if share == 0 else _draw(fleet, purpose, PPM, "n", "b", "k") < round(share * PPM)


def _with_holes(hours: DataFrame, fleet: Fleet) -> DataFrame:
    """Add `hole`, `from_us`, `to_us`, `k_from`, `k_to`; of several holes in an hour the name server's own counts."""
    parted = _draw(fleet, PARTITION, PPM, "n", "h") < round(fleet.partitions * PPM / HOURS_PER_DAY)
    groups = min(PARTITION_GROUPS, fleet.brokers)
    parted = parted & (F.col("b") % groups == _draw(fleet, "group", groups, "n", "h"))
    out = _draw(fleet, OUTAGE, PPM, "b", "h") < round(fleet.outages * PPM)
    hole = F.when(F.col("restarts"), RESTART).when(parted, PARTITION).when(out, OUTAGE)
    hours = hours.withColumn("hole", hole)
    ends = {
        RESTART: _hole(fleet, RESTART, RESTART_S, _namesrv_key()),
        PARTITION: _hole(fleet, PARTITION, fleet.outage_s, _namesrv_key()),
        OUTAGE: _hole(fleet, OUTAGE, fleet.outage_s, F.col("b")),
    }
    chosen = F.when(F.col("hole") == RESTART, ends[RESTART]).when(F.col("hole") == PARTITION, ends[PARTITION])
    hours = hours.withColumn("ends", chosen.when(F.col("hole") == OUTAGE, ends[OUTAGE]))
    hours = hours.withColumns({"from_us": F.col("ends.from_us"), "to_us": F.col("ends.to_us")}).drop("ends", "restarts")
    firsts = {"k_from": _first_beat(fleet, F.col("from_us")), "k_to": _first_beat(fleet, F.col("to_us"))}
    return hours.withColumns(firsts)


def _hole(fleet: Fleet, kind: str, seconds: tuple[int, int], key: Column) -> Column:
    """Return the ends of a hole of `kind` in hour `h`, in its middle part; `key`: who has the same hole."""
    shortest, longest = seconds
    length = (_draw(fleet, f"{kind} length", longest - shortest + 1, key, "h") + shortest) * US_PER_S
    room = F.lit(HOLES_END_US - HOLES_BEGIN_US) - length
    from_us = F.col("h") * F.lit(US_PER_HOUR) + HOLES_BEGIN_US + _hashed(fleet, f"{kind} begin", key, "h") % room
    return F.struct(from_us.alias("from_us"), (from_us + length).alias("to_us"))


def _hole_end(fleet: Fleet, kind: str, seconds: tuple[int, int], key: Column) -> Column:
    return _hole(fleet, kind, seconds, key)["to_us"]


def _namesrv_key() -> Column:
    return -1 - F.col("n")


def _with_versions(hours: DataFrame, fleet: Fleet, number: int) -> DataFrame:
    """Add `version_before`, `version_after`, `k_change`, and `made_us`: when the version before the change was made.

    The changes of a broker are spread evenly over the days: after d days there are as many as whole numbers up to its
    own fraction plus d times the share.
    """
    share = round(fleet.churn * PPM)
    fraction = _draw(fleet, "fraction", PPM, "b")
    before, after = (_div(fraction + share * days, PPM).cast("int") for days in (number, number + 1))
    hours = hours.withColumns({"version_before": before, "version_after": after})
    made_on = _div(F.col("version_before").cast("bigint") * PPM - fraction - 1, share) if share else F.lit(0)
    k_made = _change_beat(fleet, made_on.cast("bigint"))
    made_us = F.when(F.col("version_before") == 0, 0).otherwise(k_made * fleet.interval_us)
    k_change = F.when(
        F.col("version_after") > F.col("version_before"), _change_beat(fleet, F.lit(number).cast("bigint"))
    )
    return hours.withColumns({"made_us": made_us.cast("bigint"), "k_change": k_change})


def _change_beat(fleet: Fleet, number: Column) -> Column:
    """Return the number of the beat with which a broker's configuration changes on day `number`."""
    return number * fleet.beats_per_day + _draw(fleet, "change", fleet.beats_per_day, "b", number)


def _first_beat(fleet: Fleet, at_us: Column) -> Column:
    """Return the number of the first beat at or after an instant. Each beat lies within its own interval."""
    k = _div(at_us, fleet.interval_us)
    return F.when(_beat_us(fleet, k) >= at_us, k).otherwise(k + 1)


def _beat_us(fleet: Fleet, k: Column) -> Column:
    """Return when beat `k` is sent. No two beats to a name server are sent in the same microsecond.

    Brokers take turns in the interval; the jitter moves a beat in whole steps of as many microseconds as there are
    brokers, and each broker has its own microsecond of a step.
    """
    turn = fleet.interval_us - fleet.jitter_us - fleet.brokers
    moved = F.expr(f"b * {turn}L DIV {fleet.brokers}") + _draw(fleet, "jitter", fleet.jitter_us, "n", "b", k)
    return k * fleet.interval_us + moved - moved % fleet.brokers + F.col("b")


def beat_instant(fleet: Fleet, k: Column) -> Column:
    """Return the timestamp of beat `k` of broker `b` at name server `n`."""
    return F.timestamp_micros(_beat_us(fleet, k) + F.lit(day_start_us(fleet.start)))


def instant(fleet: Fleet, at_us: Column) -> Column:
    """Return the timestamp of microseconds since the fleet's start."""
    return F.timestamp_micros(at_us + F.lit(day_start_us(fleet.start)))


def _draw(fleet: Fleet, purpose: str, below: int, *of: Column | str) -> Column:
    """Return a number from 0 up to, not with, `below`, the same for the same purpose and columns."""
    return _hashed(fleet, purpose, *of) % F.lit(below).cast("bigint")


def _hashed(fleet: Fleet, purpose: str, *of: Column | str) -> Column:
    # The sign bit is cleared: a remainder must not be negative.
    mixed = F.xxhash64(F.lit(f"{fleet.seed} {purpose}"), *of)
    return F.shiftrightunsigned(mixed, 1)


def _div(number: Column, by: int) -> Column:
    return F.call_function("div", number, F.lit(by))


def namesrv_id() -> Column:
    """Return the address of name server `n`."""
    return F.concat(F.lit("10.255.0."), F.col("n") + 1, F.lit(":9876"))


def broker_name() -> Column:
    """Return the name of broker `b`."""
    return F.format_string("broker-%05d", F.col("b"))


def broker_host() -> Column:
    """Return the host of broker `b`."""
    parts = (F.expr("b DIV 65536"), F.expr("b DIV 256 % 256"), F.expr("b % 256"))
    return F.concat_ws(".", F.lit("10"), *[part.cast("string") for part in parts])


def broker_addr() -> Column:
    """Return the address of broker `b`."""
    return F.concat(broker_host(), F.lit(":10911"))


def heartbeat_code(fleet: Fleet) -> int:
    """Return the request code of a beat that is no registration."""
    return int(_HEARTBEAT_CODE.get(fleet.form, RequestCode.QUERY_DATA_VERSION))
