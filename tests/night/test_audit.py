"""Attestations: what is published proved from what was recorded, at any instant, and verified later."""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobs.__main__ import main
from jobs.ask.engine import FUNCTIONS, Answers
from jobs.audit import attestation
from jobs.audit.attestation import Json
from jobs.cli.output import Console
from jobs.conf import NamesrvConf, PipelineConf
from jobs.errors import EXIT_OK, EXIT_TAMPERED, EXIT_USAGE, NotRecordedError, TamperedError
from jobs.store.check import check
from jobs.store.intervals import write_intervals
from namesrv_day.arrow import with_columns
from namesrv_day.content import rows_of_table
from namesrv_day.verify import verdicts
from schemas import bronze, gold
from tests.ingest.given import NAMESRV, warehouse_at
from tests.night.nights import Capture, Nights, audited, night, silent
from tests.night.three_days import DAYS, LOGS, write_log
from tests.places import CAPTURE, CHECKOUT

SERVER = "127.0.0.1:9876"
TIMES = ["08:55:40", "08:57:12.345678", "08:58:00", "09:00:01.5", "09:03:00", "09:05:59.9"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ungated")]


def attested(
    warehouse: Path, at: str, namesrv_id: str = SERVER, tables: Sequence[str] = tuple(FUNCTIONS), known_at: Any = None
) -> Json:
    instant = dt.datetime.fromisoformat(f"{at}+00:00")
    return audited(warehouse, (namesrv_id, instant), tables, known_at)


def again_from_events(warehouse: Path, folder: Path, conf: PipelineConf | None = None) -> tuple[Answers, Answers]:
    """Return a warehouse, and what a night from its recorded events alone makes of them."""
    answers = Answers(str(warehouse))
    attestation.linked(warehouse_at(warehouse), answers.known.run_id, folder)
    return answers, attestation.rerun(attestation.configured(answers, conf or PipelineConf()), folder, silent())


def tables_at(answers: Answers, at: str, namesrv_id: str) -> list[list[list[Any]]]:
    t = dt.datetime.fromisoformat(f"{at}+00:00")
    sql = "SELECT * FROM {}($t) WHERE namesrv_id = $id"
    return [rows_of_table(answers.table(sql.format(name), t=t, id=namesrv_id)).rows for name in FUNCTIONS.values()]


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["audit", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def rewritten(warehouse: Path, table: str, column: str, value: object) -> None:
    """Write another value into all rows of a table's files, past all logs."""
    for path in (warehouse / table).glob("*=*/*.parquet"):
        rows = pq.ParquetFile(path).read()
        at = rows.schema.get_field_index(column)
        values = [value] * rows.num_rows
        pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type)), path)


# -- from events, and from answers ---------------------------------------------------------------------------------------


def test_every_table_follows_from_the_events_at_any_instant(whole: Capture, tmp_path: Path) -> None:
    """A night from the recorded events alone gives all gold tables, and what readers see of the six tables at any time."""
    answers, again = again_from_events(whole.path, tmp_path)
    found = attestation.contents_differing(answers, again)
    assert [str(one) for one in found if not one.is_equal] == []
    assert sum(one.both for one in found) > 500
    for time in TIMES:
        rows = tables_at(answers, f"2026-11-21T{time}", SERVER)
        assert rows == tables_at(again, f"2026-11-21T{time}", SERVER)
        assert all(rows[number] for number in range(4))


