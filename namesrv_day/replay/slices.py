"""What a replay leaves, as columns: a table's rows of the day are built at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from namesrv_core.history.intervals import Interval
from namesrv_core.machine.events import RefreshRun, ScanNotActiveBroker
from namesrv_day.arrow.rows import conformed
from namesrv_day.arrow.sql import ask
from namesrv_day.day.timed import Timed
from namesrv_day.replay.notes import OutcomeOf, Refreshes
from schemas import gold
from schemas.codec import columns_of
from schemas.reports import operation_of
from schemas.table import LONG, Table

_SCAN = ScanNotActiveBroker()
_SAID = ("cluster_name", "broker_name", "broker_addr", "topic", "channel_id")


def history_rows(table: Table, intervals: Sequence[Interval], same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a history table that intervals make; `same`: columns with one value in all rows."""
    return _table_of(table, columns_of(table.name, intervals), same)


def outcome_rows(outcomes: Sequence[OutcomeOf], timed: Timed, same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of event_outcomes of events whose contents are those of `timed`; `same`: as above.

    An event that names no broker is about the first that went with it.
    """
    columns: dict[str, Any] = _columns(outcomes, OutcomeOf._fields)
    numbers = pa.array(columns["number"], LONG)
    columns |= {name: timed.said[name].take(numbers) for name in _SAID if name in timed.said.column_names}
    kinds = timed.said["channel_kind"].take(numbers).to_pylist()
    of_numbers = (_SCAN if number is None else timed.events[number] for number in columns["number"])
    of_numbers = (event.beat if isinstance(event, RefreshRun) else event for event in of_numbers)
    columns["operation"] = list(map(operation_of, of_numbers, kinds))
    rows = _table_of(gold.EVENT_OUTCOMES, columns, same)
    return conformed(ask(_OUTCOMES, {"outcomes": rows}), gold.EVENT_OUTCOMES)


_OUTCOMES = """
SELECT * REPLACE (
    coalesce(broker_name, brokers_gone[1].broker_name) AS broker_name,
    coalesce(broker_addr, brokers_gone[1].broker_addr) AS broker_addr,
    coalesce(cluster_name, brokers_gone[1].cluster_name) AS cluster_name
) FROM (SELECT * REPLACE (list_sort(notifications) AS notifications, list_sort(brokers_gone) AS brokers_gone) FROM outcomes)
"""


def refresh_rows(refreshes: Sequence[Refreshes], same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of refreshes_hourly; `same`: as above."""
    return _table_of(gold.REFRESHES_HOURLY, _columns(refreshes, Refreshes._fields), same)


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: list(map(itemgetter(number), rows)) for number, name in enumerate(names)}


def _table_of(table: Table, columns: Mapping[str, Any], same: Mapping[str, Any]) -> pa.Table:
    """Return columns, lists or arrays, as `table` has them; one that is not given is NULL."""
    types = {field.name: field.type for field in table.schema}
    arrays = {
        name: pa.array(values, types[name]) if isinstance(values, list) else values
        for name, values in columns.items()
        if name in types
    }
    return conformed(pa.table(arrays), table, **same)
