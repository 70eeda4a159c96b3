"""Answers that say again what was said: what is kept of them changes no result, whatever an adversary sends between them."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig, Outcome, Question, Registry, Step, answer, take
from namesrv_core.asking.shown import SHORT_BODY, ShownRoute, ShownTopics, same_json, shown_by
from namesrv_core.history.intervals import Histories, StateChange
from namesrv_core.history.verification import Observed, Verdict, verify
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer
from namesrv_core.machine.past import ANY, Entity, Fact, Mark, Past, Versions
from namesrv_core.machine.registry import Change
from namesrv_core.machine.tables import LiveKey
from namesrv_core.replay import loop
from tests.core.adversary import EVENTS, PAUSES_MS, understood_by
from tests.core.test_unknown_past import (
    CLUSTER_INFO,
    FOUR,
    ROUTE,
    SETTLED_MS,
    TOPIC_LIST,
    V1,
    V2,
    A,
    B,
    Server,
    past_of,
    register,
    server_with,
    topics,
)  # fmt: skip
from tests.core.test_verification_concerns import QUERIES, QUESTIONS
from tests.examples import examples

NAMESRVS = st.builds(
    Namesrv,
    st.sampled_from([V4_9_7, V5_4_0]),
    st.builds(NamesrvConfig, support_acting_master=st.booleans(), order_message_enable=st.booleans()),
)
ORDER_CONFS = st.builds(
    events.PutKvConfig, st.just("ORDER_TOPIC_CONFIG"), st.sampled_from(["T0", "T1"]), st.sampled_from(["a:4", "b:8"])
)
FEW = [question for question in QUESTIONS if question.scope is None]
# What the server did: recorded or not. And what it was asked, most of it again and again; sometimes it answers as another would.
DONE = st.tuples(st.one_of(EVENTS, EVENTS, EVENTS, ORDER_CONFS), st.sampled_from([True, True, True, False]))
ASKED = st.tuples(
    st.sampled_from([Question(105, "T0"), Question(105, "T0"), Question(105, "T0", standard_json=False), *FEW]),
    st.integers(0, 20),
    st.sampled_from([0, 0, 0, 0, 1]),
)
LOGS = st.lists(st.tuples(PAUSES_MS, st.one_of(DONE, ASKED, ASKED)), min_size=10, max_size=80)


def recorded(namesrv: Namesrv, log: list[tuple[int, Any]]) -> list[tuple[int, events.Event]]:
    """Return the events of a recording of a server that had a past, with their times."""
    true, other = Registry(namesrv.profile), Registry(namesrv.profile)
    at_ms, found = 1_000, list[tuple[int, events.Event]]()
    for pause_ms, (what, *how) in log:
        at_ms += pause_ms
        if not isinstance(what, Question):
            if understood_by(namesrv, what):
                take(true, what, at_ms, namesrv)
                if how[0]:
                    found.append((at_ms, what))
                else:
                    take(other, what, at_ms, namesrv)
        else:
            said = answer((true, other)[how[1]], what, namesrv)
            found.append((at_ms, events.AnswerObserved(what, said, (at_ms - how[0]) * 1_000_000)))
    return found


def replayed(
    namesrv: Namesrv, log: list[tuple[int, events.Event]], *, alone: bool = False
) -> tuple[list[object], set[Fact], Registry]:
    """Return what each event did and left in the histories, what is known at the end, and the registry then.

    `alone`: nothing is kept of an answer for the next one, and each is read.
    """
    registry, histories = Registry(namesrv.profile), Histories()
    registry.past = Past(1_000)
    found: list[object] = []
    for seq, (at_ms, event) in enumerate(log):
        if alone and registry.past is not None:
            registry.past.readings.clear()
            registry.past.groups_read.clear()
        with patch.object(loop, "pickup_topic_route_data", return_value=None) if alone else nullcontext():
            step = take(registry, event, at_ms, namesrv)
        closed = histories.record(
            step.changes, seq=seq, event_id=str(seq), at_us=at_ms * 1_000 + seq, certainty=step.certainty
        )
        found.append((step.outcome, step.changes, list(closed)))
    found += histories.open_intervals()
    return found, set(registry.past.dump()), registry


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(NAMESRVS, LOGS)
def test_what_was_read_of_an_answer_changes_no_result(namesrv: Namesrv, log: list[tuple[int, Any]]) -> None:
    """Every step, interval, mark and row is the same as where each answer is looked at alone."""
    taken = recorded(namesrv, log)
    found, known, registry = replayed(namesrv, taken)
    alone, known_alone, registry_alone = replayed(namesrv, taken, alone=True)
    assert found == alone
    assert known == known_alone
    assert registry.holds_the_same_as(registry_alone)


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(NAMESRVS, LOGS, st.randoms(use_true_random=False))
def test_an_answer_that_stands_changes_no_verdict(namesrv: Namesrv, log: list[tuple[int, Any]], random: Any) -> None:
    """Verdicts on right and wrong answers are the same as where every state is asked anew."""
    registry, timeline, asked, starts = Registry(namesrv.profile), list[StateChange](), list[Observed](), list[int]()
    for seq, (at_ms, event) in enumerate(recorded(namesrv, log)):
        if isinstance(event, events.AnswerObserved):
            asked.append(Observed(str(seq), max(0, 10 * seq - random.choice([1, 25])), 10 * seq, *event[:2]))
            continue
        step = take(registry, event, at_ms, namesrv)
        timeline.append(StateChange(10 * seq, 10 * seq - random.choice([0, 25]), step.changes))
        if isinstance(event, events.NamesrvStarted):
            starts.append(10 * seq)
    for number, query in enumerate(QUERIES):
        asked.append(Observed(f"q{number}", 0, random.randrange(1, 400), query, Answer(0, None)))

    def verdicts() -> list[Verdict]:
        return verify(Registry(namesrv.profile), timeline, asked, namesrv, starts=starts)

    found = verdicts()
    with patch.object(Versions, "unchanged_since", lambda *_: False):
        assert verdicts() == found


ORDERED = Namesrv(V4_9_7, NamesrvConfig(order_message_enable=True))
BEAT = events.QueryDataVersion("C", A, V1)
ANOTHER = register(addr=B, name="b", table=topics(U=FOUR))
ALTERING: dict[str, events.Event] = {
    "queue data": events.WipeWritePerm("a"),
    "group": register(addr=B)._replace(broker_id=1),
    "filter servers": register()._replace(filter_servers=("10.0.0.9:30000",)),
    "order conf": events.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "a:4"),
    "restart": events.NamesrvStarted(),
}
HARMLESS = {
    "beat": events.BrokerHeartbeat("C", A),
    "version of a live entry": register(version=V2),
    "another topic": events.DeleteTopic("U", None),
    "another namespace": events.PutKvConfig("N", "T", "v"),
    "nothing new": register(),
}


def seen_again(event: events.Event, question: Question) -> tuple[Step, bool]:
    """Return what an answer does that is seen before and after an event, and whether it was compared again then."""
    server, compared = Server(ORDERED), list[loop._Reading]()
    said = server_with(register(), namesrv=ORDERED).says(question)
    server.take(register(), 10)
    for at_ms in (20, 25):
        server.see(question, said, at_ms)
    server.take(event, 30)
    plain = loop._Reading.step

    def noted(reading: loop._Reading) -> Step:
        compared.append(reading)
        return plain(reading)

    with (
        patch.object(loop._Reading, "step", noted),
        patch.object(loop, "shown_by", side_effect=AssertionError("it says the same")),
    ):
        return server.see(question, said, 40), bool(compared)


@pytest.mark.parametrize("event", ALTERING.values(), ids=ALTERING)
def test_what_has_changed_in_the_registry_is_compared_again(event: events.Event) -> None:
    """Each part of the registry that a route is held against."""
    assert seen_again(event, ROUTE)[1]


@pytest.mark.parametrize(
    ("event", "is_compared"), [(ALTERING["group"], True), (ANOTHER, True), (HARMLESS["version of a live entry"], False)]
)
def test_cluster_info_hangs_on_all_groups(event: events.Event, *, is_compared: bool) -> None:
    """Any group, and any set of names; not on what a live entry says."""
    assert seen_again(event, CLUSTER_INFO)[1] is is_compared


@pytest.mark.parametrize("event", HARMLESS.values(), ids=HARMLESS)
def test_an_answer_that_says_the_same_again_is_looked_up(event: events.Event) -> None:
    """What happens elsewhere alters nothing, and the answer teaches nothing new."""
    step, is_compared = seen_again(event, ROUTE)
    assert not is_compared
    assert (step.outcome, step.changes) == (Outcome.NO_EFFECT, ())


def test_of_another_answer_what_it_says_anew_is_taken_over() -> None:
    """A broker that was gone from a route is in it again."""
    server = Server()
    both = server_with(register(), register(addr=B, name="b"))
    for at_ms, true in ((10, both), (30, server_with(register(addr=B, name="b")))):
        for _ in range(2):  # what it corrects changes the registry, which is looked at once more
            server.see(ROUTE, true.says(ROUTE), at_ms)
    server.see(ROUTE, both.says(ROUTE), 50)
    assert server.members("a") == {0: A}


def test_after_a_doubt_an_answer_teaches_again() -> None:
    """It is not read again, but what it shows becomes known once more."""
    server, said = Server(), server_with(register()).says(ROUTE)
    server.take(register(), 10)
    assert server.see(ROUTE, said, 20).result is not None
    assert server.see(ROUTE, said, 30).result is None
    past_of(server).note([Mark(Entity("topic_queue", ANY, "a"), known=False)])
    assert not past_of(server).knows("topic_queue", "T", "a")
    assert server.see(ROUTE, said, 40).result is not None
    assert past_of(server).knows("topic_queue", "T", "a")


def test_what_hangs_on_more_than_the_registry_is_looked_at_again() -> None:
    """A member without a live entry settles when its lease must have ended; a group that may act is compared each time."""
    server, said = Server(), server_with(register()).says(ROUTE)
    server.see(ROUTE, said, 10)
    for at_ms, settled in ((20, False), (SETTLED_MS, True)):
        for again in (0, 1):  # first it may make something known
            assert server.see(ROUTE, said, at_ms + again).outcome == Outcome.NO_EFFECT
        until_ms = past_of(server).readings[ROUTE].compared.until_ms
        assert until_ms == math.inf if settled else at_ms < until_ms < SETTLED_MS
        assert past_of(server).knows("settled", None, A) is settled
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True))
    slave = register()._replace(broker_id=1, enable_acting_master=True)
    acting = Server(namesrv)
    acting.take(slave, 10)
    acting.see(ROUTE, server_with(slave, namesrv=namesrv).says(ROUTE), 20)
    acting.see(ROUTE, server_with(slave, namesrv=namesrv).says(ROUTE), 30)
    assert past_of(acting).readings[ROUTE].compared is None


def test_members_that_beat_meanwhile_settle_later() -> None:
    """Their leases may last longer than when they were looked at first."""
    server, said = Server(), server_with(register()).says(ROUTE)
    for at_ms in (10, 20):
        server.see(ROUTE, said, at_ms)
    until_ms = past_of(server).readings[ROUTE].compared.until_ms
    server.take(BEAT, 100_000)
    assert server.see(ROUTE, said, SETTLED_MS).result is not None  # silence made doubtful what it shows
    server.see(ROUTE, said, SETTLED_MS)
    read = past_of(server).readings[ROUTE]
    assert (read.compared.until_ms, past_of(server).knows("settled", None, A)) == (until_ms + 100_000, False)


def test_a_member_whose_live_entry_has_become_known_settles() -> None:
    """It was there before a gap, and a registration told nothing new: the registry is as it was, what is known is not."""
    server, true = Server(), server_with(register())
    live = true.registry.broker_live_table[LiveKey(None, A)]
    server.registry.apply([Change("broker_live_table", (None, A), live)], 0)
    for at_ms in (10, 20):
        server.see(ROUTE, true.says(ROUTE), at_ms)
    assert past_of(server).readings[ROUTE].compared.until_ms < SETTLED_MS
    past_of(server).note([Mark(Entity("broker_live", None, A))])
    server.take(BEAT, 100_000)
    for _ in range(2):
        server.see(ROUTE, true.says(ROUTE), SETTLED_MS)
    assert past_of(server).readings[ROUTE].compared.until_ms == math.inf
    assert past_of(server).knows("settled", None, A)


def test_only_so_many_questions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question that was asked first for the longest time goes; it is read anew when it comes again."""
    monkeypatch.setattr(loop, "_KEPT_QUESTIONS", 1)
    server, true = Server(), server_with(register())
    server.take(register(), 5)
    for at_ms, question in ((10, ROUTE), (20, TOPIC_LIST), (30, ROUTE)):
        assert server.see(question, true.says(question), at_ms).outcome == Outcome.NO_EFFECT
        assert list(past_of(server).readings) == [question]


