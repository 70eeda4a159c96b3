"""Maintenance on tiny tables: rows stay, what runs have pinned stays readable, and the rest goes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.errors import BrokenLogError, NoLongerReadableError, TamperedError
from jobs.store import maintain as maintenance
from jobs.store.delta_log import Version, commits_of, head_of
from jobs.store.files import read_files
from jobs.store.ledger import Run
from jobs.store.maintain import is_readable, log_before, maintain, oldest_versions
from jobs.store.places import table_path
from jobs.store.published import require_kept
from namesrv_day.arrow import Digest, digests_by, sum_of
from schemas import gold
from schemas.table import DATE, INT, STRING, Column, Table
from tests.store.tiny import linked, opened, somebody_appends, warehouse_at, write

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.timezone.utc)
FACTS = Table(
    "facts",
    "gold",
    "one fact",
    (Column("name", STRING, "Name"), Column("value", INT, "Value"), Column("day", DATE, "Day")),
    key=("name",),
)
NOTES = Table("notes", "gold", "one note", FACTS.columns, key=("name",), partition_by=())


def night(path: Path, number: int) -> dict[str, int]:
    """Write the two days up to `number` days from the first, and publish; return the versions that the run has pinned."""
    warehouse = warehouse_at(path, f"run-{number}", NOW - dt.timedelta(days=70 - 10 * number))
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=number - back) for back in (1, 0)]
    warehouse.replace(FACTS, days, [write(warehouse, FACTS, day, {"name": f"{day}", "value": number}) for day in days])
    warehouse.change(NOTES, [write(warehouse, NOTES, None, {"name": f"{days[1]}", "value": number, "day": days[1]})])
    warehouse.commit()
    versions = {table.name: head_of(warehouse.path, table) for table in (FACTS, NOTES)}
    said = {"status": "published", "gate": "passed", "finished_time": warehouse.started, "versions": versions}
    warehouse.note_run([], said)
    return versions


def run_of(number: int, versions: Mapping[str, int]) -> Run:
    """Return a run that has pinned these versions."""
    return Run(f"run-{number}", NOW, [], versions, {}, {}, "", "", {})


def _require_kept(path: Path, run: Run) -> None:
    ledger = Version(str(path), gold.RUNS, head_of(str(path), gold.RUNS))
    require_kept(ledger.delta, run.run_id, run.versions)


def digests_at(path: Path, versions: Mapping[str, int]) -> dict[str, Digest]:
    """Return the digests of the tables' rows at these versions."""
    files = {table: Version(str(path), table, versions[table.name]).files() for table in (FACTS, NOTES)}
    return {table.name: sum_of(digests_by(read_files(str(path), table, of)).values()) for table, of in files.items()}


def ledger(path: Path) -> list[str]:
    """Return the rows of the ledger as text."""
    return sorted(map(str, warehouse_at(path).rows(gold.RUNS).to_pylist()))


class Maintained(NamedTuple):
    """A warehouse of four nights, of which the last two are within the retention, and what maintenance did to it.

    `pinned` and `digests`: by night; `planned`: what the dry run said; `touched`: whether it changed a file.
    """

    path: Path
    pinned: list[dict[str, int]]
    digests: list[dict[str, Digest]]
    ledger: list[str]
    planned: maintenance.Maintained
    touched: bool
    done: maintenance.Maintained


