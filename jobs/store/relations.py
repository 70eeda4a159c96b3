"""Data files as relations: rows that DuckDB reads when it is asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby

import duckdb
from duckdb import ConstantExpression

from jobs.store.files import DataFile, batches_of, dataset_of, is_intact, read_files, sha256_in, unreadable
from jobs.store.places import local_path
from namesrv_day.arrow.digest import Digest, Slice, digests_by, slices_of, sum_of
from namesrv_day.arrow.rows import derived_of, empty
from namesrv_day.arrow.sql import connection
from schemas.table import Table


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
    # It lies on this machine, and what it is called says that it has just the columns that we write.
    is_here = local_path(root) is not None
    for is_ours, some in groupby(files, lambda file: is_here and sha256_in(file.path) is not None):
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


def require_intact(root: str, table: Table, files: Iterable[DataFile]) -> None:
    """Raise TamperedError for the first file that has not the bytes that were written, whatever its rows are."""
    for file in files:
        if not is_intact(root, table, file):
            raise unreadable(root, table, file.path, "its bytes are not those that were written")


def digests_of(root: str, table: Table, files: Iterable[DataFile]) -> dict[Slice, Digest]:
    """Return the digest of each slice that the rows of data files make up. Raises as `read_files`."""
    found: dict[Slice, Digest] = {}
    for file in files:
        with reading(root, table, [file]) as rows:
            for cut, digest in slices_of(table.name, rows).items():
                found[cut] = found.get(cut, Digest()) + digest
    return found


def digest_of(root: str, table: Table, files: Iterable[DataFile]) -> Digest:
    """Return the digest of all rows of data files. Raises as `read_files`."""
    found = Digest()
    for file in files:
        with reading(root, table, [file]) as rows:
            found += sum_of(digests_by(rows).values())
    return found


def namesrvs_in(root: str, table: Table, files: Iterable[DataFile]) -> set[str]:
    """Return the name servers that the files have rows of; a file of one alone is not opened for it. Raises as `read_files`."""
    found: set[str | None] = set()
    for file in files:
        if file.namesrvs[0] is not None and file.namesrvs[0] == file.namesrvs[1]:
            found.add(file.namesrvs[0])
        else:
            found.update(read_files(root, table, [file], ["namesrv_id"])[0].unique().to_pylist())
    return {name for name in found if name is not None}


@contextmanager
def reading(
    root: str, table: Table, files: Sequence[DataFile], *, with_keys: bool = True
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Give the rows of data files, as `relation_of` does, to be asked within. Raises as `read_files`.

    Some damage DuckDB alone notices: such an error of its reader has no class of its own.
    """
    try:
        yield relation_of(root, table, files, with_keys=with_keys) if files else connection().from_arrow(empty(table))
    except (duckdb.Error, OSError) as error:
        for _ in batches_of(root, table, files):
            pass
        require_intact(root, table, files)
        if type(error) is duckdb.Error and files:
            raise unreadable(root, table, files[0].path, error) from error
        raise
