"""What requests are answered with, and how their header fields are read: the part of the request layer that is the core's."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Answer, Namesrv, NamesrvConfig, Outcome, Question, Registry, Step, step
from namesrv_core.asking.answers import (
    CRC32_MISMATCH,
    MISSING_BROKER_ID,
    UNDECODABLE_BODY,
    answer,
    answer_to,
    question_of,
)
from namesrv_core.asking.requests import (
    BrokerHeader,
    Fields,
    RegisterHeader,
    broker_header,
    crc32_matches,
    register_header,
)
from namesrv_core.machine import events
from namesrv_core.machine.draft import NULL_POINTER
from namesrv_core.machine.rows import DataVersion, KvValue, LiveKey, TopicConfig, TopicTable
from namesrv_core.machine.step import apply_step

FOUR, FIVE = Namesrv(V4_9_7), Namesrv(V5_4_0)
BOTH = pytest.mark.parametrize("namesrv", [FOUR, FIVE], ids=["4.9.7", "5.4.0"])
VERSION = DataVersion(0, 7, 3)
TOPICS = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])
MASTER = events.RegisterBroker("C", "a:1", "b", 0, "h:1", VERSION, TOPICS, (), "c")
ORDER = events.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "b:4")
GONE = events.UnregisterBroker("C", "a:1", "b", 0)


def served(registry: Registry, namesrv: Namesrv, event: events.Event) -> tuple[Step, Answer]:
    """Return what a request that is an event has done, and its answer."""
    taken = step(registry, event, 5, namesrv)
    apply_step(registry, event, taken, 5, namesrv)
    return taken, answer_to(event, taken, registry, namesrv)


def registered(namesrv: Namesrv, *happened: events.Event) -> Registry:
    """Return the registry of a server that has served a registration, and `happened`."""
    registry = Registry(namesrv.profile)
    for event in (MASTER, *happened):
        served(registry, namesrv, event)
    return registry


def asked(registry: Registry, namesrv: Namesrv, code: int, fields: Fields) -> Answer:
    """Return the answer to a question of a client since 4.9.4."""
    return answer(registry, question_of(code, fields, standard_json=True), namesrv)


def test_a_registration_is_read_from_its_header() -> None:
    """Each field arrives where it belongs; one that is missing is null, but for what says how the body is read."""
    fields = {"clusterName": "C", "brokerAddr": "a:1", "brokerName": "b", "brokerId": "0"}
    more = {"haServerAddr": "h:1", "enableActingMaster": "TRUE", "heartbeatTimeoutMillis": "30000", "__ZONE_NAME": "z"}
    assert broker_header(fields) == BrokerHeader("C", "a:1", "b", 0)
    assert broker_header({**fields, "brokerId": "first"}).broker_id is None
    packed = {"compressed": "True", "bodyCrc32": "99"}
    assert register_header({**more, **packed}) == RegisterHeader(
        "h:1", True, 30_000, "z", compressed=True, body_crc32=99
    )
    assert register_header({}) == RegisterHeader(None, None, None, None, compressed=False, body_crc32=0)


@pytest.mark.parametrize(
    ("crc32", "of_body", "matches"),
    [
        *(("0", 99, True), ("99", 99, True), ("none", 99, True), ("2147483648", 99, True)),
        *(("98", 99, False), ("0", None, True), ("98", None, False)),
    ],
)
def test_a_checksum_that_fits_or_says_nothing_lets_a_registration_in(
    crc32: str,
    of_body: int | None,
    matches: bool,  # noqa: FBT001
) -> None:
    """0 says nothing, and so does a field that is no 32-bit number."""
    assert crc32_matches(register_header({"bodyCrc32": crc32}), of_body) is matches


@pytest.mark.parametrize(
    ("reason", "remark"),
    [(CRC32_MISMATCH, "crc32 not match"), (UNDECODABLE_BODY, ""), (MISSING_BROKER_ID, NULL_POINTER)],
)
@BOTH
def test_a_refused_registration_is_a_system_error_and_leaves_nothing(
    namesrv: Namesrv, reason: str, remark: str
) -> None:
    """A reason that is no keyword of the request layer is the remark itself; of one with an exception only that is known."""
    registry = Registry(namesrv.profile)
    assert served(registry, namesrv, events.RefusedRequest(reason))[1] == Answer(1, None, remark)
    assert (len(registry.broker_live_table), len(registry.cluster_addr_table)) == (0, 0)


def test_a_slave_learns_its_master_and_every_broker_the_order_configuration() -> None:
    """Master address and HA address are header fields, the KV namespace is the body; 5.x may keep the body back."""
    slave = MASTER._replace(broker_id=1, broker_addr="s:1")
    told = (("haServerAddr", "h:1"), ("masterAddr", "a:1"))
    for namesrv in (FOUR, FIVE):
        assert served(registered(namesrv, ORDER), namesrv, slave)[1] == Answer(0, '{"table":{"T":"b:4"}}', fields=told)
    quiet = Namesrv(V5_4_0, NamesrvConfig(return_order_topic_config_to_broker=False))
    assert served(registered(quiet, ORDER), quiet, slave)[1] == Answer(0, None, fields=told)


def test_a_lone_topic_fails_in_the_new_generation() -> None:
    """A first registration with one topic: SYSTEM_ERROR in 5.4.0, SUCCESS in 4.9.7."""
    lone = MASTER._replace(topics=TopicTable([TopicConfig("T", 4, 4, 6, 0)]), ha_server_addr=None)
    assert served(Registry(V5_4_0), FIVE, lone)[1] == Answer(1, None, "register broker failed")
    assert served(Registry(V4_9_7), FOUR, lone)[1] == Answer(0, None)


def test_a_version_query_says_whether_it_changed_and_what_is_stored() -> None:
    """The stored version is the body, with a stateVersion in 5.x; an unknown broker has changed and has none."""
    for namesrv, stored in (
        (FOUR, '{"counter":3,"timestamp":7}'),
        (FIVE, '{"counter":3,"stateVersion":0,"timestamp":7}'),
    ):
        registry = registered(namesrv)
        for addr, version, body, changed in (
            ("a:1", VERSION, stored, "false"),
            ("a:1", DataVersion(0, 8, 3), stored, "true"),
            ("x:1", VERSION, None, "true"),
        ):
            found = served(registry, namesrv, events.QueryDataVersion("C", addr, version))[1]
            assert found == Answer(0, body, fields=(("changed", changed),))


def test_a_version_without_counter_is_written_without_it() -> None:
    """Nulls are left out."""
    registry = registered(FOUR, MASTER._replace(data_version=DataVersion(0, 7, None)))
    found = served(registry, FOUR, events.QueryDataVersion("C", "a:1", VERSION))[1]
    assert found == Answer(0, '{"timestamp":7}', fields=(("changed", "true"),))


@BOTH
def test_permission_changes_are_answered_with_their_number_of_topics(namesrv: Namesrv) -> None:
    """Each has a header field of its own; a broker that is not there has no topics."""
    registry = registered(namesrv)
    for event, field, count in (
        (events.WipeWritePerm("b"), "wipeTopicCount", "2"),
        (events.AddWritePerm("b"), "addTopicCount", "2"),
        (events.WipeWritePerm("x"), "wipeTopicCount", "0"),
    ):
        assert served(registry, namesrv, event)[1] == Answer(0, None, fields=((field, count),))


@BOTH
def test_what_returns_nothing_is_answered_with_nothing(namesrv: Namesrv) -> None:
    """A deleted topic and a broker that leaves: SUCCESS, no body, no fields."""
    registry = registered(namesrv)
    assert served(registry, namesrv, events.DeleteTopic("T", None))[1] == Answer(0, None)
    assert served(registry, namesrv, GONE)[1] == Answer(0, None)


def test_an_unregistration_without_an_id_ends_in_an_exception_in_the_old_generation() -> None:
    """4.9.7 unboxes the id at once: SYSTEM_ERROR, nothing changes. 5.4.0 has queued it and says SUCCESS."""
    nameless = GONE._replace(broker_id=None)
    registry = registered(FOUR)
    taken = Step(Outcome.REFUSED_REQUEST, exception=NULL_POINTER)
    assert served(registry, FOUR, nameless) == (taken, Answer(1, None, "java.lang.NullPointerException"))
    assert list(registry.broker_live_table) == [LiveKey(None, "a:1")]
    assert served(registered(FIVE), FIVE, nameless)[1] == Answer(0, None)


def test_a_full_queue_of_unregistrations_is_a_system_error_without_a_remark() -> None:
    """5.4.0 takes as many as the queue has room for, and answers the next one with the bare code."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(un_register_broker_queue_capacity=1))
    registry, event = registered(namesrv), GONE._replace(defer=True)
    answers = [served(registry, namesrv, event)[1] for _ in range(2)]
    assert answers == [Answer(0, None), Answer(1, None, None)]
    assert registry.pending_unregister == (event,)


