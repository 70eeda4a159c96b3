"""The rows of one name server: their positions, their common columns, and whether they may leave yet."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from namesrv_wire.errors import DecodeError
from namesrv_wire.limits import MAX_HELD_ROWS
from namesrv_wire.protocol.requests import refused_as
from namesrv_wire.rows import (
    FRAME_TABLES,
    AnyRow,
    FrameRow,
    Place,
    Row,
    Values,
    digest_id,
    envelope,
    namesrv_row,
    quarantine_row,
)
from namesrv_wire.streams.connection import Connection
from namesrv_wire.streams.cutting import Cut
from namesrv_wire.tally import Tally

SLOT_STEP: Final = 16
"""Positions between packets that share a nanosecond."""
MAX_SAID: Final = 4_096


class Ledger:
    """Writes rows at strictly increasing positions; holds them back until the endpoint is `confirmed`."""

    def __init__(self, namesrv_id: str, *, confirmed: bool) -> None:
        self.id = namesrv_id
        self.confirmed = confirmed
        self.tally = Tally()
        self.version: int | None = None
        """Protocol version in the last answer."""
        self.last_slot = 0
        self.provisional: dict[str, str] = {}
        """Rows that an earlier end of capture made on the strength of what was known then: id and table."""
        self.held: deque[AnyRow] = deque()
        self.out: list[AnyRow] = []
        self.source = ("", 0)
        """File and packet number of the packet at hand."""
        self.files: set[str] = set()
        """Files with packets of this name server."""
        self.time_ns = 0
        """Time of the packet at hand."""
        self.is_base_taken = False
        """Whether something was written at the packet at hand."""
        self._said: dict[tuple[int, str | None], tuple[Values, Values]] = {}
        """What registrations say, by what it was and its final `refusal`: with which it was said, and with this one."""

    def begin(self, time_ns: int, source: tuple[str, int]) -> None:
        """Open a packet: what is written from now on happens at its time and place."""
        if source[0] != self.source[0]:
            self.files.add(source[0])
        self.time_ns = time_ns
        self.source = source
        self.is_base_taken = False
        self.tally.packets += 1

    def at(self, time_ns: int) -> None:
        """Have what is written from now on happen at a time, near the packet at hand."""
        self.time_ns = time_ns
        self.is_base_taken = False

    def take(self) -> list[AnyRow]:
        """Return the rows that may leave, once."""
        rows, self.out = self.out, []
        return rows

    def confirm(self) -> None:
        """Release the rows held back: this endpoint is a name server."""
        self.confirmed = True
        held, self.held = self.held, deque()
        for row in held:
            self.emit(row)

    def reserve(self, time_ns: int) -> int:
        """Return the first of two positions at a time before the packet at hand, for a timer."""
        self.last_slot = first = max(self.last_slot + SLOT_STEP, time_ns)
        self.last_slot += 1
        return first

    @property
    def place(self) -> Place:
        """Where and when the packet at hand was read."""
        return Place(*self.source, self.time_ns)

    def fact(self, kind: str, evidence: str, **more: Any) -> None:
        """Write a row of `namesrv_events`, as `fact_row`."""
        self.emit(self.fact_row(kind, evidence, **more))

    def fact_row(
        self,
        kind: str,
        evidence: str,
        seq: int | None = None,
        place: Place | None = None,
        version: int | None = None,
        properties: str | None = None,
    ) -> Row:
        """Return a row of `namesrv_events`: at the packet at hand, unless a position and a place are given."""
        shared = self.envelope(self.slot() if seq is None else seq, kind, None, place or self.place)
        return namesrv_row(shared, kind, version, evidence, properties)

    def slot(self) -> int:
        """Return the next free position of this packet."""
        if not self.is_base_taken:
            self.is_base_taken = True
            self.last_slot = max(self.last_slot + SLOT_STEP, self.time_ns)
        self.last_slot += 1
        return self.last_slot

    def envelope(self, seq: int, kind: str, connection: Connection | None, place: Place) -> Values:
        """Return the shared columns of a row about a connection or (None) the name server, at a position."""
        channel = None if connection is None else connection.channel_id
        identity = digest_id(self.id, channel, kind, place.time_ns if connection is None else "")
        values = envelope(self.id, seq, identity, channel, place)
        if connection is not None:
            values["proxied_addr"] = connection.proxied
        return values

    def emit(self, row: AnyRow) -> None:
        """Write a row."""
        if not self.confirmed:
            if len(self.held) >= MAX_HELD_ROWS:
                dropped = self.held.popleft()
                self.tally.dropped_rows += dropped.table in FRAME_TABLES
            self.held.append(row)
            return
        if row.table == "registrations":
            row = self._refused_or_not(row)
        if self.provisional:
            self.provisional.pop(row.event_id if isinstance(row, FrameRow) else row.values.get("event_id", ""), None)
        self.out.append(row)

    def _refused_or_not(self, row: AnyRow) -> AnyRow:
        """Return a registration's row with its final `refusal`; what equal ones say stays one object."""
        if isinstance(row, Row):
            return row._replace(values={**row.values, "refusal": refused_as(row.values, row.values, self.version)})
        said = row.said
        refusal = refused_as(said, row.answered, self.version)
        if refusal == said["refusal"]:
            return row
        key = id(said), refusal
        known = self._said.get(key)
        if known is None:
            if len(self._said) >= MAX_SAID:
                self._said.clear()
            known = self._said[key] = (said, {**said, "refusal": refusal})
        return row._replace(said=known[1])

    def quarantine(
        self, connection: Connection, cut: Cut, error: DecodeError, length: int, *, from_server: bool
    ) -> None:
        """Write a quarantine row for a refused piece of `length` bytes."""
        self.tally.quarantined[error.reason.value] += 1
        identity = f"{'answer' if from_server else 'request'} {cut.position}"
        self.emit(quarantine_row((self.id, connection.channel_id), self.place, error, cut.data, length, identity))
