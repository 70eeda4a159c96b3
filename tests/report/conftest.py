"""The warehouse after a night on the bundled capture, as the tests of nights have it."""

from __future__ import annotations

from tests.night.conftest import whole

__all__ = ("whole",)
