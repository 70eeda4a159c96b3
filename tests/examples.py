"""How many examples a property is tried with."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

FEW: Final = 5


def examples(number: int) -> int:
    """Return `number`, or few in the loop of work (`test --quick`): a number that a test states counts more than a profile's."""
    return min(number, FEW) if settings.get_current_profile_name() == "quick" else number
