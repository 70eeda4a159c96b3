"""The fleets that the benchmarks run on, by name and scale, and warehouses with their days in them."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from jobs.conf import PipelineConf
from jobs.night import nightly
from jobs.night.judging import FLAGS, OUTCOMES
from jobs.night.night import Night
from jobs.night.passes import Passes
from jobs.store.warehouse import DATA_TABLES, Warehouse
from schemas import bronze, gold
from schemas.table import Table
from tools.bench.engines import Expiries
from tools.fleet.fleet import Fleet
from tools.fleet.simulate import simulate

START = dt.date(2026, 1, 1)
# All holes are longer than the lease and a period of the scan: no engine has to know the phase of the scan.
_HOLES: dict[str, Any] = {"outage_s": (150, 900)}
_QUIET = {"full": {**_HOLES, "outages": 0.0002}, "small": {**_HOLES, "outages": 0.004}}
_SIZE = {"full": {"brokers": 2_000, "namesrvs": 4}, "small": {"brokers": 16, "namesrvs": 2}}
_TOPICS: dict[str, dict[str, Any]] = {"full": {"brokers": 300, "topics": 10_000}, "small": {"topics": 50}}


def fleet_named(name: str, scale: str) -> Fleet:
    """Return the fleet of a benchmark: two beats a minute, of 4.9.7 unless it is to be compared with 5.4.0."""
    is_full = scale == "full"
    options: dict[str, dict[str, Any]] = {
        "quiet": {**_SIZE[scale], **_QUIET[scale]},
        "stormy": {**_SIZE[scale], **_HOLES, "outages": 0.01, "registrations": 0.05},
        "tenth": {**_SIZE[scale], **_QUIET[scale], **({"brokers": 200} if is_full else {})},
        "five": {**_SIZE[scale], **_QUIET[scale], "version": "5.4.0"},
        "wide": {**_TOPICS[scale], "namesrvs": 1, "shared_topics": True},
        "1x": {"brokers": 868, "namesrvs": 4} if is_full else {"brokers": 8},
        "10x": {"brokers": 8_681, "namesrvs": 4} if is_full else {"brokers": 80},
        "long": {**_QUIET[scale], "brokers": 40 if is_full else 4, "churn": 0.05},
    }
    return Fleet(START, **options[name])


@dataclass
class Fleets:
    """Warehouses under `folder`, made when they are first asked for."""

    spark: SparkSession
    passes: Passes
    folder: Path
    scale: str
    capture: Path | None = None
    _ready: set[tuple[str, int, bool]] = field(default_factory=set)

    def day(self, name: str, number: int = 2, *, published: bool = True) -> FleetDay:
        """Return day `number` (from 1) of a fleet; all days before are `published`: steady state."""
        fleet, days = fleet_named(name, self.scale), [START + dt.timedelta(days=n) for n in range(number)]
        path = self.folder / f"{self.scale}-{name}-{number}-{'published' if published else 'recorded'}"
        day = FleetDay(self, name, fleet, days[-1], path)
        if (name, number, published) not in self._ready:
            simulate(day.house(), self.passes, fleet, days[:-1])
            if published and day.house().ledger().last is None:
                nightly.run(day.house(), self.passes, nightly.Asked(), Silent())
            simulate(day.house(), self.passes, fleet, days[-1:])
            self._ready.add((name, number, published))
        return day


class Silent:
    """Shows nobody how far a run is."""

    def begin(self, step: str) -> None:
        """See `nightly.Shows`."""

    def progress(self, text: str) -> None:
        """See `Shows`."""

    def end(self, step: str, seconds: float) -> None:
        """See `nightly.Shows`."""


@dataclass(frozen=True)
class FleetDay:
    """A recorded day of a fleet, to be replayed as often as wanted, each time by a copy of its warehouse."""

    fleets: Fleets
    name: str
    fleet: Fleet
    date: dt.date
    path: Path

    @property
    def silence_ms(self) -> int:
        """Return the gap beyond which a broker has certainly been removed."""
        return self.fleet.lease_ms + self.fleet.profile.scan_period_ms

    @property
    def copy(self) -> Path:
        """Return where the copy lies."""
        return self.path.with_name(f"{self.path.name}-copy")

    def renew(self) -> None:
        """Make the copy what the warehouse is; files are linked, since nobody writes to one that is there."""
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.path, self.copy, copy_function=os.link)

    def house(self, path: Path | None = None, conf: PipelineConf | None = None) -> Warehouse:
        """Return a warehouse (None: the fleet's own) for one run, as a new process would open it."""
        run = f"bench-{uuid.uuid4().hex[:8]}"
        return Warehouse(str(path or self.path), conf or PipelineConf(), run, dt.datetime.now(dt.timezone.utc))

    # -- our side ------------------------------------------------------------------------------------------------------

    def replayed(self, passes: Passes | None = None) -> Expiries:
        """Replay and flag the day, commit it, and return the brokers that scans removed."""
        house = self.house(self.copy)
        house.start_from_published()
        night = Night(house, passes or self.fleets.passes, is_gated=False)
        night.replay_days([self.date], parts=(OUTCOMES, FLAGS))
        house.commit(DATA_TABLES)
        return self.expired()

    def whole_night(self, passes: Passes | None = None) -> Expiries:
        """Run all steps of a night but reading its input, and return the brokers that scans removed."""
        self.summary(passes)
        return self.expired()

    def summary(self, passes: Passes | None = None) -> nightly.Summary:
        """Run all steps of a night over what is not published, and return what it says of itself."""
        return nightly.run(self.house(self.copy), passes or self.fleets.passes, nightly.Asked(), Silent())

    def expired(self) -> Expiries:
        """Return what `expired_brokers` says of the day."""
        rows = self.rows(gold.EXPIRED_BROKERS, ["namesrv_id", "broker_addr", "last_beat_time"])
        ms = rows["last_beat_time"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
        return frozenset(zip(rows["namesrv_id"].to_pylist(), rows["broker_addr"].to_pylist(), ms, strict=True))

    def rows(self, table: Table, columns: list[str]) -> pa.Table:
        """Return columns of the day's slice of a gold table in the copy."""
        return self.house(self.copy).rows(table, [self.date], columns)

    # -- what the others get -------------------------------------------------------------------------------------------

    def files(self, table: Table, path: Path | None = None) -> list[str]:
        """Return the Parquet files of the day's slice."""
        house = self.house(path)
        return [f"{house.path}/{table.layer}/{table.name}/{file.path}" for file in house.files(table, [self.date])]

    @property
    def heartbeats(self) -> int:
        """Return how many heartbeats there are."""
        return sum(file.rows for file in self.house().files(bronze.HEARTBEATS, [self.date]))

    @cached_property
    def as_first_stored(self) -> DataFrame:
        """Return the heartbeats as Spark's own writer left them in the first version, whatever our layout is."""
        path = self.path.with_name(f"{self.path.name}-as-first-stored")
        spark = self.fleets.spark
        if not (path / "_SUCCESS").exists():
            spark.read.parquet(*self.files(bronze.HEARTBEATS)).write.mode("overwrite").parquet(str(path))
        return spark.read.parquet(str(path))

    def events(self) -> DataFrame:
        """Return the day's heartbeats, as first stored, and registrations: what renews a lease."""
        columns = ("namesrv_id", "broker_addr", "effect_time")
        registrations = [
            self.fleets.spark.read.parquet(*files) for files in [self.files(bronze.REGISTRATIONS)] if files
        ]
        events = self.as_first_stored.select(*columns)
        for more in registrations:
            events = events.unionAll(more.select(*columns))
        return events

    def beats(self, namesrv_id: str) -> pa.Table:
        """Return (broker_addr, ms) of a name server's heartbeats and registrations, in their order."""
        own, house = pc.field("namesrv_id") == namesrv_id, self.house()
        columns = ["broker_addr", "effect_time", "seq"]
        parts = [house.rows(table, [self.date], columns, own) for table in (bronze.HEARTBEATS, bronze.REGISTRATIONS)]
        found = pa.concat_tables(parts).sort_by("seq")
        ms = found["effect_time"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        return pa.table({"broker_addr": found["broker_addr"], "ms": ms})
