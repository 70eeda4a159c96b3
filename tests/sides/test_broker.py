"""When a broker registers, with what, and which change makes it do so."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicQueueMappingInfo, TopicTable
from tests.sides.broker import (
    BrokerChange,
    BrokerConfig,
    Consequence,
    Heartbeat,
    Registers,
    RegistrationPart,
    VersionAnswer,
    consequence_of,
    decompressed,
    light_heartbeat,
    must_register,
    need_register,
    next_version,
    registered_topic,
    registration_delay_ms,
    registration_parts,
)

OWN = DataVersion(0, 1_000, 5)
SAME = VersionAnswer(0, changed=False, data_version=OWN)
OTHER = VersionAnswer(0, changed=True, data_version=DataVersion(0, 1_000, 4))
BOTH = pytest.mark.parametrize("broker", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)


def topic(name: str = "T", perm: int = 6, flag: int = 0) -> TopicConfig:
    return TopicConfig(name, 4, 4, perm, flag)


@pytest.mark.parametrize(
    ("period_ms", "expected"),
    [(30_000, [0, 10_000, 40_000, 70_000]), (1, [0, 10_000, 20_000, 30_000]), (90_000, [0, 10_000, 70_000, 130_000])],
    ids=["default", "too short", "too long"],
)
def test_registrations_come_every_period_within_bounds(period_ms: int, expected: list[int]) -> None:
    """At the start, after ten seconds, then every period of 10 to 60 seconds."""
    config = BrokerConfig(register_name_server_period_ms=period_ms)
    assert [registration_delay_ms(number, config) for number in range(4)] == expected


@BOTH
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((), False),
        ((SAME, SAME), False),
        ((SAME, OTHER), True),
        ((SAME, None), True),
        ((VersionAnswer(0, changed=True, data_version=None),), True),
        ((VersionAnswer(0, changed=None, data_version=OWN),), True),
        ((VersionAnswer(0, changed=False, data_version=None),), False),
        ((VersionAnswer(0, changed=False, data_version=DataVersion(0, 1_000, 6)),), True),
        ((VersionAnswer(1, changed=True, data_version=None),), False),
    ],
    ids=["none", "same", "one differs", "no answer", "unknown", "unsaid", "no body", "body differs", "error"],
)
def test_one_name_server_that_differs_is_enough(
    broker: Profile, answers: tuple[VersionAnswer | None, ...], *, expected: bool
) -> None:
    """The header's word counts, and the body's version against it; an error says nothing."""
    assert need_register(OWN, answers, broker) is expected


def test_a_state_version_differs_for_5x_only() -> None:
    """4.x brokers do not know the field."""
    answer = VersionAnswer(0, changed=False, data_version=OWN._replace(state_version=1))
    assert need_register(OWN, [answer], V5_4_0)
    assert not need_register(OWN, [answer], V4_9_7)


def test_what_registers_without_asking() -> None:
    """A forced registration, and in 5.x a split one."""
    split = BrokerConfig(enable_split_registration=True)
    assert not must_register(BrokerConfig(), OWN, [SAME], V5_4_0)
    assert must_register(BrokerConfig(), OWN, [SAME], V5_4_0, forced=True)
    assert must_register(split, OWN, [SAME], V5_4_0)
    assert not must_register(split, OWN, [SAME], V4_9_7)
    assert must_register(BrokerConfig(), OWN, [OTHER], V4_9_7)


def test_a_change_moves_the_version_on() -> None:
    """Counter by one, timestamp the time of the change, state version that of the store (5.x)."""
    assert next_version(OWN, 2_000, V4_9_7, state_machine_version=7) == DataVersion(0, 2_000, 6)
    assert next_version(OWN, 2_000, V5_4_0, state_machine_version=7) == DataVersion(7, 2_000, 6)


ASKS, SINGLE = BrokerConfig(force_register=False), BrokerConfig(enable_single_topic_register=True)


@pytest.mark.parametrize(
    ("change", "config", "four", "five"),
    [
        ("started", ASKS, Consequence(False, "all"), Consequence(False, "all")),
        ("period_elapsed", ASKS, Consequence(False, "all", forced=False), Consequence(False, "all", forced=False)),
        ("topic_created_by_send", ASKS, Consequence(True, "all", one_way=True), Consequence(True, "increment")),
        ("topic_created_by_send_back", SINGLE, Consequence(True, "all", True), Consequence(True, "single_topic")),
        ("unit_flag_changed", ASKS, Consequence(True, "all", one_way=True), Consequence(True, "increment")),
        ("topic_updated", SINGLE, Consequence(True, "increment"), Consequence(True, "single_topic")),
        ("topic_deleted", ASKS, Consequence(True, "nothing"), Consequence(True, "nothing")),
        ("order_conf_received", ASKS, Consequence(True, "nothing"), Consequence(True, "nothing")),
        ("broker_permission_updated", ASKS, Consequence(True, "all"), Consequence(True, "all")),
        ("role_changed_by_dledger", ASKS, Consequence(False, "all", True), Consequence(False, "all", True, False)),
    ],
)
def test_what_a_change_leads_to(
    change: BrokerChange, config: BrokerConfig, four: Consequence, five: Consequence
) -> None:
    """Version bump, what is registered, one-way or not, asked before or not."""
    assert (consequence_of(change, config, V4_9_7), consequence_of(change, config, V5_4_0)) == (four, five)


def test_a_controller_moves_the_version_on_with_the_role() -> None:
    """5.x only: so that name servers take the new master's topics."""
    expected = Consequence(bumps_version=True, registers="all", forced=True)
    assert consequence_of("role_changed_by_controller", BrokerConfig(), V5_4_0) == expected


