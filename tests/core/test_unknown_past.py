"""An unknown past, event by event: what each makes known, what it leaves in doubt, and what an answer may then correct."""

from __future__ import annotations

import pytest

from namesrv_core import Namesrv, NamesrvConfig, Outcome, Registry, Step
from namesrv_core.machine import events
from namesrv_core.machine.codes import Question
from namesrv_core.machine.draft import Certainty
from namesrv_core.machine.past import ACTING, GROUP, SETTLED, Part, Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.rows import DataVersion, LiveKey, QueueData, TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_core.replay import bootstrap
from tests.core.test_bootstrap import (
    CLUSTER_INFO,
    EIGHT,
    FOUR,
    GHOST,
    NO_ROUTE,
    ROUTE,
    V2,
    A,
    B,
    Server,
    register,
    seen_by,
    server_with,
    topics,
)

ROUTE_U, ROUTE_V, OF_CLUSTER = Question(105, "U"), Question(105, "V"), Question(224, "C")
SETTLED_MS = 140_000  # by then no lease from before the recording can be left
FIVE = Namesrv(V5_4_0)


def past_of(server: Server) -> Past:
    assert server.registry.past is not None
    return server.registry.past


def knows(server: Server, kind: str, one: Part, other: Part) -> bool:
    return past_of(server).knows(kind, one, other)


def shown(*taken: events.Event, namesrv: Namesrv, questions: tuple[Question, ...] = (ROUTE, ROUTE_U)) -> Server:
    """Return a server that has heard no broker, but whose answers showed what `taken` makes, late enough to stay."""
    server = Server(namesrv)
    seen_by(server, server_with(*taken, namesrv=namesrv), questions, SETTLED_MS)
    return server


# -- registrations -----------------------------------------------------------------------------------------------------


def test_only_an_unknown_past_learns() -> None:
    """A registry whose past is known has nothing to note: asking it to is a mistake of the caller."""
    with pytest.raises(ValueError, match="the past of this registry is known"):
        bootstrap.learn(Registry(V4_9_7), events.NamesrvStopped(), Step(Outcome.STOPPED), 0, Namesrv())


def test_a_registration_that_failed_at_once_tells_nothing() -> None:
    """5.x takes no null cluster: the exception comes before the first step, and no mark is left."""
    server = Server(FIVE)
    step = server.take(register()._replace(cluster_name=None), 10)
    assert step.certainty == Certainty(frozenset(), frozenset())
    assert not knows(server, GROUP, "a", ACTING)


@pytest.mark.parametrize(("profile", "lease_ms"), [(V4_9_7, 120_000), (V5_4_0, 600_000)])
def test_an_own_lease_lengthens_the_wait(profile: Profile, lease_ms: int) -> None:
    """5.x takes the broker's own lease, so that silence may last as long; 4.x does not read it."""
    server = Server(Namesrv(profile))
    server.take(register()._replace(heartbeat_timeout_ms=600_000), 10)
    assert past_of(server).longest_lease_ms == lease_ms


def test_without_filter_servers_the_stored_list_stays_unknown() -> None:
    """A registration without a list leaves the one from before, whatever it is; an empty list makes it known."""
    server = Server()
    server.take(register()._replace(filter_servers=None), 10)
    assert not knows(server, "filter_server", None, A)
    server.take(register(), 20)
    assert knows(server, "filter_server", None, A)


def test_a_certain_rejection_leaves_no_live_entry_and_no_topic() -> None:
    """The id and its holder are known: the newcomer is certain to be rejected, has no entry, and wrote nothing."""
    server = Server(FIVE)
    holder = register(version=DataVersion(9, 1, 1))
    server.take(holder, 10)
    seen_by(server, server_with(holder, namesrv=FIVE), [CLUSTER_INFO, ROUTE], 20)
    assert not knows(server, "broker_live", "C", B)
    step = server.take(register(topics(T=EIGHT, U=FOUR), DataVersion(1, 2, 2), addr=B), 30)
    assert step.outcome == Outcome.REJECTED_STATE_VERSION
    assert knows(server, "broker_live", "C", B)
    assert knows(server, SETTLED, "C", B)
    assert knows(server, "topic_queue", "T", "a")
    assert server.registry.queue_data("T", "a") == FOUR


