"""The events: all that can change a name server's registry, as it reaches RouteInfoManager or KVConfigManager."""

from __future__ import annotations

from typing import NamedTuple

from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.past import Part
from namesrv_core.machine.rows import DataVersion, LiveKey, QueueData, TopicTable


class RegisterBroker(NamedTuple):
    """REGISTER_BROKER (103). `topics` None: the table is null. `filter_servers` None leaves the stored list.

    `is_refused`: 5.x was seen to refuse it for its lone topic, whatever the registry that is replayed would do.
    """

    cluster_name: str | None
    broker_addr: str | None
    broker_name: str | None
    broker_id: int
    ha_server_addr: str | None
    data_version: DataVersion | None
    topics: TopicTable | None
    filter_servers: tuple[str, ...] | None
    channel_id: str | None
    enable_acting_master: bool | None = None
    heartbeat_timeout_ms: int | None = None
    zone_name: str | None = None
    is_refused: bool = False


class UnregisterBroker(NamedTuple):
    """UNREGISTER_BROKER (104), and what 5.x makes of a lost channel or an expired lease. `defer`: only queued (5.x).

    `broker_id` None: the header has none that can be read.
    """

    cluster_name: str | None
    broker_addr: str | None
    broker_name: str | None
    broker_id: int | None
    defer: bool = False


class DrainUnregistrations(NamedTuple):
    """5.x: the batch thread applies what is queued."""


class BrokerHeartbeat(NamedTuple):
    """BROKER_HEARTBEAT (904)."""

    cluster_name: str | None
    broker_addr: str | None


class QueryDataVersion(NamedTuple):
    """QUERY_DATA_VERSION (322), which old brokers use as a heartbeat."""

    cluster_name: str | None
    broker_addr: str | None
    data_version: DataVersion | None


class RefreshRun(NamedTuple):
    """Many heartbeats equal to `beat`, so close together that the lease does not end in between.

    The run stands where the first of them came and renews the lease as of the last. It does what one of them does: whoever
    makes it knows, or sees by its step, that one does no more than renew a lease.
    """

    beat: RegisterBroker | BrokerHeartbeat | QueryDataVersion


class ScanNotActiveBroker(NamedTuple):
    """One run of the periodic scan."""

    defer: bool = False


class ChannelDestroyed(NamedTuple):
    """A channel was closed, failed or went idle. `remote_addr` is its peer, ip:port.

    `looked_up`: the live entry that had been found for the channel before other requests came in between (the server
    looks it up under one lock and removes it under another).
    """

    channel_id: str | None
    remote_addr: str | None
    defer: bool = False
    looked_up: LiveKey | None = None


class WipeWritePerm(NamedTuple):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    broker_name: str | None


class AddWritePerm(NamedTuple):
    """ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: str | None


class DeleteTopic(NamedTuple):
    """DELETE_TOPIC_IN_NAMESRV (216); `cluster_name` None or empty: the whole topic."""

    topic: str | None
    cluster_name: str | None


class RegisterTopic(NamedTuple):
    """REGISTER_TOPIC_IN_NAMESRV (217, 5.x): queue data by broker name, in the request's order, names may repeat."""

    topic: str | None
    queue_datas: tuple[tuple[str | None, QueueData], ...] | None


class PutKvConfig(NamedTuple):
    """PUT_KV_CONFIG (100)."""

    namespace: str | None
    key: str | None
    value: str | None


class DeleteKvConfig(NamedTuple):
    """DELETE_KV_CONFIG (102)."""

    namespace: str | None
    key: str | None


class UpdateNamesrvConfig(NamedTuple):
    """UPDATE_NAMESRV_CONFIG (318): recorded; what it changes is configuration, not the registry."""

    properties: str | None


class RefusedRequest(NamedTuple):
    """A request that the request layer answered with an error before the registry saw it.

    `asked`: the event that it would have been; None: a registration.
    """

    reason: str
    asked: Event | None = None


class AnswerObserved(NamedTuple):
    """What the name server answered. It changes nothing there; here it shows what was not known yet.

    `request_seq`: position at which the question had arrived.
    """

    question: Question
    answered: Answer
    request_seq: int


class ResponseObserved(NamedTuple):
    """What the name server answered to a registration, a query, or a change of permissions that it had just made; likewise."""

    asked: RegisterBroker | QueryDataVersion | WipeWritePerm | AddWritePerm
    answered: Answer


class LoggedRow(NamedTuple):
    """A row that a line of the name server's own log shows, put (`value`) or gone (None).

    | kind | one | other | value |
    |---|---|---|---|
    | topic_queue | topic | broker name | QueueData |
    | broker_addr | broker name | None | (cluster name, address) of its master; None: the group is gone, with all queue data |
    | address | address | None | None: the group that has it loses it |
    | cluster_addr | cluster name | broker name | True |
    | broker_live | cluster name | address | BrokerLiveInfo |
    | kv_config | namespace | key | KvValue |

    ANY in a key: all rows. `is_new`: the line also says what was before.
    """

    kind: str
    one: Part
    other: Part
    value: object | None = None
    is_new: bool = False


class ChangeLogged(NamedTuple):
    """Lines that one call of a method has written into the name server's log; `operation`: what that was (event_outcomes)."""

    operation: str
    rows: tuple[LoggedRow, ...]


class NamesrvStarted(NamedTuple):
    """The process started: the routes are empty, the KV table is loaded from its file."""


class NamesrvStopped(NamedTuple):
    """The process stopped: all routes are lost, the KV table stays in its file."""


class RecordingGap(NamedTuple):
    """No event of the name server: nothing was recorded of it until `until_ms` (epoch milliseconds)."""

    until_ms: int


OfBrokers = RegisterBroker | UnregisterBroker | DrainUnregistrations | BrokerHeartbeat | QueryDataVersion | RefreshRun
OfOperators = WipeWritePerm | AddWritePerm | DeleteTopic | RegisterTopic | PutKvConfig | DeleteKvConfig
OfProcess = (
    ScanNotActiveBroker | ChannelDestroyed | UpdateNamesrvConfig | NamesrvStarted | NamesrvStopped | RecordingGap
)
Event = OfBrokers | OfOperators | OfProcess | RefusedRequest | AnswerObserved | ResponseObserved | ChangeLogged
