"""What the bundled capture does not show, in literal rows (situations.txt): queries find what happened, and its evidence."""

from __future__ import annotations

import datetime as dt
import shlex
from pathlib import Path
from typing import Any

import pytest

from jobs.ask.engine import Answers
from jobs.ask.saved import query_named, texts_of, values_of
from schemas import asked, bronze, gold
from tests.cli.rows import Event, Row, event, interval, publish, seq, warehouse_at
from tests.situations import Language, Situation

NS1, NS2 = "10.0.0.9:9876", "10.0.0.8:9876"
A, B, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
DAY = dt.date(2026, 3, 1)


def at(event_id: str, clock: str) -> Event:
    return event(event_id, DAY, clock)


def outcome(of: Event, operation: str, result: str = "applied", ns: str = NS1, **values: Any) -> Row:
    when = {"event_id": of[0], "seq": seq(of[1]), "effect_time": of[1], "day": DAY}
    return {"namesrv_id": ns, **when, "operation": operation, "outcome": result, "changes": 1, **values}


def sent(of: Event, ns: str = NS1, arrived: dt.datetime | None = None, **values: Any) -> Row:
    """Return an event as it was recorded: a request of broker-a's, unless `values` say otherwise."""
    when = {"event_id": of[0], "seq": seq(of[1]), "event_time": arrived or of[1], "effect_time": of[1], "day": DAY}
    where = {"source_file": "f.pcap", "source_offset": 7, "ingest_run": "r", "one_way": False, "request_version": 407}
    broker = {"broker_name": "broker-a", "broker_addr": A, "broker_id": 0, "cluster_name": "C"}
    return {"namesrv_id": ns, **when, **where, **broker, **values}


def answered(of: Event, **values: Any) -> Row:
    return sent(of, **{"code": 105, "response_code": 0, "seq_rest": 0, "stated_id": of[0], **values})


def registration(of: Event, ns: str = NS1, arrived: dt.datetime | None = None, **values: Any) -> Row:
    body = {"code": 103, "compressed": False, "body_bytes": 900, "topic_count": 8, "data_version": VERSION}
    return sent(of, ns, arrived, **{**body, "topic_config_digest": "eight", **values})


def kept(opened: Event, closed: Event | None = None, ns: str = NS1, **values: Any) -> Row:
    return {"namesrv_id": ns, "day": DAY, **interval(opened, closed), **values}


def live(opened: Event, closed: Event | None = None, addr: str = A, name: str = "broker-a", ns: str = NS1) -> Row:
    beats = {"first_update_time": opened[1], "last_update_time": opened[1], "heartbeat_timeout_ms": 120_000}
    return kept(opened, closed, ns, broker_name=name, broker_addr=addr, **beats)


def member(opened: Event, closed: Event | None = None, addr: str = A, broker_id: int = 0, **values: Any) -> Row:
    group = {"broker_name": "broker-a", "broker_id": broker_id, "broker_addr": addr, "cluster_name": "C"}
    return kept(opened, closed, **{**group, "enable_acting_master": False, **values})


def queues(opened: Event, closed: Event | None = None, topic: str = "T", ns: str = NS1, **values: Any) -> Row:
    nums = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0, "broker_name": "broker-a"}
    return kept(opened, closed, ns, **{**nums, "topic": topic, **values})


def changed(of: Event, change: str, topic: str = "T", ns: str = NS1) -> Row:
    when = {"seq": seq(of[1]), "effect_time": of[1], "day": DAY, "caused_by": of[0]}
    before, after = int(change != "appeared"), int(change != "vanished")
    sizes = {"groups_before": before, "groups_after": after, "length_before": 60 * before, "length_after": 60 * after}
    parts = [{"part": "queueDatas", "name": "broker-a", "text": "{}" if after else None}]
    return {"namesrv_id": ns, "topic": topic, **when, "change": change, "parts": parts, **sizes}


VERSION = {"state_version": 0, "timestamp": 1, "counter": 1}
UP = at("up", "09:00")
"""broker-a comes."""


def topic_config(digest: str, *topics: str, perm: int = 6) -> Row:
    numbers = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": perm, "topic_sys_flag": 0}
    told = [{"topic": topic, **numbers} for topic in topics]
    found = {"topic_config_digest": digest, "topics": told, "topic_count": len(told)}
    return {**found, "mappings": [], "ingest_run": "r"}


