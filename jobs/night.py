"""The steps of a night, each of which can also be run alone.

ingest -> validate -> replay -> flag -> verify -> publish. A step reads what the one before has written; readers see nothing of it
until `publish` has written the run's row into the ledger, `runs`.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import __version__, quality, tables
from jobs.conf import PipelineConf
from jobs.contexts import namesrv_days
from jobs.day_plan import DayPlan, Unit, planned_day
from jobs.evidence import DELETION, IDLE_LIMIT, candidates_from, votes_from, weighed_from
from jobs.flag import flag
from jobs.ingest import Ingested
from jobs.order import decided_day
from jobs.replay import REPLAYED_TABLES, not_quiet_of, replayed_day, table_from
from jobs.replay_unit import NamesrvDay
from jobs.session import is_small
from jobs.settings import DaySettings, known_settings, namesrvs_of, read_settings, under_idle_limit
from jobs.verify import (
    answer_checks_from,
    explained_answers_from,
    judged_from,
    responses_of,
    route_mismatches_from,
    verdicts_from,
)
from namesrv_core.profile import Namesrv
from schemas import bronze, codec, gold
from schemas.table import Table

log = logging.getLogger(__name__)
_FLAGGED = (gold.ROUTE_CHANGES, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS, gold.FINDINGS)
_DATA_TABLES = (*gold.HISTORY_TABLES, *gold.REPORT_TABLES)


class WarehouseBusyError(RuntimeError):
    """Another run is writing to the same warehouse."""


class GateError(RuntimeError):
    """Critical rules are broken; nothing was published."""


@dataclass(frozen=True)
class Warehouse:
    """A warehouse with the settings of this run. Frames are kept until `forget`: opening a Delta table takes a while."""

    spark: SparkSession
    path: str
    conf: PipelineConf
    run_id: str
    started: dt.datetime
    _frames: dict[str, DataFrame] = field(default_factory=dict)
    _namesrvs: dict[dt.date, dict[str, Namesrv]] = field(default_factory=dict)

    def table(self, table: Table) -> DataFrame:
        """Return a table as it is now, published or not."""
        if table.name not in self._frames:
            self._frames[table.name] = tables.read_table(self.spark, self.path, table)
        return self._frames[table.name]

    def bronze(self) -> dict[str, DataFrame]:
        """Return the bronze tables by name."""
        return {table.name: self.table(table) for table in bronze.TABLES}

    def data(self) -> dict[str, DataFrame]:
        """Return the gold tables, without the ledger, by name."""
        return {table.name: self.table(table) for table in _DATA_TABLES}

    def forget(self, *written: Table) -> None:
        """Read these tables anew next time; to be called by whoever has written them."""
        for table in written:
            self._frames.pop(table.name, None)
        if gold.NAMESRV_SETTINGS in written:
            self._namesrvs.clear()

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


@dataclass
class Published:
    """What `publish` has done."""

    digests: dict[str, str] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@contextmanager
def lease(warehouse: str) -> Iterator[None]:
    """Hold the warehouse for writing. Raises WarehouseBusyError if another run holds it.

    Delta's commits on a plain file system are not safe between processes, so one run at a time writes.
    """
    path = tables.local_path(warehouse)
    if path is None:
        yield
        return
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lease").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WarehouseBusyError(f"{warehouse}: another run is writing to this warehouse") from error
        yield


class Recorded(NamedTuple):
    """A file that was read: by which run, how much was in it, and on which days rows of that run are."""

    ingest_run: str
    frames: int
    days: frozenset[dt.date]


def recorded(house: Warehouse) -> list[Recorded]:
    """Return the files that were read."""
    rows = house.table(bronze.SOURCES).select("ingest_run", "frames", "days").collect()
    return [Recorded(row["ingest_run"], row["frames"], frozenset(row["days"])) for row in rows]


def days_of(read: Iterable[Recorded], first: dt.date | None = None, last: dt.date | None = None) -> list[dt.date]:
    """Return the days with recorded rows, from `first` to `last`."""
    days = {day for source in read for day in source.days}
    return sorted(d for d in days if (first is None or d >= first) and (last is None or d <= last))


def uncovered(house: Warehouse, read: Sequence[Recorded]) -> tuple[list[str], dt.date | None]:
    """Return the ingest runs that no published run covers, and the first day with rows of theirs.

    With another configuration or version of this software than last time, every day is uncovered.
    """
    published = house.table(gold.RUNS).where("status = 'published'")
    runs = published.select("ingest_runs", "config_sha256", "code_version", "finished_time").collect()
    latest = max(runs, key=lambda run: run["finished_time"], default=None)
    covered = {ingest_run for run in runs for ingest_run in run["ingest_runs"]}
    in_force = (house.conf.sha256, __version__)
    changed = latest is not None and (latest["config_sha256"], latest["code_version"]) != in_force
    left = [source for source in read if source.ingest_run not in covered]
    first = min((day for source in (read if changed else left) for day in source.days), default=None)
    return sorted({source.ingest_run for source in left}), first


def validate(house: Warehouse, ingested: Ingested | None = None) -> list[str]:
    """Judge the bronze tables; return warnings. Raises GateError if a critical rule is broken or too much was quarantined."""
    if ingested is not None and ingested.frames:
        share, limit = ingested.quarantined / ingested.frames, house.conf.quarantine_share_max
        if share > limit and ingested.quarantined > house.conf.quarantine_frames_min:
            raise GateError(
                f"{ingested.quarantined} of {ingested.frames} frames are quarantined ({share:.1%}); "
                f"the limit is {limit:.1%} (conf: ingest.quarantine_share_max)"
            )
        if ingested.unaccounted:
            raise GateError(
                f"{ingested.unaccounted} frames are neither events, answers, duplicates, quarantined nor ignored"
            )
    return _judged(house, bronze.TABLES)


def validate_all(house: Warehouse) -> list[str]:
    """Judge all tables as they are now; return warnings. Raises GateError if a critical rule is broken."""
    return _judged(house, (*bronze.TABLES, *_DATA_TABLES))


def _judged(house: Warehouse, judged: Sequence[Table]) -> list[str]:
    frames = {**house.bronze(), **house.data()}
    verdict = quality.judge(quality.measure(house.spark, frames, [t.name for t in judged]), house.docs_dir)
    broken = [*verdict.critical, *(f"{rule} (not judged)" for rule in verdict.skipped)]
    if broken:
        raise GateError(f"{'; '.join(broken)}; see {verdict.docs_path}")
    return list(verdict.warnings)


def replay(house: Warehouse, days: Sequence[dt.date]) -> list[dt.date]:
    """Replay `days` in order and write their slices of the replayed tables; return the days that were replayed.

    They are more than `days` where one of them shows how a name server was configured since its process started, and
    earlier days had been replayed otherwise: those are replayed again, with what is known now.
    """
    pending, done = sorted(days), set[dt.date]()
    while pending:
        day = pending.pop(0)
        earlier = _replay_day(house, day)
        if earlier:
            pending = sorted({day, *earlier, *pending})
        else:
            done.add(day)
    return sorted(done)


def _replay_day(house: Warehouse, day: dt.date) -> list[dt.date]:
    """Replay a day. If earlier days must be replayed before, only note its settings, and return those days."""
    carried = _carried(house, day)
    raw = house.bronze()
    known = known_settings(raw, house.table(gold.NAMESRV_SETTINGS), day, house.conf)
    known, frames, contexts = _settled(house, raw, carried, known.with_votes(votes_from(raw, carried, known)))
    work = {"namesrv_settings": _writing(house, known.frame(house.spark), gold.NAMESRV_SETTINGS, day)}
    since_seq = known.reconsidered_since
    if since_seq is not None:
        earlier = [d for d in days_of(recorded(house), first=codec.day_of(since_seq // 1_000)) if d < day]
        if earlier:
            tables.in_parallel(work)
            house.forget(gold.NAMESRV_SETTINGS)
            return earlier
    folder = f"{house.path}/_staging/{house.run_id}-replay"
    staged, plan, decisions = _staged_replay(house, frames, carried, day, contexts, folder)
    work.update({t.name: _writing(house, table_from(staged, plan, t, day), t, day) for t in REPLAYED_TABLES})
    work["order_decisions"] = _writing(house, decisions, gold.ORDER_DECISIONS, day)
    tables.in_parallel(work)
    tables.remove(house.spark, folder)
    house.spark.catalog.clearCache()
    house.forget(*REPLAYED_TABLES, gold.ORDER_DECISIONS, gold.NAMESRV_SETTINGS)
    return []


def _staged_replay(
    house: Warehouse,
    frames: dict[str, DataFrame],
    carried: dict[str, DataFrame],
    day: dt.date,
    contexts: dict[str, NamesrvDay],
    folder: str,
) -> tuple[DataFrame, DayPlan, DataFrame]:
    """Replay the day into Parquet files in `folder`; return them, the plan they follow, and the order decisions."""
    not_quiet: set[Unit] = set()
    while True:
        plan = planned_day(
            house.spark, frames, carried, day, contexts, quiet_road=house.quiet_road, not_quiet=not_quiet
        )
        decisions, order = decided_day(house.spark, plan.events, frames, carried, day, contexts)
        wide = replayed_day(plan, frames["topic_configs"], contexts, order)
        wide.write.mode("overwrite").parquet(folder)
        staged = house.spark.read.parquet(folder)
        found = not_quiet_of(staged) if plan.quiet is not None else set()
        if not found:
            return staged, plan, decisions
        log.warning("%s: %d units are not as quiet as their heartbeats look; replayed one by one", day, len(found))
        not_quiet |= found


def _settled(
    house: Warehouse, raw: dict[str, DataFrame], carried: dict[str, DataFrame], known: DaySettings
) -> tuple[DaySettings, dict[str, DataFrame], dict[str, NamesrvDay]]:
    """Return what is known after weighing what only a replay tells, the events as they follow, and the days' contexts."""
    candidates = candidates_from(raw, known)
    frames, contexts = _under(house, raw, carried, known)
    if IDLE_LIMIT in candidates:
        votes = weighed_from(IDLE_LIMIT, candidates[IDLE_LIMIT], raw, carried, known, contexts)
        known = known.with_votes(votes)
        frames, contexts = _under(house, raw, carried, known)
    if DELETION in candidates:
        votes = weighed_from(DELETION, candidates[DELETION], frames, carried, known, contexts)
        known = known.with_votes(votes)
    namesrvs = known.namesrvs
    return known, frames, {name: replace(context, namesrv=namesrvs[name]) for name, context in contexts.items()}


