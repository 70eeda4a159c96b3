"""Gaps of a recording that later files fill: what is still missing is all that stays a gap."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection, Mapping
from itertools import count, pairwise
from typing import Any

import pyarrow.compute as pc

from jobs.store.files import read_files
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS
from namesrv_day.arrow.rows import rows_of, table_of
from namesrv_wire.limits import RECORDING_GAP_NS, SMALL_HOLE_NS
from namesrv_wire.rows import UNTIL_MS, gap_end_ms
from schemas import bronze
from schemas.times import day_of

_GAPS = ("recording_gap", "address_recording_gap")
_SHORTEST_NS = CHANNEL_MAX_IDLE_MS * NS_PER_MS + RECORDING_GAP_NS


def fill_gaps(warehouse: Warehouse, days: Collection[dt.date]) -> set[dt.date]:
    """Have gaps in which `days` have rows by now be what is left of them; return the days on which facts have changed.

    That is the time before what came late, and behind it, if it is longer than a minute; and what reading both at once would
    have called a gap. Nothing is committed.
    """
    table, changed = bronze.NAMESRV_EVENTS, set[dt.date]()
    if not days:
        return changed
    first = min(days) - dt.timedelta(days=warehouse.conf.late_limit_days)
    looked_at = {file.day for file in warehouse.files(table) if file.day is not None and first <= file.day <= max(days)}
    gaps = list(rows_of(warehouse.rows(table, looked_at, filter=pc.field("kind").isin(_GAPS[:1]))))
    # Gaps may lie over each other, and what is left of two begin behind the same event.
    taken = {(gap["namesrv_id"], gap["seq"]) for gap in gaps}
    for gap in gaps:
        is_step = _until_ns(gap) - gap["seq"] <= SMALL_HOLE_NS
        if not is_step and day_of(_until_ns(gap) // NS_PER_US) >= min(days) and (seen := _seen_in(warehouse, gap)):
            left = _left_of(gap, seen, taken)
            for file in warehouse.files(table, [gap["day"]]):
                rows = read_files(warehouse.path, table, [file])
                kept = rows.filter(pc.not_equal(rows["event_id"], gap["event_id"]))
                if kept.num_rows < rows.num_rows:
                    warehouse.write(table, kept, gap["day"], [file])
            for day in sorted({row["day"] for row in left}):
                warehouse.write(table, table_of([row for row in left if row["day"] == day], table), day)
            changed |= {gap["day"], *(row["day"] for row in left)}
    return changed


def _until_ns(gap: Mapping[str, Any]) -> int:
    return gap_end_ms(gap["properties"]) * NS_PER_MS


def _seen_in(warehouse: Warehouse, gap: Mapping[str, Any]) -> list[int]:
    """Return the positions of what was recorded of the name server in a gap, in order."""
    until = _until_ns(gap)
    within = (pc.field("namesrv_id") == gap["namesrv_id"]) & (pc.field("seq") > gap["seq"]) & (pc.field("seq") < until)
    first, last = gap["day"], day_of(until // NS_PER_US)
    found: set[int] = set()
    for table in bronze.RECORDED_TABLES:
        days = {file.day for file in warehouse.files(table) if file.day is not None and first <= file.day <= last}
        where = within
        if table is bronze.CHANNEL_EVENTS:
            where &= pc.field("closed_by") != "timer"
        elif table is bronze.NAMESRV_EVENTS:
            where &= ~pc.field("kind").isin(_GAPS)
        found.update(warehouse.rows(table, days, ["seq"], where)["seq"].to_pylist())
    return sorted(found)


def _left_of(gap: Mapping[str, Any], seen: list[int], taken: set[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the rows of what is left of a gap, at positions of name servers that are not `taken`, and take these."""
    rows, edges = [], (gap["seq"], _until_ns(gap))
    for begin, end in pairwise([edges[0], *seen, edges[1]]):
        if end - begin <= (RECORDING_GAP_NS if begin == edges[0] or end == edges[1] else _SHORTEST_NS):
            continue
        row = {**gap, "properties": f"{UNTIL_MS}{end // NS_PER_MS}"}
        row["evidence"] = f"no packet for {(end - begin) / 1e9:.3f} s; what came before and after was read apart"
        if begin != edges[0]:
            at = next(at for at in count(begin + 1) if (gap["namesrv_id"], at) not in taken)
            taken.add((gap["namesrv_id"], at))
            name = hashlib.sha256(f"gap {gap['namesrv_id']} {at}".encode()).hexdigest()[: len(gap["event_id"])]
            us = at // NS_PER_US
            row |= {"seq": at, "event_id": name, "event_time": us, "effect_time": us, "day": day_of(us)}
        rows.append(row)
    return rows
