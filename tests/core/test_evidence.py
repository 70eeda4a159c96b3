"""Evidence for settings, read off forged answers and closes under both values of each setting."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.inference.evidence import (
    Expiry,
    Membership,
    RouteAnswer,
    Vote,
    acting_master_votes,
    count_votes,
    first_of_scans,
    scan_period_votes,
    scan_phase_votes,
)
from namesrv_core.inference.settings import Life, Statement
from namesrv_core.machine import events
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable

MS = 1_000_000
SECOND = 1_000 * MS


def counted(votes: Iterable[Vote]) -> Counter[object]:
    """Return the number of votes by value."""
    return Counter(vote.value for vote in votes)


def registration(
    broker_id: int, topics: tuple[str, ...], counter: int = 1, *, acting: bool | None = None, perm: int = 6
) -> events.RegisterBroker:
    """Return a registration of broker-a under an address of its id."""
    table = TopicTable([TopicConfig(topic, 4, 4, perm, 0) for topic in topics])
    addr, version = f"10.0.0.{broker_id + 1}:10911", DataVersion(0, 1, counter)
    return events.RegisterBroker(
        "C", addr, "broker-a", broker_id, None, version, table, None, f"c{broker_id}", enable_acting_master=acting
    )


def body_of(registry: Registry, namesrv: Namesrv, topic: str = "T") -> str:
    """Return the body of the server's own answer for a route."""
    found = answer(registry, Question(105, topic), namesrv).body
    assert found is not None
    return found


@pytest.mark.parametrize("supported", [False, True])
def test_a_group_without_master_shows_whether_a_slave_may_act(supported: bool) -> None:  # noqa: FBT001
    """Master gone, acting masters allowed, no writable queue: the slave stands as id 0, or as itself."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=supported))
    registry = Registry(V5_4_0)
    take(registry, registration(0, ("T", "U"), acting=True), 0, namesrv)
    take(registry, registration(1, ("T", "U"), acting=True), 1, namesrv)
    with_master = RouteAnswer("before", 20, 21, "T", body_of(registry, namesrv))
    take(registry, events.UnregisterBroker("C", "10.0.0.1:10911", "broker-a", 0), 2, namesrv)
    without = RouteAnswer("after", 40, 41, "T", body_of(registry, namesrv))
    nameless = Membership(2, None, "10.0.0.2:10911", 1)  # beside the others in one list of clusters
    members = [Membership(1, "broker-a", "10.0.0.1:10911", 0), Membership(2, "broker-a", "10.0.0.2:10911", 1), nameless]
    assert list(acting_master_votes([with_master, without], members)) == [
        Vote("support_acting_master", supported, 41, "after")
    ]


def test_what_says_nothing_about_acting_masters() -> None:
    """Writable queues, groups that do not allow it, member questions, and a slave that has become the master."""
    group = {"brokerName": "broker-a", "enableActingMaster": True, "brokerAddrs": {"1": "s:1"}}

    def route(topic: str = "T", perm: int = 4, **other: object) -> RouteAnswer:
        queues = [{"brokerName": "broker-a", "perm": perm, "readQueueNums": 4, "writeQueueNums": 4}]
        body = json.dumps({"brokerDatas": [{**group, **other}], "queueDatas": queues}, separators=(",", ":"))
        return RouteAnswer("a", 20, 21, topic, body)

    promoted = [Membership(1, "broker-a", "s:1", 1), Membership(9, "broker-a", "s:1", 0)]
    assert counted(acting_master_votes([route()], [])) == {False: 1}
    assert counted(acting_master_votes([route(), route()], [])) == {False: 2}
    for silent in (
        route(perm=6),
        route(enableActingMaster=False),
        route("rmq_sys_SYNC_BROKER_MEMBER_broker-a"),
        route(brokerAddrs={"0": "s:1"}),
        route()._replace(body='{"enableActingMaster":true'),  # not to be read
    ):
        assert not counted(acting_master_votes([silent], promoted))


def test_closes_of_expired_brokers_show_the_scan_period() -> None:
    """On one grid, none later than a period: the default if more fit than not, else the longest that nearly all fit.

    Those later than every usual period say nothing.
    """

    def votes(*late: tuple[int, int]) -> Counter[object]:
        return counted(scan_period_votes([Expiry(s * SECOND, f"e{s}", ms) for s, ms in late], 5_000))

    assert votes((100, 2_000), (135, 4_900)) == {5_000: 2}
    assert votes((100, 2_000), (132, 900)) == {2_000: 2}
    assert votes((100, 14_000), (130, 29_000)) == {30_000: 2}
    assert votes((100, 14_000)) == votes((100, 10_000_000), (130, 10_000_000)) == {}
    assert votes((100, 2_000), (132, 900), (135, 900)) == {5_000: 2}
    assert votes((100, 14_000), (130, 29_000), (161, 2_000), (190, 20_000), (220, 3)) == {30_000: 4}


@pytest.mark.parametrize(
    ("at_ms", "known_us", "phases"),
    [
        ([100_000, 115_003, 130_001], None, {0: 3}),
        ([100_003, 115_000, 130_007], None, {0: 2, 7_000: 1}),
        ([100_003, 115_006, 130_004, 100_500], None, {3_000: 3, 500_000: 1}),
        ([115_064, 100_003], None, {3_000: 1}),
        ([115_064, 100_003, 130_007], None, {3_000: 1}),
        ([115_364, 100_003], None, {3_000: 1, 364_000: 1}),
        ([100_003], 1_000, {1_000: 1}),
        ([100_003], 4_999_999, {3_000: 1}),
        ([100_003, 115_002], 2_000_000, {2_000: 2}),
        ([], 2_000_000, {}),
    ],
)
def test_first_closes_of_scans_show_their_phase(at_ms: list[int], known_us: int | None, phases: dict[int, int]) -> None:
    """Within a timer's jitter they say the same: the earliest of most, or what is known; others contradict it, or are late."""
    expiries = [Expiry(ms * MS, f"e{ms}", 1) for ms in at_ms]
    assert counted(scan_phase_votes(expiries, 5_000, known_us)) == phases


