"""Read captures and event logs into the bronze tables.

Reads   packet captures and JSON-lines event logs, files or folders
Writes  all bronze tables; a file that was read before, by content, changes nothing. What breaks a rule goes to quarantine
"""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from jobs import tables
from jobs.conf import PipelineConf
from jobs.ingest_write import STAGED, write_staged
from jobs.staging import Staging
from namesrv_wire.capture import read_capture
from namesrv_wire.errors import CaptureError
from namesrv_wire.event_log import read_event_log
from namesrv_wire.transcript import Transcript
from schemas import bronze

log = logging.getLogger(__name__)
# A capture's rows that stand for one frame each; its other events are facts about connections and name servers.
_FRAME_TABLES = {
    table.name
    for table in (
        bronze.HEARTBEATS,
        bronze.REGISTRATIONS,
        bronze.UNREGISTRATIONS,
        bronze.ADMIN_EVENTS,
        bronze.ROUTE_OBSERVATIONS,
    )
}
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20


@dataclass
class Ingested:
    """What a run read. The law: frames = events + observations + duplicates + quarantined + the sum of `ignored`."""

    frames: int = 0
    packets: int = 0
    events: int = 0
    observations: int = 0
    duplicates: int = 0
    quarantined: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)
    known_sources: list[str] = field(default_factory=list)
    read_rows: int = 0  # events and answers as decoded, before it is known which of them are new
    errors: list[str] = field(default_factory=list)
    days: list[dt.date] = field(default_factory=list)

    @property
    def unaccounted(self) -> int:
        """Return frames that are in none of the classes: 0, or the decoder has lost something."""
        classes = self.events + self.observations + self.duplicates + self.quarantined
        return self.frames - classes - sum(self.ignored.values())


@dataclass(frozen=True)
class Source:
    """An input file. `kind`: capture or event_log."""

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


def ingest(
    spark: SparkSession,
    warehouse: str,
    inputs: Sequence[str],
    conf: PipelineConf,
    run_id: str,
    started: dt.datetime,
) -> Ingested:
    """Read `inputs` into the bronze tables of `warehouse` and return what was read."""
    result = Ingested()
    sources = sorted((_source(path) for path in expand(inputs)), key=lambda s: (s.first_time_ns, s.path.name))
    known = _known_sources(spark, warehouse)
    fresh: list[Source] = []
    for source in sources:
        if source.sha256 in known:
            frames = known[source.sha256]
            result.frames += frames
            result.duplicates += frames
            result.known_sources.append(source.path.name)
        elif source.sha256 not in {other.sha256 for other in fresh}:
            fresh.append(source)
    if not fresh:
        return result
    folder = Path(warehouse) / "_staging" / run_id
    with Staging(folder, STAGED, run_id, started.date()) as staging:
        source_rows, carry = _read_all(spark, warehouse, fresh, conf, staging, result)
        written = write_staged(spark, warehouse, staging.frames(spark))
        for row in source_rows:
            row["days"] = written.days
        _write_reading_state(spark, warehouse, source_rows, carry, run_id)
    result.days = written.days
    result.observations = written.new_frames["route_observations"]
    result.events = written.new_frames.total() - result.observations
    result.quarantined += written.refused_frames
    result.duplicates += result.read_rows - written.new_frames.total() - written.refused_frames
    return result


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


def _known_sources(spark: SparkSession, warehouse: str) -> dict[str, int]:
    if not tables.exists(spark, warehouse, bronze.SOURCES):
        return {}
    rows = tables.read_table(spark, warehouse, bronze.SOURCES).select("content_sha256", "frames").collect()
    return {row["content_sha256"]: row["frames"] for row in rows}


