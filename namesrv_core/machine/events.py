"""Events: everything that can change a name server's registry, as RouteInfoManager or KVConfigManager receives it.

Units of time: a position (`seq`) is in nanoseconds since the epoch, an instant in micro- or milliseconds (`_us`, `_ms`).
"""

from __future__ import annotations

from typing import NamedTuple

from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.past import Part
from namesrv_core.machine.tables import DataVersion, LiveKey, QueueData, TopicTable

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
US_PER_MS = 1_000
EVER = (1 << 63) - 1
"""A position after all others."""


class RegisterBroker(NamedTuple):
    """REGISTER_BROKER (103). `topics` None: the table is null. `filter_servers` None: the stored list stays.

    `is_refused`: the recorded server (5.x) refused it for its lone topic, whatever the replayed registry would do.
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
    """UNREGISTER_BROKER (104); 5.x also makes one of a lost channel or an expired lease. `defer`: only queued (5.x).

    `broker_id` None: the header has no readable id.
    """

    cluster_name: str | None
    broker_addr: str | None
    broker_name: str | None
    broker_id: int | None
    defer: bool = False


class DrainUnregistrations(NamedTuple):
    """5.x: the batch thread applies the queued unregistrations."""


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
    """A run of heartbeats equal to `beat`, so close together that the lease does not end in between.

    The run has the position of its first heartbeat and renews the lease as of its last. It has the effect of one of
    them. The code that makes a run knows, or checks by its step, that the heartbeats only renew a lease.
    """

    beat: RegisterBroker | BrokerHeartbeat | QueryDataVersion


class ScanNotActiveBroker(NamedTuple):
    """One run of the periodic scan. `began_ms`: when it found its first ended lease, if it has waited for the lock since."""

    defer: bool = False
    began_ms: int | None = None


class ChannelDestroyed(NamedTuple):
    """A channel was closed, failed or went idle. `remote_addr` is its peer, ip:port.

    The server looks up the channel's live entry under one lock and removes it under another. `looked_up`: the entry
    that it found, if other requests came in between.
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
    """REGISTER_TOPIC_IN_NAMESRV (217, 5.x): queue data by broker name, in the request's order; names may repeat."""

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
    """UPDATE_NAMESRV_CONFIG (318). It changes the configuration, not the registry."""

    properties: str | None


class RefusedRequest(NamedTuple):
    """A request that the request layer answered with an error before the registry saw it.

    `asked`: the event that the request would have been; None: a registration.
    """

    reason: str
    asked: Event | None = None


class AnswerObserved(NamedTuple):
    """An answer of the name server. It changes nothing there; in the replay it shows rows that were not known yet.

    `request_seq`: position at which the question had arrived.
    """

    question: Question
    answered: Answer
    request_seq: int


class ResponseObserved(NamedTuple):
    """The response to a registration, a version query or a change of permissions just made; see `AnswerObserved`."""

    asked: RegisterBroker | QueryDataVersion | WipeWritePerm | AddWritePerm
    answered: Answer


class LoggedRow(NamedTuple):
    """A row that a line of the name server's own log shows as put (`value`) or removed (None).

    | kind | one | other | value |
    |---|---|---|---|
    | topic_queue | topic | broker name | QueueData |
    | broker_addr | broker name | None | (cluster name, address) of its master; None: the group is gone, with all queue data |
    | address | address | None | None: the group that has it loses it |
    | cluster_addr | cluster name | broker name | True |
    | broker_live | cluster name | address | BrokerLiveInfo |
    | kv_config | namespace | key | KvValue |

    ANY in a key: all rows. `is_new`: the line also tells the state before.
    """

    kind: str
    one: Part
    other: Part
    value: object | None = None
    is_new: bool = False


class ChangeLogged(NamedTuple):
    """Log lines that one method call of the name server wrote; `operation`: as in the table event_outcomes."""

    operation: str
    rows: tuple[LoggedRow, ...]


class NamesrvStarted(NamedTuple):
    """The process started: its routes are empty, its KV table is loaded from the file."""


class NamesrvStopped(NamedTuple):
    """The process stopped: all routes are lost, the KV table stays in its file."""


class RecordingGap(NamedTuple):
    """A gap in the recording, not an event of the name server: nothing was recorded until `until_ms` (epoch ms)."""

    until_ms: int


OfBrokers = RegisterBroker | UnregisterBroker | DrainUnregistrations | BrokerHeartbeat | QueryDataVersion | RefreshRun
OfOperators = WipeWritePerm | AddWritePerm | DeleteTopic | RegisterTopic | PutKvConfig | DeleteKvConfig
OfProcess = (
    ScanNotActiveBroker | ChannelDestroyed | UpdateNamesrvConfig | NamesrvStarted | NamesrvStopped | RecordingGap
)
Event = OfBrokers | OfOperators | OfProcess | RefusedRequest | AnswerObserved | ResponseObserved | ChangeLogged
