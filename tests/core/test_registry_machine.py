"""A name server under adversarial events: what must hold after every step, whatever came before."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from namesrv_core import Namesrv, Outcome, Registry, step
from namesrv_core.history.intervals import Histories, Interval, timeline_of
from namesrv_core.machine import events
from namesrv_core.machine.rows import MASTER_ID, BrokerData, TopicConfig, TopicTable
from namesrv_core.replay.loop import take
from tests.core.adversary import (
    CHANNEL_ENDS,
    EVENTS,
    NAMESRVS,
    OTHERS,
    PAUSES_MS,
    REGISTRATIONS,
    UNREGISTRATIONS,
    understood_by,
    weighted,
)
from tools.trace.state import state_of

START_MS = 1_700_000_000_000


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


class NamesrvMachine(RuleBasedStateMachine):
    """One name server, its histories, and a second registry that is rebuilt from the intervals alone."""

    def __init__(self) -> None:
        super().__init__()
        self.namesrv = Namesrv()
        self.registry = Registry(self.namesrv.profile)
        self.histories = Histories()
        self.closed: list[Interval] = []
        self.at_ms = START_MS
        self.seq = 0

    @initialize(namesrv=NAMESRVS)
    def start(self, namesrv: Namesrv) -> None:
        """Either generation, 5.4.0 with its switches."""
        self.namesrv = namesrv
        self.registry = Registry(namesrv.profile)

    @rule(event=st.one_of(REGISTRATIONS, REGISTRATIONS, UNREGISTRATIONS), pause=PAUSES_MS)
    def broker_speaks(self, event: events.Event, pause: int) -> None:
        """Registrations and unregistrations, the most of what happens."""
        self.happen(event, pause)

    @rule(event=weighted([(2, CHANNEL_ENDS), (6, OTHERS), (2, EVENTS)]), pause=PAUSES_MS)
    def something_happens(self, event: events.Event, pause: int) -> None:
        """Everything else, restarts included."""
        self.happen(event, pause)

    @rule(defer=st.booleans(), pause=PAUSES_MS)
    def scan_runs(self, *, defer: bool, pause: int) -> None:
        """Meets what has expired, and nothing else, in the order of the live table."""
        at_ms, registry = self.at_ms + pause, self.registry
        expired = {
            key: live.channel_id
            for key, live in registry.broker_live_table.java_items()
            if registry.last_update_ms[key] + live.lease_ms < at_ms
        }
        channels = tuple(channel for channel in expired.values() if channel is not None)
        halted, batches = registry.scan_halted, self.namesrv.profile.batches_unregistrations
        taken = self.happen(events.ScanNotActiveBroker(defer and batches), pause)
        if halted:
            assert taken.outcome == Outcome.SCAN_HALTED
            assert not taken.changes
        elif taken.exception is not None:
            assert registry.scan_halted
            assert taken.closed == channels[: len(taken.closed)]
        else:
            assert taken.closed == channels
            if not batches:
                assert taken.result == len(expired)
                assert not expired.keys() & registry.broker_live_table.keys()

    @rule(event=st.one_of(UNREGISTRATIONS, CHANNEL_ENDS))
    def unregistration_waits(self, event: Any) -> None:
        """5.4.0: queued, and applied with a later batch."""
        if self.namesrv.profile.batches_unregistrations:
            self.happen(event._replace(defer=True), 0)

    @rule()
    def batch_is_applied(self) -> None:
        """5.4.0: the queue is empty afterwards."""
        if self.namesrv.profile.batches_unregistrations:
            taken = self.happen(events.DrainUnregistrations(), 0)
            assert self.registry.pending_unregister == ()
            assert taken.batch is not None

    def happen(self, event: events.Event, pause: int) -> Any:
        """Take an event; `step` alone must change nothing, and say the same twice."""
        if not understood_by(self.namesrv, event):
            return None
        self.at_ms += pause
        self.seq += 1
        before = snapshot(self.registry)
        mappings = {
            (topic, bname) for topic, rows in self.registry.topic_queue_mapping_info_table.items() for bname in rows
        }
        namespaces = set(self.registry.kv_config_table)
        decided = step(self.registry, event, self.at_ms, self.namesrv)
        assert snapshot(self.registry) == before, "step() changed the registry"
        taken = take(self.registry, event, self.at_ms, self.namesrv)
        assert taken == decided
        if type(event) not in {events.NamesrvStarted, events.NamesrvStopped}:
            for topic, bname in mappings:
                assert bname in self.registry.topic_queue_mapping_info_table[topic], "a mapping was forgotten"
        assert namespaces <= self.registry.kv_config_table.keys(), "a KV namespace was forgotten"
        if not taken.changes and taken.refreshed is None and not isinstance(event, events.NamesrvStarted):
            assert snapshot(self.registry) == before, "something changed without a change"
        at_us = self.at_ms * 1_000
        self.closed += self.histories.record(taken.changes, seq=self.seq, event_id=f"e{self.seq}", at_us=at_us)
        if taken.refreshed is not None:
            self.histories.refreshed(taken.refreshed, self.at_ms)
        return taken

    @invariant()
    def tables_hold_together(self) -> None:
        """What is always true of the tables of both generations."""
        registry = self.registry
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
        assert registry.broker_live_table.keys() == registry.last_update_ms.keys()
        assert all(registry.filter_server_table.values()), "an empty list of filter servers"

    @invariant()
    def generations_differ_as_they_should(self) -> None:
        """4.x: a group has an address, a live key no cluster, and what 5.x brought is not there."""
        registry = self.registry
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

    @invariant()
    def indexes_follow_from_the_tables(self) -> None:
        """An index is never ahead of or behind its table, and what was found in it once is not remembered for too long."""
        assert indexes(self.registry) == recomputed(self.registry)
        for name in self.registry.broker_addr_table:
            held = self.registry.topic_queue_table.topics_of_name(name).keys()
            assert all(
                self.registry.topic_queue_table.has_topics(name, some) == (held >= some.names) for some in SOME_TOPICS
            )

    @invariant()
    def every_lease_is_watched(self) -> None:
        """A live entry is watched from some time before its lease's end, or known to have ended; nothing else is."""
        registry = self.registry
        ends = {key: registry.last_update_ms[key] + live.lease_ms for key, live in registry.broker_live_table.items()}
        watched, ended = registry.broker_live_table._deadline_of, registry.broker_live_table._ended
        assert watched.keys() | ended.keys() == ends.keys()
        assert not watched.keys() & ended.keys()
        assert all(end <= ends[key] for key, end in watched.items())
        assert {(end, key) for key, end in watched.items()} <= {
            (end, key) for end, _, key in registry.broker_live_table._deadlines
        }
        assert all(ends[key] < self.at_ms for key in ended)
        assert registry.broker_live_table.has_ended_leases == bool(ended)
        next_end = registry.next_lease_end()
        assert next_end == min((ends[key] for key in watched), default=None)
        assert next_end == min(watched.values(), default=None)

    @invariant()
    def intervals_give_the_registry_back(self) -> None:
        """A registry that takes the changes between the intervals' ends stands where the real one stands."""
        intervals = [*self.closed, *self.histories.open_intervals()]
        again = Registry(self.namesrv.profile)
        for change in timeline_of(intervals, 0, {}):
            again.apply(change.changes, 0)
        assert without_leases(again) == without_leases(self.registry)
        assert list(again.broker_addr_table.java_items()) == list(self.registry.broker_addr_table.java_items())
        for table in ("topic_queue_table", "cluster_addr_table", "kv_config_table"):
            rebuilt, real = getattr(again, table), getattr(self.registry, table)
            assert [(k, v.java_keys()) for k, v in rebuilt.java_items()] == [
                (k, v.java_keys()) for k, v in real.java_items()
            ]

    @invariant()
    def open_intervals_are_the_tables(self) -> None:
        """Each row is open once, no interval ends before it begins, live rows know their refresh."""
        keys = [(interval.table, interval.key) for interval in self.histories.open_intervals()]
        assert len(keys) == len(set(keys))
        for interval in self.closed:
            assert interval.valid_to_us is not None
            assert interval.valid_from_us <= interval.valid_to_us
            assert interval.closed_at is not None
            assert interval.opened_at < interval.closed_at
        for interval in self.histories.open_intervals():
            if interval.table == "broker_live":
                assert interval.last_update_ms == self.registry.last_update_ms[interval.key]  # type: ignore[index]

    @invariant()
    def masters_are_known_by_id(self) -> None:
        """`addr_of` and the members agree, also for ids that share a bucket with the master."""
        for group in self.registry.broker_addr_table.values():
            assert isinstance(group, BrokerData)
            assert sorted(group.java_addrs()) == sorted(group.broker_addrs)
            if MASTER_ID in group.addr_of:
                assert group.addr_of[MASTER_ID] in dict(group.java_addrs()).values()


def without_leases(registry: Registry) -> dict[str, Any]:
    """The state without what intervals do not say: update times and queued unregistrations."""
    state = state_of(registry)
    state.pop("pendingUnregister", None)
    for live in state["brokerLiveTable"].values():
        live["lastUpdateTimestamp"] = 0
    return state


TestNamesrvMachine = NamesrvMachine.TestCase
TestNamesrvMachine.settings = settings(stateful_step_count=30)
TestNamesrvMachine.__doc__ = (
    "Any sequence of requests, lost channels, scans and restarts keeps every invariant of NamesrvMachine."
)
