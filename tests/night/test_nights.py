"""Night after night: what a night reads and recomputes, and what the ledger says."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pytest

from jobs.conf import NamesrvConf, PipelineConf
from jobs.errors import MissingDayError
from jobs.night import night as days_module
from jobs.night.night import holes
from jobs.night.nightly import Summary, gold_digests
from jobs.store.check import check
from jobs.store.maintain import maintain
from jobs.store.published import LAYOUT
from jobs.store.warehouse import DATA_TABLES
from namesrv_day.arrow import Slice
from schemas import bronze, gold
from tests.ingest.given import NAMESRV, warehouse_at
from tests.night.nights import Nights, digests, heads, night, restatements, rows, topics
from tests.night.three_days import DAYS, FOURTH, LOGS, beat, write_log

# -- cost and result do not depend on the cut --------------------------------------------------------------------------


def test_three_nights_give_the_tables_of_one(nights: Nights, tmp_path: Path) -> None:
    """Each night recomputes its own day, and the day before only where more is known of its end; the tables are equal."""
    assert [said.days for said in nights.summaries] == [["2026-03-01"], ["2026-03-02"], ["2026-03-02", "2026-03-03"]]
    at_once = night(tmp_path, *nights.logs)
    last = nights.summaries[-1]
    assert at_once.days == [day.isoformat() for day in DAYS]
    assert last.digests == at_once.digests
    assert last.tables == at_once.tables
    assert last.restated == 0, "a day that goes on is told to its end, and not restated"


def test_digests_put_together_are_those_of_the_whole_tables(nights: Nights) -> None:
    """The digests that three nights have added up, and the numbers of rows, equal those of all rows."""
    found = digests(nights.path, DATA_TABLES)
    assert nights.summaries[-1].digests == gold_digests(found)
    told = nights.summaries[-1].tables
    assert told == {table.name: len(rows(nights.path, table)) for table in (*bronze.TABLES, *DATA_TABLES)}


def test_a_repeated_run_changes_nothing(nights: Nights, copied: Path) -> None:
    """Inputs that were read before give no new version of any table, the ledger's neither, and the last run's numbers."""
    before, last = heads(copied), nights.summaries[-1]
    again = night(copied, *nights.logs)
    assert (again.status, again.days, again.last_run) == ("nothing_to_do", [], nights.summaries[-1].run_id)
    assert (again.digests, again.tables, again.verify) == (last.digests, last.tables, last.verify)
    assert (again.settings, again.namesrvs) == (last.settings, last.namesrvs)
    assert heads(copied) == before


def test_events_that_come_again_in_another_file_change_nothing(nights: Nights, copied: Path, tmp_path: Path) -> None:
    """What is written down otherwise but says the same recomputes no day, also when it comes with something new."""
    same = write_log(tmp_path, DAYS[0], [dict(sorted(line.items())) for line in LOGS[0]])
    again = night(copied, same)
    assert (again.status, again.frames, again.duplicates, again.days) == ("nothing_to_do", 3, 3, [])
    assert again.digests == nights.summaries[-1].digests
    assert night(copied, write_log(tmp_path, FOURTH, [beat("12:00:00")])).days == [FOURTH.isoformat()]


def test_a_night_on_nothing_publishes_nothing(tmp_path: Path) -> None:
    """No file, no day, no table."""
    empty = tmp_path / "empty"
    empty.mkdir()
    said = night(tmp_path / "w", empty)
    assert (said.status, said.frames, said.digests) == ("nothing_to_do", 0, {})
    assert heads(tmp_path / "w") == {}


def test_the_ledger_says_what_was_read_and_written(nights: Nights) -> None:
    """A run's row names its parent, the events it read, the slices it started from and wrote, and outcomes by name."""
    runs = sorted(rows(nights.path, gold.RUNS), key=lambda row: str(row["run_id"]))
    first, second, _ = runs
    assert (second["parent_run"], second["layout"], len(second["sources"])) == (first["run_id"], LAYOUT, 1)
    assert (second["status"], second["gate"], second["days"]) == ("published", "passed", [DAYS[1]])
    read = {(cut["table"], cut["day"]) for cut in second["inputs"]}
    assert {("heartbeats", DAYS[1]), ("registrations", DAYS[1]), ("topic_queue_history", None)} <= read
    assert {cut["day"] for cut in second["outputs"]} == {DAYS[1], None}
    counts = dict(second["counts"])
    assert {name: counts[f"outcome.{name}"] for name in ("applied", "refreshed")} == {"applied": 1, "refreshed": 2}
    assert (counts["frames"], counts["events"], counts["duplicates"]) == (3, 3, 0)


def test_a_backfill_stops_where_nothing_changes_any_more(nights: Nights, copied: Path) -> None:
    """Asked for one day, a night recomputes that day only, since it ends as it did, and publishes the same tables."""
    again = night(copied, first=DAYS[0], last=DAYS[0])
    assert (again.status, again.days, again.restated) == ("published", ["2026-03-01"], 0)
    assert again.digests == nights.summaries[-1].digests
    assert night(copied, first=DAYS[1]).days == ["2026-03-02", "2026-03-03"]


