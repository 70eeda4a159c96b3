"""Warehouses that many tests start from. They are made once; what a test changes is a copy."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from jobs.cli import commands, pages
from jobs.cli.commands import export
from jobs.ingest.ingest import ingest
from jobs.night import gate
from jobs.night.nightly import Summary
from tests.ingest.given import warehouse_at
from tests.night.nights import ANSWERS, JOINED, Capture, Nights, counted, night
from tests.night.three_days import DAYS, FOURTH, LOGS, beat, write_log
from tests.places import CAPTURE, recorded

T = TypeVar("T")


def made_once(factory: pytest.TempPathFactory, make: Callable[[Path], T]) -> T:
    """Return what `make` makes in a folder of its own: the first process of the run that asks makes it, the others wait for it."""
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ
    folder = (factory.getbasetemp().parent if is_one_of_many else factory.getbasetemp()) / f"once-{make.__name__}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = folder / "told"
        if not told.exists():
            told.write_bytes(pickle.dumps(make(folder)))
        found: T = pickle.loads(told.read_bytes())
        return found


@pytest.fixture(scope="session")
def read_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse into which the bundled capture was read, and nothing more was done."""

    def capture_read_in(folder: Path) -> Path:
        assert ingest(warehouse_at(folder / "w", "read-in"), [str(CAPTURE)]).unaccounted == 0
        return folder / "w"

    return made_once(tmp_path_factory, capture_read_in)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    def whole_capture(folder: Path) -> Capture:
        return Capture(folder / "w", night(folder / "w", CAPTURE))

    return made_once(tmp_path_factory, whole_capture)


@pytest.fixture(scope="session")
def v5_lifecycle(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a warehouse that holds a capture of 5.4.0, of a real cluster."""

    def v5_capture(folder: Path) -> Capture:
        return Capture(folder / "w", night(folder / "w", recorded("v5-lifecycle/capture.pcap.gz"), conf=JOINED))

    return made_once(tmp_path_factory, v5_capture)


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a warehouse that holds a capture of two name servers, of which one has an address of IPv4 and one of IPv6."""

    def network_capture(folder: Path) -> Capture:
        return Capture(folder / "w", night(folder / "w", recorded("network/host.pcap.gz"), conf=JOINED))

    return made_once(tmp_path_factory, network_capture)


@pytest.fixture(scope="session")
def log_of_the_capture(read_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bundled capture as an event log."""

    def log_exported(folder: Path) -> Path:
        assert export(warehouse_at(read_in), folder / "whole.jsonl") > ANSWERS
        return folder / "whole.jsonl"

    return made_once(tmp_path_factory, log_exported)


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    def three_nights(folder: Path) -> Nights:
        logs = [write_log(folder, day, lines) for day, lines in zip(DAYS, LOGS, strict=True)]
        said = [night(folder / "w", logs[0])]
        first = Path(shutil.copytree(folder / "w", folder / "first", copy_function=os.link))
        return Nights(folder / "w", logs, [*said, *(night(folder / "w", log) for log in logs[1:])], first)

    return made_once(tmp_path_factory, three_nights)


@pytest.fixture(scope="session")
def fourth(nights: Nights, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Return what a night says that goes on from the three: on the fourth day broker-a beats at noon."""

    def fourth_night(folder: Path) -> Summary:
        shutil.copytree(nights.path, folder / "w", copy_function=os.link)
        return night(folder / "w", write_log(folder, FOURTH, [beat("12:00:00")]))

    return made_once(tmp_path_factory, fourth_night)


@pytest.fixture
def copied(nights: Nights, tmp_path: Path) -> Path:
    """Give a copy of the warehouse after the three nights, to be changed."""
    shutil.copytree(nights.path, tmp_path / "copied")
    return tmp_path / "copied"


@pytest.fixture
def unprepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands not load Great Expectations before they need it."""
    monkeypatch.setattr(commands, "prepare", lambda *_: None)


@pytest.fixture
def ungated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands not load Great Expectations at all, and write no pages: what is counted is judged without them."""
    monkeypatch.setattr(commands, "prepare", lambda *_: None)
    monkeypatch.setattr(pages, "write_pages", lambda *_: None)
    monkeypatch.setattr(gate, "validate", counted)
