"""Decide what of a name server's day must be replayed, and in which pieces.

A unit in which nothing but heartbeats happened, none of them too late, is quiet: its rows can be carried forward as they are. Of
the others the core replays what happened in eventful periods, event by event; each period in between is one run of
heartbeats for each live entry. The core refuses a run that would do more than renew a lease, and the unit is then replayed
event by event: what this module decides costs or saves time, and never changes a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US, US_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, Profile
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, frame
from namesrv_day.day.day_events import Frames, as_events
from namesrv_day.hours import condense
from namesrv_day.hours.condense import LONGEST_LEASE_MS
from namesrv_day.plan.mentions import KEYS
from namesrv_day.plan.placing import ELSEWHERE, KV_UNIT, keys_of, named_by, nodes_of, of_nodes, placed
from schemas import gold
from schemas.sql_files import query
from schemas.table import BOOLEAN, INT, LONG, Table

# An event is under way from its arrival to its effect, and may race with what happens then; no longer, or it is a stall.
_MARGIN_US = 2 * STALL_NS // NS_PER_US
_US_PER_S = 1_000_000
_CARRIED_AT_ONCE = 16
"""So many rows are carried forward in the time in which one is replayed."""


@dataclass(frozen=True)
class Plan:
    """What to replay of a name server's day.

    `nodes`: (node, unit, pack, is_quiet); `eventful`: (unit, period) that are replayed event by event: all periods, and no unit
    is quiet, where units and periods are not told apart. `packs`: each with its weight, about how many rows it replays, the
    heaviest first.
    """

    nodes: pa.Table
    eventful: pa.Table
    packs: list[tuple[int, int]]


def planned(
    events: pa.Table, hours: pa.Table, open_rows: Frames, context: NamesrvDay, packs: int, *, quiet_road: bool = True
) -> Plan:
    """Return the plan of a day, in at most so many packs.

    `events`: the day's that are no beats (`day_events`); `hours`: its beats; `open_rows`: what was open when it began, as far as
    `mentions.KEYS` goes. `quiet_road`: whether to tell units and periods apart.
    """
    nodes = nodes_of(events, hours, open_rows, context.namesrv, whole=context.has_unknown_past)
    on_road = quiet_road and may_be_quiet(context, hours)
    deletes = pc.equal(events["code"], RequestCode.DELETE_TOPIC_IN_NAMESRV)
    deletes = pc.and_(pc.fill_null(deletes, False), pc.is_valid(events["topic"]))
    deletions, topics = events.filter(deletes), _keys(open_rows, gold.TOPIC_QUEUE_HISTORY)
    deleted = topics.filter(pc.is_in(topics["topic"], value_set=deletions["topic"]))
    given = {
        "hours": of_nodes(hours, "broker_addr", nodes),
        "live": of_nodes(_keys(open_rows, gold.BROKER_LIVE_HISTORY), "broker_addr", nodes),
        "others": placed(events.filter(pc.invert(deletes)), nodes),
        "deletions": deletions,
        "deleted": of_nodes(deleted, "broker_name", nodes),
    }
    eventful = (_eventful if on_road else _whole_day)(given, context)
    loud = {KV_UNIT, ELSEWHERE, *(eventful if on_road else nodes)["unit"].to_pylist()}
    pack_of, loads = _packed(_weights(given | {"nodes": nodes, "topics": topics}, eventful, loud), packs)
    units = nodes["unit"].to_pylist()
    nodes = nodes.append_column("pack", pa.array([pack_of[unit] for unit in units], INT))
    nodes = nodes.append_column("is_quiet", pa.array([unit not in loud for unit in units], BOOLEAN))
    return Plan(nodes, eventful, loads)


def may_be_quiet(context: NamesrvDay, hours: pa.Table) -> bool:
    """Return whether a name server's quiet brokers need no replay.

    Not with an unknown past (an answer may show anything), with another configuration in mid-day, without scans, with
    deleteTopicWithBrokerRegistration (an unchanged registration may delete topics), or where the name server stood still
    for a while: what was under way then may have raced with anything.
    """
    return not (
        context.has_unknown_past
        or context.scan_halted
        or context.namesrv.later
        or context.namesrv.deletes_unlisted_topics
        or (pc.max(hours["lag_ns"]).as_py() or 0) >= STALL_NS
    )


def _keys(open_rows: Frames, table: Table) -> pa.Table:
    return frame(open_rows, table).select(KEYS[table])


def _eventful(given: Frames, context: NamesrvDay) -> pa.Table:
    profile = context.namesrv.profile
    return ask(
        query("plan/eventful"),
        given,
        period_us=condense.PERIOD_US,
        margin_us=_MARGIN_US,
        expiry_us=2 * context.namesrv.scan_period_ms * US_PER_MS + _US_PER_S,
        until_ms=context.until_seq // NS_PER_MS,
        default_ms=BROKER_CHANNEL_EXPIRED_MS,
        longest_ms=LONGEST_LEASE_MS,
        own_lease=profile.own_heartbeat_timeout,
        with_cluster=profile.live_key_has_cluster,
    )


def _whole_day(given: Frames, context: NamesrvDay) -> pa.Table:
    """Return all periods of units with beats, and one before: a race may move a beat to where there was none."""
    first, last = (seq // NS_PER_US // condense.PERIOD_US for seq in (context.from_seq, context.until_seq))
    query = "SELECT unit, unnest(generate_series($first, $last)) AS period FROM (SELECT DISTINCT unit FROM hours)"
    return ask(query, given, first=first - 1, last=last)


def _weights(given: Frames, eventful: pa.Table, loud: Collection[str]) -> Counter[str]:
    """Return about how many rows are replayed of each unit, those that are carried forward at their price."""
    weights = Counter(given["nodes"]["unit"].to_pylist() + given["others"]["unit"].to_pylist())
    raw = given["hours"].filter(_is_eventful(given["hours"], "first_us", eventful))
    for unit, beats in _columns(raw, "unit", "beats"):
        weights[unit] += beats
    topics = given["topics"].group_by("broker_name").aggregate([("topic", "count")])
    for unit, count in _columns(of_nodes(topics, "broker_name", given["nodes"]), "unit", "topic_count"):
        weights[unit] += count if unit in loud else count // _CARRIED_AT_ONCE
    return weights


def _columns(rows: pa.Table, *names: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _packed(weights: Mapping[str, int], count: int) -> tuple[dict[str, int], list[tuple[int, int]]]:
    """Return the pack of each unit, and (pack, weight) of at most so many packs, the heaviest first.

    Units of one pack are neighbours by name: tomorrow's pack finds what it starts from in few of today's files, which are
    written a file a pack. None is heavier than its share by more than a unit.
    """
    share, before = max(1, sum(weights.values())) / count, 0
    loads, pack_of = Counter[int](), {}
    for unit, weight in sorted(weights.items()):
        pack_of[unit] = int((before + weight / 2) / share)
        loads[pack_of[unit]] += weight
        before += weight
    return pack_of, sorted(((pack, load) for pack, load in loads.items() if load), key=lambda pack: (-pack[1], pack[0]))


# -- what a pack does with its part of the plan ------------------------------------------------------------------------


def raw_filter(nodes: pa.Table, eventful: pa.Table) -> pa.Table:
    """Return (broker_addr, period) of the beats that a reader must give one by one; NULL: of beats without an address."""
    addrs = named_by(nodes, "broker_addr")
    of_units = addrs.append_column("broker_addr", keys_of(addrs)).select(["unit", "broker_addr"])
    return of_units.join(eventful, "unit", join_type="inner", use_threads=False).select(["broker_addr", "period"])


def raw_beats(beats: pa.Table, nodes: pa.Table, eventful: pa.Table) -> pa.Table:
    """Return those single beats (`day_events`) of nodes that are replayed one by one, with their `unit`."""
    found = of_nodes(beats, "broker_addr", nodes)
    return found.filter(_is_eventful(found, "effect_us", eventful))


def uneventful(hours: pa.Table, nodes: pa.Table, eventful: pa.Table) -> pa.Table:
    """Return the hours of nodes, with their `unit`, that are not replayed one by one."""
    found = of_nodes(hours, "broker_addr", nodes)
    return found.filter(pc.invert(_is_eventful(found, "first_us", eventful)))


def runs(hours: pa.Table, profile: Profile) -> pa.Table:
    """Return hours that are not replayed one by one as events (`EVENTS`) with their `unit`, and `is_run`, which is true.

    `hours`: all `uneventful` ones of some units. A run stands for equal beats in one bucket, and begins where the first of them
    was. All beats of a live entry in one bucket renew its lease as of the last of them, whatever they say.
    """
    found = ask(query("plan/runs"), {"hours": hours}, with_cluster=profile.live_key_has_cluster)
    is_run = pa.repeat(True, found.num_rows)
    return as_events(found).append_column("unit", found["unit"]).append_column("is_run", is_run)


def _is_eventful(rows: pa.Table, at_us: str, eventful: pa.Table) -> pa.ChunkedArray:
    """Return whether rows with a `unit` lie, by their column `at_us`, in one of the eventful periods."""
    units = pc.unique(eventful["unit"])

    def numbered(unit: pa.ChunkedArray, period: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.add(pc.multiply(pc.index_in(unit, value_set=units).cast(LONG), 1 << 32), period)

    periods = pc.divide(rows[at_us], condense.PERIOD_US)
    return pc.is_in(numbered(rows["unit"], periods), value_set=numbered(eventful["unit"], eventful["period"]))
