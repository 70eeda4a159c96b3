"""The sweep over one topic's rows: what clients saw change, and what could not be served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig, Registry
from namesrv_core.asking.answers import route_json
from namesrv_core.asking.queries import pickup_topic_route_data
from namesrv_core.history.route_history import (
    Member,
    Orphan,
    Position,
    RouteChange,
    RouteHistory,
    RoutePart,
    RouteRow,
    Size,
    stale_order_conf,
    sweep_route,
)
from namesrv_core.machine.registry import Change
from namesrv_core.machine.rows import BrokerData, KvValue, LiveKey, QueueData, TopicQueueMappingInfo
from tests.compare_gold import route_text

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


def route_of(appeared: RouteChange) -> str:
    """Return the route that appeared, as JSON."""
    return route_text({(part, name): text or "" for part, name, text in appeared.parts}) or ""


def test_a_route_that_was_there_before_the_start_is_no_change() -> None:
    """At a day boundary nothing happens to a client."""
    assert sweep(queues(), member(), live()) == RouteHistory((), ())


def becomes(namesrv: Namesrv, opened: Position) -> RouteRow:
    """Return where the name server becomes another."""
    return RouteRow("namesrv", None, namesrv, opened._replace(no=-1))


def test_a_route_is_that_of_the_process_that_runs() -> None:
    """After a restart with another configuration a slave acts as master, and no sooner; the same rows, 4.x and 5.x."""
    acts, plain = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True)), Namesrv(V4_9_7)
    stop, start, up = at(2_000, "stop"), at(3_000, "start"), at(4_000, "up")
    rows = [queues(closed=stop, perm=4), member(1, SLAVE, closed=stop, acting=True), live(SLAVE, closed=stop)]
    after = [queues(opened=up, perm=4), member(1, SLAVE, up, acting=True), live(SLAVE, up, cluster="C")]
    found = sweep(*rows, *after, becomes(acts, start), namesrv=plain)
    assert [(c.change, c.caused_by) for c in found.changes] == [("vanished", "stop"), ("appeared", "up")]
    route = json.loads(route_of(found.changes[1]))
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": SLAVE}
    assert route["brokerDatas"][0]["enableActingMaster"] is True
    reasons = {(o.reason, o.opened_by, o.closed_by) for o in found.orphans}
    assert reasons == {("no_master", "old", "stop"), ("no_writable_queue", "old", "stop")} | {
        ("no_writable_queue", "up", None)
    }


def test_a_changed_configuration_changes_routes_by_itself() -> None:
    """An order conf is served from the change on, and no more after the next one; the topic's rows stay as they are."""
    conf = RouteRow("kv_config_table", None, KvValue("broker-a:4"), OLD)
    on, off = Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True)), Namesrv(V4_9_7)
    turns = [becomes(on, at(2_000, "on")), becomes(off, at(3_000, "off"))]
    found = sweep(queues(), member(), live(), conf, *turns, namesrv=off)
    assert [(c.change, c.caused_by, c.parts) for c in found.changes] == [
        ("changed", "on", (RoutePart("orderTopicConf", None, '"broker-a:4"'),)),
        ("changed", "off", (RoutePart("orderTopicConf", None, None),)),
    ]
    assert found.orphans == ()


def test_a_route_appears_and_vanishes_with_the_events_that_did_it() -> None:
    """The JSON is the name server's, None where there is no route."""
    up, down = at(2_000, "up"), at(3_000, "down")
    found = sweep(queues("broker-a", up, down), member(opened=up, closed=down), live(MASTER, up, down))

    assert [(c.change, c.caused_by, c.seq, c.effect_us) for c in found.changes] == [
        ("appeared", "up", 2_000_000, 2_000),
        ("vanished", "down", 3_000_000, 3_000),
    ]
    appeared, vanished = found.changes
    route = route_of(appeared)
    assert (appeared.before, appeared.after) == (Size(0, 0), Size(1, len(route)))
    assert (vanished.before, vanished.after) == (appeared.after, Size(0, 0))
    assert vanished.parts == tuple(part._replace(text=None) for part in appeared.parts)
    assert json.loads(route) == {
        "brokerDatas": [{"brokerAddrs": {"0": MASTER}, "brokerName": "broker-a", "cluster": "C"}],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
        ],
    }
    assert found.orphans == ()


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
    assert f'"brokerAddrs":{{"0":"{SLAVE}"}}' in route_of(sweep(*rows, namesrv=namesrv).changes[0])
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
    assert '"brokerAddrs":{}' in route_of(found.changes[0])


