"""Answers amid changes that were under way together."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Answer, Namesrv, Question, Registry
from namesrv_core.asking.answers import answer
from namesrv_core.history import overtaking
from namesrv_core.history.intervals import StateChange
from namesrv_core.history.overtaking import MOST, differing, overtaken
from namesrv_core.history.verification import Concerns, Observed, answer_of, verify
from namesrv_core.machine.events import QueryDataVersion
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.registry import Change
from namesrv_core.machine.rows import BrokerData, BrokerLiveInfo, DataVersion, LiveKey, QueueData

QUEUES = QueueData(4, 4, 6, 0)


def made(seq: int, *changes: Change, arrival_seq: int = 10) -> StateChange:
    """Return what a request changed that had arrived early."""
    return StateChange(seq, arrival_seq, changes)


def topic(seq: int, name: str, broker: str = "b", arrival_seq: int = 10) -> StateChange:
    """Return a change that puts a topic."""
    return made(seq, Change("topic_queue_table", (name, broker), QUEUES), arrival_seq=arrival_seq)


def listed(*names: str, request_seq: int = 20, seq: int = 50) -> Observed:
    """Return an answer to a question for all topics."""
    return Observed(
        "a",
        request_seq,
        seq,
        Question(206),
        Answer(0, f'{{"topicList":[{",".join(map(repr, names))}]}}'.replace("'", '"')),
    )


def are_right(timeline: list[StateChange], *observations: Observed, starts: tuple[int, ...] = ()) -> set[str]:
    """Return the ids of answers that are right as the changes are ordered, or in another order."""
    found = verify(Registry(V4_9_7), timeline, observations, Namesrv(), starts=starts)
    concerns = Concerns(Registry(V4_9_7), timeline, starts)
    told = overtaken(Registry(V4_9_7), timeline, found, Namesrv(), concerns, starts=starts)
    assert all(verdict.matched and verdict.in_flight for verdict in told.values())
    return {verdict.observed.event_id for verdict in found if verdict.matched} | set(told)


@pytest.mark.parametrize("shown", ["", "T", "U", "V", "TU", "TV", "UV", "TUV"])
def test_any_of_the_changes_under_way_may_show(shown: str) -> None:
    """Three requests arrived before the question, and all were answered after it; what never was under way may not."""
    timeline = [topic(100 + n, name) for n, name in enumerate("TUV")]
    assert are_right(timeline, listed(*shown)) == {"a"}
    assert are_right(timeline, listed(*shown, "W")) == set()


def test_what_was_done_before_the_question_must_show_and_what_had_not_arrived_may_not() -> None:
    """Of two that were under way the second one alone may; with either of the others it is wrong."""
    timeline = [topic(15, "S"), topic(100, "T"), topic(101, "U"), topic(102, "V", arrival_seq=60)]
    assert are_right(timeline, listed("S", "U")) == {"a"}
    assert are_right(timeline, listed("U")) == set()
    assert are_right(timeline, listed("S", "U", "V")) == set()


def test_what_an_answer_has_shown_later_ones_must_show() -> None:
    """Whatever else is under way; an answer to a question that was asked before that need not."""
    timeline = [topic(100, "T"), topic(101, "U"), topic(102, "V")]
    first = listed("T", request_seq=20, seq=30)._replace(event_id="first")
    for request_seq, shown, right in ((35, "V", {"first"}), (35, "TV", {"first", "a"}), (25, "V", {"first", "a"})):
        assert are_right(timeline, first, listed(*shown, request_seq=request_seq, seq=50)) == right


def test_a_change_of_the_same_row_comes_only_behind_the_first() -> None:
    """A topic that was put and taken again was there in between, and was not taken before it was put."""
    gone = made(101, Change("topic_queue_table", ("T", "b"), None))
    timeline = [topic(100, "T"), gone, topic(102, "U")]
    assert are_right(timeline, listed("T", "U")) == {"a"}
    assert are_right(timeline, listed("U")) == {"a"}


def test_a_start_in_between_is_left_alone() -> None:
    """A process that starts has nothing under way."""
    timeline = [topic(100, "T"), topic(101, "U")]
    assert are_right(timeline, listed("U"), starts=(101,)) == set()


def test_of_very_many_changes_those_that_an_answer_shows_are_found() -> None:
    """The combinations would be too many. What was never under way, or was shown before and is missing, stays wrong."""
    names = [f"T{n:02}" for n in range(4 * MOST)]
    timeline = [topic(100 + n, name) for n, name in enumerate(names)]
    for shown in ([], names[-1:], names[::3], names[1:]):
        assert are_right(timeline, listed(*shown)) == {"a"}
        assert are_right(timeline, listed(*shown, "W")) == set()
    first = listed("T00", request_seq=20, seq=30)._replace(event_id="first")
    assert are_right(timeline, first, listed(*names[3::3], request_seq=35)) == {"first"}
    assert are_right(timeline, first, listed("T00", *names[3::3], request_seq=35)) == {"first", "a"}


def test_what_several_of_very_many_changes_put_is_found() -> None:
    """Each puts a topic that the one before has put, too: taken away alone, none takes a topic away."""
    pairs = [(f"T{n:02}", f"T{n + 1:02}") for n in range(3 * MOST)]
    timeline = [
        made(100 + n, *(Change("topic_queue_table", (name, f"b{n}"), QUEUES) for name in pair))
        for n, pair in enumerate(pairs)
    ]
    shown = sorted({name for n in (0, 4, 5, 20) for name in pairs[n]})
    assert are_right(timeline, listed(*shown, seq=500)) == {"a"}
    assert are_right(timeline, listed(*shown[1:], seq=500)) == set()


def test_very_many_changes_are_looked_at_for_so_many_answers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes as many states as there are changes."""
    monkeypatch.setattr(overtaking, "_MOST_LOOKED_FOR", 1)
    names = [f"T{n:02}" for n in range(MOST + 1)]
    timeline = [topic(100 + n, name) for n, name in enumerate(names)]
    told = [listed(name)._replace(event_id=name) for name in names[1:4]]
    assert are_right(timeline, *told) == {names[1]}


