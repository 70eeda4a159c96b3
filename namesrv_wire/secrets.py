"""Fields that carry credentials: their names, and how their values are blotted out of raw frames."""

from __future__ import annotations

import json
import re
import struct
from typing import Final

SECRET_KEYS: Final = frozenset(
    {"accesskey", "secretkey", "signature", "securitytoken", "onschannel", "password", "authorization"}
)
"""ext fields that are dropped, in lower case; any case on the wire.

Source: both generations `SessionCredentials`, and names that other authentication hooks use.
"""

# Up to the end of what was cut off: else each quote inside would be tried as the beginning of one, up to the end.
_JSON_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)("|\\?\Z)', re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_WHOLE_ESCAPES = re.compile(rb"(?:[^\\]|\\(?:u[0-9a-fA-F]{4}|[^u]))*", re.DOTALL)
_PARTIAL_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_BINARY_KEY = re.compile(b"|".join(re.escape(key.encode()) for key in sorted(SECRET_KEYS)), re.IGNORECASE)
_BLOT = b"x"
# Each name is looked at from its beginning alone.
_PROPERTY = re.compile(
    rb"(?<![\w.-])(?=[\w.-]*(?:access\.?key|credential|passw(?:or)?d|secret|token))[\w.-]+[ \t]*[=:][ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
"""A property of a configuration, as UPDATE_NAMESRV_CONFIG has it in its body, and answers that show it."""
_NUMBER = re.compile(rb"[^,}\]\s]*")


def is_secret(key: str) -> bool:
    """Return whether a field of this name carries a credential."""
    return key.lower() in SECRET_KEYS


def blot(data: bytes) -> bytes:
    """Return `data`, a frame or its beginning, with the values of secret fields replaced by 'x', same length.

    Works on JSON and binary headers, also on ones cut off inside a value, and on bodies. Of properties in a body, which can
    have any name, those are blotted whose name says that they are secret.
    """
    hidden, at = bytearray(data), 0
    for found in _BINARY_KEY.finditer(data):  # a value follows its key, which has its length in two bytes before it
        start, end = found.span()
        is_key = start >= 2 and int.from_bytes(data[start - 2 : start], "big") == end - start
        if start < at or not is_key or len(data) < end + 4:
            continue
        (size,) = struct.unpack_from(">i", data, end)
        at = min(len(data), end + 4 + max(size, 0))
        hidden[end + 4 : at] = _BLOT * (at - end - 4)
    # The string or number behind each secret JSON key, whatever escapes the key is written with.
    at = 0
    while (token := _JSON_STRING.search(data, at)) is not None and token[2] == b'"':
        at = token.end()
        colon = _COLON.match(data, at)
        if colon is None or not _names_secret(token[1]):
            continue
        start = colon.end()
        if data[start : start + 1] == b'"':
            value = _JSON_STRING.match(data, start)
            if value is not None and value[2] == b'"':
                first, last, at = start + 1, value.end() - 1, value.end()
            else:
                # Cut off: an escape that is unfinished at its end stays.
                whole = _WHOLE_ESCAPES.match(data, start + 1)
                stop = whole.end() if whole else start + 1
                last = stop if _PARTIAL_ESCAPE.match(data, stop) else len(data)
                first, at = start + 1, len(data)
        else:
            number = _NUMBER.match(data, start)
            first, last = start, number.end() if number else start
            at = last
        hidden[first:last] = _BLOT * (last - first)
    for found in _PROPERTY.finditer(data):
        hidden[found.start(1) : found.end(1)] = _BLOT * (found.end(1) - found.start(1))
    return bytes(hidden)


def _names_secret(raw: bytes) -> bool:
    key = raw.decode("utf-8", "replace")
    if "\\" in key:
        try:
            key = str(json.loads(f'"{key}"', strict=False))
        except ValueError:
            return False
    return is_secret(key)