@BOTH
def test_a_kv_put_without_key_is_refused_in_words(namesrv: Namesrv) -> None:
    """A reason that is no keyword of the request layer is the remark itself."""
    found = served(Registry(namesrv.profile), namesrv, events.PutKvConfig("N", None, "v"))[1]
    assert found == Answer(1, None, "namespace or key is null")


@pytest.mark.parametrize(("standard_json", "key"), [(False, "0"), (True, '"0"')])
def test_a_route_is_told_in_the_dialect_of_the_asker(standard_json: bool, key: str) -> None:  # noqa: FBT001
    """Integer keys show which it is."""
    question = question_of(105, {"topic": "T"}, standard_json=standard_json)
    assert answer(registered(FOUR), question, FOUR) == Answer(
        0,
        f'{{"brokerDatas":[{{"brokerAddrs":{{{key}:"a:1"}},"brokerName":"b","cluster":"C"}}],"filterServerTable":{{}},'
        '"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}',
    )


@BOTH
def test_kv_questions_find_what_was_put(namesrv: Namesrv) -> None:
    """A value is a header field, a namespace is a body; what is not there is named in the remark."""
    registry = Registry(namesrv.profile)
    for key, value in (("k", "v"), ("null", None)):
        served(registry, namesrv, events.PutKvConfig("N", key, value))
    for fields, expected in [
        ({"namespace": "N", "key": "k"}, Answer(0, None, fields=(("value", "v"),))),
        ({"namespace": "N", "key": "null"}, Answer(22, None, "No config item, Namespace: N Key: null")),
        ({"namespace": "M", "key": "k"}, Answer(22, None, "No config item, Namespace: M Key: k")),
        ({}, Answer(22, None, "No config item, Namespace: null Key: null")),
    ]:
        assert asked(registry, namesrv, 101, fields) == expected
    assert asked(registry, namesrv, 219, {"namespace": "N"}) == Answer(0, '{"table":{"k":"v"}}')
    assert asked(registry, namesrv, 219, {"namespace": "M"}) == Answer(22, None, "No config item, Namespace: M")
    assert asked(registry, namesrv, 219, {}) == Answer(22, None, "No config item, Namespace: null")


