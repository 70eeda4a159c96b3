"""A recording of answers alone, as `record --poll` writes it, of a name server to which anything may happen between two of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import Namesrv, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.past import Past
from namesrv_core.machine.registry import Change
from tests.core.adversary import EVENTS, understood_by
from tests.core.test_answers_again import NAMESRVS, ORDER_CONFS
from tests.examples import examples

ROUND = [
    *(Question(106), Question(206), Question(219, "ORDER_TOPIC_CONFIG")),
    *(Question(105, topic, standard_json=True) for topic in ("T0", "T1", "T2")),
]
DONE = st.tuples(st.sampled_from([0, 1, 5_000, 20_000]), st.one_of(EVENTS, EVENTS, EVENTS, ORDER_CONFS))
# One question, or all of them while nothing happens.
ASKED = st.sampled_from([*([question] for question in ROUND), ROUND])


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(NAMESRVS, st.lists(st.one_of(DONE, ASKED), min_size=5, max_size=60))
def test_answers_alone_invent_nothing(namesrv: Namesrv, log: list[Any]) -> None:
    """Each change that an answer makes is true when it is given, and after a whole round the tables are the server's."""
    true, polled, at_ms = Registry(namesrv.profile), Registry(namesrv.profile), 1_000
    polled.past = Past(0)
    for done in log:
        if isinstance(done, tuple):
            pause_ms, event = done
            at_ms += pause_ms
            if understood_by(namesrv, event):
                take(true, event, at_ms, namesrv)
            continue
        for question in done:
            at_ms += 1
            seen = events.AnswerObserved(question, answer(true, question, namesrv), at_ms * 1_000_000)
            for change in take(polled, seen, at_ms, namesrv).changes:
                assert _is_true(true, change), (question, change)
        if done is ROUND:
            assert _shown(polled) == _shown(true)


def _is_true(true: Registry, change: Change) -> bool:
    """Whether a registry has what a change says; of a group a route may not show all members, but never none."""
    table, key = change[:2]
    value: Any = change.value
    if table == "topic_queue_table":
        return bool(true.queue_data(*key) == value)
    if table == "cluster_addr_table":
        return (key[1] in true.cluster_addr_table.get(key[0], ())) == bool(value)
    if table == "broker_addr_table":
        group: Any = true.broker_addr_table.get(key[0])
        if value is None or group is None:
            return group is value
        members, own = set(value.broker_addrs), set(group.broker_addrs)
        return (
            value[2:] == group[2:]
            and value.cluster_name == group.cluster_name
            and members <= own
            and bool(members) == bool(own)
        )
    return True


def _shown(registry: Registry) -> tuple[object, ...]:
    """Return what answers show of a registry: queue data, members and clusters."""
    groups = {name: set(group.broker_addrs) for name, group in registry.broker_addr_table.items()}
    queues = {topic: dict(rows) for topic, rows in registry.topic_queue_table.items() if rows}
    return groups, queues, {name: set(names) for name, names in registry.cluster_addr_table.items() if names}
