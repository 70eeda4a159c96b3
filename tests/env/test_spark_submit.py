"""The wrapper's own rules, tried with fake interpreters and dry runs: nothing is installed, no JVM starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
WRAPPER = CHECKOUT / "spark-submit.sh"
# What the wrapper itself calls; Python and Java are left out, so that each test adds the ones it is about.
TOOLS = ["apt-cache", "apt-get", "bash", "cat", "cut", "dirname", "env", "find", "flock", "grep", "id", "ls"]
TOOLS += ["mkdir", "mktemp", "mv", "readlink", "rm", "sed", "sha256sum", "sort", "tail", "wc"]


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    """A PATH of its own with the wrapper's tools, without Python and Java."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in TOOLS:
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
    return subprocess.run(
        [str(script), *arguments],
        cwd=cwd or bin_dir,
        env={"PATH": str(bin_dir), "HOME": str(bin_dir), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def dry_run(bin_dir: Path, *arguments: str, script: Path = WRAPPER, **environment: str) -> list[str]:
    """Return the command that would have been executed, one item an argument."""
    add_java(bin_dir, "17.0.15")
    done = start(bin_dir, *arguments, script=script, environment={"NAMESRV_DRY_RUN": "1", **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def job_part(command: list[str]) -> list[str]:
    return command[command.index(str(CHECKOUT / "jobs/__main__.py")) + 1 :]


def spark_part(command: list[str]) -> list[str]:
    return command[1 : command.index(str(CHECKOUT / "jobs/__main__.py"))]


def value_of(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_missing_java_is_a_usage_error_with_the_command_that_helps(bin_dir: Path) -> None:
    """Without Java the start ends with code 2 and names the package to install."""
    done = start(bin_dir, "some-job")
    assert done.returncode == 2
    assert "Java 17 or newer is needed (none found)" in done.stderr
    assert "install -y" in done.stderr


@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_402", "8")])
def test_old_java_is_refused_by_its_version(bin_dir: Path, version: str, major: str) -> None:
    """Java before 17 is refused before anything is installed, also under its old 1.x name."""
    add_java(bin_dir, version)
    done = start(bin_dir, "some-job")
    assert done.returncode == 2
    assert f"java on PATH is Java {major}" in done.stderr


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_newer_java_is_accepted(bin_dir: Path, version: str) -> None:
    """Every Java from 17 on is taken, with or without a minor version."""
    add_java(bin_dir, version)
    assert start(bin_dir, "some-job", environment={"NAMESRV_DRY_RUN": "1"}).returncode == 0


def test_unfit_java_home_gives_way_to_the_java_on_path(bin_dir: Path) -> None:
    """A stale JAVA_HOME does not stop a machine whose PATH has a fit Java."""
    command = dry_run(bin_dir, "some-job", JAVA_HOME="/nonexistent")
    assert job_part(command) == ["some-job"]


def test_missing_python_is_a_usage_error_with_the_command_that_helps(bin_dir: Path, tmp_path: Path) -> None:
    """Without Python the set-up ends with code 2 before it makes anything."""
    add_java(bin_dir, "17.0.15")
    done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(tmp_path / "venv")})
    assert done.returncode == 2
    assert "Python 3.10 to 3.13 is needed" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_python_without_venv_names_the_package_that_has_it(bin_dir: Path, tmp_path: Path) -> None:
    """Debian's Python without its venv package is told apart from a missing Python."""
    add_java(bin_dir, "17.0.15")
    add_command(bin_dir, "python3", "exit 3")
    done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(tmp_path / "venv")})
    assert done.returncode == 2
    assert "python3-venv" in done.stderr


def test_directory_that_is_no_environment_is_never_cleared(bin_dir: Path, tmp_path: Path) -> None:
    """NAMESRV_VENV on somebody's files stops the set-up and leaves the files alone."""
    add_java(bin_dir, "17.0.15")
    add_command(bin_dir, "python3", "exit 0")
    precious = tmp_path / "home" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("x", encoding="utf-8")
    done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(precious.parent)})
    assert done.returncode == 2
    assert precious.exists()


