"""What runs have changed is told once: run by run to whoever keeps a cursor, and to the hook of `nightly` whenever it is killed."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.ask.changes import NOTHING, Hook, changes, lines
from jobs.ask.engine import Answers
from jobs.cli.output import plain
from jobs.errors import EXIT_OK, EXIT_UNPUBLISHED, EXIT_UNTOLD, EXIT_USAGE, PublishedError
from schemas import asked, gold
from tests.night.nights import Nights, nightly
from tests.night.three_days import DAYS, MONTH_MS, registration, write_log

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ungated")]


def told(warehouse: Path, since: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the next cursor, and the changes."""
    cursor, found = changes(Answers(str(warehouse)), since)
    return cursor, [json.loads(line) for line in lines(found)]


def held(warehouse: Path) -> Counter[str]:
    """Return the rows of all interval tables, as JSON in which instants are as in any answer, each with its table."""
    answers, found = Answers(str(warehouse)), Counter[str]()
    for table in gold.INTERVAL_TABLES:
        columns = ", ".join(name for name in asked.stored()[table.name].columns if name != "closed_month")
        list(answers.ask(f"SELECT 1 FROM {table.name} LIMIT 1").rows)
        rows = answers.ask(f"SELECT {columns} FROM files.{table.name}").dicts()
        found.update(f"{table.name} {json.dumps(plain(row))}" for row in rows)
    return found


def applied(rows: Counter[str], said: list[dict[str, Any]]) -> Counter[str]:
    """Return rows after changes; a row that came and ended in one run is told twice, and there once."""
    after = Counter(rows)
    for change in said:
        name = change["table_name"]
        if change["before"] is not None:
            after[f"{name} {json.dumps(change['before'])}"] -= 1
        if change["row"] is not None and (change["change"] == "opened" or change["before"] is not None):
            after[f"{name} {json.dumps(change['row'])}"] += 1
    assert min(after.values(), default=0) >= 0
    return +after


def test_changes_make_the_tables(nights: Nights, copied: Path, tmp_path: Path) -> None:
    """From run to run, from any run to the last, and over a late event that restates two days: all of it, once."""
    late = write_log(tmp_path, DAYS[1], [registration("broker-c", "08:00:00", "V", 60_000)], "late")
    assert nightly(copied, "--input", late) == EXIT_OK
    last, every = told(copied, NOTHING)
    assert applied(Counter(), every) == held(copied)
    assert len({change["change_id"] for change in every}) == len(every)
    runs = [summary.run_id for summary in nights.summaries]
    assert [run for run in dict.fromkeys(change["run_id"] for change in every) if run in runs] == runs
    for run in runs:
        cursor, rest = told(copied, run)
        order = [*dict.fromkeys(change["run_id"] for change in every)]
        behind = order[order.index(run) + 1 :]
        assert (cursor, rest) == (last, [change for change in every if change["run_id"] in behind])
    assert told(copied, last) == (last, [])
    assert {change["change"] for change in every} >= {"opened", "closed"}


