"""What ingest does with files: each is read once, every frame is accounted for, and a run that dies leaves nothing."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import GateError
from jobs.ingest import staging as staging_module
from jobs.ingest.ingest import ingest
from jobs.ingest.reading import Part, read_part
from jobs.ingest.sources import Ingested, source_of
from jobs.ingest.staging import Collector, Run, write_staged
from namesrv_wire.packets.segments import read_segments
from schemas import bronze
from schemas.bronze import BROKEN_RULE
from tests.ingest.given import BEAT, FIRST, TABLES, Line, at, broker, piece, read_in, stored, warehouse_at, write

BROKER = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.2:10911"}
CHANNEL = {"channel_id": "10.0.0.2:40000#1767323000000000000"}
VERSION = {"timestamp": 1_767_322_000_000, "counter": 4}
TOPICS = [{"topic": "T", "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6}]

GOOD: list[Line] = [
    {"kind": "namesrv", "event": "started"},
    {"kind": "namesrv", "event": "identified", "version": 493},
    {"kind": "registration", **BROKER, **CHANNEL, "broker_id": 0, "data_version": VERSION, "topics": TOPICS},
    {"kind": "heartbeat", "code": 904, **BROKER, **CHANNEL, "one_way": True},
    {"kind": "observation", "code": 105, "subject": "U", "response_code": 17, "response_version": 493},
    {"kind": "channel", **CHANNEL, "event": "close"},
]
BAD: dict[str, Line] = {
    "heartbeats: one_way_has_no_response": {"kind": "heartbeat", "code": 904, "one_way": True, "response_code": 0},
    "heartbeats: light_heartbeat_has_no_version": {"kind": "heartbeat", "code": 904, "data_version": VERSION},
    "registrations: body_fits_a_frame": {"kind": "registration", **BROKER, "topics": TOPICS, "body_bytes": -1},
    "unregistrations: remark_needs_response": {"kind": "unregistration", **BROKER, "response_remark": "no"},
    "channel_events: has_a_channel": {"kind": "channel", "event": "close", "remote_addr": "10.0.0.3:1"},
    "channel_events: pending_is_not_negative": {"kind": "channel", **CHANNEL, "event": "idle", "pending_requests": -1},
    "channel_events: has_a_channel, pending_is_not_negative": {
        "kind": "channel",
        "event": "close",
        "remote_addr": "10.0.0.4:1",
        "pending_requests": -1,
    },
    "admin_events: operation_is_of_its_code": {"kind": "admin", "code": 205, "broker_name": "b", "operation": "other"},
    "namesrv_events: version_if_identified": {"kind": "namesrv", "event": "identified"},
    "route_observations: code_belongs_here": {"kind": "observation", "code": 999},
    "route_observations: subject_is_of_its_code": {"kind": "observation", "code": 206, "subject": "T"},
}


def a_second_each(lines: list[Line]) -> list[Line]:
    """Return lines with a second from one to the next."""
    return [at(1 + number / 3_600, line) for number, line in enumerate(lines)]


def test_lines_that_break_a_rule_are_quarantined_and_the_rest_is_stored(tmp_path: Path) -> None:
    """Each refused line is a row that names its rules and its line; all are accounted for; that not most were read is told."""
    repeated = at(2, GOOD[3])  # the same line again is a duplicate
    lines = [*a_second_each([*GOOD, *BAD.values()]), repeated, repeated, {"kind": "nonsense"}]

    read = read_in(tmp_path / "w", write(tmp_path / "mixed.jsonl", lines))

    assert (read.events, read.observations, read.duplicates, read.quarantined) == (len(GOOD), 1, 1, len(BAD) + 1)
    assert (read.frames, read.ignored) == (len(lines), {})
    (said,) = read.errors
    assert said.startswith(
        "mixed.jsonl: 12 of 20 frames or lines are no events (bad_line 1, broken_rule 11; the first at 7: "
    )
    rows = stored(tmp_path / "w", "quarantine", "source_offset", "detail", "reason", "namesrv_id", "source_file")
    assert [row for row in rows if row[2] == BROKEN_RULE] == [
        (number, detail, BROKEN_RULE, "10.0.0.1:9876", "mixed.jsonl")
        for number, detail in enumerate(BAD, start=len(GOOD) + 1)
    ]
    assert len(stored(tmp_path / "w", "registrations", "event_id")) == 1


def test_a_refused_row_is_kept_as_json(tmp_path: Path) -> None:
    """Without what is NULL and whence it was read, instants in milliseconds, as whoever looks at first_bytes wants to read it."""
    bad = BAD["heartbeats: light_heartbeat_has_no_version"]
    line = at(1, bad | {"event_id": "0" * 32, "seq": 7, "broker_name": "\u00fc\t"})
    read_in(tmp_path / "w", write(tmp_path / "bad.jsonl", [line]))
    columns = ("quarantine_id", "first_bytes", "length", "sha256", "event_time", "day")
    ((identity, first_bytes, length, sha256, event_time, day),) = stored(tmp_path / "w", "quarantine", *columns)
    piece = (
        '{"namesrv_id":"10.0.0.1:9876","seq":7,"event_id":"00000000000000000000000000000000",'
        '"event_time":"2026-01-02T01:00:00.000Z","effect_time":"2026-01-02T01:00:00.000Z","code":904,"one_way":false,'
        '"request_version":0,"broker_name":"\u00fc\\t","data_version":{"state_version":0,"timestamp":1767322000000,"counter":4}}'
    ).encode()
    assert (bytes.fromhex(first_bytes), length) == (piece[:256], len(piece))
    assert sha256 == hashlib.sha256(piece).hexdigest()
    assert identity == hashlib.sha256(b"broken_rule\nheartbeats\n" + piece).hexdigest()[:32]
    assert event_time.isoformat() == "2026-01-02T01:00:00+00:00"
    # Nothing else was read, and nothing was known before: it is filed under the day of the run.
    assert day == event_time.now(event_time.tzinfo).date()


@pytest.mark.slow
def test_a_refused_line_that_comes_again_is_one_row(tmp_path: Path) -> None:
    """Read again in another file, a refused line is counted as quarantined again, and stored once."""
    for number, name in enumerate(("first", "second")):
        lines = [at(1, BAD["route_observations: code_belongs_here"]), at(2 + number, GOOD[3])]
        read = read_in(tmp_path / "w", write(tmp_path / f"{name}.jsonl", lines))
        assert (read.frames, read.events, read.duplicates, read.quarantined) == (2, 1, 0, 1)
    assert stored(tmp_path / "w", "quarantine", "source_file") == [("first.jsonl",)]


@pytest.mark.slow
def test_a_file_that_is_no_log_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused without anything else being read a second time; the tables are those of a run without it."""
    opened: list[str] = []

    def counted(path: Path, *rest: Any) -> Any:
        opened.append(path.name)
        return read_segments(path, *rest)

    monkeypatch.setattr("jobs.ingest.series.read_segments", counted)
    (tmp_path / "in").mkdir()
    capture = piece(tmp_path / "in" / "a.pcap", 0, 3_000)
    log = write(tmp_path / "in" / "b.jsonl", a_second_each(GOOD))
    (tmp_path / "in" / "polls.jsonl").write_text('{"t_ms": 1}\n' * 200, encoding="utf-8")
    read = read_in(tmp_path / "w", tmp_path / "in")
    alone = read_in(tmp_path / "alone", capture, log)
    assert opened == ["a.pcap"] * 4  # by each of two runs: its beginning, and all of it
    assert (read.frames, read.events, read.quarantined) == (alone.frames, alone.events, alone.quarantined)
    assert [error for error in read.errors if "polls.jsonl: 200 of 200 frames or lines are no events" in error]
    assert stored(tmp_path / "w", "sources", "source_file", "verdict") == [
        ("a.pcap", bronze.ACCEPTED),
        ("b.jsonl", bronze.ACCEPTED),
        ("polls.jsonl", bronze.REFUSED),
    ]
    for table in ("heartbeats", "registrations", "watermarks", "quarantine"):
        key = "namesrv_id" if table == "watermarks" else TABLES[table].key[0]
        assert stored(tmp_path / "w", table, key) == stored(tmp_path / "alone", table, key)


