"""Captures that overlap, that grow, and whose clock goes back: nothing twice, and nothing lost."""

from __future__ import annotations

import errno
import functools
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.ingest.series import Order
from namesrv_wire.logs.event_log import Block, read_blocks
from schemas import bronze
from tests.ingest.given import BEAT, Content, at, content, piece, read_in, stored, write
from tests.ingest.test_networks import written
from tests.places import CAPTURE
from tests.wire.forge import MS_NS, SECOND_NS, Talk, merged

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def first_packets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Content]:
    """Give what the first packets of the bundled capture leave, read in one file; of each number this is asked for once."""

    @functools.cache
    def read(count: int) -> Content:
        folder = tmp_path_factory.mktemp("first")
        read_in(folder / "w", piece(folder / "whole.pcap", 0, count))
        return content(folder / "w")

    return read


@pytest.mark.parametrize(("seed", "runs"), [(0, 2), (1, 1), (1, 2), (3, 2)])
def test_two_captures_that_overlap_are_one(
    tmp_path: Path, first_packets: Callable[[int], Content], seed: int, runs: int
) -> None:
    """However long both have recorded, each frame counts once, and connections go on from one to the other.

    The second begins near the end of the first (seed 0), with it (1), or in between (3).
    """
    dice = random.Random(seed)
    end = dice.randrange(4_000, 12_000)
    begin = dice.choice([0, end - 500, dice.randrange(0, end)])
    first = piece(tmp_path / "a.pcap", 0, end)
    second = piece(tmp_path / "b.pcap", begin, 14_000)
    for some in [(first, second)] if runs == 1 else [(first,), (second,)]:
        read_in(tmp_path / "w", *some)
    assert content(tmp_path / "w") == first_packets(14_000)


def test_a_capture_that_comes_late_fills_the_hole_that_it_overlaps(
    tmp_path: Path, first_packets: Callable[[int], Content]
) -> None:
    """What lies in times that were read counts once, and all between them is read, but for what an edge cuts apart."""
    around = [piece(tmp_path / "a.pcap", 0, 4_000), piece(tmp_path / "c.pcap", 10_000, 14_000)]
    read_in(tmp_path / "w", *around)
    late = read_in(tmp_path / "w", piece(tmp_path / "b.pcap", 3_800, 10_200))
    assert (late.sources, late.errors) == (["b.pcap"], [])
    for table in ("registrations", "route_observations", "channel_events"):
        assert len({seq for (seq,) in stored(tmp_path / "w", table, "seq")}) == len(
            stored(tmp_path / "w", table, "seq")
        )
    times = [
        {row[2] for table in ("registrations", "route_observations") for row in of[table]}
        for of in (content(tmp_path / "w"), first_packets(14_000))
    ]
    assert times[0] <= times[1]
    assert len(times[1] - times[0]) <= 2


@pytest.mark.parametrize(("back_s", "without_place"), [(5, 0), (10, 36)])
def test_a_capture_whose_clock_went_back_goes_on(tmp_path: Path, back_s: int, without_place: int) -> None:
    """Its connections continue where they were, so it follows; what has times that were read has no place, and a gap says so."""
    talks = [
        Talk(client=f"10.0.0.{n}:40000", start_ns=1_700_000_000 * SECOND_NS + n * MS_NS, client_seq=n * 1_000)
        for n in (3, 4)
    ]
    for talk in talks:
        talk.open()
        for opaque in range(1, 30):
            talk.exchange(105, {"topic": "T"}, opaque=opaque).wait(SECOND_NS)
    segments = merged(*talks)
    middle = len(segments) // 2
    back = [segment._replace(time_ns=segment.time_ns - back_s * SECOND_NS) for segment in segments[middle:]]
    read_in(tmp_path / "w", written(tmp_path / "a.pcap", segments[:middle]))
    read = read_in(tmp_path / "w", written(tmp_path / "b.pcap", back))
    assert read.sightings == 0
    assert [f"{without_place} packet(s)" in error for error in read.errors] == [True] * (without_place > 0)
    answers = len(stored(tmp_path / "w", "route_observations", "event_id"))
    assert 2 * 29 - without_place // 2 <= answers <= 2 * 29 - without_place // 2 + 2
    assert len({channel for (channel,) in stored(tmp_path / "w", "route_observations", "channel_id")}) == 2
    told = {kind for (kind,) in stored(tmp_path / "w", "namesrv_events", "kind")}
    assert ({"clock_went_back", "recording_gap"} <= told) == (without_place > 0)
    effects = stored(tmp_path / "w", "route_observations", "seq", "effect_time")
    assert [at for _, at in effects] == sorted(at for _, at in effects) or not without_place


@pytest.mark.parametrize("is_one_run", [True, False], ids=["one run", "two runs"])
def test_rotated_captures_whose_clock_went_back_by_an_hour_lose_nothing(tmp_path: Path, is_one_run: bool) -> None:  # noqa: FBT001
    """The later one seems to be the earlier one: what then comes by itself counts once, too."""
    talk = Talk(client="10.0.0.3:40000").open()
    for opaque in range(1, 60):
        talk.exchange(105, {"topic": "T"}, opaque=opaque).wait(SECOND_NS)
    middle = len(talk.segments) // 2
    back = [segment._replace(time_ns=segment.time_ns - 3_600 * SECOND_NS) for segment in talk.segments[middle:]]
    paths = [written(tmp_path / "a.pcap", talk.segments[:middle]), written(tmp_path / "b.pcap", back)]
    for some in [paths] if is_one_run else [[path] for path in paths]:
        read_in(tmp_path / "w", *some)
    assert len(stored(tmp_path / "w", "route_observations", "event_id")) == 59
    told = [(kind, file) for kind, file in stored(tmp_path / "w", "namesrv_events", "kind", "source_file")]
    assert {("clock_went_back", "b.pcap"), ("recording_gap", "b.pcap")} <= set(told)


