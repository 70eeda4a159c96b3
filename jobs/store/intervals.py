"""Intervals on disk: one file for those of a name server that closed on a day. Files of open ones are written where they differ."""

from __future__ import annotations

import datetime as dt
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.files import DataFile, digest_of, read_files, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import Digest, Slice, ask, conformed, digests_by, sum_of
from namesrv_day.context import start_in
from schemas.table import Table

# A change rewrites the whole file that contains it.
_ROWS_A_FILE: Final = 250_000
_PART = re.compile(r"-(open|between)-(\d+)-of-(\d+)-")
Kind = Literal["open", "between"]
"""Kinds of files of open intervals: written by a name server's task, or by the comparison of name servers."""


class Written(NamedTuple):
    """Result of writing one name server's intervals of a day in a table.

    `closed`: files of intervals that closed on it; `opened`: files of open ones, new or unchanged. `digests`: of both slices.
    """

    closed: tuple[DataFile, ...]
    opened: tuple[DataFile, ...]
    digests: Mapping[Slice, Digest]

    def and_also(self, other: Written) -> Written:
        """Return the two results together."""
        digests = {
            cut: sum_of(of[cut] for of in (self.digests, other.digests) if cut in of)
            for cut in (*self.digests, *other.digests)
        }
        return Written((*self.closed, *other.closed), (*self.opened, *other.opened), digests)


def write_intervals(
    root: str,
    table: Table,
    rows: pa.Table,
    namesrv_id: str,
    day: dt.date,
    run_id: str,
    there: Sequence[Iterable[DataFile]],
    kind: Kind = "open",
) -> Written:
    """Write a name server's intervals of a day: those that closed on it, and the open ones that differ from `there`.

    `rows`: as stored; `there`: files that may hold its open intervals, as the run sees them and as they were published. Files of
    several name servers, or of another kind, are not reused.
    """
    rows = conformed(rows, table)
    is_open = pc.is_null(rows[table.span[1]])
    closed, opened = rows.filter(pc.invert(is_open)), rows.filter(is_open)
    of_closed = [write_file(_by_key(closed, table), root, table, day, run_id)] if closed.num_rows else []
    known = [_parts_of(files, namesrv_id, kind) for files in there]
    # The number of files stays as it was, as long as they keep a reasonable size.
    count = next((part.of for parts in known for part in parts), 0)
    if not (count and (count - 1) * _ROWS_A_FILE // 2 <= opened.num_rows <= count * _ROWS_A_FILE * 2):
        count = 1 + opened.num_rows // _ROWS_A_FILE
    of_opened, found = list[DataFile](), list[Digest]()
    for part, some in _parted(opened, table, count):
        [digest] = digests_by(some).values()
        found.append(digest)
        before = {
            file.path: file for parts in known if (file := parts.get(part)) is not None and file.rows == digest.rows
        }
        same = next((file for file in before.values() if digest_of(root, table, [file]) == digest), None)
        name = f"{run_id}-{kind}-{part.number}-of-{part.of}"
        of_opened.append(same or write_file(_by_key(some, table), root, table, None, name))
    digests = {Slice(table.name, day, namesrv_id): sum_of(digests_by(closed).values())} if closed.num_rows else {}
    if found:
        digests[Slice(table.name, None, namesrv_id)] = sum_of(found)
    return Written(tuple(of_closed), tuple(of_opened), digests)


def _by_key(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows sorted by topic, broker and the like: a query about one finds its rows together, and skips most of a file."""
    names = [name for name in table.key if pa.types.is_string(rows.schema.field(name).type)]
    return rows.sort_by([(name, "ascending") for name in names])


class _Part(NamedTuple):
    """One of several files of a name server's open intervals; the hash of a row's topic or broker decides which."""

    number: int
    of: int


def _parts_of(files: Iterable[DataFile], namesrv_id: str, kind: Kind) -> dict[_Part, DataFile]:
    """Return a name server's own files of open intervals of a kind, by part; nothing unless all are cut in the same way."""
    own = [file for file in files if file.closed is None and set(file.namesrvs) == {namesrv_id}]
    named = [(match, file) for file in own if (match := _PART.search(posixpath.basename(file.path)))]
    if len(named) < len(own):
        return {}
    parts = [(_Part(int(match[2]), int(match[3])), file) for match, file in named if match[1] == kind]
    return dict(parts) if len({part.of for part, _ in parts}) <= 1 and len(dict(parts)) == len(parts) else {}


def _parted(rows: pa.Table, table: Table, count: int) -> Iterator[tuple[_Part, pa.Table]]:
    if count == 1:
        if rows.num_rows:
            yield _Part(0, 1), rows
        return
    by = "broker_name" if "broker_name" in table.key else table.key[1]
    numbers = ask(f"SELECT CAST(hash({by}) % {count} AS INTEGER) AS number FROM rows", {"rows": rows.select([by])})[0]  # noqa: S608  names of ours
    for number in range(count):
        some = rows.filter(pc.equal(numbers, number))
        if some.num_rows:
            yield _Part(number, count), some


# -- what a run sees -------------------------------------------------------------------------------------------------


def replace_day(
    warehouse: Warehouse, table: Table, day: dt.date, closed: Iterable[DataFile], opened: Iterable[DataFile] | None
) -> None:
    """Put `closed` in place of the intervals that closed on a day.

    `opened`: the table ends with the day, and these are its open intervals. None: intervals that closed later, or are open, stay.
    """
    gone, left = list[DataFile](), list[DataFile]()
    new, ends_here = {file.path: file for file in opened or ()}, opened is not None
    others = ~_closed_from(table, day) if ends_here else ~_closed_from(table, day) | _closed_from(table, day + _ONE_DAY)
    for file in warehouse.files(table):
        if file.closed is None:
            gone += [file] if ends_here and new.pop(file.path, None) is None else []
        elif file.closed[1] >= day and (ends_here or file.closed[0] <= day):
            gone.append(file)
            left += _rest(warehouse, table, file, others)
    warehouse.change(table, [*closed, *new.values(), *left], gone)


def go_on_as_published(warehouse: Warehouse, table: Table, day: dt.date, closed: Iterable[DataFile]) -> None:
    """Put `closed` in place of the intervals that closed on a day; let the table continue as the last published run has it."""
    replace_day(warehouse, table, day, closed, ())
    back = list[DataFile]()
    for file in warehouse.published_files(table):
        if file.closed is None or file.closed[0] > day:
            back.append(file)
        elif file.closed[1] > day:
            back += _rest(warehouse, table, file, _closed_from(table, day + _ONE_DAY))
    warehouse.change(table, back)


_ONE_DAY = dt.timedelta(days=1)


def _rest(warehouse: Warehouse, table: Table, file: DataFile, where: pc.Expression) -> Iterator[DataFile]:
    """Yield a file with the rows of a closed file that match `where`, if there are any."""
    rows = read_files(warehouse.path, table, [file], filter=where)
    if rows.num_rows and file.closed is not None:
        yield write_file(rows, warehouse.path, table, file.closed[0], warehouse.run_id)


def _closed_from(table: Table, day: dt.date) -> pc.Expression:
    return pc.field(table.span[1]) >= start_in(table, day)
