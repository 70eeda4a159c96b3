"""Holes of a capture: a part that cannot be read becomes a gap of the name servers that it may have told something of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from namesrv_wire.errors import SMALL_HOLE_NS
from namesrv_wire.packets.segments import Segment
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from tests.wire.forge import (
    EPOCH_NS,
    MS_NS,
    NAMESRV,
    REGISTER,
    SECOND_NS,
    Talk,
    facts,
    of_table,
    request,
    response,
    rows_of,
)

OTHER = "10.0.0.9:9876"


def beating(client: str = "10.0.0.2:40000", start_ns: int = EPOCH_NS, server: str = NAMESRV) -> Talk:
    """Return a connection on which a broker registers every ten seconds, for a minute."""
    talk = Talk(client=client, start_ns=start_ns, server=server).open()
    for opaque in range(6):
        talk.ask(request(105, {"topic": "T"}, opaque=20 + opaque)).answer(response(20 + opaque))
        talk.ask(REGISTER).answer(response(3)).wait(10 * SECOND_NS)
    return talk


def read(
    segments: Sequence[Segment], hole: range, transcript: Transcript | None = None
) -> tuple[list[AnyRow], Transcript]:
    """Return the rows of a capture that lacks the segments of `hole`, and what has read it."""
    transcript = transcript or Transcript(namesrv=[NAMESRV])
    rows = rows_of(segments[: hole.start], transcript, finish=False)
    behind = segments[hole.stop :]
    transcript.pass_hole("forged.pcap")
    rows += rows_of(behind, transcript, finish=False)
    return rows, transcript


@pytest.mark.parametrize(("hole_ns", "gaps"), [(SMALL_HOLE_NS, 0), (SMALL_HOLE_NS + 1, 1)])
def test_a_hole_that_holds_no_connection_is_none(hole_ns: int, gaps: int) -> None:
    """So short a one is lost packets: connections show it, and knowledge of the name server stays."""
    segments = beating().segments
    moved = [
        *segments[:5],
        *(s._replace(time_ns=s.time_ns - segments[6].time_ns + segments[4].time_ns + hole_ns) for s in segments[6:]),
    ]
    rows, _ = read([*moved[:5], segments[5], *moved[5:]], range(5, 6))
    assert len(facts(rows, "recording_gap")) == gaps


def test_a_name_server_that_a_file_does_not_show_has_no_gap_of_it() -> None:
    """Another one was recorded elsewhere; it is known from its own file, before and after."""
    transcript = Transcript(namesrv=[NAMESRV, OTHER])
    other = beating("10.0.0.3:40000", EPOCH_NS + MS_NS // 2, OTHER).segments
    rows = rows_of(other[:9], transcript, finish=False)
    more, _ = read(beating().segments, range(10, 14), transcript)
    rows += more + rows_of(other[9:], transcript, finish=False)
    assert [gap["namesrv_id"] for gap in facts(rows, "recording_gap")] == [NAMESRV]


def test_a_hole_at_the_end_of_a_file_ends_with_the_next_one() -> None:
    """Also if that one is read by another run."""
    segments = beating().segments
    rows, transcript = read(segments[:14], range(10, 14))
    assert facts(rows, "recording_gap") == []
    transcript.finish()
    later = Transcript(namesrv=[NAMESRV], carry=transcript.carry())
    (gap,) = facts(rows_of(segments[14:], later, finish=False), "recording_gap")
    assert gap["properties"] == f"until_ms={segments[14].time_ns // MS_NS}"
    assert gap["effect_time"] == segments[9].time_ns // 1_000
    assert of_table(rows_of(segments[14:18], later), "quarantine") == []


def test_in_front_of_a_hole_at_the_start_nothing_is_known() -> None:
    """There the recording begins: no gap, but no refused connection tells of a start either."""
    knocks = [
        segment for at in range(3) for segment in Talk(start_ns=EPOCH_NS - (9 - at) * SECOND_NS).refused().segments
    ]
    segments = [*knocks, *beating().segments]
    rows, _ = read(segments, range(4, 8))
    assert [
        (fact["kind"], fact["effect_time"]) for fact in facts(rows, "started", "observed_from", "recording_gap")
    ] == [("observed_from", segments[8].time_ns // 1_000)]
    assert [fact["kind"] for fact in facts(rows_of(segments), "started", "observed_from")] == ["started"]


def test_what_comes_behind_a_hole_is_of_its_own_time() -> None:
    """It does not wait for bytes that nobody can read any more; a copy of what came before does not count as news."""
    segments = beating().segments
    hole = range(9, 12)  # a registration's answer, a question, its answer
    copy = segments[8]._replace(time_ns=segments[12].time_ns - MS_NS // 2)
    rows, transcript = read([*segments[:12], copy, *segments[12:]], hole)
    rows += transcript.finish()
    times = sorted(row["event_time"] for row in of_table(rows, "registrations"))
    assert times == sorted({segments[at].time_ns // 1_000 for at in range(4, 26, 4)})
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["lost_segment"] * 2
