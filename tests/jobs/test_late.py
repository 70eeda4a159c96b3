"""Late, repeated and out-of-order events in the warehouse: days are recomputed, what changed is said, and nothing is lost."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import shutil
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import gate, nightly, tables
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.gate import GateError
from jobs.ingest import ClockError, Ingested, ingest
from jobs.ingest_write import Written, write_staged
from jobs.late import goes_back
from jobs.views import register_views
from jobs.warehouse import Warehouse
from namesrv_wire.capture import read_capture
from schemas import bronze
from schemas.table import Table

Line = dict[str, Any]
NAMESRV = "10.0.0.1:9876"
FIRST = dt.date(2026, 1, 2)
START_MS = 1_767_312_000_000  # its midnight
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
LEASE_MS = 20 * DAY_MS
DAY = dt.timedelta(days=1)
CAPTURE = Path(__file__).parents[2] / "examples" / "v4-lifecycle" / "capture.pcap.gz"


def broker(name: str, topics: str, counter: int) -> Line:
    """Return a registration of a master that need not beat for days, with topics named by letters."""
    configs = [{"topic": topic, "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6} for topic in topics]
    return {
        "kind": "registration",
        "cluster_name": "C",
        "broker_name": f"broker-{name}",
        "broker_addr": f"10.0.0.{ord(name)}:10911",
        "broker_id": 0,
        "heartbeat_timeout_ms": LEASE_MS,
        "data_version": {"timestamp": START_MS, "counter": counter},
        "topics": configs,
    }


def at(hours: float, said: Line) -> Line:
    """Return a line, so many hours after the first midnight."""
    return {"schema": "namesrv-event/1", "namesrv_id": NAMESRV, "time": START_MS + round(hours * HOUR_MS), **said}


BEAT = {"kind": "heartbeat", "code": 904, "cluster_name": "C", "broker_addr": "10.0.0.97:10911"}
ORDERLY = [
    at(0.5, {"kind": "namesrv", "event": "started"}),
    at(0.6, {"kind": "namesrv", "event": "identified", "version": 493}),
    at(1, broker("a", "TU", 1)),
    at(2, broker("b", "TV", 1)),
    at(26, BEAT),
    at(30, broker("a", "TUW", 2)),
    at(50, broker("b", "TV", 1)),
    at(60, BEAT | {"broker_addr": "10.0.0.98:10911"}),
]
LATE = [at(12, {"kind": "admin", "code": 205, "broker_name": "broker-b", "response_code": 0})]


def write(path: Path, lines: list[Line]) -> Path:
    """Write an event log."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def house_at(spark: SparkSession, path: Path, run_id: str, conf: PipelineConf | None = None) -> Warehouse:
    """Return a warehouse for one run."""
    return Warehouse(spark, str(path), conf or PipelineConf(), run_id, dt.datetime.now(dt.timezone.utc))


def read_in(spark: SparkSession, warehouse: Path, *paths: Path, conf: PipelineConf | None = None) -> Ingested:
    """Ingest files; every line is accounted for."""
    house = house_at(spark, warehouse, paths[0].stem, conf)
    read = ingest(house, [str(path) for path in paths])
    assert read.unaccounted == 0
    return read


