"""Data files as relations: what DuckDB reads of them itself, and what is told of their rows without bringing these together."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import duckdb
import pyarrow as pa

from jobs.store.files import DataFile, batches_of, bounds_of, dataset_of, is_intact, stored_schema, unreadable
from jobs.store.places import local_path, table_path
from namesrv_day.arrow.digest import Digest, Slice, digests_by, slices_of, sum_of
from namesrv_day.arrow.rows import derived_of, empty, plain
from namesrv_day.arrow.sql import connection
from schemas.table import Table

T = TypeVar("T")
_WORD = re.compile(r"\w+")
# Names in queries that no table, column or value of ours has.
_THEIRS, _KNOWN = "their_files", "same_"


def relation_of(root: str, table: Table, files: Sequence[DataFile]) -> duckdb.DuckDBPyRelation:
    """Return the rows of data files, file after file, with the columns of `table`, as this thread's DuckDB reads them when asked.

    It reads files of ours itself, much faster than through Arrow. Raises TamperedError if a file cannot be opened.
    """
    parts = [_relation(root, table, some, is_ours=is_ours) for is_ours, some in _alike(root, table, files)]
    return reduce(duckdb.DuckDBPyRelation.union, parts)


def few_of(
    root: str,
    table: Table,
    files: Sequence[DataFile],
    columns: Sequence[str],
    clause: str,
    others: Mapping[str, pa.Table],
    **values: Any,
) -> pa.Table:
    """Return columns of few of the rows of data files: those that `clause`, SQL behind `FROM rows`, leaves.

    It may join `others`, by their names, and reads `values` as `$name`; a key that is not stored it does not see: that is made of
    the rows that are left. What the footers prove to be the same in all rows is not read. Raises as `read_files`.
    """
    made, none = derived_of(table), empty(table).select(columns)
    shown = ", ".join(f"{made[name]} AS {name}" if name in made else f"rows.{name}" for name in columns)
    words, con = {*_WORD.findall(f"{shown} {clause}")}, connection()
    parts = [none]
    for name, rows in others.items():
        con.register(name, rows)
    try:
        for is_ours, some in _alike(root, table, files):
            stored, given = _stored(root, table, some, words, is_ours=is_ours)
            found = con.execute(f"SELECT {shown} FROM ({stored}) AS rows {clause}", {**values, **given})  # noqa: S608  ours
            parts.append(found.to_arrow_table().cast(none.schema))
    except (duckdb.Error, OSError) as error:
        _require_readable(root, table, files, error)
        raise
    finally:
        for name in (*others, _THEIRS):
            con.unregister(name)
    return pa.concat_tables(parts)


def _stored(
    root: str, table: Table, files: Sequence[DataFile], words: Collection[str], *, is_ours: bool
) -> tuple[str, dict[str, Any]]:
    """Return a query for those columns of files that are among `words`, and the values that it reads."""
    dataset, made = dataset_of(root, table, files), _made_in(table, files, is_ours=is_ours)
    known = _same_in_all(root, table, files)
    if is_ours:
        source, given = "read_parquet($files, hive_partitioning = false)", {"files": dataset.files}
    else:
        connection().register(_THEIRS, dataset)
        source, given = _THEIRS, {}
    columns = []
    for name in (name for name in table.column_names if name in words and not (name in made and name in table.key)):
        if name in made:
            columns.append(f"{made[name]} AS {name}")
        elif name in known:
            given[f"{_KNOWN}{name}"] = known[name]
            columns.append(f"CAST(${_KNOWN}{name} AS {_types_of(table)[name]}) AS {name}")
        else:
            columns.append(name)
    return f"SELECT {', '.join(columns)} FROM {source}", given  # noqa: S608  names of ours


@cache
def _types_of(table: Table) -> dict[str, str]:
    """Return the types of a table's columns as DuckDB has them."""
    rows = connection().from_arrow(plain(table.stored_schema).empty_table())
    return dict(zip(rows.columns, map(str, rows.types), strict=True))


def _alike(root: str, table: Table, files: Iterable[DataFile]) -> Iterator[tuple[bool, list[DataFile]]]:
    """Yield files that follow each other and are read alike: by DuckDB itself or not, of one day."""
    for (is_ours, _), some in groupby(files, lambda file: (_is_read_here(root, table, file), file.day)):
        yield is_ours, [*some]


def _is_read_here(root: str, table: Table, file: DataFile) -> bool:
    """Return whether DuckDB reads a file itself: it lies on this machine, and has just the columns that we write."""
    return local_path(root) is not None and _footer_of(root, table, file).is_ours


def _made_in(table: Table, files: Sequence[DataFile], *, is_ours: bool) -> dict[str, str]:
    """Return the columns that files of one day do not have, with their SQL; Arrow knows the day by itself."""
    of_day = {"day": f"DATE '{files[0].day}'"} if is_ours and files[0].day is not None else {}
    return {**derived_of(table), **of_day}


class _Footer(NamedTuple):
    """What the footer of a data file proves: whether DuckDB reads the file itself, what is the same in all rows."""

    is_ours: bool
    same: dict[str, Any]


_footers: dict[tuple[str, int, int], _Footer] = {}
# A night of a day opens some hundreds.
_MOST_FOOTERS = 2_000