@pytest.fixture(scope="module", autouse=True)
def tables() -> object:
    """Maintain the made-up tables only."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maintenance, "_ALL_TABLES", (FACTS, NOTES, gold.RUNS))
        yield


@pytest.fixture(scope="module")
def maintained(tmp_path_factory: pytest.TempPathFactory) -> Maintained:
    """Write four nights, maintain them dry, and then really."""
    path = tmp_path_factory.mktemp("maintained")
    pinned = [night(path, number) for number in range(1, 5)]
    digests = [digests_at(path, versions) for versions in pinned]
    rows = ledger(path)
    (path / "_staging" / "run-crashed").mkdir(parents=True)
    (path / "_staging" / "run-crashed" / "rows.parquet").write_bytes(b"x")
    (Path(table_path(str(path), FACTS)) / "day=2026-01-01" / "of-a-dead-run.parquet").write_bytes(b"x")
    files = sorted(path.rglob("*"))
    planned = maintain(warehouse_at(path, "dry", NOW), retain_days=45, dry_run=True)
    touched = sorted(path.rglob("*")) != files
    shares = list[float]()
    done = maintain(warehouse_at(path, "care", NOW), 45, lambda count, of: shares.append(count / of))
    assert shares == sorted(set(shares))
    assert shares[0] == 0.0 < shares[-1] < 1.0
    return Maintained(path, pinned, digests, rows, planned, touched, done)


@pytest.mark.slow
def test_what_the_kept_runs_have_pinned_reads_as_before(maintained: Maintained) -> None:
    """The versions of the last two nights, and the ledger, say what they said; what crashed runs left is gone."""
    kept = [digests_at(maintained.path, versions) for versions in maintained.pinned[2:]]
    assert kept == maintained.digests[2:]
    assert ledger(maintained.path) == maintained.ledger
    assert (maintained.done.readable, maintained.done.runs) == (2, 4)
    assert maintained.done.staging == ["run-crashed"]
    assert not (maintained.path / "_staging").exists()
    assert not list(maintained.path.rglob("of-a-dead-run.parquet"))
    _require_kept(maintained.path, run_of(3, maintained.pinned[2]))


def test_what_only_older_runs_had_pinned_is_gone_and_said_to_be(maintained: Maintained) -> None:
    """A reader of the second night is told why; the files of the first are deleted, or the test before would be blind."""
    with pytest.raises(NoLongerReadableError, match=r"run run-2 is older than .*: facts is readable from version 2 on"):
        _require_kept(maintained.path, run_of(2, maintained.pinned[1]))
    with pytest.raises(TamperedError, match=r"facts: cannot be read: .*run-1-"):
        digests_at(maintained.path, maintained.pinned[0])
    care = maintained.done.by_table["facts"]
    # ... of which the dry run knows all but the checkpoint and the commits that maintenance itself makes.
    assert care.files > care.files_after == maintained.planned.by_table["facts"].files_after


def test_small_files_of_a_table_become_one_with_the_same_rows(maintained: Maintained) -> None:
    """Four appends are one file now, with the same rows; readers of the last run still read the four."""
    head = head_of(str(maintained.path), NOTES)
    assert len(Version(str(maintained.path), NOTES, head).files()) == 1
    assert digests_at(maintained.path, {**maintained.pinned[-1], "notes": head}) == maintained.digests[-1]
    assert len(Version(str(maintained.path), NOTES, maintained.pinned[-1]["notes"]).files()) == 4
    assert maintained.done.by_table["notes"].compacted_days == 1
    (commit,) = commits_of(str(maintained.path), NOTES, head - 1, head)
    assert (commit.run_id, commit.days, len(commit.removed)) == ("care", frozenset(), 4)


def test_a_dry_run_changes_no_file(maintained: Maintained) -> None:
    """It says what would be compacted and deleted, and leaves every file of the warehouse in its place."""
    assert not maintained.touched
    assert maintained.planned.total.compacted_days == maintained.done.total.compacted_days
    assert maintained.planned.staging == ["run-crashed"]


def test_delta_itself_never_cleans_a_table_of_ours(maintained: Maintained) -> None:
    """Neither its log by age, nor, for 400 days, files by a VACUUM; a longer retention is noted in the table."""
    known = opened(maintained.path, FACTS).metadata().configuration
    assert known["delta.enableExpiredLogCleanup"] == "false"
    for name in ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration"):
        assert known[name] == "interval 400 days"


def test_a_longer_retention_brings_nothing_back(maintained: Maintained, tmp_path: Path) -> None:
    """What an earlier maintenance deleted is still said to be gone, and the next one does not ask the log for it."""
    path = linked(maintained.path, tmp_path / "w")
    for _ in range(2):
        again = maintain(warehouse_at(path, "again", NOW), retain_days=500)
        assert (again.readable, again.runs) == (2, 4)
        with pytest.raises(NoLongerReadableError, match="run run-2 is older"):
            _require_kept(path, run_of(2, maintained.pinned[1]))
    assert opened(path, FACTS).metadata().configuration["delta.logRetentionDuration"] == "interval 500 days"


def test_a_night_goes_on_from_compacted_files(maintained: Maintained, tmp_path: Path) -> None:
    """A second maintenance commits nothing; the next run adds to the files, and the pinned version before stays readable."""
    path = linked(maintained.path, tmp_path / "w")
    heads = [head_of(str(path), table) for table in (FACTS, NOTES, gold.RUNS)]
    maintain(warehouse_at(path, "again", NOW), retain_days=45)
    assert [head_of(str(path), table) for table in (FACTS, NOTES, gold.RUNS)] == heads
    after = night(path, 5)
    assert len(Version(str(path), NOTES, after["notes"]).files()) == 2
    assert digests_at(path, maintained.pinned[-1]) == maintained.digests[-1]


def test_compaction_that_changes_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is committed or deleted."""
    for number in range(1, 5):
        night(tmp_path, number)
    numbers = iter(range(1_000))
    monkeypatch.setattr(maintenance, "digests_by", lambda _: {(): Digest(next(numbers), 0, 0)})
    files = sorted(tmp_path.rglob("*.json"))
    with pytest.raises(TamperedError, match="compaction has changed rows of notes"):
        maintain(warehouse_at(tmp_path, "care", NOW), retain_days=45)
    assert sorted(tmp_path.rglob("*.json")) == files


