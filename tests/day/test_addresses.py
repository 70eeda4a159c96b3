"""Which addresses are one name server's, by its answers; and what is then told once of them all."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from namesrv_day.across import addresses
from namesrv_day.across.addresses import (
    BEATS,
    DOUBTED,
    ENDS,
    ENOUGH,
    MAX_ANSWERS,
    PLACED,
    REGISTERED,
    TOLD,
    Pair,
    Telling,
    may_be_one,
    own_positions,
    sampled,
    shared,
    taken_as_one,
    told_once,
)

S = 1_000_000_000
LATE = 200 * S  # a lease of 120 s after the beginning
A, B, Q = "10.0.0.1:9876", "[fd00::1]:9876", "10.0.0.2:9876"
ANSWERS = ("namesrv_id", "code", "subject", "request_seq", "seq", "event_id", "body", "response_version")


def cluster(*addrs: str) -> str:
    """Return an answer that shows brokers."""
    return '{"brokerAddrTable":{"b":{"brokerAddrs":{' + ",".join(f'{n}:"{a}"' for n, a in enumerate(addrs)) + "}}}}"


class Recorded:
    """What is recorded: registrations every 10 s for 400 s, by name server, and answers."""

    def __init__(self, **brokers: tuple[str, ...]) -> None:
        self.beats: list[dict[str, Any]] = []
        self.registered: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.topics: list[dict[str, str]] = []
        for broker, names in brokers.items():
            for name in names:
                own = {"namesrv_id": name, "broker_addr": broker}
                self.beats.append({**own, "first_seq": 0, "last_seq": 400 * S})
                said = {"broker_name": broker, "broker_id": 0, "channel_id": f"{broker}@{name}", "lease_ms": 120_000}
                self.registered += [
                    {**own, **said, "topic_config_digest": broker, "received": at * S, "seq": at * S}
                    for at in range(0, 400, 10)
                ]
        for name in (A, B, Q):
            self.beats.append({"namesrv_id": name, "broker_addr": None, "first_seq": 0, "last_seq": 400 * S})

    def asked(
        self,
        name: str,
        body: str | None,
        *,
        count: int,
        at: int = LATE,
        topic: str | None = None,
        version: int = 493,
    ) -> None:
        """Add answers, a second apart."""
        for n in range(count):
            seq = at + n * S + S // 2
            code = 106 if topic is None else 105
            values = (name, code, topic, seq, seq + 1_000_000, f"{name} {at} {n} {topic}", body, version)
            self.answers.append(dict(zip(ANSWERS, values, strict=True)))

    def pairs(self, at_a_time: int = 1_000) -> dict[tuple[str, str], Pair]:
        """Return what answers say; so many rows are taken in at a time."""
        texts = {name: pa.string() for name in ANSWERS}
        numbers = {"code": pa.int32(), "request_seq": pa.int64(), "seq": pa.int64(), "response_version": pa.int32()}
        answers = pa.Table.from_pylist(self.answers, pa.schema(texts | numbers))
        telling = Telling(pa.Table.from_pylist(self.beats, BEATS), answers)
        for at in range(0, len(self.registered), at_a_time):
            telling.registered(pa.Table.from_pylist(self.registered[at : at + at_a_time], REGISTERED))
        for at in range(0, len(self.ends), at_a_time):
            telling.ended(pa.Table.from_pylist(self.ends[at : at + at_a_time], ENDS))
        columns = pa.schema({"topic_config_digest": pa.string(), "topic": pa.string()})
        found = telling.compared(pa.Table.from_pylist(self.topics, columns))
        return {(pair.one, pair.other): pair for pair in found}


def test_answers_that_show_the_others_brokers_speak_for_one_process() -> None:
    """`b` has registered at B alone, and every answer at A shows it."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, cluster("a", "b"), count=ENOUGH)
    pair = recorded.pairs()[A, B]
    assert (pair.answers_for, pair.answers_against, pair.at_both, pair.is_likely) == (ENOUGH, 0, 0, True)
    assert len(pair.evidence) == 5


