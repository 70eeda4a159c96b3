"""Lines of event logs parsed once: recorders write the same again and again, but for times, positions and ids.

A line is known by its bytes without these values. Everything else is in the key, the values' names and quotes included, so
that nobody can have a line taken for another one. The values of many known lines become columns together (`line_columns`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

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
_NUMBER: Final = rb"(0|[1-9][0-9]{0,18})"
_TEXT: Final = rb'"[^"\\\n]*"'
# What recorders write in this order, as `line_of` does, of many lines at once; the last group is any other line.
_USUAL: Final = re.compile(
    rb'^(\{[^,\n]*,[^,\n]*,[^,\n]*,)"time":"([\w:.-]{20,30})","effect_time":"([\w:.-]{20,30})","seq":'
    + _NUMBER
    + rb',"event_id":"([0-9a-f]{32})","channel_id":"([\w:.#+-]{0,200})"'
    + rb'(?:((?:,"proxied_addr":%b)?(?:,"namesrv_addr":%b)?(?:,"code":[0-9]{1,9})?(?:,"subject":%b)?(?:,"scope":%b)?'
    % (_TEXT, _TEXT, _TEXT, _TEXT)
    + rb',"request_seq":)'
    + _NUMBER
    + rb'(?=[,}]))?(?:(.*,"nth":)'
    + _NUMBER
    + rb"(\}\r?)|(.*))$|^(.*)$",
    re.ASCII | re.MULTILINE,
)
_USUAL_LINE: Final = b'%b"time":"%b","effect_time":"%b","seq":%b,"event_id":"%b","channel_id":"%b"%b%b%b%b%b%b'
_FIRST, _ASKED, _NTH, _LAST = 0, 7, 9, 11
# Those groups are what lines are known by; all others are values of their own.
_key_of: Final = itemgetter(_FIRST, _ASKED - 1, _NTH - 1, _NTH + 1, _LAST)
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


Cut = tuple[bytes, ...]
"""A line with its own values apart; the last item is the whole line, if it is not written as is usual."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What known lines have in common whose values become columns together.

    `names`: of the values, in their order; `numbers`: those that are whole numbers. `own` takes them out of a `Cut`. `is_timed`:
    its id may follow from its time.
    """

    table: str
    names: tuple[str, ...]
    numbers: frozenset[str]
    is_timed: bool
    own: Callable[[Cut], Cut]


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


class _Pieces(NamedTuple):
    """What lines with the same `key` share, and the values that are a line's own.

    `texts` stand in front of the values and behind the last one, `own` takes these out of a `Cut`.
    """

    key: bytes | Cut
    texts: list[bytes]
    names: tuple[str, ...]
    values: Cut
    own: Callable[[Cut], Cut]


class KnownLines:
    """What lines say that were parsed. Bounded in bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes | Cut, KnownLine] = {}
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self.kept_bytes = 0

    def of_all(self, cuts: Sequence[Cut]) -> list[KnownLine | None]:
        """Return what is known of lines that are written as is usual, of each; None of others."""
        return list(map(self._known.get, map(_key_of, cuts)))

    def find(self, cut: Cut) -> tuple[KnownLine | None, Cut]:
        """Return what is known of a line, however it is written, and the values that are its own."""
        known = self._known.get(_key_of(cut))
        if known is not None:
            return known, known.shape.own(cut)
        pieces = _anywhere(line_in(cut))
        return self._known.get(pieces.key), pieces.values

    def parsed(self, line: bytes, source_file: str, number: int) -> list[Row]:
        """Return the rows of a line, as `rows_of_line`, and know its like from now on. Raises `DecodeError`."""
        rows = rows_of_line(line, source_file, number)
        cut = cuts_of(line, 0, len(line))[0]
        if not (cut[_FIRST] and self._keeps(_usually(cut), rows)):
            self._keeps(_anywhere(line), rows)
        return rows

    def _keeps(self, of: _Pieces, rows: Sequence[Row]) -> bool:
        """Have lines known that differ in nothing but their values, unless they may differ in more; return whether they are."""
        # The key is as long, and lives in pieces of its own.
        size = 2 * sum(map(len, of.texts)) * (4 if rows[0].table == TOPICS else 1) + _OBJECT_BYTES
        if of.key in self._known:
            return True
        if size > MAX_KNOWN_FRAME_BYTES:
            return False
        said, row = _said(of.texts, of.values), rows[-1]
        # What is null or strange there stays so in all lines with this key; what follows from a value does not.
        is_odd = any(said.get(name) is not None and name not in of.names for name in _NAMES)
        is_odd |= row.table == "channel_events" and said.get("remote_addr") is None
        # Of a number in quotes its digits are looked at by the careful reader.
        is_odd |= any(name in of.names and type(said.get(name)) is not int for name in _NUMBERS)
        if is_odd or not _are_apart(of.texts, of.names, of.values):
            return False
        if self.kept_bytes + size > KNOWN_FRAMES_BYTES:
            self._known.clear()
            self._shapes.clear()
            self.kept_bytes = 0
        numbers = frozenset(name for name in of.names if type(said[name]) is int)
        alike = (row.table, of.names, numbers, "nth" in row.values)
        shape = self._shapes.setdefault((*alike, type(of.key)), Shape(*alike, of.own))
        self._known[of.key] = KnownLine(shape, of.texts, said, rows)
        self.kept_bytes += size
        return True


def cuts_of(text: bytes, start: int, end: int) -> list[Cut]:
    """Return the lines between two places in a text, of which one begins at `start` and one ends at `end`, cut."""
    return _USUAL.findall(text, start, end)


def line_in(cut: Cut) -> bytes:
    """Return the line that was cut."""
    return _USUAL_LINE % cut[:-1] if not cut[-1] and cut[_FIRST] else cut[-1]


def _usually(cut: Cut) -> _Pieces:
    """Return the pieces of a line that is written as is usual."""
    first, asked, before_nth, after_nth, last = key = _key_of(cut)
    texts = [first + b'"time":"', b'","effect_time":"', b'","seq":', b',"event_id":"', b'","channel_id":"', b'"']
    names, places = ["time", "effect_time", "seq", "event_id", "channel_id"], [1, 2, 3, 4, 5]
    for text, name, place in ((asked, "request_seq", _ASKED), (before_nth, "nth", _NTH)):
        if text:
            texts[-1] += text
            texts.append(b"")
            names.append(name)
            places.append(place)
    texts[-1] += after_nth + last
    own = itemgetter(*places)
    return _Pieces(key, texts, tuple(names), own(cut), own)


def _anywhere(line: bytes) -> _Pieces:
    """Return the pieces of a line with its values wherever they are."""
    *parts, last = _VALUES.split(line)
    texts = [text + name for text, name in zip(parts[::3], parts[1::3], strict=True)]
    names = tuple(name.split(b'"')[1].decode() for name in parts[1::3])
    # A line has no line feed in it.
    return _Pieces(b"\n".join([*texts, last]), [*texts, last], names, tuple(parts[2::3]), tuple)


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
