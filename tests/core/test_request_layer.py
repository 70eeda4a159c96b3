"""How header fields of requests are read; what they are answered: `scenarios/requests.txt`."""

from __future__ import annotations

import pytest

from namesrv_core import Question
from namesrv_core.asking.answers import question_of
from namesrv_core.asking.requests import (
    BrokerHeader,
    Fields,
    RegisterHeader,
    broker_header,
    crc32_matches,
    register_header,
)


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
