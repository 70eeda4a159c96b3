"""What a day hands on beside its rows: whether scans go on at all, and when they tick."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import gate, nightly
from jobs.console import Console
from tests.jobs.test_late import DAY_MS, FIRST, START_MS, Line, house_at, write

HOUR_MS = 3_600_000


def at(day: int, hours: float, namesrv: str, said: Line) -> Line:
    """Return a line of a name server, so many hours after the midnight that begins the day (from 0)."""
    time_ms = START_MS + day * DAY_MS + round(hours * HOUR_MS)
    return {"schema": "namesrv-event/1", "namesrv_id": namesrv, "time": time_ms, **said}


def registration(name: str, addr: str, channel_id: str | None) -> Line:
    """Return a registration; in 4.x its lease is two minutes."""
    queues = [{"topic": topic, "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6} for topic in "TU"]
    said = {"cluster_name": "C", "broker_name": name, "broker_addr": addr, "broker_id": 0, "topics": queues}
    version = {"data_version": {"timestamp": START_MS, "counter": 1}}
    return {"kind": "registration", "channel_id": channel_id} | version | said


def halting(namesrv: str, day: int) -> list[Line]:
    """Return the life of a 4.x name server whose scan dies on `day`, at a broker without a connection, and what lives on."""
    started = {"kind": "namesrv", "event": "started"}
    return [
        at(0, 9, namesrv, started),
        at(0, 9, namesrv, {"kind": "namesrv", "event": "identified", "version": 407}),
        at(day, 10, namesrv, registration("a", "1:1", None)),
        at(day, 10.01, namesrv, registration("b", "2:2", "2:2#1")),
        *(at(later, 12, namesrv, registration("b", "2:2", "2:2#1")) for later in range(day + 1, 3)),
    ]


TICKS = "10.0.0.4:9876"
TICKING = [
    at(0, 8, TICKS, {"kind": "namesrv", "event": "observed_from"}),
    at(0, 8, TICKS, {"kind": "namesrv", "event": "identified", "version": 407}),
    *(at(day, 12, TICKS, registration("b", "2:2", "2:2#1")) for day in range(3)),
    *(at(day, 12.2, TICKS, {"kind": "admin", "code": 205, "broker_name": "none"}) for day in range(3)),
]
CLOSED = [at(0, 15.0001, TICKS, {"kind": "channel", "event": "close", "closed_by": "namesrv", "channel_id": "9:9#1"})]
"""Only a scan explains it, and so it tells when all others tick."""
HALTS = "10.0.0.3:9876"
HALTED_LATE = [line for line in halting(HALTS, 0) if line.get("channel_id", "") is None]


def test_nights_know_what_became_of_scans_on_any_day_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scans that died days ago, one after the other, and late events that end a scan or tell its ticks: as if read at once."""
    monkeypatch.setattr(gate, "_judged", lambda *_: [])  # rules are not what this is about, and take most of the time
    late = [*HALTED_LATE, *CLOSED]
    on_time = [*halting("10.0.0.1:9876", 0), *halting("10.0.0.2:9876", 1), *halting(HALTS, 0), *TICKING]
    on_time = sorted((line for line in on_time if line not in late), key=lambda line: line["time"])

    def run(warehouse: str, name: str, lines: list[Line]) -> nightly.Summary:
        log = write(tmp_path / f"{name}.jsonl", lines)
        house = house_at(spark, tmp_path / warehouse, name)
        return nightly.run(house, [str(log)], Console(io.StringIO(), io.StringIO()))

    ends = [START_MS + day * DAY_MS for day in (1, 2, 3)]
    begins = [0, *ends[:-1]]
    before = [
        run("nights", f"night-{number}", [line for line in on_time if begin <= line["time"] < end])
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
    ]
    after = run("nights", "late", late)
    assert after.days == [(FIRST + dt.timedelta(days=day)).isoformat() for day in range(3)]
    everything = sorted([*on_time, *late], key=lambda line: line["time"])
    assert after.digests == run("everything", "everything", everything).digests
    assert after.digests != before[-1].digests
