"""Topics that a broker makes by itself: for a message to a topic that it lacks, for retries, for dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from namesrv_core.machine.rows import PERM_READ, PERM_WRITE, TopicConfig
from tests.sides.broker import BrokerConfig

AUTO_CREATE_TOPIC_KEY_TOPIC = "TBW102"
RETRY_GROUP_TOPIC_PREFIX, DLQ_GROUP_TOPIC_PREFIX = "%RETRY%", "%DLQ%"
PERM_INHERIT = 1
FLAG_UNIT, FLAG_UNIT_SUB = 1, 2
DLQ_NUMS_PER_GROUP = 1
_READ_WRITE = PERM_READ | PERM_WRITE


class SendRequest(NamedTuple):
    """What of a sent message decides about the creation of its topic.

    `default_topic_queue_nums` is the producer's wish, 4 by default.
    """

    topic: str
    default_topic: str = AUTO_CREATE_TOPIC_KEY_TOPIC
    default_topic_queue_nums: int = 4
    unit_mode: bool = False


def default_topic_of(config: BrokerConfig) -> TopicConfig | None:
    """Return TBW102 as a broker makes it when it starts; None: topics are not created automatically.

    A broker that had it once keeps it in its file, whatever the setting says later.

    Source: RocketMQ 4.9.7 TopicConfigManager, constructor; 5.4.0 TopicConfigManager.init.
    """
    if not config.auto_create_topic_enable:
        return None
    queue_nums = config.default_topic_queue_nums
    return TopicConfig(AUTO_CREATE_TOPIC_KEY_TOPIC, queue_nums, queue_nums, _READ_WRITE | PERM_INHERIT, 0)


def topic_of_send(request: SendRequest, topics: Mapping[str, TopicConfig], config: BrokerConfig) -> TopicConfig | None:
    """Return the topic that a message goes to, made if it is not among `topics`; None: TOPIC_NOT_EXIST.

    A retry topic is made even where no other may be, with one queue. Unit mode sets a flag: unit, or unit-sub on a
    retry topic.

    Source: RocketMQ 4.9.7 and 5.4.0 AbstractSendMessageProcessor.msgCheck.
    """
    if request.topic in topics:
        return topics[request.topic]
    is_retry = request.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
    flag = (FLAG_UNIT_SUB if is_retry else FLAG_UNIT) if request.unit_mode else 0
    default_topic = topics.get(request.default_topic)
    made = create_topic_in_send_message(request.topic, default_topic, request.default_topic_queue_nums, flag, config)
    if made is None and is_retry:
        made = create_topic_in_send_message_back(request.topic, 1, flag)
    return made


def create_topic_in_send_message(
    topic: str,
    default_topic: TopicConfig | None,
    client_queue_nums: int,
    topic_sys_flag: int,
    config: BrokerConfig,
) -> TopicConfig | None:
    """Return the topic made after a default topic; None: there is none, or its permission is not inherited.

    As many queues as the producer wishes, at most the write queues of the default topic; its permission without the
    inherit bit. Where automatic creation is off, a TBW102 from former times gives nothing; the attempt takes the
    inherit bit from it for good, without a new data version, so name servers may show it long after.

    Source: RocketMQ 4.9.7 and 5.4.0 TopicConfigManager.createTopicInSendMessageMethod.
    """
    if default_topic is None or not default_topic.perm & PERM_INHERIT:
        return None
    if default_topic.topic == AUTO_CREATE_TOPIC_KEY_TOPIC and not config.auto_create_topic_enable:
        return None
    queue_nums = max(0, min(client_queue_nums, default_topic.write_queue_nums))
    return TopicConfig(topic, queue_nums, queue_nums, default_topic.perm & ~PERM_INHERIT, topic_sys_flag)


def create_topic_in_send_message_back(topic: str, queue_nums: int, topic_sys_flag: int) -> TopicConfig:
    """Return the topic made without a default topic, to be read and written; `queue_nums` is not bounded.

    5.4.0 also marks the retry topic of a group that reads an ordered topic as ordered, when the group's consumers send
    their heartbeat; of a topic that exists already the mark alone is changed. It is not part of what name servers keep.

    Source: RocketMQ 4.9.7 and 5.4.0 TopicConfigManager.createTopicInSendMessageBackMethod, with the permission that
    all callers pass.
    """
    return TopicConfig(topic, queue_nums, queue_nums, _READ_WRITE, topic_sys_flag)


def retry_topic_of(group: str, retry_queue_nums: int = 1, *, unit_mode: bool = False) -> TopicConfig:
    """Return the retry topic of a consumer group, made with its consumers' first heartbeat or first message sent back.

    `retry_queue_nums` is the subscription group's retryQueueNums. Without queues messages sent back are dropped.

    Source: RocketMQ 4.9.7 and 5.4.0 ClientManageProcessor.heartBeat; 4.9.7 SendMessageProcessor.asyncConsumerSendMsgBack,
    5.4.0 AbstractSendMessageProcessor.consumerSendMsgBack.
    """
    flag = FLAG_UNIT_SUB if unit_mode else 0
    return create_topic_in_send_message_back(RETRY_GROUP_TOPIC_PREFIX + group, retry_queue_nums, flag)


def dlq_topic_of(group: str) -> TopicConfig:
    """Return the dead-letter topic of a consumer group, made with the first message that is given up.

    Source: RocketMQ 4.9.7 and 5.4.0 SendMessageProcessor.handleRetryAndDLQ; 4.9.7
    SendMessageProcessor.asyncConsumerSendMsgBack, 5.4.0 AbstractSendMessageProcessor.consumerSendMsgBack.
    """
    return create_topic_in_send_message_back(DLQ_GROUP_TOPIC_PREFIX + group, DLQ_NUMS_PER_GROUP, 0)
