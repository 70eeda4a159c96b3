"""Which addresses may be one name server's, by its answers; and what is said once of all that are."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.ingest.ingest import new_kinds
from namesrv_day.arrow import ask
from namesrv_day.findings import BEATS_AT, BROKER_LISTS, ENOUGH, FIRST_SEEN, REGISTERED, SHARED_FLIPS, suspected
from schemas.sql_files import query
from tests.situations import Language, Situation

S = 1_000_000_000
LATE_S = 200
A, B, Q, V = "10.0.0.1:9876", "[fd00::1]:9876", "10.0.0.2:9876", "10.0.0.9:9876"


def registers(broker: str, *names: str, name: str | None = None) -> list[dict[str, Any]]:
    """Return registrations of a broker at some addresses, every 10 s for 400 s."""
    of = {"broker_addr": broker, "broker_name": name or broker, "broker_id": 0, "lease_ms": 120_000}
    return [{**of, "namesrv_id": address, "seq": at * S} for address in names for at in range(0, 400, 10)]


def shows(address: str, *brokers: str, count: int = 50, at: int = LATE_S, every: int = 1) -> list[dict[str, Any]]:
    """Return answers that show brokers, a second apart, or `every` so many."""
    seqs = [(at + n * every) * S + S // 2 for n in range(count)]
    said = {"namesrv_id": address, "brokers": sorted(brokers)}
    return [{**said, "seq": seq, "event_id": f"{address} {seq}"} for seq in seqs]


def flips(address: str, *brokers: str) -> list[dict[str, Any]]:
    """Return answers that show two sets of brokers in turn."""
    turns = [part.split() for part in " ".join(brokers).split("/")]
    return [row for n in range(2 * SHARED_FLIPS) for row in shows(address, *turns[n % 2], count=1, at=LATE_S + n)]


def again(broker: str, address: str) -> list[dict[str, Any]]:
    """Return a registration just before each second answer of `flips`."""
    of = {"namesrv_id": address, "broker_addr": broker, "broker_name": broker, "broker_id": 0}
    return [{**of, "seq": (LATE_S + n) * S + S // 4} for n in range(2 * SHARED_FLIPS)]


def fact(address: str, seconds: float, kind: str, **properties: str) -> dict[str, Any]:
    """Return a fact; it is called after its address and kind."""
    named = {"event_id": f"{address} {kind} {seconds}", "namesrv_addr": address, "kind": kind}
    return {
        **named,
        "seq": round(seconds * S),
        "properties": ",".join(f"{n}={v}" for n, v in properties.items()) or None,
    }


LANGUAGE = Language(
    {
        "registers": ("registered", registers),
        "again": ("registered", again),
        "shows": ("told", shows),
        "flips": ("told", flips),
        "eve": ("eve", lambda address, at: {"namesrv_id": address, "first_seq": at * S}),
        "apart": ("apart", lambda *pair: frozenset(pair)),
        "fact": ("facts", fact),
        "answered": ("answered", lambda address, *seconds: (address, [second * S for second in seconds])),
        "up": ("up", lambda: True),
    },
    {"A": A, "B": B, "Q": Q, "V": V},
    dt.date(1970, 1, 1),
)
SITUATIONS = [*LANGUAGE.read(Path(__file__).with_name("addresses.txt"))]


@pytest.mark.parametrize(
    "case", [each for each in SITUATIONS if "told" in each.rows], ids=lambda of: f"{of.name}: {of.shows}"
)
def test_which_addresses_seem_to_be_one_name_servers(case: Situation) -> None:
    """What each seems to be, with which others; the evidence are enough answers of theirs."""
    registered = pa.Table.from_pylist(case.rows["registered"], REGISTERED)
    lists = pa.Table.from_pylist(case.rows["told"], BROKER_LISTS)
    spans = registered.group_by(["namesrv_id", "broker_addr"]).aggregate([("seq", "min"), ("seq", "max")])
    beats = spans.rename_columns(BEATS_AT.names).cast(BEATS_AT)
    eve = pa.Table.from_pylist(case.rows.get("eve", []), FIRST_SEEN)
    found = suspected(beats, lists, lambda: registered, lambda: eve, set(case.rows.get("apart", ())), ()).to_pylist()
    wanted = [line.split() for line in case.found]
    names = {name: LANGUAGE.value(name) for name in "ABQV"}
    assert {(row["namesrv_id"], row["kind"]) for row in found} == {(names[name], kind) for name, kind, *_ in wanted}
    for name, kind, *others in wanted:
        (row,) = (row for row in found if (row["namesrv_id"], row["kind"]) == (names[name], kind))
        if kind in ("one", "unsure"):
            assert sorted(row["others"]) == sorted(names[other] for other in others if other in names)
            assert [word for word in others if "=" in word] in ([], [f"at_both={row['at_both']}"])
        if kind == "one":
            assert row["answers"] >= ENOUGH
            assert all(of.split()[0] in (names[name], *row["others"]) for of in row["evidence"])
        if kind == "shared":
            assert (row["answers"] >= SHARED_FLIPS, row["changes"]) == (True, 2 * SHARED_FLIPS - 1)


@pytest.mark.parametrize(
    "case", [each for each in SITUATIONS if "facts" in each.rows], ids=lambda of: f"{of.name}: {of.shows}"
)
def test_what_several_addresses_show_is_said_once(case: Situation) -> None:
    """Also if it was told before."""
    facts, answered = case.rows["facts"], dict(case.rows["answered"])
    is_up = True if "up" in case.rows else None
    for given in (facts, [{**one, "kind": kind} for one, kind in zip(facts, case.found, strict=True)]):
        changed = new_kinds(given, answered, is_up=is_up)
        assert [changed.get(one["event_id"], one["kind"]) for one in given] == case.found


def test_name_servers_that_all_brokers_know_are_not_looked_at() -> None:
    """That is how they are meant to be used: no registration is read."""
    told = [row for name in (A, Q) for row in shows(name, "a", "b")]
    beats = pa.Table.from_pylist(
        [{"namesrv_id": name, "broker_addr": of, "first_seq": 0, "last_seq": S} for name in (A, Q) for of in "ab"],
        BEATS_AT,
    )

    def never() -> pa.Table:
        raise AssertionError("registrations were read")

    assert not suspected(beats, pa.Table.from_pylist(told, BROKER_LISTS), never, never, set(), ()).num_rows


def test_positions_are_own_ones() -> None:
    """What was met elsewhere gives way, behind the last event of its microsecond."""
    rows = [(A, A, "a", 1_000_001), (A, B, "b", 1_000_001), (A, A, "c", 1_000_005), (Q, Q, "d", 1_000_001)]
    names = ("namesrv_id", "namesrv_addr", "event_id", "seq")
    events = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    assert ask(query("across/positions"), {"events": events}).to_pylist() == [{"event_id": "b", "seq": 1_000_006}]
