"""What ingest does with lines that can be decoded and then say what cannot be: into quarantine with them, on with the rest."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs import commands
from jobs.__main__ import parser
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.warehouse import Warehouse
from schemas.rules import BROKEN_RULE

Line = dict[str, Any]
START_MS = 1_767_323_045_000
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


def write_log(path: Path, lines: list[Line]) -> None:
    """Write an event log with one line a second."""
    head = {"schema": "namesrv-event/1", "namesrv_id": "10.0.0.1:9876"}
    stamped = [{**head, "time": START_MS + 1_000 * number, **line} for number, line in enumerate(lines, start=1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in stamped), encoding="utf-8")


def run(spark: SparkSession, tmp_path: Path, job: str, log: Path) -> tuple[int, str, Warehouse]:
    """Run a command on `log` in the warehouse of `tmp_path`; return its exit code, what it printed, and the warehouse."""
    house = Warehouse(spark, str(tmp_path / "w"), PipelineConf(), log.stem, dt.datetime.now(dt.timezone.utc))
    out = io.StringIO()
    arguments = parser().parse_args([job, "--input", str(log), "--warehouse", house.path])
    code = commands._COMMANDS[job](house, arguments, Console(out, io.StringIO()))
    return code, out.getvalue(), house


def test_lines_that_break_a_rule_are_quarantined_and_the_rest_is_published(spark: SparkSession, tmp_path: Path) -> None:
    """Each refused line is a row that names its rules and its line; the night is published and every line accounted for."""
    log = tmp_path / "mixed.jsonl"
    repeated = {**GOOD[3], "time": START_MS + 60_000}  # the same line again is a duplicate
    write_log(log, [*GOOD, *BAD.values(), repeated, repeated, {"kind": "nonsense"}])

    code, printed, house = run(spark, tmp_path, "nightly", log)

    assert code == 0
    events, answers, duplicates, quarantined = len(GOOD), 1, 1, len(BAD) + 1
    frames = events + answers + duplicates + quarantined
    assert (
        f"Frames       {frames} = {events} events + {answers} answers + {duplicates} duplicates + "
        f"{quarantined} quarantined + 0 ignored by rule" in printed
    )
    rows = {row["detail"]: row for row in house.bronze()["quarantine"].where(f"reason = '{BROKEN_RULE}'").collect()}
    assert {detail: row["source_offset"] for detail, row in rows.items()} == {
        detail: number for number, detail in enumerate(BAD, start=len(GOOD) + 1)
    }
    assert {(row["namesrv_id"], row["source_file"]) for row in rows.values()} == {("10.0.0.1:9876", "mixed.jsonl")}
    assert house.bronze()["registrations"].count() == 1
    assert [row["status"] for row in house.spark.read.format("delta").load(f"{house.path}/gold/runs").collect()] == [
        "published"
    ]


def test_a_refused_line_that_comes_again_is_one_row(spark: SparkSession, tmp_path: Path) -> None:
    """Read again in another file, a refused line is counted as quarantined again, and stored once."""
    for name in ("first.jsonl", "second.jsonl"):
        log = tmp_path / name
        write_log(log, [BAD["route_observations: code_belongs_here"], {**GOOD[3], "time": START_MS + len(name)}])
        code, printed, house = run(spark, tmp_path, "ingest", log)
        assert (code, printed) == (
            0,
            "Frames 2 = 1 events + 0 answers + 0 duplicates + 1 quarantined + 0 ignored by rule\n",
        )
    assert house.bronze()["quarantine"].count() == 1
