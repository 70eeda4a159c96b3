"""Was the answer right? The window of an answer, its order, its bytes."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from namesrv_core import V4_9_7, Answer, Namesrv, NamesrvConfig, Question, Registry
from namesrv_core.asking.shown import NULL_KEY, read_json, same_json
from namesrv_core.history.intervals import StateChange
from namesrv_core.history.verification import Observed, Verdict, right_in_parts, verify
from namesrv_core.machine.events import AddWritePerm, Event, WipeWritePerm
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.registry import Change
from namesrv_core.machine.tables import BrokerData, QueueData
from tests.situations import Language, Situation

TOPIC_LIST = Question(206)
EMPTY, ONE = (Answer(0, f'{{"topicList":[{topics}]}}') for topics in ("", '"T"'))


def topic(seq: int, name: str, arrival_seq: int | None = None, *, gone: bool = False) -> StateChange:
    value = None if gone else QueueData(4, 4, 6, 0)
    return StateChange(
        seq, seq if arrival_seq is None else arrival_seq, (Change("topic_queue_table", (name, "b"), value),)
    )


def seen(request_seq: int, seq: int, answered: Answer, question: Question = TOPIC_LIST) -> Observed:
    return Observed(f"a{seq}", request_seq, seq, question, answered)


def judged(timeline: list[StateChange], *observations: Observed, starts: tuple[int, ...] = ()) -> list[Verdict]:
    return verify(Registry(V4_9_7), timeline, observations, Namesrv(), starts=starts)


def matched(timeline: list[StateChange], *observations: Observed) -> list[tuple[bool, bool]]:
    return [(verdict.matched, verdict.in_flight) for verdict in judged(timeline, *observations)]


LANGUAGE = Language(
    {
        "change": ("timeline", lambda seq, name, arrived=None: topic(seq, name, arrived)),
        "answer": (
            "answers",
            lambda request_seq, seq, *topics: seen(request_seq, seq, Answer(0, json.dumps({"topicList": topics}))),
        ),
    },
    {},
    dt.date(1970, 1, 1),
)


@pytest.mark.parametrize(
    "case", [*LANGUAGE.read(Path(__file__).with_name("verification.txt"))], ids=lambda of: f"{of.name}: {of.shows}"
)
def test_the_window_of_an_answer(case: Situation) -> None:
    """What an answer may show of what happened from its request on, and of what was on its way."""
    verdicts = judged(case.rows["timeline"], *case.rows["answers"])
    words = [("in_flight" if one.in_flight else "right") if one.matched else "wrong" for one in verdicts]
    assert [f"{one.observed.seq} {word}" for one, word in zip(verdicts, words, strict=True)] == case.found


def test_verdict_of_a_wrong_answer_says_what_was_expected_at_it() -> None:
    """The nominal state, not one of the others in the window."""
    (verdict,) = judged([topic(100, "T"), topic(110, "U")], seen(90, 105, Answer(0, '{"topicList":["X"]}')))
    assert (verdict.matched, verdict.same_order, verdict.same_bytes) == (False, False, False)
    assert verdict.expected == ONE


def test_lists_are_sets_but_their_order_is_reported() -> None:
    """An answer whose list has another order is right.

    One with other blanks has the right order but not the bytes.
    """
    timeline = [topic(1, "T"), topic(2, "U")]
    for body, verdict in [
        ('{"topicList":["T","U"]}', (True, True, True)),
        ('{"topicList": ["T", "U"]}', (True, True, False)),
        ('{"topicList":["U","T"]}', (True, False, False)),
        ('{"topicList":["U","T","T"]}', (False, False, False)),
        ("no JSON", (False, False, False)),
        (None, (False, False, False)),
    ]:
        (found,) = judged(timeline, seen(10, 20, Answer(0, body)))
        assert (found.matched, found.same_order, found.same_bytes) == verdict, body


def test_code_and_remark_count() -> None:
    """TOPIC_NOT_EXIST with its remark is right where there is no route.

    What follows the documentation's address is not compared.
    """
    route = Question(105, "T")
    right = Answer(
        17, None, "No topic route info in name server for the topic: T\nSee http://rocketmq.apache.org/docs/faq"
    )
    for answered, is_right in [
        (right, True),
        (right._replace(code=1), False),
        (right._replace(remark=None), False),
        (right._replace(remark="No topic route info in name server for the topic: U"), False),
    ]:
        assert [verdict.matched for verdict in judged([], seen(1, 2, answered, route))] == [is_right]


@pytest.mark.parametrize("changed", [(5,), (4, 6), (4, 5, 6)])
def test_start_gives_maps_their_first_size_again(changed: tuple[int, ...]) -> None:
    """Verification follows the process: after a start, which changes nothing if a stop came before it, buckets are fresh."""
    registry = Registry(V4_9_7)
    registry.topic_queue_table.capacity = 1 << 16
    verify(registry, [StateChange(seq, seq, ()) for seq in changed], [], Namesrv(), starts=[5])
    assert registry.topic_queue_table.capacity == 1024


def test_old_clients_dialect_is_read() -> None:
    """Integer keys, and null, are quoted where they are keys, and left alone inside of texts."""
    assert read_json('{0:"a",-1:{2:3}}') == {"0": "a", "-1": {"2": 3}}
    assert read_json('{0:"{1:2,3:4}","k":"a\\",5:"}') == {"0": "{1:2,3:4}", "k": 'a",5:'}
    assert read_json('{null:["{null:"],"k":null}') == {NULL_KEY: ["{null:"], "k": None}
    assert read_json('{0:{"\\"":1,null:"\\",null:"}}') == {"0": {'"': 1, NULL_KEY: '",null:'}}
    assert same_json('{0:"a"}', '{"0":"a"}', ordered=True)


@pytest.mark.parametrize("text", ["", "{0:}", "{0:1", "[" * 100_000, "nonsense"])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    """A body is untrusted: nothing else escapes, however deep it is nested."""
    with pytest.raises(ValueError, match=r"^(Expecting|nested too deeply$)"):
        read_json(text)


@pytest.mark.parametrize(
    ("one", "other", "as_sets", "in_order"),
    [
        (None, None, True, True),
        (None, "{}", False, False),
        ("{", "{}", False, False),
        ('{"a":[{"b":[1,2]},{"b":[3]}]}', '{"a":[{"b":[3]},{"b":[2,1]}]}', True, False),
        ('{"a":[1],"b":[2]}', '{"a":[2],"b":[1]}', False, False),
        ('[{"a":1,"b":2},0]', '[0,{"b":2,"a":1}]', True, False),
    ],
)
def test_lists_are_sets_at_every_depth(one: str | None, other: str | None, as_sets: bool, in_order: bool) -> None:  # noqa: FBT001
    """A mapping's values are not mixed, and the order of its keys is none of a list. No body equals no body only."""
    assert (same_json(one, other, ordered=False), same_json(one, other, ordered=True)) == (as_sets, in_order)


