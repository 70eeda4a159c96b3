"""A published warehouse that is damaged: one sentence with the file and the remedy, code 8, and nothing is published."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from jobs.__main__ import main
from jobs.errors import EXIT_OK, EXIT_TAMPERED, EXIT_UNPUBLISHED, EXIT_USAGE, LedgerBehindError, TamperedError
from jobs.store.check import check
from jobs.store.places import table_path
from jobs.store.published import LAST_RUN
from schemas import bronze, gold
from schemas.table import Table
from tests.ingest.given import warehouse_at
from tests.night.nights import Nights, heads, night
from tests.night.three_days import DAYS, beat, write_log

QUEUES, CONFIGS, SOURCES = gold.TOPIC_QUEUE_HISTORY, bronze.TOPIC_CONFIGS_TABLE, bronze.SOURCES
TOUCHING = ["ask", "table-at", "topicQueueTable", f"{DAYS[-1]} 11:00"]
ELSEWHERE = ["ask", "sql", "SELECT count(*) FROM findings"]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unprepared")]


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return write_log(tmp_path, DAYS[-1].replace(day=4), [beat("12:00:00")])


def said(capsys: pytest.CaptureFixture[str], warehouse: Path, *words: object) -> tuple[int, str]:
    """Run a command; return its exit code and the last line on standard error. No command shows a stack."""
    capsys.readouterr()
    code = main([*map(str, words), "--warehouse", str(warehouse)])
    lines = capsys.readouterr().err.splitlines()
    assert not any("Traceback" in line for line in lines)
    return code, lines[-1] if lines else ""


def nightly(capsys: pytest.CaptureFixture[str], warehouse: Path, log: Path) -> tuple[int, str]:
    """Run a night on a new log; if it is refused, nothing is published."""
    before = last_run(warehouse)
    code, line = said(capsys, warehouse, "nightly", "--in-process", "--input", log)
    assert code == EXIT_OK or last_run(warehouse) == before
    return code, line


def last_run(warehouse: Path) -> str | None:
    path = warehouse / LAST_RUN
    return path.read_text(encoding="utf-8") if path.is_file() else None


def log_of(warehouse: Path, table: Table, number: int = -1) -> Path:
    """Return a commit of a table's log, by default the last."""
    return sorted(Path(table_path(str(warehouse), table), "_delta_log").glob("*.json"))[number]


def data_of(warehouse: Path, table: Table, day: dt.date | None = None) -> Path:
    """Return a published data file; of a history that of its open intervals."""
    files = warehouse_at(warehouse).published_files(table, None if day is None else [day])
    return Path(table_path(str(warehouse), table), files[-1 if table.has_intervals else 0].path)


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rewrite(path: Path, column: str, change: Callable[[Any], Any]) -> None:
    """Have other values in a column of a data file, under the log's back."""
    found = pq.read_table(path, partitioning=None)
    field = found.schema.field(column)
    values = pa.array([change(value) for value in found[column].to_pylist()], field.type)
    pq.write_table(found.set_column(found.schema.get_field_index(column), field, values), path)


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "plainly"),
    [
        (lambda w: data_of(w, QUEUES, DAYS[-1]).unlink(), EXIT_TAMPERED),
        (lambda w: tear(data_of(w, QUEUES, DAYS[-1])), EXIT_TAMPERED),
        (lambda w: log_of(w, QUEUES).unlink(), EXIT_OK),
        (lambda w: shutil.rmtree(log_of(w, QUEUES).parent), EXIT_OK),
    ],
    ids=["data file gone", "data file torn", "commit gone", "log gone"],
)
def test_a_file_that_is_gone_or_torn_is_named(
    copied: Path,
    nights: Nights,
    more: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    plainly: int,
) -> None:
    """`check`, a question that is verified and a night say which table and what helps; questions of other tables are answered.

    So does a night with nothing new to read. A plain question is answered of the files that the last run published, which the
    file beside the tables names: the log it does not read.
    """
    damage(copied)
    assert said(capsys, copied, *TOUCHING)[0] == plainly
    verified = said(capsys, copied, *TOUCHING, "--verified")
    asked = (verified, nightly(capsys, copied, nights.logs[-1]), nightly(capsys, copied, more))
    for code, line in asked:
        assert code == EXIT_TAMPERED
        assert line.startswith("namesrv-history: topic_queue_history: ")
        assert "from a backup" in line
    assert said(capsys, copied, "check")[0] == EXIT_TAMPERED
    assert said(capsys, copied, *ELSEWHERE) == (EXIT_OK, "")