def test_failed_set_up_names_its_log_and_is_redone(bin_dir: Path, tmp_path: Path) -> None:
    """A set-up that fails half-way ends with code 1, shows where the output is, and leaves no marker."""
    add_java(bin_dir, "17.0.15")
    add_command(bin_dir, "python3", 'case $1 in -m) echo "no space left"; exit 9;; esac; exit 0')
    venv = tmp_path / "venv"
    for _ in range(2):
        done = start(bin_dir, "setup", environment={"NAMESRV_VENV": str(venv)})
        assert done.returncode == 1
        assert "no space left" in done.stderr
        assert f"{venv}.setup.log" in done.stderr
        assert not (venv / ".lock-sha256").exists()


def test_options_of_spark_and_of_the_job_are_told_apart(bin_dir: Path) -> None:
    """spark-submit's options reach it wherever they stand, in both spellings; the job gets the rest."""
    command = dry_run(
        bin_dir,
        "--master",
        "local[1]",
        "some-job",
        "--day=2026-01-01",
        "--driver-memory=2g",
        "--conf",
        "spark.x=a=b",
        "--conf=spark.y=c d",
        "path with space",
        "--force",
    )
    assert job_part(command) == ["some-job", "--day=2026-01-01", "path with space", "--force"]
    assert value_of(command, "--master") == "local[1]"
    assert value_of(command, "--driver-memory") == "2g"
    assert {"spark.x=a=b", "spark.y=c d"} <= set(spark_part(command))


def test_everything_after_a_double_dash_is_the_jobs(bin_dir: Path) -> None:
    """A job option that has the name of one of spark-submit's can still be given."""
    command = dry_run(bin_dir, "some-job", "--", "--name", "x", "--help")
    assert job_part(command) == ["some-job", "--name", "x", "--help"]


@pytest.mark.parametrize("arguments", [("some-job", "--master"), ("--master", "local[1]")])
def test_incomplete_command_line_is_a_usage_error(bin_dir: Path, arguments: tuple[str, ...]) -> None:
    """An option without its value, or no job at all, is refused with code 2."""
    add_java(bin_dir, "17.0.15")
    assert start(bin_dir, *arguments, environment={"NAMESRV_DRY_RUN": "1"}).returncode == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--master", "loca"),
        ("--master=spark:/host",),
        ("--deploy-mode", "clustr"),
        ("--driver-memory", "banana"),
        ("--conf", "spark.driver.memory"),
        ("--conf", "spark.executor.memory=4x"),
        ("--conf=spark.driver.memory=2048",),
        ("--num-executors", "0"),
        ("--jars", "there.jar,not-there.jar"),
        ("--properties-file", "not-there.conf"),
    ],
)
def test_wrong_options_of_spark_are_refused_at_once(bin_dir: Path, options: tuple[str, ...]) -> None:
    """What Spark would refuse seconds later, with a page of Java, is one line that names the option; nothing is started."""
    add_command(bin_dir, "java", "echo started >&2; exit 1")
    (bin_dir / "there.jar").touch()
    done = start(bin_dir, "some-job", *options)
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert re.fullmatch(r"namesrv-history: \S+ \S+: (expected|no such file).*", said)


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "local-cluster[1,1,1024]"])
def test_packages_travel_to_executors_elsewhere(bin_dir: Path, master: str) -> None:
    """Any master but local[...] gets the packages as a zip, before the user's own files."""
    (bin_dir / "mine.py").touch()
    command = dry_run(bin_dir, "some-job", "--master", master, "--py-files", "mine.py")
    archive, mine = value_of(command, "--py-files").split(",")
    assert archive.endswith("/packages.zip")
    assert mine == "mine.py"
    assert not Path(archive).parent.exists()


