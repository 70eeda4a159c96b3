"""In how many packs days are replayed."""

from __future__ import annotations

import pytest

from jobs.night.packs import grouped, packs_of


@pytest.mark.parametrize(
    ("rows", "width", "packs"),
    [
        ({}, 2, {}),
        ({"a": 9}, 1, {"a": 1}),
        ({"a": 1_000_000}, 1, {"a": 1}),
        ({"a": 1_000_000}, 2, {"a": 4}),
        ({"a": 1_000_000, "b": 900_000}, 2, {"a": 1, "b": 1}),
        ({"a": 1_000_000, "b": 1_000_000, "c": 1_000_000}, 2, {"a": 2, "b": 2, "c": 2}),
        ({"a": 1_000_000, "b": 1_000_000}, 8, {"a": 8, "b": 8}),
        ({"a": 1_000_000, "b": 10_000}, 2, {"a": 4, "b": 1}),
        ({"a": 30_000}, 8, {"a": 2}),
        ({"a": 20_000}, 8, {"a": 1}),
    ],
)
def test_as_few_packs_as_keep_all_cores_busy(rows: dict[str, int], width: int, packs: dict[str, int]) -> None:
    """Whole days where they share the cores evenly, two packs a core elsewhere, and none of less than 20,000 rows."""
    assert packs_of(rows, width) == packs


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
    """As many tasks as run at once share them evenly; no group is a pack and more, but for its last day."""
    assert grouped(enumerate(rows), width) == [tuple(group) for group in groups]
