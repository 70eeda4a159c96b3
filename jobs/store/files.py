"""Data files of tables: Parquet, written by the process that made the rows. A commit names them in a version later."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import posixpath
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from itertools import accumulate, groupby, pairwise
from operator import and_
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from duckdb import ConstantExpression

from jobs.errors import TamperedError, first_line
from jobs.store.ledger import Pieces, leaves_of, root_of
from jobs.store.places import filesystem_of, local_path, table_path
from namesrv_day.arrow import (
    Digest,
    Slice,
    conformed,
    connection,
    derived_of,
    digests_by,
    empty,
    plain,
    slices_of,
    sum_of,
    with_derived,
)
from schemas import gold
from schemas.table import CLOSED_MONTH, TEXT_ONCE, Table

# Readers skip whole row groups: the rows of a name server or a broker lie in few groups of this size.
_ROWS_PER_GROUP = 128 * 1024
# Intervals are sorted by topic or broker, and one of these is asked for. Open ones are also read whole each night.
_CLOSED_PER_GROUP, _OPEN_PER_GROUP = 2 * 1024, 8 * 1024
# Neighbouring values differ by little.
_RISING: Final = frozenset({"seq", "event_time", "effect_time", "source_offset"})
# All values differ.
_UNIQUE: Final = frozenset({"event_id", "quarantine_id"})
# Long and similar texts: a dictionary writes each once for many rows.
LONG_TEXTS: Final = frozenset({"body"})
_LONG_LEVEL, _DICTIONARY_BYTES = 9, 64 << 20
_BOUNDED: Final = frozenset(
    {
        *(table.span[1] for table in gold.INTERVAL_TABLES),
        *("namesrv_id", "cluster_name", "broker_name", "broker_addr", "topic", "run_id"),
        *("seq", "event_time", "effect_time", "valid_from", "from_time", "to_time", "hour"),
    }
)
"""Columns whose minima and maxima let readers skip files."""
_WORD = re.compile(r"\w+")
# Hive's folder name for rows without a value of the partition column.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
# Delta's own limit.
_STATS_CHARS = 32
_SHA256 = re.compile(r"-([0-9a-f]{64})\.zstd\.parquet$")
_CHUNK = 4 << 20
# A query on one file takes longer than reading a small one.
_ASKED_BYTES = 16 << 20
ASKED_FILES = 100
"""Files in one query: each is a part of the statement."""
_PIECES: Final = b"pieces"


class DataFile(NamedTuple):
    """A data file: its path below the table's folder, its bytes and rows, its day (None: the table is not cut by day).

    `namesrvs`: its least and greatest name server; None if unknown, or if some rows have none. `closed`: the first and the last
    day on which its intervals closed; None: they are open. `stats`: minima and maxima, as JSON in the form of Delta's log; empty
    for a file found in a log. `pieces`: only for a file that was just written.
    """

    path: str
    size: int
    rows: int
    day: dt.date | None
    namesrvs: tuple[str | None, str | None] = (None, None)
    closed: tuple[dt.date, dt.date] | None = None
    stats: str = ""
    pieces: Pieces = ()

    def may_be_of(self, names: Iterable[str]) -> bool:
        """Return whether the file may have rows of one of these name servers."""
        low, high = self.namesrvs
        return low is None or high is None or any(low <= name <= high for name in names)


def write_file(
    rows: pa.Table | Iterable[pa.Table],
    root: str,
    table: Table,
    day: dt.date | None,
    name: str,
    joins: Sequence[int] = (),
) -> DataFile:
    """Write rows of one day (None: the table is not cut by day) as a data file, with the columns of `table`, in their order.

    For intervals `day` is any day of the month in which all of them closed; None: they are open.

    The file's name consists of `name`, a random part (so no attempt overwrites another one's file), and the SHA-256 of its bytes
    for `require_intact`. `joins`: the row count of each piece of the files that are put together; further rows are one more piece.
    """
    schema = stored_schema(table)
    # Dictionary columns go into the file as they are; the stored schema does not show it.
    kinds = {field.name: field.type for field in rows.schema} if isinstance(rows, pa.Table) else {}
    texts = {name: kind for name, kind in kinds.items() if pa.types.is_dictionary(kind)}
    given = pa.schema([field.with_type(texts.get(field.name, field.type)) for field in schema])
    sink, leaves = pa.BufferOutputStream(), list[bytes]()
    of_intervals = _OPEN_PER_GROUP if day is None else _CLOSED_PER_GROUP
    with pq.ParquetWriter(sink, given, **_encodings(schema)) as writer:
        parts = [rows] if isinstance(rows, pa.Table) else rows
        for group in together((conformed(part, given) for part in parts), _ROWS_PER_GROUP):
            writer.write_table(group, of_intervals if table.has_intervals else _ROWS_PER_GROUP)
            leaves += leaves_of(group) if is_rooted(table) else []
        if joins:
            writer.add_key_value_metadata({_PIECES: ",".join(map(str, joins)).encode()})
    data, footer = sink.getvalue(), writer.writer.metadata
    unique = f"{uuid.uuid4().hex[:12]}-{hashlib.sha256(data).hexdigest()}"
    below = "" if day is None else f"day={day}/"
    if table.has_intervals:
        below = f"{CLOSED_MONTH}={NO_VALUE if day is None else month_of(day)}/"
    path = f"{below}{name}-{unique}.zstd.parquet"
    system, folder = filesystem_of(table_path(root, table))
    if isinstance(system, pafs.LocalFileSystem):
        system.create_dir(posixpath.dirname(f"{folder}/{path}"))
    with system.open_output_stream(f"{folder}/{path}") as stream:
        stream.write(data)
    by_day = day if table.is_by_day else None
    return _of_footer(table, footer, path, data.size, by_day)._replace(pieces=_pieces(leaves, joins))


def is_rooted(table: Table) -> bool:
    """Return whether the chain has Merkle roots of a table's rows. For recorded tables, cut by day, it has the files' bytes."""
    return table.layer != "bronze" or not table.partition_by


def joins_of(root: str, table: Table, file: DataFile) -> list[int]:
    """Return the row count of each piece of a file: one piece, unless files were put together. Raises TamperedError."""
    footer, _ = _footer(root, table, file.path)
    joins = (footer.metadata or {}).get(_PIECES)
    return [footer.num_rows] if joins is None else [int(rows) for rows in joins.split(b",")]


def pieces_of(root: str, table: Table, file: DataFile) -> Pieces:
    """Return the pieces of a file, computed from its rows. Raises TamperedError."""
    names = stored_schema(table).names
    leaves = [leaf for rows in batches_of(root, table, [file]) for leaf in leaves_of(rows.select(names))]
    return _pieces(leaves, joins_of(root, table, file))


def _pieces(leaves: Sequence[bytes], joins: Sequence[int]) -> Pieces:
    ends = [*accumulate(joins), len(leaves)]
    return tuple((end - start, root_of(leaves[start:end])) for start, end in pairwise([0, *ends]) if end > start)


def month_of(day: dt.date) -> str:
    """Return the month of a day, in the form of the intervals' partition column."""
    return f"{day:%Y-%m}"


