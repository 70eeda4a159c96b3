"""A name server that stood still: where what had come meanwhile takes effect."""

from __future__ import annotations

import pytest

from namesrv_core import V5_4_0, Answer, Question
from namesrv_core.history.verification import Observed
from namesrv_core.inference.decisions import Placed, replayed
from namesrv_core.inference.races import Day
from namesrv_core.machine import events
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule, Stall
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_core.replay.loop import TimedEvent
from tests.core.test_decisions import MS, A, B, at, close, day, decide, evidence, explained_by, registration, topics

THAW = 5_000


def frozen(given: Day) -> Day:
    """Return a day on which the name server stands still from second 2 to second 5."""
    period = given.namesrv.scan_period_ms
    return given._replace(
        schedule=ScanSchedule([ScanEpoch(0, 0)], period, stalls=[Stall(2_000 * MS, THAW * MS)]), until_seq=60_000 * MS
    )


def version(
    ms: float, event_id: str, counter: int, queues: int, *, channel: str = "c0", addr: str = A, broker_id: int = 0
) -> TimedEvent:
    """Return a registration of broker-a with a version, and so many queues."""
    told = TopicTable([TopicConfig("T", queues, queues, 6, 0), TopicConfig("TBW102", 8, 8, 7, 0)])
    data_version = DataVersion(0, counter, counter)
    return at(
        ms,
        event_id,
        events.RegisterBroker("C", addr, "broker-a", broker_id, None, data_version, told, None, channel, False),
    )


def route(queues: int, addrs: str = f'"0":"{A}"') -> Answer:
    """Return the 5.x answer to a question about T."""
    group = f'{{"brokerAddrs":{{{addrs}}},"brokerName":"broker-a","cluster":"C","enableActingMaster":false}}'
    queue = '{"brokerName":"broker-a","perm":6,"readQueueNums":%,"topicSysFlag":0,"writeQueueNums":%}'
    shown = queue.replace("%", str(queues))
    return Answer(0, f'{{"brokerDatas":[{group}],"filterServerTable":{{}},"queueDatas":[{shown}]}}')


def leased(timed: TimedEvent, lease_ms: int) -> TimedEvent:
    """Return a registration with a lease of its own."""
    assert isinstance(timed.event, events.RegisterBroker)
    return timed._replace(event=timed.event._replace(heartbeat_timeout_ms=lease_ms))


def asked(ms: float, event_id: str, question: Question, answered: Answer, since_ms: float | None = None) -> Observed:
    return Observed(
        event_id, round((ms if since_ms is None else since_ms) * MS), round(ms * MS) + 1, question, answered
    )


def unmatched(given: Day) -> set[str]:
    """Return the answers that a day, as it is decided, does not explain."""
    moves = {placed.event_id: placed for placed in decide(given)[1]}
    taken = sorted(
        _placed(timed, moves[timed.event_id]) if timed.event_id in moves else timed for timed in given.timed_events
    )
    explained = explained_by(given._replace(timed_events=taken))
    return {observed.event_id for observed in given.observations()} - explained


def _placed(timed: TimedEvent, placed: Placed) -> TimedEvent:
    event = timed.event
    if isinstance(event, events.ChannelDestroyed):
        event = event._replace(looked_up=placed.looked_up)
    return timed._replace(seq=placed.seq, event=event)


def test_nothing_takes_effect_while_the_name_server_stands_still() -> None:
    """A connection is reset in the stall, a heartbeat comes in it: both count from its end."""
    burst = [
        registration(1_000, "before", "c1"),
        close(3_000, "reset", "c1"),
        at(3_500, "beat", events.BrokerHeartbeat("C", A)),
        registration(5_001, "again", "c2", topic="U"),
    ]
    waited = asked(THAW, "waited", Question(206), topics("TBW102", "T"), 2_500)
    given = frozen(day(burst, [waited], {"before": 999, "again": 4_000}, V5_4_0))
    decided, moved = decide(given)
    assert moved == [Placed("reset", THAW * MS, None), Placed("beat", THAW * MS + 1, None)]
    assert [evidence(each)[:2] for each in decided] == [("removal_and_registration", 0)]
    assert explained_by(given) == {"waited"}


@pytest.mark.parametrize("ended", [[], ["c1"]])
def test_a_scan_that_is_made_up_for_expires_whose_connection_it_closes(ended: list[str]) -> None:
    """Two leases have ended, and a beat of each has waited: the broker whose connection goes on was renewed before the scan."""
    leases = [
        version(1_000, "a", 1, 4, channel="c1"),
        registration(1_001, "b", "c2", addr=B, name="broker-b", topic="U"),
    ]
    burst = [
        *(leased(each, 2_000) for each in leases),
        at(THAW + 2, "of-a", events.BrokerHeartbeat("C", A)),
        at(THAW + 2, "of-b", events.BrokerHeartbeat("C", B)),
        *(close(THAW, channel, channel) for channel in ["c2", *ended]),
    ]
    shown = topics() if ended else topics("TBW102", "T")
    given = frozen(
        day(burst, [asked(THAW + 500, "later", Question(206), shown)], {"of-a": 3_000, "of-b": 3_000}, V5_4_0)
    )
    schedule = ScanSchedule([ScanEpoch(0, -1_000 * MS)], 5_000, [THAW * MS], given.schedule.stalls)
    assert unmatched(given._replace(schedule=schedule)) == set()


def test_a_scan_that_a_stall_held_up_judges_leases_when_the_stall_ends() -> None:
    """It comes behind what waited, three tenths of a second later, and leaves the lease that ended only then to the next scan."""
    life = [registration(4_000, "a"), registration(6_100, "b", "c1", addr=B, name="broker-b")]
    schedule = ScanSchedule([ScanEpoch(0, 0)], 10_000, stalls=[Stall(124_000 * MS, 126_000 * MS)])
    given = day(life, [], {"a": 3_999, "b": 6_099})._replace(schedule=schedule)
    for until, left in [(126_299, [A, B]), (126_301, [B]), (134_999, [B]), (135_001, [])]:
        there = given.start.copy()
        replayed(given, there, life, (0, until * MS))
        assert [key.broker_addr for key in there.broker_live_table] == left
