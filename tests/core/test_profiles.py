"""Releases between 4.3.0 and 5.5.0: each difference is a switch that is on from its release on, and one before off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig, Outcome, Question, Registry, step
from namesrv_core.asking.answers import answer, answer_to, refusal_told
from namesrv_core.machine import events
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import COMPARED, PROFILES, profile_named, profile_of_version
from namesrv_core.machine.register import REGISTER_FAILED
from namesrv_core.machine.rows import DataVersion, QueueData, TopicConfig, TopicTable
from namesrv_core.machine.step import apply_step
from namesrv_core.replay.take import take
from namesrv_wire.codes import VERSION_NAMES

TWO = TopicTable([TopicConfig("T", 4, 4, 6, 3), TopicConfig("U", 4, 4, 6, 0)])
ONE = TopicTable([TopicConfig("T", 4, 4, 6, 0)])


def register(broker_id: int = 0, addr: str = "a:1", topics: TopicTable = TWO, **more: Any) -> events.RegisterBroker:
    """Return a registration of the broker b."""
    said = ("C", addr, "b", broker_id, None, DataVersion(0, 1, 1), topics, (), "c")
    return events.RegisterBroker(*said)._replace(**more)


def replayed(release: str, *happened: events.Event, config: NamesrvConfig | None = None) -> tuple[Registry, Namesrv]:
    """Return the registry of that release after some events."""
    namesrv = Namesrv(profile_named(release), config or NamesrvConfig())
    registry = Registry(namesrv.profile)
    for at_ms, event in enumerate(happened):
        take(registry, event, at_ms, namesrv)
    return registry, namesrv


def perms(registry: Registry) -> dict[str | None, int]:
    """Return the permissions of the broker's topics."""
    return {topic: rows["b"].perm for topic, rows in registry.topic_queue_table.java_items() if "b" in rows}


def test_the_releases_that_were_replayed_before_are_what_they_were() -> None:
    """4.9.7 and 5.4.0, by name and by ordinal; 5.5.0 is equal to 5.4.0."""
    assert PROFILES["4.9.7"] == V4_9_7 == profile_of_version(407)
    assert PROFILES["5.4.0"] == V5_4_0 == profile_of_version(493) == profile_named("5.5.0")


@pytest.mark.parametrize("release", COMPARED)
def test_an_ordinal_is_its_release(release: str) -> None:
    """The version in a header and the name of the release find the same rules."""
    assert profile_of_version(VERSION_NAMES.index(release)) == profile_named(release)


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("5.3.9", "5.3.4"),
        ("5.9.9", "5.4.0"),
        ("5.0.0-ALPHA", "5.0.0"),
        ("4.2.0", "4.3.0"),
        ("4.9.9", "4.9.8"),
        ("5.1", "5.1.0"),
    ],
)
def test_a_release_that_was_not_compared_is_taken_for_the_one_before(said: str, taken: str) -> None:
    """Of its own generation; what is older than the oldest for that."""
    assert profile_named(said).name == taken
    assert said not in COMPARED


def test_what_is_no_release_of_4_or_5_is_refused() -> None:
    """An empty version, words, another generation."""
    for version in ("", "five", "3.2.6", "50.1"):
        with pytest.raises(ValueError, match="known are"):
            profile_named(version)
    assert profile_of_version(0) == V4_9_7


@pytest.mark.parametrize(("release", "perm"), [("5.0.0", 4), ("5.1.4", 4), ("5.2.0", 6), ("5.4.0", 6)])
def test_topics_of_a_prime_slave(release: str, perm: int) -> None:
    """Until 5.1.4 they lose the write bit also where enableActingMaster is false; a master's never do."""
    slave = register(1, "a:2", enable_acting_master=False)
    assert perms(replayed(release, slave)[0]) == {"T": perm, "U": perm}
    assert perms(replayed(release, register(enable_acting_master=False))[0]) == {"T": 6, "U": 6}
    acting = register(1, "a:2", enable_acting_master=True)
    assert perms(replayed(release, acting)[0]) == {"T": 4, "U": 4}


