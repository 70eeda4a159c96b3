"""Fixtures that need Spark: one session for the whole run, one warehouse for each test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:  # the core's tests must not pay for pyspark
    from pyspark.sql import SparkSession

# In CI the same examples every time: a red run can be repeated, and a green one means something.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("developer", deadline=None)
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
    """Mark what needs a JVM: `test --quick` leaves it out."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("jvm")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the one session of the run; tests without Spark never import it."""
    from jobs.session import spark_session  # noqa: PLC0415  as above

    session = spark_session("tests")
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Give an empty directory for the tables of one test."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path
