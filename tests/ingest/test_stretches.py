"""A capture that several tasks read gives the tables that one reading gives, wherever it is cut and whatever was guessed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from jobs.ingest import stretches as module
from jobs.ingest.ingest import ingest
from jobs.ingest.ingested import Ingested
from jobs.ingest.stretches import Stretch, can_be_cut
from namesrv_wire.packets.columns import Headers, read_columns
from namesrv_wire.servers.carry import are_alike
from namesrv_wire.servers.outline import Outline
from namesrv_wire.servers.transcript import Transcript
from schemas import bronze
from tests.examples import first_quick
from tests.ingest.compare_bronze import rows_of
from tests.ingest.given import CAPTURE, content, house_at, packets
from tests.wire.test_columns import HEAD, ONE, WHOLE
from tools.fleet.asking import Traffic
from tools.fleet.capture import capture
from tools.fleet.fleet import Fleet

P = TypeVar("P")
R = TypeVar("R")
_PACKETS = 6_000


def tables(warehouse: Path) -> dict[str, list[tuple[str, ...]]]:
    """Return all that the bronze tables say, but which run read it and when a file was changed."""
    return {
        table.name: sorted(zip(*(map(repr, column.to_pylist()) for column in of.columns), strict=True))
        for table in bronze.TABLES
        if (of := plain(rows_of(warehouse, table))) is not None
    }


def plain(rows: pa.Table) -> pa.Table:
    """Return rows without what differs from run to run."""
    return rows.drop_columns([name for name in rows.column_names if name in ("ingest_run", "read_at")])


def told(read: Ingested) -> dict[str, object]:
    """Return what a run counts."""
    return dataclasses.asdict(read)


def one_after_the_other(task: Callable[[P], R], work: Iterable[P], _width: int) -> Iterator[R]:
    """Do what tasks do, here."""
    yield from map(task, work)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have captures of some hundred kilobytes be cut."""
    monkeypatch.setattr("namesrv_wire.packets.columns.CHUNK_BYTES", 1 << 15)
    monkeypatch.setattr("namesrv_wire.servers.outline.READ_BEFORE_END", 60)
    monkeypatch.setattr(module, "STRETCH_BYTES", 1 << 17)
    monkeypatch.setattr("jobs.ingest.writing._LARGE_BYTES", 1 << 12)
    monkeypatch.setattr("jobs.ingest.writing._PART_BYTES", 1 << 15)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tasks' work done in this process."""
    monkeypatch.setattr(module, "done", one_after_the_other)
    monkeypatch.setattr("jobs.ingest.writing.done", one_after_the_other)


