"""A warehouse with the settings of one run, and what has been recorded in it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs import slice_files, tables
from jobs.conf import PipelineConf
from jobs.ledger import Ledger, read_ledger
from jobs.session import is_small
from jobs.settings import namesrvs_of, read_settings
from namesrv_core.machine.profile import Namesrv
from schemas import bronze, gold
from schemas.table import Table

DATA_TABLES = (*gold.HISTORY_TABLES, *gold.REPORT_TABLES)
"""The gold tables without the ledger: all are cut by day."""
WRITTEN_TABLES = (*bronze.TABLES, *DATA_TABLES)
_ONE_DAY, _AROUND = dt.timedelta(days=1), range(-2, 3)
WRITER = "namesrv-history"
"""First word of what every commit of ours says of itself; the second is the run."""


class Recorded(NamedTuple):
    """A file that was read: its digest, by which run, how much was in it, and on which days rows of that run are."""

    sha256: str
    ingest_run: str
    frames: int
    days: frozenset[dt.date]


@dataclass(frozen=True)
class Warehouse:
    """A warehouse with the settings of this run. Frames are kept until `forget`: opening a Delta table takes a while."""

    spark: SparkSession
    path: str
    conf: PipelineConf
    run_id: str
    started: dt.datetime
    _frames: dict[str, DataFrame] = field(default_factory=dict)
    _slices: dict[tuple[str, frozenset[dt.date]], DataFrame] = field(default_factory=dict)
    _files: dict[str, dict[dt.date, list[str]]] = field(default_factory=dict)
    _namesrvs: dict[dt.date, dict[str, Namesrv]] = field(default_factory=dict)
    _last_days: dict[str, dt.date] = field(default_factory=dict)
    _ledger: list[Ledger] = field(default_factory=list)
    _recorded: list[Recorded] = field(default_factory=list)
    replayed: set[dt.date] = field(default_factory=set)
    """Days that this run has replayed."""

    def __post_init__(self) -> None:
        self.spark.conf.set(tables.USER_METADATA, f"{WRITER} {self.run_id}")

    def table(self, table: Table) -> DataFrame:
        """Return a table as it is now, published or not."""
        if table.name not in self._frames:
            self._frames[table.name] = tables.read_table(self.spark, self.path, table)
        return self._frames[table.name]

    def slices(self, wanted: Iterable[Table], days: Collection[dt.date]) -> dict[str, DataFrame]:
        """Return the slices of `days` of the tables, by name, as they are now; of tables that are not cut by day, all."""
        cut, found = frozenset(days), {table.name: table for table in wanted}
        missing = [
            table for name, table in found.items() if (name, cut) not in self._slices and "day" in table.column_names
        ]
        opened = tables.in_parallel({table.name: partial(self._opened, table, cut) for table in missing})
        self._slices.update({(name, cut): frame for name, frame in opened.items()})
        return {
            name: self._slices[name, cut] if "day" in table.column_names else self.table(table)
            for name, table in found.items()
        }

    def _opened(self, table: Table, days: Collection[dt.date]) -> DataFrame:
        files = self._files_of(table, days)
        if files is None:
            return tables.of_days(self.table(table), days)
        return slice_files.rows_of_files(self.spark, self.path, table, files)

    def _files_of(self, table: Table, days: Collection[dt.date]) -> list[str] | None:
        """Return the data files of the slices of `days`; None where a table is more than its files."""
        known = self._files.setdefault(table.name, {})
        if not known.keys() >= set(days):
            # Other days are asked for soon, those that a night starts from and those around it; now they cost nothing.
            around = {day + _ONE_DAY * n for day in days for n in _AROUND} - known.keys()
            found = slice_files.files_by_day(self.spark, self.path, table, self.table(table), around)
            if found is None:
                return None
            known.update(found)
        return [name for day in sorted(days) for name in known[day]]

    def is_without(self, table: Table, day: dt.date) -> bool:
        """Return whether `table` has been written but has no rows of `day`."""
        if not tables.exists(self.spark, self.path, table):
            return False
        files = self._files_of(table, [day])
        return not (tables.of_days(self.table(table), [day]).inputFiles() if files is None else files)

    def write(self, frame: DataFrame, table: Table, day: dt.date, *, rows: int = 0) -> None:
        """Replace the slice of `day` in `table` by `frame`, in one commit. Rows of other days are an error.

        `rows`: about how many there are, if that is known.
        """
        if not tables.exists(self.spark, self.path, table):
            self._files_of(table, [day])  # notes that it has no files of other days
        tables.write_days(frame, self.path, table, [day], rows=rows)
        written = slice_files.files_last_written(self.spark, self.path, table, [day])
        known = self._files.get(table.name, {})
        known.pop(day, None)
        self.forget(table)
        self._files[table.name] = {**known, **(written or {})}

    def published_slices(self, wanted: Iterable[Table], days: Collection[dt.date]) -> dict[str, DataFrame]:
        """Return the slices of `days` of the tables, by name, as the last published run left them."""
        found = {table.name: table for table in wanted}
        return tables.in_parallel({name: partial(self._published_slices, found[name], days) for name in found})

    def _published_slices(self, table: Table, days: Collection[dt.date]) -> DataFrame:
        return slice_files.files_of_days(self.spark, self.path, table, self.published(table), days)

    def published(self, table: Table) -> DataFrame:
        """Return a table as the last published run left it; empty where that run did not know it."""
        last = self.ledger().last
        version = None if last is None else last.versions.get(table.name)
        if version is None:
            return tables.empty(self.spark, table.schema)
        return tables.read_table(self.spark, self.path, table, version)

    def bronze(self) -> dict[str, DataFrame]:
        """Return the bronze tables by name."""
        return {table.name: self.table(table) for table in bronze.TABLES}

    def data(self) -> dict[str, DataFrame]:
        """Return the gold tables, without the ledger, by name."""
        return {table.name: self.table(table) for table in DATA_TABLES}

    def recorded(self) -> list[Recorded]:
        """Return the files that were read."""
        if not self._recorded:
            rows = self.table(bronze.SOURCES).select("content_sha256", "ingest_run", "frames", "days").collect()
            self._recorded.extend(
                Recorded(row["content_sha256"], row["ingest_run"], row["frames"], frozenset(row["days"]))
                for row in rows
            )
        return self._recorded

    def going_on(self, names: Collection[str], day: dt.date) -> set[str]:
        """Return those of the name servers of which something is recorded after `day`."""
        later = days_of(self.recorded(), first=day + _ONE_DAY)
        # Mostly the next day tells. All days are asked for one that is not there, and once: a backfill asks for each of its days.
        found = _seen_from(self.slices(bronze.RECORDED_TABLES, later[:1]).values()) if later else set()
        if len(later) > 1 and not found.issuperset(names):
            if not self._last_days:
                self._last_days.update(_last_days(map(self.table, bronze.RECORDED_TABLES)))
            found |= {name for name, last in self._last_days.items() if last > day}
        return found.intersection(names)

    def ledger(self) -> Ledger:
        """Return what the published runs say together. Raises LayoutError where the warehouse has another layout."""
        if not self._ledger:
            self._ledger.append(read_ledger(self.table(gold.RUNS), self.path))
        return self._ledger[0]

    def forget(self, *written: Table) -> None:
        """Read these tables anew next time; to be called by whoever has written them."""
        names = {table.name for table in written}
        for name in names:
            self._frames.pop(name, None)
            self._files.pop(name, None)
        for key in list(self._slices):
            if key[0] in names:
                self._slices.pop(key, None)
        if gold.NAMESRV_SETTINGS in written:
            self._namesrvs.clear()
        if gold.RUNS in written:
            self._ledger.clear()
        if bronze.SOURCES in written:
            self._recorded.clear()
            self._last_days.clear()

    def namesrvs(self, day: dt.date) -> dict[str, Namesrv]:
        """Return every name server with its generation and configuration, as `day` was replayed."""
        if day not in self._namesrvs:
            self._namesrvs[day] = namesrvs_of(read_settings(self.table(gold.NAMESRV_SETTINGS), day), day)
        return self._namesrvs[day]

    @property
    def quiet_road(self) -> bool:
        """Return whether quiet units are to be told from others; for few events that costs more than it saves."""
        wanted = self.conf.quiet_road
        return not is_small(self.spark) if wanted is None else wanted

    @property
    def docs_dir(self) -> Path:
        """Return the folder of the Data Docs."""
        return (tables.local_path(self.path) or Path.cwd()) / "data_docs"


def _seen_from(frames: Iterable[DataFrame]) -> set[str]:
    """Return the name servers that the frames have rows of."""
    named = tables.union_all(frame.select("namesrv_id").distinct() for frame in frames)
    return {row["namesrv_id"] for row in named.distinct().collect()}


def _last_days(frames: Iterable[DataFrame]) -> dict[str, dt.date]:
    """Return the last day of each name server that the frames have rows of."""
    named = tables.union_all(frame.select("namesrv_id", "day").distinct() for frame in frames)
    return {
        row["namesrv_id"]: row["day"] for row in named.groupBy("namesrv_id").agg(F.max("day").alias("day")).collect()
    }


def run_of(commit: Row) -> str | None:
    """Return the run that made a commit (a row of `tables.commits_after`); None if it is not of this software."""
    writer, _, run_id = (commit["userMetadata"] or "").partition(" ")
    return run_id if writer == WRITER else None


def days_of(read: Iterable[Recorded], first: dt.date | None = None, last: dt.date | None = None) -> list[dt.date]:
    """Return the days with recorded rows, from `first` to `last`."""
    days = {day for source in read for day in source.days}
    return sorted(d for d in days if (first is None or d >= first) and (last is None or d <= last))
