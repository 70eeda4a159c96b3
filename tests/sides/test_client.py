"""What clients make of a route: literal routes and the queues that come of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Profile
from namesrv_core.asking.queries import RouteBroker, TopicRouteData
from namesrv_core.machine.rows import QueueData, TopicQueueMappingInfo
from tests.sides.client import (
    FindBrokerResult,
    MessageQueue,
    TopicPublishInfo,
    UnusableRouteError,
    find_broker_address_in_subscribe,
    is_need_update_topic_route_info,
    producer_route,
    static_topic_endpoints,
    topic_publish_info,
    topic_route_data_changed,
    topic_subscribe_info,
)

MASTER, SLAVE = (0, "10.0.0.1:10911"), (1, "10.0.0.2:10911")
BOTH = pytest.mark.parametrize("client", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)


def group(name: str | None, *addrs: tuple[int, str | None], cluster: str = "C") -> RouteBroker:
    return RouteBroker(name, cluster, addrs, enable_acting_master=False, zone_name=None)


def route(
    *queue_datas: tuple[str | None, QueueData], groups: tuple[RouteBroker, ...] = (), conf: str | None = None
) -> TopicRouteData:
    return TopicRouteData(queue_datas, groups, (), conf, None)


def queues(read: int, write: int, perm: int = 6) -> QueueData:
    return QueueData(read, write, perm, 0)


def mapping(bname: str | None, total: int, epoch: int, *ids: int, scope: str | None = None) -> TopicQueueMappingInfo:
    text = json.dumps(dict.fromkeys(map(str, ids), 0))
    return TopicQueueMappingInfo("T", bname, total, epoch, scope=scope, curr_id_map=text)


def static(*infos: TopicQueueMappingInfo) -> TopicRouteData:
    base = route(("a", queues(2, 2)), groups=(group("a", MASTER),))
    return base._replace(topic_queue_mapping_by_broker=tuple((info.bname, info) for info in infos))


def names(found: tuple[MessageQueue, ...]) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in found]


@BOTH
def test_a_producer_takes_write_queues_of_writable_brokers_with_a_master(client: Profile) -> None:
    """By broker name; without write bit, without group or without master a broker gives nothing."""
    given = route(
        ("d", queues(9, 1)),
        ("c", queues(9, 2, perm=4)),
        ("b", queues(9, 2, perm=2)),
        ("a", queues(9, 1)),
        ("e", queues(9, 1)),
        groups=(group("a", MASTER, SLAVE), group("b", MASTER), group("c", MASTER), group("d", SLAVE)),
    )
    assert topic_publish_info("T", given, client) == TopicPublishInfo(
        order_topic=False,
        message_queues=(MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)),
    )


def test_a_master_whose_address_is_null_is_no_master() -> None:
    """The name server's JSON leaves the entry out."""
    given = route(("a", queues(1, 1)), groups=(group("a", (0, None)),))
    assert topic_publish_info("T", given, V4_9_7).message_queues == ()


def test_broker_names_are_sorted_by_utf_16_units() -> None:
    """Java puts a character beyond the basic plane before U+FF5E, code points the other way round."""
    given = route(
        ("\uff5e", queues(1, 1)),
        ("\U0001f600", queues(1, 1)),
        groups=(group("\uff5e", MASTER), group("\U0001f600", MASTER)),
    )
    assert names(topic_publish_info("T", given, V4_9_7).message_queues) == [("\U0001f600", 0), ("\uff5e", 0)]
    assert names(topic_subscribe_info("T", given, V4_9_7)) == [("\U0001f600", 0), ("\uff5e", 0)]


@BOTH
def test_an_order_conf_says_the_queues_whatever_the_route_has(client: Profile) -> None:
    """In its own order, twice if it says so; consumers do not look at it."""
    given = route(("a", queues(1, 4)), groups=(group("a", MASTER),), conf="b:2;a:1;b:1;;")
    info = topic_publish_info("T", given, client)
    assert info.order_topic
    assert names(info.message_queues) == [("b", 0), ("b", 1), ("a", 0), ("b", 0)]
    assert names(topic_subscribe_info("T", given, client)) == [("a", 0)]


@pytest.mark.parametrize(("conf", "expected"), [(";", []), ("a:-1", []), ("a:+1", [("a", 0)]), ("a:1:x", [("a", 0)])])
def test_odd_order_confs_that_clients_can_read(conf: str, expected: list[tuple[str, int]]) -> None:
    """As Java's split and parseInt have it."""
    info = topic_publish_info("T", route(conf=conf), V5_4_0)
    assert (info.order_topic, names(info.message_queues)) == (True, expected)


