"""One direction of a TCP connection: segments in any order, bytes out in order with holes named, frames cut out of them.

Where its first bytes are no frame, it says what they are: a proxy's preamble, TLS, a stranger.

Source: 4.9.7 and 5.4.0 `NettyDecoder`; 5.4.0 `NettyRemotingServer.HandshakeHandler` (first byte 0x16: TLS; PROXY detected by its
signature), the PROXY protocol's versions 1 and 2.
"""

from __future__ import annotations

import re
import socket
from typing import Final, NamedTuple, TypeAlias

from namesrv_wire.codes import REQUEST_NAMES
from namesrv_wire.errors import (
    GAP_ACKED_NS,
    GAP_NS,
    MAX_LENGTH,
    MAX_LOST_BEFORE_RST,
    MAX_REORDER_BYTES,
    MAX_REORDER_CHUNKS,
    MAX_RESYNC_BYTES,
    MAX_RESYNC_HEADER_BYTES,
    MAX_WINDOW_BYTES,
    MIN_BINARY_HEADER_BYTES,
    DecodeError,
    Reason,
)
from namesrv_wire.packets.segments import packed_address
from namesrv_wire.protocol.frames import FIXED, JSON, ONE_WAY, RESPONSE, ROCKETMQ, decode_frame

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


_TLS_HANDSHAKE: Final = 0x16
_TLS_RECORDS: Final = frozenset(range(0x14, 0x18))
_MAX_TLS_RECORD: Final = (1 << 14) + 2_048
_METHODS: Final = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN", b"PRI "})
_PROXY_1, _PROXY_2 = b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n"
_MAX_PROXY_1: Final = 107
_TEXT_ADDRESSES: Final = {"TCP4": socket.AF_INET, "TCP6": socket.AF_INET6}
_BINARY_ADDRESSES: Final = {0x11: 4, 0x21: 16}
"""Bytes of an address, by family."""


class Preamble(NamedTuple):
    """A proxy's words of `size` bytes, and the client's ip:port that they name; None if they name none."""

    size: int
    client: str | None


class Stranger(NamedTuple):
    """Whoever speaks something else, to the end of the connection."""

    reason: Reason
    detail: str


def opening_of(data: bytes) -> Preamble | Stranger | None:
    """Return what the first bytes of a connection are, of which at least four are here and begin no frame.

    A preamble of size 0 has not ended yet. None: nothing that is known.
    """
    if data[0] == _TLS_HANDSHAKE:
        return Stranger(Reason.TLS, "a TLS handshake: what follows cannot be read")
    if data[:4] in _METHODS:
        return Stranger(Reason.HTTP, "an HTTP request")
    if data.startswith(_PROXY_1) or _PROXY_1.startswith(data):
        return _version_1(data)
    if data.startswith(_PROXY_2) or _PROXY_2.startswith(data):
        return _version_2(data)
    if not any(data):
        return Stranger(Reason.ZEROS, "nothing but zeros")
    return None


def is_tls(data: bytes) -> bool:
    """Return whether a segment holds TLS records one after the other, the last of which may go on."""
    at = 0
    while at + 5 <= len(data):
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        if data[at] not in _TLS_RECORDS or data[at + 1] != 3 or data[at + 2] > 4 or not 0 < size <= _MAX_TLS_RECORD:
            return False
        at += 5 + size
    return at > 0


def _version_1(data: bytes) -> Preamble | Stranger:
    end = data.find(b"\r\n", 0, _MAX_PROXY_1)
    if end < 0:
        return Preamble(0, None) if len(data) < _MAX_PROXY_1 else _bad("no end of line in its first 107 bytes")
    words = data[:end].decode("latin-1").split(" ")
    if words[1] == "UNKNOWN":
        return Preamble(end + 2, None)
    try:
        family, source, _, port, _ = words[1:]
        packed = socket.inet_pton(_TEXT_ADDRESSES[family], source)
        is_port = port.isascii() and port.isdigit() and int(port) <= 0xFFFF
    except (ValueError, KeyError, OSError):
        is_port = False
    if not is_port:
        return _bad("a line that names no two addresses and ports")
    return Preamble(end + 2, packed_address(packed, int(port).to_bytes(2, "big")))


