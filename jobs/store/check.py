"""Check of a warehouse: the files on disk against the ledger, and the ledger against a checkpoint that somebody kept.

It also finds what makes another engine fail, or escapes it: files that it could not read, rows that were rewritten.
"""

from __future__ import annotations

import datetime as dt
import json
import posixpath
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import Schema

from jobs.conf import PipelineConf
from jobs.errors import NothingPublishedError, TamperedError, first_line, nobody
from jobs.store import delta_log
from jobs.store.coverage import text_of
from jobs.store.files import (
    NO_VALUE,
    DataFile,
    batches_of,
    described,
    digest_of,
    digests_of,
    is_rooted,
    pieces_of,
    require_intact,
    sha256_at,
    unreadable,
)
from jobs.store.ledger import LOG, Entry, Link, Run, differing, last_commits, root_of_files
from jobs.store.places import filesystem_of, table_path
from jobs.store.published import HISTORY, Noted, oldest_kept, require_rows
from jobs.store.warehouse import TABLES, WRITTEN_TABLES, Warehouse
from namesrv_day.arrow import Digest, Slice, connection
from schemas import bronze, gold
from schemas.table import Table


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check, for the last published run; `wrong`: a sentence for each slice, table or file that differs.

    `replaced`: files under the checkpoint that later runs have replaced, a sentence for each run and folder.
    """

    run_id: str
    tables: int
    slices: int
    wrong: list[str]
    replaced: list[str] = field(default_factory=list)


def check(warehouse: Warehouse, against: Noted | None = None, share: Callable[[int, int], None] = nobody) -> Checked:
    """Read every table in the version that the last published run pins: compare slices with their digests, files with the chain.

    Bronze rows added since are not part of that run. A later change by somebody else is wrong, too, if the next night would
    refuse it. `against`: a kept checkpoint; everything up to it must be as it was. `share` gets the number of finished
    tables, and of all. Raises NothingPublishedError, LedgerBehindError.
    """
    last = warehouse.ledger().last
    if last is None:
        raise NothingPublishedError(f"{warehouse.path}/gold/runs: no run with status 'published'; nothing to check")
    warehouse.require_ledger(whole=True)
    expected = warehouse.slices_in_force()
    tables = [table for table in WRITTEN_TABLES if table.name in last.versions]
    wrong = dict[str, None]()
    for number, table in enumerate(tables):
        share(number, len(tables))
        try:
            differing_slices = differences(warehouse, table, last, expected)
            wrong |= dict.fromkeys(differing_slices)
            warehouse.require_published(table)
            if not differing_slices and warehouse.rearranged(table) != last.versions[table.name]:
                warehouse.hold([table])  # the next night starts from the same rows in other files
        except TamperedError as error:
            wrong[error.message] = None
    damaged = {sentence.partition(" of ")[0].partition(":")[0] for sentence in wrong}
    found = Sealed(warehouse, last, damaged)
    wrong |= dict.fromkeys(found.wrong())
    replaced = list[str]()
    if against is not None:
        link = found.chain.links.get(against.run_id)
        if link is None or not link.is_of(against):
            how = "is not in it any more"
            if link is not None:
                has, says = (f"{of.sha256} of {text_of(of.finished_time)}" for of in (link, against))
                how = f"has {has}, the checkpoint says {says}"
            where = table_path(warehouse.path, gold.RUNS)
            text = f"runs: {where} was rewritten: run {against.run_id}, which the checkpoint names, {how}"
            return Checked(last.run_id, len(tables), len(expected), [text, *wrong])
        wrong |= dict.fromkeys(found.wrong_since(against.run_id))
        replaced = found.replaced
    if not wrong and (is_ours := warehouse.is_history_ours()) is not True:
        where = f"{warehouse.path}/{HISTORY}"
        if is_ours is None:
            replaced += [f"{where} is of another run or version, or names other files"] if against else []
        else:
            wrong[f"{where}: is not as this software makes it; delete it, and the next run makes it anew"] = None
    return Checked(last.run_id, len(tables), len(expected), list(wrong), replaced)


# -- before something is read ------------------------------------------------------------------------------------------


def require_readable(root: str, versions: Mapping[str, int], message: str, *, deep: bool = False) -> None:
    """Raise TamperedError if the log, or a data file, of a table at one of `versions` cannot be read.

    Every file must be there with the size that the log says. Files that the failure message `message` names are read, and with
    `deep` all files.
    """
    for name, number in versions.items():
        files = delta_log.Version(root, TABLES[name], number).files()
        require_files(root, TABLES[name], files, message, deep=deep)


def require_files(root: str, table: Table, files: Sequence[DataFile], message: str = "", *, deep: bool = False) -> None:
    """Raise TamperedError for the first of a table's files that cannot be read; see `require_readable`."""
    system, folder = filesystem_of(table_path(root, table))
    # One listing of the folder: single lookups in an object store would cost a request each.
    listed = system.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)) if files else []
    sizes = {info.path: info.size for info in listed}
    for file in files:
        size = sizes.get(f"{folder}/{file.path}")
        if size != file.size:
            found = "it is not there" if size is None else f"it has {size} bytes, the log says {file.size}"
            raise unreadable(root, table, file.path, found)
        if deep or posixpath.basename(file.path) in message:
            require_intact(root, table, [file])
            for _ in batches_of(root, table, [file]):
                pass


