"""Intervals as of a day: those that existed on it or at its end, without knowledge that came later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.rows import conformed, plain, with_columns
from namesrv_day.arrow.sql import ask
from schemas import gold
from schemas.sql_files import query
from schemas.table import TIMESTAMP, Table
from schemas.times import day_start_us

_ONE_DAY = dt.timedelta(days=1)
_ENDS = ("valid_to", "closed_by", "closed_at", "to_time", "ended_on")
_LAST = "last_update_time"
_ENTRY = ("namesrv_id", "cluster_name", "broker_addr", "first_update_time", "heartbeat_timeout_ms")


def alive(table: Table, day: dt.date, *, still: bool = False) -> pc.Expression:
    """Return the condition that an interval existed at some time of a day; `still`: at the end of the day."""
    begins, ends = map(pc.field, table.span)
    begin, end = start_in(table, day + _ONE_DAY if still else day), start_in(table, day + _ONE_DAY)
    return (begins < end) & (ends.is_null() | (ends >= begin))


def columns_for(table: Table, columns: Sequence[str]) -> list[str]:
    """Return the columns to read from a table of intervals in order to know `columns` as of a day."""
    more = [*table.span, *(_ENTRY if table is gold.BROKER_LIVE_HISTORY and _LAST in columns else ())]
    more += ["begun_with"] if "begun_with" in table.column_names else []
    return list(dict.fromkeys([*columns, *more]))


def as_of(table: Table, rows: pa.Table, day: dt.date, beats: pa.Table) -> pa.Table:
    """Return intervals that existed on a day, as they were known at its end.

    An interval that ended later is open, a row that became known later is a best guess, and a finding that goes on has the
    evidence with which it began. `beats`: rows of last_heartbeats of that day, with the last renewals of open live entries.
    """
    end = start_in(table, day + _ONE_DAY)
    goes_on = pc.fill_null(pc.greater_equal(rows[table.span[1]], end), fill_value=False)
    if pc.any(goes_on).as_py():
        masked = {name: _without(rows[name], goes_on) for name in _ENDS if name in rows.column_names}
        if "evidence" in rows.column_names and "begun_with" in rows.column_names:
            masked["evidence"] = _first_evidence(rows, goes_on)
        rows = with_columns(rows, **masked)
    if "known_from" in rows.column_names:
        later = pc.fill_null(pc.greater_equal(rows["known_from"], end), fill_value=False)
        if pc.any(later).as_py():
            rows = with_columns(rows, known_from=_without(rows["known_from"], later))
    if table is gold.BROKER_LIVE_HISTORY and _LAST in rows.column_names:
        renewed = ask(query("day/last_updates"), {"live": rows, "beats": beats})
        rows = conformed(renewed, rows.schema)
    return rows


def beats_of(day: dt.date, live: pa.Table) -> pa.Table:
    """Return the rows of last_heartbeats of a day: live entries that were open at its end, except those known by a log."""
    is_open = pc.field("closed_by").is_null() & pc.field(_LAST).is_valid()
    return conformed(live.filter(is_open), gold.LAST_HEARTBEATS, day=day)


def stored(table: Table, rows: pa.Table) -> pa.Table:
    """Return intervals as stored: an open live entry has no last_update_time (`beats_of` has it)."""
    if table is not gold.BROKER_LIVE_HISTORY:
        return rows
    return with_columns(rows, last_update_time=_without(rows[_LAST], pc.is_null(rows["valid_to"])))


def on_a_day(table: Table) -> pa.Schema:
    """Return the columns of a history, and `day`, the day as of which its rows are read."""
    return plain(table.schema).append(pa.field("day", pa.date32()))


def _without(values: pa.ChunkedArray, gone: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(gone, pa.scalar(None, values.type), values)


def _first_evidence(rows: pa.Table, goes_on: pa.ChunkedArray) -> pa.Array:
    columns = (values.to_pylist() for values in (rows["evidence"], rows["begun_with"], goes_on))
    found = [ids[:count] if is_open else ids for ids, count, is_open in zip(*columns, strict=True)]
    return pa.array(found, rows["evidence"].type)


def start_in(table: Table, day: dt.date) -> pa.Scalar:
    """Return the first value of a day in the type of the columns `table.span`, instants or dates."""
    if pa.types.is_date(table.schema.field(table.span[1]).type):
        return pa.scalar(day)
    return pa.scalar(day_start_us(day), pa.int64()).cast(TIMESTAMP)
