"""The bundled capture end to end: real traffic in, published tables out, and the same tables however the work is cut."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from jobs.cli import commands
from jobs.night import night as nights
from schemas import gold
from tests.ingest.given import warehouse_at
from tests.night.nights import ANSWERS, FRAMES, Capture, Counting, night, rows
from tests.pcap import Record, capture, records
from tests.places import CAPTURE

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(read_in: Path, tmp_path: Path) -> Path:
    shutil.copytree(read_in, tmp_path / "w")
    return tmp_path / "w"


# -- what it says ------------------------------------------------------------------------------------------------------


def test_every_answer_of_a_real_name_server_is_reproduced(whole: Capture) -> None:
    """All recorded answers equal the replayed tables in value, list order and bytes; no frame is lost on the way."""
    said = whole.summary
    assert said.frames == FRAMES
    classes = said.events + said.observations + said.duplicates + said.quarantined
    assert classes + sum(said.ignored.values()) == FRAMES + said.pieces
    assert (said.reasons, said.errors, said.warnings) == ({"silent_connection": 1}, [], [])
    assert said.quarantined == said.tables["quarantine"] == 1
    expected = {"answers": ANSWERS, "matched": ANSWERS, "same_order": ANSWERS, "same_bytes": ANSWERS, "mismatched": 0}
    assert {key: said.verify[key] for key in expected} == expected
    assert said.verify["explained"] == {}
    assert said.namesrvs == {"127.0.0.1:9876": "4.9.7"}


def test_a_race_on_the_wire_is_a_decision_with_its_evidence(whole: Capture) -> None:
    """The registration that arrives with its connection's end is a row that names the answers depending on it."""
    assert whole.summary.verify["order_decisions"] == 1
    found = rows(whole.path, gold.ORDER_DECISIONS)
    assert [(row["chosen"], row["answers_for"], row["answers_against"]) for row in found] == [(0, 12, 0)]


def test_the_cause_of_a_silent_brokers_removal_is_the_real_one(whole: Capture) -> None:
    """The frozen broker was removed when the server closed its idle connection, not by the scan that came later."""
    (row,) = rows(whole.path, gold.EXPIRED_BROKERS)
    assert (row["broker_name"], row["cause"]) == ("broker-c", "idle_channel")
    assert 120_000 <= row["detection_lag_ms"] <= 120_100


# -- the same tables however the work is cut -------------------------------------------------------------------------------


def test_the_number_of_tasks_does_not_matter(whole: Capture, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gold table has the digest that it has of one task at a time."""
    monkeypatch.setattr(nights, "_ROWS_PER_TASK", 200)
    passes = Counting(7)
    assert night(copied, passes=passes).digests == whole.summary.digests
    assert passes.days == 1


def test_files_of_different_connections_are_one_recording(whole: Capture, tmp_path: Path) -> None:
    """As a recorder for each interface writes them, rotated, one of them read a night before: the server's life is one.

    One shows the start later, when its first connection is accepted: that is no second one.
    """
    data = gzip.decompress(CAPTURE.read_bytes())
    packets = list(records(data))
    middle_us = (packets[0].time_us + packets[-1].time_us) // 2
    parts = defaultdict[str, list[Record]](list)
    for packet in packets:
        ports = packet.frame[34:38]
        parts[f"{packet.time_us > middle_us}-{sum(ports) % 2}"].append(packet)
    files = [tmp_path / f"{name}.pcap" for name in sorted(parts)]
    for file in files:
        file.write_bytes(capture(data, parts[file.stem]))
    assert len(files) == 4
    night(tmp_path / "w", files[0])
    said = night(tmp_path / "w", *files[1:])
    assert (said.verify["answers"], said.verify["mismatched"]) == (ANSWERS, 0)
    same = ("expired_brokers", "findings", "orphaned_topics", "namesrv_settings", "kv_config_history")
    assert [said.digests[name] for name in same] == [whole.summary.digests[name] for name in same]
    # Only within a microsecond are events in another order.
    sql = "SELECT topic, broker_name, perm, valid_from, valid_to FROM topic_queue_history ORDER BY ALL"
    split, one = (Answers(str(path)).ask(sql).dicts() for path in (tmp_path / "w", whole.path))
    assert split == one


def test_an_exported_event_log_gives_the_tables_of_its_capture(
    whole: Capture, log_of_the_capture: Path, tmp_path: Path
) -> None:
    """Exporting to the event log and reading it back loses nothing that any gold table shows."""
    from_log = night(tmp_path / "w", log_of_the_capture)
    assert from_log.frames == from_log.events + from_log.observations + from_log.duplicates + from_log.quarantined
    assert from_log.digests == whole.summary.digests


def test_a_day_is_exported_in_parts(
    read_in: Path, log_of_the_capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many events are in memory at one time, the log has the same bytes."""
    monkeypatch.setattr(commands, "_ROWS_AT_A_TIME", 3_000)
    assert commands.export(warehouse_at(read_in), tmp_path / "parts.jsonl") > ANSWERS
    assert (tmp_path / "parts.jsonl").read_bytes() == log_of_the_capture.read_bytes()


def test_midnight_in_between_changes_no_answer(log_of_the_capture: Path, tmp_path: Path) -> None:
    """With midnight in mid-recording the second day starts from the first day's open rows, and all answers match."""
    midnight = dt.datetime(2026, 11, 22, tzinfo=dt.timezone.utc)
    middle = dt.datetime(2026, 11, 21, 9, 3, 10, tzinfo=dt.timezone.utc)
    log = tmp_path / "shifted.jsonl"
    with log_of_the_capture.open(encoding="utf-8") as lines, log.open("w", encoding="utf-8") as out:
        out.writelines(shifted(line, midnight - middle) for line in lines)
    said = night(tmp_path / "w", log)
    assert said.days == ["2026-11-21", "2026-11-22"]
    assert (said.verify["answers"], said.verify["mismatched"]) == (ANSWERS, 0)
    assert said.verify["same_bytes"] == ANSWERS


def shifted(line: str, by: dt.timedelta) -> str:
    event = json.loads(line)
    for key in ("time", "effect_time"):
        moved = dt.datetime.fromisoformat(event[key].replace("Z", "+00:00")) + by
        event[key] = moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    nanoseconds = by // dt.timedelta(microseconds=1) * 1_000
    for key in ("seq", "request_seq"):
        if key in event:
            event[key] += nanoseconds
    return json.dumps(event) + "\n"