def test_long_bodies_are_read_and_compared_as_short_ones() -> None:
    """They are only not kept: lists in another order are the same without order, and so is what they show."""
    names = [f"topic-{number}" for number in range(SHORT_BODY // 8)]
    one, other = (
        '{"topicList":[%s]}' % ",".join(f'"{t}"' for t in order)  # noqa: UP031  braces
        for order in (names, names[::-1])
    )
    assert len(one) > SHORT_BODY
    assert same_json(one, other, ordered=False)
    assert not same_json(one, other, ordered=True)
    assert shown_by(TOPIC_LIST, Answer(0, one)) == ShownTopics(frozenset(names))


def test_an_answer_that_shows_nothing_leaves_what_the_last_one_said() -> None:
    """An error between two equal answers: it teaches nothing, and the second one is looked up."""
    server, said = Server(), server_with(register()).says(ROUTE)
    for at_ms in (10, 20):
        server.see(ROUTE, said, at_ms)
    step = server.see(ROUTE, Answer(1, None, "busy"), 30)
    assert (step.outcome, step.changes) == (Outcome.NO_EFFECT, ())
    assert server.see(ROUTE, said, 40).result is None


def test_a_name_that_looks_like_the_end_of_an_element_is_read_as_a_name() -> None:
    """The text is cut within it, and no piece is an object: the route is read as a whole."""
    said = server_with(register(name="a},{b")).says(ROUTE)
    read = shown_by(ROUTE, said)
    assert isinstance(read, ShownRoute)
    assert list(read.groups) == ["a},{b"]