def differences(warehouse: Warehouse, table: Table, run: Run, expected: Mapping[Slice, Digest]) -> list[str]:
    """Return a sentence for each slice of a table, in a run's version, that differs from the ledger. Raises TamperedError.

    `expected`: the slices in force as of that run. For a table that is not cut by day the run has the digest.
    """
    files = warehouse.files_of(run, table, warehouse.ledger().days)
    if table.partition_by:
        slices = {cut: digest for cut, digest in expected.items() if cut.table == table.name}
        wrong = differing(digests_of(warehouse.path, table, files), slices)
    else:
        known, found = run.digests.get(table.name), digest_of(warehouse.path, table, files)
        where = table_path(warehouse.path, table)
        is_same = known in (None, found)
        wrong = [] if is_same else [f"{table.name}: rows of {where} have digest {found}, the ledger says {known}"]
    if not wrong:
        require_intact(warehouse.path, table, files)
    return wrong


def require_whole(warehouse: Warehouse) -> None:
    """Raise TamperedError unless every file of the last published run is there, and the small tables have the published rows.

    Rows of topic_configs, which may be large, are compared with their digests where they are used.
    """
    last = warehouse.ledger().last
    if last is None:
        return
    for name in last.versions:
        files = warehouse.files_of(last, TABLES[name])
        require_all(warehouse.path, last, TABLES[name], files)
        require_files(warehouse.path, TABLES[name], files)
    # After a compaction the night reads the compacted files.
    warehouse.hold(
        table for table in bronze.TABLES if not table.partition_by and table is not bronze.TOPIC_CONFIGS_TABLE
    )


def require_all(root: str, run: Run, table: Table, files: Sequence[DataFile]) -> None:
    """Raise BrokenLogError if a log does not name all rows of a table that a run published. Opens no file."""
    digest = run.digests.get(table.name)
    published = None if digest is None else str(digest)
    require_rows(table.name, [file.rows for file in files], published, table_path(root, table))


class Holder:
    """Compares tables with the ledger before they are queried, each table once."""

    def __init__(self, warehouse: Warehouse, run: Run) -> None:
        """Check the ledger itself first; `run`: the run as of which tables are read. Raises LedgerBehindError."""
        warehouse.require_ledger(whole=True)
        self._warehouse, self._run, self._held = warehouse, run, set[str]()
        self._expected = warehouse.slices_in_force(known_at=run)

    @classmethod
    def at(cls, warehouse: str, run_id: str) -> Holder:
        """Return a holder for a published run of a warehouse."""
        opened = Warehouse(warehouse, PipelineConf(), "held", dt.datetime.now(dt.timezone.utc))
        return cls(opened, opened.published_run(run_id))

    def hold(self, name: str) -> None:
        """Raise TamperedError unless all slices of a table equal the ledger's. The ledger itself was checked at the start."""
        if name in self._held or name not in self._run.versions:
            return
        wrong = differences(self._warehouse, TABLES[name], self._run, self._expected)
        if wrong:
            more = f" ({len(wrong) - 1} more partitions differ)" if len(wrong) > 1 else ""
            raise TamperedError(f"{wrong[0]}{more}")
        self._held.add(name)