def expired(by: Event, **values: Any) -> Row:
    """Return what became of broker-a, which was heard last at 09:00, by a scan."""
    broker = {"namesrv_id": NS1, "broker_name": "broker-a", "broker_addr": A, "day": DAY, "cause": "scan"}
    lease = {"last_beat_time": UP[1], "heartbeat_timeout_ms": 120_000, "detection_lag_ms": 121_000}
    return {**broker, **lease, "topics_lost": ["T"], "removed_time": by[1], "removed_by": by[0], **values}


def orphaned(opened: Event, topic: str) -> Row:
    return {**kept(opened), "topic": topic, "reason": "no_writable_queue"}


def unread(quarantine_id: str, reason: str) -> Row:
    where = {"source_file": "f.pcap", "source_offset": 3, "ingest_run": "r", "day": DAY, "namesrv_id": NS1}
    piece = {"length": 1, "sha256": "s", "first_bytes": "", "decoder_version": "1"}
    return {"quarantine_id": quarantine_id, "reason": reason, **piece, **where}


def regression(old: Event, new: Event) -> Row:
    versions = {"data_version": VERSION, "previous": {**VERSION, "counter": 2}, "is_regression": True}
    return {**kept(old, new), "broker_name": "broker-b", "broker_addr": B, **versions}


def in_cluster(cluster: str, name: str, opened: Event, closed: Event | None = None) -> Row:
    return kept(opened, closed, cluster_name=cluster, broker_name=name)


LOST: Row = {"kind": "close", "closed_by": "client", "remote_addr": "10.0.0.1:4000", "pending_requests": 0}
LANGUAGE = Language(
    {
        "answered": (bronze.ROUTE_OBSERVATIONS, answered),
        "beat": (bronze.HEARTBEATS, sent),
        "changed": (gold.ROUTE_CHANGES, changed),
        "closed": (bronze.CHANNEL_EVENTS, lambda of, **values: sent(of, **{**LOST, **values})),
        "config": (bronze.TOPIC_CONFIGS_TABLE, topic_config),
        "expired": (gold.EXPIRED_BROKERS, expired),
        "fact": (bronze.NAMESRV_EVENTS, lambda of, kind: {**sent(of), "kind": kind, "evidence": "silence"}),
        "in_cluster": (gold.CLUSTER_ADDR_HISTORY, in_cluster),
        "live": (gold.BROKER_LIVE_HISTORY, live),
        "logged": (
            bronze.NAMESRV_EVENTS,
            lambda of, ns: sent(of, ns=ns, kind="logged", evidence="a log", properties="log", version=None),
        ),
        "member": (gold.BROKER_ADDR_HISTORY, member),
        "orphaned": (gold.ORPHANED_TOPICS, orphaned),
        "outcome": (gold.EVENT_OUTCOMES, outcome),
        "queues": (gold.TOPIC_QUEUE_HISTORY, queues),
        "registration": (bronze.REGISTRATIONS, registration),
        "regression": (gold.DATA_VERSION_HISTORY, regression),
        "setting": (
            gold.NAMESRV_SETTINGS,
            lambda name, value: {"namesrv_id": NS1, "setting": name, "value": value, "day": DAY},
        ),
        "unread": (bronze.QUARANTINE, unread),
    },
    {"NS1": NS1, "NS2": NS2, "A": A, "B": B, "OTHER": OTHER},
    DAY,
    zone=None,
)
SITUATIONS = list(LANGUAGE.read(Path(__file__).with_name("situations.txt")))


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda of: f"{of.name}: {of.shows}")
def test_a_query_finds_what_happened(situation: Situation, tmp_path: Path) -> None:
    """No more rows and no fewer; the values and the evidence that were planted."""
    publish(warehouse_at(tmp_path, "1"), situation.rows)
    query = query_named(situation.name)
    told = asked.statement(f"query.{situation.name}") or ""
    found = Answers(str(tmp_path)).ask(told, **values_of(query, texts_of(query, situation.asked)))
    answer = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    expected = [LANGUAGE.made(dict, shlex.split(line)) for line in situation.found]
    assert len(answer) == len(expected), answer
    for row, wanted in zip(answer, expected, strict=True):
        assert {key: plain(row[key]) for key in wanted} == wanted


def plain(value: Any) -> Any:
    """Return an instant without its zone, which is UTC."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
