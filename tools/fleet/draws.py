"""Stateless random numbers: a number is the hash of what it is drawn for.

The hash is xxHash64, chained from value to value as Spark's function `xxhash64` chains it from column to column: SQL can draw the
same numbers. As there, an int (int32) and a long (int64) of one value have different hashes.

Source: Spark 4.2 XxHash64Function and XXH64; xxHash's specification, XXH64.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int32] | NDArray[np.int64]"
Longs: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

PPM: Final = 1_000_000
"""Shares are drawn in millionths."""
_SPARKS_SEED = 42
_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def draw(seed: int, purpose: str, below: int | Longs, *of: Numbers) -> Longs:
    """Return numbers from 0 up to, not with, `below`, the same for the same seed, purpose and values; arrays are broadcast."""
    # The sign bit is cleared: a remainder must not be negative.
    drawn: Longs = (hashed(f"{seed} {purpose}", *of) >> np.uint64(1)).astype(np.int64)
    drawn %= below
    return drawn


def happens(seed: int, purpose: str, ppm: int, *of: Numbers) -> Bools:
    """Return whether an event happens that has a chance of so many in a million."""
    found: Bools = draw(seed, purpose, PPM, *of) < ppm
    return found


def hashed(text: str, *of: Numbers) -> NDArray[np.uint64]:
    """Return the hash of a text and of values, one after the other; arrays are broadcast."""
    # An array, for numbers of NumPy's warn where they overflow.
    found = np.array([text_hash(text.encode(), _SPARKS_SEED)], np.uint64)
    for values in of:
        found = _int_hashes(values, found) if values.dtype == np.int32 else _long_hashes(values, found)
    return found


def _int_hashes(values: Any, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = np.asarray(values).astype(np.uint32).astype(np.uint64) * np.uint64(_P1)
    return _avalanche(_rotated((seeds + np.uint64(_P5 + 4)) ^ mixed, 23) * np.uint64(_P2) + np.uint64(_P3))


def _long_hashes(values: Any, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = _rotated(np.asarray(values).astype(np.uint64) * np.uint64(_P2), 31) * np.uint64(_P1)
    return _avalanche(_rotated((seeds + np.uint64(_P5 + 8)) ^ mixed, 27) * np.uint64(_P1) + np.uint64(_P4))


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    rotated: NDArray[np.uint64] = values << np.uint64(bits)
    rotated |= values >> np.uint64(64 - bits)
    return rotated


def _avalanche(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values ^= values >> np.uint64(33)
    values *= np.uint64(_P2)
    values ^= values >> np.uint64(29)
    values *= np.uint64(_P3)
    values ^= values >> np.uint64(32)
    return values


def text_hash(data: bytes, seed: int) -> int:
    """Return the XXH64 of `data`, as an unsigned number."""
    whole = len(data) // 32 * 32
    if whole:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        for at in range(0, whole, 32):
            lanes = [_round(lane, _word(data, at + 8 * number)) for number, lane in enumerate(lanes)]
        found = sum(_rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = (found ^ _round(0, lane)) * _P1 + _P4
    else:
        found = seed + _P5
    found = _with_rest((found + len(data)) & _MASK, data[whole:])
    found = (found ^ (found >> 33)) * _P2 & _MASK
    found = (found ^ (found >> 29)) * _P3 & _MASK
    return found ^ (found >> 32)


def _with_rest(found: int, rest: bytes) -> int:
    words = len(rest) // 8 * 8
    for at in range(0, words, 8):
        found = (_rotl(found ^ _round(0, _word(rest, at)), 27) * _P1 + _P4) & _MASK
    if len(rest) - words >= 4:
        half = int.from_bytes(rest[words : words + 4], "little")
        found = (_rotl(found ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        words += 4
    for byte in rest[words:]:
        found = _rotl(found ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return found


def _round(lane: int, word: int) -> int:
    return _rotl(lane + word * _P2, 31) * _P1 & _MASK


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _rotl(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK
