"""Releases between 4.3.0 and 5.5.0: each difference is a switch that is on from its release on, and one before off."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig, Question, Registry
from namesrv_core.asking.answers import answer, refusal_of
from namesrv_core.history.intervals import Histories, Interval, restored
from namesrv_core.machine import events
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import COMPARED, PROFILES, profile_named, profile_of_version
from namesrv_core.machine.step import REGISTER_FAILED
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_core.replay.loop import take
from namesrv_wire.codes import VERSION_NAMES

TWO = TopicTable([TopicConfig("T", 4, 4, 6, 3), TopicConfig("U", 4, 4, 6, 0)])


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
        with pytest.raises(ValueError, match="expected a 4"):
            profile_named(version)
    assert profile_of_version(0) == V4_9_7


@pytest.mark.parametrize(("release", "is_concurrent"), [("4.9.8", False), ("5.1.4", None), ("5.2.0", True)])
def test_the_order_of_a_list_of_topics(release: str, is_concurrent: bool | None) -> None:  # noqa: FBT001
    """It is that of the set into which they are copied; 24 names make a HashMap larger than a concurrent one, or smaller.

    5.0 and 5.1 copy into a CopyOnWriteArraySet, which keeps the order of the table.
    """
    topics = TopicTable([TopicConfig(f"topic-{number}", 4, 4, 6, 0) for number in range(50)])
    registry, namesrv = replayed(release, register(topics=topics))
    listed = json.loads(answer(registry, Question(206, None), namesrv).body or "")["topicList"]
    copied: JavaMap[str | None, bool] = string_map(concurrent=bool(is_concurrent))
    held = registry.topic_queue_table.java_keys()
    for topic in held:
        copied.put(topic, value=True)
    assert listed == (held if is_concurrent is None else copied.java_keys())
    assert held != copied.java_keys()


@pytest.mark.parametrize(
    ("release", "is_larger"), [("4.3.0", True), ("4.9.3", True), ("4.9.4", False), ("5.0.0", True)]
)
def test_the_order_of_filter_servers(release: str, is_larger: bool) -> None:  # noqa: FBT001
    """But for 4.9.4 to 4.9.8, their map has all addresses of a route, and more buckets: a 4.9.0 has answered in this order."""
    hosts = ["2.13:10913", "2.14:10914", "2.11:10911", "2.12:10912", "2.11:10919", "2.12:10920", "3.13:10925"]
    hosts += ["2.10:10926", "3.11:10923", "3.12:10924", "2.13:10929", "2.14:10930", "2.11:10927", "2.12:10928"]
    have = {"2.13:10913", "2.13:10929", "3.11:10923", "2.11:10911"}
    happened = (
        register(broker_id, f"10.77.{host}", filter_servers=("f",) if host in have else ())
        for broker_id, host in enumerate(hosts)
    )
    registry, namesrv = replayed(release, *happened)
    body = answer(registry, Question(105, "T", standard_json=False), namesrv).body or ""
    shown = re.findall(r'"10\.77\.([0-9.:]+)":\["f"\]', body)
    in_order = ["2.13:10929", "3.11:10923", "2.11:10911"]
    assert shown == (["2.13:10913", *in_order] if is_larger else [*in_order, "2.13:10913"])


@pytest.mark.parametrize(("release", "order"), [("4.9.3", "cab"), ("4.9.4", "abc")])
def test_the_order_of_queue_data(release: str, order: str) -> None:
    """Before 4.9.4 that of a list: what a registration changes goes to its end, what it repeats or a wipe takes stays.

    A unit list looks at the first; and the order outlasts the day.
    """
    namesrv = Namesrv(profile_named(release))
    registry, histories = Registry(namesrv.profile), Histories()
    closed: list[Interval] = []

    def of(name: str, flag: int, counter: int) -> events.RegisterBroker:
        topics = TopicTable([TopicConfig("T", 4, 4, 6, flag)])
        version = DataVersion(0, 1, counter)
        return register(addr=f"{name}:1", topics=topics, broker_name=name, data_version=version)

    happened: list[events.Event] = [
        of("a", 0, 1),
        of("b", 0, 1),
        of("c", 0, 1),
        of("a", 1, 2),
        of("b", 1, 2),
        of("c", 0, 2),
    ]
    happened += [events.WipeWritePerm("c"), of("x", 0, 1), of("x", 1, 2), of("y", 0, 1)]
    for at, event in enumerate(happened):
        taken = take(registry, event, at, namesrv)
        closed += histories.record(taken.changes, seq=at, event_id=str(at), at_us=at)
        if at == 6:
            units = json.loads(answer(registry, Question(311, None), namesrv).body or "")["topicList"]
            assert [*registry.topic_queue_table["T"].java_keys()] == [*order]
    assert units == ["T"] * (order[0] == "a")
    again = Registry(namesrv.profile)
    restored(again, histories.open_intervals())
    assert again.topic_queue_table["T"].java_keys() == registry.topic_queue_table["T"].java_keys() == [*order, "x", "y"]
    assert all(one.opened_at.seq < (one.closed_at or one.opened_at).seq for one in closed)


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
    assert refusal_of(*told) == why