def _under(
    house: Warehouse, raw: dict[str, DataFrame], carried: dict[str, DataFrame], known: DaySettings
) -> tuple[dict[str, DataFrame], dict[str, NamesrvDay]]:
    frames = {**raw, "channel_events": under_idle_limit(raw["channel_events"], house.spark, known)}
    return frames, namesrv_days(frames, carried, known.day, known.namesrvs)


def _writing(house: Warehouse, frame: DataFrame, table: Table, day: dt.date) -> Callable[[], None]:
    return partial(tables.write_days, frame, house.path, table, [day])


def _carried(house: Warehouse, day: dt.date) -> dict[str, DataFrame]:
    """Return the slices of the last day before `day` that has any; every name server's state is carried through each day."""
    carried = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.PAST_KNOWLEDGE)
    frames = {table.name: house.table(table) for table in carried}
    last_days = tables.union_all(
        frame.where(F.col("day") < F.lit(day)).agg(F.max("day").alias("day")) for frame in frames.values()
    )
    before = max((row["day"] for row in last_days.collect() if row["day"] is not None), default=None)
    if before is None:
        return {name: frame.where("false") for name, frame in frames.items()}
    sliced = {name: frame.where(F.col("day") == F.lit(before)) for name, frame in frames.items()}
    # What ended the scan for good may have happened on any day before.
    sliced["event_outcomes"] = frames["event_outcomes"].where(F.col("day") < F.lit(day))
    return sliced