@BOTH
def test_a_broker_open_to_all_registers_topics_as_they_are(broker: Profile) -> None:
    """Permission and system flag stay."""
    assert registered_topic(topic(perm=7, flag=3), "all", BrokerConfig(), broker) == topic(perm=7, flag=3)


@pytest.mark.parametrize(
    ("registers", "broker", "perm", "flag"),
    [
        ("all", V4_9_7, 4, 0),
        ("increment", V4_9_7, 4, 0),
        ("all", V5_4_0, 0, 0),
        ("increment", V5_4_0, 0, 3),
        ("single_topic", V5_4_0, 0, 3),
    ],
)
def test_a_read_only_broker_overrides_permissions(registers: Registers, broker: Profile, perm: int, flag: int) -> None:
    """A write-only topic becomes readable in 4.x, and nothing at all in 5.x; the copy may lose its system flag."""
    config = BrokerConfig(broker_permission=4)
    assert registered_topic(topic(perm=2, flag=3), registers, config, broker) == topic(perm=perm, flag=flag)


def test_a_registration_is_one_request_unless_it_is_split() -> None:
    """4.x has no mappings and cannot split."""
    topics = [topic("B"), topic("A")]
    split = BrokerConfig(enable_split_registration=True, split_registration_size=1)
    in_map_order = (topic("A"), topic("B"))
    assert registration_parts(topics, split, V4_9_7) == (RegistrationPart(in_map_order, with_mappings=False),)
    assert registration_parts(topics, BrokerConfig(), V5_4_0) == (RegistrationPart(in_map_order, with_mappings=True),)


@pytest.mark.parametrize(
    ("count", "size", "expected"), [(5, 2, [2, 2, 1]), (4, 2, [2, 2, 0]), (0, 2, [0]), (2, 0, [1, 1, 0])]
)
def test_a_split_registration_ends_with_the_rest_and_the_mappings(count: int, size: int, expected: list[int]) -> None:
    """The last part is sent even if it is empty."""
    config = BrokerConfig(enable_split_registration=True, split_registration_size=size)
    parts = registration_parts([topic(f"T{number}") for number in range(count)], config, V5_4_0)
    assert [len(part.topics) for part in parts] == expected
    assert [part.with_mappings for part in parts] == [*[False] * (len(expected) - 1), True]
    assert [name.topic for part in parts for name in part.topics] == [f"T{number}" for number in range(count)]


def test_a_compressed_body_lacks_the_system_flag() -> None:
    """All else of a topic is there, and the mappings."""
    info = TopicQueueMappingInfo("T", "broker-a", 1, 1)
    sent = TopicTable([topic(flag=3), topic("U", perm=4, flag=1)], [info])
    assert decompressed(sent) == TopicTable([topic(), topic("U", perm=4)], [info])


def test_light_heartbeats_are_sent_for_acting_masters_only() -> None:
    """As a query of the data version until all name servers are known to be new; never by 4.x."""
    acting = BrokerConfig(enable_slave_acting_master=True)
    new = BrokerConfig(
        enable_slave_acting_master=True, compatible_with_old_name_srv=False, broker_heartbeat_interval_ms=500
    )
    assert light_heartbeat(BrokerConfig(), V5_4_0) is None
    assert light_heartbeat(acting, V4_9_7) is None
    assert light_heartbeat(acting, V5_4_0) == Heartbeat(322, 1_000, delay_ms=1_000)
    assert light_heartbeat(new, V5_4_0) == Heartbeat(904, 500)