def _footer_of(root: str, table: Table, file: DataFile) -> _Footer:
    """Return what the footer proves; of a file of this machine that has not changed since, it is read once."""
    folder = local_path(table_path(root, table))
    if folder is None:
        return _Footer(is_ours=False, same=_proved(root, table, file))
    try:
        now = (folder / file.path).stat()
    except OSError as error:
        raise unreadable(root, table, file.path, error) from error
    key = str(folder / file.path), now.st_mtime_ns, now.st_size
    if key not in _footers:
        if len(_footers) >= _MOST_FOOTERS:
            _footers.clear()
        _footers[key] = _Footer(_has_just_ours(root, table, file), _proved(root, table, file))
    return _footers[key]


def _proved(root: str, table: Table, file: DataFile) -> dict[str, Any]:
    """Return what is the same in all rows; a damaged footer proves nothing, and to look into it may end the process."""
    return _same_in(root, table, file) if is_intact(root, table, file) else {}


def _has_just_ours(root: str, table: Table, file: DataFile) -> bool:
    """Return whether a file has just the columns that we write."""
    (fragment,) = dataset_of(root, table, [file]).get_fragments()
    try:
        return bool(fragment.physical_schema.equals(stored_schema(table)))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(root, table, file.path, error) from error


def _relation(root: str, table: Table, files: Sequence[DataFile], *, is_ours: bool) -> duckdb.DuckDBPyRelation:
    dataset, made = dataset_of(root, table, files), _made_in(table, files, is_ours=is_ours)
    con = connection()
    rows = con.read_parquet(dataset.files, hive_partitioning=False) if is_ours else con.from_arrow(dataset)
    return rows.project(
        *(
            duckdb.SQLExpression(made[name]).alias(name) if name in made else duckdb.ColumnExpression(name)
            for name in table.column_names
        )
    )


def _same_in_all(root: str, table: Table, files: Iterable[DataFile]) -> dict[str, Any]:
    """Return the values, by column, that are the same in all rows of data files; a struct is one if all of its fields are."""
    first, *others = (same_in(root, table, file) for file in files)
    same = {key: value for key, value in first.items() if all(key in of and of[key] == value for of in others)}
    known = {}
    for field in table.stored_schema:
        parts = [part.name for part in field.type] if pa.types.is_struct(field.type) else []
        if field.name in same:
            known[field.name] = same[field.name]
        elif f"{field.name} IS NOT NULL" in same and all(f"{field.name}.{part}" in same for part in parts):
            known[field.name] = {part: same[f"{field.name}.{part}"] for part in parts}
    return known


def same_in(root: str, table: Table, file: DataFile) -> dict[str, Any]:
    """Return what is the same in all rows of a data file, as its footer proves: values by column, or by `column.field`.

    Of texts, numbers, truth values and `day`; NULL is a value. `column IS NOT NULL` is true where all rows have such a struct.
    Only footers that Arrow has written are taken at their word. Raises TamperedError if the file cannot be opened.
    """
    return _footer_of(root, table, file).same


def _same_in(root: str, table: Table, file: DataFile) -> dict[str, Any]:
    (fragment,) = dataset_of(root, table, [file]).get_fragments()
    try:
        footer = fragment.metadata
    except (OSError, pa.ArrowException) as error:
        raise unreadable(root, table, file.path, error) from error
    found: dict[str, Any] = {} if file.day is None else {"day": file.day}
    if not footer.created_by.startswith("parquet-cpp-arrow") or not footer.num_rows:
        return found
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for number in range(footer.num_columns):
        path = footer.schema.column(number).path
        facts = [group.column(number).statistics for group in groups]
        if path.endswith(".element") or any(fact is None or not fact.has_null_count for fact in facts):
            continue
        nulls = [fact.null_count for fact in facts]
        if "." in path and not any(nulls):
            found[f"{path.partition('.')[0]} IS NOT NULL"] = True
        if nulls == [group.num_rows for group in groups]:
            found[path] = None
        elif not any(nulls) and all(fact.has_min_max for fact in facts):
            low, high = min(fact.min for fact in facts), max(fact.max for fact in facts)
            if low == high and isinstance(low, str | int):
                found[path] = low
    return found


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


def rows_of_slices(root: str, table: Table, file: DataFile) -> dict[Slice, int]:
    """Return how many rows a data file of a day has of each name server. Raises as `read_files`."""
    if file.day is None:
        raise ValueError(f"{table.name} is not cut by day")
    bounds = set(bounds_of(file))
    if len(bounds) == 1 and None not in bounds:
        return {Slice(table.name, file.day, *bounds): file.rows}
    counted = ask_file(root, table, file, lambda rows: rows.aggregate("namesrv_id, count(*)").fetchall())
    return {Slice(table.name, file.day, name): count for name, count in counted}


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


def ask_files(root: str, table: Table, files: Sequence[DataFile], ask: Callable[[duckdb.DuckDBPyRelation], T]) -> T:
    """Return what `ask` makes of the rows of one or more data files, as `relation_of` gives them. Raises as `read_files`."""
    try:
        return ask(relation_of(root, table, files))
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
