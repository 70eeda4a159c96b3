"""The text of answers: two dialects of JSON, and what is left out of them."""

from __future__ import annotations

import json

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Question, Registry, answer
from namesrv_core.asking.answers import remark_matches
from namesrv_core.asking.shown import ShownRoute, same_json, shown_by
from namesrv_core.machine.codes import Answer
from namesrv_core.machine.registry import Change, TableName
from namesrv_core.machine.tables import BrokerData, QueueData, TopicQueueMappingInfo

ROUTE = 105
Row = tuple[TableName, tuple[str | None, ...], object]


def registry_of(namesrv: Namesrv, *rows: Row) -> Registry:
    registry = Registry(namesrv.profile)
    registry.apply([Change(*row) for row in rows], 0)
    return registry


def one_route(topic: str | None = "T", name: str = "broker-a", cluster: str = "C") -> list[Row]:
    group = BrokerData(cluster, ((0, "10.0.0.1:10911"), (1, "10.0.0.2:10911")))
    return [
        ("cluster_addr_table", (cluster, name), True),
        ("broker_addr_table", (name,), group),
        ("topic_queue_table", (topic, name), QueueData(4, 8, 6, 0)),
    ]


@pytest.mark.parametrize(("cluster", "text"), [(" ~X\x7f", " ~X\\u007F"), ("\ud83d", "\\uD83D")])
def test_text_outside_ascii_is_escaped_in_standard_json(cluster: str, text: str) -> None:
    """Also what is no text of UTF-8; names in both dialects: `scenarios/v4_answers.txt`."""
    namesrv = Namesrv(V4_9_7)
    body = answer(registry_of(namesrv, *one_route(cluster=cluster)), Question(ROUTE, "T"), namesrv).body or ""
    assert f'"cluster":"{text}"' in body


def test_unknown_topic_is_a_remark() -> None:
    """The address in it is http in 4.9.7 and https in 5.4.0; what follows it differs between builds."""
    for profile, scheme in [(V4_9_7, "http"), (V5_4_0, "https")]:
        namesrv = Namesrv(profile)
        answered = answer(Registry(profile), Question(ROUTE, "T"), namesrv)
        remark = f"No topic route info in name server for the topic: T\nSee {scheme}://rocketmq.apache.org/docs/"
        assert answered == Answer(17, None, remark)
        assert remark_matches(remark + "faq/ for further details.", answered.remark)
        assert not remark_matches(remark.replace("topic: T", "topic: U"), answered.remark)
    assert remark_matches(None, None)
    assert not remark_matches("anything", None)
    assert not remark_matches(None, "something")


def test_topic_whose_names_have_no_group_has_no_route() -> None:
    """Queue data alone are not a route."""
    namesrv = Namesrv(V4_9_7)
    registry = registry_of(namesrv, ("topic_queue_table", ("T", "broker-a"), QueueData(4, 4, 6, 0)))
    assert answer(registry, Question(ROUTE, "T"), namesrv).code == 17


def test_name_without_group_is_left_out_of_a_route() -> None:
    """Its queue data stay in."""
    namesrv = Namesrv(V4_9_7)
    rows = [*one_route(), ("topic_queue_table", ("T", "broker-b"), QueueData(4, 4, 6, 0))]
    body = json.loads(answer(registry_of(namesrv, *rows), Question(ROUTE, "T"), namesrv).body or "")
    assert [broker["brokerName"] for broker in body["brokerDatas"]] == ["broker-a"]
    assert sorted(data["brokerName"] for data in body["queueDatas"]) == ["broker-a", "broker-b"]