def test_a_day_without_an_event_follows_from_those_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody recorded the second day: two nights, and one from the events alone, give the same.

    How far it is stands there from the first step, that asks again, to the last, that publishes.
    """
    told = list[tuple[float, int]]()
    monkeypatch.setattr(Console, "share", lambda _, done, of: told.append((done, of)))
    night(tmp_path / "w", *(write_log(tmp_path, DAYS[day], LOGS[day]) for day in (0, 2)))
    made = attested(tmp_path / "w", "2026-03-02T12:00", NAMESRV)
    assert made["wrong"] == []
    assert [row[1] for row in made["tables"]["brokerAddrTable"]["rows"]] == ["broker-a"]
    days, inputs = 2, len(bronze.TABLES)
    began = [*((number, days) for number in range(days)), *((number, inputs) for number in range(inputs))]
    from_here = told.index(began[-1]) - len(began) + 1
    assert told[from_here:][: len(began)] == began
    assert [part for part, of in told[from_here + len(began) :] if of == 3][-1] > 2


def test_every_recorded_answer_is_what_the_published_tables_say(whole: Capture) -> None:
    """13,990 of the bundled capture, asked of a registry that is rebuilt from what readers see: all are right."""
    again, told = attestation.asked_again(Answers(str(whole.path))), attestation.published(Answers(str(whole.path)))
    assert attestation.answers_differing(again, told) == []
    counts = attestation.summed(again)
    assert counts["answers"] == counts["matched"] == counts["same_bytes"] == 13_990


def test_what_a_night_was_told_of_a_name_server_is_believed(tmp_path: Path) -> None:
    """A version that was given on the command line: the attestation names it, and the night from the events alone has it."""
    conf = PipelineConf(namesrvs={NAMESRV: NamesrvConf("5.3.1", settings={"scan_period_ms": 7_000})})
    night(tmp_path / "w", write_log(tmp_path, DAYS[0], LOGS[0]), conf=conf)
    made = attested(tmp_path / "w", "2026-03-01T10:01", NAMESRV, ["kvConfigTable"])
    assert (made["wrong"], made["config_sha256"]) == ([], made["run"]["config_sha256"])
    assert {one["setting"]: one["value"] for one in made["given"]} == {"version": "5.3.1", "scan_period_ms": "7000"}


@pytest.mark.parametrize("time", ["03T12:00:00.000001", "03T13:00", "09T00:00"])
def test_beyond_the_last_thing_that_was_read_nothing_is_attested(nights: Nights, time: str) -> None:
    """Whatever a lease would still allow: what happened then is not recorded."""
    with pytest.raises(NotRecordedError, match=r"recorded: 2026-03-01T10:00:00Z to 2026-03-03T12:00:00Z$"):
        attested(nights.path, f"2026-03-{time}", NAMESRV)


# -- what is found -------------------------------------------------------------------------------------------------------


def test_what_was_forged_with_digests_that_fit_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run writes other rows than follow, and a ledger that says so: `check` finds nothing, the two proofs do, by day and key.

    No answer shows over which connection a broker registered: the night from the events does. A count of answers is found by both.
    """

    def forged(root: str, table: Any, rows: pa.Table, *others: Any) -> Any:
        if table is gold.BROKER_LIVE_HISTORY:
            rows = with_columns(rows, channel_id=pa.array(["192.0.2.1:1#1"] * rows.num_rows))
        return write_intervals(root, table, rows, *others)

    def miscounted(given: Any) -> dict[str, pa.Table]:
        found = verdicts(given)
        names, one = ("same_order", "same_bytes"), pc.cast(pc.equal(found["answer_checks"]["code"], 105), pa.int64())
        fewer = {name: pc.subtract(found["answer_checks"][name], one) for name in names}
        return {**found, "answer_checks": with_columns(found["answer_checks"], **fewer)}

    with monkeypatch.context() as lying:
        lying.setattr("jobs.night.replaying.write_intervals", forged)
        lying.setattr("jobs.night.replaying.verdicts", miscounted)
        night(tmp_path / "w", CAPTURE)
    assert check(warehouse_at(tmp_path / "w")).wrong == []
    made = attested(tmp_path / "w", "2026-11-21T08:58:00", tables=["brokerLiveTable"])
    (answers,) = (one for one in made["wrong"] if one.startswith("answers "))
    assert answers.startswith(f"answers of {SERVER} to 105 on 2026-11-21: published are ")
    (live,) = (one for one in made["wrong"] if one.startswith("broker_live_history: "))
    assert "55 row(s) follow from the events and are not published, 55 the other way" in live
    assert f"the first: day 2026-11-21, namesrv_id {SERVER}, " in live
    assert any(one.startswith("answer_checks: 1 row(s) follow") for one in made["wrong"])
    shown = made["contents"]["broker_live_history"]["differences"][0]
    assert shown["published"]["channel_id"] == "192.0.2.1:1#1" != shown["replayed"]["channel_id"]
    assert {row[7] for row in made["tables"]["brokerLiveTable"]["differences"]["only_published"]} == {"192.0.2.1:1#1"}


