"""Staged rows into the bronze tables: what is new or changed, and what breaks a rule into quarantine."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.collecting import WRITTEN
from jobs.ingest.ingested import Ingested
from jobs.ingest.positions import give_own_positions
from jobs.ingest.staging import StagedFile, Staging, parts_of, together
from jobs.passes import Passes
from jobs.store.files import DataFile, read_files, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.gate.rules import reasons
from namesrv_wire.errors import Reason
from namesrv_wire.limits import FIRST_BYTES
from namesrv_wire.rows import DECODER_VERSION, REVOKED, Row
from schemas import bronze, times
from schemas.rules import BROKEN_RULE
from schemas.table import STRING, Table

_BYTES_AT_A_TIME, _ROWS_PER_FILE = 48 << 20, 131_072
_LARGE_BYTES, _PART_BYTES = 1 << 20, 4 << 20
"""Of staged files, so large together that a process writes them, and so large, about, that it writes no more at once."""
_WHENCE = ("ingest_run", "source_file", "source_offset")
# What is filled in, besides.
_NOT_SAID = (*_WHENCE, "day", "nth", "stated_id", "seq_rest", "request_rest", "namesrv_addr")
Values = Mapping[str, Any]


def settle_staged(warehouse: Warehouse, staging: Staging, *, has_logs: bool) -> None:
    """Have the staged rows be there once each, at positions of their own.

    `has_logs`: some rows come from event logs; the positions of captures' rows are their own anyway.
    """
    for name in staging.tables - {bronze.QUARANTINE.name}:
        staging.settle(name, placed=has_logs)
    if has_logs:
        give_own_positions(warehouse, staging)


def write_staged(warehouse: Warehouse, staging: Staging, result: Ingested, last_day: dt.date, passes: Passes) -> None:
    """Have what is new in the settled rows in the tables, and then what they refused, and count both in `result`.

    Nothing is committed. `last_day`: under which refused pieces are filed if nothing else is there.
    """
    days = _revoke(warehouse, staging)
    plain = _write_plain(warehouse, staging, passes)
    for name in sorted(staging.tables & WRITTEN.keys()):
        counted = plain.get(name) or _write_new(warehouse, staging, WRITTEN[name])
        if name == bronze.ROUTE_OBSERVATIONS.name:
            result.observations += counted["new"]
        else:
            result.events += counted["new"]
        result.duplicates += counted["repeated"]
        result.quarantined += counted["refused"]
        days.update(counted["days"])
    if bronze.QUARANTINE.name in staging.tables:
        # What was refused has no part in the history of its own day: that day need not be recomputed.
        days = days or {last_day}
        staging.settle(bronze.QUARANTINE.name, max(days))
        for rows in staging.rows(bronze.QUARANTINE.name):
            result.reasons.update(rows["reason"].to_pylist())
        counted = _write_new(warehouse, staging, bronze.QUARANTINE)
        result.quarantined += counted["new"] + counted["repeated"]
    result.days = sorted(days)


def _revoke(warehouse: Warehouse, staging: Staging) -> set[dt.date]:
    """Take back stored rows that later packets have proved wrong; return the days that they were on."""
    if REVOKED not in staging.tables:
        return set()
    revoked = staging.ask(f'SELECT "table", list(event_id) AS ids FROM kept_{REVOKED} GROUP BY "table"').to_pylist()
    days: set[dt.date] = set()
    for row in revoked:
        table = WRITTEN[row["table"]]
        # Mostly they are of the last day.
        days |= _take_out(warehouse, table, row["ids"], reversed(warehouse.files(table)))
    return days


def _take_out(warehouse: Warehouse, table: Table, keys: Iterable[str], files: Iterable[DataFile]) -> set[dt.date]:
    """Have `files` without the rows of these keys, of which each is there once; return the days that they were on."""
    left, days = set(keys), set[dt.date]()
    for file in files:
        if not left:
            break
        is_one = pc.field(table.key[0]).isin(sorted(left))
        found = read_files(warehouse.path, table, [file], table.key, is_one)[0]
        if len(found):
            rest = read_files(warehouse.path, table, [file], filter=~is_one)
            added = [write_file(rest, warehouse.path, table, file.day, warehouse.run_id)] if len(rest) else []
            warehouse.change(table, added, [file])
            left.difference_update(found.to_pylist())
            days.update([file.day] if file.day else [])
    return days


def _judged(staging: Staging, table: Table, rows: pa.Table) -> pa.Table:
    """Return the rows with `_is_refused`: they break rules or have no place. What stands for these in quarantine is staged."""
    broken = reasons(rows, table.name)
    is_refused = pc.or_(pc.greater(pc.list_value_length(broken), 0), rows["_seq_is_taken"])
    if not pc.any(is_refused).as_py():
        return rows.append_column("_is_refused", is_refused)
    for row in rows.append_column("_broken", broken).filter(is_refused).to_pylist():
        taken = [Reason.SEQ_TAKEN.value] if row["_seq_is_taken"] else []
        staging.add(refusal_of(row, table, [*row["_broken"], *taken]), frame=None)
        staging.broken[staging.count] = row["_n"]
    return rows.append_column("_is_refused", is_refused)


def refusal_of(row: Values, table: Table, broken: Sequence[str]) -> Row:
    """Return the quarantine row for a row of `table` that breaks these rules; the refused piece is the row as JSON."""
    # As it was met: whose address that is may be learned later.
    met = {**row, "namesrv_id": row["namesrv_addr"]}
    said = {name: met[name] for name in table.column_names if name not in _NOT_SAID}
    piece = json.dumps(_without_nulls(said), ensure_ascii=False, separators=(",", ":"), default=_shown).encode()
    reason = Reason.SEQ_TAKEN.value if Reason.SEQ_TAKEN.value in broken else BROKEN_RULE
    identity = f"{reason}\n{table.name}\n".encode() + piece
    values = {
        "quarantine_id": hashlib.sha256(identity).hexdigest()[:32],
        "reason": reason,
        "detail": f"{table.name}: {', '.join(broken)}",
        "length": len(piece),
        "sha256": hashlib.sha256(piece).hexdigest(),
        "first_bytes": piece[:FIRST_BYTES].hex(),
        "decoder_version": DECODER_VERSION,
        "event_time": times.instant_us(row["event_time"]),
    }
    shared = ("namesrv_id", "namesrv_addr", "channel_id", "source_file", "source_offset")
    return Row(bronze.QUARANTINE.name, {**{name: row[name] for name in shared}, **values})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(of) for name, of in value.items() if of is not None}
    return [_without_nulls(of) for of in value] if isinstance(value, list) else value


def _shown(at: dt.datetime) -> str:
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _write_plain(warehouse: Warehouse, staging: Staging, passes: Passes) -> dict[str, Values]:
    """Have the staged rows in those tables of which all are new, once each and in their place; return what `_write_new` does.

    They are written as they are read, in one pass. Large files are written by tasks beside each other, unless some row of
    them is refused.
    """
    tables = [
        table
        for table in bronze.RECORDED_TABLES
        if table.name in staging.tables and staging.files(table.name) and not _are_met(warehouse, staging, table)
    ]
    found = {table.name: Plain() for table in tables}
    parts = [
        PlainPart(warehouse.path, warehouse.run_id, table.name, files)
        for table in (tables if passes.width > 1 else ())
        for files in _large(staging.files(table.name))
    ]
    for part, plain in zip(parts, passes.each(write_plain, parts), strict=True):
        if plain is not None:
            found[part.table].files.extend(plain.files)
            found[part.table].frames += plain.frames
            staging.take(part.table, part.files)
    for table in tables:
        plain = found[table.name]
        for rows in _in_memory(_unrefused(staging, table, plain)):
            plain.files += _of_days(rows, warehouse.path, table, warehouse.run_id)
        if plain.files:
            warehouse.change(table, plain.files)
    return {name: plain.counted() for name, plain in found.items()}


def _unrefused(staging: Staging, table: Table, plain: Plain) -> Iterator[pa.Table]:
    """Yield the staged rows that break no rule, counted in `plain`; what stands for the others in quarantine is staged."""
    for rows in staging.staged(table.name):
        judged = _judged(staging, table, rows.append_column("_seq_is_taken", pa.repeat(False, len(rows))))
        is_refused = judged["_is_refused"]
        kept = rows.filter(pc.invert(is_refused)) if pc.any(is_refused).as_py() else rows
        frames = _frames_in(kept)
        plain.frames += frames
        plain.refused += _frames_in(rows) - frames
        yield kept


def _frames_in(rows: pa.Table) -> int:
    return len(rows) - int(rows["_frame"].null_count)


def _are_met(warehouse: Warehouse, staging: Staging, table: Table) -> bool:
    """Return whether keys of staged rows are stored."""
    query = _MET.format(key=table.key[0], kept=f"kept_{table.name}")
    keys = (
        pa.concat_tables(_keys_of(warehouse, table, part)) for part in parts_of(warehouse.files(table, staging.days))
    )
    return any(staging.ask(query, keys=some).num_rows for some in keys)


@dataclass(slots=True)
class Plain:
    """Data files of new rows, and for how many frames and lines these stand, and those that were refused."""

    files: list[DataFile] = field(default_factory=list)
    frames: int = 0
    refused: int = 0

    def counted(self) -> Values:
        """Return what was counted, as `_write_new` does."""
        days = [file.day for file in self.files]
        return {"new": self.frames, "refused": self.refused, "repeated": 0, "days": days}


class PlainPart(NamedTuple):
    """Staged files of a table, for a process that writes them into the warehouse at `root`."""

    root: str
    run_id: str
    table: str
    files: list[StagedFile]


def _large(files: Iterable[StagedFile]) -> Iterator[list[StagedFile]]:
    """Yield those that follow on each other together, as many as are large; such as are small even together are left out."""
    sizes = {file: file.path.stat().st_size for file in files}
    for _, part in groupby(zip(sizes, accumulate(sizes.values()), strict=True), lambda of: of[1] // _PART_BYTES):
        some = [file for file, _ in part]
        if sum(sizes[file] for file in some) >= _LARGE_BYTES:
            yield some


def write_plain(part: PlainPart) -> Plain | None:
    """Write the rows of staged files as data files; None, if some break a rule."""
    table, found = WRITTEN[part.table], Plain()
    staged = (rows for file in part.files for rows in file.rows())
    for rows in _in_memory(together(staged)):
        if pc.any(pc.greater(pc.list_value_length(reasons(rows, table.name)), 0)).as_py():
            return None
        found.files += _of_days(rows, part.root, table, part.run_id)
        found.frames += _frames_in(rows)
    return found


def _write_new(warehouse: Warehouse, staging: Staging, table: Table) -> Values:
    """Have the kept rows in `table` that it does not hold yet or holds otherwise, unless they are refused.

    Returns the frames for which rows stand: new, repeated, refused; and the days of new and changed rows, before and after.
    """
    day = "day" if "day" in table.column_names else "NULL::DATE"
    said = ", ".join(column for column in table.column_names if column not in _WHENCE)
    key, is_judged = table.key[0], table in bronze.RECORDED_TABLES
    staging.ask(_FACTS)
    # Neither a piece of quarantine nor a topic table has one day on which it would be found again.
    files = warehouse.files(table, staging.days if is_judged else None)
    for part in parts_of(files):
        met = staging.ask(
            _MET.format(key=key, kept=f"kept_{table.name}"), keys=pa.concat_tables(_keys_of(warehouse, table, part))
        )
        found = (
            read_files(warehouse.path, table, [part[of["file"]]], filter=pc.field(key).isin(of["keys"]))
            for of in met.to_pylist()
        )
        for stored in _in_memory(found):
            staging.ask(f"INSERT INTO known SELECT {key}, {day}, hash({said}) FROM stored", stored=stored)
    # What a row says is asked only where its key is stored.
    [[is_met]] = staging.ask("SELECT count(*) > 0 FROM known").to_pydict().values()
    content = f"CASE WHEN {key} IN (SELECT key FROM known) THEN hash({said}) END" if is_met else "NULL::UBIGINT"
    for rows in staging.rows(table.name):
        judged = (
            _judged(staging, table, rows)
            if is_judged
            else rows.append_column("_is_refused", pa.repeat(False, len(rows)))
        )
        facts = f"{key}, {day}, {content}, _n, _frames, _seq_is_given, _is_refused"
        staging.ask(f"INSERT INTO facts SELECT {facts} FROM judged", judged=judged)
    staging.ask(_OUTCOMES)
    _take_out(
        warehouse, table, staging.ask("SELECT key FROM outcomes WHERE outcome = 'changed'")["key"].to_pylist(), files
    )
    added = list(_new_files(warehouse, staging, table))
    if added:
        warehouse.change(table, added)
    return dict(staging.ask(_COUNTED).to_pylist()[0])


_FACTS = """
CREATE OR REPLACE TABLE known (key VARCHAR, day DATE, content UBIGINT);
CREATE OR REPLACE TABLE facts (
  key VARCHAR, day DATE, content UBIGINT, _n BIGINT, frames BIGINT, is_given BOOLEAN, is_refused BOOLEAN
)
"""
_MET = "SELECT file, list(key) AS keys FROM keys SEMI JOIN (SELECT {key} AS key FROM {kept}) USING (key) GROUP BY file"
# A position that was made is no news: in a file of other lines it would have been another.
_OUTCOMES = """
CREATE OR REPLACE TABLE outcomes AS
SELECT _n, key, facts.day, old.day AS old_day, frames,
       CASE WHEN is_refused THEN 'refused' WHEN old.key IS NULL THEN 'new'
            WHEN is_given AND old.content <> facts.content THEN 'changed' ELSE 'known' END AS outcome
