"""Lines of event logs parsed once: recorders write the same again and again, but for times, positions and ids.

A line is known by its bytes without these values. Everything else is in the key, the values' names and quotes included, so
that nobody can have a line taken for another one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from namesrv_wire.errors import DecodeError
from namesrv_wire.event_log import EVENT_ID, Positions, nanoseconds, rows_of_line
from namesrv_wire.java_values import INT, LONG
from namesrv_wire.json_text import canonical_json, parse_json
from namesrv_wire.limits import KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.rows import NOTHING, AnyRow, FrameRow, Row, Values, timed_id

# A name with what stands in front of its value, and the value: a plain text in quotes, or a whole number.
_VALUES: Final = re.compile(
    rb'("(?:time|effect_time|seq|event_id|channel_id|nth|request_seq)": ?"?)'
    rb'((?<=")[\w:.#+-]*(?=")|(?:0|[1-9][0-9]{0,18})(?=[,}]))',
    re.ASCII,
)
_NAMES: Final = ("effect_time", "seq", "event_id", "channel_id", "nth", "request_seq")
_OWN: Final = frozenset(
    {
        *("namesrv_id", "seq", "event_id", "event_time", "effect_time", "channel_id", "proxied_addr"),
        *("source_file", "source_offset", "request_seq", "nth", "stated_id"),
    }
)
"""Columns that a row has of its own."""
_TOPICS: Final = "topic_configs"
_MAX_TOLD: Final = 65_536
# What a line takes as objects, beyond its bytes.
_OBJECT_BYTES: Final = 4_096
_MAX_INT, _MAX_LONG = INT[1], LONG[1]


class KnownLine:
    """What lines have in common that differ in nothing but times, positions and ids.

    `names`: of the values that differ, in their order; `said`: a whole line; `rows`: what the careful reader makes of it.
    """

    def __init__(self, names: Sequence[str], said: Mapping[str, Any], rows: Sequence[Row]) -> None:
        at = {name: number for number, name in enumerate(names)}
        self.row = row = rows[-1]
        self.topics = rows[0] if rows[0].table == _TOPICS else None
        self.time, self.effect = at["time"], at.get("effect_time", at["time"])
        self.is_ms = [type(said[name]) is int for name in names]
        self.seq, self.id, self.channel = at.get("seq"), at.get("event_id"), at.get("channel_id")
        self.nth, self.asked = at.get("nth"), at.get("request_seq")
        self.is_timed, self.is_answer = "nth" in row.values, row.table == "route_observations"
        self.said: Values = {name: value for name, value in row.values.items() if name not in _OWN}
        self._content = _content(at, said)

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
    """Reads lines of one file; what equal ones say is parsed once. Bounded in bytes."""

    def __init__(self, source_file: str, positions: Positions) -> None:
        self._file = source_file
        self._positions = positions
        self._known: dict[bytes, KnownLine] = {}
        self.kept_bytes = 0
        self._minutes: dict[bytes, int] = {}
        self._topics: dict[str, Values] = {}

    def rows(self, line: bytes, number: int) -> list[AnyRow]:
        """Return the rows of a line, as `rows_of_line`. Raises `DecodeError`."""
        parts = _VALUES.split(line)
        values = parts[2::3]
        del parts[2::3]
        key = b"\n".join(parts)
        known = self._known.get(key)
        row = None if known is None else self._row(known, values, number)
        if known is not None and row is not None:
            return [row] if known.topics is None else [*self._told(known.topics), row]
        rows = rows_of_line(line, self._file, number, self._positions)
        if known is None and len(key) <= MAX_KNOWN_FRAME_BYTES:
            self._keep(key, parts, values, rows)
        return [each for row in rows for each in (self._told(row) if row.table == _TOPICS else [row])]

    def _told(self, topics: Row) -> list[AnyRow]:
        """Return the row of a topic table, unless it was the last one with its digest."""
        digest = topics.values["topic_config_digest"]
        if self._topics.get(digest) is topics.values:
            return []
        if len(self._topics) >= _MAX_TOLD:
            self._topics.clear()
        self._topics[digest] = topics.values
        return [topics]

    def _row(self, known: KnownLine, values: list[bytes], number: int) -> FrameRow | None:
        """Return the row of a line whose like is known; None if a value needs a careful look."""
        at_ns = self._nanoseconds(values[known.time], is_ms=known.is_ms[known.time])
        effect_ns = at_ns
        if values[known.effect] != values[known.time]:
            effect_ns = self._nanoseconds(values[known.effect], is_ms=known.is_ms[known.effect])
        row, nth, asked = known.row.values, None, None
        channel = row["channel_id"] if known.channel is None else values[known.channel].decode()
        if known.is_timed:
            nth = 0 if known.nth is None else int(values[known.nth])
        identity = known.identity(values) if known.id is None else values[known.id].decode()
        if at_ns < 0 or effect_ns < 0 or (nth or 0) > _MAX_INT or EVENT_ID.fullmatch(identity) is None:
            return None
        take, given = self._positions.take, known.seq
        seq = take(row["namesrv_id"], effect_ns, identity) if given is None else int(values[given])
        if known.is_answer:
            asked = seq if known.asked is None else int(values[known.asked])
        if seq > _MAX_LONG or (asked or 0) > _MAX_LONG:
            return None
        stated = identity if nth is not None else None
        if nth is not None and known.id is not None:
            timed_ns = effect_ns if known.is_answer else at_ns
            made = timed_id(row["namesrv_id"], channel, row["code"], timed_ns // 1_000, nth)
            stated = None if identity == made else identity
        own = (known.row.table, row["namesrv_id"], seq, identity, at_ns // 1_000, effect_ns // 1_000, channel)
        of_kind = (asked, nth, stated, known.seq is not None)
        return FrameRow(*own, row["proxied_addr"], self._file, number, known.said, NOTHING, *of_kind)

    def _nanoseconds(self, text: bytes, *, is_ms: bool) -> int:
        """Return ns since the epoch; -1 for what needs a careful look."""
        if is_ms:
            ns = int(text) * 1_000_000
            return ns if ns <= _MAX_LONG else -1
        minute, second, rest = text[:17], text[17:19], text[19:]
        ns = self._minutes.get(minute, -1)
        if ns < 0:
            try:
                ns = self._minutes[minute] = nanoseconds(f"{minute.decode()}00Z", "time")
            except DecodeError:
                return -1
            if len(self._minutes) >= _MAX_TOLD:
                self._minutes.clear()
        if rest != b"Z":
            fraction = rest[1:-1]
            if not (rest.startswith(b".") and rest.endswith(b"Z") and fraction.isdigit() and len(fraction) <= 9):
                return -1
            ns += int(fraction.ljust(9, b"0"))
        if not second.isdigit() or second >= b"60":
            return -1
        ns += int(second) * 1_000_000_000
        return ns if ns <= _MAX_LONG else -1

    def _keep(self, key: bytes, parts: Sequence[bytes], values: Sequence[bytes], rows: Sequence[Row]) -> None:
        names = [part.split(b'"')[1].decode() for part in parts[1::2]]
        said = _said(parts, values)
        # What is null or strange there stays so in all lines with this key; what follows from a value does not.
        is_odd = any(said.get(name) is not None and name not in names for name in _NAMES)
        is_odd |= rows[-1].table == "channel_events" and said.get("remote_addr") is None
        if is_odd or not _are_apart(parts, names, values):
            return
        size = len(key) * (8 if rows[0].table == _TOPICS else 1) + _OBJECT_BYTES
        if size > MAX_KNOWN_FRAME_BYTES:
            return
        if self.kept_bytes + size > KNOWN_FRAMES_BYTES:
            self._known.clear()
            self.kept_bytes = 0
        self._known[key] = KnownLine(names, said, rows)
        self.kept_bytes += size


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
