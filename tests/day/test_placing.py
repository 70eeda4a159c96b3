"""Which unit each event and each open row belongs to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_day.arrow.rows import rows_of
from namesrv_day.day.day_events import BEATS, day_events
from namesrv_day.plan.placing import carried, nodes_of, packed, placed
from tests.day.plan_rows import NAMESRV, Row, frames, hours, opened, others, row

QUEUES = {"read_queue_nums": 1, "write_queue_nums": 1, "perm": 6, "topic_sys_flag": 0}
ONE: Row = {"broker_name": "one", "broker_addr": "1:1", "channel_id": "1:1#1"}
TWO: Row = {"broker_name": "two", "broker_addr": "2:1", "channel_id": "2:1#1"}
WELL = [row("registrations", 1, **ONE), row("registrations", 2, **TWO)]
"""Two brokers that share nothing."""


def units_of(*rows: Row, profile: Profile = V5_4_0, whole: bool = False, **open_rows: pa.Table) -> dict[str, str]:
    """Return the unit of each node."""
    nodes = nodes_of(others(*rows), hours(*rows), open_rows, Namesrv(profile), whole=whole)
    return dict(zip(nodes["node"].to_pylist(), nodes["unit"].to_pylist(), strict=True))


def together(*rows: Row, **open_rows: pa.Table) -> bool:
    """Return whether the two brokers are one unit."""
    found = units_of(*WELL, *rows, **open_rows)
    return found["n:one"] == found["n:two"]


def is_whole(profile: Profile, *rows: Row, **open_rows: pa.Table) -> bool:
    """Return whether a third broker, whom nothing of this concerns, is in the same unit as the others."""
    bystander = row("registrations", 3, broker_name="three", broker_addr="3:1", channel_id="3:1#1", cluster_name="E")
    found = units_of(*rows, bystander, profile=profile, **open_rows)
    return len({unit for node, unit in found.items() if node not in {"kv", "elsewhere"}}) == 1


def test_a_broker_is_its_name_its_address_and_its_connection() -> None:
    """Units are named after the smallest node; KV entries and what belongs to nobody are units, too."""
    assert units_of(*WELL) == {
        **dict.fromkeys(("a:1:1", "n:one", "c:1:1#1"), "a:1:1"),
        **dict.fromkeys(("a:2:1", "n:two", "c:2:1#1"), "a:2:1"),
        "kv": "kv",
        "elsewhere": "elsewhere",
    }
    assert units_of() == {"kv": "kv", "elsewhere": "elsewhere"}


@pytest.mark.parametrize(
    "event",
    [
        row("heartbeats", 9, broker_name="one", broker_addr="2:1"),
        row("registrations", 9, broker_name="one", broker_addr="2:1", channel_id="2:1#2"),
        row("registrations", 9, **{**TWO, "channel_id": "1:1#1"}),
        row("unregistrations", 9, broker_name="one", broker_addr="2:1"),
        row("admin_events", 9, code=217, queue_datas=[{"broker_name": name, **QUEUES} for name in ("one", "two")]),
        row("channel_events", 9, remote_addr="2:1", channel_id="1:1#1"),
    ],
    ids=["heartbeat", "registration", "one connection", "unregistration", "a topic for both", "remote address"],
)
def test_events_tie_brokers_together(event: Row) -> None:
    """Whoever is said to have another's address, name or connection is replayed with it."""
    assert together(event)


@pytest.mark.parametrize(
    "event",
    [
        row("heartbeats", 9, broker_name=None, broker_addr="2:1"),
        row("registrations", 9, broker_name="four", broker_addr="4:1", channel_id="4:1#1"),
        row("admin_events", 9, code=205, broker_name="one"),
        row("admin_events", 9, code=217, queue_datas=[{"broker_name": "one", **QUEUES}]),
        row("channel_events", 9, remote_addr="2:4000", channel_id="1:1#1"),
        row("channel_events", 9, remote_addr="9:9", channel_id="2:1#1"),
    ],
)
def test_others_do_not(event: Row) -> None:
    """A heartbeat without a name says nothing of names; who was never heard of ties nobody together."""
    assert not together(event)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("broker_addr_history", {"broker_name": "one", "broker_addr": "2:1"}),
        ("broker_live_history", {"broker_addr": "1:1", "channel_id": "2:1#1"}),
        ("data_version_history", {"broker_name": "one", "broker_addr": "2:1"}),
    ],
)
def test_open_rows_tie_brokers_together(table: str, columns: dict[str, Any]) -> None:
    """What was so when the day began is so until it changes."""
    assert together(**{table: opened(table, columns)})


