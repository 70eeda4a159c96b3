"""The wheel: one name of ours in it, and a program that does what the checkout does, beside nothing but what it asks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import files as files_of
from pathlib import Path

import pytest
import yaml

from jobs import __version__
from tests.night.nights import capture_in_two
from tests.night.pages import PAGES, plain_blocks
from tests.places import CHECKOUT

pytestmark = pytest.mark.slow
_LEFT_OUT = ("pyspark", "py4j", "delta_spark", "delta", "mcp")
_TYPED = "import subprocess, sys; subprocess.run(['bash', '-euc', sys.argv[1]], check=True)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built of an unpacked source distribution, whatever is on the path of the one who builds it.

    As pip does it: by an empty environment's Python, which finds the packages that are required for a build, and no others,
    through a `sitecustomize` on PYTHONPATH.
    """
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "empty")], check=True)
    (folder / "pip").mkdir()
    (required,) = re.findall(r"^requires = \[(.*)\]", (CHECKOUT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    for name in re.findall(r'"([a-z0-9.]+)', required):
        for top in {file.parts[0] for file in files_of(name) or () if file.parts[0] != ".."}:
            (folder / "pip" / top).symlink_to(Path(pytest.__file__).parents[1] / top)
    found = f"import site; site.addsitedir({str(folder / 'pip')!r})\n"
    (folder / "pip" / "sitecustomize.py").write_text(found, encoding="utf-8")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        if name and not name.startswith(("tests/", "docs/")) and (CHECKOUT / name).is_file():
            (folder / "here" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CHECKOUT / name, folder / "here" / name)
    code = "import sys, setuptools.build_meta as backend; getattr(backend, sys.argv[1])('.')"

    def build(what: str, where: Path) -> None:
        command = [str(folder / "empty" / "bin" / "python"), "-c", code, what]
        env = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": f"{folder / 'pip'}{os.pathsep}{CHECKOUT}"}
        done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    build("build_sdist", folder / "here")
    (packed,) = (folder / "here").glob("*.tar.gz")
    shutil.unpack_archive(packed, folder / "unpacked")  # of our own making
    (there,) = (folder / "unpacked").iterdir()
    for _ in range(2):  # what the first one leaves is not in the way
        build("build_wheel", there)
    return next(there.glob("*.whl"))


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in a new environment, beside what is installed here, without Spark."""
    folder = tmp_path_factory.mktemp("installed")
    installed = Path(pytest.__file__).parents[1]
    beside = folder / "beside"
    beside.mkdir()
    for path in installed.iterdir():
        if not path.name.startswith(tuple(f"{name}{end}" for name in _LEFT_OUT for end in ("-", "."))) and (
            path.name not in _LEFT_OUT
        ):
            (beside / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (there,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (there / "beside.pth").write_text(f"{beside}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python"), "install", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--quiet", "--disable-pip-version-check", str(wheel)], check=True)
    return folder / "venv" / "bin" / "namesrv-history"


def run(program: Path, folder: Path, *words: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run it in a folder, with an empty home and nothing of this process's environment."""
    (folder / "home").mkdir(exist_ok=True)
    env = {"HOME": str(folder / "home"), "PATH": f"{program.parent}:{os.environ['PATH']}", **given}
    return subprocess.run([program, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_site_packages_get_one_name_and_what_needs_no_java(wheel: Path) -> None:
    """No `jobs`, `schemas` or `conf` of ours lies where anybody's may; no import in it names them; Spark is an extra."""
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"namesrv_history"}
        sources = {name: files.read(name).decode() for name in names if name.endswith(".py")}
        metadata = next(files.read(name).decode() for name in names if name.endswith("/METADATA"))
    assert len(sources) > 150
    for name, source in sources.items():
        words = [line.split()[1] for line in source.splitlines() if line.strip().startswith(("from ", "import "))]
        assert not [word for word in words if word.partition(".")[0] in ("jobs", "schemas", "namesrv_core")], name
    wanted = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert [line for line in wanted if "pyspark" in line and "extra ==" in line and "<" in line and ">=" in line]
    assert not [line for line in wanted if "extra ==" not in line and ("pyspark" in line or "delta-spark" in line)]


def test_what_the_pages_type_with_the_program_runs_anywhere(program: Path, tmp_path: Path) -> None:
    """Without a checkout, Spark, Java or a home, in the order of the pages: the verified table first; what needs Spark says so.

    Left out are lines that wait for somebody to ask.
    """
    typed = [line for page in PAGES for block in plain_blocks(page) for line in block.splitlines()]
    lines = [
        line for line in typed if line.startswith("namesrv-history ") and not line.startswith("namesrv-history mcp")
    ]
    assert lines[0] == "namesrv-history demo --in-process"
    shown = run(program.parent / "python", tmp_path, "-c", _TYPED, "\n".join(lines))
    assert shown.returncode == 0, shown.stderr
    assert "13,877 of 13,877" in shown.stdout
    assert "127.0.0.1:9876: vanished" in shown.stdout
    page = run(program, tmp_path, "report", "--output", "page.html", "--warehouse", "warehouse/demo")
    assert page.returncode == 0, page.stderr
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for extra, words in (("spark", ("sql", "SELECT 1")), ("mcp", ("mcp",))):
        refused = run(program, tmp_path, *words, "--warehouse", "warehouse/demo")
        assert (refused.returncode, f"namesrv-history[{extra}]" in refused.stderr) == (2, True)


def test_help_is_of_the_program_that_is_installed(program: Path, tmp_path: Path) -> None:
    """It names itself, and nothing that only a checkout has; its version is the distribution's."""
    shown = run(program, tmp_path, "--help").stdout
    assert shown.startswith("usage: namesrv-history ")
    assert "mutate" not in shown
    assert run(program, tmp_path, "test").returncode == 2
    assert run(program, tmp_path, "--version").stdout == f"namesrv-history {__version__}\n"


# -- examples ----------------------------------------------------------------------------------------------------------


def a_minute_in(folder: Path) -> None:
    """Write the first minute of the bundled capture into a new folder."""
    folder.mkdir()
    (folder / "a.pcap").write_bytes(capture_in_two(60)[0])


def test_the_task_of_databricks_runs_a_night_and_fails_where_the_night_does(program: Path, tmp_path: Path) -> None:
    """Its script with its parameters, of which the folders are ours: a published night; a failure is an exception."""
    folder = CHECKOUT / "examples" / "databricks"
    bundle = yaml.safe_load((folder / "databricks.yml").read_text(encoding="utf-8"))
    (task,) = bundle["resources"]["jobs"]["nightly"]["tasks"]
    told = task["spark_python_task"]
    a_minute_in(tmp_path / "captures")
    words = [str(folder / told["python_file"]), *told["parameters"]]
    words = [word.replace("/Volumes/main/namesrv", str(tmp_path)) for word in words]
    python = program.parent / "python"
    done = run(python, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b([1-9][\d,]+) of \1\b", done.stdout), done.stdout
    shutil.rmtree(tmp_path / "captures")
    failed = run(python, tmp_path, *words)
    assert "RuntimeError: namesrv-history ended with code 2" in failed.stderr
    (library,) = task["libraries"]
    assert (folder / library["whl"]).parent == folder / ".." / ".." / bundle["artifacts"]["program"]["build"].split()[4]


@pytest.mark.jvm
def test_the_spark_application_runs_where_spark_brings_its_own_python_packages(program: Path, tmp_path: Path) -> None:
    """Its file in the image's package, with its arguments and settings: a night by spark-submit, no PySpark beside the program."""
    told = yaml.safe_load((CHECKOUT / "examples" / "kubernetes" / "nightly.yaml").read_text(encoding="utf-8"))["spec"]
    docker = (CHECKOUT / "examples" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    known = r"(#.*|(FROM|COPY|RUN|USER|WORKDIR|ENTRYPOINT|CMD) .*| && .*|)"
    assert not [line for line in docker.splitlines() if not re.fullmatch(known, line)]
    assert told["image"] in docker
    (code,) = re.findall(r"ln -s \"\$\(python3 -c '(.*)'\)\" /opt/namesrv-history", docker)
    package = run(program.parent / "python", tmp_path, "-c", code).stdout.strip()
    script = told["mainApplicationFile"].replace("local:///opt/namesrv-history", package)
    a_minute_in(tmp_path / "captures")
    arguments = [word.replace("/data/", f"{tmp_path}/") for word in told["arguments"]]
    settings = [word for name, value in told["sparkConf"].items() for word in ("--conf", f"{name}={value}")]
    given = {one["name"]: one["value"] for one in told["driver"]["env"]} | {
        "PYSPARK_PYTHON": str(program.parent / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    submit = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-submit"
    done = run(submit, tmp_path, "--master", "local[2]", *settings, script, *arguments, **given)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"\b([1-9][\d,]+) of \1\b", done.stdout), done.stdout
