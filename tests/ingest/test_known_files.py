"""Files that were read before are known by name, size and time of change: they are neither read nor fetched again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from jobs.ingest.ingest import ingest
from jobs.ingest.sources import Ingested
from jobs.store.places import filesystem_of
from tests.ingest.given import piece, stored, warehouse_at

pytestmark = pytest.mark.slow

LONG_AGO_NS = 1_700_000_000_000_000_000


def of_long_ago(path: Path) -> Path:
    """Have a file be changed long ago."""
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return path


def in_run(warehouse: Path, run_id: str, *inputs: object) -> Ingested:
    """Read inputs in a run of this name."""
    return ingest(warehouse_at(warehouse, run_id), [str(name) for name in inputs])


def test_a_known_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is looked at: its frames count as duplicates, whatever else is new beside it."""
    known = of_long_ago(piece(tmp_path / "a.pcap", 0, 3_000))
    first = in_run(tmp_path / "w", "first", known)
    (fingerprint,) = stored(tmp_path / "w", "sources", "fingerprint")
    assert fingerprint != (None,)
    opened: list[str] = []
    whole = Path.open

    def noting(path: Path, *mode: Any, **named: Any) -> Any:
        opened.append(path.name)
        return whole(path, *mode, **named)

    monkeypatch.setattr(Path, "open", noting)
    again = in_run(tmp_path / "w", "again", known, piece(tmp_path / "b.pcap", 3_000, 4_000))
    assert ("a.pcap" in opened, "b.pcap" in opened) == (False, True)
    assert (again.known_sources, again.sources) == (["a.pcap"], ["b.pcap"])
    assert again.duplicates >= first.frames
    assert again.unaccounted == 0


def test_what_may_be_another_file_is_looked_at(tmp_path: Path) -> None:
    """A time that is new, another size or name: its content says whether it was read; what was changed just now has no mark."""
    path = piece(tmp_path / "a.pcap", 0, 3_000)
    in_run(tmp_path / "w", "fresh", path)
    assert stored(tmp_path / "w", "sources", "fingerprint") == [(None,)]
    assert in_run(tmp_path / "w", "same", of_long_ago(path)).known_sources == ["a.pcap"]
    in_run(tmp_path / "v", "first", path)
    piece(path, 0, 2_999)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert in_run(tmp_path / "v", "shorter", path).sources == ["a.pcap"]
    moved = of_long_ago(piece(tmp_path / "b.pcap", 0, 3_000))
    assert in_run(tmp_path / "v", "moved", moved).known_sources == ["b.pcap"]


def test_a_known_object_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store's folder only what is new is opened; where nothing is, the run has had its input."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    of_long_ago(piece(bucket / "a.pcap", 0, 3_000))
    opened: set[str] = set()

    class Store(pafs.LocalFileSystem):  # type: ignore[misc]
        def open_input_file(self, source: str) -> Any:
            opened.add(Path(source).name)
            return super().open_input_file(source)

    def in_store(url: str) -> tuple[Any, str]:
        return (Store(), str(tmp_path / url.removeprefix("s3://"))) if "://" in url else filesystem_of(url)

    for module in ("jobs.ingest.sources", "jobs.store.places"):
        monkeypatch.setattr(f"{module}.filesystem_of", in_store)
    for run_id, wanted in (("first", ["a.pcap"]), ("again", []), ("more", ["b.pcap"])):
        opened.clear()
        if run_id == "more":
            of_long_ago(piece(bucket / "b.pcap", 3_000, 5_000))
        read = in_run(tmp_path / "w", run_id, "s3://bucket")
        assert (sorted(opened), read.sources, read.empty, read.errors) == (wanted, wanted, [], [])
        assert sorted([*read.known_sources, *read.sources]) == sorted(path.name for path in bucket.iterdir())
