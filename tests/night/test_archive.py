"""Tasks where executors have the packages as one archive, not as folders: on a cluster."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark import cloudpickle

from jobs.passes import InProcess
from tests.night.nights import Nights, night
from tests.places import CHECKOUT

pytestmark = pytest.mark.slow

P = TypeVar("P")
R = TypeVar("R")
_SHIPPED = ("namesrv_core", "namesrv_wire", "namesrv_day", "schemas", "jobs")
_TASKS = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
task, work = pickle.load(sys.stdin.buffer)
import jobs
assert jobs.__file__.startswith(sys.argv[1]), jobs.__file__
sys.stdout.buffer.write(pickle.dumps([task(piece) for piece in work]))
"""


class InArchive(InProcess):
    """Each pass in a process that knows the packages from an archive alone."""

    def __init__(self, archive: Path) -> None:
        super().__init__()
        self._archive = archive

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        command = [sys.executable, "-I", "-c", _TASKS, str(self._archive)]
        given = cloudpickle.dumps((task, list(work)))
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, cwd=self._archive.parent, check=True)
        return list(cloudpickle.loads(done.stdout))


def test_tasks_run_from_an_archive_of_the_packages(nights: Nights, tmp_path: Path) -> None:
    """A night whose tasks have the packages as a cluster's executors have them gives the tables of one whose tasks have folders."""
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (path for name in _SHIPPED for path in (CHECKOUT / name).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                packed.write(path, path.relative_to(CHECKOUT))
    found = night(tmp_path / "warehouse", nights.logs[0], passes=InArchive(archive))
    assert found.digests == nights.summaries[0].digests
