"""A warehouse as one run sees it: the versions from which it starts, its changes, and what has been recorded.

Nothing on disk is undone. Readers, and the next commit, leave out what a dead run committed.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from jobs import __version__
from jobs.conf import PipelineConf
from jobs.errors import LedgerBehindError, TamperedError, nobody
from jobs.store import delta_log
from jobs.store.coverage import RECORDED, Covered, covered_of
from jobs.store.delta_log import Version
from jobs.store.files import (
    DataFile,
    batches_of,
    digest_of,
    digests_of,
    is_rooted,
    namesrvs_in,
    pieces_of,
    read_files,
    require_intact,
    sha256_at,
    sha256_in,
    write_file,
)
from jobs.store.history import Shown, is_as_made, write_history
from jobs.store.ledger import (
    COLUMNS,
    IN_FORCE,
    LOG,
    Chain,
    Entry,
    Ledger,
    Pieces,
    ReadFile,
    Run,
    files_after,
    finished_after,
    last_commits,
    last_of,
    read_ledger,
    require_same,
    root_of_files,
)
from jobs.store.ledger import Files as Sealed
from jobs.store.names import Files
from jobs.store.places import filesystem_of, local_path, read_text, table_path, write_text
from jobs.store.published import BEHIND, HISTORY, LAST_RUN, LAYOUT, Noted, noted_in, require_not_behind
from namesrv_day.arrow import Digest, Slice, ask, digests_by, table_of
from schemas import asked, bronze, gold
from schemas.table import Table
from schemas.times import instant_us

log = logging.getLogger(__name__)
DATA_TABLES: Final = (*gold.HISTORY_TABLES, *gold.REPORT_TABLES)
"""The gold tables without the ledger: histories, and tables cut by day."""
WRITTEN_TABLES: Final = (*bronze.TABLES, *DATA_TABLES)
"""The tables whose versions a run pins."""
TABLES: Final = {table.name: table for table in (*WRITTEN_TABLES, gold.RUNS)}
"""The tables that users query, by name."""
_MANY, _SMALL_BYTES = 16, 16 << 20
# Each run adds a small file to these. A run reads them several times, so their rows are kept in memory.
_KEPT = (gold.RUNS, bronze.SOURCES)


@dataclass(frozen=True, slots=True)
class _Change:
    """A run's uncommitted changes of a table, by path."""

    table: Table
    added: dict[str, DataFile] = field(default_factory=dict)
    dropped: dict[str, DataFile] = field(default_factory=dict)


