"""Answers that show the whole configuration, held against what is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from namesrv_core.inference.settings import CONFIGURATION
from namesrv_day.arrow.rows import table_of
from namesrv_day.verify.verify import Verified, verdicts
from schemas import gold
from tests.day.settle_given import DAY, NAMESRV, Row, answered, asked_to, seq_at
from tests.day.test_verify import Server, broker, checks, given_of, listed

OLD, NEW = "listenPort=1\nserverWorkerThreads=2", "listenPort=1\nserverWorkerThreads=3"


def known(ms: float, value: str, source: str = "stated", evidence: str = "x") -> Row:
    """Return a row of namesrv_settings: what is known from an instant on."""
    said: Row = {"setting": CONFIGURATION, "value": value, "restart_value": value, "source": source}
    return {
        **said,
        "from_seq": seq_at(ms),
        "process_seq": 0,
        "answers_for": 1,
        "answers_against": 0,
        "evidence": [evidence],
    }


def shown(ms: float, event_id: str, body: str | None, asked_ms: float | None = None, **values: Any) -> Row:
    return answered(
        ms, event_id, 319, None, body, request_seq=seq_at(ms - 1 if asked_ms is None else asked_ms), **values
    )


def verified(settings: list[Row], *observations: Row, told: tuple[Row, ...] = ()) -> Verified:
    """Return the verdicts on a day of a name server that also answers about topics."""
    given = given_of(Server((100, "r", broker("TU"))), {"route_observations": [*observations], "admin_events": [*told]})
    rows = table_of(settings, gold.NAMESRV_SETTINGS, namesrv_id=NAMESRV, day=DAY)
    return verdicts(replace(given, replayed={**given.replayed, "namesrv_settings": rows}))


def classes(found: Verified) -> dict[str, str]:
    """Return what does not match, by answer."""
    return {row["event_id"]: row["classification"] for row in found.route_mismatches.to_pylist()}


@pytest.mark.slow
def test_an_answer_is_held_against_what_is_known_and_not_against_itself() -> None:
    """The first has nothing to be held against; what it shows counts from behind it. Another order is told apart."""
    found = verified(
        [known(200.001, OLD)],
        shown(200, "first", OLD),
        shown(300, "equal", OLD),
        shown(310, "equal, too", OLD),
        shown(320, "reordered", "serverWorkerThreads=2\nlistenPort=1"),
        shown(400, "other", NEW),
        shown(500, "refused", OLD, response_code=1),
        shown(600, "empty", None),
        listed(700, "topics", '{"topicList":["T","U"]}'),
    )
    assert classes(found) == {
        "first": "unknown_past", "other": "mismatched", "refused": "mismatched", "empty": "mismatched",
    }  # fmt: skip
    right = {"answers": 1, "matched": 1, "same_order": 1, "same_bytes": 1}
    assert checks(found) == {
        206: right,
        319: {"answers": 7, "matched": 3, "same_order": 2, "same_bytes": 2, "unknown_past": 1, "mismatched": 3},
    }
    (row,) = [row for row in found.route_mismatches.to_pylist() if row["event_id"] == "other"]
    assert (row["answered"], row["expected"], row["code"], row["subject"]) == (NEW, OLD, 319, None)


def test_one_that_nothing_explains_is_told_once() -> None:
    """From behind it that is what is known."""
    found = verified([known(200, OLD), known(400.001, NEW)], shown(400, "a", NEW), shown(500, "b", NEW))
    assert classes(found) == {"a": "mismatched"}


@pytest.mark.parametrize(
    ("body", "asked_ms", "ms", "expected"),
    [
        (OLD, 290, 299, {}),
        (NEW, 290, 299, {"q": "mismatched"}),
        (OLD, 300, 305, {}),
        (NEW, 300, 305, {}),
        (OLD, 305, 315, {}),
        (NEW, 305, 315, {}),
        (OLD, 311, 315, {"q": "mismatched"}),
    ],
)
def test_while_a_change_is_under_way_an_answer_shows_either_state(
    body: str, asked_ms: float, ms: float, expected: dict[str, str]
) -> None:
    """It arrived at 302 and was answered at 310: no answer shows it before, and none that was asked later does not."""
    change = asked_to(310, "u", 318, config_value="serverWorkerThreads=3", received_ms=302)
    settings = [known(200, OLD), known(310, NEW, "changed", "u")]
    assert classes(verified(settings, shown(ms, "q", body, asked_ms), told=(change,))) == expected


@pytest.mark.parametrize(("source", "expected"), [("inherited", "unknown_past"), ("changed", "mismatched")])
def test_what_another_process_left_is_a_guess(source: str, expected: str) -> None:
    """An answer that shows it matches; one that does not teaches."""
    found = verified([known(200, OLD, source)], shown(300, "a", OLD), shown(400, "b", NEW))
    assert classes(found) == {"b": expected}


def test_of_a_name_server_that_was_asked_nothing_else() -> None:
    """There are no other answers that day."""
    found = verified([known(200, OLD)], shown(300, "a", OLD))
    assert checks(found) == {319: {"answers": 1, "matched": 1, "same_order": 1, "same_bytes": 1}}
