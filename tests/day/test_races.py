"""What the core decides of events of a day that raced, among runs of beats as among single ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from namesrv_core import V5_4_0, Namesrv, Question, Registry, answer, take
from namesrv_core.inference.decisions import Deciding
from namesrv_core.inference.races import Day
from namesrv_core.machine import events
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_day import replay as replaying
from namesrv_day.arrow import table_of
from namesrv_day.events import OTHERS, day_events
from namesrv_day.settle import Settled, settle
from schemas import gold
from tests.core.test_decisions import decide
from tests.day.lives import one_by_one
from tests.day.settle_given import DAY, NAMESRV, Given, Row, answered, ended, life, registered, replayed, row, seq_at

START = [life(1_000, "start", "started"), life(1_001, "version", "identified", version=493)]


def test_an_answer_decides_a_race() -> None:
    """A registration without response, then its connection's end; the broker is still there: the close came first."""
    named = {"broker-a": "10.0.0.2:10911", "broker-b": "10.0.0.3:10911"}
    registry, topics = Registry(V5_4_0), TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in "TU"])
    for number, (name, addr) in enumerate(named.items()):
        version = DataVersion(0, 1, 2)
        take(
            registry,
            events.RegisterBroker("C", addr, name, 0, None, version, topics, (), f"{number}", False),
            0,
            Namesrv(V5_4_0),
        )
    body = answer(registry, Question(106), Namesrv(V5_4_0)).body
    one, other = (
        registered(4_000 + n, name[-1] * 32, "TU", broker_name=name, broker_addr=addr, channel_id=f"{name}#1")
        for n, (name, addr) in enumerate(named.items())
    )
    given = Given(
        {
            "namesrv_events": START,
            "registrations": [{**one, "response_code": None}, other],
            "channel_events": [ended(4_002, "c" * 32, channel_id="broker-a#1")],
            "route_observations": [answered(6_000, "d" * 32, 106, None, body)],
        }
    )
    settled = settle(given.input)
    tables = replayed(given, settled).tables
    (decision,) = tables["order_decisions"].to_pylist()
    assert (decision["namesrv_id"], decision["day"], decision["kind"]) == (NAMESRV, DAY, "register_and_close")
    assert decision["event_ids"] == ["a" * 32, "c" * 32]
    assert (decision["chosen"], decision["answers_for"], decision["evidence_for"]) == (1, 1, ["d" * 32])
    assert (decision["answers_against"], decision["evidence_against"]) == (0, [])
    assert (decision["channel_ids"], len(decision["alternatives"])) == (["broker-a#1"], 2)
    assert decision["effect_time"].timestamp() * 1_000 == seq_at(4_000) // 1_000_000
    assert tables["order_decisions"].schema == table_of((), gold.ORDER_DECISIONS).schema
    assert {row["event_id"]: row["seq"] for row in tables["event_outcomes"].to_pylist()}["a" * 32] == seq_at(4_002) + 1


@pytest.mark.parametrize(("counter", "chosen"), [(3, 0), (2, 1)])
def test_the_answer_to_a_version_query_decides_a_race(counter: int, chosen: int) -> None:
    """Two registrations of a broker under way together: what it is told of its version later says which came last."""
    version: Row = {"state_version": 0, "timestamp": 1, "counter": 2}
    said: Row = {"code": 322, "one_way": False, "request_version": 493, "response_code": 0, "data_version": version}
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.2:10911"}
    told: Row = {"response_fields": f'{{"changed":"{str(counter != 2).lower()}"}}'}
    told["response_body"] = f'{{"counter":{counter},"stateVersion":0,"timestamp":1}}'
    given = Given(
        {
            "namesrv_events": START,
            "registrations": [
                registered(4_000, "a" * 32, "TU", received_ms=3_990),
                registered(4_001, "b" * 32, "TUV", received_ms=3_991),
            ],
            "heartbeats": [row(6_000, "d" * 32, **broker, **said, **told)],
        }
    )
    tables = replayed(given, settle(given.input)).tables
    (decision,) = tables["order_decisions"].to_pylist()
    assert (decision["chosen"], decision["evidence_for"]) == (chosen, ["d" * 32])
    held = [row["data_version"] for row in tables["broker_live_history"].to_pylist() if row["closed_by"] is None]
    assert held == [{"state_version": 0, "timestamp": 1, "counter": counter}]


def test_a_day_without_races_has_no_decisions() -> None:
    """And moves nothing."""
    given = Given({"namesrv_events": START, "registrations": [registered(4_000, "a")]})
    settled = settle(given.input)
    decisions = replayed(given, settled).tables["order_decisions"]
    assert (decisions.num_rows, decisions.schema) == (0, table_of((), gold.ORDER_DECISIONS).schema)


