"""Keys that lie in order are compared where their runs overlap, and nothing is missed where they do not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_day.gate import runs
from namesrv_day.gate.runs import Run, Stretch, run_of

Files = list[tuple[str, list[int]]]


def numbers(*keys: int) -> runs.Numbers:
    return np.array(keys, np.int64)


def counted(files: Files) -> dict[str, tuple[int, list[int]]]:
    """Return by owner how many different keys its files have, and those that are there more than once."""
    found = [run_of("positions", owner, numbers(*keys)) for owner, keys in files]

    def keys_in(stretch: Stretch) -> list[runs.Numbers]:
        return [runs.within(stretch, numbers(*files[n][1])) for n in stretch.runs]

    found += [runs.compared(stretch, keys_in(stretch)) for stretch in runs.overlaps(found)]
    return {
        copies.owner: (copies.keys, copies.repeated.view(np.int64).tolist())
        for copies in runs.copies("positions", found)
    }


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(-8, 40), min_size=1, max_size=12)), min_size=1, max_size=7
    )
)
def test_what_is_there_twice_is_found_in_whatever_files_it_lies(files: Files):
    """Of any keys in any order in any files, each owner's different ones are counted, and exactly the copies found."""
    expected = {}
    for owner in {owner for owner, _ in files}:
        times = Counter(key for of, keys in files if of == owner for key in keys)
        expected[owner] = (len(times), sorted(key for key, count in times.items() if count > 1))
    assert counted(files) == expected


def test_files_that_follow_each_other_are_not_read_again():
    """Where no run reaches into another there is nothing to compare, of one owner or of several."""
    apart = [("a", [1, 2]), ("a", [3, 9]), ("b", [2, 5]), ("a", [10])]
    assert runs.overlaps([run_of("positions", owner, numbers(*keys)) for owner, keys in apart]) == []


def test_only_what_overlaps_is_read_again():
    """A short run inside a long one makes one stretch, its own; two kinds of keys have nothing to do with each other."""
    found = [
        run_of("positions", "a", numbers(1, 50)),
        run_of("positions", "a", numbers(20, 30)),
        run_of("heartbeats", "a", numbers(25, 26)),
    ]
    assert runs.overlaps(found) == [Stretch("positions", "a", 20, 30, (0, 1))]


@pytest.mark.parametrize("marks", [64, 640])
def test_a_long_stretch_is_compared_in_parts(marks):
    """Stretches hold so many keys at most that memory stays bounded, and together all of what overlaps."""
    every = 65_536
    long = Run("positions", "a", marks * every, 0, marks * every - 1, tuple(range(0, marks * every, every)), ())
    stretches = runs.overlaps([long, long])
    assert [one.last + 1 for one in stretches[:-1]] == [one.first for one in stretches[1:]]
    assert (stretches[0].first, stretches[-1].last) == (0, long.last)
    assert max(one.last - one.first for one in stretches) <= 33 * every
