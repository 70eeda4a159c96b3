"""The client's side against real clients: the same routes, as a name server writes them, to both.

Each test gives a real client of the generation many random routes, malformed ones among them, and asks for the same
as the pure functions say. Names sort differently by UTF-16 units than by code points on purpose.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from namesrv_core import PROFILES, Namesrv, Profile
from namesrv_core.asking.answers import route_json
from namesrv_core.asking.queries import RouteBroker, TopicRouteData
from namesrv_core.machine.rows import QueueData, TopicQueueMappingInfo
from tests.oracle.client import (
    MessageQueue,
    TopicPublishInfo,
    UnusableRouteError,
    find_broker_address_in_subscribe,
    topic_publish_info,
    topic_subscribe_info,
)
from tests.oracle.jvm import Jvm, compiled, jars

pytestmark = pytest.mark.jvm

JAVA = Path(__file__).parent / "java"
NAMES = ("broker-a", "broker-b", "broker-10", "broker-9", "Broker", "b", "é", "\uff5e", "\U0001f600", "")
IDS = (0, 0, 0, 1, 2, 3, 15, 16, 17, 32)
CONFS = ("broker-a:4", "broker-a:2;broker-b:3", "b:1;b:2", "broker-a:0;", "é:-1;b:+2", ";", ":3", "a:2:junk")
MALFORMED = ("broker-a", "broker-a:", "broker-a:4;;b:2", "b:x", "b: 4", "b:2147483648", ":", "b:1.0", "b:")
SCOPES = ("__global__", "__global__", "__global__", "metadata", None)
Ask = Callable[[Sequence[str]], list[str]]


@pytest.fixture(scope="module", params=("4.9.7", "5.4.0"))
def client(request: pytest.FixtureRequest) -> Profile:
    return PROFILES[request.param]


@pytest.fixture(scope="module")
def ask(client: Profile) -> Iterator[Ask]:
    libraries = jars(f"org.apache.rocketmq:rocketmq-client:{client.name}")
    classes = compiled([JAVA / "common", JAVA / "clients"], libraries)
    with closing(Jvm("Clients", [classes, *libraries])) as jvm:
        yield jvm.ask


def random_route(chance: random.Random) -> TopicRouteData:
    """Return a route such as name servers could answer, and stranger ones."""
    names = chance.sample(NAMES, chance.choice((1, 1, 2, 3, 4)))
    queue_datas = tuple(
        (name, QueueData(chance.choice((-1, 0, 1, 2, 4)), chance.choice((-1, 0, 1, 2, 4)), chance.randrange(8), 0))
        for name in names
    )
    groups = [name for name in names if chance.random() < 0.9] + chance.sample(NAMES, chance.choice((0, 0, 0, 1)))
    brokers = tuple(random_group(name, chance) for name in groups)
    conf = chance.choice((None, None, None, None, "", chance.choice(CONFS), chance.choice(CONFS + MALFORMED)))
    filters = tuple((f"10.0.0.{n}:10911", chance.choice((None, (), ("f",)))) for n in range(chance.choice((0, 0, 2))))
    mappings = None
    if chance.random() < 0.4:
        mappings = tuple((name, random_mapping(name, chance)) for name in chance.sample(NAMES, chance.randrange(4)))
    return TopicRouteData(queue_datas, brokers, filters, conf, mappings)


def random_group(name: str, chance: random.Random) -> RouteBroker:
    ids = {chance.choice(IDS) for _ in range(chance.randrange(4))}
    addrs = tuple((member, f"10.0.0.{chance.randrange(3)}:10911") for member in ids)
    zone = chance.choice((None, "z"))
    return RouteBroker(name, chance.choice(("C", "D")), addrs, chance.random() < 0.2, zone)


def random_mapping(name: str, chance: random.Random) -> TopicQueueMappingInfo:
    queue_ids = chance.sample(range(8), chance.randrange(5))
    return TopicQueueMappingInfo(
        "T",
        name if chance.random() < 0.98 else None,
        chance.randrange(7),
        chance.choice((1, 1, 2, 1_700_000_000_000)),
        chance.random() < 0.1,
        chance.choice(SCOPES),
        chance.choice((json.dumps({str(queue_id): 0 for queue_id in queue_ids}), None)),
    )


def text_of(route: TopicRouteData) -> str:
    """Return the route as a 5.4.0 name server writes it: a 4.9.7 one leaves out what only 5.x clients look at.

    What is not ASCII is escaped: where the text holds it as it is, as name servers write it, the JSON reader of a 5.4.0
    client fails at some maps and misreads others. This is about what a client makes of a route that it could read.
    """
    text = route_json(route, Namesrv(PROFILES["5.4.0"]), standard=True)
    return re.sub("[^ -~]", lambda found: json.dumps(found[0])[1:-1], text)


def texts(queues: Sequence[MessageQueue]) -> str:
    return "\t".join(f"{queue.broker_name}\t{queue.queue_id}" for queue in queues)


def published_text(info: TopicPublishInfo) -> str:
    return f"{str(info.order_topic).lower()}\t{texts(info.message_queues)}"


def published(topic: str, route: TopicRouteData, client: Profile) -> str:
    """Return what the pure function says, as the Java side writes it."""
    try:
        return published_text(topic_publish_info(topic, route, client))
    except UnusableRouteError:
        return "!"


def subscribed(topic: str, route: TopicRouteData, client: Profile) -> str:
    try:
        return texts(topic_subscribe_info(topic, route, client))
    except UnusableRouteError:
        return "!"


def without_exception_names(answers: list[str]) -> list[str]:
    return ["!" if answer.startswith("!") else answer for answer in answers]


@pytest.mark.slow
def test_publish_and_subscribe_information(client: Profile, ask: Ask) -> None:
    """20,000 random routes make the same queues in the same order, or make both sides fail."""
    chance = random.Random(1)
    routes = [random_route(chance) for _ in range(20_000)]
    lines = [f"T\t{text_of(route)}" for route in routes]

    assert without_exception_names(ask([f"publish\t{line}" for line in lines])) == [
        published("T", route, client) for route in routes
    ]
    assert without_exception_names(ask([f"subscribe\t{line}" for line in lines])) == [
        subscribed("T", route, client) for route in routes
    ]


def test_where_a_consumer_reads(ask: Ask) -> None:
    """5,000 groups, ids beyond the first buckets among them."""
    chance = random.Random(5)
    lines, expected = [], []
    for _ in range(5_000):
        ids = chance.sample((0, 1, 2, 3, 15, 16, 17, 32, 33, 1 << 33), chance.randrange(5))
        wanted, only = chance.choice((0, 0, 1, 2, 14, 16)), chance.random() < 0.3
        lines.append(f"find\t{' '.join(map(str, ids))}\t{wanted}\t{str(only).lower()}")
        found = find_broker_address_in_subscribe([(i, f"addr-{i}") for i in ids], wanted, only_this_broker=only)
        expected.append("none" if found is None else f"{found.broker_addr} {str(found.slave).lower()}")

    assert ask(lines) == expected
