"""A recording with a hole that a later file fills, all of it or a part."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from namesrv_wire.rows import UNTIL_MS
from schemas import bronze, gold
from tests.night.nights import CAPTURE, audited, night, rows

FROM_S, UNTIL_S = 230, 520
"""The hole in the bundled capture, in seconds from its beginning."""


def part(out: Path, span: tuple[float, float]) -> Path:
    """Write the packets of the bundled capture that came in a stretch."""
    data = gzip.decompress(CAPTURE.read_bytes())
    parts, offset, begin = [data[:24]], 24, None
    while offset < len(data):
        seconds, us, kept, _ = struct.unpack_from("<IIII", data, offset)
        begin = begin or seconds + us / 1e6
        if span[0] <= seconds + us / 1e6 - begin < span[1]:
            parts.append(data[offset : offset + 16 + kept])
        offset += 16 + kept
    out.write_bytes(b"".join(parts))
    return out


def gaps(warehouse: Path) -> list[tuple[int, int]]:
    """Return the gaps that `coverage` shows, in whole seconds, and where they begin, from the first packet on."""
    _, found = Answers(str(warehouse)).ask(
        "SELECT epoch(from_time), epoch(to_time), recorded FROM coverage ORDER BY from_time"
    )
    spans = list(found)
    first = spans[0][0]
    return [(round(since - first), round(until - first)) for since, until, recorded in spans if not recorded]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "left"),
    [
        ((FROM_S, UNTIL_S), []),
        ((FROM_S + 5, FROM_S + 60), [(FROM_S + 60, UNTIL_S)]),
        ((FROM_S + 100, FROM_S + 200), [(FROM_S, FROM_S + 100), (FROM_S + 200, UNTIL_S)]),
    ],
    ids=["all", "the first minute", "the middle"],
)
def test_what_is_read_late_is_no_gap_any_more(
    late: tuple[float, float], left: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Of the gap remains what is longer than a minute; findings, coverage and outcomes say so, and it is restated."""
    night(tmp_path / "w", part(tmp_path / "a.pcap", (0, FROM_S)), part(tmp_path / "c.pcap", (UNTIL_S, 900)))
    assert [(abs(a - FROM_S) <= 2, abs(b - UNTIL_S) <= 2) for a, b in gaps(tmp_path / "w")] == [(True, True)]
    night(tmp_path / "w", part(tmp_path / "b.pcap", late))
    found = gaps(tmp_path / "w")
    assert len(found) == len(left)
    assert all(abs(one[n] - other[n]) <= 2 for one, other in zip(found, left, strict=True) for n in range(2))
    facts = [row for row in rows(tmp_path / "w", bronze.NAMESRV_EVENTS) if row["kind"] == "recording_gap"]
    outcomes = [row for row in rows(tmp_path / "w", gold.EVENT_OUTCOMES) if row["operation"] == "recording_gap"]
    assert [fact["event_id"] for fact in facts] == [row["event_id"] for row in outcomes]
    assert all(int(fact["properties"].removeprefix(UNTIL_MS)) * 1_000 > fact["effect_time"] for fact in facts)
    told = [row for row in rows(tmp_path / "w", gold.FINDINGS) if row["code"] == "LOG_GAP"]
    assert len(told) == len(left)
    assert {row["table_name"] for row in rows(tmp_path / "w", gold.RESTATEMENTS)} >= {"event_outcomes"}


def torn(folder: Path, span: tuple[float, float]) -> tuple[Path, Path]:
    """Write the bundled capture as two gzip files, of which the first is torn: a stretch of it is lost."""
    before, behind = folder / "a.pcap.gz", folder / "b.pcap.gz"
    kept = len(gzip.compress(part(before, (0, span[0])).read_bytes()))
    before.write_bytes(gzip.compress(part(before, (0, span[1])).read_bytes())[:kept])
    behind.write_bytes(gzip.compress(part(behind, (span[1], 900)).read_bytes()))
    return before, behind


@pytest.mark.slow
def test_what_cannot_be_read_is_a_gap_behind_which_knowledge_begins_anew(tmp_path: Path) -> None:
    """A minute at the end of a torn file: the next one goes on, coverage and a finding say so, no answer is wrong for it."""
    said = night(tmp_path / "w", *torn(tmp_path, (FROM_S, FROM_S + 60)))
    assert ["the compressed data is damaged or ends early" in error for error in said.errors] == [True]
    assert [(abs(a - FROM_S) <= 3, abs(b - FROM_S - 60) <= 2) for a, b in gaps(tmp_path / "w")] == [(True, True)]
    assert (said.verify["mismatched"], said.findings["LOG_GAP"]) == (0, 1)
    assert said.verify["answers"] > 12_000
    assert 0 < said.verify["explained"]["unknown_past"] < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("since_s", "until_s"), [(FROM_S, UNTIL_S), (290, 362)], ids=["long", "shorter than the idle limit"]
)
def test_a_recording_with_a_part_missing_has_no_wrong_answer_and_can_be_audited(
    since_s: float, until_s: float, tmp_path: Path
) -> None:
    """What cannot be known behind the gap is of a past that is not known; from the events alone the tables are the same."""
    first, last = part(tmp_path / "a.pcap", (0, since_s)), part(tmp_path / "c.pcap", (until_s, 900))
    said = night(tmp_path / "w", first, last)
    assert (said.verify["mismatched"], said.findings["LOG_GAP"]) == (0, 1)
    assert said.verify["answers"] > 8_000
    assert said.verify["explained"].keys() <= {"unknown_past"}
    assert audited(tmp_path / "w")["wrong"] == []
