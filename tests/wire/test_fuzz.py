"""Coverage-guided fuzzing of everything that reads hostile bytes; tests/wire/fuzz says how."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import great
from tests.wire.fuzz.targets import TARGETS

INPUTS = great(200_000)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_pass(name: str) -> None:
    """Every target takes its own seeds, and none of them is empty: the fuzzer starts from input that is decoded."""
    seeds = list(TARGETS[name].seeds())
    assert len(seeds) >= 4
    for seed in seeds:
        TARGETS[name].run(seed)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris exists for Linux on x86_64 with Python 3.11 or newer only: no fuzzing here",
)
def test_many_inputs_raise_nothing_but_documented_errors(tmp_path: Path) -> None:
    """Over all targets (CI: twenty times as many; `./spark-submit.sh fuzz`: a million): no other exception, 10 s, 1 GiB at most."""
    command = [sys.executable, "-m", "tests.wire.fuzz", "--inputs", str(INPUTS), "--findings", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    print(done.stdout)  # noqa: T201  the figures, shown with -s and on failure
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" inputs in ") == len(TARGETS)
    assert not list(tmp_path.iterdir())
