"""The book of bugs: each is put back into a copy of the source, one by one, and a named test has to see it.

A bug is the text that is right, the text that was wrong, and the test. The test passes on the copy as it is, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from tests.places import CHECKOUT, toml


class Bug(NamedTuple):
    """What it does, where it was, and the test that sees it."""

    what: str
    file: str
    right: str
    wrong: str
    test: str


BUGS = [Bug(**bug) for bug in toml(Path(__file__).with_suffix(".toml"))["bug"]]


@cache
def copied() -> Path:
    """Return a copy of the source."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    to = Path(mkdtemp(prefix="namesrv-bugs-"))
    for name in listed.stdout.splitlines():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, to / name)
    return to


def code_of(*tests: str) -> int:
    """Return the exit code of some tests on the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copied(), capture_output=True, check=False).returncode


@cache
def code_without(part: int) -> int:
    """Return the exit code of the tests that ten of the bugs name on the copy as it is."""
    return code_of(*sorted({bug.test for bug in BUGS[10 * part : 10 * part + 10]}))


def bugs(seed: int, _: Path) -> tuple[str, str]:
    """Put a bug back into a copy of the source: its test fails; without any of the bugs it passes."""
    number = seed % len(BUGS)
    bug, without = BUGS[number], code_without(number // 10)
    file = copied() / bug.file
    text = file.read_text(encoding="utf-8")
    if text.count(bug.right) != 1:
        return "silent", f"{bug.file} has not once: {bug.right}"
    file.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
    try:
        with_it = code_of(bug.test)
    finally:
        file.write_text(text, encoding="utf-8")
    is_seen = (with_it, without) == (1, 0)
    return (
        "refused" if is_seen else "silent"
    ), f"{bug.what}: {bug.test} ends with {with_it}; without a bug it and its neighbours end with {without}"