def test_a_certain_refusal_leaves_everything_known() -> None:
    """After a start a new id with a lone topic is certain to be refused: no row, and a route is a contradiction."""
    server = Server(FIVE)
    server.take(events.NamesrvStarted(), 0)
    assert server.take(register(topics(T=FOUR)), 10).outcome == Outcome.REFUSED_LONE_TOPIC
    assert server.members("a") == {}
    assert knows(server, "topic_queue", "T", "a")
    wrong = server_with(register(), namesrv=FIVE)
    assert server.see(ROUTE, wrong.says(ROUTE), 20).outcome == Outcome.NO_EFFECT


@pytest.mark.parametrize(
    "event",
    [
        register(topics(T=EIGHT, U=FOUR), V2, addr=B)._replace(broker_id=1),
        register(version=V2)._replace(topics=None),
    ],
)
def test_who_writes_no_topics_leaves_them_known(event: events.RegisterBroker) -> None:
    """In 4.x neither a slave's topics count nor a missing table: what a route showed stays known."""
    server = shown(register(), namesrv=Namesrv())
    server.take(event, SETTLED_MS + 10)
    assert knows(server, "topic_queue", "T", "a")
    assert server.registry.queue_data("T", "a") == FOUR


def test_a_slave_behind_a_known_smaller_id_writes_nothing() -> None:
    """5.x takes the topics of the smallest id: with a master known it is not the slave, without one it may be."""
    slave = register(topics(T=EIGHT, U=FOUR), V2, addr=B)._replace(broker_id=1, enable_acting_master=True)
    behind = shown(register()._replace(enable_acting_master=True), namesrv=FIVE)
    behind.take(slave, SETTLED_MS + 10)
    assert knows(behind, "topic_queue", "T", "a")
    alone = Server(FIVE)
    alone.see(ROUTE, NO_ROUTE, 5)
    assert knows(alone, "topic_queue", "T", "a")
    alone.take(slave, 10)
    assert not knows(alone, "topic_queue", "T", "a")


@pytest.mark.parametrize(("profile", "known"), [(V4_9_7, False), (V5_4_0, True)])
def test_a_missing_topic_comes_back_for_certain_in_5x_only(profile: Profile, *, known: bool) -> None:
    """The stored version is unknown: 5.x brings an absent topic back either way, 4.x only if the version is another."""
    server = shown(register(), namesrv=Namesrv(profile))
    server.see(ROUTE_V, NO_ROUTE, SETTLED_MS)
    server.take(register(topics(T=FOUR, V=FOUR)), SETTLED_MS + 10)
    assert server.registry.queue_data("V", "a") == FOUR
    assert knows(server, "topic_queue", "V", "a") is known
    assert knows(server, "topic_queue", "T", "a")  # the same either way


DELETING = Namesrv(V5_4_0, NamesrvConfig(delete_topic_with_broker_registration=True))


def test_a_registration_that_counts_deletes_all_other_topics() -> None:
    """deleteTopicWithBrokerRegistration: any topic that is not registered is known to be gone, a new one is in doubt."""
    server = shown(register(), namesrv=DELETING)
    server.take(register(topics(T=FOUR, V=FOUR)), SETTLED_MS + 10)
    assert server.registry.queue_data("U", "a") is None
    known = {topic: knows(server, "topic_queue", topic, "a") for topic in ("T", "U", "V", "W")}
    assert known == {"T": True, "U": True, "V": False, "W": True}


def test_a_registration_that_may_be_rejected_puts_all_other_topics_in_doubt() -> None:
    """The version of the id's holder is unknown: what the newcomer does not register has gone, or is still there."""
    server = shown(register(), namesrv=DELETING)
    server.take(register(topics(T=FOUR, V=FOUR), addr=B), SETTLED_MS + 10)
    known = {topic: knows(server, "topic_queue", topic, "a") for topic in ("T", "U", "V")}
    assert known == {"T": True, "U": False, "V": False}


def mapped(epoch: int, version: DataVersion) -> events.RegisterBroker:
    """Return a registration with a static topic T."""
    mapping = TopicQueueMappingInfo("T", "a", 8, epoch, curr_id_map='{"0":0}')
    return register(TopicTable([TopicConfig("T", *FOUR), TopicConfig("U", *FOUR)], [mapping]), version)


