"""What a day's slices are made to say: two name servers, two days, literal rows in the real schemas.

10.0.0.9:9876 is a 4.x server: broker-a with a slave loses its master to a scan at 11:00 and has it back 30 s
later, is wiped at 12:00, stops reporting T2 at 13:00, and goes the next day. 10.0.0.8:9876 is a 5.x server
whose only broker was never live.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv
from namesrv_core.history.route_history import RouteHistory, sweep_route
from namesrv_day import flags
from namesrv_day.arrow import ask, empty, plain, table_of
from namesrv_day.flags import FlagInput, flag
from namesrv_day.registered import registered
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import Table
from tests.day.flag_rows import hours_of, reading, recorded, tables, topic_configs
from tests.rows import DAY, NEXT_DAY, NS, Row, alive, clock, event, live, member, outcome, queues, registration

NS5 = "10.0.0.8:9876"
MASTER, SLAVE, LONE = "10.0.0.1:10911", "10.0.0.2:10911", "172.17.0.2:10911"
LONG_AGO = dt.datetime(2026, 2, 1, tzinfo=dt.timezone.utc)
REGISTER, SLAVE_UP = ("register", LONG_AGO), event("slave-up", "10:00:10")
SCAN, BACK = event("scan", "11:00"), event("back", "11:00:30")
WIPE, SHRUNK = event("wipe", "12:00"), event("shrunk", "13:00")
UNREGISTER = event("unregister", "09:00", NEXT_DAY)
START5, UP5 = event("start5", "07:59:58"), event("up5", "08:00")
LAST_BEAT = clock("10:57:55")

LIVES: dict[Table, list[Row]] = {
    gold.TOPIC_QUEUE_HISTORY: [
        queues("T", "broker-a", REGISTER, WIPE),
        queues("T", "broker-a", WIPE, UNREGISTER, perm=4),
        queues("T2", "broker-a", REGISTER, UNREGISTER),
    ],
    gold.BROKER_ADDR_HISTORY: [
        member("broker-a", 0, MASTER, REGISTER, SCAN),
        member("broker-a", 1, SLAVE, SLAVE_UP, UNREGISTER),
        member("broker-a", 0, MASTER, BACK, UNREGISTER),
    ],
    gold.BROKER_LIVE_HISTORY: [
        live(MASTER, REGISTER, SCAN, broker_name="broker-a", last_update_time=LAST_BEAT),
        live(SLAVE, SLAVE_UP, UNREGISTER, broker_name="broker-a"),
        live(MASTER, BACK, UNREGISTER, broker_name="broker-a"),
    ],
    gold.CLUSTER_ADDR_HISTORY: [
        alive(REGISTER, cluster_name="C", broker_name=name) for name in ("broker-a", "broker-z")
    ],
    gold.EVENT_OUTCOMES: [
        outcome(SCAN, "scan", outcome="expired"),
        outcome(BACK, "register_broker"),
        outcome(WIPE, "wipe_write_perm"),
        outcome(SHRUNK, "register_broker"),
        outcome(UNREGISTER, "unregister_broker"),
    ],
}
LIVES5: dict[Table, list[Row]] = {
    gold.TOPIC_QUEUE_HISTORY: [queues("T", "broker-l", UP5, write_queue_nums=8)],
    gold.BROKER_ADDR_HISTORY: [member("broker-l", 0, LONE, UP5, cluster_name="D")],
    gold.EVENT_OUTCOMES: [outcome(START5, "namesrv_started", outcome="started"), outcome(UP5, "register_broker")],
}
REGISTRATIONS = [
    registration(event("full", "10:30"), "broker-a", "both", 2),
    registration(event("single", "12:30"), "broker-a", "only_t", 1),
    registration(SHRUNK, "broker-a", "t_and_new", 2),
    registration(event("same", "13:30"), "broker-a", "t_and_new", 2),
    registration(event("next-day", "00:00:30", NEXT_DAY), "broker-a", "t_and_new", 2),
]
CONFIGS = topic_configs(both=["T", "T2"], only_t=["T"], t_and_new=["T", "New"])


def sliced(rows: dict[Table, list[Row]], day: dt.date, namesrv_id: str) -> dict[str, pa.Table]:
    """Return what was alive on a day, or happened on it, as its slices have it."""

    def cut(row: Row) -> Row | None:
        if "valid_from" not in row:
            return row if row["day"] == day else None
        end = row.get("valid_to")
        if row["valid_from"].date() > day or (end is not None and end.date() < day):
            return None
        ends_later = dict.fromkeys(("valid_to", "closed_by", "closed_at")) if end and end.date() > day else {}
        return {**row, **ends_later, "day": day}

    cuts = {table: [found for row in of_table if (found := cut(row)) is not None] for table, of_table in rows.items()}
    return tables({t: [{**row, "namesrv_id": namesrv_id} for row in of_table] for t, of_table in cuts.items()})


def given(day: dt.date, before: dict[str, pa.Table] | None = None) -> FlagInput:
    registrations = [row for row in REGISTRATIONS if row["day"] == day]
    today = {**sliced(LIVES, day, NS), "hours": hours_of(registrations)}
    return FlagInput(NS, Namesrv(V4_9_7), day, today, recorded(registrations, CONFIGS), before or {})


def given5(day: dt.date, before: dict[str, pa.Table] | None = None) -> FlagInput:
    of = FlagInput(NS5, Namesrv(V5_4_0), day, sliced(LIVES5, day, NS5), recorded([], CONFIGS), before or {})
    return replace(of, seen_until=clock("09:00", day))


Flagged = dict[str, dict[tuple[str, dt.date], pa.Table]]


def before(flagged: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Return what one day leaves to the next: of intervals those that are open."""
    ends = {table.name: table.span[1] for table in (gold.ORPHANED_TOPICS, gold.FINDINGS)}
    return {
        name: rows.filter(pc.field(ends[name]).is_null()) if name in ends else rows for name, rows in flagged.items()
    }


