"""What the bundled capture does not show, in literal rows (situations.txt): queries find what happened, and its evidence."""

from __future__ import annotations

import datetime as dt
import shlex
from pathlib import Path
from typing import Any

import pytest

from jobs.ask.engine import Answers, query_named, texts_of, values_of
from schemas import asked, bronze, gold
from tests.cli.rows import publish, warehouse_at
from tests.rows import (
    DAY,
    NS,
    Event,
    Row,
    alive,
    changed,
    event,
    expired,
    in_cluster,
    live,
    member,
    orphan,
    outcome,
    queues,
    sent,
    topic_config,
)
from tests.situations import Language, Situation

NS2 = "10.0.0.8:9876"
A, B, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
BROKER: Row = {"broker_name": "broker-a", "broker_addr": A, "broker_id": 0, "cluster_name": "C"}
VERSION = {"state_version": 0, "timestamp": 1, "counter": 1}
UP = event("up", "09:00")
"""broker-a comes."""


def of_broker(of: Event, arrived: dt.datetime | None = None, **values: Any) -> Row:
    """Return a request of broker-a's, unless `values` say otherwise."""
    return sent(of, arrived, **{**BROKER, **values})


def answered(of: Event, **values: Any) -> Row:
    return of_broker(of, **{"code": 105, "response_code": 0, "seq_rest": 0, "stated_id": of[0], **values})


def registered(of: Event, arrived: dt.datetime | None = None, **values: Any) -> Row:
    body: Row = {"code": 103, "compressed": False, "body_bytes": 900, "topic_count": 8, "data_version": VERSION}
    return of_broker(of, arrived, **{**body, "topic_config_digest": "eight", **values})


def unread(quarantine_id: str, reason: str) -> Row:
    where = {"source_file": "f.pcap", "source_offset": 3, "ingest_run": "r", "day": DAY, "namesrv_id": NS}
    piece = {"length": 1, "sha256": "s", "first_bytes": "", "decoder_version": "1"}
    return {"quarantine_id": quarantine_id, "reason": reason, **piece, **where}


def regression(old: Event, new: Event) -> Row:
    versions = {"data_version": VERSION, "previous": {**VERSION, "counter": 2}, "is_regression": True}
    return alive(old, new, broker_name="broker-b", broker_addr=B, **versions)


LOST: Row = {"kind": "close", "closed_by": "client", "remote_addr": "10.0.0.1:4000", "pending_requests": 0}
LANGUAGE = Language(
    {
        "answered": (bronze.ROUTE_OBSERVATIONS, answered),
        "beat": (bronze.HEARTBEATS, of_broker),
        "changed": (gold.ROUTE_CHANGES, changed),
        "closed": (bronze.CHANNEL_EVENTS, lambda of, **values: of_broker(of, **{**LOST, **values})),
        "config": (bronze.TOPIC_CONFIGS_TABLE, topic_config),
        "expired": (gold.EXPIRED_BROKERS, expired),
        "fact": (bronze.NAMESRV_EVENTS, lambda of, kind: {**of_broker(of), "kind": kind, "evidence": "silence"}),
        "in_cluster": (gold.CLUSTER_ADDR_HISTORY, in_cluster),
        "live": (gold.BROKER_LIVE_HISTORY, live),
        "logged": (
            bronze.NAMESRV_EVENTS,
            lambda of, ns: of_broker(
                of, namesrv_id=ns, kind="logged", evidence="a log", properties="log", version=None
            ),
        ),
        "member": (gold.BROKER_ADDR_HISTORY, member),
        "orphan": (gold.ORPHANED_TOPICS, orphan),
        "outcome": (gold.EVENT_OUTCOMES, outcome),
        "queues": (gold.TOPIC_QUEUE_HISTORY, queues),
        "registration": (bronze.REGISTRATIONS, registered),
        "regression": (gold.DATA_VERSION_HISTORY, regression),
        "setting": (
            gold.NAMESRV_SETTINGS,
            lambda name, value: {"namesrv_id": NS, "setting": name, "value": value, "day": DAY},
        ),
        "unread": (bronze.QUARANTINE, unread),
    },
    {"NS1": NS, "NS2": NS2, "A": A, "B": B, "OTHER": OTHER},
    DAY,
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
        assert {key: row[key] for key in wanted} == wanted
