"""Captures with a snapshot length: what headers show is used, and what was cut is counted."""

from __future__ import annotations

import pytest

from namesrv_wire.packets.segments import CaptureStats, Segment
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from tests.places import recorded
from tests.wire.counted import accounted, read_capture
from tests.wire.forge import (
    BROKER,
    EPOCH_NS,
    NAMESRV,
    REGISTER,
    SECOND_NS,
    Talk,
    binary_header,
    frame,
    merged,
    of_table,
    request,
    response,
    rows_of,
)

BEAT = request(904, {"brokerName": "b"}, flag=2)


def short(segments: list[Segment], kept: int) -> list[Segment]:
    """Return segments of which no more than the first bytes were kept."""
    return [
        segment._replace(payload=segment.payload[:kept], lost=max(0, len(segment.payload) - kept))
        for segment in segments
    ]


def life() -> list[Segment]:
    """Return two connections: frames over several segments, several in one, one that ends, and one that is refused."""
    one = Talk().refused().open().wait(SECOND_NS)
    for at in range(0, len(REGISTER), 100):
        one.ask(REGISTER[at : at + 100])
    one.answer(response(3)).ask(BEAT + BEAT + request(104, BROKER, opaque=4)).answer(
        response(4)
    ).client_fin().server_fin()
    other = Talk(client="10.0.0.3:40000", start_ns=EPOCH_NS + 10 * SECOND_NS, client_seq=77).open()
    for opaque in range(5):
        other.exchange(105, {"topic": "T" * 300}, opaque=opaque).wait(SECOND_NS)
    return merged(one, other.server_rst())


def facts(rows: list[AnyRow]) -> list[object]:
    """Return what connections and name servers did."""
    of = of_table(rows, "channel_events") + of_table(rows, "namesrv_events")
    return [
        (row["kind"], row.get("closed_by"), row["event_time"], row["channel_id"])
        for row in of
        if row["kind"] not in ("identified", "recording_gap")
    ]


@pytest.mark.parametrize("kept", [0, 3, 9, 60, 90])
def test_headers_show_connections_and_lives(kept: int) -> None:
    """The ends of connections and the life of the name server are those of the whole capture, however little was kept."""
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(short(life(), kept), transcript)
    assert facts(rows) == facts(rows_of(life()))
    counts = transcript.counts
    assert accounted(counts) == counts.frames + counts.pieces
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["truncated_packet"] * 2  # one a connection


def test_a_frame_that_was_cut_hides_no_other() -> None:
    """Its length says where the next one begins: what is short enough is read, on the same connection."""
    segments = (
        Talk().open().ask(REGISTER).answer(response(3)).ask(BEAT).exchange(104, {"brokerName": "b"}, opaque=9).segments
    )
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(short(segments, len(BEAT)), transcript)
    assert len(of_table(rows, "heartbeats")) == len(of_table(rows, "unregistrations")) == 1
    assert (transcript.counts.cut_frames, transcript.counts.frames) == (1, 4)
    (row,) = of_table(rows, "quarantine")
    assert (row["length"], row["detail"]) == (
        len(REGISTER),
        f"{len(BEAT)} bytes of a frame of {len(REGISTER)} were kept",
    )


def test_frames_behind_a_cut_one_are_found_where_a_segment_begins() -> None:
    """Where a frame ended in bytes that are missing, the next one that begins a segment is known by its header."""
    both = REGISTER + request(104, BROKER, opaque=4)
    segments = Talk().open().ask(both).ask(REGISTER).ask(BEAT).segments
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of(short(segments, len(BEAT)), transcript)
    assert len(of_table(rows, "heartbeats")) == 1
    assert transcript.counts.cut_frames == 3  # the first, what followed it in its packet, and the third


def test_a_name_server_is_known_by_cut_questions_and_their_answers() -> None:
    """Code and opaque stand near the beginning of a frame."""
    talk = Talk().open().exchange(105, {"topic": "T" * 300}).client_fin().server_fin()
    transcript = Transcript()
    rows = rows_of(short(talk.segments, 60), transcript)
    assert transcript.shown() == {NAMESRV}
    assert len(of_table(rows, "channel_events")) == 1


def test_an_answer_that_was_cut_still_tells_when_its_request_took_effect() -> None:
    """Of a binary header all that is needed stands in its first bytes."""
    answer = frame(binary_header(0, [(b"k", b"v" * 200)], opaque=4, flag=1), serialization=1)
    talk = Talk().open().ask(BEAT).ask(request(104, {"brokerName": "b"}, opaque=4)).wait(SECOND_NS).answer(answer)
    sent_ns = talk.segments[-1].time_ns
    rows = rows_of(short(talk.wait(SECOND_NS).segments, 120))
    (row,) = of_table(rows, "unregistrations")
    assert (row["effect_time"], row["response_code"]) == (sent_ns // 1_000, None)


@pytest.mark.parametrize("cut", range(2, 14))
def test_a_cut_frame_goes_on_in_the_next_capture(cut: int) -> None:
    """What is counted does not depend on where one capture ends and the next begins."""
    segments = short(life(), 60)
    whole = Transcript(namesrv=[NAMESRV])
    rows = rows_of(segments, whole)
    first = Transcript(namesrv=[NAMESRV])
    rows_of(segments[:cut], first)
    rest = Transcript(namesrv=[NAMESRV], carry=first.carry())
    kinds = [row["kind"] for row in of_table(rows_of(segments[cut:], rest), "channel_events")]
    assert kinds == [row["kind"] for row in of_table(rows, "channel_events")][-len(kinds) :]
    for name in ("cut_frames", "pieces", "frames"):
        assert getattr(first.counts, name) + getattr(rest.counts, name) == getattr(whole.counts, name)


@pytest.mark.slow
def test_one_life_seen_by_its_headers() -> None:
    """Two real servers, 160 bytes of each packet: the same ends of the same connections as in the whole capture."""
    folder = recorded("network")
    transcripts, stats = {name: Transcript() for name in ("host", "short")}, CaptureStats()
    ends = {
        name: sorted(
            (row["kind"], row["closed_by"], row["remote_addr"])
            for row in of_table(
                rows_of(read_capture(folder / f"{name}.pcap.gz", stats if name == "short" else None), transcript),
                "channel_events",
            )
        )
        for name, transcript in transcripts.items()
    }
    assert len(ends["host"]) == 339
    assert ends["short"] == ends["host"]
    assert transcripts["short"].counts.cut_frames == 20_540
    assert (stats.kept_bytes, stats.longest_bytes) == (160, 1_514)
