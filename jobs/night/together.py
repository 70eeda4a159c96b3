"""Rules about all recorded rows together: keys are compared a group of parts at a time, the rest by the driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from jobs.night import stash
from jobs.night.opened import TABLES
from jobs.night.passes import Passes
from jobs.store.files import ask_file
from jobs.store.warehouse import Warehouse
from namesrv_day import keys, scan
from namesrv_day.keys import Copies, Numbers
from namesrv_day.rules import Measurement
from namesrv_day.scan import Scan
from schemas import bronze

_SMALL = ("connections", "deciding", "topics")


@dataclass(frozen=True)
class KeysWork:
    """One group of parts of the keys that were left at `places`."""

    places: tuple[str, ...]
    group: int


def what_is_left(found: Scan, groups: int) -> dict[str, pa.Table]:
    """Return what a file leaves, as it is stashed: its keys by group."""
    left = {name: getattr(found, name) for name in _SMALL}
    for name in ("ids", "positions"):
        parts = getattr(found, name)
        in_group = [part % groups for part in parts["part"].to_pylist()]
        for group in range(groups):
            left[f"{name}-{group}"] = parts.take(
                pa.array([row for row, of in enumerate(in_group) if of == group], pa.int64())
            )
    return left


def judged_together(
    house: Warehouse, passes: Passes, places: Sequence[str], groups: int, days: Sequence[dt.date]
) -> list[Measurement]:
    """Return what is counted of the rules about keys, connections, clocks and topics."""
    compared = passes.each(compare_keys, [KeysWork(tuple(places), group) for group in range(groups)])
    positions, ids = ([copies for of in compared for copies in of[number]] for number in (0, 1))
    connections, deciding, topics = (stash.take(places, name) for name in _SMALL)
    stored = house.rows(bronze.TOPIC_CONFIGS_TABLE, None, ["topic_config_digest"])
    return [
        *keys.judged(positions, ids, partial(_again, house, days)),
        *scan.judged(connections, deciding, topics, stored),
    ]


def compare_keys(work: KeysWork) -> tuple[list[Copies], list[Copies]]:
    """Compare the keys of one group: the task of the pass. Returns what is repeated among positions, and among prints of ids."""
    positions, ids = (keys.copies_in(stash.take(work.places, f"{name}-{work.group}")) for name in ("positions", "ids"))
    return positions, ids


def _again(house: Warehouse, days: Sequence[dt.date], name: str, prints: Numbers) -> list[str]:
    """Return the ids of a table that have one of these prints, as often as they are there."""
    table = TABLES[name]
    files = house.files(table, days)
    return [
        event_id
        for file in files
        for event_id in ask_file(house.path, table, file, lambda rows: keys.ids_with(rows, name, prints))
    ]
