"""Queries of the published tables in DuckDB, in less time than a JVM takes to start; saved queries by name, with their parameters.

Reads   the versions that the last published row of `runs` pins, or an earlier one
Makes   only the views and functions that a question touches, in memory, so that no lock on a file is in the way
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial, reduce
from itertools import chain, count
from operator import and_, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import _duckdb as duckdb

from jobs.ask.instants import instant
from jobs.errors import BrokenLogError, JobError, NotRecordedError, TamperedError, UsageError, printable
from jobs.store.coverage import NOT_RECORDED, Covered
from jobs.store.names import Files, Names, made_with, pattern_of, reading, stand_in, touched
from jobs.store.published import (
    HISTORY,
    LAST_RUN,
    LAYOUT,
    Noted,
    delta_table,
    noted_in,
    path_of,
    require_kept,
    require_layout,
    require_not_behind,
    require_rows,
    run_id_in_force,
)
from schemas import asked
from schemas.queries import Query, queries

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    from jobs.store.check import Holder


FUNCTIONS: Final = {
    "topicQueueTable": "topic_queue_table_at",
    "brokerAddrTable": "broker_addr_table_at",
    "clusterAddrTable": "cluster_addr_table_at",
    "brokerLiveTable": "broker_live_table_at",
    "filterServerTable": "filter_server_table_at",
    "kvConfigTable": "kv_config_table_at",
}
"""The functions that return a name server's table at an instant, by RocketMQ's name of the table."""
_SETTINGS: Mapping[str, str | bool] = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
}
_PUBLISHED = "SELECT run_id, layout, finished_time FROM runs_committed WHERE status = 'published'"
_RUN = "SELECT run_id, finished_time, versions, digests FROM runs_committed WHERE run_id = $run"
_BATCH = 1_000
# What DuckDB raises: its message may quote bytes of a damaged file that are no text.
_FAILURES = (duckdb.Error, UnicodeDecodeError)
ENDS_THE_SESSION = (duckdb.InternalException, duckdb.FatalException)
"""What DuckDB raises where it answers nothing more; a damaged file can cause it."""
# Failures that no file can cause, but for columns that it names otherwise. A damaged file causes other classes, whose text does
# not always name it.
_OF_THE_QUESTION = (
    *(duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.DataError),
    duckdb.NotImplementedException,
)
_UNKNOWN = re.compile(r"Catalog Error: Table (?:Function )?with name (.+?) does not exist")


class Known(NamedTuple):
    """The published run that is read as of."""

    run_id: str
    finished_time: dt.datetime
    versions: Mapping[str, int]
    digests: Mapping[str, str]


class Answer(NamedTuple):
    """The columns of an answer, and its rows, which are read lazily."""

    names: list[str]
    rows: Iterator[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts by column name."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


class Answers:
    """A warehouse opened for questions. One thread at a time; tables are opened when first needed and stay open."""

    def __init__(
        self,
        warehouse: str,
        as_known_at: str | dt.datetime | None = None,
        *,
        is_verified: bool = False,
        is_closed: bool = True,
        memory_mib: int | None = None,
    ) -> None:
        """Find the run to read as of: the last, one by its id, or the last one published by an instant.

        `is_verified`: the tables that a question reads are first compared with the ledger. `is_closed`: statements see no files
        except those below the warehouse, and change no setting. `memory_mib`: DuckDB's memory limit (None: its default). Raises
        NothingPublishedError if there is no such run, NoLongerReadableError, LayoutError, BrokenLogError, LedgerBehindError.
        """
        # last_run.json is read before the ledger: a run published in between is then in both, or only in the ledger.
        if "://" in warehouse:
            from jobs.store.places import read_text, require_store  # noqa: PLC0415  it imports Arrow, which a local folder does not need

            require_store(warehouse)
            note = read_text(f"{warehouse}/{LAST_RUN}")
        else:
            file = Path(warehouse, LAST_RUN)
            note = file.read_text("utf-8", "replace") if file.is_file() else None
        self.warehouse, self._noted = warehouse, noted_in(note, warehouse)
        limit = {} if memory_mib is None else {"memory_limit": f"{memory_mib}MiB", "temp_directory": ""}
        settings, self._opened = dict[str, Any]({**_SETTINGS, **limit}), dict[str, int]()
        self._holder: Holder | None = None
        is_last = as_known_at is None and not is_verified
        ready = _ready(warehouse, self._noted, settings) if is_last else None
        self._connection = duckdb.connect(config=settings) if ready is None else ready
        # DuckDB tells the progress of a statement only if its progress bar is enabled.
        # The order of NULLs and the time zone are as in Spark.
        spark = ("TimeZone = 'UTC'", "default_null_order = 'nulls_first_on_asc_last_on_desc'")
        own = ("parquet_metadata_cache = TRUE", "enable_progress_bar_print = FALSE", "enable_progress_bar = TRUE")
        for setting in (*spark, *own):
            self._connection.execute(f"SET {setting}")
        if "://" not in warehouse:
            folder = f"{Path(warehouse).resolve()}/"
            stand_in(self._connection, folder[:-1])
            if is_closed:
                # DuckDB checks both the pattern by which a file is found, and its name.
                self._connection.execute("SET allowed_directories = ?", [[folder, pattern_of(folder)]])
        if is_closed:
            for setting in ("enable_external_access = FALSE", "lock_configuration = TRUE"):
                self._connection.execute(f"SET {setting}")
        self._names = Names(
            self._connection,
            lambda name: self._source(self.files(name), name),
            lambda: self.known.finished_time,
            are_made=ready is not None,
        )
        if ready is not None and self._noted:
            self._run_id = self._noted.run_id
        else:
            published = dict[str, dt.datetime]()
            for run, layout, finished in self.ask(_PUBLISHED).rows:
                require_layout(warehouse, layout)
                published[run] = finished
            require_not_behind(self._noted, warehouse, published)
            self._run_id = run_id_in_force(warehouse, published, as_known_at)
        if as_known_at is not None:
            require_kept(self._runs, self._run_id, self.known.versions)
        if is_verified:
            from jobs.store.check import Holder  # noqa: PLC0415  Arrow takes longer than many a question

            self._holder = Holder.at(warehouse, self._run_id)

    @cached_property
    def known(self) -> Known:
        """Return the run that is read as of."""
        return Known(*next(self.ask(_RUN, run=self._run_id).rows))

    @cached_property
    def _runs(self) -> DeltaTable:
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415  slow to import, and not needed with history.duckdb

        try:
            return delta_table(path_of(self.warehouse, "gold", "runs"), "runs", (), None)
        except BrokenLogError as error:
            if isinstance(error.__cause__, TableNotFoundError):
                require_not_behind(self._noted, self.warehouse, ())
                run_id_in_force(self.warehouse, {}, None)  # which raises
            raise

    def ask(self, sql: str, /, **values: Any) -> Answer:
        """Return the answer of a statement in DuckDB's dialect; it reads `values` as `$name`.

        Raises UsageError for an invalid statement, NotRecordedError for an instant of which nothing is recorded,
        TamperedError if a file cannot be read.
        """
        found = self._executed(sql, values)
        return Answer(distinct(column[0] for column in found.description or ()), self._rows(found, sql))

    def table(self, sql: str, **values: Any) -> pa.Table:
        """Return the answer of a statement with all its rows, as an Arrow table. Raises as `ask`."""
        importlib.import_module("duckdb")  # it adds the conversion to Arrow
        try:
            return self._executed(sql, values).to_arrow_table()
        except _FAILURES as error:
            raise self._as_job_error(error, sql) from error

    def remark(self, values: Mapping[str, Any], rows: Iterable[Iterable[Any]]) -> str | None:
        """Return a remark, with the nearest names, if no row says anything of a topic and no name server ever had it; else None."""
        topic, nothing = values.get("topic"), ("never seen", "not known", "not recorded")
        is_silent = (any(isinstance(value, str) and value.startswith(nothing) for value in row) for row in rows)
        if not isinstance(topic, str) or not all(is_silent):
            return None
        topics = [name for (name,) in self.ask("SELECT DISTINCT topic FROM route_changes").rows]
        text = f"no name server ever had a topic {topic}{nearest(topic, topics, most=5)}"
        return None if topic in topics else printable(text)

    @property
    def share(self) -> float | None:
        """Return the share of the current question that is done; None: not known. Any thread may call it."""
        percent = self._connection.query_progress()
        return percent / 100 if percent > 0 else None

    @property
    def coverage(self) -> list[Covered]:
        """Return what is recorded of each name server."""
        return self._names.coverage

    def files(self, name: str) -> Files:
        """Return the data files of a stored table in the pinned version, in order, with their partition values."""
        table = asked.stored()[name]
        folder = path_of(self.warehouse, table.layer, table.table)
        if table.table == "runs":  # of the ledger the newest
            delta, published = self._runs, None
        else:
            version = self.known.versions.get(table.table)
            if version is None:
                return Files((), {})
            delta, published = delta_table(folder, table.table, table.cut, version), self.known.digests.get(table.table)
        self._opened[table.table] = delta.version()
        if self._holder is not None:
            self._holder.hold(table.table)
        found = delta.get_add_actions(flatten=True)
        require_rows(table.table, found.column("num_records").to_pylist(), published, folder)
        return _files_of(table, delta)

    def rows_at(self, name: str, version: int | None, other: int | None) -> str | None:
        """Return the SQL, to follow FROM, of the files that only `version` of a stored table has; None: no file.

        `version` and `other` are pinned by readable runs; None: the run had no such table.
        """
        table = asked.stored()[name]
        if version is None:
            return None
        if other is None and version == self.known.versions.get(table.table):
            self._names.make(name)
            return f"files.{name}"
        folder = path_of(self.warehouse, table.layer, table.table)
        found, others = (
            Files((), {}) if at is None else _files_of(table, delta_table(folder, name, table.cut, at))
            for at in (version, other)
        )
        left_out = frozenset(others.paths)
        kept = [at for at, path in enumerate(found.paths) if path not in left_out]
        files = Files(
            [found.paths[at] for at in kept], {of: [one[at] for at in kept] for of, one in found.partitions.items()}
        )
        return self._source(files, f"{name}_{version}")

    @contextmanager
    def showing(self, rows: Mapping[str, str]) -> Iterator[None]:
        """Replace the rows of stored tables in this context, also in views; `rows`: a statement by table, which may read `files`.

        It works because DuckDB looks up a name without a schema among temporary ones first.
        """
        self._names.make(" ".join(rows))
        try:
            for name, sql in rows.items():
                self._connection.execute(f"CREATE TEMPORARY VIEW {name} AS {sql}")
            yield
        finally:
            for name in rows:
                self._connection.execute(f"DROP VIEW IF EXISTS temp.{name}")

    def require_kept(self, run_id: str, versions: Mapping[str, int]) -> None:
        """Raise NoLongerReadableError if maintenance has deleted files that a run had pinned."""
        if run_id != self._run_id:
            require_kept(self._runs, run_id, versions)

    def _source(self, files: Files, called: str) -> str | None:
        """Return the SQL, to follow FROM, that reads data files; None: there are none."""
        if not files.paths or "://" not in self.warehouse:
            return reading(files)
        importlib.import_module("duckdb")  # the engine alone cannot read Arrow
        self._connection.register(f"remote_{called}", _remote(self.warehouse, files))
        return f"remote_{called}"

    def _executed(self, sql: str, values: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
        for text in (sql, *(value for value in values.values() if isinstance(value, str))):
            if not text.isascii() and text != text.encode("utf-8", "replace").decode("utf-8"):
                raise UsageError("statements and names must be UTF-8: there are bytes in this one that are none")
        try:
            self._names.make(sql)
            return self._connection.execute(sql, values or None)
        except _FAILURES as error:
            raise self._as_job_error(error, sql) from error

    def _as_job_error(self, error: Exception, sql: str) -> JobError:
        """Return the error to raise: an unrecorded instant, an unreadable file, or an invalid question."""
        message = str(error).strip()
        if NOT_RECORDED in message:
            return NotRecordedError(message[message.index(NOT_RECORDED) :])
        if isinstance(error, duckdb.OutOfMemoryException):
            return UsageError("the statement needs more memory than it may have", " (ask sql --memory MIB)")
        if isinstance(error, duckdb.PermissionException):
            only = f"{message.splitlines()[0]}: of files only the warehouse's are read here"
            return UsageError(only, " (ask sql --unsafe)")
        if isinstance(error, ENDS_THE_SESSION):
            return Answers(self.warehouse, self._run_id)._as_job_error(duckdb.Error(message), sql)  # noqa: SLF001
        read = [name for name in touched(sql) if name in asked.stored()]
        if not isinstance(error, _OF_THE_QUESTION) or not self._have_their_columns(read):
            from jobs.store.check import require_readable  # noqa: PLC0415  as above

            try:
                for name in read:
                    self.files(name)
                is_of_file = not isinstance(error, duckdb.InvalidInputException) or "Parquet" in message
                require_readable(self.warehouse, self._opened, message, deep=is_of_file)
            except (BrokenLogError, TamperedError) as damage:
                return damage
        if (unknown := _UNKNOWN.match(message)) is not None:  # DuckDB would suggest names of its own
            near = nearest(unknown[1].lower(), [name for name in asked.names() if "." not in name])
            message = f"there is no table, view or function {unknown[1]}{near}. SHOW TABLES lists them"
        return UsageError(message)

    def _have_their_columns(self, tables: Sequence[str]) -> bool:
        """Return whether stored tables can be read by the columns that their files name."""
        try:
            for name in tables:
                self._connection.execute(f"EXPLAIN FROM files.{name}")
        except _FAILURES:
            return False
        return True

    def _rows(self, found: duckdb.DuckDBPyConnection, sql: str) -> Iterator[tuple[Any, ...]]:
        try:
            while rows := found.fetchmany(_BATCH):
                yield from rows
        except _FAILURES as error:
            raise self._as_job_error(error, sql) from error


def _files_of(table: asked.Stored, delta: DeltaTable) -> Files:
    """Return the data files of a version of a table, in order, with their partition values from the log."""
    found = delta.get_add_actions(flatten=True)
    paths = [f"{table.layer}/{table.table}/{path}" for path in found.column("path").to_pylist()]
    cut_by = [column for column in delta.metadata().partition_columns if column in table.columns]
    partitions = (found.column(f"partition.{column}").to_pylist() for column in cut_by)
    inorder = sorted(zip(paths, *partitions, strict=True), key=itemgetter(0))
    places = {column: place for place, column in enumerate(cut_by, start=1)}
    return Files([of[0] for of in inorder], {name: [of[place] for of in inorder] for name, place in places.items()})


def nearest(name: str, known: Iterable[str], most: int = 3, cutoff: float = 0.6) -> str:
    """Return the end of an error message that suggests the nearest known names; empty if none is near."""
    import difflib  # noqa: PLC0415  most questions have no wrong name

    found = difflib.get_close_matches(name, known, n=most, cutoff=cutoff)
    return f"; nearest {'is' if len(found) == 1 else 'are'} {', '.join(found)}" if found else ""


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names of columns; one that is there already gets a number, for an object would lose one of the two."""
    found: dict[str, None] = {}
    for name in names:
        found[next(one for one in chain([name], (f"{name}_{n}" for n in count(1))) if one not in found)] = None
    return [*found]