def test_a_row_that_was_rewritten_past_all_logs_is_found(
    whole: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody rewrites a permission in a data file: answers and events say otherwise, and the exit code says so."""
    shutil.copytree(whole.path, tmp_path / "w")
    rewritten(tmp_path / "w", "gold/topic_queue_history", "perm", 1)
    words = ["--table", "topic_queue", "--at", "2026-11-21 08:58", "--namesrv", SERVER, "--warehouse", tmp_path / "w"]
    code, told, said = ran(capsys, *words)
    assert (code, json.loads(told)["tables"].keys()) == (EXIT_TAMPERED, {"topicQueueTable"})
    table = json.loads(told)["tables"]["topicQueueTable"]
    assert (table["only_replayed"], table["only_published"]) == (43, 43)
    assert {row[5] for row in table["differences"]["only_published"]} == {1}
    assert f"answers of {SERVER} to 105 on 2026-11-21: published are " in said
    assert "topic_queue_history: 164 row(s) follow from the events and are not published" in said


def test_from_events_that_are_not_those_that_were_read_nothing_is_proved(whole: Capture, tmp_path: Path) -> None:
    """The slice's digest is another one than the ledger's: that is said, and nothing is attested."""
    shutil.copytree(whole.path, tmp_path / "w")
    rewritten(tmp_path / "w", "bronze/registrations", "ha_server_addr", "192.0.2.1:1")
    with pytest.raises(TamperedError, match=r"^registrations of 2026-11-21 .*: its rows have digest 128-"):
        attested(tmp_path / "w", "2026-11-21T08:58:00", tables=["kvConfigTable"])


def test_an_attestation_is_verified_and_what_was_changed_is_named(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same inputs give the same tables, compressed or not; a changed attestation, and a changed warehouse, do not pass."""
    copied = Path(shutil.copytree(nights.first, tmp_path / "w"))
    file, where = tmp_path / "a.json.gz", ["--warehouse", copied]
    assert ran(capsys, "--at", "2026-03-01 18:01+08:00", "--namesrv", NAMESRV, "--output", file, *where)[0] == EXIT_OK
    code, told, _ = ran(capsys, "--check", file, *where)
    assert (code, "verified" in told) == (EXIT_OK, True)

    made = json.loads(gzip.decompress(file.read_bytes()))
    (read,) = made["sources"]
    assert read["content_sha256"] == hashlib.sha256(nights.logs[0].read_bytes()).hexdigest()
    made["tables"]["topicQueueTable"]["rows"][0][5] = 2
    (tmp_path / "forged.json").write_text(json.dumps(made))
    code, _, said = ran(capsys, "--check", tmp_path / "forged.json", *where)
    assert (code, "was changed" in said) == (EXIT_TAMPERED, True)

    rewritten(copied, "gold/topic_queue_history", "opened_by", "another")
    code, _, said = ran(capsys, "--check", file, *where)
    assert (code, "tables of topicQueueTable" in said, "inputs of" in said) == (EXIT_TAMPERED, True, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "2026-11-21T08:58", "--namesrv", "10.9.9.9:1"], "no such name server; there are 127.0.0.1:9876"),
        (["--at", "2026-11-21T08:58"], "--namesrv"),
        (["--table", "topicQueueTable"], "--at TIME"),
        (["--at", "2026-11-21T08:58", "--namesrv", SERVER, "--table", "topics"], "expected one of topicQueueTable"),
        (["--check", "/nowhere/a.json"], "cannot be read"),
        (["--check", __file__], "cannot be read"),
    ],
)
def test_what_cannot_be_attested_is_said(
    whole: Capture, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and a sentence that says what there is."""
    code, _, told = ran(capsys, *words, "--warehouse", whole.path)
    assert code == EXIT_USAGE
    assert said in told


def test_a_verifier_that_knows_nothing_of_ours_gives_the_figure_of_the_day(whole: Capture) -> None:
    """It counts the answers that were recorded, and looks each route up in the published histories by itself."""
    command = [
        sys.executable,
        "-I",
        str(CHECKOUT / "examples" / "verify.py"),
        str(whole.path),
        "--capture",
        str(CAPTURE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2026-11-21 127.0.0.1:9876: 13,990 answers checked, 0 wrong, 0 unknown\n" in done.stdout
    assert "12,405 answers about routes looked up in the histories, 0 are other ones there\n" in done.stdout