def _version_2(data: bytes) -> Preamble | Stranger:
    if len(data) < 16:
        return Preamble(0, None)
    command, family, size = data[12], data[13], int.from_bytes(data[14:16], "big")
    if command not in (0x20, 0x21):
        return _bad(f"version and command {command:#04x}")
    width = _BINARY_ADDRESSES.get(family)
    if command == 0x21 and width and size < 2 * width + 4:
        return _bad(f"{size} bytes for two addresses of {width} bytes and two ports")
    if len(data) < 16 + size:
        return Preamble(0, None)
    if command == 0x20 or width is None:
        return Preamble(16 + size, None)
    return Preamble(16 + size, packed_address(data[16 : 16 + width], data[16 + 2 * width : 18 + 2 * width]))


def _bad(what: str) -> Stranger:
    return Stranger(Reason.BAD_PROXY_PREAMBLE, f"a PROXY preamble with {what}")


_NUMBERS = re.compile(rb'"(code|flag|opaque|version)":(-?[0-9]{1,10})(?![0-9])')


class Cut(NamedTuple):
    """A frame's bytes and its position in the stream, or (with `error`) a piece that is none."""

    position: int
    data: bytes
    error: DecodeError | None = None
    length: int = 0
    """Bytes of a refused piece, lost ones included."""
    is_late: bool = False
    """It came before the packet at hand, with which it is known that nothing fills the hole in front of it."""


