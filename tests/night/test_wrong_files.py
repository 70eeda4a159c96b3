"""Wrong files among the right ones: a night leaves them out and names them, and what it and later nights publish is as without."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.conf import PipelineConf
from jobs.errors import EXIT_INPUT, EXIT_NO_INPUT, EXIT_OK, EXIT_UNPUBLISHED, EXIT_USAGE
from jobs.ingest import sources, staging
from jobs.ingest.ingest import ingest
from jobs.night.nightly import Summary
from jobs.passes import InProcess
from jobs.store.check import check
from jobs.store.places import read_locked
from schemas import bronze, gold
from schemas.rules import RULES
from schemas.table import Rule
from tests.ingest.given import warehouse_at
from tests.night.nights import Capture, Nights, night, nightly, rows
from tests.night.three_days import DAYS, FOURTH, MONTH_MS, beat, registration, write_log

BAD = "broker-x"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ungated")]


@pytest.fixture
def _no_broker_x(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a critical rule that one broker's rows in a gold table break."""
    rule = Rule("is_not_x", f"broker_name <> '{BAD}'", "No broker is called so.")
    monkeypatch.setitem(RULES, "broker_addr_history", (*RULES["broker_addr_history"], rule))


def broken_log(path: Path, lines: int = 300) -> Path:
    path.write_text("".join(f'{{"broken": {number}}}\n' for number in range(lines)), encoding="utf-8")
    return path