def test_two_that_answer_as_different_releases_are_not_one() -> None:
    """However much they show of each other's brokers; one that was replaced by another release still is."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, cluster("a", "b"), count=ENOUGH)
    recorded.asked(B, cluster("a", "b"), count=ENOUGH, version=407)
    assert recorded.pairs()[A, B].is_denied
    recorded.asked(A, cluster("a", "b"), count=1, at=10 * LATE, version=407)
    assert recorded.pairs()[A, B].is_likely


def test_too_few_answers_are_thin() -> None:
    """One less than needed is doubtful, not likely."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, cluster("a", "b"), count=ENOUGH - 1)
    pair = recorded.pairs()[A, B]
    assert (pair.is_likely, pair.is_doubtful) == (False, True)


def test_early_answers_may_show_what_was_before_the_recording() -> None:
    """Within a lease of the beginning an answer counts for doubt alone."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, cluster("a", "b"), count=DOUBTED, at=50 * S)
    pair = recorded.pairs()[A, B]
    assert (pair.answers_for, pair.answers_early, pair.is_likely, pair.is_doubtful) == (0, DOUBTED, False, True)


def test_answers_that_lack_the_others_brokers_deny_it() -> None:
    """At one of the two addresses `b` is shown, at the other `a` never is: two processes, of which one knew `b` before."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, cluster("a", "b"), count=100)
    recorded.asked(B, cluster("b"), count=5)
    pair = recorded.pairs()[A, B]
    assert (pair.answers_for, pair.answers_against, pair.is_denied) == (100, 5, True)