@pytest.fixture(scope="module")
def flagged() -> Flagged:
    """Flag both days of both servers one after the other, each with what the day before left."""
    found: Flagged = {}
    for make in (given, given5):
        first = flag(make(DAY))
        second = flag(make(NEXT_DAY, before(first)))
        for day, of_day in ((DAY, first), (NEXT_DAY, second)):
            for name, rows in of_day.items():
                found.setdefault(name, {})[make(DAY).namesrv_id, day] = rows
    return found


def rows_in(found: Iterable[pa.Table], *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of all tables, in order."""
    rows = [tuple(row[name] for name in columns) for table in found for row in table.to_pylist()]
    return sorted(rows, key=str)


def test_flagged_tables_have_the_columns_of_their_schemas(flagged: Flagged) -> None:
    """Names and types are those of the tables they are written to."""
    for table in (gold.ROUTE_CHANGES, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS, gold.FINDINGS):
        assert {rows.schema for rows in flagged[table.name].values()} == {plain(table.schema)}


@pytest.mark.slow
def test_topics_of_which_nothing_changed_need_no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Swept are the topics that moved, or were missing in a registration, or were orphaned; of others nothing is even read."""
    swept: list[str | None] = []

    def noting(topic: str | None, *args: Any, **options: Any) -> RouteHistory:
        swept.append(topic)
        return sweep_route(topic, *args, **options)

    monkeypatch.setattr(flags, "sweep_route", noting)
    first = flag(given(DAY))
    assert sorted(map(str, swept)) == ["T", "T2"]
    swept.clear()
    of_two = given(NEXT_DAY, before(first))
    still = {**of_two.today, "hours": hours_of([])}
    for table in gold.HISTORY_TABLES:
        still[table.name] = table_of([r for r in still[table.name].to_pylist() if r["closed_by"] is None], table)
    asked: list[set[str]] = []
    nothing = replace(of_two, today=still, before={}, recorded=recorded([])._replace(raw_beats=reading([], asked)))
    assert not any(rows.num_rows for name, rows in flag(nothing).items() if name != gold.FINDINGS.name)
    assert (swept, asked) == ([], [])
    flag(
        replace(
            nothing,
            today={**of_two.today, "hours": hours_of([])},
            before=before(first),
            recorded=recorded([])._replace(raw_beats=reading([], asked)),
        )
    )
    assert sorted(map(str, swept)) == ["T", "T2"]


def test_route_changes_name_their_cause_and_skip_the_day_boundary(flagged: Flagged) -> None:
    """A route that stands at midnight changes on neither day; every name server has its own."""
    assert rows_in(flagged["route_changes"].values(), "namesrv_id", "topic", "caused_by", "change", "day") == [
        (NS5, "T", "up5", "appeared", DAY),
        (NS, "T", "back", "changed", DAY),
        (NS, "T", "scan", "changed", DAY),
        (NS, "T", "slave-up", "changed", DAY),
        (NS, "T", "unregister", "vanished", NEXT_DAY),
        (NS, "T", "wipe", "changed", DAY),
        (NS, "T2", "back", "changed", DAY),
        (NS, "T2", "scan", "changed", DAY),
        (NS, "T2", "slave-up", "changed", DAY),
        (NS, "T2", "unregister", "vanished", NEXT_DAY),
    ]


def test_what_an_answer_showed_is_only_learned(flagged: Flagged) -> None:
    """A route that an observed answer taught changed before, nobody knows when: the kind of change says so."""
    taught = {**LIVES5, gold.EVENT_OUTCOMES: [outcome(UP5, "observed_answer")]}
    found = flag(replace(given5(DAY), today=sliced(taught, DAY, NS5)))
    assert found["route_changes"]["change"].to_pylist() == ["learned"]
    assert flagged["route_changes"][NS5, DAY]["change"].to_pylist() == ["appeared"]


def test_expired_brokers_tell_lag_return_and_the_topics_lost(flagged: Flagged) -> None:
    """The lag counts from the last refresh; a slave that stays keeps the queue data, so no topic is lost."""
    columns = [name for name in gold.EXPIRED_BROKERS.column_names if name != "day"]
    assert rows_in(flagged["expired_brokers"].values(), *columns) == [
        (*(NS, "C", "broker-a", MASTER, "scan", LAST_BEAT, 120_000, SCAN[1], "scan", 125_000), *(BACK[1], "back", []))
    ]


def test_orphaned_topics_keep_their_beginning(flagged: Flagged) -> None:
    """What is open at the end of the first day goes on in the second with its beginning."""
    what = ("namesrv_id", "topic", "broker_name", "reason")
    columns = (*what, "opened_by", "valid_from", "closed_by", "valid_to")
    rows = [
        *(
            (NS, topic, None, reason, *SCAN, *BACK)
            for topic in ("T", "T2")
            for reason in ("no_master", "no_writable_queue")
        ),
        (NS, "T", None, "no_writable_queue", *WIPE, None, None),
        (NS, "T2", "broker-a", "residual", *SHRUNK, None, None),
        (NS5, "T", None, "no_live_broker", *UP5, None, None),
    ]
    found = flagged["orphaned_topics"]
    assert rows_in((found[ns, DAY] for ns in (NS, NS5)), *columns) == sorted(rows, key=str)
    assert rows_in([found[NS, NEXT_DAY]], *columns) == [
        (NS, "T", None, "no_writable_queue", *WIPE, *UNREGISTER),
        (NS, "T2", "broker-a", "residual", *SHRUNK, *UNREGISTER),
    ]
    assert found[NS5, NEXT_DAY].equals(found[NS5, DAY])


def test_findings_carry_code_subject_and_evidence(flagged: Flagged) -> None:
    """Each finding of the first day names the events that prove it; topics of one cause are told together."""
    columns = ("code", "severity", "subject", "evidence")
    assert rows_in([flagged["findings"][NS, DAY]], *columns) == [
        ("EXPIRED_BROKER", "warning", f"broker-a {MASTER}", ["scan", "back"]),
        ("NO_MASTER", "critical", "broker-a", ["scan", "back"]),
        ("NO_WRITABLE_QUEUE", "critical", "T and 1 more", ["scan", "back"]),
        ("NO_WRITABLE_QUEUE", "critical", "T", ["wipe"]),
        ("RESIDUAL_TOPIC", "warning", "T2@broker-a", ["shrunk"]),
        ("SINGLE_BROKER_TOPIC", "info", "C", ["register"]),
        ("WRITE_PERM_LEFT_WIPED", "warning", "broker-a", ["wipe"]),
    ]
    assert rows_in([flagged["findings"][NS5, DAY]], *columns) == [
        ("GHOST_BROKER", "critical", f"broker-l {LONE}", ["up5"]),
        ("NS_COLD_START", "warning", NS5, ["start5", "up5"]),
        ("ORPHAN_TOPIC", "critical", "T", ["up5"]),
        ("PRIVATE_ADDR", "info", "D", ["up5"]),
        ("READ_LT_WRITE", "warning", NS5, ["up5"]),
    ]


def test_what_goes_on_stays_as_it_is_and_what_ends_has_its_end(flagged: Flagged) -> None:
    """On the second day the 4.x server's findings end, with beginning and evidence; the 5.x server's go on as they are."""
    columns = ("code", "subject", "from_time", "to_time", "evidence")
    assert rows_in([flagged["findings"][NS, NEXT_DAY]], *columns) == [
        ("GHOST_CLUSTER_MEMBER", "C broker-a", UNREGISTER[1], None, ["unregister"]),
        ("NO_WRITABLE_QUEUE", "T", WIPE[1], UNREGISTER[1], ["wipe", "unregister"]),
        ("RESIDUAL_TOPIC", "T2@broker-a", SHRUNK[1], UNREGISTER[1], ["shrunk", "unregister"]),
        ("SINGLE_BROKER_TOPIC", "C", LONG_AGO, UNREGISTER[1], ["register", "unregister"]),
        ("WRITE_PERM_LEFT_WIPED", "broker-a", WIPE[1], UNREGISTER[1], ["wipe", "unregister"]),
    ]
    first, second = (flagged["findings"][NS5, day] for day in (DAY, NEXT_DAY))
    stood = first.filter(pc.field("ended_on").is_null())
    assert stood.num_rows
    assert rows_in([second], *gold.FINDINGS.column_names) == rows_in([stood], *gold.FINDINGS.column_names)


def seq_ms(time: str) -> int:
    return int(clock(time).timestamp() * 1_000)


def gap_of(began: str, until: str) -> Row:
    """Return the outcome of a gap."""
    return outcome(event("gap", began), "recording_gap", outcome="unrecorded", detail=str(seq_ms(until)), changes=0)


@pytest.mark.slow
def test_what_only_was_not_known_is_not_told() -> None:
    """Nothing is told that ended before every broker had been heard; a start that says who is there settles it at once."""
    about = {"from_ms": seq_ms("10:50"), "longest_lease_ms": 3_600_000, "complete_ms": 0}
    settings = [
        {"namesrv_id": NS, "what": "setting", "about": name, "number": number, "day": DAY}
        for name, number in about.items()
    ]
    unknown = {gold.PAST_KNOWLEDGE.name: table_of(settings, gold.PAST_KNOWLEDGE)}
    of_day = given(DAY)
    found = flag(replace(of_day, today={**of_day.today, **unknown}))
    assert "scan" not in found["orphaned_topics"]["opened_by"].to_pylist()
    assert "NO_MASTER" not in found["findings"]["code"].to_pylist()
    started = {
        **LIVES,
        gold.EVENT_OUTCOMES: [*LIVES[gold.EVENT_OUTCOMES], outcome(event("start", "10:50"), "namesrv_started")],
    }
    restarted = flag(replace(of_day, today={**sliced(started, DAY, NS), **unknown, "hours": of_day.today["hours"]}))
    assert "NO_MASTER" in restarted["findings"]["code"].to_pylist()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({gold.EVENT_OUTCOMES: [gap_of("10:49", "10:50")]}, False),
        ({gold.EVENT_OUTCOMES: [gap_of("11:00:01", "11:00:02")]}, True),
        ({bronze.NAMESRV_EVENTS: [{"kind": "observed_from", "event_time": clock("10:50"), "day": DAY}]}, False),
    ],
)
def test_nor_is_it_behind_what_was_not_recorded_before(rows: dict[Table, list[Row]], told: bool) -> None:  # noqa: FBT001
    """An orphan behind a beginning or a gap that ended before every broker had been heard is not told; what began before is."""
    about = {"from_ms": seq_ms("20:00"), "longest_lease_ms": 3_600_000, "complete_ms": 0}
    settings = [
        {"namesrv_id": NS, "what": "setting", "about": name, "number": number, "day": DAY}
        for name, number in about.items()
    ]
    more = {table: [*LIVES.get(table, ()), *of] for table, of in rows.items()}
    of_day = given(DAY)
    today = {**sliced({**LIVES, **more, gold.PAST_KNOWLEDGE: settings}, DAY, NS), "hours": of_day.today["hours"]}
    found = flag(replace(of_day, today=today))
    assert ("scan" in found["orphaned_topics"]["opened_by"].to_pylist()) is told


