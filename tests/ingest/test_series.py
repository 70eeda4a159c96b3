"""Captures by recording point: a task each, and one for those that saw the same name server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.ingest.ingest import ingest
from jobs.ingest.series import Series
from jobs.passes import InProcess, Passes, Processes
from tests.ingest.given import content, packets, stored, warehouse_at

pytestmark = pytest.mark.slow

HERE, THERE = bytes((127, 0, 0, 1)), bytes((10, 9, 8, 7))


class Noting(InProcess):
    """In this process; notes which files each task has read."""

    def __init__(self) -> None:
        super().__init__(2)
        self.read: list[list[str]] = []

    def each(self, task: Any, work: Any) -> list[Any]:
        """See `Passes`."""
        self.read += [[source.path.name for source in one.sources] for one in work if isinstance(one, Series)]
        return super().each(task, work)


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files of any size be worth a task."""
    monkeypatch.setattr("jobs.ingest.reading._WORTH_ASKING", 0)


def piece(folder: Path, name: str, first: int, last: int, address: bytes = HERE) -> Path:
    """Write packets of the bundled capture, as if its name server had another address, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(packets(first, last).replace(HERE, address))
    return folder


def read(warehouse: Path, *inputs: Path, passes: Passes | None = None) -> dict[str, Any]:
    """Return the events, answers and facts of a warehouse into which some inputs were read; every frame is accounted for."""
    found = ingest(warehouse_at(warehouse, "run"), [str(path) for path in inputs], passes=passes)
    assert (found.unaccounted, found.errors) == (0, [])
    facts = {
        "watermarks": stored(warehouse, "watermarks", "namesrv_id", "latest_time"),
        "open_streams": stored(warehouse, "open_streams", "namesrv_addr", "sha256"),
        "sources": stored(warehouse, "sources", "source_file", "frames", "packets"),
    }
    return content(warehouse) | facts


def of_both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return what two warehouses hold together."""
    return {name: sorted([*rows, *other[name]]) for name, rows in one.items()}


def test_recording_points_are_read_beside_each_other(tmp_path: Path) -> None:
    """Two of two name servers, of two files each: a task each, on so many processes, and what each would give alone."""
    for name, address in (("a", HERE), ("b", THERE)):
        piece(tmp_path / name, f"{name}-1.pcap", 0, 2_000, address)
        piece(tmp_path / name, f"{name}-2.pcap", 2_000, 4_000, address)
    alone = of_both(read(tmp_path / "w-a", tmp_path / "a"), read(tmp_path / "w-b", tmp_path / "b"))
    noting = Noting()
    assert read(tmp_path / "w1", tmp_path / "a", tmp_path / "b", passes=noting) == alone
    assert noting.read == [["a-1.pcap", "a-2.pcap"], ["b-1.pcap", "b-2.pcap"]]
    assert read(tmp_path / "w2", tmp_path / "b", tmp_path / "a", passes=Processes(2)) == alone


def test_points_that_saw_one_name_server_are_read_as_one(tmp_path: Path) -> None:
    """Known by the first packets, or only once both are read: what both have is there once, as if one folder had all."""
    for first, is_known_before in ((3_000, True), (0, False)):
        folder = tmp_path / f"{first}"
        points = (piece(folder / "a", "a.pcap", first, 6_000), piece(folder / "b", "b.pcap", 4_500, 9_000))
        if not is_known_before:
            point, unseen = folder / "a" / "a.pcap", packets(0, 3_000).replace(HERE, THERE)
            point.write_bytes(unseen + packets(first, 6_000)[24:])
        together = folder / "together"
        together.mkdir()
        for point in points:
            for path in point.iterdir():
                (together / path.name).write_bytes(path.read_bytes())
        noting = Noting()
        found = read(folder / "w", *points, passes=noting)
        assert found == read(folder / "w-1", together, passes=Noting())
        as_one = [["a.pcap", "b.pcap"]]
        assert noting.read == (as_one if is_known_before else [["a.pcap"], ["b.pcap"], *as_one])


def test_a_further_file_goes_on_where_its_point_has_ended(tmp_path: Path) -> None:
    """Two points, a file of each a run: connections go on, and each keeps its own state while the other is read."""
    for name, address in (("a", HERE), ("b", THERE)):
        piece(tmp_path / "one" / name, f"{name}-1.pcap", 0, 1_500, address)
        piece(tmp_path / "two" / name, f"{name}-2.pcap", 1_500, 4_000, address)
    both = read(tmp_path / "w-1", *(tmp_path / f"{n}" / name for n in ("one", "two") for name in "ab"))
    for number, name in enumerate(("one/a", "one/b", "two/b", "two/a")):
        ingest(warehouse_at(tmp_path / "w", f"run-{number}"), [str(tmp_path / name)])
    assert content(tmp_path / "w") == {name: both[name] for name in content(tmp_path / "w")}
    assert stored(tmp_path / "w", "watermarks", "namesrv_id", "latest_time") == both["watermarks"]