@pytest.fixture
def guesses(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return which beginnings of stretches are guessed right, as they are found out."""
    found: list[bool] = []

    def noted(*given: object) -> bool:
        found.append(are_alike(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(module, "are_alike", noted)
    return found


def both(folder: Path, paths: list[Path], width: int = 2) -> tuple[Ingested, Ingested]:
    """Read files by one task and by several into two warehouses; everything is equal."""
    read = []
    for name, of in (("one", 1), ("several", width)):
        read.append(ingest(house_at(folder / name, "run"), [str(path) for path in paths], width=of))
        assert read[-1].unaccounted == 0
    assert told(read[0]) == told(read[1])
    assert tables(folder / "one") == tables(folder / "several")
    return read[0], read[1]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("width", [2, 7])
def test_so_many_processes_read_the_same(tmp_path: Path, guesses: list[bool], width: int) -> None:
    """Rows, ids, positions, counts and what stays open are those of one task, and nearly every guess is right."""
    read, _ = both(tmp_path, [CAPTURE], width)
    assert read.observations > 10_000
    assert len(guesses) > 10
    assert sum(guesses) > 0.8 * len(guesses)


@pytest.mark.slow
@pytest.mark.usefixtures("small", "here")
def test_what_goes_on_does_not_seem_silent(tmp_path: Path, guesses: list[bool]) -> None:
    """Of connections that live for a day, with a packet now and then, it is known when they were heard: each guess is right."""
    file, day = tmp_path / "day.pcap", dt.date(2026, 1, 1)
    capture(Fleet(day, brokers=2, namesrvs=1), Traffic(clients=1), [day], [file], tmp_path / "truth.jsonl")
    ingest(house_at(tmp_path / "house", "run"), [str(file)], width=2)
    assert len(guesses) > 50
    assert all(guesses)


@pytest.mark.usefixtures("small", "here")
@pytest.mark.parametrize("seed", first_quick(*range(6)))
def test_a_capture_may_be_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Rotated files of any size, packed or not, each cut into stretches of any size, say what one reading says."""
    rng = random.Random(seed)
    monkeypatch.setattr(module, "STRETCH_BYTES", rng.choice([1 << 14, 1 << 16, 3 << 16]))
    monkeypatch.setattr("namesrv_wire.packets.columns.CHUNK_BYTES", rng.choice([1 << 12, 1 << 14, 1 << 16]))
    cuts = [0, *sorted(rng.sample(range(1, _PACKETS), rng.choice([0, 1, 3]))), _PACKETS]
    packing: list[Callable[[bytes], bytes]] = [gzip.compress, bytes]
    paths = []
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        pack = rng.choice(packing)
        paths.append(tmp_path / f"{rng.random()}-{number}.pcap")
        paths[-1].write_bytes(pack(packets(first, last)))
    both(tmp_path, paths)


@pytest.mark.usefixtures("small", "here")
@pytest.mark.parametrize("misses", first_quick(3, 1, 1_000))
def test_a_wrong_guess_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guesses: list[bool], misses: int
) -> None:
    """If nothing is known of where stretches begin, all is read again, and after some of them one task reads on alone."""

    def nothing(_self: Outline, _headers: Headers, _source_file: str, *, is_end: bool) -> None:
        assert is_end in (True, False)

    monkeypatch.setattr(Outline, "look_through", nothing)
    monkeypatch.setattr(module, "_MISSES", misses)
    path = tmp_path / "a.pcap"
    path.write_bytes(packets(0, _PACKETS))
    both(tmp_path, [path])
    assert not any(guesses)
    assert len(guesses) == misses if misses < 5 else len(guesses) > 5


@pytest.mark.slow
@pytest.mark.usefixtures("small", "here")
def test_nights_go_on_where_the_last_one_ended(tmp_path: Path, guesses: list[bool]) -> None:
    """What a night made on the strength of what was known is taken back or kept as by one task, and no frame counts twice."""
    parts = [(0, 2_500), (2_500, 2_501), (2_501, _PACKETS)]
    for name, width in (("one", 1), ("several", 2)):
        for number, (first, last) in enumerate(parts):
            path = tmp_path / f"{number}.pcap"
            path.write_bytes(packets(first, last))
            read = ingest(house_at(tmp_path / name, f"run{number}"), [str(path)], width=width)
            assert read.unaccounted == 0
    assert tables(tmp_path / "one") == tables(tmp_path / "several")
    assert any(guesses)