@pytest.mark.slow
def test_rows_that_somebody_else_brought_are_maintained_alike(tmp_path: Path) -> None:
    """Files with other names and encodings are put together with ours."""
    night(tmp_path, 1)
    rows = warehouse_at(tmp_path).rows(NOTES)
    for _ in range(4):
        somebody_appends(tmp_path, NOTES, rows)
    maintain(warehouse_at(tmp_path, "care", NOW))
    warehouse = warehouse_at(tmp_path)
    assert (len(warehouse.files(NOTES)), warehouse.rows(NOTES).num_rows) == (1, 5)


def test_a_log_with_a_hole_is_refused(tmp_path: Path) -> None:
    """Without the commit that says what it removed, nobody knows which files an older version needs."""
    for number in range(1, 5):
        night(tmp_path, number)
    (Path(table_path(str(tmp_path), FACTS)) / "_delta_log" / f"{2:020d}.json").unlink()
    assert [commit.version for commit in commits_of(str(tmp_path), FACTS, 2, 3)] == [3]
    with pytest.raises(BrokenLogError, match="facts: no commit 2 in the log, and version 1 before it is pinned"):
        list(commits_of(str(tmp_path), FACTS, 1, 3))


def test_the_oldest_version_to_keep_is_that_of_the_oldest_kept_run_table_by_table() -> None:
    """A run within the retention keeps all its versions; without one, the last published keeps its own."""
    runs = [
        (NOW - dt.timedelta(days=90), {"a": 1, "b": 1}),
        (NOW - dt.timedelta(days=30), {"a": 7, "b": 2}),
        (NOW - dt.timedelta(days=1), {"a": 9, "b": 2, "c": 0}),
    ]
    assert oldest_versions(runs, NOW - dt.timedelta(days=31)) == {"a": 7, "b": 2, "c": 0}
    assert oldest_versions(reversed(runs), NOW) == {"a": 9, "b": 2, "c": 0}
    assert oldest_versions([], NOW) == {}
    assert is_readable({"a": 9, "d": 0}, {"a": 9, "b": 3})


@pytest.mark.parametrize(("oldest", "first_kept"), [(0, 0), (9, 0), (10, 10), (19, 10), (20, 20), (25, 20)])
def test_the_log_keeps_a_checkpoint_from_which_the_oldest_version_can_be_rebuilt(oldest: int, first_kept: int) -> None:
    """What goes lies before the last checkpoint up to the oldest version."""
    log = {f"{number:020d}.json": (number, "json") for number in range(26)}
    log |= {f"{number:020d}.checkpoint.parquet": (number, "checkpoint.parquet") for number in (10, 20)}
    assert log_before(log, oldest) == {name for name, (number, _) in log.items() if number < first_kept}
