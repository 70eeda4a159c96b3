"""`history.duckdb`: the last published run in a file that any DuckDB opens.

Writes  the views and functions of `ask`, with comments, and the saved queries as functions. It contains no table rows: its
        views read the data files, by their paths below the warehouse
"""

from __future__ import annotations

import datetime as dt
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import _duckdb as duckdb

from jobs.store.names import Files, Names, made_with, reading, stand_in
from jobs.store.published import HISTORY, LAYOUT
from schemas import asked
from schemas.queries import Query, queries

_STORAGE: Final = "v1.0.0"
"""Oldest DuckDB version that opens the file."""
_RUN: Final = """
    CREATE OR REPLACE TABLE files.run AS
    SELECT ?::VARCHAR AS run_id, ?::TIMESTAMPTZ AS finished_time, ?::INTEGER AS layout, ?::BIGINT AS ledger,
        ?::VARCHAR AS made_with"""
_SAYS: Final = (
    "SELECT run_id, ledger, made_with FROM files.run",
    """SELECT view_name, sql FROM duckdb_views()
    WHERE database_name = 'history' AND schema_name = 'files' ORDER BY ALL""",
    "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = 'history' ORDER BY ALL",
    """SELECT schema_name, view_name, sql FROM duckdb_views()
    WHERE database_name = 'history' AND NOT internal AND schema_name <> 'files' ORDER BY ALL""",
    """SELECT schema_name, function_name, parameters, macro_definition FROM duckdb_functions()
    WHERE database_name = 'history' AND NOT internal ORDER BY ALL""",
)


class Shown(NamedTuple):
    """Content of the file: a run, the version of `runs`, and each table's data files, by their paths below the warehouse."""

    run_id: str
    finished_time: dt.datetime
    ledger: int
    files_of: Callable[[asked.Stored], Files]


def write_history(warehouse: Path, shown: Shown) -> None:
    """Replace the file in one step: a reader finds the old or the new one whole, even if this process dies.

    A process that has the old file open keeps it. Raises OSError.
    """
    part = warehouse / f"{HISTORY}.part"
    try:
        with _made(warehouse, shown) as made:
            part.unlink(missing_ok=True)  # from a process that died
            shutil.copyfile(made, part)
        part.replace(warehouse / HISTORY)
    except duckdb.Error as error:
        raise OSError(f"{warehouse / HISTORY}: cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def is_as_made(warehouse: Path, shown: Shown) -> bool | None:
    """Return whether the file shows what `write_history` would write.

    None: it is of another run or version, or names other data files, as after a run that died, or an OPTIMIZE by somebody.
    """
    with _made(warehouse, shown) as made:
        try:
            there, fresh = (_contents(path) for path in (warehouse / HISTORY, made))
        except duckdb.Error:
            return False
    if there[0] == fresh[0] and there[2:] != fresh[2:]:
        return False
    return True if there == fresh else None


def _contents(path: Path) -> list[Any]:
    """Return all that a file shows: its run, the definitions of its names, and its own rows."""
    with _attached(path, "READ_ONLY") as connection:
        found = [connection.execute(statement).fetchall() for statement in _SAYS]
        tables = [f'"{schema}"."{name}"' for schema, name, *_ in found[2]]
        rows = (connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables)  # noqa: S608  quoted
        return [*found, *(sorted(map(str, of)) for of in rows)]


@contextmanager
def _made(warehouse: Path, shown: Shown) -> Iterator[Path]:
    # Not beside the warehouse: in the name of a folder DuckDB takes a question mark for its end.
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, HISTORY)
        shutil.copyfile(_template(), made)
        with _opened(made) as connection:
            stand_in(connection, str(warehouse.resolve()))
            rows_of = {name: reading(shown.files_of(table)) for name, table in asked.stored().items()}
            Names(connection, rows_of.get, lambda: shown.finished_time, are_made=True).fill()
            connection.execute(_RUN, [shown.run_id, shown.finished_time, LAYOUT, shown.ledger, made_with()])
        yield made


def _template() -> Path:
    """Return the file without a run, made once for these sources: making all names takes much longer than listing files."""
    path = asked.kept_file(".duckdb")
    if not path.is_file():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder, path.name)
            with _opened(made) as connection:
                names = Names(connection, lambda _: None, lambda: None)
                names.make()
                for name in sorted(names.made):
                    connection.execute(asked.statement(f"comment.{name}") or "SELECT NULL")
                for query in queries().values():
                    connection.execute(_macro(query))
            made.replace(path)
    return path


@contextmanager
def _opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a file, or create it, in one transaction."""
    with _attached(path, f"STORAGE_VERSION '{_STORAGE}'") as connection:
        connection.execute("BEGIN")
        yield connection
        for statement in ("COMMIT", "USE memory", "DETACH history"):
            connection.execute(statement)


@contextmanager
def _attached(path: Path, options: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session in UTC in which a file is the current database."""
    named = str(path).replace("'", "''")
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as connection:
        for statement in ("SET TimeZone = 'UTC'", f"ATTACH '{named}' AS history ({options})", "USE history"):
            connection.execute(statement)
        yield connection


def _macro(query: Query) -> str:
    """Return the statement that makes a saved query a function. Its parameters can be given by name, with a _ in front."""
    types = {one.name: one.type for one in query.parameters}

    def bound(found: re.Match[str]) -> str:
        name = found[1]
        return found[0] if name not in types else f"CAST(_{name} AS INT)" if types[name] == "INT" else f"_{name}"

    body = re.sub(r"\$(\w+)", bound, asked.statement(f"query.{query.name}") or "")
    given = []
    for one in query.parameters:
        default = one.default if one.default == "NULL" or one.type == "INT" else f"'{one.default}'"
        given.append(f"_{one.name}" if one.default is None else f"_{one.name} := {default}")
    return f"CREATE MACRO {query.name}({', '.join(given)}) AS TABLE\n{body}"
