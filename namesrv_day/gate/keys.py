"""Ids that no two rows may share, compared without a table of groups: as numbers, a part of them at a time.

Files leave prints of their stored ids behind, numbers of 64 bits, in parts: equal ids are in the same part, whatever files they
are in. A part is sorted by itself, so that memory does not grow with the rows; ids with equal prints are looked at again. What
mostly lies in order, positions and rows from which their ids follow, is compared as runs (`namesrv_day.gate.runs`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from namesrv_day.arrow.sql import connection
from namesrv_day.gate.rules import SAMPLES, Measurement, measured
from schemas import bronze
from schemas.rules import RULES
from schemas.table import STRING

PARTS = pa.schema([("owner", STRING), ("part", pa.int32()), ("numbers", pa.list_(pa.uint64()))])
"""Keys of some rows: `numbers`, prints of ids, of one `owner`, a table."""
KEYS_AT_A_TIME = 250_000
"""So many keys make a part: they are sorted in a processor's cache."""

Numbers = npt.NDArray[np.uint64]
Again = Callable[[str, Numbers], Iterable[str]]
_DIGITS = 32
_BATCH = 16 * 2048
# A print is a sum of products modulo 2^64; the numbers are odd and have no other meaning.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], dtype=np.uint64)
_SEQ = next(rule for rule in RULES[bronze.NAMESRV_EVENTS.name] if rule.name == "seq_is_unique_in_all_events")
ID = {table.name: next(rule for rule in RULES[table.name] if rule.key == table.key) for table in bronze.RECORDED_TABLES}
"""The rule that no two rows of a recorded table have the same id."""
FORM = "event_id_is_a_digest"
"""Name of the rule about the form of ids, which is seen while they are read."""


TIMED = {bronze.HEARTBEATS.name: "event_time", bronze.ROUTE_OBSERVATIONS.name: "effect_time"}
"""The tables with rows from which their ids follow: an id is made of this instant's microsecond, among others."""
FOLLOWS = "stated_id IS NULL"
"""The SQL condition that the id of a row of such a table follows from it."""


class Ids(NamedTuple):
    """The stored ids of a file: prints, in any order, and whether they are digests, 32 lower-case hex digits."""

    prints: Numbers
    are_digests: bool


NO_IDS: Final = Ids(np.empty(0, np.uint64), are_digests=True)
"""Of a file without stored ids."""


class Copies(NamedTuple):
    """What was found of an owner: how many ids, or different positions, it has, and which are there more than once."""

    owner: str
    keys: int
    repeated: Numbers


def ids_of(rows: duckdb.DuckDBPyRelation, table: str) -> Ids:
    """Return what is known of the stored ids of `rows` of `table`; where one is NULL there is nothing.

    No source is known to state an id that is another row's.
    """
    prints, are_digests = [np.empty(0, np.uint64)], True
    for ids in _columns(rows, "stated_id" if table in TIMED else "event_id"):
        found, are_hex = _printed(ids)
        prints.append(found)
        are_digests &= are_hex
    return Ids(np.concatenate(prints), are_digests)


def ids_with(rows: duckdb.DuckDBPyRelation, table: str, numbers: Numbers) -> list[str]:
    """Return the ids of `rows` of `table` that have one of these `numbers`, as often as they are there.

    A number is the print of a stored id (`ids_of`), or the microsecond of rows from which their ids follow (`TIMED`).
    """
    found: list[str] = []
    for ids in _columns(rows, "stated_id" if table in TIMED else "event_id"):
        found += ids.filter(pa.array(np.isin(_printed(ids)[0], numbers))).to_pylist()
    if table in TIMED:
        wanted = connection().from_arrow(pa.table({"number": numbers.view(np.int64)}))
        timed = (
            rows.filter(FOLLOWS).project(f"*, epoch_us({TIMED[table]}) AS number").join(wanted, "number", how="semi")
        )
        found += [event_id for (event_id,) in timed.project("event_id").fetchall()]
    return found


def parts_of_ids(table: str, ids: Ids, parts: int) -> pa.Table:
    """Return what is known of a table's stored ids as `PARTS`."""
    return _parts_of(table, ids.prints, parts)


def _parts_of(table: str, prints: Numbers, parts: int) -> pa.Table:
    if parts == 1 or not len(prints):
        return _table(table, {0: prints})
    part = ((prints >> np.uint64(48)) * np.uint64(parts) >> np.uint64(16)).astype(
        np.uint8 if parts <= 256 else np.uint16
    )
    ordered = prints[np.argsort(part, kind="stable")]
    ends = np.cumsum(np.bincount(part, minlength=parts))
    return _table(table, dict(enumerate(np.split(ordered, ends[:-1]))))


