"""Snapshot files: what is written is read back, and what is no snapshot is refused by name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from namesrv_core import Namesrv, Outcome, Registry, take
from namesrv_core.history.snapshot import SnapshotError, snapshot_of, snapshot_text, state_of
from namesrv_core.machine import events
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.rows import (
    UNRECORDED,
    BrokerLiveInfo,
    DataVersion,
    LiveKey,
    QueueData,
    TopicConfig,
    TopicQueueMappingInfo,
    TopicTable,
)

A, CHANNEL = "10.0.0.1:10911", "10.0.0.1:40000#1"
AT_US = 1_700_000_000_000_000
LIVE = {"heartbeatTimeoutMillis": 120_000, "lastUpdateTimestamp": 1_700_000_000_000, "dataVersion": None}


def filled(profile: Profile) -> Registry:
    """Return a registry with a row in every table."""
    registry, namesrv = Registry(profile), Namesrv(profile)
    mappings = [TopicQueueMappingInfo("S", "a", 8, 1, dirty=False)] if profile is V5_4_0 else []
    table = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)], mappings)
    for event in (
        events.RegisterBroker(
            "C", A, "a", 0, "10.0.0.1:10912", DataVersion(0, 7, None), table, ("f:1",), CHANNEL, True
        ),
        events.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "a:4"),
        events.PutKvConfig("empty", "K", "v"),
        events.DeleteKvConfig("empty", "K"),
    ):
        take(registry, event, AT_US // 1_000 - 30_000, namesrv)
    return registry


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0])
def test_a_snapshot_restores_the_state(profile: Profile) -> None:
    """Whatever was believed before, the state afterwards is the one written, leases included."""
    written = filled(profile)
    snapshot = snapshot_of(snapshot_text(written, "10.0.0.9:9876", AT_US))
    assert (snapshot.namesrv_id, snapshot.profile, snapshot.at_us) == ("10.0.0.9:9876", profile, AT_US)
    registry, namesrv = Registry(profile), Namesrv(profile)
    registry.past = Past(0)
    table = TopicTable([TopicConfig("X", 1, 1, 6, 0), TopicConfig("Y", 1, 1, 6, 0)])
    take(registry, events.RegisterBroker("D", "other:1", "b", 0, None, None, table, (), "x"), 1_000, namesrv)
    assert take(registry, snapshot.event, AT_US // 1_000, namesrv).outcome == Outcome.RESTORED
    assert state_of(registry) == state_of(written)
    assert registry.next_lease_end() == AT_US // 1_000 + 90_000
    assert registry.past.knows("topic_queue", "X", "b")


def test_a_live_entry_may_have_no_version() -> None:
    """A broker that registered without a data version is read back without one, with its lease."""
    document = json.loads(snapshot_text(filled(V5_4_0), "ns", AT_US))
    document["state"]["brokerLiveTable"] = {"C|10.0.0.1:10911": LIVE}
    event = snapshot_of(json.dumps(document)).event
    lives = [change.value for change in event.changes if change.table == "broker_live_table"]
    assert lives == [BrokerLiveInfo(None, 120_000, UNRECORDED, None)]
    assert event.beats == ((LiveKey("C", A), 1_700_000_000_000),)


def test_a_connection_of_the_snapshot_ends_under_another_id() -> None:
    """The recording first saw the connection later than the snapshot did; its end takes the broker down all the same."""
    registry, namesrv = Registry(V4_9_7), Namesrv(V4_9_7)
    registry.past = Past(0)
    take(registry, snapshot_of(snapshot_text(filled(V4_9_7), "ns", AT_US)).event, AT_US // 1_000, namesrv)
    remote = CHANNEL.partition("#")[0]
    step = take(registry, events.ChannelDestroyed(f"{remote}#99", remote), AT_US // 1_000 + 5, namesrv)
    assert step.outcome == Outcome.CHANNEL_LOST
    assert LiveKey(None, A) not in registry.broker_live_table


def test_a_snapshot_counts_only_where_something_is_unknown() -> None:
    """It never replaces a recorded state, and one of another generation is refused."""
    event = snapshot_of(snapshot_text(filled(V4_9_7), "ns", AT_US)).event
    recorded = filled(V4_9_7)
    assert take(recorded, event, AT_US // 1_000, Namesrv(V4_9_7)).outcome == Outcome.NO_EFFECT
    other = Registry(V5_4_0)
    other.past = Past(0)
    assert take(other, event, AT_US // 1_000, Namesrv(V5_4_0)).outcome == Outcome.REFUSED_REQUEST
    assert not other.broker_addr_table


def test_without_kv_the_kv_table_stays_unknown() -> None:
    """A state whose KV table was not known leaves it out, and nothing is claimed of it."""
    snapshot = snapshot_of(snapshot_text(filled(V4_9_7), "ns", AT_US, with_kv=False))
    registry = Registry(V4_9_7)
    registry.past = Past(0)
    take(registry, snapshot.event, AT_US // 1_000, Namesrv(V4_9_7))
    assert not registry.kv_config_table
    assert not registry.past.knows_kv()
    assert registry.queue_data("T", "a") == QueueData(4, 4, 6, 0)


@pytest.mark.parametrize(
    "text", ["", "[]", "nonsense", "{}", "[" * 100_000, '{"format":"namesrv-snapshot/2"}', '{"format":NaN}']
)
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    """Other files, other versions, and texts made to break a parser end in one kind of error."""
    with pytest.raises(SnapshotError):
        snapshot_of(text)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("profile", "3.2.6", "snapshot.profile"),
        ("time", "yesterday", "snapshot.time"),
        ("time", "2026-11-21T09:00:00", "snapshot.time"),
        ("namesrv_id", 9, "snapshot.namesrv_id"),
        ("state", [], "snapshot.state"),
        ("state.topicQueueTable.T.a.perm", "6", "snapshot.state.topicQueueTable.T.a.perm"),
        ("state.topicQueueTable.T.a.perm", True, "snapshot.state.topicQueueTable.T.a.perm"),
        ("state.topicQueueTable.T.a.perm", 1 << 63, "snapshot.state.topicQueueTable.T.a.perm"),
        ("state.brokerAddrTable.a.brokerAddrs", {"-1": A}, "snapshot.state.brokerAddrTable.a.brokerAddrs"),
        ("state.brokerAddrTable.a.brokerAddrs", {"9" * 5_000: A}, "snapshot.state.brokerAddrTable.a.brokerAddrs"),
        ("state.brokerLiveTable", {"no cluster": LIVE}, "live key 'no cluster', expected cluster|address"),
        ("state.brokerAddrTable.a.enableActingMaster", 1, "snapshot.state.brokerAddrTable.a.enableActingMaster"),
        ("state.clusterAddrTable.C", {}, "snapshot.state.clusterAddrTable.C"),
        ("state.filterServerTable", {f"C|{A}": [1]}, "[0]"),
        ("state.kvConfig.ORDER_TOPIC_CONFIG.T", 4, "snapshot.state.kvConfig.ORDER_TOPIC_CONFIG.T"),
    ],
)
def test_a_wrong_value_is_named(path: str, value: Any, where: str) -> None:
    """The error says where in the file the value stands that cannot be."""
    document = json.loads(snapshot_text(filled(V5_4_0), "ns", AT_US))
    broken = copy.deepcopy(document)
    *outer, last = path.split(".")
    node = broken
    for name in outer:
        node = node[name]
    node[last] = value
    with pytest.raises(SnapshotError) as raised:
        snapshot_of(json.dumps(broken))
    assert where in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["{oops", "[]", '{"a":0}', '{"0":"1"}', '{"0":9999999999}', '{"9999999999":0}', "[" * 100_000],
    ids=["no JSON", "a list", "a name", "a text", "beyond an int", "a key beyond an int", "nested"],
)
def test_a_queue_map_that_nobody_can_read_is_refused(text: str) -> None:
    """The replay would ask for it later: the snapshot is wrong where it says it."""
    value = json.loads(snapshot_text(filled(V5_4_0), "10.0.0.9:9876", AT_US))
    mapping = value["state"]["topicQueueMappingInfoTable"]["S"]["a"]
    mapping["currIdMap"] = text
    with pytest.raises(SnapshotError, match="currIdMap"):
        snapshot_of(json.dumps(value))
    mapping["currIdMap"] = '{"0":1}'
    assert snapshot_of(json.dumps(value)).profile == V5_4_0
