"""The broker's side: when a broker registers with its name servers, with what, and which change makes it do so.

Nothing here changes a registry. The functions say what traffic to expect of a broker with a given configuration, so
that recorded traffic can be held against it. `broker` is the broker's generation, which need not be the server's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from namesrv_core.machine.codes import ResponseCode
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.rows import PERM_READ, PERM_WRITE, DataVersion, TopicConfig, TopicTable

QUERY_DATA_VERSION, BROKER_HEARTBEAT = 322, 904
_TOPIC_TABLE_CAPACITY = 2_048
_FIRST_PERIODIC_MS, _MIN_PERIOD_MS, _MAX_PERIOD_MS = 10_000, 10_000, 60_000

BrokerChange = Literal[
    "started",
    "period_elapsed",
    "topic_created_by_send",
    "topic_created_by_send_back",
    "unit_flag_changed",
    "topic_updated",
    "topic_deleted",
    "order_conf_received",
    "broker_permission_updated",
    "role_changed_by_dledger",
    "role_changed_by_controller",
]
Registers = Literal["all", "increment", "single_topic", "nothing"]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The configuration of a broker as far as its name servers notice; defaults are RocketMQ's, in both generations.

    The last six exist in 5.x only.

    Source: RocketMQ 4.9.7 and 5.4.0 BrokerConfig.
    """

    broker_permission: int = PERM_READ | PERM_WRITE
    register_name_server_period_ms: int = 30_000
    force_register: bool = True
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    enable_single_topic_register: bool = False
    enable_split_registration: bool = False
    split_registration_size: int = 800
    enable_slave_acting_master: bool = False
    broker_heartbeat_interval_ms: int = 1_000
    compatible_with_old_name_srv: bool = True


class VersionAnswer(NamedTuple):
    """A name server's answer to QUERY_DATA_VERSION: response code, `changed` of the header, version in the body."""

    code: int
    changed: bool | None
    data_version: DataVersion | None


class Consequence(NamedTuple):
    """What a broker does about a change: whether its data version moves on, what it registers, and how.

    `forced`: registered without asking the name servers for their version first.
    """

    bumps_version: bool
    registers: Registers
    one_way: bool = False
    forced: bool = True


class RegistrationPart(NamedTuple):
    """One REGISTER_BROKER of a full registration; `with_mappings`: it carries the static topics' mappings (5.x)."""

    topics: tuple[TopicConfig, ...]
    with_mappings: bool


class Heartbeat(NamedTuple):
    """The light heartbeat of a broker: a one-way request every `interval_ms`, the first `delay_ms` after the start."""

    code: int
    interval_ms: int
    delay_ms: int = 1_000


def registration_delay_ms(number: int, config: BrokerConfig) -> int:
    """Return when a broker makes its registration `number` (from 0), in ms after its start.

    0 at the start, 1 ten seconds later, then one every period, which lies between 10 and 60 s whatever is configured.
    The start's own is left out by a broker under DLedger, and in 5.x by one that waits for its group (acting masters
    with several replicas, duplication).

    Source: RocketMQ 4.9.7 and 5.4.0 BrokerController.start.
    """
    if number == 0:
        return 0
    period_ms = max(_MIN_PERIOD_MS, min(config.register_name_server_period_ms, _MAX_PERIOD_MS))
    return _FIRST_PERIODIC_MS + (number - 1) * period_ms


def must_register(
    config: BrokerConfig,
    own: DataVersion,
    answers: Iterable[VersionAnswer | None],
    broker: Profile,
    *,
    forced: bool = False,
) -> bool:
    """Return whether a full registration is sent, to all name servers, not only to those that differ.

    `answers` has one entry for each name server, None for one that gave none; they are asked only if nothing else
    decides.

    Source: RocketMQ 4.9.7 and 5.4.0 BrokerController.registerBrokerAll; `forced` is forceRegister there, and the
    periodic run passes BrokerConfig.forceRegister.
    """
    splits = has_split_registration(config, broker)
    return forced or splits or need_register(own, answers, broker)


