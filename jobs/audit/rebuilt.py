"""A name server's registry at an instant, rebuilt from the recorded events alone, and what the published slices say of it.

Reads   what a published run has pinned: bronze tables, namesrv_settings and the ledger for the rebuilding; the functions
        `..._table_at(t)` for what is published
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ask.engine import Answers
from jobs.ask.tables import FUNCTIONS
from jobs.errors import UsageError
from jobs.store.coverage import require_covered
from jobs.store.published import IN_FORCE, sha256_of_file
from namesrv_core.history.snapshot import Snapshot
from namesrv_day.arrow.digest import Digest, Slice, slices_of
from namesrv_day.arrow.rows import conformed
from namesrv_day.audit.attested import Rows, rows_of_table
from namesrv_day.audit.sequential import Sequential
from namesrv_day.day.context import BEGINNINGS, SettleInput
from schemas import asked, bronze, gold
from schemas.table import Table
from schemas.times import day_of, instant_us

# What a snapshot does not say of its rows.
_UNSAID_BY_SNAPSHOTS = {"valid_from", "opened_by"}
_UNSAID_OF_LIVE = _UNSAID_BY_SNAPSHOTS | {"broker_name"}
# Tables of which readers see a view under their own name.
_READERS_NAMES = {stored.table: name for name, stored in asked.stored().items()}


@dataclass
class Rebuilt:
    """What came of it.

    `replayed`, `published`: rows by table, with the same columns. `read`: of the slices that were read the digests as they
    are; `expected`: as the ledger has them. `files`: SHA-256 of the data files that were read, by table and path below the
    warehouse. `sources`: the recordings from which the events were read. `published_decisions`: which orders are published to
    have been taken on these days; None: a snapshot began in the middle of one.
    """

    sequence: Sequential
    replayed: dict[str, Rows] = field(default_factory=dict)
    published: dict[str, Rows] = field(default_factory=dict)
    read: dict[Slice, Digest] = field(default_factory=dict)
    expected: dict[Slice, Digest] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    published_decisions: dict[str, int] | None = None


def rebuild(
    answers: Answers, namesrv_id: str, at: dt.datetime, tables: Sequence[str], snapshot: Snapshot | None = None
) -> Rebuilt:
    """Rebuild tables of a name server (keys of `FUNCTIONS`) at an instant from its first event, or from a snapshot on.

    Raises NotRecordedError for an instant of which nothing is recorded, SnapshotUnknownError for an unknown name server,
    UsageError for a snapshot that does not fit.
    """
    require_covered(answers.coverage, namesrv_id, at)
    return _Audit(answers, namesrv_id, instant_us(at), snapshot).rebuilt(at, tables)


class _Audit:
    """One name server up to an instant, read day by day."""

    def __init__(self, answers: Answers, namesrv_id: str, at_us: int, snapshot: Snapshot | None) -> None:
        self._answers, self._namesrv_id, self._at_us, self._snapshot = answers, namesrv_id, at_us, snapshot
        self._done = Rebuilt(Sequential(namesrv_id, snapshot))
        self._named: set[tuple[str, str]] = set()
        self._first_seen: int | None = None
        self._ever: dict[str, pa.Table] = {}
        self._require_fitting(snapshot)
        in_force = answers.table(
            f"SELECT * FROM ({IN_FORCE}) WHERE namesrv_id = $id",  # noqa: S608  text of ours
            id=namesrv_id,
            bronze=[table.name for table in bronze.TABLES],
        )
        self._ledger = {
            Slice(row["table"], row["day"], row["namesrv_id"]): Digest.parse(row["digest"])
            for row in in_force.to_pylist()
        }

    def rebuilt(self, at: dt.datetime, tables: Sequence[str]) -> Rebuilt:
        """Apply day after day, then compare."""
        done = self._done
        days = self._days()
        for day in days:
            given, settings = self._given(day)
            try:
                done.sequence.take(given, settings, self._at_us)
            except ValueError as error:
                raise UsageError(str(error)) from error
            done.settings = [*conformed(settings, gold.NAMESRV_SETTINGS).drop_columns("evidence").to_pylist()]
        if self._snapshot is None:
            order = [("effect_time", "ascending"), ("decision_id", "ascending")]
            rows = self._read(gold.ORDER_DECISIONS, days).sort_by(order)
            chosen = zip(rows["decision_id"].to_pylist(), rows["chosen"].to_pylist(), strict=True)
            done.published_decisions = dict(chosen)
        for name in tables:
            function = FUNCTIONS[name]
            of_rows = "WHERE namesrv_id = $id AND opened_by IS NOT NULL"
            wanted = f"SELECT * EXCLUDE (known, coverage) FROM {function}($t) {of_rows}"  # noqa: S608  a name of ours
            published = self._answers.table(wanted, t=at, id=self._namesrv_id)
            own = done.sequence.rows(function.replace("_table_at", "_history"))
            columns = self._compared(name, published.column_names)
            done.published[name] = rows_of_table(published.select(columns))
            done.replayed[name] = rows_of_table(own.select(columns))
        done.expected = {cut: self._ledger.get(cut, Digest()) for cut in done.read}
        done.sources = self._sources()
        return done

    def _compared(self, table: str, columns: Sequence[str]) -> list[str]:
        unsaid = _UNSAID_OF_LIVE if table == "brokerLiveTable" else _UNSAID_BY_SNAPSHOTS
        return [name for name in columns if self._snapshot is None or name not in unsaid]

    def _require_fitting(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            return
        if snapshot.namesrv_id != self._namesrv_id:
            raise UsageError(f"the snapshot is of {snapshot.namesrv_id}, not of {self._namesrv_id}")
        if snapshot.at_us > self._at_us:
            raise UsageError("the snapshot is later than the instant that is audited")

    def _days(self) -> list[dt.date]:
        """Return the days to be replayed, in order."""
        days = sorted({cut.day for cut in self._ledger if cut.table == gold.NAMESRV_SETTINGS.name})
        wanted = [day for day in days if day <= day_of(self._at_us)]
        first = wanted[0] if self._snapshot is None else day_of(self._snapshot.at_us)
        return [day for day in wanted if day >= first]

    def _given(self, day: dt.date) -> tuple[SettleInput, pa.Table]:
        """Return what a day is replayed from, and its settings."""
        today = {table.name: self._read(table, [day]) for table in (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS)}
        self._note_sources(today)
        ever = self._ever_until(day, today)
        begun = pc.any(pc.is_in(ever[bronze.NAMESRV_EVENTS.name]["kind"], value_set=pa.array(BEGINNINGS))).as_py()
        given = SettleInput(
            self._namesrv_id,
            day,
            today,
            lambda kind, *, columns=None, where=None: _part(today[kind], columns, where),
            self._topic_configs,
            ever=ever,
            first_seen_seq=None if begun else self._first_seen_seq(),
            going_on=any(known > day for known in self._heard()),
        )
        return given, self._read(gold.NAMESRV_SETTINGS, [day])

    def _ever_until(self, day: dt.date, today: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Return what tells when it began, this day's among it."""
        for table in (bronze.NAMESRV_EVENTS, bronze.SNAPSHOTS):
            if table.name not in self._ever:
                self._ever[table.name] = self._read(table, [one for one in self._heard() if one < day])
            self._ever[table.name] = pa.concat_tables([self._ever[table.name], today[table.name]])
        return dict(self._ever)

    def _heard(self) -> set[dt.date]:
        """Return the days on which something is recorded of the name server."""
        recorded = {table.name for table in bronze.RECORDED_TABLES}
        return {cut.day for cut in self._ledger if cut.table in recorded}

    def _first_seen_seq(self) -> int | None:
        """Return the position of its first event ever."""
        if self._first_seen is None:
            first = [min(self._heard())]
            found = (pc.min(self._read(table, first)["seq"]).as_py() for table in bronze.EVENT_TABLES)
            self._first_seen = min((seq for seq in found if seq is not None), default=None)
        return self._first_seen

    def _read(self, table: Table, days: Sequence[dt.date]) -> pa.Table:
        """Return the name server's rows of some days, and note what was read."""
        among = ", ".join(f"DATE '{day}'" for day in days) or "NULL"
        where = f"namesrv_id = $id AND day IN ({among})"
        found = self._answers.table(f"SELECT * FROM {table.name} WHERE {where}", id=self._namesrv_id)  # noqa: S608  names of ours
        rows = conformed(found, table)
        if any(Slice(table.name, day, self._namesrv_id) not in self._done.read for day in days):
            self._done.read |= slices_of(table.name, rows)
            self._done.read |= {
                cut: Digest()
                for day in days
                if (cut := Slice(table.name, day, self._namesrv_id)) not in self._done.read
            }
            self._note_files(table, days)
        return rows

    def _topic_configs(self, digests: pa.ChunkedArray) -> pa.Table:
        table = bronze.TOPIC_CONFIGS_TABLE
        wanted = "SELECT * FROM topic_configs WHERE list_contains($digests, topic_config_digest)"
        self._note_files(table, None)
        return conformed(self._answers.table(wanted, digests=digests.to_pylist()), table)

    def _note_files(self, table: Table, days: Collection[dt.date] | None) -> None:
        noted = self._done.files.setdefault(table.name, {})
        files = self._answers.files(_READERS_NAMES[table.name])
        for number, path in enumerate(files.paths):
            if path not in noted and (days is None or files.told["day"][number] in days):
                noted[path] = sha256_of_file(f"{self._answers.warehouse}/{path}")

    def _note_sources(self, frames: Mapping[str, pa.Table]) -> None:
        for rows in frames.values():
            if "source_file" in rows.column_names:
                named = rows.select(["source_file", "ingest_run"]).group_by(["source_file", "ingest_run"]).aggregate([])
                self._named |= {(row["source_file"], row["ingest_run"]) for row in named.to_pylist()}

    def _sources(self) -> list[dict[str, Any]]:
        sql = "SELECT source_file, ingest_run, kind, content_sha256 FROM sources ORDER BY ALL"
        rows = self._answers.table(sql).to_pylist()
        return [row for row in rows if (row["source_file"], row["ingest_run"]) in self._named]


def _part(rows: pa.Table, columns: Sequence[str] | None, where: pc.Expression | None) -> pa.Table:
    found = rows if where is None else rows.filter(where)
    return found if columns is None else found.select(columns)
