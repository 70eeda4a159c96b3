"""Packets of a capture as columns: the headers of many are read at once, and only what is odd one by one.

The chain of a pcap's records is the only loop over packets. What is not plain (VLAN tags, fragments, IP options, packets that
were cut, damage, pcapng) is left to `capture`, packet by packet: both give the same segments.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from struct import Struct
from typing import IO, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.errors import CaptureError
from namesrv_wire.limits import MAX_PACKET_BYTES
from namesrv_wire.packets.capture import (
    INCOMING,
    LINUX_SLL,
    LINUX_SLL2,
    OUTGOING,
    SLL_OUTGOING,
    Endpoints,
    Segment,
    segment_of,
)
from namesrv_wire.packets.container import GZIP_MAGIC, Packet, Position, read_packets
from namesrv_wire.packets.recovery import is_made_up

Ints: TypeAlias = NDArray[np.int64]
Truths: TypeAlias = NDArray[np.bool_]

CHUNK_BYTES: Final = 4 << 20
CHUNK_PACKETS: Final = 1 << 16
"""How much of a capture is in memory together."""
_HEADER, _RECORD = 24, 16
# Byte order, and nanoseconds in a unit of the clock.
_FORMS: Final = {0xA1B2C3D4: (">", 1_000), 0xD4C3B2A1: ("<", 1_000), 0xA1B23C4D: (">", 1), 0x4D3CB2A1: ("<", 1)}
# Of a link type: where the IP header begins, and where the type of what follows stands.
_TYPED: Final = {1: (14, 12), LINUX_SLL: (16, 14), LINUX_SLL2: (20, 0)}
_FAMILY: Final = frozenset({0, 108})
_RAW: Final = frozenset({12, 14, 101, 228, 229})
_FAMILIES: Final = (2, 10, 24, 28, 30)


@dataclass(slots=True)
class Packets:
    """Packets of a capture that follow each other, the first of them number `first` of its file.

    Columns, an item a packet: `keys`, the bytes of both addresses and both ports; numbers of the TCP header; where in `data` the
    payload begins and ends. A packet whose key is empty is not plain and stands in `odd`.
    """

    first: int
    data: bytes
    keys: list[bytes]
    time_ns: list[int]
    seq: list[int]
    ack: list[int]
    flags: list[int]
    start: list[int]
    stop: list[int]
    odd: dict[int, Packet]
    interface: list[int] | None = None
    """Where each was seen, if the capture tells: then packets may be there more than once."""
    numbers: list[int] | None = None
    """Their numbers, if some between them were left out."""

    def number(self, index: int) -> int:
        """Return which packet of its file one is, from 1."""
        return self.first + index if self.numbers is None else self.numbers[index]

    def is_behind_hole(self, index: int) -> bool:
        """Return whether in front of a packet the file could not be read; see `Packet`."""
        return not self.keys[index] and self.odd[index].is_behind_hole

    def only(self, wanted: Sequence[int]) -> Packets:
        """Return those at these indices, which rise; each keeps its number."""
        columns = (self.time_ns, self.seq, self.ack, self.flags, self.start, self.stop)
        time_ns, seq, ack, flags, start, stop = ([column[at] for at in wanted] for column in columns)
        odd = {at: self.odd[index] for at, index in enumerate(wanted) if index in self.odd}
        keys = [self.keys[at] for at in wanted]
        fewer = Packets(self.first, self.data, keys, time_ns, seq, ack, flags, start, stop, odd)
        fewer.interface = None if self.interface is None else [self.interface[at] for at in wanted]
        fewer.numbers = [self.number(at) for at in wanted]
        return fewer

    def segment(self, index: int, endpoints: Endpoints) -> Segment | None:
        """Return a packet as `read_capture` yields it; None if that does not."""
        key, number = self.keys[index], self.number(index)
        if not key:
            return segment_of(number, self.odd[index], endpoints)
        payload = self.data[self.start[index] : self.stop[index]]
        header = (self.seq[index], self.ack[index], self.flags[index])
        interface = self.interface[index] if self.interface else 0
        return Segment(number, self.time_ns[index], *endpoints.pair(key), *header, payload, 0, interface)


@dataclass(slots=True)
class Headers:
    """What `Packets` is made of, as arrays: of many packets most are looked at together and never one by one.

    `offset`, `end`: where in the unpacked file the record of the first begins, and that of the last ends.
    """

    first: int
    data: bytes
    offset: int
    end: int
    is_plain: Truths
    key: Ints
    key_end: Ints
    time_ns: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    start: Ints
    stop: Ints
    odd: dict[int, Packet]
    interface: list[int] | None

    def packets(self, wanted: Ints | None = None) -> Packets:
        """Return all of them, or those at these indices."""
        columns = [self.time_ns, self.seq, self.ack, self.flags, self.start, self.stop, self.key, self.key_end]
        numbers, odd = None, self.odd
        if wanted is not None:
            columns = [column[wanted] for column in columns]
            numbers = (wanted + self.first).tolist()
            odd = {at: odd[index] for at, index in enumerate(wanted.tolist()) if index in odd}
        time_ns, seq, ack, flags, start, stop, key, key_end = (column.tolist() for column in columns)
        keys = [self.data[low:high] for low, high in zip(key, key_end, strict=True)]
        found = Packets(self.first, self.data, keys, time_ns, seq, ack, flags, start, stop, odd)
        found.interface, found.numbers = self.interface, numbers
        return found


def read_columns(
    path: str | PathLike[str],
    position: Position | None = None,
    start: tuple[int, int] | None = None,
    stop: int | None = None,
) -> Iterator[Packets]:
    """Yield the packets of a capture in file order, many at a time; memory does not grow with the file.

    Formats and errors are those of `read_capture`; `position` follows. `start`, `stop`: of a pcap, number and offset of the
    first record that is wanted, and the offset at which the last of them ends, in the unpacked data.
    """
    records = read_headers(path, position, start, stop)
    while True:
        try:
            headers = next(records)
        except StopIteration as end:
            number, offset = end.value
            break
        yield headers.packets()
    if number and stop is not None:
        raise CaptureError(path, offset, "the file has changed since it was looked through")
    if number:
        # What is left is no pcap, or no whole record, or cannot be read: `read_packets` says which.
        yield from _one_by_one(path, number, offset, position)


def read_headers(
    path: str | PathLike[str],
    position: Position | None = None,
    start: tuple[int, int] | None = None,
    stop: int | None = None,
) -> Generator[Headers, None, tuple[int, int]]:
    """Yield the packets of a pcap, as `read_columns`, up to what is no whole record.

    Returns its number and offset, or twice 0 at the end.
    """
    with Path(path).open("rb") as raw:
        if position is not None:
            position.follow(raw)
        magic = raw.read(2)
        raw.seek(0)
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if magic == GZIP_MAGIC else raw
        return (yield from _whole_records(stream, start or (1, _HEADER), stop))


def _one_by_one(path: str | PathLike[str], number: int, offset: int, position: Position | None) -> Iterator[Packets]:
    """Yield the packets from a byte on as odd ones; an error comes after the packets in front of it."""
    found: list[Packet] = []
    held = 0
    try:
        for packet in read_packets(path, offset, position):
            found.append(packet)
            held += len(packet.data)
            if held >= CHUNK_BYTES or len(found) >= CHUNK_PACKETS:
                yield _odd(number, found)
                number, found, held = number + len(found), [], 0
    except CaptureError:
        yield _odd(number, found)
        raise
    yield _odd(number, found)


def _odd(number: int, found: list[Packet]) -> Packets:
    none = [0] * len(found)
    times = [packet.time_ns for packet in found]
    return Packets(number, b"", [b""] * len(found), times, none, none, none, none, none, dict(enumerate(found)))


@dataclass(frozen=True, slots=True)
class _Form:
    order: str
    unit_ns: int
    snap: int
    link: int

    @property
    def ip(self) -> int:
        """Return where in a packet the IP header begins."""
        return _TYPED[self.link][0] if self.link in _TYPED else 4 * (self.link in _FAMILY)

    @property
    def type(self) -> int:
        """Return where in a packet the type of what follows stands, if it does."""
        return _TYPED[self.link][1] if self.link in _TYPED else 0


def _whole_records(
    stream: IO[bytes], start: tuple[int, int], stop: int | None
) -> Generator[Headers, None, tuple[int, int]]:
    number, offset = 1, 0
    try:
        head = stream.read(_HEADER + _RECORD)
        form = _FORMS.get(int.from_bytes(head[:4], "big"))
        if form is None or len(head) < _HEADER:
            return 1, 0
        snap, link = Struct(form[0] + "II").unpack_from(head, 16)
        shape = _Form(*form, snap, link & 0xFFFF)
        first_s = Struct(shape.order + "I").unpack_from(head, _HEADER)[0] if len(head) == _HEADER + _RECORD else 0
        number, offset = start
        data, is_end, read = b"", False, offset
        stream.seek(offset)
        while not is_end:
            chunk = stream.read(CHUNK_BYTES if stop is None else min(CHUNK_BYTES, stop - read))
            is_end, read = not chunk, read + len(chunk)
            data += chunk
            while True:
                starts, end = _chain(data, shape.order, first_s)
                if not starts:
                    break
                found = _columns(data, starts, shape, number)
                found.offset, found.end = offset, offset + end
                yield found
                number, offset, data = number + len(starts), offset + end, data[end:]
            if len(data) > MAX_PACKET_BYTES + _RECORD:
                return number, offset
    except (EOFError, OSError, zlib.error):
        return number, offset
    return (number, offset) if data else (0, 0)


def _chain(data: bytes, order: str, first_s: int) -> tuple[list[int], int]:
    """Return where the whole records of `data` begin, up to one whose header cannot be, and where the last of them ends."""
    header, at, last, starts = Struct(order + "I4xII").unpack_from, 0, len(data), list[int]()
    while at + _RECORD <= last and len(starts) < CHUNK_PACKETS:
        seconds, kept, original = header(data, at)
        end = at + _RECORD + kept
        if end > last or kept > MAX_PACKET_BYTES or (not original and is_made_up(seconds, original, first_s)):
            break
        starts.append(at)
        at = end
    return starts, at


def _headers(data: bytes, starts: list[int], form: _Form) -> NDArray[np.void]:
    """Return what may be a packet's headers, by name: the numbers of IPv4 without options and of IPv6 without extensions.

    Behind the end of a packet they are those of the next.
    """
    ip = _RECORD + form.ip
    fields = {"sec": (f"{form.order}u4", 0), "unit": (f"{form.order}u4", 4), "kept": (f"{form.order}u4", 8)}
    fields |= {"sent": (f"{form.order}u4", 12), "type": (">u2", _RECORD + form.type), "family": ("u1", _RECORD)}
    fields |= {"family_0": (">u2", _RECORD + 1), "family_3": ("u1", _RECORD + 3), "version": ("u1", ip)}
    fields |= {"way": (">u2", _RECORD), "interface": (">u4", _RECORD + 4)}
    fields |= {"total4": (">u2", ip + 2), "part4": (">u2", ip + 6), "next4": ("u1", ip + 9)}
    fields |= {"total6": (">u2", ip + 4), "next6": ("u1", ip + 6)}
    for name, tcp in (("4", ip + 20), ("6", ip + 40)):
        fields |= {f"seq{name}": (">u4", tcp + 4), f"ack{name}": (">u4", tcp + 8)}
        fields |= {f"size{name}": ("u1", tcp + 12), f"flags{name}": ("u1", tcp + 13)}
    size = ip + 60
    shape = np.dtype({
        "names": list(fields),
        "formats": [kind for kind, _ in fields.values()],
        "offsets": [at for _, at in fields.values()],
        "itemsize": size,
    })  # fmt: skip
    windows = np.ndarray(len(data), f"V{size}", data + bytes(size), strides=(1,))
    found: NDArray[np.void] = windows[np.array(starts, np.int64)].view(shape)
    return found


def _columns(data: bytes, starts: list[int], form: _Form, number: int) -> Headers:
    """Return the packets whose records begin at `starts`. Of what is no plain packet the numbers mean nothing."""
    header = _headers(data, starts, form)

    def column(name: str) -> Ints:
        return header[name].astype(np.int64)

    record, kept = np.array(starts, np.int64), column("kept")
    time_ns = column("sec") * 1_000_000_000 + column("unit") * form.unit_ns
    is_ip, version, ip = _is_ip(header, form), header["version"], record + _RECORD + form.ip
    # TCP, no fragment, and a length: 0 leaves it to the network card.
    is_four = is_ip & (version == 0x45) & (header["next4"] == 6) & (header["part4"] & 0x3FFF == 0)
    is_six = is_ip & (version >> 4 == 6) & (header["next6"] == 6) & (header["total6"] > 0)
    tcp = ip + np.where(is_four, 20, 40)
    stop = ip + np.where(is_four, column("total4"), column("total6") + 40)
    size = (np.where(is_four, header["size4"], header["size6"]) >> 4).astype(np.int64) * 4
    is_plain = (is_four | is_six) & (size >= 20) & (tcp + size <= stop) & (stop <= record + _RECORD + kept)
    key = np.where(is_plain, np.where(is_four, ip + 12, ip + 8), 0)
    key_end = np.where(is_plain, tcp + 4, 0)
    odd = {}
    for index in np.flatnonzero(~is_plain).tolist():
        at, length = starts[index] + _RECORD, int(kept[index])
        lost = 0 if length < form.snap else max(0, int(header["sent"][index]) - length)
        odd[index] = Packet(int(time_ns[index]), form.link, data[at : at + length], lost)
    seq, ack, flags = (
        np.where(is_four, header[f"{name}4"], header[f"{name}6"]).astype(np.int64) for name in ("seq", "ack", "flags")
    )
    where = _interfaces(header, form.link)
    return Headers(number, data, 0, 0, is_plain, key, key_end, time_ns, seq, ack, flags, tcp + size, stop, odd, where)


def _interfaces(header: NDArray[np.void], link: int) -> list[int] | None:
    """Return where packets were seen, as `capture` tells it; None if the link type says nothing of it."""
    if link == LINUX_SLL2:
        return cast("list[int]", header["interface"].tolist())
    if link == LINUX_SLL:
        return cast("list[int]", np.where(header["way"] == SLL_OUTGOING, OUTGOING, INCOMING).tolist())
    return None


def _is_ip(header: NDArray[np.void], form: _Form) -> Truths:
    """Return which packets are IP for sure."""
    if form.link in _TYPED:
        found: Truths = (header["type"] == 0x0800) | (header["type"] == 0x86DD)
        return found
    if form.link in _FAMILY:
        first, last = header["family"], header["family_3"]
        known: Truths = np.isin(first | last, _FAMILIES) & ((first == 0) | (last == 0)) & (header["family_0"] == 0)
        return known
    return np.full(len(header), form.link in _RAW)