class Warehouse:
    """A warehouse with the settings of one run. One thread at a time.

    Bronze tables are seen as finished runs (those that noted their files in `sources`) and other people left them. Gold tables
    are seen in their newest version, or after `start_from_published` as the last published run left them.
    """

    def __init__(self, path: str, conf: PipelineConf, run_id: str, started: dt.datetime) -> None:
        self.path, self.conf, self.run_id, self.started = path, conf, run_id, started
        self.is_published = False
        """Whether this run is published by now."""
        self.unnoted: OSError | None = None
        """The error, if noting the published run outside of the ledger failed."""
        self._from_published = False
        self._heads: dict[str, int] = {}
        self._bases: dict[str, int] = {}
        self._versions: dict[tuple[str, int], Version] = {}
        self._changes: dict[str, _Change] = {}
        self._ledger: Ledger | None = None
        self._chain: Chain | None = None
        self._end: Chain | None = None
        self._pieces: dict[tuple[str, str], Pieces] = {}
        self._recorded: list[ReadFile] | None = None
        self._kept: dict[str, tuple[list[str], pa.Table]] = {}
        self._in_force: pa.Table | None = None
        self._held: dict[str, set[dt.date | None]] = {}
        self._rearranged: dict[str, int] = {}

    @property
    def until_us(self) -> int:
        """Return the latest instant that can have been recorded, by the clock of the run."""
        return instant_us(self.started) + self.conf.ahead_limit_minutes * 60_000_000

    # -- reading -------------------------------------------------------------------------------------------------------

    def files(self, table: Table, days: Collection[dt.date] | None = None) -> list[DataFile]:
        """Return the data files of `table`, all or of some days, with this run's changes, ordered by day and name."""
        found = self._files_at(table, self._base(table), days)
        if table.name in self._changes:
            change = self._changes[table.name]
            mine = (file for file in change.added.values() if days is None or file.day is None or file.day in days)
            found = [*(file for file in found if file.path not in change.dropped), *mine]
        return sorted(found, key=lambda file: (file.day or dt.date.min, file.path))

    def rows(
        self,
        table: Table,
        days: Collection[dt.date] | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  pyarrow's own name for it
    ) -> pa.Table:
        """Return the rows of `files`. Raises TamperedError if a file cannot be read."""
        files = self.files(table, days)
        if table not in _KEPT:
            return read_files(self.path, table, files, columns, filter)
        paths, found = self._kept.get(table.name, ([], None))
        if found is None or paths != [file.path for file in files]:
            found = read_files(self.path, table, files)
            self._kept[table.name] = [file.path for file in files], found
        found = found if filter is None else found.filter(filter)
        return found if columns is None else found.select(columns)

    def published_files(self, table: Table, days: Collection[dt.date] | None = None) -> list[DataFile]:
        """Return the data files of `table` as the last published run left it; none if that run did not know it."""
        return self._files_at(table, self._pinned(table), days)

    def published_run(self, run_id: str) -> Run:
        """Return the published run with this id. Raises TamperedError if the ledger lacks it."""
        is_it = (pc.field("status") == "published") & (pc.field("run_id") == run_id)
        found = self.rows(gold.RUNS, filter=is_it)
        if not found.num_rows:
            raise TamperedError(f"{table_path(self.path, gold.RUNS)}: run {run_id} is not in it any more")
        return last_of(found)

    def files_of(self, run: Run, table: Table, days: Collection[dt.date] | None = None) -> list[DataFile]:
        """Return the data files of `table` as a published run left it."""
        return self._files_at(table, run.versions.get(table.name, -1), days)

    def published_rows(
        self,
        table: Table,
        days: Collection[dt.date] | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  as above
    ) -> pa.Table:
        """Return the rows of `published_files`."""
        return read_files(self.path, table, self.published_files(table, days), columns, filter)

    def _pinned(self, table: Table) -> int:
        """Return the version that the last published run pinned; -1 if that run did not know the table."""
        last = self.ledger().last
        return -1 if last is None else last.versions.get(table.name, -1)

    def _files_at(self, table: Table, number: int, days: Collection[dt.date] | None) -> list[DataFile]:
        return [] if number < 0 else self._version(table, number).files(days)

    def _version(self, table: Table, number: int) -> Version:
        if (table.name, number) not in self._versions:
            self._versions[table.name, number] = Version(self.path, table, number)
        return self._versions[table.name, number]

    # -- where a run starts --------------------------------------------------------------------------------------------

    def start_from_published(self) -> None:
        """See gold tables as the last published run left them, without what dead or refused runs have left in them since.

        Raises TamperedError if somebody else has changed published rows.
        """
        self.require_ledger()
        self.clear_staging()
        self._from_published = True
        self._bases.clear()
        try:
            self.note_last()
        except OSError as error:
            log.warning("what the last run published is not noted beside the tables: %s", error)
        for table in WRITTEN_TABLES:
            base = self._base(table)
            self.require_published(table)
            if base != self._heads[table.name]:
                reason = "no run has published it" if table.layer != "bronze" else "the run that wrote it noted no file"
                log.warning("taken back, since %s: %s", reason, table.name)

    def require_published(self, table: Table) -> None:
        """Raise TamperedError if somebody else has changed published rows. Days with new rows are not checked."""
        base, pinned, head = self._base(table), self._pinned(table), self._heads[table.name]
        if pinned < 0 or head == pinned:
            return
        commits = delta_log.commits_of(self.path, table, pinned, head)
        foreign = [commit for commit in commits if commit.days and commit.run_id is None]
        if not foreign:
            return
        first = foreign[-1].version
        restore = f"RESTORE TABLE delta.`{table_path(self.path, table)}` TO VERSION AS OF {first - 1}"
        remedy = f"Version {first} of the table is not ours; undo it with `sql`: {restore}"
        if not table.partition_by:
            files = (self._files_at(table, version, None) for version in (first - 1, base))
            was, found = (digests_by(read_files(self.path, table, of), "ingest_run") for of in files)
            if any(found.get(run) != digest for run, digest in was.items()):
                raise TamperedError(f"{table.name}: rows that were there are gone or changed", remedy)
            return
        days: set[dt.date] | None = set(self.ledger().days)
        if table.has_intervals:
            days = None
        elif table.layer == "bronze":
            covered = self.ledger().covered
            days = set(self.ledger().days) - {
                day for source in self.recorded() if source.ingest_run not in covered for day in source.days
            }
        changed = {day for commit in foreign for day in commit.days}
        days = days if days is None or None in changed else days & changed
        expected = self.slices_in_force(days, table=table.name)
        require_same(digests_of(self.path, table, self._files_at(table, head, days)), expected, remedy)

    def hold(self, tables: Iterable[Table], days: Collection[dt.date] | None = None) -> None:
        """Raise TamperedError unless the published rows of some days (None: of all) equal the ledger's digests.

        A table that is not cut by day is checked as a whole, a history from the first of the days on. Nothing is checked twice.
        """
        published = self.ledger().days
        last = self.ledger().last
        first = dt.date.min if days is None else min(days, default=None)
        for table in tables:
            held = self._held.setdefault(table.name, set())
            if not table.partition_by:
                known = None if last is None else last.digests.get(table.name)
                if known is not None and None not in held:
                    files = self._files_at(table, self.rearranged(table), None)
                    if (digest := digest_of(self.path, table, files)) != known:
                        where = table_path(self.path, table)
                        raise TamperedError(
                            f"{table.name}: rows of {where} have digest {digest}, the ledger says {known}"
                        )
                    require_intact(self.path, table, files)
                    held.add(None)
                continue
            wanted: set[dt.date | None] = {*(published if days is None else published.intersection(days))}
            if table.has_intervals:
                wanted = {day for day in (None, *published) if first and (day is None or day >= first)}
            wanted -= held
            if not wanted:
                continue
            by_day = None if table.has_intervals else {day for day in wanted if day is not None}
            files = self._files_at(table, self.rearranged(table), by_day)
            if table.has_intervals and first:
                files = [file for file in files if file.closed is None or file.closed[1] >= first]
            found = {
                cut: digest
                for cut, digest in digests_of(self.path, table, files).items()
                if cut.day not in held and (cut.day is None or first is None or cut.day >= first)
            }
            require_same(found, self.slices_in_force(wanted, table=table.name))
            require_intact(self.path, table, files)
            held |= wanted

    def rearranged(self, table: Table) -> int:
        """Return the last version with exactly the published rows, in whatever files they now lie; -1: none are published."""
        if table.name not in self._rearranged:
            number = self._pinned(table)
            later = delta_log.commits_of(self.path, table, number, delta_log.head_of(self.path, table))
            for commit in reversed([*later] if number >= 0 else []):
                if commit.days:
                    break
                number = commit.version
            self._rearranged[table.name] = number
        return self._rearranged[table.name]

    def hold_replaced(self) -> None:
        """Check the published rows of the tables and days from which this run has removed files.

        Rows that stay are written again with those that change, so they must be the published ones.
        """
        for change in [*self._changes.values()]:
            if change.table.has_intervals and change.dropped:
                # Open intervals may belong to any day.
                closed = (file.closed or (dt.date.max,) for file in change.dropped.values())
                self.hold([change.table], [min(days[0] for days in closed)])
            elif change.dropped:
                self.hold([change.table], {file.day for file in change.dropped.values() if file.day is not None})

    def _base(self, table: Table) -> int:
        """Return the version from which this run starts, or that it has committed; -1: there is none."""
        if table.name not in self._bases:
            self._heads[table.name] = delta_log.head_of(self.path, table)
            self._bases[table.name] = self._found_base(table, self._heads[table.name])
        return self._bases[table.name]

    def _found_base(self, table: Table, head: int) -> int:
        if table is gold.RUNS:
            return head
        pinned = self._pinned(table)
        if head < pinned:
            raise TamperedError(f"{table.name}: the ledger pins version {pinned}, but the table is at {head}")
        is_gold = table.layer != "bronze"
        if table is bronze.SOURCES or (is_gold and not self._from_published):
            return head
        finished = set() if is_gold else {source.ingest_run for source in self.recorded()}
        base = head
        for commit in delta_log.commits_of(self.path, table, pinned, head):
            if commit.days:
                if not is_gold and (commit.run_id is None or commit.run_id in finished):
                    break
                base = commit.version - 1
        return base

    # -- changing ------------------------------------------------------------------------------------------------------

    def replace(self, table: Table, days: Collection[dt.date] | None, files: Iterable[DataFile]) -> None:
        """Put `files` in place of the files of `days` (None: of all files) in `table`. Until `commit` only this run sees it."""
        self.change(table, files, self.files(table, days))

    def change(self, table: Table, add: Iterable[DataFile], remove: Iterable[DataFile] = ()) -> None:
        """Add files to `table` and remove others. Until `commit` only this run sees it."""
        change, add = self._changes.setdefault(table.name, _Change(table)), [*add]
        self._pieces.update({(table.name, file.path): file.pieces for file in add if file.pieces})
        for file in remove:
            if change.added.pop(file.path, None) is None:
                change.dropped[file.path] = file
        change.added.update((file.path, file) for file in add if change.dropped.pop(file.path, None) is None)
        self._forget(table)

    def write(self, table: Table, rows: pa.Table, day: dt.date | None = None, instead: Iterable[DataFile] = ()) -> None:
        """Write `rows` of one day (None: the table is not cut by day) in place of files. Until `commit` only this run sees it."""
        self.change(table, [write_file(rows, self.path, table, day, self.run_id)] if rows.num_rows else (), instead)

    def append(self, table: Table, rows: pa.Table) -> None:
        """Add rows to the ledger, whose own files are not in the chain. Until `commit` only this run sees it.

        Each run adds a few rows and reads all: many small files are put together.
        """
        small = [file for file in self.files(table) if file.size < _SMALL_BYTES]
        again = small if len(small) >= _MANY else []
        parts = [*batches_of(self.path, table, again), rows]
        self.change(table, [write_file(parts, self.path, table, None, self.run_id)], again)

    def commit(
        self, tables: Iterable[Table] | None = None, share: Callable[[int, int], None] = nobody
    ) -> dict[str, int]:
        """Commit this run's changes in `tables`, or in all: one version a table, in this order. Return the versions.

        `share` gets the number of finished tables, and of all. The same commit removes what dead runs have left above
        the version from which this run started. A table that is not there is created.
        Raises WarehouseBusyError if somebody else has changed rows since this run looked.
        """
        wanted = [change.table for change in self._changes.values()] if tables is None else list(tables)
        for number, table in enumerate(wanted):
            share(number, len(wanted))
            if table.name in self._changes:
                self._bases[table.name] = self._committed(table)
                self._forget(table)
        return {table.name: self._base(table) for table in wanted}

    def _committed(self, table: Table) -> int:
        base, head = self._base(table), delta_log.head_of(self.path, table)
        files = {file.path: file for file in self.files(table)} if base != head else {}
        change = self._changes.pop(table.name)
        seen, self._heads[table.name] = self._heads[table.name], head
        if head < 0:
            self._heads[table.name] = delta_log.create(self.path, table, change.added.values(), self.run_id)
            return self._heads[table.name]
        if any(commit.days for commit in delta_log.commits_of(self.path, table, seen, head)):
            raise delta_log.busy(self.path, table)
        add, remove = list(change.added.values()), list(change.dropped.values())
        newest = self._version(table, head)
        if base != head:
            there = {file.path: file for file in newest.files()}
            add += [file for path, file in files.items() if path not in there and path not in change.added]
            remove = [file for path, file in there.items() if path not in files]
        if add or remove:
            self._heads[table.name] = delta_log.commit(newest, add, remove, self.run_id)
        return self._heads[table.name]

    def take_back(self) -> None:
        """Reset the bronze tables to the last published run, and commit: files read since may be given again."""
        for table in bronze.TABLES:
            self.replace(table, None, self.published_files(table))
        self.commit(bronze.TABLES)

    def discard(self) -> None:
        """Drop this run's uncommitted changes. No version names their files."""
        changed = [change.table for change in self._changes.values()]
        self._changes.clear()
        for table in changed:
            self._forget(table)

    def _forget(self, table: Table) -> None:
        """Drop cached values that depend on rows of `table`."""
        if table is gold.RUNS:
            self._ledger = self._in_force = self._chain = self._end = None
        if table is bronze.SOURCES:
            self._recorded = None

    def versions(self) -> dict[str, int]:
        """Return the version of each table that was ever written, as this run sees it."""
        return {table.name: base for table in WRITTEN_TABLES if (base := self._base(table)) >= 0}

    # -- ledger and recorded files -------------------------------------------------------------------------------------

    def ledger(self) -> Ledger:
        """Return the published runs together. Raises LayoutError if the warehouse has another layout."""
        if self._ledger is None:
            noted = self._noted()  # read first: a run published in between is then only in the ledger
            self._ledger = read_ledger(self.rows(gold.RUNS, columns=COLUMNS), self.path)
            require_not_behind(noted, self.path, self._ledger.runs)
        return self._ledger

    def chain(self) -> Chain:
        """Return the chain of all rows of the ledger; each row is hashed. Raises LayoutError, LedgerBehindError."""
        self.ledger()
        if self._chain is None:
            self._chain = Chain(self.rows(gold.RUNS), table_path(self.path, gold.RUNS))
        return self._chain

    def _end_of_chain(self) -> Chain:
        """Return the chain from the run on that is noted outside of the ledger: its hash covers the rows before it."""
        self.ledger()
        if self._end is None:
            noted = self._noted()
            since = None if noted is None else pc.field("finished_time") >= noted.finished_time
            self._end = Chain(self.rows(gold.RUNS, filter=since), table_path(self.path, gold.RUNS), noted)
        return self._end

    def require_ledger(self, *, whole: bool = False) -> None:
        """Raise LedgerBehindError unless the ledger has the published rows, and agrees with the run noted outside of it.

        Its files must have the bytes that were written, the noted row its hash; `whole`: each row must follow from the one before.
        """
        noted, links = self._noted(), (self.chain() if whole else self._end_of_chain()).links
        if noted is not None and (noted.run_id not in links or not links[noted.run_id].is_of(noted)):
            raise LedgerBehindError(
                f"{table_path(self.path, gold.RUNS)}: its rows are not those that were published", BEHIND
            )
        require_intact(self.path, gold.RUNS, self.files(gold.RUNS))

    def checkpoint(self) -> Noted | None:
        """Return the checkpoint of the last published run; None if there is none."""
        last = self.ledger().last
        if last is None:
            return None
        return Noted(last.run_id, last.finished_time, self._end_of_chain().links[last.run_id].sha256)

    def _noted(self) -> Noted | None:
        return noted_in(read_text(f"{self.path}/{LAST_RUN}"), self.path)

    def _sealed(self) -> dict[str, Any]:
        """Return the chain's columns for the row of a run that is being published: its files.

        A table without a new version is not looked at.
        """
        runs = self.rows(gold.RUNS, columns=["run_id", "finished_time", "files", "gone"])
        before, commits = files_after(runs), last_commits(runs)
        if root_of_files(before) != self._end_of_chain().root():
            where = table_path(self.path, gold.RUNS)
            raise LedgerBehindError(f"{where}: the files that it lists are not those that were published", BEHIND)
        known, now, new = dict[str, Sealed](), Sealed(), Sealed()
        for key, entry in before.items():
            known.setdefault(entry.table, {})[key] = entry
        for table in WRITTEN_TABLES:
            was, base, last = known.get(table.name, {}), self._base(table), commits.get(table.name, "")
            sealed = int(last.removesuffix(".json")) if last else -1
            if sealed >= base:
                now |= was
                continue
            for path in (f"{LOG}{number:020d}.json" for number in range(sealed + 1, base + 1)):
                new[table.name, path] = Entry(table.name, path, sha256_at(self.path, table, path))
            for file in self.files(table):
                key = (table.name, file.path)
                if key in was:
                    now[key] = was[key]
                    continue
                pieces = self._pieces.get(key, ())
                if is_rooted(table) and not pieces:  # another process, or somebody else, wrote it
                    pieces = pieces_of(self.path, table, file)
                sha256 = sha256_in(file.path) or sha256_at(self.path, table, file.path)
                now[key] = Entry(table.name, file.path, sha256, pieces)
        new |= {key: now[key] for key in now.keys() - before.keys()}
        return {
            "files_root": root_of_files(now),
            "files": [new[key].row() for key in sorted(new)],
            "gone": [{"table": table, "path": path} for table, path in sorted(before.keys() - now)],
        }

    def slices_in_force(
        self, days: Collection[dt.date | None] | None = None, known_at: Run | None = None, table: str | None = None
    ) -> dict[Slice, Digest]:
        """Return the digest of each slice from the ledger, now or as of `known_at`, of all or of some days or one table.

        None among the days is the slice without a day, the open intervals.
        """
        slices = self._in_force if known_at is None else None
        if slices is None:
            columns = ["run_id", "status", "finished_time", "days", "inputs", "outputs"]
            slices = ask(IN_FORCE, {"runs": self._runs(columns, known_at)})
            self._in_force = slices if known_at is None else self._in_force
        if days is not None:
            slices = slices.filter(pc.field("day").isin(pa.array([*days], pa.date32())))
        if table is not None:
            slices = slices.filter(pc.field("table") == table)
        return {
            Slice(of["table"], of["day"], of["namesrv_id"]): Digest.parse(of["digest"]) for of in slices.to_pylist()
        }

    def coverage(self, known_at: Run | None = None) -> list[Covered]:
        """Return the coverage of each name server from the ledger, now or as of the run `known_at`."""
        runs = self._runs(["run_id", "status", "finished_time", "days", "coverage"], known_at)
        return covered_of(ask(RECORDED, {"runs": runs}).to_pylist())

    def _runs(self, columns: Sequence[str], known_at: Run | None = None) -> pa.Table:
        """Return the rows of the ledger, all or those up to a run."""
        until = None if known_at is None else pc.field("finished_time") <= known_at.finished_time
        return self.rows(gold.RUNS, columns=columns, filter=until)

    def note_run(self, days: Sequence[dt.date], columns: Mapping[str, Any]) -> None:
        """Write the run's row into the ledger. If the run is published, readers see its commits from then on.

        `columns`: status, gate, and further columns of `runs`.
        """
        last, links = self.ledger().last, self._end_of_chain()
        is_published = columns["status"] == "published"
        row = {
            "run_id": self.run_id,
            "layout": LAYOUT,
            "parent_run": None if last is None else last.run_id,
            "started_time": self.started,
            "finished_time": finished_after(
                None if links.last is None else links.last.finished_time, dt.datetime.now(dt.timezone.utc)
            ),
            "previous_sha256": links.sha256,
            **(self._sealed() if is_published else {"files_root": links.root(), "files": (), "gone": ()}),
            "days": list(days),
            **dict.fromkeys(("ingest_runs", "sources", "late_namesrvs", "inputs", "outputs", "coverage"), ()),
            "versions": self.versions(),
            "digests": {},
            "code_version": __version__,
            "config_sha256": self.conf.sha256,
            **columns,
        }
        pairs = {name: list(value.items()) if isinstance(value, Mapping) else value for name, value in row.items()}
        self.append(gold.RUNS, table_of([pairs], gold.RUNS))
        self.commit([gold.RUNS])
        self.is_published = is_published
        try:
            self.note_last()
        except OSError as error:  # the run is published nevertheless; the next one notes it
            self.unnoted = error

    def note_last(self) -> None:
        """Note the last published run outside of the ledger: for any DuckDB, and to detect that an older ledger was put back.

        Raises OSError.
        """
        last, noted, here = self.checkpoint(), self._noted(), local_path(self.path)
        if last is None:
            return
        is_noted, failed = noted == last, None
        if here is not None and not (is_noted and (here / HISTORY).is_file()):
            try:
                self.write_history()
            except OSError as error:
                failed = error
                with suppress(OSError):  # it shows an earlier run; the next command writes a missing file anew
                    (here / HISTORY).unlink(missing_ok=True)
        if not is_noted:
            write_text(f"{self.path}/{LAST_RUN}", last.text())
        if failed is not None:
            raise failed

    def write_history(self) -> None:
        """Write `history.duckdb`, if the warehouse lies on this machine and something is published. Raises OSError."""
        here = local_path(self.path)
        if here is not None and self.ledger().last is not None:
            self._rearranged.clear()
            write_history(here, self._shown())

    def is_history_ours(self) -> bool | None:
        """Return whether `history.duckdb` is as this software makes it, or missing; None: it is of another run or version."""
        here = local_path(self.path)
        is_there = here is not None and (here / HISTORY).is_file() and self.ledger().last is not None
        return is_as_made(here, self._shown()) if here is not None and is_there else True

    def _shown(self) -> Shown:
        """Return the content of `history.duckdb`."""
        last = self.ledger().last
        assert last is not None

        def files_of(stored: asked.Stored) -> Files:
            table = TABLES[stored.table]
            newest = self.rearranged(table) if table is not gold.RUNS else delta_log.head_of(self.path, table)
            files = self._files_at(table, newest, None)
            paths = [f"{table.layer}/{table.name}/{file.path}" for file in files]
            return Files(paths, {"day": [file.day for file in files]} if table.is_by_day else {})

        return Shown(last.run_id, last.finished_time, delta_log.head_of(self.path, gold.RUNS), files_of)

    def recorded(self) -> list[ReadFile]:
        """Return the input files that were read."""
        if self._recorded is None:
            columns = ["content_sha256", "ingest_run", "frames", "days", "source_file", "verdict", "error", "counts"]
            rows = (column.to_pylist() for column in self.rows(bronze.SOURCES, columns=columns).columns)
            self._recorded = [
                ReadFile(sha256, run, frames, frozenset(days or ()), name, verdict, error, dict(counts or ()))
                for sha256, run, frames, days, name, verdict, error, counts in zip(*rows, strict=True)
            ]
        return self._recorded

    def waiting(self) -> dict[str, list[ReadFile]]:
        """Return, by run, the files of ingest runs that read rows of which none is published."""
        found: dict[str, list[ReadFile]] = {}
        for source in self.recorded():
            if source.ingest_run not in self.ledger().covered:
                found.setdefault(source.ingest_run, []).append(source)
        return {run: files for run, files in found.items() if any(source.days for source in files)}

    def namesrvs_on(self, day: dt.date) -> set[str]:
        """Return the name servers with recorded rows on `day`."""
        found = (namesrvs_in(self.path, table, self.files(table, [day])) for table in bronze.RECORDED_TABLES)
        return set().union(*found)

    # -- beside the tables ---------------------------------------------------------------------------------------------

    @property
    def staging(self) -> str:
        """Return this run's folder for data that its steps pass on."""
        return f"{self.path}/_staging/{self.run_id}"

    def clear_staging(self) -> None:
        """Remove what runs have left in staging."""
        system, folder = filesystem_of(f"{self.path}/_staging")
        if system.get_file_info(folder).type != pafs.FileType.NotFound:
            system.delete_dir(folder)
