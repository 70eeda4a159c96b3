"""A name server under adversarial events: what must hold after every step, whatever came before."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from namesrv_core import Namesrv, Outcome, Registry, Step, step
from namesrv_core.history.intervals import Histories, Interval, timeline_of
from namesrv_core.machine import events
from namesrv_core.machine.tables import MASTER_ID, LiveKey, TopicConfig, TopicTable
from namesrv_core.replay.loop import take
from tests.core.adversary import NAMESRVS, Timed, adversarial_logs
from tools.trace.state import state_of


def nested(table: Any) -> list[Any]:
    return [(key, list(inner.items()), inner.capacity) for key, inner in table.items()]


SOME_TOPICS = [TopicTable(TopicConfig(topic, 4, 4, 6, 0) for topic in topics) for topics in ((), ("T0",), ("T0", "T1"))]


def snapshot(registry: Registry) -> dict[str, Any]:
    """Copy everything that a registry holds, orders, capacities and indexes included.

    Lazily dropped deadlines aside.
    """
    return {
        "topics": (nested(registry.topic_queue_table), registry.topic_queue_table.capacity),
        "groups": (list(registry.broker_addr_table.items()), registry.broker_addr_table.capacity),
        "clusters": (nested(registry.cluster_addr_table), registry.cluster_addr_table.capacity),
        "live": (list(registry.broker_live_table.items()), registry.broker_live_table.capacity),
        "filters": (list(registry.filter_server_table.items()), registry.filter_server_table.capacity),
        "kv": nested(registry.kv_config_table),
        "mappings": nested(registry.topic_queue_mapping_info_table),
        "pending": registry.pending_unregister,
        "halted": registry.scan_halted,
        "updates": dict(registry.last_update_ms),
        "indexes": indexes(registry),
    }


def indexes(registry: Registry) -> list[dict[Any, set[Any]]]:
    """The registry's own indexes, as sets."""
    return [
        {key: set(members) for key, members in index.items()}
        for index in (
            registry.broker_addr_table._names_of_addr, registry.broker_live_table._keys_of_channel,
            registry.topic_queue_table._topics_of_name, registry.cluster_addr_table._clusters_of_name,
        )
    ]  # fmt: skip


def recomputed(registry: Registry) -> list[dict[Any, set[Any]]]:
    """The same from the tables alone."""
    names: dict[Any, set[Any]] = {}
    channels: dict[Any, set[Any]] = {}
    topics: dict[Any, set[Any]] = {}
    clusters: dict[Any, set[Any]] = {}
    for name, group in registry.broker_addr_table.items():
        for _, addr in group.broker_addrs:
            names.setdefault(addr, set()).add(name)
    for key, live in registry.broker_live_table.items():
        if live.channel_id is not None:
            channels.setdefault(live.channel_id, set()).add(key)
    for topic, queue_datas in registry.topic_queue_table.items():
        for name in queue_datas:
            topics.setdefault(name, set()).add(topic)
    for cluster, members in registry.cluster_addr_table.items():
        for name in members:
            clusters.setdefault(name, set()).add(cluster)
    return [names, channels, topics, clusters]


@given(adversarial_logs(NAMESRVS, size=40))
def test_every_event_keeps_what_always_holds(made: tuple[list[Timed], Namesrv]) -> None:
    """Any sequence of requests, lost channels, scans and restarts: of the tables, their indexes, leases and histories."""
    log, namesrv = made
    registry, histories, closed = Registry(namesrv.profile), Histories(), list[Interval]()
    for seq, (event, at_ms) in enumerate(log):
        taken = taken_by(registry, event, at_ms, namesrv)
        closed += histories.record(taken.changes, seq=seq, event_id=f"e{seq}", at_us=at_ms * 1_000)
        if taken.refreshed is not None:
            histories.refreshed(taken.refreshed, at_ms)
        require_tables(registry)
        require_generation(registry)
        require_indexes(registry)
        require_leases(registry, at_ms)
        require_intervals(registry, histories, closed)


def taken_by(registry: Registry, event: events.Event, at_ms: int, namesrv: Namesrv) -> Step:
    """Take an event; `step` alone must change nothing, and say the same."""
    before, halted, expired = snapshot(registry), registry.scan_halted, expired_at(registry, at_ms)
    mappings = {(topic, name) for topic, rows in registry.topic_queue_mapping_info_table.items() for name in rows}
    namespaces = set(registry.kv_config_table)
    decided = step(registry, event, at_ms, namesrv)
    assert snapshot(registry) == before, "step() changed the registry"
    taken = take(registry, event, at_ms, namesrv)
    assert taken == decided
    if type(event) not in {events.NamesrvStarted, events.NamesrvStopped}:
        for topic, name in mappings:
            assert name in registry.topic_queue_mapping_info_table[topic], "a mapping was forgotten"
    assert namespaces <= registry.kv_config_table.keys(), "a KV namespace was forgotten"
    if not taken.changes and taken.refreshed is None and not isinstance(event, events.NamesrvStarted):
        assert snapshot(registry) == before, "something changed without a change"
    if isinstance(event, events.ScanNotActiveBroker):
        require_scan(registry, taken, expired, halted=halted)
    if isinstance(event, events.DrainUnregistrations):
        assert registry.pending_unregister == ()
        assert taken.batch is not None
    return taken


def expired_at(registry: Registry, at_ms: int) -> dict[LiveKey, str | None]:
    """Return the channels of live entries whose leases have ended, in the order of the live table."""
    lives = registry.broker_live_table.java_items()
    return {key: live.channel_id for key, live in lives if registry.last_update_ms[key] + live.lease_ms < at_ms}


