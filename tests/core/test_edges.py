"""Edges of single transitions: null names, unknown tables, and what happens while something waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Outcome, Registry, take
from namesrv_core.history.intervals import Interval, Member, Position
from namesrv_core.history.route_history import sweep_route
from namesrv_core.machine import events
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.registry import Change, Draft
from namesrv_core.machine.step import RegisterResult, min_broker_id_notifications
from namesrv_core.machine.tables import (
    UNRECORDED,
    BrokerData,
    DataVersion,
    KvValue,
    LiveKey,
    QueueData,
    TopicConfig,
    TopicQueueMappingInfo,
    TopicTable,
    live_key_hash,
    queue_ids_of,
)
from tools.trace.state import state_of

FOUR, FIVE = Namesrv(V4_9_7), Namesrv(V5_4_0)


def topics_of(names: str, perm: int = 6) -> TopicTable:
    return TopicTable([TopicConfig(name, 4, 4, perm, 0) for name in names])


def register(
    cluster: str | None = "C", addr: str | None = "a:1", name: str | None = "b", broker_id: int = 0
) -> events.RegisterBroker:
    return events.RegisterBroker(cluster, addr, name, broker_id, None, None, TopicTable([]), None, addr)


def test_ids_of_a_group_iterate_as_a_hash_map() -> None:
    """Twelve ids leave it at 16 buckets, where 16 stands behind 0; a ConcurrentHashMap would have grown."""
    group = BrokerData("C", tuple((broker_id, f"a:{broker_id}") for broker_id in (16, *range(10, -1, -1))))
    assert [broker_id for broker_id, _ in group.java_addrs()] == [16, *range(11)]


def test_topics_of_a_registration_are_met_as_a_concurrent_map_holds_them() -> None:
    """A body decodes into a ConcurrentHashMap, which the twelfth topic makes grow and turn a bucket round."""
    shared = ["p", chr(144), chr(160)]
    table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in [*"abcdefghi", *shared]])
    assert [topic for topic in table.queue_datas if topic in shared] == [chr(160), chr(144), "p"]


def test_queue_data_without_a_broker_name_end_each_search_before_4_9_4() -> None:
    """As a list they are met, and throw: a registration stops at their topic, a removal and a wipe behind the topics before it."""

    def rows_after(release: str, *taken: events.Event) -> tuple[list[tuple[str | None, str | None, int]], Any, bool]:
        registry, namesrv = Registry(profile_named(release)), Namesrv(profile_named(release))
        steps = [take(registry, event, 0, namesrv) for event in taken]
        table = registry.topic_queue_table
        found = [(topic, name, data.perm) for topic, rows in table.java_items() for name, data in rows.java_items()]
        return found, (steps[-1].result, len(steps[-1].swallowed)), LiveKey(None, "a:1") in registry.broker_live_table

    nobody = register(name=None, addr="n:1")._replace(topics=topics_of("T"))
    broker = register()._replace(topics=topics_of("ATZ"))
    before, changed = ("A", "b", 6), broker._replace(data_version=DataVersion(0, 1, 1), topics=topics_of("AT", perm=4))
    assert rows_after("4.9.3", nobody, broker) == ([before, ("T", None, 6)], (RegisterResult(), 1), False)
    assert rows_after("4.9.4", nobody, broker)[0] == [before, ("T", None, 6), ("T", "b", 6), ("Z", "b", 6)]
    beside = [before, ("T", "b", 6), ("T", None, 6), ("Z", "b", 6)]
    assert rows_after("4.9.3", broker, nobody) == (beside, (RegisterResult(), 0), True)
    stopped = [("A", "b", 4), ("T", None, 6), ("Z", "b", 6)]  # the one before is taken out, and none is put in
    assert rows_after("4.9.3", broker, nobody, changed)[0] == stopped
    wiped = [("A", "b", 4), ("T", "b", 4), *beside[2:]]
    assert rows_after("4.9.3", broker, nobody, events.WipeWritePerm("b"))[:2] == (wiped, (0, 1))
    gone = events.UnregisterBroker("C", "a:1", "b", 0)
    for event in (gone, events.ChannelDestroyed("a:1", "a:1")):
        assert rows_after("4.9.3", broker, nobody, event) == ([("T", None, 6), ("Z", "b", 6)], (None, 1), False)
    assert rows_after("4.9.3", nobody, register(name=None, addr="n:1")._replace(topics=topics_of("T")))[0] == [
        ("T", None, 6)
    ]


@pytest.mark.parametrize("namesrv", [FOUR, FIVE], ids=["4.9.7", "5.4.0"])
def test_entries_whose_channels_nobody_wrote_down_share_none(namesrv: Namesrv) -> None:
    """A scan takes them all and goes on running; what it closed is not known."""
    registry = Registry(namesrv.profile)
    for addr, name in (("a:1", "a"), ("b:1", "b")):
        take(registry, register(addr=addr, name=name)._replace(channel_id=UNRECORDED), 0, namesrv)
    taken = take(registry, events.ScanNotActiveBroker(), 120_001, namesrv)
    assert (taken.outcome, taken.exception, taken.closed) == (Outcome.EXPIRED, None, ())
    assert not registry.scan_halted
    assert list(registry.broker_live_table) == []
    assert registry.broker_live_table.keys_of_channel(UNRECORDED) == []


@pytest.mark.parametrize("key", [LiveKey("", ""), LiveKey("", None)])
def test_live_key_of_two_empty_names_has_no_hash(key: LiveKey) -> None:
    """5.4.0: the underscore between them counts only where one of them has a character."""
    assert live_key_hash(key) == 0
    assert live_key_hash(LiveKey("", "a")) != live_key_hash(LiveKey(None, "a"))


def test_group_in_no_cluster_set_is_taken_down_all_the_same() -> None:
    """4.9.7: rows that say so are no reason to fail; the group and its topics go."""
    registry = Registry(V4_9_7)
    rows = [
        Change("broker_addr_table", ("b",), BrokerData("C", ((0, "a:1"),))),
        Change("topic_queue_table", ("T", "b"), QueueData(4, 4, 6, 0)),
    ]
    registry.apply(rows, 0)
    taken = take(registry, events.ChannelDestroyed("unknown", "a:1"), 1, FOUR)
    assert (taken.outcome, len(taken.changes)) == (Outcome.CHANNEL_LOST, 2)
    assert not registry.broker_addr_table
    assert not registry.topic_queue_table


def test_removing_rows_that_are_not_there_is_nothing() -> None:
    """Neither an unknown outer key nor an unknown inner one, and no index is left with an empty entry."""
    registry = Registry(V5_4_0)
    take(registry, register(), 0, FIVE)
    before = state_of(registry)
    missing: list[Change] = [
        Change("topic_queue_table", ("T", "b"), None),
        Change("broker_addr_table", ("x",), None),
        Change("cluster_addr_table", ("C", "x"), None),
        Change("cluster_addr_table", ("X", "b"), None),
        Change("broker_live_table", LiveKey("C", "a:9"), None),
        Change("filter_server_table", LiveKey("C", "a:1"), None),
        Change("kv_config_table", ("N", "k"), None),
        Change("kv_config_table", ("N", None), None),
        Change("topic_queue_mapping_info_table", ("T", "b"), None),
    ]
    registry.apply(missing, 1)
    assert state_of(registry) == before
    assert registry.cluster_addr_table.clusters_of_name("b") == ["C"]
    assert registry.cluster_addr_table.clusters_of_name("x") == []


def test_group_without_address_has_nobody_to_notify() -> None:
    """No smallest id, no notification."""
    assert min_broker_id_notifications(BrokerData("C", ()), None, None) == ()


def test_unknown_tables_are_errors() -> None:
    """A misspelt table is no silent no-op, neither in a draft nor in a registry."""
    registry = Registry(V4_9_7)
    with pytest.raises(ValueError, match="'routes': no such table"):
        Draft(registry).put("routes", ("N", "k"), KvValue("v"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'routes': no such table"):
        registry.apply([Change("routes", (), None)], 0)  # type: ignore[arg-type]
    registry.apply(
        [Change("kv_config_table", ("N", "k"), KvValue("v")), Change("kv_config_table", ("N", None), None)], 0
    )
    assert not registry.kv_config_table


def test_topic_tables_are_values() -> None:
    """Equal content is one value, whatever the order of the request: the map decides the order."""
    one, other = TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)
    assert TopicTable([one, other]) == TopicTable([other, one])
    assert hash(TopicTable([one, other])) == hash(TopicTable([other, one]))
    assert TopicTable([one]) != TopicTable([other])
    assert TopicTable([one]) != "T"


def test_mappings_and_filter_servers_are_part_of_a_topics_route() -> None:
    """They change what clients of 5.4.0 see; a row that is none of a route's is an error."""
    old, later = (
        (1, "old", Position(1, 0), Position(1, 0), None),
        (5, "later", Position(5_000, 0), Position(5_000, 0), None),
    )
    group = Interval("topic_queue", ("T", "b"), QueueData(4, 4, 6, 0), *old)
    filters = Interval("filter_server", ("C", "a:1"), ("f:1",), *later)
    mapping = Interval("topic_queue_mapping", ("T", "b"), TopicQueueMappingInfo("T", "b", 4, 1), *later)
    member = Interval("broker_addr", ("b", 0), Member("a:1", "C", False, None), *old)
    (change,) = sweep_route("T", [group, member, filters, mapping], FIVE, start_us=3).changes
    servers, shown = change.parts
    assert servers == ("filterServerTable", "a:1", '"a:1":["f:1"]')
    assert shown[:2] == ("topicQueueMappingByBroker", "b")
    assert json.loads("{" + (shown.text or "") + "}")["b"]["epoch"] == 1
    with pytest.raises(ValueError, match="interval of 'data_version' with value"):
        sweep_route("T", [filters._replace(table="data_version")], FIVE, start_us=3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no object"),
        ('{"0": "1"}', "no object"),
        (f'{{"{1 << 40}": 1}}', "no int"),
    ],
)
def test_what_is_no_map_of_queue_ids_is_refused(text: str, why: str) -> None:
    """Of a static topic's mapping; what comes from a log is looked at before it is a row."""
    with pytest.raises(ValueError, match=why):
        queue_ids_of(text)
