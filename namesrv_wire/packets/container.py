"""Records of pcap and pcapng files, compressed or not: where packets lie, when they were seen, and of which link type they are.

The chain of a file's records is the only loop over packets; what records say is read from many at once. A length that a file
states is believed within limits only. Where a record cannot be, reading ends: what lies behind it is not guessed at.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from struct import Struct, unpack_from
from struct import error as struct_error
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.compression import unpacked
from namesrv_wire.errors import MAX_INTERFACES, MAX_PACKET_BYTES, MAX_PCAPNG_BLOCK_BYTES, MAX_SECTIONS, CaptureError

Ints: TypeAlias = NDArray[np.int64]
Truths: TypeAlias = NDArray[np.bool_]

CHUNK_BYTES: Final = 4 << 20
CHUNK_PACKETS: Final = 1 << 16
"""How much of a capture is in memory together."""
_FIRST_BYTES: Final = 1 << 20
"""Of the first such piece: often no more is wanted, and what was unpacked beyond it was unpacked in vain."""
PADDING: Final = 64
_FIELDS: Final = 7
"""What is read of a packet: the columns of `Records` from `link_type` to `is_timed`."""
_SECOND_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400
_MAX_DAYS: Final = 40
"""A record of nothing is no later than this after the first one, or it is none."""


# How a pcap begins, and then is written: byte order, nanoseconds in a unit of its clock, bytes of a record's header.
# Source: draft-ietf-opsawg-pcap; the last two are of old Linux systems.
_FORMS: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000, 16),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\xcd\x34": (">", 1_000, 24),
    b"\x34\xcd\xb2\xa1": ("<", 1_000, 24),
}
PCAP: Final = frozenset(_FORMS)
"""How a pcap may begin; its header has 24 bytes."""
_PCAP_HEADER: Final = 24
# Blocks of pcapng. Source: draft-ietf-opsawg-pcapng.
_SECTION, _INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_TIME_RESOLUTION, _TIME_OFFSET = 9, 14
_MARKS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}


@dataclass(slots=True)
class Records:
    """Packets that follow each other in a file, the first of them number `first`.

    An item a packet: its link type, where in `data` it begins, how much of it was kept, how long it was as far as the file tells,
    and its time. `interface`: number of the interface, from 1, in a file with several; else 0. `is_timed`: the file says when it
    was seen; else the time is that of the one before. Behind the packets `data` has `PADDING` zeros. `read_bytes`: how much of the
    file was read for them, as it lies on disk.
    """

    first: int
    data: bytes
    link_type: Ints
    start: Ints
    kept: Ints
    original: Ints
    time_ns: Ints
    interface: Ints
    is_timed: Truths
    read_bytes: int


def read_records(path: Path) -> Iterator[Records]:
    """Yield the records of a capture file in file order, many at a time; memory does not grow with the file.

    What a file is, and whether it is compressed, its first bytes tell, not its name. Raises `CaptureError` at
    once for a foreign file, and after the last packet that can be read for one that ends early or is damaged.
    """
    with path.open("rb") as raw:
        source = _Source(path, raw)
        source.more()
        head = source.data[: min(4, source.size)]
        form = _FORMS.get(head)
        if form is not None:
            chain: _Pcap | _Pcapng = _Pcap(source, *form)
        elif head == _SECTION.to_bytes(4, "big"):
            chain = _Pcapng(source)
        elif source.broken is not None:
            raise source.broken
        else:
            shown = head.hex() or "nothing"
            lines = "lines of logs are JSON objects, or DATE TIME LEVEL THREAD - MESSAGE"
            raise source.error(0, f"not a capture: it starts with {shown}, not with pcap or pcapng; {lines}")
        number, at, wrong = 1, chain.begin, None
        while True:
            packets = array("q")
            try:
                at = chain.take(at, packets)
            except CaptureError as error:
                wrong = error
            if packets:
                columns = np.frombuffer(packets, np.int64).reshape(-1, _FIELDS).T.copy()
                link_type, start, kept, original, time_ns, interface, is_timed = columns
                lengths, of = (kept, original), (time_ns, interface, is_timed > 0)
                yield Records(number, source.data, link_type, start, *lengths, *of, source.read_bytes)
                number += len(is_timed)
            if wrong is not None:
                raise wrong
            if len(packets) < _FIELDS * CHUNK_PACKETS:  # no further one is there as a whole
                if source.is_end:
                    wrong = source.ended(at)
                    if wrong is not None:
                        raise wrong
                    return
                source.more(at)
                at = 0


def packet_of(path: Path, number: int) -> bytes | None:
    """Return what was kept of the packet with this number, from 1; None if the file has no such."""
    for records in read_records(path):
        index = number - records.first
        if 0 <= index < len(records.start):
            at = int(records.start[index])
            return records.data[at : at + int(records.kept[index])]
    return None


class _Source:
    """The bytes of a file, a part at a time: `data` begins at byte `offset` of what is unpacked, and has `size` of it.

    `broken`: why no more can be read. `is_end`: there is no more.
    """

    def __init__(self, path: Path, file: BufferedReader) -> None:
        self.path, self.data, self.size, self.offset, self.is_end = path, b"", 0, 0, False
        self.broken: CaptureError | None = None
        self._stream: BufferedReader | None = None
        self._file = file

    @property
    def read_bytes(self) -> int:
        """Return how much of the file was read, as it lies on disk."""
        return self._file.tell()

    def error(self, at: int, what: str) -> CaptureError:
        """Return an error that names the file and a byte of `data`."""
        return CaptureError(self.path, self.offset + at, what)

    def more(self, done: int = 0) -> None:
        """Let go of so many bytes of `data`, and add some to it."""
        parts, added, self.offset, why = [self.data[done : self.size]], 0, self.offset + done, None
        most = CHUNK_BYTES if self._stream else min(CHUNK_BYTES, _FIRST_BYTES)
        try:
            self._stream = self._stream or unpacked(self._file)
            while added < most and not self.is_end:
                parts.append(self._stream.read1(most - added))
                added += len(parts[-1])
                self.is_end = not parts[-1]
        except OSError as error:
            self.is_end, why = True, error
        self.data = b"".join([*parts, bytes(PADDING)])
        self.size = len(self.data) - PADDING
        if why is not None:
            self.broken = self.error(self.size, f"it cannot be read further: {why}")

    def ended(self, at: int) -> CaptureError | None:
        """Return what is wrong with the end of the file, which is in a record that begins at a byte of `data`; None: nothing."""
        if self.broken is not None:
            return self.broken
        left = self.size - at
        return self.error(at, f"the file ends inside a record: {left} bytes of it are there") if left else None


class _Pcap:
    """The records of a pcap, which begin at byte `begin`."""

    begin = _PCAP_HEADER

    def __init__(self, source: _Source, order: str, unit_ns: int, header: int) -> None:
        if source.size < _PCAP_HEADER:
            raise source.ended(0) or source.error(0, "the file ends inside its header")
        self._source = source
        self._begin(0, order, unit_ns, header)

    def _begin(self, at: int, order: str, unit_ns: int, header: int) -> None:
        """Go on as the header says that is at a byte."""
        self._unit_ns, self._header = unit_ns, header
        self._snap_length, link_type = Struct(order + "II").unpack_from(self._source.data, at + 16)
        self._link_type, self._fields = link_type & 0xFFFF, Struct(order + "IIII")
        self._first_s: int | None = None

    def take(self, at: int, packets: array[int]) -> int:
        """Add the packets of whole records from a byte on; return where the last of them ends. Raises `CaptureError`."""
        source, header, unit_ns, first_s = self._source, self._header, self._unit_ns, self._first_s
        read, data, last, most = self._fields.unpack_from, source.data, source.size, _FIELDS * CHUNK_PACKETS
        while at + header <= last and len(packets) < most:
            seconds, unit, kept, original = read(data, at)
            end = at + header + kept
            if kept > MAX_PACKET_BYTES:
                raise source.error(at, f"a length of {kept} bytes, not 0 to {MAX_PACKET_BYTES}: damaged header")
            if not original:  # neither made of zeros, nor of the ends of two records
                if (form := _FORMS.get(data[at : at + 4])) is not None:  # the next of captures that `cat` has joined
                    if at + _PCAP_HEADER > last:
                        break
                    self._begin(at, *form)
                    header, unit_ns, first_s, read = self._header, self._unit_ns, None, self._fields.unpack_from
                    at += _PCAP_HEADER
                    continue
                is_near = first_s is None or first_s - _DAY_S <= seconds <= first_s + _MAX_DAYS * _DAY_S
                if not seconds or not is_near:
                    what = "a packet of 0 bytes, at a time that cannot be: nothing but zeros, or a damaged header"
                    raise source.error(at, what)
            if end > last:
                break
            if first_s is None:
                self._first_s = first_s = seconds
            # Only a packet of full snap length can have been cut.
            length = kept if kept < self._snap_length else max(kept, original)
            time_ns = seconds * _SECOND_NS + unit * unit_ns
            packets.extend((self._link_type, at + header, kept, length, time_ns, 0, 1))
            at = end
        return at


class _Interface(NamedTuple):
    link_type: int
    snap_length: int
    per_second: int
    offset_ns: int


# Blocks with a packet: which fields they have, and where the packet begins.
_KINDS: Final = {_ENHANCED: ("5I", 28), _OBSOLETE: ("H2x4I", 28), _SIMPLE: ("I", 12)}
# How many bytes a block has at least that is not passed over.
_LEAST: Final = {_SECTION: 28, _INTERFACE: 20, **{kind: start + 4 for kind, (_, start) in _KINDS.items()}}


class _Pcapng:
    """The blocks of a pcapng: those with packets, and those that say how to read the ones behind them."""

    begin = 0

    def __init__(self, source: _Source) -> None:
        self._source, self._order, self._interfaces = source, "<", list[_Interface]()
        self._sections = self._last_ns = 0

    def take(self, at: int, packets: array[int]) -> int:
        """Add the packets of whole blocks from a byte on; return where the last block ends. Raises `CaptureError`.

        Blocks that are not known are passed over.
        """
        source = self._source
        data, last, most = source.data, source.size, _FIELDS * CHUNK_PACKETS
        while at + 12 <= last and len(packets) < most:
            kind, size = unpack_from(self._order + "II", data, at)
            if kind == _SECTION:  # which says itself in which byte order its size is
                order = _MARKS.get(data[at + 8 : at + 12])
                if order is None:
                    raise source.error(at, "a section without a byte order magic: damaged header")
                (size,) = unpack_from(order + "I", data, at + 4)
            if not _LEAST.get(kind, 12) <= size <= MAX_PCAPNG_BLOCK_BYTES or size % 4:
                raise source.error(at, f"a block of {size} bytes: damaged header")
            end = at + size
            if end > last:
                break
            is_whole = data[end - 4 : end] == data[at + 4 : at + 8]
            if kind in _KINDS:
                packets.extend(self._packet(at, kind, size, is_whole=is_whole))
            elif not is_whole:
                raise source.error(at, "a block whose two lengths differ: damaged")
            elif kind == _SECTION:
                self._order, self._interfaces = _MARKS[data[at + 8 : at + 12]], []
                self._sections += 1
                if self._sections > MAX_SECTIONS:
                    raise source.error(at, f"more than {MAX_SECTIONS} sections")
            elif kind == _INTERFACE:
                if len(self._interfaces) >= MAX_INTERFACES:
                    raise source.error(at, f"more than {MAX_INTERFACES} interfaces")
                self._interfaces.append(_interface(source, at, end, self._order))
            at = end
        return at

    def _packet(self, at: int, kind: int, size: int, *, is_whole: bool) -> tuple[int, ...]:
        """Return what a block says of its packet, an item a column of `Records`."""
        (form, start), interfaces = _KINDS[kind], self._interfaces
        header = unpack_from(self._order + form, self._source.data, at + 8)
        of = 0 if kind == _SIMPLE else header[0]  # a simple one is of the first interface, without a time
        interface, what = interfaces[of] if of < len(interfaces) else None, ""
        kept = sent = header[-1]
        if interface is None:
            what = f"a packet of interface {of}, which is not described"
        elif kind == _SIMPLE:
            kept = min(sent, interface.snap_length or sent)
        else:
            _, high, low, kept, _ = header
            self._last_ns = (high << 32 | low) * _SECOND_NS // interface.per_second + interface.offset_ns
            what = "" if 0 <= self._last_ns < 1 << 63 else "a packet at a time that cannot be"
        if not what and (not is_whole or kept > min(size - start - 4, MAX_PACKET_BYTES)):
            what = f"a packet of {kept} bytes in a block of {size}"
        if what or interface is None:
            raise self._source.error(at, f"{what}: damaged header")
        number = of + 1 if len(interfaces) > 1 else 0
        return interface.link_type, at + start, kept, max(kept, sent), self._last_ns, number, kind != _SIMPLE


def _interface(source: _Source, at: int, end: int, order: str) -> _Interface:
    """Return what a block says of an interface. Of its options only those of the clock are looked at."""
    data = source.data
    link_type, snap_length = Struct(order + "H2xI").unpack_from(data, at + 8)
    per_second, offset_s, option, place = 1_000_000, 0, Struct(order + "HH").unpack_from, at + 16
    try:
        while place + 4 <= end - 4:
            code, size = option(data, place)
            place += 4
            if not code or place + size > end - 4:
                break
            if code == _TIME_RESOLUTION:
                (resolution,) = Struct("B").unpack(data[place : place + size])
                exponent = resolution & 0x7F
                per_second = 1 << exponent if resolution & 0x80 else int(10**exponent)
            elif code == _TIME_OFFSET:
                (offset_s,) = Struct(order + "q").unpack(data[place : place + size])
            place += size + -size % 4
    except struct_error as error:
        raise source.error(at, f"an interface whose clock is described in {size} bytes: damaged") from error
    return _Interface(link_type, snap_length, per_second, offset_s * _SECOND_NS)
