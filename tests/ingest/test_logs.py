"""Parts of event logs are read beside each other, and the tables say the same, however the lines lie in files."""

from __future__ import annotations

import datetime as dt
import gzip
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.conf import PipelineConf
from jobs.ingest.ingest import ingest
from jobs.passes import Processes
from namesrv_wire.logs.event_log import Block, read_blocks
from schemas import bronze
from tests.compare_gold import tables_of
from tests.ingest.given import BEAT, START_MS, at, read_in, stored, warehouse_at, write

pytestmark = pytest.mark.slow

BLOCK = 1 << 18


def said(warehouse: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return what the tables of events say but where it was read."""
    found, tables = {}, tables_of(warehouse, layers=("bronze",))
    for table in (*bronze.RECORDED_TABLES, bronze.TOPIC_CONFIGS_TABLE, bronze.QUARANTINE):
        rows = tables[table.name]
        kept = [name for name in rows.column_names if name not in ("source_file", "source_offset", "fingerprint")]
        found[table.name] = sorted(zip(*map(str_of, rows.select(kept).columns), strict=True))
    return found


def str_of(column: object) -> list[str]:
    """Return values that can be compared whatever they are."""
    return [repr(value) for value in column.to_pylist()]  # type: ignore[attr-defined]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a log of some megabytes be many parts."""
    monkeypatch.setattr("namesrv_wire.logs.event_log.BLOCK_BYTES", BLOCK)
    monkeypatch.setattr("jobs.ingest.reading.BLOCK_BYTES", BLOCK)


@pytest.fixture(scope="module")
def whole(log_of_the_capture: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[object, ...]]]:
    """Return what the log says, read as one block."""
    warehouse = tmp_path_factory.mktemp("whole") / "w"
    read_in(warehouse, log_of_the_capture)
    return said(warehouse)


@pytest.mark.usefixtures("small_blocks")
def test_many_tasks_read_the_same(
    tmp_path: Path, log_of_the_capture: Path, whole: dict[str, list[tuple[object, ...]]]
) -> None:
    """Rows, ids, positions, lines' numbers and what is counted are those of one task."""
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(log_of_the_capture)], passes=Processes(7))
    assert read.unaccounted == 0
    assert (read.frames, read.duplicates, read.quarantined) == (log_of_the_capture.read_bytes().count(b"\n"), 0, 0)
    assert said(tmp_path / "w") == whole
    lines = stored(tmp_path / "w", "route_observations", "source_offset", "event_id")
    texts = log_of_the_capture.read_bytes().split(b"\n")
    assert all(event_id.encode() in texts[number - 1] for number, event_id in lines)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("width", [1, 2])
def test_files_may_be_cut_packed_and_in_any_order(
    tmp_path: Path, log_of_the_capture: Path, whole: dict[str, list[tuple[object, ...]]], width: int
) -> None:
    """A log cut into 24 files at any lines, some of them compressed, given in any order, says what the whole says."""
    rng = random.Random(width)
    lines = log_of_the_capture.read_bytes().splitlines(keepends=True)
    cuts = sorted(rng.sample(range(1, len(lines)), 23))
    packing: list[Callable[[bytes], bytes]] = [gzip.compress, bytes]
    paths = []
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        paths.append(tmp_path / f"{rng.random()}-{number}.jsonl")
        paths[-1].write_bytes(rng.choice(packing)(b"".join(lines[first:last])))
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(path) for path in paths], passes=Processes(width))
    assert (read.unaccounted, read.frames, read.errors) == (0, len(lines), [])
    assert said(tmp_path / "w") == whole


@pytest.mark.usefixtures("small_blocks")
def test_a_clock_that_goes_back_is_seen_over_the_edges_of_parts(tmp_path: Path) -> None:
    """A step back between two parts is noted with its line, and lines too far back are refused, whoever read them."""
    long = {**BEAT, "broker_name": "b" * 1_000}
    lines = [at(48 + n / 3_600, long) for n in range(500)]
    lines += [at(48 + n / 3_600, long) for n in range(300, 600)]  # back by 200 s, in another part
    lines += [{**at(1, long), "time": START_MS - 30 * 86_400_000}, at(48.5, long)]
    path = write(tmp_path / "a.jsonl", lines)
    for width in (1, 2):
        read = ingest(warehouse_at(tmp_path / f"w{width}", "run"), [str(path)], passes=Processes(width))
        assert (read.unaccounted, read.refused) == (0, {"clock_went_back": 1})
        steps = stored(tmp_path / f"w{width}", "namesrv_events", "kind", "source_offset")
        assert ("clock_went_back", 501) in steps
        assert len(stored(tmp_path / f"w{width}", "heartbeats", "day")) == 601
    assert said(tmp_path / "w1") == said(tmp_path / "w2")
    assert stored(tmp_path / "w1", "heartbeats", "day")[-1] == (dt.date(2026, 1, 4),)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_that_are_late_are_read_once_more_and_no_oftener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packed log is one part; of one that is too late each block must be judged line by line: that is one reading more."""
    read_in(tmp_path / "w", write(tmp_path / "first.jsonl", [at(20 * 24, BEAT)]))
    long = {**BEAT, "broker_name": "b" * 1_000}
    late = write(tmp_path / "late.jsonl", [at(1 + n / 3_600, long) for n in range(2_000)])
    packed = tmp_path / "late.jsonl.gz"
    packed.write_bytes(gzip.compress(late.read_bytes()))
    taken: list[int] = []

    def counted(*given: Any) -> Iterator[Block]:
        for block in read_blocks(*given):
            taken.append(block.count)
            yield block

    monkeypatch.setattr("jobs.ingest.reading.read_blocks", counted)
    read = read_in(tmp_path / "w", packed, conf=PipelineConf(quarantine_share_max=1))
    assert read.refused == {"too_late": 2_000}
    assert len(taken) > 10
    assert sum(taken) == 2 * 2_000