FROM facts LEFT JOIN (SELECT DISTINCT ON (key) * FROM known) AS old USING (key)
"""
_COUNTED = """
SELECT coalesce(count_if(outcome = 'new' AND frames > 0), 0)::BIGINT AS new,
       coalesce(count_if(outcome = 'refused' AND frames > 0), 0)::BIGINT AS refused,
       coalesce(sum(frames), 0)::BIGINT - new - refused AS repeated,
       coalesce(list(DISTINCT day) FILTER (is_changed AND day IS NOT NULL), [])
         || coalesce(list(DISTINCT old_day) FILTER (is_changed AND old_day IS NOT NULL), []) AS days
FROM (SELECT *, outcome IN ('new', 'changed') AS is_changed FROM outcomes)
"""
_WANTED = "SELECT _n, _n FROM outcomes WHERE outcome IN ('new', 'changed')"


def _keys_of(warehouse: Warehouse, table: Table, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    for number, file in enumerate(files):
        keys = read_files(warehouse.path, table, [file], table.key).rename_columns(["key"])
        yield keys.append_column("file", pa.repeat(number, len(keys)))


def _new_files(warehouse: Warehouse, staging: Staging, table: Table) -> Iterator[DataFile]:
    """Write the wanted rows of `table` in files of one day, in which they are in order, and yield these."""
    wanted = (staging.of_batch(rows, _WANTED)[0] for rows in staging.rows(table.name))
    for rows in _in_memory(wanted):
        yield from _of_days(rows, warehouse.path, table, warehouse.run_id)


def _of_days(rows: pa.Table, root: str, table: Table, run_id: str) -> Iterator[DataFile]:
    order = [(column, "ascending") for column in ("namesrv_id", "seq", table.key[0]) if column in table.column_names]
    days = pc.unique(rows["day"]).to_pylist() if "day" in table.column_names else [None]
    for day in days:
        of_day = rows if len(days) == 1 else rows.filter(pc.field("day") == day)
        yield write_file(_sorted(of_day, order), root, table, day, run_id)


def _in_memory(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of all pieces, at once as many as may be in memory together, which is also how large a file may be."""
    held: list[pa.Table] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= _ROWS_PER_FILE or sum(part.nbytes for part in held) >= _BYTES_AT_A_TIME:
            yield pa.concat_tables(held)
            held = []
    yield from [pa.concat_tables(held)] if any(map(len, held)) else []


def _sorted(rows: pa.Table, order: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the rows in order; each text is there once."""
    whole = rows.unify_dictionaries().combine_chunks()
    keys = {name: whole[name] for name, _ in order}
    texts = {name: column.cast(STRING) for name, column in keys.items() if pa.types.is_dictionary(column.type)}
    return whole.take(pc.sort_indices(pa.table(keys | texts), order))
