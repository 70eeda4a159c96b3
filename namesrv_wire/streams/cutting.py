"""Frames cut out of a byte stream, and what its first bytes are if they are no frame: a proxy's preamble, TLS, a stranger.

Source: 4.9.7 and 5.4.0 `NettyDecoder`; 5.4.0 `NettyRemotingServer.HandshakeHandler` (first byte 0x16: TLS; PROXY detected by its
signature), the PROXY protocol's versions 1 and 2.
"""

from __future__ import annotations

import re
import socket
from typing import Final, NamedTuple

from namesrv_wire.codes import REQUEST_NAMES
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.limits import MAX_FRAME_BYTES, MAX_RESYNC_BYTES, MAX_RESYNC_HEADER_BYTES, MIN_BINARY_HEADER_BYTES
from namesrv_wire.packets.capture import packed_address
from namesrv_wire.protocol.frames import FIXED, JSON, ONE_WAY, RESPONSE, ROCKETMQ, decode_frame

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
            if size < 8 or not size - 4 <= length <= MAX_FRAME_BYTES:
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
        self.buffer.clear()
        self.position += length
        self.need = 4
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
        self.need = 4
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
        if length < 4 or length > MAX_FRAME_BYTES:
            opening = opening_of(bytes(self.buffer)) if self.position == self.start else None
            if isinstance(opening, Preamble) and not self.start:  # the first frame begins after a proxy's words
                if not opening.size:
                    self.need = len(self.buffer) + 1
                    return None
                self.proxied = opening.client
                self._drop(opening.size)
                self.start = self.position
                self.need = 4
                return self._next()
            if isinstance(opening, Stranger):
                return self._stranger(bytes(self.buffer), *opening)
            # Everything up to the next plausible frame is refused with the length.
            reason = Reason.FRAME_TOO_LONG if length > MAX_FRAME_BYTES else Reason.BAD_FRAME_LENGTH
            error = DecodeError(reason, f"length field {length}, between 4 and {MAX_FRAME_BYTES} expected")
            position, data = self.position, bytes(self.buffer)
            self.synced = False
            self._drop(1)
            self.need = 4
            self._resync()
            size = self.position - position
            return Cut(position, data[:size], error, size)
        if len(self.buffer) < 4 + length:
            self.need = 4 + length
            return None
        cut = Cut(self.position, bytes(self.buffer[: 4 + length]))
        self._drop(4 + length)
        self.need = 4
        return cut

    def _resync(self) -> bool:
        """Drop bytes up to a plausible frame start; True if one was found, False if more bytes are needed."""
        at = 0
        while (at := self.buffer.find(b"\x00", at)) >= 0:
            verdict = plausible_start(self.buffer, at)
            if verdict:
                self._drop(at)
                self.synced = True
                self.need = 4
                return True
            if verdict is None and len(self.buffer) - at <= MAX_RESYNC_BYTES:
                break
            at += 1
        stop = len(self.buffer) if at < 0 else at
        self._drop(stop)
        self.need = len(self.buffer) + 1
        return False

    def _drop(self, size: int) -> None:
        del self.buffer[:size]
        self.position += size


def plausible_start(data: bytes | bytearray, at: int = 0) -> bool | None:
    """Return whether a frame starts at `at`: length, serialization and a header that decodes.

    None if `data` ends before that can be told.
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
        said = {name: int(value) for name, value in _NUMBERS.findall(bytes(data[8 : 8 + MAX_RESYNC_HEADER_BYTES]))}
        code, version, opaque, flag = (said.get(name) for name in (b"code", b"version", b"opaque", b"flag"))
    if code is None or (flag is None and code not in REQUEST_NAMES):
        return None
    return Head(code, bool(flag and flag & RESPONSE), bool(flag and flag & ONE_WAY), opaque, version)


def _length_is_plausible(start: bytes) -> bool:
    return 8 <= int.from_bytes(start[:4], "big", signed=True) <= MAX_FRAME_BYTES


def _header_is_plausible(start: bytes) -> bool:
    """Return whether the first bytes of a frame, eight at least, can belong to a header of the length that they say."""
    if not _length_is_plausible(start):
        return False
    header_length = int.from_bytes(start[5:8], "big")
    longest = min(int.from_bytes(start[:4], "big") - 4, MAX_RESYNC_HEADER_BYTES)
    if start[4] == JSON:
        return 2 <= header_length <= longest and start[8:9] in (b"", b"{")
    return start[4] == ROCKETMQ and MIN_BINARY_HEADER_BYTES <= header_length <= longest