def require_scan(registry: Registry, taken: Step, expired: dict[LiveKey, str | None], *, halted: bool) -> None:
    """A scan meets what has expired, and nothing else, in the order of the live table."""
    channels = tuple(channel for channel in expired.values() if channel is not None)
    if halted:
        assert taken.outcome == Outcome.SCAN_HALTED
        assert not taken.changes
    elif taken.exception is not None:
        assert registry.scan_halted
        assert taken.closed == channels[: len(taken.closed)]
    else:
        assert taken.closed == channels
        if not registry.profile.batches_unregistrations:
            assert taken.result == len(expired)
            assert not expired.keys() & registry.broker_live_table.keys()


def require_tables(registry: Registry) -> None:
    """What is always true of the tables of both generations; `addr_of` is the members, also where ids share a bucket."""
    assert all(registry.cluster_addr_table.values()), "an empty cluster set"
    assert all(registry.topic_queue_table.values()), "a topic without queue data"
    names = {name for queue_datas in registry.topic_queue_table.values() for name in queue_datas}
    assert names <= registry.broker_addr_table.keys(), "queue data of a name without group"
    in_sets = {name for members in registry.cluster_addr_table.values() for name in members}
    assert registry.broker_addr_table.keys() <= in_sets, "a group whose name is in no cluster set"
    for group in registry.broker_addr_table.values():
        addrs = [addr for _, addr in group.broker_addrs]
        assert len(addrs) == len(set(addrs)), "an address has two ids in one group"
        assert len(group.addr_of) == len(addrs), "an id has two addresses"
        assert sorted(group.java_addrs()) == sorted(group.broker_addrs)
        if MASTER_ID in group.addr_of:
            assert group.addr_of[MASTER_ID] in dict(group.java_addrs()).values()
    assert registry.broker_live_table.keys() == registry.last_update_ms.keys()
    assert all(registry.filter_server_table.values()), "an empty list of filter servers"


def require_generation(registry: Registry) -> None:
    """4.x: a group has an address, a live key no cluster, and what 5.x brought is not there."""
    if registry.profile.live_key_has_cluster:
        assert all(key.cluster_name is not None for key in registry.broker_live_table)
        assert not registry.scan_halted
        return
    assert all(group.broker_addrs for group in registry.broker_addr_table.values()), "a group without address"
    assert all(key.cluster_name is None for key in registry.broker_live_table)
    assert not registry.topic_queue_mapping_info_table
    assert not registry.pending_unregister
    assert not any(group.enable_acting_master or group.zone_name for group in registry.broker_addr_table.values())
    assert {live.lease_ms for live in registry.broker_live_table.values()} <= {120_000}


def require_indexes(registry: Registry) -> None:
    """An index is never ahead of or behind its table, and what was found in it once is not remembered for too long."""
    assert indexes(registry) == recomputed(registry)
    for name in registry.broker_addr_table:
        held = registry.topic_queue_table.topics_of_name(name).keys()
        assert all(registry.topic_queue_table.has_topics(name, some) == (held >= some.names) for some in SOME_TOPICS)


def require_leases(registry: Registry, at_ms: int) -> None:
    """A live entry is watched from some time before its lease's end, or known to have ended; nothing else is."""
    ends = {key: registry.last_update_ms[key] + live.lease_ms for key, live in registry.broker_live_table.items()}
    watched, ended = registry.broker_live_table._deadline_of, registry.broker_live_table._ended
    assert watched.keys() | ended.keys() == ends.keys()
    assert not watched.keys() & ended.keys()
    assert all(end <= ends[key] for key, end in watched.items())
    assert {(end, key) for key, end in watched.items()} <= {
        (end, key) for end, _, key in registry.broker_live_table._deadlines
    }
    assert all(ends[key] < at_ms for key in ended)
    assert registry.broker_live_table.has_ended_leases == bool(ended)
    next_end = registry.next_lease_end()
    assert next_end == min((ends[key] for key in watched), default=None)
    assert next_end == min(watched.values(), default=None)


def require_intervals(registry: Registry, histories: Histories, closed: list[Interval]) -> None:
    """A registry that takes the changes between the intervals' ends stands where this one stands, in the same orders.

    Each row is open once, no interval ends before it begins, live rows know their refresh.
    """
    again = Registry(registry.profile)
    for change in timeline_of([*closed, *histories.open_intervals()], 0, {}):
        again.apply(change.changes, 0)
    assert without_leases(again) == without_leases(registry)
    assert list(again.broker_addr_table.java_items()) == list(registry.broker_addr_table.java_items())
    for table in ("topic_queue_table", "cluster_addr_table", "kv_config_table"):
        rebuilt, real = getattr(again, table), getattr(registry, table)
        assert [(k, v.java_keys()) for k, v in rebuilt.java_items()] == [
            (k, v.java_keys()) for k, v in real.java_items()
        ]
    keys = [(interval.table, interval.key) for interval in histories.open_intervals()]
    assert len(keys) == len(set(keys))
    for interval in closed:
        assert interval.valid_to_us is not None
        assert interval.valid_from_us <= interval.valid_to_us
        assert interval.closed_at is not None
        assert interval.opened_at < interval.closed_at
    for interval in histories.open_intervals():
        if interval.table == "broker_live":
            assert interval.last_update_ms == registry.last_update_ms[interval.key]  # type: ignore[index]


def without_leases(registry: Registry) -> dict[str, Any]:
    """The state without what intervals do not say: update times and queued unregistrations."""
    state = state_of(registry)
    state.pop("pendingUnregister", None)
    for live in state["brokerLiveTable"].values():
        live["lastUpdateTimestamp"] = 0
    return state
