"""What a day did not change is carried forward as it was; only when brokers beat last is another instant."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from namesrv_core import V4_9_7, V5_4_0
from namesrv_day.arrow.rows import plain, rows_of
from namesrv_day.replay.forward import forwarded, refreshes_hourly
from schemas import gold
from tests.day.plan_rows import HOUR_S, NAMESRV, Row, beats, hours, live, opened, row, us

QUIET = pa.table({"node": ["a:1:1", "n:one"], "unit": ["u", "u"]})
LIVE = "broker_live_history"


def live_times(*rows: Row, of: pa.Table, profile: Any = V4_9_7) -> list[tuple[int, int]]:
    """Return the first beat of live rows that are carried forward, and the last."""
    found = forwarded({LIVE: of}, hours(*rows), QUIET, profile)[LIVE]
    assert found.schema == of.schema
    return [(r["first_update_time"], r["last_update_time"]) for r in rows_of(found)]


def test_rows_of_quiet_units_stay_as_they_are() -> None:
    """By address or by name, lists and structs included; those of others are somebody else's."""
    one = {"data_version": {"state_version": 1, "timestamp": 2, "counter": 3}, "filter_servers": ["f"], "topic": "T"}
    tables = (
        *("broker_addr_history", "data_version_history", "cluster_addr_history"),
        *("topic_queue_history", "filter_server_history"),
    )
    given = {name: opened(name, one, {"broker_name": "two", "broker_addr": "2:1"}) for name in tables}
    found = forwarded(given, hours(), QUIET, V4_9_7)
    assert found.keys() == given.keys()
    assert all(rows == given[name].slice(0, 1) for name, rows in found.items())
    assert forwarded({"kv_config_history": opened("kv_config_history", {})}, hours(), QUIET, V4_9_7) == {
        "kv_config_history": plain(gold.KV_CONFIG_HISTORY.schema).empty_table()
    }


def test_a_live_entry_was_renewed_by_its_last_beat() -> None:
    """A lease counts milliseconds; with which beat the entry began stays as it was."""
    told = [*beats(10, HOUR_S), row("heartbeats", HOUR_S + 1.2345), row("heartbeats", 9_000, broker_addr="2:1")]
    assert live_times(*told, of=live(-20)) == [(us(-20), us(HOUR_S + 1.234))]
    assert live_times(of=live(-20)) == [(us(-20), us(-20))]


def test_a_live_entry_of_5x_is_renewed_by_beats_of_its_cluster() -> None:
    """4.x looks at the address alone."""
    told = [row("heartbeats", 30), row("heartbeats", 60, cluster_name="D")]
    in_both = pa.concat_tables([live(-20), live(-10, cluster_name="D"), live(-5, cluster_name="E")])
    assert live_times(*told, of=in_both, profile=V5_4_0) == [(us(-20), us(30)), (us(-10), us(60)), (us(-5), us(-5))]
    assert live_times(*told, of=live(-20, cluster_name=None)) == [(us(-20), us(60))]


def test_a_broker_without_an_address_is_renewed_too() -> None:
    """A null is a key like any other."""
    nobody = pa.table({"node": ["a"], "unit": ["u"]})
    told = hours(row("heartbeats", 30, broker_addr=None), row("heartbeats", 60))
    found = forwarded({LIVE: live(-20, broker_addr=None)}, told, nobody, V4_9_7)
    assert [r["last_update_time"] for r in rows_of(found[LIVE])] == [us(30)]


def refreshes(*rows: Row, profile: Any = V4_9_7, counted: pa.Table | None = None) -> list[tuple[Any, ...]]:
    """Return the hours of live entries: cluster, address, hour, count, first and last time."""
    found = refreshes_hourly(hours(*rows), profile, counted)
    assert found.schema == plain(gold.REFRESHES_HOURLY.schema)
    assert set(found["namesrv_id"].to_pylist()) <= {NAMESRV}
    columns = ("cluster_name", "broker_addr", "hour", "refreshes", "first_time", "last_time")
    return sorted((tuple(r[name] for name in columns) for r in rows_of(found)), key=str)


def test_refreshes_are_counted_by_hour() -> None:
    """All beats of a live entry in an hour are one row, whatever they say."""
    told = [*beats(10, HOUR_S + 10), *beats(20, 100, 40, "registrations"), row("heartbeats", 50, broker_addr=None)]
    assert refreshes(*told) == [
        (None, "1:1", us(0), 123, us(10), us(HOUR_S - 20)),
        (None, "1:1", us(HOUR_S), 1, us(HOUR_S + 10), us(HOUR_S + 10)),
        (None, None, us(0), 1, us(50), us(50)),
    ]
    assert refreshes() == []


def test_refreshes_of_a_cluster_are_counted_in_5x() -> None:
    """There the cluster is a part of the key."""
    told = [row("heartbeats", 1), row("heartbeats", 2, cluster_name="D")]
    assert refreshes(*told, profile=V5_4_0) == [
        ("C", "1:1", us(0), 1, us(1), us(1)),
        ("D", "1:1", us(0), 1, us(2), us(2)),
    ]


def test_refreshes_that_were_replayed_are_added() -> None:
    """An hour of which a part was replayed beat by beat is one row."""
    counted = refreshes_hourly(hours(*beats(5, 65, 60), row("heartbeats", HOUR_S)), V4_9_7)
    assert refreshes(row("heartbeats", 30), row("heartbeats", 90), counted=counted) == [
        (None, "1:1", us(0), 4, us(5), us(90)),
        (None, "1:1", us(HOUR_S), 1, us(HOUR_S), us(HOUR_S)),
    ]
