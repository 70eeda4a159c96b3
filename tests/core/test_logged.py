"""What lines of a name server's log show, row by row: what they change, what they leave alone, and what is known then."""

from __future__ import annotations

from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Outcome, Registry, take
from namesrv_core.machine import events
from namesrv_core.machine.draft import Step
from namesrv_core.machine.events import ChangeLogged, LoggedRow
from namesrv_core.machine.logged import CHANNEL_LOST, LEASE_ENDED
from namesrv_core.machine.past import ANY, Past
from namesrv_core.machine.rows import BrokerData, BrokerLiveInfo, KvValue, LiveKey, QueueData

QUEUES = QueueData(4, 4, 6, 0)
LIVE = BrokerLiveInfo(None, None, None, None, "b")
# Two groups, of which both have one address; topics of both; a namespace.
HELD = (
    LoggedRow("broker_addr", "b", None, ("C", "1.1.1.1:1")),
    LoggedRow("broker_addr", "c", None, ("C", "1.1.1.1:1")),
    LoggedRow("broker_addr", "d", None, ("D", "2.2.2.2:2")),
    LoggedRow("cluster_addr", "C", "b", value=True),
    LoggedRow("cluster_addr", "C", "c", value=True),
    LoggedRow("cluster_addr", "D", "d", value=True),
    LoggedRow("broker_live", "C", "1.1.1.1:1", LIVE),
    LoggedRow("topic_queue", "T", "b", QUEUES),
    LoggedRow("topic_queue", "T", "d", QUEUES),
    LoggedRow("topic_queue", "U", "d", QUEUES),
    LoggedRow("kv_config", "N", "k", KvValue("v")),
)


def held_by(registry: Registry) -> dict[str, Any]:
    """Return what the tables hold, as plain values."""
    return {
        "groups": {name: dict(group.broker_addrs) for name, group in registry.broker_addr_table.items()},
        "clusters": {name: sorted(map(str, names)) for name, names in registry.cluster_addr_table.items()},
        "live": sorted(registry.broker_live_table),
        "topics": {topic: sorted(map(str, rows)) for topic, rows in registry.topic_queue_table.items()},
        "kv": {name: {key: value.text for key, value in of.items()} for name, of in registry.kv_config_table.items()},
    }


def logged(registry: Registry, *rows: LoggedRow, operation: str = "register_broker") -> Step:
    """Take lines of one call."""
    return take(registry, ChangeLogged(operation, rows), 1_000, Namesrv(registry.profile))


def server(profile: Any = V4_9_7) -> Registry:
    """Return a registry that holds what lines have shown."""
    registry = Registry(profile)
    registry.past = Past(0)
    logged(registry, *HELD)
    return registry


ALL: dict[str, Any] = {
    "groups": {"b": {0: "1.1.1.1:1"}, "c": {0: "1.1.1.1:1"}, "d": {0: "2.2.2.2:2"}},
    "clusters": {"C": ["b", "c"], "D": ["d"]},
    "live": [LiveKey(None, "1.1.1.1:1")],
    "topics": {"T": ["b", "d"], "U": ["d"]},
    "kv": {"N": {"k": "v"}},
}


