"""The name server's two generations as values: a named switch for each difference, and the server's configuration.

Sources: RocketMQ 4.9.7 and 5.4.0, classes RouteInfoManager, DefaultRequestProcessor, ClientRequestProcessor,
NamesrvConfig, NamesrvController, NettyServerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BROKER_CHANNEL_EXPIRED_MS = 120_000
CHANNEL_MAX_IDLE_MS = 120_000
SCAN_DELAY_MS = 5_000


@dataclass(frozen=True, slots=True)
class Capacities:
    """Buckets of the outer maps right after start."""

    topic: int
    broker: int
    cluster: int
    live: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What one generation does; `name` is the release it was read from and compared with."""

    name: str
    capacities: Capacities
    scan_period_ms: int
    concurrent_maps: (
        bool  # ConcurrentHashMap instead of HashMap: other growth, other order, no exception while iterating
    )
    live_key_has_cluster: bool  # live and filter tables are keyed by (cluster, address) instead of the address alone
    has_state_version: bool  # a data version has a stateVersion, compared with the rest
    rejects_older_state_version: bool  # a newcomer on a taken id with an older stateVersion is rejected
    refuses_lone_topic: bool  # a first registration with exactly one topic is refused
    takes_prime_slave_topics: bool  # topics also come from the slave with the smallest id
    repairs_missing_topics: bool  # an unchanged registration still brings back topics that are not in the table
    own_heartbeat_timeout: bool  # the lease is the broker's own heartbeatTimeoutMillis, else 120 s
    query_always_refreshes: bool  # QUERY_DATA_VERSION renews the lease even when the version differs
    batches_unregistrations: bool  # unregistrations are queued and applied as a batch, matched by address and not by id
    stores_topic_queue_mapping: bool  # topicQueueMappingInfoTable exists
    lists_absent_filter_servers: bool  # a route names every address in filterServerTable, with null where there is none
    sized_name_set: bool  # a route's broker order follows a HashSet sized from the number of names
    answers_unknown_codes: (
        bool  # an unknown request code is answered with REQUEST_CODE_NOT_SUPPORTED instead of nothing
    )
    has_topic_registration: bool  # REGISTER_TOPIC_IN_NAMESRV and BROKER_HEARTBEAT exist
    filters_routes_by_zone: bool  # a client that names its zone gets the groups of that zone only
    config_black_list: tuple[str, ...]  # properties that UPDATE_NAMESRV_CONFIG never changes
    black_list_remark: str  # what it says then
    old_json: bool  # texts in JSON are escaped as fastjson 1 does it, not as fastjson 2
    faq_scheme: str  # the address in remarks starts with http or https


V4_9_7 = Profile(
    name="4.9.7",
    capacities=Capacities(topic=1024, broker=128, cluster=32, live=256),
    scan_period_ms=10_000,
    concurrent_maps=False,
    live_key_has_cluster=False,
    has_state_version=False,
    rejects_older_state_version=False,
    refuses_lone_topic=False,
    takes_prime_slave_topics=False,
    repairs_missing_topics=False,
    own_heartbeat_timeout=False,
    query_always_refreshes=False,
    batches_unregistrations=False,
    stores_topic_queue_mapping=False,
    lists_absent_filter_servers=False,
    sized_name_set=False,
    answers_unknown_codes=False,
    has_topic_registration=False,
    filters_routes_by_zone=False,
    config_black_list=("configStorePath", "kvConfigPath"),
    black_list_remark="Can not update config path",
    old_json=True,
    faq_scheme="http",
)
V5_4_0 = Profile(
    name="5.4.0",
    capacities=Capacities(topic=2048, broker=256, cluster=64, live=512),
    scan_period_ms=5_000,
    concurrent_maps=True,
    live_key_has_cluster=True,
    has_state_version=True,
    rejects_older_state_version=True,
    refuses_lone_topic=True,
    takes_prime_slave_topics=True,
    repairs_missing_topics=True,
    own_heartbeat_timeout=True,
    query_always_refreshes=True,
    batches_unregistrations=True,
    stores_topic_queue_mapping=True,
    lists_absent_filter_servers=True,
    sized_name_set=True,
    answers_unknown_codes=True,
    has_topic_registration=True,
    filters_routes_by_zone=True,
    config_black_list=("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"),
    black_list_remark="Can not update config in black list.",
    old_json=False,
    faq_scheme="https",
)
PROFILES = {profile.name: profile for profile in (V4_9_7, V5_4_0)}