def stored(spark: SparkSession, warehouse: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a bronze table, in order."""
    rows = spark.read.format("delta").load(f"{warehouse}/bronze/{table}").select(*columns).collect()
    return sorted(tuple(row) for row in rows)


# -- reading ---------------------------------------------------------------------------------------


def test_late_lines_are_read_up_to_the_limit(spark: SparkSession, tmp_path: Path) -> None:
    """Behind the watermark of the runs before: within the limit an event, beyond it quarantine; one's own run does not count."""
    warehouse = tmp_path / "w"
    first = read_in(spark, warehouse, write(tmp_path / "first.jsonl", [at(10 * 24, BEAT)]))
    assert (first.events, first.refused) == (1, {})
    late = [at(3 * 24, BEAT), at(3 * 24, BEAT) | {"time": START_MS + 3 * DAY_MS - 1}]
    other = at(1, BEAT | {"namesrv_id": "10.0.0.2:9876"})
    read = read_in(spark, warehouse, write(tmp_path / "late.jsonl", [*late, other]))
    assert (read.frames, read.events, read.quarantined, read.refused) == (3, 2, 1, {"too_late": 1})
    assert read.days == [FIRST, FIRST + 3 * DAY]
    assert stored(spark, warehouse, "quarantine", "reason", "source_file", "source_offset") == [
        ("too_late", "late.jsonl", 2)
    ]
    latest = dt.datetime(2026, 1, 12)  # noqa: DTZ001  the session's zone is UTC
    assert (NAMESRV, latest) in stored(spark, warehouse, "watermarks", "namesrv_id", "latest_time")


def test_events_in_another_file_and_order_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Lines of one instant, without positions, get different ones in another order - and keep those that they have."""
    one, other = (at(1, broker(name, "TU", 1)) for name in "ab")
    warehouse = tmp_path / "w"
    read_in(spark, warehouse, write(tmp_path / "first.jsonl", [one, other]))
    before = stored(spark, warehouse, "registrations", "event_id", "seq", "source_file")
    again = read_in(spark, warehouse, write(tmp_path / "again.jsonl", [other, one, other]))
    assert (again.frames, again.events, again.duplicates) == (3, 0, 3)
    assert stored(spark, warehouse, "registrations", "event_id", "seq", "source_file") == before


def test_positions_are_unique_whatever_files_say(spark: SparkSession, tmp_path: Path) -> None:
    """Events of one instant from two files make room; of two that claim one position the later is quarantined."""
    warehouse = tmp_path / "w"
    files = [write(tmp_path / f"{name}.jsonl", [at(1, broker(name, "TU", 1))]) for name in "abc"]
    read_in(spark, warehouse, *files[:2])
    read_in(spark, warehouse, files[2])
    base = (START_MS + HOUR_MS) * 1_000_000
    assert stored(spark, warehouse, "registrations", "seq", "broker_name") == [
        (base, "broker-a"),
        (base + 1, "broker-b"),
        (base + 2, "broker-c"),
    ]
    claims = [BEAT | {"seq": seq, "broker_addr": addr} for seq, addr in ((base, "x"), (7, "y"), (7, "z"))]
    read = read_in(spark, warehouse, write(tmp_path / "claims.jsonl", [at(1, claim) for claim in claims]))
    assert (read.frames, read.events, read.quarantined) == (3, 1, 2)
    assert stored(spark, warehouse, "quarantine", "reason", "source_offset") == [("seq_taken", 1), ("seq_taken", 3)]
    assert stored(spark, warehouse, "heartbeats", "seq", "broker_addr") == [(7, "y")]


def test_a_file_without_order_is_named_and_the_rest_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Lines that go back beyond the limit are quarantined, and their file is an error; the other file is read."""
    good = write(tmp_path / "good.jsonl", [at(3, BEAT)])
    jumps = write(tmp_path / "jumps.jsonl", [at(240, BEAT), at(1, BEAT)])
    read = read_in(spark, tmp_path / "w", good, jumps)
    assert (read.events, read.refused, read.unordered) == (2, {"clock_went_back": 1}, ["jumps.jsonl"])
    sources = tables.read_table(spark, str(tmp_path / "w"), bronze.SOURCES).where("error IS NOT NULL").collect()
    assert [(row["source_file"], row["error"]) for row in sources] == [("jumps.jsonl", *read.errors)]


def test_a_capture_without_order_is_all_that_there_is(spark: SparkSession, tmp_path: Path) -> None:
    """A packet eight days before the one before it ends the reading: noted in sources, and an error of its own."""
    data = bytearray(gzip.decompress(CAPTURE.read_bytes()))
    second = 24 + 16 + struct.unpack_from("<I", data, 24 + 8)[0]
    seconds = struct.unpack_from("<I", data, 24)[0]
    struct.pack_into("<I", data, second, seconds - 8 * 86_400)
    path = tmp_path / "jumps.pcap"
    path.write_bytes(data)
    with pytest.raises(
        ClockError, match=r"jumps.pcap, packet 2: the clock goes back from 2026-11-21 .* to 2026-11-13 "
    ):
        read_in(spark, tmp_path / "w", path)
    assert stored(spark, tmp_path / "w", "sources", "source_file", "packets") == [("jumps.pcap", 1)]


def packets(first: int, last: int) -> bytes:
    """Return a capture of the bundled one's packets from `first` up to `last`, from 0."""
    data = gzip.decompress(CAPTURE.read_bytes())
    offsets = [24]
    for _ in range(last):
        offsets.append(offsets[-1] + 16 + struct.unpack_from("<I", data, offsets[-1] + 8)[0])
    return data[:24] + data[offsets[first] : offsets[last]]


def test_a_capture_that_goes_back_is_read_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Its events are placed at their own times, not behind what was read before; the name server does not begin anew."""
    paths = []
    for number, (first, last) in enumerate([(0, 900), (1_800, 2_700), (900, 1_800)]):
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(packets(first, last))
        paths.append(path)
    last_ns = {"127.0.0.1:9876": max(segment.time_ns for segment in read_capture(paths[0]))}
    assert [goes_back(path, last_ns) for path in paths] == [True, False, False]
    assert not goes_back(paths[0], {})
    for path in paths:
        read_in(spark, tmp_path / "w", path)
    answers = stored(spark, tmp_path / "w", "route_observations", "seq", "effect_time", "source_file")
    assert {file for *_, file in answers} == {"0.pcap", "1.pcap", "2.pcap"}
    assert [file for _, _, file in answers] == sorted(
        (file for _, _, file in answers), key=lambda file: "021".find(file[0])
    )
    facts = stored(spark, tmp_path / "w", "namesrv_events", "kind", "source_file")
    assert [file for kind, file in facts if kind in ("started", "observed_from")] == ["0.pcap"]


def test_a_run_that_dies_before_it_notes_its_file_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows and where its reading stopped are taken back, and the file is read again as if for the first time."""
    paths = [tmp_path / f"{number}.pcap" for number in range(2)]
    for path, (first, last) in zip(paths, [(0, 900), (900, 1_800)], strict=True):
        path.write_bytes(packets(first, last))
    told = {}
    for warehouse in (tmp_path / "whole", tmp_path / "w"):
        for path in paths:
            if path == paths[1] and warehouse.name == "w":
                with monkeypatch.context() as patched:
                    patched.setattr(tables, "append", append_to_all_but_sources)
                    with pytest.raises(OSError, match="power cut"):
                        read_in(spark, warehouse, path)
                ingest(house_at(spark, warehouse, "look"), [])
                taken_back = tables.version_of(spark, str(warehouse), bronze.ROUTE_OBSERVATIONS)
                ingest(house_at(spark, warehouse, "look-again"), [])
                assert tables.version_of(spark, str(warehouse), bronze.ROUTE_OBSERVATIONS) == taken_back
                # As another run: by now it has another name.
                path = Path(shutil.copy(path, tmp_path / "again.pcap"))  # noqa: PLW2901
            read = read_in(spark, warehouse, path)
        heard = [stored(spark, warehouse, t, "event_id", "channel_id") for t in ("registrations", "channel_events")]
        marks = stored(spark, warehouse, "watermarks", "namesrv_id", "latest_time")
        told[warehouse.name] = (heard, marks, replace(read, sources=[]))
    assert told["w"] == told["whole"]
    assert {run for (run,) in stored(spark, tmp_path / "w", "route_observations", "ingest_run")} == {"0", "again"}


def test_frames_that_got_lost_are_an_error_until_they_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of which a frame is unaccounted for does not count as read: not by this run, and not by the next."""
    path = write(tmp_path / "log.jsonl", ORDERLY)

    def forgetful(*given: Any, **named: Any) -> Written:
        written = write_staged(*given, **named)
        return replace(written, new_frames=written.new_frames - Counter(registrations=1))

    with monkeypatch.context() as patched:
        patched.setattr("jobs.ingest.write_staged", forgetful)
        for _ in range(2):
            with pytest.raises(GateError, match="1 frames are neither events"):
                read_in(spark, tmp_path / "w", path)
    read = read_in(spark, tmp_path / "w", path)
    assert (read.events, read.duplicates) == (len(ORDERLY), 0)
    assert len(stored(spark, tmp_path / "w", "registrations", "event_id")) == 4


append = tables.append


def append_to_all_but_sources(frame: DataFrame, warehouse: str, table: Table) -> None:
    """Do not survive the last write of an ingestion."""
    if table is bronze.SOURCES:
        raise OSError("power cut")
    append(frame, warehouse, table)


# -- recomputing -----------------------------------------------------------------------------------


def test_late_events_give_the_tables_of_one_run_and_restatements_say_what_changed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three days, then an event of the first: all tables equal those of everything at once, and the difference is in rows."""
    monkeypatch.setattr(gate, "_judged", lambda *_: [])  # rules are not what this is about, and take most of the time

    def run(warehouse: str, run_id: str, *paths: Path) -> nightly.Summary:
        house = house_at(spark, tmp_path / warehouse, run_id)
        return nightly.run(house, [str(path) for path in paths], Console(io.StringIO(), io.StringIO()))

    orderly, late = write(tmp_path / "orderly.jsonl", ORDERLY), write(tmp_path / "late.jsonl", LATE)
    everything = write(tmp_path / "everything.jsonl", sorted([*ORDERLY, *LATE], key=lambda line: line["time"]))
    first = run("w", "run-1", orderly)
    assert (first.days, first.restated) == (["2026-01-02", "2026-01-03", "2026-01-04"], 0)
    second = run("w", "run-2", late)
    again = run("w", "run-3", late)
    assert (again.status, again.digests) == ("nothing_to_do", second.digests)
    assert second.digests == run("whole", "run-4", everything).digests
    assert first.digests != second.digests

    register_views(spark, str(tmp_path / "w"))
    rows = spark.table("restatements").collect()
    assert len(rows) == second.restated
    assert {(row["run_id"], row["previous_run"], row["namesrv_id"]) for row in rows} == {("run-2", "run-1", NAMESRV)}
    queues = {row["day"]: row for row in rows if row["table_name"] == "topic_queue_history"}
    assert {day: (row["cause"], row["new_events"], row["ingest_runs"]) for day, row in queues.items()} == {
        FIRST: ("events", 1, ["run-2"]),
        FIRST + DAY: ("earlier_day", 0, []),
        FIRST + 2 * DAY: ("earlier_day", 0, []),
    }
    # On the first day both rows of broker-b are closed by the wipe and two open; the days after have the two new ones.
    counts = ("rows_added", "rows_removed")
    assert [tuple(queues[FIRST + n * DAY][c] for c in counts) for n in range(3)] == [(4, 2), (2, 2), (2, 2)]
    shown = [(change["change"], json.loads(change["key"])) for change in queues[FIRST]["changes"]]
    assert sorted((what, key["topic"], key["broker_name"]) for what, key in shown) == [
        ("added", "T", "broker-b"),
        ("added", "V", "broker-b"),
        ("changed", "T", "broker-b"),
        ("changed", "V", "broker-b"),
    ]
    (event,) = queues[FIRST]["event_ids"]
    changed = next(change for change in queues[FIRST]["changes"] if change["change"] == "changed")
    assert (json.loads(changed["before"])["closed_by"], json.loads(changed["after"])["closed_by"]) == (None, event)
    untouched = {"kv_config_history", "data_version_history", "refreshes_hourly", "expired_brokers", "namesrv_settings"}
    assert untouched.isdisjoint(row["table_name"] for row in rows)


def test_a_day_that_comes_to_be_before_a_published_one_restates_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second day was published; a late file makes a first one, whose broker the second then begins with."""
    monkeypatch.setattr(gate, "_judged", lambda *_: [])

    def run(run_id: str, *lines: Line) -> nightly.Summary:
        log = write(tmp_path / f"{run_id}.jsonl", list(lines))
        house = house_at(spark, tmp_path / "w", run_id)
        return nightly.run(house, [str(log)], Console(io.StringIO(), io.StringIO()))

    assert run("second", at(26, {"kind": "namesrv", "event": "identified", "version": 493}), at(26, BEAT)).restated == 0
    late = run("first", at(1, {"kind": "namesrv", "event": "started"}), at(2, broker("a", "TU", 1)))
    assert late.days == ["2026-01-02", "2026-01-03"]
    rows = (
        spark.read.format("delta").load(f"{tmp_path}/w/gold/restatements").where("table_name = 'topic_queue_history'")
    )
    assert [(row["day"], row["rows_added"], row["cause"]) for row in rows.collect()] == [
        (FIRST + DAY, 2, "earlier_day")
    ]