def need_register(own: DataVersion, answers: Iterable[VersionAnswer | None], broker: Profile) -> bool:
    """Return whether any name server has another version than `own`, or none that can be had.

    None (no answer, no connection) counts as different, an answer with an error code does not. A name server that does
    not know the broker says `changed` and sends no version. Without name servers there is nothing to register.

    Source: RocketMQ 4.9.7 and 5.4.0 BrokerController.needRegister, BrokerOuterAPI.needRegister.
    """
    return any(
        answer is None or (answer.code == ResponseCode.SUCCESS and _differs(own, answer, broker)) for answer in answers
    )


def same_version(one: DataVersion, other: DataVersion, broker: Profile) -> bool:
    """Return whether two versions are equal to a generation: 4.x knows no state version.

    Source: RocketMQ 4.9.7 and 5.4.0 DataVersion.equals.
    """
    return one == other if broker.has_state_version else one[1:] == other[1:]


def next_version(version: DataVersion, at_ms: int, broker: Profile, state_machine_version: int = 0) -> DataVersion:
    """Return the version after a change at `at_ms` (epoch ms); the state version is the store's and may stay or jump.

    Source: RocketMQ 4.9.7 DataVersion.nextVersion; 5.4.0 TopicConfigManager.updateDataVersion.
    """
    state_version = state_machine_version if broker.has_state_version else 0
    return DataVersion(state_version, at_ms, (version.counter or 0) + 1)


def consequence_of(change: BrokerChange, config: BrokerConfig, broker: Profile) -> Consequence:
    """Return what a broker does about `change`.

    A topic that a message creates is told one-way in 4.x, with all other topics, and alone but acknowledged in 5.x. A
    deleted topic and a new order conf only move the version on: the next periodic registration tells, and since a name
    server as configured by default takes no topic away because of it, whoever deletes a topic must tell the name servers
    too. A controller (5.x) makes its master epoch the state version.

    Source: RocketMQ 4.9.7 and 5.4.0 TopicConfigManager, AdminBrokerProcessor.updateAndCreateTopic,
    .updateBrokerConfig, BrokerController.start; 4.9.7 BrokerController.changeToSlave, .changeToMaster; 5.4.0
    TopicConfigManager.registerBrokerData, DLedgerRoleChangeHandler, ReplicasManager.
    """
    five = broker.has_topic_registration
    one: Registers = "single_topic" if five and config.enable_single_topic_register else "increment"
    created = (
        Consequence(bumps_version=True, registers=one)
        if five
        else Consequence(bumps_version=True, registers="all", one_way=True)
    )
    unasked = config.force_register
    consequences: dict[BrokerChange, Consequence] = {
        "started": Consequence(bumps_version=False, registers="all"),
        "period_elapsed": Consequence(bumps_version=False, registers="all", forced=unasked),
        "topic_created_by_send": created,
        "topic_created_by_send_back": created,
        "unit_flag_changed": created,
        "topic_updated": Consequence(bumps_version=True, registers=one),
        "topic_deleted": Consequence(bumps_version=True, registers="nothing"),
        "order_conf_received": Consequence(bumps_version=True, registers="nothing"),
        "broker_permission_updated": Consequence(bumps_version=True, registers="all"),
        "role_changed_by_dledger": Consequence(
            bumps_version=False, registers="all", one_way=True, forced=unasked or not five
        ),
        "role_changed_by_controller": Consequence(bumps_version=True, registers="all", forced=unasked),
    }
    return consequences[change]