def test_command(copied: Path, nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON lines, and where to go on on standard error; what is no run is said."""
    first, *_, last = (summary.run_id for summary in nights.summaries)
    assert main(["ask", "changes", "--since", first, "--warehouse", str(copied), "--format", "json"]) == EXIT_OK
    said = capsys.readouterr()
    assert said.err == f"namesrv-history: next time: --since {last}\n"
    assert [json.loads(line) for line in said.out.splitlines()] == told(copied, first)[1]
    shares = list[tuple[int, int]]()
    assert list(changes(Answers(str(copied)), first, lambda *of: shares.append(of))[1].rows)
    assert shares == [(number, len(nights.summaries) - 1) for number in range(len(nights.summaries) - 1)]
    cut = ["ask", "changes", "--since", first, "--warehouse", str(copied), "--format", "json", "--limit", "1"]
    assert main(cut) == EXIT_OK
    said = capsys.readouterr()
    assert (len(said.out.splitlines()), f"ask again --since {first}" in said.err) == (1, True), (
        "no cursor skips the rest"
    )
    assert main(["ask", "changes", "--since", "2026-01-01", "--warehouse", str(copied), "--format", "csv"]) == EXIT_OK
    assert capsys.readouterr().out.startswith("change_id,run_id,")
    assert main(["ask", "changes", "--since", "nobody", "--warehouse", str(copied)]) == EXIT_UNPUBLISHED


class Killed(BaseException):
    """Ends a night as SIGKILL does: nobody handles it."""


def test_whatever_ends_a_hook_is_made_good(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed in front of the hook, or in it, before that is noted, or not taken: a later run tells it, under the same ids.

    A file has each line once and whole all the same. The runs are published. What came before a hook's first run is not told.
    """

    def hooked(topic: str, target: str) -> int:
        log = write_log(tmp_path, DAYS[-1], [registration(f"broker-{topic}", "13:00:00", topic, MONTH_MS)], topic)
        return nightly(copied, "--input", log, "--after-publish", target)

    def killed(*_: object) -> None:
        raise Killed

    def taken(path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    into, script, out = tmp_path / "into.jsonl", tmp_path / "take.sh", tmp_path / "out.jsonl"
    first, _ = told(copied, NOTHING)
    for topic, of, method in (("v", Hook, "tell"), ("w", os, "fsync")):
        with monkeypatch.context() as patched:
            patched.setattr(of, method, killed)
            with pytest.raises(Killed):
                hooked(topic, f">> {into}")
    os.truncate(into, into.stat().st_size - 40)  # as it lies where a process is killed while it writes
    second, _ = told(copied, NOTHING)
    script.write_text("exit 3\n", encoding="utf-8")
    command = f"{shutil.which('sh')} {script} {out}"
    assert hooked("x", command) == EXIT_UNTOLD
    err = capsys.readouterr().err
    assert "The run is published" in err
    assert f"(for another one: ask changes --since {second})" in err
    script.write_text('cat >>"$1"\n', encoding="utf-8")
    assert hooked("y", command) == EXIT_OK
    assert taken(out) == told(copied, second)[1] != []
    for _ in range(2):
        assert hooked("y", f">> {into}") == EXIT_OK, "nothing is new"
    assert taken(into) == told(copied, first)[1]


def test_two_runs_that_deliver_at_once_deliver_each_change_once(copied: Path, tmp_path: Path) -> None:
    """A run that started while another one was still delivering goes on from where that one ended, not from where it began."""
    into = tmp_path / "into.jsonl"
    hooks = [Hook(str(copied), f">> {into}") for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        counts = list(pool.map(Hook.tell, hooks))
    said = [json.loads(line) for line in into.read_text(encoding="utf-8").splitlines()]
    assert sorted(counts) == [0, 0, 0, len(said)]
    assert said == told(copied, NOTHING)[1] != []


def test_a_hook_behind_what_is_kept_says_how_to_go_on(
    copied: Path, nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Maintenance removed the run up to which it was told: code 15 of a published run, and the file to delete; then it goes on."""
    into = tmp_path / "into.jsonl"
    hook = Hook(str(copied), f">> {into}")
    hook.begin(nights.summaries[0].run_id)
    assert main(["maintain", "--warehouse", str(copied), "--retain-days", "0"]) == EXIT_OK
    with pytest.raises(PublishedError, match=r"maintenance keeps.* delete ") as raised:
        hook.tell()
    assert raised.value.exit_code == EXIT_UNTOLD
    Path(str(raised.value).rpartition(" delete ")[2].rstrip(".")).unlink()
    hook = Hook(str(copied), f">> {into}")
    hook.begin(nights.summaries[-1].run_id)
    assert (hook.tell(), into.exists()) == (0, False)
    capsys.readouterr()
    log = write_log(tmp_path, DAYS[-1], [registration("broker-z", "13:00:00", "z", MONTH_MS)], "z")
    assert nightly(copied, "--input", log, "--after-publish", ">>") == EXIT_USAGE
    assert ">> and a file, expected" in capsys.readouterr().err
