"""A recording with a hole that a later file fills, all of it or a part."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from namesrv_wire.rows import UNTIL_MS
from schemas import bronze, gold
from tests.ingest.given import HOUR_MS, START_MS, write
from tests.night.nights import ANSWERS, Capture, audited, night, rows
from tests.pcap import capture, records, stretch
from tests.places import CAPTURE

pytestmark = pytest.mark.slow

FROM_S, UNTIL_S, END_S = 230, 520, 660
"""The hole in the bundled capture, in seconds from its beginning, and until where it is read."""


def part(out: Path, span: tuple[float, float]) -> Path:
    """Write the packets of the bundled capture that came in a stretch."""
    out.write_bytes(stretch(gzip.decompress(CAPTURE.read_bytes()), *span))
    return out


def gaps(warehouse: Path) -> list[tuple[int, int]]:
    """Return the gaps that `coverage` shows, in whole seconds, and where they begin, from the first packet on."""
    _, found = Answers(str(warehouse)).ask(
        "SELECT epoch(from_time), epoch(to_time), recorded FROM coverage ORDER BY from_time"
    )
    spans = list(found)
    first = spans[0][0]
    return [(round(since - first), round(until - first)) for since, until, recorded in spans if not recorded]


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    folder = tmp_path_factory.mktemp("holed")
    files = part(folder / "a.pcap", (0, FROM_S)), part(folder / "c.pcap", (UNTIL_S, END_S))
    return Capture(folder / "w", night(folder / "w", *files))


def test_what_is_read_late_is_no_gap_any_more(holed: Capture, tmp_path: Path) -> None:
    """What is longer than a minute remains, and a moment where what was read apart adjoins; findings, coverage, outcomes say so."""
    shutil.copytree(holed.path, tmp_path / "w")
    assert [(abs(a - FROM_S) <= 2, abs(b - UNTIL_S) <= 2) for a, b in gaps(tmp_path / "w")] == [(True, True)]
    late = [(FROM_S + 70, FROM_S + 150), (FROM_S + 220, UNTIL_S - 30)]
    night(tmp_path / "w", *(part(tmp_path / f"b-{number}.pcap", span) for number, span in enumerate(late)))
    found = gaps(tmp_path / "w")
    moments = [(at_s, at_s) for at_s in (FROM_S + 70, UNTIL_S - 30)]
    left = [(FROM_S, FROM_S + 70), moments[0], (FROM_S + 150, FROM_S + 220), moments[1]]
    assert len(found) == len(left)
    assert all(abs(one[n] - other[n]) <= 2 for one, other in zip(found, left, strict=True) for n in range(2))
    facts = [row for row in rows(tmp_path / "w", bronze.NAMESRV_EVENTS) if row["kind"] == "recording_gap"]
    outcomes = [row for row in rows(tmp_path / "w", gold.EVENT_OUTCOMES) if row["operation"] == "recording_gap"]
    assert {fact["event_id"] for fact in facts} == {row["event_id"] for row in outcomes}
    assert all(int(fact["properties"].removeprefix(UNTIL_MS)) * 1_000 > fact["effect_time"] for fact in facts)
    told = [row for row in rows(tmp_path / "w", gold.FINDINGS) if row["code"] == "LOG_GAP"]
    assert len(told) == 3


def test_a_gap_that_is_filled_in_two_nights_is_that_of_one(tmp_path: Path) -> None:
    """Ninety seconds between two late events are no gap: a live broker may be silent for as long, whichever was read first."""
    gap: dict[str, object] = {
        "kind": "namesrv",
        "event": "recording_gap",
        "properties": f"until_ms={START_MS + HOUR_MS}",
    }
    told: list[dict[str, object]] = [
        {"kind": "namesrv", "event": "started"},
        gap,
        *[{"kind": "namesrv", "event": "identified", "version": 493}] * 2,
    ]
    at_ms = (0, 10_000, 1_800_000, 1_890_000)
    lines = [
        {"schema": "namesrv-event/1", "namesrv_id": "n", "time": START_MS + ms, **line}
        for ms, line in zip(at_ms, told, strict=True)
    ]
    logs = [write(tmp_path / f"{at}.jsonl", some) for at, some in enumerate((lines[:2], lines[2:3], lines[3:], lines))]
    for log in logs[:3]:
        night(tmp_path / "nights", log)
    night(tmp_path / "once", logs[3])
    assert gaps(tmp_path / "nights") == gaps(tmp_path / "once") == [(10, 1_800), (1_890, 3_600)]


def test_files_that_come_in_later_nights_out_of_order_leave_no_wrong_answer(tmp_path: Path) -> None:
    """The last first, then the first, then the middle: what went on from one to another is unknown, and nothing is wrong."""
    spans = [(290, 380), (0, 120), (120, 290)]
    said = [night(tmp_path / "w", part(tmp_path / f"{at}.pcap", span)) for at, span in enumerate(spans)]
    assert [night.verify["mismatched"] for night in said] == [0, 0, 0]
    assert said[-1].verify["answers"] - said[-1].verify["matched"] <= 10
    assert len(gaps(tmp_path / "w")) == 2


def torn(folder: Path, span: tuple[float, float]) -> tuple[Path, Path]:
    """Write the bundled capture as two gzip files, of which the first is torn: a stretch of it is lost."""
    before, behind = folder / "a.pcap.gz", folder / "b.pcap.gz"
    kept = len(gzip.compress(part(before, (0, span[0])).read_bytes()))
    before.write_bytes(gzip.compress(part(before, (0, span[1])).read_bytes())[:kept])
    behind.write_bytes(gzip.compress(part(behind, (span[1], END_S)).read_bytes()))
    return before, behind


def test_what_cannot_be_read_is_a_gap_behind_which_knowledge_begins_anew(tmp_path: Path) -> None:
    """A minute at the end of a torn file: the next one goes on, coverage and a finding say so, no answer is wrong for it."""
    said = night(tmp_path / "w", *torn(tmp_path, (FROM_S, FROM_S + 60)))
    assert ["the compressed data is damaged or ends early" in error for error in said.errors] == [True]
    assert [(abs(a - FROM_S) <= 3, abs(b - FROM_S - 60) <= 2) for a, b in gaps(tmp_path / "w")] == [(True, True)]
    assert (said.verify["mismatched"], said.findings["LOG_GAP"]) == (0, 1)
    assert said.verify["answers"] > 8_000
    assert 0 < said.verify["explained"]["unknown_past"] < 100


def single(chance: random.Random, packets: int) -> set[int]:
    """Return the numbers of one packet in two hundred."""
    return {number for number in range(packets) if chance.random() < 0.005}


def bursts(chance: random.Random, packets: int) -> set[int]:
    """Return the numbers of packets in twelve stretches of twenty, more or less, as a kernel drops them."""
    began = [(chance.randrange(packets), int(chance.expovariate(1 / 20)) + 1) for _ in range(12)]
    return {number for begin, size in began for number in range(begin, begin + size)}


@pytest.mark.parametrize(("lost", "seed"), [(single, 4), (bursts, 1)], ids=["single packets", "bursts"])
def test_packets_that_the_capture_lost_make_no_answer_wrong(
    lost: Callable[[random.Random, int], set[int]], seed: int, tmp_path: Path
) -> None:
    """What they changed shows in what comes after, or is doubted; of all answers nine in ten are still verified.

    Without a care for answers that were lost twelve are wrong in the first, without one for ends of connections 299 in the second.
    """
    data = gzip.decompress(CAPTURE.read_bytes())
    packets = list(records(data))
    gone = lost(random.Random(seed), len(packets))
    (tmp_path / "a.pcap").write_bytes(capture(data, [one for n, one in enumerate(packets) if n not in gone]))
    said = night(tmp_path / "w", tmp_path / "a.pcap")
    assert (said.status, said.verify["mismatched"]) == ("published", 0)
    assert said.verify["matched"] > 0.89 * ANSWERS


def test_a_recording_with_a_part_missing_has_no_wrong_answer_and_can_be_audited(holed: Capture) -> None:
    """What cannot be known behind the gap is of a past that is not known; from the events alone the tables are the same."""
    path, said = holed
    assert (said.verify["mismatched"], said.findings["LOG_GAP"]) == (0, 1)
    assert said.verify["answers"] > 4_000
    assert said.verify["explained"].keys() <= {"unknown_past"}
    assert audited(path)["wrong"] == []
