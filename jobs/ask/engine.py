"""The published tables in DuckDB: opened, asked and gone, in less time than a JVM takes to start.

Reads   what the last published row of `runs` pins, or an earlier one
Makes   of the views and functions those that a question touches
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from jobs.ask.nearest import nearest
from jobs.errors import BrokenLogError, JobError, NothingPublishedError, NotRecordedError, TamperedError, UsageError
from jobs.store.coverage import NOT_RECORDED, RECORDED, Covered, covered_of, span_rows
from jobs.store.published import (
    LAST_RUN,
    delta_table,
    delta_uri,
    noted_in,
    path_of,
    require_kept,
    require_layout,
    require_not_behind,
    require_rows,
)
from schemas import asked

if TYPE_CHECKING:  # Arrow takes longer to import than many a question
    import pyarrow as pa
    import pyarrow.dataset as ds

    from jobs.store.damage import Holder

_SETTINGS = {"parquet_metadata_cache": True, "python_enable_replacements": False, "autoinstall_known_extensions": False}
_LAST_RUN = """
    SELECT run_id, finished_time, versions, digests FROM runs_committed
    WHERE status = 'published' AND ($run IS NULL OR run_id = $run) AND ($by IS NULL OR finished_time <= $by)
    ORDER BY finished_time DESC, run_id DESC LIMIT 1"""
# The ledger's own tables, which no run pins.
_OF_NO_RUN = ("runs", "restatements")
# What is made of the ledger instead of a statement, and what of it.
_OF_LEDGER: Mapping[str, str] = {"known_run": "", "coverage_spans": "runs"}
# `schemas.views.COVERAGE_SPANS`, whose import would take longer than the answer.
_SPANS = """[{"from_time": "TIMESTAMPTZ", "until": "TIMESTAMPTZ", "nowhere": "BOOLEAN", "recorded": "VARCHAR", "said": [{
    "namesrv_id": "VARCHAR", "is_covered": "BOOLEAN", "recorded": "BOOLEAN", "running": "BOOLEAN", "known": "BOOLEAN",
    "known_since": "TIMESTAMPTZ", "coverage": "VARCHAR", "nothing": "VARCHAR"}]}]"""
_BATCH = 1_000
# Failures that no file can cause. What a damaged one causes has any other class, and does not always name it.
_OF_THE_QUESTION = (
    *(duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.DataError),
    duckdb.NotImplementedException,
)
_UNKNOWN = re.compile(r"Catalog Error: Table (?:Function )?with name (.+?) does not exist")
# What DuckDB would take a file's name for a pattern by.
_PATTERN = re.compile(r"[*?\[]")


class Known(NamedTuple):
    """The published run as of which is read."""

    run_id: str
    finished_time: dt.datetime
    versions: Mapping[str, int]
    digests: Mapping[str, str]


class OnDays(NamedTuple):
    """The days of which files are looked into, where a question cannot touch others: of `route_changes`, and of other tables.

    What a question is told of files of other days it would leave out itself, but only after it has planned for each of them.
    """

    days: Collection[dt.date]
    of_routes: Collection[dt.date] = ()


class Answer(NamedTuple):
    """The columns of an answer, and its rows, read while they are asked for."""

    names: list[str]
    rows: Iterator[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


class Answers:
    """A warehouse that is asked. One thread at a time; what a question needs is opened once and stays open."""

    def __init__(
        self,
        warehouse: str,
        as_known_at: str | dt.datetime | None = None,
        *,
        is_verified: bool = False,
        is_closed: bool = True,
        memory_mib: int | None = None,
    ) -> None:
        """Find the run as of which is read: the last, one by its id, or the last one published by an instant.

        `is_verified`: what a question touches is held against the ledger first. `is_closed`: statements see no file but those
        below the warehouse, and change no setting. `memory_mib`: what DuckDB may hold (None: its own limit). Raises
        NothingPublishedError where there is no such run, NoLongerReadableError, LayoutError, BrokenLogError, LedgerBehindError.
        """
        self._root = warehouse
        self._made: set[str] = set()
        limit = {} if memory_mib is None else {"memory_limit": f"{memory_mib}MiB", "temp_directory": ""}
        self._connection = duckdb.connect(config={**_SETTINGS, **limit})
        self._connection.execute("SET TimeZone = 'UTC'")
        if is_closed:
            self._close(warehouse)
        self._noted = noted_in(_note_of(warehouse), warehouse)
        self._opened: dict[str, int] = {}
        self._by_day: dict[str, dict[dt.date, list[str]]] = {}
        self._logs: dict[str, DeltaTable] = {}
        self._shown: dict[str, OnDays | None] = {}
        try:
            self._runs = delta_table(path_of(warehouse, "gold", "runs"), "runs", (), None)
        except BrokenLogError as error:
            if isinstance(error.__cause__, TableNotFoundError):
                require_not_behind(self._noted, warehouse, ())
                raise self._nothing() from error
            raise
        self._holder: Holder | None = None
        self.known = self._run_in_force(as_known_at)
        if is_verified:
            from jobs.store.damage import Holder  # noqa: PLC0415  Arrow takes longer than many a question

            self._holder = Holder.at(warehouse, self.known.run_id)

    def _close(self, warehouse: str) -> None:
        """Close what DuckDB could reach: files of this machine, the network, extensions."""
        if "://" not in warehouse:
            folder = f"{Path(warehouse).resolve()}/"
            # A file is looked for by a pattern, and looked at by its name: DuckDB asks of both.
            self._connection.execute("SET allowed_directories = ?", [[folder, _PATTERN.sub(r"[\g<0>]", folder)]])
        for setting in ("enable_external_access = FALSE", "lock_configuration = TRUE"):
            self._connection.execute(f"SET {setting}")

    def ask(self, sql: str, on_days: OnDays | None = None, /, **values: Any) -> Answer:
        """Return what a statement in DuckDB's dialect gives; it reads `values` as `$name`.

        `on_days`: it touches rows of these days alone. Raises UsageError for a statement that cannot be, NotRecordedError for an
        instant of which nothing is recorded, TamperedError where a file cannot be read.
        """
        try:
            self._narrow(self._make_needed(sql), on_days)
            found = self._connection.execute(sql, values or None)
        except duckdb.Error as error:
            raise self._told(error) from error
        return Answer([column[0] for column in found.description or ()], self._rows(found))

    def once(self, sql: str, on_days: OnDays | None = None, /, **values: Any) -> None:
        """Execute a statement that makes something, unless it was already with the same values."""
        done = repr((sql, values))
        if done not in self._made:
            self.ask(sql, on_days, **values)
            self._made.add(done)

    def days_of(self, name: str, column: str, value: str) -> frozenset[dt.date]:
        """Return the days on which a column of a stored table may have a value, by the bounds that its log states of files."""
        self._make_needed(name)
        if name not in self._logs:
            return frozenset()
        told = self._logs[name].get_add_actions(flatten=True)
        columns = (told.column(of).to_pylist() for of in ("partition.day", f"min.{column}", f"max.{column}"))
        return frozenset(
            day
            for day, least, greatest in zip(*columns, strict=True)
            if (least is None or least <= value) and (greatest is None or value <= greatest)
        )

    def table(self, sql: str, **values: Any) -> pa.Table:
        """Return the same with all its rows, as Arrow has them."""
        try:
            self._narrow(self._make_needed(sql), None)
            return self._connection.sql(sql, params=values or None).to_arrow_table()
        except duckdb.Error as error:
            raise self._told(error) from error

    def files(self, name: str) -> dict[str, dt.date | None]:
        """Return the data files of a stored table in the version that is read, in order, and of which day the log says each is."""
        table = asked.stored()[name]
        delta = self._version(table)
        folder = path_of(self._root, table.layer, table.table)
        if delta is None:
            return {}
        self._opened[table.table] = delta.version()
        self._logs[name] = delta
        if self._holder is not None:
            self._holder.hold(table.table)
        found = delta.get_add_actions(flatten=True)
        published = self.known.digests.get(table.table) if table.table not in _OF_NO_RUN else None
        require_rows(table.table, found.column("num_records").to_pylist(), published, folder)
        paths = [f"{folder}/{path}" for path in found.column("path").to_pylist()]
        days = found.column("partition.day").to_pylist() if "day" in table.columns else [None] * len(paths)
        return dict(sorted(zip(paths, days, strict=True)))

    def _narrow(self, names: Iterable[str], on_days: OnDays | None) -> None:
        """Have those of some tables that are cut by day show files of some days; None: of all."""
        for name in names:
            if name not in self._by_day or self._shown.get(name) == on_days:
                continue
            by_day = self._by_day[name]
            days = sorted(by_day)
            if on_days is not None:
                wanted = on_days.of_routes if name == "route_changes" else on_days.days
                # DuckDB reads no empty list; rows of a day that is not asked for the question leaves out
                days = [day for day in days if day in wanted] or days[:1]
            self._connection.execute(f"SET VARIABLE files_{name} = ?", [[path for day in days for path in by_day[day]]])
            self._shown[name] = on_days

    def _make_needed(self, sql: str) -> list[str]:
        """Make what a statement touches as far as it is not there, and return its names."""
        if not sql.isascii() and sql != sql.encode("utf-8", "replace").decode("utf-8"):
            raise UsageError("a statement must be UTF-8: there are bytes in it that are none")
        names = asked.needed(sql, asked.names() | set(_OF_LEDGER), _made_by)
        for name in names:
            if name not in self._made:
                self._make(name)
                self._made.add(name)
        return names

    @cached_property
    def coverage(self) -> list[Covered]:
        """Return what is recorded of each name server."""
        self._make_needed("runs")
        # Not asked: it names the view that is made of this.
        found = self._connection.execute(RECORDED)
        return covered_of(Answer([column[0] for column in found.description or ()], iter(found.fetchall())).dicts())

    def _told(self, error: duckdb.Error) -> JobError:
        """Return what is the matter: an instant that is not recorded, a file that cannot be read, a question that cannot be."""
        said = str(error).strip()
        if NOT_RECORDED in said:
            return NotRecordedError(said[said.index(NOT_RECORDED) :])
        if isinstance(error, duckdb.OutOfMemoryException):
            return UsageError("the statement needs more memory than it may have (ask sql --memory MIB)")
        if isinstance(error, duckdb.PermissionException):
            return UsageError(f"{said.splitlines()[0]}: of files only the warehouse's are read here (ask sql --unsafe)")
        if not isinstance(error, _OF_THE_QUESTION):
            from jobs.store.damage import require_readable  # noqa: PLC0415  as above

            try:
                require_readable(
                    self._root, self._opened, said, deep=not isinstance(error, duckdb.InvalidInputException)
                )
            except TamperedError as damage:
                return damage
        return UsageError(_with_our_names(said))

    def _rows(self, found: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
        try:
            while rows := found.fetchmany(_BATCH):
                yield from rows
        except duckdb.Error as error:
            raise self._told(error) from error

    def _run_in_force(self, as_known_at: str | dt.datetime | None) -> Known:
        published = dict(self.ask("SELECT run_id, layout FROM runs_committed WHERE status = 'published'").rows)
        for layout in published.values():
            require_layout(self._root, layout)
        require_not_behind(self._noted, self._root, published)
        run, by = (as_known_at, None) if isinstance(as_known_at, str) else (None, as_known_at)
        found = next(self.ask(_LAST_RUN, run=run, by=by).rows, None)
        if found is None:
            raise self._nothing(as_known_at)
        known = Known(*found)
        if as_known_at is not None:
            require_kept(self._runs, known.run_id, known.versions)
        return known

    def _nothing(self, as_known_at: str | dt.datetime | None = None) -> NothingPublishedError:
        where = path_of(self._root, "gold", "runs")
        if as_known_at is None:
            return NothingPublishedError(f"{where}: no run with status 'published'; run the nightly job first")
        return NothingPublishedError(f"{where}: no published run is or was known at {as_known_at}")

    # -- what a question touches -------------------------------------------------------------------------------------------

    def _make(self, name: str) -> None:
        statement = asked.statement(name)
        if name == "known_run":
            self._connection.execute("CREATE TEMPORARY TABLE known_run (finished_time TIMESTAMPTZ)")
            self._connection.execute("INSERT INTO known_run VALUES (?)", [self.known.finished_time])
        elif name == "coverage_spans":
            self._make_coverage_spans()
        elif statement is not None:
            self._connection.execute(statement)
        else:
            self._make_table(name, asked.stored()[name])

    def _make_coverage_spans(self) -> None:
        rows = json.dumps(span_rows(self.coverage), default=dt.datetime.isoformat)
        made = "SELECT s.* FROM (SELECT unnest(from_json(?, ?)) AS s)"
        self._connection.execute(f"CREATE TEMPORARY TABLE coverage_spans AS {made}", [rows, _SPANS])

    def _make_table(self, name: str, table: asked.Stored) -> None:
        files = self.files(name)
        if files and "://" in self._root:
            self._connection.register(f"remote_{name}", _remote(files))
            rows, value = f"FROM remote_{name}", "{}"
        elif files:
            rows, value = self._read_here(name, files), "{}"
        else:
            rows, value = "WHERE FALSE", "NULL"
        made = {"closed_month": "strftime(valid_to, '%Y-%m')"} if "closed_month" in table.cut and files else {}
        columns = (
            f"CAST({made.get(column, value.format(column))} AS {of}) AS {column}"
            for column, of in table.columns.items()
        )
        self._connection.execute(f"CREATE TEMPORARY VIEW {name} AS SELECT {', '.join(columns)} {rows}")

    def _read_here(self, name: str, files: Mapping[str, dt.date | None]) -> str:
        """Return what reads local files. What folders are called says nothing of rows: of which day a file is, the log says."""
        patterns = {path: _PATTERN.sub(r"[\g<0>]", path) for path in files}
        self._connection.execute(f"SET VARIABLE files_{name} = ?", [[*patterns.values()]])
        rows = f"FROM read_parquet(getvariable('files_{name}'), hive_partitioning = FALSE"
        if None in files.values():
            return f"{rows})"
        for path, day in files.items():
            if day is not None:
                self._by_day.setdefault(name, {}).setdefault(day, []).append(patterns[path])
        days = "MAP(CAST(? AS VARCHAR[]), CAST(? AS DATE[]))"
        self._connection.execute(f"SET VARIABLE days_{name} = {days}", [[*files], [*files.values()]])
        # Of a file its name is a constant: files of days that are not asked for are not opened.
        of_day = f"getvariable('days_{name}')[filename] AS day"
        return f"FROM (SELECT * EXCLUDE filename, {of_day} {rows}, filename = TRUE))"

    def _version(self, table: asked.Stored) -> DeltaTable | None:
        """Return the version of a table that the run has pinned; the ledger's own are the newest. None: there is none."""
        path = path_of(self._root, table.layer, table.table)
        if table.table == "runs":
            return self._runs
        if table.table == "restatements":
            is_there = DeltaTable.is_deltatable(delta_uri(path))
            return delta_table(path, table.table, table.cut, None) if is_there else None
        version = self.known.versions.get(table.table)
        return None if version is None else delta_table(path, table.table, table.cut, version)