def copies_in(part: pa.Table) -> list[Copies]:
    """Return what is there more than once among the keys of some parts (`PARTS`), of which all that there is must be given."""
    together: dict[tuple[str, int], list[Numbers]] = {}
    owners, numbers = part["owner"].to_pylist(), part["part"].to_pylist()
    for owner, number, some in zip(owners, numbers, _lists(part["numbers"]), strict=True):
        together.setdefault((owner, number), []).append(some)
    found = []
    for (owner, _), lists in sorted(together.items(), key=itemgetter(0)):
        ordered = _ordered(np.concatenate(lists))
        again = ordered[1:][ordered[1:] == ordered[:-1]]
        found.append(Copies(owner, len(ordered), np.unique(again)))
    return found


def judged(positions: Iterable[Copies], ids: Iterable[Copies], again: Again) -> list[Measurement]:
    """Return what is counted of the rules about keys, given what was found in all parts of positions and of ids.

    Ids with equal prints are asked for by their table and these prints: `again` gives all ids of the table that have one of them,
    as often as they are there (`ids_with` of each of its files).
    """
    by_table: dict[str, list[Copies]] = {}
    for copies in ids:
        by_table.setdefault(copies.owner, []).append(copies)
    return [
        _positions_measured(positions),
        *(_ids_measured(table, found, again) for table, found in sorted(by_table.items())),
    ]


def _positions_measured(found: Iterable[Copies]) -> Measurement:
    keys, copies = 0, []
    for namesrv_id, count, repeated in found:
        keys += count
        copies += [{"namesrv_id": namesrv_id, "seq": int(seq)} for seq in repeated.view(np.int64)]
    return measured(bronze.NAMESRV_EVENTS.name, _SEQ, keys, len(copies), _shown(copies))


def _ids_measured(table: str, found: Sequence[Copies], again: Again) -> Measurement:
    suspects = np.concatenate([part.repeated for part in found])
    ids = Counter(again(table, suspects) if len(suspects) else ())
    copies = [{"event_id": event_id, "copies": times} for event_id, times in ids.items() if times > 1]
    keys = sum(part.keys for part in found) - sum(times - 1 for times in ids.values())
    return measured(table, ID[table], keys, len(copies), _shown(copies))


def _shown(copies: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(copy, separators=(",", ":")) for copy in copies)[:SAMPLES]


def _columns(rows: duckdb.DuckDBPyRelation, sql: str) -> Iterator[pa.Array]:
    """Yield a column without NULLs, some rows at a time: as one array it would be copied into fresh memory."""
    for batch in rows.project(sql).to_arrow_reader(_BATCH):
        yield batch.column(0).drop_null()


def _printed(ids: pa.Array) -> tuple[Numbers, bool]:
    """Return the prints of some ids, and whether all of these are 32 lower-case hex digits."""
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    if not len(ids) or (np.diff(ends) != _DIGITS).any():
        digests = [_digest(event_id) for event_id in ids.to_pylist()]
        return (_printed(pa.array(digests, STRING))[0] if digests else np.empty(0, np.uint64)), not digests
    digits = np.frombuffer(text, np.uint8)[ends[0] : ends[-1]]
    # One comparison each: what is less than "0" or "a" is very large.
    are_hex = ((digits - np.uint8(ord("0")) < 10) | (digits - np.uint8(ord("a")) < 6)).all()
    return digits.view(np.uint64).reshape(-1, len(_FACTORS)) @ _FACTORS, bool(are_hex)


def _digest(event_id: str) -> str:
    """Return 32 characters that stand for an id of another length."""
    text = event_id.encode()
    return event_id if len(text) == _DIGITS else hashlib.sha256(text).hexdigest()[:_DIGITS]


def _ordered(numbers: Numbers) -> Numbers:
    # Positions mostly are in order: it need only be seen, or a few runs of them be merged.
    if (numbers[1:] >= numbers[:-1]).all():
        return numbers
    found: Numbers = np.sort(numbers, kind="stable")
    return found


def _table(owner: str, parts: Mapping[int, Numbers]) -> pa.Table:
    numbers = list(parts.values())
    offsets = pa.array(np.cumsum([0, *map(len, numbers)]), pa.int32())
    joined = pa.array(np.concatenate([np.empty(0, np.uint64), *numbers]))
    columns = [
        pa.repeat(pa.scalar(owner, STRING), len(parts)),
        pa.array(parts, pa.int32()),
        pa.ListArray.from_arrays(offsets, joined),
    ]
    return pa.table(columns, schema=PARTS)


def _lists(column: pa.ChunkedArray) -> Iterator[Numbers]:
    for chunk in column.chunks:
        numbers, ends = chunk.values.to_numpy(), chunk.offsets.to_numpy()
        for start, end in pairwise(ends):
            yield numbers[start:end]
