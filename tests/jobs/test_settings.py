"""Settings end to end: forged days of a name server that is not configured as RocketMQ ships it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import night
from jobs.conf import PipelineConf
from jobs.evidence import candidates_from, votes_from
from jobs.ingest import ingest
from jobs.settings import DaySettings, known_settings, read_settings, under_idle_limit
from jobs.warehouse import Warehouse
from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.inference.settings import Known, Life, Votes
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicTable
from schemas.bronze import CHANNEL_EVENTS, TABLES
from schemas.gold import ROUTE_MISMATCHES

NAMESRV = "10.0.0.1:9876"
CHANNEL = "10.0.0.2:40000#1767323000000000000"
FIRST, SECOND = dt.date(2026, 1, 2), dt.date(2026, 1, 3)
Line = dict[str, Any]


class Server:
    """A 5.4.0 name server with a configuration of its own: writes the event log of what it is told and answers."""

    def __init__(self, config: NamesrvConfig) -> None:
        self.namesrv = Namesrv(V5_4_0, config)
        self.registry = Registry(V5_4_0)
        self.lines: list[Line] = []

    def line(self, kind: str, at: str, **fields: object) -> None:
        """Write a line."""
        self.lines.append({"schema": "namesrv-event/1", "kind": kind, "namesrv_id": NAMESRV, "time": at, **fields})

    def registered(self, at: str, topics: tuple[str, ...], counter: int) -> None:
        """Take a registration of broker-a with these topics."""
        version = DataVersion(0, 1, counter)
        table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
        addr, at_ms = "10.0.0.2:10911", int(dt.datetime.fromisoformat(at).timestamp() * 1000)
        take(
            self.registry,
            events.RegisterBroker("C", addr, "broker-a", 0, None, version, table, (), CHANNEL, False),
            at_ms,
            self.namesrv,
        )
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


def replayed(spark: SparkSession, warehouse: Path, lines: list[Line], number: int) -> tuple[list[dt.date], int]:
    """Read an event log with `lines`, replay its days, verify; return the days replayed and the answers mismatched."""
    path = warehouse / f"{number}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    house = Warehouse(spark, str(warehouse), PipelineConf(), f"run-{number}", dt.datetime.now(dt.timezone.utc))
    ingested = ingest(house, [str(path)])
    assert (ingested.quarantined, ingested.unaccounted) == (0, 0)
    days = night.replay(house, ingested.days)
    night.verify_days(house, days)
    return days, house.table(ROUTE_MISMATCHES).where("classification = 'mismatched'").count()


def settings_of(spark: SparkSession, warehouse: Path, *names: str) -> list[tuple[object, ...]]:
    """Return (day, setting, value, source, answers for it) of the named settings."""
    rows = spark.read.format("delta").load(str(warehouse / "gold" / "namesrv_settings")).collect()
    found = [(r["day"], r["setting"], r["value"], r["source"], r["answers_for"]) for r in rows if r["setting"] in names]
    return sorted(found, key=str)


@pytest.fixture
def server() -> Server:
    """Give a name server that puts order configurations into routes and deletes what registrations leave out."""
    server = Server(NamesrvConfig(order_message_enable=True, delete_topic_with_broker_registration=True))
    server.line("namesrv", "2026-01-02T10:00:00+00:00", event="started")
    server.line("namesrv", "2026-01-02T10:00:01+00:00", event="identified", version=493)
    return server


def test_settings_are_found_and_days_before_the_evidence_are_replayed_again(
    spark: SparkSession, warehouse: Path, server: Server
) -> None:
    """The first day tells nothing, the second everything: both end up replayed as the name server really was.

    A change of the second day holds from its event on.
    """
    server.registered("2026-01-02T23:59:00+00:00", ("T", "U", "V"), 1)
    server.registered("2026-01-02T23:59:20+00:00", ("T", "V"), 2)
    server.order_conf("2026-01-02T23:59:30+00:00", "T")
    assert replayed(spark, warehouse, server.lines, 1) == ([FIRST], 0)
    decided = ("delete_topic_with_broker_registration", "order_message_enable")
    assert settings_of(spark, warehouse, *decided) == [(FIRST, name, "false", "default", 0) for name in decided]

    seen = len(server.lines)
    server.registered("2026-01-03T00:00:10+00:00", ("T", "V", "W"), 3)
    server.registered("2026-01-03T00:00:20+00:00", ("T", "V"), 4)
    for second in (21, 22):
        server.asked(f"2026-01-03T00:00:{second}+00:00", "T")
        server.asked(f"2026-01-03T00:00:{second}.500+00:00", "W")
    server.changed(
        "2026-01-03T00:00:30+00:00",
        "orderMessageEnable=false",
        NamesrvConfig(delete_topic_with_broker_registration=True),
    )
    server.asked("2026-01-03T00:00:40+00:00", "T")
    assert replayed(spark, warehouse, server.lines[seen:], 2) == ([FIRST, SECOND], 0)
    assert settings_of(spark, warehouse, *decided) == [
        (FIRST, decided[0], "true", "inferred", 2),
        (FIRST, decided[1], "true", "inferred", 2),
        (SECOND, decided[0], "true", "inferred", 2),
        (SECOND, decided[1], "false", "changed", 1),
        (SECOND, decided[1], "true", "inferred", 2),
    ]
    queues = spark.read.format("delta").load(str(warehouse / "gold" / "topic_queue_history"))
    gone = queues.where("topic = 'U' AND valid_to IS NOT NULL").select("day", "valid_to").collect()
    assert [row["day"] for row in gone] == [FIRST], "the first day's history was made again with the option"


def ended(kind: str, closed_by: str, silent_ms: int, seq: int) -> Line:
    """Return an end of a connection that was opened at position 500."""
    at = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)
    shared = {"namesrv_id": NAMESRV, "event_id": f"{seq:032x}", "event_time": at, "effect_time": at, "day": FIRST}
    source = {"source_file": "f", "source_offset": 1, "ingest_run": "r", "pending_requests": 0, "remote_addr": "c:1"}
    return {
        **shared,
        **source,
        "seq": seq,
        "channel_id": "c:1#500",
        "kind": kind,
        "closed_by": closed_by,
        "silent_ms": silent_ms,
    }


@pytest.mark.parametrize(
    ("limit_ms", "ends"),
    [
        (120_000, [("idle", "timer"), ("close", "timer")]),
        (None, [("close", "namesrv")]),
        (600_000, [("idle", "namesrv")]),
    ],
)
def test_a_longer_idle_limit_moves_the_end_of_a_connection(
    spark: SparkSession, limit_ms: int | None, ends: list[tuple[str, str]]
) -> None:
    """What the timer is said to have done did not happen, and the packet that came later was the end."""
    rows = [ended("idle", "timer", 120_000, 1_000), ended("close", "timer", 120_000, 1_001)]
    rows.append(ended("late_close", "namesrv", 600_003, 2_000))
    frame = spark.createDataFrame(rows, CHANNEL_EVENTS.schema)
    votes = [Votes(400, "channel_max_idle_ms", limit_ms, 1, ("a",))]
    known = DaySettings(FIRST, {NAMESRV: Known([Life(400, "5.4.0", "v")], votes=votes)})
    found = under_idle_limit(frame, spark, known).orderBy("seq").collect()
    assert [(row["kind"], row["closed_by"]) for row in found] == ends


def test_settings_of_other_days_are_found_again(spark: SparkSession) -> None:
    """What a day wrote is where the next one starts, and what an earlier one of the same process knows in hindsight."""
    votes = [Votes(400, "order_message_enable", True, 3, ("a", "b", "c"))]
    written = DaySettings(FIRST, {NAMESRV: Known([Life(400, "5.4.0", "v")], votes=votes)})
    table = spark.createDataFrame(written.frame(spark).collect(), written.frame(spark).schema).persist()
    assert read_settings(table, FIRST) == {NAMESRV: sorted(written.settled[NAMESRV], key=lambda s: s.name)}
    bronze = {t.name: spark.createDataFrame([], t.schema) for t in TABLES}
    after = known_settings(bronze, table, SECOND, FIRST, PipelineConf())
    before = known_settings(bronze, table, FIRST - dt.timedelta(days=1), None, PipelineConf())
    assert after.known[NAMESRV].before == {setting.name: setting for setting in written.settled[NAMESRV]}
    assert set(before.known) == set(), "nothing was recorded of it on that day"
    assert after.open("order_message_enable") == []
    assert votes_from(bronze, {}, after) == {}
    assert candidates_from(bronze, after) == {}
