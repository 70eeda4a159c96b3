"""Requests with fields missing or out of the ordinary: what the real name server was seen to do with each of them."""

from __future__ import annotations

from typing import Any

import pytest

from namesrv_core.machine.java_map import JavaMap, string_hash, string_map
from tools.trace.trace import Trace

Ev = dict[str, Any]

NULL_POINTER = "java.lang.NullPointerException"
TOPICS = [{"name": topic, "r": 4, "w": 4, "perm": 6, "sys": 0} for topic in ("T", "U")]


def played(version: str, *evs: Ev, **config: bool) -> tuple[list[Ev], Trace]:
    """Return the results of events, and the name server after them."""
    trace = Trace()
    channels = {"c": "127.0.0.1:50000", "d": "127.0.0.1:50001"}
    trace.take({"op": "init", "profile": version, "config": config, "channels": channels})
    return [trace.take({"t_ms": i, **ev}) for i, ev in enumerate(evs)], trace


def register(addr: str | None = "a", name: str | None = "b", **fields: Any) -> Ev:
    version = {"ts": 1, "counter": 1, "state": 0}
    ev: Ev = {"cluster": "C", "addr": addr, "name": name, "id": 0, "ch": "c", "dv": version, "topics": TOPICS}
    return {"op": "register", **ev, **fields}


def unregister(**fields: Any) -> Ev:
    return {"op": "unregister", "cluster": "C", "addr": "a", "name": "b", "id": 0, **fields}


def test_newest_of_clusters_in_one_bucket_comes_first() -> None:
    """4.x makes cluster sets by computeIfAbsent, which puts a key at the head of its bucket: it loses the name."""
    evs = [register(id=1), register("x", cluster="BB", id=2), register("y", cluster="Aa", id=3, ch="d")]
    lost = [{"op": "channel_destroy", "remote": addr} for addr in ("a", "x", "y")]
    _, trace = played("4.9.7", *evs, *lost)
    assert trace.state()["clusterAddrTable"] == {"BB": ["b"], "C": ["b"]}
    _, trace = played("4.9.7", *evs[1:], *lost[1:])
    assert trace.state()["clusterAddrTable"] == {"BB": ["b"]}


def test_map_of_computed_keys_grows_one_key_later() -> None:
    """Such a map looks at the size before it adds a key, put afterwards."""
    computed: JavaMap[str | None, bool] = JavaMap(16, string_hash, concurrent=False, computes=True)
    put: JavaMap[str | None, bool] = string_map(16)
    for i in range(14):
        assert (computed.capacity, put.capacity) == (16, 32 if i == 13 else 16), i
        computed.put(f"k{i}", value=True)
        put.put(f"k{i}", value=True)
    assert computed.capacity == 32


@pytest.mark.parametrize(("old", "new"), [(None, {"ts": 1}), ({"ts": 1, "state": 9}, None), (None, None)])
def test_conflict_without_versions_is_swallowed(old: Ev | None, new: Ev | None) -> None:
    """5.x: who takes a living address's id with either version missing changes nothing and is told SUCCESS."""
    results, trace = played("5.4.0", register(dv=old), register("x", dv=new))
    assert results[1] == {"ret": {"haServerAddr": None, "masterAddr": None}, "swallowed": [NULL_POINTER]}
    assert trace.state()["brokerAddrTable"]["b"]["brokerAddrs"] == {"0": "a"}


def test_negative_id_of_a_new_group_is_below_the_smallest() -> None:
    """An empty group's smallest id counts as 0."""
    results, _ = played("5.4.0", register(id=-1), notifyMinBrokerIdChanged=True)
    assert [(sent["to"], sent["minBrokerId"]) for sent in results[0]["notify"]] == [("a", -1)]


def test_negative_id_stands_for_a_master_when_perms_are_wiped() -> None:
    """5.x takes write permissions only where the smallest id is above 0."""
    evs = [register(acting=True), register("x", id=-1, acting=True), register("y", id=1, acting=True)]
    leaves = [{"op": "add_perm", "name": "b"}, unregister()]
    _, trace = played("5.4.0", *evs, *leaves)
    assert trace.state()["topicQueueTable"]["T"]["b"]["perm"] == 6
    _, trace = played("5.4.0", evs[0], evs[2], *leaves)
    assert trace.state()["topicQueueTable"]["T"]["b"]["perm"] == 4


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.9.7", {"exception": NULL_POINTER}), ("5.4.0", {"swallowed": [NULL_POINTER], "batch": 0})],
)
def test_entry_without_channel_ends_a_scan(version: str, expected: Ev) -> None:
    """Closing null throws: out of the scan in 4.x, caught in 5.x; nothing after that entry expires."""
    results, trace = played(version, register(ch=None), {"op": "scan", "t_ms": 200_000})
    results[1].pop("liveOrder")
    assert results[1] == expected
    assert len(trace.state()["brokerLiveTable"]) == 1


