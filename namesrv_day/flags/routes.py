"""What changed in the routes that clients see, and which topics could not be served: a sweep over the rows of each topic.

Swept are stirred topics only: of any other, no row was opened or closed on the day, none was missing in a registration,
and none was orphaned before. Of topics that brokers registered alike, one is swept for all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.queries import SYNC_BROKER_MEMBER_GROUP_PREFIX
from namesrv_core.history.route_history import (
    Orphan,
    Position,
    RouteChange,
    RouteHistory,
    RouteRow,
    RouteTable,
    sweep_route,
)
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import Namesrv
from namesrv_day.arrow.rows import empty, rows_of, table_of, with_columns
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import BEGINNINGS, RawBeats
from namesrv_day.day.day_events import Frames
from namesrv_day.flags.sweep import open_orphans, route_parts
from schemas import bronze, gold
from schemas.gold import ORPHANED_TOPICS, ROUTE_CHANGES
from schemas.sql_files import query
from schemas.table import Table
from schemas.times import day_start_seq, day_start_us

_LAST_IN_STEP = 2**31 - 1
_ROWS_AT_A_TIME = 100_000
# The text of all rows of a chunk must stay below 2 GiB.
_ROWS_OF_A_CHUNK = 4_096
_REPORTING = (
    *("broker_name", "broker_id", "seq", "event_id", "effect_time", "data_version", "refusal"),
    *("topic_config_digest", "topic_count"),
)
Strings = Collection[str | None]


class Reports(NamedTuple):
    """What brokers say of their topics on a day: condensed beats, single ones, and the topic tables of digests.

    `refused`: event ids of registrations that the registry did not take.
    """

    hours: pa.Table
    raw_beats: RawBeats
    topic_configs: Callable[[pa.ChunkedArray], pa.Table]
    refused: pa.ChunkedArray


class Routes(NamedTuple):
    """What the sweep found: rows of `route_changes` and of `orphaned_topics`."""

    changes: pa.Table
    orphans: pa.Table


def swept_routes(
    slices: Frames, news: Frames, reports: Reports, orphans: pa.Table, namesrv: Namesrv, day: dt.date
) -> Routes:
    """Return how one name server's routes changed on `day`, and when topics could not be served as their route looks.

    `slices`: the day's histories, `namesrv_settings` and `namesrv_events`; `news`: rows of histories that were opened or closed
    on the day; `orphans`: `orphaned_topics` that were open when it began; `namesrv`: what it was when the day began, and
    became later. The rows found have no `namesrv_id`; a change that was only learned is not told from others.
    """
    carried = open_orphans(orphans)
    turns = _turns(slices, namesrv)
    moved = {*_moved(slices, news), *_served_otherwise(slices, namesrv), *carried}
    queues = slices[gold.TOPIC_QUEUE_HISTORY.name]
    held = _among(queues, "topic", moved | _unlisted(queues, reports))
    if not held.num_rows:
        return Routes(empty(ROUTE_CHANGES), empty(ORPHANED_TOPICS))
    reported = _reported(held, reports)
    unlisted = _values(reported.filter(pc.invert(reported["listed"])), "topic")
    held = _among(held, "topic", moved | unlisted)
    single = {*carried, *unlisted}
    told = _of_topics(slices, held, _among(reported, "topic", single))
    for _, rows in told[1:]:
        single |= _values(rows, "topic")
    classes = alike(held, single)
    found: list[tuple[str | None, RouteHistory]] = []
    shared = route_parts(_of_brokers(slices, held))
    for topics in _some_at_a_time(classes):
        parts = shared.with_topics((table, _among(rows, "topic", topics)) for table, rows in told)
        for topic in topics:
            start_us, before = day_start_us(day), carried.get(topic, ())
            rows = (*turns, *parts.rows(topic))
            found.append((topic, sweep_route(topic, rows, namesrv, start_us=start_us, open_orphans=before)))
    return Routes(
        _of_all(classes, [(topic, _change_rows(of.changes)) for topic, of in found], ROUTE_CHANGES, day=day),
        _of_all(classes, [(topic, _orphan_rows(of.orphans)) for topic, of in found], ORPHANED_TOPICS),
    )


def news_of(history: pa.Table, day: dt.date) -> pa.Table:
    """Return the rows of a history's slice that were opened or closed on its `day`."""
    opened_today = pc.greater_equal(pc.struct_field(history["opened_at"], "seq"), day_start_seq(day))
    return history.filter(pc.or_(pc.is_valid(history["closed_by"]), opened_today))


