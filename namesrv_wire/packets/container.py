"""Records of pcap and pcapng files, compressed or not: where packets lie, when they were seen, and of which link type they are.

The chain of a file's records is the only loop over packets; what records say is read from many at once. A length that a file
states is believed within limits only. Where a record cannot be, reading ends: what lies behind it is not guessed at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.compression import unpacked
from namesrv_wire.errors import CaptureError
from namesrv_wire.limits import MAX_INTERFACES, MAX_PACKET_BYTES, MAX_PCAPNG_BLOCK_BYTES, MAX_SECTIONS

Ints: TypeAlias = NDArray[np.int64]
Truths: TypeAlias = NDArray[np.bool_]

CHUNK_BYTES: Final = 4 << 20
CHUNK_PACKETS: Final = 1 << 16
"""How much of a capture is in memory together."""
_FIRST_BYTES: Final = 1 << 20
"""Of the first such piece: often no more is wanted, and what was unpacked beyond it was unpacked in vain."""
PADDING: Final = 64
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
            yield from _pcap(source, *form)
        elif head == _SECTION.to_bytes(4, "big"):
            yield from _pcapng(source)
        elif source.broken is not None:
            raise source.broken
        else:
            shown = head.hex() or "nothing"
            lines = "lines of logs are JSON objects, or DATE TIME LEVEL THREAD - MESSAGE"
            raise source.error(0, f"not a capture: it starts with {shown}, not with pcap or pcapng; {lines}")


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


# -- pcap ------------------------------------------------------------------------------------------------------------------


def _pcap(source: _Source, order: str, unit_ns: int, header: int) -> Iterator[Records]:
    if source.size < _PCAP_HEADER:
        raise source.ended(0) or source.error(0, "the file ends inside its header")
    snap_length, link_type = Struct(order + "II").unpack_from(source.data, 16)
    fields = np.dtype({"names": ["sec", "unit", "kept", "sent"], "formats": [order + "u4"] * 4, "itemsize": 16})
    number, at, first_s = 1, _PCAP_HEADER, None
    while True:
        starts, end, wrong = _chain(source, at, Struct(order + "I4xII"), header, first_s)
        if starts:
            begins = np.array(starts, np.int64)
            head = _fields(source.data, begins, fields)
            first_s = int(head["sec"][0]) if first_s is None else first_s
            kept, sent = head["kept"].astype(np.int64), head["sent"].astype(np.int64)
            time_ns = head["sec"].astype(np.int64) * _SECOND_NS + head["unit"].astype(np.int64) * unit_ns
            # Only a packet of full snap length can have been cut.
            original = np.where(kept < snap_length, kept, np.maximum(kept, sent))
            of_none, links = np.zeros(len(starts), np.int64), np.full(len(starts), link_type & 0xFFFF)
            is_timed = np.ones(len(starts), bool)
            lengths, read_bytes = (kept, original), source.read_bytes
            yield Records(number, source.data, links, begins + header, *lengths, time_ns, of_none, is_timed, read_bytes)
            number += len(starts)
        if wrong is not None:
            raise source.error(end, wrong)
        if len(starts) >= CHUNK_PACKETS:
            at = end
        elif source.is_end:
            if (error := source.ended(end)) is not None:
                raise error
            return
        else:
            source.more(end)
            at = 0


def _chain(
    source: _Source, at: int, fields: Struct, header: int, first_s: int | None
) -> tuple[list[int], int, str | None]:
    """Return where the whole records from a byte on begin, where the last of them ends, and what is wrong with the next."""
    read, data, starts, last = fields.unpack_from, source.data, list[int](), source.size
    while at + header <= last and len(starts) < CHUNK_PACKETS:
        seconds, kept, original = read(data, at)
        end = at + header + kept
        if kept > MAX_PACKET_BYTES:
            return starts, at, f"a length of {kept} bytes, not 0 to {MAX_PACKET_BYTES}: damaged header"
        if not original:  # neither made of zeros, nor of the ends of two records
            is_near = first_s is None or first_s - _DAY_S <= seconds <= first_s + _MAX_DAYS * _DAY_S
            if not seconds or not is_near:
                what = "a packet of 0 bytes, at a time that cannot be: nothing but zeros, or a damaged header"
                return starts, at, what
        if end > last:
            break
        first_s = seconds if first_s is None else first_s
        starts.append(at)
        at = end
    return starts, at, None


def _fields(data: bytes, at: Ints, fields: np.dtype[np.void]) -> NDArray[np.void]:
    windows: NDArray[np.void] = np.ndarray(len(data) - fields.itemsize + 1, fields, data, strides=(1,))[at]
    return windows


# -- pcapng ----------------------------------------------------------------------------------------------------------------


class _Interface(NamedTuple):
    link_type: int
    snap_length: int
    per_second: int
    offset_ns: int


_LENGTHS: Final = (("high", "u4", 12), ("low", "u4", 16), ("kept", "u4", 20), ("sent", "u4", 24))
# Blocks with a packet: where their fields stand, and where the packet begins.
_KINDS: Final[dict[int, tuple[tuple[tuple[str, str, int], ...], int]]] = {
    _ENHANCED: ((("interface", "u4", 8), *_LENGTHS), 28),
    _OBSOLETE: ((("interface", "u2", 8), *_LENGTHS), 28),
    _SIMPLE: ((("sent", "u4", 8),), 12),
}
# How many bytes a block has at least that is not passed over.
_LEAST: Final = {_SECTION: 28, _INTERFACE: 20, **{kind: start + 4 for kind, (_, start) in _KINDS.items()}}


def _pcapng(source: _Source) -> Iterator[Records]:
    order, interfaces, sections = "<", list[_Interface](), 0
    number, at, last_ns = 1, 0, 0
    while True:
        blocks = _blocks(source, at, order)
        if blocks.starts:
            records, wrong = _packets(source, blocks, order, interfaces, last_ns)
            if len(records.start):
                records.first = number
                number, last_ns = number + len(records.start), int(records.time_ns[-1])
                yield records
            if wrong is not None:
                raise wrong
        if blocks.wrong is not None:
            raise source.error(blocks.end, blocks.wrong)
        if blocks.describing == _SECTION:
            interfaces.clear()
            sections += 1
            if sections > MAX_SECTIONS:
                raise source.error(at, f"more than {MAX_SECTIONS} sections")
            order = _MARKS[source.data[at + 8 : at + 12]]
        elif blocks.describing == _INTERFACE:
            if len(interfaces) >= MAX_INTERFACES:
                raise source.error(at, f"more than {MAX_INTERFACES} interfaces")
            interfaces.append(_interface(source, at, blocks.end, order))
        if blocks.end > at:
            at = blocks.end
        elif not source.is_end:
            source.more(at)
            at = 0
        else:
            if (error := source.ended(at)) is not None:
                raise error
            return


class _Blocks(NamedTuple):
    """Whole blocks that follow each other: where those with packets begin, and their kinds; or one that describes others.

    `end`: where the last of them ends; `wrong`: what is wrong with the next one.
    """

    starts: list[int]
    kinds: list[int]
    end: int
    describing: int = 0
    wrong: str | None = None


def _blocks(source: _Source, begin: int, order: str) -> _Blocks:
    """Return the blocks from a byte on; those that are not known are passed over."""
    data, last, starts, kinds = source.data, source.size, list[int](), list[int]()
    header, at = Struct(order + "II").unpack_from, begin
    while at + 12 <= last and len(starts) < CHUNK_PACKETS:
        kind, size = header(data, at)
        if kind == _SECTION:  # which says itself in which byte order its size is
            own = _MARKS.get(data[at + 8 : at + 12])
            if own is None:
                return _Blocks(starts, kinds, at, 0, "a section without a byte order magic: damaged header")
            (size,) = Struct(own + "I").unpack_from(data, at + 4)
        if not _LEAST.get(kind, 12) <= size <= MAX_PCAPNG_BLOCK_BYTES or size % 4:
            return _Blocks(starts, kinds, at, 0, f"a block of {size} bytes: damaged header")
        end, is_describing = at + size, kind in (_SECTION, _INTERFACE)
        if end > last or (is_describing and at > begin):
            break
        if kind in _KINDS:
            starts.append(at)
            kinds.append(kind)
        elif data[end - 4 : end] != data[at + 4 : at + 8]:
            return _Blocks(starts, kinds, at, 0, "a block whose two lengths differ: damaged")
        elif is_describing:
            return _Blocks(starts, kinds, end, kind)
        at = end
    return _Blocks(starts, kinds, at)


def _packets(
    source: _Source, blocks: _Blocks, order: str, interfaces: list[_Interface], last_ns: int
) -> tuple[Records, CaptureError | None]:
    """Return what blocks hold, up to one that is wrong, and what is wrong with it."""
    begins, kinds = np.array(blocks.starts, np.int64), np.array(blocks.kinds, np.int64)
    of, kept, sent, size, start, time_ns = (np.zeros(len(begins), np.int64) for _ in range(6))
    for kind in np.unique(kinds).tolist():
        own = kinds == kind
        places, first = _KINDS[kind]
        names, formats, offsets = map(list, zip(("size", "u4", 4), *places, strict=True))
        formats = [order + each for each in formats]
        form = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": first})
        head = _fields(source.data, begins[own], form)
        size[own], sent[own], start[own] = head["size"], head["sent"], first
        if kind == _SIMPLE:  # of the first interface, without a time
            snap = interfaces[0].snap_length if interfaces else 0
            kept[own] = np.minimum(sent[own], snap or 1 << 32)
        else:
            of[own], kept[own] = head["interface"], head["kept"]
            time_ns[own] = _times(head["high"].astype(np.uint64) << np.uint64(32) | head["low"], of[own], interfaces)
    behind = _fields(source.data, begins + size - 4, np.dtype({"names": ["size"], "formats": [order + "u4"]}))["size"]
    is_wrong = (of >= len(interfaces)) | (behind != size) | (kept > size - start - 4) | (kept > MAX_PACKET_BYTES)
    is_wrong |= time_ns < 0
    count, wrong = len(begins), None
    if is_wrong.any():
        count = int(np.argmax(is_wrong))
        what = f"a packet of {kept[count]} bytes in a block of {size[count]}"
        if of[count] >= len(interfaces):
            what = f"a packet of interface {of[count]}, which is not described"
        elif time_ns[count] < 0:
            what = "a packet at a time that cannot be"
        wrong = source.error(blocks.starts[count], f"{what}: damaged header")
    begins, of, kept, sent, time_ns = (column[:count] for column in (begins + start, of, kept, sent, time_ns))
    is_timed = kinds[:count] != _SIMPLE
    if not is_timed.all():
        before = np.maximum.accumulate(np.where(is_timed, np.arange(count), -1))
        time_ns = np.where(before >= 0, time_ns[before], last_ns)
    links = np.array([interface.link_type for interface in interfaces] or [0], np.int64)[of]
    numbers = of + 1 if len(interfaces) > 1 else np.zeros(count, np.int64)
    sizes, read_bytes = (kept, np.maximum(kept, sent)), source.read_bytes
    return Records(0, source.data, links, begins, *sizes, time_ns, numbers, is_timed, read_bytes), wrong


def _times(ticks: NDArray[np.uint64], of: Ints, interfaces: list[_Interface]) -> Ints:
    """Return times in nanoseconds by interface; -1 for what is none that a signed number of 64 bits can say."""
    found = np.zeros(len(ticks), np.int64)
    for number in np.unique(of[of < len(interfaces)]).tolist():
        own, interface = of == number, interfaces[number]
        per_second, offset_ns, some = interface.per_second, interface.offset_ns, ticks[of == number]
        if per_second <= _SECOND_NS and int(some.max()) // per_second < 1 << 32 and abs(offset_ns) < 1 << 62:
            seconds, rest = np.divmod(some, np.uint64(per_second))
            times = seconds * np.uint64(_SECOND_NS) + rest * np.uint64(_SECOND_NS) // np.uint64(per_second)
            found[own] = times.astype(np.int64) + offset_ns
        else:
            exact = (tick * _SECOND_NS // per_second + offset_ns for tick in some.tolist())
            found[own] = [time if 0 <= time < 1 << 63 else -1 for time in exact]
    return found


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