@pytest.mark.parametrize("conf", ["a", "a:", "a:x", "a: 1", "a:1;;b:1", ":", "a:2147483648"])
def test_an_order_conf_that_clients_cannot_read(conf: str) -> None:
    """The client throws, so that it keeps what it had; the error names topic and conf."""
    with pytest.raises(UnusableRouteError, match=r"of T, .*expected name:queues"):
        topic_publish_info("T", route(conf=conf), V4_9_7)


def test_an_empty_order_conf_is_none() -> None:
    """The queues are those of the brokers."""
    given = route(("a", queues(1, 1)), groups=(group("a", MASTER),), conf="")
    assert topic_publish_info("T", given, V4_9_7) == TopicPublishInfo(False, (MessageQueue("T", "a", 0),))


@BOTH
def test_a_consumer_takes_read_queues_with_or_without_master(client: Profile) -> None:
    """Sorted by broker name and queue id, as consumers divide them; without read bit a broker gives nothing."""
    given = route(("b", queues(2, 9, perm=4)), ("a", queues(1, 9)), ("c", queues(3, 3, perm=2)))
    assert names(topic_subscribe_info("T", given, client)) == [("a", 0), ("b", 0), ("b", 1)]


@BOTH
def test_queue_data_without_broker_name_make_clients_fail(client: Profile) -> None:
    """A broker may have registered without name; a client throws at the null."""
    with pytest.raises(UnusableRouteError, match="without broker name"):
        topic_subscribe_info("T", route((None, queues(1, 1))), client)


def test_a_static_topic_has_logical_queues() -> None:
    """Up to the largest total, held by the mapping of the highest epoch; 4.x clients do not know of them."""
    given = static(mapping("a", 2, 1, 0, 1), mapping("b", 4, 2, 1, 7))
    endpoints = static_topic_endpoints("T", given)
    scope = "__syslo__global__"

    assert {queue.queue_id: name for queue, name in endpoints.items()} == {
        0: "a",
        1: "b",
        2: "__syslo__none__",
        3: "__syslo__none__",
    }
    assert names(topic_publish_info("T", given, V5_4_0).message_queues) == [
        (scope, 0),
        (scope, 1),
        (scope, 2),
        (scope, 3),
    ]
    assert names(topic_subscribe_info("T", given, V5_4_0)) == [(scope, 0), (scope, 1), (scope, 2), (scope, 3)]
    assert names(topic_publish_info("T", given, V4_9_7).message_queues) == [("a", 0), ("a", 1)]


def test_an_older_epoch_does_not_take_a_queue_back() -> None:
    """Whichever mapping is met first; of two with one epoch the later in Java's order counts."""
    newer_first = static(mapping("a", 1, 2, 0), mapping("b", 1, 1, 0))
    same_epoch = static(mapping("a", 1, 2, 0), mapping("b", 1, 2, 0))
    assert list(static_topic_endpoints("T", newer_first).values()) == ["a"]
    assert list(static_topic_endpoints("T", same_epoch).values()) == ["b"]


def test_each_scope_has_its_own_broker_name_and_queues() -> None:
    """The publish list is sorted by queue id only."""
    given = static(mapping("a", 2, 1, 0, scope="__global__"), mapping("b", 1, 1, 0, scope="metadata"))
    found = names(topic_publish_info("T", given, V5_4_0).message_queues)
    assert sorted(found) == [("__syslo__global__", 0), ("__syslo__global__", 1), ("__syslo__metadata", 0)]
    assert [queue_id for _, queue_id in found] == [0, 0, 1]


def test_an_order_conf_goes_before_a_static_topic_for_producers() -> None:
    """An empty one does too: then the queues are those of the brokers."""
    given = static(mapping("a", 1, 1, 0))
    assert names(topic_publish_info("T", given._replace(order_topic_conf="b:1"), V5_4_0).message_queues) == [("b", 0)]
    assert names(topic_publish_info("T", given._replace(order_topic_conf=""), V5_4_0).message_queues) == [
        ("a", 0),
        ("a", 1),
    ]


def test_a_mapping_that_names_no_broker_makes_clients_fail() -> None:
    """Its holder would be null, which the client's table does not take."""
    with pytest.raises(UnusableRouteError, match="queue 0 of static topic T: its mapping names no broker"):
        topic_subscribe_info("T", static(mapping(None, 1, 1, 0)), V5_4_0)


