"""Who fell silent and was removed, and what went with them: literal rows of one day."""

from __future__ import annotations

from typing import Any

from namesrv_day.expired import expired_brokers
from schemas import gold
from tests.day.flag_rows import event, live, member, outcome, queues, tables

UP, SCAN, IDLE, BACK = (
    event(i, at) for i, at in (("up", "08:00"), ("scan", "09:00"), ("idle", "10:00"), ("back", "11:00"))
)
CLOSE = event("close", "12:00")
OUTCOMES = [outcome(SCAN, "scan"), outcome(IDLE, "channel_idle"), outcome(CLOSE, "channel_close")]


def expired(**rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the expired brokers of a day with these rows of histories, by name of the broker."""
    of = {table: rows.get(table.name.removesuffix("_history"), []) for table in gold.HISTORY_TABLES}
    found = expired_brokers(tables({**of, gold.EVENT_OUTCOMES: OUTCOMES}))
    return sorted(found.to_pylist(), key=lambda row: str(row["broker_name"]))


def test_scans_and_idle_closes_remove_silent_brokers_and_nothing_else_does() -> None:
    """The cause is told; a connection that its broker closes was not silent."""
    lives = [
        live(f"{name}:1", UP, end, broker_name=name)
        for name, end in (("a", SCAN), ("b", IDLE), ("c", CLOSE), ("d", None))
    ]
    found = expired(broker_live=lives)
    assert [(row["broker_name"], row["cause"], row["removed_by"]) for row in found] == [
        ("a", "scan", "scan"),
        ("b", "idle_channel", "idle"),
    ]
    assert [(row["detection_lag_ms"], row["removed_time"]) for row in found] == [
        (3_600_000, SCAN[1]),
        (7_200_000, IDLE[1]),
    ]


def test_a_broker_is_back_with_the_first_entry_under_its_own_key() -> None:
    """Of several later ones the first; in 5.x the key has the cluster, and that of another one is somebody else."""
    lives = [
        live("a:1", UP, SCAN, broker_name="a", cluster_name="C"),
        live("a:1", CLOSE, broker_name="a", cluster_name="C"),
        live("a:1", BACK, CLOSE, broker_name="a", cluster_name="C"),
        live("a:1", IDLE, broker_name="a", cluster_name="D"),
    ]
    ((back),) = expired(broker_live=lives)
    assert (back["returned_by"], back["returned_time"], back["cluster_name"]) == (*BACK, "C")


def test_topics_are_lost_with_the_address_that_the_same_event_removed() -> None:
    """Sorted, each once; not those whose queue data the event wrote anew, nor those of a name that it left alone."""
    found = expired(
        broker_live=[live("a:1", UP, SCAN, broker_name="a"), live("b:1", UP, SCAN, broker_name="b")],
        broker_addr=[
            member("a", 0, "a:1", UP, SCAN),
            member("b", 0, "b:1", UP, SCAN),
            member("b", 1, "b:2", UP),
        ],
        topic_queue=[
            queues("U", "a", UP, SCAN),
            queues("T", "a", UP, SCAN),
            queues("T", "b", UP, SCAN),
            queues("T", "b", SCAN, perm=4),
            queues("V", "c", UP, SCAN),
        ],
    )
    assert [(row["broker_name"], row["cluster_name"], row["topics_lost"]) for row in found] == [
        ("a", "C", ["T", "U"]),
        ("b", "C", []),
    ]
