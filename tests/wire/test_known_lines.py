"""Lines of event logs among others, beside each line read alone; and files of them, however they are cut."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from namesrv_wire import compression
from namesrv_wire.errors import DecodeError
from namesrv_wire.logs import event_log
from namesrv_wire.logs import event_log as log_file
from namesrv_wire.logs.event_log import SCHEMA, Block, Positions, line_of, read_blocks, rows_of_line
from namesrv_wire.rows import AnyRow, FrameRow
from tests.wire.forge import NAMESRV, conversation, rows_of

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
TIMES = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.006Z", "2026-01-02T03:04:05.123456789Z", 1_767_323_045_006,
         "2026-01-02T11:04:05.006+08:00", "1767323045006", 946_684_800_000)  # fmt: skip
ODD: Sequence[Any] = (
    *("", "5", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05.Z", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05+00:00"),
    *("2262-04-11T23:47:17Z", "2262-01-01T00:00:00Z", "1999-12-31T23:59:59.9Z", 1_767_323_045, 946_684_799_999),
    *(9_214_646_400_000, 9_214_646_400_000_000_000, 5.0, "7", "+7", "x" * 300),
    *("é", "0" * 32, "A" * 32, "a,b", 0, -1, -0.0, 1.5, 2**31, 2**63, 2**70, None, True, [5]),
)
NAMES = ("time", "effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")


def said(rows: Sequence[AnyRow]) -> Any:
    """Return what rows say but topics: tables and values; of a refusal why."""
    refusals = [row.values for row in rows if row.table == "quarantine"]
    if refusals:
        return [(values["reason"], values["detail"]) for values in refusals]
    return [(row.table, row.values, row.seq_is_given) for row in rows if row.table != "topic_configs"]


def number_of(row: AnyRow) -> int:
    """Return the number of a row's line."""
    return int(row.values["source_offset"])


def told_in(block: Block) -> list[int]:
    """Return the numbers of the lines in front of whose rows a topic table stands."""
    return [number_of(row) for before, row in pairwise(block.rows) if before.table == "topic_configs"]


def alone(line: bytes, number: int, positions: Positions) -> Any:
    """Return what a line says where nothing was read before."""
    event_log._KNOWN.clear()
    try:
        return said([positions.placed(row) for row in rows_of_line(line, "log", number)])
    except DecodeError as error:
        return [(error.reason.value, error.detail)]


def block_of(lines: Sequence[bytes]) -> Block:
    """Return lines read together."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        (block,) = read_blocks(path)
        return block


def assert_read_alike(lines: Sequence[bytes]) -> None:
    """Assert that each line says what it says by itself, whatever was read before."""
    positions = Positions()
    expected = [alone(line, number, positions) for number, line in enumerate(lines, 1)]
    event_log._KNOWN.clear()
    for _ in range(2):
        block = block_of(lines)
        found: list[list[AnyRow]] = [[] for _ in lines]
        for row in block.rows:
            if row.table != "topic_configs":
                found[number_of(row) - 1].append(row)
        assert [said(rows) for rows in found] == expected
        assert block.frames == block.count == len(lines)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.dictionaries(st.sampled_from(NAMES), st.one_of(st.sampled_from(TIMES), st.sampled_from(ODD))),
            st.sampled_from(TIMES),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_line_says_the_same_whatever_was_read_before(drawn: Sequence[tuple[Any, ...]]) -> None:
    """Whatever stands for a time, a position or an id: rows, ids, positions and refusals are those of the line alone."""
    lines = []
    for kind, values, time, is_backwards in drawn:
        line = {**BASE, "time": time, **kind, **values}
        names = reversed(line) if is_backwards else line
        lines.append(json.dumps({name: line[name] for name in names}, ensure_ascii=False).encode())
    assert_read_alike([*lines, *lines])


def test_equal_lines_but_for_their_own_values_share_what_they_say() -> None:
    """The lines of a conversation, told once more at other times, say what they said: the same objects."""
    rows = rows_of(conversation())
    topics = {row.values["topic_config_digest"]: row.values for row in rows if row.table == "topic_configs"}
    kept = [row for row in rows if row.table not in ("topic_configs", "quarantine")]
    lines = [line_of(row, topics.get(row.values.get("topic_config_digest"))).encode() for row in kept]
    later = [line.replace(b'"time":"20', b'"time":"21') for line in lines]
    assert_read_alike([*lines, *later])
    first, again = ([r.columns for r in block_of(some).rows if isinstance(r, FrameRow)] for some in (lines, later))
    assert len(first) == len(lines)
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are all different take no more than the limit, and are read all the same."""
    monkeypatch.setattr("namesrv_wire.protocol.requests.KNOWN_FRAMES_BYTES", 50_000)
    event_log._KNOWN.clear()
    event_log._KNOWN.kept_bytes = 0
    lines = [json.dumps({**BASE, "kind": "unregistration", "broker_name": f"b{n}"}).encode() for n in range(100)]
    read = [rows_of_line(line, "log", 1)[0] for line in lines]
    assert [row.values["broker_name"] for row in read] == [f"b{n}" for n in range(100)]
    assert 0 < event_log._KNOWN.kept_bytes <= 50_000
    assert 0 < len(event_log._KNOWN) < 100


