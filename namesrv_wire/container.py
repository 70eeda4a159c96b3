"""Packets out of pcap and pcapng files, compressed or not, one at a time.

The container is read here and not by a library so that times keep their nanoseconds, a cut-off packet is
noticed (captured against original length), and an error names its byte.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple, cast

from namesrv_wire.errors import CaptureError
from namesrv_wire.limits import MAX_INTERFACES, MAX_PACKET_BYTES, MAX_PCAPNG_BLOCK_BYTES

_PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_BUFFER_BYTES = 1 << 18


class Packet(NamedTuple):
    """One captured packet; `lost` bytes were on the wire but not captured (snap length)."""

    time_ns: int
    link_type: int
    data: bytes
    lost: int


class _Source:
    """Reads exact sizes from a stream and knows the offset.

    Turns every stream error into a `CaptureError`.
    """

    def __init__(self, stream: IO[bytes], path: str | PathLike[str]) -> None:
        self._stream = stream
        self._path = path
        self.offset = 0

    def error(self, what: str, back: int = 0) -> CaptureError:
        return CaptureError(self._path, self.offset - back, what)

    def some(self, size: int) -> bytes:
        """Return up to `size` bytes, fewer only at the end of the file."""
        try:
            data = self._stream.read(size)
        except (EOFError, OSError, zlib.error) as error:
            raise self.error(f"the compressed data is damaged or ends early ({error})") from error
        self.offset += len(data)
        return data

    def exactly(self, size: int, what: str) -> bytes:
        """Return `size` bytes of `what`; `CaptureError` naming its first byte if the file ends inside it."""
        data = self.some(size)
        if len(data) < size:
            raise self.error(f"the file ends inside {what}: {len(data)} of {size} bytes are there", len(data))
        return data

    def record(self, size: int, what: str) -> bytes | None:
        """As `exactly`, but None if the file ends before the first byte."""
        data = self.some(size)
        if data and len(data) < size:
            raise self.error(f"the file ends inside {what}: {len(data)} of {size} bytes are there", len(data))
        return data or None


def read_packets(path: str | PathLike[str]) -> Iterator[Packet]:
    """Yield the packets of a capture file in file order; memory does not grow with the file.

    The format is told by its first bytes, not by its name. Raises `CaptureError` at once for a foreign file,
    and after the last whole packet for one that ends early or is damaged.
    """
    with Path(path).open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == _GZIP_MAGIC:
            with gzip.open(raw) as packed:
                yield from _packets(_Source(cast("IO[bytes]", packed), path))
        else:
            yield from _packets(_Source(raw, path))


def _packets(source: _Source) -> Iterator[Packet]:
    magic = source.some(4)
    if magic in _PCAP_MAGIC:
        yield from _pcap(source, *_PCAP_MAGIC[magic])
    elif magic == _PCAPNG_MAGIC:
        yield from _pcapng(source)
    else:
        raise source.error(
            f"not a capture: it starts with {magic.hex() or 'nothing'}, not with pcap or pcapng", len(magic)
        )


def _pcap(source: _Source, order: str, unit_ns: int) -> Iterator[Packet]:
    """Yield the packets of a classic pcap file behind its magic.

    `unit_ns` is the unit of the second time field.
    """
    *_, network = struct.unpack(order + "HHiIII", source.exactly(20, "the file header"))
    link_type = network & 0xFFFF
    header = struct.Struct(order + "IIII")
    while (record := source.record(16, "a packet header")) is not None:
        seconds, fraction, captured, original = header.unpack(record)
        if captured > MAX_PACKET_BYTES:
            raise source.error(
                f"a packet of {captured} bytes, more than {MAX_PACKET_BYTES}: damaged header", 16
            )
        data = source.exactly(captured, "a packet")
        yield Packet(
            seconds * 1_000_000_000 + fraction * unit_ns, link_type, data, max(0, original - captured)
        )


class _Interface(NamedTuple):
    link_type: int
    snap_length: int
    per_second: int
    offset_ns: int


def _pcapng(source: _Source) -> Iterator[Packet]:
    """Yield the packets of a pcapng file behind its first block type.

    Several sections are read one after the other.
    """
    order = "<"
    interfaces: list[_Interface] = []
    kind_raw: bytes | None = _PCAPNG_MAGIC
    while kind_raw is not None:
        length_raw = source.exactly(4, "a block header")
        if kind_raw == _PCAPNG_MAGIC:
            mark = source.exactly(4, "a section header")
            if mark not in _BYTE_ORDER:
                raise source.error(f"byte-order mark {mark.hex()} is none of pcapng", 4)
            order = _BYTE_ORDER[mark]
            interfaces = []
            _block_body(source, order, length_raw, already=4)
        else:
            (kind,) = struct.unpack(order + "I", kind_raw)
            body = _block_body(source, order, length_raw)
            if kind == 1:
                if len(interfaces) >= MAX_INTERFACES:
                    raise source.error(f"more than {MAX_INTERFACES} interfaces", len(body))
                interfaces.append(_interface(source, order, body))
            elif kind in (2, 3, 6):
                yield _pcapng_packet(source, order, kind, body, interfaces)
        kind_raw = source.record(4, "a block header")


def _block_body(source: _Source, order: str, length_raw: bytes, already: int = 0) -> bytes:
    """Return what is between a block's leading and trailing length; `already` bytes of it have been read."""
    (length,) = struct.unpack(order + "I", length_raw)
    if length < 12 + already or length % 4 or length > MAX_PCAPNG_BLOCK_BYTES:
        raise source.error(f"a block of {length} bytes: damaged header", 4)
    body = source.exactly(length - 12 - already, "a block")
    if source.exactly(4, "a block's trailing length") != length_raw:
        raise source.error("a block whose two lengths differ", 4)
    return body