def test_a_member_group_is_found_by_name_and_its_cluster_is_an_echo() -> None:
    """The remark of a fresh response stays; an unknown group is empty."""
    registry = registered(FIVE, MASTER._replace(broker_id=1, broker_addr="s:1"))
    fields = {"clusterName": "X", "brokerName": "b"}
    members = '{"brokerMemberGroup":{"brokerAddrs":{0:"a:1",1:"s:1"},"brokerName":"b","cluster":"X"}}'
    assert asked(registry, FIVE, 901, fields) == Answer(0, members, "not set any response code")
    nobody = '{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"c"}}'
    assert asked(registry, FIVE, 901, {"brokerName": "c"}) == Answer(0, nobody, "not set any response code")


@pytest.mark.parametrize(
    ("code", "fields", "question"),
    [
        (105, {"topic": "T"}, Question(105, "T", standard_json=False)),
        (
            105,
            {"topic": "T", "__ZONE_MODE": "true", "__ZONE_NAME": "z"},
            Question(105, "T", standard_json=False, scope="z"),
        ),
        (101, {"namespace": "N", "key": "k"}, Question(101, "k", scope="N")),
        (219, {"namespace": "N", "key": "k"}, Question(219, "N")),
        (224, {"cluster": "C"}, Question(224, "C")),
        (901, {"clusterName": "C", "brokerName": "b"}, Question(901, "b", scope="C")),
        (206, {"topic": "T"}, Question(206, None)),
    ],
)
def test_a_question_is_read_from_its_header(code: int, fields: Fields, question: Question) -> None:
    """Subject and scope by code; only a route has a dialect and a zone."""
    assert question_of(code, fields, standard_json=False) == question


def test_a_value_of_null_is_stored() -> None:
    """A put without a value is no refusal: the key is there, with null."""
    registry = Registry(V5_4_0)
    assert served(registry, FIVE, events.PutKvConfig("N", "k", None))[1] == Answer(0, None)
    assert registry.kv_config_table["N"]["k"] == KvValue(None)
