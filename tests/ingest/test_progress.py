"""What a person who waits for the reading of files is told."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from jobs.cli.output import Console
from jobs.ingest.ingest import ingest
from jobs.passes import InProcess
from tests.ingest.given import BEAT, at, piece, warehouse_at, write


@pytest.mark.slow
def test_the_share_of_all_files_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a series with a gzip'd file, and of an event log, each by itself: it grows, up to all of it."""
    monkeypatch.setattr("jobs.passes._EVERY_S", 0.001)
    monkeypatch.setattr("jobs.ingest.reading._WORTH_ASKING", 0)
    monkeypatch.setattr("namesrv_wire.packets.container.CHUNK_BYTES", 1 << 15)
    plain = piece(tmp_path / "a.pcap", 0, 3_000)
    packed = tmp_path / "b.pcap.gz"
    packed.write_bytes(gzip.compress(piece(tmp_path / "later", 3_000, 9_000).read_bytes()))
    log = write(tmp_path / "c.jsonl", [at(hour / 1_000, BEAT) for hour in range(2_000)])
    passes, told = InProcess(), list[float]()
    passes.share = lambda done, of: told.append(done / max(of, 1))
    assert not ingest(warehouse_at(tmp_path / "log", "run"), [str(log)], passes).errors
    told.clear()
    assert not ingest(warehouse_at(tmp_path / "w", "run"), [str(plain), str(packed)], passes).errors
    # What comes after reading begins anew, where it takes long enough to be seen.
    read = told[: next((at for at in range(1, len(told)) if told[at] == 0 < told[at - 1]), len(told))]
    assert read == sorted(read)
    assert 0 <= read[0] < read[-1] <= 1
    assert len(set(read)) > 3


@pytest.mark.parametrize(
    ("seconds", "left"), [(10, "about 90 s left"), (60, "about 9 min left"), (1_800, "about 4 h 30 min left")]
)
def test_what_is_left_follows_from_what_there_is(seconds: float, left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the work has taken some seconds; the rest will take nine times as long."""
    now = [0.0]
    monkeypatch.setattr("jobs.cli.output.time.monotonic", lambda: now[0])
    monkeypatch.setattr("jobs.cli.output._EVERY_S", 0)
    err = io.StringIO()
    console = Console(io.StringIO(), err)
    now[0] = seconds
    console.share(0.3, 3)
    assert err.getvalue() == f"10% done, {left}\n"


def test_progress_does_not_fill_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing moves, as in a log, a line comes once a minute."""
    now = [0.0]
    monkeypatch.setattr("jobs.cli.output.time.monotonic", lambda: now[0])
    err = io.StringIO()
    console = Console(io.StringIO(), err)
    for second in range(150):
        now[0] = float(second)
        console.share(second, 300)
    assert err.getvalue() == "20% done, about 4 min left\n40% done, about 3 min left\n"