def test_maintenance_of_a_table_that_is_behind_deletes_nothing(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of a commit that is gone look like files that nobody names; with it back, all is there."""
    kept = log_of(copied, QUEUES)
    text = kept.read_bytes()
    kept.unlink()
    code, line = said(capsys, copied, "maintain")
    assert (code, str(kept) in line) == (EXIT_TAMPERED, True)
    kept.write_bytes(text)
    assert check(warehouse_at(copied)).wrong == []


def test_a_half_copied_warehouse_is_refused(copied: Path, more: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether the ledger, a gold table or a bronze one did not come along: nothing is read into it, or published."""
    whole = copied.rename(copied.with_name("whole"))
    for missing in ("gold", "gold/runs", "gold/findings", "bronze/heartbeats", "bronze/sources"):
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(whole, copied)
        shutil.rmtree(copied / missing)
        assert nightly(capsys, copied, more)[0] == EXIT_TAMPERED, missing
        assert said(capsys, copied, "check")[0] == EXIT_TAMPERED, missing


# -- values ----------------------------------------------------------------------------------------------------------


def test_values_rewritten_in_place_are_found_by_whoever_verifies(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question answers what lies there; `--verified` holds the tables that it touches against the ledger first."""
    rewrite(data_of(copied, QUEUES, DAYS[-1]), "perm", lambda _: 2)
    assert said(capsys, copied, *TOUCHING) == (EXIT_OK, "")
    code, line = said(capsys, copied, *TOUCHING, "--verified")
    assert (code, "topic_queue_history of what is open " in line) == (EXIT_TAMPERED, True)
    assert said(capsys, copied, *ELSEWHERE, "--verified") == (EXIT_OK, "")


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("topics", lambda topics: [{**topic, "write_queue_nums": 99} for topic in topics]),
        ("topic_config_digest", lambda digest: digest[::-1]),
    ],
)
def test_a_topic_configuration_is_what_its_digest_says(
    copied: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    change: Callable[[Any], Any],
) -> None:
    """With other queue numbers, or without a table that a registration names, no day is replayed and nothing exported.

    That the file has another size, which a night would see first, is left aside: a size can be kept.
    """
    monkeypatch.setattr("jobs.store.check.require_files", lambda *_: None)
    for file in warehouse_at(copied).published_files(CONFIGS):
        rewrite(Path(table_path(str(copied), CONFIGS), file.path), column, change)
    with pytest.raises(TamperedError, match=r"topic_configs: .*topic_configs does not hold what was read as"):
        night(copied, first=DAYS[0], last=DAYS[0])
    assert said(capsys, copied, "export", "--output", tmp_path / "out.jsonl")[0] == EXIT_TAMPERED
    (wrong,) = check(warehouse_at(copied)).wrong
    assert wrong.startswith("topic_configs: ")


def test_rows_taken_out_of_a_small_table_are_refused_with_what_brings_them_back(
    copied: Path, more: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`sources` at an earlier version, by a commit that is not ours: files would be read again. A new version of ours would do."""
    version = DeltaTable(table_path(str(copied), SOURCES)).version()
    DeltaTable(table_path(str(copied), SOURCES)).restore(version - 1)
    (wrong,) = check(warehouse_at(copied)).wrong
    assert wrong == "sources: rows that were there are gone or changed"
    code, line = nightly(capsys, copied, more)
    assert (code, line.endswith(f"TO VERSION AS OF {version}")) == (EXIT_TAMPERED, True)
    DeltaTable(table_path(str(copied), SOURCES)).restore(version)
    assert nightly(capsys, copied, more)[0] == EXIT_OK


# -- the ledger ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["its last commit", "all of it"])
def test_a_ledger_that_is_behind_says_so(
    copied: Path, more: Path, capsys: pytest.CaptureFixture[str], gone: str
) -> None:
    """What was published yesterday is not shown as today's: everybody refuses, and names the run that is missing."""
    run_id = json.loads(last_run(copied) or "")["run_id"]
    last = log_of(copied, gold.RUNS)
    if gone == "all of it":
        shutil.rmtree(last.parent.parent)
    else:
        last.unlink()
    for words in (["check"], TOUCHING, ELSEWHERE, ["maintain"], ["nightly", "--in-process", "--input", more]):
        code, line = said(capsys, copied, *words)
        assert code == EXIT_TAMPERED
        assert f"gold/runs: lacks run {run_id}, published at " in line
        assert line.endswith(f"if an older state was brought back on purpose, delete {LAST_RUN}")
    (copied / LAST_RUN).unlink()
    assert said(capsys, copied, *ELSEWHERE)[0] == (EXIT_UNPUBLISHED if gone == "all of it" else EXIT_OK)


def test_a_ledger_with_other_rows_is_found(copied: Path, more: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the run's name is still in it: `check`, and who verifies, follow the chain, a night looks at the file's bytes."""
    (file, *_) = sorted(Path(table_path(str(copied), gold.RUNS)).glob("*.parquet"))
    rewrite(file, "code_version", lambda _: "9")
    for words in (["check"], [*ELSEWHERE, "--verified"], ["nightly", "--in-process", "--input", more], ["maintain"]):
        code, line = said(capsys, copied, *words)
        is_said = "gold/runs: its rows are not those that were published" in line or "its bytes are not those" in line
        assert (code, "gold/runs" in line, is_said) == (EXIT_TAMPERED, True, True), words


def test_a_note_that_nobody_has_written_is_refused(copied: Path) -> None:
    """Half a note is damage, too; without one the ledger is believed, and the next night writes it."""
    (copied / LAST_RUN).write_text('{"run_id', encoding="utf-8")
    with pytest.raises(LedgerBehindError, match=f"{LAST_RUN}: cannot be read"):
        warehouse_at(copied).ledger()
    (copied / LAST_RUN).unlink()
    head = heads(copied)
    warehouse_at(copied).start_from_published()
    assert (heads(copied), len(json.loads(last_run(copied) or "")["sha256"])) == (head, 64)


# -- where it lies ---------------------------------------------------------------------------------------------------


def test_a_warehouse_may_lie_anywhere_and_keeps_to_the_umask(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever characters its path has a night publishes, and what it made is checked, asked and maintained."""
    folder = tmp_path / "a $HOME b'c\"d größe-中文 [x]{y} #?&;=,`"
    before = os.umask(0o077)
    try:
        for words in (
            ["nightly", "--in-process", "--input", nights.logs[0]],
            ["check"],
            ["ask", "table-at", "topicQueueTable", f"{DAYS[0]} 10:01", "--verified"],
            ["maintain"],
        ):
            assert said(capsys, folder, *words)[0] == EXIT_OK, words
    finally:
        os.umask(before)
    made = [path.stat() for path in folder.rglob("*")]
    assert {stat.S_IMODE(one.st_mode) for one in made} == {0o600, 0o700}


@pytest.mark.parametrize("name", ["per%20cent", "back\\slash"])
def test_a_path_that_delta_would_misread_is_refused(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Its reader takes an escape for a character: such a folder is named before anything is made."""
    for words in (["nightly", "--in-process", "--input", nights.logs[0]], ELSEWHERE):
        code, line = said(capsys, tmp_path / name, *words)
        assert (code, "Delta cannot read below a folder with" in line) == (EXIT_USAGE, True)
    assert not (tmp_path / name).exists()
