"""Settings end to end: forged days of a name server that is not configured as RocketMQ ships it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from jobs.conf import PipelineConf
from jobs.night.nightly import Summary
from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicTable
from schemas import gold
from schemas.findings import Thresholds
from schemas.times import day_of
from tests.ingest.given import DAY, FIRST, NAMESRV, Line
from tests.night.nights import CAPTURE, Capture, night, rows

CHANNEL = "10.0.0.2:40000#1767323000000000000"
SECOND = FIRST + DAY
DELETES, ORDERS = "delete_topic_with_broker_registration", "order_message_enable"


class Server:
    """A 5.4.0 name server with a configuration of its own: writes the event log of what it is told and answers."""

    def __init__(self, config: NamesrvConfig) -> None:
        self.namesrv = Namesrv(V5_4_0, config)
        self.registry = Registry(V5_4_0)
        self.lines: list[Line] = []

    def line(self, kind: str, at: str, **fields: object) -> None:
        """Write a line."""
        self.lines.append({"schema": "namesrv-event/1", "kind": kind, "namesrv_id": NAMESRV, "time": at, **fields})

    def registered(self, at: str, topics: str, counter: int) -> None:
        """Take a registration of broker-a with topics named by letters."""
        version = DataVersion(0, 1, counter)
        table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
        addr, at_ms = "10.0.0.2:10911", int(dt.datetime.fromisoformat(at).timestamp() * 1000)
        event = events.RegisterBroker("C", addr, "broker-a", 0, None, version, table, (), CHANNEL, False)
        take(self.registry, event, at_ms, self.namesrv)
        self.line(
            "registration",
            at,
            channel_id=CHANNEL,
            request_version=493,
            response_code=0,
            cluster_name="C",
            broker_name="broker-a",
            broker_addr=addr,
            broker_id=0,
            enable_acting_master=False,
            data_version=version._asdict(),
            topics=[{"topic": t, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} for t in topics],
            filter_servers=[],
        )

    def order_conf(self, at: str, topic: str) -> None:
        """Take an order configuration."""
        take(self.registry, events.PutKvConfig("ORDER_TOPIC_CONFIG", topic, "broker-a:4"), 0, self.namesrv)
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": topic, "config_value": "broker-a:4"}
        self.line("admin", at, code=100, operation="put_kv_config", response_code=0, **fields)

    def asked(self, at: str, topic: str) -> None:
        """Answer a question for a route."""
        found = answer(self.registry, Question(105, topic), self.namesrv)
        fields = {"response_code": found.code, "response_version": 493, "remark": found.remark, "body": found.body}
        self.line("observation", at, code=105, subject=topic, standard_json=True, channel_id=CHANNEL, **fields)

    def changed(self, at: str, text: str, config: NamesrvConfig) -> None:
        """Take an update of the configuration."""
        self.namesrv = Namesrv(V5_4_0, config)
        self.line("admin", at, code=318, operation="update_namesrv_config", response_code=0, config_value=text)


@pytest.fixture
def server() -> Server:
    """Give a name server that puts order configurations into routes and deletes what registrations leave out."""
    server = Server(NamesrvConfig(order_message_enable=True, delete_topic_with_broker_registration=True))
    server.line("namesrv", "2026-01-02T10:00:00+00:00", event="started")
    server.line("namesrv", "2026-01-02T10:00:01+00:00", event="identified", version=493)
    return server


def run(folder: Path, lines: list[Line], name: str) -> Summary:
    """Run a night on an event log."""
    log = folder / f"{name}.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    said = night(folder / "w", log)
    assert (said.status, said.quarantined, said.verify["mismatched"]) == ("published", 0, 0)
    return said


def decided(path: Path) -> list[tuple[object, ...]]:
    """Return (day, setting, value, source, answers for it) of two settings."""
    found = (row for row in rows(path, gold.NAMESRV_SETTINGS) if row["setting"] in (DELETES, ORDERS))
    columns = ("day", "setting", "value", "source", "answers_for")
    return sorted((tuple(row[column] for column in columns) for row in found), key=str)


@pytest.mark.slow
def test_settings_are_found_and_days_before_the_evidence_are_replayed_again(tmp_path: Path, server: Server) -> None:
    """The first day tells nothing, the second everything: both end up replayed as the name server really was.

    A change of the second day holds from its event on. Read at once, the two days give the same tables.
    """
    server.registered("2026-01-02T23:59:00+00:00", "TUV", 1)
    server.registered("2026-01-02T23:59:20+00:00", "TV", 2)
    server.order_conf("2026-01-02T23:59:30+00:00", "T")
    assert run(tmp_path, server.lines, "first").days == [FIRST.isoformat()]
    assert decided(tmp_path / "w") == [(FIRST, name, "false", "default", 0) for name in (DELETES, ORDERS)]

    seen = len(server.lines)
    server.registered("2026-01-03T00:00:10+00:00", "TVW", 3)
    server.registered("2026-01-03T00:00:20+00:00", "TV", 4)
    for n in (21, 22):
        server.asked(f"2026-01-03T00:00:{n}+00:00", "T")
        server.asked(f"2026-01-03T00:00:{n}.500+00:00", "W")
    settled = NamesrvConfig(delete_topic_with_broker_registration=True)
    server.changed("2026-01-03T00:00:30+00:00", "orderMessageEnable=false", settled)
    server.asked("2026-01-03T00:00:40+00:00", "T")
    second = run(tmp_path, server.lines[seen:], "second")
    assert second.days == [FIRST.isoformat(), SECOND.isoformat()]
    assert decided(tmp_path / "w") == [
        (FIRST, DELETES, "true", "inferred", 2),
        (FIRST, ORDERS, "true", "inferred", 2),
        (SECOND, DELETES, "true", "inferred", 2),
        (SECOND, ORDERS, "false", "changed", 1),
        (SECOND, ORDERS, "true", "inferred", 2),
    ]
    gone = [
        day_of(row["valid_to"])
        for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY)
        if row["topic"] == "U" and row["valid_to"] is not None
    ]
    assert gone == [FIRST], "the first day's history was made again with the option"
    assert {row["cause"] for row in rows(tmp_path / "w", gold.RESTATEMENTS)} == {"configuration"}

    at_once = tmp_path / "at-once"
    at_once.mkdir()
    assert run(at_once, server.lines, "both").digests == second.digests


@pytest.mark.slow
def test_thresholds_that_are_given_decide_what_is_told(whole: Capture, tmp_path: Path) -> None:
    """With one topic as many there are more mass losses than with five, and what lasts less than an hour is no lack of queues."""
    told = {row["code"] for row in rows(whole.path, gold.FINDINGS)}
    conf = PipelineConf(thresholds=Thresholds(unwritable_us=3_600_000_000, mass=1))
    night(tmp_path / "w", CAPTURE, conf=conf)
    found = rows(tmp_path / "w", gold.FINDINGS)
    losses = [sum(row["code"] == "MASS_TOPIC_LOSS" for row in of) for of in (rows(whole.path, gold.FINDINGS), found)]
    assert 0 < losses[0] < losses[1]
    assert "NO_WRITABLE_QUEUE" in told
    assert "NO_WRITABLE_QUEUE" not in {row["code"] for row in found}
