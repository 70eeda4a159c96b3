"""The broker's side against a real broker: what it creates, and what it then sends to its name servers.

Each test gives a broker of the generation, whose name servers the test plays, many random configurations, topics and
answers, and expects of it what the pure functions say.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from namesrv_core import PROFILES, Profile
from namesrv_core.machine.rows import DataVersion, TopicConfig
from tests.oracle.jvm import Jvm, compiled, jars
from tests.sides.auto_create import create_topic_in_send_message, create_topic_in_send_message_back
from tests.sides.broker import (
    BrokerConfig,
    Consequence,
    VersionAnswer,
    consequence_of,
    must_register,
    registered_topic,
    registration_parts,
)

pytestmark = pytest.mark.jvm

JAVA = Path(__file__).parent / "java"
OWN = DataVersion(0, 1_000, 5)
REGISTER_BROKER, REGISTER_TOPIC_IN_NAMESRV = 103, 217
# What a name server answers to QUERY_DATA_VERSION, under the word that the Java side knows for it.
ANSWERS = {
    "same": VersionAnswer(0, changed=False, data_version=OWN),
    "differs": VersionAnswer(0, changed=True, data_version=OWN._replace(counter=6)),
    "newer": VersionAnswer(0, changed=False, data_version=OWN._replace(counter=6)),
    "state": VersionAnswer(0, changed=False, data_version=OWN._replace(state_version=1)),
    "unknown": VersionAnswer(0, changed=True, data_version=None),
    "bare": VersionAnswer(0, changed=False, data_version=None),
    "unsaid": VersionAnswer(0, changed=None, data_version=OWN),
    "error": VersionAnswer(1, changed=True, data_version=None),
    "silent": None,
}
Ask = Callable[[Sequence[str]], list[str]]


@pytest.fixture(scope="module", params=("4.9.7", "5.4.0"))
def broker(request: pytest.FixtureRequest) -> Profile:
    """Give the generation of the broker."""
    return PROFILES[request.param]


@pytest.fixture(scope="module")
def ask(broker: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Give a real broker that answers lines."""
    libraries = jars(f"org.apache.rocketmq:rocketmq-broker:{broker.name}")
    classes = compiled([JAVA / "common", JAVA / "brokers"], libraries)
    home = tmp_path_factory.mktemp("broker")
    options = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
    with closing(Jvm("Brokers", [classes, *libraries], options=options)) as jvm:
        yield jvm.ask


def random_config(chance: random.Random) -> BrokerConfig:
    return BrokerConfig(
        broker_permission=chance.choice((6, 6, 6, 4, 2, 0)),
        auto_create_topic_enable=chance.random() < 0.8,
        enable_single_topic_register=chance.random() < 0.3,
        enable_split_registration=chance.random() < 0.3,
        split_registration_size=chance.choice((1, 2, 3)),
    )


def random_topics(chance: random.Random) -> dict[str, TopicConfig]:
    names = chance.sample(("A", "B", "C", "TBW102", "TBW102", "Default"), chance.randrange(5))
    return {
        name: TopicConfig(name, chance.randrange(9), chance.randrange(9), chance.randrange(8), chance.randrange(4))
        for name in names
    }


def line_of(config: BrokerConfig, topics: dict[str, TopicConfig], answers: Sequence[str], action: str) -> str:
    properties = {
        "brokerPermission": config.broker_permission,
        "autoCreateTopicEnable": str(config.auto_create_topic_enable).lower(),
        "enableSingleTopicRegister": str(config.enable_single_topic_register).lower(),
        "enableSplitRegistration": str(config.enable_split_registration).lower(),
        "splitRegistrationSize": config.split_registration_size,
    }
    texts = (" ".join(f"{name}={value}" for name, value in properties.items()), " ".join(map(text_of, topics.values())))
    return "\t".join((*texts, " ".join(answers), action))


def text_of(topic: TopicConfig | None) -> str:
    return "none" if topic is None else ",".join(map(str, topic))


def request(code: int, topics: Sequence[TopicConfig], *, one_way: bool = False) -> str:
    return f"{code}{' one-way' if one_way else ''} {' '.join(sorted(map(text_of, topics)))}"