@pytest.mark.parametrize(("release", "left"), [("5.0.0", {1: "a:2"}), ("5.1.0", {0: "a:1"})])
def test_an_unregistration_asks_for_the_id_or_the_address(release: str, left: dict[int, str]) -> None:
    """Id 0 with the address of id 1: 5.0.0 takes out the id, later releases the address."""
    leaving = events.UnregisterBroker("C", "a:2", "b", 0)
    registry, _ = replayed(release, register(), register(1, "a:2"), leaving)
    assert registry.broker_addr_table["b"].addr_of == left


@pytest.mark.parametrize(("release", "number"), [("5.1.3", 4), ("5.1.4", 9)])
def test_a_known_topic_that_is_registered_in_the_name_server(release: str, number: int) -> None:
    """Since 5.1.4 its queue data are replaced, before it stays as it is; a new topic comes with both."""
    told = (("b", QueueData(9, 9, 6, 0)),)
    registry, _ = replayed(release, register(), events.RegisterTopic("T", told), events.RegisterTopic("N", told))
    assert registry.queue_data("T", "b") == QueueData(number, number, 6, 3 if number == 4 else 0)
    assert registry.queue_data("N", "b") == QueueData(9, 9, 6, 0)


@pytest.mark.parametrize(("release", "topics"), [("5.1.3", ["T", "U"]), ("5.1.4", ["T"])])
def test_delete_topic_with_broker_registration_came_with_5_1_4(release: str, topics: list[str]) -> None:
    """Whatever somebody has configured: an older name server has no such property."""
    config = NamesrvConfig(delete_topic_with_broker_registration=True)
    registry, _ = replayed(release, register(), register(topics=ONE), config=config)
    assert sorted(map(str, perms(registry))) == topics


@pytest.mark.parametrize(("release", "ids"), [("4.4.0", {0: "a:1", 1: "a:1"}), ("4.5.0", {1: "a:1"})])
def test_an_address_with_several_ids(release: str, ids: dict[int, str]) -> None:
    """Since 4.5.0 an address has one id in a group; before, one that was demoted stayed under both, and beats change nothing."""
    registry, namesrv = replayed(release, register(), register(1))
    assert registry.broker_addr_table["b"].addr_of == ids
    assert step(registry, register(1), 9, namesrv).outcome is Outcome.REFRESHED


@pytest.mark.parametrize(("release", "left"), [("4.9.3", []), ("4.9.4", ["b"])])
def test_deleting_a_topic_of_a_cluster(release: str, left: list[str]) -> None:
    """Before 4.9.4 the cluster is not looked at, and the topic goes everywhere."""
    registry, _ = replayed(release, register(), events.DeleteTopic("T", "other"))
    assert list(registry.topic_queue_table.get("T") or ()) == left


@pytest.mark.parametrize(("release", "perm"), [("4.9.1", 4), ("4.9.2", 6)])
def test_permissions_come_back_since_4_9_2(release: str, perm: int) -> None:
    """Before, there was no such request, and nothing happens."""
    registry, _ = replayed(release, register(), events.WipeWritePerm("b"), events.AddWritePerm("b"))
    assert perms(registry) == {"T": perm, "U": perm}


@pytest.mark.parametrize(("release", "name"), [("4.8.0", "topicSynFlag"), ("4.9.0", "topicSysFlag")])
def test_the_name_of_the_flag_in_a_route(release: str, name: str) -> None:
    """Queue data were written with a misspelt name until 4.8.0."""
    registry, namesrv = replayed(release, register())
    body = answer(registry, Question(105, "T"), namesrv).body or ""
    assert f'"{name}":3' in body
    assert body.count("Flag") == 1