def sha256_in(path: str) -> str | None:
    """Return the SHA-256 in the name of a file of ours; None for another file."""
    found = _SHA256.search(path)
    return None if found is None else found[1]


def sha256_at(root: str, table: Table, path: str) -> str:
    """Return the SHA-256 of a file below a table's folder. Raises TamperedError if it cannot be opened."""
    system, folder = filesystem_of(table_path(root, table))
    found = hashlib.sha256()
    try:
        with system.open_input_stream(f"{folder}/{path}", buffer_size=0) as stream:
            while chunk := stream.read(_CHUNK):
                found.update(chunk)
    except OSError as error:
        raise unreadable(root, table, path, error) from error
    return found.hexdigest()


def described(root: str, table: Table, path: str, day: dt.date | None) -> DataFile:
    """Return a data file with all facts of its footer. Raises TamperedError."""
    footer, size = _footer(root, table, path)
    return _of_footer(table, footer, path, size, day)


def _footer(root: str, table: Table, path: str) -> tuple[pq.FileMetaData, int]:
    system, folder = filesystem_of(table_path(root, table))
    try:
        with system.open_input_file(f"{folder}/{path}") as file:
            return pq.read_metadata(file), file.size()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(root, table, path, error) from error


def read_files(
    root: str,
    table: Table,
    files: Iterable[DataFile],
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002  pyarrow's own name for it
    once: Collection[str] = (),
) -> pa.Table:
    """Return the rows of data files of `table`, file after file: all columns or some, all rows or those of `filter`.

    `once`: text columns to keep as dictionaries: each text once, however many rows have it. Files that cannot have rows of `filter`
    are not opened. Raises TamperedError, which names the file, if one cannot be read.
    """
    listed = list(files)
    schema = plain(table.schema)
    names = list(columns) if columns is not None else schema.names
    if not listed:
        return schema.empty_table().select(names)
    try:
        dataset, words, made = dataset_of(root, table, listed, once), set(_WORD.findall(str(filter))), derived_of(table)
        if made.keys().isdisjoint([*names, *words]):
            return dataset.to_table(names, filter=filter)
        # Columns that are not stored are computed from others, which are read for it. A filter on such a column comes last.
        is_late = not words.isdisjoint(made)
        inputs = {*names, *_WORD.findall(" ".join(made.values())), *(words if is_late else ())}
        stored = [name for name in dataset.schema.names if name in inputs]
        rows = with_derived(dataset.to_table(stored, filter=None if is_late else filter), table)
        return (rows.filter(filter) if is_late else rows).select(names)
    except (OSError, ValueError, pa.ArrowException):
        for _ in batches_of(root, table, listed):
            pass
        raise  # each file can be read: the error lies in what was asked for


