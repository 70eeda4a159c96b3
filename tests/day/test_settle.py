"""A name server's day settled: forged days of one that is not configured as RocketMQ ships it."""

from __future__ import annotations

import datetime as dt
import json
import random

import pyarrow as pa
import pytest

from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_day.arrow import table_of
from namesrv_day.settle import Settled, known_settings, settle, votes
from schemas import gold
from tests.day.settle_given import DAY, NAMESRV, Given, Row, answered, asked_to, ended, life, registered, row, seq_at

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


@pytest.mark.slow
@pytest.mark.parametrize("deletes", [False, True])
def test_no_answer_speaks_for_a_value_that_the_option_has_not(deletes: bool) -> None:  # noqa: FBT001
    """Topics come and go, and so do connections, at random: what routes show of them is held for the right value, if for one."""
    chance, found = random.Random(3), 0
    for _ in range(25):
        server = Server(DAY, NamesrvConfig(delete_topic_with_broker_registration=deletes))
        channel = "c0#1"
        for number, ms in enumerate(sorted(chance.sample(range(2_000, 300_000), 60))):
            what = chance.random()
            if what < 0.3:
                server.registered(ms, "".join(sorted(chance.sample("TUVW", chance.choice((2, 3, 4))))), number, channel)
            elif what < 0.35:
                server.closed(ms, channel)
                channel = f"c{number}#1"
            else:
                server.asked(ms, chance.choice("TUVW"))
        begin = [life(1_000, "start", "started"), life(1_001, "version", "identified", version=493)]
        given = Given({**server.rows, "namesrv_events": begin}).input
        told = [vote for vote in votes(given, known_settings(given)) if vote.name == DELETION]
        assert {vote.value for vote in told} <= {deletes}
        found += sum(vote.answers for vote in told)
    assert found > 20


@pytest.mark.parametrize("version", [439, 493])
def test_a_release_without_the_option_has_no_evidence_for_it(version: int) -> None:
    """5.1.3 keeps what is left out whatever it is told; 5.4.0 could do otherwise."""
    server = Server(DAY, NamesrvConfig())
    server.registered(10_000, "TU", 1)
    server.registered(20_000, "T", 2)
    server.asked(25_000, "U")
    begin = [life(1_000, "start", "started"), life(1_001, "version", "identified", version=version)]
    settled = settle(Given({**server.rows, "namesrv_events": begin}).input)
    assert said_of(settled, DELETION) == [(DELETION, "false", *(("inferred", 1) if version == 493 else ("default", 0)))]


def test_single_beats_are_read_only_where_answers_may_tell_something() -> None:
    """Without answers, or where no registration leaves out a topic, none is."""
    given = first_day()
    settle(given.input)
    assert ("heartbeats", True) not in given.reads
    begin = [life(1_000, "start", "started"), life(1_001, "version", "identified", version=493)]
    same = [registered(ms, f"{ms}", "TU") for ms in (10_000, 40_000)]
    answers = [answered(50_000, "a", 206, None, json.dumps({"topicList": ["T", "U"]}))]
    given = Given({"namesrv_events": begin, "registrations": same, "route_observations": answers})
    settle(given.input)
    assert ("heartbeats", True) not in given.reads


def silent(tick_ms: float) -> dict[str, list[Row]]:
    """Return a day of a broker with a lease of ten seconds that is silent from 109.1 s on; it stands in routes until `tick_ms`."""
    server = Server(DAY, NamesrvConfig())
    server.registered(109_100, "TV", 1)
    beats = [{**beat, "heartbeat_timeout_ms": 10_000} for beat in server.rows["registrations"]]
    for ms in range(115_000, 130_000, 1_000):
        if ms > tick_ms:
            end = events.UnregisterBroker("C", "10.0.0.2:10911", "broker-a", 0)
            take(server.registry, end, seq_at(ms, DAY) // 1_000_000, server.namesrv)
        server.asked(ms + 1, "T")
    return {"registrations": beats, "route_observations": server.rows["route_observations"]}


def phases(rows: dict[str, list[Row]]) -> list[tuple[int, str, int]]:
    """Return the phase of scans that is settled, how it is known, and the answers for it."""
    settled = settle(Given(rows, first_seen_seq=seq_at(500)).input).settings.to_pylist()
    return [(int(r["value"]), r["source"], r["answers_for"]) for r in settled if r["setting"] == "scan_phase_us"]


@pytest.mark.parametrize("is_seen", [True, False], ids=["mid-life", "a log that does not say since when"])
@pytest.mark.parametrize(("tick_ms", "found"), [(123_300, [(3_500_500, "inferred", 5)]), (120_700, [])])
def test_a_guessed_tick_that_answers_contradict_is_corrected(
    tick_ms: float, found: list[tuple[int, str, int]], *, is_seen: bool
) -> None:
    """A broker whose lease has ended stands in routes until a scan that no packet shows, at 123.3 s and not at 120.5 s."""
    begin = [life(1_000, "seen", "observed_from"), life(1_001, "version", "identified", version=493)][not is_seen :]
    assert phases({**silent(tick_ms), "namesrv_events": begin}) == found


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        {"registrations": [registered(119_500, "again", "TV", heartbeat_timeout_ms=10_000)]},
        {"registrations": [registered(100_000, "shorter", "TV", heartbeat_timeout_ms=9_000)]},
        {"heartbeats": [row(119_050, "light", broker_addr="10.0.0.2:10911", cluster_name="C", code=904)]},
        {"channel_events": [ended(119_000, "lost", channel_id="c#1")]},
        {"unregistrations": [row(119_050, "left", broker_addr="10.0.0.2:10911", broker_name="broker-a", broker_id=0)]},
        {"namesrv_events": [life(119_050, "again", "started")]},
        {"namesrv_events": [life(119_050, "gap", "recording_gap")]},
    ],
    ids=["beats", "another lease", "light", "closed", "unregistered", "restart", "gap"],
)
def test_answers_tell_of_scans_only_what_nothing_else_can_have_done(rows: dict[str, list[Row]]) -> None:
    """The lease did not end, or is not known, or the broker was out before it did."""
    begin = [life(1_000, "seen", "observed_from"), life(1_001, "version", "identified", version=493)]
    given = {"namesrv_events": begin, **silent(123_300)}
    assert phases(given) != []
    assert phases({name: [*given.get(name, ()), *rows.get(name, ())] for name in {*given, *rows}}) == []


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
    assert settled.others.num_rows == 0


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
    settled = settle(Given(rows, earlier=[begun], **before).input)
    assert settled.context.schedule.first_tick(seq_at(0), 0) == seq_at(1_234.567) - 1
    rows["namesrv_events"] = [life(60_000, "c", "started")]
    settled = settle(Given(rows, earlier=[begun], **before).input)
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
