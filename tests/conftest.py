"""Fixtures that need Spark: one session for the whole run, one warehouse for each test."""

from __future__ import annotations

import functools
import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.examples import FEW

if TYPE_CHECKING:  # the core's tests must not pay for pyspark
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parent.parent
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


# What starts here lasts for seconds, of which one goes into verifying anew what compilers have made.
UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
if UNVERIFIED not in (_given := os.environ.get("SPARK_SUBMIT_OPTS", "")):
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_given} {UNVERIFIED}"
# Rows of tests are few: to compile a program for each plan is more than half of what a question costs. What is started through
# the wrapper compiles them, as it does for users.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


_NIGHTS = frozenset({"read_in", "whole", "nights"})
"""Fixtures of tests/night that run nights."""
# Pieces that take minutes, in the order in which they begin: longest first.
_LONGEST = (
    "spark",
    *(f"tests/{name}.py" for name in (
        "torture/test_torture", "night/test_pages_in_spark", "night/test_register", "night/test_wrong_files",
        "night/test_late", "wire/test_fuzz", "oracle/test_live_record", "oracle/test_oracle", "night/test_captures",
        "night/test_intervals", "env/test_package", "night/test_gaps", "night/test_nights",
    )),
)  # fmt: skip


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files aside of which no test would be chosen: each costs every process its imports."""
    if config.option.markexpr != "not slow and not jvm" or not collection_path.name.startswith("test_"):
        return None
    is_slow = re.search(r"^pytestmark = .*\bmark\.(slow|jvm)\b", collection_path.read_text("utf-8"), re.MULTILINE)
    return True if is_slow else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector off what is collected, which lives to the end: to look through it takes a tenth of all time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)  # as commands of ours have it
        gc.enable()


def pytest_unconfigure() -> None:
    """Let it go again: what is left at the end of a process is told as a leak."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM or nights (`test --quick` leaves it out); what takes longest begins first: no core is idle then."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            item.add_marker("jvm")
        if not _NIGHTS.isdisjoint(fixtures):
            item.add_marker("slow")
    if "PYTEST_XDIST_WORKER" in os.environ:
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        places = {name: place for place, name in enumerate(_LONGEST)}
        items.sort(key=lambda item: (places.get(_piece(item.path), len(places)), item.path not in slow))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the files of a piece to one process, one after the other."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  where there are processes at all

    class Pieces(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return _piece(config.rootpath / super()._split_scope(nodeid))

    return Pieces(config, log) if config.getvalue("dist") == "loadfile" else None


@functools.cache
def _piece(path: Path) -> str:
    """Return the piece of which a file is: one session of Spark does for all that ask it; every other file is its own."""
    is_asking = "spark: SparkSession" in path.read_text(encoding="utf-8")
    return "spark" if is_asking else path.relative_to(_ROOT).as_posix()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the one session of the run; tests without Spark never import it."""
    from jobs.session import spark_session  # noqa: PLC0415  as above

    with pytest.MonkeyPatch.context() as patched:
        options = " ".join(f"-D{name}={value}" for name, value in INTERPRETED.items())
        patched.setenv("SPARK_SUBMIT_OPTS", f"{os.environ['SPARK_SUBMIT_OPTS']} {options}")
        session = spark_session("tests", brief=True)
    assert session.newSession().conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Give an empty directory for the tables of one test."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path