def test_a_mapping_is_known_once_it_is_certain_to_be_written() -> None:
    """A route shows it; a registration that may not write puts it in doubt; one of a new version makes it known."""
    server, first = shown(mapped(1, V2), namesrv=FIVE), mapped(2, V2)
    assert server.registry.topic_queue_mapping_info_table["T"]["a"] == TopicQueueMappingInfo(
        "T", "a", 8, 1, curr_id_map='{"0":0}'
    )
    assert knows(server, "topic_queue_mapping", "T", "a")
    wrong = server_with(first, namesrv=FIVE)
    assert server.see(ROUTE, wrong.says(ROUTE), SETTLED_MS + 5).outcome == Outcome.NO_EFFECT
    for version, known in ((V2, False), (DataVersion(0, 3, 3), True), (DataVersion(0, 3, 3), True)):
        server.take(first._replace(data_version=version), SETTLED_MS + 10)
        assert knows(server, "topic_queue_mapping", "T", "a") is known


def test_a_topic_is_registered_for_certain_if_its_names_have_groups() -> None:
    """5.x stores what REGISTER_TOPIC_IN_NAMESRV sends only for groups that exist: certain once a group is known."""
    server = Server(FIVE)
    server.take(register(), 10)
    assert not knows(server, "topic_queue", "V", "a")
    server.take(events.RegisterTopic("V", (("a", FOUR),)), 20)
    assert server.registry.queue_data("V", "a") == FOUR
    assert not knows(server, "topic_queue", "V", "a")
    server.see(CLUSTER_INFO, server_with(register(), namesrv=FIVE).says(CLUSTER_INFO), 30)
    server.take(events.RegisterTopic("V", (("a", EIGHT),)), 40)
    assert knows(server, "topic_queue", "V", "a")
    server.take(events.RegisterTopic("V", (("a", EIGHT), ("ghost", EIGHT))), 50)
    assert not knows(server, "topic_queue", "V", "a")


# -- ends --------------------------------------------------------------------------------------------------------------


def test_an_unknown_group_may_live_on_without_the_one_who_left() -> None:
    """The id and the live entry are gone; whether the group went with its topics depends on members never heard."""
    server = Server()
    server.take(register(), 10)
    server.take(register(version=V2), 20)
    assert knows(server, "topic_queue", "T", "a")
    server.take(events.UnregisterBroker("C", A, "a", 0), 30)
    assert knows(server, "broker_addr", "a", 0)
    assert knows(server, "broker_live", None, A)
    assert not knows(server, "topic_queue", "T", "a")
    assert not knows(server, "cluster_addr", "C", "a")
    assert not knows(server, GROUP, "a", ACTING)


def test_a_known_group_goes_with_all_it_had() -> None:
    """Its only member unregisters: a route that still shows it is a contradiction, not an unknown past."""
    server = Server()
    server.take(register(), 10)
    seen_by(server, server_with(register()), [CLUSTER_INFO], 20)
    server.take(events.UnregisterBroker("C", A, "a", 0), 30)
    assert knows(server, "topic_queue", "never heard of", "a")
    assert knows(server, "cluster_addr", "C", "a")
    assert server.see(ROUTE, server_with(register()).says(ROUTE), 40).outcome == Outcome.NO_EFFECT


def test_a_queued_unregistration_says_nothing_of_the_id() -> None:
    """5.x matches by address and not by id, and later: the id is not known by the request alone."""
    server = Server(FIVE)
    step = server.take(events.UnregisterBroker("C", A, "a", 0, defer=True), 10)
    assert step.outcome == Outcome.QUEUED
    assert not knows(server, "broker_addr", "a", 0)
    assert knows(server, "broker_live", "C", A)


def test_what_the_replay_removed_itself_is_no_matter_of_the_past() -> None:
    """A slave that was shown expires: should it be seen again, the tick was wrong, and an answer corrects nothing.

    That nothing else was lost with it is not known: the group may have gone in between.
    """
    server, slave = Server(), register(addr=B)._replace(broker_id=1, channel_id="d")
    for event in (register(), slave):
        server.take(event, 10)
    assert not past_of(server).phase_known
    server.take(register(), 100_000)
    server.take(events.ScanNotActiveBroker(), 121_000)
    assert server.members("a") == {0: A}
    assert all(knows(server, "broker_addr", "a", broker_id) for broker_id in (0, 1))
    assert knows(server, "broker_live", None, B)
    assert not knows(server, "topic_queue", "T", "a")
    seen = server.see(CLUSTER_INFO, server_with(register(), slave).says(CLUSTER_INFO), 121_020)
    assert (seen.outcome, server.members("a")) == (Outcome.NO_EFFECT, {0: A})