def test_a_broker_that_shares_its_address_is_not_silent_in_a_gap() -> None:
    """Of two names at one address one was heard before a gap and behind it: its silence is that up to the gap, and from its end."""
    before, behind = event("before", "10:00"), event("behind", "10:30")
    rows: dict[Table, list[Row]] = {
        gold.BROKER_ADDR_HISTORY: [member(name, 0, MASTER, event("up", "09:00")) for name in ("broker-a", "broker-b")],
        gold.BROKER_LIVE_HISTORY: [live(MASTER, event("up", "09:00"))],
        gold.EVENT_OUTCOMES: [gap_of("10:01", "10:29")],
    }
    told = [registration(at, "broker-a", "d", 1, broker_addr=MASTER) for at in (before, behind)]
    today = {**sliced(rows, DAY, NS), "hours": hours_of(told)}
    silent = registered(today, recorded(told), DAY, empty(gold.FINDINGS))["silent"].filter(
        pc.field("broker_name") == "broker-a"
    )
    assert silent.select(["event_id", "since", "until"]).sort_by("since").to_pylist() == [
        {"event_id": of, "since": clock(since), "until": until and clock(until)}
        for of, since, until in (
            ("up", "09:00", "10:00"),
            ("before", "10:00", "10:01"),
            ("gap", "10:29", "10:30"),
            ("behind", "10:30", None),
        )
    ]


