"""Chance without a state: the hashes are Spark's, and shares are shares."""

from __future__ import annotations

import numpy as np
import pytest

from tools.fleet import draws
from tools.fleet.draws import PPM, draw, happens, hashed, text_hash

INT, LONG = np.int32, np.int64
LEAST_INT, MOST_INT = -(1 << 31), (1 << 31) - 1
LEAST_LONG, MOST_LONG = -(1 << 63), (1 << 63) - 1


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", -7444071767201028348),
        ("abc", 1423657621850124518),
        ("1 jitter", 8493131220217376201),
        ("abcdefgh1234", -6891275907204492535),
        ("ü 12345", -6676089663309461967),
    ],
)
def test_texts_have_sparks_hashes(text: str, expected: int) -> None:
    """`SELECT xxhash64(text)` of Spark 4.2 says the same, whatever is left beyond words of eight and four bytes."""
    assert signed(text_hash(text.encode(), 42)) == expected


@pytest.mark.parametrize(
    ("text", "of", "expected"),
    [
        ("1 jitter", [(INT, 0), (INT, 5), (LONG, 77)], 6156874513381894054),
        (
            "123456789012345678901234567890 partition begin 12345678901234567890",
            [(INT, -1), (INT, 3)],
            -4230620692683212163,
        ),
    ],
)
def test_values_are_chained_as_columns(text: str, of: list, expected: int) -> None:
    """`SELECT xxhash64(text, 0, 5, 77L)`; the second text is longer than the 32 bytes that are hashed at a time."""
    found = hashed(text, *(np.array([value], type_) for type_, value in of))
    assert signed(int(found[0])) == expected


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ([(INT, 0)], 3614696996920510707),
        ([(INT, -1)], 2017008487422258757),
        ([(LONG, 0)], -5252525462095825812),
        ([(LONG, -1)], 3858142552250413010),
        ([(INT, MOST_INT), (INT, LEAST_INT), (LONG, MOST_LONG), (LONG, LEAST_LONG)], -206182987016063526),
    ],
)
def test_ints_and_longs_are_told_apart(of: list, expected: int) -> None:
    """`SELECT xxhash64(-1)` and `SELECT xxhash64(-1L)` are two numbers; so it is at both ends of their ranges."""
    found = np.array([42], np.uint64)
    for type_, value in of:
        hashes = draws._int_hashes if type_ is INT else draws._long_hashes
        found = hashes(np.array([value], type_), found)
    assert signed(int(found[0])) == expected


def test_draws_are_spread_evenly_and_shares_are_kept() -> None:
    """Of 100,000 draws below ten each number comes about as often; three in a hundred happen in about that share."""
    b = np.arange(100, dtype=INT)[None, :]
    k = np.arange(1_000)[:, None]
    drawn = draw(1, "number", 10, b, k)
    assert drawn.shape == (1_000, 100)
    assert np.bincount(drawn.ravel(), minlength=10).min() > 9_500
    assert 0.028 < happens(1, "event", 3 * PPM // 100, b, k).mean() < 0.032
