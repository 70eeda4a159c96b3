"""The fleets that the benchmarks run on, by name and scale, and warehouses with their days in them."""

from __future__ import annotations

import datetime as dt
import io
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.engines import Expiries, expiries_of
from jobs import night, nightly, tables
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.fleet import Fleet
from jobs.nightly import SMALL_FRAMES
from jobs.session import tune_for
from jobs.simulate import simulate
from jobs.tables import of_days
from jobs.warehouse import Warehouse
from schemas import bronze, gold

START = dt.date(2026, 1, 1)
SKEWED = "skewed"
"""The fleet of which one broker has half of all heartbeats."""
# All holes are longer than the lease and a period of the scan: no engine has to know the phase of the scan.
_HOLES: dict[str, Any] = {"outage_s": (150, 900)}
_QUIET = {"full": {**_HOLES, "outages": 0.0002}, "small": {**_HOLES, "outages": 0.004}}
_WHO = ("cluster_name", "broker_name", "broker_addr", "broker_id", "channel_id", "data_version")
_SIZE = {"full": {"brokers": 2_000, "namesrvs": 4}, "small": {"brokers": 16, "namesrvs": 2}}
_TOPICS = {"full": {"brokers": 300, "topics": 10_000}, "small": {"topics": 50}}
_TENTH = {"full": {"brokers": 200, "namesrvs": 4}, "small": _SIZE["small"]}


def fleet_named(name: str, scale: str) -> Fleet:
    """Return the fleet of a benchmark: two beats a minute, of 4.9.7 unless it is to be compared with 5.4.0."""
    options: Mapping[str, Mapping[str, Any]] = {
        "quiet": {**_SIZE[scale], **_QUIET[scale]},
        "stormy": {**_SIZE[scale], **_HOLES, "outages": 0.01, "registrations": 0.05},
        "tenth": {**_TENTH[scale], **_QUIET[scale]},
        SKEWED: {**_TENTH[scale], **_QUIET[scale]},
        "five": {**_SIZE[scale], **_QUIET[scale], "version": "5.4.0"},
        "wide": {**_TOPICS[scale], "namesrvs": 1, "shared_topics": True},
        "1x": {"brokers": 868, "namesrvs": 4} if scale == "full" else {"brokers": 8},
        "10x": {"brokers": 8_681, "namesrvs": 4} if scale == "full" else {"brokers": 80},
        "long": {**_QUIET[scale], "brokers": 40 if scale == "full" else 4, "churn": 0.05},
    }
    return Fleet(START, **options[name])


@dataclass
class Fleets:
    """Warehouses under `folder`, made when they are first asked for."""

    spark: SparkSession
    folder: Path
    scale: str
    _ready: set[tuple[str, int]] = field(default_factory=set)

    def day(self, name: str, number: int = 2) -> FleetDay:
        """Return day `number` (from 1) of a fleet, of which all days before were replayed: steady state."""
        day = self.recorded_day(name, number)
        if (name, number) not in self._ready:
            days = [START + dt.timedelta(days=n) for n in range(number)]
            simulated = simulate(day.house(), day.fleet, days)
            if name == SKEWED and simulated.events:
                _give_half_to_one(day.house(), days)
            events = sum(source.frames for source in day.house().recorded()) // number
            tune_for(self.spark, small=events < SMALL_FRAMES)
            night.replay(day.house(), [earlier for earlier in days[:-1] if not day.was_replayed(earlier)])
            self._ready.add((name, number))
        return day

    def recorded_day(self, name: str, number: int = 2) -> FleetDay:
        """Return day `number` of a fleet whose warehouse has been made."""
        return FleetDay(self, name, fleet_named(name, self.scale), START + dt.timedelta(days=number - 1))