def _remote(root: str, files: Files) -> ds.Dataset:
    """Return data files of an object store as an Arrow dataset: DuckDB has no reader of its own for them."""
    import pyarrow as pa  # noqa: PLC0415  a local folder does not need it
    import pyarrow.dataset as ds  # noqa: PLC0415  as above

    from jobs.store.places import filesystem_of  # noqa: PLC0415  as above

    form, system = ds.ParquetFileFormat(), filesystem_of(root)[0]
    partitions = {column: pa.array(values) for column, values in files.partitions.items()}
    fragments = [
        form.make_fragment(
            filesystem_of(f"{root}/{path}")[1],
            system,
            reduce(and_, (ds.field(column) == of[number] for column, of in partitions.items()), ds.scalar(True)),
        )
        for number, path in enumerate(files.paths)
    ]
    schema = fragments[0].physical_schema
    for column, values in partitions.items():
        schema = schema.append(pa.field(column, values.type))
    return ds.FileSystemDataset(fragments, schema, form, system)


def _ready(root: str, noted: Noted | None, settings: Mapping[str, Any]) -> duckdb.DuckDBPyConnection | None:
    """Open a copy of `history.duckdb`, which the last run left; a copy, because DuckDB locks the files that it opens.

    None: there is no such file, it is of another run or made by another version, or the ledger was written since. Then the
    views that a question touches are made.
    """
    log = Path(root, "gold", "runs", "_delta_log")
    if noted is None or "://" in root:
        return None
    try:
        newest = max((entry for entry in os.scandir(log) if entry.name.endswith(".json")), key=lambda entry: entry.name)
        wanted = (noted.run_id, LAYOUT, int(newest.name[:20]), made_with())
        # A name as of `tempfile`, whose import takes as long as the copy.
        copy = f"{os.environ.get('TMPDIR') or '/tmp'}/namesrv-history-{os.getpid()}-{time.monotonic_ns()}.duckdb"  # noqa: S108
        opener = partial(os.open, mode=0o600)
        try:
            with open(copy, "xb", opener=opener) as file:
                file.write(Path(root, HISTORY).read_bytes())
            connection = duckdb.connect(copy, read_only=True, config=dict(settings))
        finally:
            os.unlink(copy)  # noqa: PTH108
        found = connection.execute("SELECT run_id, layout, ledger, made_with FROM files.run").fetchone()
    except (OSError, ValueError, duckdb.Error):
        return None
    return connection if found == wanted and newest.stat().st_size else None


