"""Read captures, event logs and snapshots into the bronze tables.

Reads   packet captures and JSON-lines event logs, files or folders; snapshot files
Writes  all bronze tables; a file that was read before, by content, changes nothing. What breaks a rule goes to quarantine
"""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import late, tables
from jobs.conf import PipelineConf
from jobs.crash import crash_points
from jobs.gate import GateError
from jobs.ingest_write import STAGED, Written, write_staged
from jobs.staging import Staging
from jobs.unfinished import take_back_unfinished
from jobs.warehouse import Warehouse
from namesrv_core.history.snapshot import SnapshotError, snapshot_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.capture import read_capture
from namesrv_wire.errors import CaptureError, Reason, UnorderedError
from namesrv_wire.event_log import read_event_log
from namesrv_wire.lateness import Lateness
from namesrv_wire.rows import FRAME_TABLES, Row
from namesrv_wire.tally import Tally
from namesrv_wire.transcript import Transcript
from schemas import bronze, times

log = logging.getLogger(__name__)
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
_NS_PER_DAY = 86_400_000_000_000


class ClockError(RuntimeError):
    """Nothing could be read but files whose clock goes back so far that they have no order."""


@dataclass
class Ingested:
    """What a run read. The law: frames = events + observations + duplicates + quarantined + the sum of `ignored`.

    The two sides are counted apart: frames and what is ignored by whoever reads them, the rest in what was staged.
    `refused`: of the quarantined, rows that were too late or whose clock went back, by reason. `unordered`: files whose clock
    went back too far.
    """

    frames: int = 0
    packets: int = 0
    events: int = 0
    observations: int = 0
    duplicates: int = 0
    quarantined: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)
    known_sources: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unordered: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    days: list[dt.date] = field(default_factory=list)

    @property
    def unaccounted(self) -> int:
        """Return frames that are in none of the classes: 0, or something was lost, or counted twice."""
        classes = self.events + self.observations + self.duplicates + self.quarantined
        return self.frames - classes - sum(self.ignored.values())


@dataclass(frozen=True)
class Source:
    """An input file. `kind`: capture, event_log or snapshot."""

    path: Path
    kind: str
    sha256: str
    bytes: int
    first_time_ns: int


def expand(inputs: Sequence[str]) -> list[Path]:
    """Return the files that `inputs` name, folders entered, in order of name. Raises FileNotFoundError naming what is missing."""
    found: list[Path] = []
    for name in inputs:
        path = Path(name)
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        elif path.is_file():
            found.append(path)
        else:
            raise FileNotFoundError(f"input {name}: no such file or folder")
    return found


def ingest(house: Warehouse, inputs: Sequence[str], snapshots: Sequence[str] = ()) -> Ingested:
    """Read `inputs` and `snapshots` into the bronze tables of the warehouse and return what was read.

    First takes back what a run has left that did not get to its end. Raises ClockError, after noting them in `sources`, if
    all there was to read were files without order; GateError, before noting any, if a frame is unaccounted for.
    """
    take_back_unfinished(house)
    result = Ingested()
    fresh = _fresh_sources(house, inputs, snapshots, result)
    if not fresh:
        return result
    spark, warehouse = house.spark, house.path
    folder = Path(warehouse) / "_staging" / house.run_id
    watermarks = late.read_watermarks(spark, warehouse)
    lateness = Lateness(watermarks, house.conf.late_limit_days)
    with Staging(folder, STAGED, house.run_id, house.started.date()) as staging:
        reading = _Reading(staging, lateness, result)
        source_rows, carry = _read_all(house, fresh, reading)
        has_logs = any(source.kind == "event_log" for source in fresh)
        last_day = times.day_of(max(watermarks.values())) if watermarks else house.started.date()
        written = write_staged(spark, warehouse, staging.frames(spark), staging.days, last_day, has_logs=has_logs)
        _note_written(result, written, lateness)
        _write_open_streams(spark, warehouse, carry, house.run_id)
        late.write_watermarks(spark, warehouse, watermarks, lateness.latest_us, house.run_id, house.started)
        rows = [{**row, "days": result.days, "ingest_run": house.run_id} for row in source_rows]
        with crash_points("sources"):
            # Last of all: a file is known from here on, and what was read of it must be in the tables.
            tables.append(spark.createDataFrame(rows, bronze.SOURCES.schema), warehouse, bronze.SOURCES)
    house.forget(*bronze.TABLES)
    if result.unordered and not result.events + result.observations + result.duplicates:
        raise ClockError(f"{'; '.join(result.errors)}. There was nothing else to read")
    return result


