"""The sweep over one topic's rows: what clients saw change, and what could not be served."""

from __future__ import annotations

import json

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig
from namesrv_core.route_history import (
    Member,
    Orphan,
    Position,
    RouteHistory,
    RouteRow,
    stale_order_conf,
    sweep_route,
)
from namesrv_core.rows import KvValue, LiveKey, QueueData

OLD = Position(1, 0, "old", 1)
START = 1_000
MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"


def at(us: int, event_id: str, no: int = 0) -> Position:
    return Position(us * 1_000, no, event_id, us)


def queues(name: str = "broker-a", opened: Position = OLD, closed: Position | None = None, perm: int = 6) -> RouteRow:
    return RouteRow("topic_queue_table", name, QueueData(4, 4, perm, 0), opened, closed)


def member(
    broker_id: int = 0,
    addr: str = MASTER,
    opened: Position = OLD,
    closed: Position | None = None,
    name: str = "broker-a",
    *,
    acting: bool = False,
) -> RouteRow:
    return RouteRow("broker_addr_table", None, Member(name, broker_id, addr, "C", acting), opened, closed)


def live(
    addr: str = MASTER, opened: Position = OLD, closed: Position | None = None, cluster: str | None = None
) -> RouteRow:
    return RouteRow("broker_live_table", LiveKey(cluster, addr), None, opened, closed)


def sweep(*rows: RouteRow, namesrv: Namesrv | None = None, open_orphans: tuple[Orphan, ...] = ()) -> RouteHistory:
    return sweep_route("T", rows, namesrv or Namesrv(), start_us=START, open_orphans=open_orphans)


def test_a_route_that_was_there_before_the_start_is_no_change() -> None:
    """At a day boundary nothing happens to a client."""
    assert sweep(queues(), member(), live()) == RouteHistory((), ())


def test_a_route_appears_and_vanishes_with_the_events_that_did_it() -> None:
    """The JSON is the name server's, None where there is no route."""
    up, down = at(2_000, "up"), at(3_000, "down")
    found = sweep(queues("broker-a", up, down), member(opened=up, closed=down), live(MASTER, up, down))

    assert [(c.change, c.caused_by, c.effect_us) for c in found.changes] == [
        ("appeared", "up", 2_000),
        ("vanished", "down", 3_000),
    ]
    assert found.changes[0].route_before is None
    assert found.changes[0].route_after == found.changes[1].route_before
    assert json.loads(found.changes[0].route_after or "") == {
        "brokerDatas": [{"brokerAddrs": {"0": MASTER}, "brokerName": "broker-a", "cluster": "C"}],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
        ],
    }
    assert found.orphans == ()


def test_what_one_event_puts_and_replaces_is_one_step() -> None:
    """A row that closes and opens at one position never was away; the order of the rows given is free."""
    step = at(2_000, "again")
    rows = [queues(closed=step), queues(opened=step), member(), live(closed=step), live(opened=step)]

    assert sweep(*rows) == sweep(*reversed(rows)) == RouteHistory((), ())


def test_lists_are_sorted_by_broker_name() -> None:
    """Java's iteration order is not part of a route's history."""
    up = at(2_000, "up")
    rows = [queues(name, up) for name in ("broker-c", "broker-a", "broker-b")]
    rows += [member(name=name, addr=f"{name}:1", opened=up) for name in ("broker-b", "broker-c", "broker-a")]
    route = json.loads(sweep(*rows).changes[0].route_after or "")

    assert [data["brokerName"] for data in route["queueDatas"]] == ["broker-a", "broker-b", "broker-c"]
    assert [data["brokerName"] for data in route["brokerDatas"]] == ["broker-a", "broker-b", "broker-c"]


def test_a_lost_master_leaves_a_topic_without_master_and_without_writable_queue_until_it_is_back() -> None:
    """Each interval names the events that began and ended it."""
    down, back = at(2_000, "scan"), at(5_000, "register")
    found = sweep(queues(), member(closed=down), member(opened=back), member(1, SLAVE), live(SLAVE))

    assert found.orphans == (
        Orphan("no_master", None, 2_000, "scan", 5_000, "register"),
        Orphan("no_writable_queue", None, 2_000, "scan", 5_000, "register"),
    )
    assert [change.change for change in found.changes] == ["changed", "changed"]


