"""The benchmarks' harness: no time counts before both sides say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.session import CHECKOUT
from tools.bench.figures import Bench, reading
from tools.bench.harness import AnswersDifferError, NotMeasured, Ratio, Side, as_json, machine, markdown, timed

pytestmark = pytest.mark.slow


def test_sides_take_turns_after_a_round_that_does_not_count() -> None:
    """The first run of each side is left out, and the order turns round, so that neither side always finds warm files."""
    ran: list[str] = []
    sides = [Side("a", lambda: ran.append("a")), Side("b", lambda: ran.append("b"))]
    seconds, answer = timed(sides, 2)
    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(took) for name, took in seconds.items()} == {"a": 2, "b": 2}
    assert answer is None


def test_a_wrong_answer_is_an_error_before_any_time_counts() -> None:
    """A side that is fast because it does not find everything stops the run; the message says what it did not find."""
    timed_again: list[int] = []

    def slow() -> frozenset[tuple[str, int]]:
        timed_again.append(1)
        return frozenset({("broker", 1), ("broker", 2)})

    with pytest.raises(AnswersDifferError, match=r"1 only in the first, as \[\('broker', 2\)\]"):
        timed([Side("slow", slow), Side("fast", lambda: frozenset({("broker", 1)}))], 5)
    assert len(timed_again) == 1


def test_an_answer_that_changes_between_rounds_is_an_error() -> None:
    """What was equal once must stay equal."""
    answers = iter(range(10))
    with pytest.raises(AnswersDifferError, match="the first round"):
        timed([Side("moody", lambda: next(answers))], 2)


def test_a_bar_is_judged_by_the_median_and_results_say_what_was_missed() -> None:
    """A bar from above and one from below, by a side or by a number, and a figure that was not measured, in both forms."""
    values = {"over": [2.0, 9.0, 4.0], "under": [1.0, 2.0, 3.0]}
    at_most = Ratio("r", "over", "under", values, 1.9)
    at_least = Ratio("s", "over", 2.0, values, 1.9, at_least=True)
    assert (at_most.median, at_most.best, at_most.is_met, at_least.is_met) == (2.0, 2.0, False, True)
    results: list[Ratio | NotMeasured] = [at_most, at_least, NotMeasured("t", "no network")]
    text = markdown(results, machine())
    assert "| r | ≤ 1.9 | 2 | 2 | **not met** |" in text
    assert "| s | ≥ 1.9 | 2 | 1 | met |" in text
    assert "| t | | | | not measured: no network |" in text
    assert '"is_met": false' in as_json(results, machine())


def test_figures_are_measured_and_their_answers_compared(tmp_path: Path) -> None:
    """A figure without Spark, small, this checkout against itself: nothing differs, and there is a ratio of each."""
    versions = {"this": CHECKOUT, "before": CHECKOUT}
    results = reading(Bench(pytest.fail, tmp_path, is_full=False, rounds=1, versions=versions))
    assert [type(result) for result in results] == [Ratio] * 3