@BOTH
def test_order_cluster_and_zone_are_no_change(client: Profile) -> None:
    """A client compares sorted copies, and a group by name and addresses alone."""
    old = route(("a", queues(1, 1)), ("b", queues(2, 2)), groups=(group("a", MASTER), group("b", MASTER, SLAVE)))
    new = route(
        ("b", queues(2, 2)),
        ("a", queues(1, 1)),
        groups=(group("b", SLAVE, MASTER, cluster="D"), group("a", MASTER)._replace(zone_name="z")),
    )
    assert not topic_route_data_changed(old, new, client)


@BOTH
@pytest.mark.parametrize(
    "changes",
    [
        {"queue_datas": (("a", queues(1, 1, perm=4)),)},
        {"broker_datas": (group("a", MASTER, SLAVE),)},
        {"filter_server_table": (("10.0.0.1:10911", ("f",)),)},
        {"order_topic_conf": "a:1"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_a_change(client: Profile, changes: dict[str, Any]) -> None:
    """Each part of the route, and any route for a client that has none."""
    old = route(("a", queues(1, 1)), groups=(group("a", MASTER),))
    assert topic_route_data_changed(old, old._replace(**changes), client)
    assert topic_route_data_changed(None, old, client)


def test_an_address_without_filter_servers_is_no_change() -> None:
    """5.x lists it with null, which the answer leaves out."""
    old = route(("a", queues(1, 1)))
    assert not topic_route_data_changed(old, old._replace(filter_server_table=(("10.0.0.1:10911", None),)), V5_4_0)


def test_a_mapping_is_a_change_to_clients_that_know_of_it() -> None:
    """Compared as values: the text of currIdMap and an unsaid scope make no difference."""
    old, new = static(mapping("a", 1, 1, 0)), static(mapping("a", 1, 2, 0))
    spaced = mapping("a", 1, 1, 0, scope="__global__")._replace(curr_id_map='{"0": 0}')
    assert topic_route_data_changed(old, new, V5_4_0)
    assert not topic_route_data_changed(old, new, V4_9_7)
    assert not topic_route_data_changed(old, static(spaced), V5_4_0)


def test_an_unchanged_route_is_taken_by_who_lacks_queues() -> None:
    """A producer without queues, or a consumer without subscribe information."""
    full = TopicPublishInfo(order_topic=False, message_queues=(MessageQueue("T", "a", 0),))
    empty = TopicPublishInfo(order_topic=False, message_queues=())
    assert not is_need_update_topic_route_info([full], [True])
    assert is_need_update_topic_route_info([full, None], [])
    assert is_need_update_topic_route_info([empty], [])
    assert is_need_update_topic_route_info([], [True, False])


def test_a_topic_without_route_goes_by_the_default_topic() -> None:
    """With as many queues as the default topic has to read, at most four; both numbers become that."""
    default_topic = route(("a", queues(8, 2, perm=7)), ("b", queues(1, 8, perm=7)))
    limited = producer_route(None, default_topic)
    assert limited is not None
    assert dict(limited.queue_datas) == {"a": queues(4, 4, perm=7), "b": queues(1, 1, perm=7)}
    assert producer_route(None, None) is None


def test_a_topic_with_a_route_never_falls_back() -> None:
    """Not even if it has no queue to write to: the message fails."""
    own = route(("a", queues(4, 4, perm=4)))
    assert producer_route(own, route(("a", queues(8, 8, perm=7)))) is own


@pytest.mark.parametrize(
    ("members", "wanted", "only", "expected"),
    [
        ((MASTER, SLAVE), 0, False, FindBrokerResult(MASTER[1], slave=False)),
        ((MASTER, SLAVE), 1, False, FindBrokerResult(SLAVE[1], slave=True)),
        ((MASTER, (2, "x")), 1, False, FindBrokerResult("x", slave=True)),
        ((SLAVE,), 0, False, FindBrokerResult(SLAVE[1], slave=True)),
        ((SLAVE,), 0, True, None),
        ((MASTER,), 3, False, FindBrokerResult(MASTER[1], slave=False)),
        (((16, "y"), (1, "x")), 0, False, FindBrokerResult("y", slave=True)),
        (((0, None),), 0, False, None),
        ((), 0, False, None),
    ],
    ids=["master", "slave", "next slave", "slave for master", "only", "fallback", "bucket order", "null", "nobody"],
)
def test_where_a_consumer_reads(
    members: tuple[tuple[int, str | None], ...], wanted: int, *, only: bool, expected: FindBrokerResult | None
) -> None:
    """The wanted id, for a slave the next one, else the first in Java's order of the group's map."""
    assert find_broker_address_in_subscribe(members, wanted, only_this_broker=only) == expected
