"""What raced on a day: the decision, and the events where they take effect."""

from __future__ import annotations

from namesrv_core import V5_4_0, Namesrv, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicTable
from namesrv_day.arrow.rows import table_of
from namesrv_day.settle.settle import settle
from schemas import gold
from tests.day.settle_given import DAY, NAMESRV, Given, answered, ended, life, registered, replayed, seq_at

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
    (decision,) = settled.decisions.order_decisions.to_pylist()
    assert (decision["namesrv_id"], decision["day"], decision["kind"]) == (NAMESRV, DAY, "register_and_close")
    assert decision["event_ids"] == ["a" * 32, "c" * 32]
    assert (decision["chosen"], decision["answers_for"], decision["evidence_for"]) == (1, 1, ["d" * 32])
    assert (decision["answers_against"], decision["evidence_against"]) == (0, [])
    assert (decision["channel_ids"], len(decision["alternatives"])) == (["broker-a#1"], 2)
    assert decision["effect_time"].timestamp() * 1_000 == seq_at(4_000) // 1_000_000
    assert settled.decisions.order_decisions.schema == table_of((), gold.ORDER_DECISIONS).schema
    outcomes = replayed(given, settled).tables["event_outcomes"].to_pylist()
    assert {row["event_id"]: row["seq"] for row in outcomes}["a" * 32] == seq_at(4_002) + 1


def test_a_day_without_races_has_no_decisions() -> None:
    """And moves nothing."""
    found = settle(Given({"namesrv_events": START, "registrations": [registered(4_000, "a")]}).input).decisions
    assert (found.order_decisions.num_rows, found.moves.num_rows) == (0, 0)
    assert found.order_decisions.schema == table_of((), gold.ORDER_DECISIONS).schema
