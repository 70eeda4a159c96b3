"""Values of known lines as columns: times, positions and ids of many lines are read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.errors import DecodeError
from namesrv_wire.java_values import INT, LONG
from namesrv_wire.logs.event_log import nanoseconds
from namesrv_wire.logs.known_lines import KnownLine, Shape
from namesrv_wire.rows import Row, Values, timed_id

Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]
_MAX_INT, _MAX_LONG = INT[1], LONG[1]
_ID_SIZE: Final = 32
# So many digits are a long for sure.
_SAFE: Final = 18
# YYYY-MM-DDTHH:MM: what stands in front of the seconds.
_MINUTE: Final = 16
_DIGITS: Final = np.array([48 <= byte < 58 for byte in range(256)])
_HEX: Final = np.array([48 <= byte < 58 or 97 <= byte < 103 for byte in range(256)])


@dataclass(slots=True)
class Lines:
    """Lines of one table, as columns: an item a line. Times are microseconds since the epoch, `numbers` those of the lines.

    `said`: what a line shares with others, which have the same object. `seq` is below 0, and `asked` the same, for lines that do
    not state it (`Positions`). Without `channels`, `asked` or `nth` that is part of `said`, or there is none.
    """

    table: str
    numbers: Ints
    said: list[Values]
    seq: Ints
    seq_is_given: bool
    ids: list[str]
    event_us: Ints
    effect_us: Ints
    channels: list[str] | None = None
    asked: Ints | None = None
    nth: Ints | None = None

    def values(self, index: int) -> Values:
        """Return every column of a line but its file, as `Row.values`."""
        found = {**self.said[index], "seq": int(self.seq[index]), "event_id": self.ids[index]}
        found |= {"event_time": int(self.event_us[index]), "effect_time": int(self.effect_us[index])}
        if self.channels is not None:
            found["channel_id"] = self.channels[index]
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
    values: list[list[bytes]] = field(default_factory=list)

    def columns(self) -> tuple[Lines | None, list[int]]:
        """Return the lines as columns, and the numbers of those that need a careful look and are left out."""
        if not self.numbers:
            return None, []
        columns = dict(zip(self.shape.names, zip(*self.values, strict=True), strict=True))
        is_plain = np.ones(len(self.numbers), bool)
        event_ns = self._times(columns, "time", is_plain)
        effect_ns = self._times(columns, "effect_time", is_plain) if "effect_time" in columns else event_ns
        seq = _longs(columns["seq"], is_plain) if "seq" in columns else ~effect_ns
        nth = _longs(columns["nth"], is_plain, _MAX_INT) if "nth" in columns else np.zeros(len(seq), np.int64)
        asked = _longs(columns["request_seq"], is_plain) if "request_seq" in columns else seq
        ids = _ids(columns["event_id"], is_plain) if "event_id" in columns else self._identities()
        if not is_plain.all():
            return self._without(is_plain)
        lines = Lines(
            self.shape.table,
            np.array(self.numbers, np.int64),
            [known.said for known in self.known],
            seq,
            "seq" in columns,
            ids,
            event_ns // 1_000,
            effect_ns // 1_000,
        )
        is_answer = self.shape.table == "route_observations"
        lines.channels = [text.decode() for text in columns["channel_id"]] if "channel_id" in columns else None
        lines.asked = asked if is_answer else None
        if self.shape.is_timed:
            lines.nth = nth
        return lines, []

    def _without(self, is_plain: Truths) -> tuple[Lines | None, list[int]]:
        """Return `columns` of the plain ones, and the numbers of the others."""
        plain = Alike(self.shape)
        for index in np.flatnonzero(is_plain).tolist():
            plain.numbers.append(self.numbers[index])
            plain.known.append(self.known[index])
            plain.values.append(self.values[index])
        others = [self.numbers[index] for index in np.flatnonzero(~is_plain).tolist()]
        return plain.columns()[0], others

    def _times(self, columns: dict[str, tuple[bytes, ...]], name: str, is_plain: Truths) -> Ints:
        if name in self.shape.numbers:
            return _longs(columns[name], is_plain, _MAX_LONG // 1_000_000) * 1_000_000
        return _nanoseconds(columns[name], is_plain)

    def _identities(self) -> list[str]:
        return [known.identity(values) for known, values in zip(self.known, self.values, strict=True)]


def _longs(texts: Sequence[bytes], is_plain: Truths, most: int = _MAX_LONG) -> Ints:
    """Return whole numbers of at most 19 digits; those beyond `most` are not plain, and 0."""
    found = np.zeros(len(texts), np.int64)
    for size, at, some in _by_size(texts):
        digits = _square(some, size).astype(np.int64) - 48
        head = digits[:, :_SAFE] @ 10 ** np.arange(min(size, _SAFE) - 1, -1, -1, dtype=np.int64)
        if size > _SAFE:
            is_long = (head < _MAX_LONG // 10) | ((head == _MAX_LONG // 10) & (digits[:, _SAFE] <= _MAX_LONG % 10))
            head = np.where(is_long, head, 0) * 10 + np.where(is_long, digits[:, _SAFE], -1)
        found[at] = head
    is_plain &= (found >= 0) & (found <= most)
    return np.where(found <= most, np.maximum(found, 0), 0)


def _by_size(texts: Sequence[bytes]) -> Iterator[tuple[int, Ints, Sequence[bytes]]]:
    """Yield sizes, and of each the indexes of the texts that have it, and these."""
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    for size in np.unique(sizes).tolist():
        at = np.flatnonzero(sizes == size)
        yield size, at, texts if len(at) == len(texts) else [texts[index] for index in at.tolist()]


def _square(texts: Sequence[bytes], size: int) -> NDArray[np.uint8]:
    """Return the bytes of texts, a row a text, of which those of another size are blank."""
    if set(map(len, texts)) != {size}:
        texts = [text if len(text) == size else b" " * size for text in texts]
    return np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), size)


def _ids(texts: Sequence[bytes], is_plain: Truths) -> list[str]:
    """Return ids; what is none is not plain."""
    is_plain &= _HEX[_square(texts, _ID_SIZE)].all(axis=1)
    return [text.decode("ascii", "replace") for text in texts]


def _nanoseconds(texts: Sequence[bytes], is_plain: Truths) -> Ints:
    """Return the ns since the epoch of times in UTC; of those that need a careful look 0."""
    found = np.zeros(len(texts), np.int64)
    for size, at, some in _by_size(texts):
        found[at] = _of_size(_square(some, size)) if _MINUTE + 4 <= size <= _MINUTE + 14 else -1
    is_plain &= found >= 0
    return np.maximum(found, 0)


def _of_size(texts: NDArray[np.uint8]) -> Ints:
    """Return `_nanoseconds` of texts of one size, -1 of those that need a careful look."""
    digits = texts.astype(np.int64) - 48
    minutes, which = np.unique(texts[:, :_MINUTE].copy().view(f"S{_MINUTE}").ravel(), return_inverse=True)
    found: Ints = np.array([_minute(text) for text in minutes.tolist()], np.int64)[which]
    seconds, rest = digits[:, _MINUTE + 1] * 10 + digits[:, _MINUTE + 2], texts[:, _MINUTE + 3 : -1]
    is_time = (texts[:, _MINUTE] == ord(":")) & (texts[:, -1] == ord("Z")) & (found >= 0) & (seconds < 60)
    is_time &= _DIGITS[texts[:, _MINUTE + 1 : _MINUTE + 3]].all(axis=1)
    fraction = np.zeros(len(texts), np.int64)
    if rest.shape[1]:
        is_time &= (rest[:, 0] == ord(".")) & (rest.shape[1] > 1) & _DIGITS[rest[:, 1:]].all(axis=1)
        for place in range(1, rest.shape[1]):
            fraction += (rest[:, place].astype(np.int64) - 48) * 10 ** (9 - place)
    # The last second before the end of time is left to the careful reader.
    is_time &= found < _MAX_LONG - 61_000_000_000
    return np.where(is_time, found + seconds * 1_000_000_000 + fraction, -1)


def _minute(text: bytes) -> int:
    """Return the ns since the epoch at which a minute begins, -1 for what is none."""
    try:
        return nanoseconds(f"{text.decode()}:00Z", "time")
    except (DecodeError, UnicodeDecodeError):
        return -1