def test_order_conf_is_shown_only_with_order_message_enable_but_judged_always() -> None:
    """A server that does not serve the order conf still holds it, and it still can be stale."""
    put = at(2_000, "put")
    conf = RouteRow("kv_config_table", None, KvValue("broker-a:4;broker-b:4"), put)
    rows = [queues(), member(), live(), conf]

    assert [(orphan.reason, orphan.opened_by) for orphan in sweep(*rows).orphans] == [("stale_order_conf", "put")]
    assert sweep(*rows).changes == ()
    served = sweep(*rows, namesrv=Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True)))
    assert served.changes[0].parts == (RoutePart("orderTopicConf", None, '"broker-a:4;broker-b:4"'),)


def test_stale_order_conf_judges_names_and_queue_counts() -> None:
    """Fewer queues than there are is a choice, more is an error; an empty text says nothing."""
    held: dict[str | None, QueueData] = {"broker-a": QueueData(8, 4, 6, 0)}

    assert not stale_order_conf("broker-a:4", held)
    assert not stale_order_conf("broker-a:2;", held)
    assert not stale_order_conf(None, held)
    assert stale_order_conf("broker-a:5", held)
    assert stale_order_conf("broker-b:1", held)
    assert stale_order_conf("broker-a", held)
    assert stale_order_conf("broker-a:x", held)
    assert stale_order_conf(";broker-b:1", held)
    assert not stale_order_conf("a:b:4", {"a:b": QueueData(8, 4, 6, 0)})


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


def test_rows_that_open_at_the_start_are_changes() -> None:
    """The start is the first instant of the day, not the last of the day before."""
    first = at(START, "first")
    found = sweep(queues(opened=first), member(opened=first), live(opened=first))
    assert [(change.change, change.caused_by) for change in found.changes] == [("appeared", "first")]


def test_queue_data_without_any_group_have_no_broker_address() -> None:
    """5.x: registered with REGISTER_TOPIC, and then the group left."""
    up = at(2_000, "up")
    found = sweep(queues(opened=up))
    assert found.changes == ()
    assert [orphan.reason for orphan in found.orphans] == ["no_broker_address", "no_writable_queue"]


def test_topic_is_without_live_broker_from_the_end_of_the_last_live_entry() -> None:
    """A live entry that goes while the group stays (5.x: a rejected registration) leaves the address behind."""
    gone, back = at(2_000, "rejected"), at(3_000, "register")
    found = sweep(queues(), member(), live(closed=gone), live(opened=back))
    assert found.orphans == (Orphan("no_live_broker", None, 2_000, "rejected", 3_000, "register"),)
    assert found.changes == ()


def test_reason_that_holds_at_the_start_begins_with_the_youngest_row() -> None:
    """Without an interval of the day before, the latest event that made the state is named."""
    youngest = Position(9, 0, "youngest", 7)
    found = sweep(queues(), member(opened=youngest))
    assert found.orphans == (Orphan("no_live_broker", None, 7, "youngest"),)


def test_orphans_come_in_the_order_of_their_beginnings() -> None:
    """Then by reason, then by broker name; whatever ended first."""
    reports = [RouteRow("reported", name, False, at(2_000, "report", 9)) for name in ("broker-b", "broker-a")]
    put, deleted = at(1_500, "put"), at(4_000, "delete")
    conf = RouteRow("kv_config_table", None, KvValue("nobody:1"), put, at(3_000, "unput"))
    rows = [queues(closed=deleted), queues("broker-b", closed=deleted), member(), member(name="broker-b", addr=SLAVE)]
    found = sweep(*rows, live(), *reports, conf)
    assert found.orphans == (
        Orphan("stale_order_conf", None, 1_500, "put", 3_000, "unput"),
        Orphan("residual", "broker-a", 2_000, "report", 4_000, "delete"),
        Orphan("residual", "broker-b", 2_000, "report", 4_000, "delete"),
    )


def test_latest_report_before_the_start_counts() -> None:
    """Whatever the order of the rows: a topic that was omitted last is residual, one that was listed last is not."""
    earlier, later = Position(2, 0, "earlier", 2), Position(3, 0, "later", 3)
    for listed_last in (False, True):
        reports = [
            RouteRow("reported", "broker-a", listed_last, later),
            RouteRow("reported", "broker-a", not listed_last, earlier),
        ]
        found = sweep(queues(), member(), live(), *reports)
        assert [orphan.reason for orphan in found.orphans] == ([] if listed_last else ["residual"])


