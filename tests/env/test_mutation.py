"""Mutation testing runs on a copy of the core and its tests: what these import must be copied too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import CHECKOUT, toml


@pytest.mark.slow
def test_the_tests_of_the_core_can_be_collected_among_what_is_copied(tmp_path: Path) -> None:
    """With nothing there but what mutmut is told to copy, and what it copies by itself, every test is found."""
    told = toml(CHECKOUT / "pyproject.toml")["tool"]["mutmut"]
    for name in (*told["source_paths"], *told["also_copy"], "tests", "pyproject.toml"):
        (tmp_path / name.rstrip("/")).symlink_to(CHECKOUT / name.rstrip("/"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "tests/core"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},  # which leads to the checkout
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:]