def test_every_open_row_has_a_node() -> None:
    """Whoever is in a table, with a null as its key, too, belongs to a unit."""
    null = {"broker_name": None, "broker_addr": None, "bname": None}
    tables = (
        *("broker_addr_history", "broker_live_history", "data_version_history", "cluster_addr_history"),
        *("topic_queue_history", "filter_server_history", "topic_queue_mapping_history"),
    )
    for table in tables:
        of_row = opened(table, {"bname": "one"} | ONE if "mapping" in table else ONE, null)
        nodes = nodes_of(others(), hours(), {table: of_row}, Namesrv(V4_9_7))
        assert carried(of_row, table, nodes).num_rows == 2, table


CROSSINGS = [
    pytest.param([row("registrations", 9, **{**ONE, "channel_id": None})], (), id="no connection"),
    pytest.param([row("registrations", 9, **{**ONE, "broker_addr": None})], (V4_9_7, V5_4_0), id="no address"),
    pytest.param([row("unregistrations", 9, broker_name=None)], (V4_9_7, V5_4_0), id="unregistered without name"),
    pytest.param([row("unregistrations", 9, broker_addr=None)], (V4_9_7, V5_4_0), id="unregistered without address"),
    pytest.param([row("admin_events", 9, code=205)], (V4_9_7, V5_4_0), id="wiped without name"),
    pytest.param([row("admin_events", 9, code=327)], (V4_9_7, V5_4_0), id="added without name"),
    pytest.param([row("admin_events", 9, code=216)], (V4_9_7, V5_4_0), id="no topic deleted"),
    pytest.param(
        [row("admin_events", 9, code=217, queue_datas=[{"broker_name": n, **QUEUES} for n in ("one", None)])],
        (V4_9_7, V5_4_0),
        id="a topic for two",
    ),
    pytest.param([row("registrations", 9, **{**ONE, "cluster_name": "D"})], (V4_9_7,), id="two clusters"),
    pytest.param([row("admin_events", 9, code=318)], (), id="a configuration"),
    pytest.param([row("admin_events", 9, code=216, topic="T")], (), id="a topic deleted"),
    pytest.param([row("heartbeats", 9, cluster_name="D", broker_addr=None)], (), id="a heartbeat of nobody"),
    pytest.param([row("registrations", 9, **{**ONE, "cluster_name": None})], (), id="no cluster"),
]


@pytest.mark.parametrize(("rows", "profiles"), CROSSINGS)
def test_what_crosses_units_makes_them_one(rows: list[Row], profiles: tuple[Profile, ...]) -> None:
    """Nulls that end a request or a scan by what others have in the tables, and what is first in the order of a map."""
    for profile in (V4_9_7, V5_4_0):
        assert is_whole(profile, row("registrations", 1, **ONE), *rows) is (profile in profiles)


@pytest.mark.parametrize(
    ("table", "columns", "profiles"),
    [
        ("broker_live_history", {"channel_id": None}, ()),
        ("broker_addr_history", {"broker_addr": None}, (V4_9_7, V5_4_0)),
        ("cluster_addr_history", {"cluster_name": "D"}, (V4_9_7,)),
    ],
)
def test_open_rows_cross_units_too(table: str, columns: dict[str, Any], profiles: tuple[Profile, ...]) -> None:
    """What was there when the day began may meet what comes."""
    for profile in (V4_9_7, V5_4_0):
        crossed = is_whole(profile, row("registrations", 1, **ONE), **{table: opened(table, columns)})
        assert crossed is (profile in profiles)


def test_an_unknown_past_is_one_unit() -> None:
    """An answer may show anything: what belongs to nobody is replayed with all the rest."""
    assert set(units_of(*WELL, whole=True).values()) == {"whole"}


# -- events ------------------------------------------------------------------------------------------------------------

EVENTS = {
    "a heartbeat": (row("heartbeats", 11, **TWO), ["a:2:1"]),
    "a registration": (row("registrations", 12, **ONE), ["a:1:1"]),
    "an unregistration": (row("unregistrations", 13, **TWO), ["a:2:1"]),
    "wiped": (row("admin_events", 14, code=205, broker_name="two"), ["a:2:1"]),
    "wiped, unknown": (row("admin_events", 15, code=205, broker_name="ten"), ["n:ten"]),
    "a topic": (row("admin_events", 16, code=217, queue_datas=[{"broker_name": "two", **QUEUES}]), ["a:2:1"]),
    "a topic of nobody": (row("admin_events", 17, code=217, queue_datas=[]), ["elsewhere"]),
    "put": (row("admin_events", 18, code=100, namespace="N"), ["kv"]),
    "deleted": (row("admin_events", 19, code=102, namespace="N"), ["kv"]),
    "a configuration": (row("admin_events", 20, code=318), ["elsewhere"]),
    "a close": (row("channel_events", 21, channel_id="2:1#1", remote_addr="2:4000"), ["a:2:1"]),
    "a client's close": (row("channel_events", 22, channel_id="9:1#1", remote_addr="9:1"), ["elsewhere"]),
    "a close of an address": (row("channel_events", 23, channel_id="9:2#1", remote_addr="1:1"), ["a:1:1"]),
    "a topic's deletion": (
        row("admin_events", 24, code=216, topic="T"),
        ["a:1:1", "a:2:1", "elsewhere", "kv", "n:ten"],
    ),
    "a start": (row("namesrv_events", 25, kind="started"), ["a:1:1", "a:2:1", "elsewhere", "kv", "n:ten"]),
}


