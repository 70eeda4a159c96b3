"""Profiles of the name server's releases, with a named switch for each difference; the server's configuration.

Sources: RocketMQ 4.3.0 to 4.9.8 and 5.0.0 to 5.5.0, every release; classes RouteInfoManager, DefaultRequestProcessor,
ClientRequestProcessor, BatchUnregistrationService, KVConfigManager, NamesrvConfig, NamesrvController,
NettyServerConfig, and the bodies and headers of requests. docs/versions.md has the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

BROKER_CHANNEL_EXPIRED_MS = 120_000
CHANNEL_MAX_IDLE_MS = 120_000
SCAN_DELAY_MS = 5_000


MORE_WORDS, NO_MAPPINGS, NO_UTF8 = "more_words", "no_mappings", "no_utf8"
"""Forms of a registration that some releases cannot read. Of a compressed one: topics with more than five words (attributes),
written by brokers since 5.0; no count of mappings at the end, as written by brokers before 5.0. Of one as before 3.0.11: bytes
that are no text, which 5.0 to 5.3 read as null."""


@dataclass(frozen=True, slots=True)
class Capacities:
    """Numbers of buckets of the outer maps right after start."""

    topic: int
    broker: int
    cluster: int
    live: int


@dataclass(frozen=True, slots=True)
class Profile:
    """Behaviour of a release, or of consecutive equal ones; `name`: the first of them. The defaults are 5.4.0's."""

    name: str = "5.4.0"
    capacities: Capacities = Capacities(topic=2048, broker=256, cluster=64, live=512)
    scan_period_ms: int = 5_000
    unreadable: tuple[str, ...] = (NO_UTF8,)  # forms of registrations: `MORE_WORDS`, `NO_MAPPINGS`, `NO_UTF8`
    computes_clusters: bool = False  # a cluster enters its table by HashMap.computeIfAbsent
    concurrent_maps: bool = True  # ConcurrentHashMap, not HashMap: other growth and order, iterating never throws
    live_key_has_cluster: bool = True  # live and filter tables are keyed by (cluster, address), not by the address
    has_state_version: bool = True  # a data version has a stateVersion, compared with the rest
    rejects_older_state_version: bool = True  # a newcomer on a held id with an older stateVersion is rejected
    refuses_lone_topic: bool = True  # a first registration with exactly one topic is refused
    takes_prime_slave_topics: bool = True  # topics also come from the slave with the smallest id
    repairs_missing_topics: bool = True  # an unchanged registration still brings back topics that are not in the table
    own_heartbeat_timeout: bool = True  # the lease is the broker's own heartbeatTimeoutMillis, else 120 s
    query_always_refreshes: bool = True  # QUERY_DATA_VERSION renews the lease even when the version differs
    throws_without_version: bool = False  # QUERY_DATA_VERSION without a body ends in a NullPointerException
    batches_unregistrations: bool = True  # unregistrations are queued and applied as a batch, by address and not by id
    stores_topic_queue_mapping: bool = True  # topicQueueMappingInfoTable exists
    lists_absent_filter_servers: bool = True  # a route names every address in filterServerTable, with null for none
    sized_name_set: bool = True  # a route's broker order follows a HashSet sized from the number of names
    has_topic_registration: bool = True  # REGISTER_TOPIC_IN_NAMESRV and BROKER_HEARTBEAT exist
    filters_routes_by_zone: bool = True  # a client that names its zone gets the groups of that zone only
    old_json: bool = False  # texts in JSON are escaped as fastjson 1 does it, not as fastjson 2
    faq_scheme: str = "https"  # the address in remarks starts with http or https
    one_id_per_addr: bool = True  # a registration takes its address from the other ids of its group
    stores_null_kv: bool = False  # a KV entry without namespace or key is stored, not refused
    has_add_write_perm: bool = True  # ADD_WRITE_PERM_OF_BROKER exists
    deletes_topic_of_cluster: bool = True  # DELETE_TOPIC_IN_NAMESRV looks at its cluster; else the whole topic goes
    writes_standard_json: bool = True  # a route is in standard JSON for clients that ask for it or are new
    sys_flag_name: str = "topicSysFlag"  # name of that field of queue data in JSON
    matches_addr: bool = True  # 5.x: an unregistration takes the address out of the group, whatever its id
    adds_to_known_topic: bool = True  # REGISTER_TOPIC_IN_NAMESRV adds to a topic that exists
    deletes_unlisted_topics: bool = True  # the property deleteTopicWithBrokerRegistration exists
    prime_slave_never_writes: bool = False  # a prime slave's topics lose the write bit whatever enableActingMaster says
    scan_delay_ms: int = 5_000  # from the start to the first scan
    lists_queue_data: bool = False  # a topic's queue data are a list; a registration moves changed ones to its end
    topic_list: str = (
        "newKeySet"  # set that collects a topic list: HashSet; CopyOnWriteArraySet; ConcurrentHashMap's (no null)
    )