def test_another_configuration_recomputes_every_day(copied: Path, tmp_path: Path) -> None:
    """Once there is something to do; what is other than it was published is a restatement that names the configuration."""
    conf = PipelineConf(namesrvs={NAMESRV: NamesrvConf(version="4.9.7")})
    again = night(copied, write_log(tmp_path, FOURTH, [beat("12:00:00")]), conf=conf)
    assert again.days == [day.isoformat() for day in (*DAYS, FOURTH)]
    assert again.namesrvs == {NAMESRV: "4.9.7"}
    told = restatements(copied)
    assert {row["day"] for row in told} == set(DAYS)
    assert {row["cause"] for row in told} == {"configuration"}


def test_another_version_of_this_software_recomputes_every_day(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has changed in it; what comes out the same is no restatement."""
    monkeypatch.setattr(days_module, "__version__", "9.9")
    again = night(copied, write_log(tmp_path, FOURTH, [beat("12:00:00")]))
    assert (again.days, again.restated) == ([day.isoformat() for day in (*DAYS, FOURTH)], 0)


# -- what readers see --------------------------------------------------------------------------------------------------


def test_readers_see_what_an_earlier_run_said(nights: Nights) -> None:
    """By the versions that it pinned: broker-b's topic was there when nobody knew of the third day."""
    at, (_, second, third) = "2026-03-02 23:59:59", nights.summaries
    assert topics(nights.path, at) == topics(nights.path, at, third.run_id) == ["T", "T-2"]
    assert topics(nights.path, at, second.run_id) == ["T", "T-2", "U", "U-2"]
    assert [len(rows(nights.path, bronze.HEARTBEATS, run)) for run in (second.run_id, third.run_id)] == [2, 3]


def test_what_earlier_runs_said_is_kept_as_long_as_is_asked(
    nights: Nights, fourth: Summary, copied: Path, tmp_path: Path
) -> None:
    """Maintenance changes no row that a run has pinned within its retention, and the next night goes on from what it left."""
    before = {said.run_id: topics(copied, "2026-03-02 23:59:59", said.run_id) for said in nights.summaries[1:]}
    done = maintain(warehouse_at(copied, "care"))
    assert (done.readable, done.runs) == (3, 3)
    assert {run: topics(copied, "2026-03-02 23:59:59", run) for run in before} == before
    assert check(warehouse_at(copied)).wrong == []
    again = night(copied, write_log(tmp_path, FOURTH, [beat("12:00:00")]))
    assert (again.days, again.digests) == ([FOURTH.isoformat()], fourth.digests)
    maintain(warehouse_at(copied, "more-care"), 0)
    assert check(warehouse_at(copied)).wrong == []


# -- days --------------------------------------------------------------------------------------------------------------


def test_a_day_without_events_is_named(copied: Path, tmp_path: Path) -> None:
    """A day that was asked for, and on which nothing is recorded, ends the run with what there is."""
    with pytest.raises(MissingDayError, match=r"2026-03-07; recorded: 3 day\(s\), 2026-03-01 to 2026-03-03"):
        night(copied, first=dt.date(2026, 3, 7))
    with pytest.raises(MissingDayError, match="on 2026-03-07; nothing is recorded at all"):
        night(tmp_path / "new", last=dt.date(2026, 3, 7))


def test_holes_are_found_between_recorded_days() -> None:
    """Per name server; where a recording begins is no hole, and what earlier runs read fills one."""
    day = dt.date(2026, 3, 9)
    read = [Slice("heartbeats", day, NAMESRV), Slice("registrations", day, "new:1"), Slice("findings", day, "x:1")]
    earlier = [Slice("heartbeats", day - dt.timedelta(days=3), NAMESRV), Slice("quarantine", day, None)]
    assert holes(read, earlier) == [
        f"hole: nothing of {NAMESRV} is recorded on 2026-03-07 to 2026-03-08, but on 2026-03-06 and 2026-03-09"
    ]
    assert holes(read[:1], [Slice("route_observations", day - dt.timedelta(days=1), NAMESRV)]) == []


def test_a_hole_is_told_and_filled(nights: Nights, tmp_path: Path) -> None:
    """Of a day that is missing between others the night warns; when it comes after all, all is as if read in time."""
    path = Path(shutil.copytree(nights.first, tmp_path / "w"))
    assert nights.summaries[0].warnings == []
    gap = night(path, nights.logs[2])
    assert gap.warnings == [f"hole: nothing of {NAMESRV} is recorded on 2026-03-02, but on 2026-03-01 and 2026-03-03"]
    filled = night(path, nights.logs[1])
    assert (filled.days, filled.warnings) == (["2026-03-02", "2026-03-03"], [])
    assert filled.digests == nights.summaries[-1].digests


def test_a_day_on_which_nobody_beats_is_a_day(nights: Nights, tmp_path: Path) -> None:
    """Only an administrator is heard of: he finds what was there the day before."""
    path = Path(shutil.copytree(nights.first, tmp_path / "w"))
    wipe = {"kind": "admin", "time": "11:00:00", "code": 205, "broker_name": "broker-a", "response_code": 0}
    said = night(path, write_log(tmp_path, DAYS[1], [wipe]))
    assert said.days == [DAYS[1].isoformat()]
    assert topics(path, "2026-03-02 12:00:00") == ["T", "T-2"]
    (outcome,) = (row for row in rows(path, gold.EVENT_OUTCOMES) if row["day"] == DAYS[1])
    assert (outcome["outcome"], outcome["changes"]) == ("applied", 2)