@dataclass(frozen=True)
class FleetDay:
    """A recorded day of a fleet, to be replayed as often as wanted."""

    fleets: Fleets
    name: str
    fleet: Fleet
    date: dt.date

    @property
    def path(self) -> Path:
        """Return the warehouse."""
        return self.fleets.folder / f"{self.fleets.scale}-{self.name}"

    @property
    def silence_ms(self) -> int:
        """Return the gap beyond which a broker has certainly been removed."""
        return self.fleet.lease_ms + self.fleet.profile.scan_period_ms

    def house(self, conf: PipelineConf | None = None) -> Warehouse:
        """Return the warehouse for one run, as a new process would open it."""
        run = f"bench-{uuid.uuid4().hex[:8]}"
        return Warehouse(
            self.fleets.spark, str(self.path), conf or PipelineConf(), run, dt.datetime.now(dt.timezone.utc)
        )

    def was_replayed(self, date: dt.date) -> bool:
        """Return whether a day was replayed, in a folder that was kept."""
        settings = self.house().table(gold.NAMESRV_SETTINGS)
        return not settings.where(F.col("day") == F.lit(date)).isEmpty()

    def heartbeats(self) -> DataFrame:
        """Return the day's heartbeats."""
        return self.house().table(bronze.HEARTBEATS).where(F.col("day") == F.lit(self.date))

    def events(self) -> DataFrame:
        """Return the day's heartbeats and registrations: what renews a lease."""
        columns = ("namesrv_id", "broker_addr", "effect_time", "seq")
        registrations = self.house().table(bronze.REGISTRATIONS).where(F.col("day") == F.lit(self.date))
        return self.heartbeats().select(*columns).unionAll(registrations.select(*columns))

    def files(self) -> list[list[str]]:
        """Return the Parquet files of the day, of heartbeats and of registrations."""
        frames = [self.house().table(table) for table in (bronze.HEARTBEATS, bronze.REGISTRATIONS)]
        days = [frame.where(F.col("day") == F.lit(self.date)) for frame in frames]
        return [sorted(name.removeprefix("file:") for name in frame.inputFiles()) for frame in days]

    def replayed(self, conf: PipelineConf | None = None) -> Expiries:
        """Replay and flag the day, and return the brokers that scans removed."""
        house = self.house(conf)
        night.replay(house, [self.date])
        night.flag_days(house, [self.date])
        return self.expired()

    def whole_night(self, conf: PipelineConf | None = None) -> Expiries:
        """Run all steps of a night but reading its input, and return the brokers that scans removed."""
        nightly.run(self.house(conf), [], Console(io.StringIO(), io.StringIO()), first=self.date, last=self.date)
        return self.expired()

    def expired(self) -> Expiries:
        """Return what `expired_brokers` says of the day."""
        rows = self.house().data()["expired_brokers"].where(F.col("day") == F.lit(self.date))
        return expiries_of(rows.select("namesrv_id", "broker_addr", F.unix_millis("last_beat_time")).collect())

    def digests(self) -> dict[str, str]:
        """Return the digest of each gold table."""
        return tables.digests(self.house().data())


def _give_half_to_one(house: Warehouse, days: Sequence[dt.date]) -> None:
    """Turn the heartbeats of every second broker into heartbeats of the first one, and leave out all else about them."""
    for day in days:
        beats = of_days(house.table(bronze.HEARTBEATS), [day])
        addrs = sorted(row["broker_addr"] for row in beats.select("broker_addr").distinct().collect())
        is_given = F.col("broker_addr").isin(addrs[1::2])
        first = (
            beats.where(F.col("broker_addr") == addrs[0])
            .groupBy("namesrv_id")
            .agg(*(F.first(name).alias(f"first_{name}") for name in _WHO))
        )
        said = {name: F.when(is_given, F.col(f"first_{name}")).otherwise(F.col(name)) for name in _WHO}
        given = tables.cut_short(beats.join(F.broadcast(first), on="namesrv_id").withColumns(said))
        house.write(given, bronze.HEARTBEATS, day)
        kept = of_days(house.table(bronze.REGISTRATIONS), [day]).where(~is_given)
        house.write(tables.cut_short(kept), bronze.REGISTRATIONS, day)
