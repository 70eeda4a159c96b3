"""Clients that name their zone: what a 5.x name server leaves out of a route for them."""

from __future__ import annotations

import pytest

from namesrv_core import Answer, Namesrv, Registry
from namesrv_core.asking.queries import RouteBroker, TopicRouteData, within_zone
from namesrv_core.asking.requests import Fields, zone_of
from namesrv_core.machine.registry import Change, TableName
from namesrv_core.machine.rows import BrokerData, LiveKey, QueueData, TopicQueueMappingInfo
from tests.core.test_request_layer import FIVE, asked


def zoned(namesrv: Namesrv) -> Registry:
    """Return a server whose topic T has a master in zone east, one in zone west, and a slave in the west."""
    rows: list[tuple[TableName, tuple[str | None, ...], object]] = []
    for name, zone, broker_id in (("b", "East", 0), ("c", "west", 0), ("d", "west", 1)):
        rows += [
            ("broker_addr_table", (name,), BrokerData("C", ((broker_id, f"{name}:1"),), zone_name=zone)),
            ("topic_queue_table", ("T", name), QueueData(4, 4, 6, 0)),
            ("filter_server_table", LiveKey("C", f"{name}:1"), (f"{name}:9",)),
        ]
    registry = Registry(namesrv.profile)
    registry.apply([Change(*row) for row in rows], 0)
    return registry


def test_a_client_with_a_zone_gets_no_master_of_another_zone() -> None:
    """Its queue data and filter servers are gone as well; zones differ beside case, and the old dialect is written."""
    fields = {"topic": "T", "__ZONE_MODE": "true", "__ZONE_NAME": "eAST"}
    found = asked(zoned(FIVE), FIVE, 105, fields)
    assert found == Answer(
        0,
        '{"brokerDatas":['
        '{"brokerAddrs":{0:"b:1"},"brokerName":"b","cluster":"C","enableActingMaster":false,"zoneName":"East"},'
        '{"brokerAddrs":{1:"d:1"},"brokerName":"d","cluster":"C","enableActingMaster":false,"zoneName":"west"}],'
        '"filterServerTable":{"b:1":["b:9"],"d:1":["d:9"]},"queueDatas":['
        '{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4},'
        '{"brokerName":"d","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}',
    )


@pytest.mark.parametrize(
    ("fields", "zone"),
    [
        ({"__ZONE_MODE": "True", "__ZONE_NAME": "z"}, "z"),
        ({"__ZONE_MODE": "false", "__ZONE_NAME": "z"}, None),
        ({"__ZONE_NAME": "z"}, None),
        ({"__ZONE_MODE": "true"}, None),
        ({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, None),
    ],
)
def test_a_zone_needs_the_mode_and_a_name(fields: Fields, zone: str | None) -> None:
    """A blank name is none."""
    assert zone_of(fields) == zone


def test_maps_behind_the_zone_filter_are_filled_anew() -> None:
    """Keys of one bucket stand as they were written: sorted in standard JSON, else as they were; nulls are gone."""
    info = TopicQueueMappingInfo("T", "b", 4, 1)
    kept = RouteBroker("b", "C", ((1, "BB"), (2, "Aa")), enable_acting_master=False, zone_name=None)
    route = TopicRouteData(
        (("b", QueueData(4, 4, 6, 0)),),
        (kept,),
        (("BB", ("x",)), ("Aa", ("y",)), ("c", None)),
        None,
        (("BB", info), ("Aa", info)),
    )
    in_order = within_zone(route, "z", sorted_maps=True)
    assert in_order.filter_server_table == (("Aa", ("y",)), ("BB", ("x",)))
    assert in_order.topic_queue_mapping_by_broker == (("Aa", info), ("BB", info))
    assert in_order.broker_datas == (kept,)
    as_it_was = within_zone(route, "z", sorted_maps=False)
    assert as_it_was.filter_server_table == (("BB", ("x",)), ("Aa", ("y",)))
    assert as_it_was.topic_queue_mapping_by_broker == (("BB", info), ("Aa", info))
