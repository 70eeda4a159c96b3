"""Options that no fleet can have, and what says that two fleets are the same."""

from __future__ import annotations

import pytest

from jobs.errors import EXIT_USAGE
from tests.fleet.fleets import DAY, TROUBLED, fleet_like
from tools.fleet.fleet import FleetError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "light"}, "has none"),
        ({"timeout_ms": 5_000}, "no other"),
        ({"late": 1.5}, "no share"),
        ({"topics": 1}, "single topic"),
        ({"beats_per_minute": 7}, "whole number"),
        ({"version": "9.9"}, "no release"),
        ({"jitter_ms": 60_000}, "longer than a beat"),
        ({"brokers": 0}, "1 to 1048576"),
        ({"version": "5.4.0", "timeout_ms": 20_000}, "ends between two beats"),
    ],
)
def test_impossible_fleets_are_refused(options: dict[str, object], message: str) -> None:
    """The message says which option cannot be, and the exit code that it was an option."""
    with pytest.raises(FleetError, match=message) as caught:
        fleet_like(TROUBLED, **options)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_day_before_the_first_is_refused() -> None:
    """The fleet has no number for it."""
    with pytest.raises(FleetError, match="2025-12-31: the fleet starts on 2026-01-01"):
        TROUBLED.number_of(DAY.replace(year=2025, month=12, day=31))


def test_fleets_are_the_same_when_all_options_are() -> None:
    """What a warehouse remembers of a fleet is a digest of every option."""
    assert fleet_like(TROUBLED).sha256 == TROUBLED.sha256
    others: list[dict[str, object]] = [{"seed": 2}, {"outage_s": (30, 401)}, {"jitter_ms": 1}, {"shared_topics": True}]
    assert len({TROUBLED.sha256, *(fleet_like(TROUBLED, **other).sha256 for other in others)}) == 5
