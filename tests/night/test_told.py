"""What a night tells: answers that do not match, times that cannot be, and whether anything is published."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.errors import EXIT_DISK_FULL, EXIT_MISMATCHED, EXIT_OK
from jobs.ingest.ingest import ingest
from jobs.night.nightly import Summary
from jobs.store import warehouse
from namesrv_core import V4_9_7, Namesrv, NamesrvConfig, Question, Registry, answer
from schemas import bronze, gold
from tests.ingest.given import NAMESRV, Line, at, broker, content, piece, read_in, stored, warehouse_at, write
from tests.night.nights import night, nightly, rows
from tests.night.three_days import DAYS, LOGS, beat, write_log

Answers = Callable[[int], Path]
FOUR_YEARS_S = 4 * 365 * 86_400
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ungated")]


# -- answers that do not match -------------------------------------------------------------------------------------------


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    """Give a log of 200 answers, of which so many are wrong."""

    def log(wrong: int) -> Path:
        started: Line = {"kind": "namesrv", "event": "started"}
        known: Line = {"kind": "namesrv", "event": "identified", "version": 407}
        shared: Line = {"kind": "observation", "code": 105, "standard_json": True, "response_version": 407}
        remark = answer(Registry(V4_9_7), Question(105, "No"), Namesrv(V4_9_7, NamesrvConfig())).remark
        none = {**shared, "subject": "No", "response_code": 17, "remark": remark}
        there = {**shared, "subject": "T", "response_code": 17}
        lines = [at(0, started), at(0.001, known), at(0.01, broker("a", "TU", 1))]
        lines += [at(0.02 + number / 10_000, there if number < wrong else none) for number in range(200)]
        return write(tmp_path / f"{wrong}.jsonl", lines)

    return log


@pytest.mark.parametrize(("wrong", "code"), [(10, EXIT_OK), (11, EXIT_MISMATCHED)])
def test_answers_that_do_not_match_are_a_code_of_their_own(
    tmp_path: Path, answers: Answers, wrong: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beyond the threshold, ten by default; the night is published, and the first few are named."""
    summary = tmp_path / "s.json"
    assert nightly(tmp_path / "w", "--input", answers(wrong), "--summary", summary) == code
    said = json.loads(summary.read_text(encoding="utf-8"))
    assert (said["status"], said["verify"]["mismatched"]) == ("published", wrong)
    named = said["verify"]["first_mismatched"]
    assert len(named) == 5
    assert named[0].startswith(f"2026-01-02T00:01:12.000000Z {NAMESRV}: get_routeinfo_by_topic T (answer ")
    assert f"MISMATCHED   {named[0]}" in capsys.readouterr().out


# -- times that cannot be ------------------------------------------------------------------------------------------------


def moved(data: bytes, first: int, last: int, by_s: int = FOUR_YEARS_S) -> bytes:
    """Return a capture of which the packets from number `first` to `last` have times that lie so much later, or earlier."""
    made, offset = bytearray(data), 24
    for number in range(1, last + 1):
        seconds, size = struct.unpack_from("<I4xI", data, offset)
        if number >= first:
            struct.pack_into("<I", made, offset, seconds + by_s)
        offset += 16 + size
    return bytes(made)


def offsets(data: bytes) -> list[int]:
    """Return where the packets of a capture begin, and its end."""
    found = [24]
    while found[-1] < len(data):
        found.append(found[-1] + 16 + struct.unpack_from("<I", data, found[-1] + 8)[0])
    return found


