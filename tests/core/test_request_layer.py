"""The request layer without a wire: which event a request is, what it is answered with, and what it leaves behind."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Answer, Namesrv, NamesrvConfig, Outcome, Question, Registry, Step, step
from namesrv_core.asking.answers import CRC32_MISMATCH, MISSING_BROKER_ID, UNDECODABLE_BODY, answer_to, question_of
from namesrv_core.asking.requests import Fields
from namesrv_core.machine import events
from namesrv_core.machine.draft import NULL_POINTER
from namesrv_core.machine.rows import DataVersion, KvValue, LiveKey, TopicConfig, TopicTable
from tests.core.request_layer import (
    Body,
    RegisterBody,
    Request,
    Undecodable,
    dispatch,
    event_of,
    serve,
)

FOUR, FIVE = Namesrv(V4_9_7), Namesrv(V5_4_0)
BOTH = pytest.mark.parametrize("namesrv", [FOUR, FIVE], ids=["4.9.7", "5.4.0"])
VERSION = DataVersion(0, 7, 3)
TOPICS = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])
BODY = RegisterBody(VERSION, TOPICS, ())
BROKER = {"clusterName": "C", "brokerAddr": "a:1", "brokerName": "b", "brokerId": "0"}


def register(body: Body = BODY, *, version: int = 407, body_crc32: int | None = 99, **fields: str) -> Request:
    """Return a registration of the broker b over channel c."""
    return Request(103, {**BROKER, **fields}, version, body, body_crc32, channel_id="c")


def registered(namesrv: Namesrv, *requests: Request) -> Registry:
    """Return the registry of a server that has served a registration, and `requests`."""
    registry = Registry(namesrv.profile)
    for at_ms, request in enumerate((register(), *requests)):
        serve(registry, request, at_ms, namesrv)
    return registry


def answered(registry: Registry, namesrv: Namesrv, code: int, fields: Fields, body: Body = None) -> Answer | None:
    """Return the answer to a request of a current client."""
    return dispatch(registry, Request(code, fields, 407, body, None if body is None else 99), 5, namesrv).answer


def test_a_registration_takes_header_and_body() -> None:
    """Each field of the header, the body and the channel arrives where it belongs."""
    request = register(
        RegisterBody(VERSION, TOPICS, ("f:1",)),
        haServerAddr="h:1",
        enableActingMaster="TRUE",
        heartbeatTimeoutMillis="30000",
        __ZONE_NAME="z",
    )
    assert event_of(request, FIVE) == events.RegisterBroker(
        "C",
        "a:1",
        "b",
        0,
        "h:1",
        DataVersion(0, 7, 3),
        TOPICS,
        ("f:1",),
        "c",
        enable_acting_master=True,
        heartbeat_timeout_ms=30_000,
        zone_name="z",
    )


@pytest.mark.parametrize(
    ("request_", "namesrv", "reason", "remark"),
    [
        (register(bodyCrc32="98"), FIVE, CRC32_MISMATCH, "crc32 not match"),
        (register(bodyCrc32="98"), FOUR, CRC32_MISMATCH, "crc32 not match"),
        (register(Undecodable("syntax error")), FIVE, UNDECODABLE_BODY, "syntax error"),
        (register(Undecodable("syntax error"), bodyCrc32="98"), FIVE, CRC32_MISMATCH, "crc32 not match"),
        (register(None), FOUR, UNDECODABLE_BODY, ""),
        (register(brokerId="first"), FOUR, MISSING_BROKER_ID, "java.lang.NullPointerException"),
        (register(version=-1, bodyCrc32="98"), FOUR, UNDECODABLE_BODY, ""),
        (register(version=-1, bodyCrc32="98"), FIVE, CRC32_MISMATCH, "crc32 not match"),
    ],
)
def test_a_refused_registration_is_a_system_error_and_leaves_nothing(
    request_: Request, namesrv: Namesrv, reason: str, remark: str
) -> None:
    """Checksum first, then the body, then the broker id; 4.9.7 looks at a negative version before all of them."""
    registry = Registry(namesrv.profile)
    served = serve(registry, request_, 0, namesrv)
    assert served.event == events.RefusedRequest(reason)
    assert served.answer == Answer(1, None, remark)
    assert (len(registry.broker_live_table), len(registry.cluster_addr_table)) == (0, 0)


@pytest.mark.parametrize("crc32", ["0", "99", "none", "2147483648"])
def test_a_checksum_that_fits_or_says_nothing_lets_a_registration_in(crc32: str) -> None:
    """0 says nothing, and so does a field that is no 32-bit number."""
    assert isinstance(event_of(register(bodyCrc32=crc32), FIVE), events.RegisterBroker)


def test_a_slave_learns_its_master_and_every_broker_the_order_configuration() -> None:
    """Master address and HA address are header fields, the KV namespace is the body; 5.x may keep the body back."""
    put = Request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "b:4"})
    slave = register(brokerId="1", brokerAddr="s:1")
    told = (("haServerAddr", "h:1"), ("masterAddr", "a:1"))
    for namesrv in (FOUR, FIVE):
        registry = registered(namesrv, register(haServerAddr="h:1"), put)
        assert dispatch(registry, slave, 9, namesrv).answer == Answer(0, '{"table":{"T":"b:4"}}', fields=told)
    quiet = Namesrv(V5_4_0, NamesrvConfig(return_order_topic_config_to_broker=False))
    assert dispatch(registered(quiet, register(haServerAddr="h:1"), put), slave, 9, quiet).answer == Answer(
        0, None, fields=told
    )


def test_a_lone_topic_fails_in_the_new_generation() -> None:
    """A first registration with one topic: SYSTEM_ERROR in 5.4.0, SUCCESS in 4.9.7."""
    lone = register(RegisterBody(VERSION, TopicTable([TopicConfig("T", 4, 4, 6, 0)]), ()))
    assert dispatch(Registry(V5_4_0), lone, 0, FIVE).answer == Answer(1, None, "register broker failed")
    assert dispatch(Registry(V4_9_7), lone, 0, FOUR).answer == Answer(0, None)


def test_a_version_query_says_whether_it_changed_and_what_is_stored() -> None:
    """The stored version is the body, with a stateVersion in 5.x; an unknown broker has changed and has none."""
    other = DataVersion(0, 8, 3)
    for namesrv, stored in (
        (FOUR, '{"counter":3,"timestamp":7}'),
        (FIVE, '{"counter":3,"stateVersion":0,"timestamp":7}'),
    ):
        registry = registered(namesrv)
        assert answered(registry, namesrv, 322, BROKER, VERSION) == Answer(0, stored, fields=(("changed", "false"),))
        assert answered(registry, namesrv, 322, BROKER, other) == Answer(0, stored, fields=(("changed", "true"),))
        unknown = {**BROKER, "brokerAddr": "x:1"}
        assert answered(registry, namesrv, 322, unknown, VERSION) == Answer(0, None, fields=(("changed", "true"),))


def test_a_version_without_counter_is_written_without_it() -> None:
    """Nulls are left out."""
    registry = Registry(V4_9_7)
    serve(registry, register(RegisterBody(DataVersion(0, 7, None), TOPICS, ())), 0, FOUR)
    found = answered(registry, FOUR, 322, BROKER, VERSION)
    assert found == Answer(0, '{"timestamp":7}', fields=(("changed", "true"),))


@BOTH
def test_permission_changes_are_answered_with_their_number_of_topics(namesrv: Namesrv) -> None:
    """Each has a header field of its own; a broker that is not there has no topics."""
    registry = registered(namesrv)
    assert answered(registry, namesrv, 205, {"brokerName": "b"}) == Answer(0, None, fields=(("wipeTopicCount", "2"),))
    assert answered(registry, namesrv, 327, {"brokerName": "b"}) == Answer(0, None, fields=(("addTopicCount", "2"),))
    assert answered(registry, namesrv, 205, {"brokerName": "x"}) == Answer(0, None, fields=(("wipeTopicCount", "0"),))


@BOTH
def test_what_returns_nothing_is_answered_with_nothing(namesrv: Namesrv) -> None:
    """A deleted topic and a broker that leaves: SUCCESS, no body, no fields."""
    registry = registered(namesrv)
    assert answered(registry, namesrv, 216, {"topic": "T"}) == Answer(0, None)
    assert answered(registry, namesrv, 104, BROKER) == Answer(0, None)


def test_an_unregistration_without_an_id_ends_in_an_exception_in_the_old_generation() -> None:
    """4.9.7 unboxes the id at once: SYSTEM_ERROR, nothing changes. 5.4.0 has queued it and says SUCCESS."""
    fields = {**BROKER, "brokerId": ""}
    registry = registered(FOUR)
    served = serve(registry, Request(104, fields, 407), 5, FOUR)
    assert served.answer == Answer(1, None, "java.lang.NullPointerException")
    assert served.step == Step(Outcome.REFUSED_REQUEST, exception=NULL_POINTER)
    assert list(registry.broker_live_table) == [LiveKey(None, "a:1")]
    assert answered(registered(FIVE), FIVE, 104, fields) == Answer(0, None)


def test_a_full_queue_of_unregistrations_is_a_system_error_without_a_remark() -> None:
    """5.4.0 takes as many as the queue has room for, and answers the next one with the bare code."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(un_register_broker_queue_capacity=1))
    registry, event = registered(namesrv), events.UnregisterBroker("C", "a:1", "b", 0, defer=True)
    answers = []
    for _ in range(2):
        served = dispatch(registry, Request(104, BROKER), 5, namesrv)
        assert served.event == event._replace(defer=False)
        taken = step(registry, event, 5, namesrv)
        answers.append(answer_to(event, taken, registry, namesrv))
        registry.apply(taken.changes, 5)
    assert answers == [Answer(0, None), Answer(1, None, None)]
    assert registry.pending_unregister == (event,)


