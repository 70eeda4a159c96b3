"""Staged rows into the bronze tables: what is new or changed, and what breaks a rule into quarantine."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.collecting import WRITTEN
from jobs.ingest.sources import Ingested
from jobs.ingest.staging import Staging, parts_of, together
from jobs.store.files import DataFile, read_files, write_file
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.gate.rules import reasons
from namesrv_wire.errors import Reason
from namesrv_wire.limits import FIRST_BYTES
from namesrv_wire.rows import DECODER_VERSION, REVOKED, Row, Values
from schemas import bronze, times
from schemas.bronze import BROKEN_RULE
from schemas.sql_files import query
from schemas.table import STRING, Table

_BYTES_AT_A_TIME, _ROWS_PER_FILE = 48 << 20, 131_072
_WHENCE = ("ingest_run", "source_file", "source_offset")
# What is filled in, besides.
_NOT_SAID = (*_WHENCE, "day", "nth", "stated_id", "seq_rest", "request_rest", "namesrv_addr")


def settle_staged(warehouse: Warehouse, staging: Staging, *, has_logs: bool) -> None:
    """Have the staged rows be there once each, at positions of their own.

    `has_logs`: some rows come from event logs, whose lines may leave the position out; it is then made from the time, file by file,
    and events of one instant in different files share it. Positions of captures' rows are their own anyway. A stored event keeps
    its position, a given one goes before a made one, an earlier line before a later one; what has to move goes behind the
    last event of its microsecond. Two events that both say the same position contradict each other: the later one is refused.
    """
    for name in staging.tables - {bronze.QUARANTINE.name}:
        staging.settle(name, placed=has_logs)
    found = [
        f"SELECT namesrv_id, event_id, seq, seq // {NS_PER_US} AS micros, _seq_is_given, _n FROM kept_{table.name}"
        for table in bronze.EVENT_TABLES
        if table.name in staging.tables
    ]
    if not has_logs or not found:
        return
    staging.ask(f"CREATE TABLE events AS {' UNION ALL '.join(found)}")
    staging.ask("CREATE TABLE neighbours (namesrv_id VARCHAR, event_id VARCHAR, seq BIGINT)")
    for table in bronze.EVENT_TABLES:
        for files in parts_of(warehouse.files(table, staging.days)):
            staging.ask(
                f"""INSERT INTO neighbours SELECT namesrv_id, event_id, seq FROM stored
                WHERE (namesrv_id, event_id) IN (SELECT (namesrv_id, event_id) FROM events)
                   OR (namesrv_id, seq // {NS_PER_US}) IN (SELECT (namesrv_id, micros) FROM events)""",
                stored=read_files(warehouse.path, table, files, ("namesrv_id", "event_id", "seq")),
            )
    staging.ask(query("ingest/moved"))


def write_staged(warehouse: Warehouse, staging: Staging, result: Ingested, last_day: dt.date) -> None:
    """Have what is new in the settled rows in the tables, and then what they refused, and count both in `result`.

    Nothing is committed. `last_day`: under which refused pieces are filed if nothing else is there.
    """
    days = set[dt.date]()
    if REVOKED in staging.tables:  # rows that later packets have proved wrong
        revoked = staging.ask(f'SELECT "table", list(event_id) AS ids FROM kept_{REVOKED} GROUP BY "table"')
        for row in revoked.to_pylist():
            table = WRITTEN[row["table"]]
            # Mostly they are of the last day.
            days |= _take_out(warehouse, table, row["ids"], reversed(warehouse.files(table)))
    for name in sorted(staging.tables & WRITTEN.keys()):
        counted = _write_new(warehouse, staging, WRITTEN[name])
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
            warehouse.write(table, rest, file.day, [file])
            left.difference_update(found.to_pylist())
            days.update([file.day] if file.day else [])
    return days


# A position that was made is no news: in a file of other lines it would have been another.
_OUTCOMES = """
INSERT INTO outcomes SELECT _n, _frames,
       CASE WHEN _is_refused THEN 'refused' WHEN known_key IS NULL THEN 'new'
            WHEN _seq_is_given AND known_content <> {content} THEN 'changed' ELSE 'known' END AS outcome,
       {day}, known_day, CASE WHEN outcome = 'changed' THEN {key} END
FROM judged LEFT JOIN (SELECT DISTINCT ON (known_key) * FROM known) ON known_key = {key}
"""
_COUNTED = """
SELECT coalesce(count_if(outcome = 'new' AND frames > 0), 0)::BIGINT AS new,
       coalesce(count_if(outcome = 'refused' AND frames > 0), 0)::BIGINT AS refused,
       coalesce(sum(frames), 0)::BIGINT - new - refused AS repeated,
       coalesce(list(DISTINCT day) FILTER (is_changed AND day IS NOT NULL), [])
         || coalesce(list(DISTINCT old_day) FILTER (is_changed AND old_day IS NOT NULL), []) AS days,
       coalesce(list(changed) FILTER (changed IS NOT NULL), []) AS changed
FROM (SELECT *, outcome IN ('new', 'changed') AS is_changed FROM outcomes)
"""


