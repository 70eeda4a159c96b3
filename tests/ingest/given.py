"""Event logs and pieces of the bundled capture as they come in, and what the bronze tables then hold."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.conf import PipelineConf
from jobs.ingest.ingest import ingest
from jobs.ingest.sources import Ingested
from jobs.store.warehouse import Warehouse
from schemas import bronze
from tests.pcap import capture, records
from tests.places import CAPTURE

Line = dict[str, Any]
Content = dict[str, list[tuple[Any, ...]]]
NAMESRV = "10.0.0.1:9876"
FIRST = dt.date(2026, 1, 2)
START_MS = 1_767_312_000_000  # its midnight
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
DAY = dt.timedelta(days=1)
BEAT: Line = {"kind": "heartbeat", "code": 904, "cluster_name": "C", "broker_addr": "10.0.0.97:10911"}
SETTINGS: dict[str, Line] = {
    "refused": {"kind": "observation", "code": 206, "response_code": 1, "remark": "disable"},
    "listed": {"kind": "observation", "code": 206, "body": '{"topicList":["T","U"]}'},
    "on": {"kind": "namesrv", "event": "configured", "properties": "enableAllTopicList=true"},
    "off": {"kind": "namesrv", "event": "configured", "properties": "enableAllTopicList=false"},
}
"""What shows or states whether all topics may be listed."""
TABLES = {table.name: table for table in bronze.TABLES}
EVENTS_AND_ANSWERS = (
    *("heartbeats", "registrations", "unregistrations"),
    *("channel_events", "admin_events", "route_observations"),
)


def registration(name: str | None, addr: str | None, topics: Iterable[str], counter: int = 1, **more: object) -> Line:
    """Return a registration of a master. `more`: further fields of the line."""
    configs = [{"topic": topic, "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6} for topic in topics]
    broker = {"cluster_name": "C", "broker_name": name, "broker_addr": addr, "broker_id": 0}
    version = {"data_version": {"timestamp": START_MS, "counter": counter}}
    return {"kind": "registration", **broker, **version, "topics": configs, **more}


def broker(name: str, topics: str, counter: int) -> Line:
    """Return the same of a broker that a letter names, with topics named by letters."""
    return registration(f"broker-{name}", f"10.0.0.{ord(name)}:10911", topics, counter)


def at(hours: float, said: Line) -> Line:
    """Return a line, so many hours after the first midnight."""
    return {"schema": "namesrv-event/1", "namesrv_id": NAMESRV, "time": START_MS + round(hours * HOUR_MS), **said}


def write(path: Path, lines: list[Line]) -> Path:
    """Write an event log."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def packets(first: int, last: int) -> bytes:
    """Return a capture of the bundled one's packets from `first` up to `last`, from 0."""
    data = gzip.decompress(CAPTURE.read_bytes())
    return capture(data, list(records(data))[first:last])


def piece(path: Path, first: int, last: int) -> Path:
    """Write such a capture."""
    path.write_bytes(packets(first, last))
    return path


def warehouse_at(path: Path, run_id: str = "look", conf: PipelineConf | None = None) -> Warehouse:
    """Return a warehouse for one run, or to look at."""
    return Warehouse(str(path), conf or PipelineConf(), run_id, dt.datetime.now(dt.timezone.utc))


def read_in(warehouse: Path, *paths: Path, conf: PipelineConf | None = None) -> Ingested:
    """Ingest files in a run that is called as the first; every frame is accounted for."""
    read = ingest(warehouse_at(warehouse, paths[0].stem, conf), [str(path) for path in paths])
    assert read.unaccounted == 0
    return read


def stored(warehouse: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a bronze table, as the next run sees them, in order."""
    rows = warehouse_at(warehouse).rows(TABLES[table], columns=columns)
    return sorted(zip(*rows.to_pydict().values(), strict=True))


def content(warehouse: Path) -> Content:
    """Return the events and answers of a warehouse, by id."""
    return {name: stored(warehouse, name, "event_id", "seq", "effect_time") for name in EVENTS_AND_ANSWERS}
