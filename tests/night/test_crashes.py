"""A night may die anywhere: readers see nothing of it, and the next one gives what it would have given.

One that is killed by SIGKILL: `torture kill`; several that die one after the other: `torture simulation`.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.night.nightly import Summary
from jobs.store.check import check
from jobs.store.published import HISTORY, LAST_RUN
from jobs.store.warehouse import DATA_TABLES
from schemas import bronze, gold
from tests.boundaries import at_steps
from tests.ingest.given import warehouse_at
from tests.night.nights import Nights, night, restatements, rows, topics
from tests.night.stock import run_of
from tests.night.three_days import DAYS, MONTH_MS, registration, write_log

AT, KNOWN, NEW = "2026-03-03 12:00:00", ["T", "T-2"], ["T", "T-2", "V", "V-2"]
pytestmark = pytest.mark.slow

READ = (bronze.REGISTRATIONS, bronze.TOPIC_CONFIGS_TABLE, bronze.SOURCES)
MADE = DATA_TABLES


def around(*steps: str) -> list[str]:
    return [f"{step}:{when}" for step in steps for when in ("before", "after")]


UNPUBLISHED = [
    *around("ingest", "condense", "replay"),
    "publish:before",
    *around(*(table.name for table in (*MADE, *READ))),
    "ledger:before",
    "runs:before",
]
GOES_ON = [f"{gold.TOPIC_QUEUE_HISTORY.name}:after", "runs:before"]
"""Of these some after which the next night is run: a part is committed, all but the ledger."""
PUBLISHED = ["runs:after", *around(HISTORY), "ledger:after", "publish:after"]


class Deaths(NamedTuple):
    """What the disk looked like at each point of a night, and what the night has said in the end."""

    disks: dict[str, Path]
    late: Path
    undisturbed: Summary
    restated: list[tuple[object, ...]]
    counts: dict[str, int]


@pytest.fixture(scope="module")
def deaths(nights: Nights, tmp_path_factory: pytest.TempPathFactory) -> Deaths:
    """Return what a night that reads a late registration leaves on the disk at each point, as a power cut would leave it."""
    folder = tmp_path_factory.mktemp("deaths")
    late = write_log(folder, DAYS[2], [registration("broker-c", "11:00:00", "V", MONTH_MS)], "-late")
    path, disks = Path(shutil.copytree(nights.path, folder / "w")), dict[str, Path]()

    def keep(point: str) -> None:
        # Files of a table are never written to again: a link is as good as a copy.
        disks[point] = Path(shutil.copytree(path, folder / point, copy_function=os.link))

    with pytest.MonkeyPatch.context() as patched:
        at_steps(patched, keep)
        undisturbed = night(path, late)
    return Deaths(disks, late, undisturbed, restated(path, undisturbed.run_id), counts(path))


def restated(path: Path, run_id: str) -> list[tuple[object, ...]]:
    told = restatements(path, run_id)
    return sorted((row["day"], row["table_name"], row["rows_before"], row["rows_after"], row["cause"]) for row in told)


def numbers(said: Summary) -> tuple[object, ...]:
    """Return what a night says of what it has read, and that it met no file that it knew."""
    told = (said.frames, said.events, said.observations, said.duplicates, said.quarantined, dict(said.ignored))
    return *told, said.sources, said.known_sources


def counts(path: Path) -> dict[str, int]:
    """Return what the ledger's last run says became of all that was read."""
    return dict(max(rows(path, gold.RUNS), key=lambda row: row["finished_time"])["counts"])


def test_the_points_are_all_that_there_are(deaths: Deaths) -> None:
    """Steps, every table that is committed, and the ledger: a night passes no other point."""
    assert list(deaths.disks) == [*UNPUBLISHED, *PUBLISHED]
    assert deaths.undisturbed.days == [DAYS[2].isoformat()]


def test_readers_see_nothing_of_a_night_that_died(deaths: Deaths) -> None:
    """Wherever that was; whatever it has left, `check` finds nothing wrong."""
    assert {point: topics(deaths.disks[point], AT) for point in UNPUBLISHED} == dict.fromkeys(UNPUBLISHED, KNOWN)
    assert check(warehouse_at(deaths.disks["runs:before"])).wrong == []


@pytest.mark.parametrize("point", GOES_ON)
def test_a_night_after_a_crash_gives_the_same_tables(deaths: Deaths, point: str) -> None:
    """The next one publishes what it would have, and counts each row once."""
    path, said = deaths.disks[point], deaths.undisturbed
    again = night(path, deaths.late)
    assert (again.days, again.digests, again.restated) == (said.days, said.digests, said.restated)
    assert (restated(path, again.run_id), topics(path, AT)) == (deaths.restated, NEW)
    assert (numbers(again), counts(path)) == (numbers(said), deaths.counts)
    assert check(warehouse_at(path)).wrong == []


@pytest.mark.parametrize("point", PUBLISHED)
def test_once_its_row_is_in_the_ledger_a_night_is_published(deaths: Deaths, point: str) -> None:
    """Nothing is left to do but the file for everybody with DuckDB, and the note of the last run, where these are not made yet."""
    path = deaths.disks[point]
    assert (topics(path, AT), check(warehouse_at(path)).wrong) == (NEW, [])
    again = night(path, deaths.late)
    assert (again.status, again.digests) == ("nothing_to_do", deaths.undisturbed.digests)
    noted = json.loads((path / LAST_RUN).read_text(encoding="utf-8"))["run_id"]
    assert run_of(path) == noted == deaths.undisturbed.run_id
