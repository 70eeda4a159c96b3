"""What is recorded of a name server on a day: from when to when, and where its life, or the recording, was broken off."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.sql import ask
from namesrv_day.day.day_events import Frames
from schemas.bronze import NAMESRV_EVENTS
from schemas.gold import EVENT_OUTCOMES, FINDINGS
from schemas.sql_files import query

_TABLES = (NAMESRV_EVENTS.name, EVENT_OUTCOMES.name, FINDINGS.name)


def recorded_day(
    namesrv_id: str, day: dt.date, tables: Frames, seen: Iterable[pa.ChunkedArray | pa.Array]
) -> list[dict[str, Any]]:
    """Return the day's row of `runs.coverage`; none for a name server of which nothing is recorded on it.

    `tables`: its namesrv_events, event_outcomes and findings of the day. `seen`: instants at which something was recorded of
    it, the first and the last among them.
    """
    bounds = [pc.min_max(times) for times in seen]
    first = min((at for of in bounds if (at := of["min"].as_py()) is not None), default=None)
    last = max((at for of in bounds if (at := of["max"].as_py()) is not None), default=None)
    if first is None:
        return []
    marks = ask(query("day/marks"), {name: tables[name] for name in _TABLES}).to_pylist()
    return [{"namesrv_id": namesrv_id, "day": day, "first_time": first, "last_time": last, "marks": marks}]
