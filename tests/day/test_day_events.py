"""A day's events of all tables in one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_day.arrow import rows_of
from namesrv_day.events import BEATS, EVENTS, OTHERS, day_events, moved, observation_rows, topic_digests
from schemas import bronze
from tests.day.plan_rows import NAMESRV, Row, frames, row, us

LOOKED_UP = {"cluster_name": None, "broker_addr": "1:1"}


def said(events: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(found[name] for name in columns) for found in rows_of(events.sort_by("seq").select(columns))]


def test_every_table_gives_events() -> None:
    """Each event is known by its table; what other tables call their kind keeps a name of its own."""
    given = frames(
        row("heartbeats", 1),
        row("registrations", 2),
        row("unregistrations", 3),
        row("channel_events", 4, kind="idle"),
        row("admin_events", 5, code=205),
        row("namesrv_events", 6, kind="started"),
    )
    found = day_events(given)
    assert found.schema == EVENTS
    assert said(found, "kind", "channel_kind", "namesrv_kind") == [
        ("heartbeats", None, None),
        ("registrations", None, None),
        ("unregistrations", None, None),
        ("channel_events", "idle", None),
        ("admin_events", None, None),
        ("namesrv_events", None, "started"),
    ]
    assert day_events(given, tables=BEATS).num_rows == 2
    assert {kind for (kind,) in said(day_events(given, tables=OTHERS), "kind")} == {table.name for table in OTHERS}


def test_an_event_has_arrived_before_it_takes_effect() -> None:
    """Whoever was not answered has no arrival that anybody can tell from its effect; who asked nothing never arrived."""
    found = day_events(
        frames(row("heartbeats", 1, lag_us=300), row("heartbeats", 2, response_code=None), row("channel_events", 3))
    )
    assert said(found, "effect_us", "received_us", "arrival_us") == [
        (us(1), us(1) - 300, us(1) - 300),
        (us(2), us(2), None),
        (us(3), None, None),
    ]


def test_a_response_is_an_event_where_the_past_is_unknown() -> None:
    """Just behind its registration; not of one that was refused before it was taken, or of which only the code is kept."""
    told: Row = {"response_fields": "{}", "response_body": "said", "event_id": "r"}
    given = frames(
        row("registrations", 1, **told),
        row("registrations", 2, **{**told, "refusal": "undecodable_body"}),
        row("registrations", 3, **{**told, "response_fields": None}),
    )
    found = day_events(given, tables=BEATS, with_answers=True)
    responses = found.filter(pc.field("kind") == "responses")
    assert said(responses, "event_id", "seq", "body", "broker_name") == [
        ("r-response", next(iter(rows_of(given["registrations"])))["seq"] + 1, "said", "one")
    ]
    assert day_events(given, tables=BEATS).num_rows == found.num_rows - 1
    assert day_events(given, tables=OTHERS, with_answers=True).num_rows == 0, "those of other tables are told with them"


@pytest.mark.parametrize("kind", ["observed_from", "identified", "configured", "clock_went_back"])
def test_facts_about_a_name_server_are_no_events(kind: str) -> None:
    """Only its start, its stop and gaps in what was recorded do something to its tables."""
    life = [row("namesrv_events", n, kind=kind) for n, kind in enumerate(("started", kind, "stopped", "recording_gap"))]
    assert said(day_events(frames(*life)), "namesrv_kind") == [("started",), ("stopped",), ("recording_gap",)]


def test_answers_to_events_are_no_part_of_them() -> None:
    """What a name server said back to a request does not look like an answer that is looked at by itself."""
    found = day_events(frames(row("heartbeats", 1, response_code=0, response_fields="{}", response_remark="fine")))
    assert said(found, "response_code", "response_fields", "remark") == [(None, None, None)]


def test_answers_are_events_where_the_past_is_unknown() -> None:
    """An answer takes effect at its position; an asker that can read nothing else than standard JSON said so or is new."""
    told: Row = {"code": 105, "subject": "T", "request_seq": us(0.5) * 1_000, "response_code": 0, "body": "{}"}
    given = frames(
        row("route_observations", 1, standard_json=False, request_version=400, **told),
        row("route_observations", 2, standard_json=False, request_version=493, **told),
        row("route_observations", 3, standard_json=True, request_version=400, **told),
    )
    assert day_events(given).num_rows == 0
    found = day_events(given, with_answers=True)
    assert found.schema == EVENTS
    assert said(found, "kind", "effect_us", "subject", "standard_json") == [
        ("route_observations", us(1), "T", False),
        ("route_observations", us(2), "T", True),
        ("route_observations", us(3), "T", True),
    ]
    assert said(observation_rows(given["route_observations"]), "standard_json") == [(False,), (True,), (True,)]


def test_a_column_that_was_not_read_is_null() -> None:
    """Who needs little reads little."""
    some = frames(row("registrations", 1))["registrations"].select(
        ["seq", "event_time", "effect_time", "response_code"]
    )
    found = day_events({"registrations": some}, tables=(bronze.REGISTRATIONS,))
    assert said(found, "namesrv_id", "kind", "effect_us", "arrival_us") == [(None, "registrations", us(1), us(1))]


def test_moved_events_take_effect_elsewhere() -> None:
    """Their position says when; the others stay where they are."""
    events = day_events(frames(row("channel_events", 1), row("heartbeats", 2)))
    schema = pa.schema([EVENTS.field(name) for name in ("event_id", "seq", "looked_up")])
    moves = pa.Table.from_pylist(
        [{"event_id": "channel_events-1", "seq": us(3) * 1_000 + 7, "looked_up": LOOKED_UP}], schema=schema
    )
    found = moved(events, moves)
    assert found.schema == EVENTS
    assert said(found, "kind", "seq", "effect_us", "looked_up") == [
        ("heartbeats", us(2) * 1_000, us(2), None),
        ("channel_events", us(3) * 1_000 + 7, us(3), LOOKED_UP),
    ]
    assert moved(events, schema.empty_table()) is events


def test_topic_tables_are_named_once() -> None:
    """Registrations without topics name none."""
    digests = [row("registrations", n, topic_config_digest=digest) for n, digest in enumerate(("a", None, "b", "a"))]
    assert topic_digests(day_events(frames(*digests))).to_pylist() == ["a", "b"]


def test_a_day_without_events_has_the_columns_of_events() -> None:
    """Nothing was recorded, or nothing was asked for."""
    assert day_events(frames()).schema == day_events({}, tables=()).schema == EVENTS
    assert {NAMESRV} == set(day_events(frames(row("heartbeats", 1)))["namesrv_id"].to_pylist())