class Fleet:
    """Four brokers that beat for three hours, of which one registers anew, in the second, while its old connection ends."""

    addrs = tuple(f"10.0.0.{n}:10911" for n in range(2, 6))
    again_ms = 5_375_500

    def __init__(self) -> None:
        self.registry = Registry(V5_4_0)
        beats = [self._registered(2_000 + n, n) for n in range(4)]
        whole = self._answer()
        take(self.registry, events.UnregisterBroker("C", self.addrs[0], "broker-0", 0), 0, Namesrv(V5_4_0))
        without = self._answer()
        beats.append(self._registered(self.again_ms + 5, 0, received_ms=self.again_ms - 1, channel_id="new#1"))
        beats.append(self._registered(self.again_ms + 60_000, 0, channel_id="new#1"))
        shown = [(self.again_ms + 10_000, without), *((ms, whole) for ms in range(70_000, 10_800_000, 100_000))]
        self.rows: dict[str, list[Row]] = {
            "namesrv_events": START,
            "registrations": beats,
            "channel_events": [ended(self.again_ms, "c" * 32, channel_id="old-0#1")],
            "heartbeats": [self.beat(ms + n, n) for ms in range(30_000, 10_800_000, 30_000) for n in range(4)],
            "route_observations": [answered(ms, f"{ms:032x}", 106, None, body) for ms, body in shown],
        }

    def beat(self, ms: float, number: int) -> Row:
        """Return a version query that was answered."""
        said: Row = {"code": 322, "one_way": False, "request_version": 493, "response_code": 0, "cluster_name": "C"}
        version: Row = {"data_version": {"state_version": 0, "timestamp": 1, "counter": 2}}
        name, addr = f"broker-{number}", f"10.0.0.{number + 2}:10911"
        return row(ms, f"beat-{ms}", broker_name=name, broker_addr=addr, **said, **version)

    def _registered(self, ms: float, number: int, **values: Any) -> Row:
        name, addr, version = f"broker-{number}", self.addrs[number], DataVersion(0, 1, 2)
        topics = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in "TU"])
        event = events.RegisterBroker("C", addr, name, 0, None, version, topics, (), f"{ms}", False)
        take(self.registry, event, 0, Namesrv(V5_4_0))
        said: Row = {"broker_name": name, "broker_addr": addr, "channel_id": f"old-{number}#1", **values}
        return registered(ms, f"r{ms}", "TU", **said)

    def _answer(self) -> str | None:
        return answer(self.registry, Question(106), Namesrv(V5_4_0)).body


def decided(given: Given, settled: Settled, *, folds: bool = True) -> Deciding:
    """Return how a day's races were decided while it was replayed, with runs of beats or beat by beat."""
    found: list[Deciding] = []

    def noted(day: Day) -> Deciding:
        found.append(Deciding(day))
        return found[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replaying, "Deciding", noted)
        if not folds:
            patched.setattr(replaying, "folded", one_by_one)
        replayed(given, settled)
    return found[0]


def ending_as_recorded(given: Given, settled: Settled) -> Settled:
    """Return what is settled of another day with the events of this one, its connections ending as recorded."""
    with_answers = settled.context.has_unknown_past
    return replace(settled, others=day_events(given.input.today, tables=OTHERS, with_answers=with_answers))


def in_both_ways(rows: dict[str, list[Row]]) -> tuple[Deciding, Deciding]:
    """Return how races are decided among runs of beats, and among single ones; the connections end as recorded."""
    given = Given(rows)
    settled = ending_as_recorded(given, settle(Given({"namesrv_events": START}, going_on=True).input))
    return decided(given, settled), decided(given, settled, folds=False)


@pytest.mark.slow
def test_runs_of_beats_decide_races_as_single_beats_do() -> None:
    """Where nothing happens to a broker, its beats are not replayed one by one."""
    of_runs, of_singles = in_both_ways(Fleet().rows)
    assert [(one.race.kind, one.chosen) for one in of_runs.decided] == [("removal_and_registration", 1)]
    assert len(of_runs.decided[0].answers_for) == 1
    assert {event.event_id for event in of_runs.placed} == {"c" * 32, f"r{Fleet.again_ms + 5}"}
    assert (of_runs.decided, of_runs.placed) == (of_singles.decided, of_singles.placed)
    assert len(of_runs.day.timed_events) < len(of_singles.day.timed_events) // 2


def test_beats_that_do_more_than_renew_leases_are_replayed_one_by_one() -> None:
    """A registration with another topic, in an hour before in which nothing else happens: the core refuses it as a run."""
    rows = Fleet().rows
    broker = {"broker_name": "broker-3", "broker_addr": Fleet.addrs[3], "channel_id": "old-3#1"}
    one, other = in_both_ways(
        {**rows, "registrations": [*rows["registrations"], registered(4_000_500, "new", "TUV", **broker)]}
    )
    assert (one.decided, one.placed) == (other.decided, other.placed)


def test_races_are_decided_while_the_day_is_replayed_as_in_a_replay_of_their_own() -> None:
    """Of the same registry: what went before is known of it then, and what comes is not."""
    for deciding in in_both_ways(Fleet().rows):
        assert deciding.decided
        assert (deciding.decided, deciding.placed) == decide(deciding.recorded._replace(start=Registry(V5_4_0)))
