"""Lines of event logs that are known, beside the careful reader of one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_wire import known_lines
from namesrv_wire.errors import DecodeError
from namesrv_wire.event_log import SCHEMA, Positions, line_of, rows_of_line
from namesrv_wire.known_lines import KnownLines
from namesrv_wire.rows import FrameRow
from tests.wire.forge import NAMESRV, rows_of
from tests.wire.test_transcript_parts import conversation

BASE = {"schema": SCHEMA, "namesrv_id": NAMESRV, "time": "2026-01-02T03:04:05.006Z"}
TOPIC = {"topic": "T", "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}
KINDS: Sequence[dict[str, Any]] = (
    {"kind": "heartbeat", "code": 904, "broker_addr": "a:1", "channel_id": "a:1#5", "nth": 0},
    {"kind": "heartbeat", "code": 322, "data_version": {"timestamp": 5, "counter": 1, "time": 5, "seq": 7}},
    {"kind": "registration", "topics": [TOPIC, {**TOPIC, "topic": "U", "seq": 5}], "channel_id": None},
    {"kind": "unregistration", "broker_name": '"time":5, "seq":6'},
    {"kind": "channel", "event": "close", "channel_id": "10.0.0.2:1#5"},
    {"kind": "channel", "event": "close", "channel_id": "10.0.0.2:1#5", "remote_addr": "10.0.0.2:1"},
    {"kind": "admin", "code": 205, "broker_name": "b", "namesrv_addr": "10.9.9.9:9876"},
    {"kind": "namesrv", "event": "started", "evidence": "time\\"},
    {"kind": "observation", "code": 105, "subject": "T", "request_seq": 5, "body": '{"time":5}'},
    {"kind": "observation", "code": 105, "subject": "T"},
)
TIMES = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.006Z", "2026-01-02T03:04:05.123456789Z", 1_767_323_045_006)
ODD: Sequence[Any] = (
    *("", "5", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05.Z", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05+00:00"),
    *("2262-04-11T23:47:17Z", "é", "0" * 32, "A" * 32, "a,b", 0, -1, -0.0, 1.5, 2**31, 2**63, 2**70, None, True, [5]),
)
NAMES = ("time", "effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")


def said(read: Any, line: bytes, number: int) -> Any:
    """Return what a reader makes of a line: tables and values, or the refusal."""
    try:
        rows = [(row.table, row.values, row.seq_is_given) for row in read(line, number)]
    except DecodeError as error:
        return error.reason, error.detail
    return [row for row in rows if row[0] != "topic_configs"]


def assert_read_alike(lines: Sequence[bytes]) -> int:
    """Assert that both readers say the same of each line; return how many were known."""
    positions, lines_of = Positions(), KnownLines("log", Positions())
    for number, line in enumerate(lines, 1):
        careful = said(lambda line, number: rows_of_line(line, "log", number, positions), line, number)
        assert said(lines_of.rows, line, number) == careful
    again = KnownLines("log", Positions())
    return sum(isinstance(row, FrameRow) for line in lines for row in _or_none(again, line))


def _or_none(lines: KnownLines, line: bytes) -> list[Any]:
    try:
        return list(lines.rows(line, 1))
    except DecodeError:
        return []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.dictionaries(st.sampled_from(NAMES), st.one_of(st.sampled_from(TIMES), st.sampled_from(ODD))),
            st.sampled_from(TIMES),
            st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_both_readers_say_the_same(drawn: Sequence[tuple[Any, ...]]) -> None:
    """Whatever stands for a time, a position or an id: rows, ids, positions and refusals are those of the careful reader."""
    lines = []
    for kind, values, time, separators, is_last in drawn:
        line = {**BASE, "time": time, **kind, **values}
        if is_last:
            line = {name: line[name] for name in reversed(line)}
        lines.append(json.dumps(line, separators=separators, ensure_ascii=False).encode())
    assert_read_alike([*lines, *lines])


@pytest.mark.parametrize(
    "line",
    [
        '{"time":5,"kind":"unregistration",%s,"time":6}',
        '{"kind":"unregistration",%s,"time":007}',
        '{"kind":"unregistration",%s,"time":5 ,"broker_name":"a\\"time\\":5"}',
        '{"kind":"unregistration",%s,"a\\"time":5}',
        '{"kind":"unregistration",%s,"time":5,"seq":5,"broker_id":-0}',
        '{"kind":"unregistration",%s,"time":"1767323045006"}',
        '{"kind":"registration",%s,"seq" :5,"time":5,"topics":[{"seq":5}]}',
        '{"kind":"heartbeat",%s,"seq" :5,"time":5,"code":322,"data_version":{"timestamp":1,"seq":5}}',
        '{"kind":"heartbeat",%s,"time":5,"code":322,"data_version":{"timestamp":1,"effect_time":5}}',
    ],
)
def test_what_only_looks_like_a_value_is_none(line: str) -> None:
    """Names in texts, in other objects and twice, and numbers in forms that JSON does not have, mislead nobody."""
    whole = line % f'"schema":"{SCHEMA}","namesrv_id":"{NAMESRV}"'
    changed = [whole.replace("5", digit).encode() for digit in "5678"]
    assert_read_alike([*changed, *changed])


def test_lines_of_a_recording_are_known() -> None:
    """The lines of a conversation are read as the careful reader reads them; of a second copy, later, most are known."""
    rows = rows_of(conversation())
    topics = {row.values["topic_config_digest"]: row.values for row in rows if row.table == "topic_configs"}
    kept = [row for row in rows if row.table not in ("topic_configs", "quarantine")]
    lines = [line_of(row, topics.get(row.values.get("topic_config_digest"))).encode() for row in kept]
    later = [line.replace(b'"time":"20', b'"time":"21') for line in lines]
    assert assert_read_alike([*lines, *later]) >= len(lines)


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are all different take no more than the limit, and are read all the same."""
    monkeypatch.setattr(known_lines, "KNOWN_FRAMES_BYTES", 50_000)
    lines = [json.dumps({**BASE, "kind": "unregistration", "broker_name": f"b{n}"}).encode() for n in range(100)]
    known = KnownLines("log", Positions())
    read = [row for line in lines for row in known.rows(line, 1)]
    assert [row.values["broker_name"] for row in read] == [f"b{n}" for n in range(100)]
    assert known.kept_bytes <= 50_000


def test_topics_are_told_when_they_change() -> None:
    """A topic table comes with the first line that has it, and again only if another order of it came between."""
    first, second = TOPIC, {**TOPIC, "topic": "U"}
    orders = [[first, second], [first, second], [second, first], [first, second]]
    known = KnownLines("log", Positions())
    found = [known.rows(json.dumps({**BASE, "kind": "registration", "topics": of}).encode(), 1) for of in orders]
    assert [len(rows) for rows in found] == [2, 1, 2, 2]
