"""Attestations: an instant rebuilt event by event, held against what is published, and verified later."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.ask.tables import FUNCTIONS
from jobs.audit.attestation import Json, attest
from jobs.errors import EXIT_OK, EXIT_TAMPERED, EXIT_USAGE, NotRecordedError
from tests.ingest.given import FIRST
from tests.ingest.given import NAMESRV as LATE_NAMESRV
from tests.night.nights import Capture, Nights, night
from tests.night.test_late import LATE, ORDERLY, run
from tests.night.three_days import DAYS, LOGS, NAMESRV, write_log

SERVER = "127.0.0.1:9876"
TIMES = ["08:55:40", "08:57:12.345678", "08:58:00", "09:00:01.5", "09:03:00", "09:05:59.9"]


def attested(warehouse: Path, at: str, namesrv_id: str = SERVER, tables: Sequence[str] = tuple(FUNCTIONS)) -> Json:
    """Return the attestation of an instant."""
    return attest(Answers(str(warehouse)), namesrv_id, dt.datetime.fromisoformat(f"{at}+00:00"), list(tables))


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run `audit` and return its exit code and what it said."""
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


# -- rebuilding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", TIMES)
def test_every_table_follows_from_the_events_at_any_instant(whole: Capture, time: str) -> None:
    """Rows, since when they are so, and the events behind them, in all six tables; orders are decided as published."""
    made = attested(whole.path, f"2026-11-21T{time}")
    assert made["wrong"] == []
    assert all(table["sha256"] == table["published_sha256"] for table in made["tables"].values())
    assert len(made["tables"]["brokerLiveTable"]["rows"]) > 0
    assert made["events"]["applied"] > 10
    assert {one["setting"]: one["value"] for one in made["settings"]}["version"] == "4.9.7"


@pytest.mark.parametrize(
    "time", ["01T10:00:30", "01T23:59", "02T23:58:30", "02T23:59:59.999999", "03T00:00", "03T11:59", "03T12:00"]
)
def test_the_registry_goes_on_over_midnight(nights: Nights, time: str) -> None:
    """A lease of a month, a scan before midnight, a day of one heartbeat: one registry through all of it."""
    made = attested(nights.path, f"2026-03-{time}", NAMESRV)
    assert made["wrong"] == []
    brokers = [row[1] for row in made["tables"]["brokerAddrTable"]["rows"]]
    assert brokers == (
        [] if time == "01T10:00:30" else ["broker-a", "broker-b"] if time == "02T23:58:30" else ["broker-a"]
    )


@pytest.mark.parametrize("time", ["03T12:00:00.000001", "03T13:00", "09T00:00"])
def test_beyond_the_last_thing_that_was_read_nothing_is_attested(nights: Nights, time: str) -> None:
    """Whatever a lease would still allow: what happened then is not recorded."""
    with pytest.raises(NotRecordedError, match=r"recorded is 2026-03-01T10:00:00Z to 2026-03-03T12:00:00Z$"):
        attested(nights.path, f"2026-03-{time}", NAMESRV)


@pytest.mark.slow
def test_the_registry_goes_on_over_a_day_without_an_event(tmp_path: Path) -> None:
    """Nobody recorded the second day: the tables before, within and after it follow from the events."""
    night(tmp_path / "w", *(write_log(tmp_path, DAYS[day], LOGS[day]) for day in (0, 2)))
    for time in ("01T10:01", "01T23:59", "02T12:00", "03T00:00", "03T12:00"):
        made = attested(tmp_path / "w", f"2026-03-{time}", NAMESRV)
        assert made["wrong"] == [], time
        assert [row[1] for row in made["tables"]["brokerAddrTable"]["rows"]] == ["broker-a"], time