def batches_of(root: str, table: Table, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """Yield the rows of data files as stored, a part at a time: memory does not grow with their number.

    Raises the errors of `read_files`.
    """
    path = ""
    try:
        for file in files:
            path = file.path
            batches = dataset_of(root, table, [file]).to_batches(batch_readahead=1, fragment_readahead=0)
            yield from together((pa.Table.from_batches([batch]) for batch in batches), _ROWS_PER_GROUP)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(root, table, path, error) from error


def dataset_of(root: str, table: Table, files: Sequence[DataFile], once: Collection[str] = ()) -> ds.FileSystemDataset:
    """Return data files as an Arrow dataset, a fragment for each, none opened yet; `once`: as in `read_files`."""
    system, folder = filesystem_of(table_path(root, table))
    form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us", dictionary_columns=list(once))
    fragments = [form.make_fragment(f"{folder}/{file.path}", system, _guarantee(file)) for file in files]
    kept = (field.with_type(TEXT_ONCE) if field.name in once else field for field in plain(table.stored_schema))
    return ds.FileSystemDataset(fragments, pa.schema(list(kept)), form, system)


def _guarantee(file: DataFile) -> pc.Expression:
    """Return what holds for all rows of a file. Columns with a single value need not be stored in the rows."""
    facts = [pc.scalar(True)] if file.day is None else [pc.field("day") == pa.scalar(file.day)]
    low, high = file.namesrvs
    if low is not None and low == high:
        facts.append(pc.field("namesrv_id") == low)
    elif low is not None:
        facts += [pc.field("namesrv_id") >= low, pc.field("namesrv_id") <= high]
    return reduce(and_, facts)


def unreadable(root: str, table: Table, path: str, error: BaseException | str) -> TamperedError:
    """Return the error for a data file that cannot be read, with its path and the reason."""
    where = f"{table_path(root, table)}/{path}"
    why = "it is not there" if isinstance(error, FileNotFoundError) else error
    if isinstance(why, BaseException):
        why = first_line(why).rpartition(f"'{where}': ")[2].rstrip(".")
    return TamperedError(f"{table.name}: cannot be read: {where}: {why}")


# -- how rows are stored ---------------------------------------------------------------------------------------------


def stored_schema(table: Table) -> pa.Schema:
    """Return the columns in the table's files: all stored columns except the partition's."""
    return pa.schema([field for field in plain(table.stored_schema) if field.name not in table.partition_by])


def together(pieces: Iterable[pa.Table], most_rows: int, most_bytes: int | None = None) -> Iterator[pa.Table]:
    """Yield the rows of all pieces as tables; each ends as soon as it has so many rows or bytes."""
    held, rows, size = list[pa.Table](), 0, 0
    for piece in pieces:
        held.append(piece)
        rows, size = rows + len(piece), size + (0 if most_bytes is None else piece.nbytes)
        if rows >= most_rows or (most_bytes is not None and size >= most_bytes):
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)


