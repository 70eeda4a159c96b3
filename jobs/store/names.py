"""The names that users see in DuckDB, over the files that a published run has pinned.

Makes   views, macros and two small tables in a database. For `ask` they are in memory, and only those that a query uses; the file
        beside the tables (`store.history`) has all of them, for everybody with DuckDB
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from _duckdb import (
    DuckDBPyConnection,
)  # without the `duckdb` package around it, whose import takes longer than many a query

from jobs import __version__
from jobs.store.coverage import RECORDED, Covered, covered_of, span_rows
from schemas import asked

# Names made from the ledger instead of by a statement, with the table that each is made from.
_OF_LEDGER: Mapping[str, str] = {"known_run": "", "coverage_spans": "runs"}
# Characters by which DuckDB takes a file's name for a pattern.
_PATTERN = re.compile(r"[*?\[]")


class Files(NamedTuple):
    """Data files of a table, in order, by their paths below the warehouse.

    `partitions`: values that only the log has, not the rows: by column, one for each file.
    """

    paths: Sequence[str]
    partitions: Mapping[str, Sequence[Any]]


class Names:
    """Names in the database of a connection, whose session is in UTC. Each is made once, after the names that it depends on.

    The rows of stored tables are views in the schema `files`; a view of the same name shows them to users.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        rows_of: Callable[[str], str | None],
        finished_time: Callable[[], dt.datetime | None],
        *,
        are_made: bool = False,
    ) -> None:
        """Begin without names; `are_made`: all names are there.

        `rows_of`: the expression after FROM that reads a stored table's rows; None: it has none. `finished_time`: when the run was
        published as of which tables are read; it may query rows of the ledger.
        """
        self._connection, self._rows_of, self._finished_time = connection, rows_of, finished_time
        self.made = set(_all()) if are_made else set[str]()
        if not are_made:
            connection.execute("CREATE SCHEMA files")
            connection.execute("CREATE MACRO warehouse() AS ''")

    def make(self, text: str | None = None) -> None:
        """Make the missing names that a text uses; None: all names."""
        if len(self.made) < len(_all()):
            for name in touched(" ".join(_all()) if text is None else text):
                if name not in self.made:
                    self._make(name)
                    self.made.add(name)

    def fill(self) -> None:
        """Make the names anew that differ from run to run."""
        for name, table in asked.stored().items():
            self._make_rows(name, table)
        for name in _OF_LEDGER:
            self._make(name)

    @cached_property
    def coverage(self) -> list[Covered]:
        """Return the coverage of each name server."""
        self.make("runs")
        found = self._connection.execute(RECORDED)
        names = [column[0] for column in found.description or ()]
        return covered_of([dict(zip(names, row, strict=True)) for row in found.fetchall()])

    def _make(self, name: str) -> None:
        statement = asked.statement(name)
        if name == "known_run":
            made = "CREATE OR REPLACE TABLE known_run AS SELECT ?::TIMESTAMPTZ AS finished_time"
            self._connection.execute(made, [self._finished_time()])
        elif name == "coverage_spans":
            rows = json.dumps(span_rows(self.coverage), default=dt.datetime.isoformat)
            made = "SELECT s.* FROM (SELECT unnest(from_json(?, ?)) AS s)"
            self._connection.execute(
                f"CREATE OR REPLACE TABLE coverage_spans AS {made}", [rows, asked.derived(name, "said")]
            )
        elif statement is not None:
            self._connection.execute(statement)
        else:
            self._make_rows(name, asked.stored()[name])
            self._connection.execute(f"CREATE VIEW {name} AS SELECT * FROM files.{name}")  # noqa: S608  a name of ours

    def _make_rows(self, name: str, table: asked.Stored) -> None:
        rows = self._rows_of(name)
        made = {}
        if "closed_month" in table.cut and rows:
            ended = table.ends if table.columns[table.ends] == "DATE" else f"timezone('UTC', {table.ends})"
            made["closed_month"] = f"strftime({ended}, '%Y-%m')"
        value, rows = ("NULL", "(SELECT 1) WHERE FALSE") if rows is None else ("{}", rows)
        columns = (
            f"CAST({made.get(column, value.format(column))} AS {of}) AS {column}"
            for column, of in table.columns.items()
        )
        self._connection.execute(f"CREATE OR REPLACE VIEW files.{name} AS SELECT {', '.join(columns)} FROM {rows}")  # noqa: S608  quoted


def stand_in(connection: DuckDBPyConnection, warehouse: str) -> None:
    """Let a session find data files below a warehouse, whatever the working directory of its process."""
    connection.execute(f"CREATE OR REPLACE TEMPORARY MACRO warehouse() AS {_literal(pattern_of(warehouse) + '/')}")


def made_with() -> str:
    """Return the text that identifies this software's definitions in a file."""
    return f"{__version__} {asked.digest()}"


def touched(text: str) -> list[str]:
    """Return the names that a text may use, dependencies first."""
    return asked.needed(text, _all(), lambda name: _OF_LEDGER.get(name, asked.statement(name) or ""))


@cache
def _all() -> frozenset[str]:
    return frozenset(name for name in asked.names() if "." not in name) | frozenset(_OF_LEDGER)


def reading(files: Files) -> str | None:
    """Return the expression after FROM that reads data files; None: there are none.

    Folder names are ignored: what the log says of a file is looked up by the file's name. Within a file the name is constant, so
    DuckDB does not open a file that a condition on it excludes.
    """
    if not files.paths:
        return None
    paths = f"list_transform({_literal([*map(pattern_of, files.paths)])}, lambda path: warehouse() || path)"
    read = f"read_parquet({paths}, hive_partitioning = FALSE"
    if not files.partitions:
        return f"{read})"
    place = f"list_position({_literal([path.rpartition('/')[2] for path in files.paths])}, parse_filename(filename))"
    columns = (f"{_literal(values)}[{place}] AS {column}" for column, values in files.partitions.items())
    return f"(SELECT * EXCLUDE filename, {', '.join(columns)} FROM {read}, filename = TRUE))"  # noqa: S608  quoted


def pattern_of(path: str) -> str:
    """Return the pattern that matches just this path: DuckDB takes file names for patterns."""
    return _PATTERN.sub(r"[\g<0>]", path)


def _literal(value: Any) -> str:
    """Return a text, a date, NULL, or a list of these as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    return f"[{', '.join(map(_literal, value))}]"