@pytest.mark.slow
def test_a_snapshot_can_be_what_it_starts_from(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer events are applied, and the tables are the same; an attestation of it wants the same file again."""
    state, file = tmp_path / "state.json", tmp_path / "a.json"
    where = ["--warehouse", nights.path]
    words = ["snapshot", NAMESRV, "--at", "2026-03-02T12:00:00Z", "--output", state, *where]
    assert main([*map(str, words)]) == EXIT_OK
    asked = ["--at", "2026-03-03T12:00", "--namesrv", NAMESRV, *where]
    code, told, _ = ran(capsys, *asked, "--snapshot", state, "--output", file)
    assert (code, "as published" in told) == (EXIT_OK, True)
    assert (
        json.loads(file.read_text())["events"]["applied"]
        < attested(nights.path, "2026-03-03T12:00", NAMESRV)["events"]["applied"]
    )
    assert ran(capsys, "--check", file, *where)[0] == EXIT_USAGE
    assert ran(capsys, "--check", file, "--snapshot", state, *where)[0] == EXIT_OK
    early = ran(capsys, "--at", "2026-03-01T13:00", "--namesrv", NAMESRV, "--snapshot", state, *where)
    assert (early[0], "later than the instant" in early[2]) == (EXIT_USAGE, True)


# -- what an attestation shows -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_published_slice_that_does_not_follow_is_found(
    whole: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody rewrites a permission in a data file: the row is shown from both sides, and the exit code says so."""
    shutil.copytree(whole.path, tmp_path / "w")
    rewritten(tmp_path / "w", "gold/topic_queue_history", "perm", 1)
    made = attested(tmp_path / "w", "2026-11-21T08:58:00")
    perms = {(row[1], row[2]): row[5] for row in made["tables"]["topicQueueTable"]["rows"]}
    differences = made["tables"]["topicQueueTable"]["differences"]
    assert {row[5] for row in differences["only_published"]} == {1}
    assert all(row[5] == perms[row[1], row[2]] for row in differences["only_replayed"])
    words = ["--table", "topic_queue", "--at", "2026-11-21 08:58", "--namesrv", SERVER, "--warehouse", tmp_path / "w"]
    code, told, said = ran(capsys, *words)
    assert (code, json.loads(told)["tables"].keys()) == (EXIT_TAMPERED, {"topicQueueTable"})
    assert "43 row(s) follow from the events and are not published" in said


def test_events_that_are_not_those_that_were_read_are_found(whole: Capture, tmp_path: Path) -> None:
    """The slice's digest is another one than the ledger's, even where the tables come out the same."""
    shutil.copytree(whole.path, tmp_path / "w")
    rewritten(tmp_path / "w", "bronze/registrations", "ha_server_addr", "192.0.2.1:1")
    made = attested(tmp_path / "w", "2026-11-21T08:58:00", tables=["kvConfigTable"])
    (sentence,) = made["wrong"]
    assert sentence.startswith("registrations of 2026-11-21: its rows have digest 128-")


@pytest.mark.slow
def test_an_attestation_is_verified_and_what_was_changed_is_named(
    whole: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same inputs give the same tables; a changed attestation, and a changed warehouse, do not pass."""
    shutil.copytree(whole.path, tmp_path / "w")
    file, where = tmp_path / "a.json", ["--warehouse", tmp_path / "w"]
    assert ran(capsys, "--at", "2026-11-21 16:58+08:00", "--namesrv", SERVER, "--output", file, *where)[0] == EXIT_OK
    code, told, _ = ran(capsys, "--check", file, *where)
    assert (code, "verified" in told) == (EXIT_OK, True)

    made = json.loads(file.read_text())
    assert made["sources"][0]["content_sha256"] == "5ed30709b37a8f38cd15816525b3c16958916996dabed9d0a9e00ef309150798"
    made["tables"]["topicQueueTable"]["rows"][0][5] = 2
    (tmp_path / "forged.json").write_text(json.dumps(made))
    code, _, said = ran(capsys, "--check", tmp_path / "forged.json", *where)
    assert (code, "was changed" in said) == (EXIT_TAMPERED, True)

    rewritten(tmp_path / "w", "gold/kv_config_history", "opened_by", "another")
    code, _, said = ran(capsys, "--check", file, *where)
    assert (code, "tables of kvConfigTable" in said, "inputs" in said) == (EXIT_TAMPERED, True, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "2026-11-21T08:58", "--namesrv", "10.9.9.9:1"], "no such name server; there are 127.0.0.1:9876"),
        (["--at", "2026-11-21T08:58"], "--namesrv"),
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


# -- what an earlier report said -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_late_events_changed_in_an_earlier_report_is_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of then and now side by side, with the event that made the difference; both reports can be attested."""
    first = run(tmp_path / "w", "orderly", ORDERLY)
    run(tmp_path / "w", "late", LATE)
    noon = f"{FIRST + dt.timedelta(days=1)}T12:00:00Z"
    words = ["restated", "topicQueueTable", noon, "--warehouse", str(tmp_path / "w"), "--format", "json"]
    assert main(["ask", *words, "--as-known-at", first.run_id]) == EXIT_OK
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["said"], row["topic"], row["perm"]) for row in told] == [
        ("then", "T", 6),
        ("now", "T", 4),
        ("then", "V", 6),
        ("now", "V", 4),
    ]
    (late,) = {event for row in told for event in row["late_events"]}
    assert {(row["broker_name"], row["changed_by"], row["cause"]) for row in told} == {("broker-b", late, "events")}
    assert main(["ask", *words]) == EXIT_USAGE

    for known_at in (None, first.run_id):
        answers = Answers(str(tmp_path / "w"), known_at)
        made = attest(
            answers, LATE_NAMESRV, dt.datetime.fromisoformat(noon.replace("Z", "+00:00")), ["topicQueueTable"]
        )
        perms = {row[2]: row[5] for row in made["tables"]["topicQueueTable"]["rows"]}
        assert (made["wrong"], perms["broker-b"]) == ([], 6 if known_at else 4)
    assert night(tmp_path / "w").status == "nothing_to_do"
