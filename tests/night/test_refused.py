"""What a night refuses: rows that break rules, and rows on disk that are not what was published. Yesterday stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.errors import EXIT_BUSY, EXIT_GATE, EXIT_MISSING_DAY, EXIT_OK, EXIT_TAMPERED
from jobs.night.nightly import Summary
from jobs.store.places import locked, table_path
from jobs.store.warehouse import DATA_TABLES
from namesrv_day.arrow import table_of
from schemas import bronze, gold
from tests.ingest.given import warehouse_at
from tests.night.nights import Nights, digests, heads, night, nightly, rows
from tests.night.three_days import DAYS, FOURTH, LOGS, beat, write_log

AT = "2026-03-03 12:00:00"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unprepared")]


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return write_log(tmp_path, FOURTH, [beat("12:00:00")])


def opened(warehouse: Path, table: Any) -> DeltaTable:
    return DeltaTable(table_path(str(warehouse), table))


# -- the gate ----------------------------------------------------------------------------------------------------------


def test_a_broken_rule_keeps_the_gate_shut_until_it_holds(
    fourth: Summary, copied: Path, more: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refused run is in the ledger, with the rule and the Data Docs; once the row is gone a night publishes all.

    The row was brought by another tool: a heartbeat of the new day that lies on the day before.
    """
    wrong = warehouse_at(copied).rows(bronze.HEARTBEATS).to_pylist()[-1] | {
        "stated_id": "f" * 32,
        "day": FOURTH,
        "seq": 7,
    }
    stored = table_of([wrong], bronze.HEARTBEATS).select(bronze.HEARTBEATS.stored_schema.names)
    write_deltalake(opened(copied, bronze.HEARTBEATS), stored, mode="append")
    before = digests(copied, DATA_TABLES)
    summary = tmp_path / "summary.json"
    assert nightly(copied, "--input", more, "--summary", summary) == EXIT_GATE
    assert json.loads(summary.read_text(encoding="utf-8"))["status"] == "refused"
    said = capsys.readouterr().err
    assert "the quality gate refused: heartbeats." in said
    assert f"see {copied}/data_docs/index.html. Nothing was published." in said
    assert (copied / "data_docs" / "index.html").is_file()
    *_, refused = sorted(rows(copied, gold.RUNS), key=lambda row: str(row["finished_time"]))
    assert (refused["status"], refused["gate"].split(".")[0], refused["digests"]) == ("refused", "heartbeats", [])
    assert digests(copied, DATA_TABLES) == before
    opened(copied, bronze.HEARTBEATS).delete(f"stated_id = '{'f' * 32}'")
    again = night(copied, more)
    assert (again.days, again.digests) == ([FOURTH.isoformat()], fourth.digests)


# -- rows on disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "where", "named"),
    [
        (gold.BROKER_ADDR_HISTORY, "valid_to IS NULL", "what is open"),
        (bronze.HEARTBEATS, f"day = '{DAYS[1]}'", DAYS[1]),
    ],
)
def test_rows_that_somebody_else_changed_are_refused(
    nights: Nights, copied: Path, more: Path, capsys: pytest.CaptureFixture[str], table: Any, where: str, named: Any
) -> None:
    """A slice from which a night starts, or that a run has read, was written to: the error names it and what takes it back."""
    before = rows(copied, table)
    version = opened(copied, table).version()
    opened(copied, table).update({"broker_name": "'x'"}, predicate=where)
    head = heads(copied)
    assert nightly(copied, "--input", more) == EXIT_TAMPERED
    said = capsys.readouterr().err
    assert f"{table.name} of {named} (10.0.0.1:9876): its rows have digest " in said
    restore = f"RESTORE TABLE delta.`{table_path(str(copied), table)}` TO VERSION AS OF {version}"
    assert said.endswith(f"Version {version + 1} of the table is not ours; undo it with `sql`: {restore}\n")
    assert (rows(copied, table), heads(copied)) == (before, head)
    opened(copied, table).restore(version)
    again = night(copied, more)
    assert (again.status, again.days) == ("published", [FOURTH.isoformat()])
    assert {name for name, digest in again.digests.items() if digest != nights.summaries[-1].digests[name]} >= {
        "last_heartbeats"
    }


# -- what the shell sees -----------------------------------------------------------------------------------------------


def test_exit_codes_say_what_became_of_a_night(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to do, a day that is not recorded, a warehouse that is busy: each has its code and one sentence."""
    seen = write_log(tmp_path, DAYS[0], [dict(sorted(line.items())) for line in LOGS[0]])
    assert nightly(copied, "--input", seen) == EXIT_OK
    assert nightly(copied, "--from", "2026-03-07") == EXIT_MISSING_DAY
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("namesrv-history: nothing is recorded on 2026-03-07; recorded: 3 day(s)")
    with locked(str(copied)):
        assert nightly(copied, "--input", seen) == EXIT_BUSY
    assert "is writing to this warehouse" in capsys.readouterr().err
    assert nightly(copied, "--input", seen) == EXIT_OK
