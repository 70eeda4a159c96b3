"""The benchmarks' harness: no time counts before both sides say the same."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.engines import expiries_of, pandas_per_broker, window_sort
from benchmarks.harness import AnswersDifferError, NotMeasured, Ratio, Side, as_json, machine, markdown, timed
from jobs import tables
from jobs.conf import PipelineConf
from jobs.fleet import Fleet
from jobs.simulate import simulate
from jobs.warehouse import Warehouse
from schemas import bronze, truth


def test_sides_take_turns_after_a_round_that_does_not_count():
    """The first run of each side is left out, and the order turns round, so that neither side always finds warm files."""
    ran: list[str] = []
    sides = [Side("a", lambda: ran.append("a")), Side("b", lambda: ran.append("b"))]
    seconds, answer = timed(sides, 2)
    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(took) for name, took in seconds.items()} == {"a": 2, "b": 2}
    assert answer is None


def test_a_wrong_answer_is_an_error_before_any_time_counts():
    """A side that is fast because it does not find everything stops the run; the message says what it did not find."""
    timed_again: list[int] = []

    def slow() -> frozenset[tuple[str, int]]:
        timed_again.append(1)
        return frozenset({("broker", 1), ("broker", 2)})

    with pytest.raises(AnswersDifferError, match=r"1 only in the first, as \[\('broker', 2\)\]"):
        timed([Side("slow", slow), Side("fast", lambda: frozenset({("broker", 1)}))], 5)
    assert len(timed_again) == 1


def test_an_answer_that_changes_between_rounds_is_an_error():
    """What was equal once must stay equal."""
    answers = iter(range(10))
    with pytest.raises(AnswersDifferError, match="the first round"):
        timed([Side("moody", lambda: next(answers))], 2)


def test_a_bar_is_judged_by_the_median_and_results_say_what_was_missed():
    """A bar from above and one from below, and a ratio that could not be measured, in both forms of the results."""
    values = {"over": [2.0, 9.0, 4.0], "under": [1.0, 2.0, 3.0]}
    at_most = Ratio("r", "over", "under", values, 1.9)
    at_least = Ratio("s", "over", "under", values, 1.9, at_least=True)
    assert (at_most.median, at_most.best, at_most.is_met, at_least.is_met) == (2.0, 2.0, False, True)
    results: list[Ratio | NotMeasured] = [at_most, at_least, NotMeasured("t", "no network")]
    text = markdown(results, machine())
    assert "| r | ≤ 1.9 | 2.00 | 2.00 | **not met** |" in text
    assert "| t | | | | not measured: no network |" in text
    assert '"is_met": false' in as_json(results, machine())


def test_other_engines_find_what_was_planted(spark: SparkSession, tmp_path: Path):
    """The sides that the night is timed against are no straw men: each finds exactly the planted removals."""
    day = dt.date(2026, 1, 1)
    fleet = Fleet(day, brokers=3, namesrvs=2, beats_per_minute=1, outages=0.1, outage_s=(200, 900))
    house = Warehouse(spark, str(tmp_path), PipelineConf(), "bench", dt.datetime.now(dt.timezone.utc))
    simulate(house, fleet, [day])
    holes = tables.read_table(spark, str(tmp_path), truth.HOLES)
    planted = expiries_of(holes.select("namesrv_id", "broker_addr", F.unix_millis("last_beat_time")).collect())
    columns = ("namesrv_id", "broker_addr", "effect_time")
    beats = tables.union_all(house.table(table).select(*columns) for table in (bronze.HEARTBEATS, bronze.REGISTRATIONS))
    silence_ms = fleet.lease_ms + fleet.profile.scan_period_ms
    sides = [
        Side("planted", lambda: planted),
        Side("window", lambda: window_sort(beats, silence_ms)),
        Side("pandas", lambda: pandas_per_broker(beats, silence_ms)),
    ]
    assert len(timed(sides, 1)[1]) > 5
