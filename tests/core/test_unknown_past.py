"""What is known of an unknown past, and what is kept of it; what each event does to it is in `scenarios/past_*.txt`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from namesrv_core import Namesrv, Outcome, Registry, Step, answer, take
from namesrv_core.asking.shown import entries_shown, shown_by
from namesrv_core.history.intervals import Histories
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode
from namesrv_core.machine.past import ANY, Entity, Mark, Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.tables import DataVersion, LiveKey, QueueData, TopicConfig, TopicTable
from namesrv_core.replay import belief

A, B, GHOST = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.9:10911"
V1, V2 = DataVersion(0, 1, 1), DataVersion(0, 2, 2)
FOUR = QueueData(4, 4, 6, 0)
ROUTE, ROUTE_U, CLUSTER_INFO, TOPIC_LIST = Question(105, "T"), Question(105, "U"), Question(106), Question(206)
NO_ROUTE = Answer(17, None, "No topic route info")
SETTLED_MS = 140_000  # by then no lease from before the recording can be left


def topics(**queue_datas: QueueData) -> TopicTable:
    return TopicTable([TopicConfig(topic, *data) for topic, data in queue_datas.items()])


def register(
    table: TopicTable | None = None, version: DataVersion = V1, addr: str = A, name: str = "a"
) -> events.RegisterBroker:
    table = topics(T=FOUR, U=FOUR) if table is None else table
    return events.RegisterBroker("C", addr, name, 0, None, version, table, (), "c")


class Server:
    """A name server whose recording begins at 0 ms; `known`: whether it is recorded from its start."""

    def __init__(self, namesrv: Namesrv | None = None, *, known: bool = False) -> None:
        self.namesrv = namesrv or Namesrv(V4_9_7)
        self.registry = Registry(self.namesrv.profile)
        if not known:
            self.registry.past = Past(0)
            self.registry.past.last_effect_ms = 0

    def take(self, event: events.Event, at_ms: int) -> Step:
        """Let an event happen."""
        return take(self.registry, event, at_ms, self.namesrv)

    def see(self, question: Question, answered: Answer, at_ms: int) -> Step:
        """Let an answer be seen; it was asked for at the same instant."""
        return self.take(events.AnswerObserved(question, answered, at_ms * 1_000_000), at_ms)

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


def past_of(server: Server) -> Past:
    assert server.registry.past is not None
    return server.registry.past


@pytest.mark.parametrize(("profile", "lease_ms"), [(V4_9_7, 120_000), (V5_4_0, 600_000)])
def test_an_own_lease_lengthens_the_wait(profile: Profile, lease_ms: int) -> None:
    """5.x takes the broker's own lease, so that silence may last as long; 4.x does not read it."""
    server = Server(Namesrv(profile))
    server.take(register()._replace(heartbeat_timeout_ms=600_000), 10)
    assert past_of(server).longest_lease_ms == lease_ms


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("state_version", [0, 7])
def test_a_version_is_another_one_as_the_release_reads_it(profile: Profile, state_version: int) -> None:
    """A registration with the version that is stored writes no topics: of what is doubtful it says nothing."""
    server, again = Server(Namesrv(profile)), register(version=DataVersion(state_version, 1, 1))
    server.take(again, 10)
    server.take(again, 20)
    past_of(server).note([Mark(Entity("topic_queue", ANY, "a"), known=False)])
    server.take(again, 30)
    assert not past_of(server).knows("topic_queue", "T", "a")


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


def test_a_tick_in_a_gap_does_not_bring_its_end_forward() -> None:
    """Requests count as recorded from the gap's end on: the timer ticks in it, too, and nobody can have been heard by then."""
    server = server_with(register())
    server.take(events.RecordingGap(50_000), 10_000)
    server.take(events.ScanNotActiveBroker(), 20_000)
    assert past_of(server).heard_from_ms == 50_000
    server.take(events.ScanNotActiveBroker(), 60_000)
    assert past_of(server).heard_from_ms == 60_000, "nothing is heard yet"


