"""A recording that begins mid-life: what each kind of evidence makes known, and what it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from namesrv_core import Namesrv, NamesrvConfig, Outcome, Registry, Step, answer, take
from namesrv_core.asking.shown import shown_by
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.past import ANY, Entity, Mark, Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0
from namesrv_core.machine.rows import BrokerData, DataVersion, LiveKey, QueueData, TopicConfig, TopicTable

A, B, GHOST = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.9:10911"
V1, V2 = DataVersion(0, 1, 1), DataVersion(0, 2, 2)
FOUR, EIGHT, READ_ONLY = QueueData(4, 4, 6, 0), QueueData(8, 8, 6, 0), QueueData(4, 4, 4, 0)
ROUTE, CLUSTER_INFO, TOPIC_LIST = Question(105, "T"), Question(106), Question(206)
NO_ROUTE = Answer(17, None, "No topic route info")


def topics(**queue_datas: QueueData) -> TopicTable:
    return TopicTable([TopicConfig(topic, *data) for topic, data in queue_datas.items()])


def register(
    table: TopicTable | None = None,
    version: DataVersion = V1,
    addr: str = A,
    name: str = "a",
) -> events.RegisterBroker:
    table = topics(T=FOUR, U=FOUR) if table is None else table
    return events.RegisterBroker("C", addr, name, 0, None, version, table, (), "c")


class Server:
    """A name server whose recording begins at 0 ms; `known`: whether it is recorded from its start.

    `hears`: whether its brokers are recorded, so that silence says something; otherwise only answers are.
    """

    def __init__(self, namesrv: Namesrv | None = None, *, known: bool = False, hears: bool = True) -> None:
        self.namesrv = namesrv or Namesrv(V4_9_7)
        self.registry = Registry(self.namesrv.profile)
        self.registry.past = None if known else Past(0)
        if self.registry.past is not None and hears:
            self.registry.past.last_effect_ms = 0

    def take(self, event: events.Event, at_ms: int) -> Step:
        """Let an event happen."""
        return take(self.registry, event, at_ms, self.namesrv)

    def see(self, question: Question, answered: Answer, at_ms: int, asked_ms: int | None = None) -> Step:
        """Let an answer be seen; it was asked for at the same instant, or at `asked_ms`."""
        asked = at_ms if asked_ms is None else asked_ms
        return self.take(events.AnswerObserved(question, answered, asked * 1_000_000), at_ms)

    def members(self, name: str) -> dict[int, str | None]:
        """Return the group of `name`, addresses by id."""
        return self.registry.broker_addr_table[name].addr_of

    def says(self, question: Question) -> Answer:
        """Return what the registry answers."""
        return answer(self.registry, question, self.namesrv)


def server_with(*taken: events.Event, namesrv: Namesrv | None = None) -> Server:
    """Return a server that is recorded from its start: it gives the answers that the others see."""
    server = Server(namesrv, known=True)
    for event in taken:
        server.take(event, 0)
    return server


def seen_by(server: Server, true: Server, questions: Iterable[Question], at_ms: int) -> list[Outcome]:
    return [server.see(question, true.says(question), at_ms).outcome for question in questions]


def test_an_answer_shows_a_route_and_is_then_given_again() -> None:
    """A route makes its queue data and groups known; the same answer later says nothing new."""
    true, server = server_with(register()), Server()
    first, second = (server.see(ROUTE, true.says(ROUTE), at_ms) for at_ms in (100, 200))
    assert (first.outcome, second.outcome) == (Outcome.UNKNOWN_PAST, Outcome.NO_EFFECT)
    assert server.says(ROUTE) == true.says(ROUTE)
    assert first.certainty is not None
    assert ("topic_queue", ("T", "a")) in first.certainty.known
    assert ("broker_addr", ("a", 0)) in first.certainty.known
    assert not first.certainty.begun


def test_an_answer_cannot_change_what_is_known() -> None:
    """A route that contradicts a row whose every writer was seen is no unknown past, and corrects nothing."""
    server = Server()
    server.take(events.NamesrvStarted(), 0)
    server.take(register(), 10)
    wrong = server_with(register(topics(T=EIGHT, U=FOUR)))
    step = server.see(ROUTE, wrong.says(ROUTE), 100)
    assert (step.outcome, step.changes) == (Outcome.NO_EFFECT, ())
    assert server.registry.queue_data("T", "a") == FOUR


def test_no_route_is_evidence_too() -> None:
    """TOPIC_NOT_EXIST takes away a row that was only believed, and makes its absence known."""
    server = Server()
    server.take(register(), 10)
    assert server.see(ROUTE, NO_ROUTE, 100).outcome == Outcome.UNKNOWN_PAST
    assert server.registry.queue_data("T", "a") is None
    back = server_with(register())
    assert server.see(ROUTE, back.says(ROUTE), 200).outcome == Outcome.NO_EFFECT  # it did not come back unseen


def test_cluster_info_shows_all_groups_and_sets() -> None:
    """Groups and cluster sets are known completely afterwards: what is not among them is known to be absent."""
    true, server = server_with(register(), register(addr=B, name="b")), Server()
    assert server.see(CLUSTER_INFO, true.says(CLUSTER_INFO), 100).outcome == Outcome.UNKNOWN_PAST
    assert server.says(CLUSTER_INFO) == true.says(CLUSTER_INFO)
    more = server_with(register(), register(addr=B, name="b"), register(addr=GHOST, name="ghost"))
    assert server.see(CLUSTER_INFO, more.says(CLUSTER_INFO), 200).outcome == Outcome.NO_EFFECT


def test_a_list_of_topics_tells_absence_only() -> None:
    """A topic that is not listed goes; one that is listed has rows of which nothing is shown, and stays unknown."""
    server = Server()
    server.take(register(topics(T=FOUR, U=FOUR)), 10)
    listed = server_with(register(topics(T=FOUR, V=FOUR)))
    assert server.see(TOPIC_LIST, listed.says(TOPIC_LIST), 100).outcome == Outcome.UNKNOWN_PAST
    assert server.registry.queue_data("U", "a") is None
    assert server.registry.queue_data("V", "a") is None
    assert server.registry.past is not None
    assert server.registry.past.knows_all("topic_queue", "U")
    assert not server.registry.past.knows_all("topic_queue", "V")
    assert server.see(TOPIC_LIST, listed.says(TOPIC_LIST), 200).outcome == Outcome.UNKNOWN_PAST


def test_a_registration_that_may_not_write_is_only_believed() -> None:
    """The stored version is unknown: the rows are there, but not known; a later change of version is certain to write."""
    server = Server()
    first = server.take(register(), 10)
    assert first.certainty is not None
    assert ("topic_queue", ("T", "a")) not in first.certainty.known
    assert ("broker_live", (None, A)) in first.certainty.known
    second = server.take(register(topics(T=EIGHT, U=FOUR), V2), 20)
    assert second.certainty is not None
    assert {("topic_queue", ("T", "a")), ("topic_queue", ("U", "a"))} <= second.certainty.known
    assert ("topic_queue", ("T", "a")) not in second.certainty.begun


def test_an_unchanged_registration_keeps_what_an_answer_showed() -> None:
    """4.x writes nothing without a change: a wiped permission that an answer showed stays known over heartbeats."""
    true, server = server_with(register(), events.WipeWritePerm("a")), Server()
    server.take(register(), 10)
    seen_by(server, true, [ROUTE, CLUSTER_INFO], 100)
    assert server.take(register(), 30_010).outcome == Outcome.REFRESHED
    assert server.registry.queue_data("T", "a") == READ_ONLY
    wrong = server_with(register())
    assert server.see(ROUTE, wrong.says(ROUTE), 31_000).outcome == Outcome.NO_EFFECT


def test_a_start_makes_everything_but_the_kv_table_known() -> None:
    """After a start an answer that shows a route is a contradiction; an order configuration from the file is not."""
    namesrv = Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True))
    server = Server(namesrv)
    server.take(events.NamesrvStarted(), 0)
    server.take(register(), 10)
    true = server_with(events.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "a:4"), register(), namesrv=namesrv)
    assert server.see(ROUTE, true.says(ROUTE), 100).outcome == Outcome.UNKNOWN_PAST
    assert server.says(ROUTE) == true.says(ROUTE)
    other = server_with(register(topics(T=EIGHT, U=FOUR)), namesrv=namesrv)
    assert server.see(ROUTE, other.says(ROUTE), 200).outcome == Outcome.NO_EFFECT


def test_what_happened_between_question_and_answer_leaves_the_answer_open() -> None:
    """Which side of an event such an answer shows is open: it is about an unknown past, but corrects nothing."""
    true, server = server_with(register(addr=B, name="b")), Server()
    server.take(register(), 100)
    assert server.see(ROUTE, true.says(ROUTE), 110, asked_ms=90).outcome == Outcome.UNKNOWN_PAST
    assert server.registry.queue_data("T", "b") is None


def test_a_silent_broker_may_go_unseen_until_its_lease_must_have_ended() -> None:
    """Shown, never heard: its removal is an unknown past within the lease; a later one is a contradiction."""
    true, gone = server_with(register(), register(addr=B, name="b")), server_with(register())
    for heard_ms, expected in ((50_000, Outcome.UNKNOWN_PAST), (200_000, Outcome.NO_EFFECT)):
        server = Server()
        seen_by(server, true, [CLUSTER_INFO], 10)
        server.take(register(), 1_000)
        if expected == Outcome.NO_EFFECT:
            seen_by(server, true, [CLUSTER_INFO], 140_000)
        server.take(register(), heard_ms)
        assert server.see(CLUSTER_INFO, gone.says(CLUSTER_INFO), heard_ms + 10).outcome == expected


def test_a_lost_group_takes_its_queue_data_along() -> None:
    """Cluster info without a group: its rows in the topic table go, and are known to be gone."""
    true, gone = server_with(register(), register(addr=B, name="b")), server_with(register())
    server = Server()
    seen_by(server, true, [ROUTE, CLUSTER_INFO], 10)
    server.see(CLUSTER_INFO, gone.says(CLUSTER_INFO), 20)
    assert server.registry.queue_data("T", "b") is None
    assert server.says(ROUTE) == gone.says(ROUTE)


def test_a_lone_topic_of_an_unknown_broker_is_in_doubt() -> None:
    """5.x refuses it or takes it, as the id is new or not; the answer decides, and makes the live entry known."""
    namesrv = Namesrv(V5_4_0)
    server = Server(namesrv)
    assert server.take(register(topics(T=FOUR)), 10).outcome == Outcome.REFUSED_LONE_TOPIC
    true = server_with(register(), namesrv=namesrv)
    assert server.see(ROUTE, true.says(ROUTE), 100).outcome == Outcome.UNKNOWN_PAST
    assert server.says(ROUTE) == true.says(ROUTE)


def test_an_acting_master_does_not_hide_the_true_id() -> None:
    """A route shows the slave as id 0; only cluster info tells which id it has."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    true = server_with(register()._replace(broker_id=1, enable_acting_master=True), namesrv=namesrv)
    server = Server(namesrv)
    assert '"0":' in (true.says(ROUTE).body or "")
    server.see(ROUTE, true.says(ROUTE), 10)
    assert server.members("a") == {}
    server.see(CLUSTER_INFO, true.says(CLUSTER_INFO), 20)
    assert server.members("a") == {1: A}
    assert server.see(ROUTE, true.says(ROUTE), 30).outcome == Outcome.NO_EFFECT