def some_days(folder: Path) -> list[Path]:
    logs = [[registration("broker-a", "10:00:00", "T", MONTH_MS)], [beat("10:00:00")]]
    logged = [write_log(folder, day, lines) for day, lines in zip(DAYS[:2], logs, strict=True)]
    return [*logged, write_log(folder, DAYS[1], [beat("11:00:00")], "-later")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a warehouse that has read these logs and no others, and what its night has said."""
    folder = tmp_path_factory.mktemp("alone")
    return Capture(folder / "w", night(folder / "w", *some_days(folder)))


class Dying(InProcess):
    """A runner whose tasks cannot go on with the rows of one name server."""

    def each(self, task: Any, work: Sequence[Any]) -> list[Any]:
        """See `Passes`."""
        groups = (group for group in work if isinstance(group, tuple))
        if any(getattr(of, "namesrv_id", None) == "10.0.0.66:9876" for group in groups for of in group):
            raise KeyError("no such thing")
        return super().each(task, work)


# -- files that break rules ----------------------------------------------------------------------------------------------


def test_two_wrong_files_among_many_are_left_out(alone: Capture, tmp_path: Path) -> None:
    """The rest is published as if they had not been there, on this night and on the next."""
    (tmp_path / "in").mkdir()
    logs = some_days(tmp_path / "in")
    broken_log(tmp_path / "in" / "0-wrong.jsonl")
    # Of the same name as a good one: files are judged, not names.
    (tmp_path / "in" / "other").mkdir()
    broken_log(tmp_path / "in" / "other" / logs[1].name, 150)
    said = night(tmp_path / "w", tmp_path / "in")
    assert (said.status, said.digests, said.frames) == ("published", alone.summary.digests, alone.summary.frames)
    assert [error.split(" ")[0] for error in sorted(said.errors)] == ["0-wrong.jsonl:", f"other/{logs[1].name}:"]
    fourth = write_log(tmp_path / "in", FOURTH, [beat("12:00:00")])
    path = Path(shutil.copytree(alone.path, tmp_path / "alone"))
    again, right = night(tmp_path / "w", tmp_path / "in"), night(path, fourth)
    assert (again.days, again.digests, len(again.errors)) == ([FOURTH.isoformat()], right.digests, 2)
    assert check(warehouse_at(tmp_path / "w")).wrong == []


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_a_url_of_a_file_is_its_path(tmp_path: Path, scheme: str) -> None:
    """Of an input, and of a warehouse, for who writes and for who asks."""
    log = write_log(tmp_path, DAYS[0], [registration("broker-a", "10:00:00", "T", MONTH_MS)])
    path = f"{scheme}{tmp_path}/w"
    assert main(["nightly", "--in-process", "--input", f"{scheme}{log}", "--warehouse", path]) == EXIT_OK
    assert sorted(of.name for of in tmp_path.iterdir()) == [log.name, "w"]
    assert main(["ask", "findings", "--warehouse", path]) == EXIT_OK


def test_a_log_to_which_a_shipper_has_added_a_field_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which names the field and says what to do with it: an optional field that is mistyped would silently be its default."""
    said = [{**beat(f"10:{minute:02}:{second:02}"), "hostname": "h"} for minute in range(2) for second in range(60)]
    assert nightly(tmp_path / "w", "--input", write_log(tmp_path, DAYS[0], said)) == EXIT_INPUT
    (told,) = [line for line in capsys.readouterr().out.splitlines() if "hostname" in line]
    assert "120 of 120" in told
    assert "unknown field 'hostname': it may be a mistyped one of docs/event-log.md; take out what" in told


def test_a_file_whose_name_is_not_utf8_is_left_out(alone: Capture, tmp_path: Path) -> None:
    """Named so that it can be found, as is a folder that leads to it; the others are published."""
    folder = tmp_path / "in"
    folder.mkdir()
    some_days(folder)
    Path(os.fsdecode(b"%b/b\xe4d.jsonl" % os.fsencode(folder))).write_text("{}\n", encoding="utf-8")
    deep = Path(os.fsdecode(b"%b/d\xe4ep" % os.fsencode(folder)))
    deep.mkdir()
    (deep / "good.jsonl").write_text("{}\n", encoding="utf-8")
    said = night(tmp_path / "w", folder)
    assert (said.status, said.digests) == ("published", alone.summary.digests)
    assert said.errors == [
        rf"{folder}/{name}: cannot be read: this path is not UTF-8: rename it"
        for name in (r"b\xe4d.jsonl", r"d\xe4ep/good.jsonl")
    ]


@pytest.mark.usefixtures("_no_broker_x")
def test_files_with_which_the_gate_refuses_are_found_among_others(nights: Nights, copied: Path, tmp_path: Path) -> None:
    """Two of four, one of them of an earlier day: the others are published, and nothing is left of the two."""
    good = [write_log(tmp_path, FOURTH, [beat(f"{hour}:00:00")], f"-{hour}") for hour in (10, 12)]
    wrong = [
        write_log(tmp_path, FOURTH, [registration(BAD, "11:30:00", "X", MONTH_MS)], "-0"),
        write_log(tmp_path, DAYS[2], [registration(BAD, "13:30:00", "Y", MONTH_MS)], "-late"),
    ]
    said = night(copied, *good, *wrong)
    path = Path(shutil.copytree(nights.path, tmp_path / "alone"))
    alone = night(path, *good)
    assert (said.status, said.days, said.digests) == ("published", alone.days, alone.digests)
    reason = "refused: broker_addr_history.is_not_x"
    assert sorted(said.errors) == sorted(f"{file.name}: {reason}" for file in wrong)
    told = {(row["source_file"], row["verdict"]) for row in rows(copied, bronze.SOURCES)}
    assert {(file.name, "refused") for file in wrong} == {of for of in told if of[1] == "refused"}
    assert not [row for row in rows(copied, bronze.REGISTRATIONS) if row["broker_name"] == BAD]
    assert [row["status"] for row in rows(copied, gold.RUNS)] == ["published"] * 4
    assert check(warehouse_at(copied)).wrong == []


@pytest.mark.usefixtures("_no_broker_x")
def test_all_that_there_is_may_be_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The night says so (3), writes its summary, and the next one reads what is new."""
    wrong = write_log(tmp_path, DAYS[0], [registration(BAD, "10:00:00", "X", MONTH_MS)])
    assert nightly(tmp_path / "w", "--input", wrong, "--summary", tmp_path / "s.json") == EXIT_INPUT
    assert "refused: broker_addr_history.is_not_x" in (tmp_path / "s.json").read_text(encoding="utf-8")
    assert nightly(tmp_path / "w", "--input", wrong) == EXIT_INPUT
    good = write_log(tmp_path, DAYS[1], [registration("broker-a", "10:00:00", "T", MONTH_MS)])
    assert nightly(tmp_path / "w", "--input", good) == EXIT_OK
    assert "broker-x" not in capsys.readouterr().out


def test_a_file_with_which_the_replay_cannot_go_on_is_left_out(alone: Capture, tmp_path: Path) -> None:
    """What nobody has foreseen costs the file that it stands in; the rest of the night is published."""
    good = some_days(tmp_path)
    line = {**registration(BAD, "10:00:00", "X", MONTH_MS), "namesrv_id": "10.0.0.66:9876"}
    said = night(tmp_path / "w", *good, write_log(tmp_path, DAYS[1], [line], "-x"), passes=Dying())
    assert (said.digests, said.errors) == (alone.summary.digests, [f"{DAYS[1]}-x.jsonl: refused: 'no such thing'"])


def test_a_file_that_cannot_be_put_into_tables_is_left_out(
    alone: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody has foreseen while rows are written costs its file, too."""
    written = staging._refused

    def refused(staging: Any, table: Any, rows: Any) -> Any:
        if BAD in str(rows.to_pylist()):
            raise OverflowError("too large")
        return written(staging, table, rows)

    monkeypatch.setattr(staging, "_refused", refused)
    monkeypatch.setattr("jobs.passes.cores", lambda: 1)
    good = some_days(tmp_path)
    wrong = write_log(tmp_path, DAYS[1], [registration(BAD, "10:30:00", "X", MONTH_MS)], "-x")
    said = night(tmp_path / "w", *good, wrong)
    assert (said.digests, said.errors) == (alone.summary.digests, [f"{wrong.name}: refused: too large"])


def test_what_was_refused_can_be_looked_at_forgotten_and_given_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`refused` lists files with their reasons; one that is forgotten is read again, by the configuration of then."""
    path, wrong = tmp_path / "w", broken_log(tmp_path / "wrong.jsonl", 120)
    assert nightly(path, "--input", *some_days(tmp_path), wrong) == EXIT_INPUT
    capsys.readouterr()
    with read_locked(str(path)):
        assert main(["maintain", "--dry-run", "--warehouse", str(path)]) == EXIT_OK, "it changes nothing either"
        capsys.readouterr()
        assert main(["refused", "--warehouse", str(path)]) == EXIT_OK
    said = capsys.readouterr().out
    assert said.startswith("refused  ")
    assert "wrong.jsonl: 120 of 120 frames or lines are no events (bad_line 120; the first at 1: schema None" in said
    assert main(["refused", "--warehouse", str(path), "--forget", "nobody.jsonl"]) == EXIT_USAGE
    assert main(["refused", "--warehouse", str(path), "--forget", "wrong.jsonl"]) == EXIT_OK
    assert "No file was refused" in capsys.readouterr().out
    conf = PipelineConf(quarantine_frames_min=120)
    again = night(path, wrong, conf=conf)
    assert (again.quarantined, len(again.errors)) == (120, 1), "read this time; and not most of it could be"
    assert check(warehouse_at(path, conf=conf)).wrong == []


@pytest.mark.parametrize(
    "command", [["refused"], ["refused", "--unpublished"], ["maintain"], ["maintain", "--dry-run"]]
)
def test_a_folder_in_which_no_run_has_written_is_named(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelled warehouse is no clean one: the command ends as `check` does (6), and makes no folder."""
    path = tmp_path / "typo"
    assert main([*command, "--warehouse", str(path)]) == EXIT_UNPUBLISHED
    assert "no run has written here" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.usefixtures("_no_broker_x")
def test_what_was_read_by_hand_can_be_taken_back(copied: Path, tmp_path: Path, fourth: Summary) -> None:
    """A night that is refused for what `ingest` has left says so (4), until that is taken back."""
    wrong = write_log(tmp_path, FOURTH, [registration(BAD, "11:30:00", "X", MONTH_MS)])
    warehouse = warehouse_at(copied, "by-hand")
    warehouse.start_from_published()
    ingest(warehouse, [str(wrong)])
    for _ in range(2):
        said = night(copied)
        assert (said.status, said.gate.split(";")[0]) == ("refused", "broker_addr_history.is_not_x")
    assert main(["refused", "--warehouse", str(copied), "--unpublished"]) == EXIT_OK
    good = write_log(tmp_path, FOURTH, [beat("12:00:00")], "-good")
    assert night(copied, good).digests == fourth.digests
    assert check(warehouse_at(copied)).wrong == []


# -- files that cannot be read -------------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_told_as_long_as_it_lies_there(tmp_path: Path) -> None:
    """Nothing of a file, or not most of it: 3, every night until it is gone. A line that is wrong among many is none of that."""
    folder = tmp_path / "in"
    folder.mkdir()
    some_days(folder)
    with (folder / f"{DAYS[1]}.jsonl").open("a", encoding="utf-8") as file:
        file.writelines([f"{write_log(tmp_path, DAYS[1], [beat('10:00:01')]).read_text(encoding='utf-8')}", "{}\n"])
    assert nightly(tmp_path / "w", "--input", folder) == EXIT_OK
    wrong = {
        "empty.pcap": b"",
        "cut.pcap": bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000") + bytes(6),
        "nothing.jsonl.gz": gzip.compress(b""),
        "cut.jsonl.gz": gzip.compress(b'{"a": 1}\n' * 1_000)[:20],
        "notes.txt": b"not a capture\n",
        "few.jsonl": b'{"a": 1}\n' * 3,
    }
    for name, content in wrong.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "again").symlink_to(folder)
    names = {*wrong, "loop", "gone"}
    for number in range(2):
        summary = tmp_path / f"{number}.json"
        assert nightly(tmp_path / "w", "--input", folder, "--summary", summary) == EXIT_INPUT
        errors = json.loads(summary.read_text(encoding="utf-8"))["errors"]
        assert {name for name in names if any(name in error for error in errors)} == names
    for name in names:
        (folder / name).unlink()
    assert nightly(tmp_path / "w", "--input", folder) == EXIT_OK


