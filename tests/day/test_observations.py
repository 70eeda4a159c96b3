"""A day's answers for the core: the rows of a table as objects, made when somebody asks."""

from __future__ import annotations

import json

import pytest

from namesrv_core.machine.codes import Answer
from namesrv_day.arrow import empty, table_of
from namesrv_day.replay import observed_in
from namesrv_day.settle import settle
from schemas import bronze, codec
from tests.day.settle_given import Given, answered, ended, life, registered, replayed, seq_at

BODY = json.dumps({"brokerDatas": [], "queueDatas": []})
ROWS = [
    answered(50, "e" * 32, 105, "T", BODY),
    answered(20, "a" * 32, 105, "T", BODY, standard_json=False, request_version=300),
    answered(40, "d" * 32, 105, "T", None, response_code=17, remark="No topic", response_fields='{"b":"2","a":"1"}'),
    answered(40, "c" * 32, 319, None, "a=b"),
    answered(40, "b" * 32, 105, "T", BODY),
    answered(30, "f" * 32, 105, None, None),
]


def test_answers_come_in_order_as_their_rows_have_them() -> None:
    """By position, then by id; answers about the configuration are none; what is absent is not what is empty."""
    found = observed_in(table_of(ROWS, bronze.ROUTE_OBSERVATIONS))
    expected = {"a": 20, "f": 30, "b": 40, "d": 40, "e": 50}
    assert [(one.event_id[0], one.seq, one.request_seq) for one in found] == [
        (name, seq_at(ms), seq_at(ms - 1)) for name, ms in expected.items()
    ]
    rows = {row["event_id"][0]: {"scope": None, "remark": None, "response_fields": None, **row} for row in ROWS}
    assert [(one.question, one.answered) for one in found] == [
        (codec.question_of(rows[name]), codec.answer_of(rows[name])) for name in expected
    ]


def test_equal_answers_are_one() -> None:
    """Millions of them are few objects: the question, and the answer with its body."""
    _, _, one, _, other = observed_in(table_of(ROWS, bronze.ROUTE_OBSERVATIONS))
    assert one.question is other.question
    assert one.answered is other.answered


def test_a_day_without_answers_has_none() -> None:
    """They can be looked at all the same."""
    assert list(observed_in(empty(bronze.ROUTE_OBSERVATIONS))) == []


@pytest.mark.parametrize(("close_ms", "are_made"), [(100_000, False), (2_001, True)])
def test_answers_are_made_only_where_a_race_is_held_against_them(
    monkeypatch: pytest.MonkeyPatch, close_ms: int, *, are_made: bool
) -> None:
    """A one-way registration and the end of its connection race where they come together; nothing else asks for answers."""
    made, answer_of = [], codec.answer_of

    def noted(row: codec.Row) -> Answer:
        made.append(row)
        return answer_of(row)

    monkeypatch.setattr(codec, "answer_of", noted)
    given = Given(
        {
            "namesrv_events": [life(1_000, "start", "started"), life(1_001, "version", "identified", version=493)],
            "registrations": [registered(2_000, "r", "TU", one_way=True, response_code=None)],
            "channel_events": [ended(close_ms, "end")],
            "route_observations": [answered(200_000 + ms, f"a{ms}", 105, "T", BODY) for ms in (1, 20_000)],
        }
    )
    settled = settle(given.input)
    replayed(given, settled)
    assert bool(made) is are_made
