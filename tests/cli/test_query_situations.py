"""What the bundled capture does not show, in literal rows: each saved query finds what happened, and its evidence.

Two name servers, ns-1 (10.0.0.9) and ns-2 (10.0.0.8); broker-a (10.0.0.1) and broker-b (10.0.0.2) of cluster C.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jobs.ask.engine import Answers
from jobs.ask.saved import query_named, values_of
from schemas import asked, bronze, gold
from tests.cli.rows import Event, Row, event, interval, publish, seq, warehouse_at

NS1, NS2 = "10.0.0.9:9876", "10.0.0.8:9876"
A, B, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
DAY = dt.date(2026, 3, 1)


def at(event_id: str, clock: str) -> Event:
    return event(event_id, DAY, clock)


def outcome(of: Event, operation: str, result: str = "applied", ns: str = NS1, **values: Any) -> Row:
    when = {"event_id": of[0], "seq": seq(of[1]), "effect_time": of[1], "day": DAY}
    return {"namesrv_id": ns, **when, "operation": operation, "outcome": result, "changes": 1, **values}


def sent(of: Event, ns: str = NS1, arrived: dt.datetime | None = None, **values: Any) -> Row:
    """Return an event as it was recorded: a request of broker-a's, unless `values` say otherwise."""
    when = {"event_id": of[0], "seq": seq(of[1]), "event_time": arrived or of[1], "effect_time": of[1], "day": DAY}
    where = {"source_file": "f.pcap", "source_offset": 7, "ingest_run": "r", "one_way": False, "request_version": 407}
    broker = {"broker_name": "broker-a", "broker_addr": A, "broker_id": 0, "cluster_name": "C"}
    return {"namesrv_id": ns, **when, **where, **broker, **values}


def answered(of: Event, **values: Any) -> Row:
    return sent(of, **{"code": 105, "response_code": 0, "seq_rest": 0, "stated_id": of[0], **values})


def registration(of: Event, ns: str = NS1, arrived: dt.datetime | None = None, **values: Any) -> Row:
    body = {"code": 103, "compressed": False, "body_bytes": 900, "topic_count": 8, "data_version": VERSION}
    return sent(of, ns, arrived, **{**body, "topic_config_digest": "eight", **values})


def kept(opened: Event, closed: Event | None = None, ns: str = NS1, **values: Any) -> Row:
    return {"namesrv_id": ns, "day": DAY, **interval(opened, closed), **values}


def live(opened: Event, closed: Event | None = None, addr: str = A, name: str = "broker-a", ns: str = NS1) -> Row:
    beats = {"first_update_time": opened[1], "last_update_time": opened[1], "heartbeat_timeout_ms": 120_000}
    return kept(opened, closed, ns, broker_name=name, broker_addr=addr, **beats)


def member(opened: Event, closed: Event | None = None, addr: str = A, broker_id: int = 0, **values: Any) -> Row:
    group = {"broker_name": "broker-a", "broker_id": broker_id, "broker_addr": addr, "cluster_name": "C"}
    return kept(opened, closed, **{**group, "enable_acting_master": False, **values})


def queues(opened: Event, closed: Event | None = None, topic: str = "T", ns: str = NS1, **values: Any) -> Row:
    nums = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0, "broker_name": "broker-a"}
    return kept(opened, closed, ns, **{**nums, "topic": topic, **values})


def changed(of: Event, change: str, topic: str = "T", ns: str = NS1) -> Row:
    when = {"seq": seq(of[1]), "effect_time": of[1], "day": DAY, "caused_by": of[0]}
    before, after = int(change != "appeared"), int(change != "vanished")
    sizes = {"groups_before": before, "groups_after": after, "length_before": 60 * before, "length_after": 60 * after}
    parts = [{"part": "queueDatas", "name": "broker-a", "text": "{}" if after else None}]
    return {"namesrv_id": ns, "topic": topic, **when, "change": change, "parts": parts, **sizes}


VERSION = {"state_version": 0, "timestamp": 1, "counter": 1}
START, UP = at("start", "08:00"), at("up", "09:00")
"""broker-a comes at 09:00."""
CLIENTS = {
    "10.1.0.1:4000#1": ("09:30", "10:00:30", "10:03"),
    "10.1.0.1:4001#2": ("09:40", "10:02"),
    "10.1.0.2:5#3": ("09:50",),
}
"""Three connections of two clients, and when they ask for T, which vanishes at 10:00."""
TOLD = [{"topic": name, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0} for name in "TU"]