def test_a_file_that_vanishes_meanwhile_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there when the folder was listed; the others are published, and it is named."""
    logs = some_days(tmp_path)
    listed = sources._files_below
    (tmp_path / "in").mkdir()
    for log in logs:
        shutil.move(log, tmp_path / "in")

    def vanishing(*given: Any) -> list[Path]:
        found = sorted(listed(*given))
        found[2].unlink(missing_ok=True)
        return found

    monkeypatch.setattr(sources, "_files_below", vanishing)
    said = night(tmp_path / "w", tmp_path / "in")
    assert (said.status, said.events) == ("published", 2)
    assert [f"{DAYS[1]}.jsonl" in error for error in said.errors] == [True]


def test_a_warehouse_below_its_input_is_not_read(tmp_path: Path) -> None:
    """Recordings and the warehouse may lie in one folder: what a run wrote is no recording of the next one."""
    (tmp_path / "in").mkdir()
    some_days(tmp_path / "in")
    first, again = (night(tmp_path / "in" / "w", tmp_path / "in") for _ in range(2))
    assert (first.status, first.errors) == ("published", [])
    assert (again.status, again.events, again.errors) == ("nothing_to_do", 0, [])


def test_an_input_folder_without_a_file_has_a_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mount that is not there leaves its folder: what other folders have is published, and the night says which has none."""
    (tmp_path / "mount" / "day").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    some_days(tmp_path / "in")
    assert nightly(tmp_path / "w", "--input", tmp_path / "mount") == EXIT_NO_INPUT
    said = capsys.readouterr()
    assert "No input: the folders that were given hold no files." in said.out
    assert "Data Docs" not in said.out, "there are none: nothing is published yet"
    assert "no pages" not in said.err
    assert nightly(tmp_path / "w", "--input", tmp_path / "in", tmp_path / "mount") == EXIT_NO_INPUT
    assert f"NO INPUT     input {tmp_path / 'mount'} holds no files" in capsys.readouterr().out
    assert rows(tmp_path / "w", gold.RUNS)[0]["status"] == "published"
    assert nightly(tmp_path / "w", "--input", tmp_path / "nowhere") == EXIT_USAGE