# Remains of dead writers, and Hadoop's checksums: no reader looks at them.
_BESIDE: Final = re.compile(r"_last_checkpoint|\..*|.*\.tmp|.*#\d+")
Json = dict[str, Any]


class Sealed:
    """The files of the chain compared with those on disk. Tables in `damaged` are skipped: they are already reported."""

    def __init__(self, warehouse: Warehouse, last: Run, damaged: set[str]) -> None:
        self._warehouse, self._last, self._damaged = warehouse, last, damaged
        self.chain = warehouse.chain()
        self._changes = [*self.chain.changes()]
        self._now, self._commits = self.chain.files(), last_commits(warehouse.rows(gold.RUNS, columns=["files"]))
        runs = warehouse.rows(gold.RUNS, columns=["run_id", "days", "ingest_runs", "versions"])
        self._runs = {row["run_id"]: row for row in runs.to_pylist()}
        ledger = delta_log.Version(warehouse.path, gold.RUNS)
        self._oldest = oldest_kept(ledger.delta)
        self.replaced: list[str] = []

    def wrong(self) -> Iterator[str]:
        """Yield a sentence for each file that differs from the chain; files that no readable run needs may be gone."""
        ever = {(one.table, one.path): one for _, added, _ in self._changes for one in added}
        for key, entry in ever.items():
            if entry.table in self._damaged:
                continue
            where = f"{entry.table}: {table_path(self._warehouse.path, TABLES[entry.table])}/{entry.path}"
            try:
                if sha256_at(self._warehouse.path, TABLES[entry.table], entry.path) != entry.sha256:
                    yield f"{where} does not have the bytes that were published"
            except TamperedError:
                number = entry.path.removeprefix(LOG).removesuffix(".json")
                is_old = number.isdigit() and int(number) < self._oldest.get(entry.table, 0)
                if (key in self._now or entry.path.startswith(LOG)) and not is_old:
                    yield f"{where} is gone"
        for table in (*WRITTEN_TABLES, gold.RUNS):
            if table.name not in self._damaged:
                yield from self._misnamed(table)
        if root_of_files(self._now) != self.chain.root(self._last.run_id):
            yield f"runs: the files that are listed up to run {self._last.run_id} are not those of its root"

    def wrong_since(self, run_id: str) -> Iterator[str]:
        """Yield a sentence for each change since a run that no later run accounts for; `replaced` gets those that one does."""
        then = self.chain.files(run_id)
        if root_of_files(then) != self.chain.root(run_id):
            yield f"runs: the files that are listed up to run {run_id} are not those of its root"
        place = 1 + [link.run_id for link, *_ in self._changes].index(run_id)
        known = [self._runs[link.run_id] for link, *_ in self._changes[:place] if link.is_published]
        days, ingested = ({of for row in known for of in row[name]} for name in ("days", "ingest_runs"))
        kept, old = ({piece for entry in of.values() for piece in _set_of(entry)} for of in (self._now, then))
        counted = (Counter(piece for entry in of.values() for piece in _set_of(entry)) for of in (self._now, then))
        for name, folder in sorted({piece[:2] for piece in next(counted) - next(counted) if piece in old}):
            yield f"{name}: published rows are stored twice in {table_path(self._warehouse.path, TABLES[name])}/{folder}"
        count, again = Counter[tuple[str, str, str, str]](), list[str]()
        for link, added, gone in self._changes[place:]:
            for entry in (then[key] for key in gone if key in then):
                if not _is_in(entry, kept):
                    count[link.run_id, "replaced", "of", _folder(entry)] += 1
            for entry in added:
                # A new file with rows that were already published must have exactly those rows.
                if not _set_of(entry).isdisjoint(old) and (entry.table, entry.path) in self._now:
                    table = TABLES[entry.table]
                    if pieces_of(self._warehouse.path, table, DataFile(entry.path, 0, 0, None)) != entry.pieces:
                        where = f"{table_path(self._warehouse.path, table)}/{entry.path}"
                        yield f"{entry.table}: {where} does not have the rows that were published before they were put together"
                if not entry.path.startswith(LOG) and self._is_of_the_past(entry, old, days):
                    count[link.run_id, "added", "to", _folder(entry)] += 1
                yield from self._of_earlier_runs(link, entry, old, ingested)
            # A run that publishes days again also states their coverage again.
            if link.is_published and (anew := days.intersection(self._runs[link.run_id]["days"])):
                again.append(f"run {link.run_id} has published again: {', '.join(map(str, sorted(anew)))}")
        self.replaced = [
            f"run {run} has {done} {files} file(s) {how} {folder}" for (run, done, how, folder), files in count.items()
        ]
        self.replaced += [*again, *self._rearranged(kept)]

    # -- what later runs did ---------------------------------------------------------------------------------------------

    def _is_of_the_past(self, entry: Entry, old: set[tuple[str, str, Any]], days: set[dt.date]) -> bool:
        """Return whether a later run's file has rows of days that were already published, without replacing a file there."""
        table = TABLES[entry.table]
        if not table.partition_by or _is_in(entry, old):
            return False
        if not table.has_intervals:
            return dt.date.fromisoformat(entry.path.partition("=")[2].partition("/")[0]) in days
        try:
            stats = json.loads(described(self._warehouse.path, table, entry.path, None).stats)
        except TamperedError:
            return False  # a missing file is reported elsewhere, if it is needed
        begins = stats["minValues"].get(table.span[0])
        return begins is None or dt.date.fromisoformat(begins[:10]) <= max(days, default=dt.date.min)

    def _of_earlier_runs(
        self, link: Link, entry: Entry, old: set[tuple[str, str, Any]], ingested: set[str]
    ) -> Iterator[str]:
        """Yield a sentence if a later run added rows that name an earlier run as their reader. Only for tables not cut by day."""
        table = TABLES[entry.table]
        if table not in bronze.TABLES or table.partition_by or entry.path.startswith(LOG):
            return
        start, found = 0, set[str]()
        try:
            parts = [*batches_of(self._warehouse.path, table, [DataFile(entry.path, 0, 0, None)])]
        except TamperedError:
            return
        runs = pa.concat_tables(parts)["ingest_run"]
        for rows, root in entry.pieces:
            if (entry.table, "", (rows, root)) not in old:
                found.update(ingested.intersection(runs.slice(start, rows).to_pylist()))
            start += rows
        if found:
            yield f"{table.name}: run {link.run_id} has added rows that name run {min(found)}, an earlier one: {entry.path}"

    def _rearranged(self, kept: set[tuple[str, str, Any]]) -> Iterator[str]:
        """Yield a sentence for files in place of published ones if nothing proves that they have the same rows."""
        for table in WRITTEN_TABLES:
            number, count = self._warehouse.rearranged(table), Counter[str]()
            if number == self._last.versions.get(table.name, -1) or table.name in self._damaged:
                continue
            for file in delta_log.Version(self._warehouse.path, table, number).files():
                if (table.name, file.path) not in self._now:
                    pieces = pieces_of(self._warehouse.path, table, file) if is_rooted(table) else ()
                    entry = Entry(table.name, file.path, "", pieces)
                    count[_folder(entry)] += not _is_in(entry, kept)
            yield from (
                f"somebody has replaced files of {folder}: {files} new" for folder, files in count.items() if files
            )

    # -- logs ------------------------------------------------------------------------------------------------------------

    def _pinned(self, table: Table) -> Iterator[tuple[str, int, set[str], bool]]:
        """Yield for each published run: its id, the version that it pins, the paths of its files, and whether it changed files."""
        files = set[str]()
        for link, added, gone in self._changes:
            if link.is_published:
                old = {path for name, path in gone if name == table.name}
                new = {of.path for of in added if of.table == table.name and not of.path.startswith(LOG)}
                files = files - old | new
                yield (
                    link.run_id,
                    dict(self._runs[link.run_id]["versions"]).get(table.name, -1),
                    files,
                    bool(old or new),
                )

    def _misnamed(self, table: Table) -> Iterator[str]:
        """Yield a sentence for each log entry through which readers would see other files, or fewer rows of a file."""
        log = _Log(self._warehouse.path, table)
        yield from log.strange()
        steps, number = self._pinned(table), -1
        step = next(steps, None)
        try:
            for number in log.versions(self._commits.get(table.name, "")):
                while step is not None and step[1] <= number:
                    run_id, pinned, files, are_new = step
                    if pinned == number and files != log.files:
                        yield f"{table.name}: the log of {log.where} names other files than run {run_id} published"
                    if pinned < number and files and number != log.first and (are_new or pinned < 0):
                        yield f"{table.name}: run {run_id} pins version {pinned}, which is not that of its files"
                    step = next(steps, None)
        except TamperedError as error:
            yield error.message
        yield from log.wrong
        if step is not None and step[1] > number:
            yield f"{table.name}: the log of {log.where} ends with version {number}, run {step[0]} pins {step[1]}"
        # No run pins the ledger's own files.
        for path in sorted(log.files) if table is gold.RUNS else ():
            if (why := _ambiguity(self._warehouse.path, table, path)) is not None:
                yield f"{table.name}: {log.where}/{path}: {why}"


