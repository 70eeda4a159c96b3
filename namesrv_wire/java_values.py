"""Numbers and texts as Java reads them."""

from __future__ import annotations

import re
from typing import Final

from namesrv_wire.json_text import Fraction, ambiguous

INT: Final = (-(1 << 31), (1 << 31) - 1)
LONG: Final = (-(1 << 63), (1 << 63) - 1)
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_REPLACEMENT = "\ufffd".encode()
_PLAIN = re.compile(r"-?[0-9]{1,40}")


def java_integer(value: object, bounds: tuple[int, int], what: str) -> int:
    """Return the number that a Java field of type int or long gets from a JSON value; a null leaves 0.

    Digits in quotes are read, and a fraction loses what is behind its point. Raises `DecodeError` for anything else.
    """
    if value is None:
        return 0
    if isinstance(value, Fraction):
        value = value.text.partition(".")[0]
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        value = int(value)
    if type(value) is not int or not bounds[0] <= value <= bounds[1]:
        raise ambiguous(f"{what} is no plain number in range")
    return value


def java_text(data: bytes) -> str:
    """Return UTF-8 as `new String(bytes, UTF_8)` reads it: U+FFFD for what is none, one for an encoded surrogate."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")
