"""Warehouses that many tests start from. They are made once; what a test changes is a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.cli import commands, pages
from jobs.cli.files import export
from jobs.ingest.ingest import ingest
from jobs.night import gate
from tests.night.nights import ANSWERS, CAPTURE, Capture, Nights, counted, night, warehouse_at
from tests.night.three_days import DAYS, LOGS, write_log


@pytest.fixture(scope="session")
def read_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse into which the bundled capture was read, and nothing more was done."""
    path = tmp_path_factory.mktemp("read-in") / "w"
    assert ingest(warehouse_at(path, "read-in"), [str(CAPTURE)]).unaccounted == 0
    return path


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    path = tmp_path_factory.mktemp("whole") / "w"
    return Capture(path, night(path, CAPTURE))


@pytest.fixture(scope="session")
def log_of_the_capture(read_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    assert export(warehouse_at(read_in), path) > ANSWERS
    return path


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    folder = tmp_path_factory.mktemp("nights")
    logs = [write_log(folder, day, lines) for day, lines in zip(DAYS, LOGS, strict=True)]
    return Nights(folder / "w", logs, [night(folder / "w", log) for log in logs])


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
    monkeypatch.setattr(gate, "judge", counted)
