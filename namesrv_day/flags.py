"""Flags of a name server's day: route changes, expired brokers, orphaned topics, findings ..."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import SYNC_BROKER_MEMBER_GROUP_PREFIX
from namesrv_core.history.intervals import Interval, Position
from namesrv_core.history.route_history import NAMESRV, REPORTED, Orphan, RouteChange, RouteHistory, sweep_route
from namesrv_core.machine.events import NS_PER_US, US_PER_MS
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG
from namesrv_day.arrow import ask, conformed, empty, rows_of, table_of, with_columns, with_microseconds
from namesrv_day.context import BEGINNINGS, frame, intervals_in
from namesrv_day.events import Frames
from namesrv_day.findings import About, Unsettled, findings
from namesrv_day.registered import Recorded, expired_brokers, registered, unrenewed_beats
from schemas import bronze, gold
from schemas.findings import Thresholds
from schemas.gold import EXPIRED_BROKERS, FINDINGS, ORPHANED_TOPICS, ROUTE_CHANGES
from schemas.sql_files import query
from schemas.table import Table, tables_in
from schemas.tables.state import fact_of
from schemas.times import day_start_seq, day_start_us


class RouteParts(NamedTuple):
    """Parts of routes: intervals by topic, by broker name, and by address; None is a key like any other."""

    of_topic: Mapping[object, list[Interval]]
    of_name: Mapping[object, list[Interval]]
    of_addr: Mapping[object, list[Interval]]

    def rows(self, topic: str | None) -> Iterator[Interval]:
        """Yield the intervals of a topic's route, including those of its groups and their addresses."""
        rows = self.of_topic.get(topic, [])
        yield from rows
        members = [
            m for name in {row.key[1] for row in rows if row.table == "topic_queue"} for m in self.of_name.get(name, ())
        ]
        yield from members
        for addr in {member.value.broker_addr for member in members}:  # type: ignore[attr-defined]  # a Member
            yield from self.of_addr.get(addr, ())


_BY: Final = {
    **dict.fromkeys(("topic_queue", "topic_queue_mapping", REPORTED), (0, 0)),
    "kv_config": (0, 1),
    "broker_addr": (1, 0),
    **dict.fromkeys(("broker_live", "filter_server"), (2, 1)),
}
"""Where an interval belongs in `RouteParts`, by its table: number of the field, and of the part of its key."""


def route_parts(intervals: Iterable[Interval]) -> RouteParts:
    """Return the parts of routes."""
    parts = RouteParts(defaultdict(list), defaultdict(list), defaultdict(list))
    for interval in intervals:
        part, key = _BY[interval.table]
        parts[part][interval.key[key]].append(interval)
    return parts


def open_orphans(orphaned_topics: pa.Table) -> dict[str | None, list[Orphan]]:
    """Return the open rows of `orphaned_topics`, by topic."""
    found = defaultdict(list)
    for row in rows_of(orphaned_topics.filter(pc.field("closed_by").is_null())):
        found[row["topic"]].append(Orphan(row["reason"], row["broker_name"], row["valid_from"], row["opened_by"]))
    return found


_LAST_IN_STEP = 2**31 - 1
_ROWS_AT_A_TIME = 100_000
# The text of all rows of a chunk must stay below 2 GiB.
_ROWS_OF_A_CHUNK = 4_096
_REPORTING = (
    *("broker_name", "broker_id", "seq", "event_id", "effect_time", "data_version", "refusal"),
    *("topic_config_digest", "topic_count"),
)
Strings = Collection[str | None]


