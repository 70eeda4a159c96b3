"""A request that was refused, by what was recorded of its answer, does nothing: every kind of request, whatever is replayed."""

from __future__ import annotations

from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Outcome, Registry
from namesrv_core.machine import events
from namesrv_core.machine.profile import Profile
from namesrv_core.machine.step import REGISTER_FAILED
from namesrv_core.machine.tables import TopicConfig, TopicTable
from namesrv_core.replay.loop import take
from namesrv_day.arrow import rows_of
from namesrv_day.events import day_events
from schemas import codec
from schemas.tables.event_outcomes import detail_of, operation_of
from tests.day.plan_rows import Row, frames, row

TABLES = {"d": TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])}
BUSY: Row = {"response_code": 2, "response_remark": "[OVERLOAD]system busy"}
REQUESTS: dict[str, Row] = {
    "query_data_version": {"table": "heartbeats"},
    "broker_heartbeat": {"table": "heartbeats", "code": 904, "data_version": None},
    "unregister_broker": {"table": "unregistrations", "broker_id": 0},
    "put_kv_config": {"table": "admin_events", "code": 100, "namespace": "N", "config_key": "k", "config_value": "v"},
    "delete_kv_config": {"table": "admin_events", "code": 102, "namespace": "N", "config_key": "k"},
    "wipe_write_perm": {"table": "admin_events", "code": 205, "broker_name": "one"},
    "add_write_perm": {"table": "admin_events", "code": 327, "broker_name": "one"},
    "delete_topic": {"table": "admin_events", "code": 216, "topic": "T"},
    "register_topic": {"table": "admin_events", "code": 217, "topic": "N", "queue_datas": []},
    "update_namesrv_config": {"table": "admin_events", "code": 318, "config_value": "kvConfigPath=x"},
    "register_broker": {"table": "registrations", "broker_id": 0, "topic_config_digest": "d", "refusal": "said"},
}


def events_of(*rows: Row) -> list[Any]:
    """Return the core's events of rows of bronze, in their order."""
    found = day_events(frames(*rows)).sort_by("seq")
    return [codec.event_of(each, TABLES) for each in rows_of(found)]


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
@pytest.mark.parametrize("operation", REQUESTS)
def test_what_was_refused_does_nothing(operation: str, profile: Profile) -> None:
    """No row changes and no lease is renewed; the outcome is told of the request, with the words of the answer."""
    asked = dict(REQUESTS[operation])
    table = asked.pop("table")
    registered = row("registrations", 1, broker_id=0, topic_config_digest="d")
    first, refused = events_of(registered, row(table, 60, **asked, **BUSY))
    registry, namesrv = Registry(profile), Namesrv(profile)
    take(registry, first, 1_000, namesrv)
    taken = take(registry, refused, 60_000, namesrv)
    assert (taken.outcome, taken.changes, taken.refreshed) == (Outcome.REFUSED_REQUEST, (), None)
    assert detail_of(taken) == ("said" if table == "registrations" else BUSY["response_remark"])
    assert operation_of(refused, None) == operation
    assert list(registry.last_update_ms.values()) == [1_000]


@pytest.mark.parametrize("answer", [{"response_code": 0}, {"response_code": None}], ids=["taken", "not answered"])
def test_what_was_not_refused_is_what_it_was(answer: Row) -> None:
    """SUCCESS, and an answer that was not recorded."""
    (event,) = events_of(row("unregistrations", 1, broker_id=0, **answer))
    assert isinstance(event, events.UnregisterBroker)


def test_a_code_without_a_remark_is_reason_enough() -> None:
    """As an event log may have it."""
    (event,) = events_of(row("unregistrations", 1, broker_id=0, response_code=2))
    assert isinstance(event, events.RefusedRequest)
    assert event.reason == "response code 2"


def test_a_registration_refused_for_its_topic_goes_to_the_registry() -> None:
    """What it leaves behind is the registry's business."""
    (event,) = events_of(row("registrations", 1, topic_config_digest="d", refusal=REGISTER_FAILED, response_code=1))
    assert isinstance(event, events.RegisterBroker)
    assert event.is_refused