@pytest.mark.parametrize(
    ("row", "left"),
    [
        (LoggedRow("broker_addr", "d", None), {"groups": {**ALL["groups"], "d": None}, "topics": {"T": ["b"]}}),
        (LoggedRow("broker_addr", "b", None, ("C", "3.3.3.3:3")), {"groups": {**ALL["groups"], "b": {0: "3.3.3.3:3"}}}),
        (LoggedRow("address", "2.2.2.2:2", None), {"groups": {**ALL["groups"], "d": None}}),
        (LoggedRow("address", "1.1.1.1:1", None), {}),  # which of two groups has lost it, it does not say
        (LoggedRow("broker_live", None, "1.1.1.1:1"), {"live": []}),
        (LoggedRow("topic_queue", "T", "b"), {"topics": {"T": ["d"], "U": ["d"]}}),
        (LoggedRow("topic_queue", "T", ANY), {"topics": {"U": ["d"]}}),
        (LoggedRow("topic_queue", "V", ANY), {}),
        (LoggedRow("topic_queue", ANY, "d"), {"topics": {"T": ["b"]}}),
        (LoggedRow("cluster_addr", "C", "b"), {"clusters": {"C": ["c"], "D": ["d"]}}),
        (LoggedRow("cluster_addr", "C", ANY), {"clusters": {"D": ["d"]}}),
        (LoggedRow("cluster_addr", ANY, "d"), {"clusters": {"C": ["b", "c"]}}),
        (LoggedRow("cluster_addr", ANY, "x"), {}),
        (LoggedRow("kv_config", "N", "k"), {"kv": {"N": {}}}),
    ],
    ids=lambda of: f"{of.kind} {of.one} {of.other}" if isinstance(of, LoggedRow) else "",
)
def test_a_line_changes_what_it_names(row: LoggedRow, left: dict[str, Any]) -> None:
    """Each kind of row, put or gone, by a whole key or all of it; all other rows stay."""
    registry = server()
    assert held_by(registry) == ALL
    logged(registry, row)
    expected = {table: dict(of) if isinstance(of, dict) else of for table, of in {**ALL, **left}.items()}
    expected["groups"] = {name: of for name, of in expected["groups"].items() if of is not None}
    assert held_by(registry) == expected


def test_a_new_master_keeps_its_slaves() -> None:
    """The line tells of the master's address alone; who was known to be a slave still is, unless it is the master now."""
    registry = server()
    registry.broker_addr_table["b"] = BrokerData("C", ((0, "1.1.1.1:1"), (1, "4.4.4.4:4"), (2, "5.5.5.5:5")))
    logged(registry, LoggedRow("broker_addr", "b", None, ("C", "5.5.5.5:5")))
    assert dict(registry.broker_addr_table["b"].broker_addrs) == {0: "5.5.5.5:5", 1: "4.4.4.4:4"}


def test_a_live_entry_is_named_as_its_generation_does() -> None:
    """Only in 5.x the cluster is part of the key."""
    assert held_by(server(V5_4_0))["live"] == [LiveKey("C", "1.1.1.1:1")]


def test_operations_say_what_became_of_a_broker() -> None:
    """A lease that ended, a lost channel, and all else; a registry that is known completely learns nothing of a line."""
    gone = LoggedRow("broker_live", None, "1.1.1.1:1")
    assert logged(server(), gone, operation=LEASE_ENDED).outcome == Outcome.EXPIRED
    assert logged(server(), gone, operation=CHANNEL_LOST).outcome == Outcome.CHANNEL_LOST
    assert logged(server(), gone, operation="unregister_broker").outcome == Outcome.APPLIED
    known = Registry(V4_9_7)
    assert logged(known, *HELD).changes == ()
    assert held_by(known) == held_by(Registry(V4_9_7))


def test_what_a_line_shows_is_known_and_its_beginning_only_where_it_says_so() -> None:
    """A row that is new by the line was not there before; of another one it is open since when it was as it is."""
    registry = server()
    new, old = (LoggedRow("topic_queue", topic, "b", QUEUES, is_new) for topic, is_new in (("X", True), ("Y", False)))
    step = logged(registry, new, old, LoggedRow("broker_addr", "e", None, ("C", "6.6.6.6:6"), is_new=True))
    past = registry.past
    assert past is not None
    assert past.is_logged
    assert past.knows("topic_queue", "X", "b")
    assert past.knows("topic_queue", "Y", "b")
    assert past.knows("broker_addr", "e", 0)
    assert not past.knows("topic_queue", "Z", "b")
    assert step.certainty is not None
    assert step.certainty.begun == {("topic_queue", ("X", "b")), ("broker_addr", ("e", 0))}
    assert step.certainty.known == {*step.certainty.begun, ("topic_queue", ("Y", "b"))}


def test_a_start_that_a_log_tells_makes_nothing_else_known() -> None:
    """A recorded start makes all routes known, as nothing is missed from then on; a log does not show all that registers."""
    registry = server()
    assert registry.past is not None
    take(registry, events.NamesrvStarted(), 2_000, Namesrv(V4_9_7))
    assert not registry.past.knows("topic_queue", "Z", "b")
    assert held_by(registry)["topics"] == {}
