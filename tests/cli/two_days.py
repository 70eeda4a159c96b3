"""Rows of two days, as nights publish them.

10.0.0.9:9876 is a 4.x server, 10.0.0.8:9876 a 5.x server that has seen one day only. On the first day
10.0.0.9:9876 learns T from broker-a at 10:00, its queues grow at 12:00 exactly; on the second day broker-a
goes at 09:00.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from schemas import bronze, gold
from tests.cli.rows import Event, Row, event, interval, seq

if TYPE_CHECKING:
    from schemas.table import Table

NS4, NS5 = "10.0.0.9:9876", "10.0.0.8:9876"
ADDR, ADDR5 = "10.0.0.1:10911", "10.0.0.5:10911"
DAY1, DAY2 = dt.date(2026, 3, 1), dt.date(2026, 3, 2)


UP, GROWN, UP5 = event("up", DAY1, "10:00"), event("grown", DAY1, "12:00"), event("up5", DAY1, "11:00")
BEAT, UNCHANGED = event("beat", DAY1, "12:00:30.123456"), event("unchanged", DAY1, "12:00:40")
DOWN = event("down", DAY2, "09:00")
FULL, NOT_RECORDED = "known in full", "not recorded; recorded: 2026-03-01T00:00:00Z to 2026-03-01T23:59:59Z"


def alive(ns: str, opened: Event, closed: Event | None = None, **values: Any) -> Row:
    return {"namesrv_id": ns, **interval(opened, closed), **values}


def queues(nums: int, perm: int = 6) -> Row:
    numbers = {"read_queue_nums": nums, "write_queue_nums": nums, "perm": perm, "topic_sys_flag": 0}
    return {"topic": "T", "broker_name": "broker-a", **numbers}


GROUP: Row = {"broker_name": "broker-a", "broker_id": 0, "broker_addr": ADDR, "cluster_name": "C"}
GROUP["enable_acting_master"] = False
LIVE: Row = {"broker_name": "broker-a", "broker_addr": ADDR, "heartbeat_timeout_ms": 120_000}
BROKER = f'{{"brokerAddrs":{{"0":"{ADDR}"}},"brokerName":"broker-a","cluster":"C"}}'
CONF: Row = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "broker-a:4"}


def serves_conf(ns: str, day: dt.date, value: str) -> Row:
    """Return whether a name server serves order confs."""
    said = {
        "setting": "order_message_enable",
        "value": value,
        "source": "given",
        "restart_value": value,
        "evidence": [],
    }
    counts = dict.fromkeys(("from_seq", "process_seq", "answers_for", "answers_against"), 0)
    return {"namesrv_id": ns, "day": day, **said, **counts}


def outcome(at: Event, operation: str, result: str) -> Row:
    when = {"event_id": at[0], "seq": seq(at[1]), "effect_time": at[1], "day": at[1].date()}
    return {"namesrv_id": NS4, **when, "operation": operation, "outcome": result, "changes": 1}


def route(nums: int) -> str:
    """Return the whole route of T with so many queues."""
    return f'{{"brokerDatas":[{BROKER}],"filterServerTable":{{}},"queueDatas":[{queue_data(nums)}]}}'


def queue_data(nums: int) -> str:
    return f'{{"brokerName":"broker-a","perm":6,"readQueueNums":{nums},"topicSysFlag":0,"writeQueueNums":{nums}}}'


def change(at: Event, kind: str, before: int, after: int, *parts: tuple[str, str | None]) -> Row:
    """Return a change of the queues from a number to one (0: there is no route), of `parts` (field, JSON) of broker-a."""
    when = {"seq": seq(at[1]), "effect_time": at[1], "day": at[1].date(), "caused_by": at[0]}
    return {
        "namesrv_id": NS4,
        "topic": "T",
        **when,
        "change": kind,
        "parts": [{"part": part, "name": "broker-a", "text": text} for part, text in parts],
        "groups_before": int(before > 0),
        "groups_after": int(after > 0),
        "length_before": len(route(before)) if before else 0,
        "length_after": len(route(after)) if after else 0,
    }


def heartbeat(at: Event, offset: int) -> Row:
    when = {
        "event_id": at[0],
        "stated_id": at[0],
        "seq": seq(at[1]),
        "event_time": at[1],
        "effect_time": at[1],
        "day": at[1].date(),
    }
    request = {
        "code": 322,
        "one_way": False,
        "request_version": 407,
        "broker_addr": ADDR,
        "broker_name": "broker-a",
    }
    return {
        "namesrv_id": NS4,
        **when,
        **request,
        "source_file": "f.pcap",
        "source_offset": offset,
        "ingest_run": "r",
    }


ROWS: dict[Table, list[Row]] = {
    gold.TOPIC_QUEUE_HISTORY: [
        alive(NS4, UP, GROWN, **queues(4)),
        alive(NS4, GROWN, DOWN, **queues(8)),
        alive(NS5, UP5, **queues(2, perm=4)),
    ],
    gold.BROKER_ADDR_HISTORY: [
        alive(NS4, UP, DOWN, **GROUP),
        alive(NS5, UP5, **{**GROUP, "broker_id": None, "broker_addr": None}),
    ],
    gold.BROKER_LIVE_HISTORY: [
        alive(NS4, UP, DOWN, **LIVE, first_update_time=UP[1], last_update_time=BEAT[1]),
        alive(NS5, UP5, **{**LIVE, "broker_addr": ADDR5, "cluster_name": "C"}, first_update_time=UP[1]),
    ],
    gold.LAST_HEARTBEATS: [
        {"namesrv_id": NS4, "broker_addr": ADDR, "last_update_time": BEAT[1], "day": DAY1},
        {"namesrv_id": NS5, "broker_addr": ADDR5, "cluster_name": "C", "last_update_time": UP[1], "day": DAY1},
    ],
    gold.KV_CONFIG_HISTORY: [
        alive(NS4, UP, namespace="ORDER_TOPIC_CONFIG"),
        alive(NS4, GROWN, **CONF),
        alive(NS5, UP5, **{**CONF, "config_value": "broker-a:2"}),
    ],
    gold.NAMESRV_SETTINGS: [
        serves_conf(NS4, DAY1, "true"),
        serves_conf(NS4, DAY2, "true"),
        serves_conf(NS5, DAY1, "false"),
    ],
    gold.EVENT_OUTCOMES: [
        outcome(UP, "register_broker", "applied"),
        outcome(GROWN, "register_broker", "applied"),
        outcome(UNCHANGED, "query_data_version", "version_differs"),
        outcome(DOWN, "channel_close", "channel_lost"),
    ],
    gold.ROUTE_CHANGES: [
        change(UP, "appeared", 0, 4, ("brokerDatas", BROKER), ("queueDatas", queue_data(4))),
        change(GROWN, "changed", 4, 8, ("queueDatas", queue_data(8))),
        change(DOWN, "vanished", 8, 0, ("brokerDatas", None), ("queueDatas", None)),
    ],
    bronze.REGISTRATIONS: [{**heartbeat(GROWN, 7), "code": 103}],
    bronze.HEARTBEATS: [heartbeat(BEAT, 8), heartbeat(UNCHANGED, 9)],
}