@BOTH
def test_a_kv_put_without_key_is_refused_in_words(namesrv: Namesrv) -> None:
    """A reason that is no keyword of the request layer is the remark itself."""
    found = answered(Registry(namesrv.profile), namesrv, 100, {"namespace": "N", "value": "v"})
    assert found == Answer(1, None, "namespace or key is null")


@pytest.mark.parametrize(
    ("version", "fields", "key"), [(400, {}, "0"), (401, {}, '"0"'), (0, {"acceptStandardJsonOnly": "true"}, '"0"')]
)
def test_the_asker_decides_the_dialect_of_a_route(version: int, fields: dict[str, str], key: str) -> None:
    """Standard JSON from version 4.9.4 on, or if asked for; integer keys show which it is."""
    found = dispatch(registered(FOUR), Request(105, {"topic": "T", **fields}, version), 5, FOUR).answer
    assert found == Answer(
        0,
        f'{{"brokerDatas":[{{"brokerAddrs":{{{key}:"a:1"}},"brokerName":"b","cluster":"C"}}],"filterServerTable":{{}},'
        '"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}',
    )


@BOTH
def test_kv_questions_find_what_was_put(namesrv: Namesrv) -> None:
    """A value is a header field, a namespace is a body; what is not there is named in the remark."""
    registry = Registry(namesrv.profile)
    for fields in ({"namespace": "N", "key": "k", "value": "v"}, {"namespace": "N", "key": "null"}):
        serve(registry, Request(100, fields), 0, namesrv)
    for fields, expected in [
        ({"namespace": "N", "key": "k"}, Answer(0, None, fields=(("value", "v"),))),
        ({"namespace": "N", "key": "null"}, Answer(22, None, "No config item, Namespace: N Key: null")),
        ({"namespace": "M", "key": "k"}, Answer(22, None, "No config item, Namespace: M Key: k")),
        ({}, Answer(22, None, "No config item, Namespace: null Key: null")),
    ]:
        assert answered(registry, namesrv, 101, fields) == expected
    assert answered(registry, namesrv, 219, {"namespace": "N"}) == Answer(0, '{"table":{"k":"v"}}')
    assert answered(registry, namesrv, 219, {"namespace": "M"}) == Answer(22, None, "No config item, Namespace: M")
    assert answered(registry, namesrv, 219, {}) == Answer(22, None, "No config item, Namespace: null")


def test_a_member_group_is_found_by_name_and_its_cluster_is_an_echo() -> None:
    """The remark of a fresh response stays; an unknown group is empty."""
    registry = registered(FIVE, register(brokerId="1", brokerAddr="s:1"))
    fields = {"clusterName": "X", "brokerName": "b"}
    members = '{"brokerMemberGroup":{"brokerAddrs":{0:"a:1",1:"s:1"},"brokerName":"b","cluster":"X"}}'
    assert answered(registry, FIVE, 901, fields) == Answer(0, members, "not set any response code")
    nobody = '{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"c"}}'
    assert answered(registry, FIVE, 901, {"brokerName": "c"}) == Answer(0, nobody, "not set any response code")


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
    served = serve(registry, Request(100, {"namespace": "N", "key": "k"}), 0, FIVE)
    assert served.answer == Answer(0, None)
    assert registry.kv_config_table["N"]["k"] == KvValue(None)