def test_a_packet_that_was_sent_again_says_nothing_of_the_phase() -> None:
    """A scan closes within a period of the lease's end: what is seen 53 s later was lost when it ran."""
    late, seen = Expiry(60_700 * MS, "late", 53_000), Expiry(90_200 * MS, "seen", 4_000)
    assert counted(scan_phase_votes([late], 5_000)) == {}
    assert counted(scan_phase_votes([late, seen], 5_000)) == {200_000: 1}


def test_the_first_close_of_each_scan_tells_when_it_ran() -> None:
    """The others follow each other closely, however many."""
    at_ms = [500, 590, 680, 781, 5_000]
    assert first_of_scans([Expiry(ms * MS, "e", 1) for ms in reversed(at_ms)]) == [
        Expiry(ms * MS, "e", 1) for ms in (500, 781, 5_000)
    ]


def test_votes_are_counted_by_process_until_the_first_change() -> None:
    """What comes after a recorded change speaks for the change; what is seen twice counts once."""
    lives = [Life(100), Life(900)]
    update = Statement(500, "u", {"x": True}, changes=True)
    votes = [Vote("x", True, seq, f"a{seq}") for seq in (50, 200, 200, 600, 950)]
    found = count_votes(votes, lives, [update])
    assert [(v.life_seq, v.answers, v.evidence) for v in found] == [(100, 2, ("a50", "a200")), (900, 1, ("a950",))]
    many = count_votes([Vote("x", True, seq, f"a{seq}") for seq in range(101, 140)], lives)
    assert (many[0].answers, many[0].evidence) == (39, ("a101", "a102", "a103", "a104", "a105"))


@pytest.mark.parametrize(
    ("members", "votes"),
    [
        ([(1, 1)], {True: 1}),
        ([(1, 1), (50, 0)], {True: 1}),
        ([(1, 1), (25, 0)], {}),
        ([(1, 0), (25, 1)], {}),
        ([(1, 1), (25, 1)], {True: 1}),
        ([(50, 1)], {}),
    ],
)
def test_an_id_that_changes_while_the_question_is_answered_says_nothing(
    members: list[tuple[int, int]], votes: dict[bool, int]
) -> None:
    """What is registered after the answer does not count, and what is between request and answer must agree."""
    group = '{"brokerAddrs":{"0":"s:1"},"brokerName":"broker-a","enableActingMaster":true}'
    data = '{"brokerName":"broker-a","perm":4,"readQueueNums":4,"writeQueueNums":4}'
    body = f'{{"brokerDatas":[{group}],"queueDatas":[{data}]}}'
    memberships = [Membership(seq, "broker-a", "s:1", broker_id) for seq, broker_id in members]
    assert counted(acting_master_votes([RouteAnswer("a", 20, 30, "T", body)], memberships)) == votes


def test_what_the_server_says_of_itself_ends_no_count() -> None:
    """Only a change does: votes on both sides of an answer to GET_NAMESRV_CONFIG are counted."""
    said = Statement(500, "g", {"x": True}, changes=False)
    (found,) = count_votes([Vote("x", True, 200, "a"), Vote("x", True, 600, "b")], [Life(100)], [said])
    assert (found.answers, found.evidence) == (2, ("a", "b"))
