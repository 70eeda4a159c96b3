"""The rows of topics in, their route changes and orphan intervals out: plain Python around the core, Arrow batches at its edges."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.arrow_rows import Row, batches_of, rows_of
from namesrv_core.history.route_history import (
    Member,
    Orphan,
    Position,
    RouteHistory,
    RouteRow,
    sweep_route,
)
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.rows import KvValue, LiveKey, QueueData, TopicQueueMappingInfo
from schemas.table import DATE, LONG, STRING, struct_of
from schemas.times import day_start_us

SWEPT_SCHEMA = struct_of(
    namesrv_id=STRING,
    topic=STRING,
    day=DATE,
    kind=STRING,
    seq=LONG,
    from_us=LONG,
    opened_by=STRING,
    to_us=LONG,
    closed_by=STRING,
    what=STRING,
    broker_name=STRING,
    route_before=STRING,
    route_after=STRING,
)
_SWEPT_ARROW = to_arrow_schema(SWEPT_SCHEMA, timezone="UTC")


class UnknownNamesrvError(LookupError):
    """Rows of a name server about which nothing was said."""


def sweeper(namesrvs: dict[str, Namesrv]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark calls for a pack of topics, whose rows come one topic after the other.

    Rows in, SWEPT_SCHEMA out. Raises UnknownNamesrvError.
    """

    def sweep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches_of(_swept_topics(batches, namesrvs), _SWEPT_ARROW)

    return sweep


def _swept_topics(batches: Iterable[pa.RecordBatch], namesrvs: Mapping[str, Namesrv]) -> Iterator[Row]:
    for (namesrv_id, topic), rows in groupby(rows_of(batches), key=itemgetter("namesrv_id", "topic")):
        if namesrv_id not in namesrvs:
            raise UnknownNamesrvError(f"name server {namesrv_id}: rows, but no profile and configuration; give both")
        yield from _swept_rows(namesrv_id, topic, list(rows), namesrvs[namesrv_id])


def _swept_rows(namesrv_id: str, topic: str | None, rows: list[Row], namesrv: Namesrv) -> Iterator[Row]:
    """Yield the findings of one topic day by day; what is open at the end of a day is handed to the next."""
    orphans = tuple(
        Orphan(row["text"], row["broker_name"], row["from_us"], row["opened_by"])
        for row in rows
        if row["table"] == "orphan"
    )
    by_day: dict[dt.date, list[RouteRow]] = {}
    for row in rows:
        if row["table"] != "orphan":
            by_day.setdefault(row["day"], []).append(_route_row(row, namesrv))
    for day in sorted(by_day):
        history = sweep_route(topic, by_day[day], namesrv, start_us=day_start_us(day), open_orphans=orphans)
        orphans = history.orphans
        for found in _day_rows(history):
            yield {"namesrv_id": namesrv_id, "topic": topic, "day": day, **found}


def _day_rows(history: RouteHistory) -> Iterator[Row]:
    for change in history.changes:
        yield {
            "kind": "change",
            "seq": change.seq,
            "from_us": change.effect_us,
            "opened_by": change.caused_by,
            "what": change.change,
            "route_before": change.route_before,
            "route_after": change.route_after,
        }
    for orphan in history.orphans:
        yield {
            "kind": "orphan",
            "from_us": orphan.from_us,
            "opened_by": orphan.opened_by,
            "to_us": orphan.to_us,
            "closed_by": orphan.closed_by,
            "what": orphan.reason,
            "broker_name": orphan.broker_name,
        }


def _route_row(row: Row, namesrv: Namesrv) -> RouteRow:
    key, value = _VALUES[row["table"]](row, namesrv)
    opened = Position(row["opened_at"]["seq"], row["opened_at"]["no"], row["opened_by"], row["from_us"])
    closed = None
    if row["closed_at"] is not None:
        closed = Position(row["closed_at"]["seq"], row["closed_at"]["no"], row["closed_by"], row["to_us"])
    return RouteRow(row["table"], key, value, opened, closed)


def _live_key(row: Row, namesrv: Namesrv) -> LiveKey:
    return LiveKey(row["cluster_name"] if namesrv.profile.live_key_has_cluster else None, row["broker_addr"])


_VALUES: dict[str, Callable[[Row, Namesrv], tuple[object, object]]] = {
    "topic_queue_table": lambda row, _: (
        row["broker_name"],
        QueueData(row["read_queue_nums"], row["write_queue_nums"], row["perm"], row["topic_sys_flag"]),
    ),
    "broker_addr_table": lambda row, _: (
        None,
        Member(
            row["broker_name"],
            row["broker_id"],
            row["broker_addr"],
            row["cluster_name"],
            row["enable_acting_master"],
            row["zone_name"],
        ),
    ),
    "broker_live_table": lambda row, namesrv: (_live_key(row, namesrv), None),
    "filter_server_table": lambda row, namesrv: (_live_key(row, namesrv), tuple(row["filter_servers"])),
    "kv_config_table": lambda row, _: (None, KvValue(row["text"])),
    "topic_queue_mapping_info_table": lambda row, _: (
        row["broker_name"],
        TopicQueueMappingInfo(
            row["topic"],
            row["broker_name"],
            row["total_queues"],
            row["epoch"],
            row["dirty"],
            row["scope"],
            row["text"],
        ),
    ),
    "reported": lambda row, _: (row["broker_name"], row["listed"]),
}