def _fresh_sources(house: Warehouse, inputs: Sequence[str], snapshots: Sequence[str], result: Ingested) -> list[Source]:
    """Return the files that no run has noted, each content once, in order of time; note the others in `result`."""
    found = [_source(path) for path in expand(inputs)]
    found += [replace(_source(path), kind="snapshot") for path in expand(snapshots)]
    known = {source.sha256: source.frames for source in house.recorded()} if found else {}
    fresh: dict[str, Source] = {}
    for source in sorted(found, key=lambda s: (s.first_time_ns, s.path.name)):
        if source.sha256 in known:
            result.frames += known[source.sha256]
            result.duplicates += known[source.sha256]
            result.known_sources.append(source.path.name)
        else:
            fresh.setdefault(source.sha256, source)
    return list(fresh.values())


def _note_written(result: Ingested, written: Written, lateness: Lateness) -> None:
    """Add what was written to what was read. Raises GateError if that is not everything."""
    result.days = written.days
    result.observations = written.new_frames["route_observations"]
    result.events = written.new_frames.total() - result.observations
    result.quarantined += written.refused_frames
    result.duplicates += written.repeated_frames
    result.refused.update({reason.value: count for reason, count in lateness.refused.items()})
    if result.unaccounted:
        raise GateError(
            f"{result.unaccounted} frames are neither events, answers, duplicates, quarantined nor ignored; none of the files "
            "counts as read"
        )


def _source(path: Path) -> Source:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    kind, first = _kind_and_time(path)
    return Source(path, kind, digest.hexdigest(), size, first)


def _kind_and_time(path: Path) -> tuple[str, int]:
    """Return what kind of input a file is, by its first bytes, and the time of its first packet (0 if there is none)."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == _GZIP_MAGIC
        with gzip.open(path) if compressed else path.open("rb") as file:
            head = file.read(64).lstrip()
    except (OSError, EOFError):
        return "capture", 0  # the reader says what is wrong with it
    if head.startswith(b"{"):
        return "event_log", 0
    try:
        first = next(iter(read_capture(path)), None)
    except CaptureError:
        return "capture", 0
    return "capture", 0 if first is None else first.time_ns


@dataclass
class _Reading:
    """Where rows go on their way: past the judge of their times, into the staging area."""

    staging: Staging
    lateness: Lateness
    result: Ingested
    lines: int = 0

    def capture_row(self, row: Row, transcript: Transcript, number: int) -> None:
        """Stage a row of a capture, read by transcript `number` (from 1)."""
        is_frame = row.table in FRAME_TABLES and row.values["event_id"] not in transcript.counted_before
        self.staging.add(self.lateness.judged(row, in_order=False), frame=-number if is_frame else None)

    def log_row(self, row: Row) -> None:
        """Stage a row of an event log. A line of any kind is a frame; a topic table is a part of its registration's line."""
        self.lines += 1
        is_line = row.table != bronze.TOPIC_CONFIGS_TABLE.name
        self.staging.add(self.lateness.judged(row), frame=self.lines if is_line else None)


def _read_all(
    house: Warehouse, fresh: list[Source], reading: _Reading
) -> tuple[list[dict[str, object]], dict[str, tuple[str, int | None]]]:
    """Read the files in order of time; return rows for `sources` and the state of open streams."""
    stored = house.table(bronze.OPEN_STREAMS)
    streams = stored.select("namesrv_id", "state", F.unix_micros("last_time").alias("last_us")).collect()
    last_ns = {row["namesrv_id"]: row["last_us"] * NS_PER_US for row in streams}
    transcript = _transcript(house.conf, {row["namesrv_id"]: row["state"] for row in streams})
    # Captures that go back behind what was read: connections that are open now are not those of then.
    earlier = _transcript(house.conf, {})
    beginnings = late.Beginnings(house.spark, house.path)
    source_rows = []
    for source in fresh:
        reading.lateness.begin_file()
        if source.kind == "event_log":
            row = _read_log(source, reading)
        elif source.kind == "snapshot":
            row = _source_row(source, error=_read_snapshot(source, reading.staging))
        elif late.goes_back(source.path, last_ns):
            row = _read_capture(source, earlier, 2, reading, beginnings)
        else:
            row = _read_capture(source, transcript, 1, reading)
        if row["error"]:
            reading.result.errors.append(str(row["error"]))
            log.error("source=%s error=%s", source.path.name, row["error"])
        source_rows.append(row)
        reading.result.sources.append(source.path.name)
    for number, read in enumerate((transcript, earlier), start=1):
        for found in read.finish():
            reading.capture_row(found, read, number)
        counts = read.counts
        reading.result.frames += counts.frames
        reading.result.packets += counts.packets
        reading.result.quarantined += counts.quarantined_frames
        reading.result.ignored.update(counts.ignored)
        if counts.dropped_rows:
            reading.result.ignored["before_known_as_namesrv"] += counts.dropped_rows
    states = {
        namesrv_id: (state, transcript.last_time_ns().get(namesrv_id))
        for namesrv_id, state in transcript.carry().items()
    }
    return source_rows, states