V5_4_0 = Profile()
V4_9_7 = Profile(
    name="4.9.7",
    capacities=Capacities(topic=1024, broker=128, cluster=32, live=256),
    scan_period_ms=10_000,
    unreadable=(MORE_WORDS, NO_UTF8),
    computes_clusters=True,
    concurrent_maps=False,
    live_key_has_cluster=False,
    has_state_version=False,
    rejects_older_state_version=False,
    refuses_lone_topic=False,
    takes_prime_slave_topics=False,
    repairs_missing_topics=False,
    own_heartbeat_timeout=False,
    query_always_refreshes=False,
    throws_without_version=True,
    batches_unregistrations=False,
    stores_topic_queue_mapping=False,
    lists_absent_filter_servers=False,
    sized_name_set=False,
    has_topic_registration=False,
    filters_routes_by_zone=False,
    old_json=True,
    faq_scheme="http",
    adds_to_known_topic=False,
    deletes_unlisted_topics=False,
    topic_list="HashSet",
)
# By release, what differs from the release before; for the oldest, what differs from the newest of its generation.
_SINCE_4X: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "4.3.0",
        {
            "computes_clusters": False,
            "one_id_per_addr": False,
            "stores_null_kv": True,
            "sys_flag_name": "topicSynFlag",
            "has_add_write_perm": False,
            "deletes_topic_of_cluster": False,
            "writes_standard_json": False,
            "lists_queue_data": True,
            "lists_absent_filter_servers": True,
        },
    ),
    ("4.5.0", {"one_id_per_addr": True}),
    ("4.9.0", {"stores_null_kv": False, "sys_flag_name": "topicSysFlag"}),
    ("4.9.2", {"has_add_write_perm": True}),
    (
        "4.9.4",
        {
            "computes_clusters": True,
            "deletes_topic_of_cluster": True,
            "writes_standard_json": True,
            "lists_queue_data": False,
            "lists_absent_filter_servers": False,
        },
    ),
    # These three changed which properties UPDATE_NAMESRV_CONFIG refuses; a recorded answer tells whether it did.
    ("4.9.6", {}),
    ("4.9.7", {}),
    ("4.9.8", {}),
)
_SINCE_5X: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "5.0.0",
        {
            "unreadable": (NO_MAPPINGS,),
            "throws_without_version": True,
            "matches_addr": False,
            "faq_scheme": "http",
            "adds_to_known_topic": False,
            "deletes_unlisted_topics": False,
            "prime_slave_never_writes": True,
            "scan_delay_ms": 5,
            "old_json": True,
            "topic_list": "CopyOnWriteArraySet",
        },
    ),
    ("5.1.0", {"unreadable": (), "matches_addr": True, "faq_scheme": "https"}),
    ("5.1.1", {}),
    ("5.1.2", {}),
    ("5.1.4", {"adds_to_known_topic": True, "deletes_unlisted_topics": True}),
    ("5.2.0", {"prime_slave_never_writes": False, "topic_list": "newKeySet"}),
    ("5.3.0", {"throws_without_version": False}),
    ("5.3.4", {"scan_delay_ms": 5_000}),
    ("5.4.0", {"old_json": False, "unreadable": (NO_UTF8,)}),
)
COMPARED = (
    *("4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.0", "4.5.1", "4.5.2", "4.6.0", "4.6.1", "4.7.0", "4.7.1", "4.8.0"),
    *("4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4", "4.9.5", "4.9.6", "4.9.7", "4.9.8"),
    *("5.0.0", "5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.2.0", "5.3.0", "5.3.1", "5.3.2", "5.3.3", "5.3.4"),
    *("5.4.0", "5.5.0"),
)
"""Releases whose classes were compared. Any other release gets the profile of the one before it."""
_NUMBERS = re.compile(r"([0-9]{1,4})((?:\.[0-9]{1,4}){0,2})(?![0-9])")


def _numbers(version: str) -> tuple[int, ...] | None:
    """Return the numbers of a release, `5.1` as (5, 1, 0), ignoring any suffix; None if it does not start with one."""
    found = _NUMBERS.match(version)
    if found is None:
        return None
    numbers = [int(number) for number in found[0].split(".")]
    return (*numbers, *(0,) * (3 - len(numbers)))


def _made() -> dict[tuple[int, ...], Profile]:
    """Return the profiles, each by the numbers of its first release."""
    found = {}
    for newest, since in ((V4_9_7, _SINCE_4X), (V5_4_0, _SINCE_5X)):
        profile = newest
        for name, differences in since:
            profile = replace(profile, name=name, **differences)
            found[_numbers(name) or ()] = newest if profile == newest else profile
    return found


