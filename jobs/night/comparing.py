"""What shows only where name servers are compared: the driver's, behind the passes over a day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from jobs.night.judging import Judged
from jobs.night.opened import files_of
from jobs.store.warehouse import Warehouse
from namesrv_day.across.restate import compare
from namesrv_day.arrow.digest import Digest, Slice, slices_of
from namesrv_day.arrow.rows import conformed
from namesrv_day.flags.between import across, together
from namesrv_day.flags.findings import stand_otherwise
from schemas import gold
from schemas.findings import BETWEEN

_COMPARED = ("namesrv_id", "broker_name", "topic", "valid_from", "valid_to", "opened_by", "closed_by")


def told_together(house: Warehouse, day: dt.date, judged: Sequence[Judged]) -> tuple[list[Judged], dict[Slice, Digest]]:
    """Write the findings that comparing name servers tells; return what was judged, these compared, too, and their digests."""
    each = gold.FINDINGS
    compared = together(done.compared for done in judged if done.compared is not None)

    def queues(names: Sequence[str], brokers: pa.Array) -> pa.Table:
        where = pc.field("namesrv_id").isin(names) & pc.field("broker_name").isin(brokers)
        history = gold.TOPIC_QUEUE_HISTORY
        return files_of(house, [history], [day]).on(history, day, _COMPARED, where)

    found = conformed(across(compared, queues, day, house.conf.thresholds), each)
    if found.num_rows:
        house.write(each, found, day)
    again = [_compared_again(house, day, done) for done in judged] if day in house.ledger().days else list(judged)
    return again, slices_of(each.name, found) if found.num_rows else {}


def _compared_again(house: Warehouse, day: dt.date, done: Judged) -> Judged:
    """Return what was judged of a published day with the findings that comparing name servers told."""
    if done.compared is None or done.told_then is None:
        return done
    own = pc.field("namesrv_id") == done.namesrv_id
    new, old = (of(gold.FINDINGS, [day], None, own) for of in (house.rows, house.published_rows))
    others = (of_table for of_table in done.differing if of_table["table_name"] != gold.FINDINGS.name)
    differing = [*others, *compare({gold.FINDINGS.name: new}, {gold.FINDINGS.name: old}, day)]
    told, then = (
        pa.concat_tables([before, of_day]).filter(pc.field("code").isin(BETWEEN))
        for before, of_day in ((done.compared.told, new), (done.told_then, old))
    )
    ends_otherwise = done.ends_otherwise or stand_otherwise(told, then, day)
    return replace(done, differing=differing, ends_otherwise=ends_otherwise)