def _interface(source: _Source, order: str, body: bytes) -> _Interface:
    if len(body) < 8:
        raise source.error("an interface block that is too short", len(body))
    link_type, _, snap_length = struct.unpack_from(order + "HHI", body)
    per_second, offset_ns, at = 1_000_000, 0, 8
    while at + 4 <= len(body):
        option, size = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + size]
        if option == 0:
            break
        if option == 9 and len(value) == 1:
            per_second = 1 << min(value[0] & 0x7F, 62) if value[0] & 0x80 else int(10 ** min(value[0], 18))
        elif option == 14 and len(value) == 8:
            offset_ns = int(struct.unpack(order + "q", value)[0]) * 1_000_000_000
        at += 4 + size + (-size % 4)
    return _Interface(link_type, snap_length, per_second, offset_ns)


def _pcapng_packet(
    source: _Source, order: str, kind: int, body: bytes, interfaces: list[_Interface]
) -> Packet:
    """Return the packet of an enhanced (6), obsolete (2) or simple (3, no time: 0) packet block."""
    if len(body) < (4 if kind == 3 else 20):
        raise source.error("a packet block that is too short", len(body))
    number = ticks = 0
    if kind == 3:
        (original,) = struct.unpack_from(order + "I", body)
        at = 4
    else:
        number, high, low, captured, original = struct.unpack_from(order + "IIIII", body)
        if kind == 2:
            (number,) = struct.unpack_from(order + "H", body)
        ticks, at = high << 32 | low, 20
    if number >= len(interfaces):
        raise source.error(f"a packet of interface {number}, which is not described", len(body))
    interface = interfaces[number]
    if kind == 3:
        captured = min(original, interface.snap_length or original, len(body) - at)
    if captured > len(body) - at:
        raise source.error(f"a packet of {captured} bytes in a block that holds {len(body) - at}", len(body))
    time_ns = ticks * 1_000_000_000 // interface.per_second + interface.offset_ns
    return Packet(time_ns, interface.link_type, body[at : at + captured], max(0, original - captured))
