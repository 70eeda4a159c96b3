"""The bars of the core's coverage hold something up."""

from __future__ import annotations

import io
import json

import pytest

from tests.core import coverage_bars


@pytest.mark.parametrize(
    ("statements", "branches", "failed"),
    [(100.0, 100.0, False), (100.0, 98.0, False), (99.99, 100.0, True), (100.0, 97.99, True)],
)
def test_either_figure_below_its_bar_fails(
    *, statements: float, branches: float, failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement that no test reaches is enough; of the branches one in fifty may be left out."""
    totals = {
        "percent_statements_covered": statements,
        "percent_branches_covered": branches,
        "num_statements": 10_000,
        "num_branches": 10_000,
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"totals": totals})))
    with pytest.raises(SystemExit) as ended:
        coverage_bars.main()
    assert bool(ended.value.code) is failed