def situations() -> dict[str, tuple[dict[Any, list[Row]], list[str], list[Row]]]:
    """Return by the name of a query the rows of a day, the parameters, and what the answer says in some columns."""
    full, wiped, back = at("full", "09:05"), at("wiped", "10:00"), at("back", "10:00:20")
    late = at("late", "10:00:10")
    ns2_up, ns2_down = at("up-2", "09:00:05"), at("down-2", "10:00")
    of_a, known = {"broker_name": "broker-a"}, {"broker_name": "broker-a", "known_to": NS1, "known_by": "up"}
    silent = {
        "last_beat_time": UP[1],
        "heartbeat_timeout_ms": 120_000,
        "detection_lag_ms": 121_000,
        "topics_lost": ["T"],
    }
    silent |= {"namesrv_id": NS1, **of_a, "broker_addr": A, "day": DAY}
    removed = {"cause": "scan", "removed_time": wiped[1], "removed_by": "wiped"}
    lost: Row = {"kind": "close", "closed_by": "client", "remote_addr": "10.0.0.1:4000", "pending_requests": 0}
    waited = {"median_ms": 75_000, "longest_ms": 120_000}
    changes = {"table_name": "route_changes", "rows_before": 1, "rows_after": 2, "rows_added": 1, "rows_removed": 0}
    why = {"previous_run": "0", "cause": "events", "ingest_runs": ["r"], "new_events": 1, "event_ids": ["late"]}
    unread = {"quarantine_id": "q", "namesrv_id": NS1, "reason": "broken_rule", "length": 1, "sha256": "s"}
    unread |= {"first_bytes": "", "decoder_version": "1"}
    return {
        "partial_first_registrations": (
            {
                bronze.REGISTRATIONS: [registration(UP, topic_count=1), registration(full)],
                gold.EVENT_OUTCOMES: [outcome(UP, "register_broker", "refused_lone_topic")],
            },
            [],
            [{"outcome": "refused_lone_topic", "partial_ms": 300_000, "event_id": "up", "source_offset": 7}],
        ),
        "expired_while_alive": (
            {gold.EXPIRED_BROKERS: [{**silent, **removed, "returned_time": back[1], "returned_by": "back"}]},
            [],
            [{"away_ms": 20_000, "removed_by": "wiped", "returned_by": "back"}],
        ),
        "stale_removals": (
            {
                gold.BROKER_LIVE_HISTORY: [live(UP, late), live(back)],
                bronze.REGISTRATIONS: [registration(UP), registration(at("fresh", "10:00:05")), registration(back)],
                bronze.CHANNEL_EVENTS: [sent(late, arrived=wiped[1], **lost)],
                gold.EVENT_OUTCOMES: [outcome(late, "channel_close", "channel_lost")],
            },
            [],
            [{"registered_by": "fresh", "decided_time": wiped[1], "removed_by": "late", "back_time": back[1]}],
        ),
        "flapping": (
            {
                gold.BROKER_LIVE_HISTORY: [
                    live(at(f"up-{n}", f"10:{n}0"), at(f"down-{n}", f"10:{n}5")) for n in range(4)
                ],
                gold.EVENT_OUTCOMES: [
                    outcome(at(f"down-{n}", f"10:{n}5"), "namesrv_stopped" if n == 3 else "channel_close")
                    for n in range(4)
                ],
            },
            [],
            [{"departures": 3, "operations": "channel_close", "event_ids": ["down-0", "down-1", "down-2"]}],
        ),
        "divergence": (
            {gold.TOPIC_QUEUE_HISTORY: [queues(UP), queues(ns2_up, ns2_down, ns=NS2)]},
            ["t=2026-03-01 11:00"],
            [{"topic": "T", "namesrv_id": NS2, **known, "lacking_since": ns2_down[1], "lacking_by": "down-2"}],
        ),
        "divergence_intervals": (
            {
                gold.TOPIC_QUEUE_HISTORY: [
                    *(queues(UP, full), queues(full, read_queue_nums=8)),
                    *(queues(at("later", "09:02"), wiped, ns=NS2), queues(back, ns=NS2)),
                    queues(at("gone-2", "09:30"), wiped, ns=NS2, topic="U"),
                    queues(full, ns="10.0.0.7:9876", topic="V"),
                ],
                # of ns-3 only its log tells: what that lacks is no disagreement
                bronze.NAMESRV_EVENTS: [
                    sent(START, ns="10.0.0.7:9876", kind="logged", evidence="a log", properties="log", version=None)
                ],
            },
            ["until=2026-03-01 09:59"],
            [
                {"topic": "T", "lasted_ms": 120_000, "known_to": NS1, "event_id": "up", "closed_by": "later"},
                {"topic": "U", "lasted_ms": 1_800_000, "known_to": NS2, "event_id": "gone-2", "closed_by": "wiped"},
            ],
        ),
        "topics_on_one_name_server": (
            {gold.TOPIC_QUEUE_HISTORY: [queues(UP), queues(UP, topic="U"), queues(ns2_up, ns=NS2)]},
            ["t=2026-03-01 11:00"],
            [{"topic": "U", "namesrv_id": NS1, "brokers": "broker-a", "event_id": "up"}],
        ),
        "abandoned_name_servers": (
            {
                bronze.REGISTRATIONS: [registration(UP)],
                bronze.ROUTE_OBSERVATIONS: [answered(at("asked", "10:30"))],
            },
            [],
            [{"namesrv_id": NS1, "answers": 1, "beats": 0, "last_beat_time": UP[1], "event_id": "up"}],
        ),
        "stale_route_summary": (
            {
                gold.ROUTE_CHANGES: [changed(UP, "appeared"), changed(wiped, "vanished")],
                bronze.ROUTE_OBSERVATIONS: [
                    answered(at(f"{channel} {clock}", clock), channel_id=channel, subject="T")
                    for channel, clocks in CLIENTS.items()
                    for clock in clocks
                ],
            },
            ["topic=T"],
            [{"change": "vanished", "connections": 3, "hosts": 2, "not_again": 1, "event_id": "wiped", **waited}],
        ),
        "broker_name_conflicts": (
            {
                gold.CLUSTER_ADDR_HISTORY: [
                    kept(UP, cluster_name="C", broker_name="broker-a"),
                    kept(full, cluster_name="D", broker_name="broker-a"),
                ],
                gold.BROKER_ADDR_HISTORY: [member(UP, wiped), member(wiped, addr=OTHER)],
            },
            [],
            [
                {"what": "two clusters", "first": "C", "second": "D", "event_id": "full"},
                {"what": "address of id 0", "first": A, "second": OTHER, "event_id": "wiped"},
            ],
        ),
        "dual_masters": (
            {
                gold.BROKER_ADDR_HISTORY: [member(UP, wiped), member(wiped, addr=OTHER)],
                bronze.REGISTRATIONS: [registration(late)],
                gold.EVENT_OUTCOMES: [
                    outcome(late, "register_broker", "rejected_state_version", broker_name="broker-a")
                ],
            },
            [],
            [
                {"what": "master replaced", "broker_addr": OTHER, "held_by": A, "event_id": "wiped"},
                {"what": "rejected", "broker_addr": A, "held_by": OTHER, "event_id": "late", "source_offset": 7},
            ],
        ),
        "roles_not_registered": (
            {
                gold.BROKER_ADDR_HISTORY: [member(UP)],
                bronze.HEARTBEATS: [sent(e, code=322, broker_id=1, stated_id=e[0]) for e in (full, late)],
            },
            [],
            [{"claimed_id": 1, "held_id": 0, "beats": 2, "event_id": "full", "opened_by": "up"}],
        ),
        "perm_lost_to_a_slave": (
            {
                gold.TOPIC_QUEUE_HISTORY: [queues(UP, wiped), queues(wiped, perm=4)],
                bronze.REGISTRATIONS: [registration(wiped, broker_id=-1, broker_addr=B)],
                gold.EVENT_OUTCOMES: [outcome(wiped, "register_broker")],
            },
            [],
            [{"broker_id": -1, "broker_addr": B, "topics": 1, "event_id": "wiped", "source_file": "f.pcap"}],
        ),
        "permission_spread": (
            {
                gold.TOPIC_QUEUE_HISTORY: [
                    *(queues(UP, wiped), queues(wiped, perm=4)),
                    *(queues(ns2_up, late, ns=NS2), queues(late, ns=NS2, perm=4)),
                    queues(UP, ns="10.0.0.7:9876"),
                ]
            },
            [],
            [
                {"namesrv_id": NS1, "lag_ms": 0, "missing": 1, "event_id": "wiped"},
                {"namesrv_id": NS2, "lag_ms": 10_000, "missing": 1, "event_id": "late"},
            ],
        ),
        "resurrected_topics": (
            {
                gold.ROUTE_CHANGES: [changed(UP, "appeared"), changed(wiped, "vanished"), changed(back, "appeared")],
                gold.EVENT_OUTCOMES: [
                    outcome(wiped, "delete_topic", topic="T"),
                    outcome(back, "register_broker", **of_a),
                ],
            },
            [],
            [{"topic": "T", "deleted_by": "wiped", "back_time": back[1], **of_a, "event_id": "back"}],
        ),
        "skipped_batches": (
            {
                gold.TOPIC_QUEUE_HISTORY: [queues(UP)],
                bronze.REGISTRATIONS: [
                    registration(UP, topic_count=1, topic_config_digest="one"),
                    registration(full, topic_count=2, topic_config_digest="two"),
                ],
                bronze.TOPIC_CONFIGS_TABLE: [
                    {"topic_config_digest": "two", "topics": TOLD, "mappings": [], "topic_count": 2, "ingest_run": "r"}
                ],
            },
            [],
            [{"topics": 2, "skipped": 1, "names": "U", "outcome": "refreshed", "event_id": "full"}],
        ),
        "recovery": (
            {
                gold.EVENT_OUTCOMES: [outcome(START, "namesrv_started", "started")],
                gold.BROKER_LIVE_HISTORY: [live(UP)],
                gold.ROUTE_CHANGES: [changed(full, "appeared")],
            },
            [],
            [
                {"what": "broker", "name": f"broker-a {A}", "lag_ms": 3_600_000, "event_id": "up"},
                {"what": "topic", "name": "T", "lag_ms": 3_900_000, "event_id": "full"},
            ],
        ),
        "restated": (
            {gold.RESTATEMENTS: [{**changes, **why, "run_id": "1", "namesrv_id": NS1, "changes": [], "day": DAY}]},
            ["day=2026-03-01"],
            [{"table_name": "route_changes", "previous_run": "0", "cause": "events", "event_ids": ["late"]}],
        ),
        "completeness": (
            {
                bronze.NAMESRV_EVENTS: [{**sent(wiped), "kind": "recording_gap", "evidence": "silence"}],
                bronze.QUARANTINE: [
                    {**unread, "source_file": "f.pcap", "source_offset": 3, "ingest_run": "r", "day": DAY}
                ],
            },
            [],
            [
                {"what": "quarantine", "subject": "broken_rule", "number": 1, "event_id": "q"},
                {"what": "recording recording_gap", "subject": NS1, "number": 1, "event_id": "wiped"},
            ],
        ),
    }


