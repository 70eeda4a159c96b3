"""Answers that show brokers of whose registration nothing is recorded."""

from __future__ import annotations

import json

import pytest

from namesrv_core import Answer, Question
from namesrv_core.history.verification import differs_by_unseen

SEEN = {"a", "b"}


def group(name: str, broker_id: int = 0) -> dict[str, object]:
    return {"brokerName": name, "brokerAddrs": {str(broker_id): f"{name}:1"}, "cluster": "C"}


def route(names: str, filters: str = "", perm: int = 6) -> str:
    """Return a route by groups with names of a letter; those of `filters` have filter servers."""
    queues = [
        {"brokerName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": perm, "topicSysFlag": 0} for name in names
    ]
    servers = {f"{name}:1": ["f:1"] for name in filters}
    return json.dumps({"queueDatas": queues, "brokerDatas": [group(n) for n in names], "filterServerTable": servers})


def cluster(names: str, sets: dict[str, str]) -> str:
    tables = {"brokerAddrTable": {n: group(n) for n in names}, "clusterAddrTable": {c: [*of] for c, of in sets.items()}}
    return json.dumps(tables)


def topics(names: str) -> str:
    return json.dumps({"topicList": [*names]})


@pytest.mark.parametrize(
    ("code", "subject", "answered", "expected", "is_gap"),
    [
        (105, "T", route("ax"), route("a"), True),
        (105, "T", route("x"), None, True),
        (105, "T", route("abx", filters="ax"), route("ab", filters="a"), True),
        (105, "T", route("ax"), route("ab"), False),
        (105, "T", route("ax", perm=4), route("a"), False),
        (105, "T", route("a", filters="a"), route("a"), False),
        (105, "T", "no route", route("a"), False),
        (105, "T", route("a"), route("a"), False),
        (106, None, cluster("abx", {"C": "abx", "D": "x"}), cluster("ab", {"C": "ba"}), True),
        (106, None, cluster("ab", {"C": "ab", "D": "a"}), cluster("ab", {"C": "ab"}), False),
        (206, None, topics("TU"), topics("T"), True),
        (206, None, topics("U"), topics("T"), False),
        (206, None, topics("T"), topics("T"), False),
        (206, None, "no list", topics("T"), False),
        (901, "x", "{}", None, True),
        (901, "a", "{}", None, False),
    ],
)
def test_only_brokers_that_nobody_registered_are_a_gap(
    code: int,
    subject: str | None,
    answered: str,
    expected: str | None,
    is_gap: bool,  # noqa: FBT001
) -> None:
    """Whatever else differs is no gap: seen brokers, their queues, topics that are missing, bodies that are none."""
    held = Answer(17, None) if expected is None else Answer(0, expected)
    assert differs_by_unseen(Question(code, subject), Answer(0, answered), held, SEEN) is is_gap
