"""Which addresses may be one name server's, by its answers; and what is said once of all that are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from namesrv_day.across.addresses import PLACED, own_positions, told_once
from namesrv_day.flags.suspected import ENOUGH, HEARD, REGISTERED, SHARED_FLIPS, TOLD, suspected

S = 1_000_000_000
LATE = 200 * S  # longer than a lease and a scan after the beginning
A, B, Q, V = "10.0.0.1:9876", "[fd00::1]:9876", "10.0.0.2:9876", "10.0.0.9:9876"


class Recorded:
    """What is recorded: registrations every 10 s for 400 s, by name server, and answers that show brokers."""

    def __init__(self, **brokers: tuple[str, ...]) -> None:
        self.registered: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        for broker, names in brokers.items():
            for name in names:
                of = {"namesrv_id": name, "broker_addr": broker, "broker_name": broker, "broker_id": 0}
                self.registered += [{**of, "lease_ms": 120_000, "seq": at * S} for at in range(0, 400, 10)]

    def asked(self, name: str, *brokers: str, count: int = 50, at: int = LATE, every: int = 1) -> None:
        """Add answers that show brokers, a second apart, or `every` so many."""
        for n in range(count):
            seq = at + n * every * S + S // 2
            said = {"seq": seq, "event_id": f"{name} {seq}", "brokers": sorted(brokers)}
            self.told.append({"namesrv_id": name, **said})

    def found(self, *apart: tuple[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what is suspected, by name server and kind."""
        registered = pa.Table.from_pylist(self.registered, REGISTERED)
        told = pa.Table.from_pylist(self.told, TOLD)
        spans = registered.group_by(["namesrv_id", "broker_addr"]).aggregate([("seq", "min"), ("seq", "max")])
        heard = spans.rename_columns(HEARD.names).cast(HEARD)
        rows = suspected(heard, told, lambda: registered, {frozenset(pair) for pair in apart}, ())
        return {(row["namesrv_id"], row["kind"]): row for row in rows.to_pylist()}


def dual() -> Recorded:
    """Return what is recorded of a process that has brokers at both of its addresses."""
    recorded = Recorded(a=(A,), b=(A,), c=(B,))
    for name in (A, B):
        recorded.asked(name, "a", "b", "c")
    return recorded


def test_addresses_that_show_each_others_brokers_seem_to_be_one() -> None:
    """It is called by that with more brokers; the evidence are answers."""
    found = dual().found()
    assert set(found) == {(A, "one"), (B, "told")}
    row = found[A, "one"]
    assert row["others"] == [B]
    assert row["answers"] >= ENOUGH
    assert all(of.split()[0] in (A, B) for of in row["evidence"])


def test_what_is_said_to_be_apart_is_not_suspected() -> None:
    """Nor does it excuse answers that do not match."""
    assert dual().found((A, B)) == {}


def test_few_answers_are_no_reason() -> None:
    """One less than are needed says nothing."""
    recorded = Recorded(a=(A,), c=(B,))
    recorded.asked(A, "a", "c", count=ENOUGH - 1, every=10)
    assert recorded.found() == {}
    recorded.asked(A, "a", "c", count=1, at=LATE + 100 * S)
    assert list(recorded.found()) == [(A, "one")]


def test_early_answers_may_show_what_was_before_the_recording() -> None:
    """Within a lease of the beginning a broker may be shown that had been there before."""
    recorded = Recorded(a=(A,), b=(B,))
    recorded.asked(A, "a", "b", at=30 * S)
    assert recorded.found() == {}


def test_name_servers_that_all_brokers_know_are_not_looked_at() -> None:
    """That is how they are meant to be used: no registration is read."""
    recorded = Recorded(a=(A, Q), b=(A, Q))
    for name in (A, Q):
        recorded.asked(name, "a", "b")
    heard = pa.Table.from_pylist(
        [{"namesrv_id": name, "broker_addr": of, "first_seq": 0, "last_seq": S} for name in (A, Q) for of in "ab"],
        HEARD,
    )

    def never() -> pa.Table:
        raise AssertionError("registrations were read")

    assert not suspected(heard, pa.Table.from_pylist(recorded.told, TOLD), never, set(), ()).num_rows


