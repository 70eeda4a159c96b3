"""Fixtures that need Spark: one session for the whole run, one warehouse for each test."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.examples import FEW

if TYPE_CHECKING:  # the core's tests must not pay for pyspark
    from pyspark.sql import SparkSession

# In CI the same examples every time: a red run can be repeated, and a green one means something.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("developer", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=FEW)
# Under mutation testing each mutant runs all of them: few, the same ones, and a failure is not worth minimising.
settings.register_profile(
    "mutants",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
if "MUTANT_UNDER_TEST" in os.environ:
    settings.load_profile("mutants")
else:
    settings.load_profile("ci" if os.environ.get("CI") == "true" else "developer")


# In a process of its own that pytest starts for a part of the tests, the main module has no file. PySpark takes that for its
# own doctests and, as soon as Great Expectations is imported, ends the process.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM (`test --quick` leaves it out); what takes longest begins first, so that no core is idle at the end."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("jvm")
    if "PYTEST_XDIST_WORKER" in os.environ:
        jvm, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("jvm", "slow"))
        items.sort(key=lambda item: (item.path not in jvm, item.path not in slow))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files with tests that need a JVM to one process, one after the other: a core is left to all others, one session does."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  where there are processes at all

    class Pieces(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            path: str = super()._split_scope(nodeid)
            return "jvm" if _needs_jvm(config.rootpath / path) else path

    return Pieces(config, log) if config.getvalue("dist") == "loadfile" else None


@functools.cache
def _needs_jvm(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return "mark.jvm" in text or "spark: SparkSession" in text


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the one session of the run; tests without Spark never import it."""
    from jobs.session import spark_session  # noqa: PLC0415  as above

    session = spark_session("tests", brief=True)
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Give an empty directory for the tables of one test."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path
