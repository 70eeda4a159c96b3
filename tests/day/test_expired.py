"""Who fell silent and was removed, and what went with them: literal rows of one day."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from namesrv_day.arrow import table_of
from namesrv_day.findings import About, findings
from namesrv_day.registered import expired_brokers, unrenewed_beats
from schemas import gold
from tests.day.flag_rows import reading_during, tables
from tests.rows import DAY, event, live, member, outcome, queues

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
        broker_addr=[member("a", 0, "a:1", UP, SCAN), member("b", 0, "b:1", UP, SCAN), member("b", 1, "b:2", UP)],
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


def spoke(came: str, handled: str | None = None, addr: str = "a:1") -> dict[str, Any]:
    """Return a beat that came at one instant and was handled at another."""
    at, effect = event("beat", came), event("beat", handled or came)
    return {
        "broker_addr": addr,
        "event_time": at[1],
        "effect_time": effect[1],
        "event_id": came,
        "day": DAY,
        "code": 103,
    }


def test_a_frozen_broker_says_nothing_and_a_removed_one_may_have_spoken() -> None:
    """Beats that came before the removal and renewed no lease count, whenever they were handled; no other ones do."""
    removal = {
        "removed_by": "scan",
        "removed_time": SCAN[1],
        "last_beat_time": event("beat", "08:30")[1],
        "broker_addr": "a:1",
    }
    gone = table_of([{**removal, "returned_time": BACK[1]}], gold.EXPIRED_BROKERS)
    beats = [spoke("08:30"), spoke("08:45"), spoke("08:59", "09:10"), spoke("09:10"), spoke("08:45", addr="b:1")]
    unrenewed = unrenewed_beats(gone, tables({})["event_outcomes"], reading_during(beats))
    assert [(row["removed_by"], row["broker_addr"], row["beats"], row["refused"]) for row in unrenewed.to_pylist()] == [
        ("scan", "a:1", 2, 0)
    ]
    assert (
        unrenewed_beats(gone, tables({})["event_outcomes"], reading_during([spoke("08:30"), spoke("09:10")])).num_rows
        == 0
    )
    about = About("10.0.0.1:9876", DAY)
    found = {
        had: findings({**tables({}), gold.EXPIRED_BROKERS.name: _soon(gone), "unrenewed": told}, {}, {}, about)[
            "code"
        ].to_pylist()
        for had, told in ((True, unrenewed), (False, unrenewed.slice(0, 0)))
    }
    assert found == {True: ["EXPIRED_BROKER", "EXPIRED_WHILE_ALIVE"], False: ["EXPIRED_BROKER"]}


def test_a_broker_that_is_refused_did_not_fall_silent() -> None:
    """Told are how often, since when and why it was refused until its lease ended; what was late is no refusal."""
    removal = expired(broker_live=[live("a:1", UP, SCAN, broker_name="a"), live("b:1", UP, SCAN, broker_name="b")])
    gone = table_of(removal, gold.EXPIRED_BROKERS)
    refused = [{**spoke(f"08:{minute}"), "refusal": "crc32_mismatch"} for minute in (31, 32)]
    beats = [*refused, spoke("08:33"), spoke("08:34"), spoke("08:59", "09:10"), spoke("08:40", addr="b:1")]
    outcomes = [
        *(
            outcome(event(beat["event_id"], beat["event_id"]), "register_broker", outcome="refused_request")
            for beat in refused
        ),
        outcome(event("08:33", "08:33"), "register_broker", outcome="no_effect"),
        outcome(event("08:34", "08:34"), "register_broker", outcome="refused_request", detail="system busy"),
        outcome(event("08:59", "09:10"), "register_broker", outcome="refused_request"),
    ]
    of_day = {**tables({gold.EVENT_OUTCOMES: outcomes}), gold.EXPIRED_BROKERS.name: gone}
    unrenewed = unrenewed_beats(gone, of_day["event_outcomes"], reading_during(beats))
    found = findings({**of_day, "unrenewed": unrenewed}, {}, {}, About("10.0.0.1:9876", DAY)).to_pylist()
    (told,) = [row for row in found if row["code"] == "EXPIRED_BROKER"]
    assert (
        "; it was not silent: 4 of its requests were refused since 2026-03-01T08:31:00.000Z "
        "(crc32_mismatch, request code 103 is not supported, system busy); "
    ) in told["detail"]
    assert told["evidence"] == ["scan", "08:31"]
    assert "LOG_GAP" not in {row["code"] for row in found}, "that they spoke is recorded"
    alone = findings({**of_day, "unrenewed": unrenewed.slice(0, 0)}, {}, {}, About("10.0.0.1:9876", DAY))
    assert "LOG_GAP" in alone["code"].to_pylist()
    # What was refused before midnight is not counted, and that is said.
    since_yesterday = table_of(
        [{**row, "last_beat_time": row["last_beat_time"] - dt.timedelta(days=1)} for row in removal],
        gold.EXPIRED_BROKERS,
    )
    over = findings(
        {**of_day, gold.EXPIRED_BROKERS.name: since_yesterday, "unrenewed": unrenewed},
        {},
        {},
        About("10.0.0.1:9876", DAY),
    )
    (detail,) = [text for text in over["detail"].to_pylist() if "silent" in text]
    assert (
        "; it was not silent: at least 4 of its requests were refused, on that day since 2026-03-01T08:31:00.000Z ("
        in detail
    )


def _soon(gone: pa.Table) -> pa.Table:
    """Return the same with brokers that were back at the instant of their removal, and have names."""
    rows = [
        {**row, "returned_time": row["removed_time"], "broker_name": "a", "topics_lost": []} for row in gone.to_pylist()
    ]
    return table_of(rows, gold.EXPIRED_BROKERS)
