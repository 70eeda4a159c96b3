"""An unknown past and its answers: what one may correct, and what is kept of it."""

from __future__ import annotations

import json

import pytest

from namesrv_core import Namesrv, NamesrvConfig, Outcome
from namesrv_core.asking.shown import entries_shown, shown_by
from namesrv_core.history.intervals import Histories
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.past import ACTING, ANY, GROUP, ROUTE_KINDS, Entity, Mark
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.rows import KvValue, LiveKey
from namesrv_core.replay import bootstrap
from tests.core.test_bootstrap import (
    CLUSTER_INFO,
    FOUR,
    GHOST,
    NO_ROUTE,
    ROUTE,
    TOPIC_LIST,
    A,
    B,
    Server,
    register,
    seen_by,
    server_with,
    topics,
)
from tests.core.test_unknown_past import FIVE, OF_CLUSTER, ROUTE_U, SETTLED_MS, knows, past_of

# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_list_over_several_tables_is_judged_but_corrects_nothing() -> None:
    """The topics of a cluster: another list is an unknown past until topics, groups and sets are known completely."""
    other = server_with(register(topics(T=FOUR, V=FOUR)))
    server = Server()
    server.take(register(), 10)
    step = server.see(OF_CLUSTER, other.says(OF_CLUSTER), 20)
    assert (step.outcome, step.changes) == (Outcome.UNKNOWN_PAST, ())
    assert server.see(OF_CLUSTER, server_with(register()).says(OF_CLUSTER), 30).outcome == Outcome.NO_EFFECT
    assert server.see(OF_CLUSTER, Answer(1, None, "disable"), 40).outcome == Outcome.NO_EFFECT
    known = Server()
    known.take(events.NamesrvStarted(), 0)
    known.take(register(), 10)
    known.see(TOPIC_LIST, known.says(TOPIC_LIST), 20)
    assert known.see(OF_CLUSTER, other.says(OF_CLUSTER), 30).outcome == Outcome.NO_EFFECT


@pytest.mark.parametrize(
    ("question", "event"),
    [
        (Question(901, "a", scope="C"), register()),
        (Question(101, "T", scope="N"), events.PutKvConfig("N", "T", "v")),
        (Question(219, "N"), events.PutKvConfig("N", "T", "v")),
    ],
)
def test_answers_about_members_and_entries_are_judged_by_what_is_known(question: Question, event: events.Event) -> None:
    """Before the group, or the entry, has shown itself the difference is the past's; once all is known it is a mismatch."""
    true, server, known = server_with(event, namesrv=FIVE), Server(FIVE), Server(FIVE)
    assert server.see(question, true.says(question), 20).outcome == Outcome.UNKNOWN_PAST
    past_of(known).note([Mark(Entity(kind, ANY, ANY)) for kind in (*ROUTE_KINDS, "kv_config")])
    assert known.see(question, true.says(question), 20).outcome == Outcome.NO_EFFECT
    assert server.see(question, server.says(question), 30).outcome == Outcome.NO_EFFECT


def test_a_believed_slave_that_stands_as_master_is_confirmed() -> None:
    """A route shows the address as id 0, the registry believes it to be id 1: the same, and now known; other ids not."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    slave = register()._replace(broker_id=1, enable_acting_master=True)
    server = Server(namesrv)
    server.take(slave, 10)
    assert not knows(server, "broker_addr", "a", 1)
    step = server.see(ROUTE, server_with(slave, namesrv=namesrv).says(ROUTE), 20)
    assert (step.outcome, server.members("a")) == (Outcome.NO_EFFECT, {1: A})
    assert knows(server, "broker_addr", "a", 1)
    assert not past_of(server).knows_all("broker_addr", "a")


def test_a_slave_stands_as_master_because_one_that_was_never_heard_has_gone() -> None:
    """Both were shown; of the master nothing else is known, so that it may have gone unseen. That is the past's, no mismatch."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    master = register()._replace(enable_acting_master=True)
    slave = register(addr=B)._replace(broker_id=1, enable_acting_master=True)
    server, gone = Server(namesrv), events.UnregisterBroker("C", A, "a", 0)
    server.take(slave, 10)
    seen_by(server, server_with(master, slave, namesrv=namesrv), [CLUSTER_INFO, ROUTE], 20)
    step = server.see(ROUTE, server_with(master, slave, gone, namesrv=namesrv).says(ROUTE), 30)
    assert (step.outcome, server.members("a")) == (Outcome.UNKNOWN_PAST, {1: B})


