"""How many examples a property is tried with."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest
from hypothesis import settings

FEW: Final = 5
_TIMES: Final = int(os.environ.get("NAMESRV_EXAMPLES", "1"))


def examples(number: int) -> int:
    """Return `number`, or few in the loop of work (`test --quick`): a number that a test states counts more than a profile's."""
    return min(number, FEW) if settings.get_current_profile_name() == "quick" else more(number)


def more(number: int) -> int:
    """Return `number` times what NAMESRV_EXAMPLES says: 1, where nobody asks for more."""
    return number * _TIMES


def great(number: int) -> int:
    """As `more`, in CI; elsewhere a twentieth of it."""
    return more(number if os.environ.get("CI") == "true" else max(1, number // 20))


def first_quick(first: Any, *others: Any) -> list[Any]:
    """Return the values of a parameter, of which the first proves the basics in the loop of work and the others are slow."""
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