def _read_all(
    spark: SparkSession,
    warehouse: str,
    fresh: list[Source],
    conf: PipelineConf,
    staging: Staging,
    result: Ingested,
) -> tuple[list[dict[str, object]], dict[str, tuple[str, int | None]]]:
    """Read the files in order of time into `staging`; return rows for `sources` and the state of open streams."""
    open_streams = tables.read_table(spark, warehouse, bronze.OPEN_STREAMS).select("namesrv_id", "state").collect()
    transcript = Transcript(
        idle_ms={
            name: said.settings["channel_max_idle_ms"]
            for name, said in conf.namesrvs.items()
            if "channel_max_idle_ms" in said.settings
        },
        namesrv=tuple(conf.namesrvs) or None,
        carry={row["namesrv_id"]: row["state"] for row in open_streams},
    )
    source_rows = []
    for source in fresh:
        frames_before, packets_before = result.frames + transcript.counts.frames, transcript.counts.packets
        last_ns = None
        if source.kind == "event_log":
            error = _read_log(source, staging, result)
        else:
            error, last_ns = _read_capture(source, transcript, staging)
        if error:
            result.errors.append(error)
            log.error("source=%s error=%s", source.path.name, error)
        counts = transcript.counts
        frames, packets = result.frames + counts.frames - frames_before, counts.packets - packets_before
        source_rows.append(_source_row(source, frames, packets, last_ns, error))
        result.sources.append(source.path.name)
    for row in transcript.finish():
        staging.add(row.table, row.values, is_frame=row.table in _FRAME_TABLES)
    counts = transcript.counts
    result.frames += counts.frames
    result.packets += counts.packets
    result.quarantined += counts.quarantined_frames
    result.ignored.update(counts.ignored)
    result.read_rows += counts.events.total() + counts.observations
    states = {
        namesrv_id: (state, transcript.last_time_ns().get(namesrv_id))
        for namesrv_id, state in transcript.carry().items()
    }
    return source_rows, states


def _read_capture(source: Source, transcript: Transcript, staging: Staging) -> tuple[str | None, int | None]:
    """Read one capture; return why reading stopped early, if it did, and the time of the last packet."""
    last_ns = None
    try:
        for segment in read_capture(source.path):
            last_ns = segment.time_ns
            for row in transcript.feed(segment, source.path.name):
                staging.add(row.table, row.values, is_frame=row.table in _FRAME_TABLES)
    except CaptureError as error:
        return str(error), last_ns
    return None, last_ns


def _read_log(source: Source, staging: Staging, result: Ingested) -> str | None:
    try:
        for row in read_event_log(source.path):
            # A line of any kind is a frame; a topic table is a part of its registration's line.
            is_frame = row.table != "topic_configs"
            staging.add(row.table, row.values, is_frame=is_frame)
            result.frames += is_frame
            if row.table == "quarantine":
                result.quarantined += 1
            else:
                result.read_rows += is_frame
    except (CaptureError, OSError, EOFError) as error:
        return str(error)
    return None


def _source_row(source: Source, frames: int, packets: int, last_ns: int | None, error: str | None) -> dict[str, object]:
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


def _write_reading_state(
    spark: SparkSession,
    warehouse: str,
    source_rows: list[dict[str, object]],
    carry: Mapping[str, tuple[str, int | None]],
    run_id: str,
) -> None:
    """Note which files were read, and where reading stopped in each name server's connections."""
    stamp = {"ingest_run": run_id}
    sources = spark.createDataFrame([{**row, **stamp} for row in source_rows], bronze.SOURCES.schema)
    tables.append(sources, warehouse, bronze.SOURCES)
    states = [
        {
            "namesrv_id": name,
            "state": state,
            "sha256": hashlib.sha256(state.encode()).hexdigest(),
            "last_time": _instant(last_ns),
            **stamp,
        }
        for name, (state, last_ns) in sorted(carry.items())
        if last_ns is not None
    ]
    if states:
        tables.upsert(spark, spark.createDataFrame(states, bronze.OPEN_STREAMS.schema), warehouse, bronze.OPEN_STREAMS)
