"""The examples for schedulers: they parse, and the cron script does what its comments say, with a stub for the job."""

from __future__ import annotations

import ast
import os
import py_compile
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs.cli.arguments import parser

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = EXAMPLES / "cron" / "nightly.sh"


def night(tmp_path: Path, stub: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the cron script with a job that is `stub`."""
    job = tmp_path / "job"
    job.write_text(f"#!/bin/sh\n{stub}\n", encoding="utf-8")
    job.chmod(0o755)
    given = {"INCOMING": "in", "WAREHOUSE": str(tmp_path / "w"), "NAMESRV": str(job), **environment}
    return subprocess.run([SCRIPT], env={**os.environ, **given}, capture_output=True, text=True, check=False)


def test_a_good_night_is_silent_and_leaves_a_log(tmp_path: Path) -> None:
    """Cron mails what is printed: nothing; what the job said is in the log, and its arguments are a night's."""
    done = night(tmp_path, 'echo "asked: $*"')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (log,) = (tmp_path / "w" / "logs").glob("nightly-*.log")
    assert log.read_text().startswith(f"asked: nightly --input in --warehouse {tmp_path / 'w'} --summary ")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        *((3, "could not be read"), (4, "gate refused"), (5, "another run"), (9, "code 9"), (10, "disk is full")),
        *((13, "mounted?"), (14, "do not match")),
    ],
)
def test_any_other_night_says_why_and_keeps_its_code(tmp_path: Path, code: int, says: str) -> None:
    """The message tells the cases apart, the end of the log follows, and the scheduler gets the code of the job."""
    done = night(tmp_path, f"echo the reason >&2; exit {code}")
    assert done.returncode == code
    assert says in done.stdout
    assert done.stdout.endswith("the reason\n")


def test_a_start_while_another_runs_ends_with_the_code_of_a_busy_warehouse(tmp_path: Path) -> None:
    """The lock is held for as long as the first job runs; the second start does not run its job."""
    logs = tmp_path / "w" / "logs"
    logs.mkdir(parents=True)
    started = night(tmp_path, "exit 0", NAMESRV="/bin/false", WAIT_SECONDS="0")
    assert started.returncode == 1
    holder = subprocess.Popen(["flock", str(logs / ".lock"), "sleep", "60"])
    try:
        while subprocess.run(["flock", "--nonblock", str(logs / ".lock"), "true"], check=False).returncode == 0:
            pass
        second = night(tmp_path, "touch was-run", WAIT_SECONDS="0")
    finally:
        holder.terminate()
        holder.wait()
    assert second.returncode == 5
    assert not (tmp_path / "was-run").exists()


def test_old_logs_go(tmp_path: Path) -> None:
    """Logs and summaries older than the limit are deleted, other files and younger ones stay."""
    logs = tmp_path / "w" / "logs"
    logs.mkdir(parents=True)
    for name, days in (("nightly-old.log", 31), ("summary-old.json", 31), ("nightly-new.log", 29), ("notes.txt", 400)):
        (logs / name).touch()
        past = (logs / name).stat().st_mtime - days * 86_400
        os.utime(logs / name, (past, past))
    assert night(tmp_path, "exit 0").returncode == 0
    left = {path.name for path in logs.iterdir()}
    assert {"nightly-new.log", "notes.txt"} <= left
    assert not {"nightly-old.log", "summary-old.json"} & left


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shell_scripts_are_clean() -> None:
    """Shellcheck has nothing to say about the wrapper and the examples."""
    scripts = [EXAMPLES.parent / "spark-submit.sh", *EXAMPLES.rglob("*.sh")]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_dag_parses_and_its_commands_are_commands_of_ours(tmp_path: Path) -> None:
    """The DAG compiles, uses no operator but Bash, and every command line in it is one that the parser takes."""
    source = EXAMPLES / "airflow" / "namesrv_history.py"
    py_compile.compile(str(source), cfile=str(tmp_path / "dag.pyc"), doraise=True)
    text = source.read_text(encoding="utf-8")
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert {called.id for called in calls if isinstance(called, ast.Name)} == {"DAG", "BashOperator"}
    commands = re.findall(r"\{WRAPPER\} (.*)\"", text)
    assert len(commands) == 2
    for command in commands:
        arguments = re.sub(r"\{SPARK_OPTIONS\} ", "", command).split()
        assert parser().parse_args(arguments).job == arguments[0]


def test_the_crontab_runs_commands_of_ours() -> None:
    """Its lines have five fields of time, and name the script beside it and a command line that the parser takes."""
    lines = (EXAMPLES / "cron" / "crontab").read_text(encoding="utf-8").splitlines()
    jobs = [line.split(maxsplit=5)[5] for line in lines if re.match(r"[\d*]", line)]
    assert jobs[0].endswith("examples/cron/nightly.sh")
    arguments = jobs[1].removesuffix(" >/dev/null").split()[1:]
    assert parser().parse_args(arguments).job == "maintain"