def further_situations() -> list[tuple[str, dict[Any, list[Row]], list[str], list[Row]]]:
    """Return the same of queries of which one situation does not say enough."""
    wiped, gone, back = at("wiped", "10:00"), at("gone", "10:01"), at("back", "10:05")
    second, third = at("second", "09:30"), at("third", "09:40")
    halves = [at(f"{name} {minute}", f"09:{minute:02}") for minute in range(3) for name in ("a", "b")]
    shared = [
        registration(of, broker_name=f"broker-{of[0][0]}", topic_config_digest="two", arrived=of[1])
        for of in halves[:5]
    ]
    config = {"mappings": [], "ingest_run": "r"}
    versions = {
        bronze.TOPIC_CONFIGS_TABLE: [
            {**config, "topic_config_digest": digest, "topics": told, "topic_count": len(told)}
            for digest, told in {
                "ab": [{**TOLD[0], "topic": topic} for topic in "AB"],
                "cd": [{**TOLD[0], "topic": topic} for topic in "CD"],
                "ab2": [{**TOLD[0], "topic": topic, "perm": 4} for topic in "AB"],
                "one": [{**TOLD[0], "topic": "A"}],
            }.items()
        ],
        # a table in two parts, again and again; a topic alone; the first part otherwise, again and again
        bronze.REGISTRATIONS: [
            registration(
                at(f"{digest} {minute}", f"09:{minute:02}:{second:02}"),
                topic_config_digest=digest,
                topic_count=1 if digest == "one" else 2,
            )
            for minute in range(10)
            for second, digest in enumerate(["ab" if minute < 5 else "ab2", "cd", *(["one"] if minute == 3 else [])])
        ],
        gold.DATA_VERSION_HISTORY: [
            {
                **kept(at(f"old {minute}", f"11:{minute:02}"), at(f"new {minute}", f"11:{minute:02}:30")),
                "broker_name": "broker-b",
                "broker_addr": B,
                "is_regression": True,
                "data_version": {**VERSION, "counter": 1},
                "previous": {**VERSION, "counter": 2},
            }
            for minute in range(12)
        ],
    }
    return [
        (
            "write_perm_lost",
            {
                gold.TOPIC_QUEUE_HISTORY: [queues(UP, wiped), queues(wiped, gone, perm=4), queues(back)],
                gold.EVENT_OUTCOMES: [outcome(wiped, "wipe_write_perm")],
            },
            [],
            [{"topic": "T", "lost_time": wiped[1], "back_time": back[1], "event_id": "wiped"}],
        ),
        (
            "divergence",
            {
                gold.TOPIC_QUEUE_HISTORY: [
                    *(queues(UP, wiped), queues(wiped, perm=4)),
                    *(queues(second, ns=NS2), queues(UP, topic="U", ns=NS2)),
                ]
            },
            ["t=2026-03-01 11:00"],
            [
                {
                    "topic": "T",
                    "namesrv_id": NS1,
                    "known_to": NS2,
                    "known_since": second[1],
                    "differs": "perm 4, read 4, write 4, flag 0 instead of perm 6, read 4, write 4, flag 0",
                    "lacking_since": wiped[1],
                    "lacking_by": "wiped",
                },
                {"topic": "U", "namesrv_id": NS1, "differs": "missing", "known_to": NS2},
            ],
        ),
        (
            "growth",
            {
                gold.NAMESRV_SETTINGS: [{"namesrv_id": NS1, "setting": "version", "value": "4.9.7", "day": DAY}],
                gold.TOPIC_QUEUE_HISTORY: [queues(UP, gone), queues(second, gone, topic="U")],
                gold.BROKER_LIVE_HISTORY: [live(UP, gone)],
                gold.ROUTE_CHANGES: [
                    *(changed(UP, "appeared"), changed(second, "appeared", "U")),
                    *(changed(gone, "vanished", topic) for topic in "TU"),
                ],
            },
            [],
            [{"topics": 2, "queue_rows": 2, "brokers": 1, "route_bytes": 120, "heaviest": "U", "heaviest_bytes": 60}],
        ),
        (
            "heartbeat_gaps_of",
            {gold.BROKER_LIVE_HISTORY: [live(UP)], bronze.REGISTRATIONS: shared},
            [],
            [
                {"broker_name": "broker-a", "broker_addr": A, "beats": 2, "max_ms": 60_000},
                {"broker_name": "broker-b", "broker_addr": A, "beats": 1, "max_ms": 60_000},
            ],
        ),
        (
            "single_broker_topics",
            {
                gold.TOPIC_QUEUE_HISTORY: [
                    *(queues(UP, wiped), queues(wiped, perm=4), queues(UP, second, broker_name="broker-b")),
                    queues(third, topic="U"),
                ],
                gold.CLUSTER_ADDR_HISTORY: [
                    kept(UP, cluster_name="C", broker_name=name) for name in ("broker-a", "broker-b")
                ],
            },
            ["t=2026-03-01 11:00"],
            [
                {"topic": "T", "since": second[1], "event_id": "second"},
                {"topic": "U", "since": third[1], "event_id": "third"},
            ],
        ),
        (
            "single_broker_topics",
            {
                gold.TOPIC_QUEUE_HISTORY: [queues(UP), queues(UP, second, broker_name="broker-b")],
                gold.CLUSTER_ADDR_HISTORY: [
                    kept(UP, cluster_name="C", broker_name="broker-a"),
                    kept(UP, second, cluster_name="C", broker_name="broker-b"),
                    kept(third, cluster_name="C", broker_name="broker-b"),
                ],
            },
            ["t=2026-03-01 11:00"],
            [{"topic": "T", "since": third[1], "event_id": "third"}],
        ),
        (
            "version_regressions",
            versions,
            [],
            [
                {"what": "same version, other topics", "broker_name": "broker-a", "times": 5, "event_id": "ab2 5"},
                {"what": "went back", "broker_name": "broker-b", "times": 12, "event_id": "old 0"},
            ],
        ),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "situation"),
    [
        *((name, situation) for name, situation in situations().items()),
        *((name, (rows, params, expected)) for name, rows, params, expected in further_situations()),
    ],
)
def test_a_query_finds_what_happened(name: str, situation: Any, tmp_path: Any) -> None:
    """No more rows and no fewer; the values and the evidence that were planted."""
    rows, params, expected = situation
    publish(warehouse_at(tmp_path, "1"), rows)
    query = query_named(name)
    found = Answers(str(tmp_path)).ask(asked.statement(f"query.{name}") or "", **values_of(query, params))
    answer = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    assert len(answer) == len(expected), answer
    for row, wanted in zip(answer, expected, strict=True):
        assert {key: plain(row[key]) for key in wanted} == wanted


def plain(value: Any) -> Any:
    """Return an instant without its zone, which is UTC."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