def test_a_slave_stands_as_master_though_the_one_that_was_heard_is_there() -> None:
    """Both registered and all of the group is known: it is compared as routes show it, and another master is a mismatch."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    master = register()._replace(enable_acting_master=True)
    slave = register(addr=B)._replace(broker_id=1, enable_acting_master=True)
    server, gone = Server(namesrv), events.UnregisterBroker("C", A, "a", 0)
    for at_ms, heard in enumerate((master, slave), start=10):
        server.take(heard, at_ms)
    seen_by(server, server_with(master, slave, namesrv=namesrv), [CLUSTER_INFO, ROUTE], 20)
    assert past_of(server).knows_all("broker_addr", "a")
    step = server.see(ROUTE, server_with(master, slave, gone, namesrv=namesrv).says(ROUTE), 30)
    assert (step.outcome, step.changes, server.members("a")) == (Outcome.NO_EFFECT, (), {0: A, 1: B})


@pytest.mark.parametrize(("profile", "known"), [(V4_9_7, True), (V5_4_0, False)])
def test_a_lost_member_puts_the_queue_data_in_doubt_in_5x(profile: Profile, *, known: bool) -> None:
    """Cluster info without a member it had shown: in 5.x the group may have lost the write bit with it, never in 4.x."""
    namesrv, slave = Namesrv(profile), register(addr=B)._replace(broker_id=1)
    server = Server(namesrv)
    seen_by(server, server_with(register(), slave, namesrv=namesrv), [CLUSTER_INFO, ROUTE], 10)
    assert knows(server, "topic_queue", "T", "a")
    left = server_with(slave, namesrv=namesrv)
    assert server.see(CLUSTER_INFO, left.says(CLUSTER_INFO), 20).outcome == Outcome.UNKNOWN_PAST
    assert server.members("a") == {1: B}
    assert knows(server, "topic_queue", "T", "a") is known


QUEUE = '{"brokerName":"a","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicSysFlag":0}'


def test_queue_data_without_a_group_is_taken_as_shown() -> None:
    """A route may name a broker in its queue data only: the row is known, and so is that the group is not there."""
    server = Server()
    step = server.see(ROUTE, Answer(0, f'{{"queueDatas":[{QUEUE}],"brokerDatas":[]}}'), 10)
    assert step.outcome == Outcome.UNKNOWN_PAST
    assert server.registry.queue_data("T", "a") == FOUR
    assert "a" not in server.registry.broker_addr_table
    assert knows(server, "broker_addr", "a", 0)


def test_an_order_configuration_joins_those_that_are_there() -> None:
    """The namespace exists already: the shown entry is added, the others stay."""
    namesrv = Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True))
    server = Server(namesrv)
    server.take(events.PutKvConfig("ORDER_TOPIC_CONFIG", "U", "a:8"), 5)
    true = server_with(events.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "a:4"), register(), namesrv=namesrv)
    server.see(ROUTE, true.says(ROUTE), 10)
    entries = server.registry.kv_config_table["ORDER_TOPIC_CONFIG"]
    assert dict(entries.items()) == {"U": KvValue("a:8"), "T": KvValue("a:4")}


@pytest.mark.parametrize(
    "answered",
    [
        Answer(1, f'{{"queueDatas":[{QUEUE}],"brokerDatas":[]}}'),
        Answer(0, None),
        Answer(0, f'{{"queueDatas":[{QUEUE.replace("6", "true")}],"brokerDatas":[]}}'),
    ],
)
def test_an_error_or_a_number_that_is_none_shows_nothing(answered: Answer) -> None:
    """An error shows nothing whatever its body; a body of the right form is refused if a number in it is none."""
    assert shown_by(ROUTE, Answer(0, f'{{"queueDatas":[{QUEUE}],"brokerDatas":[]}}')) is not None
    assert shown_by(ROUTE, answered) is None


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_a_copied_registry_has_a_past_of_its_own() -> None:
    """Doubts go along; what the copy learns the first does not know."""
    server = Server()
    past = past_of(server)
    server.take(events.NamesrvStarted(), 0)
    server.take(events.UnregisterBroker("C", GHOST, "b", 0), 5)
    past.note(bootstrap._doubts_about("a"))
    twin = server.registry.copy().past
    assert twin is not None
    assert not twin.knows("topic_queue", "T", "a")
    assert not twin.knows_all("topic_queue", "T")
    assert twin.knows("topic_queue", "T", "b")
    twin.note_listed(frozenset())
    assert twin.knows("topic_queue", "T", "a")
    assert not past.knows("topic_queue", "T", "a")


def test_an_interval_is_known_from_the_answer_that_confirms_it() -> None:
    """A believed row opens without known_from_us; an answer that shows the same sets it, later ones do not move it."""
    server, histories, true = Server(), Histories(), server_with(register())
    steps = [server.take(register(), 10), server.see(ROUTE, true.says(ROUTE), 20), server.see(ROUTE_U, NO_ROUTE, 30)]
    for seq, (step, expected) in enumerate(zip(steps, (None, 1_000_001, 1_000_001), strict=True)):
        list(
            histories.record(step.changes, seq=seq, event_id=str(seq), at_us=1_000_000 + seq, certainty=step.certainty)
        )
        rows = {(row.table, row.key): row for row in histories.open_intervals()}
        assert rows["topic_queue", ("T", "a")].known_from_us == expected
        assert not rows["topic_queue", ("T", "a")].beginning_seen
    assert ("topic_queue", ("U", "a")) not in rows


def test_a_group_that_is_certain_to_be_gone_takes_its_topics_along() -> None:
    """After a start all of the group is known: with its last member its topics and its role are known not to be."""
    server = Server()
    server.take(events.NamesrvStarted(), 0)
    server.take(register(), 10)
    server.take(events.UnregisterBroker("C", A, "a", 0), 20)
    assert not server.registry.broker_addr_table
    assert knows(server, "topic_queue", "T", "a")
    assert knows(server, GROUP, "a", ACTING)
    wrong = server_with(register())
    assert server.see(ROUTE, wrong.says(ROUTE), 30).outcome == Outcome.NO_EFFECT


def test_a_group_of_unknown_role_that_loses_a_member_may_have_lost_its_write_permissions() -> None:
    """5.x: a member group names the addresses and not whether it acts; without its master an acting group is wiped."""
    server = Server(FIVE)
    slave = register(addr=B)._replace(broker_id=1)
    seen_by(server, server_with(register(), slave, namesrv=FIVE), [Question(901, "a"), ROUTE], SETTLED_MS)
    past_of(server).note([bootstrap._doubt(GROUP, "a", ACTING)])
    assert knows(server, "topic_queue", "T", "a")
    server.take(events.UnregisterBroker("C", A, "a", 0), SETTLED_MS + 10)
    assert not knows(server, "topic_queue", "T", "a")


def test_equal_answers_about_silent_members_teach_nothing_until_these_must_be_gone() -> None:
    """Whoever only beats is not known to live: what an answer says of it stands as long as its lease may, then it is settled."""
    true, server = server_with(register()), Server()
    taught = [server.see(ROUTE, true.says(ROUTE), ms).result is not None for ms in (10, 20, 30)]
    assert taught == [True, False, False]
    assert not knows(server, "settled", *LiveKey(None, A))
    assert server.see(ROUTE, true.says(ROUTE), SETTLED_MS + 60_000).result is not None
    assert knows(server, "settled", *LiveKey(None, A))


def test_what_an_answer_corrects_stands_in_the_order_of_its_body_behind_what_it_takes_away() -> None:
    """The positions of the rows, and the order of their maps, hang on nothing that is another in each process."""
    names = [f"broker-{number}" for number in (7, 3, 9, 1, 8, 2, 6, 4)]
    groups = {name: {"brokerAddrs": {"0": f"{name}:1"}, "brokerName": name, "cluster": f"of-{name}"} for name in names}
    body = {"brokerAddrTable": groups, "clusterAddrTable": {f"of-{name}": [name] for name in reversed(names)}}
    server, gone = Server(), [f"gone-{number}" for number in (5, 2, 4, 1, 3)]
    for name in gone:
        true = server_with(register(addr=f"{name}:1", name=name, table=topics(**{name: FOUR})))
        seen_by(server, true, [Question(105, name)], 10)
    step = server.see(CLUSTER_INFO, Answer(0, json.dumps(body)), 20)
    assert [change.key[0] for change in step.changes if change.table == "broker_addr_table"] == [*gone, *names]
    assert [change.key[1] for change in step.changes if change.table == "cluster_addr_table"] == [*reversed(names)]
    taken = [register(addr=A, name="a", table=topics(**dict.fromkeys("QWERTYUI", FOUR)))]
    server = Server()
    for topic in "QWERTYUI":
        seen_by(server, server_with(*taken), [Question(105, topic)], 10)
    step = server.see(TOPIC_LIST, Answer(0, json.dumps({"topicList": []})), 20)
    assert [change.key[0] for change in step.changes] == [*"QWERTYUI"]


@pytest.mark.parametrize("body", [None, "{", "[]", '{"table": [1]}', '{"table": {"key": 1}}', "{}"])
def test_what_is_no_list_of_entries_shows_none(body: str | None) -> None:
    """A body that a name server cannot have sent is no evidence about its KV table."""
    assert entries_shown(Answer(0, body)) is None
    assert entries_shown(Answer(0, '{"table": {"key": "value"}}')) == {"key": "value"}
    assert entries_shown(Answer(1, '{"table": {"key": "value"}}')) is None
