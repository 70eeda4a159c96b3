"""What intervals were on a day, or when it ended: of what came later they tell nothing."""

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
_ENDS = ("valid_to", "closed_by", "closed_at")
_LAST = "last_update_time"
_ENTRY = ("namesrv_id", "cluster_name", "broker_addr", "first_update_time")


def alive(day: dt.date, *, still: bool = False) -> pc.Expression:
    """Return the condition that an interval was there at some time of a day; `still`: when it ended."""
    begin, end = _start(day + _ONE_DAY if still else day), _start(day + _ONE_DAY)
    return (pc.field("valid_from") < end) & (pc.field("valid_to").is_null() | (pc.field("valid_to") >= begin))


def columns_for(table: Table, columns: Sequence[str]) -> list[str]:
    """Return the columns of a history that are read to know some of them as they were."""
    more = ["valid_from", "valid_to", *(_ENTRY if table is gold.BROKER_LIVE_HISTORY and _LAST in columns else ())]
    return list(dict.fromkeys([*columns, *more]))


def as_of(table: Table, rows: pa.Table, day: dt.date, beats: pa.Table) -> pa.Table:
    """Return intervals that were there on a day as they were known when it ended.

    What ended later was open then, and what became known later was believed. `beats`: rows of last_heartbeats of that day, which
    say of live entries that were open when they had been renewed last.
    """
    end = _start(day + _ONE_DAY)
    goes_on = pc.fill_null(pc.greater_equal(rows["valid_to"], end), fill_value=False)
    if pc.any(goes_on).as_py():
        masked = {name: _without(rows[name], goes_on) for name in _ENDS if name in rows.column_names}
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
    """Return the rows of last_heartbeats of a day: of the live entries that were open when it ended."""
    return conformed(live.filter(pc.field("closed_by").is_null()), gold.LAST_HEARTBEATS, day=day)


def stored(table: Table, rows: pa.Table) -> pa.Table:
    """Return intervals as they are stored: when an open live entry was renewed last is no column of it."""
    if table is not gold.BROKER_LIVE_HISTORY:
        return rows
    return with_columns(rows, last_update_time=_without(rows[_LAST], pc.is_null(rows["valid_to"])))


def on_a_day(table: Table) -> pa.Schema:
    """Return the columns of a history of which it is said, too, on which day its rows are looked at."""
    return plain(table.schema).append(pa.field("day", pa.date32()))


def _without(values: pa.ChunkedArray, gone: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(gone, pa.scalar(None, values.type), values)


def _start(day: dt.date) -> pa.Scalar:
    return pa.scalar(day_start_us(day), pa.int64()).cast(TIMESTAMP)