@pytest.mark.parametrize(
    ("where", "by_s", "reason", "said"),
    [
        ("middle", -56 * 365 * 86_400, "too_late", "before 2000"),
        ("last", FOUR_YEARS_S, "ahead_of_clock", "later than this run"),
        ("middle", 7_200, "clock_went_back", "more than a minute from those before"),
        ("middle", -7_200, "clock_went_back", "more than a minute from those before"),
    ],
)
def test_a_packet_at_a_time_that_cannot_be_moves_nothing(
    tmp_path: Path, where: str, by_s: int, reason: str, said: str
) -> None:
    """Years ahead, of a clock that was not set yet, or far from those around it: it is quarantined with its number.

    All else, in the file and in the next one, is as if it had not been captured.
    """
    one, two = (piece(tmp_path / f"{number}.pcap", *ends) for number, ends in enumerate([(0, 900), (900, 1_800)]))
    data = one.read_bytes()
    places = offsets(data)
    count = len(places) - 1
    number = {"middle": count // 2, "last": count}[where]
    one.write_bytes(moved(data, number, number, by_s))
    first = read_in(tmp_path / "w", one)
    assert first.reasons[reason] == 1
    assert [f"1 packet(s) with times {said}" in error for error in first.errors] == [True]
    refused = stored(tmp_path / "w", "quarantine", "reason", "source_offset")
    assert (reason, number) in refused
    second = read_in(tmp_path / "w", two)
    assert (second.refused, second.errors) == ({}, [])
    (tmp_path / "less").mkdir()
    less = tmp_path / "less" / "0.pcap"
    less.write_bytes(data[: places[number - 1]] + data[places[number] :])
    read_in(tmp_path / "without", less)
    read_in(tmp_path / "without", two)
    assert content(tmp_path / "w") == content(tmp_path / "without")
    marks = [stored(tmp_path / name, "watermarks", "namesrv_id", "latest_time") for name in ("w", "without")]
    assert marks[0] == marks[1]


# -- what is published ---------------------------------------------------------------------------------------------------


def test_a_disk_that_is_full_behind_the_ledger_does_not_unpublish_a_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run is in the ledger: readers see it, the message says so, and the next run notes it beside the tables."""
    path, summary = tmp_path / "w", tmp_path / "s.json"
    log = write_log(tmp_path, DAYS[0], LOGS[0])

    def full(place: str, _: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", place)

    with monkeypatch.context() as patched:
        patched.setattr(warehouse, "write_text", full)
        assert nightly(path, "--input", log, "--summary", summary) == EXIT_DISK_FULL
    said = capsys.readouterr().err
    assert "is full. The run is published all the same, and readers see it; the next one" in said
    assert "Nothing was published" not in said
    assert json.loads(summary.read_text(encoding="utf-8"))["status"] == "published"
    assert not (path / "last_run.json").exists()
    assert nightly(path, "--input", log) == EXIT_OK
    run_id = json.loads((path / "last_run.json").read_text(encoding="utf-8"))["run_id"]
    assert [row["run_id"] for row in rows(path, gold.RUNS)] == [run_id]


def test_a_summary_that_cannot_be_written_does_not_unpublish_a_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever fails behind the ledger: the sentence is about what is true."""

    def full(_: Summary, place: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(place))

    monkeypatch.setattr(Summary, "write", full)
    log = write_log(tmp_path, DAYS[0], LOGS[0])
    assert nightly(tmp_path / "w", "--input", log, "--summary", tmp_path / "s.json") == EXIT_DISK_FULL
    assert "The run is published all the same" in capsys.readouterr().err
    assert len(rows(tmp_path / "w", gold.RUNS)) == 1


def test_what_was_read_by_hand_is_told_once_by_the_night_that_publishes_it(tmp_path: Path) -> None:
    """Whoever has read it: the ledger's counts are those of one run, and the same file is no duplicate of itself."""
    log = write_log(tmp_path, DAYS[0], [*LOGS[0], beat("11:00:00"), beat("11:00:00")])
    ingest(warehouse_at(tmp_path / "w", "by-hand"), [str(log)])
    said, alone = night(tmp_path / "w", log), night(tmp_path / "alone", log)
    names = ("frames", "events", "observations", "duplicates", "quarantined", "sources", "known_sources")
    assert [getattr(said, name) for name in names] == [getattr(alone, name) for name in names]
    assert [row["counts"] for row in rows(tmp_path / "w", gold.RUNS)] == [
        row["counts"] for row in rows(tmp_path / "alone", gold.RUNS)
    ]
    assert [dict(row["counts"])["events"] for row in rows(tmp_path / "w", bronze.SOURCES)] == [4]
    again = night(tmp_path / "w", log)
    assert (again.events, again.duplicates) == (0, 5)