@pytest.mark.parametrize("change", ["grows", "shrinks"])
@pytest.mark.parametrize("kind", ["capture", "log"])
def test_a_file_that_changes_while_it_is_read_does_not_count_as_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_packets: Callable[[int], Content], kind: str, change: str
) -> None:
    """It is an error of the run; given again it is read whole, and what was read before is not doubled."""
    if kind == "capture":
        path, whole = (piece(tmp_path / name, 0, count) for name, count in (("a.pcap", 6_000), ("whole.pcap", 9_000)))
    else:
        lines = [at(hour / 100, BEAT) for hour in range(600)]
        path, whole = write(tmp_path / "a.jsonl", lines[:400]), write(tmp_path / "whole.jsonl", lines)
    data = path.read_bytes()

    def changed(*_: object) -> object:
        path.write_bytes(whole.read_bytes() if change == "grows" else data[: len(data) // 2])
        return Order.AFTER

    def changing(*given: Any) -> Iterator[Block]:
        for block in read_blocks(*given):
            if not given[1]:
                changed()
            yield block

    with monkeypatch.context() as patched:
        patched.setattr("namesrv_wire.logs.event_log.BLOCK_BYTES", 4_096)
        patched.setattr("jobs.ingest.reading.BLOCK_BYTES", 4_096)
        patched.setattr("jobs.ingest.reading.read_blocks", changing)
        patched.setattr("jobs.ingest.series.order_of", changed)
        read = read_in(tmp_path / "w", path)
    assert [change in error for error in read.errors] == [True] * len(read.errors) != []
    path.write_bytes(whole.read_bytes())
    again = read_in(tmp_path / "w", path)
    assert (again.errors, again.known_sources) == ([], [])
    if kind == "capture":
        assert content(tmp_path / "w") == first_packets(9_000)
    else:
        assert len(stored(tmp_path / "w", "heartbeats", "event_time")) == 600


def test_a_file_that_cannot_be_opened_or_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    """The others are read, and it is read once it can be."""
    path = tmp_path / "a.pcap"
    path.symlink_to("/proc/self/mem")  # opens, and fails to be read
    read = read_in(tmp_path / "w", CAPTURE, path)
    assert read.observations == 13_877
    (error,) = read.errors
    assert "a.pcap" in error
    path.unlink()
    piece(path, 0, 100)
    assert read_in(tmp_path / "w", path).known_sources == []


class Torn(io.RawIOBase):
    """A file of which some part cannot be read."""

    def __init__(self, path: Path, size: int) -> None:
        self._file, self._size = io.FileIO(path), size

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def fileno(self) -> int:
        """See `io.RawIOBase`."""
        return self._file.fileno()

    def close(self) -> None:
        """See `io.RawIOBase`."""
        self._file.close()
        super().close()

    def seek(self, offset: int, whence: int = 0) -> int:
        """See `io.RawIOBase`."""
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        """Read what can be read."""
        left = self._size - self._file.tell()
        if left <= 0:
            raise OSError(errno.EIO, "Input/output error")
        return self._file.readinto(memoryview(buffer)[:left]) or 0


@pytest.mark.parametrize("kind", ["capture", "log"])
def test_a_file_of_which_a_part_cannot_be_read_gives_what_is_in_front_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It is an error that says so; once all of it can be read nothing is missing and nothing is there twice."""
    if kind == "log":
        path = write(tmp_path / "a.jsonl", [at(hour / 100, BEAT) for hour in range(2_000)])
    else:
        path = piece(tmp_path / "a.pcap", 0, 3_000)
    opened, size = Path.open, path.stat().st_size

    def torn(self: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        if self.name == path.name and mode == "rb":
            return io.BufferedReader(Torn(self, size * 2 // 3))
        return opened(self, mode, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", torn)
        read = read_in(tmp_path / "w", path)
    (error,) = read.errors
    assert "a." in error
    assert "Input/output error" in error
    assert read.events + read.observations > 900
    again = read_in(tmp_path / "w", path)
    assert (again.errors, again.known_sources) == ([], [])
    read_in(tmp_path / "whole", path)
    assert content(tmp_path / "w") == content(tmp_path / "whole")


@pytest.mark.parametrize(("share", "verdict"), [(0.95, bronze.ACCEPTED), (0.05, bronze.UNREAD)])
def test_a_compressed_capture_that_is_damaged_is_unread_where_most_of_it_is(
    tmp_path: Path, share: float, verdict: str
) -> None:
    """What is in front of the damage is read, an error says where that is; behind the middle the file counts as read."""
    data, path = bytearray(CAPTURE.read_bytes()), tmp_path / "a.pcap.gz"
    at_byte = int(len(data) * share)
    data[at_byte : at_byte + 64] = bytes(64)
    path.write_bytes(data)
    (error,) = read_in(tmp_path / "w", path).errors
    assert "a.pcap.gz at byte" in error
    assert stored(tmp_path / "w", "sources", "verdict") == [(verdict,)]