@pytest.mark.parametrize(
    ("one", "other", "many"), [("{", "{", 0), ("{", "[]", 1 << 20), (None, '{"a":1}', 3), ("[1,2]", "[2,1,3]", 1)]
)
def test_bodies_differ_in_values(one: str | None, other: str, many: int) -> None:
    """What is no JSON is equal, or far away; lists are sets."""
    assert differing(one, other) == differing(other, one) == many


def test_cluster_information_may_be_torn_amid_very_many_changes() -> None:
    """Each of its two tables shows some of them, the second one more."""
    question, namesrv = Question(106), Namesrv(V5_4_0)
    timeline = []
    for n in range(2 * MOST):
        group = BrokerData("C", ((0, f"10.0.0.{n}:10911"),), False)
        there = Change("broker_addr_table", (f"b{n}",), group), Change("cluster_addr_table", ("C", f"b{n}"), True)
        timeline.append(made(200 + n, *there))

    def said(*some: int) -> list[str]:
        state = Registry(V5_4_0)
        for n in some:
            state.apply(timeline[n].changes, 0)
        return (answer(state, question, namesrv).body or "").split(',"clusterAddrTable":')

    few, more = said(3, 7, 11), said(3, 4, 7, 11, 12)
    for one, other, is_torn in ((few, more, True), (more, few, False), (few, few, True)):
        told = Answer(0, ',"clusterAddrTable":'.join((one[0], other[1])))
        found = verify(Registry(V5_4_0), timeline, [Observed("a", 20, 110, question, told)], namesrv)
        concerns = Concerns(Registry(V5_4_0), timeline)
        assert set(overtaken(Registry(V5_4_0), timeline, found, namesrv, concerns)) == ({"a"} if is_torn else set())


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0])
def test_cluster_information_may_be_interrupted(profile: Profile) -> None:
    """It is written from maps and sets that throw when they are changed meanwhile: then something was under way."""
    remark = (
        "java.util.ConcurrentModificationException, java.base/java.util.HashMap$HashIterator.nextNode(HashMap.java:1)"
    )
    put = made(100, Change("cluster_addr_table", ("C", "b"), True))
    for timeline, is_right in (([put], True), ([], False)):
        one = Observed("a", 20, 50, Question(106), Answer(1, None, remark))
        found = verify(Registry(profile), timeline, [one], Namesrv(profile))
        told = overtaken(Registry(profile), timeline, found, Namesrv(profile), Concerns(Registry(profile), timeline))
        assert set(told) == ({"a"} if is_right else set())


def test_an_answer_about_a_version_may_be_torn_by_a_registration() -> None:
    """It says that nothing is known, and shows what came meanwhile; it does not know a version that it does not show."""
    version, key = DataVersion(0, 1, 1), LiveKey("C", "10.0.0.1:10911")
    live = Change("broker_live_table", key, BrokerLiveInfo(version, 120_000, "c", None))
    asked, namesrv = QueryDataVersion("C", "10.0.0.1:10911", version), Namesrv(V5_4_0)
    told = {}
    for is_there in (False, True):
        state = Registry(V5_4_0)
        state.apply([live] * is_there, 0)
        told[is_there] = answer_of(state, asked, namesrv)
    assert told[False].fields != told[True].fields
    timeline = [made(100, live)]
    torn = Observed("a", 20, 110, asked, told[False]._replace(body=told[True].body))
    opposite = torn._replace(answered=told[True]._replace(body=told[False].body))
    for one, is_torn in ((torn, True), (opposite, False)):
        (found,) = verify(Registry(V5_4_0), timeline, [one], namesrv)
        assert not found.matched
        concerns = Concerns(Registry(V5_4_0), timeline)
        assert set(overtaken(Registry(V5_4_0), timeline, [found], namesrv, concerns)) == ({"a"} if is_torn else set())