@pytest.mark.usefixtures("small", "here")
@pytest.mark.parametrize("damage", first_quick("cut", "length", "zeros", "torn", "cut packed"))
def test_damage_is_what_it_was(tmp_path: Path, damage: str) -> None:
    """Behind a length that lies, in a file that ends early or a torn gzip member, as much is read, with the same words."""
    data = packets(0, _PACKETS)
    at = 2 * len(data) // 3
    path = tmp_path / "a.pcap"
    if damage == "torn":
        packed = gzip.compress(data)
        path.write_bytes(packed[: len(packed) // 2])
    elif damage == "cut packed":
        path.write_bytes(gzip.compress(data[:-7]))
    else:
        changed = {"cut": data[:at], "length": data[:at] + b"\xff" * 9 + data[at:], "zeros": data + bytes(5)}
        path.write_bytes(changed[damage])
    read, _ = both(tmp_path, [path])
    assert read.errors


@pytest.mark.usefixtures("small", "here")
@pytest.mark.parametrize("seed", first_quick(*range(8)))
def test_losses_copies_and_another_order_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Packets that are lost, come twice, late, cut, overlap or lie are read as by one task, wherever stretches begin."""
    rng = random.Random(seed)
    monkeypatch.setattr(module, "STRETCH_BYTES", 1 << 16)
    monkeypatch.setattr("namesrv_wire.packets.columns.CHUNK_BYTES", 1 << 13)
    found = WHOLE[:3_000]
    for _ in range(60):
        at, kind, number = (
            rng.randrange(len(found) - 50),
            rng.choice(["lose", "copy", "late", *ONE]),
            rng.randrange(200),
        )
        if kind == "lose":
            del found[at]
        elif kind in ("copy", "late"):
            found.insert(at + (rng.randrange(50) if kind == "late" else 1), found[at])
        elif len(found[at]) > 90:
            found[at] = ONE[kind](found[at], number)
    path = tmp_path / "a.pcap"
    path.write_bytes(HEAD + b"".join(found))
    both(tmp_path, [path])


@pytest.mark.usefixtures("small", "here")
@pytest.mark.parametrize("change", first_quick("shrinks", "grows"))
def test_a_file_that_changes_under_its_readers_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """What a task no longer finds is an error; a file that changes does not count as read, and no row is there twice."""
    path = tmp_path / "a.pcap"
    whole = packets(0, _PACKETS)
    path.write_bytes(packets(0, _PACKETS - 9) if change == "grows" else whole)
    read_stretch = module.read_stretch

    def changed(stretch: Stretch) -> module.ReadStretch:
        if stretch.number == 2:
            path.write_bytes(whole if change == "grows" else whole[: stretch.start[1] + 99])
        return read_stretch(stretch)

    monkeypatch.setattr(module, "read_stretch", changed)
    read = ingest(house_at(tmp_path / "w", "run"), [str(path)], width=2)
    assert read.unaccounted == 0
    assert any(f"it {change} while it is read" in error for error in read.errors)
    path.write_bytes(whole)
    assert ingest(house_at(tmp_path / "w", "again"), [str(path)]).known_sources == []
    ingest(house_at(tmp_path / "one", "run"), [str(path)])
    assert content(tmp_path / "w") == content(tmp_path / "one")


def test_states_that_read_on_alike() -> None:
    """What a provisional row was, and beats of earlier microseconds, are no difference; an open request is one."""
    transcript = Transcript()
    for some in read_columns(CAPTURE):
        transcript.feed_all(some, "a")
    now, (name, server) = transcript.carry(), next(iter(transcript._servers.items()))
    server.ledger.provisional = {"x": "heartbeats"}
    connection = next(iter(server.connections.values()))
    connection.times = {904: (server.last_packet_ns // 1_000, 0)}
    assert are_alike(now, transcript.carry(), server.last_packet_ns // 1_000 + 1)
    assert not are_alike(now, transcript.carry(), server.last_packet_ns // 1_000)
    connection.times = {}
    connection.reverse[7] = 40
    assert not are_alike(now, transcript.carry(), 0)
    assert not are_alike(now, {name: now[name], "10.0.0.9:1": now[name]}, 0)


def test_small_files_and_other_forms_are_read_by_one(tmp_path: Path) -> None:
    """Only a large pcap that shows each packet once is cut."""
    large = 3 * module.STRETCH_BYTES
    path = tmp_path / "a.pcap"
    path.write_bytes(packets(0, 10))
    assert not can_be_cut(path, path.stat().st_size)
    assert can_be_cut(path, large)
    path.write_bytes(packets(0, 10)[:20] + (113).to_bytes(4, "little") + packets(0, 10)[24:])
    assert not can_be_cut(path, large)
    path.write_bytes(b"\x0a\x0d\x0d\x0a" + bytes(60))
    assert not can_be_cut(path, large)
