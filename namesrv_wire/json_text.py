"""JSON from strangers, bounded before it is parsed.

One irregularity is accepted, since RocketMQ itself writes it: unquoted integer keys.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.limits import MAX_JSON_DEPTH, MAX_JSON_ITEMS, MAX_JSON_NODES

_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|([{\[])|([}\]])', re.DOTALL)
_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(?=\s*:)', re.DOTALL)


def parse_json(raw: bytes, what: str) -> Any:
    """Return the value of a JSON text; bytes that are no UTF-8 become U+FFFD as in Java.

    Unquoted integer keys are accepted (5.x static topics: `"currIdMap":{2:0,4:1}`). The last of duplicate
    keys counts. Raises `DecodeError`: too deep, too big, or no JSON (NaN and numbers beyond CPython's digit
    limit included).
    """
    _require_bounds(raw, what)
    text = raw.decode("utf-8", "replace")
    try:
        return _whole_characters(raw, _DECODER.decode(text))
    except (ValueError, RecursionError) as error:
        strict_error = error
    try:
        return _whole_characters(raw, _DECODER.decode(_quote_bare_keys(text)))
    except (ValueError, RecursionError):
        raise DecodeError(Reason.BAD_JSON, f"{what}: {_short(strict_error)}") from strict_error


def canonical_json(value: object) -> str:
    """Return the one strict JSON text of a value: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _require_bounds(raw: bytes, what: str) -> None:
    """Raise `DecodeError` for a text that nests or lists more than is allowed; one linear scan at most."""
    nodes = raw.count(b"{") + raw.count(b"[")
    if nodes <= MAX_JSON_DEPTH:
        return
    depth = nodes = 0
    for token in _STRUCTURE.finditer(raw):
        if token[1]:
            depth += 1
            nodes += 1
            if depth > MAX_JSON_DEPTH:
                raise DecodeError(Reason.JSON_TOO_DEEP, f"{what}: deeper than {MAX_JSON_DEPTH}")
            if nodes > MAX_JSON_NODES:
                raise DecodeError(Reason.JSON_TOO_BIG, f"{what}: more than {MAX_JSON_NODES} objects and arrays")
        elif token[2]:
            depth -= 1
    if raw.count(b",") > MAX_JSON_ITEMS:
        raise DecodeError(Reason.JSON_TOO_BIG, f"{what}: more than {MAX_JSON_ITEMS} items")


def _quote_bare_keys(text: str) -> str:
    """Return the text with integer keys in quotes; strings are left alone."""
    return _STRING_OR_BARE_KEY.sub(lambda found: f'{found[1]}"{found[2]}"' if found[2] else found[0], text)


def _whole_characters(raw: bytes, value: Any) -> Any:
    """Return the value with half surrogate pairs (only escapes can make them) as U+FFFD.

    No UTF-8 text holds one.
    """
    return _mend(value) if b"\\u" in raw else value


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _short(error: BaseException) -> str:
    """Return the error's message without the text that was parsed."""
    return str(error)[:120]


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, strict=False)
