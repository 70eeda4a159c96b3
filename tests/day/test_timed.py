"""Rows to the core's events: equal contents are built once, positions and times are each row's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.tables import DataVersion, LiveKey, QueueData, TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_core.replay.loop import TimedEvent
from namesrv_day import events as timed
from namesrv_day.arrow import conformed
from namesrv_day.events import EVENTS, Report, Timed, TopicTables, topic_tables_of
from schemas import bronze
from tests.day.lives import NAMESRV

Row = dict[str, Any]
VERSION = {"state_version": 0, "timestamp": 5, "counter": 7}


def rows_of(*rows: Row, **more: pa.DataType) -> pa.Table:
    """Return events, each with its number as position, id and time; `more`: columns beside those of `day_events`."""
    schema = pa.schema([*EVENTS, *(pa.field(name, kind) for name, kind in more.items())])
    numbered = [
        {"namesrv_id": NAMESRV, "seq": number, "event_id": f"e{number}", "effect_us": 10 * number, **row}
        for number, row in enumerate(rows, 1)
    ]
    return pa.Table.from_pylist(numbered, schema=schema)


def timed_events(rows: pa.Table, topic_tables: Mapping[str, TopicTable]) -> Iterator[TimedEvent]:
    return (timed for _, timed in Timed(rows, topic_tables).numbered())


def query(addr: str = "1:1", **more: Any) -> Row:
    said = {"kind": "heartbeats", "code": 322, "cluster_name": "C", "broker_name": "b", "broker_addr": addr}
    return {**said, "data_version": VERSION, **more}


def registration(**more: Any) -> Row:
    said = {"kind": "registrations", "code": 103, "cluster_name": "C", "broker_name": "b", "broker_addr": "1:1"}
    return {**said, "broker_id": 0, "channel_id": "c", **more}


def test_equal_contents_are_one_event() -> None:
    """Of a thousand rows with two contents two events are made; each row keeps its place."""
    found = list(timed_events(rows_of(*(query(f"{n % 2}:1") for n in range(1_000))), {}))
    assert [(t.seq, t.event_id, t.effect_us) for t in found[:2]] == [(1, "e1", 10), (2, "e2", 20)]
    version = DataVersion(0, 5, 7)
    assert [t.event for t in found[:3]] == [
        events.QueryDataVersion("C", addr, version) for addr in ("0:1", "1:1", "0:1")
    ]
    assert len({id(t.event) for t in found}) == 2


def test_time_does_not_run_back_with_a_clock() -> None:
    """What follows a step back is later all the same; a run, whose time is that of its last beat, holds up nothing else."""
    times = [(100, False), (900, True), (40, False), (120, False), (90, True), (130, False)]
    rows = rows_of(*({**query(), "effect_us": us, "is_run": of} for us, of in times), is_run=pa.bool_())
    assert [t.effect_us for t in timed_events(rows, {})] == [100, 900, 100, 120, 120, 130]


def test_rows_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As objects rows take much memory; where they are cut changes nothing."""
    rows = rows_of(*(query(f"{n % 3}:1") for n in range(10)))
    whole = list(Timed(rows, {}).numbered())
    monkeypatch.setattr(timed, "_ROWS_AT_A_TIME", 4)
    found = Timed(rows, {})
    assert [of_row for _, of_row in found.numbered()] == [of_row for _, of_row in whole]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"filter_servers": None}, {"filter_servers": []}),
        ({"filter_servers": ["a", "b"]}, {"filter_servers": ["b", "a"]}),
        ({"data_version": None}, {"data_version": VERSION}),
        ({"data_version": VERSION}, {"data_version": {**VERSION, "counter": None}}),
        ({"broker_name": None}, {"broker_name": ""}),
        ({"zone_name": None}, {"zone_name": "z"}),
    ],
)
def test_contents_that_differ_are_told_apart(one: Row, other: Row) -> None:
    """NULL is a value of its own, and lists and versions are compared whole."""
    rows = rows_of(*(registration(**said) for said in (one, other, one)))
    first, second, again = (t.event for t in timed_events(rows, {}))
    assert first is again
    assert first != second


def test_every_kind_of_row_is_its_event() -> None:
    """Columns that no row of the table fills are NULL in each of them."""
    queues = {"broker_name": "b", "read_queue_nums": 4, "write_queue_nums": 3, "perm": 6, "topic_sys_flag": 1}
    closed = {"kind": "channel_events", "channel_id": "c", "remote_addr": "r"}
    rows = rows_of(
        query(),
        query(code=904, data_version=None),
        registration(topic_config_digest="d", filter_servers=["f"], data_version=VERSION),
        registration(refusal="crc32 not match"),
        {"kind": "unregistrations", "code": 104, "cluster_name": "C", "broker_addr": "1:1", "broker_name": "b"},
        {**closed, "channel_kind": "idle"},
        {**closed, "looked_up": {"cluster_name": None, "broker_addr": "1:1"}},
        {"kind": "admin_events", "code": 217, "topic": "T", "queue_datas": [queues]},
        {"kind": "namesrv_events", "namesrv_kind": "recording_gap", "properties": "until_ms=12"},
    )
    table = TopicTable([TopicConfig("T", 4, 4, 6, 0)])
    version = DataVersion(0, 5, 7)
    assert [t.event for t in timed_events(rows, {"d": table})] == [
        events.QueryDataVersion("C", "1:1", version),
        events.BrokerHeartbeat("C", "1:1"),
        events.RegisterBroker("C", "1:1", "b", 0, None, version, table, ("f",), "c"),
        events.RefusedRequest("crc32 not match"),
        events.UnregisterBroker("C", "1:1", "b", None),
        events.ChannelDestroyed("c", "r"),
        events.ChannelDestroyed("c", "r", looked_up=LiveKey(None, "1:1")),
        events.RegisterTopic("T", (("b", QueueData(4, 3, 6, 1)),)),
        events.RecordingGap(12),
    ]