def test_an_unknown_slave_may_stand_as_master() -> None:
    """A group of which one slave was heard: a route with another one as acting master shows what was not known."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    slave = register()._replace(broker_id=2, enable_acting_master=True)
    unheard = register(addr=B)._replace(broker_id=1, enable_acting_master=True)
    server, true = Server(namesrv), server_with(unheard, slave, namesrv=namesrv)
    server.take(slave, 10)
    assert server.see(ROUTE, true.says(ROUTE), 20).outcome == Outcome.UNKNOWN_PAST
    assert server.see(CLUSTER_INFO, true.says(CLUSTER_INFO), 30).outcome == Outcome.UNKNOWN_PAST
    assert server.members("a") == {1: B, 2: A}
    assert server.see(ROUTE, true.says(ROUTE), 40).outcome == Outcome.NO_EFFECT


def test_a_deleted_topic_is_known_to_be_gone() -> None:
    """The deletion of a whole topic needs no past; one within a cluster needs the cluster's names."""
    server = Server()
    server.take(register(), 10)
    server.take(events.DeleteTopic("T", None), 20)
    server.take(events.DeleteTopic("U", "C"), 30)
    past = server.registry.past
    assert past is not None
    assert past.knows("topic_queue", "T", "a")
    assert past.knows("topic_queue", "U", "a")  # the registration put its name into the set
    assert not past.knows("topic_queue", "U", "b")