@pytest.mark.parametrize(
    "gone", [events.ScanNotActiveBroker(), events.ChannelDestroyed("c", None)], ids=["scan", "close"]
)
def test_a_group_of_which_all_is_known_is_known_to_be_gone(gone: events.Event) -> None:
    """Its last member expires or loses its connection: its topics go with it, and nobody else has any."""
    server = Server()
    server.take(events.NamesrvStarted(), 0)
    server.take(register(), 10)
    server.take(gone, 200_000)
    assert "a" not in server.registry.broker_addr_table
    assert knows(server, "topic_queue", "T", "a")
    assert past_of(server).knows_all("broker_addr", "a")


def test_a_deletion_within_a_cluster_needs_the_names_place_in_it() -> None:
    """The name stands in the set, but may have left it unseen: its row of the topic has gone, or is still there."""
    server = Server()
    server.take(register(), 10)
    server.take(events.UnregisterBroker("C", GHOST, "a", 1), 20)
    server.see(ROUTE, server_with(register()).says(ROUTE), 30)
    assert knows(server, "topic_queue", "T", "a")
    server.take(events.DeleteTopic("T", "C"), 40)
    assert server.registry.queue_data("T", "a") is None
    assert not knows(server, "topic_queue", "T", "a")


def test_an_event_about_permissions_makes_nothing_known() -> None:
    """Wiping changes one bit of rows whose rest was believed: they change, and stay only believed."""
    server = Server()
    server.take(register(), 10)
    step = server.take(events.WipeWritePerm("a"), 20)
    assert server.registry.queue_data("T", "a") == QueueData(4, 4, 4, 0)
    assert step.certainty == Certainty(frozenset(), frozenset())


@pytest.mark.parametrize("event", [events.PutKvConfig("N", "K", "v"), events.DeleteKvConfig("N", "K")])
def test_a_kv_entry_is_known_once_it_was_set_or_deleted(event: events.Event) -> None:
    """Both determine the entry whatever was there; its neighbours stay unknown."""
    server = Server()
    step = server.take(event, 10)
    assert step.certainty is not None
    assert step.certainty.known == {("kv_config", ("N", "K"))}
    assert not knows(server, "kv_config", "N", "L")


# -- silence -----------------------------------------------------------------------------------------------------------


def test_a_heartbeat_prolongs_the_wait_for_the_silent() -> None:
    """Shown by an answer and heard by heartbeat at 60 s, it may stand until 60 + 120 s and a scan period, not longer."""
    server = Server(FIVE)
    seen_by(server, server_with(register(), namesrv=FIVE), [CLUSTER_INFO], 10)
    server.take(events.BrokerHeartbeat("C", A), 60_000)
    for at_ms, settled in ((121_000, False), (185_000, False), (185_001, True)):
        server.take(events.AddWritePerm("other"), at_ms)
        assert knows(server, SETTLED, "C", A) is settled


@pytest.mark.parametrize(
    ("heard_id", "acting", "expected"),
    [(0, True, Outcome.NO_EFFECT), (1, True, Outcome.UNKNOWN_PAST), (1, False, Outcome.NO_EFFECT)],
)
def test_queue_data_may_change_unseen_only_if_an_unheard_master_may_go(
    heard_id: int, expected: Outcome, *, acting: bool
) -> None:
    """5.x wipes the write bit of a group without a master: other queue data is an unknown past only where that may be."""
    members = [
        register(addr=addr)._replace(broker_id=number, enable_acting_master=acting)
        for number, addr in enumerate((A, B))
    ]
    server, true = Server(FIVE), server_with(*members, namesrv=FIVE)
    server.take(members[heard_id], 10)
    seen_by(server, true, [CLUSTER_INFO, ROUTE], 20)
    other = server_with(*(member._replace(topics=topics(T=EIGHT, U=FOUR)) for member in members), namesrv=FIVE)
    assert server.see(ROUTE, other.says(ROUTE), 30).outcome == expected


@pytest.mark.parametrize(("heard", "expected"), [(False, Outcome.UNKNOWN_PAST), (True, Outcome.NO_EFFECT)])
def test_filter_servers_go_unseen_with_an_unheard_broker(expected: Outcome, *, heard: bool) -> None:
    """Other filter servers of a broker that was heard contradict what is known; of an unheard one they do not."""
    event, server = register()._replace(filter_servers=("f:1",)), Server()
    if heard:
        server.take(event, 5)
    seen_by(server, server_with(event), [ROUTE], 10)
    assert dict(server.registry.filter_server_table.items()) == {LiveKey(None, A): ("f:1",)}
    other = server_with(event._replace(filter_servers=("f:2",)))
    assert server.see(ROUTE, other.says(ROUTE), 20).outcome == expected