def test_an_answer_has_its_own_question_time() -> None:
    """Equal answers to equal questions are one text, asked for at different positions."""
    told = {"kind": "route_observations", "code": 105, "subject": "T", "standard_json": True, "response_code": 17}
    found = [t.event for t in timed_events(rows_of({**told, "request_seq": 3}, {**told, "request_seq": 4}), {})]
    question, answer = Question(105, "T", True), Answer(17, None)
    assert found == [events.AnswerObserved(question, answer, 3), events.AnswerObserved(question, answer, 4)]
    one, other = (event.answered for event in found if isinstance(event, events.AnswerObserved))
    assert one is other


def test_runs_stand_beside_single_beats() -> None:
    """The same beat alone and as a run are two events; both report the version of their broker."""
    found = Timed(rows_of(query(), query(is_run=True), is_run=pa.bool_()), {})
    beat = events.QueryDataVersion("C", "1:1", DataVersion(0, 5, 7))
    assert [t.event for _, t in found.numbered()] == [beat, events.RefreshRun(beat)]
    assert found.reports == [Report(("C", "b", "1:1"), DataVersion(0, 5, 7))] * 2


def test_who_is_refused_or_asks_nothing_reports_no_version() -> None:
    """Only what the registry sees of registrations and queries does, NULL among it."""
    found = Timed(rows_of(registration(refusal="no"), query(code=904, data_version=None), registration()), {})
    reports = [found.reports[number] for number, _ in found.numbered()]
    assert reports == [None, None, Report(("C", "b", "1:1"), None)]


def test_events_come_in_order_of_their_positions() -> None:
    """Rows have no order; those of one position go by their ids."""
    rows = rows_of(*({**query(), "seq": seq} for seq in (9, 8, 8, 7)))
    assert [(t.seq, t.event_id) for t in timed_events(rows, {})] == [(7, "e4"), (8, "e2"), (8, "e3"), (9, "e1")]


def test_a_topic_table_is_read_when_somebody_looks_into_it() -> None:
    """And only that; until then it is one value, equal to none but itself."""
    digests = ["d1", "d2"]
    topics = [[{**dict.fromkeys(TopicConfig._fields, 4), "topic": digest}] for digest in digests]
    columns = {"topic_config_digest": digests, "topics": topics, "mappings": [[], []]}
    configs = conformed(pa.table(columns), bronze.TOPIC_CONFIGS_TABLE)
    asked = list[int]()

    def later() -> pa.Table:
        asked.append(1)
        return configs.slice(1)

    tables = TopicTables(configs.slice(0, 1), later)
    assert (sorted(tables["d1"].names), tables["d2"] is tables["d2"], asked) == (["d1"], True, [])
    assert (sorted(tables["d2"].names), len(tables["d2"]), asked) == (["d2"], 1, [1])
    with pytest.raises(AttributeError):
        _ = tables["d2"].nothing  # type: ignore[attr-defined]


def test_no_rows_are_no_events() -> None:
    """A day may have carried rows only."""
    assert list(timed_events(rows_of(), {})) == []


def test_rows_of_unknown_tables_are_refused() -> None:
    """As the codec does it."""
    with pytest.raises(ValueError, match="no event comes from table 'gossip'"):
        Timed(rows_of({"kind": "gossip"}), {})


def test_topic_tables_come_from_columns() -> None:
    """One for each digest; no mappings, several, and a name that is null, which no table holds."""
    queue = {"read_queue_nums": 4, "write_queue_nums": 3, "perm": 6, "topic_sys_flag": 1}
    mapping = {
        "topic": "T",
        "bname": "b",
        "total_queues": 2,
        "epoch": 9,
        "dirty": False,
        "scope": None,
        "curr_id_map": "{}",
    }
    rows = [
        {"topic_config_digest": "none", "topics": [], "mappings": []},
        {
            "topic_config_digest": "two",
            "topics": [{"topic": t, **queue} for t in ("T", None, "U")],
            "mappings": [mapping],
        },
    ]
    schema = bronze.TOPIC_CONFIGS_TABLE.schema
    found = topic_tables_of(pa.Table.from_pylist(rows, schema=pa.schema([pa.field(f.name, f.type) for f in schema])))
    assert found == {
        "none": TopicTable([]),
        "two": TopicTable(
            [TopicConfig("T", 4, 3, 6, 1), TopicConfig("U", 4, 3, 6, 1)],
            [TopicQueueMappingInfo("T", "b", 2, 9, curr_id_map="{}")],
        ),
    }
