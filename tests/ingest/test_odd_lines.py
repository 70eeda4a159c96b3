"""Event logs of which some lines say what cannot be: nothing but these lines is lost, and no later night."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.conf import PipelineConf
from jobs.ingest.ingest import ingest
from namesrv_day.arrow import ask
from schemas.sql_files import query
from tests.ingest.given import BEAT, START_MS, Line, at, broker, read_in, stored, warehouse_at, write

GAP: Line = {"kind": "namesrv", "event": "recording_gap", "properties": f"until_ms={START_MS + 30 * 3_600_000}"}
LONGS = (-(1 << 63), (1 << 63) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "admin", "code": 205, "broker_name": "broker-a", "response_code": 0, "response_fields": "{oops"},
        {"kind": "admin", "code": 205, "broker_name": "b" * 1_000_000, "response_code": 0},
        {**BEAT, "time": START_MS // 1_000},
        {**BEAT, "time": "2262-04-11T23:47:17Z"},
        {**BEAT, "seq": (1 << 63) - 1},
        {**GAP, "properties": "until_ms=999999999999999"},
    ],
)
def test_a_line_that_cannot_be_used_costs_itself(tmp_path: Path, wrong: Line) -> None:
    """It is one quarantine row; the lines around it are stored."""
    log = write(tmp_path / "a.jsonl", [at(1, broker("a", "xy", 1)), at(2, wrong), at(3, BEAT)])
    read = read_in(tmp_path / "w", log)
    assert (read.events, read.quarantined, read.errors) == (2, 1, [])
    assert [len(stored(tmp_path / "w", table, "seq")) for table in ("registrations", "heartbeats")] == [1, 1]


@pytest.mark.parametrize(
    "before", [b"kind: registration}\n", b"# recorded on a host\n", b"\0" * 512 + b"\n", b"x" * 9_000 + b"\n"]
)
def test_a_log_may_begin_in_the_middle_of_a_line(tmp_path: Path, before: bytes) -> None:
    """A log that was cut by size, or has a line of another program on top, loses that line alone."""
    log = write(tmp_path / "a.jsonl", [at(1, broker("a", "xy", 1)), at(2, BEAT)])
    log.write_bytes(before + log.read_bytes())
    read = read_in(tmp_path / "w", log)
    assert (read.events, read.quarantined, read.errors) == (2, 1, [])


@pytest.mark.slow
def test_gaps_that_lie_over_each_other_have_positions_of_their_own(tmp_path: Path) -> None:
    """What is left of two gaps behind one event begins at two positions: else no later night would be published."""
    lines = [at(1, broker("a", "xy", 1)), at(2, GAP), at(3, {**GAP, "evidence": "another recorder"}), at(5, BEAT)]
    read_in(tmp_path / "w", write(tmp_path / "a.jsonl", lines))
    seqs = [seq for (seq,) in stored(tmp_path / "w", "namesrv_events", "seq")]
    assert len(seqs) == len(set(seqs)) == 4


@pytest.mark.parametrize(("lease", "found"), [(LONGS[0], [200_000 + 10**12]), (LONGS[1], []), (None, [80_000])])
def test_an_expiry_is_held_against_any_lease(lease: int | None, found: list[int]) -> None:
    """A close 200 s after the last beat is late by a lease below all, not by one above all; without one 120 s count."""
    said = {"cluster_name": "C", "broker_addr": "a:1"}
    text, long = pa.string(), pa.int64()
    live = pa.table({"last_update_time": pa.array([0], pa.timestamp("us", "UTC")), "channel_id": ["c"]})
    for name, value in {**said, "heartbeat_timeout_ms": pa.scalar(lease, long)}.items():
        live = live.append_column(name, pa.array([value]))
    hours = pa.schema(
        [("last_seq", long), ("last_us", long), ("kind", text), ("channel_id", text), ("heartbeat_timeout_ms", long)]
        + [(name, text) for name in ("cluster_name", "broker_addr", "refusal")]
    ).empty_table()
    events = pa.schema(
        [
            ("seq", long),
            ("effect_time", pa.timestamp("us", "UTC")),
            ("channel_id", text),
            ("heartbeat_timeout_ms", long),
            ("response_code", pa.int32()),
            *((name, text) for name in ("cluster_name", "broker_addr", "refusal")),
        ]
    ).empty_table()
    owned = pa.table(
        {"seq": [5], "event_id": ["e"], "close_us": [200_000_000], "channel_id": ["c"], "broker_addr": ["a:1"]}
    )
    given = {"live": live, "hours": hours, "registrations": events, "heartbeats": events, "owned": owned}
    told = ask(query("settle/expiries"), given, own_lease=True, default_ms=120_000, with_cluster=True)
    assert told["late_ms"].to_pylist() == found


@pytest.mark.slow
def test_many_bad_lines_are_few_rows(tmp_path: Path) -> None:
    """Equal lines that are refused are counted each and stored once; so are lines that differ, each."""
    bad = b"{}\n" * 20_000 + b"".join(b'{"a":%d}\n' % number for number in range(1_000))
    good = json.dumps(at(1, broker("a", "xy", 1))).encode() + b"\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(good + bad + good))
    read = ingest(warehouse_at(tmp_path / "w", "run", PipelineConf(1.0)), [str(tmp_path / "a.jsonl.gz")])
    assert (read.frames, read.events, read.duplicates, read.quarantined) == (21_002, 1, 1, 21_000)
    assert read.unaccounted == 0
    assert len(stored(tmp_path / "w", "quarantine", "quarantine_id")) == 1_001
