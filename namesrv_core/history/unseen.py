"""Answers that show brokers of whose registration nothing is recorded, because its connection could not be read.

Where such connections were, an answer that shows nothing else otherwise than the registry says no more than that somebody
registered unseen: a gap in what is known, and no fault of the name server or of the replay.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TypeVar

from namesrv_core.asking.answers import LIST_CODES
from namesrv_core.asking.body_json import read_json
from namesrv_core.asking.shown import ShownCluster, ShownRoute, ShownTopics, shown_by
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.question import Answer, Question

Name = str | None
_Value = TypeVar("_Value")


def differs_by_unseen(question: Question, answered: Answer, expected: Answer, seen: Container[Name]) -> bool:
    """Return whether `answered` is `expected` but for brokers that are not in `seen`, names of those that have registered.

    Of a list of topics, which names no brokers: whether it has all that was expected, and more.
    """
    if question.code == RequestCode.GET_BROKER_MEMBER_GROUP:
        return question.subject not in seen
    if question.code in LIST_CODES:
        return answered.code == ResponseCode.SUCCESS and _topics(expected) < _topics(answered)
    shown, held = shown_by(question, answered), shown_by(question, expected)
    if shown is None or held is None or isinstance(shown, ShownTopics) or isinstance(held, ShownTopics):
        return False
    return shown != held and _without_unseen(shown, seen) == _without_unseen(held, seen)


def _topics(answer: Answer) -> frozenset[Name]:
    try:
        return frozenset(read_json(answer.body or "")["topicList"])
    except (ValueError, KeyError, TypeError):
        return frozenset()


def _without_unseen(shown: ShownRoute | ShownCluster, seen: Container[Name]) -> ShownRoute | ShownCluster:
    groups = _of_seen(shown.groups, seen)
    if isinstance(shown, ShownCluster):
        clusters = {name: tuple(sorted((n for n in of if n in seen), key=str)) for name, of in shown.clusters.items()}
        return ShownCluster(groups, {name: of for name, of in clusters.items() if of})
    addrs = {addr for group in groups.values() for _, addr in group.broker_addrs}
    return ShownRoute(
        _of_seen(shown.queue_datas, seen),
        groups,
        {addr: servers for addr, servers in shown.filter_servers.items() if addr in addrs},
        shown.order_topic_conf,
        _of_seen(shown.mappings, seen),
    )


def _of_seen(by_name: dict[Name, _Value], seen: Container[Name]) -> dict[Name, _Value]:
    return {name: value for name, value in by_name.items() if name in seen}