def swept_routes(
    today: Frames, news: Frames, recorded: Recorded, orphans: pa.Table, namesrv: Namesrv, day: dt.date
) -> tuple[pa.Table, pa.Table]:
    """Return route_changes and orphaned_topics (when topics could not be served as their route shows) of a server's `day`.

    `today`: as in `FlagInput`; `news`: rows of histories opened or closed on the day; `orphans`: `orphaned_topics` that were
    open at its beginning; `namesrv`: the name server at its beginning, with later changes. The returned rows have no
    `namesrv_id`, and changes that were only learned are not yet marked.
    """
    carried = open_orphans(orphans)
    turns = _turns(today, namesrv)
    moved = {*_moved(today, news), *_served_otherwise(today, namesrv), *carried}
    queues = today[gold.TOPIC_QUEUE_HISTORY.name]
    held = _among(queues, "topic", moved | _unlisted(today, recorded))
    if not held.num_rows:
        return empty(ROUTE_CHANGES), empty(ORPHANED_TOPICS)
    reported = _reported(held, today, recorded)
    unlisted = _values(reported.filter(pc.invert(reported["listed"])), "topic")
    held = _among(held, "topic", moved | unlisted)
    single = {*carried, *unlisted}
    kept, reported = _values(held, "topic"), _among(reported, "topic", single)
    confs, mappings = _order_confs(today[gold.KV_CONFIG_HISTORY.name]), today[gold.TOPIC_QUEUE_MAPPING_HISTORY.name]
    histories = {
        gold.TOPIC_QUEUE_HISTORY.name: held,
        gold.KV_CONFIG_HISTORY.name: _among(confs, "topic", kept),
        gold.TOPIC_QUEUE_MAPPING_HISTORY.name: _among(mappings, "topic", kept),
    }
    for name in (gold.KV_CONFIG_HISTORY.name, gold.TOPIC_QUEUE_MAPPING_HISTORY.name):
        single |= _values(histories[name], "topic")
    classes = alike(held, single)
    found: list[tuple[str | None, RouteHistory]] = []
    members = _among(today[gold.BROKER_ADDR_HISTORY.name], "broker_name", _values(held, "broker_name"))
    addrs, of_addrs = _values(members, "broker_addr"), (gold.BROKER_LIVE_HISTORY.name, gold.FILTER_SERVER_HISTORY.name)
    of_brokers = {name: _among(today[name], "broker_addr", addrs) for name in of_addrs}
    shared = route_parts(intervals_in({gold.BROKER_ADDR_HISTORY.name: members, **of_brokers}))
    for topics in _some_at_a_time(classes):
        of_topics = intervals_in({name: _among(rows, "topic", topics) for name, rows in histories.items()})
        for row in rows_of(_among(reported, "topic", topics)):
            key, at = (row["topic"], row["broker_name"]), Position(row["seq"], _LAST_IN_STEP)
            of_topics.append(_stated(REPORTED, key, row["listed"], row["valid_from"], row["opened_by"], at))
        parts = shared._replace(of_topic=route_parts(of_topics).of_topic)
        for topic in topics:
            start_us, before = day_start_us(day), carried.get(topic, ())
            rows = (*turns, *parts.rows(topic))
            found.append((topic, sweep_route(topic, rows, namesrv, start_us=start_us, open_orphans=before)))
    return (
        _of_all(classes, [(topic, _change_rows(of.changes)) for topic, of in found], ROUTE_CHANGES, day=day),
        _of_all(classes, [(topic, _orphan_rows(of.orphans)) for topic, of in found], ORPHANED_TOPICS),
    )


def news_of(history: pa.Table, day: dt.date) -> pa.Table:
    """Return the rows of a history's slice that were opened or closed on its `day`."""
    opened_today = pc.greater_equal(pc.struct_field(history["opened_at"], "seq"), day_start_seq(day))
    return history.filter(pc.or_(pc.is_valid(history["closed_by"]), opened_today))


def _moved(slices: Frames, new: Frames) -> set[str | None]:
    """Return the topics with a part of their route opened or closed on the day."""
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


