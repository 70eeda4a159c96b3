"""Packets out of pcap and pcapng files, compressed or not, one at a time.

The formats are read by libraries: pcap by dpkt, pcapng by python-pcapng. dpkt's own pcapng reader knows one
interface and gives times as floating point, so it is not used. Both libraries believe the lengths a file
states; the stream handed to them does not.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from io import SEEK_SET, BufferedReader, BytesIO, RawIOBase
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

from dpkt import pcap
from pcapng import blocks, structs
from pcapng.exceptions import StreamEmpty

from namesrv_wire.errors import CaptureError
from namesrv_wire.limits import MAX_INTERFACES, MAX_PACKET_BYTES, MAX_PCAPNG_BLOCK_BYTES, SMALL_HOLE_BYTES
from namesrv_wire.packets.recovery import form_of, is_made_up, packets_behind

GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1 << 16
_SECOND_NS = 1_000_000_000
_ORDERS = {
    pcap.TCPDUMP_MAGIC: ">",
    pcap.TCPDUMP_MAGIC_NANO: ">",
    pcap.PMUDPCT_MAGIC: "<",
    pcap.PMUDPCT_MAGIC_NANO: "<",
}
_NANO_MAGICS = frozenset({pcap.TCPDUMP_MAGIC_NANO, pcap.PMUDPCT_MAGIC_NANO})

# The fields of blocks in front of their options. Options are decoded where one is used and nowhere else:
# python-pcapng's block classes decode all of them and fail on a comment that is not UTF-8.
_INTERFACE_FIELDS = blocks.InterfaceDescription.schema[:3]
_PACKET_FIELDS = {
    blocks.EnhancedPacket.magic_number: blocks.EnhancedPacket.schema[:6],
    blocks.ObsoletePacket.magic_number: blocks.ObsoletePacket.schema[:7],
}
_SIMPLE_PACKET_FIELDS = blocks.SimplePacket.schema[:1]
_TIME_RESOLUTION, _TIME_OFFSET = 9, 14


class Packet(NamedTuple):
    """One captured packet; `lost` bytes were on the wire but not captured, as far as the file tells.

    `interface`: number of the interface, from 1, in a file with several; else 0. `is_behind_hole`: in front of it the file
    could not be read, and what was there may have been more than a few packets.
    """

    time_ns: int
    link_type: int
    data: bytes
    lost: int
    interface: int = 0
    is_behind_hole: bool = False


class _Unpacked(RawIOBase):
    """What is in a gzip file, piece by piece.

    Under a `BufferedReader`, small reads are faster than those of `GzipFile` itself, and what was unpacked in
    front of damage is still given out.
    """

    def __init__(self, packed: gzip.GzipFile) -> None:
        super().__init__()
        self._packed = packed

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        return self._packed.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        return self._packed.readinto1(memoryview(buffer)[:_BUFFER_BYTES])


class _Source:
    """The file as the libraries see it: `read` and `tell`.

    A read gives all bytes asked for or raises `CaptureError`, so a library never meets half a field. Only the
    first read of a record may meet the end of the file. No read is larger than `limit`.
    """

    def __init__(self, stream: IO[bytes], path: str | PathLike[str], unreadable: str) -> None:
        self._stream = stream
        self._path = self.path = path
        self._unreadable = unreadable
        self._record_offset = 0
        self._offset = 0
        self.limit = 0
        self.at_record = True
        """Set by the user before a record: the next read begins it, or meets the end of the file."""
        self.head = b""
        """What the first read of the record gave."""

    def error(self, what: str) -> CaptureError:
        """Return an error that names the file and the first byte of the current record."""
        return CaptureError(self._path, self._record_offset, what)

    def tell(self) -> int:
        """Return the offset, in the unpacked data if the file is compressed."""
        return self._offset

    def seek(self, offset: int) -> None:
        """Go on at an offset that has been read before."""
        self._stream.seek(offset)
        self._offset = offset

    def first_bytes(self, size: int) -> bytes:
        """Return up to `size` bytes from the start of the file, and go back there."""
        try:
            data = self._stream.read(size)
            self._stream.seek(0)
        except (EOFError, OSError, zlib.error) as error:
            raise self._broken(error) from error
        return data

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or none if a record would begin but the file ends."""
        first = self.at_record
        if first:
            self._record_offset = self._offset
        if not 0 <= size <= self.limit:
            raise self.error(f"a length of {size} bytes, not 0 to {self.limit}: damaged header")
        try:
            data = self._stream.read(size)
        except (EOFError, OSError, zlib.error) as error:
            raise self._broken(error) from error
        if len(data) < size and (data or not first):
            what = f"the file ends inside a record: {len(data)} of {size} bytes are there"
            raise CaptureError(self._path, self._offset, what)
        self._offset += len(data)
        if first:
            self.at_record = False
            self.head = data
        return data

    def _broken(self, error: Exception) -> CaptureError:
        return CaptureError(self._path, self._offset, f"{self._unreadable} ({error})")