def _write_new(warehouse: Warehouse, staging: Staging, table: Table) -> Values:
    """Have the kept rows in `table` that it does not hold yet or holds otherwise, unless they are refused.

    Returns the frames for which rows stand: new, repeated, refused; and the days of new and changed rows, before and after.
    """
    day = "day" if "day" in table.column_names else "NULL::DATE"
    content = f"hash({', '.join(column for column in table.column_names if column not in _WHENCE)})"
    key, has_rules = table.key[0], table in bronze.RECORDED_TABLES
    staging.ask(
        """CREATE OR REPLACE TABLE known (known_key VARCHAR, known_day DATE, known_content UBIGINT);
        CREATE OR REPLACE TABLE outcomes (_n BIGINT, frames BIGINT, outcome VARCHAR, day DATE, old_day DATE, changed VARCHAR)"""
    )
    # Neither a piece of quarantine nor a topic table has one day on which it would be found again.
    files = warehouse.files(table, staging.days if has_rules else None)
    for part in parts_of(files):
        keys = (read_files(warehouse.path, table, [file], [key]).rename_columns(["key"]) for file in part)
        numbered = (some.append_column("file", pa.repeat(number, len(some))) for number, some in enumerate(keys))
        met = staging.ask(
            f"""SELECT file, list(key) AS keys FROM keys
            SEMI JOIN (SELECT {key} AS key FROM kept_{table.name}) USING (key) GROUP BY file""",
            keys=pa.concat_tables(numbered),
        )
        found = (
            read_files(warehouse.path, table, [part[of["file"]]], filter=pc.field(key).isin(of["keys"]))
            for of in met.to_pylist()
        )
        for stored in _in_memory(found):
            staging.ask(f"INSERT INTO known SELECT {key}, {day}, {content} FROM stored", stored=stored)
    # What a row says is asked only where keys are stored.
    [[are_met]] = staging.ask("SELECT count(*) > 0 FROM known").to_pydict().values()
    outcomes = _OUTCOMES.format(key=key, day=day, content=content if are_met else "NULL")

    def wanted() -> Iterator[pa.Table]:
        for rows in staging.rows(table.name):
            is_refused = _refused(staging, table, rows) if has_rules else pa.repeat(False, len(rows))
            staging.ask(outcomes, judged=rows.append_column("_is_refused", is_refused))
            yield staging.of_batch(rows, "SELECT _n, _n FROM outcomes WHERE outcome IN ('new', 'changed')")[0]

    # In files of one day, in which rows are in order.
    order = [(column, "ascending") for column in ("namesrv_id", "seq", key) if column in table.column_names]
    added = list[DataFile]()
    for rows in _in_memory(wanted()):
        days = pc.unique(rows["day"]).to_pylist() if "day" in table.column_names else [None]
        for at in days:
            of_day = rows if len(days) == 1 else rows.filter(pc.field("day") == at)
            added.append(write_file(_sorted(of_day, order), warehouse.path, table, at, warehouse.run_id))
    counted: Values = staging.ask(_COUNTED).to_pylist()[0]
    _take_out(warehouse, table, counted["changed"], files)
    if added:
        warehouse.change(table, added)
    return counted


def _refused(staging: Staging, table: Table, rows: pa.Table) -> pa.Array:
    """Return which rows break rules or have no place. What stands for these in quarantine is staged."""
    broken = reasons(rows, table.name)
    is_refused = pc.or_(pc.greater(pc.list_value_length(broken), 0), rows["_seq_is_taken"])
    if pc.any(is_refused).as_py():
        for row in rows.append_column("_broken", broken).filter(is_refused).to_pylist():
            taken = [Reason.SEQ_TAKEN.value] if row["_seq_is_taken"] else []
            staging.add(_refusal_of(row, table, [*row["_broken"], *taken]), frame=None)
            staging.broken[staging.count] = row["_n"]
    return is_refused


def _refusal_of(row: Values, table: Table, broken: Sequence[str]) -> Row:
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


def _in_memory(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of all pieces, at once as many as may be in memory together, which is also how large a file may be."""
    return together(pieces, _ROWS_PER_FILE, _BYTES_AT_A_TIME)


def _sorted(rows: pa.Table, order: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the rows in order; each text is there once."""
    whole = rows.unify_dictionaries().combine_chunks()
    keys = {name: whole[name] for name, _ in order}
    texts = {name: column.cast(STRING) for name, column in keys.items() if pa.types.is_dictionary(column.type)}
    return whole.take(pc.sort_indices(pa.table(keys | texts), order))