def _moved(slices: Frames, new: Frames) -> set[str | None]:
    """Return the topics of whose routes a part was opened or closed on the day."""
    members = slices[gold.BROKER_ADDR_HISTORY.name]
    addrs = _values(new[gold.BROKER_LIVE_HISTORY.name], "broker_addr")
    addrs |= _values(new[gold.FILTER_SERVER_HISTORY.name], "broker_addr")
    names = _values(new[gold.BROKER_ADDR_HISTORY.name], "broker_name")
    names |= _values(_among(members, "broker_addr", addrs), "broker_name")
    return (
        _values(new[gold.TOPIC_QUEUE_HISTORY.name], "topic")
        | _values(_among(slices[gold.TOPIC_QUEUE_HISTORY.name], "broker_name", names), "topic")
        | _values(new[gold.TOPIC_QUEUE_MAPPING_HISTORY.name], "topic")
        | _values(_order_confs(new[gold.KV_CONFIG_HISTORY.name]), "topic")
    )


def _turns(slices: Frames, namesrv: Namesrv) -> list[RouteRow]:
    """Return where the name server became another: a process started, its configuration was changed, or an answer shows that."""
    stretches = pairwise(((0, namesrv), *namesrv.later))
    turns = [one for (_, was), one in stretches if (was.profile, was.config) != (one[1].profile, one[1].config)]
    settings, life = slices[gold.NAMESRV_SETTINGS.name], slices[bronze.NAMESRV_EVENTS.name]
    causes = {row["from_seq"]: row["evidence"][0] for row in rows_of(settings) if row["evidence"]}
    causes |= {row["seq"]: row["event_id"] for row in rows_of(life.filter(pc.field("kind").isin(BEGINNINGS)))}
    return [
        RouteRow("namesrv", None, became, Position(seq, -1, causes[seq], seq // NS_PER_US)) for seq, became in turns
    ]


def _served_otherwise(slices: Frames, namesrv: Namesrv) -> set[str | None]:
    """Return the topics whose routes change with the configuration alone: those with an order conf, or of acting masters."""
    configs = [namesrv.config, *(became.config for _, became in namesrv.later)]
    found = set[str | None]()
    if len({config.order_message_enable for config in configs}) > 1:
        found |= _values(_order_confs(slices[gold.KV_CONFIG_HISTORY.name]), "topic")
    if len({config.support_acting_master for config in configs}) > 1:
        groups = slices[gold.BROKER_ADDR_HISTORY.name].filter(pc.field("enable_acting_master"))
        found |= _values(
            _among(slices[gold.TOPIC_QUEUE_HISTORY.name], "broker_name", _values(groups, "broker_name")), "topic"
        )
    return found


def _of_topics(slices: Frames, held: pa.Table, reported: pa.Table) -> list[tuple[RouteTable, pa.Table]]:
    """Return the rows of topics of which their routes are made, and what registrations say of them; first the queues."""
    topics = _values(held, "topic")
    confs = _order_confs(slices[gold.KV_CONFIG_HISTORY.name])
    return [
        ("topic_queue_table", held),
        ("kv_config_table", _among(confs, "topic", topics)),
        ("topic_queue_mapping_info_table", _among(slices[gold.TOPIC_QUEUE_MAPPING_HISTORY.name], "topic", topics)),
        ("reported", reported),
    ]


def _of_brokers(slices: Frames, held: pa.Table) -> list[tuple[RouteTable, pa.Table]]:
    """Return the rows of groups and addresses of which the routes of `held` are made."""
    members = _among(slices[gold.BROKER_ADDR_HISTORY.name], "broker_name", _values(held, "broker_name"))
    addrs = _values(members, "broker_addr")
    return [
        ("broker_addr_table", members),
        ("broker_live_table", _among(slices[gold.BROKER_LIVE_HISTORY.name], "broker_addr", addrs)),
        ("filter_server_table", _among(slices[gold.FILTER_SERVER_HISTORY.name], "broker_addr", addrs)),
    ]


def alike(held: pa.Table, single: Strings) -> pa.Table:
    """Return (topic, alike, queue_rows): of each topic the first whose route has the same history; of `single` ones themselves.

    A topic may be one for which no slave stands as master (`acts_for`): it is like no other.
    """
    topics = pc.unique(held["topic"])
    apart = topics.filter(pc.fill_null(pc.starts_with(topics, SYNC_BROKER_MEMBER_GROUP_PREFIX), fill_value=False))
    alone = pa.table({"topic": pa.array({*single, *apart.to_pylist()} - {None}, pa.string())})
    return ask(query("flags/alike"), {"held": held, "single": alone})


def _some_at_a_time(classes: pa.Table) -> Iterator[list[str | None]]:
    """Yield the topics that are swept: as objects, their rows take far more memory than as columns."""
    some, count = [], 0
    for topic, alike, rows in zip(*(classes[name].to_pylist() for name in classes.column_names), strict=True):
        if topic == alike:
            some.append(topic)
            count += rows
        if count > _ROWS_AT_A_TIME:
            yield some
            some, count = [], 0
    yield some


def _of_all(
    classes: pa.Table, found: Sequence[tuple[str | None, list[dict[str, Any]]]], table: Table, **same: Any
) -> pa.Table:
    """Return the rows found of the topics that were swept, for each topic that is like one of them."""
    swept = table_of((row for _, rows in found for row in rows), table, **same)
    counts = np.array([len(rows) for _, rows in found], np.int64)
    place = {topic: number for number, (topic, _) in enumerate(found)}
    of = np.array([place[topic] for topic in classes["alike"].to_pylist()], np.int64)
    lengths = counts[of]
    ends = np.cumsum(lengths)
    firsts = (np.cumsum(counts) - counts)[of] - (ends - lengths)
    rows = np.arange(lengths.sum()) + np.repeat(firsts, lengths)
    topics = np.repeat(np.arange(len(of)), lengths)
    parts = (slice(n, n + _ROWS_OF_A_CHUNK) for n in range(0, len(rows), _ROWS_OF_A_CHUNK))
    made = [with_columns(swept.take(rows[part]), topic=classes["topic"].take(topics[part])) for part in parts]
    return pa.concat_tables([swept.slice(0, 0), *made])


def _unlisted(queues: pa.Table, reports: Reports) -> set[str | None]:
    """Return the topics that a broker's master may have left out of a registration of the day; some too many."""
    said = ask(query("flags/said"), {"hours": reports.hours})
    if not said.num_rows:
        return set()
    tables = {"said": said, "configs": reports.topic_configs(pc.unique(said["topic_config_digest"])), "queues": queues}
    return _values(ask(query("flags/unlisted"), tables), "topic")


def _reported(held: pa.Table, reports: Reports) -> pa.Table:
    """Return whether the topics of `held` are listed by registrations of their brokers' masters, in order to be swept.

    Only accepted registrations count, and only those whose topics differ from the one before. A registration
    with one topic reports a change of that topic and says nothing about others; nor does one of several with the same
    data version, into which a broker may split its topics (5.x).
    """
    of_names = pc.field("broker_name").isin(pc.drop_null(pc.unique(held["broker_name"])))
    registrations = reports.raw_beats(bronze.REGISTRATIONS.name, columns=_REPORTING, where=of_names)
    configs = reports.topic_configs(pc.drop_null(pc.unique(registrations["topic_config_digest"])))
    refused = pa.table({"event_id": reports.refused})
    tables = {"registrations": registrations, "refused": refused, "held": held, "configs": configs}
    return ask(query("flags/reported"), tables, last=_LAST_IN_STEP)


def _change_rows(changes: Iterable[RouteChange]) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(change, name) for name in ("seq", "caused_by", "change")},
            "effect_time": change.effect_us,
            "parts": [part._asdict() for part in change.parts],
            **{f"groups_{when}": size.groups for when, size in (("before", change.before), ("after", change.after))},
            **{f"length_{when}": size.length for when, size in (("before", change.before), ("after", change.after))},
        }
        for change in changes
    ]


def _orphan_rows(orphans: Iterable[Orphan]) -> list[dict[str, Any]]:
    rows = (orphan._asdict() for orphan in orphans)
    return [{"valid_from": row.pop("from_us"), "valid_to": row.pop("to_us"), **row} for row in rows]


def _order_confs(kv_configs: pa.Table) -> pa.Table:
    """Return the order configurations, with their key as `topic`."""
    is_one = (pc.field("namespace") == ORDER_TOPIC_CONFIG) & pc.field("config_key").is_valid()
    confs = kv_configs.filter(is_one)
    return confs.append_column("topic", confs["config_key"])


def _among(rows: pa.Table, column: str, values: Strings) -> pa.Table:
    """Return the rows whose `column` is one of `values`; a NULL is a value like others."""
    if not values:
        return rows.slice(0, 0)
    return rows.filter(pc.is_in(rows[column], pa.array(list(values), rows[column].type)))


def _values(rows: pa.Table, column: str) -> set[str | None]:
    return set(pc.unique(rows[column]).to_pylist())
