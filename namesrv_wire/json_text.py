"""JSON from strangers, bounded before it is parsed, and its values as Java reads them.

What RocketMQ writes is strict JSON, but for one irregularity: unquoted integer keys. Its own readers
(fastjson 1.2.69 in 4.9.7, fastjson2 2.0.43 in 5.4.0) take a lot more, and not for the same: duplicate keys, names in
other case, NaN, comments, bytes that are no UTF-8. Such a text is ambiguous here: no row is made
of it, and none is taken for refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NoReturn

from namesrv_core.machine.tables import DataVersion, QueueData
from namesrv_wire.errors import MAX_JSON_DEPTH, MAX_JSON_ITEMS, MAX_JSON_NODES, MAX_NAME_CHARS, DecodeError, Reason

# A string without an end takes the rest: else each quote in it would be tried as the beginning of one.
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|([{\[])|([}\]])', re.DOTALL)
_BARE_KEYS = re.compile(r'"currIdMap"\s*:\s*\{[-\d\s:,]*\}')
_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(?=\s*:)")
_NO_JSON = re.compile(rb"x[\x01\x5e\x9c\xda]|[^{}\[/\"']{8}|[^{}\[/\"']*\Z")
"""How a text begins that no reader takes for an object: compressed data, or nothing that looks like JSON."""
INT: Final = (-(1 << 31), (1 << 31) - 1)
LONG: Final = (-(1 << 63), (1 << 63) - 1)
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_PLAIN = re.compile(r"-?[0-9]{1,40}")


@dataclass(frozen=True, slots=True, repr=False)
class Fraction:
    """A number with a fraction or an exponent, as it was written."""

    text: str

    def __repr__(self) -> str:
        """Return it as messages show it."""
        return self.text


class _AmbiguousError(ValueError):
    """JSON that two readers take for different values."""


def parse_json(raw: bytes, what: str, *, is_ours: bool = False) -> Any:
    """Return the value of a JSON text in UTF-8.

    Unquoted integer keys of queue maps are accepted (5.x static topics: `"currIdMap":{2:0,4:1}`), numbers that are not whole are
    `Fraction`. `is_ours`: no name server reads it, so that what is no JSON is not ambiguous. Raises `DecodeError`: too deep, too
    big, no JSON, or ambiguous.
    """
    _require_bounds(raw, what)
    try:
        text = raw.decode("utf-8")
        decoder = _CAREFUL if b"-0" in raw else _DECODER
        try:
            value, end = decoder.raw_decode(text)
            value = value if end == len(text) else decoder.decode(text)
        except ValueError:
            # The integer keys of queue maps in quotes; no string can hold what is looked for.
            value = decoder.decode(_BARE_KEYS.sub(lambda found: _BARE_KEY.sub(r'\1"\2"', found[0]), text))
        # Half surrogate pairs, which only escapes can make, are U+FFFD: no UTF-8 text holds one.
        return _mend(value) if b"\\u" in raw else value
    except (ValueError, RecursionError) as error:
        is_bad = not isinstance(error, _AmbiguousError) if is_ours else _NO_JSON.match(raw)
        reason = Reason.BAD_JSON if is_bad else Reason.AMBIGUOUS_JSON
        raise DecodeError(reason, f"{what}: {_short(error)}") from error


def ambiguous(detail: str) -> DecodeError:
    """Return the error for JSON that RocketMQ's readers may take, but not all for the same."""
    return DecodeError(Reason.AMBIGUOUS_JSON, detail)


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
    """Return UTF-8 as `new String(bytes, UTF_8)` reads it: U+FFFD for what is none, one for an encoded surrogate, whole or cut."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), data).decode("utf-8", "replace")


def object_of(value: object, names: frozenset[str], what: str) -> dict[str, Any]:
    """Return an object whose fields are `names`, unknown ones aside.

    Raises `DecodeError` if it is none, or if an unknown field differs from a known one in case or separators only.
    """
    if not isinstance(value, dict):
        raise ambiguous(f"{what} is no object")
    if not value.keys() <= names:
        known = {_folded(name) for name in names}
        for key in value.keys() - names:
            if _folded(key) in known:
                raise ambiguous(f"{what}: {key[:60]!r} resembles a field")
    return value


def text_of(value: object, what: str) -> str | None:
    """Return a scalar as the text that a Java field of type String gets. Raises `DecodeError` for another value."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Fraction) and value.text.replace(".", "").isdigit():
        return value.text
    raise ambiguous(f"{what} is no plain text")


def canonical_json(value: object) -> str:
    """Return the one strict JSON text of a value: keys sorted, no spaces, ASCII only."""
    return _CANONICAL(value)


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


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Of duplicate keys one reader takes the first and one the last, so they are refused."""
    value = dict(pairs)
    if len(value) != len(pairs) or "@type" in value or "$ref" in value:
        raise _AmbiguousError("a duplicate key or a reader's command")
    return value


def _folded(name: str) -> str:
    """Return a name as fastjson compares names that have no exact match."""
    return name.replace("_", "").replace("-", "").lower().removeprefix("is")


def _written(value: object) -> str:
    assert isinstance(value, Fraction)
    return value.text


# Made once: `json.dumps` makes one for each text.
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_written).encode


def _integer(text: str) -> int:
    if text == "-0":  # as a text it is 0 to one reader and -0 to the other
        raise _AmbiguousError("a negative zero")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _short(error: BaseException) -> str:
    if isinstance(error, json.JSONDecodeError):
        # One character: there may be a secret.
        found = repr(error.doc[error.pos]) if error.pos < len(error.doc) else "its end"
        return f"{error.msg}, at character {error.pos + 1}, {found}"
    return str(error)[:120]


_DECODER, _CAREFUL = (
    json.JSONDecoder(
        parse_constant=_refuse_constant, parse_float=Fraction, object_pairs_hook=_object, parse_int=parse_int
    )
    for parse_int in (None, _integer)
)


Record = Mapping[str, Any]


def require_short(what: str, name: str | None) -> None:
    """Raise `DecodeError` if a name is longer than one is."""
    if name is not None and len(name) > MAX_NAME_CHARS:
        raise DecodeError(Reason.NAME_TOO_LONG, f"{what}: {len(name)} characters, at most {MAX_NAME_CHARS}")


@lru_cache(4_096)
def header_fields_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return the header fields that a JSON text has, in order of name; those that are null are none.

    A number or a truth value is the text that it becomes on the wire. Raises `DecodeError` for a text that is no such object.
    """
    found = parse_json(text.encode("utf-8", "surrogatepass"), "header fields", is_ours=True)
    if not isinstance(found, dict):
        raise DecodeError(Reason.BAD_JSON, "header fields: no object")
    texts = ((name, text_of(value, f"header field {name[:60]!r}")) for name, value in found.items())
    return tuple(sorted((name, value) for name, value in texts if value is not None))


def data_version_of(record: Record | None) -> DataVersion | None:
    """Return the core's data version of a `data_version` record."""
    return None if record is None else DataVersion(record["state_version"], record["timestamp"], record["counter"])


def queue_datas_of(records: Sequence[Record] | None) -> tuple[tuple[str | None, QueueData], ...] | None:
    """Return queue data by broker name, in their order; names may repeat."""
    numbers = itemgetter("read_queue_nums", "write_queue_nums", "perm", "topic_sys_flag")
    return None if records is None else tuple((one["broker_name"], QueueData(*numbers(one))) for one in records)