def test_an_acting_master_is_a_master_but_gives_no_writable_queue() -> None:
    """The smallest id stands as 0 where the server supports it and the queue data has no write bit."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    up = at(2_000, "up")
    rows = [queues(opened=up, perm=4), member(1, SLAVE, up, acting=True), live(SLAVE, up, cluster="C")]

    assert [orphan.reason for orphan in sweep(*rows, namesrv=namesrv).orphans] == ["no_writable_queue"]
    assert f'"brokerAddrs":{{"0":"{SLAVE}"}}' in (sweep(*rows, namesrv=namesrv).changes[0].route_after or "")
    plain = sweep(*rows, namesrv=Namesrv(V5_4_0))
    assert [orphan.reason for orphan in plain.orphans] == ["no_master", "no_writable_queue"]


def test_a_live_entry_of_another_cluster_does_not_count_in_5x() -> None:
    """The live key is (cluster, address) in 5.x and the address alone in 4.x."""
    up = at(2_000, "up")
    other = sweep(queues(opened=up), member(opened=up), live(opened=up, cluster="D"), namesrv=Namesrv(V5_4_0))

    assert [orphan.reason for orphan in other.orphans] == ["no_live_broker"]
    assert sweep(queues(opened=up), member(opened=up), live(opened=up), namesrv=Namesrv(V4_9_7)).orphans == ()


def test_a_group_without_members_is_no_broker_address() -> None:
    """5.x can hold a group with no address: the topic is routed to nobody."""
    up = at(2_000, "up")
    empty = RouteRow("broker_addr_table", None, Member("broker-a", None, None, "C"), up)
    found = sweep(queues(opened=up), empty, namesrv=Namesrv(V5_4_0))

    assert [orphan.reason for orphan in found.orphans] == ["no_broker_address", "no_writable_queue"]
    assert '"brokerAddrs":{}' in (found.changes[0].route_after or "")


def test_order_conf_is_shown_only_with_order_message_enable_but_judged_always() -> None:
    """A server that does not serve the order conf still holds it, and it still can be stale."""
    put = at(2_000, "put")
    conf = RouteRow("kv_config_table", None, KvValue("broker-a:4;broker-b:4"), put)
    rows = [queues(), member(), live(), conf]

    assert [(orphan.reason, orphan.opened_by) for orphan in sweep(*rows).orphans] == [("stale_order_conf", "put")]
    assert sweep(*rows).changes == ()
    served = sweep(*rows, namesrv=Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True)))
    assert '"orderTopicConf":"broker-a:4;broker-b:4"' in (served.changes[0].route_after or "")


def test_stale_order_conf_judges_names_and_queue_counts() -> None:
    """Fewer queues than there are is a choice, more is an error; an empty text says nothing."""
    held: dict[str | None, QueueData] = {"broker-a": QueueData(8, 4, 6, 0)}

    assert not stale_order_conf("broker-a:4", held)
    assert not stale_order_conf("broker-a:2;", held)
    assert not stale_order_conf(None, held)
    assert stale_order_conf("broker-a:5", held)
    assert stale_order_conf("broker-b:1", held)
    assert stale_order_conf("broker-a", held)


def test_residual_lasts_from_the_report_that_omits_the_topic_to_the_one_that_lists_it() -> None:
    """A registration of the master that does not list the topic leaves its queue data behind in 4.x."""

    def report(position: Position, *, listed: bool) -> RouteRow:
        return RouteRow("reported", "broker-a", listed, position)

    without, again = at(2_000, "without", 9), at(3_000, "again", 9)
    rows = [queues(), member(), live()]
    ended = sweep(*rows, report(without, listed=False), report(again, listed=True))
    assert ended.orphans == (Orphan("residual", "broker-a", 2_000, "without", 3_000, "again"),)
    gone = sweep(queues(closed=at(2_500, "delete")), member(), live(), report(without, listed=False))
    assert gone.orphans == (Orphan("residual", "broker-a", 2_000, "without", 2_500, "delete"),)


def test_open_orphans_keep_their_beginning_and_those_that_no_longer_hold_are_dropped() -> None:
    """A day continues the intervals of the day before; residual goes on until a report says otherwise."""
    carried = (
        Orphan("no_live_broker", None, 5, "yesterday"),
        Orphan("residual", "broker-a", 6, "before"),
        Orphan("no_master", None, 7, "long gone"),
    )
    found = sweep(queues(), member(), live(opened=at(2_000, "back")), open_orphans=carried)

    assert found.orphans == (
        Orphan("no_live_broker", None, 5, "yesterday", 2_000, "back"),
        Orphan("residual", "broker-a", 6, "before"),
    )