def test_mapping_is_written_with_integer_keys() -> None:
    """CurrIdMap follows the dialect; an empty one is written too."""
    namesrv = Namesrv(V5_4_0)
    for current, standard, text in [
        ('{"1":5,"0":7}', True, '"currIdMap":{"0":7,"1":5}'),
        ('{"1":5,"0":7}', False, '"currIdMap":{1:5,0:7}'),
        (None, True, '"currIdMap":{}'),
    ]:
        info = TopicQueueMappingInfo("T", "broker-a", 4, 2, True, "__global__", current)
        row: Row = ("topic_queue_mapping_info_table", ("T", "broker-a"), info)
        body = answer(registry_of(namesrv, *one_route(), row), Question(ROUTE, "T", standard), namesrv).body or ""
        assert f'"topicQueueMappingByBroker":{{"broker-a":{{"bname":"broker-a",{text},"dirty":true,"epoch":2,' in body


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize("current", ["{}", '{"0":7,"1":5,"10":3,"2":1}'])
def test_mapping_is_read_off_an_answer_as_a_registration_brings_it(current: str, standard: bool) -> None:  # noqa: FBT001
    """An empty one, and one whose queues are written by number: what is read of an answer is the row that is held."""
    namesrv, info = Namesrv(V5_4_0), TopicQueueMappingInfo("T", "b", 4, 2, True, "__global__", current)
    row: Row = ("topic_queue_mapping_info_table", ("T", "b"), info)
    question = Question(ROUTE, "T", standard)
    shown = shown_by(question, answer(registry_of(namesrv, *one_route(), row), question, namesrv))
    assert isinstance(shown, ShownRoute)
    assert shown.mappings == {"b": info}


def test_standard_json_sorts_by_key() -> None:
    """Mappings go by broker name, whatever is in them and whichever came first."""
    namesrv = Namesrv(V5_4_0)
    rows: list[Row] = [
        ("topic_queue_mapping_info_table", ("T", name), TopicQueueMappingInfo("T", bname, 4, 1))
        for name, bname in [("q", "a"), ("p", "b"), ("o", "c")]
    ]
    body = answer(registry_of(namesrv, *one_route(), *rows), Question(ROUTE, "T"), namesrv).body or ""
    assert list(json.loads(body)["topicQueueMappingByBroker"]) == ["o", "p", "q"]


def test_topics_of_a_list_follow_the_set_of_their_generation() -> None:
    """Twelve topics: a HashMap keeps its 16 buckets, a ConcurrentHashMap grows and turns the front of a bucket round."""
    shared = ["p", chr(144), chr(160)]  # one bucket of 16; of 32 the first two share one
    rows: list[Row] = [("topic_queue_table", (topic, "b"), QueueData(4, 4, 6, 0)) for topic in [*shared, *"abcdefghi"]]
    listed = {}
    for profile in (V4_9_7, V5_4_0):
        namesrv = Namesrv(profile)
        body = answer(registry_of(namesrv, *rows), Question(206), namesrv).body or ""
        listed[profile.name] = [topic for topic in json.loads(body)["topicList"] if topic in shared]
    assert listed == {"4.9.7": ["p", chr(144), chr(160)], "5.4.0": [chr(160), chr(144), "p"]}


def test_code_that_asks_nothing_is_an_error() -> None:
    """A registration has no answer here."""
    with pytest.raises(ValueError, match="request code 103"):
        answer(Registry(V4_9_7), Question(103), Namesrv())


def test_system_list_ends_at_a_broker_without_a_name() -> None:
    """5.4.0 cannot put null into the list: what came before it is answered, without an address."""
    namesrv = Namesrv(V5_4_0)
    registry = registry_of(namesrv, *one_route(), ("cluster_addr_table", ("C", None), True))
    assert answer(registry, Question(304), namesrv) == Answer(0, '{"topicList":["C"]}')


def test_a_route_with_its_lists_in_another_order_says_the_same() -> None:
    """Without order it is equal, element by element; of a list that is there twice the last one counts."""
    namesrv = Namesrv(V4_9_7)
    rows = [*one_route(), *one_route(name="broker-b")]
    body = answer(registry_of(namesrv, *rows), Question(ROUTE, "T"), namesrv).body or ""
    route = json.loads(body)
    other = json.dumps({**route, "queueDatas": route["queueDatas"][::-1]}, separators=(",", ":"))
    assert same_json(body, other, ordered=False)
    assert not same_json(body, other, ordered=True)
    twice = body[:-1] + ',"queueDatas":[]}'
    assert same_json(twice, json.dumps({**route, "queueDatas": []}), ordered=True)
    assert not same_json(twice, body, ordered=False)