def test_a_route_lacks_only_who_has_the_topic() -> None:
    """Of a route no more is asked than that it shows a master that has just registered the topic."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, cluster("a"), count=100, topic="T")
    assert (A, B) not in recorded.pairs()
    recorded.topics = [{"topic_config_digest": "b", "topic": "T"}]
    assert recorded.pairs()[A, B].answers_against == 100
    recorded.answers.clear()
    recorded.asked(A, None, count=7, topic="T")  # there is no route at all
    assert recorded.pairs()[A, B].answers_against == 7


@pytest.mark.parametrize("left", ["close", "unregistration"])
def test_a_broker_that_has_left_is_not_missed(left: str) -> None:
    """An answer after its connection ended, or it unregistered, says nothing."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.registered = [row for row in recorded.registered if row["seq"] <= LATE]
    end = {"close": {"channel_id": f"b@{B}"}, "unregistration": {"broker_addr": "b"}}[left]
    recorded.ends.append({"namesrv_id": B, "seq": LATE + S // 4, **end})
    recorded.asked(A, cluster("a"), count=1)
    assert (A, B) not in recorded.pairs()


def test_what_was_registered_in_a_stall_or_before_it_is_not_missed() -> None:
    """A frozen server that thaws may handle the end of a broker's connection last: only what it takes afterwards must show."""
    recorded = Recorded(a=(A,), b=(B,))
    stalled = [row for row in recorded.registered if row["broker_addr"] == "b" and row["seq"] == LATE]
    for row in stalled:
        row["seq"] = LATE + 5 * S
    recorded.asked(A, cluster("a"), count=4, at=LATE + 5 * S)
    assert (A, B) not in recorded.pairs()
    recorded.asked(A, cluster("a"), count=4, at=LATE + 10 * S)
    assert recorded.pairs()[A, B].answers_against == 4


def test_two_brokers_of_one_name_and_id_are_no_evidence() -> None:
    """They take each other's place."""
    recorded = Recorded(a=(A,), b=(B,), c=(B,))
    for row in recorded.registered:
        row["broker_name"] = "same" if row["broker_addr"] in ("b", "c") else "a"
    recorded.asked(A, cluster("a", "b"), count=10)
    assert (A, B) not in recorded.pairs()


def test_who_takes_anothers_place_is_known_from_registrations_that_tell_nothing() -> None:
    """`c` has registered long before every answer, and under the name and id of `b`: from then on `b` is no evidence."""
    recorded = Recorded(a=(A,), b=(B,), c=(B,))
    for row in recorded.registered:
        row["broker_name"] = "same" if row["broker_addr"] in ("b", "c") else "a"
    recorded.registered = [row for row in recorded.registered if row["broker_addr"] != "c" or row["seq"] == 0]
    recorded.asked(A, cluster("a"), count=10)
    assert (A, B) not in recorded.pairs()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_out_tells_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at some by some, without what no answer can show, registrations tell what all of them together do."""
    random, recorded = Random(seed), Recorded(a=(A, Q), b=(A, B), c=(B,), d=(Q,), e=(A, B, Q))
    recorded.registered = random.sample(recorded.registered, 60)
    for row in recorded.registered:
        row["received"] -= random.choice((0, 0, 0, 5 * S))
        row["lease_ms"] = random.choice((10_000, 120_000))
        row["topic_config_digest"] = random.choice("xy")
    recorded.topics = [{"topic_config_digest": "x", "topic": "T"}]
    for _ in range(60):
        name, broker, seq = random.choice((A, B, Q)), random.choice("abcde"), random.randrange(400 * S)
        shown = cluster(*random.sample("abcde", 3))
        recorded.asked(name, shown, count=1, at=seq, topic=random.choice((None, "T")))
        # From a log that lies: it was asked when it had been answered.
        recorded.answers[-1]["request_seq"] += random.choice((0,) * 9 + (60 * S,))
        if random.random() < 0.3:
            left = random.choice(({"channel_id": f"{broker}@{name}"}, {"broker_addr": broker}))
            recorded.ends.append({"namesrv_id": name, "seq": random.randrange(400 * S), **left})
    monkeypatch.setattr(addresses, "REGISTRATIONS_AT_A_TIME", 2)
    some = recorded.pairs(at_a_time=7)
    monkeypatch.setattr(addresses, "REGISTRATIONS_AT_A_TIME", 1_000_000)
    monkeypatch.setattr(addresses._Reach, "of", lambda _, rows: rows)
    monkeypatch.setattr(pa.compute, "is_in", lambda of, value_set: pa.repeat(True, len(of)))  # noqa: ARG005
    assert some == recorded.pairs()
    assert some


def test_brokers_at_both_deny_it() -> None:
    """A broker registers once with a process: who lists two addresses means two."""
    recorded = Recorded(a=(A, Q), b=(A, Q), c=(Q,))
    recorded.asked(A, cluster("a", "b", "c"), count=100)
    pair = recorded.pairs()[Q, A] if (Q, A) in recorded.pairs() else recorded.pairs()[A, Q]
    assert (pair.answers_for, pair.at_both, pair.is_denied) == (100, 2, True)


def test_nothing_is_looked_at_where_all_brokers_are_everywhere() -> None:
    """That is how name servers are meant to be used."""
    everywhere = pa.Table.from_pylist(Recorded(a=(A, Q), b=(A, Q)).beats, BEATS)
    assert not may_be_one(everywhere.filter(pa.compute.field("namesrv_id") != B))
    assert may_be_one(everywhere)  # B answers, and nobody registers there


def pair(one: str, other: str, *, against: int = 0, denied: bool = False) -> Pair:
    """Return a pair that 100 answers speak for."""
    return Pair(one, other, 100, 0, against, 1, 0, denied, (), 0, 0)


def test_an_address_that_may_be_two_others_is_neither() -> None:
    """Clients' address of a fleet that beats to two: as long as nothing tells these apart, nobody knows whose it is."""
    apart = pair(A, Q, denied=True)
    assert taken_as_one([pair(A, B), pair(B, Q), apart]) == []
    assert taken_as_one([pair(A, B), pair(B, Q, against=3), apart]) == [[A, B]]
    assert sorted(taken_as_one([pair(A, B), pair(B, Q)])[0]) == sorted([A, B, Q])


def test_answers_that_go_back_and_forth_are_several_processes() -> None:
    """A change that takes back the one before, time and again, is none of one registry."""
    bodies = ["x", "y"] * ENOUGH
    changing = [f"state {n}" for n in range(40)]
    rows = [(name, n, f"{name} {n}", body) for name, of in ((A, bodies), (B, changing)) for n, body in enumerate(of)]
    names = ("namesrv_id", "seq", "event_id", "body")
    (found,) = shared(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))
    assert (found.one, found.other, found.answers_against) == (A, A, 2 * ENOUGH - 2)


# -- facts -------------------------------------------------------------------------------------------------------------


def fact(address: str, seconds: float, kind: str, properties: str | None = None) -> dict[str, Any]:
    """Return a fact; it is called after its address and kind."""
    return {
        "event_id": f"{address} {kind} {seconds}",
        "namesrv_addr": address,
        "seq": round(seconds * S),
        "kind": kind,
        "properties": properties,
    }


def kinds_of(facts: list[dict[str, Any]], answered: dict[str, list[int]], *, is_up: bool | None = None) -> list[str]:
    """Return the kinds of facts as they are told once."""
    changed = told_once(facts, answered, is_up=is_up)
    return [changed.get(one["event_id"], one["kind"]) for one in facts]


def test_a_restart_that_both_addresses_show_is_one() -> None:
    """The first stop and the first start count, whichever address shows them."""
    facts = [
        fact(A, 0, "started"),
        fact(B, 1, "observed_from"),
        fact(B, 100, "stopped"),
        fact(A, 100.01, "stopped"),
        fact(A, 110, "started"),
        fact(B, 110.4, "started"),
    ]
    answered = {A: [50 * S, 100 * S, 112 * S], B: [60 * S, 113 * S]}
    wanted = ["started", "address_observed_from", "stopped", "address_stopped", "started", "address_started"]
    assert kinds_of(facts, answered) == wanted
    again = [{**one, "kind": kind} for one, kind in zip(facts, wanted, strict=True)]
    assert kinds_of(again, answered) == wanted


def test_an_address_that_goes_is_no_stop_while_another_one_answers() -> None:
    """A forwarding that was taken away refuses connections; the process lives."""
    facts = [fact(B, 100, "stopped"), fact(B, 200, "started")]
    assert kinds_of(facts, {A: [150 * S], B: [250 * S]}, is_up=True) == ["address_stopped", "address_started"]
    assert kinds_of(facts, {A: [250 * S], B: [260 * S]}, is_up=True) == ["stopped", "started"]


def test_a_gap_is_one_only_if_all_addresses_are_silent() -> None:
    """Nothing recorded at one address is no gap of the recording while something is at another."""
    gap = fact(A, 100, "recording_gap", f"until_ms={500_000}")
    assert kinds_of([gap], {B: [300 * S]}) == ["address_recording_gap"]
    assert kinds_of([gap, fact(B, 150, "recording_gap", f"until_ms={490_000}")], {B: [600 * S]}) == [
        "recording_gap",
        "address_recording_gap",
    ]


def test_positions_are_own_ones() -> None:
    """What was met elsewhere gives way, behind the last event of its microsecond."""
    rows = [(A, A, "a", 1_000_001), (A, B, "b", 1_000_001), (A, A, "c", 1_000_005), (Q, Q, "d", 1_000_001)]
    events = pa.Table.from_pylist([dict(zip(PLACED.names, row, strict=True)) for row in rows], PLACED)
    assert own_positions(events) == {"b": 1_000_006}


def test_questions_for_topics_that_nobody_has_crowd_no_answer_out() -> None:
    """However often a stranger asks, what is looked at is what tells something; of that it may be a part."""
    told, beyond = list(range(0, 2 * MAX_ANSWERS, 2)), 2 * MAX_ANSWERS
    shown, gone = (A, 105, "T", True, told), (A, 105, "T", False, [beyond])
    strange = [(A, 105, name, False, list(range(1, beyond, 2))) for name in ("no such topic", None)]
    of_all, of_other = (A, 106, None, True, [7]), (B, 105, "T", True, [5, 3])

    def kept(*rows: tuple[object, ...]) -> list[tuple[str, int]]:
        found = sampled(pa.Table.from_pylist([dict(zip(TOLD.names, row, strict=True)) for row in rows], TOLD))
        return list(zip(*found.to_pydict().values(), strict=True))

    assert kept(shown, *strange) == kept(shown) == [(A, seq) for seq in told]
    assert kept(*strange, shown, gone) == kept(shown, gone) == [(A, seq) for seq in [*told, beyond][::2]]
    assert (A, beyond) in kept((A, 105, "T", True, told[:5]), gone, *strange)
    assert kept(of_all, shown, of_other) == [(A, 7), *((A, seq) for seq in told), (B, 3), (B, 5)]
    assert kept() == kept(*strange) == []
