"""The bundled capture of a real 4.9.7 cluster: known figures, conservation, and cuts anywhere."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from namesrv_wire.packets.segments import CaptureStats, Segment
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from tests.examples import more
from tests.places import CAPTURE
from tests.wire.counted import accounted, read_capture
from tests.wire.forge import final, of_table

NAMESRV = "127.0.0.1:9876"


@pytest.fixture(scope="module")
def segments() -> list[Segment]:
    stats = CaptureStats()
    found = list(read_capture(CAPTURE, stats))
    assert (stats.packets, stats.segments) == (30_470, 30_470)
    return found


@pytest.fixture(scope="module")
def whole(segments: list[Segment]) -> tuple[Transcript, list[AnyRow]]:
    transcript = Transcript()
    rows = transcript.feed(segments, "capture.pcap.gz")
    return transcript, rows + transcript.finish()


def test_every_frame_is_accounted_for(whole: tuple[Transcript, list[AnyRow]]) -> None:
    """Frames are events, observations, refused or ignored by rule. The figures are those of the capture's table."""
    transcript, rows = whole
    counts = transcript.counts
    assert (counts.frames, accounted(counts), counts.observations) == (28_021, 28_021 + counts.pieces, 13_877)
    assert counts.events == {"registrations": 128, "unregistrations": 4, "admin_events": 10}
    assert counts.quarantined == {"silent_connection": 1}  # somebody looked whether the port was open
    tables = Counter(row.table for row in rows)
    assert {table: tables[table] for table in counts.events} == counts.events
    assert tables["route_observations"] == counts.observations


def test_the_life_of_the_name_server(whole: tuple[Transcript, list[AnyRow]]) -> None:
    """It was started after 17 refused connections and is 4.9.7."""
    facts = of_table(whole[1], "namesrv_events")
    assert [(row["kind"], row["version"]) for row in facts] == [("started", None), ("identified", 407)]
    assert facts[0]["evidence"] == "first accepted connection after 17 refused"


def test_idle_closes_and_the_unanswered_registration(whole: tuple[Transcript, list[AnyRow]]) -> None:
    """Two silent connections are closed by the idle limit. The cut-off registration counts just before its close."""
    closes = of_table(whole[1], "channel_events")
    idle = [row["silent_ms"] for row in closes if row["kind"] == "idle"]
    assert len(idle) == 2
    assert all(120_000 <= int(str(ms)) < 120_100 for ms in idle)
    (lost,) = [
        row for row in of_table(whole[1], "registrations") if row["response_code"] is None and not row["one_way"]
    ]
    (close,) = [row for row in closes if row["channel_id"] == lost["channel_id"]]
    assert (lost["broker_name"], close["pending_requests"]) == ("broker-b", 1)
    assert int(str(lost["seq"])) < int(str(close["seq"]))


def test_positions_are_unique(whole: tuple[Transcript, list[AnyRow]]) -> None:
    """No two rows of a name server share a position."""
    seqs = [row.values["seq"] for row in whole[1] if "seq" in row.values]
    assert len(seqs) == len(set(seqs))
    ids = [row.values["event_id"] for row in whole[1] if "event_id" in row.values]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(more(3)))
def test_cutting_the_capture_anywhere_changes_nothing(
    segments: list[Segment], whole: tuple[Transcript, list[AnyRow]], seed: int
) -> None:
    """Read in parts with the carry between, it gives the same rows: cut at the start, a frozen broker, the end, anywhere."""
    rows: list[AnyRow] = []
    carry: dict[str, str] = {}
    anywhere = random.Random(seed).sample(range(len(segments)), 16)
    for low, high in pairwise(sorted({0, 20, 41, 9_001, 24_000, *anywhere, len(segments) - 1, len(segments)})):
        transcript = Transcript(carry=carry)
        rows += transcript.feed(segments[low:high], f"part {low}")
        rows += transcript.finish()
        carry = transcript.carry()
    assert final(rows) == final(whole[1])
