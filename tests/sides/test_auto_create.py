"""Topics that brokers make by themselves."""

from __future__ import annotations

import pytest

from namesrv_core.machine.rows import TopicConfig
from tests.sides.auto_create import (
    SendRequest,
    create_topic_in_send_message,
    default_topic_of,
    dlq_topic_of,
    retry_topic_of,
    topic_of_send,
)
from tests.sides.broker import BrokerConfig

OFF = BrokerConfig(auto_create_topic_enable=False)
TBW102 = TopicConfig("TBW102", 8, 8, 7, 0)


def made(nums: int, perm: int = 6, flag: int = 0, name: str = "T") -> TopicConfig:
    return TopicConfig(name, nums, nums, perm, flag)


def test_a_broker_offers_the_default_topic_if_it_may_create() -> None:
    """Eight queues by default, to be read, written and inherited."""
    assert default_topic_of(BrokerConfig()) == TBW102
    assert default_topic_of(BrokerConfig(default_topic_queue_nums=2)) == TopicConfig("TBW102", 2, 2, 7, 0)
    assert default_topic_of(OFF) is None


@pytest.mark.parametrize(
    ("default_topic", "wish", "config", "expected"),
    [
        (TBW102, 4, BrokerConfig(), made(4)),
        (TBW102, 16, BrokerConfig(), made(8)),
        (TBW102._replace(read_queue_nums=1), 4, BrokerConfig(), made(4)),
        (TBW102._replace(write_queue_nums=2), 4, BrokerConfig(), made(2)),
        (TBW102, -1, BrokerConfig(), made(0)),
        (TBW102._replace(perm=5), 4, BrokerConfig(), made(4, perm=4)),
        (TBW102._replace(perm=6), 4, BrokerConfig(), None),
        (None, 4, BrokerConfig(), None),
        (TBW102, 4, OFF, None),
        (TBW102._replace(topic="Other"), 4, OFF, made(4)),
    ],
    ids=["wish", "bound", "read nums", "write nums", "negative", "perm", "no inherit", "none", "off", "other default"],
)
def test_a_topic_is_made_after_the_default_topic(
    default_topic: TopicConfig | None, wish: int, config: BrokerConfig, expected: TopicConfig | None
) -> None:
    """The wish bounded by its write queues, its permission without inheriting; switching off concerns TBW102 only."""
    assert create_topic_in_send_message("T", default_topic, wish, 0, config) == expected


def test_a_sent_message_makes_its_topic() -> None:
    """One that exists is left alone, whatever the request says."""
    known = {"TBW102": TBW102, "Old": made(1, name="Old")}
    assert topic_of_send(SendRequest("Old", unit_mode=True), known, BrokerConfig()) == made(1, name="Old")
    assert topic_of_send(SendRequest("T"), known, BrokerConfig()) == made(4)
    assert topic_of_send(SendRequest("T", unit_mode=True), known, BrokerConfig()) == made(4, flag=1)
    assert topic_of_send(SendRequest("T", default_topic="Old"), known, BrokerConfig()) is None
    assert topic_of_send(SendRequest("T"), known, OFF) is None


def test_a_retry_topic_is_made_even_where_no_other_may_be() -> None:
    """With one queue; where topics may be made it is like any other. In unit mode its flag is unit-sub."""
    request = SendRequest("%RETRY%g", unit_mode=True)
    assert topic_of_send(request, {}, OFF) == made(1, flag=2, name="%RETRY%g")
    assert topic_of_send(request, {"TBW102": TBW102}, BrokerConfig()) == made(4, flag=2, name="%RETRY%g")


def test_a_group_has_a_retry_topic_and_a_dead_letter_topic() -> None:
    """The first with the group's number of retry queues, the second with one queue and no flag."""
    assert retry_topic_of("g") == made(1, name="%RETRY%g")
    assert retry_topic_of("g", 3, unit_mode=True) == made(3, flag=2, name="%RETRY%g")
    assert dlq_topic_of("g") == made(1, name="%DLQ%g")
