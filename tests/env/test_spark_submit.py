"""The wrapper's own rules, tried with fake interpreters, and how the start goes on in Python; no JVM starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from jobs.errors import UsageError
from jobs.session import command_line
from jobs.start.__main__ import main, needs_java
from jobs.start.java import CONF, QUIET, Java
from jobs.start.pack import zip_packages
from tests.places import CAPTURE, CHECKOUT

WRAPPER = CHECKOUT / "spark-submit.sh"
# What the wrapper itself calls; Python and Java are left out, so that each test adds the ones it is about.
TOOLS = (
    *("bash", "cat", "cut", "dirname", "env", "flock", "id"),
    *("ls", "mkdir", "readlink", "rm", "sed", "sha256sum", "tail"),
)


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    """A PATH of its own with the wrapper's tools, without Python and Java."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in (*TOOLS, "apt-get", "apt-cache"):
        if found := shutil.which(tool):
            (directory / tool).symlink_to(found)
    return directory


def add_command(bin_dir: Path, name: str, script: str) -> None:
    path = bin_dir / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def add_java(bin_dir: Path, version: str) -> None:
    add_command(bin_dir, "java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")


def start(
    bin_dir: Path,
    *arguments: str,
    script: Path = WRAPPER,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the wrapper with nothing but `bin_dir` on its PATH, and the environment of this test run."""
    env = {"PATH": str(bin_dir), "HOME": str(bin_dir), "NAMESRV_VENV": sys.prefix}
    env |= {"NAMESRV_IVY": str(bin_dir.parent / "ivy"), **(environment or {})}
    command = [str(script), *arguments]
    return subprocess.run(
        command, cwd=cwd or bin_dir, env=env, capture_output=True, text=True, timeout=120, check=False
    )


# -- the wrapper -------------------------------------------------------------------------------------------------------


def test_missing_python_is_a_usage_error_with_the_command_that_helps(bin_dir: Path, tmp_path: Path) -> None:
    """Without Python the set-up ends with code 2 before it makes anything."""
    done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(tmp_path / "venv")})
    assert done.returncode == 2
    assert "Python 3.10 to 3.13 is needed" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_python_without_venv_names_the_package_that_has_it(bin_dir: Path, tmp_path: Path) -> None:
    """Debian's Python without its venv package is told apart from a missing Python."""
    add_command(bin_dir, "python3", "exit 3")
    done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(tmp_path / "venv")})
    assert done.returncode == 2
    assert "python3-venv" in done.stderr


def test_directory_that_is_no_environment_is_never_cleared(bin_dir: Path, tmp_path: Path) -> None:
    """NAMESRV_VENV on somebody's files stops the set-up and leaves the files alone."""
    add_command(bin_dir, "python3", "exit 0")
    precious = tmp_path / "home" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("x", encoding="utf-8")
    done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(precious.parent)})
    assert done.returncode == 2
    assert precious.exists()


def test_failed_set_up_names_its_log_and_is_redone(bin_dir: Path, tmp_path: Path) -> None:
    """A set-up that fails half-way ends with code 1, shows where the output is, and leaves no marker."""
    add_command(bin_dir, "python3", 'case $1 in -m) echo "no space left"; exit 9;; esac; exit 0')
    venv = tmp_path / "venv"
    for _ in range(2):
        done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(venv)})
        assert done.returncode == 1
        assert "no space left" in done.stderr
        assert f"{venv}.setup.log" in done.stderr
        assert not (venv / ".lock-sha256").exists()


