"""The saved queries on the bundled capture, in which most of what they ask about really happened."""

from __future__ import annotations

import datetime as dt
import shlex
from pathlib import Path
from typing import Any

import pytest

from jobs.ask.engine import Answers, query_named, texts_of, values_of
from jobs.errors import UsageError
from schemas import asked
from schemas.queries import GROUPS, Query, queries
from tests.cli.test_query_situations import SITUATIONS
from tests.night.nights import Capture
from tests.situations import Language

Row = dict[str, Any]
GIVEN = {
    "t": "2026-11-21 08:58",
    "before": "2026-11-21 08:56",
    "t1": "2026-11-21 08:57",
    "t2": "2026-11-21 09:05",
    "topic": "TopicA",
}
"""What a query is asked for where it must be told."""
EVIDENCE = {"event_id", "event_ids", "opened_by", "removed_by", "known_by"}


def given(query: Query) -> list[str]:
    return [f"{one.name}={GIVEN[one.name]}" for one in query.parameters if one.default is None]


def answered(answers: Answers, name: str, *params: str) -> list[Row]:
    query = query_named(name)
    told = {text.partition("=")[0] for text in params}
    rest = [text for text in given(query) if text.partition("=")[0] not in told]
    found = answers.ask(asked.statement(f"query.{name}") or "", **values_of(query, texts_of(query, [*params, *rest])))
    assert found.names == list(query.columns)
    return [dict(zip(found.names, row, strict=True)) for row in found.rows]


@pytest.fixture(scope="module")
def answers(whole: Capture) -> Answers:
    return Answers(str(whole.path))


def test_every_query_is_described() -> None:
    """A question, a group that is known, a comment for each parameter and column; the statement uses what it declares.

    Among the columns are the events that are its evidence, but where it only counts.
    """
    assert len(queries()) == 44
    for query in queries().values():
        assert set(query.columns) & EVIDENCE or query.name == "growth"
        assert query.question.endswith(("?", "run."))
        assert query.group in GROUPS.values()
        for parameter in query.parameters:
            assert f":{parameter.name}" in query.sql, query.name
        assert all(query.columns.values())


LANGUAGE = Language({}, {}, dt.date(2026, 11, 21))
HAPPENED = {one.name: one for one in LANGUAGE.read(Path(__file__).with_name("happened.txt"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", HAPPENED)
def test_the_answer_is_what_happened(answers: Answers, name: str) -> None:
    """A row with the values, and the evidence, that the capture's story has."""
    number, *told = shlex.split(HAPPENED[name].found[0])
    expected = LANGUAGE.made(dict, told)
    found = answered(answers, name, *HAPPENED[name].asked)
    assert len(found) == int(number)
    assert expected in [{key: row[key] for key in expected} for row in found]


def test_every_query_is_held_against_something_that_happened() -> None:
    """In the capture, in literal rows, or, of what late events change, in `test_late`."""
    assert set(queries()) == set(HAPPENED) | {one.name for one in SITUATIONS} | {"restated"}


@pytest.mark.parametrize("name", ["expired_while_alive", "divergence_intervals"])
def test_any_whole_number_of_seconds_can_be_asked_for(answers: Answers, name: str) -> None:
    """Also one whose milliseconds are more than 32 bits."""
    assert answered(answers, name, "seconds=2147483647") is not None


def test_what_is_asked_for_must_be_known() -> None:
    """Names that are not, values that are missing or cannot be: a sentence each."""
    for name, params, said in (
        ("departure", [], "nearest are departures"),
        ("growth", ["x=1"], "no parameter 'x'"),
        ("departures", ["broker"], "expected NAME=VALUE"),
        ("queue_spread", ["topic=T"], "needs --param t=VALUE"),
        ("flapping", ["times=few"], "is a whole number"),
        ("growth", ["since=soon"], "expected ISO 8601"),
    ):
        with pytest.raises(UsageError, match=said):
            values_of(query := query_named(name), texts_of(query, params))