def test_broker_without_a_name_has_a_place_in_a_route() -> None:
    """4.9.7 registers a request without a broker name under null; its name is left out, and it sorts first."""
    up = at(2_000, "up")
    nameless = RouteRow("broker_addr_table", None, Member(None, 0, SLAVE, "C"), up)
    rows = [queues(opened=up), member(opened=up), RouteRow("topic_queue_table", None, QueueData(1, 1, 6, 0), up)]
    (change,) = sweep(*rows, nameless, live(opened=up)).changes
    route = json.loads(route_of(change))
    assert route["brokerDatas"][0] == {"brokerAddrs": {"0": SLAVE}, "cluster": "C"}
    assert [data.get("brokerName") for data in route["queueDatas"]] == [None, "broker-a"]


@st.composite
def histories(draw: st.DrawFn) -> list[RouteRow]:
    """Return rows of a topic of 5.4.0 on two names: intervals, one after another or with gaps, many in one event."""
    rows = []
    for table, key, values in _kinds():
        ends = sorted(draw(st.sets(st.integers(1, 9), max_size=5)))
        for number, (opened, closed) in enumerate(zip(ends, [*ends, None][1:], strict=True)):
            if draw(st.booleans()):
                value = values[(number + draw(st.integers(0, 1))) % len(values)]
                rows.append(RouteRow(table, key, value, at(opened, "e"), at(closed, "e") if closed else None))
    return rows


def _kinds() -> Iterator[tuple[Any, object, list[object]]]:
    for name in ("a", "b"):
        yield "topic_queue_table", name, [QueueData(4, 4, perm, 0) for perm in (6, 4)]
        for broker_id in (0, 1):
            addr = f"{name}{broker_id}:1"
            yield "broker_addr_table", None, [Member(name, broker_id, addr, "C", True, zone) for zone in (None, "z")]
            yield "filter_server_table", LiveKey("C", addr), [("f:1",), ("f:1", "f:2")]
        yield "topic_queue_mapping_info_table", name, [TopicQueueMappingInfo("T", name, 4, epoch) for epoch in (1, 2)]
    yield "kv_config_table", None, [KvValue("a:4"), KvValue("b:8;a:2")]


def whole_route(rows: list[RouteRow], us: int, namesrv: Namesrv) -> str | None:
    """Return the route at an instant: the answer of a registry filled with the rows that are open then."""
    groups: dict[str | None, list[Member]] = {}
    changes = []
    for row in rows:
        if row.opened.effect_us > us or (row.closed is not None and us >= row.closed.effect_us):
            continue
        if isinstance(row.value, Member):
            groups.setdefault(row.value.broker_name, []).append(row.value)
        elif isinstance(row.key, LiveKey):
            changes.append(Change("filter_server_table", row.key, row.value))
        elif row.table == "kv_config_table":
            changes.append(Change("kv_config_table", ("ORDER_TOPIC_CONFIG", "T"), row.value))
        elif row.table in ("topic_queue_table", "topic_queue_mapping_info_table"):
            changes.append(Change(row.table, ("T", str(row.key)), row.value))
    for name, members in groups.items():
        by_id = sorted(members, key=lambda member: member.broker_id or 0)
        first = by_id[0]
        addrs = tuple((member.broker_id or 0, member.broker_addr) for member in by_id)
        group = BrokerData(first.cluster_name, addrs, first.enable_acting_master, first.zone_name)
        changes.append(Change("broker_addr_table", (name,), group))
    registry = Registry(namesrv.profile)
    registry.apply(changes, 0)
    route = pickup_topic_route_data(registry, "T", namesrv)
    if route is None:
        return None
    queue_datas = tuple(sorted(route.queue_datas, key=lambda entry: entry[0] or ""))
    broker_datas = tuple(sorted(route.broker_datas, key=lambda broker: broker.broker_name or ""))
    return route_json(route._replace(queue_datas=queue_datas, broker_datas=broker_datas), namesrv, standard=True)


@given(histories(), st.booleans(), st.booleans())
def test_parts_put_together_are_the_route_of_a_registry(rows: list[RouteRow], acting: bool, order: bool) -> None:  # noqa: FBT001
    """After each event, the folded parts and the sizes are those of the answer; events without a change leave it equal."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=acting, order_message_enable=order))
    changes = {change.effect_us: change for change in sweep_route("T", rows, namesrv, start_us=0).changes}
    parts: dict[tuple[str, str | None], str] = {}
    before: str | None = None
    for us in range(1, 11):
        if change := changes.pop(us, None):
            for part, name, text in change.parts:
                assert parts.pop((part, name), None) != text
                parts |= {} if text is None else {(part, name): text}
            assert change.before.length == len(before or "")
            assert change.after.length == len(route_text(parts) or "")
        before = whole_route(rows, us, namesrv)
        assert route_text(parts) == before
    assert not changes