def test_route_in_the_old_dialect_is_verified() -> None:
    """A question of an old client expects unquoted keys.

    The quoted ones say the same but are not the bytes.
    """
    group = Change("broker_addr_table", ("b",), BrokerData("C", ((0, "a:1"),)))
    timeline = [StateChange(1, 1, (group, *topic(1, "T").changes))]
    body = (
        '{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"C"}],"filterServerTable":{},'
        '"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    asked = Question(105, "T", standard_json=False)
    found = judged(
        timeline, seen(2, 3, Answer(0, body), asked), seen(4, 5, Answer(0, body.replace("0:", '"0":')), asked)
    )
    assert [(verdict.matched, verdict.same_bytes) for verdict in found] == [(True, True), (True, False)]


def test_change_that_does_not_concern_an_answer_makes_it_no_less_nominal() -> None:
    """Where several states of the window give the same answer, it is taken for the one at the answer."""
    group = StateChange(100, 100, (Change("broker_addr_table", ("b",), BrokerData("C", ((0, "a:1"),))),))
    assert matched([group], seen(90, 120, EMPTY)) == [(True, False)]


@pytest.mark.parametrize(
    ("topics", "is_right"),
    [("UT", True), ("U", True), ("TV", True), ("TUV", True), ("", True), ("TX", False), ("XTU", False)],
)
def test_answer_may_be_right_in_its_parts(topics: str, is_right: bool) -> None:  # noqa: FBT001
    """Of changes under way together some may be there and others not, in any order; what was there all the time is shown."""
    timeline = [topic(50, "T", gone=True), *(topic(100 + n, name, 80) for n, name in enumerate("TUV"))]
    observed = seen(90, 99, Answer(0, json.dumps({"topicList": [*topics]})))
    found = right_in_parts(Registry(V4_9_7), timeline, [observed], Namesrv())
    assert found == ["a99"] * is_right
    member = StateChange(1, 1, (Change("cluster_addr_table", ("C", "b"), value=True),))
    for answered, is_told in [(observed.answered, is_right), (Answer(0, "{}"), False)]:
        of_cluster = seen(90, 99, answered, Question(224, "C"))
        told = right_in_parts(Registry(V4_9_7), [member, *timeline], [of_cluster], Namesrv())
        assert told == ["a99"] * is_told
    later = [*timeline[:1], *(change._replace(arrival_seq=change.seq) for change in timeline[1:])]
    assert right_in_parts(Registry(V4_9_7), later, [observed], Namesrv()) == []


@pytest.mark.parametrize(
    ("topics", "is_right"),
    [("", True), ("V", True), ("VW", True), ("W", False), ("U", False), ("UV", False), ("UVW", False)],
)
def test_answer_may_show_a_request_that_takes_its_time(topics: str, is_right: bool) -> None:  # noqa: FBT001
    """V and W came before the answer and are answered long after it, behind U, which came after it: they may show, U may not."""
    timeline = [topic(200, "U", 150), topic(300, "V", 80), topic(310, "W", 85), topic(320, "X", 315)]
    observed = seen(90, 99, Answer(0, json.dumps({"topicList": [*topics]})))
    assert matched(timeline, observed) == [(is_right, is_right and topics != "")]
    halves = right_in_parts(Registry(V4_9_7), timeline, [observed], Namesrv())
    assert halves == ["a99"] * ("U" not in topics)
    burst = [timeline[0], *(topic(300 + n, name, 80) for n, name in enumerate("VWABCDEFG"))]
    assert matched(burst, observed) == [(is_right, is_right and topics != "")]


def test_route_and_cluster_may_be_right_in_their_parts() -> None:
    """Each broker stands for itself: two that register at once, of which the answer shows the one that is answered last."""
    groups = {name: Change("broker_addr_table", (name,), BrokerData("C", ((0, f"{name}:1"),))) for name in "bc"}
    changes = [
        (*topic(1, "T").changes, groups["b"]),
        (groups["c"], Change("cluster_addr_table", ("C", "c"), value=True)),
    ]
    timeline = [StateChange(100 + n, 80, of) for n, of in enumerate(changes)]
    part = '{"brokerAddrs":{0:"c:1"},"brokerName":"c","cluster":"C"}'
    for listed, is_right in [('"c"', True), ('"b","c"', False)]:
        body = f'{{"brokerAddrTable":{{"c":{part}}},"clusterAddrTable":{{"C":[{listed}]}}}}'
        observed = seen(90, 99, Answer(0, body), Question(106, None))
        assert right_in_parts(Registry(V4_9_7), timeline, [observed], Namesrv()) == ["a99"] * is_right
    half = seen(90, 99, Answer(0, '{"brokerAddrTable":{},"clusterAddrTable":{"C":["c"]}}'), Question(106, None))
    assert right_in_parts(Registry(V4_9_7), timeline[1:], [half], Namesrv()) == ["a99"]
    for name, is_right in [("c", True), ("x", False)]:
        group = f'{{"brokerAddrs":{{}},"brokerName":"{name}","cluster":"C"}}'
        body = f'{{"brokerAddrTable":{{"{name}":{group}}},"clusterAddrTable":{{}}}}'
        bare = seen(90, 99, Answer(0, body), Question(106, None))
        assert right_in_parts(Registry(V4_9_7), timeline[1:], [bare], Namesrv()) == ["a99"] * is_right
    torn = seen(90, 99, Answer(1, None, "java.util.ConcurrentModificationException, java.util.HashMap$HashIterator"))
    for code, of, is_right in [(106, timeline, True), (106, [], False), (206, timeline, False)]:
        thrown = torn._replace(question=Question(code, None))
        assert right_in_parts(Registry(V4_9_7), of, [thrown], Namesrv()) == ["a99"] * is_right
    queues = '{"brokerName":"b","perm":6,"readQueueNums":4,"topicSynFlag":0,"writeQueueNums":4}'
    route = f'{{"brokerDatas":[],"filterServerTable":{{}},"queueDatas":[{queues}]}}'
    listing, mapping = (Namesrv(profile_named(version)) for version in ("4.9.3", "4.9.4"))
    for namesrv, is_right in [(listing, True), (mapping, False)]:  # its queue data lay in the table's own list
        own = seen(90, 99, Answer(0, route), Question(105, "T"))
        assert right_in_parts(Registry(namesrv.profile), timeline[:1], [own], namesrv) == ["a99"] * is_right
    members = [((0, "d:1"),), ((0, "d:1"), (1, "d:2"))]
    joining = [StateChange(100, 80, (Change("broker_addr_table", ("d",), BrokerData("C", of)),)) for of in members]
    for addrs, is_right in [('1:"d:2"', True), ('1:"d:1"', False)]:
        group = f'{{"brokerAddrs":{{{addrs}}},"brokerName":"d","cluster":"C"}}'
        slave = seen(
            90, 99, Answer(0, f'{{"brokerAddrTable":{{"d":{group}}},"clusterAddrTable":{{}}}}'), Question(106, None)
        )
        assert right_in_parts(Registry(V4_9_7), joining, [slave], Namesrv()) == ["a99"] * is_right
    for asked in (Question(105, "T"), WipeWritePerm("b")):
        observed = seen(90, 99, Answer(17, None, "No topic"), Question(105, "T"))._replace(question=asked)
        wrong = observed._replace(answered=Answer(0, "{}"))
        found = right_in_parts(Registry(V4_9_7), timeline, [observed, wrong], Namesrv())
        assert found == ["a99"] * isinstance(asked, Question)


def test_answer_is_judged_by_what_the_server_was_at_it() -> None:
    """A switch that changes between two equal questions changes what is right, though the registry stays the same."""
    refused = Answer(1, None, "disable")
    namesrv = Namesrv(later=((100, Namesrv(config=NamesrvConfig(enable_all_topic_list=False))),))
    for first, second, verdicts in [(EMPTY, refused, [True, True]), (refused, EMPTY, [False, False])]:
        observations = [seen(10, 20, first), seen(110, 120, second)]
        found = verify(Registry(V4_9_7), [StateChange(100, 100, ())], observations, namesrv)
        assert [verdict.matched for verdict in found] == verdicts
    # While it changes, either is right; and what one answer has shown holds for whoever asks later.
    under_way = [
        seen(10, 20, EMPTY),
        seen(70, 80, refused),
        seen(75, 85, EMPTY),
        seen(90, 95, EMPTY),
        seen(90, 110, refused),
    ]
    found = verify(Registry(V4_9_7), [StateChange(100, 60, ())], under_way, namesrv)
    assert [verdict.matched for verdict in found] == [True, True, True, False, True]
    # So it is beside a request that came later and was done before.
    (beside,) = verify(
        Registry(V4_9_7), [topic(90, "T", 85), StateChange(100, 60, ())], [seen(70, 80, refused)], namesrv
    )
    assert (beside.matched, beside.in_flight) == (True, True)


def test_response_to_a_request_is_verified_at_the_state_that_it_left() -> None:
    """Asked again there, the request gets the same answer: the number of topics whose permission was taken."""
    timeline = [topic(100, "T")]
    wiped, none = (Answer(0, None, fields=(("wipeTopicCount", number),)) for number in "10")
    for answered, is_right in [(wiped, True), (none, False)]:
        observed = Observed("a", 110, 120, WipeWritePerm("b"), answered)
        (found,) = judged(timeline, observed)
        assert (found.matched, found.expected) == (is_right, wiped)


def test_requests_of_different_kinds_are_told_apart_though_they_name_the_same() -> None:
    """Wiping and adding permissions, one after the other, of a broker that has no topics: each has its own answer."""
    asked: list[Event] = [WipeWritePerm("b"), AddWritePerm("b"), WipeWritePerm("b")]
    counts = [Answer(0, None, fields=((name, "0"),)) for name in ("wipeTopicCount", "addTopicCount", "wipeTopicCount")]
    answers = [Observed(f"{n}", n, n, one, said) for n, (one, said) in enumerate(zip(asked, counts, strict=True), 10)]
    assert [(found.matched, found.expected.fields) for found in judged([], *answers)] == [
        (True, said.fields) for said in counts
    ]