def _with_our_names(said: str) -> str:
    """Return what DuckDB says; of a name that is none, the nearest of ours instead of its own."""
    found = _UNKNOWN.match(said)
    if found is None:
        return said
    known = [name for name in asked.names() if "." not in name]
    near = nearest(found[1].lower(), known)
    return f'there is no table, view or function {found[1]}{near}. `ask sql "SHOW TABLES"` lists them'


def _remote(files: Mapping[str, dt.date | None]) -> ds.Dataset:
    """Return data files of an object store as Arrow reads them: DuckDB has no reader of its own for them."""
    import pyarrow as pa  # noqa: PLC0415  who asks a local folder does not wait for it
    import pyarrow.dataset as ds  # noqa: PLC0415  as above

    from jobs.store.places import filesystem_of  # noqa: PLC0415  as above

    form, system = ds.ParquetFileFormat(), filesystem_of(next(iter(files)))[0]
    fragments = [
        form.make_fragment(filesystem_of(path)[1], system, None if day is None else ds.field("day") == pa.scalar(day))
        for path, day in files.items()
    ]
    schema = fragments[0].physical_schema
    schema = schema if None in files.values() else schema.append(pa.field("day", pa.date32()))
    return ds.FileSystemDataset(fragments, schema, form, system)


def _note_of(warehouse: str) -> str | None:
    """Return what is noted outside the ledger.

    It is read first: of a run that is published meanwhile both know, or only the ledger. Raises UsageError.
    """
    if "://" in warehouse:
        from jobs.store.places import read_text, require_store  # noqa: PLC0415  who asks a local folder does not wait for Arrow

        require_store(warehouse)
        return read_text(f"{warehouse}/{LAST_RUN}")
    note = Path(warehouse, LAST_RUN)
    return note.read_text("utf-8", "replace") if note.is_file() else None


def _made_by(name: str) -> str:
    """Return the text of what a name is made of."""
    return _OF_LEDGER.get(name, asked.statement(name) or "")