def test_member_without_address_ends_the_search_for_a_lost_one() -> None:
    """4.x compares every member's address with the lost one: the live entry is gone by then, the group stays."""
    results, trace = played(
        "4.9.7", register(None, "b"), register("x", "c", ch="d"), {"op": "channel_destroy", "ch": "d"}
    )
    assert results[2]["swallowed"] == [NULL_POINTER]
    assert list(trace.state()["brokerLiveTable"]) == ["null"]
    assert sorted(trace.state()["brokerAddrTable"]) == ["b", "c"]


def test_entry_without_address_on_a_shared_channel_does_no_harm() -> None:
    """4.x: found first by its channel it has no address to take down; the expired one's own is taken, and none throws."""
    evs = [register(None, "b"), register("x", "c")]
    results, _ = played("4.9.7", *evs, {"op": "heartbeat", "t_ms": 100_000}, {"op": "scan", "t_ms": 130_000})
    assert results[3]["removed"] == 1
    assert "exception" not in results[3]


@pytest.mark.parametrize("op", ["heartbeat", "query_dv"])
@pytest.mark.parametrize("field", ["cluster", "addr"])
def test_lease_of_an_incomplete_key_cannot_be_renewed(op: str, field: str) -> None:
    """5.x cannot hash such a key: the exception leaves the method. 4.x knows no such address."""
    who = {"op": op, "cluster": "C", "addr": "a", "dv": None, field: None}
    assert played("5.4.0", who)[0] == [{"exception": NULL_POINTER}]
    assert "exception" not in played("4.9.7", who)[0][0]


@pytest.mark.parametrize(
    ("ev", "fails"),
    [
        ({"op": "delete_topic"}, True),
        ({"op": "delete_topic", "cluster": "C"}, True),
        ({"op": "delete_topic", "cluster": "unknown"}, False),
        ({"op": "register_topic", "queues": [{**TOPICS[0], "name": "b"}]}, True),
        ({"op": "register_topic", "queues": []}, False),
        ({"op": "register_topic", "topic": "T", "queues": [{**TOPICS[0], "name": None}]}, True),
        ({"op": "register_topic", "topic": "T", "queues": [{**TOPICS[0], "name": "unknown"}]}, False),
    ],
)
def test_missing_topic_or_name_is_swallowed(ev: Ev, *, fails: bool) -> None:
    """5.x: the topic and group tables take no null key; what comes before the look is not concerned."""
    results, trace = played("5.4.0", register(), ev)
    assert results[1] == ({"swallowed": [NULL_POINTER]} if fails else {})
    assert list(trace.state()["topicQueueTable"]) == ["T", "U"]
    assert "swallowed" not in played("4.9.7", {"op": "delete_topic"})[0][0]


def test_questions_without_a_subject() -> None:
    """5.x: a null topic or name is looked up in maps that take none, and a list of topics takes none either."""
    evs: list[Ev] = [register(), register(name=None), {"op": "route"}, {"op": "member_group"}, {"op": "system_topics"}]
    results, _ = played("5.4.0", *evs)
    assert [result["swallowed"] for result in results[1:]] == [[NULL_POINTER]] * 4
    assert results[2]["ret"] is None
    assert results[3]["brokerAddrs"] == {}
    assert results[4]["brokerAddr"] is None
    assert set(results[4]["topicList"]) <= {"C", "b"}


def test_lease_beyond_the_largest_long_has_ended() -> None:
    """Java's sum goes on at the smallest long: such a broker expires at once."""
    results, trace = played("5.4.0", register(timeout=2**63 - 1, t_ms=1), {"op": "scan", "t_ms": 5})
    assert results[1]["closed"] == ["c"]
    assert trace.state()["brokerLiveTable"] == {}


def test_leases_of_incomplete_keys_end_together() -> None:
    """Entries without an address are watched like others, also where their leases end at the same time."""
    evs = [register(None, t_ms=0), register("x", "c", ch="d", t_ms=0), {"op": "scan", "t_ms": 120_001}]
    assert sorted(played("4.9.7", *evs)[0][2]["closed"]) == ["c", "d"]


@pytest.mark.parametrize(("name", "is_hidden"), [("a", True), ("c", False)])
@pytest.mark.parametrize("end", [{"op": "channel_destroy", "ch": "d"}, {"op": "scan", "t_ms": 200_000}])
def test_a_member_without_an_address_hides_the_brokers_of_its_cluster(name: str, is_hidden: bool, end: Ev) -> None:  # noqa: FBT001
    """5.x: the search for whom an ended channel was throws at it; who stands before it in Java's order is found."""
    results, trace = played("5.4.0", register(None, name), register("x", ch="d"), end)
    assert results[2].get("swallowed") == ([NULL_POINTER] if is_hidden else None)
    assert [*trace.state()["brokerAddrTable"]] == ([name, "b"] if is_hidden else [name])