def test_executors_elsewhere_get_the_packed_environment(bin_dir: Path, tmp_path: Path) -> None:
    """Their Python is the archive's, the driver's stays the environment's own, and the user's archives travel, too."""
    venv = str(tmp_path / "venv")
    (bin_dir / "mine.zip").touch()
    command = dry_run(bin_dir, "some-job", "--master", "yarn", "--archives", "mine.zip#mine", NAMESRV_VENV=venv)
    assert value_of(command, "--archives") == f"{venv}.packed.tar.gz#environment,mine.zip#mine"
    assert "spark.pyspark.python=./environment/bin/python" in spark_part(command)
    assert f"spark.pyspark.driver.python={venv}/bin/python" in spark_part(command)


def test_an_environment_that_the_user_brings_is_used_as_it_is(bin_dir: Path) -> None:
    """An archive unpacked as `environment` takes the place of ours; a Python installed there needs none."""
    command = dry_run(bin_dir, "some-job", "--master", "yarn", "--archives", "hdfs:///env.tar.gz#environment")
    assert value_of(command, "--archives") == "hdfs:///env.tar.gz#environment"
    assert "spark.pyspark.python=./environment/bin/python" in spark_part(command)
    command = dry_run(bin_dir, "some-job", "--master", "yarn", "--conf", "spark.pyspark.python=/opt/python")
    assert "--archives" not in command
    assert [part for part in spark_part(command) if part.startswith("spark.pyspark.python=")] == [
        "spark.pyspark.python=/opt/python"
    ]


@pytest.mark.parametrize("arguments", [(), ("--master", "local"), ("--conf", "spark.master=local[2]")])
def test_local_run_ships_nothing(bin_dir: Path, arguments: tuple[str, ...]) -> None:
    """Workers on this machine read the checkout itself."""
    assert "--py-files" not in dry_run(bin_dir, "some-job", *arguments)


def test_master_may_stand_in_a_properties_file(bin_dir: Path, tmp_path: Path) -> None:
    """A properties file is read for the master, and adds to our settings instead of replacing them."""
    properties = tmp_path / "cluster.conf"
    properties.write_text("# c\nspark.master   yarn\n", encoding="utf-8")
    command = dry_run(bin_dir, "some-job", "--properties-file", str(properties))
    assert "--py-files" in command
    assert "--load-spark-defaults" in command


def test_users_jars_are_added_to_deltas(bin_dir: Path, tmp_path: Path) -> None:
    """--jars extends the class path; it does not push Delta from it."""
    jars = tmp_path / "ivy" / "jars"
    jars.mkdir(parents=True)
    (jars / "delta.jar").touch()
    (bin_dir / "mine.jar").touch()
    command = dry_run(bin_dir, "some-job", "--jars", "mine.jar", NAMESRV_IVY=str(tmp_path / "ivy"))
    assert value_of(command, "--jars") == f"{jars}/delta.jar,mine.jar"


