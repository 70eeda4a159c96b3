"""The environment archive: what is in it, and that it runs where only a Python of the same version is."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from jobs.start.pack import PYTHON, closure, pack


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a project that needs one small package, which needs another."""
    folder = tmp_path_factory.mktemp("pack")
    (folder / "pyproject.toml").write_text('[project]\ndependencies = ["python-dateutil"]\n', encoding="utf-8")
    pack(folder / "pyproject.toml", folder / "environment.tar.gz")
    return folder / "environment.tar.gz"


@pytest.fixture(scope="module")
def machine(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked archive, and `bin` as the PATH of a machine that has the Python and little else."""
    folder = tmp_path_factory.mktemp("machine")
    for name in ("environment", "bin"):
        (folder / name).mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder / "environment")], check=True)
    (folder / "bin" / "dirname").symlink_to("/usr/bin/dirname")
    (folder / "bin" / PYTHON).symlink_to(Path(sys.base_prefix) / "bin" / PYTHON)
    return folder


def run(machine: Path, code: str, path: str = "bin") -> subprocess.CompletedProcess[str]:
    env, command = {"PATH": str(machine / path), "PYTHONPATH": "first.zip"}, ["./environment/bin/python", "-c", code]
    return subprocess.run(command, cwd=machine, env=env, capture_output=True, text=True, check=False)


def test_packed_packages_and_what_they_need_can_be_imported_elsewhere(machine: Path) -> None:
    """The archive's Python finds its packages beside itself, behind what Spark has put on the path."""
    done = run(machine, "import dateutil.tz, six; print(dateutil.__file__)")
    assert done.stdout.startswith(str(machine / "environment"))
    path = run(machine, "import sys; print(*sys.path[1:], sep='\\n')").stdout.splitlines()
    assert path[0].endswith("first.zip")
    assert path[1].startswith(str(machine / "environment"))


def test_nothing_else_is_in_the_archive(archive: Path) -> None:
    """Packages that the project does not need, caches, commands and tests stay behind.

    The archive itself is looked into: a machine's own Python may well have further packages.
    """
    with tarfile.open(archive) as files:
        names = files.getnames()
    assert names[0] == "bin/python"
    assert [name for name in names if name.endswith("/dateutil/__init__.py")]
    assert not [name for name in names if "pytest" in name]
    assert not [name for name in names if "__pycache__" in name or ".." in name or "/tests/" in name]


def test_a_machine_without_the_right_python_is_told_so(machine: Path) -> None:
    """The message names the interpreter that is missing: Spark itself would only say that no worker came up."""
    (machine / "empty").mkdir()
    done = run(machine, "pass", path="empty")
    assert done.returncode == 127
    assert f"executors need {PYTHON} on their PATH" in done.stderr


def test_equal_environments_give_equal_archives(archive: Path, tmp_path: Path) -> None:
    """Neither time nor place is in the bytes: the digest of an archive says what is in it."""
    pack(archive.with_name("pyproject.toml"), tmp_path / "again.tar.gz")
    assert (tmp_path / "again.tar.gz").read_bytes() == archive.read_bytes()


def test_markers_and_extras_are_followed() -> None:
    """A requirement for another Python is left out; one that an extra brings is taken with the extra only."""
    without = {found.name for found in closure(["dpkt; python_version < '3'", "pyspark"])}
    assert "dpkt" not in without
    assert "pandas" not in without
    assert "pandas" in {found.name for found in closure(["pyspark[sql]"])}