def flag_days(house: Warehouse, days: Sequence[dt.date]) -> None:
    """Write route_changes, expired_brokers, orphaned_topics and findings of `days`."""
    for day in days:
        flagged = flag(house.spark, house.data(), house.bronze(), house.namesrvs(day), [day])
        tables.in_parallel(
            {t.name: partial(tables.write_days, flagged[t.name], house.path, t, [day]) for t in _FLAGGED}
        )
        house.spark.catalog.clearCache()
        house.forget(*_FLAGGED)


def verify_days(house: Warehouse, days: Sequence[dt.date]) -> None:
    """Write answer_checks and route_mismatches of `days`."""
    frames, replayed = house.bronze(), house.data()
    requests = [frames[t.name] for t in (bronze.REGISTRATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)]
    for day in days:
        arrivals = tables.union_all(
            frame.where((F.col("day") == F.lit(day)) & F.col("response_code").isNotNull()).select(
                "event_id", F.unix_micros("event_time").alias("arrival_us")
            )
            for frame in requests
        )
        observations = frames["route_observations"].where(F.col("day") == F.lit(day))
        namesrvs = house.namesrvs(day)
        responses, outcomes = responses_of(frames, day), replayed["event_outcomes"]
        verdicts = verdicts_from(replayed, outcomes, arrivals, observations, responses, day, namesrvs)
        judged = judged_from(verdicts, observations, responses, explained_answers_from(replayed, day)).persist()
        found = {gold.ANSWER_CHECKS: answer_checks_from(judged), gold.ROUTE_MISMATCHES: route_mismatches_from(judged)}
        tables.in_parallel(
            {t.name: partial(tables.write_days, rows, house.path, t, [day]) for t, rows in found.items()}
        )
        judged.unpersist()
    house.forget(gold.ANSWER_CHECKS, gold.ROUTE_MISMATCHES)