@pytest.mark.parametrize("body", ["", "[]", '{"topicList":3}', '{"topicList":[3]}', "{" * 5_000, "null"])
def test_a_body_that_is_no_answer_shows_nothing(body: str) -> None:
    """Bodies come from outside: other types and nonsense are no evidence, and no error."""
    assert shown_by(TOPIC_LIST, Answer(0, body)) is None
    assert Server().see(TOPIC_LIST, Answer(0, body), 10).outcome == Outcome.NO_EFFECT


def test_the_later_mark_counts() -> None:
    """Knowledge of all is undone by a doubt about one, and a doubt about all by knowledge of one."""
    past = Past(0)
    assert not past.knows("topic_queue", "T", "a")
    past.note([Mark(Entity("topic_queue", ANY, ANY)), Mark(Entity("topic_queue", ANY, "a"), known=False)])
    assert past.knows("topic_queue", "T", "b")
    assert not past.knows("topic_queue", "T", "a")
    assert not past.knows_all("topic_queue", "T")
    past.note([Mark(Entity("topic_queue", "T", "a"))])
    assert past.knows_all("topic_queue", "T")


def test_what_is_known_survives_the_night() -> None:
    """A past that was dumped and loaded knows the same, and goes on in the same way."""
    true, server = server_with(register(), register(addr=B, name="b")), Server()
    server.take(events.QueryDataVersion("C", B, DataVersion(0, 1, 1)), 5)
    seen_by(server, true, [ROUTE, TOPIC_LIST], 10)
    past = server.registry.past
    assert past is not None
    twin = Past.load(past.dump())
    assert Counter(twin.dump()) == Counter(past.dump())
    for topic in ("T", "U", "V", None):
        for name in ("a", "b", "c", None):
            assert twin.knows("topic_queue", topic, name) == past.knows("topic_queue", topic, name)
    assert twin.beats == {LiveKey(None, B): 5}


