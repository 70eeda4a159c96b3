"""What the response to a registration shows of a past that was not recorded, and what it cannot explain."""

from __future__ import annotations

import json

import pytest

from namesrv_core import Outcome, Step, step
from namesrv_core.asking.answers import answer_to
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer
from namesrv_core.machine.past import ANY, ROUTE_KINDS, Entity, Mark
from namesrv_core.machine.rows import KvValue
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG
from tests.core.test_bootstrap import A, B, Server, register, server_with
from tests.core.test_unknown_past import FIVE, knows, past_of

ORDERED = json.dumps({"table": {"T": "a:4", "U": "b:2"}})
MASTER = (("haServerAddr", "10.0.0.1:10912"), ("masterAddr", A))
SLAVE = register(addr=B)._replace(broker_id=1, channel_id="d")


def told(server: Server, asked: events.RegisterBroker, answered: Answer, at_ms: int) -> Step:
    """Let a registration be taken, and its response be seen."""
    server.take(asked, at_ms)
    return server.take(events.ResponseObserved(asked, answered), at_ms)


def order_confs(server: Server) -> dict[str | None, KvValue] | None:
    """Return the order configurations that the registry holds."""
    held = server.registry.kv_config_table.get(ORDER_TOPIC_CONFIG)
    return None if held is None else dict(held)


def test_a_response_shows_the_order_configuration() -> None:
    """All of it: from then on it is known, and another one is no matter of the past."""
    server = Server()
    first = told(server, register(), Answer(0, ORDERED), 10)
    assert (first.outcome, order_confs(server)) == (Outcome.UNKNOWN_PAST, {"T": KvValue("a:4"), "U": KvValue("b:2")})
    assert all(knows(server, "kv_config", ORDER_TOPIC_CONFIG, topic) for topic in ("T", "U", "V", ANY))
    assert told(server, register(), Answer(0, ORDERED), 20).outcome == Outcome.NO_EFFECT
    wrong = told(server, register(), Answer(0, json.dumps({"table": {"T": "a:8"}})), 30)
    assert (wrong.outcome, wrong.changes) == (Outcome.NO_EFFECT, ())


def test_what_a_response_no_longer_shows_is_gone() -> None:
    """An entry that was seen to be put is known; one that came from nowhere is corrected."""
    server = Server()
    server.take(events.PutKvConfig(ORDER_TOPIC_CONFIG, "T", "a:4"), 5)
    assert told(server, register(), Answer(0, ORDERED), 10).outcome == Outcome.UNKNOWN_PAST
    server.take(events.DeleteKvConfig(ORDER_TOPIC_CONFIG, "U"), 15)
    assert told(server, register(), Answer(0, ORDERED), 20).outcome == Outcome.NO_EFFECT
    assert order_confs(server) == {"T": KvValue("a:4")}


@pytest.mark.parametrize("body", ['{"table": 1}', '{"table": {"T": 1}}', "[]", "{"])
def test_a_body_that_is_none_shows_nothing(body: str) -> None:
    """What is not an order configuration corrects nothing."""
    server = Server()
    assert told(server, register(), Answer(0, body), 10).changes == ()
    assert order_confs(server) is None


def test_a_slave_is_told_its_master() -> None:
    """Its address was not known; its lease and version stay so, and so does what hangs on them."""
    server = Server(FIVE)
    step = told(server, SLAVE, Answer(0, None, None, MASTER), 10)
    assert (step.outcome, server.members("a")) == (Outcome.UNKNOWN_PAST, {0: A, 1: B})
    assert knows(server, "broker_addr", "a", 0)
    again = told(server, SLAVE, Answer(0, None, None, MASTER), 20)
    assert (again.outcome, again.changes) == (Outcome.UNKNOWN_PAST, ())


def test_a_master_that_is_known_is_no_matter_of_the_past() -> None:
    """It registered in the recording; a slave that is told another one, or none, was told something else than is known."""
    server = Server(FIVE)
    server.take(events.NamesrvStarted(), 0)
    server.take(register()._replace(ha_server_addr="10.0.0.1:10912"), 10)
    assert told(server, SLAVE, Answer(0, None, None, MASTER), 20).outcome == Outcome.NO_EFFECT
    for fields in ((), (("masterAddr", "10.0.0.7:10911"),)):
        step = told(server, SLAVE, Answer(0, None, None, fields), 30)
        assert (step.outcome, step.changes, server.members("a")[0]) == (Outcome.NO_EFFECT, (), A)


def test_whether_a_lone_topic_is_refused_hangs_on_what_was_there() -> None:
    """5.x refuses it where the id is new: that is unknown until the id is."""
    server = Server(FIVE)
    lone = register()._replace(topics=None)
    refused = Answer(1, None, "register broker failed")
    assert told(server, lone, refused, 10).outcome == Outcome.UNKNOWN_PAST
    server.take(events.NamesrvStarted(), 20)
    assert told(server, register(), refused, 30).outcome == Outcome.NO_EFFECT


def test_a_version_query_is_told_of_an_entry_that_nobody_showed() -> None:
    """It differs only in what was not known until the broker registers; then it is no matter of the past."""
    server, version = Server(), register().data_version
    query, stored = events.QueryDataVersion("C", A, version), '{"counter":1,"stateVersion":0,"timestamp":1}'
    answered = Answer(0, stored, None, (("changed", "false"),))
    server.take(query, 10)
    assert server.take(events.ResponseObserved(query, answered), 10).outcome == Outcome.UNKNOWN_PAST
    server.take(register(), 20)
    changed = answered._replace(fields=(("changed", "true"),))
    assert server.take(events.ResponseObserved(query, changed), 30).outcome == Outcome.NO_EFFECT


def test_where_all_is_known_a_response_teaches_nothing() -> None:
    """It is for the verification to judge."""
    server = Server(known=True)
    assert told(server, register(), Answer(0, ORDERED), 10).changes == ()


@pytest.mark.parametrize("event", [events.WipeWritePerm("a"), events.AddWritePerm("a")])
def test_how_many_topics_a_broker_has_hangs_on_which_are_known(
    event: events.WipeWritePerm | events.AddWritePerm,
) -> None:
    """What a change of permissions says of a broker whose topics nothing has shown yet is the past's; later it is a mismatch."""
    true, server, known = server_with(register(), namesrv=FIVE), Server(FIVE), Server(FIVE)
    answered = answer_to(event, step(true.registry, event, 0, FIVE), true.registry, FIVE)
    assert server.take(events.ResponseObserved(event, answered), 10).outcome == Outcome.UNKNOWN_PAST
    past_of(known).note([Mark(Entity(kind, ANY, ANY)) for kind in ROUTE_KINDS])
    past_of(known).note_listed(frozenset())
    assert known.take(events.ResponseObserved(event, answered), 10).outcome == Outcome.NO_EFFECT