def test_a_file_is_read_once_whatever_it_is_called(tmp_path: Path) -> None:
    """A copy of a known file counts as duplicates and writes nothing, not even next to a new one; a table has one commit a run."""
    first, other = (write(tmp_path / f"{name}.jsonl", [at(1, broker(name, "T", 1))]) for name in "ab")
    read_in(tmp_path / "w", first)
    copy = Path(shutil.copy(first, tmp_path / "copy.jsonl"))
    read = read_in(tmp_path / "w", copy)
    assert (read.frames, read.duplicates, read.sources, read.known_sources) == (1, 1, [], ["copy.jsonl"])
    assert set(warehouse_at(tmp_path / "w", "look").versions().values()) == {0}
    again = read_in(tmp_path / "w", other, copy, Path(shutil.copy(other, tmp_path / "twin.jsonl")))
    assert (again.frames, again.events, again.duplicates, again.sources) == (2, 1, 1, ["b.jsonl"])
    versions = warehouse_at(tmp_path / "w", "look").versions()
    assert versions == {"registrations": 1, "sources": 1, "topic_configs": 0, "watermarks": 0}
    assert stored(tmp_path / "w", "sources", "source_file", "ingest_run", "frames") == [
        ("a.jsonl", "a", 1),
        ("b.jsonl", "b", 1),
    ]


