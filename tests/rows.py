"""Literal rows of the tables, by what made them: events by their id and instant, intervals between two of them.

What a test says of a row by name takes the place of what stands here; what neither says is NULL.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

Row = dict[str, Any]
Event = tuple[str, dt.datetime]
NS = "10.0.0.9:9876"
DAY, NEXT_DAY = dt.date(2026, 3, 1), dt.date(2026, 3, 2)


def event(event_id: str, clock: str, day: dt.date = DAY) -> Event:
    return event_id, dt.datetime.combine(day, dt.time.fromisoformat(clock), dt.timezone.utc)


def clock(time: str, day: dt.date = DAY) -> dt.datetime:
    return event("", time, day)[1]


def seq(at: dt.datetime) -> int:
    """Return the position of an instant: nanoseconds since the epoch."""
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1) * 1_000


# -- histories ---------------------------------------------------------------------------------------------------------


def alive(opened: Event, closed: Event | None = None, **values: Any) -> Row:
    """Return a row of a history; open without `closed`."""
    position = {"seq": seq(opened[1]), "no": 0}
    row = {"valid_from": opened[1], "opened_by": opened[0], "opened_at": position, "entered_at": position}
    row |= {"namesrv_id": NS, "day": DAY, "known_from": opened[1], "beginning_seen": True}
    if closed is not None:
        row |= {"valid_to": closed[1], "closed_by": closed[0], "closed_at": {"seq": seq(closed[1]), "no": 0}}
    return row | values


def queues(topic: str, name: str, *when: Event, **values: Any) -> Row:
    """`came`: what brought the queue data, if they only changed later; `topic_came`: what brought the topic."""
    row: Row = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}
    came = values.pop("came", when[0])
    row["entered_at"] = {"seq": seq(came[1]), "no": 0}
    row["outer_entered_at"] = {"seq": seq(values.pop("topic_came", came)[1]), "no": 0}
    return alive(*when, topic=topic, broker_name=name, **row | values)


def member(name: str, broker_id: int | None, addr: str | None, *when: Event, **values: Any) -> Row:
    group: Row = {"broker_name": name, "cluster_name": "C", "enable_acting_master": False}
    return alive(*when, broker_id=broker_id, broker_addr=addr, **group | values)


def live(addr: str, opened: Event, closed: Event | None = None, **values: Any) -> Row:
    beats = {"first_update_time": opened[1], "last_update_time": opened[1], "heartbeat_timeout_ms": 120_000}
    return alive(opened, closed, broker_addr=addr, **beats | values)


def in_cluster(cluster: str, name: str, *when: Event, **values: Any) -> Row:
    return alive(*when, cluster_name=cluster, broker_name=name, **values)


def version(at: Event, counter: int, stamp: dt.datetime, **values: Any) -> Row:
    """Return a data version that a broker reported; its timestamp is the broker's clock."""
    said = {"state_version": 0, "timestamp": seq(stamp) // 1_000_000, "counter": counter}
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "a:1", "is_regression": False}
    return alive(at, data_version=said, **broker, **values)


def orphan(reason: str, topic: str, *when: Event, **values: Any) -> Row:
    """Return an interval in which a topic could not be served as it looks."""
    return alive(*when, topic=topic, reason=reason, **values)


# -- what happened -----------------------------------------------------------------------------------------------------


def happened(of: Event) -> Row:
    """Return the columns of an event that took effect then."""
    return {"namesrv_id": NS, "event_id": of[0], "seq": seq(of[1]), "effect_time": of[1], "day": of[1].date()}


def outcome(of: Event, operation: str, **values: Any) -> Row:
    told = {"events": 1, "last_time": of[1], "operation": operation, "outcome": "applied", "changes": 1}
    return happened(of) | told | values


def sent(of: Event, arrived: dt.datetime | None = None, **values: Any) -> Row:
    """Return a request as it was recorded, with its time of arrival."""
    where = {"source_file": "f.pcap", "source_offset": 7, "ingest_run": "r", "one_way": False, "request_version": 407}
    return {**happened(of), "event_time": arrived or of[1], **where, **values}


def registration(at: Event, name: str, digest: str | None, topic_count: int, **values: Any) -> Row:
    broker = {"cluster_name": "C", "broker_name": name, "broker_addr": f"{name}:1", "broker_id": 0}
    return sent(at, code=103, **{**broker, "topic_config_digest": digest, "topic_count": topic_count, **values})


def topic_config(digest: str, *topics: str, perm: int = 6) -> Row:
    """Return a topic table; its digest is a name here."""
    numbers = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": perm, "topic_sys_flag": 0}
    told = [{"topic": topic, **numbers} for topic in topics]
    return {"topic_config_digest": digest, "topics": told, "topic_count": len(told), "mappings": [], "ingest_run": "r"}


def changed(of: Event, change: str, topic: str = "T", **values: Any) -> Row:
    """Return a change of a route of one group and 60 characters."""
    before, after = int(change != "appeared"), int(change != "vanished")
    sizes = {"groups_before": before, "groups_after": after, "length_before": 60 * before, "length_after": 60 * after}
    parts = [{"part": "queueDatas", "name": "broker-a", "text": "{}" if after else None}]
    told = {"topic": topic, "caused_by": of[0], "change": change, "parts": parts, **sizes}
    return happened(of) | told | values


def expired(
    name: str, last_beat: dt.datetime, removed: dt.datetime, returned: dt.datetime | None = None, **values: Any
) -> Row:
    """Return a row of `expired_brokers`; the scan is known by its time."""
    broker = {"namesrv_id": NS, "cluster_name": "C", "broker_name": name, "broker_addr": f"{name}:1", "cause": "scan"}
    scan = f"scan {removed:%H:%M:%S}".removesuffix(":00")
    when = {"last_beat_time": last_beat, "removed_time": removed, "removed_by": scan}
    back = {} if returned is None else {"returned_by": f"back of {name}", "returned_time": returned}
    lease = {"detection_lag_ms": 0, "heartbeat_timeout_ms": 120_000, "topics_lost": []}
    return {**broker, **when, **back, **lease, "day": removed.date(), **values}