def _folder(entry: Entry) -> str:
    folder = posixpath.dirname(entry.path)
    return f"{entry.table}{f', {folder}' if folder else ''}"


def _set_of(entry: Entry) -> set[tuple[str, str, Any]]:
    """Return a file's pieces with their folder: rows do not contain the partition's day."""
    return {(entry.table, posixpath.dirname(entry.path), piece) for piece in entry.pieces}


def _is_in(entry: Entry, pieces: set[tuple[str, str, Any]]) -> bool:
    return bool(entry.pieces) and pieces >= _set_of(entry)


# -- what a log says -----------------------------------------------------------------------------------------------------


class _Log:
    """A table's log, read commit by commit; `wrong`: faults found so far, `files`: paths of the current version's files."""

    def __init__(self, root: str, table: Table) -> None:
        self._root, self._table, self.where = root, table, table_path(root, table)
        self._system, self._folder = filesystem_of(f"{self.where}/_delta_log")
        found = self._system.get_file_info(pafs.FileSelector(self._folder, allow_not_found=True))
        self._names = [(info.base_name, info.is_file) for info in found]
        entries = [entry for name, _ in self._names if (entry := delta_log.ENTRY.fullmatch(name))]
        self._numbers = {kind: {int(of[1]) for of in entries if of[2] == kind} for kind in ("json", "crc", _CHECKPOINT)}
        self.wrong: list[str] = []
        self.files: set[str] = set()
        self._columns, self._true = _columns_of({}), set[str]()
        self.first = -1

    def strange(self) -> Iterator[str]:
        """Yield a sentence for each entry that readers may take for a commit, but that this software never writes."""
        for name, is_file in self._names:
            if not is_file or not (delta_log.ENTRY.fullmatch(name) or _BESIDE.fullmatch(name)):
                yield f"{self._table.name}: {self._folder}/{name} is not a commit or checkpoint as this software writes them"

    def versions(self, sealed: str) -> Iterator[int]:
        """Yield each readable version, from the oldest on; meanwhile `files` has its files.

        `sealed`: the last commit in the chain.
        """
        commits = self._numbers["json"]
        head = max(commits, default=-1)
        whole = next((number + 1 for number in range(head, -1, -1) if number not in commits), 0)
        self.first = min((number for number in self._numbers[_CHECKPOINT] if whole and number + 1 >= whole), default=-1)
        if self.first >= 0:
            name = f"{self.first:020d}.{_CHECKPOINT}"
            adds, meta = self._state(name)
            self._apply(name, [{"add": add} for add in adds or ()] + [{"metaData": meta}])
            yield self.first
        for number in range(max(self.first + 1, whole), head + 1):
            name = f"{number:020d}.json"
            actions = delta_log.actions_of(self._table, self._system, f"{self._folder}/{name}")
            self._apply(name, actions, is_sealed=name <= sealed)
            for kind in (_CHECKPOINT, "crc"):
                if number in self._numbers[kind]:
                    self._compare(f"{number:020d}.{kind}")
            yield number

    def _apply(self, name: str, actions: Iterable[Json], *, is_sealed: bool = False) -> None:
        try:
            for action in actions:
                if entry := action.get("remove"):
                    self.files.discard(unquote(entry["path"]))
                if entry := action.get("add"):
                    self.files.add(unquote(entry["path"]))
                    if not is_sealed:
                        self._require_true(entry, name)
                if (entry := action.get("metaData")) is not None:
                    self._columns = _columns_of(entry)
                    fields = [pa.field(of.name, of.type) for of in self._table.delta_schema]
                    ours = _fields_of(Schema.from_arrow(pa.schema(fields)).to_json()), [*self._table.partition_by]
                    if not is_sealed and self._columns[:2] != ours:
                        self._note(name, "names other columns than those of the table")
        except _MALFORMED as error:
            where = f"{self._table.name}: {self._folder}/{name}"
            raise TamperedError(f"{where} is not a valid commit: {error!r}") from error

    def _state(self, name: str) -> tuple[list[Json] | None, Json | None]:
        """Return the files and the columns that a checkpoint, or a checksum, lists; None for what it does not list."""
        path = f"{self._folder}/{name}"
        if not name.endswith(_CHECKPOINT):
            (checkpoint, *_) = [*delta_log.actions_of(self._table, self._system, path), {}]
            return checkpoint.get("allFiles"), checkpoint.get("metadata")
        # Arrow crashes the process on some damaged checkpoints, so DuckDB reads them.
        try:
            with self._system.open_input_stream(path) as stream, tempfile.NamedTemporaryFile() as file:
                file.write(stream.read())
                file.flush()
                rows = connection().read_parquet(file.name).to_arrow_table().to_pylist()
        except (OSError, ValueError, duckdb.Error) as error:
            raise TamperedError(f"{self._table.name}: {path} cannot be read: {first_line(error)}") from error
        meta: Json = next((row["metaData"] for row in rows if row.get("metaData")), {})
        return [row["add"] for row in rows if row.get("add")], meta

    def _compare(self, name: str) -> None:
        """Note where a checkpoint, or checksum, of a version differs from the commits up to it, or from the files."""
        try:
            adds, meta = self._state(name)
            is_same = adds is None or {unquote(of["path"]) for of in adds} == self.files
            if not is_same or (meta is not None and _columns_of(meta) != self._columns):
                self._note(name, "differs from the commits up to it")
            for add in adds or ():
                self._require_true(add, name)
        except _MALFORMED as error:
            self._note(name, f"has an invalid checkpoint, or checksum: {error!r}")

    def _require_true(self, add: Json, name: str) -> None:
        """Note a log entry that describes a file wrongly: readers would leave out rows."""
        stated, path = json.dumps(add, sort_keys=True, default=str), unquote(add["path"])
        if stated in self._true:
            return
        cut = (part.partition("=") for part in posixpath.dirname(path).split("/") if part)
        parts = {key: None if value == NO_VALUE else unquote(value) for key, _, value in cut}
        is_there = dict(add.get("partitionValues") or ()) == parts and not add.get("deletionVector")
        if is_there and _is_true(self._root, self._table, path, add):
            self._true.add(stated)
        else:
            self._note(name, f"describes {path} wrongly")

    def _note(self, name: str, what: str) -> None:
        self.wrong.append(f"{self._table.name}: the log of {self.where} {what}: {name}")