@pytest.mark.parametrize("with_answers", [True, False])
def test_another_name_server_of_the_same_brokers_is_none_of_it(with_answers: bool) -> None:  # noqa: FBT001
    """It shows no broker that registers at the second address, whether it is asked or not: these two alone seem to be one."""
    recorded = dual()
    recorded.registered += Recorded(a=(Q,), b=(Q,)).registered
    if with_answers:
        recorded.asked(Q, "a", "b")
    found = recorded.found()
    assert set(found) == {(A, "one"), (B, "told")}
    assert found[A, "one"]["others"] == [B]


def test_brokers_at_two_addresses_hold_for_the_whole_group() -> None:
    """Two processes with two addresses each, whose answers are alike: who is whose cannot be told, and nothing is suggested."""
    recorded = Recorded(a=(A, Q), c=(B, V))
    for name in (A, B, Q, V):
        recorded.asked(name, "a", "c")
    ((name, row),) = ((name, row) for (name, kind), row in recorded.found().items() if kind != "told")
    assert (row["kind"], row["at_both"]) == ("unsure", 1)
    assert {name, *row["others"]} == {A, B, Q, V}


def test_an_address_of_clients_of_two_name_servers_is_neither() -> None:
    """Nobody registers there, and it shows what both know."""
    recorded = Recorded(a=(A, Q))
    recorded.asked(V, "a", at=0, count=400)
    recorded.asked(A, "a")
    assert set(recorded.found()) == {(A, "unsure"), (V, "told")}


def test_an_address_of_clients_of_one_name_server_is_its() -> None:
    """Nobody registers there, and it shows what one knows."""
    recorded = Recorded(a=(A,))
    recorded.asked(V, "a", at=0, count=400)
    assert recorded.found()[A, "one"]["others"] == [V]


def test_answers_that_lack_who_has_just_registered_deny_it() -> None:
    """A balancer leads brokers to two processes, and clients to one of them: it shows half of who registers there."""
    recorded = Recorded(a=(V,), b=(V,), c=(A,))
    for name in (V, A):
        recorded.asked(name, "a", "c")
    found = recorded.found()
    assert set(found) == {(V, "unsure"), (A, "told")}
    assert found[V, "unsure"]["others"] == [A]


def test_two_brokers_of_one_name_and_id_are_no_evidence() -> None:
    """They take each other's place, whoever registered last."""
    recorded = Recorded(a=(A,), b=(B,))
    for row in recorded.registered:
        row["broker_name"] = "one"
    recorded.asked(A, "a", "b")
    assert recorded.found() == {}


def alternating(recorded: Recorded, name: str, count: int = 2 * SHARED_FLIPS) -> Recorded:
    """Have a name server show two brokers in turn."""
    for n in range(count):
        recorded.asked(name, "ab"[n % 2], count=1, at=LATE + n * S)
    return recorded


def test_what_goes_back_and_forth_without_a_registration_is_shared() -> None:
    """Who has gone comes back with a registration; where none comes, several processes answer."""
    recorded = alternating(Recorded(a=(V,), b=(V,)), V)
    row = recorded.found()[V, "shared"]
    assert (row["answers"] >= SHARED_FLIPS, row["changes"]) == (True, 2 * SHARED_FLIPS - 1)


def test_a_broker_that_comes_and_goes_makes_no_address_a_shared_one() -> None:
    """Each time it is back it has registered, here or at another address."""
    recorded = Recorded(a=(A,))
    for n in range(2 * SHARED_FLIPS):
        recorded.asked(A, *("a", "b")[: 1 + n % 2], count=1, at=LATE + n * S)
    assert list(recorded.found()) == [(A, "shared")]
    of = {"namesrv_id": B, "broker_addr": "b", "broker_name": "b", "broker_id": 0}
    recorded.registered += [{**of, "seq": LATE + n * S + S // 4} for n in range(2 * SHARED_FLIPS)]
    assert (A, "shared") not in recorded.found()


def test_a_shared_address_joins_nothing() -> None:
    """It shows the brokers of two processes, and both show that of its own: neither pair is one, nor are they."""
    recorded = alternating(Recorded(a=(A,), b=(Q,), v=(V,)), V)
    recorded.asked(A, "a", "v")
    recorded.asked(Q, "b", "v")
    found = recorded.found()
    assert {kind for _, kind in found} == {"shared", "told"}
    assert (V, "shared") in found


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
