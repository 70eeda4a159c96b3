"""A night in many rotated files: one capture's rows."""

from __future__ import annotations

import gzip
import itertools
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jobs.ingest.ingest import ingest
from jobs.ingest.sources import Ingested
from tests.examples import more
from tests.ingest.given import content, warehouse_at
from tests.pcap import capture, records
from tests.places import CAPTURE

pytestmark = pytest.mark.slow

_FILES, _NIGHTS = 24, 5
DATA = gzip.decompress(CAPTURE.read_bytes())
WHOLE = list(records(DATA))
"""The packets of the bundled capture."""


class One(NamedTuple):
    """What reading the whole in one file counts, and the events and answers that it leaves."""

    read: Ingested
    content: dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> One:
    """Read the bundled capture in one file, by one task."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "whole.pcap").write_bytes(DATA)
    return One(ingest(warehouse_at(folder / "w", "run"), [str(folder / "whole.pcap")]), content(folder / "w"))


def rotated(folder: Path, seed: int, files: int = _FILES) -> list[Path]:
    """Write the bundled capture as so many files, cut anywhere, packed or not, whose names say nothing; in any order."""
    rng = random.Random(seed)
    cuts = [0, *sorted(rng.sample(range(1, len(WHOLE)), files - 1)), len(WHOLE)]
    names = rng.sample(range(100), files)
    paths = []
    for name, (first, last) in zip(names, itertools.pairwise(cuts), strict=True):
        paths.append(folder / f"{name:02}.pcap")
        data = capture(DATA, WHOLE[first:last])
        paths[-1].write_bytes(gzip.compress(data) if rng.random() < 0.5 else data)
    rng.shuffle(paths)
    return paths


@pytest.mark.parametrize("seed", range(2, 2 + more(1)))
def test_files_of_a_night_in_any_order_are_one_capture(tmp_path: Path, one: One, seed: int) -> None:
    """Ids, positions and times of all events and answers are those of the whole in one file."""
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(path) for path in rotated(tmp_path, seed)])
    assert (read.unaccounted, read.errors) == (0, [])
    assert (read.frames, read.packets, read.events, read.duplicates) == (
        one.read.frames,
        one.read.packets,
        one.read.events,
        0,
    )
    assert content(tmp_path / "w") == one.content


def test_packets_out_of_order_from_one_file_to_the_next_are_put_in_order(tmp_path: Path, one: One) -> None:
    """What the name server receives is late by up to 40 ms, also across the end of a file: all is as in order of time."""
    rng = random.Random(7)
    times = [packet.time_us for packet in WHOLE]
    late = [packet.time_us + rng.randrange(40_000) * (packet.frame[36:38] == b"\x26\x94") for packet in WHOLE]
    order = sorted(range(len(WHOLE)), key=late.__getitem__)
    packets, latest = [WHOLE[at] for at in order], list(itertools.accumulate((times[at] for at in order), max))
    seams = [at for at in range(1, len(order)) if times[order[at]] < latest[at - 1]]
    cuts = [0, *sorted(rng.sample(seams, _FILES - 1)), len(WHOLE)]
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        (tmp_path / f"{number:02}.pcap").write_bytes(capture(DATA, packets[first:last]))
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(path) for path in tmp_path.glob("*.pcap")])
    assert (read.unaccounted, read.errors, read.frames, read.packets) == (0, [], one.read.frames, one.read.packets)
    assert content(tmp_path / "w") == one.content


def test_nights_out_of_order_lose_and_double_no_frame(tmp_path: Path, one: One) -> None:
    """Each file is a night, and they come in any order: all frames are accounted for, and no row is there twice."""
    total = 0
    for number, path in enumerate(rotated(tmp_path, 0, _NIGHTS)):
        read = ingest(warehouse_at(tmp_path / "w", f"run{number}"), [str(path)])
        assert (read.unaccounted, read.duplicates) == (0, 0)
        total += read.frames
    assert total == one.read.frames
    kept = content(tmp_path / "w")
    for table, rows in one.content.items():
        assert len({row[0] for row in kept[table]}) == len(kept[table])
        # What was asked in one file and answered in the next one, of which the first came later, has lost the other half.
        assert len(rows) - len(kept[table]) <= 3 * _NIGHTS