def everything() -> tuple[pa.Table, pa.Table]:
    """Return the events of a day with all of these, and its nodes, each unit in a pack of its own."""
    rows = [*WELL, *(event for event, _ in EVENTS.values())]
    nodes = nodes_of(others(*rows), hours(*rows), {}, Namesrv(V5_4_0))
    units = sorted(set(nodes["unit"].to_pylist()))
    packs = pa.array([units.index(unit) for unit in nodes["unit"].to_pylist()], pa.int32())
    return pa.concat_tables([others(*rows), day_events(frames(*rows), tables=BEATS)]), nodes.append_column(
        "pack", packs
    )


def units_by_event(events: pa.Table) -> dict[str, list[str]]:
    """Return the units in which each event is, by its id."""
    found: dict[str, list[str]] = {}
    for event in rows_of(events.select(["event_id", "unit"])):
        found.setdefault(event["event_id"], []).append(event["unit"])
    return {event_id: sorted(units) for event_id, units in found.items()}


@pytest.mark.parametrize("what", EVENTS)
def test_an_event_is_in_its_unit(what: str) -> None:
    """By its address, its name, or its connection; what concerns whoever is registered is in all units."""
    event, units = EVENTS[what]
    assert units_by_event(placed(*everything()))[event["event_id"]] == units


def test_events_are_placed_in_packs_as_they_are_in_all() -> None:
    """Who has only the nodes of a pack places the events that were packed for it in the same units."""
    events, nodes = everything()
    of_packs = packed(events, nodes)
    for pack in set(nodes["pack"].to_pylist()):
        own, mine = (rows.filter(pc.field("pack") == pack) for rows in (of_packs, nodes))
        of_pack = set(mine["unit"].to_pylist())
        expected = {e: [u for u in units if u in of_pack] for e, units in units_by_event(placed(events, nodes)).items()}
        assert units_by_event(placed(own, mine)) == {event_id: units for event_id, units in expected.items() if units}


def test_events_of_some_units_leave_the_others_out() -> None:
    """What belongs to none of the nodes is not given to those who are there; what concerns all of them is."""
    events, nodes = everything()
    some = nodes.filter(pc.field("unit") == "a:2:1")
    found = units_by_event(placed(events, some))
    expected = {event["event_id"]: ["a:2:1"] for event, units in EVENTS.values() if "a:2:1" in units}
    assert found == {**expected, "registrations-2": ["a:2:1"]}


# -- open rows ---------------------------------------------------------------------------------------------------------

NODES = pa.table(
    {"node": ["a:1:1", "n:one", "n", "a", "kv", "elsewhere"], "unit": ["u", "u", "v", "w", "kv", "elsewhere"]}
)


def carried_units(table: str, *rows: dict[str, Any]) -> list[str]:
    """Return the units of rows that belong to one of the nodes."""
    found: list[str] = carried(opened(table, *rows), table, NODES)["unit"].to_pylist()
    return found


def test_open_rows_belong_to_their_key() -> None:
    """An address before a name; a null is a key; whose node is another pack's is left out."""
    addrs: tuple[Row, ...] = ({}, {"broker_addr": None}, {"broker_addr": "2:1"})
    for table in ("broker_addr_history", "broker_live_history", "data_version_history", "filter_server_history"):
        assert carried_units(table, *addrs) == ["u", "w"]
    for table in ("topic_queue_history", "cluster_addr_history"):
        assert carried_units(table, {}, {"broker_name": None}, {"broker_name": "two"}) == ["u", "v"]
    assert carried_units("topic_queue_mapping_history", {"bname": "one"}, {"bname": None}, {"bname": "x"}) == ["u", "v"]


def test_rows_without_a_broker_have_units_of_their_own() -> None:
    """KV entries are theirs; what is known of the past is where everything is."""
    assert carried_units("kv_config_history", {"namespace": "N"}) == ["kv"]
    assert carried_units("past_knowledge", {"what": "known"}) == ["elsewhere"]
    brokers = NODES.slice(0, 4)
    for table in ("kv_config_history", "past_knowledge"):
        assert carried(opened(table, {}), table, brokers).num_rows == 0
    assert {NAMESRV} == set(
        carried(opened("kv_config_history", {}), "kv_config_history", NODES)["namesrv_id"].to_pylist()
    )
