"""Lives at random: neither runs of beats, nor where a life is cut, change what is written."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig
from namesrv_day import hours as condense
from tests.day.lives import HISTORIES, Life, Line, joined, told_apart, unnumbered
from tests.day.test_scenes import query, registration
from tests.examples import examples, more

FIRST_S, LAST_S = -3_600, 3_600
NAMESRVS = [
    Namesrv(V4_9_7),
    Namesrv(V5_4_0),
    Namesrv(V5_4_0, NamesrvConfig(notify_min_broker_id_changed=True)),
    Namesrv(V5_4_0, NamesrvConfig(delete_topic_with_broker_registration=True)),
]
SEEDS = range(more(3))


def told_at_random(seed: int) -> list[tuple[float, Line]]:
    """Return what six brokers and an administrator say in two hours; most of it are beats, and some of them stay silent."""
    dice = random.Random(seed)
    told: list[tuple[float, Line]] = [(FIRST_S, {"kind": "namesrv", "event": "started"})]
    calm = dice.choice((1, 4, 20))
    for number in range(6):
        told += _broker(dice, number, calm)
    for _ in range(dice.randrange(12 // calm + 1)):
        told.append((dice.uniform(FIRST_S, LAST_S), dice.choice(_ADMIN)))
    if dice.random() < 0.3 / calm:
        told.append((dice.uniform(FIRST_S, LAST_S), {"kind": "namesrv", "event": "started"}))
    return [(round(at_s, 3), line) for at_s, line in told]


_ADMIN: list[Line] = [
    {"kind": "admin", "code": 205, "broker_name": "a", "response_code": 0},
    {"kind": "admin", "code": 327, "broker_name": "a", "response_code": 0},
    {"kind": "admin", "code": 205, "broker_name": "b", "response_code": 0},
    {"kind": "admin", "code": 216, "topic": "T", "response_code": 0},
    {"kind": "admin", "code": 216, "topic": "U", "cluster_name": "C", "response_code": 0},
    {"kind": "admin", "code": 100, "namespace": "N", "config_key": "k", "config_value": "v"},
    {"kind": "admin", "code": 102, "namespace": "N", "config_key": "k"},
]


def _broker(dice: random.Random, number: int, calm: int) -> list[tuple[float, Line]]:
    """Return the life of one broker: it registers, beats, changes something now and then, and may end without a word."""
    addr, told = f"{number}:1", list[tuple[float, Line]]()
    name, cluster = dice.choice(("a", "b", addr, addr)), {"cluster_name": dice.choice("CCCD")}
    group: Line = {"broker_id": dice.choice((0, 0, 0, 1)), "enable_acting_master": dice.choice((None, True))}
    group["heartbeat_timeout_ms"] = dice.choice((None, None, 45_000))
    topics, counter = "TU", 1
    at_s, apart_s, is_old = FIRST_S + dice.uniform(1, 60), dice.choice((10, 20, 30)), dice.random() < 0.5
    while at_s < LAST_S:
        event = dice.random() * calm
        if event < 0.01:
            topics, counter = dice.choice(("T", "TU", "TUV", "V")), counter + dice.choice((0, 1))
        elif event < 0.015:
            told.append((at_s, {"kind": "channel", "event": "close", "channel_id": f"{addr}#1"}))
        elif event < 0.02:
            gone = {"broker_name": name, "broker_addr": addr, "broker_id": group["broker_id"], **cluster}
            told.append((at_s, {"kind": "unregistration", **gone}))
        elif event < 0.03:
            at_s += dice.choice((100, 130, 400))
        version: Line = {"data_version": {"timestamp": 1, "counter": counter}, **cluster}
        again = is_old or event < 0.05 or not told
        told.append(
            (at_s, registration(name, addr, topics, **group, **version) if again else query(name, addr, **version))
        )
        at_s += apart_s + dice.uniform(-1, 1)
    return told


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(st.integers(0, 10**6), st.sampled_from(NAMESRVS), st.sampled_from([(60, 3_600), (4, 240)]), st.booleans())
@example(50_000, NAMESRVS[1], (4, 240), False)  # a race is decided in a state that a broken run left behind
@example(140, NAMESRVS[1], (4, 240), False)  # one event removes rows of two broker names, of which one was met before
def test_no_table_tells_runs_from_single_beats(
    seed: int,
    namesrv: Namesrv,
    slots: tuple[int, int],
    begins_unseen: bool,  # noqa: FBT001
) -> None:
    """Whatever brokers and administrators do, in periods of an hour, and in short ones, of which most are parts of runs.

    Also of a recording that begins in the middle of the life; only when something came to be known has other numbers.
    """
    life = Life(told_at_random(seed)[begins_unseen:], namesrv, begins_unseen=begins_unseen)
    plain = life.replayed(folds=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(condense, "SLOTS", slots[0])
        patched.setattr(condense, "PERIOD_US", slots[1] * 1_000_000)
        found = life.replayed()
    if begins_unseen:
        for tables in (plain, found):
            tables["past_knowledge"] = tables["past_knowledge"].drop_columns("number")
    assert told_apart(plain, found) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("begins_unseen", [False, True])
def test_no_table_tells_where_a_life_was_cut(seed: int, *, begins_unseen: bool) -> None:
    """Rows that go on over a cut are the same rows; nothing begins or ends at it, and nothing known is forgotten."""
    told, dice = told_at_random(seed), random.Random(-seed)
    life = Life(told[begins_unseen:], NAMESRVS[seed % len(NAMESRVS)], begins_unseen=begins_unseen)
    cuts = sorted({0.0, *(round(dice.uniform(FIRST_S, LAST_S), 3) for _ in range(3))})
    once, often = (uncut(life.replayed_parts(cuts_s=cuts_s)) for cuts_s in ((0,), cuts))
    assert told_apart(once, often) == {}


def uncut(parts: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    """Return what ended, and what the last part leaves open, without that which a slice says of itself."""
    ended = [
        {name: rows.filter(rows["closed_by"].is_valid()) for name, rows in part.items() if name in HISTORIES}
        for part in parts
    ]
    left = {name: rows.filter(rows["closed_by"].is_null()) for name, rows in parts[-1].items() if name in HISTORIES}
    found = {**joined(parts), **joined([*ended, left])}
    found["past_knowledge"] = parts[-1]["past_knowledge"].drop_columns("number")  # it counts what came to be known
    outcomes = found["event_outcomes"]
    is_counted = pc.field("outcome") == "unknown_broker"  # what a cut parts
    counted = outcomes.filter(is_counted).group_by(["cluster_name", "broker_name", "broker_addr", "operation"])
    found["unknown_broker"] = counted.aggregate([("events", "sum"), ("effect_time", "min"), ("last_time", "max")])
    found["event_outcomes"] = outcomes.filter(~is_counted)
    return {
        name: rows.drop_columns([name for name in rows.column_names if name == "day"])
        for name, rows in unnumbered(found).items()
    }
