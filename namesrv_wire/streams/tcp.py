"""One direction of a TCP connection: segments in any order, bytes out in order, holes named."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from namesrv_wire.limits import (
    GAP_ACKED_NS,
    GAP_NS,
    MAX_LOST_BEFORE_RST,
    MAX_REORDER_BYTES,
    MAX_REORDER_CHUNKS,
    MAX_WINDOW_BYTES,
)

MASK = 0xFFFFFFFF
_HALF = 1 << 31
_FAR = 1 << 30


class Missing(NamedTuple):
    """Bytes that are not there: of a hole that is given up, or (cut) of packets that the capture has not kept whole.

    `has_late`: what is returned behind them came before now, and has waited for them.
    """

    size: int
    is_cut: bool
    has_late: bool = False


Piece: TypeAlias = "bytes | Missing"
"""Bytes that follow on those before, or that are missing there."""


class Stream:
    """Reassembles one direction. `position` counts stream bytes from the first one seen. The first copy of a byte wins."""

    __slots__ = ("chunks", "hole_since_ns", "lost_from", "next_seq", "position")

    def __init__(self) -> None:
        self.next_seq: int | None = None
        """Sequence number of the next byte; None before the first segment, and where any may be the next one."""
        self.lost_from: int | None = None
        """Sequence number behind the last byte before a hole of the capture, until it shows how much is lost."""
        self.position = 0
        self.chunks: list[tuple[int, bytes, int]] = []
        """Segments behind a hole: position, bytes, lost bytes after them; sorted, without overlap."""
        self.hole_since_ns: int | None = None

    def begin(self, seq: int) -> None:
        """Start at `seq`, the sequence number of the first byte to come."""
        self.next_seq = seq & MASK

    def lose_track(self, time_ns: int) -> list[Piece]:
        """Return everything behind holes: a part of the capture is missing, and what comes next need not wait for it."""
        pieces = self.flush(time_ns)
        if self.next_seq is not None:
            self.lost_from, self.next_seq = self.next_seq, None
        return pieces

    def push(self, seq: int, payload: bytes, lost: int, time_ns: int) -> list[Piece]:
        """Return what becomes readable with this segment; `lost` bytes at its end were not captured."""
        if self.next_seq is None:
            return self._first(seq, payload, lost, time_ns)
        ahead = self.ahead(seq)
        if not -_FAR < ahead < _FAR:
            return []
        if ahead < 0:
            if -ahead >= len(payload) + lost:
                return []
            if -ahead > len(payload):
                lost, payload = lost + len(payload) + ahead, b""
            else:
                payload = payload[-ahead:]
            ahead = 0
        if ahead == 0 and not self.chunks:
            return self._advance(payload, lost)
        self._keep(self.position + ahead, payload, lost)
        pieces = self._drain()
        if pieces:  # a hole is as old as the last byte before it
            self.hole_since_ns = None
        if self.chunks and self.hole_since_ns is None:
            self.hole_since_ns = time_ns
        if sum(len(kept) for _, kept, _ in self.chunks) > MAX_REORDER_BYTES or len(self.chunks) > MAX_REORDER_CHUNKS:
            pieces += self._skip_hole(time_ns)
        return pieces

    def _first(self, seq: int, payload: bytes, lost: int, time_ns: int) -> list[Piece]:
        """Return what becomes readable with the first segment of all, or behind a hole of the capture."""
        if self.lost_from is None:
            self.begin(seq)
            return self.push(seq, payload, lost, time_ns)
        ahead = (seq - self.lost_from) & MASK
        is_behind = ahead > MASK - _FAR
        if is_behind and ahead + len(payload) + lost <= MASK + 1:
            return []
        self.begin(self.lost_from)
        self.lost_from = None
        pieces: list[Piece] = []
        if ahead and not is_behind:
            self._advance(b"", ahead)
            pieces.append(Missing(ahead, False))
        return pieces + self.push(seq, payload, lost, time_ns)

    def takes(self, seq: int, size: int, acked: int | None, *, fin: bool = False, rst: bool = False) -> bool:
        """Return whether the other side takes a segment that has this sequence number: anybody can send it another one.

        `acked`: its last acknowledgement; None: none was seen, and behind the first byte only what is far away is refused. A RST
        it takes only at the next byte, or behind a FIN: here a little behind what is known of, since the capture may have lost the
        last bytes.

        Source: RFC 9293, RFC 5961.
        """
        if self.next_seq is None:
            return True
        ahead, known = self.ahead(seq), 0
        if acked is not None:
            known = max(0, self.ahead(acked))
        if self.chunks:
            at, payload, lost = self.chunks[-1]
            known = max(known, at + len(payload) + lost - self.position)
        if rst:
            return seq == acked or 0 <= ahead <= known + MAX_LOST_BEFORE_RST
        if fin and ahead + size < 0:
            return False
        return ahead <= known + (_FAR if acked is None and self.position else MAX_WINDOW_BYTES)

    def has_lost(self, acked: int | None) -> bool:
        """Return whether the other side, which has sent this acknowledgement, has got what is behind the first hole."""
        return bool(self.chunks) and acked is not None and self.position + self.ahead(acked) >= self.chunks[0][0]

    def overdue(self, time_ns: int, acked: int | None) -> list[Piece]:
        """Give up the first hole if it is old enough.

        `acked` is the last acknowledgement from the other side. If that is the byte at which the hole begins, the other side has
        not got what lies behind it: that was lost on its way, or anybody's, and is forgotten.
        """
        if self.hole_since_ns is None or not self.chunks:
            return []
        age = time_ns - self.hole_since_ns
        if age > GAP_NS and acked == self.next_seq:
            self.chunks, self.hole_since_ns = [], None
            return []
        if age > GAP_NS or (age > GAP_ACKED_NS and self.has_lost(acked)):
            return self._skip_hole(time_ns)
        return []

    def flush(self, time_ns: int) -> list[Piece]:
        """Return everything behind the holes: nothing will fill them any more."""
        pieces: list[Piece] = []
        while self.chunks:
            pieces += self._skip_hole(time_ns)
        return pieces

    def ahead(self, seq: int) -> int:
        """Return how many bytes `seq` lies ahead of the next byte; below 0: behind it."""
        if self.next_seq is None:
            return 0
        return ((seq - self.next_seq + _HALF) & MASK) - _HALF

    def _advance(self, payload: bytes, lost: int) -> list[Piece]:
        assert self.next_seq is not None
        size = len(payload) + lost
        self.next_seq = (self.next_seq + size) & MASK
        self.position += size
        pieces: list[Piece] = [payload] if payload else []
        return [*pieces, Missing(lost, True)] if lost else pieces

    def _keep(self, at: int, payload: bytes, lost: int) -> None:
        """Add the parts of a segment that no kept one covers."""
        end = at + len(payload) + lost
        added: list[tuple[int, bytes, int]] = []
        start = at

        def add(stop: int) -> None:
            if stop > start:
                part = payload[start - at : stop - at]
                added.append((start, part, stop - start - len(part)))

        for have, data, gone in self.chunks:
            have_end = have + len(data) + gone
            if have_end <= start or have >= end:
                continue
            add(have)
            start = max(start, have_end)
        add(end)
        if added:
            self.chunks = sorted([*self.chunks, *added], key=lambda chunk: chunk[0])

    def _drain(self) -> list[Piece]:
        pieces: list[Piece] = []
        taken = 0
        for at, payload, lost in self.chunks:
            if at != self.position:
                break
            pieces += self._advance(payload, lost)
            taken += 1
        del self.chunks[:taken]
        if taken and not self.chunks:
            self.hole_since_ns = None
        return pieces

    def _skip_hole(self, time_ns: int) -> list[Piece]:
        hole = self.chunks[0][0] - self.position
        self._advance(b"", hole)
        pieces = [Missing(hole, False, True), *self._drain()]
        self.hole_since_ns = time_ns if self.chunks else None
        return pieces
