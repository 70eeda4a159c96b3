"""publish_info_at and subscribe_info_at: what SQL says of a route is what the pure functions say of it.

10.0.0.9:9876 answers every route below at 10:00; TopicA changes at 11:00 and vanishes at 12:00. The name server's
generation is also the clients'.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest

from jobs.ask.engine import Answers
from jobs.cli.views import register_views
from jobs.session import for_questions
from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.asking.answers import route_json
from namesrv_core.asking.queries import RouteBroker, TopicRouteData
from namesrv_core.machine.rows import QueueData, TopicQueueMappingInfo
from schemas import gold
from tests.cli.rows import publish, warehouse_at
from tests.oracle.client import (
    UnusableRouteError,
    find_broker_address_in_subscribe,
    static_topic_endpoints,
    topic_publish_info,
    topic_subscribe_info,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROFILES = {profile.name: profile for profile in (V4_9_7, V5_4_0)}
NAMESRV = {profile.name: f"10.0.0.9:{profile.name[0]}" for profile in PROFILES.values()}
DAY = dt.date(2026, 3, 1)
AT = {hour: dt.datetime(2026, 3, 1, hour) for hour in (10, 11, 12)}  # noqa: DTZ001  the zone is UTC
Row = tuple[object, ...]


def group(name: str, *ids: int) -> RouteBroker:
    addrs = tuple((member, f"{name}-{member}:10911") for member in ids)
    return RouteBroker(name, "C", addrs, enable_acting_master=False, zone_name=None)


def route(conf: str | None = None, *mappings: TopicQueueMappingInfo) -> TopicRouteData:
    """Return a route of brokers with every mixture of permission, queue numbers and addresses."""
    queue_datas = (
        ("b", QueueData(2, 1, 6, 0)),
        ("\uff5e", QueueData(1, 1, 7, 0)),
        ("\U0001f600", QueueData(1, 1, 6, 0)),
        ("a", QueueData(1, 2, 6, 0)),
        ("read-only", QueueData(3, 3, 4, 0)),
        ("write-only", QueueData(3, 3, 2, 0)),
        ("headless", QueueData(1, 1, 6, 0)),
        ("empty", QueueData(0, -1, 6, 0)),
        ("unrouted", QueueData(1, 1, 6, 0)),
        ("nobody", QueueData(1, 1, 6, 0)),
    )
    groups = [group(name, 0, 1) for name in ("a", "b", "\uff5e", "\U0001f600", "read-only", "write-only", "empty")]
    by_broker = tuple((info.bname, info) for info in mappings)
    return TopicRouteData(
        queue_datas, (*groups, group("headless", 2, 10), group("nobody")), (), conf, by_broker or None
    )


def mapping(bname: str, total: int, epoch: int, ids: str, scope: str | None = None) -> TopicQueueMappingInfo:
    return TopicQueueMappingInfo("T", bname, total, epoch, scope=scope, curr_id_map=ids)


ROUTES = {
    "plain": route(),
    "empty": TopicRouteData((), (), (), None, None),
    "empty conf": route(""),
    "conf": route("b:2;a:1;b:1;unknown:+2;headless:1;none:-1;a:1:junk;;"),
    "only a semicolon": route(";"),
    "static": route(None, mapping("a", 2, 1, '{"0":0,"1":5}'), mapping("b", 4, 2, '{"1":0,"9":1}')),
    "static without queues": route(None, mapping("a", 0, 1, "{}")),
    "static of a scope": route(None, mapping("a", 1, 1, '{"0":0}', scope="s")),
    "static with conf": route("b:1", mapping("a", 1, 1, '{"0":0}')),
    "static with empty conf": route("", mapping("a", 1, 1, '{"0":0}')),
    "no name": route()._replace(queue_datas=((None, QueueData(1, 1, 6, 0)),)),
    **{f"malformed {conf}": route(conf) for conf in ("a", "a:", "a:x", "a: 1", "a:1;;b:1", ":", "a:2147483648")},
}


HUGE = TopicRouteData((("a", QueueData(2**31 - 1, 2**31 - 1, 6, 0)),), (group("a", 0),), (), None, None)


def routes_of(profile: Profile) -> dict[str, TopicRouteData]:
    """Return the routes as a name server of a generation has them: 4.x has no mappings."""
    if profile.stores_topic_queue_mapping:
        return ROUTES
    return {topic: found._replace(topic_queue_mapping_by_broker=None) for topic, found in ROUTES.items()}


def parts_of(text: str) -> list[dict[str, str | None]]:
    """Return a route's JSON in its parts, as `route_changes` has them."""

    def said(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    parts: list[tuple[str, str | None, str]] = []
    for part, value in json.loads(text).items():
        if part == "orderTopicConf":
            parts.append((part, None, said(value)))
        elif isinstance(value, list):
            parts += [(part, one.get("brokerName"), said(one)) for one in value]
        else:
            parts += [(part, name, f"{said(name)}:{said(one)}") for name, one in value.items()]
    return [{"part": part, "name": name, "text": one} for part, name, one in parts]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Publish every route at 10:00 as both generations answer it, and what becomes of TopicA later."""
    warehouse = str(tmp_path_factory.mktemp("published"))
    rows = []
    for profile in PROFILES.values():
        changes: list[tuple[str, int, TopicRouteData | None]] = [
            (topic, 10, found) for topic, found in routes_of(profile).items()
        ]
        changes += [("TopicA", 10, route()), ("TopicA", 11, route("a:1")), ("TopicA", 12, None), ("huge", 10, HUGE)]
        for topic, hour, found in changes:
            text = route_json(found or route("a:1"), Namesrv(profile), standard=True)
            parts = parts_of(text) if found else [part | {"text": None} for part in parts_of(text)]
            sizes = (int(hour > 10), int(found is not None), 0, len(text))
            said = (NAMESRV[profile.name], topic, hour, AT[hour], f"event-{hour}", "changed", parts, *sizes, DAY)
            rows.append(dict(zip(gold.ROUTE_CHANGES.column_names, said, strict=True)))
    publish(warehouse_at(warehouse, "1"), {gold.ROUTE_CHANGES: rows})
    return warehouse


@pytest.fixture(scope="module")
def answers(warehouse: str) -> Answers:
    return Answers(warehouse)


@pytest.fixture(scope="module")
def published(spark: SparkSession, warehouse: str) -> SparkSession:
    """Give a session, as questions have it, in which the routes are published."""
    session = for_questions(spark.newSession())
    register_views(session, warehouse_at(warehouse, "reader"), texts=["publish_info_at subscribe_info_at"])
    session.createDataFrame([(topic,) for topic in ROUTES], "topic STRING").createOrReplaceTempView("asked")
    return session


def served_by(topic: str, name: str, queue_id: int, found: TopicRouteData) -> str:
    holders = {queue[1:]: holder for queue, holder in static_topic_endpoints(topic, found).items()}
    return holders.get((name, queue_id), name)


def expected_publish(topic: str, found: TopicRouteData, profile: Profile) -> list[Row]:
    """Return the rows of publish_info_at that the pure functions make of a route."""
    try:
        info = topic_publish_info(topic, found, profile)
    except UnusableRouteError:
        return []
    rows: list[Row] = []
    for position, (_, name, queue_id) in enumerate(info.message_queues):
        holder = served_by(topic, name, queue_id, found)
        broker = {broker.broker_name: broker for broker in found.broker_datas}.get(holder)
        master = None if broker is None else dict(broker.broker_addrs).get(0)
        cluster = None if broker is None else broker.cluster_name
        rows.append((topic, position, name, queue_id, info.order_topic, holder, cluster, master))
    return rows


def expected_subscribe(topic: str, found: TopicRouteData, profile: Profile) -> list[Row]:
    """Return the rows of subscribe_info_at that the pure functions make of a route."""
    try:
        queues = topic_subscribe_info(topic, found, profile)
    except UnusableRouteError:
        return []
    rows: list[Row] = []
    for position, (_, name, queue_id) in enumerate(queues):
        holder = served_by(topic, name, queue_id, found)
        addrs = next((broker.broker_addrs for broker in found.broker_datas if broker.broker_name == holder), ())
        pulled = find_broker_address_in_subscribe(addrs, 0, only_this_broker=False)
        pull_addr = None if pulled is None else pulled.broker_addr
        rows.append((topic, position, name, queue_id, holder, dict(addrs).get(0), pull_addr))
    return rows


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_every_route_gives_what_the_pure_functions_say(published: SparkSession, profile: Profile) -> None:
    """Plain, ordered, static, malformed: the same queues in the same order, with the addresses that clients use."""
    found = routes_of(profile)
    publish = published.sql(
        f"""
        SELECT asked.topic, p.position, p.broker_name, p.queue_id, p.ordered, p.served_by, p.cluster_name, p.master_addr
        FROM asked, LATERAL publish_info_at(asked.topic, TIMESTAMP'2026-03-01 10:00:00') AS p
        WHERE p.namesrv_id = '{NAMESRV[profile.name]}'
        """
    ).collect()
    subscribe = published.sql(
        f"""
        SELECT asked.topic, s.position, s.broker_name, s.queue_id, s.served_by, s.master_addr, s.pull_addr
        FROM asked, LATERAL subscribe_info_at(asked.topic, TIMESTAMP'2026-03-01 10:00:00') AS s
        WHERE s.namesrv_id = '{NAMESRV[profile.name]}'
        """
    ).collect()

    assert sorted(tuple(row) for row in publish) == sorted(
        row for topic, answered in found.items() for row in expected_publish(topic, answered, profile)
    )
    assert sorted(tuple(row) for row in subscribe) == sorted(
        row for topic, answered in found.items() for row in expected_subscribe(topic, answered, profile)
    )


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_without_a_jvm_every_route_gives_the_same(answers: Answers, profile: Profile) -> None:
    """DuckDB's answers are what the pure functions say too, malformed order confs and odd names included."""
    namesrv = NAMESRV[profile.name]
    publish = """SELECT $topic, position, broker_name, queue_id, ordered, served_by, cluster_name, master_addr
        FROM publish_info_at($topic, $t) WHERE namesrv_id = $namesrv"""
    subscribe = """SELECT $topic, position, broker_name, queue_id, served_by, master_addr, pull_addr
        FROM subscribe_info_at($topic, $t) WHERE namesrv_id = $namesrv"""
    for topic, found in routes_of(profile).items():
        given = {"topic": topic, "t": AT[10].replace(tzinfo=dt.timezone.utc), "namesrv": namesrv}
        assert sorted(answers.ask(publish, **given).rows) == sorted(expected_publish(topic, found, profile)), topic
        assert sorted(answers.ask(subscribe, **given).rows) == sorted(expected_subscribe(topic, found, profile)), topic


def test_the_route_is_that_of_the_instant(answers: Answers) -> None:
    """A change at t has happened; before the first and after the last there is no row; the cause is named."""
    columns = "namesrv_id, position, broker_name, ordered, hour(since), caused_by"
    asked = {"before": "09:59:59.999999", "ordered": "11:00:00", "gone": "12:00:00"}
    sql = " UNION ALL ".join(
        f"SELECT '{name}', {columns} FROM publish_info_at('TopicA', TIMESTAMP'2026-03-01 {clock}')"
        for name, clock in asked.items()
    )
    assert sorted(answers.ask(sql).rows) == [
        ("ordered", namesrv, 0, "a", True, 11, "event-11") for namesrv in sorted(NAMESRV.values())
    ]


def test_a_number_of_queues_that_nobody_can_have_is_cut_off(answers: Answers) -> None:
    """What a registration claims costs a bounded number of rows."""
    sql = (
        "SELECT side, count(*) FROM client_queues_at('huge', TIMESTAMP'2026-03-01 10:00:00') GROUP BY namesrv_id, side"
    )
    assert sorted(answers.ask(sql).rows) == [("publish", 65_536)] * 2 + [("subscribe", 65_536)] * 2
