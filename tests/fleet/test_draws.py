"""Chance without a state: shares are shares."""

from __future__ import annotations

import numpy as np

from tools.fleet.draws import PPM, draw, happens


def test_draws_are_spread_evenly_and_shares_are_kept() -> None:
    """Of 100,000 draws below ten each number comes about as often; three in a hundred happen in about that share."""
    b = np.arange(100, dtype=np.int32)[None, :]
    k = np.arange(1_000)[:, None]
    drawn = draw(1, "number", 10, b, k)
    assert drawn.shape == (1_000, 100)
    assert np.bincount(drawn.ravel(), minlength=10).min() > 9_500
    assert 0.028 < happens(1, "event", 3 * PPM // 100, b, k).mean() < 0.032
