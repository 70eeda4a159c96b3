"""The option that regenerates what the scenarios expect."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --rewrite."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the scenarios give now; commit it only if you know why it changed",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be regenerated."""
    return bool(request.config.getoption("--rewrite", default=False))
