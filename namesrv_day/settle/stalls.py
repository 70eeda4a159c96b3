"""When a name server stood still: what had arrived lay there, and nothing left it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.schedule import STALL_NS, Stall
from namesrv_day.arrow.rows import rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import SettleInput, frame
from namesrv_day.day.day_events import BEATS
from schemas import bronze
from schemas.sql_files import query
from schemas.table import LONG

_ASKED = (bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)
_TOLD = pa.schema([("arrival_seq", LONG), ("seq", LONG)])


def stalls(given: SettleInput) -> list[Stall]:
    """Return the stretches of a second or longer in which a beat waited and the name server sent nothing to anybody.

    That somebody else waits for his answer proves nothing: he may be slow to take it.
    """
    if (pc.max(given.today["hours"]["lag_ns"]).as_py() or 0) < STALL_NS:
        return []
    answered = pc.field("response_code").is_valid()
    columns = ["seq", "event_time", "response_code"]
    beats = [given.raw_beats(table.name, columns=columns, where=answered) for table in BEATS]
    told = [_told(rows) for rows in (*(frame(given.today, t).filter(answered) for t in _ASKED), *beats)]
    tables = {
        "told": pa.concat_tables([_TOLD.empty_table(), *told]),
        "beats": pa.concat_tables([_TOLD.empty_table(), *map(_told, beats)]),
        "observed": frame(given.today, bronze.ROUTE_OBSERVATIONS),
        "ends": frame(given.today, bronze.CHANNEL_EVENTS),
    }
    return [Stall(**row) for row in rows_of(ask(query("settle/stalls"), tables, stall_ns=STALL_NS))]


def _told(rows: pa.Table) -> pa.Table:
    arrival = pc.multiply(pc.cast(rows["event_time"], LONG), NS_PER_US)
    return pa.table([arrival, rows["seq"]], schema=_TOLD)
