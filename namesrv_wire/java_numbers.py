"""Whole numbers as Java reads them from text and from JSON."""

from __future__ import annotations

import re
from typing import Final

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import Fraction, ambiguous

INT: Final = (-(1 << 31), (1 << 31) - 1)
LONG: Final = (-(1 << 63), (1 << 63) - 1)
_PLAIN = re.compile(r"-?[0-9]{1,40}")


def java_long(text: str | None) -> int | None:
    """Return the number that `Long.parseLong` reads: an optional sign and decimal digits of any script.

    None for what it refuses (the name server logs that and goes on).
    """
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isdecimal() or len(digits) > 4_000 or max(digits) > "\uffff":
        return None
    value = int(text)
    return value if LONG[0] <= value <= LONG[1] else None


def java_int(text: str | None) -> int | None:
    """Return the number that `Integer.parseInt` reads; None for what it refuses."""
    value = java_long(text)
    return value if value is not None and INT[0] <= value <= INT[1] else None


def java_integer(value: object, bounds: tuple[int, int], what: str, refusal: Reason) -> int:
    """Return the number that a Java field of type int or long gets from a JSON value; a null leaves 0.

    Digits in quotes are read, and a fraction loses what is behind its point. Raises `DecodeError`: `refusal` for a
    number out of `bounds`, ambiguous for anything else.
    """
    if value is None:
        return 0
    number = value
    if isinstance(value, Fraction):
        number = value.text.partition(".")[0]
    if isinstance(number, str) and _PLAIN.fullmatch(number):
        number = int(number)
    if type(number) is not int:
        raise ambiguous(f"{what} is no plain number")
    if bounds[0] <= number <= bounds[1]:
        return number
    if isinstance(value, Fraction):
        raise ambiguous(f"{what} is out of range and no whole number")
    raise DecodeError(refusal, f"{what} is out of range")