def test_a_recording_from_the_start_knows_no_unknown_past() -> None:
    """Without an unknown past an answer is no event, and every row is certain."""
    server = Server(known=True)
    step = server.take(register(), 10)
    assert step.certainty is None
    assert server.see(ROUTE, NO_ROUTE, 20) == Step(Outcome.NO_EFFECT)
    assert server.registry.broker_addr_table["a"] == BrokerData("C", ((0, A),))


def test_where_only_answers_are_recorded_each_counts_by_itself() -> None:
    """What comes and goes unseen between two of them contradicts nothing, however long nobody was heard; KV entries too."""
    kv, order = Question(219, "ORDER_TOPIC_CONFIG"), events.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "a:8")
    server, empty = Server(hears=False), server_with()
    other = register(topics(T=EIGHT, U=FOUR))._replace(broker_name="b", broker_addr=B)
    for number, true in enumerate(
        (empty, server_with(register()), empty, server_with(other, order), server_with(order))
    ):
        questions = (CLUSTER_INFO, ROUTE, kv)
        outcomes = seen_by(server, true, questions, 1_000 + number * 200_000)
        assert set(outcomes) <= {Outcome.NO_EFFECT, Outcome.UNKNOWN_PAST}
        assert [server.says(question) for question in questions[:2]] == [
            true.says(question) for question in questions[:2]
        ]
    assert server.says(kv) == true.says(kv)
    server.take(register(), 1_000_000)
    seen_by(server, server_with(order), (ROUTE,), 1_000_010)
    assert server.says(ROUTE) != NO_ROUTE, "who was heard does not go unseen"
