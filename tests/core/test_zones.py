"""Clients that name their zone: what a 5.x name server leaves out of a route for them."""

from __future__ import annotations

import pytest

from namesrv_core.asking.answers import TopicRouteData, within_zone
from namesrv_core.asking.requests import Fields, zone_of
from namesrv_core.machine.tables import BrokerData, QueueData, TopicQueueMappingInfo


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
    kept = "b", BrokerData("C", ((1, "BB"), (2, "Aa")))
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
