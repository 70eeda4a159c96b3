"""What a person who waits for the reading of files is told."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from jobs.cli.output import Console
from jobs.ingest.ingest import ingest
from jobs.ingest.sources import Progress, Source
from tests.ingest.given import BEAT, CAPTURE, at, piece, warehouse_at, write


@pytest.mark.slow
def test_bytes_and_packets_of_all_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pcap, one that is gzip'd and an event log, all bytes are told at the end, and how much was in them."""
    monkeypatch.setattr("jobs.ingest.sources._EVERY_S", 0)
    monkeypatch.setattr("namesrv_wire.logs.log_file.BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr("jobs.ingest.reading.BLOCK_BYTES", 1 << 16)
    plain = piece(tmp_path / "a.pcap", 0, 3_000)
    packed = tmp_path / "b.pcap.gz"
    packed.write_bytes(gzip.compress(piece(tmp_path / "later", 3_000, 9_000).read_bytes()))
    log = write(tmp_path / "c.jsonl", [at(hour / 1_000, BEAT) for hour in range(2_000)])
    told: list[str] = []
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(path) for path in (plain, packed, log)], told.append)
    size = sum(path.stat().st_size for path in (plain, packed, log)) / 1e6
    assert told
    assert all(f" of {size:,.1f} MB; " in text for text in told)
    done = [float(text.split(" of ")[0].replace(",", "")) for text in told]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(size, abs=0.1)
    assert f"{read.packets:,} packets, " in told[-1]
    assert "2,000 lines, " in told[-1]
    assert told[-1].endswith("about 0 s left")
    assert CAPTURE.is_file()


@pytest.mark.slow
def test_what_is_told_of_a_capture_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets and the bytes that they took, and how long the rest takes, follow from each other."""
    monkeypatch.setattr("jobs.ingest.sources._EVERY_S", 0)
    monkeypatch.setattr("namesrv_wire.packets.container.CHUNK_BYTES", 1 << 15)
    path = piece(tmp_path / "a.pcap", 0, 6_000)
    told: list[str] = []
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(path)], told.append)
    size, ends = path.stat().st_size, [0]
    with path.open("rb") as file:
        file.seek(24)
        while head := file.read(16):
            ends.append(file.seek(int.from_bytes(head[8:12], "little"), 1))
    assert len(told) > size // (1 << 18)
    for text in told:
        reached, packets = float(text.split(" of ")[0]), int(text.split("; ")[1].split(" ")[0].replace(",", ""))
        # Told in tenths of a megabyte.
        assert -50_000 <= reached * 1e6 - ends[packets] <= 50_000 + (1 << 16)
        assert text.endswith(" left")
    assert f"{read.packets:,} packets, " in told[-1]
    assert told[-1].startswith(f"{size / 1e6:,.1f} of ")
    assert told[-1].endswith("about 0 s left")


@pytest.mark.parametrize(
    ("seconds", "left"), [(1, "about 9 s left"), (60, "about 9 min left"), (1_800, "about 4 h 30 min left")]
)
def test_what_is_left_follows_from_what_there_is(seconds: float, left: str) -> None:
    """A tenth of the bytes has taken some seconds; the rest will take nine times as long."""
    now = [0.0]
    told: list[str] = []
    sources = [Source(Path(name), "capture", name, size, 0) for name, size in (("a", 10_000_000), ("b", 90_000_000))]
    progress = Progress(sources, told.append, lambda: now[0])
    progress.begin(sources[0])
    progress.more("packets", 100_000)
    now[0] = seconds
    progress.begin(sources[1])
    progress.more("packets", 20_000)
    assert told == [f"10.0 of 100.0 MB; 120,000 packets, {120_000 / seconds:,.0f} a second; {left}"]


def test_progress_does_not_fill_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing moves, as in a log, a line comes once a minute."""
    now = [0.0]
    monkeypatch.setattr("jobs.cli.output.time.monotonic", lambda: now[0])
    err = io.StringIO()
    console = Console(io.StringIO(), err)
    for second in range(150):
        now[0] = float(second)
        console.progress(f"after {second} s")
    assert err.getvalue() == "after 60 s\nafter 120 s\n"