def publish(
    house: Warehouse,
    days: Sequence[dt.date],
    ingest_runs: Sequence[str],
    counts: Mapping[str, int],
    seconds: Mapping[str, float],
) -> Published:
    """Judge the gold tables and, if they pass, write the run into the ledger: from then on readers see it.

    Raises GateError, after noting the refusal in the ledger, if a critical rule is broken.
    """
    data = house.data()
    try:
        warnings = _judged(house, _DATA_TABLES)
    except GateError as error:
        _write_run(house, "refused", str(error), days, [], {}, counts, seconds)
        raise
    digests = tables.digests(data)
    _write_run(house, "published", "passed", days, ingest_runs, digests, counts, seconds)
    return Published(digests, row_counts(digests), warnings)


def row_counts(digests: Mapping[str, str]) -> dict[str, int]:
    """Return the number of rows of each table; a digest begins with it."""
    return {name: int(digest.split("-", maxsplit=1)[0]) for name, digest in digests.items()}


def _write_run(
    house: Warehouse,
    status: str,
    gate: str,
    days: Sequence[dt.date],
    ingest_runs: Sequence[str],
    digests: Mapping[str, str],
    counts: Mapping[str, int],
    seconds: Mapping[str, float],
) -> None:
    written = (*bronze.TABLES, *_DATA_TABLES)
    versions = tables.in_parallel({t.name: partial(tables.version_of, house.spark, house.path, t) for t in written})
    row = {
        "run_id": house.run_id,
        "started_time": house.started,
        "finished_time": dt.datetime.now(dt.timezone.utc),
        "status": status,
        "days": list(days),
        "ingest_runs": list(ingest_runs),
        "versions": {name: version for name, version in versions.items() if version is not None},
        "digests": dict(digests),
        "counts": dict(counts),
        "seconds": dict(seconds),
        "gate": gate,
        "code_version": __version__,
        "config_sha256": house.conf.sha256,
    }
    tables.append(house.spark.createDataFrame([row], gold.RUNS.schema), house.path, gold.RUNS)
    house.forget(gold.RUNS)