def test_wrapper_finds_its_checkout_through_symbolic_links(bin_dir: Path, tmp_path: Path) -> None:
    """Called by a link of a link, from another directory, it still runs this checkout's jobs."""
    add_java(bin_dir, "17.0.15")
    first, second = tmp_path / "first", tmp_path / "second link"
    first.symlink_to(WRAPPER)
    second.symlink_to(first.name)
    done = start(bin_dir, "some-job", script=second, cwd=Path("/"), environment={"NAMESRV_DRY_RUN": "1"})
    assert str(CHECKOUT / "jobs/__main__.py") in done.stdout.splitlines()


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",), ("some-job", "--help")])
def test_help_starts_neither_spark_nor_java(bin_dir: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Help is given by plain Python, before any set-up, on a machine without Java."""
    add_command(bin_dir, "python3", 'case $1 in -m) echo "asked: $*";; esac; exit 0')
    done = start(bin_dir, *arguments, environment={"NAMESRV_VENV": str(tmp_path / "venv")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("asked: -m jobs")
    assert "--help" in done.stdout
    assert not (tmp_path / "venv").exists()


def test_zip_for_executors_carries_sql_and_no_caches(tmp_path: Path) -> None:
    """The zip holds modules and data files of all packages, and nothing that Python made beside them."""
    expected = ["jobs/d.py", "namesrv_core/a.py", "namesrv_day/e.py", "namesrv_wire/b.py", "schemas/views/c.sql"]
    for name in (
        "namesrv_core/a.py",
        "namesrv_wire/b.py",
        "namesrv_day/e.py",
        "schemas/views/c.sql",
        "jobs/d.py",
        "jobs/__pycache__/d.pyc",
    ):
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    wrapper = WRAPPER.read_text(encoding="utf-8").replace('\nmain "$@"\n', '\nzip_packages "$1"\n')
    copy = tmp_path / "checkout" / "spark-submit.sh"
    copy.write_text(wrapper, encoding="utf-8")
    archive = tmp_path / "packages.zip"
    venv = os.environ.get("VIRTUAL_ENV", str(CHECKOUT / ".venv"))
    subprocess.run(["bash", str(copy), str(archive)], env={**os.environ, "NAMESRV_VENV": venv}, check=True)
    assert zipfile.ZipFile(archive).namelist() == expected


@pytest.fixture
def checkout(bin_dir: Path, tmp_path: Path) -> Path:
    """What the wrapper reads of a checkout, with the wrapper's functions apart, and an Ivy folder with Delta's JARs."""
    folder = tmp_path / "checkout"
    shutil.copytree(CHECKOUT / "conf", folder / "conf")
    for name in ("requirements.lock", "requirements-build.lock", "spark-submit.sh"):
        shutil.copy(CHECKOUT / name, folder)
    functions = WRAPPER.read_text(encoding="utf-8").replace(
        '\nmain "$@"\n', '\nrequire_java\nexport_environment\n"$@"\nexport_environment\n'
    )
    (folder / "functions.sh").write_text(functions, encoding="utf-8")
    (folder / "functions.sh").chmod(0o755)
    (folder / ".ivy2" / "jars").mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (folder / ".ivy2" / "jars" / name).touch()
    add_java(bin_dir, "17.0.15")
    return folder


def test_what_is_compiled_is_kept(bin_dir: Path, checkout: Path) -> None:
    """A shell that wants no bytecode written is not heard: each process of a job would compile all modules anew."""
    done = start(bin_dir, "env", script=checkout / "functions.sh", environment={"PYTHONDONTWRITEBYTECODE": "1"})
    assert f"PYTHONPATH={checkout}" in done.stdout.splitlines()
    assert "PYTHONDONTWRITEBYTECODE" not in done.stdout


def archive(bin_dir: Path, checkout: Path, demo: str) -> subprocess.CompletedProcess[str]:
    """Have the wrapper make its archive with a Python that does `demo` for the demo."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    add_command(python.parent, "python", demo)
    return start(bin_dir, "archive_classes", script=checkout / "functions.sh")


def uses_archive(command: list[str]) -> bool:
    """Return whether the class path is the archive's: Delta is on it, and not added; Spark's settings have their file named."""
    is_named = "--properties-file" in command and value_of(command, "--properties-file").endswith("spark-defaults.conf")
    assert is_named != ("--jars" in command)
    return is_named


RECORDING = "echo classes >classes.jsa"


def test_archive_of_classes_is_recorded_from_the_demo(bin_dir: Path, checkout: Path) -> None:
    """The demo runs with a JVM that writes one, conf/ off the class path and Delta's JARs on it; jobs then take it."""
    assert not uses_archive(dry_run(bin_dir, "some-job", script=checkout / "spark-submit.sh"))
    # Nothing is written into the folder of PATH: its names are links to the system's own commands.
    done = archive(bin_dir, checkout, f"echo $2 >'{checkout}/job.told'; env >'{checkout}/env.told'; {RECORDING}")
    assert done.returncode == 0, done.stderr
    assert (checkout / "job.told").read_text(encoding="utf-8") == "demo\n"
    lines = (checkout / "env.told").read_text(encoding="utf-8").splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    ivy = checkout / ".ivy2"
    assert "-XX:ArchiveClassesAtExit=" in told["SPARK_SUBMIT_OPTS"]
    assert f"-Dlog4j2.configurationFile={checkout}/conf/log4j2.properties" in told["SPARK_SUBMIT_OPTS"]
    assert told["SPARK_DIST_CLASSPATH"] == f"{ivy}/jars/a.jar:{ivy}/jars/b.jar"
    assert list(Path(told["SPARK_CONF_DIR"]).iterdir()) == []
    assert {path.name for path in ivy.iterdir()} >= {"classes.jsa", "classes.jsa.key"}
    assert not (ivy / "classes.jsa.making").exists()
    assert uses_archive(dry_run(bin_dir, "some-job", script=checkout / "spark-submit.sh"))


@pytest.mark.parametrize("code", [0, 9])
def test_what_cannot_be_archived_is_done_without(bin_dir: Path, checkout: Path, code: int) -> None:
    """A JVM that writes none is no failure of the set-up, and is not tried again at each start."""
    for _ in range(2):
        done = archive(bin_dir, checkout, f"echo tried >>'{checkout}/tries.told'; exit {code}")
        assert done.returncode == 0, done.stderr
    assert (checkout / "tries.told").read_text(encoding="utf-8") == "tried\n"
    assert not uses_archive(dry_run(bin_dir, "some-job", script=checkout / "spark-submit.sh"))


@pytest.mark.parametrize(
    "options",
    [
        ("--master", "spark://127.0.0.1:7077"),
        ("--master", "local-cluster[1,1,1024]"),
        ("--properties-file", "mine.conf"),
        ("--jars", "mine.jar"),
        ("--packages", "org.example:mine:1"),
    ],
)
def test_archive_is_for_plain_runs_of_this_machine(bin_dir: Path, checkout: Path, options: tuple[str, ...]) -> None:
    """Where settings or JARs of the user's come in, or executors elsewhere, the command is what it would be without one."""
    for name in ("mine.conf", "mine.jar"):
        (bin_dir / name).touch()
    script = checkout / "spark-submit.sh"
    without = dry_run(bin_dir, "some-job", *options, script=script)
    assert archive(bin_dir, checkout, RECORDING).returncode == 0
    command = dry_run(bin_dir, "some-job", *options, script=script)
    temporary = r"namesrv-history\.\w+"
    assert re.sub(temporary, "", "\n".join(command)) == re.sub(temporary, "", "\n".join(without))
    assert uses_archive(dry_run(bin_dir, "some-job", "--master", "local[2]", script=script))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("conf/hive-site.xml", "a file for the class path"),
        ("requirements.lock", "another Spark"),
        ("conf/spark-defaults.conf", "spark.jars.packages another.Delta"),
        (".ivy2/classes.jsa", "an archive that is not whole"),
    ],
)
def test_archive_of_another_time_is_not_used(bin_dir: Path, checkout: Path, changed: str, words: str) -> None:
    """What is on the class path, Spark, Delta and the archive itself must be what they were when it was made; so must Java."""
    script = checkout / "spark-submit.sh"
    assert archive(bin_dir, checkout, RECORDING).returncode == 0
    assert uses_archive(dry_run(bin_dir, "some-job", script=script))
    add_java(bin_dir, "21.0.1")
    done = start(bin_dir, "some-job", script=script, environment={"NAMESRV_DRY_RUN": "1"})
    assert not uses_archive(done.stdout.splitlines())
    (checkout / changed).write_text(f"{words}\n", encoding="utf-8")
    assert not uses_archive(dry_run(bin_dir, "some-job", script=script))


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
    (quiet,) = re.findall(r"^readonly QUIET_JVM=(\S+)$", WRAPPER.read_text(encoding="utf-8"), re.MULTILINE)
    assert "[warning]" in said(jars[1], f"-XX:SharedArchiveFile={written}")
    assert said(jars[1], f"-XX:SharedArchiveFile={written}", quiet) == plain
