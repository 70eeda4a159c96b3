"""Lines of event logs parsed once: recorders write the same again and again, but for times, positions and ids.

A line is known by its bytes without these values. Everything else is in the key, the values' names and quotes included, so
that nobody can have a line taken for another one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from namesrv_wire.errors import DecodeError
from namesrv_wire.json_text import INT, canonical_json, parse_json
from namesrv_wire.limits import END_NS, KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.logs.event_log import nanoseconds, rows_of_line
from namesrv_wire.rows import NOTHING, FrameRow, Row

# A name with what stands in front of its value, and the value: a plain text in quotes, or a whole number.
_VALUES: Final = re.compile(
    rb'("(?:time|effect_time|seq|event_id|channel_id|nth|request_seq)": ?"?)'
    rb'((?<=")[\w:.#+-]{0,200}(?=")|(?:0|[1-9][0-9]{0,18})(?=[,}]))',
    re.ASCII,
)
_NAMES: Final = ("effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")
_NUMBERS: Final = ("seq", "nth", "request_seq")
TOPICS: Final = "topic_configs"
# What a line takes as objects, beyond its bytes.
_OBJECT_BYTES: Final = 4_096
_MAX_INT: Final = INT[1]
_ID: Final = re.compile(rb"[0-9a-f]{32}")
_MAX_DIGITS: Final = 9


Own = Sequence[bytes]
"""The values that are a line's own."""


class KnownLine:
    """What lines have in common that differ in nothing but times, positions and ids.

    `names`: of their values, in their order; `said`: a whole line; `rows`: what the careful reader makes of it.
    """

    __slots__ = ("_at", "_content", "_like", "_time", "topics")

    def __init__(self, names: Sequence[str], said: Mapping[str, Any], rows: Sequence[Row]) -> None:
        self.topics = rows[0] if rows[0].table == TOPICS else None
        at = {name: number for number, name in enumerate(names)}
        self._time, self._at = at["time"], tuple(map(at.get, _NAMES))
        self._content = _content(at, said)
        self._like = FrameRow.of(rows[-1].table, rows[-1].values)

    def row(self, values: Own, source_file: str, number: int) -> FrameRow | None:
        """Return the row of the line with these values; None, if they need a careful look."""
        effect, seq, identity, channel, nth, asked = self._at
        like, time = self._like, values[self._time]
        event_ns = effect_ns = _nanoseconds_of(time)
        if effect is not None and values[effect] != time:
            effect_ns = _nanoseconds_of(values[effect])
        position = ~effect_ns if seq is None else int(values[seq])
        asked_at = None if like.request_seq is None else position if asked is None else int(values[asked])
        beat = like.nth if nth is None else int(values[nth])
        if (
            event_ns < 0
            or effect_ns < 0
            or position >= END_NS
            or (identity is not None and not _ID.fullmatch(values[identity]))
        ):
            return None
        if (asked_at is not None and asked_at >= END_NS) or (beat is not None and beat > _MAX_INT):
            return None
        return FrameRow(
            like.table,
            like.namesrv_id,
            position,
            self._identity(values) if identity is None else values[identity].decode(),
            event_ns // 1_000,
            effect_ns // 1_000,
            like.channel_id if channel is None else values[channel].decode(),
            like.proxied_addr,
            source_file,
            number,
            like.said,
            NOTHING,
            asked_at,
            beat,
            seq is not None,
        )

    def _identity(self, values: Own) -> str:
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

    def find(self, line: bytes) -> tuple[KnownLine | None, Own]:
        """Return what is known of a line, and the values that are its own."""
        parts = _VALUES.split(line)
        values = parts[2::3]
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
            self.kept_bytes = 0
        self._known[key] = KnownLine(names, said, rows)
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


def _nanoseconds_of(text: bytes) -> int:
    """Return the ns since the epoch of a time; of one that needs a careful look -1."""
    second, _, rest = text.partition(b".")
    digits = rest[:-1]
    if not (digits.isdigit() and rest[-1:] == b"Z" and len(digits) <= _MAX_DIGITS):
        return _careful_nanoseconds(text, b"")
    whole_ns = _careful_nanoseconds(second, b"Z")
    return whole_ns if whole_ns < 0 else whole_ns + int(digits) * 10 ** (_MAX_DIGITS - len(digits))


@lru_cache(4_096)
def _careful_nanoseconds(text: bytes, zone: bytes) -> int:
    try:
        return nanoseconds((text + zone).decode(), "time")
    except DecodeError:
        return -1
