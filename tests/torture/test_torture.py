"""A little of what is broken on purpose; `.ci/run` does more of it by `./spark-submit.sh torture NAME` (docs/reliability.md).

Rewrites, cuts and late lines are tests elsewhere: tests/store/test_chain.py, tests/night/test_cuts.py,
tests/wire/test_lateness.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.torture.__main__ import main
from tests.torture.disks import small_disk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "seeds"), [("flip", 2), ("kill", 2), ("simulation", 6)])
def test_nothing_is_silent(kind: str, seeds: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each seed is survived, or refused with what is wrong; the counts are printed."""
    assert main([kind, "--seeds", str(seeds)]) == 0, capsys.readouterr().out
    assert f"{kind}: {seeds} tried" in capsys.readouterr().out


@pytest.mark.jvm
def test_a_full_disk_is_refused_wherever_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That of the warehouse, of temporary files and of Spark's; with room again the next night publishes."""
    try:
        with small_disk(tmp_path / "small"):
            pass
    except subprocess.CalledProcessError:
        pytest.skip("mounting a file system is not allowed here")
    assert main(["disk", "--seeds", "4"]) == 0, capsys.readouterr().out


def test_who_sees_nothing_wrong_is_told_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that nobody notices, and one that ends with an exception, are printed with their seeds, and the exit code is 1."""

    def canary(seed: int, _: Path) -> tuple[str, str]:
        """Notice nothing."""
        if seed == 1:
            raise KeyError("x")
        return ("silent" if seed == 2 else "survived"), "another answer"

    monkeypatch.setitem(__import__("tests.torture.__main__", fromlist=["KINDS"]).KINDS, "soak", canary)
    assert main(["soak", "--seeds", "4"]) == 1
    said = capsys.readouterr().out
    assert "seed 1: silent: Traceback" in said
    assert "seed 2: silent: another answer" in said
    assert "soak: 4 tried, 2 survived, 0 refused, 0 unverified, 2 silent" in said
