"""Data files as relations: rows that DuckDB reads when it is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from typing import TypeVar

import duckdb
import pyarrow as pa
from duckdb import ConstantExpression

from jobs.store.files import DataFile, batches_of, bounds_of, dataset_of, is_intact, stored_schema, unreadable
from jobs.store.places import local_path, table_path
from namesrv_day.arrow.digest import Digest, Slice, digests_by, slices_of, sum_of
from namesrv_day.arrow.rows import derived_of
from namesrv_day.arrow.sql import connection
from schemas.table import Table

T = TypeVar("T")


def relation_of(
    root: str, table: Table, files: Sequence[DataFile], *, with_keys: bool = True
) -> duckdb.DuckDBPyRelation:
    """Return the rows of data files, file after file, with the columns of `table`, as this thread's DuckDB reads them when asked.

    It reads files of ours itself, much faster than through Arrow. A key that is not stored it makes of every row that it reads: who
    wants few rows makes it afterwards. Raises TamperedError if a file cannot be opened.
    """
    made = derived_of(table)
    left_out = () if with_keys else made.keys() & {*table.key}
    names = [name for name in table.column_names if name not in left_out]
    parts = []
    for is_ours, some in groupby(files, lambda file: _is_read_here(root, table, file)):
        if is_ours:
            # One statement: each step of a relation is bound anew.
            days = groupby(some, lambda file: file.day)
            parts.append(connection().sql(" UNION ALL ".join(_sql(root, table, [*of], made, names) for _, of in days)))
        else:
            rows = connection().from_arrow(dataset_of(root, table, [*some]))
            parts.append(rows.project(", ".join(f"{made.get(name, name)} AS {name}" for name in names)))
    return reduce(duckdb.DuckDBPyRelation.union, parts)


def _sql(root: str, table: Table, files: Sequence[DataFile], made: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the query of the rows of files of one day, which no file of ours stores."""
    if (day := files[0].day) is not None:
        made = {**made, "day": f"DATE '{day}'"}
    columns = ", ".join(f"{made.get(name, name)} AS {name}" for name in names)
    paths = ConstantExpression(dataset_of(root, table, files).files)
    return f"SELECT {columns} FROM read_parquet({paths}, hive_partitioning = false)"  # noqa: S608  names of ours


_are_ours: dict[tuple[str, int, int], bool] = {}
# A night of a day opens some hundreds.
_MOST_FOOTERS = 2_000


def _is_read_here(root: str, table: Table, file: DataFile) -> bool:
    """Return whether DuckDB reads a file itself: it lies on this machine, and has just the columns that we write.

    The footer of a file that has not changed since is read once.
    """
    folder = local_path(table_path(root, table))
    if folder is None:
        return False
    try:
        now = (folder / file.path).stat()
    except OSError as error:
        raise unreadable(root, table, file.path, error) from error
    key = str(folder / file.path), now.st_mtime_ns, now.st_size
    if key not in _are_ours:
        if len(_are_ours) >= _MOST_FOOTERS:
            _are_ours.clear()
        _are_ours[key] = _has_just_ours(root, table, file)
    return _are_ours[key]


def _has_just_ours(root: str, table: Table, file: DataFile) -> bool:
    """Return whether a file has just the columns that we write."""
    (fragment,) = dataset_of(root, table, [file]).get_fragments()
    try:
        return bool(fragment.physical_schema.equals(stored_schema(table)))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(root, table, file.path, error) from error


def require_intact(root: str, table: Table, files: Iterable[DataFile]) -> None:
    """Raise TamperedError for the first file that has not the bytes that were written, whatever its rows are."""
    for file in files:
        if not is_intact(root, table, file):
            raise unreadable(root, table, file.path, "its bytes are not those that were written")


def digests_of(root: str, table: Table, files: Iterable[DataFile]) -> dict[Slice, Digest]:
    """Return the digest of each slice that the rows of data files make up. Raises as `read_files`."""
    found: dict[Slice, Digest] = {}
    for file in files:
        for cut, digest in ask_file(root, table, file, partial(slices_of, table.name)).items():
            found[cut] = found.get(cut, Digest()) + digest
    return found


def digest_of(root: str, table: Table, files: Iterable[DataFile]) -> Digest:
    """Return the digest of all rows of data files. Raises as `read_files`."""
    return sum_of(digest for file in files for digest in ask_file(root, table, file, digests_by).values())


def namesrvs_in(root: str, table: Table, files: Iterable[DataFile]) -> set[str]:
    """Return the name servers that the files have rows of; a file of one alone is not opened for it. Raises as `read_files`."""
    found: set[str | None] = set()
    for file in files:
        bounds = set(bounds_of(file))
        if len(bounds) != 1 or None in bounds:
            rows = ask_file(root, table, file, lambda rows: rows.unique("namesrv_id").to_arrow_table())
            bounds = set(rows.column(0).to_pylist())
        found |= bounds
    return {name for name in found if name is not None}


def ask_file(root: str, table: Table, file: DataFile, ask: Callable[[duckdb.DuckDBPyRelation], T]) -> T:
    """Return what `ask` makes of the rows of a data file, as `relation_of` gives them. Raises as `read_files`."""
    return ask_files(root, table, [file], ask)


def ask_files(
    root: str,
    table: Table,
    files: Sequence[DataFile],
    ask: Callable[[duckdb.DuckDBPyRelation], T],
    *,
    with_keys: bool = True,
) -> T:
    """Return what `ask` makes of the rows of one or more data files, as `relation_of` gives them. Raises as `read_files`."""
    try:
        return ask(relation_of(root, table, files, with_keys=with_keys))
    except (duckdb.Error, OSError) as error:
        _require_readable(root, table, files, error)
        raise


def _require_readable(root: str, table: Table, files: Sequence[DataFile], error: Exception) -> None:
    """Raise TamperedError, which names the file, unless each can be read, and has the bytes that were written.

    Some damage DuckDB alone notices: such an `error` of its reader has no class of its own.
    """
    for _ in batches_of(root, table, files):
        pass
    require_intact(root, table, files)
    if type(error) is duckdb.Error:
        raise unreadable(root, table, files[0].path, error) from error