@pytest.mark.slow
def test_frames_that_got_lost_are_an_error_until_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of which a frame is unaccounted for does not count as read: not by this run, and not by the next."""
    path = write(tmp_path / "log.jsonl", a_second_each(GOOD))

    def forgetful(*given: Any, **named: Any) -> None:
        write_staged(*given, **named)
        (result,) = (value for value in given if isinstance(value, Ingested))
        result.events -= 1

    with monkeypatch.context() as patched:
        patched.setattr("jobs.ingest.ingest.write_staged", forgetful)
        for _ in range(2):
            with pytest.raises(GateError, match="1 frames are neither events"):
                read_in(tmp_path / "w", path)
    assert warehouse_at(tmp_path / "w", "look").versions() == {}
    read = read_in(tmp_path / "w", path)
    assert (read.events, read.duplicates) == (len(GOOD) - 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["registrations:after", "sources:before"])
def test_a_run_that_dies_before_it_notes_its_file_leaves_nothing(tmp_path: Path, point: str) -> None:
    """Nobody sees its rows or where its reading stopped, and the file is read again as if for the first time."""
    paths = [piece(tmp_path / f"{number}.pcap", 400 * number, 400 * (number + 1)) for number in range(2)]
    for name in ("whole", "w"):
        read_in(tmp_path / name, paths[0])
    whole = read_in(tmp_path / "whole", paths[1])
    before = warehouse_at(tmp_path / "w", "look").versions()
    script = (
        "import sys; from pathlib import Path; from tests.boundaries import killed_at; from tests.ingest.given import read_in; "
        "killed_at(sys.argv[1]); read_in(*map(Path, sys.argv[2:]))"
    )
    died = subprocess.run(
        [sys.executable, "-c", script, point, tmp_path / "w", paths[1]],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    assert warehouse_at(tmp_path / "w", "look").versions() == before
    assert ingest(warehouse_at(tmp_path / "w", "nothing"), []) == Ingested()

    # As another run: by now it has another name.
    read = read_in(tmp_path / "w", Path(shutil.copy(paths[1], tmp_path / "again.pcap")))

    assert replace(read, sources=[]) == replace(whole, sources=[])
    for table in ("registrations", "channel_events", "route_observations"):
        assert stored(tmp_path / "w", table, "event_id", "seq") == stored(tmp_path / "whole", table, "event_id", "seq")
    states = [stored(tmp_path / name, "open_streams", "namesrv_addr", "last_time") for name in ("w", "whole")]
    assert states[0] == states[1]
    assert {run for (run,) in stored(tmp_path / "w", "route_observations", "ingest_run")} == {"0", "again"}


def test_beats_of_a_run_lie_in_the_order_in_which_they_are_read(tmp_path: Path) -> None:
    """A file has one day, and is sorted by name server and position."""
    lines = [at(hours, BEAT | {"namesrv_id": f"10.0.0.{n}:9876"}) for hours in (30, 3, 29, 1) for n in (2, 1)]
    read_in(tmp_path / "w", write(tmp_path / "log.jsonl", lines))
    warehouse = warehouse_at(tmp_path / "w", "look")
    assert [file.rows for file in warehouse.files(bronze.HEARTBEATS)] == [4, 4]
    rows = warehouse.rows(bronze.HEARTBEATS, columns=["day", "namesrv_id", "seq"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["day"], row["namesrv_id"], row["seq"]))


def test_what_cannot_be_written_is_no_fault_of_the_log_that_is_read(tmp_path: Path) -> None:
    """Else a full disk would have it refused for ever; a log that cannot be read is at fault."""
    nowhere, log = Run(str(tmp_path / "none"), "run", FIRST, {}), write(tmp_path / "a.jsonl", [at(1, BEAT)])
    with pytest.raises(FileNotFoundError, match="none"):
        read_part(Part(source_of(log), 0, None, "log", nowhere))
    assert "gone" in str(read_part(Part(source_of(tmp_path / "gone.jsonl"), 0, None, "log", nowhere))[1])


def test_a_disk_that_is_full_while_a_capture_is_read_is_no_fault_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows go to disk while it is read: the failure ends the run, nothing is noted of the capture, and it is read again."""
    recorded, write_rows, left = piece(tmp_path / "a.pcap", 0, 400), Collector._write, [3]

    def some(collector: Collector, name: str, rows: pa.RecordBatch) -> None:
        left[0] -= 1
        if left[0] == -1:  # a moment later there is room again
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(collector.run.folder))
        write_rows(collector, name, rows)

    monkeypatch.setattr(staging_module, "_PENDING_BYTES", 1 << 12)
    monkeypatch.setattr(Collector, "_write", some)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        read_in(tmp_path / "w", recorded)
    assert left[0] < 0
    monkeypatch.setattr(Collector, "_write", write_rows)
    assert warehouse_at(tmp_path / "w", "again").rows(bronze.SOURCES).num_rows == 0
    found = read_in(tmp_path / "w", recorded)
    assert (found.frames > 0, found.observations + found.events > 0, found.errors) == (True, True, []), found