@pytest.mark.parametrize("arguments", [(), ("--help",), ("some-job", "--help")])
def test_help_needs_no_set_up(bin_dir: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Help is given by plain Python, before any set-up, on a machine without Java."""
    add_command(bin_dir, "python3", 'case $1 in -m) echo "asked: $*";; esac; exit 0')
    done = start(bin_dir, *arguments, environment={"NAMESRV_VENV": str(tmp_path / "venv")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("asked: -m jobs")
    assert "--help" in done.stdout
    assert not (tmp_path / "venv").exists()


def test_wrapper_finds_its_checkout_through_symbolic_links(bin_dir: Path, tmp_path: Path) -> None:
    """Called by a link of a link, from another directory, it still runs this checkout's jobs."""
    add_java(bin_dir, "17.0.15")
    first, second = tmp_path / "first", tmp_path / "second link"
    first.symlink_to(WRAPPER)
    second.symlink_to(first.name)
    done = start(bin_dir, "some-job", script=second, cwd=Path("/"), environment={"NAMESRV_DRY_RUN": "1"})
    assert str(CHECKOUT / "jobs/__main__.py") in done.stdout.splitlines()


def test_what_is_compiled_is_kept(bin_dir: Path, tmp_path: Path) -> None:
    """A shell that wants no bytecode written is not heard: each process of a job would compile all modules anew."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    add_command(python.parent, "python", "env")
    lock = "".join((CHECKOUT / name).read_text() for name in ("requirements-build.lock", "requirements.lock"))
    digest = subprocess.run(["sha256sum"], input=lock, capture_output=True, text=True, check=True).stdout.split()[0]
    (tmp_path / "venv" / ".lock-sha256").write_text(f"{digest}\n", encoding="utf-8")
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "NAMESRV_VENV": str(tmp_path / "venv")}
    done = start(bin_dir, "check", environment=environment)
    assert f"PYTHONPATH={CHECKOUT}" in done.stdout.splitlines()
    assert "PYTHONDONTWRITEBYTECODE" not in done.stdout


# -- Java --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_missing_java_is_a_usage_error_with_the_command_that_helps(bin_dir: Path) -> None:
    """Without Java what starts Spark ends with code 2 and names the package to install."""
    done = start(bin_dir, "sql", "SELECT 1")
    assert done.returncode == 2
    assert "Java 17 or newer is needed (none found)" in done.stderr
    assert "install -y" in done.stderr


@pytest.mark.slow
def test_what_needs_no_java_runs_without_it(bin_dir: Path, tmp_path: Path) -> None:
    """With a PATH on which there is none; other commands: `tests/night/test_pages.py`, which types those of the pages."""
    for line in ("setup", f"ingest --input {CAPTURE} --warehouse w", "export --warehouse w --output log.jsonl.gz"):
        done = start(bin_dir, *line.split(), cwd=tmp_path)
        assert done.returncode == 0, (line, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("job", "needs"),
    [
        (["demo"], True),
        (["nightly", "--input", "x"], True),
        (["sql", "SELECT 1"], True),
        (["register", "--database", "d"], True),
        (["demo", "--in-process"], False),
        (["nightly", "--input", "x", "--in-process"], False),
        (["sql", "--help"], False),
        (["ask", "findings"], False),
        (["report", "--output", "x"], False),
    ],
)
def test_only_what_starts_spark_needs_java(job: list[str], needs: bool) -> None:  # noqa: FBT001  an expected value
    """Jobs that start Spark, unless they are to work in this process or are asked for their help."""
    assert needs_java(job) is needs


@pytest.fixture
def java(bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Java 17, and an Ivy folder with Delta's JARs, as the start finds them."""
    add_java(bin_dir, "17.0.15")
    for name in ("a.jar", "b.jar"):
        (tmp_path / "ivy" / "jars").mkdir(parents=True, exist_ok=True)
        (tmp_path / "ivy" / "jars" / name).touch()
    places = {"NAMESRV_IVY": str(tmp_path / "ivy"), "SPARK_HOME": "/spark", "VIRTUAL_ENV": str(tmp_path / "venv")}
    unset = ("SPARK_SUBMIT_OPTS", "PYTHONSAFEPATH", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR")
    values = {**places, "PATH": f"{bin_dir}:{os.environ['PATH']}", "NAMESRV_DRY_RUN": "1"}
    for name, value in {**values, **dict.fromkeys((*unset, "SPARK_DIST_CLASSPATH"), "")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return Java()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_402", "8")])
def test_old_java_is_refused_by_its_version(java: Java, bin_dir: Path, version: str, major: str) -> None:
    """Java before 17 is refused, also under its old 1.x name."""
    assert "17.0.15" in java.version
    add_java(bin_dir, version)
    with pytest.raises(UsageError, match=f"java on PATH is Java {major}"):
        Java()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_newer_java_is_accepted(java: Java, bin_dir: Path, version: str) -> None:
    """Every Java from 17 on is taken, with or without a minor version."""
    assert java.jars
    add_java(bin_dir, version)
    assert version in Java().version


def test_unfit_java_home_gives_way_to_the_java_on_path(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale JAVA_HOME does not stop a machine whose PATH has a fit Java, and is not handed on."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert Java().version == java.version
    assert "JAVA_HOME" not in os.environ


# -- options of spark-submit -------------------------------------------------------------------------------------------


def test_options_of_spark_and_of_the_job_are_told_apart() -> None:
    """spark-submit's options reach it wherever they stand, in both spellings; the job gets the rest."""
    line = command_line(
        [
            *("--master", "local[1]", "some-job", "--day=2026-01-01", "--driver-memory=2g"),
            *("--conf", "spark.x=a=b", "--conf=spark.y=c d", "path with space", "--force"),
        ]
    )
    assert line.job == ["some-job", "--day=2026-01-01", "path with space", "--force"]
    conf = ["--conf", "spark.x=a=b", "--conf", "spark.y=c d"]
    assert line.spark == ["--master", "local[1]", "--driver-memory", "2g", *conf]


def test_everything_after_a_double_dash_is_the_jobs() -> None:
    """A job option that has the name of one of spark-submit's can still be given."""
    assert command_line(["some-job", "--", "--name", "x", "--help"]).job == ["some-job", "--name", "x", "--help"]


@pytest.mark.parametrize("arguments", [["some-job", "--master"], ["--master", "local[1]"]])
def test_incomplete_command_line_is_a_usage_error(java: Java, arguments: list[str]) -> None:
    """An option without its value, or no job at all, is refused with code 2."""
    assert java.jars
    assert main(arguments) == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--master", "loca"],
        ["--master=spark:/host"],
        ["--deploy-mode", "clustr"],
        ["--driver-memory", "banana"],
        ["--conf", "spark.driver.memory"],
        ["--conf", "spark.executor.memory=4x"],
        ["--conf=spark.driver.memory=2048"],
        ["--num-executors", "0"],
        ["--jars", f"{WRAPPER},not-there.jar"],
        ["--properties-file", "not-there.conf"],
    ],
)
def test_wrong_options_of_spark_are_refused_at_once(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What Spark would refuse seconds later, with a page of Java, is one line that names the option; nothing is started."""
    assert main(["sql", "SELECT 1", *options]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"namesrv-history: \S+ \S+: (expected|no such file).*", said)


def started(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Return the command that would have been started, one item an argument."""
    assert main(["sql", "SELECT 1", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def value_of(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "local-cluster[1,1,1024]"])
def test_packages_travel_to_executors_elsewhere(
    java: Java, tmp_path: Path, capsys: pytest.CaptureFixture[str], master: str
) -> None:
    """Any master but local[...] gets the packages as a zip, before the user's own files."""
    assert java.jars
    mine = tmp_path / "mine.py"
    mine.touch()
    own = ["--conf", "spark.pyspark.python=/opt/python"]
    command = started(capsys, "--master", master, "--py-files", str(mine), *own)
    archive, theirs = value_of(command, "--py-files").split(",")
    assert archive.endswith("/packages.zip")
    assert theirs == str(mine)


def test_executors_elsewhere_get_the_packed_environment(
    java: Java, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their Python is the archive's, the driver's stays the environment's own, and the user's archives travel, too.

    Nothing is packed only to show the command.
    """
    assert java.jars
    venv = tmp_path / "venv"
    venv.mkdir()
    (tmp_path / "mine.zip").touch()
    (venv / ".lock-sha256").write_text("of this lock", encoding="utf-8")
    command = started(capsys, "--master", "yarn", "--archives", f"{tmp_path}/mine.zip#mine")
    assert value_of(command, "--archives") == f"{venv}.packed.tar.gz#environment,{tmp_path}/mine.zip#mine"
    assert "spark.pyspark.python=./environment/bin/python" in command
    assert f"spark.pyspark.driver.python={venv}/bin/python" in command
    assert not list(tmp_path.glob("venv.packed*"))


@pytest.mark.slow
def test_an_environment_that_the_user_brings_is_used_as_it_is(java: Java, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive unpacked as `environment` takes the place of ours; a Python installed there needs none."""
    assert java.jars
    command = started(capsys, "--master", "yarn", "--archives", "hdfs:///env.tar.gz#environment")
    assert value_of(command, "--archives") == "hdfs:///env.tar.gz#environment"
    assert "spark.pyspark.python=./environment/bin/python" in command
    command = started(capsys, "--master", "yarn", "--conf", "spark.pyspark.python=/opt/python")
    assert "--archives" not in command
    pythons = [part for part in command if part.startswith("spark.pyspark.python=")]
    assert pythons == ["spark.pyspark.python=/opt/python"]


@pytest.mark.parametrize("options", [[], ["--master", "local"], ["--conf", "spark.master=local[2]"]])
def test_local_run_ships_nothing(java: Java, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    """Workers on this machine read the checkout itself."""
    assert java.jars
    assert "--py-files" not in started(capsys, *options)


def test_master_may_stand_in_a_properties_file(java: Java, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A properties file is read for the master, and adds to our settings instead of replacing them."""
    assert java.jars
    properties = tmp_path / "cluster.conf"
    properties.write_text("# c\nspark.master   yarn\n", encoding="utf-8")
    own = ["--conf", "spark.pyspark.python=/opt/python"]
    command = started(capsys, "--properties-file", str(properties), *own)
    assert "--py-files" in command
    assert "--load-spark-defaults" in command


def test_users_jars_are_added_to_deltas(java: Java, capsys: pytest.CaptureFixture[str]) -> None:
    """--jars extends the class path; it does not push Delta from it."""
    command = started(capsys, "--jars", str(WRAPPER))
    assert value_of(command, "--jars") == ",".join([*java.jars, str(WRAPPER)])


def test_zip_for_executors_carries_sql_and_no_caches(tmp_path: Path) -> None:
    """The zip holds modules and data files of all packages, and nothing that Python made beside them."""
    expected = ["jobs/d.py", "namesrv_core/a.py", "namesrv_day/e.py", "namesrv_wire/b.py", "schemas/views/c.sql"]
    for name in (*expected, "jobs/__pycache__/d.pyc", "schemas/.cache/x"):
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    zip_packages(tmp_path / "checkout", tmp_path / "packages.zip")
    assert zipfile.ZipFile(tmp_path / "packages.zip").namelist() == expected


# -- the archive of classes --------------------------------------------------------------------------------------------


def make_archive(java: Java, monkeypatch: pytest.MonkeyPatch, demo: str) -> None:
    """Have an archive made with a Python that does `demo` for the demo."""
    python = java.ivy / "python"
    add_command(java.ivy, "python", demo)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(python))
        java.ensure_archive()


def recording(java: Java) -> str:
    return f"echo classes >'{java.ivy}/classes.jsa.making/classes.jsa'"


def test_archive_of_classes_is_recorded_from_the_demo(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo runs with a JVM that writes one, conf/ off the class path and Delta's JARs on it; jobs then take it."""
    assert not java.fits_archive(command_line(["sql"]))
    make_archive(java, monkeypatch, f"echo $2 >'{java.ivy}/job.told'; env >'{java.ivy}/env.told'; {recording(java)}")
    assert (java.ivy / "job.told").read_text(encoding="utf-8") == "demo\n"
    lines = (java.ivy / "env.told").read_text(encoding="utf-8").splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    assert "-XX:ArchiveClassesAtExit=" in told["SPARK_SUBMIT_OPTS"]
    assert f"-Dlog4j2.configurationFile={CONF}/log4j2.properties" in told["SPARK_SUBMIT_OPTS"]
    assert told["SPARK_DIST_CLASSPATH"] == ":".join(java.jars)
    assert list(Path(told["SPARK_CONF_DIR"]).iterdir()) == []
    assert not (java.ivy / "classes.jsa.making").exists()
    assert java.fits_archive(command_line(["sql"]))


@pytest.mark.parametrize("code", [0, 9])
def test_what_cannot_be_archived_is_done_without(java: Java, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A JVM that writes none is no failure of the set-up, and is not tried again at each start."""
    for _ in range(2):
        make_archive(java, monkeypatch, f"echo tried >>'{java.ivy}/tries.told'; exit {code}")
    assert (java.ivy / "tries.told").read_text(encoding="utf-8") == "tried\n"
    assert not java.fits_archive(command_line(["sql"]))


def test_archive_is_for_plain_runs_of_this_machine(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where settings or JARs of the user's come in, or executors elsewhere, it is not used."""
    make_archive(java, monkeypatch, recording(java))
    (tmp_path / "mine").touch()
    for options in (
        ["--master", "spark://127.0.0.1:7077"],
        ["--master", "local-cluster[1,1,1024]"],
        ["--properties-file", f"{tmp_path}/mine"],
        ["--jars", f"{tmp_path}/mine"],
        ["--packages", "org.example:mine:1"],
    ):
        assert not java.fits_archive(command_line(["sql", *options]))
    assert java.fits_archive(command_line(["sql", "--master", "local[2]"]))


def test_archive_of_another_time_is_not_used(java: Java, bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java, and the archive itself, must be what they were when it was made."""
    make_archive(java, monkeypatch, recording(java))
    add_java(bin_dir, "21.0.1")
    assert not Java().fits_archive(command_line(["sql"]))
    java.archive.write_text("an archive that is not whole", encoding="utf-8")
    assert not java.fits_archive(command_line(["sql"]))


@pytest.mark.jvm
def test_jvm_refuses_an_archive_without_a_word(tmp_path: Path) -> None:
    """One of another class path, which it would warn of on standard output, changes nothing of what a JVM says."""
    written = tmp_path / "classes.jsa"
    (launcher,) = Path(os.environ["SPARK_HOME"], "jars").glob("spark-launcher_*.jar")
    jars = [str(shutil.copy(launcher, tmp_path / name)) for name in ("a.jar", "b.jar")]

    def said(jar: str, *options: str) -> str:
        command = ["java", *options, "-cp", jar, "org.apache.spark.launcher.Main"]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
        )
        return done.stdout

    plain = said(jars[1])
    assert "Not enough arguments" in plain
    said(jars[0], f"-XX:ArchiveClassesAtExit={written}")
    assert "[warning]" in said(jars[1], f"-XX:SharedArchiveFile={written}")
    assert said(jars[1], f"-XX:SharedArchiveFile={written}", QUIET) == plain