class Position:
    """Where the reading of a file is, in its bytes as they lie on disk."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def follow(self, file: IO[bytes]) -> None:
        """Be where this open file is."""
        self._file = file

    @property
    def bytes(self) -> int:
        """Return how many bytes are read; 0 before the file is open, and once it is closed."""
        return 0 if self._file is None or self._file.closed else self._file.tell()


def read_packets(path: str | PathLike[str], start: int = 0, position: Position | None = None) -> Iterator[Packet]:
    """Yield the packets of a capture file in file order; memory does not grow with the file.

    `start`: of a pcap, the byte at which the record of the first one begins, in the unpacked data; 0 for the first of all.
    `position` follows.

    The format is told by its first bytes, not by its name. Raises `CaptureError` at once for a foreign file,
    and after the last packet that can be read for one that ends early or is damaged.
    """
    with Path(path).open("rb") as raw:
        if position is not None:
            position.follow(raw)
        first = raw.read(2)
        raw.seek(0)
        if first == GZIP_MAGIC:
            with gzip.GzipFile(fileobj=raw) as packed:
                stream = BufferedReader(_Unpacked(packed), _BUFFER_BYTES)
                yield from _packets(_Source(stream, path, "the compressed data is damaged or ends early"), start)
        else:
            yield from _packets(_Source(raw, path, "the file cannot be read"), start)


def _packets(source: _Source, start: int) -> Iterator[Packet]:
    head = source.first_bytes(40)
    magic = head[:4]
    number = int.from_bytes(magic, "big")
    if number in pcap.MAGIC_TO_PKT_HDR:
        packets = _pcap(source, head, start)
    elif number == structs.SECTION_HEADER_MAGIC:
        packets = _pcapng(source)
    else:
        shown = magic.hex() or "nothing"
        raise source.error(f"not a capture: it starts with {shown}, not with pcap or pcapng")
    try:
        yield from packets
    except CaptureError as error:
        if number in _ORDERS:
            yield from _behind(source, head, error, is_nano=number in _NANO_MAGICS)
        raise
    except Exception as error:  # whatever a library says to damage, it is the file's
        raise source.error(f"a damaged record ({type(error).__name__}: {error})") from error


def _behind(source: _Source, head: bytes, error: CaptureError, *, is_nano: bool) -> Iterator[Packet]:
    """Yield the packets of a pcap, which begins with `head`, behind damage; then raise what was wrong, and what was read."""
    order = _ORDERS[int.from_bytes(head[:4], "big")]
    form = form_of(head, order, error.offset, is_nano=is_nano)
    snap_length, link_type = struct.unpack_from(order + "II", head.ljust(24, b"\x00"), 16)
    count, passed, is_all, found = 0, 0, True, None
    for found in packets_behind(source.path, error.offset, form):
        if found is None:
            break
        count, passed, is_all = count + 1, passed + found.passed, is_all and found.is_all
        lost = 0 if len(found.data) < snap_length else max(0, found.original - len(found.data))
        is_large = found.passed > SMALL_HOLE_BYTES or not found.is_all
        yield Packet(found.time_ns, link_type & 0xFFFF, found.data, lost, is_behind_hole=is_large)
    if count:
        more = "" if is_all else ", and what cannot be read or unpacked,"
        what = f"{error.what}; {passed:,} bytes{more} were passed over, and {count:,} packets behind them were read"
        raise CaptureError(source.path, error.offset, what, read_on=found is not None) from error


def _pcap(source: _Source, head: bytes, start: int) -> Iterator[Packet]:
    """Yield the packets of a classic pcap file, which begins with `head`."""
    magic = int.from_bytes(head[:4], "big")
    source.limit = MAX_PACKET_BYTES
    packets = pcap.Reader(source)
    link_type = packets.datalink() & 0xFFFF
    header, snap_length, is_nano = pcap.MAGIC_TO_PKT_HDR[magic], packets.snaplen, magic in _NANO_MAGICS
    if start:
        source.seek(start)
    source.at_record = True
    time = struct.Struct(getattr(header, "__byte_order__", ">") + "II").unpack_from
    first_s = time(head, 24)[0] if len(head) >= 32 else 0
    for _, data in packets:
        # dpkt's time is a float, which a damaged header with more microseconds than a second has takes beyond its digits.
        seconds, fraction = time(source.head)
        time_ns = seconds * _SECOND_NS + fraction * (1 if is_nano else 1_000)
        # dpkt keeps the original length to itself. Only a packet of full snap length can have been cut.
        original = header(source.head).len
        if is_made_up(seconds, original, first_s):
            raise source.error("a packet of 0 bytes, at a time that cannot be: damaged header")
        lost = 0 if len(data) < snap_length else max(0, original - len(data))
        yield Packet(time_ns, link_type, data, lost)
        source.at_record = True


class _Interface(NamedTuple):
    number: int
    link_type: int
    snap_length: int
    per_second: int
    offset_ns: int


def _pcapng(source: _Source) -> Iterator[Packet]:
    """Yield the packets of a pcapng file; several sections are read one after the other."""
    source.limit = MAX_PCAPNG_BLOCK_BYTES
    order = "<"
    interfaces: list[_Interface] = []
    while True:
        source.at_record = True
        try:
            kind = structs.read_int(source, 32, endianness=order)
        except StreamEmpty:
            return
        if kind == structs.SECTION_HEADER_MAGIC:
            order = structs.read_section_header(source)["endianness"]
            interfaces = []
            continue
        body = BytesIO(structs.read_block_data(source, order))
        if kind == blocks.InterfaceDescription.magic_number:
            if len(interfaces) >= MAX_INTERFACES:
                raise source.error(f"more than {MAX_INTERFACES} interfaces")
            interfaces.append(_interface(len(interfaces) + 1, body, order))
        elif kind in _PACKET_FIELDS:
            fields = structs.struct_decode(_PACKET_FIELDS[kind], body, order)
            interface = _described(source, interfaces, fields["interface_id"])
            ticks = fields["timestamp_high"] << 32 | fields["timestamp_low"]
            time_ns = ticks * _SECOND_NS // interface.per_second + interface.offset_ns
            yield _packet(time_ns, interface, interfaces, fields["packet_data"], fields["packet_len"])
        elif kind == blocks.SimplePacket.magic_number:  # of the first interface, without a time
            original = structs.struct_decode(_SIMPLE_PACKET_FIELDS, body, order)["packet_len"]
            interface = _described(source, interfaces, 0)
            captured = min(original, interface.snap_length or original)
            yield _packet(0, interface, interfaces, structs.RawBytes(captured).load(body), original)


def _packet(time_ns: int, interface: _Interface, interfaces: list[_Interface], data: bytes, original: int) -> Packet:
    number = interface.number if len(interfaces) > 1 else 0
    return Packet(time_ns, interface.link_type, data, max(0, original - len(data)), number)


def _described(source: _Source, interfaces: list[_Interface], number: int) -> _Interface:
    if number >= len(interfaces):
        raise source.error(f"a packet of interface {number}, which is not described")
    return interfaces[number]


def _interface(number: int, body: BytesIO, order: str) -> _Interface:
    fields: dict[str, Any] = structs.struct_decode(_INTERFACE_FIELDS, body, order)
    options: dict[int, bytes] = dict(structs.read_options(body, order))
    per_second = 1_000_000
    if _TIME_RESOLUTION in options:  # the library's reading of it is a float
        (resolution,) = options[_TIME_RESOLUTION]
        exponent = resolution & 0x7F
        per_second = 1 << exponent if resolution & 0x80 else int(10**exponent)
    (offset,) = struct.unpack(order + "q", options.get(_TIME_OFFSET, bytes(8)))
    return _Interface(number, fields["link_type"], fields["snaplen"], per_second, offset * _SECOND_NS)
