"""Coverage of a name server's day: the recorded time, and interruptions of the process or of the recording."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.sql import ask
from namesrv_day.day.day_events import OTHERS, Frames
from schemas.bronze import NAMESRV_EVENTS, ROUTE_OBSERVATIONS
from schemas.gold import EVENT_OUTCOMES, FINDINGS, PAST_KNOWLEDGE
from schemas.sql_files import query
from schemas.table import TIMESTAMP

_TABLES = (NAMESRV_EVENTS.name, EVENT_OUTCOMES.name, FINDINGS.name)


class Extent(NamedTuple):
    """First and last time at which something was recorded of a name server on a day, beats and answers included."""

    first: dt.datetime
    last: dt.datetime


def extent_of(today: Frames) -> Extent | None:
    """Return when something was recorded first and last; None: nothing was. `today`: as in `SettleInput`."""
    times = [today[table.name]["effect_time"] for table in (*OTHERS, ROUTE_OBSERVATIONS)]
    bounds = [
        pc.min_max(at) for at in (*times, *(today["hours"][name].cast(TIMESTAMP) for name in ("first_us", "last_us")))
    ]
    first = min((at for of in bounds if (at := of["min"].as_py()) is not None), default=None)
    last = max((at for of in bounds if (at := of["max"].as_py()) is not None), default=None)
    return None if first is None or last is None else Extent(first, last)


def recorded_day(namesrv_id: str, day: dt.date, tables: Frames, extent: Extent | None) -> list[dict[str, Any]]:
    """Return the day's row of `runs.coverage`; no row if nothing is recorded of the name server (no `extent`).

    `tables`: its namesrv_events and event_outcomes of the day, and its findings on that day.
    """
    if extent is None:
        return []
    marks = ask(query("day/marks"), {name: tables[name] for name in _TABLES}, day=day).to_pylist()
    if PAST_KNOWLEDGE.name in tables and is_logged(tables[PAST_KNOWLEDGE.name]):
        marks = [{**mark, "kind": "log_started"} if mark["kind"] == "started" else mark for mark in marks]
    times = {"first_time": extent.first, "last_time": extent.last}
    return [{"namesrv_id": namesrv_id, "day": day, **times, "marks": marks}]


def is_logged(past_knowledge: pa.Table) -> bool:
    """Return whether the name server is known only by its own log, which shows rows but not their absence."""
    settings = past_knowledge.filter((pc.field("about") == "is_logged") & (pc.field("number") != 0))
    return bool(settings.num_rows)
