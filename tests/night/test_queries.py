"""The saved queries on the bundled capture, in which most of what they ask about really happened."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.ask.engine import Answers
from jobs.ask.saved import query_named, values_of
from jobs.errors import UsageError
from schemas import asked
from schemas.queries import GROUPS, Query, queries
from tests.cli.test_query_situations import situations
from tests.night.nights import Capture

Row = dict[str, Any]
GIVEN = {
    "t": "2026-11-21 08:58",
    "before": "2026-11-21 08:56",
    "t1": "2026-11-21 08:57",
    "t2": "2026-11-21 09:05",
    "topic": "TopicA",
}
"""What a query is asked for where it must be told."""
WIPED = "ef2f684d4a9ed42e7e016226517fbd11"
EVIDENCE = {"event_id", "event_ids", "opened_by", "removed_by", "known_by"}


def given(query: Query) -> list[str]:
    return [f"{one.name}={GIVEN[one.name]}" for one in query.parameters if one.default is None]


def answered(answers: Answers, name: str, *params: str) -> list[Row]:
    query = query_named(name)
    told = {text.partition("=")[0] for text in params}
    rest = [text for text in given(query) if text.partition("=")[0] not in told]
    found = answers.ask(asked.statement(f"query.{name}") or "", **values_of(query, [*params, *rest]))
    assert found.names == list(query.columns)
    return [dict(zip(found.names, row, strict=True)) for row in found.rows]


@pytest.fixture(scope="module")
def answers(whole: Capture) -> Answers:
    return Answers(str(whole.path))


def test_every_query_is_described() -> None:
    """A question, a group that is known, a comment for each parameter and column; the statement uses what it declares."""
    assert len(queries()) == 44
    for query in queries().values():
        assert query.question.endswith(("?", "run."))
        assert query.group in GROUPS
        for parameter in query.parameters:
            assert f":{parameter.name}" in query.sql, query.name
        assert all(query.columns.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", queries())
def test_the_answer_has_the_columns_that_are_described(answers: Answers, name: str) -> None:
    """In their order; and it names the events that are its evidence, but where it only counts."""
    answered(answers, name)
    assert set(queries()[name].columns) & EVIDENCE or name == "growth"


HAPPENED: dict[str, tuple[tuple[str, ...], dict[str, Any], int]] = {
    "no_route_info": (("topic=TopicD", "t=2026-11-21 09:00"), {"state": "vanished", "source_offset": 8868}, 1),
    "no_writable_queue": (("topic=TopicC",), {"operation": "register_broker", "broker_name": "broker-c"}, 1),
    "stale_route_clients": (
        (),
        {"change": "appeared", "stale_ms": 573, "event_id": "e09a910f05f738b2aa468341550c5bcd"},
        56,
    ),
    "queue_changes_of": ((), {"perm_before": 6, "perm_after": 4, "event_id": WIPED}, 6),
    "queue_spread": ((), {"broker_name": "broker-a", "write_queue_nums": 16, "write_before": 8}, 3),
    "recovery": ((), {"name": "broker-c 127.0.0.5:10941", "lag_ms": 28_701}, 28),
    "single_broker_topics": ((), {"topic": "AutoTopic1", "brokers": 2, "auto_create": True}, 3),
    "tbw102": (("broker=broker-a",), {"opened_by": "76fc288d1edcdcc54abefb3d9b84ea3f"}, 3),
    "unread_queues": ((), {"topic": "TopicB", "lasted_ms": 57_012, "operation": "register_broker"}, 6),
    "departures": (
        ("broker=broker-c",),
        {"operation": "channel_idle", "detection_lag_ms": 120_004, "topics_lost": 13},
        2,
    ),
    "flapping": ((), {"broker_name": "broker-b", "departures": 3}, 1),
    "heartbeat_gaps_of": (("broker=broker-b",), {"beats": 33, "max_ms": 37_440, "max_share": 31.2}, 1),
    "removal_batches": ((), {"operation": "channel_idle", "broker_names": "broker-c", "topics_vanished": 4}, 9),
    "address_changes_of": ((), {"addr_before": "127.0.0.2:10911", "addr_after": "127.0.0.4:10931", "gap_ms": 0}, 1),
    "address_identities": ((), {"broker_addr": "127.0.0.2:10911", "first": "broker-a 0", "second": "broker-x 0"}, 1),
    "broker_name_conflicts": ((), {"what": "address of id 0", "broker_name": "broker-a"}, 1),
    "dual_masters": ((), {"what": "master replaced", "held_by": "127.0.0.2:10911"}, 1),
    "groups_without_master": ((), {"broker_name": "broker-a", "members": "2=127.0.0.4:10931", "lasted_ms": 34_877}, 1),
    "private_addresses": ((), {"broker_name": "broker-x", "broker_addr": "127.0.0.2:10911"}, 11),
    "write_perm_lost": (
        ("broker=broker-a",),
        {"topic": "TopicA", "operation": "wipe_write_perm", "event_id": WIPED},
        13,
    ),
    "disappearances": ((), {"topics": 1, "names": "TopicD", "operation": "delete_topic"}, 8),
    "orphaned_topics_of": ((), {"topic": "TopicE", "reason": "no_master", "broker_name": "broker-a"}, 2),
    "residual_topics": ((), {"topic": "TopicE", "broker_name": "broker-a"}, 1),
    "stale_order_conf": ((), {"topic": "OrderedTopic", "order_conf": "broker-a:4;broker-b:4"}, 1),
    "version_regressions": ((), {"what": "went back", "broker_addr": "127.0.0.4:10931", "times": 1}, 3),
    "registration_sizes": ((), {"broker_addr": "127.0.0.4:10931", "registrations": 28, "max_topics": 13}, 5),
    "registration_storms": (("times=7",), {"broker_name": "broker-b", "registrations": 8}, 2),
    "growth": ((), {"topics": 23, "queue_rows": 164, "brokers": 4, "route_bytes": 10_762}, 1),
    "registry_changes": ((), {"row_key": "broker-a 1", "change": "vanished", "operation": "unregister_broker"}, 25),
    "completeness": ((), {"what": "frames", "subject": "ignored.request:105", "number": 12_406}, 20),
}
"""What is asked for, one row of the answer, and how many rows there are."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HAPPENED)
def test_the_answer_is_what_happened(answers: Answers, name: str) -> None:
    """A row with the values, and the evidence, that the capture's story has."""
    params, expected, number = HAPPENED[name]
    found = answered(answers, name, *params)
    assert len(found) == number
    assert expected in [{key: row[key] for key in expected} for row in found]


def test_every_query_is_held_against_something_that_happened() -> None:
    """In the capture, or in literal rows."""
    assert set(queries()) == set(HAPPENED) | set(situations())


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
            values_of(query_named(name), params)
