"""Lines of event logs parsed once: recorders write the same again and again, but for times, positions and ids.

A line is known by its bytes without these values. Everything else is in the key, the values' names and quotes included, so
that nobody can have a line taken for another one. The values of many known lines become columns together (`line_columns`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from namesrv_wire.json_text import canonical_json, parse_json
from namesrv_wire.limits import KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.logs.event_log import rows_of_line
from namesrv_wire.rows import Row, Values

# A name with what stands in front of its value, and the value: a plain text in quotes, or a whole number.
_VALUES: Final = re.compile(
    rb'("(?:time|effect_time|seq|event_id|channel_id|nth|request_seq)": ?"?)'
    rb'((?<=")[\w:.#+-]*(?=")|(?:0|[1-9][0-9]{0,18})(?=[,}]))',
    re.ASCII,
)
# What recorders write in this order, as `line_of` does, is found faster than any of these anywhere.
_USUAL: Final = re.compile(
    rb'"time":"([\w:.-]{20,30})","effect_time":"([\w:.-]{20,30})","seq":(0|[1-9][0-9]{0,18}),'
    rb'"event_id":"([0-9a-f]{32})","channel_id":"([\w:.#+-]*)"',
    re.ASCII,
)
_USUAL_NAMES: Final = (b'"time":"', b'"effect_time":"', b'"seq":', b'"event_id":"', b'"channel_id":"')
_BETWEEN: Final = (b'",', b'",', b",", b'",')
_ASKED, _NTH = b'"request_seq":', b'"nth":'
_NUMBER: Final = re.compile(rb"(?:0|[1-9][0-9]{0,18})(?=[,}])")
_NAMES: Final = ("effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")
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


class Shape(NamedTuple):
    """What known lines have in common whose values become columns together.

    `names`: of the values, in their order; `numbers`: those that are whole numbers. `is_timed`: its id may follow from its time.
    """

    table: str
    names: tuple[str, ...]
    numbers: frozenset[str]
    is_timed: bool


class KnownLine:
    """What lines have in common that differ in nothing but times, positions and ids.

    `names`: of the values that differ, in their order; `said`: a whole line; `rows`: what the careful reader makes of it.
    """

    __slots__ = ("_content", "said", "shape", "topics")

    def __init__(self, names: Sequence[str], said: Mapping[str, Any], rows: Sequence[Row]) -> None:
        row = rows[-1]
        self.topics = rows[0] if rows[0].table == TOPICS else None
        numbers = frozenset(name for name in names if type(said[name]) is int)
        self.shape = Shape(row.table, tuple(names), numbers, "nth" in row.values)
        self.said: Values = {
            name: value for name, value in row.values.items() if name not in _OWN and name not in names
        }
        self._content = _content({name: number for number, name in enumerate(names)}, said)

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
        self.kept_bytes = 0

    def find(self, line: bytes) -> tuple[KnownLine | None, list[bytes]]:
        """Return what is known of a line, and the values that are its own."""
        key, values = _cut(line)
        return self._known.get(key), values

    def parsed(self, line: bytes, source_file: str, number: int) -> list[Row]:
        """Return the rows of a line, as `rows_of_line`, and know its like from now on. Raises `DecodeError`."""
        rows = rows_of_line(line, source_file, number)
        key, values = _cut(line)
        if key not in self._known and len(key) <= MAX_KNOWN_FRAME_BYTES:
            self._keep(key, _parts(key), values, rows)
        return rows

    def _keep(self, key: bytes, parts: Sequence[bytes], values: Sequence[bytes], rows: Sequence[Row]) -> None:
        names = [part.split(b'"')[1].decode() for part in parts[1::2]]
        said = _said(parts, values)
        # What is null or strange there stays so in all lines with this key; what follows from a value does not.
        is_odd = any(said.get(name) is not None and name not in names for name in _NAMES)
        is_odd |= rows[-1].table == "channel_events" and said.get("remote_addr") is None
        if is_odd or not _are_apart(parts, names, values):
            return
        size = len(key) * (8 if rows[0].table == TOPICS else 1) + _OBJECT_BYTES
        if size > MAX_KNOWN_FRAME_BYTES:
            return
        if self.kept_bytes + size > KNOWN_FRAMES_BYTES:
            self._known.clear()
            self.kept_bytes = 0
        self._known[key] = KnownLine(names, said, rows)
        self.kept_bytes += size


def _cut(line: bytes) -> tuple[bytes, list[bytes]]:
    """Return what tells a line from others that differ in more than values that are its own, and these."""
    usual = _USUAL.search(line)
    if usual is None:
        parts = _VALUES.split(line)
        values = parts[2::3]
        del parts[2::3]
        return b"\n".join(parts), values
    values, at, rest = [*usual.groups()], usual.end(5), [b"\n", line[: usual.start()]]
    for name in (_ASKED, _NTH):
        begin = line.find(name, at) + len(name)
        number = _NUMBER.match(line, begin) if begin >= at else None
        if number is None:
            rest.append(b"")
        else:
            values.append(number[0])
            rest.append(line[at:begin])
            at = number.end()
    rest.append(line[at:])
    # Nothing else begins with two of these.
    return b"\n".join(rest), values


def _parts(key: bytes) -> list[bytes]:
    """Return a line without the values that are its own: by turns text, and a name with what stands in front of its value."""
    if not key.startswith(b"\n\n"):
        return key.split(b"\n")
    first, asked, nth, last = key[2:].split(b"\n")
    found = [first]
    for name, text in zip(_USUAL_NAMES, (*_BETWEEN, b""), strict=True):
        found += [name, text]
    for text, name in ((asked, _ASKED), (nth, _NTH)):
        if text:
            found[-1] = text.removesuffix(name)
            found += [name, b""]
    found[-1] = last
    return found


def _said(parts: Sequence[bytes], values: Sequence[bytes]) -> dict[str, Any]:
    """Return the object of a line with these values."""
    pairs = zip(parts[::2], parts[1::2], values, strict=False)
    said = parse_json(b"".join(part for three in pairs for part in three) + parts[-1], "line")
    return cast("dict[str, Any]", said)


def _are_apart(parts: Sequence[bytes], names: Sequence[str], values: Sequence[bytes]) -> bool:
    """Return whether what was taken for the values of a line is that and nothing else.

    With others in their place, of the same kind, it must say these, and else the same. What stands in another object, or
    twice, does not pass.
    """
    others = [value[:-1] + (b"2" if value[-1:] == b"1" else b"1") for value in values]
    said, changed = _said(parts, values), _said(parts, others)
    is_number = {name: type(said.get(name)) is int for name in names}
    own, new = (
        {name: int(text) if is_number[name] else text.decode() for name, text in zip(names, texts, strict=True)}
        for texts in (values, others)
    )
    return "time" in own and len(own) == len(names) and {**said, **own} == said and {**said, **new} == changed