# Ordinal of V5_0_0_SNAPSHOT in MQVersion; every 4.x release lies below.
_FIRST_5X_VERSION = 412


def profile_named(version: str) -> Profile:
    """Return the profile of a release by its name, `4.9.4`: that of its generation. Raises ValueError for others."""
    found = {"4": V4_9_7, "5": V5_4_0}.get(version.split(".", maxsplit=1)[0])
    if found is None:
        raise ValueError(f"version {version!r}: known are 4.x (as 4.9.7) and 5.x (as 5.4.0)")
    return found


def profile_of_version(version: int) -> Profile:
    """Return the profile of a name server whose responses carry protocol `version` (MQVersion ordinal)."""
    return V5_4_0 if version >= _FIRST_5X_VERSION else V4_9_7


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    """The configuration of one name server, as far as it changes what it holds or answers; defaults are RocketMQ's.

    | attribute | property | 4.9.7 | 5.4.0 |
    |---|---|---|---|
    | order_message_enable | orderMessageEnable | false | false |
    | support_acting_master | supportActingMaster | - | false |
    | delete_topic_with_broker_registration | deleteTopicWithBrokerRegistration | - | false |
    | notify_min_broker_id_changed | notifyMinBrokerIdChanged | - | false |
    | return_order_topic_config_to_broker | returnOrderTopicConfigToBroker | (true) | true |
    | enable_topic_list, enable_all_topic_list | enableTopicList, enableAllTopicList | (true) | true |
    | need_wait_for_service, wait_seconds_for_service | needWaitForService, waitSecondsForService | - | false, 45 |
    | un_register_broker_queue_capacity | unRegisterBrokerQueueCapacity | - | 3000 |
    | config_black_list | configBlackList | - | configBlackList;configStorePath;kvConfigPath |
    | scan_period_ms | scanNotActiveBrokerInterval | (10000) | 5000, always first after 5 s |
    | channel_max_idle_ms | serverChannelMaxIdleTimeSeconds, in s | 120 | 120 |

    In brackets: not configurable. What is not listed (ports, paths, threads, productEnvName) changes no answer; clusterTest
    replaces the processor and is not covered.

    Source: RocketMQ 4.9.7 and 5.4.0 NamesrvConfig, NettyServerConfig, NamesrvController.
    """

    order_message_enable: bool = False
    support_acting_master: bool = False
    delete_topic_with_broker_registration: bool = False
    notify_min_broker_id_changed: bool = False
    return_order_topic_config_to_broker: bool = True
    enable_topic_list: bool = True
    enable_all_topic_list: bool = True
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    un_register_broker_queue_capacity: int = 3_000
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    channel_max_idle_ms: int | None = CHANNEL_MAX_IDLE_MS  # None: longer than any silence that was seen
    scan_period_ms: int | None = None  # None: the generation's own


@dataclass(frozen=True, slots=True)
class Namesrv:
    """One name server: its generation and its configuration, and what they become later on.

    `later`: (position, name server), in order; each holds from its position on, until the next. Their own `later` is
    empty.
    """

    profile: Profile = V4_9_7
    config: NamesrvConfig = field(default_factory=NamesrvConfig)
    later: tuple[tuple[int, Namesrv], ...] = ()

    def at(self, seq: int) -> Namesrv:
        """Return what the name server is at position `seq`."""
        now = self
        for from_seq, changed in self.later:
            if from_seq > seq:
                break
            now = changed
        return now

    @property
    def scan_period_ms(self) -> int:
        """Return the milliseconds between two scans."""
        return self.config.scan_period_ms or self.profile.scan_period_ms
