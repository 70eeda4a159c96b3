"""Late, repeated and out-of-order input: nothing is lost, nothing is counted twice, and what has no order is named."""

from __future__ import annotations

import datetime as dt
import gzip
import struct
from pathlib import Path

import pytest

from jobs.conf import PipelineConf
from jobs.errors import ClockError
from jobs.ingest.series import Order, order_of, peek
from namesrv_wire.errors import END_NS
from namesrv_wire.servers.transcript import Transcript
from tests.ingest.given import (
    BEAT,
    DAY,
    DAY_MS,
    FIRST,
    HOUR_MS,
    NAMESRV,
    START_MS,
    at,
    broker,
    piece,
    read_in,
    stored,
    write,
)
from tests.places import CAPTURE
from tests.wire.counted import read_capture


@pytest.mark.slow
def test_late_lines_are_read_up_to_the_limit(tmp_path: Path) -> None:
    """Behind the watermark of the runs before: within the limit an event, beyond it quarantine; one's own run does not count."""
    first = read_in(tmp_path / "w", write(tmp_path / "first.jsonl", [at(10 * 24, BEAT)]))
    assert (first.events, first.refused) == (1, {})
    late = [at(3 * 24, BEAT), at(3 * 24, BEAT) | {"time": START_MS + 3 * DAY_MS - 1}]
    other = at(1, BEAT | {"namesrv_id": "10.0.0.2:9876"})
    read = read_in(tmp_path / "w", write(tmp_path / "late.jsonl", [*late, other]))
    assert (read.frames, read.events, read.quarantined, read.refused) == (3, 2, 1, {"too_late": 1})
    assert read.days == [FIRST, FIRST + 3 * DAY]
    assert stored(tmp_path / "w", "quarantine", "reason", "source_file", "source_offset") == [
        ("too_late", "late.jsonl", 2)
    ]
    latest = dt.datetime(2026, 1, 12, tzinfo=dt.timezone.utc)
    assert (NAMESRV, latest, "first") in stored(tmp_path / "w", "watermarks", "namesrv_id", "latest_time", "ingest_run")


@pytest.mark.slow
def test_an_event_from_the_future_does_not_make_the_present_late(tmp_path: Path) -> None:
    """What lies after the run's own clock by more than the tolerance is quarantined; a watermark stays behind that clock."""
    now = dt.datetime.now(dt.timezone.utc)
    lines = [
        at(0, BEAT) | {"time": round((now + ahead).timestamp() * 1_000), "broker_addr": f"10.0.0.{number}:10911"}
        for number, ahead in enumerate([dt.timedelta(minutes=30), dt.timedelta(minutes=90), dt.timedelta(days=1_461)])
    ]
    read = read_in(tmp_path / "w", write(tmp_path / "ahead.jsonl", lines))
    assert (read.events, read.refused, read.reasons) == (1, {"ahead_of_clock": 2}, {"ahead_of_clock": 2})
    ((latest,),) = stored(tmp_path / "w", "watermarks", "latest_time")
    assert latest <= dt.datetime.now(dt.timezone.utc)
    assert (
        read_in(
            tmp_path / "w", write(tmp_path / "now.jsonl", [at(0, BEAT) | {"time": now.isoformat()[:19] + "Z"}])
        ).events
        == 1
    )


@pytest.mark.slow
def test_events_in_another_file_and_order_change_nothing(tmp_path: Path) -> None:
    """Lines of one instant, without positions, get different ones in another order - and keep those that they have."""
    one, other = (at(1, broker(name, "TU", 1)) for name in "ab")
    read_in(tmp_path / "w", write(tmp_path / "first.jsonl", [one, other]))
    before = stored(tmp_path / "w", "registrations", "event_id", "seq", "source_file")
    again = read_in(tmp_path / "w", write(tmp_path / "again.jsonl", [other, one, other]))
    assert (again.frames, again.events, again.duplicates, again.days) == (3, 0, 3, [])
    assert stored(tmp_path / "w", "registrations", "event_id", "seq", "source_file") == before


@pytest.mark.slow
def test_positions_are_unique_whatever_files_say(tmp_path: Path) -> None:
    """Events of one instant from two files make room; of two that claim one position the later is quarantined."""
    files = [write(tmp_path / f"{name}.jsonl", [at(1, broker(name, "TU", 1))]) for name in "abc"]
    read_in(tmp_path / "w", *files[:2])
    read_in(tmp_path / "w", files[2])
    base = (START_MS + HOUR_MS) * 1_000_000
    assert stored(tmp_path / "w", "registrations", "seq", "broker_name") == [
        (base, "broker-a"),
        (base + 1, "broker-b"),
        (base + 2, "broker-c"),
    ]
    claims = [BEAT | {"seq": seq, "broker_addr": addr} for seq, addr in ((base, "x"), (7, "y"), (7, "z"))]
    read = read_in(tmp_path / "w", write(tmp_path / "claims.jsonl", [at(1, claim) for claim in claims]))
    assert (read.frames, read.events, read.quarantined) == (3, 1, 2)
    assert stored(tmp_path / "w", "quarantine", "reason", "source_offset") == [("seq_taken", 1), ("seq_taken", 3)]
    assert stored(tmp_path / "w", "heartbeats", "seq", "broker_addr") == [(7, "y")]


