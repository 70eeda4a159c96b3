"""Lines of event logs parsed once: recorders write the same again and again, but for times, positions and ids.

A line is known by its bytes without these values. Everything else is in the key, the values' names and quotes included, so
that nobody can have a line taken for another one. The values of many known lines become columns together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.errors import DecodeError
from namesrv_wire.json_text import INT, canonical_json, parse_json
from namesrv_wire.limits import END_NS, FIRST_NS, KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.logs.event_log import nanoseconds, rows_of_line
from namesrv_wire.rows import Row, Values, timed_id

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
    return b"".join(part for both in zip(texts, values, strict=False) for part in both) + texts[-1]


def _said(texts: Sequence[bytes], values: Sequence[bytes]) -> dict[str, Any]:
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


Ints = NDArray[np.int64]
_MAX_INT: Final = INT[1]
_ID: Final = re.compile(rb"[0-9a-f]{32}")
_AS_ZERO: Final = bytes.maketrans(b"123456789", b"0" * 9)
_MS_NS: Final = 1_000_000
_USUAL: Final = frozenset({b"0000-00-00T00:00:00Z", *(b"0000-00-00T00:00:00.%sZ" % (b"0" * n) for n in range(1, 10))})


@dataclass(slots=True)
class Lines:
    """Lines of one table, as columns: an item a line. Times are microseconds since the epoch, `numbers` those of the lines.

    `said`: what lines share, and `which` of it a line says. `seq` is below 0, and `asked` the same, for lines that do not state
    it (`Positions`). Without `channels`, `asked` or `nth` that is part of `said`, or there is none. Ids and channels are ASCII.
    """

    table: str
    numbers: Ints
    said: list[Values]
    which: NDArray[np.int32]
    seq: Ints
    seq_is_given: bool
    ids: NDArray[np.bytes_]
    event_us: Ints
    effect_us: Ints
    channels: Sequence[bytes] | None = None
    asked: Ints | None = None
    nth: Ints | None = None

    def values(self, index: int) -> Values:
        """Return every column of a line but its file, as `Row.values`."""
        found = {**self.said[self.which[index]], "seq": int(self.seq[index]), "event_id": self.ids[index].decode()}
        found |= {"event_time": int(self.event_us[index]), "effect_time": int(self.effect_us[index])}
        if self.channels is not None:
            found["channel_id"] = self.channels[index].decode()
        if self.asked is not None:
            found["request_seq"] = int(self.asked[index])
        if self.nth is not None:
            at_us, nth = found["effect_time" if self.asked is not None else "event_time"], int(self.nth[index])
            made = timed_id(found["namesrv_id"], found.get("channel_id"), found["code"], at_us, nth)
            found |= {"nth": nth, "stated_id": None if found["event_id"] == made else found["event_id"]}
        return {**found, "source_offset": int(self.numbers[index])}

    def rows(self, source_file: str) -> Iterator[tuple[int, Row]]:
        """Yield the lines as rows, with their numbers."""
        for index, number in enumerate(self.numbers.tolist()):
            yield number, Row(self.table, {**self.values(index), "source_file": source_file}, self.seq_is_given)


@dataclass(slots=True)
class Alike:
    """Known lines of one shape, to become columns together."""

    shape: Shape
    numbers: list[int] = field(default_factory=list)
    known: list[KnownLine] = field(default_factory=list)
    values: list[tuple[bytes, ...]] = field(default_factory=list)

    def columns(self) -> tuple[Lines | None, list[tuple[int, bytes]]]:
        """Return the lines as columns, and those that need a careful look and are left out, with their numbers."""
        if not self.numbers:
            return None, []
        columns = dict(zip(self.shape.names, zip(*self.values, strict=True), strict=True))
        is_plain = np.ones(len(self.numbers), bool)
        event_ns = self._times(columns, "time", is_plain)
        effect_ns = self._times(columns, "effect_time", is_plain) if "effect_time" in columns else event_ns
        seq = _whole(columns["seq"], is_plain, 0, END_NS - 1) if "seq" in columns else ~effect_ns
        nth = _whole(columns["nth"], is_plain, 0, _MAX_INT) if "nth" in columns else np.zeros(len(seq), np.int64)
        asked = _whole(columns["request_seq"], is_plain, 0, END_NS - 1) if "request_seq" in columns else seq
        if "event_id" in columns:
            is_plain &= np.array([_ID.fullmatch(text) is not None for text in columns["event_id"]])
            ids = np.array(columns["event_id"], "S32")
        else:
            made = [known.identity(values) for known, values in zip(self.known, self.values, strict=True)]
            ids = np.array(made, np.bytes_)
        if not is_plain.all():
            plain = Alike(self.shape)
            plain.numbers, plain.known = [*compress(self.numbers, is_plain)], [*compress(self.known, is_plain)]
            plain.values = [*compress(self.values, is_plain)]
            careful = np.flatnonzero(~is_plain).tolist()
            others = [(self.numbers[index], self.known[index].line(self.values[index])) for index in careful]
            return plain.columns()[0], others
        number_of = {known: number for number, known in enumerate(dict.fromkeys(self.known))}
        lines = Lines(
            self.shape.table,
            np.array(self.numbers, np.int64),
            [known.said for known in number_of],
            np.fromiter(map(number_of.__getitem__, self.known), np.int32, len(seq)),
            seq,
            "seq" in columns,
            ids,
            event_ns // 1_000,
            effect_ns // 1_000,
        )
        is_answer = self.shape.table == "route_observations"
        lines.channels = columns.get("channel_id")
        lines.asked = asked if is_answer else None
        if self.shape.is_timed:
            lines.nth = nth
        return lines, []

    def _times(self, columns: dict[str, tuple[bytes, ...]], name: str, is_plain: NDArray[np.bool_]) -> Ints:
        if name in self.shape.numbers:
            return _whole(columns[name], is_plain, -(-FIRST_NS // _MS_NS), END_NS // _MS_NS - 1) * _MS_NS
        ns = _nanoseconds(columns[name])
        is_plain &= ns >= 0
        return np.maximum(ns, 0)


def _whole(texts: Sequence[bytes], is_plain: NDArray[np.bool_], least: int, most: int) -> Ints:
    """Return whole numbers; those that are not within bounds are not plain, and `least`."""
    numbers = [*map(int, texts)]
    if min(numbers) < least or max(numbers) > most:
        is_plain &= np.array([least <= number <= most for number in numbers])
        numbers = [number if least <= number <= most else least for number in numbers]
    return np.array(numbers, np.int64)


def _nanoseconds(texts: Sequence[bytes]) -> Ints:
    """Return the ns since the epoch of times; of those that need a careful look -1."""
    # Written as is usual, and of years that are far enough from both bounds.
    if (
        _USUAL.issuperset(b"\n".join(texts).translate(_AS_ZERO).split(b"\n"))
        and b"2000" <= min(texts) <= max(texts) < b"2262"
    ):
        try:
            return np.array([text[:-1] for text in texts], np.bytes_).astype("M8[ns]").astype(np.int64)
        except ValueError:  # a day or a minute that is none
            pass
    return np.array([_nanoseconds_of(text) for text in texts], np.int64)


def _nanoseconds_of(text: bytes) -> int:
    try:
        return nanoseconds(text.decode(), "time")
    except DecodeError:
        return -1
