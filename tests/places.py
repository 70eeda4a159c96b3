"""Where tests find what lies in the checkout, and recordings of real clusters, which are too large to be part of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(__file__).resolve().parents[1]
CAPTURE = CHECKOUT / "examples" / "v4-lifecycle" / "capture.pcap.gz"
CASES = CHECKOUT / "tests" / "cases"


def recorded(name: str) -> Path:
    """Return a file, or a folder, of the recordings that NAMESRV_CAPTURES names; skip the test where they are not at hand."""
    if "NAMESRV_CAPTURES" not in os.environ:
        pytest.skip(f"not in this repository: NAMESRV_CAPTURES names the folder that has {name}")
    return Path(os.environ["NAMESRV_CAPTURES"]) / name


def toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file says."""
    said: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return said