Value = str | int | dt.datetime | None


def query_named(name: str) -> Query:
    """Return the query of that name. Raises UsageError with the nearest names."""
    found = queries().get(name)
    if found is None:
        near = nearest(name, queries(), cutoff=0.4)
        raise UsageError(f"no saved query {name!r}{near}", ". `ask queries` lists them")
    return found


def described(query: Query, how: str = "") -> str:
    """Return a saved query's question, parameters and columns, a line each. `how`: how parameters are given, such as by option."""
    lines = [query.question, "", *([f"parameters{how}:"] if query.parameters else [])]
    lines += [f"  {one.name} {one.type}: {one.described}" for one in query.parameters]
    lines += ["columns:", *(f"  {name}: {comment}" for name, comment in query.columns.items())]
    return "\n".join(lines)


def texts_of(query: Query, given: Sequence[str]) -> dict[str, str]:
    """Return the `NAME=VALUE` texts of a command line by name. Raises UsageError."""
    if unnamed := [text for text in given if "=" not in text]:
        raise UsageError(f"query {query.name}: {unnamed[0]!r}: expected NAME=VALUE")
    pairs = [text.partition("=")[::2] for text in given]
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise UsageError(f"query {query.name}: {twice[0]} is given more than once")
    return dict(pairs)