class FrameCutter:
    """Cuts one direction's bytes into frames. After a hole or a broken length it looks for the next frame's start."""

    __slots__ = ("buffer", "is_stranger", "need", "position", "proxied", "skip", "start", "synced")

    def __init__(self, *, synced: bool) -> None:
        self.buffer = bytearray()
        self.need = 4
        """Bytes the buffer must hold before it is worth looking at again."""
        self.position = 0
        """Stream position of the buffer's first byte."""
        self.synced = synced
        self.skip = 0
        """Bytes until the end of the frame in the buffer, of which some were cut off."""
        self.start = 0 if synced else -1
        """Where the first frame begins; -1 once there was something else, or if that is not known."""
        self.is_stranger = False
        self.proxied: str | None = None

    def feed(self, data: bytes) -> list[Cut]:
        """Return the frames that end in `data`."""
        if found := self.whole(data):
            return [Cut(self.position - len(found), found)]
        if found is not None:
            return []
        if self.is_stranger:
            self.position += len(data)
            return []
        if self.skip:
            rest = data[self.skip :]
            passed = self._passed(len(data) - len(rest))
            return [*passed, *self.feed(rest)] if rest else passed
        if not (self.synced or self.buffer) and is_tls(data):
            return [self._stranger(data, Reason.TLS, "TLS records: nothing of it can be read")]
        self.buffer += data
        cuts: list[Cut] = []
        while len(self.buffer) >= self.need:
            if not self.synced and not self._resync():
                break
            cut_here = self._next()
            if cut_here is None:
                break
            cuts.append(cut_here)
        return cuts

    def whole(self, data: bytes) -> bytes | None:
        """Return the frame that ends with `data`, and `position` is behind it; empty, if `data` is a part in front of its end.

        None, and nothing is taken, where it is not as simple as that: `feed` is to be asked.
        """
        buffer, size = self.buffer, len(data)
        is_length_known = not buffer or self.need > 4
        if not self.synced or self.skip or not is_length_known:
            return None
        if not buffer:
            length = int.from_bytes(data[:4], "big")
            if size < 8 or not size - 4 <= length <= MAX_LENGTH:
                return None
            if length == size - 4:
                self.position += size
                return data
            self.need = 4 + length
        left = self.need - len(buffer) - size
        if left > 0:
            buffer += data
            return b""
        if left or int.from_bytes(buffer[:4], "big") + 4 != self.need:
            return None
        found = b"".join((buffer, data))
        buffer.clear()
        self.position += self.need
        self.need = 4
        return found

    def give_up(self) -> None:
        """Cut no more frames: whoever speaks here is a stranger."""
        self.position += len(self.buffer)
        self.buffer.clear()
        self.is_stranger, self.synced = True, False

    def cut_off(self, lost: int) -> list[Cut]:
        """Return the frames that end in `lost` bytes that were on the wire but not kept.

        Where a frame ends follows from its length, if that is there. If it ends before the bytes that are missing do, the
        next frame's start must be found.
        """
        if not self.skip and not self.is_stranger:
            if len(self.buffer) < 4 or (not self.synced and head_of(self.buffer) is None):
                return self.gap(lost, Reason.TRUNCATED_PACKET)
            self.synced = True
            self.skip = 4 + int.from_bytes(self.buffer[:4], "big") - len(self.buffer)
        taken = min(self.skip, lost)
        cuts = self._passed(taken)
        return [*cuts, *self.gap(lost - taken, Reason.TRUNCATED_PACKET)] if lost > taken else cuts

    def _passed(self, size: int) -> list[Cut]:
        self.skip -= size
        if self.skip:
            return []
        kept, length = bytes(self.buffer), 4 + int.from_bytes(self.buffer[:4], "big")
        error = DecodeError(Reason.TRUNCATED_PACKET, f"{len(kept)} bytes of a frame of {length} were kept")
        cut = Cut(self.position, kept, error, length)
        self._drop(len(kept))
        self.position += length - len(kept)
        return [cut]

    def _stranger(self, data: bytes, reason: Reason, detail: str) -> Cut:
        cut = Cut(self.position, data, DecodeError(reason, detail), len(data))
        self.position += 0 if self.buffer else len(data)
        self.give_up()
        return cut

    def gap(self, lost: int, reason: Reason = Reason.LOST_SEGMENT) -> list[Cut]:
        """Return the piece that a hole of `lost` bytes broke; the next frame's start must then be found."""
        if self.is_stranger:
            self.position += lost
            return []
        if self.skip:
            return self.cut_off(lost)
        kept = bytes(self.buffer) if self.synced else b""
        detail = f"{lost} bytes of the stream are missing, {len(kept)} bytes of a frame were there"
        cut = Cut(self.position, kept, DecodeError(reason, detail), len(kept) + lost)
        self._drop(len(self.buffer))
        self.position += lost
        self.synced = False
        return [cut]

    def end(self) -> list[Cut]:
        """Return the unfinished frame at the end of the stream."""
        if not self.buffer:
            return []
        data, synced = bytes(self.buffer), self.synced
        position = self.position
        self._drop(len(data))
        if not synced:
            return []
        self.skip = 0
        is_all = position == self.start
        reason = Reason.HALF_FRAME if is_all else Reason.INCOMPLETE_FRAME
        detail = f"the connection ended after {len(data)} bytes of {'its first' if is_all else 'a'} frame"
        return [Cut(position, data, DecodeError(reason, detail), len(data))]

    def _next(self) -> Cut | None:
        if len(self.buffer) < 4:
            self.need = 4
            return None
        length = int.from_bytes(self.buffer[:4], "big", signed=True)
        if length < 4 or length > MAX_LENGTH:
            opening = opening_of(bytes(self.buffer)) if self.position == self.start else None
            if isinstance(opening, Preamble) and not self.start:  # the first frame begins after a proxy's words
                if not opening.size:
                    self.need = len(self.buffer) + 1
                    return None
                self.proxied = opening.client
                self._drop(opening.size)
                self.start = self.position
                return self._next()
            if isinstance(opening, Stranger):
                return self._stranger(bytes(self.buffer), *opening)
            # Everything up to the next plausible frame is refused with the length.
            reason = Reason.FRAME_TOO_LONG if length > MAX_LENGTH else Reason.BAD_FRAME_LENGTH
            error = DecodeError(reason, f"length field {length}, between 4 and {MAX_LENGTH} expected")
            position, data = self.position, bytes(self.buffer)
            self.synced = False
            self._drop(1)
            self._resync()
            size = self.position - position
            return Cut(position, data[:size], error, size)
        if len(self.buffer) < 4 + length:
            self.need = 4 + length
            return None
        cut = Cut(self.position, bytes(self.buffer[: 4 + length]))
        self._drop(4 + length)
        return cut

    def _resync(self) -> bool:
        """Drop bytes up to a plausible frame start; True if one was found, False if more bytes are needed."""
        at = 0
        while (at := self.buffer.find(b"\x00", at)) >= 0:
            verdict = plausible_start(self.buffer, at)
            if verdict:
                self._drop(at)
                self.synced = True
                return True
            if verdict is None and len(self.buffer) - at <= MAX_RESYNC_BYTES:
                break
            at += 1
        self._drop(len(self.buffer) if at < 0 else at)
        self.need = len(self.buffer) + 1
        return False

    def _drop(self, size: int) -> None:
        del self.buffer[:size]
        self.position += size
        self.need = 4