def test_a_position_that_is_said_goes_before_one_that_was_made(tmp_path: Path) -> None:
    """Even if its line comes later."""
    base = (START_MS + HOUR_MS) * 1_000_000
    lines = [at(1, BEAT | {"broker_addr": "made"}), at(1, BEAT | {"broker_addr": "said", "seq": base})]
    read = read_in(tmp_path / "w", write(tmp_path / "first.jsonl", lines))
    assert (read.events, read.quarantined) == (2, 0)
    assert stored(tmp_path / "w", "heartbeats", "seq", "broker_addr") == [(base, "said"), (base + 1, "made")]


@pytest.mark.slow
def test_what_finds_no_room_in_its_microsecond_is_refused(tmp_path: Path) -> None:
    """A made position may go as far as its microsecond does, also in the last one of all."""
    full = [at(1, BEAT | {"seq": (START_MS + HOUR_MS) * 1_000_000 + taken}) for taken in (0, 999)]
    read = read_in(tmp_path / "w", write(tmp_path / "full.jsonl", [*full, at(1, BEAT | {"broker_addr": "x"})]))
    assert (read.events, read.quarantined) == (2, 1)
    last = {"time": "2261-12-31T23:59:59.999999Z", "namesrv_id": "10.0.0.2:9876"}
    lines = [at(0, BEAT) | last | {"seq": seq, "broker_addr": str(seq)} for seq in (END_NS - 1_000, END_NS - 1)]
    conf = PipelineConf(ahead_limit_minutes=1_000 * 366 * 24 * 60)
    read = read_in(tmp_path / "w", write(tmp_path / "last.jsonl", [*lines, at(0, BEAT) | last]), conf=conf)
    assert (read.events, read.quarantined) == (2, 1)
    assert {reason for (reason,) in stored(tmp_path / "w", "quarantine", "reason")} == {"seq_taken"}


def test_a_file_without_order_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    """Lines that go back beyond the limit are quarantined, and their file is an error; the other file is read."""
    good = write(tmp_path / "good.jsonl", [at(3, BEAT)])
    jumps = write(tmp_path / "jumps.jsonl", [at(240, BEAT), at(1, BEAT)])
    read = read_in(tmp_path / "w", good, jumps)
    assert (read.events, read.refused, read.unordered) == (2, {"clock_went_back": 1}, ["jumps.jsonl"])
    sources = stored(tmp_path / "w", "sources", "source_file", "error")
    assert sources == [("good.jsonl", None), ("jumps.jsonl", *read.errors)]


def test_a_capture_without_order_is_all_that_there_is(tmp_path: Path) -> None:
    """Packets eight days before the one before them end the reading; as the file showed no name server, it may come again."""
    data, at = bytearray(gzip.decompress(CAPTURE.read_bytes())), 24
    seconds = struct.unpack_from("<I", data, at)[0]
    for _ in range(2):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
        struct.pack_into("<I", data, at, seconds - 8 * 86_400)
    path = tmp_path / "jumps.pcap"
    path.write_bytes(data)
    with pytest.raises(
        ClockError, match=r"jumps.pcap, packet 2: the clock goes back from 2026-11-21 .* to 2026-11-13 "
    ):
        read_in(tmp_path / "w", path)
    assert stored(tmp_path / "w", "sources", "source_file", "packets") == []


@pytest.mark.slow
def test_a_capture_that_goes_back_is_read_by_itself(tmp_path: Path) -> None:
    """Its events are placed at their own times, not behind what was read before; the name server does not begin anew."""
    ends = [(0, 900), (1_800, 2_700), (900, 1_800)]
    paths = [piece(tmp_path / f"{number}.pcap", first, last) for number, (first, last) in enumerate(ends)]
    transcript = Transcript()
    segments = list(read_capture(paths[0]))
    assert order_of(peek(paths[0]), transcript, []) is Order.AFTER
    transcript.feed(segments, "0.pcap")
    read = [(segments[0].time_ns, segments[-1].time_ns)]
    orders = [order_of(peek(path), transcript, read) for path in paths]
    assert orders == [Order.OVERLAPS, Order.AFTER, Order.AFTER]
    assert order_of(peek(paths[0]), transcript, []) is Order.EARLIER
    for path in paths:
        read_in(tmp_path / "w", path)
    answers = stored(tmp_path / "w", "route_observations", "seq", "effect_time", "source_file")
    assert {file for *_, file in answers} == {"0.pcap", "1.pcap", "2.pcap"}
    assert [file for _, _, file in answers] == sorted(
        (file for _, _, file in answers), key=lambda file: "021".find(file[0])
    )
    facts = stored(tmp_path / "w", "namesrv_events", "kind", "source_file")
    assert [file for kind, file in facts if kind in ("started", "observed_from")] == ["0.pcap"]