def _turns(slices: Frames, namesrv: Namesrv) -> list[Interval]:
    """Return the changes of the name server: a new process or configuration, or the first answer that shows one."""
    pairs = pairwise(namesrv.spans)
    turns = [(seq, now) for (*_, was), (seq, _, now) in pairs if (was.profile, was.config) != (now.profile, now.config)]
    settings, life = slices[gold.NAMESRV_SETTINGS.name], slices[bronze.NAMESRV_EVENTS.name]
    causes = {row["from_seq"]: row["evidence"][0] for row in rows_of(settings) if row["evidence"]}
    causes |= {row["seq"]: row["event_id"] for row in rows_of(life.filter(pc.field("kind").isin(BEGINNINGS)))}
    return [_stated(NAMESRV, (), became, seq // NS_PER_US, causes[seq], Position(seq, -1)) for seq, became in turns]


def _stated(table: str, key: tuple[object, ...], value: object, at_us: int, event_id: str, at: Position) -> Interval:
    """Return an interval, never closed, that is no row of a history."""
    return Interval(table, key, value, at_us, event_id, at, at, None)


def _served_otherwise(slices: Frames, namesrv: Namesrv) -> set[str | None]:
    """Return the topics whose routes a change of configuration affects: those with an order conf, or with acting masters."""
    configs = [one.config for *_, one in namesrv.spans]
    found = set[str | None]()
    if len({config.order_message_enable for config in configs}) > 1:
        found |= _values(_order_confs(slices[gold.KV_CONFIG_HISTORY.name]), "topic")
    if len({config.support_acting_master for config in configs}) > 1:
        groups = slices[gold.BROKER_ADDR_HISTORY.name].filter(pc.field("enable_acting_master"))
        found |= _values(
            _among(slices[gold.TOPIC_QUEUE_HISTORY.name], "broker_name", _values(groups, "broker_name")), "topic"
        )
    return found


def alike(held: pa.Table, single: Strings) -> pa.Table:
    """Return (topic, alike, queue_rows): for each topic the first one whose route has the same history.

    `single` topics are like no other, and so are topics for which no slave is shown as master (`acts_for`).
    """
    topics = pc.unique(held["topic"])
    member_topics = topics.filter(
        pc.fill_null(pc.starts_with(topics, SYNC_BROKER_MEMBER_GROUP_PREFIX), fill_value=False)
    )
    alone = pa.table({"topic": pa.array({*single, *member_topics.to_pylist()} - {None}, pa.string())})
    return ask(query("flags/alike"), {"held": held, "single": alone})


def _some_at_a_time(classes: pa.Table) -> Iterator[list[str | None]]:
    """Yield the topics to sweep in batches, because rows take far more memory as objects than as columns."""
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
    """Return the rows of each topic, copied from the swept topic that it is like."""
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


def _unlisted(today: Frames, recorded: Recorded) -> set[str | None]:
    """Return a superset of the topics that a broker's master omitted from a registration of the day."""
    registered = ask(query("flags/registered"), {"hours": today["hours"]})
    if not registered.num_rows:
        return set()
    configs = recorded.topic_configs(pc.unique(registered["topic_config_digest"]))
    tables = {"registered": registered, "configs": configs, "queues": today[gold.TOPIC_QUEUE_HISTORY.name]}
    return _values(ask(query("flags/unlisted"), tables), "topic")


def _reported(held: pa.Table, today: Frames, recorded: Recorded) -> pa.Table:
    """Return whether topics of `held` are `listed` by registrations of their brokers' masters, by topic and broker name.

    Only accepted registrations count, and only if their topics differ from the one before, or a row opened since. A registration
    with a single topic reports a change of that topic and says nothing about others. The same is true for several registrations
    with one data version, among which a broker may split its topics (5.x).
    """
    of_names = pc.field("broker_name").isin(pc.drop_null(pc.unique(held["broker_name"])))
    registrations = recorded.raw_beats(bronze.REGISTRATIONS.name, columns=_REPORTING, where=of_names)
    configs = recorded.topic_configs(pc.drop_null(pc.unique(registrations["topic_config_digest"])))
    outcomes = today[gold.EVENT_OUTCOMES.name].select(["event_id", "outcome"])
    tables = {"registrations": registrations, "outcomes": outcomes, "held": held, "configs": configs}
    return ask(query("flags/reported"), tables)


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
    """Return the order configurations among KV entries, with their key as `topic`."""
    is_one = (pc.field("namespace") == ORDER_TOPIC_CONFIG) & pc.field("config_key").is_valid()
    confs = kv_configs.filter(is_one)
    return confs.append_column("topic", confs["config_key"])


def _among(rows: pa.Table, column: str, values: Strings) -> pa.Table:
    """Return the rows whose `column` is one of `values`; NULL is a value like any other."""
    if not values:
        return rows.slice(0, 0)
    return rows.filter(pc.is_in(rows[column], pa.array(list(values), rows[column].type)))


def _values(rows: pa.Table, column: str) -> set[str | None]:
    return set(pc.unique(rows[column]).to_pylist())


@dataclass(frozen=True)
class FlagInput:
    """One name server's replayed day.

    `today`: its slices of the histories, `event_outcomes`, `past_knowledge`, `namesrv_settings`, `namesrv_events`, its
    `hours`, and `suspected` (`suspected.SUSPECTED`). `recorded` is read only if something may have changed. `before`:
    `orphaned_topics` and `findings` that were open at the beginning of the day, and `expired_brokers` of days before, as in
    `findings.findings`; a missing table has no rows. `seen_until`: when something was last recorded of it.
    """

    namesrv_id: str
    namesrv: Namesrv
    day: dt.date
    today: Frames
    recorded: Recorded
    before: Frames = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)
    seen_until: dt.datetime | None = None


def flag(given: FlagInput) -> dict[str, pa.Table]:
    """Return the tables of the day made by flags (`gold.made_by`). Only routes that may have changed are swept."""
    today, recorded, outcomes = given.today, given.recorded, given.today[gold.EVENT_OUTCOMES.name]
    news = {table.name: news_of(today[table.name], given.day) for table in gold.HISTORY_TABLES}
    before = frame(given.before, ORPHANED_TOPICS)
    changes, orphans = swept_routes(today, news, recorded, before, given.namesrv, given.day)
    past = _past(today)
    hears, logged = past is None or past.hears, past is not None and bool(past.is_logged)
    doubtful = unsettled(today)
    for since_us, until_us in doubtful:  # without intervals of the day that began and ended in it
        begins, ends = (with_microseconds(orphans)[name] for name in ("valid_from", "valid_to"))
        certain = pc.or_(pc.greater(ends, until_us), pc.less(begins, max(since_us, day_start_us(given.day))))
        orphans = orphans.filter(pc.fill_null(certain, fill_value=True))
    if logged:  # routes have brokers that no log line shows
        orphans, changes = orphans.slice(0, 0), changes.slice(0, 0)
    elif not hears:
        orphans = orphans.filter(pc.not_equal(orphans["reason"], "no_live_broker"))
    # A change is `learned` where an answer only showed an earlier state.
    shown = outcomes.filter(pc.field("operation") == "observed_answer")["event_id"]
    kinds = pc.if_else(pc.is_in(changes["caused_by"], shown), "learned", changes["change"])
    found = {
        ROUTE_CHANGES.name: _of(given.namesrv_id, with_columns(changes, change=kinds), ROUTE_CHANGES),
        ORPHANED_TOPICS.name: _of(given.namesrv_id, orphans, ORPHANED_TOPICS),
        EXPIRED_BROKERS.name: expired_brokers(today),
        **{
            table.name: conformed(ask(table.sql, {name: today[name] for name in tables_in(table.sql)}), table)
            for table in gold.made_by("flags")
            if table.sql is not None
        },
    }
    doubt = _until_start(doubtful[0], outcomes) if doubtful else None
    about = About(given.namesrv_id, given.day, given.thresholds, doubt, hears, logged, given.seen_until)
    unrenewed = unrenewed_beats(found[EXPIRED_BROKERS.name], outcomes, recorded.beats_during)
    tables = {**today, **found, "unrenewed": unrenewed}
    tables |= registered(tables, recorded, given.day, frame(given.before, FINDINGS))
    return {**found, FINDINGS.name: findings(tables, news, given.before, about)}


def _past(today: Frames) -> Past | None:
    """Return the past with its settings and heartbeats only; None: everything was known."""
    past_knowledge = today[gold.PAST_KNOWLEDGE.name]
    facts = past_knowledge.filter(pc.field("what").isin(["setting", "beat"]))
    return Past.load(map(fact_of, rows_of(facts))) if facts.num_rows else None


def unsettled(today: Frames) -> list[Unsettled]:
    """Return the times in which rows may be missing only because they were not known yet; none if everything was known.

    The first one begins when all became unknown for the last time; the others follow the beginning of the recording and each
    gap of the day. Each ends when all existing brokers must have sent something, or at a start of the process, which empties the
    registry. (`past_knowledge` has only the last one.) A gap of one millisecond, which a single event leaves, does not count.
    """
    past = _past(today)
    if past is None:
        return []
    outcomes, life = (with_microseconds(today[name]) for name in (gold.EVENT_OUTCOMES.name, bronze.NAMESRV_EVENTS.name))
    gaps = outcomes.filter(pc.field("operation") == "recording_gap")
    since = life.filter(pc.field("kind") == "observed_from")["event_time"].to_pylist()
    for us, end_ms in zip(*(gaps[name].to_pylist() for name in ("effect_time", "detail")), strict=True):
        since += [int(end_ms) * US_PER_MS] if int(end_ms) > us // US_PER_MS + 1 else []
    last_us, lease_us = past.from_ms * US_PER_MS, past.longest_lease_ms * US_PER_MS
    until_us = min([last_us + lease_us, *([past.complete_ms * US_PER_MS] if past.complete_ms > 0 else [])])
    return [Unsettled(last_us, until_us), *(_until_start(Unsettled(us, us + lease_us), outcomes) for us in since)]


def _until_start(doubt: Unsettled, outcomes: pa.Table) -> Unsettled:
    """Return `doubt`, ended by the first start of the process after its beginning."""
    starts = with_microseconds(outcomes.filter(pc.field("operation") == "namesrv_started"))["effect_time"].to_pylist()
    return doubt._replace(until_us=min([doubt.until_us, *(us for us in starts if us >= doubt.since_us)]))


def _of(namesrv_id: str, rows: pa.Table, table: Table) -> pa.Table:
    named = rows.set_column(0, "namesrv_id", pa.repeat(namesrv_id, rows.num_rows))
    return conformed(named, table)