def sent(
    does: Consequence, topic: TopicConfig, topics: dict[str, TopicConfig], config: BrokerConfig, broker: Profile
) -> list[str]:
    """Return the requests in which a broker tells of `topic`, as the Java side writes them."""
    if does.registers == "all":
        parts = registration_parts(topics.values(), config, broker)
        return [request(REGISTER_BROKER, part.topics, one_way=does.one_way) for part in parts]
    code = REGISTER_BROKER if does.registers == "increment" else REGISTER_TOPIC_IN_NAMESRV
    return [request(code, [registered_topic(topic, does.registers, config, broker)], one_way=does.one_way)]


@pytest.mark.slow
def test_topics_made_for_messages_and_how_name_servers_hear_of_them(broker: Profile, ask: Ask) -> None:
    """3,000 messages and messages sent back: the topic made, the version, the registration."""
    chance = random.Random(1)
    lines, expected = [], []
    for _ in range(3_000):
        config, topics = random_config(chance), random_topics(chance)
        name, queue_nums, flag = chance.choice(("A", "New", "%RETRY%g")), chance.randrange(-2, 12), chance.randrange(4)
        if chance.random() < 0.5:
            default_topic = chance.choice(("TBW102", "Default"))
            action = f"send {name} {default_topic} {queue_nums} {flag}"
            made = create_topic_in_send_message(name, topics.get(default_topic), queue_nums, flag, config)
            does = consequence_of("topic_created_by_send", config, broker)
        else:
            action = f"back {name} {queue_nums} {flag}"
            made = create_topic_in_send_message_back(name, queue_nums, flag)
            does = consequence_of("topic_created_by_send_back", config, broker)
        lines.append(line_of(config, topics, ["same"], action))
        if name in topics or made is None:
            expected.append(f"{text_of(topics.get(name))}\t0\t")
        else:
            requests = sent(does, made, {**topics, name: made}, config, broker)
            expected.append("\t".join((text_of(made), str(int(does.bumps_version)), *requests)))

    assert ask(lines) == expected


def test_whether_a_broker_registers_and_with_what(broker: Profile, ask: Ask) -> None:
    """2,000 full registrations, forced or not, with name servers that know this or that version."""
    chance = random.Random(2)
    lines, expected = [], []
    for _ in range(2_000):
        config, topics, forced = random_config(chance), random_topics(chance), chance.random() < 0.2
        answers = chance.choices(sorted(ANSWERS), [9 if word == "same" else 1 for word in sorted(ANSWERS)], k=2)
        lines.append(line_of(config, topics, answers, f"register {str(forced).lower()}"))
        parts = registration_parts(topics.values(), config, broker)
        if not must_register(config, OWN, [ANSWERS[word] for word in answers], broker, forced=forced):
            parts = ()
        expected.append(
            "\t".join(("none", "0", *(request(REGISTER_BROKER, part.topics) for part in parts))) + "\t" * (not parts)
        )

    assert ask(lines) == expected


def test_other_changes(broker: Profile, ask: Ask) -> None:
    """1,000 unit flags, deletions and increments."""
    chance = random.Random(3)
    lines, expected = [], []
    for _ in range(1_000):
        config, topics = random_config(chance), {**random_topics(chance), "A": TopicConfig("A", 4, 4, 6, 0)}
        change = chance.choice(("unit", "delete", "increment"))
        lines.append(line_of(config, topics, ["same"], f"{change} A"))
        if change == "unit":
            does = consequence_of("unit_flag_changed", config, broker)
            topics["A"] = topics["A"]._replace(topic_sys_flag=1)
            requests = sent(does, topics["A"], topics, config, broker)
            expected.append("\t".join((text_of(topics["A"]), "1", *requests)))
        elif change == "delete":
            assert consequence_of("topic_deleted", config, broker) == Consequence(True, "nothing")
            expected.append("none\t1\t")
        else:
            told = registered_topic(topics["A"], "increment", config, broker)
            expected.append(f"none\t0\t{request(REGISTER_BROKER, [told])}")

    assert ask(lines) == expected
