"""A clock that goes back while a name server is recorded: what is told is right, or said not to be known."""

from __future__ import annotations

import gzip
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.night.nightly import Summary
from schemas import gold
from tests import pcap
from tests.night.nights import ANSWERS, night, rows
from tests.night.three_days import DAYS, LOGS, MONTH_MS, beat, registration, write_log
from tests.pcap import Record, records
from tests.places import CAPTURE, recorded

pytestmark = pytest.mark.slow


def stepped(
    folder: Path, cuts: Sequence[int], backs_s: Sequence[int], *, is_one_file: bool = False, capture: Path = CAPTURE
) -> list[Path]:
    """Write a capture as files (or one) that begin at these packets, each behind the first with its clock set back.

    What was recorded first has the last name.
    """
    data = gzip.decompress(capture.read_bytes())
    parts: list[list[Record]] = [[] for _ in (0, *cuts)]
    for number, packet in enumerate(records(data)):
        part = bisect(cuts, number)
        parts[part].append(packet._replace(time_us=packet.time_us - (0, *backs_s)[part] * 1_000_000))
    if is_one_file:
        parts = [parts[0] + parts[1]]
    paths = [folder / f"{name}.pcap" for name in "cba"[-len(parts) :]]
    for path, packets in zip(paths, parts, strict=True):
        path.write_bytes(pcap.capture(data, packets))
    return paths


def is_told(said: Summary) -> bool:
    """Return whether no answer is wrong, and the step is told."""
    return said.verify["mismatched"] == 0 and said.findings.get("CLOCK_JUMP", 0) > 0


def test_three_files_with_steps_between_are_right_or_gaps(tmp_path: Path) -> None:
    """A clock that went back twice, and times that meet: where nothing has a place, which is named, no event fills the gap."""
    said = night(tmp_path / "w", *stepped(tmp_path, [5_000, 25_000], [40, 80]))
    assert is_told(said)
    assert said.verify["answers"] >= ANSWERS - 1_600
    assert said.errors


def test_a_step_back_within_a_file_is_a_gap(tmp_path: Path) -> None:
    """Until its clock is where it was, what it recorded has no place; behind that it is read on."""
    said = night(tmp_path / "w", *stepped(tmp_path, [21_000], [60], is_one_file=True))
    assert is_told(said)
    assert said.findings["LOG_GAP"] == 1
    assert ANSWERS - 2_400 < said.verify["answers"] < ANSWERS
    assert ["have no place" in error for error in said.errors] == [True]


def test_a_fast_clock_that_is_set_back_each_minute_costs_nothing(tmp_path: Path) -> None:
    """By three seconds, as a timer sets it: what comes until it is where it was keeps its order, and no answer is wrong."""
    data = gzip.decompress(CAPTURE.read_bytes())
    packets = list(records(data))
    started, minute = packets[0].time_us, 60_000_000

    def shown(time_us: int) -> int:
        minutes, us = divmod(time_us - started, minute)
        return started + minutes * minute + us * 21 // 20

    fast = (packet._replace(time_us=shown(packet.time_us)) for packet in packets)
    (tmp_path / "fast.pcap").write_bytes(pcap.capture(data, fast))
    said = night(tmp_path / "w", tmp_path / "fast.pcap")
    assert (said.verify["matched"], said.verify["mismatched"]) == (ANSWERS, 0)


def test_a_log_in_the_order_of_its_positions_may_have_times_that_run_back(tmp_path: Path) -> None:
    """Positions say what came first: a broker that leaves by a clock set back by minutes leaves after its last heartbeat."""
    leaves = {**beat("10:01:30"), "kind": "unregistration", "response_code": 0}
    del leaves["code"], leaves["one_way"]
    lines = [*LOGS[0], beat("10:03:00"), leaves, registration("broker-b", "10:01:40", "U", MONTH_MS)]
    log = write_log(tmp_path, DAYS[0], [{**line, "seq": number} for number, line in enumerate(lines, 1)])
    night(tmp_path / "w", log)
    left, _ = sorted(rows(tmp_path / "w", gold.BROKER_LIVE_HISTORY), key=lambda row: row["valid_from"])
    assert left["last_update_time"] == left["valid_to"] > left["valid_from"]


def test_a_step_back_where_a_server_starts_and_all_connections_end_later_is_told(tmp_path: Path) -> None:
    """The file recorded first is read last: its connections are those with which the other one began, long forgotten."""
    capture = recorded("v5-two-namesrv/capture.pcap.gz")
    assert is_told(night(tmp_path / "w", *stepped(tmp_path, [11_600], [3_600], capture=capture)))