def test_what_is_known_survives_the_night() -> None:
    """A past that was dumped and loaded knows the same, and goes on in the same way."""
    true, server = server_with(register(), register(addr=B, name="b")), Server()
    server.take(events.QueryDataVersion("C", B, DataVersion(0, 1, 1)), 5)
    seen_by(server, true, [ROUTE, TOPIC_LIST], 10)
    past = past_of(server)
    twin = Past.load(past.dump())
    assert Counter(twin.dump()) == Counter(past.dump())
    for topic in ("T", "U", "V", None):
        for name in ("a", "b", "c", None):
            assert twin.knows("topic_queue", topic, name) == past.knows("topic_queue", topic, name)
    assert twin.beats == {LiveKey(None, B): 5}


QUEUE = '{"brokerName":"a","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicSysFlag":0}'


def test_queue_data_without_a_group_say_nothing_of_it() -> None:
    """A route may name a broker in its queue data only, where it ended with one that has no address: only the row is known."""
    server = Server()
    step = server.see(ROUTE, Answer(0, f'{{"queueDatas":[{QUEUE}],"brokerDatas":[]}}'), 10)
    assert step.outcome == Outcome.UNKNOWN_PAST
    assert server.registry.queue_data("T", "a") == FOUR
    assert not past_of(server).knows("broker_addr", "a", 0)
    server.take(register(), 20)
    assert server.see(ROUTE, Answer(0, f'{{"queueDatas":[{QUEUE}],"brokerDatas":[]}}'), 30).outcome == Outcome.NO_EFFECT
    assert "a" in server.registry.broker_addr_table


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


def test_a_copied_registry_has_a_past_of_its_own() -> None:
    """Doubts go along; what the copy learns the first does not know."""
    server = Server()
    past = past_of(server)
    server.take(events.NamesrvStarted(), 0)
    server.take(events.UnregisterBroker("C", GHOST, "b", 0), 5)
    past.note(belief._doubts_about("a"))
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


@pytest.mark.parametrize("body", [None, "{", "[]", '{"table": [1]}', '{"table": {"key": 1}}', '{"table": 1}', "{}"])
def test_what_is_no_list_of_entries_shows_none(body: str | None) -> None:
    """A body that a name server cannot have sent is no evidence about its KV table; in a response to a registration neither."""
    assert entries_shown(Answer(0, body)) is None
    assert entries_shown(Answer(0, '{"table": {"key": "value"}}')) == {"key": "value"}
    assert entries_shown(Answer(1, '{"table": {"key": "value"}}')) is None
    server = Server()
    server.take(register(), 10)
    assert server.take(events.ResponseObserved(register(), Answer(0, body)), 10).changes == ()


@pytest.mark.parametrize(("leaves", "members"), [(False, {0: A, 1: B}), (True, {1: B})])
def test_a_master_that_was_seen_to_leave_is_not_brought_back(leaves: bool, members: dict[int, str]) -> None:  # noqa: FBT001
    """The response to a slave that had waited shows a master that left meanwhile: it was done before that."""
    server, slave = Server(Namesrv(V5_4_0)), register(addr=B)._replace(broker_id=1)
    if leaves:
        server.take(events.UnregisterBroker("C", A, "a", 0), 10)
    server.take(slave, 20)
    shown = (("haServerAddr", "h"), ("masterAddr", A))
    server.take(events.ResponseObserved(slave, Answer(0, None, None, shown)), 20)
    assert server.members("a") == members


@pytest.mark.parametrize("is_response", [True, False])
def test_an_entry_without_a_value_is_in_no_list_and_stays(is_response: bool) -> None:  # noqa: FBT001
    """The response to a registration and the list of a namespace leave it out: that corrects nothing, and changes no row."""
    for shown, corrected in (("a:4", []), ("a:8", [("ORDER_TOPIC_CONFIG", "T")])):
        server = Server()
        for topic, value in (("T", "a:4"), ("U", None)):
            server.take(events.PutKvConfig("ORDER_TOPIC_CONFIG", topic, value), 10)
        answered = Answer(0, json.dumps({"table": {"T": shown}}))
        if is_response:
            step = server.take(events.ResponseObserved(register(), answered), 20)
        else:
            step = server.see(Question(RequestCode.GET_KVLIST_BY_NAMESPACE, "ORDER_TOPIC_CONFIG"), answered, 20)
        assert step.outcome == (Outcome.UNKNOWN_PAST if corrected else Outcome.NO_EFFECT)
        assert [change.key for change in step.changes] == corrected
        assert [*server.registry.kv_config_table["ORDER_TOPIC_CONFIG"]] == ["T", "U"]
