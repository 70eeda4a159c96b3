"""Captures with damage in their middle: what lies behind it is read, and the error says what was passed over."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from namesrv_wire import CaptureError, Segment, read_capture
from namesrv_wire.limits import SMALL_HOLE_BYTES
from namesrv_wire.packets.columns import read_columns
from namesrv_wire.packets.container import Packet, read_packets
from tests.ingest.given import packets

DATA = packets(0, 600)
_ORDER = "<"


def offsets(data: bytes) -> list[int]:
    """Return where the records of a capture begin, and its end."""
    found = [24]
    while found[-1] < len(data):
        found.append(found[-1] + 16 + struct.unpack_from(_ORDER + "I", data, found[-1] + 8)[0])
    return found


AT = offsets(DATA)


def read(path: Path, content: bytes) -> tuple[list[Segment], CaptureError]:
    """Return what is read of damaged content, and the error at the end."""
    path.write_bytes(content)
    return until_error(path)


def until_error(path: Path) -> tuple[list[Segment], CaptureError]:
    found: list[Segment] = []
    try:
        for segment in read_capture(path):
            found.append(segment)  # noqa: PERF402  what came before the error is wanted
    except CaptureError as error:
        return found, error
    raise AssertionError("no error")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    path = tmp_path_factory.mktemp("whole") / "a.pcap"
    path.write_bytes(DATA)
    return [segment[1:] for segment in read_capture(path)]


def lying(number: int, by: int) -> bytes:
    """Return the capture with a record whose length is another."""
    data = bytearray(DATA)
    (kept,) = struct.unpack_from("<I", data, AT[number] + 8)
    struct.pack_into("<I", data, AT[number] + 8, max(0, kept + by) & 0xFFFFFFFF)
    return bytes(data)


@pytest.mark.parametrize("by", [-40, -1, 1, 7, 500, 70_000, 1 << 30, (1 << 32) - 200])
@pytest.mark.parametrize("number", [0, 200, 560])
def test_behind_a_record_whose_length_lies_reading_goes_on(
    tmp_path: Path, whole: list[tuple[object, ...]], number: int, by: int
) -> None:
    """No packet comes twice or is made up; lost is the one that lies, and those that lengths cover: its own, or one made of it.

    One byte less makes lengths of all that follow that can be, until one cannot.
    """
    found, error = read(tmp_path / "a.pcap", lying(number, by))
    said = [segment[1:] for segment in found if not segment.lost]
    assert [segment for segment in said if segment not in whole] == []
    assert len(set(map(str, said))) == len(said)
    covered = by // 60 if 0 < by < 1 << 17 else 170 * (by == -1)
    assert len(whole) - len(said) <= 14 + covered
    assert "were read" in str(error)


@pytest.mark.parametrize("number", [1, 200, 560])
@pytest.mark.parametrize("by", [3_000_000, 1 << 30])
def test_a_record_of_which_only_the_length_lies_is_read(
    tmp_path: Path, whole: list[tuple[object, ...]], number: int, by: int
) -> None:
    """Its packet says how long it is, and others follow there: nothing is lost, and there is no hole."""
    found, error = read(tmp_path / "a.pcap", lying(number, by))
    assert [segment[1:] for segment in found] == whole
    assert "0 bytes were passed over" in str(error)
    assert error.read_on
    assert not any(packet.is_behind_hole for packet in packets_of(tmp_path / "a.pcap"))


def packets_of(path: Path) -> list[Packet]:
    """Return the packets of a damaged capture."""
    found: list[Packet] = []
    with pytest.raises(CaptureError):
        found.extend(read_packets(path))
    return found


@pytest.mark.parametrize(("size", "is_hole"), [(SMALL_HOLE_BYTES, False), (SMALL_HOLE_BYTES + 1, True)])
def test_what_was_passed_over_is_a_hole_if_it_may_hold_a_connection(tmp_path: Path, size: int, is_hole: bool) -> None:  # noqa: FBT001
    """Its first packet behind says so; a file that ends in damage says that it was not read on."""
    path = tmp_path / "a.pcap"
    path.write_bytes(DATA[: AT[200]] + b"\xff" * size + DATA[AT[200] :])
    marked = [number for number, packet in enumerate(packets_of(path)) if packet.is_behind_hole]
    assert marked == [200] * is_hole
    assert until_error(path)[1].read_on
    path.write_bytes(DATA + b"\xff" * size)
    assert not until_error(path)[1].read_on
    path.write_bytes(DATA[: AT[200]] + b"\xff" * size + DATA[AT[200] : -3])
    assert not until_error(path)[1].read_on


@pytest.mark.parametrize("size", [40, 700, 100_000])
def test_damage_at_the_start_is_passed_over(tmp_path: Path, whole: list[tuple[object, ...]], size: int) -> None:
    """Of when the recording began it says nothing: the first records that follow each other do."""
    path = tmp_path / "a.pcap"
    path.write_bytes(DATA[:24] + random.Random(size).randbytes(size) + DATA[24:])
    found, _ = until_error(path)
    assert [segment[1:] for segment in found][-590:] == whole[-590:]


@pytest.mark.parametrize("by", [4, 5, 6, 7, 8])
def test_a_length_that_lies_by_some_bytes_makes_no_times_up(tmp_path: Path, by: int) -> None:
    """A header made of the ends of two records is damage, and no packet of 1970: that would end the reading of the file."""
    path, times = tmp_path / "a.pcap", list[int]()
    path.write_bytes(lying(200, by))
    reading = read_columns(path)
    with pytest.raises(CaptureError, match="were read"):
        times.extend(time for some in reading for time in some.time_ns)
    first, last = (1_000_000_000 * struct.unpack_from("<I", DATA, at)[0] for at in (AT[0], AT[-2]))
    assert [time for time in times if not first <= time <= last + 1_000_000_000] == []
    assert len(times) >= len(AT) - 4


@pytest.mark.parametrize("torn", [0.2, 0.9])
def test_behind_a_torn_member_of_a_gzip_file_the_next_is_read(
    tmp_path: Path, whole: list[tuple[object, ...]], torn: float
) -> None:
    """A record may lie across two members: it goes with the torn one."""
    cuts = [0, AT[200] + 5, AT[400], len(DATA)]
    members = [gzip.compress(DATA[low:high]) for low, high in pairwise(cuts)]
    hole = int(len(members[1]) * torn)
    members[1] = members[1][:hole] + members[1][hole + 300 :]
    found, error = read(tmp_path / "a.pcap.gz", b"".join(members))
    said = [segment[1:] for segment in found]
    assert said[:200] == whole[:200]
    assert said[-200:] == whole[-200:]
    assert len(said) < len(whole)
    assert "packets behind them were read" in str(error)


def test_a_part_that_cannot_be_read_is_passed_over(
    tmp_path: Path, whole: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk gives an error the next block is tried."""
    bad = range(AT[100] + 3, AT[100] + 3 + 6_000)
    path = tmp_path / "a.pcap"
    path.write_bytes(DATA)
    open_path: Callable[..., object] = Path.open

    class Damaged:
        """A file of which a part cannot be read."""

        def __init__(self, file: object) -> None:
            self._file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def __enter__(self) -> Damaged:  # noqa: PYI034  Self is not there in 3.10
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()  # type: ignore[attr-defined]

        def read(self, size: int = -1) -> bytes:
            at = self._file.tell()  # type: ignore[attr-defined]
            if at < bad.stop and at + size > bad.start:
                if at >= bad.start:
                    raise OSError(5, "Input/output error")
                size = bad.start - at
            data: bytes = self._file.read(size)  # type: ignore[attr-defined]
            return data

    monkeypatch.setattr(Path, "open", lambda *given, **more: Damaged(open_path(*given, **more)))
    found, error = until_error(path)
    assert "packets behind them were read" in str(error)
    said = [segment[1:] for segment in found]
    assert said[:100] == whole[:100]
    assert said[-400:] == whole[-400:]


@pytest.mark.parametrize("seed", range(20))
def test_any_damage_gives_packets_of_the_capture_and_an_end(tmp_path: Path, seed: int) -> None:
    """However many bytes are overwritten: reading ends, and most of the packets are read."""
    dice = random.Random(seed)
    data = bytearray(DATA)
    for _ in range(3):
        at = dice.randrange(24, len(data) - 100)
        data[at : at + 40] = dice.randbytes(40)
    path = tmp_path / "a.pcap"
    path.write_bytes(data)
    count = 0
    try:
        for _segment in read_capture(path):
            count += 1
    except CaptureError:
        pass
    assert count > 500