def plausible_start(data: bytes | bytearray, at: int = 0) -> bool | None:
    """Return whether a frame starts at `at`: length, serialization and a header that decodes.

    None if `data` ends before that is known.
    """
    start = bytes(data[at : at + 9])
    if len(start) < 8:
        return None if len(start) < 4 or _length_is_plausible(start) else False
    header_length = int.from_bytes(start[5:8], "big")
    if not _header_is_plausible(start):
        return False
    if len(data) - at < 8 + header_length:
        return None
    header = bytes(data[at + 4 : at + 8 + header_length])
    if start[4] == JSON and header[-1] != 0x7D:
        return False
    try:
        frame = decode_frame(len(header).to_bytes(4, "big") + header)
    except DecodeError:
        return False
    return start[4] == JSON or frame.is_response or frame.code in REQUEST_NAMES


class Head(NamedTuple):
    """What the beginning of a frame says of its header."""

    code: int
    is_answer: bool
    is_one_way: bool
    opaque: int | None
    version: int | None


def head_of(data: bytes | bytearray) -> Head | None:
    """Return what is to be read of the header of a frame that was cut; None if it looks like no frame."""
    start = bytes(data[:9])
    if len(start) < 9 or not _header_is_plausible(start):
        return None
    if start[4] == ROCKETMQ:
        if len(data) < 8 + FIXED.size:
            return None
        code, _, version, opaque, flag = FIXED.unpack_from(data, 8)
    else:
        numbers = {name: int(value) for name, value in _NUMBERS.findall(bytes(data[8 : 8 + MAX_RESYNC_HEADER_BYTES]))}
        code, version, opaque, flag = (numbers.get(name) for name in (b"code", b"version", b"opaque", b"flag"))
    if code is None or (flag is None and code not in REQUEST_NAMES):
        return None
    return Head(code, bool(flag and flag & RESPONSE), bool(flag and flag & ONE_WAY), opaque, version)


def _length_is_plausible(start: bytes) -> bool:
    return 8 <= int.from_bytes(start[:4], "big", signed=True) <= MAX_LENGTH


def _header_is_plausible(start: bytes) -> bool:
    """Return whether the first bytes of a frame, eight at least, can belong to a header of the length that they say."""
    if not _length_is_plausible(start):
        return False
    header_length = int.from_bytes(start[5:8], "big")
    longest = min(int.from_bytes(start[:4], "big") - 4, MAX_RESYNC_HEADER_BYTES)
    if start[4] == JSON:
        return 2 <= header_length <= longest and start[8:9] in (b"", b"{")
    return start[4] == ROCKETMQ and MIN_BINARY_HEADER_BYTES <= header_length <= longest
