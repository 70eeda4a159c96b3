"""The client's side: what producers and consumers make of a route that a name server answered.

Nothing here changes a registry. The functions say which queues a producer would have sent to and a consumer would have
read from, given a recorded or replayed route. A client has a generation of its own, which need not be the server's:
`client` says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from namesrv_core.asking.queries import TopicRouteData
from namesrv_core.machine.java_map import JavaMap, string_hash, string_map
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.rows import MASTER_ID, PERM_READ, PERM_WRITE, BrokerData, QueueData, TopicQueueMappingInfo

METADATA_SCOPE_GLOBAL = "__global__"
LOGICAL_QUEUE_MOCK_BROKER_PREFIX = "__syslo__"
LOGICAL_QUEUE_MOCK_BROKER_NAME_NOT_EXIST = "__syslo__none__"
_DEFAULT_CAPACITY = 16
_JAVA_INT = re.compile(r"[+-]?[0-9]+")
_INT_MASK = 0xFFFFFFFF


class UnusableRouteError(ValueError):
    """A route at which a client throws: it goes on with what it had, and whoever waits for the route fails."""


class MessageQueue(NamedTuple):
    """One queue as clients name it. `broker_name` of a static topic is not a broker's but its scope's."""

    topic: str
    broker_name: str
    queue_id: int


class TopicPublishInfo(NamedTuple):
    """The queues that a producer takes in turn, in its order; `order_topic`: they come from an order conf."""

    order_topic: bool
    message_queues: tuple[MessageQueue, ...]


class FindBrokerResult(NamedTuple):
    """An address to read from, and whether a slave has it."""

    broker_addr: str
    slave: bool


def topic_publish_info(topic: str, route: TopicRouteData, client: Profile) -> TopicPublishInfo:
    """Return the queues that a producer of `topic` sends to.

    With an order conf (`name:queues;name:queues`) these are its queues, whether they exist or not. Else, for a static
    topic (5.x), its logical queues by number. Else the write queues of every broker name whose permission has the write
    bit and whose group has a master, by broker name. Raises UnusableRouteError.

    Source: RocketMQ 4.9.7 and 5.4.0 MQClientInstance.topicRouteData2TopicPublishInfo.
    """
    if route.order_topic_conf:
        return TopicPublishInfo(order_topic=True, message_queues=_ordered_queues(topic, route.order_topic_conf))
    if route.order_topic_conf is None and _is_static(route, client):
        queues = sorted(static_topic_endpoints(topic, route).java_keys(), key=lambda queue: queue.queue_id)
        return TopicPublishInfo(order_topic=False, message_queues=tuple(queues))
    with_master = {
        broker.broker_name: any(broker_id == MASTER_ID and addr is not None for broker_id, addr in broker.broker_addrs)
        for broker in reversed(route.broker_datas)  # of two with one name the first counts
    }
    queues = [
        MessageQueue(topic, name, queue_id)
        for name, data in sorted(_named(route.queue_datas), key=lambda entry: _java_order(entry[0]))
        if data.perm & PERM_WRITE and with_master.get(name)
        for queue_id in range(data.write_queue_nums)
    ]
    return TopicPublishInfo(order_topic=False, message_queues=tuple(queues))


def topic_subscribe_info(topic: str, route: TopicRouteData, client: Profile) -> tuple[MessageQueue, ...]:
    """Return the queues that consumers of `topic` divide among themselves, sorted as they sort them before they do.

    The read queues of every broker name whose permission has the read bit, with or without master, whatever the order
    conf says; for a static topic (5.x) its logical queues. Raises UnusableRouteError.

    Source: RocketMQ 4.9.7 and 5.4.0 MQClientInstance.topicRouteData2TopicSubscribeInfo; RebalanceImpl.rebalanceByTopic
    sorts.
    """
    if _is_static(route, client):
        queues = set(static_topic_endpoints(topic, route))
    else:
        queues = {
            MessageQueue(topic, name, queue_id)
            for name, data in _named(route.queue_datas)
            if data.perm & PERM_READ
            for queue_id in range(data.read_queue_nums)
        }
    return tuple(sorted(queues, key=lambda queue: (_java_order(queue.broker_name), queue.queue_id)))


def static_topic_endpoints(topic: str, route: TopicRouteData) -> JavaMap[MessageQueue, str]:
    """Return logical queue -> broker name that holds it now, for the static topic of a route.

    In each scope the queues 0 to the largest `total_queues`; of several brokers that claim one, the mapping with the
    highest epoch counts. A queue that nobody claims has the broker name `__syslo__none__`.

    Source: RocketMQ 5.4.0 ClientMetadata.topicRouteData2EndpointsForStaticTopic.
    """
    scopes: JavaMap[str, JavaMap[str | None, TopicQueueMappingInfo]] = JavaMap(
        _DEFAULT_CAPACITY, string_hash, concurrent=False
    )
    decoded: JavaMap[str | None, TopicQueueMappingInfo] = string_map()
    for name, info in route.topic_queue_mapping_by_broker or ():
        decoded.put(name, info)
    for name, info in decoded.java_items():
        scope = _scope(info)
        if scope not in scopes:
            scopes.put(scope, string_map())
        scopes[scope].put(name, info)
    endpoints: JavaMap[MessageQueue, str] = JavaMap(_DEFAULT_CAPACITY, _message_queue_hash, concurrent=True)
    for scope, infos in scopes.java_items():
        holders: dict[int, TopicQueueMappingInfo] = {}
        for _, info in infos.java_items():
            for queue_id in info.queue_ids:
                if queue_id not in holders or holders[queue_id].epoch <= info.epoch:
                    holders[queue_id] = info
        # An epoch below -1 does not happen: it is a time.
        total = max((info.total_queues for info in infos.values()), default=0)
        for queue_id in range(total):
            holder = holders[queue_id].bname if queue_id in holders else LOGICAL_QUEUE_MOCK_BROKER_NAME_NOT_EXIST
            if holder is None:
                raise UnusableRouteError(f"queue {queue_id} of static topic {topic}: its mapping names no broker")
            endpoints.put(MessageQueue(topic, _mock_broker_name(scope), queue_id), holder)
    return endpoints


def find_broker_address_in_subscribe(
    broker_addrs: Iterable[tuple[int, str | None]], broker_id: int, *, only_this_broker: bool
) -> FindBrokerResult | None:
    """Return where a consumer reads from if it wants `broker_id` of a group: 0, unless the master suggested another.

    If that id is not there: for a slave's id the next one; else, unless only that broker will do, the first of the
    group in Java's order, which is ascending for ids 0 to 15.

    Source: RocketMQ 4.9.7 and 5.4.0 MQClientInstance.findBrokerAddressInSubscribe.
    """
    # An answer leaves out an id whose address is null.
    addrs = {
        member_id: addr for member_id, addr in BrokerData(None, tuple(broker_addrs)).java_addrs() if addr is not None
    }
    wanted = [broker_id] if broker_id == MASTER_ID else [broker_id, broker_id + 1]
    found = next((member_id for member_id in wanted if member_id in addrs), None)
    if found is not None:
        return FindBrokerResult(addrs[found], slave=broker_id != MASTER_ID)
    if only_this_broker or not addrs:
        return None
    first = next(iter(addrs))
    return FindBrokerResult(addrs[first], slave=first != MASTER_ID)


def _ordered_queues(topic: str, order_topic_conf: str) -> tuple[MessageQueue, ...]:
    queues = []
    for entry in _java_split(order_topic_conf, ";"):
        name, number = [*_java_split(entry, ":"), "", ""][:2]
        if not _JAVA_INT.fullmatch(number) or not -(1 << 31) <= int(number) < 1 << 31:
            raise UnusableRouteError(f"order conf {order_topic_conf!r} of {topic}, {entry!r}: expected name:queues")
        queues += [MessageQueue(topic, name, queue_id) for queue_id in range(int(number))]
    return tuple(queues)


def _java_split(text: str, separator: str) -> list[str]:
    """Split as Java's String.split does: without the empty parts at the end."""
    parts = text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _named(queue_datas: tuple[tuple[str | None, QueueData], ...]) -> list[tuple[str, QueueData]]:
    named = [(name, data) for name, data in queue_datas if name is not None]
    if len(named) < len(queue_datas):
        raise UnusableRouteError("queue data without broker name")
    return named


def _java_order(text: str) -> bytes:
    """Return a key that sorts as String.compareTo does: by UTF-16 units."""
    return text.encode("utf-16-be", errors="surrogatepass")


def _is_static(route: TopicRouteData, client: Profile) -> bool:
    return client.stores_topic_queue_mapping and bool(route.topic_queue_mapping_by_broker)


def _scope(info: TopicQueueMappingInfo) -> str:
    return METADATA_SCOPE_GLOBAL if info.scope is None else info.scope


def _mock_broker_name(scope: str) -> str:
    suffix = scope[2:] if scope == METADATA_SCOPE_GLOBAL else scope
    return LOGICAL_QUEUE_MOCK_BROKER_PREFIX + suffix


def _message_queue_hash(queue: MessageQueue) -> int:
    """Return Java's hash of a MessageQueue as an unsigned 32-bit number."""
    value = 31 + string_hash(queue.broker_name)
    value = 31 * value + queue.queue_id
    return (31 * value + string_hash(queue.topic)) & _INT_MASK