@cache
def _encodings(schema: pa.Schema) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    stored = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    leaves = [stored.column(number).path for number in range(len(stored.names))]
    return {
        "compression": "zstd",
        "use_dictionary": [path for path in leaves if path not in _RISING | _UNIQUE],
        "dictionary_pagesize_limit": _DICTIONARY_BYTES,
        "compression_level": {path: _LONG_LEVEL for path in leaves if path in LONG_TEXTS} or None,
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in schema.names if name in _RISING},
        "store_schema": False,
    }


def _of_footer(table: Table, footer: pq.FileMetaData, path: str, size: int, day: dt.date | None) -> DataFile:
    """Return a file with its footer's statistics of the columns in `_BOUNDED`."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(footer.num_columns if footer.num_row_groups else 0):
        name = footer.schema.column(number).path
        if name not in _BOUNDED:
            continue
        groups = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
        if any(group is None for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        known = [group for group in groups if group.has_min_max]
        rows = sum(group.num_values for group in known) + nulls[name]
        if known and rows == footer.num_rows:
            low[name] = _floor(min(group.min for group in known))
            greatest = _ceiling(max(group.max for group in known))
            if greatest is not None:
                high[name] = greatest
    stats = {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    ends = (dt.date.fromisoformat(of[table.span[1]][:10]) for of in (low, high) if table.span[1] in of)
    found = DataFile(path, size, footer.num_rows, day, stats=json.dumps(stats))
    return bounded(found, nulls.get("namesrv_id"), low.get("namesrv_id"), high.get("namesrv_id"), *ends)


def bounded(
    file: DataFile,
    nulls: int | None,
    low: str | None,
    high: str | None,
    first: dt.date | None = None,
    last: dt.date | None = None,
) -> DataFile:
    """Return a file with facts about all its rows: name servers (if no row lacks one), and the days when its intervals closed."""
    namesrvs = (low, high) if nulls == 0 and low is not None and high is not None else (None, None)
    return file._replace(namesrvs=namesrvs, closed=None if first is None else (first, last or first))


def _floor(value: Any) -> Any:
    """Return a lower bound for Delta's statistics: texts are cut, instants are whole milliseconds."""
    if isinstance(value, dt.datetime):
        return f"{value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return value[:_STATS_CHARS] if isinstance(value, str) else value


def _ceiling(value: Any) -> Any:
    """Return an upper bound; None for a longer text."""
    if isinstance(value, dt.datetime) and value.microsecond % 1000:
        return _floor(value + dt.timedelta(milliseconds=1))
    return None if isinstance(value, str) and len(value) > _STATS_CHARS else _floor(value)


# -- queries over files with DuckDB ------------------------------------------------------------------------------------


