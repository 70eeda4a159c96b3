"""Which name servers' days are one task."""

from __future__ import annotations

import pytest

from jobs.night.night import grouped


@pytest.mark.parametrize(
    ("rows", "width", "groups"),
    [
        ([], 2, []),
        ([0], 4, [[0]]),
        ([14] * 13, 1, [[*range(13)]]),
        ([14] * 13, 2, [[*range(7)], [*range(7, 13)]]),
        ([500_000, *[20] * 13], 2, [[0], [*range(1, 14)]]),
        ([500_000, 500_000], 1, [[0], [1]]),
        ([15_000] * 4, 1, [[0], [1], [2], [3]]),
        ([5_000] * 6, 1, [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_small_days_are_one_task(rows: list[int], width: int, groups: list[list[int]]) -> None:
    """As many tasks as run at once share them evenly; no group has more rows than a task is worth, but for its last day."""
    assert grouped(enumerate(rows), width) == [tuple(group) for group in groups]