def values_of(query: Query, texts: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of each parameter of a query, from the texts given. Raises UsageError."""
    known = {parameter.name for parameter in query.parameters}
    unknown = sorted(set(texts) - known)
    if unknown:
        of = f"has {', '.join(sorted(known))}" if known else "has none"
        raise UsageError(f"query {query.name}: no parameter {unknown[0]!r}; it {of}")
    missing = [one for one in query.parameters if one.default is None and one.name not in texts]
    if missing:
        raise UsageError(
            f"query {query.name}: needs --param {missing[0].name}=VALUE ({missing[0].type}: {missing[0].comment})"
        )
    values: dict[str, Value] = {}
    for one in query.parameters:
        text = texts.get(one.name, one.default)
        if text is None or (text == "NULL" and one.name not in texts):
            values[one.name] = None
        elif one.type == "TIMESTAMP":
            values[one.name] = instant(text)
        elif one.type == "INT":
            try:
                values[one.name] = int(text)
            except ValueError as error:
                raise UsageError(f"query {query.name}: {one.name} is a whole number, not {text!r}") from error
        else:
            values[one.name] = text
    for first, last in (("since", "until"), ("t1", "t2")):
        begin, end = values.get(first), values.get(last)
        if isinstance(begin, dt.datetime) and isinstance(end, dt.datetime) and begin > end:
            raise UsageError(f"query {query.name}: {first} {texts[first]} lies after {last} {texts[last]}")
    return values


def time_of(values: Mapping[str, Value]) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Return the start and end of the time range in a query's values; None: no limit."""
    since, until = values.get("since"), values.get("until")
    return since if isinstance(since, dt.datetime) else None, until if isinstance(until, dt.datetime) else None
