"""A name server's day settled: forged days of one that is not configured as RocketMQ ships it."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicTable
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS
from namesrv_day.arrow.rows import table_of
from namesrv_day.settle.settle import Settled, settle
from schemas import gold
from tests.day.settle_given import DAY, NAMESRV, Given, Row, answered, asked_to, ended, life, registered, seq_at

TOMORROW = DAY + dt.timedelta(days=1)
DELETION, ORDERED = "delete_topic_with_broker_registration", "order_message_enable"
KV = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "broker-a:4"}


def said_of(settled: Settled, *names: str) -> list[tuple[object, ...]]:
    """Return (setting, value, source, answers for it) of the named settings."""
    rows = [(r["setting"], r["value"], r["source"], r["answers_for"]) for r in settled.settings.to_pylist()]
    return sorted((row for row in rows if row[0] in names), key=str)


class Server:
    """A 5.4.0 name server with a configuration of its own: notes rows of what it is told on a day, and answers."""

    def __init__(self, day: dt.date, config: NamesrvConfig) -> None:
        self.day = day
        self.namesrv = Namesrv(V5_4_0, config)
        self.registry = Registry(V5_4_0)
        names = ("registrations", "admin_events", "route_observations", "channel_events")
        self.rows: dict[str, list[Row]] = {name: [] for name in names}

    def registered(self, ms: float, topics: str, counter: int, channel: str = "c#1") -> None:
        """Take a registration of broker-a with these topics."""
        version, table = DataVersion(0, 1, counter), TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
        event = events.RegisterBroker("C", "10.0.0.2:10911", "broker-a", 0, None, version, table, (), channel, False)
        take(self.registry, event, seq_at(ms, self.day) // 1_000_000, self.namesrv)
        said = registered(ms, f"r{ms}", topics, data_version=version._asdict(), channel_id=channel, day=self.day)
        self.rows["registrations"].append(said)

    def closed(self, ms: float, channel: str) -> None:
        """Take the end of a connection."""
        at_ms = seq_at(ms, self.day) // 1_000_000
        take(self.registry, events.ChannelDestroyed(channel, "10.0.0.2:40000"), at_ms, self.namesrv)
        self.rows["channel_events"].append(ended(ms, f"e{ms}", day=self.day, channel_id=channel))

    def ordered(self, ms: float) -> None:
        """Take an order configuration of T."""
        take(self.registry, events.PutKvConfig(KV["namespace"], "T", KV["config_value"]), 0, self.namesrv)
        self.rows["admin_events"].append(asked_to(ms, f"k{ms}", 100, day=self.day, **KV))

    def asked(self, ms: float, topic: str) -> None:
        """Answer a question for a route."""
        found = answer(self.registry, Question(105, topic), self.namesrv)
        told: Row = {"response_code": found.code, "remark": found.remark, "request_seq": seq_at(ms - 1, self.day)}
        self.rows["route_observations"].append(answered(ms, f"a{ms}", 105, topic, found.body, day=self.day, **told))


def first_day(**given: pa.Table) -> Given:
    server = Server(DAY, NamesrvConfig(order_message_enable=True, delete_topic_with_broker_registration=True))
    server.registered(85_000_000, "TUV", 1)
    server.registered(85_020_000, "TV", 2)
    server.ordered(85_030_000)
    begin = [life(36_000_000, "start", "started"), life(36_001_000, "version", "identified", version=493)]
    return Given({**server.rows, "namesrv_events": begin}, going_on=True, **given)


def test_a_quiet_day_is_settled_without_its_single_beats() -> None:
    """What hours and carried rows tell is enough."""
    first = settle(first_day().input)
    beats = [registered(ms, f"{ms}", channel_id="c#1") for ms in range(0, 3_600_000, 30_000)]
    version: Row = {"state_version": 0, "timestamp": 1, "counter": 1}
    live = {"cluster_name": "C", "broker_addr": "10.0.0.2:10911", "broker_name": "broker-a", "data_version": version}
    given = Given(
        {"registrations": beats},
        settings_before=first.settings,
        carried={gold.BROKER_LIVE_HISTORY: [{**live, "channel_id": "c#1", "heartbeat_timeout_ms": 120_000}]},
    )
    settled = settle(given.input)
    assert given.reads == []
    assert {row[2] for row in said_of(settled, "version", DELETION)} == {"stated", "default"}
    assert (settled.channel_events.num_rows, settled.decisions.moves.num_rows) == (0, 0)


def test_the_phase_of_scans_is_handed_on_by_process() -> None:
    """What closes told on a day before holds on; a process that starts has one of its own."""
    begun = life(1_000, "a", "observed_from", day=DAY - dt.timedelta(days=1))
    rows: dict[str, list[Row]] = {"registrations": [registered(7_000, "b")]}
    said: Row = {"setting": "scan_phase_us", "value": "1234567", "source": "inferred", "restart_value": "1234567"}
    said |= {"answers_for": 3, "answers_against": 0, "evidence": ["x"]}
    said |= {"from_seq": begun["seq"], "process_seq": begun["seq"]}
    before = {
        "settings_before": table_of([said], gold.NAMESRV_SETTINGS, namesrv_id=NAMESRV, day=DAY - dt.timedelta(days=1))
    }
    settled = settle(Given(rows, earlier={"namesrv_events": [begun]}, **before).input)
    assert settled.context.schedule.first_tick(seq_at(0), 0) == seq_at(1_234.567) - 1
    rows["namesrv_events"] = [life(60_000, "c", "started")]
    settled = settle(Given(rows, earlier={"namesrv_events": [begun]}, **before).input)
    assert settled.context.schedule.first_tick(seq_at(60_000), 0) == seq_at(65_000) - START_BEFORE_FIRST_ACCEPT_NS


def test_a_configured_period_holds_for_its_process() -> None:
    """A start with another period ticks with that from then on."""
    rows: list[Row] = [
        life(1_000, "a", "started"),
        life(1_001, "b", "identified", version=493),
        life(1_002, "c", "configured", properties="scanNotActiveBrokerInterval=7000"),
        life(60_000, "d", "started"),
        life(60_002, "e", "configured", properties="scanNotActiveBrokerInterval=3000"),
    ]
    schedule = settle(Given({"namesrv_events": rows}).input).context.schedule
    assert schedule.first_tick(seq_at(5_501), 0) == seq_at(12_500)
    assert schedule.first_tick(seq_at(64_501), 0) == seq_at(67_500)