def _transcript(conf: PipelineConf, carry: Mapping[str, str]) -> Transcript:
    idle_ms = {
        name: said.settings["channel_max_idle_ms"]
        for name, said in conf.namesrvs.items()
        if "channel_max_idle_ms" in said.settings
    }
    return Transcript(idle_ms=idle_ms, namesrv=tuple(conf.namesrvs) or None, carry=carry)


def _read_capture(
    source: Source,
    transcript: Transcript,
    number: int,
    reading: _Reading,
    beginnings: late.Beginnings | None = None,
) -> dict[str, object]:
    """Read one capture; return its row for `sources`, with the reason if reading stopped early."""
    frames, packets = transcript.counts.frames, transcript.counts.packets
    last_ns, latest_ns, error = None, 0, None
    furthest_back_ns = reading.lateness.limit_days * _NS_PER_DAY
    try:
        for segment in read_capture(source.path):
            last_ns = segment.time_ns
            if latest_ns - last_ns > furthest_back_ns:
                what = f"the clock goes back from {_instant(latest_ns)} to {_instant(last_ns)}, beyond late.limit_days"
                raise UnorderedError(source.path, segment.packet_no, what)
            latest_ns = max(latest_ns, last_ns)
            for row in transcript.feed(segment, source.path.name):
                if beginnings is None or not beginnings.is_resumption(row):
                    reading.capture_row(row, transcript, number)
    except CaptureError as stopped:
        error = str(stopped)
        if isinstance(stopped, UnorderedError):
            reading.result.unordered.append(source.path.name)
    counts = transcript.counts
    return _source_row(source, counts.frames - frames, counts.packets - packets, last_ns, error)


def _read_log(source: Source, reading: _Reading) -> dict[str, object]:
    """Read one event log; return its row for `sources`."""
    tally, error = Tally(), None
    backwards = reading.lateness.refused[Reason.CLOCK_WENT_BACK]
    try:
        for row in read_event_log(source.path, tally):
            reading.log_row(row)
    except (CaptureError, OSError, EOFError) as stopped:
        error = str(stopped)
    for fact in reading.lateness.steps_back():
        reading.staging.add(fact, frame=None)
    backwards = reading.lateness.refused[Reason.CLOCK_WENT_BACK] - backwards
    if backwards:
        reading.result.unordered.append(source.path.name)
        error = error or (
            f"{source.path.name}: the clock goes back by more than {reading.lateness.limit_days} days (late.limit_days); "
            f"{backwards} lines were refused, see quarantine: {Reason.CLOCK_WENT_BACK.value}"
        )
    reading.result.frames += tally.frames
    return _source_row(source, tally.frames, error=error)


def _read_snapshot(source: Source, staging: Staging) -> str | None:
    """Stage one snapshot; return what is wrong with it, if anything is."""
    try:
        text = source.path.read_text(encoding="utf-8")
        snapshot = snapshot_of(text)
    except (SnapshotError, OSError, UnicodeDecodeError) as error:
        return f"{source.path.name}: {error}"
    values = {
        "namesrv_id": snapshot.namesrv_id,
        "seq": snapshot.at_us * NS_PER_US,
        "event_id": source.sha256[:32],
        "effect_time": snapshot.at_us,
        "snapshot": text,
        "source_file": source.path.name,
        "source_offset": 1,
    }
    staging.add(Row(bronze.SNAPSHOTS.name, values), frame=None)
    return None


def _source_row(
    source: Source, frames: int = 0, packets: int = 0, last_ns: int | None = None, error: str | None = None
) -> dict[str, object]:
    return {
        "content_sha256": source.sha256,
        "source_file": source.path.name,
        "kind": source.kind,
        "bytes": source.bytes,
        "frames": frames,
        "packets": packets if source.kind == "capture" else None,
        "first_time": _instant(source.first_time_ns or None),
        "last_time": _instant(last_ns),
        "error": error,
    }


def _instant(time_ns: int | None) -> dt.datetime | None:
    return None if time_ns is None else dt.datetime.fromtimestamp(time_ns / 1e9, dt.timezone.utc)


def _write_open_streams(
    spark: SparkSession, warehouse: str, carry: Mapping[str, tuple[str, int | None]], run_id: str
) -> None:
    """Note where reading stopped in each name server's connections."""
    states = [
        {
            "namesrv_id": name,
            "state": state,
            "sha256": hashlib.sha256(state.encode()).hexdigest(),
            "last_time": _instant(last_ns),
            "ingest_run": run_id,
        }
        for name, (state, last_ns) in sorted(carry.items())
        if last_ns is not None
    ]
    if states:
        tables.upsert(spark, spark.createDataFrame(states, bronze.OPEN_STREAMS.schema), warehouse, bronze.OPEN_STREAMS)
