"""Events as an adversary would send them.

Few names, addresses and channels, so that everything meets everything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from namesrv_core.machine import events
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Namesrv, NamesrvConfig
from namesrv_core.machine.tables import DataVersion, QueueData, TopicConfig, TopicQueueMappingInfo, TopicTable


def weighted(choices: list[tuple[int, st.SearchStrategy[Any]]]) -> st.SearchStrategy[Any]:
    """Choose by weight; `one_of` would flatten alternatives of alternatives, and all would weigh the same."""
    tickets = [choice for weight, choice in choices for _ in range(weight)]
    return st.sampled_from(tickets).flatmap(lambda choice: choice)


# C and BE share a bucket of both generations, as do broker-0 and broker-117: their order is their age.
CLUSTERS = st.sampled_from(["C", "D", "BE"])
ADDRS = st.sampled_from(["10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"])
NAMES = st.sampled_from(["broker-0", "broker-117", "broker-b"])
IDS = st.sampled_from([0, 0, 1, 2, 16])
CHANNELS = st.sampled_from(["c0", "c1", "c2"])
TOPICS = st.sampled_from(["T0", "T1", "T2"])
VERSIONS = st.builds(DataVersion, st.integers(0, 1), st.just(1), st.integers(0, 2))
PERMS = st.sampled_from([6, 6, 4, 2, 0, 7])
QUEUE_DATAS = st.builds(QueueData, st.just(4), st.sampled_from([4, 8]), PERMS, st.integers(0, 3))
TIMEOUTS = st.sampled_from([None, None, 0, 10_000, 60_000])
START_MS = 1_700_000_000_000
# Steps in time that end just before, at and just after a deadline.
PAUSES_MS = st.sampled_from([0, 0, 1, 5_000, 10_000, 60_000, 60_001, 119_999, 120_000, 120_001])


def _topic(topic: str, data: QueueData) -> TopicConfig:
    return TopicConfig(topic, *data)


def _mapping(topic: str, bname: str, epoch: int) -> TopicQueueMappingInfo:
    return TopicQueueMappingInfo(topic, bname, 4, epoch, scope="__global__", curr_id_map="{}")


TOPIC_TABLES = st.builds(
    TopicTable,
    st.lists(st.builds(_topic, TOPICS, QUEUE_DATAS), max_size=3, unique_by=lambda topic: topic.topic),
    st.lists(st.builds(_mapping, TOPICS, NAMES, st.integers(1, 2)), max_size=1),
)
FILTERS = st.sampled_from([None, None, (), ("10.0.0.9:30000",), ("10.0.0.9:30000", "10.0.0.8:30000")])
REGISTRATIONS = st.builds(
    events.RegisterBroker,
    CLUSTERS,
    ADDRS,
    NAMES,
    IDS,
    st.sampled_from([None, "10.0.0.1:10912"]),
    st.one_of(VERSIONS, VERSIONS, VERSIONS, st.none()),
    st.one_of(TOPIC_TABLES, TOPIC_TABLES, TOPIC_TABLES, st.none()),
    FILTERS,
    CHANNELS,
    st.sampled_from([None, True, False]),
    TIMEOUTS,
    st.sampled_from([None, "zone-a"]),
)
# As elections make them: one name and id, by one address after the other, with versions that may be older.
ELECTED = REGISTRATIONS.map(lambda event: event._replace(cluster_name="C", broker_name="broker-0", broker_id=0))
UNREGISTRATIONS = st.builds(events.UnregisterBroker, CLUSTERS, ADDRS, NAMES, IDS, st.just(value=False))
CHANNEL_ENDS = st.builds(
    events.ChannelDestroyed, st.one_of(CHANNELS, st.none()), st.one_of(ADDRS, st.none()), st.just(value=False)
)
OTHERS = st.one_of(
    st.builds(events.BrokerHeartbeat, CLUSTERS, ADDRS),
    st.builds(events.QueryDataVersion, CLUSTERS, ADDRS, VERSIONS),
    st.builds(events.WipeWritePerm, NAMES),
    st.builds(events.AddWritePerm, NAMES),
    st.builds(events.DeleteTopic, TOPICS, st.one_of(st.none(), st.just(""), CLUSTERS)),
    st.builds(
        events.RegisterTopic,
        TOPICS,
        st.one_of(st.none(), st.lists(st.tuples(NAMES, QUEUE_DATAS), max_size=3).map(tuple)),
    ),
    st.builds(
        events.PutKvConfig, st.sampled_from(["N", "O"]), st.sampled_from(["k", "l"]), st.sampled_from(["v", "w", None])
    ),
    st.builds(events.DeleteKvConfig, st.sampled_from(["N", "O"]), st.sampled_from(["k", "l"])),
    st.builds(events.UpdateNamesrvConfig, st.just("a=b")),
    st.builds(events.RefusedRequest, st.just("crc32 not match")),
)
# 5.4.0: unregistrations that are only queued.
DEFERRED = st.one_of(UNREGISTRATIONS, CHANNEL_ENDS).map(lambda event: event._replace(defer=True))
STOPS = st.sampled_from([events.NamesrvStarted(), events.NamesrvStopped()])
EVENTS: st.SearchStrategy[events.Event] = weighted(
    [(13, REGISTRATIONS), (3, ELECTED), (3, UNREGISTRATIONS), (2, CHANNEL_ENDS), (8, OTHERS), (1, STOPS)]
)
NAMESRVS_4_9_7 = st.builds(Namesrv, st.just(V4_9_7))
NAMESRVS_5_4_0 = st.builds(
    Namesrv,
    st.just(V5_4_0),
    st.builds(
        NamesrvConfig, delete_topic_with_broker_registration=st.booleans(), notify_min_broker_id_changed=st.booleans()
    ),
)
NAMESRVS = st.one_of(NAMESRVS_4_9_7, NAMESRVS_5_4_0)


def understood_by(namesrv: Namesrv, event: Any) -> bool:
    """Whether the generation has such a request at all."""
    return namesrv.profile.has_topic_registration or not isinstance(
        event, (events.BrokerHeartbeat, events.RegisterTopic)
    )


class Timed(NamedTuple):
    """An event and its time."""

    event: events.Event
    at_ms: int


@st.composite
def adversarial_logs(
    draw: st.DrawFn, namesrvs: st.SearchStrategy[Namesrv], size: int = 12
) -> tuple[list[Timed], Namesrv]:
    """Make a name server, and what may happen to it: requests, ends of connections, scans, starts and stops."""
    namesrv = draw(namesrvs)
    happening = [(10, EVENTS), (2, st.just(events.ScanNotActiveBroker()))]
    if namesrv.profile.batches_unregistrations:
        happening += [(1, DEFERRED), (1, st.just(events.DrainUnregistrations()))]
    at_ms, log = START_MS, []
    # A size that is drawn: lists would be short.
    length = draw(st.integers(0, size))
    for event, pause in draw(st.lists(st.tuples(weighted(happening), PAUSES_MS), min_size=length, max_size=length)):
        if understood_by(namesrv, event):
            at_ms += pause
            log.append(Timed(event, at_ms))
    return log, namesrv