_CHECKPOINT: Final = "checkpoint.parquet"
_MALFORMED: Final = (KeyError, TypeError, ValueError, AttributeError)
"""Errors that an entry of the wrong form raises."""


def _columns_of(meta: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the columns, the partition columns, and the column mapping mode from a log's metadata."""
    configuration = dict(meta.get("configuration") or ())
    fields = _fields_of(meta.get("schemaString") or '{"fields": []}')
    return fields, list(meta.get("partitionColumns") or ()), configuration.get("delta.columnMapping.mode", "none")


def _fields_of(schema: str) -> list[tuple[str, str]]:
    return [(of["name"], json.dumps(of["type"], sort_keys=True)) for of in json.loads(schema)["fields"]]


def _is_true(root: str, table: Table, path: str, add: Json) -> bool:
    """Return whether a log entry describes a file's rows correctly; True for a file that is gone."""
    try:
        found = described(root, table, path, None)
    except TamperedError:
        return True  # a missing file is reported elsewhere, if it is needed
    if found.size != add["size"]:
        return False
    stats = [of for of in (json.loads(add.get("stats") or "{}"), add.get("stats_parsed")) if of]
    if all(of == json.loads(found.stats) for of in stats):
        return True
    rows = pa.concat_tables(batches_of(root, table, [DataFile(path, 0, 0, None)]))
    return all(of.get("numRecords") == rows.num_rows and not _false_bounds(rows, of) for of in stats)


def _false_bounds(rows: pa.Table, stats: Json) -> bool:
    """Return whether minima, maxima or null counts of columns differ from those of the rows."""
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        rows = rows.flatten()
    bounds = [(of, *one) for of in ("minValues", "maxValues", "nullCount") for one in _flat(stats.get(of) or {})]
    return any(name not in rows.column_names or _is_false(of, bound, rows[name]) for of, name, bound in bounds)


def _is_false(of: str, bound: Any, column: pa.ChunkedArray) -> bool:
    if bound is None or of == "nullCount":
        return bound is not None and bool(bound != column.null_count)
    if column.null_count == len(column):
        return False
    try:
        low, high = pc.min_max(column).as_py().values()
        value = bound if isinstance(bound, type(low)) else pa.scalar(bound).cast(column.type).as_py()
        if of == "minValues":
            return not value <= low
        # The log has whole milliseconds.
        return not (value + dt.timedelta(milliseconds=1) if isinstance(value, dt.datetime) else value) >= high
    except (pa.ArrowException, TypeError):
        return True


def _flat(values: Json, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _ambiguity(root: str, table: Table, path: str) -> str | None:
    """Return why another reader may read an unsealed file differently from Arrow; None if it may not."""
    system, folder = filesystem_of(table_path(root, table))
    with system.open_input_file(f"{folder}/{path}") as opened:
        file = pq.ParquetFile(opened)
        names = file.schema_arrow.names
        if len({name.lower() for name in names}) < len(names):
            return "two of its columns have the same name"
        for number in range(file.num_row_groups):
            group, rows = file.metadata.row_group(number), file.read_row_group(number)
            for of in (group.column(at) for at in range(group.num_columns)):
                if (of.has_column_index or of.has_offset_index) and of.path_in_schema in names:
                    return "it has a page index, which files of ours never have"
                if of.path_in_schema in names and of.is_stats_set:
                    stats, column = of.statistics, rows[of.path_in_schema]
                    bounds = pc.min_max(column).as_py() if stats.has_min_max else None
                    is_bound = bounds is None or (stats.min <= bounds["min"] and stats.max >= bounds["max"])
                    if not is_bound or stats.null_count != column.null_count:
                        return f"its footer describes {of.path_in_schema} wrongly"
    return None