def test_what_a_broker_tells_with_one_version_is_compared_from_one_registration_to_the_next() -> None:
    """A new topic with the version that it had; not one with another version, nor a registration with a single topic."""
    version = {"data_version": {"state_version": 0, "timestamp": 1, "counter": 1}}
    other = {"data_version": {"state_version": 0, "timestamp": 1, "counter": 2}}
    told = [
        registration(event("first", "08:00"), "broker-a", "both", 2, **version),
        registration(event("lone", "08:01"), "broker-a", "only_t", 1, **version),
        registration(event("more", "08:02"), "broker-a", "more", 3, **version),
        registration(event("counted", "08:03"), "broker-a", "t_and_new", 2, **other),
    ]
    configs = topic_configs(both=["T", "T2"], only_t=["T"], more=["T", "T2", "T3"], t_and_new=["T", "New"])
    today = {**tables({}), "hours": hours_of(told)}
    found = flag(FlagInput(NS, Namesrv(V4_9_7), DAY, today, recorded(told, configs)))[gold.FINDINGS.name].to_pylist()
    assert [(row["code"], row["evidence"], row["topic_names"]) for row in found] == [
        ("SAME_VERSION_NEW_CONTENT", ["more"], ["T3"])
    ]


@pytest.mark.slow
def test_reports_that_say_what_the_one_before_said_are_left_out() -> None:
    """A broker with a thousand topics a day, each with a registration of its own, has not a thousand times a thousand reports."""
    lists = {"AB": "AB", "BC": "BC", "CD": "CD", "X": "X", "DE": "DE"}
    at = [(digest, clock("10:00") + dt.timedelta(minutes=number)) for number, digest in enumerate(lists)]
    configs = topic_configs(**{digest: list(topics) for digest, topics in lists.items()})
    held = [*(queues(topic, "b", at[0]) for topic in "ABCD"), queues("A", "b", at[2]), queues("X", "b", at[3])]
    tables = {
        "registrations": table_of([registration(one, "b", one[0], len(one[0])) for one in at], bronze.REGISTRATIONS),
        "configs": configs(pa.array([*lists])),
        "held": table_of(held, gold.TOPIC_QUEUE_HISTORY),
        "outcomes": empty(gold.EVENT_OUTCOMES),
    }
    found = sorted((r["topic"], r["opened_by"], r["listed"]) for r in ask(query("flags/reported"), tables).to_pylist())
    assert found == [
        *(("A", "AB", True), ("A", "BC", False), ("A", "CD", False)),  # a row of it begins with CD
        *(("B", "AB", True), ("B", "CD", False)),
        *(("C", "AB", False), ("C", "BC", True), ("C", "DE", False)),
        *(("D", "AB", False), ("D", "CD", True)),
        *(("X", "AB", False), ("X", "DE", False), ("X", "X", True)),
    ]


