"""Rows of two days, as nights publish them.

10.0.0.9:9876 is a 4.x server, 10.0.0.8:9876 a 5.x server with acting masters that has seen one day only. On the first day
10.0.0.9:9876 learns T from broker-a at 10:00, its queues grow at 12:00 exactly; on the second day broker-a
goes at 09:00.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from schemas import bronze, gold
from tests.rows import DAY, NEXT_DAY, Event, Row, alive, changed, event, member, outcome, queues, sent

if TYPE_CHECKING:
    from schemas.table import Table

NS4, NS5 = "10.0.0.9:9876", "10.0.0.8:9876"
ADDR, ADDR5 = "10.0.0.1:10911", "10.0.0.5:10911"

UP, GROWN = event("up", "10:00"), event("grown", "12:00")
UP5, OPENED5 = event("up5", "11:00"), event("opened5", "12:30")
BEAT, UNCHANGED = event("beat", "12:00:30.123456"), event("unchanged", "12:00:40")
DOWN = event("down", "09:00", NEXT_DAY)
FULL, NOT_RECORDED = "known in full", "not recorded; recorded: 2026-03-01T00:00:00Z to 2026-03-01T23:59:59Z"
LIVE: Row = {"broker_name": "broker-a", "broker_addr": ADDR, "heartbeat_timeout_ms": 120_000}
BROKER = f'{{"brokerAddrs":{{"0":"{ADDR}"}},"brokerName":"broker-a","cluster":"C"}}'
WITHOUT_MASTER = {"read-only": 4, "writable": 6, "rmq_sys_SYNC_BROKER_MEMBER_broker-s": 4}
"""Topics of a group that has slaves alone, and their permissions."""
CONF: Row = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "broker-a:4"}


def setting(ns: str, day: dt.date, value: str, name: str = "order_message_enable") -> Row:
    """Return whether a name server serves order confs, or has another setting."""
    said = {
        "setting": name,
        "value": value,
        "source": "given",
        "restart_value": value,
        "evidence": [],
    }
    counts = dict.fromkeys(("from_seq", "process_seq", "answers_for", "answers_against"), 0)
    return {"namesrv_id": ns, "day": day, **said, **counts}


def of_t(nums: int, *when: Event, **values: Any) -> Row:
    """Return so many queues of T."""
    return queues("T", "broker-a", *when, read_queue_nums=nums, write_queue_nums=nums, **values)


def route(nums: int) -> str:
    """Return the whole route of T with so many queues."""
    return f'{{"brokerDatas":[{BROKER}],"filterServerTable":{{}},"queueDatas":[{queue_data(nums)}]}}'


def queue_data(nums: int) -> str:
    return f'{{"brokerName":"broker-a","perm":6,"readQueueNums":{nums},"topicSysFlag":0,"writeQueueNums":{nums}}}'


def change(at: Event, kind: str, before: int, after: int, *parts: tuple[str, str | None]) -> Row:
    """Return a change of the queues from a number to one (0: there is no route), of `parts` (field, JSON) of broker-a."""
    sizes: Row = {
        "length_before": len(route(before)) if before else 0,
        "length_after": len(route(after)) if after else 0,
    }
    told = [{"part": part, "name": "broker-a", "text": text} for part, text in parts]
    return changed(at, kind, parts=told, **sizes)


def heartbeat(at: Event, offset: int) -> Row:
    broker: Row = {"broker_addr": ADDR, "broker_name": "broker-a", "stated_id": at[0]}
    return sent(at, code=322, source_offset=offset, **broker)


ROWS: dict[Table, list[Row]] = {
    gold.TOPIC_QUEUE_HISTORY: [
        *(of_t(4, UP, GROWN), of_t(8, GROWN, DOWN), of_t(2, UP5, perm=4, namesrv_id=NS5)),
        *(queues(name, "broker-s", UP5, perm=perm, namesrv_id=NS5) for name, perm in WITHOUT_MASTER.items()),
        queues("opened", "broker-s", UP5, OPENED5, perm=4, namesrv_id=NS5),
        queues("opened", "broker-s", OPENED5, namesrv_id=NS5),
    ],
    gold.BROKER_ADDR_HISTORY: [
        member("broker-a", 0, ADDR, UP, DOWN),
        member("broker-a", None, None, UP5, namesrv_id=NS5),
        *(member("broker-s", n, f"10.0.0.{n}:1", UP5, namesrv_id=NS5, enable_acting_master=True) for n in (2, 1)),
    ],
    gold.BROKER_LIVE_HISTORY: [
        alive(UP, DOWN, **LIVE, first_update_time=UP[1], last_update_time=BEAT[1]),
        alive(
            UP5, **{**LIVE, "broker_addr": ADDR5, "cluster_name": "C", "namesrv_id": NS5, "first_update_time": UP[1]}
        ),
    ],
    gold.LAST_HEARTBEATS: [
        {"namesrv_id": NS4, "broker_addr": ADDR, "last_update_time": BEAT[1], "day": DAY},
        {"namesrv_id": NS5, "broker_addr": ADDR5, "cluster_name": "C", "last_update_time": UP[1], "day": DAY},
    ],
    gold.KV_CONFIG_HISTORY: [
        alive(UP, namespace="ORDER_TOPIC_CONFIG"),
        alive(GROWN, **CONF),
        alive(UP5, **{**CONF, "config_value": "broker-a:2", "namesrv_id": NS5}),
    ],
    gold.NAMESRV_SETTINGS: [
        setting(NS4, DAY, "true"),
        setting(NS4, NEXT_DAY, "true"),
        setting(NS5, DAY, "false"),
        setting(NS5, DAY, "true", "support_acting_master"),
    ],
    gold.EVENT_OUTCOMES: [
        outcome(UP, "register_broker"),
        outcome(GROWN, "register_broker"),
        outcome(UNCHANGED, "query_data_version", outcome="version_differs"),
        outcome(DOWN, "channel_close", outcome="channel_lost"),
    ],
    gold.ROUTE_CHANGES: [
        change(UP, "appeared", 0, 4, ("brokerDatas", BROKER), ("queueDatas", queue_data(4))),
        change(GROWN, "changed", 4, 8, ("queueDatas", queue_data(8))),
        change(DOWN, "vanished", 8, 0, ("brokerDatas", None), ("queueDatas", None)),
    ],
    bronze.REGISTRATIONS: [{**heartbeat(GROWN, 7), "code": 103}],
    bronze.HEARTBEATS: [heartbeat(BEAT, 8), heartbeat(UNCHANGED, 9)],
}
