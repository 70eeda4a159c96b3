"""Rows of the bronze tables as plain values, their deterministic ids, and how many of what were met."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from namesrv_wire.errors import END_NS, FIRST_BYTES, DecodeError, Reason
from namesrv_wire.secrets import blot

DECODER_VERSION: Final = "2"
"""Written into quarantine rows; raised when the same bytes would be decoded differently."""
FRAME_TABLES: Final = frozenset(
    {"heartbeats", "registrations", "unregistrations", "admin_events", "route_observations", "quarantine"}
)
"""Tables with a row for each frame of a capture, or for a piece that is none; its other rows are facts about
connections and name servers."""
QUARANTINE: Final = "quarantine"
UNTIL_MS: Final = "until_ms="
"""Properties of a recording gap: this and its end in epoch milliseconds."""
REVOKED: Final = "revoked"
"""Pseudo table of rows that take back an earlier row: `table` and `event_id`."""

Values = dict[str, Any]


_GAP_END: Final = re.compile(re.escape(UNTIL_MS) + "([0-9]{1,15})")
_NS_PER_MS: Final = 1_000_000


class Row(NamedTuple):
    """One row of a bronze table: every column but `ingest_run`, `day`, and what is left of an answer's positions (`bronze`).

    Times are microseconds since the epoch. `seq_is_given`: the source says its position; otherwise it was made from
    the time, and gives way to positions that are taken.
    """

    table: str
    values: Values
    seq_is_given: bool = True


class FrameRow(NamedTuple):
    """The row of an event or an answer of a frame of a capture, or a line of a log: what is its own, and what it shares.

    So are facts about connections and name servers, which share nothing.

    `columns` are the columns of the request, `answered` those of the answer, which go before: equal frames share one object, so
    do lines. Times are microseconds since the epoch. `request_seq`: of an answer to a question. `nth`: of that and of a heartbeat.
    `own_id`: None, if it follows from these. `seq_is_given`: as of a `Row`.
    """

    table: str
    namesrv_id: str
    seq: int
    own_id: str | None
    event_us: int
    effect_us: int
    channel_id: str | None
    proxied_addr: str | None
    source_file: str
    source_offset: int
    columns: Values
    answered: Values
    request_seq: int | None = None
    nth: int | None = None
    seq_is_given: bool = True

    @property
    def event_id(self) -> str:
        """Return its id."""
        return self._following_id if self.own_id is None else self.own_id

    @property
    def _following_id(self) -> str:
        at_us = self.effect_us if self.table == "route_observations" else self.event_us
        return timed_id(self.namesrv_id, self.channel_id, self.columns["code"], at_us, self.nth or 0)

    @property
    def values(self) -> Values:
        """Return every column, as `Row.values`."""
        own: Values = {
            "namesrv_id": self.namesrv_id,
            "seq": self.seq,
            "event_id": self.event_id,
            "event_time": self.event_us,
            "effect_time": self.effect_us,
            "channel_id": self.channel_id,
            "proxied_addr": self.proxied_addr,
            "source_file": self.source_file,
            "source_offset": self.source_offset,
            **self.columns,
            **self.answered,
        }
        if self.nth is not None:
            own |= {"nth": self.nth, "stated_id": None if self.event_id == self._following_id else self.own_id}
        return own if self.request_seq is None else own | {"request_seq": self.request_seq}

    def answered_at(self, seq: int, effect_us: int, answered: Values) -> FrameRow:
        """Return the row of an event that took effect at a position and a time, with what was answered."""
        return FrameRow._make((*self[:2], seq, *self[3:5], effect_us, *self[6:11], answered, *self[12:]))


AnyRow = Row | FrameRow
NOTHING: Final[Values] = {}
"""What a request without an answer was answered."""


class Place(NamedTuple):
    """Where and when something was read."""

    source_file: str
    source_offset: int
    time_ns: int


def gap_until(begin_ns: int, end_ns: int) -> str:
    """Return the properties of a recording gap; its end, in whole milliseconds, is not before it begins."""
    return f"{UNTIL_MS}{max(end_ns // _NS_PER_MS, -(-begin_ns // _NS_PER_MS))}"


def gap_end_ms(properties: str | None) -> int:
    """Return the end of a recording gap of these `properties` in epoch milliseconds. Raises `DecodeError` if they have none."""
    found = _GAP_END.fullmatch(properties or "")
    if found is None or int(found[1]) * _NS_PER_MS >= END_NS:
        raise DecodeError(
            Reason.BAD_LINE, f"properties of a recording gap: {UNTIL_MS} and its end in epoch milliseconds expected"
        )
    return int(found[1])


def digest_id(*parts: object, content: bytes = b"") -> str:
    """Return 32 hex digits that depend on the parts and the content, and on nothing else."""
    text = "\n".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text + b"\n\n" + content).hexdigest()[:32]


def timed_id(namesrv_id: str, channel_id: str | None, code: int, at_us: int, nth: int) -> str:
    """Return the id of a heartbeat that came, or of an answer that went, at a microsecond: the same digest as of a stored row.

    `nth`: of its connection's beats, or answers, with its code and microsecond the first is 0 (`schemas.bronze.HEARTBEATS`,
    `ROUTE_OBSERVATIONS`).
    """
    channel = "" if channel_id is None else f"{channel_id}|"
    text = f"{namesrv_id}|{channel}{code}|{at_us}|{nth}"
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def quarantine_row(
    whose: tuple[str | None, str | None],
    place: tuple[str, int, int | None],
    error: DecodeError,
    piece: bytes,
    length: int,
    identity: str,
) -> Row:
    """Return the row for a refused piece of `length` bytes; of a long one `piece` is the beginning.

    `whose`: name server and connection; `place`: a `Place`, its time may be unknown. `identity`: one for each of equal pieces.
    """
    (namesrv_id, channel_id), (source_file, source_offset, time_ns) = whose, place
    hidden = blot(piece[: 4 * FIRST_BYTES])[:FIRST_BYTES]
    return Row(
        QUARANTINE,
        {
            "quarantine_id": digest_id(namesrv_id, channel_id, "quarantine", identity, error.reason.value, length),
            "namesrv_id": namesrv_id,
            "event_time": None if time_ns is None else time_ns // 1_000,
            "channel_id": channel_id,
            "reason": error.reason.value,
            "detail": error.detail,
            "length": length,
            "sha256": hashlib.sha256(piece).hexdigest(),
            "first_bytes": hidden.hex(),
            "decoder_version": DECODER_VERSION,
            "source_file": source_file,
            "source_offset": source_offset,
        },
    )


def event_row(
    table: str, namesrv_id: str, seq: int, event_id: str | None, channel_id: str | None, place: Place, **columns: Any
) -> FrameRow:
    """Return the row of what takes effect as it is seen, with these columns of its own."""
    at_us = place.time_ns // 1_000
    own = (at_us, at_us, channel_id, None, place.source_file, place.source_offset)
    return FrameRow(table, namesrv_id, seq, event_id, *own, columns, NOTHING)


def fact_row(
    namesrv_id: str,
    seq: int,
    place: Place,
    kind: str,
    evidence: str,
    version: int | None = None,
    properties: str | None = None,
) -> FrameRow:
    """Return a row of `namesrv_events`: what is known of a name server at the time of a place."""
    identity = digest_id(namesrv_id, None, kind, place.time_ns)
    columns = {"kind": kind, "version": version, "evidence": evidence, "properties": properties}
    return event_row("namesrv_events", namesrv_id, seq, identity, None, place, **columns)


@dataclass(slots=True)
class Counts:
    """frames + pieces == sum(events) + observations + sum(quarantined) + sum(ignored), always.

    `pieces` counts what is no whole frame: holes, broken lengths, unfinished and cut frames, connections of
    strangers. `quarantined` counts quarantine rows by reason. `cut_frames`: of which the capture has not kept all.
    `sightings`: packets that were seen before, on another interface or the other side of an address translation.
    `behind`: packets that have no place, since their clock went back to a time that was read already.
    `dropped_rows`: events and observations that an endpoint had to give up before it was known to be a name server.
    """

    frames: int = 0
    pieces: int = 0
    packets: int = 0
    events: Counter[str] = field(default_factory=Counter)
    observations: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    sightings: int = 0
    cut_frames: int = 0
    behind: int = 0
    dropped_rows: int = 0

    def add(self, other: Counts) -> None:
        """Add others to these."""
        for name in self.__slots__:
            value = getattr(other, name)
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            elif value:
                getattr(self, name).update(value)

    def load(self, figures: Mapping[str, Any]) -> None:
        """Add figures as JSON has them; an older state has less, or others."""
        own = {name: of for name, of in figures.items() if name in self.__slots__}
        of: dict[str, Any] = {name: Counter(of) if isinstance(of, dict) else of for name, of in own.items()}
        self.add(Counts(**of))