def test_a_setting_that_explains_a_loss_is_told() -> None:
    """The name server deletes what a registration does not list, and it lists one topic; by another cause nothing is said of it."""
    lost, names = event("lost", "12:00"), [f"T{number}" for number in range(6)]
    setting = {"namesrv_id": NS, "setting": "delete_topic_with_broker_registration", "source": "given", "day": DAY}
    setting |= {"restart_value": "true", "answers_for": 0, "answers_against": 0, "evidence": [], "process_seq": 0}

    def detail(operation: str, value: str, **until: Any) -> str:
        rows: dict[Table, list[Row]] = {
            gold.TOPIC_QUEUE_HISTORY: [queues(name, "broker-a", REGISTER, lost) for name in names],
            gold.BROKER_ADDR_HISTORY: [member("broker-a", 0, MASTER, REGISTER)],
            gold.BROKER_LIVE_HISTORY: [live(MASTER, REGISTER, broker_name="broker-a")],
            gold.EVENT_OUTCOMES: [outcome(lost, operation)],
            gold.NAMESRV_SETTINGS: [{**setting, "value": value, "from_seq": 0, **until}],
        }
        told = [registration(lost, "broker-a", "one", 1)]
        of = recorded(told, topic_configs(one=["T9"]))
        found = flag(FlagInput(NS, Namesrv(V5_4_0), DAY, {**sliced(rows, DAY, NS), "hours": hours_of(told)}, of))
        (loss,) = [row["detail"] for row in found[gold.FINDINGS.name].to_pylist() if row["code"] == "MASS_TOPIC_LOSS"]
        return str(loss)

    explained = "; it lists 1 topic, and deleteTopicWithBrokerRegistration = true deletes those of a broker"
    assert explained in detail("register_broker", "true")
    assert explained in detail("register_broker", "true", valid_to=clock("12:00:00.000001"))
    for said in (
        detail("register_broker", "true", valid_to=clock("12:00")),
        detail("register_broker", "false"),
        detail("unregister_broker", "true"),
    ):
        assert "deleteTopic" not in said
