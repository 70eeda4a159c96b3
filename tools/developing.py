"""The developers' commands: checks, tests, oracle, benchmarks. All run in the checkout."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from jobs.processes import cores
from jobs.session import CommandLine
from jobs.start.java import CHECKOUT, Java, plain_python

_QUICK = ("-m", "not slow and not jvm")
_NEED_JAVA = frozenset({"oracle", "bench"})
_MODULES = {
    "bench": "tools.bench",
    "dependencies": "tools.dependencies",
    "fuzz": "tests.wire.fuzz",
    "oracle": "tests.oracle",
    "simulate": "tools.fleet",
    "torture": "tests.torture",
    "trace": "tools.trace",
}


def develop(word: str, options: Sequence[str]) -> int:
    """Run a command in the checkout and return its exit code; named files are relative to the caller's folder."""
    if word in _NEED_JAVA:
        _with_spark()
    os.environ["PYTHONSAFEPATH"] = "1"  # a folder named tools may be anybody's
    if word in _MODULES:
        return _python("-m", _MODULES[word], *options)
    os.chdir(CHECKOUT)
    return {"coverage": _coverage, "lint": _lint, "mutate": _mutate, "test": _test}[word](options)


def _test(options: Sequence[str]) -> int:
    if options[:1] == ["--quick"]:
        plain_python()
        return _python("-m", "pytest", *_spread(cores()), "--hypothesis-profile=quick", *_QUICK, *options[1:])
    _with_spark()
    # One process more works while another waits for a JVM, a broker or a socket.
    return _python("-m", "pytest", *(options or _spread(cores() + 1)))


def _spread(processes: int) -> Sequence[str]:
    """Return options for so many processes, four at most: each reads the tests and makes what many of them start from.

    What each is given in one piece, and in which order, says tests/conftest.py.
    """
    return (f"--numprocesses={min(4, processes)}", "--dist=loadfile", "--no-loadscope-reorder")


def _lint(_: Sequence[str]) -> int:
    """Check types without a cache: mypy's cache once hid an error that a fresh clone had."""
    checks = (
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy", "--cache-dir=/dev/null"),
        (f"{sys.prefix}/bin/lint-imports", "--no-logo"),
    )
    return max(_python(*check) != 0 for check in checks)


def _coverage(_: Sequence[str]) -> int:
    """Branches and statements have bars of their own, which coverage's one percentage cannot express."""
    # The same few examples each time reach what the bars ask for: great numbers are the suite's.
    tests = ("-q", "--hypothesis-profile=mutants", *_QUICK, "tests/core")
    code = _python("-m", "coverage", "run", "-m", "pytest", *tests)
    if code or (code := _python("-m", "coverage", "report")):
        return code
    found = subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], stdout=subprocess.PIPE, check=True
    )
    return subprocess.run([sys.executable, "tests/core/coverage_bars.py"], input=found.stdout, check=False).returncode


def _mutate(options: Sequence[str]) -> int:
    """Mutmut remembers verdicts in mutants/ and does not see that a test has changed; asking for a module asks anew."""
    if not options:
        shutil.rmtree("mutants", ignore_errors=True)
    code = _python("-m", "mutmut", "run", *(f"namesrv_core.{name}.*" for name in options[:1]))
    return code or _python("tests/core/mutants_by_module.py")


def _with_spark() -> None:
    """Have Java and Delta's JARs, and an archive of classes for the many JVMs that start."""
    java = Java()
    java.ensure_jars()
    plain_python()
    java.ensure_archive()
    if java.fits_archive(CommandLine()):
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(java.use_archive())} pyspark-shell"


def _python(*arguments: str) -> int:
    return subprocess.run([sys.executable, *arguments], check=False).returncode