def test_topics_are_told_when_they_change() -> None:
    """A topic table comes with the first line that has it, and again only if another order of it came between."""
    first, second = TOPIC, {**TOPIC, "topic": "U"}
    orders = [[first, second], [first, second], [second, first], [first, second]]
    lines = [json.dumps({**BASE, "kind": "registration", "topics": of}).encode() for of in orders]
    block_of(lines)
    assert told_in(block_of(lines)) == [1, 3, 4]


def test_topics_of_a_refused_line_are_not_told() -> None:
    """Nor where lines like it were read before, whose time could be read: what a log gives is not up to what was read before."""
    registration = {**BASE, "kind": "registration", "topics": [TOPIC]}
    good, wrong = (
        json.dumps({**registration, "time": time}).encode() for time in (BASE["time"], "2026-02-30T00:00:00Z")
    )
    for lines, expected in (([good], [1]), ([wrong], []), ([wrong, good], [2]), ([wrong, good, wrong, good], [2])):
        assert told_in(block_of(lines)) == expected


@given(text=st.binary(max_size=120), size=st.integers(1, 40), longest=st.integers(1, 30), is_packed=st.booleans())
def test_blocks_hold_the_lines_that_begin_in_them(text: bytes, size: int, longest: int, *, is_packed: bool) -> None:
    """However a file is cut into blocks, compressed or not, each line is in that in which it begins, with its number and length."""
    assume(is_packed or not compression.is_packed(text))
    assume(log_file.why_unreadable(text.removeprefix(b"\xef\xbb\xbf")) is None)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_file, "BLOCK_BYTES", size)
        patched.setattr(log_file, "MAX_LINE_BYTES", longest)
        path = Path(folder) / "log"
        path.write_bytes(gzip.compress(text) if is_packed else text)
        whole = [
            (number_of(row), row.values["length"], row.values["sha256"])
            for block in read_blocks(path)
            for row in block.rows
        ]
        lines = [(number, line) for number, line in enumerate(text.split(b"\n"), 1) if line and not line.isspace()]
        pieces = [line.rstrip(b"\r\n")[:longest] for _, line in lines]
        assert [(number, length) for number, length, _ in whole] == [(number, len(line)) for number, line in lines]
        assert [digest for *_, digest in whole] == [hashlib.sha256(piece).hexdigest() for piece in pieces]
        if not is_packed:
            apart, before = [], 0
            for start in range(0, max(1, len(text)), size):
                stop = start + size if start + size < len(text) else None
                for block in read_blocks(path, start, stop):
                    apart += [
                        (before + number_of(row), row.values["length"], row.values["sha256"]) for row in block.rows
                    ]
                    before += block.count
            assert apart == whole
