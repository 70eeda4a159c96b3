"""What shows only where name servers are compared: the driver's, behind the passes over a day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from jobs.night.judging import Judged
from jobs.night.opened import Files
from jobs.store.files import read_files
from jobs.store.intervals import write_intervals
from jobs.store.warehouse import Warehouse
from namesrv_day.across.restate import HELD, compare, ends_otherwise
from namesrv_day.arrow.digest import Digest, Slice
from namesrv_day.flags.between import across, together
from schemas import gold

_COMPARED = ("namesrv_id", "broker_name", "topic", "valid_from", "valid_to", "opened_by", "closed_by")
_EACH = gold.FINDINGS


def told_together(
    warehouse: Warehouse, day: dt.date, judged: Sequence[Judged]
) -> tuple[list[Judged], dict[Slice, Digest]]:
    """Write the findings that comparing name servers tells; return what was judged, with these, and their digests."""
    history = gold.TOPIC_QUEUE_HISTORY
    written = tuple(file for done in judged if done.intervals for file in done.intervals[history.name].files)

    def queues(names: Sequence[str], brokers: pa.Array) -> pa.Table:
        where = pc.field("namesrv_id").isin(names) & pc.field("broker_name").isin(brokers)
        return Files(warehouse.path, {history.name: written}).on(history, day, _COMPARED, where)

    found = across(
        together(done.compared for done in judged if done.compared is not None), queues, day, warehouse.conf.thresholds
    )
    there, known = (warehouse.files(_EACH), warehouse.published_files(_EACH)), dict[Slice, Digest]()
    again = []
    for done in judged:
        rows = found.filter(pc.field("namesrv_id") == done.namesrv_id)
        told = write_intervals(warehouse.path, _EACH, rows, done.namesrv_id, day, warehouse.run_id, there, "between")
        known |= told.digests
        both = done.intervals[_EACH.name].and_also(told)
        again.append(replace(done, intervals={**done.intervals, _EACH.name: both}))
    return [_compared_again(warehouse, day, done) for done in again], known


def _compared_again(warehouse: Warehouse, day: dt.date, done: Judged) -> Judged:
    """Return what was judged of a day, of one that was published with the findings that comparing name servers told."""
    if done.published_findings is None:
        return done
    new = {_EACH.name: read_files(warehouse.path, _EACH, done.intervals[_EACH.name].files)}
    old = {_EACH.name: done.published_findings}
    others = (of_table for of_table in done.differing if of_table["table_name"] != _EACH.name)
    is_other = ends_otherwise(new, old, {_EACH: HELD[_EACH]})
    return replace(
        done,
        differing=[*others, *compare(new, old, day)],
        holds_otherwise=done.holds_otherwise or is_other,
        ends_otherwise=done.ends_otherwise or is_other,
    )