@contextmanager
def reading(
    root: str, table: Table, files: Sequence[DataFile], *, with_keys: bool = True
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Yield a relation of the rows of data files, file after file, with the columns of `table`, for this thread's DuckDB.

    DuckDB reads files of ours itself, much faster than through Arrow. It computes a key that is not stored for every row: callers
    that want few rows compute it afterwards. Raises the errors of `read_files`. Some damage is noticed by DuckDB alone, whose
    reader raises the base class duckdb.Error for it.
    """
    made = derived_of(table)
    left_out = () if with_keys else made.keys() & {*table.key}
    names = [name for name in table.column_names if name not in left_out]
    try:
        parts = [] if files else [connection().from_arrow(empty(table))]
        # A file on this machine with a SHA-256 in its name has exactly the columns that we write.
        is_here = local_path(root) is not None
        for is_ours, some in groupby(files, lambda file: is_here and sha256_in(file.path) is not None):
            if is_ours:
                # One statement, since DuckDB binds each step of a relation again.
                days = groupby(some, lambda file: file.day)
                parts.append(
                    connection().sql(" UNION ALL ".join(_sql(root, table, [*of], made, names) for _, of in days))
                )
            else:
                rows = connection().from_arrow(dataset_of(root, table, [*some]))
                parts.append(rows.project(", ".join(f"{made.get(name, name)} AS {name}" for name in names)))
        yield reduce(duckdb.DuckDBPyRelation.union, parts)
    except (duckdb.Error, OSError) as error:
        for _ in batches_of(root, table, files):
            pass
        require_intact(root, table, files)
        if type(error) is duckdb.Error and files:
            raise unreadable(root, table, files[0].path, error) from error
        raise


def _sql(root: str, table: Table, files: Sequence[DataFile], made: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the query for files of one day; the day is no column of our files."""
    if (day := files[0].day) is not None:
        made = {**made, "day": f"DATE '{day}'"}
    columns = ", ".join(f"{made.get(name, name)} AS {name}" for name in names)
    paths = ConstantExpression(dataset_of(root, table, files).files)
    return f"SELECT {columns} FROM read_parquet({paths}, hive_partitioning = false)"  # noqa: S608  names of ours


def require_intact(root: str, table: Table, files: Iterable[DataFile]) -> None:
    """Raise TamperedError for the first file whose bytes are not those that were written, whatever its rows are.

    Files written by others are passed over. Digests do not cover a file's footer, and Arrow crashes the process on some damaged
    footers.
    """
    for file in files:
        named = sha256_in(file.path)
        if named is not None and sha256_at(root, table, file.path) != named:
            raise unreadable(root, table, file.path, "its bytes are not those that were written")


def digests_of(root: str, table: Table, files: Iterable[DataFile]) -> dict[Slice, Digest]:
    """Return the digest of each slice among the rows of data files. Raises the errors of `read_files`."""
    found: dict[Slice, Digest] = {}
    for group in groups_of(files, _ASKED_BYTES, ASKED_FILES):
        with reading(root, table, group) as rows:
            for cut, digest in slices_of(table.name, rows).items():
                found[cut] = found.get(cut, Digest()) + digest
    return found


def digest_of(root: str, table: Table, files: Iterable[DataFile]) -> Digest:
    """Return the digest of all rows of data files. Raises the errors of `read_files`."""
    found = Digest()
    for group in groups_of(files, _ASKED_BYTES, ASKED_FILES):
        with reading(root, table, group) as rows:
            found += sum_of(digests_by(rows).values())
    return found


def groups_of(files: Iterable[DataFile], most_bytes: int, most_files: int | None = None) -> Iterator[list[DataFile]]:
    """Yield groups of files, in order, of at most so many bytes (a larger file is alone), and at most `most_files` files."""
    group: list[DataFile] = []
    for file in files:
        if len(group) == most_files or (group and sum(other.size for other in group) + file.size > most_bytes):
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def namesrvs_in(root: str, table: Table, files: Iterable[DataFile]) -> set[str]:
    """Return the name servers in the files' rows; a file of a single one is not opened. Raises the errors of `read_files`."""
    found: set[str | None] = set()
    for file in files:
        if file.namesrvs[0] is not None and file.namesrvs[0] == file.namesrvs[1]:
            found.add(file.namesrvs[0])
        else:
            found.update(read_files(root, table, [file], ["namesrv_id"])[0].unique().to_pylist())
    return {name for name in found if name is not None}