def registered_topic(topic: TopicConfig, registers: Registers, config: BrokerConfig, broker: Profile) -> TopicConfig:
    """Return `topic` as the broker registers it: a broker that may not be both read and written overrides permissions.

    4.x puts the broker's permission in place of the topic's, 5.x takes what both allow. The copy that is made for this
    has no system flag, unless 5.x registers the topic alone.

    Source: RocketMQ 4.9.7 and 5.4.0 BrokerController.registerBrokerAll, .registerIncrementBrokerData; 5.4.0
    BrokerController.registerSingleTopicAll.
    """
    both = PERM_READ | PERM_WRITE
    if config.broker_permission & both == both:
        return topic
    if not broker.has_topic_registration:
        return topic._replace(perm=config.broker_permission, topic_sys_flag=0)
    allowed = topic._replace(perm=topic.perm & config.broker_permission)
    return allowed._replace(topic_sys_flag=0) if registers == "all" else allowed


def registration_parts(
    topics: Iterable[TopicConfig], config: BrokerConfig, broker: Profile
) -> tuple[RegistrationPart, ...]:
    """Return the requests that make up one full registration of `topics`, in the order of the broker's map.

    One, unless 5.x splits: then one for every `split_registration_size` topics and a last one with the rest, maybe none
    at all. All carry the same data version; only the last has the mappings. Split registrations are sent without asking
    for versions, whatever forceRegister says.

    Source: RocketMQ 4.9.7 and 5.4.0 BrokerController.registerBrokerAll.
    """
    table: JavaMap[str | None, TopicConfig] = string_map(_TOPIC_TABLE_CAPACITY, concurrent=True)
    for topic in topics:
        table.put(topic.topic, registered_topic(topic, "all", config, broker))
    registered = tuple(topic for _, topic in table.java_items())
    if not has_split_registration(config, broker):
        return (RegistrationPart(registered, with_mappings=broker.stores_topic_queue_mapping),)
    size = max(1, config.split_registration_size)
    full = len(registered) // size * size
    parts = [RegistrationPart(registered[i : i + size], with_mappings=False) for i in range(0, full, size)]
    return (*parts, RegistrationPart(registered[full:], with_mappings=True))


def has_split_registration(config: BrokerConfig, broker: Profile) -> bool:
    """Return whether the broker splits its registrations; 4.x cannot."""
    return broker.has_topic_registration and config.enable_split_registration


def decompressed(topics: TopicTable) -> TopicTable:
    """Return what a name server reads of `topics` if the body was compressed: a line of text holds each topic.

    Name, queue numbers, permission and filter type are in it (5.x: attributes too), system flag and order are not. A
    name with a blank breaks the line. A 5.4.0 broker compresses as configured but says in the header that it did not,
    so that a name server cannot read it.

    Source: RocketMQ 4.9.7 and 5.4.0 RegisterBrokerBody.encode, TopicConfig.encode; 5.4.0
    BrokerOuterAPI.registerBrokerAll.
    """
    configs = (TopicConfig(name, *data._replace(topic_sys_flag=0)) for name, data in topics.queue_datas.items())
    return TopicTable(configs, topics.mappings)


def light_heartbeat(config: BrokerConfig, broker: Profile) -> Heartbeat | None:
    """Return the light heartbeat of a broker; None: it keeps its lease by registering.

    Only 5.x with acting masters has one. Until told that all name servers are new it sends QUERY_DATA_VERSION one-way,
    which an old name server takes for a heartbeat if the version is the one it has.

    Source: RocketMQ 5.4.0 BrokerController.scheduleSendHeartbeat, .sendHeartbeat.
    """
    if not broker.has_topic_registration or not config.enable_slave_acting_master:
        return None
    code = QUERY_DATA_VERSION if config.compatible_with_old_name_srv else BROKER_HEARTBEAT
    return Heartbeat(code, config.broker_heartbeat_interval_ms)


def _differs(own: DataVersion, answer: VersionAnswer, broker: Profile) -> bool:
    if answer.changed is not False:
        return True
    return answer.data_version is not None and not same_version(own, answer.data_version, broker)