@pytest.mark.parametrize(("release", "names"), [("4.9.7", ["C", None]), ("5.1.4", ["C", None]), ("5.2.0", ["C"])])
def test_a_list_of_topics_and_a_group_without_name(release: str, names: list[str | None]) -> None:
    """Since 5.2.0 the list is collected in a set that takes no null: it ends there."""
    registry, namesrv = replayed(release, register(broker_name=None))
    listed = json.loads(answer(registry, Question(304, None), namesrv).body or "")["topicList"]
    assert sorted(listed, key=str) == names


@pytest.mark.parametrize(("release", "is_concurrent"), [("4.9.8", False), ("5.1.4", False), ("5.2.0", True)])
def test_the_order_of_a_list_of_topics(release: str, is_concurrent: bool) -> None:  # noqa: FBT001
    """It is that of the set into which they are copied; 24 names make a HashMap larger than a concurrent one, or smaller."""
    topics = TopicTable([TopicConfig(f"topic-{number}", 4, 4, 6, 0) for number in range(50)])
    registry, namesrv = replayed(release, register(topics=topics))
    listed = json.loads(answer(registry, Question(206, None), namesrv).body or "")["topicList"]
    copied: JavaMap[str | None, bool] = string_map(concurrent=is_concurrent)
    for topic in registry.topic_queue_table.java_keys():
        copied.put(topic, value=True)
    assert listed == copied.java_keys()


@pytest.mark.parametrize(("release", "key"), [("4.9.3", "0"), ("4.9.4", '"0"')])
def test_standard_json_came_with_4_9_4(release: str, key: str) -> None:
    """A client of 4.9.4 gets keys without quotes from an older name server."""
    registry, namesrv = replayed(release, register())
    assert f'"brokerAddrs":{{{key}:"a:1"}}' in (
        answer(registry, Question(105, "T", standard_json=True), namesrv).body or ""
    )


def test_a_kv_entry_without_a_key() -> None:
    """Since 4.9.0 it is refused; before, the answer is SUCCESS."""
    event = events.PutKvConfig(None, "k", "v")
    for release, code in (("4.8.0", 0), ("4.9.0", 1), ("5.0.0", 1)):
        registry, namesrv = replayed(release)
        assert answer_to(event, step(registry, event, 0, namesrv), registry, namesrv).code == code


# -- refusals that were recorded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((None, None), None),
        ((0, "x"), None),
        ((2, "[OVERLOAD]system busy"), "[OVERLOAD]system busy"),
        ((1, None), "response code 1"),
        ((1, None, 1), REGISTER_FAILED),
        ((2, None, 1), "response code 2"),
    ],
)
def test_what_an_answer_says_of_a_refusal(told: tuple[int | None, str | None], why: str | None) -> None:
    """The remark, or the code; without a remark one of a single topic is refused for that."""
    assert refusal_told(*told) == why


def test_a_refused_registration_leaves_its_cluster_and_its_group_in_5x() -> None:
    """Whatever the registry would have done: the group loses other ids of the address, and nothing else changes."""
    registry, namesrv = replayed("5.4.0", register(), register(1, "a:2"))
    before = perms(registry)
    refused = register(0, "a:2", ONE, cluster_name="D", zone_name="z", is_refused=True)
    taken = step(registry, refused, 9, namesrv)
    assert taken.outcome is Outcome.REFUSED_LONE_TOPIC
    apply_step(registry, refused, taken, 9, namesrv)
    assert registry.broker_addr_table["b"].addr_of == {0: "a:1"}
    assert registry.broker_addr_table["b"].zone_name == "z"
    assert "b" in registry.cluster_addr_table["D"]
    assert perms(registry) == before
    assert len(registry.broker_live_table) == 2


def test_a_refused_registration_that_was_plain_renews_nothing() -> None:
    """One that says what is stored already would be a beat; refused, it is none. 4.x has no such refusal, and does nothing."""
    for release, outcome in (("5.4.0", Outcome.REFUSED_LONE_TOPIC), ("4.9.7", Outcome.REFUSED_REQUEST)):
        registry, namesrv = replayed(release, register())
        taken = step(registry, register(is_refused=True), 9, namesrv)
        assert (taken.outcome, taken.changes, taken.refreshed) == (outcome, (), None)