_BEGINS = _made()
PROFILES = {profile.name: profile for profile in _BEGINS.values()}


def profile_named(version: str) -> Profile:
    """Return the profile of a release such as `4.9.4`. Raises ValueError for anything but a 4.x or 5.x release.

    A release that was not compared gets the profile of the nearest one before, or that of 4.3.0 if it is older.
    """
    numbers = _numbers(version)
    if numbers is None or numbers[0] not in (4, 5):
        raise ValueError(f"version {version!r}: expected a 4.x (such as 4.9.7) or 5.x release (such as 5.4.0)")
    begun = [first for first in _BEGINS if first[0] == numbers[0] and first <= numbers]
    return _BEGINS[max(begun, default=min(first for first in _BEGINS if first[0] == numbers[0]))]


# Ordinals of MQVersion: 3.0.0 to 3.9.9 lie below 4.0.0-SNAPSHOT; each release has a snapshot before it.
_FIRST_4X_VERSION, _VERSIONS = 212, 612


def profile_of_version(version: int) -> Profile:
    """Return the profile of a server whose responses carry protocol `version` (MQVersion ordinal), by `profile_named`.

    A version older than 4.0, or a number that is no version, gets the profile of 4.9.7.
    """
    if version < _FIRST_4X_VERSION:
        return V4_9_7
    number = (min(version, _VERSIONS - 1) - _FIRST_4X_VERSION) // 2
    return profile_named(f"{4 + number // 100}.{number // 10 % 10}.{number % 10}")


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    """Configuration of one name server that affects its registry or its answers; defaults are RocketMQ's.

    | attribute | property | 4.9.7 | 5.4.0 |
    |---|---|---|---|
    | order_message_enable | orderMessageEnable | false | false |
    | support_acting_master | supportActingMaster | - | false |
    | delete_topic_with_broker_registration | deleteTopicWithBrokerRegistration | - | false |
    | notify_min_broker_id_changed | notifyMinBrokerIdChanged | - | false |
    | return_order_topic_config_to_broker | returnOrderTopicConfigToBroker | (true) | true |
    | enable_topic_list, enable_all_topic_list | enableTopicList, enableAllTopicList | (true) | true |
    | un_register_broker_queue_capacity | unRegisterBrokerQueueCapacity | - | 3000 |
    | scan_period_ms | scanNotActiveBrokerInterval | (10000) | 5000, always first after 5 s |
    | channel_max_idle_ms | serverChannelMaxIdleTimeSeconds, in s | 120 | 120 |

    In brackets: not configurable. Properties not listed change no answer that is compared. clusterTest replaces the
    processor and is not covered.

    Source: RocketMQ 4.9.7 and 5.4.0 NamesrvConfig, NettyServerConfig, NamesrvController.
    """

    order_message_enable: bool = False
    support_acting_master: bool = False
    delete_topic_with_broker_registration: bool = False
    notify_min_broker_id_changed: bool = False
    return_order_topic_config_to_broker: bool = True
    enable_topic_list: bool = True
    enable_all_topic_list: bool = True
    un_register_broker_queue_capacity: int = 3_000
    channel_max_idle_ms: int | None = CHANNEL_MAX_IDLE_MS  # None: longer than any silence that was seen
    scan_period_ms: int | None = None  # None: that of the profile


@dataclass(frozen=True, slots=True)
class Namesrv:
    """One name server: its profile and its configuration, and how they change later.

    `later`: (position, name server), in order; each holds from its position until the next. Their own `later` is
    empty.
    """

    profile: Profile = V4_9_7
    config: NamesrvConfig = field(default_factory=NamesrvConfig)
    later: tuple[tuple[int, Namesrv], ...] = ()

    def at(self, seq: int) -> Namesrv:
        """Return the name server as it is at position `seq`."""
        now = self
        for from_seq, changed in self.later:
            if from_seq > seq:
                break
            now = changed
        return now

    @property
    def spans(self) -> list[tuple[int, int | None, Namesrv]]:
        """Return (from, until, name server) for each time between changes; until None: to the end."""
        begins = [(0, self), *self.later]
        return [
            (seq, until, one) for (seq, one), until in zip(begins, [*(s for s, _ in self.later), None], strict=True)
        ]

    @property
    def deletes_unlisted_topics(self) -> bool:
        """Return whether a registration without mappings removes those topics of its broker name that it does not list."""
        return self.config.delete_topic_with_broker_registration and self.profile.deletes_unlisted_topics

    @property
    def scan_period_ms(self) -> int:
        """Return the milliseconds between two scans."""
        return self.config.scan_period_ms or self.profile.scan_period_ms
