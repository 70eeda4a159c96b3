"""Which changes can make an answer another one: between the others it stays, for every question at every state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, Namesrv, Question, Registry, take
from namesrv_core.asking.answers import LIST_CODES, answer
from namesrv_core.history import verification
from namesrv_core.history.intervals import StateChange
from namesrv_core.history.verification import Concerns, Observed, answer_of, verify
from namesrv_core.machine.codes import Answer
from namesrv_core.machine.events import Event, NamesrvStarted, QueryDataVersion, RegisterBroker, WipeWritePerm
from namesrv_core.machine.registry import Change
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG, step
from namesrv_core.machine.tables import (
    BrokerData,
    BrokerLiveInfo,
    DataVersion,
    KvValue,
    LiveKey,
    QueueData,
    TopicConfig,
    TopicQueueMappingInfo,
    TopicTable,
)
from tests.core.adversary import EVENTS, NAMESRVS, understood_by
from tests.examples import examples

TOPICS, NAMES, CLUSTERS = ("T0", "T1", "T2"), ("broker-0", "broker-117", "broker-b"), ("C", "D", "BE")
QUESTIONS = [
    *(Question(105, topic, standard) for topic in TOPICS for standard in (True, False)),
    *(Question(105, topic, scope="zone-a") for topic in TOPICS),
    *(Question(code) for code in (106, 206, 304, 311, 312, 313)),
    *(Question(224, cluster) for cluster in CLUSTERS),
    *(Question(219, namespace) for namespace in "NO"),
    *(Question(101, key, scope=namespace) for key in "kl" for namespace in "NO"),
    *(Question(901, name, scope="C") for name in NAMES),
]
TABLE = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in TOPICS])
QUERIES = [
    QueryDataVersion(cluster, f"10.0.0.{number}:10911", DataVersion(0, 1, 1))
    for cluster in CLUSTERS
    for number in (1, 2, 3)
]


REGISTRATIONS = [
    RegisterBroker("C", f"10.0.0.{addr}:10911", name, broker_id, "h:1", DataVersion(0, 1, 1), TABLE, (), "c")
    for addr in (1, 2, 3)
    for name in NAMES
    for broker_id in (0, 1)
]


@settings(max_examples=examples(100))
@given(NAMESRVS, st.lists(EVENTS, min_size=5, max_size=60), st.integers(0, 20))
def test_between_changes_that_do_not_concern_it_an_answer_stays(namesrv: Namesrv, log: list, known: int) -> None:
    """Whatever an adversary does, before and after the state that is known."""
    log = [event for event in log if understood_by(namesrv, event)]
    registry = Registry(namesrv.profile)
    for event in log[:known]:
        take(registry, event, 1, namesrv)
    before, states, timeline, starts = registry.copy(), [], [], []
    for seq, event in enumerate(log[known:]):
        states.append(answers(registry, namesrv))
        taken = take(registry, event, 1, namesrv)
        timeline.append(StateChange(seq, seq, tuple(taken.changes)))
        if isinstance(event, NamesrvStarted):
            starts.append(seq)
    states.append(answers(registry, namesrv))
    concerns = Concerns(before, timeline, starts)
    assert len({*states[0]}) == len(QUESTIONS) + len(QUERIES) + len(REGISTRATIONS)
    for asked in states[0]:
        for number in set(range(1, len(states))) - set(numbers_of(concerns, asked)):
            assert states[number][asked] == states[number - 1][asked], (asked, timeline[number - 1])


def numbers_of(concerns: Concerns, asked: Question | Event) -> list[int]:
    return sorted({number for part in concerns.of(asked) for number in concerns.numbers[part]})


def answers(registry: Registry, namesrv: Namesrv) -> dict:
    found: dict = {question: answer(registry, question, namesrv) for question in QUESTIONS}
    found |= {registration: answer_of(registry, registration, namesrv) for registration in REGISTRATIONS}
    return found | {query: step(registry, query, 1, namesrv).result for query in QUERIES}


def put(table: str, *key: str, value: object = True) -> StateChange:
    return StateChange(0, 0, (Change(table, key, value),))  # type: ignore[arg-type]


LIVE = BrokerLiveInfo(None, 120_000, "c", None, "b")
TIMELINE = [
    put("topic_queue_table", "T", "b", value=QueueData(4, 4, 6, 0)),
    put("topic_queue_table", "U", "c", value=QueueData(4, 4, 6, 0)),
    put("broker_addr_table", "b", value=BrokerData("C", ((0, "a:1"),))),
    put("broker_addr_table", "d", value=BrokerData("C", ((0, "a:2"),))),
    put("broker_live_table", *LiveKey("C", "a:1"), value=LIVE),  # type: ignore[arg-type]
    put("cluster_addr_table", "C", "b"),
    put("kv_config_table", "N", "k", value=KvValue("v")),
    put("kv_config_table", ORDER_TOPIC_CONFIG, "T", value=KvValue("v")),
    put("filter_server_table", *LiveKey("C", "a:9"), value=()),  # type: ignore[arg-type]
    put("topic_queue_mapping_info_table", "T", "m", value=TopicQueueMappingInfo("T", "m", 4, 1)),
    put("pending_unregister", value=()),
    StateChange(9, 9, ()),
]


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (Question(105, "T"), [1, 3, 8, 9, 10, 12]),
        (Question(105, "V"), [8, 9, 12]),
        (Question(106), [3, 4, 6, 12]),
        (Question(101, "k", scope="N"), [7, 12]),
        (Question(219, "N"), [7, 12]),
        (Question(901, "b"), [3, 12]),
        (QueryDataVersion("C", "a:1", None), [5, 12]),
        (QueryDataVersion("C", "a:2", None), [12]),
        (RegisterBroker("C", "a:1", "b", 0, None, None, None, None, "c"), [3, 5, 8, 12]),
        (RegisterBroker("C", "a:1", "c", 0, None, None, None, None, "c"), [8, 12]),
        (WipeWritePerm("b"), [*range(1, 13)]),
        *((Question(code), [1, 2, 3, 4, 6, 12]) for code in sorted(LIST_CODES)),
    ],
)
def test_few_changes_concern_a_question(asked: Question, numbers: list[int]) -> None:
    """Those of what it is about; a start of the process concerns all."""
    assert numbers_of(Concerns(Registry(V4_9_7), TIMELINE, starts=[9]), asked) == numbers


def test_a_route_concerns_the_groups_that_had_the_topic_before() -> None:
    """Names that the topic has only in the state before the timeline count, too."""
    registry = Registry(V4_9_7)
    registry.apply(TIMELINE[0].changes, 0)
    assert numbers_of(Concerns(registry, TIMELINE[2:4]), Question(105, "T")) == [1]


def test_a_change_that_does_not_concern_a_question_leaves_its_answer() -> None:
    """A KV entry comes: a list of topics says what it said, and another list is wrong before and after."""
    timeline = [
        StateChange(10 * number, 10 * number, (Change("kv_config_table", ("N", str(number)), KvValue("v")),))
        for number in (1, 2)
    ]
    for said, is_right in ('{"topicList":[]}', True), ('{"topicList":["T"]}', False):
        asked = [Observed(str(seq), seq, seq, Question(206), Answer(0, said)) for seq in (5, 15, 25)]
        assert [one.matched for one in verify(Registry(V4_9_7), timeline, asked, Namesrv(V4_9_7))] == [is_right] * 3


def test_a_change_that_concerns_a_question_may_leave_its_answer_as_it_was() -> None:
    """Another broker has the topic, too: a list of topics says what it said, and is right before and after."""
    queues = TIMELINE[0].changes[0].value
    changes = [Change("topic_queue_table", ("T", name), queues) for name in "bc"]
    timeline = [StateChange(10 * number, 10 * number, (change,)) for number, change in enumerate(changes, 1)]
    said = Answer(0, '{"topicList":["T"]}')
    asked = [Observed(str(seq), seq, seq, Question(206), said) for seq in (15, 25)]
    assert [one.matched for one in verify(Registry(V4_9_7), timeline, asked, Namesrv(V4_9_7))] == [True, True]


def test_in_a_storm_each_response_is_judged_where_its_own_group_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred registrations under way together: twice each, not once for every change of the others."""
    asked = [RegisterBroker("C", f"a:{n}", f"b{n}", 0, None, None, TABLE, None, "c") for n in range(100)]
    groups = [BrokerData("C", ((0, event.broker_addr),)) for event in asked]
    timeline = [
        StateChange(1_000 + n, n, (Change("broker_addr_table", (f"b{n}",), group),)) for n, group in enumerate(groups)
    ]
    told = answer_of(Registry(V4_9_7), asked[0], Namesrv(V4_9_7))
    answered = [Observed(f"e{n:03}", n, 1_000 + n, event, told) for n, event in enumerate(asked)]
    judged: list[Event | Question] = []

    def noted(registry: Registry, question: Event | Question, namesrv: Namesrv) -> Answer:
        judged.append(question)
        return answer_of(registry, question, namesrv)

    monkeypatch.setattr(verification, "answer_of", noted)
    verdicts = verify(Registry(V4_9_7), timeline, answered, Namesrv(V4_9_7))
    assert (sum(verdict.matched for verdict in verdicts), len(judged)) == (100, 200)
