"""Lines of event logs parsed once: recorders write the same again and again, but for times, positions and ids.

A line is known by its bytes without these values. Everything else is in the key, the values' names and quotes included, so
that nobody can have a line taken for another one. The values of many known lines become columns together (`line_columns`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from namesrv_wire.json_text import canonical_json, parse_json
from namesrv_wire.limits import KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.logs.event_log import rows_of_line
from namesrv_wire.rows import Row, Values

# A name with what stands in front of its value, and the value: a plain text in quotes, or a whole number.
_VALUES: Final = re.compile(
    rb'("(?:time|effect_time|seq|event_id|channel_id|nth|request_seq)": ?"?)'
    rb'((?<=")[\w:.#+-]{0,200}(?=")|(?:0|[1-9][0-9]{0,18})(?=[,}]))',
    re.ASCII,
)
_NAMES: Final = ("effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")
_NUMBERS: Final = ("seq", "nth", "request_seq")
_OWN: Final = frozenset(
    {
        *(
            "seq",
            "event_id",
            "event_time",
            "effect_time",
            "source_file",
            "source_offset",
            "request_seq",
            "nth",
            "stated_id",
        )
    }
)
"""Columns that a row has of its own."""
TOPICS: Final = "topic_configs"
# What a line takes as objects, beyond its bytes.
_OBJECT_BYTES: Final = 4_096


Own = tuple[bytes, ...]
"""The values that are a line's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What known lines have in common whose values become columns together.

    `names`: of the values, in their order; `numbers`: those that are whole numbers. `is_timed`: its id may follow from its time.
    """

    table: str
    names: tuple[str, ...]
    numbers: frozenset[str]
    is_timed: bool


class KnownLine:
    """What lines have in common that differ in nothing but times, positions and ids.

    `shape`: what their values are; `said`: a whole line; `rows`: what the careful reader makes of it.
    """

    __slots__ = ("_content", "_texts", "said", "shape", "topics")

    def __init__(self, shape: Shape, texts: Sequence[bytes], said: Mapping[str, Any], rows: Sequence[Row]) -> None:
        self.topics = rows[0] if rows[0].table == TOPICS else None
        self.shape = shape
        self.said: Values = {
            name: value for name, value in rows[-1].values.items() if name not in _OWN and name not in shape.names
        }
        self._texts = texts
        self._content = _content({name: number for number, name in enumerate(shape.names)}, said)

    def line(self, values: Sequence[bytes]) -> bytes:
        """Return the line with these values."""
        return _line(self._texts, values)

    def identity(self, values: Sequence[bytes]) -> str:
        """Return the id of a line that states none: that of its canonical JSON."""
        content = [part if isinstance(part, bytes) else values[part] for part in self._content]
        return hashlib.sha256(b"".join(content)).hexdigest()[:32]


def _content(at: Mapping[str, int], said: Mapping[str, Any]) -> list[bytes | int]:
    """Return what `digest_id` takes of a line without an id, with the number of a value in its place."""
    found: list[bytes | int] = [b"line\n"]
    for name in sorted(said):
        key = f"{'{' if len(found) == 1 else ','}{canonical_json(name)}:"
        if name in at:
            quote = '"' * isinstance(said[name], str)
            found += [f"{key}{quote}".encode(), at[name], quote.encode()]
        else:
            found.append(f"{key}{canonical_json(said[name])}".encode())
    return [*found, b"}\n\n"]


class KnownLines:
    """What lines say that were parsed. Bounded in bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownLine] = {}
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self.kept_bytes = 0

    def find(self, line: bytes) -> tuple[KnownLine | None, Own]:
        """Return what is known of a line, and the values that are its own."""
        parts = _VALUES.split(line)
        values = tuple(parts[2::3])
        del parts[2::3]
        return self._known.get(b"\n".join(parts)), values  # a line has no line feed in it

    def parsed(self, line: bytes, source_file: str, number: int) -> list[Row]:
        """Return the rows of a line, as `rows_of_line`, and know its like from now on. Raises `DecodeError`."""
        rows = rows_of_line(line, source_file, number)
        *parts, last = _VALUES.split(line)
        texts = [*(text + name for text, name in zip(parts[::3], parts[1::3], strict=True)), last]
        names = tuple(name.split(b'"')[1].decode() for name in parts[1::3])
        values = tuple(parts[2::3])
        del parts[2::3]
        self._keep(b"\n".join([*parts, last]), texts, names, values, rows)
        return rows

    def _keep(self, key: bytes, texts: list[bytes], names: tuple[str, ...], values: Own, rows: Sequence[Row]) -> None:
        """Have lines known that differ in nothing but their values, unless they may differ in more.

        `texts` stand in front of the values and behind the last one.
        """
        # The key is as long, and lives in pieces of its own.
        size = 2 * len(key) * (4 if rows[0].table == TOPICS else 1) + _OBJECT_BYTES
        if key in self._known or size > MAX_KNOWN_FRAME_BYTES:
            return
        said, row = _said(texts, values), rows[-1]
        # What is null or strange there stays so in all lines with this key; what follows from a value does not.
        is_odd = any(said.get(name) is not None and name not in names for name in _NAMES)
        is_odd |= row.table == "channel_events" and said.get("remote_addr") is None
        # Of a number in quotes its digits are looked at by the careful reader.
        is_odd |= any(name in names and type(said.get(name)) is not int for name in _NUMBERS)
        if is_odd or not _are_apart(texts, names, values):
            return
        if self.kept_bytes + size > KNOWN_FRAMES_BYTES:
            self._known.clear()
            self._shapes.clear()
            self.kept_bytes = 0
        numbers = frozenset(name for name in names if type(said[name]) is int)
        alike = (row.table, names, numbers, "nth" in row.values)
        self._known[key] = KnownLine(self._shapes.setdefault(alike, Shape(*alike)), texts, said, rows)
        self.kept_bytes += size


def _line(texts: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """Return a line with these values between its texts."""
    return b"".join(part for both in zip(texts, values, strict=False) for part in both) + texts[-1]


def _said(texts: Sequence[bytes], values: Sequence[bytes]) -> dict[str, Any]:
    """Return the object of a line with these values."""
    return cast("dict[str, Any]", parse_json(_line(texts, values), "line"))


def _are_apart(texts: Sequence[bytes], names: Sequence[str], values: Sequence[bytes]) -> bool:
    """Return whether what was taken for the values of a line is that and nothing else.

    With others in their place, of the same kind, it must say these, and else the same. What stands in another object, or
    twice, does not pass.
    """
    others = [value[:-1] + (b"2" if value[-1:] == b"1" else b"1") for value in values]
    said, changed = _said(texts, values), _said(texts, others)
    is_number = {name: type(said.get(name)) is int for name in names}
    own, new = (
        {name: int(text) if is_number[name] else text.decode() for name, text in zip(names, given, strict=True)}
        for given in (values, others)
    )
    return "time" in own and len(own) == len(names) and {**said, **own} == said and {**said, **new} == changed
