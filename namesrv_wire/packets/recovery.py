"""What can still be read of a pcap behind damage: a record whose length lies, a torn gzip member, a part that cannot be read.

Where the chain of records goes on is told by plausibility: several records that follow each other, with times and lengths
that can be. A record of which only the length lies is read all the same: its packet says how long it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from os import PathLike, fstat
from pathlib import Path
from struct import Struct
from typing import IO, Any, Final, NamedTuple

import numpy as np

from namesrv_wire.limits import MAX_PACKET_BYTES

_GZIP_MEMBER = b"\x1f\x8b\x08"
_CHUNK: Final = 1 << 18
_BLOCK: Final = 1 << 12
"""What is passed over where a file cannot be read."""
_HEADER, _RECORD = 24, 16
_CHAIN: Final = 8
"""So many records must follow each other, or all up to the end."""
_MAX_PASSED: Final = 16 << 20
"""Bytes that are looked through for a record."""
_MAX_PARTS: Final = 64
"""After so much damage the rest is given up."""
_NETWORK_STARTS: Final = (0, 4, 14, 16, 20)
"""Where in a packet the IP header may begin, without VLAN tags."""
_DAY_S: Final = 86_400
_MAX_DAYS: Final = 40
"""Records are no later than this after the first."""


class Form(NamedTuple):
    """How records of a pcap are written. `first_s`: the time of its first record, 0 if that is damaged."""

    record: Struct
    per_second: int
    first_s: int


class Found(NamedTuple):
    """A packet behind damage: its time and bytes, how long it was, and how many bytes were passed over before it.

    `is_all`: more were not; of what cannot be read, or unpacked, nobody knows what it held.
    """

    time_ns: int
    data: bytes
    original: int
    passed: int
    is_all: bool = True


def form_of(head: bytes, order: str, damaged_from: int, *, is_nano: bool) -> Form:
    """Return the form of a pcap by its first 40 bytes, of which damage says nothing."""
    record = Struct(order + "IIII")
    is_told = len(head) >= _HEADER + _RECORD and damaged_from > _HEADER
    first_s = record.unpack_from(head, _HEADER)[0] if is_told else 0
    return Form(record, 1_000_000_000 if is_nano else 1_000_000, first_s)


def is_made_up(seconds: int, original: int, first_s: int) -> bool:
    """Return whether a header is made of the ends of two records, behind a length that lies by a few bytes.

    Its time would end the reading of the file: clocks that go back far have no order.
    """
    return not original and not _is_time(seconds, first_s)


def packets_behind(path: str | PathLike[str], offset: int, form: Form) -> Iterator[Found | None]:
    """Yield the packets behind damage at a byte of the unpacked data, in order; at last None, if more was lost up to the end."""
    buffer, passed, parts, is_lost, is_all = bytearray(), 0, 0, True, True
    for piece in (*_pieces(Path(path), offset), b""):
        if piece is None:
            passed, is_lost, is_all = passed + len(buffer), True, False
            buffer.clear()
            continue
        buffer += piece
        while buffer and parts <= _MAX_PARTS and passed <= _MAX_PASSED:
            if is_lost:
                at, is_lost = _next_chain(buffer, form, is_end=not piece)
                whole = None if is_lost or passed else _by_its_packet(bytes(buffer[:at]), buffer, form)
                if whole is not None:
                    yield whole._replace(is_all=is_all)
                    is_all = True
                else:
                    passed += at
                del buffer[:at]
                if is_lost:
                    break
                parts += 1
            size = _size(buffer, 0, form)
            if size is None:
                is_lost = True
                continue
            if not size <= len(buffer):
                break
            seconds, fraction, _, original = form.record.unpack_from(buffer)
            time_ns = seconds * 1_000_000_000 + fraction * (1_000_000_000 // form.per_second)
            yield Found(time_ns, bytes(buffer[_RECORD:size]), original, passed, is_all)
            passed, is_all = 0, True
            del buffer[:size]
    if buffer or passed or not is_all:
        yield None


def _by_its_packet(record: bytes, behind: bytearray, form: Form) -> Found | None:
    """Return the packet of a record of which the length lies, if its IP header says that it ends where others follow."""
    if len(record) <= _RECORD or len(behind) < len(record) + _RECORD:
        return None
    seconds, fraction, _, _ = form.record.unpack_from(record)
    until_s = form.record.unpack_from(behind, len(record))[0]
    for ip in _NETWORK_STARTS:
        header = record[_RECORD + ip : _RECORD + ip + 6]
        size = {4: int.from_bytes(header[2:4], "big"), 6: int.from_bytes(header[4:6], "big") + 40}
        is_whole = _RECORD + ip + size.get(header[0] >> 4, 0) == len(record) if len(header) == 6 else False
        if is_whole and fraction < form.per_second and form.first_s <= seconds <= until_s:
            time_ns = seconds * 1_000_000_000 + fraction * (1_000_000_000 // form.per_second)
            return Found(time_ns, record[_RECORD:], len(record) - _RECORD, 0)
    return None


def _next_chain(buffer: bytearray, form: Form, *, is_end: bool) -> tuple[int, bool]:
    """Return where records follow each other, and whether that is still to be found with more bytes."""
    for at in _headers(buffer, form):
        verdict = _is_chain(buffer, at, form, is_end=is_end)
        if verdict is not False:
            return at, verdict is None
    return len(buffer) if is_end else max(0, len(buffer) - _RECORD + 1), True


def _headers(buffer: bytearray, form: Form) -> list[int]:
    """Return, in order, where the header of a record can be."""
    order, found = form.record.format[0], list[int]()
    for shift in range(min(4, len(buffer) - _RECORD + 1)):
        words = np.frombuffer(buffer, f"{order}u4", (len(buffer) - shift) // 4, shift)
        fields = (words[field : len(words) - 3 + field] for field in range(4))
        found += (np.flatnonzero(_can_be(form, *fields)) * 4 + shift).tolist()
    return sorted(found)


def _is_chain(buffer: bytearray, at: int, form: Form, *, is_end: bool) -> bool | None:
    """Return whether records follow each other from here; None if more bytes are needed to tell."""
    for number in range(_CHAIN):
        if at + _RECORD > len(buffer):
            return number > 0 if is_end else None
        size = _size(buffer, at, form)
        if size is None:
            return False
        at += size
    return True


def _size(buffer: bytearray, at: int, form: Form) -> int | None:
    """Return the size of the record here, or of what is there of its header; None if it cannot be one."""
    if len(buffer) - at < _RECORD:
        return _RECORD
    fields = form.record.unpack_from(buffer, at)
    return _RECORD + int(fields[2]) if _can_be(form, *fields) else None


def _can_be(form: Form, seconds: Any, fraction: Any, kept: Any, original: Any) -> Any:  # numbers, or arrays of them
    """Return whether these can be the fields of a record's header."""
    can_be = (fraction < form.per_second) & (kept > 0) & (kept <= original) & (original <= MAX_PACKET_BYTES)
    return can_be & _is_time(seconds, form.first_s)


def _is_time(seconds: Any, first_s: int) -> Any:  # as above
    """Return whether a record can be of that time, which is no less than 0."""
    return (seconds >= max(0, first_s - _DAY_S)) & (seconds <= (first_s or 1 << 32) + _MAX_DAYS * _DAY_S)


def _pieces(path: Path, offset: int) -> Iterator[bytes | None]:
    """Yield the unpacked bytes of a file from an offset on; None where some are missing."""
    with path.open("rb") as raw:
        try:
            is_packed = raw.read(2) == _GZIP_MEMBER[:2]
        except OSError:
            is_packed = False
        if not is_packed:
            yield from _readable(raw, offset)
            return
        raw.seek(0)
        for piece in _unpacked(raw):
            if piece is None or offset < len(piece):
                yield None if piece is None else piece[offset:]
                offset = 0
            else:
                offset -= len(piece)


def _readable(raw: IO[bytes], offset: int) -> Iterator[bytes | None]:
    """Yield what can be read of a file, block by block where something cannot."""
    end = fstat(raw.fileno()).st_size
    while offset < end:
        raw.seek(offset)
        try:
            piece = raw.read(_CHUNK)
        except OSError:
            offset += _BLOCK
            yield None
            continue
        if not piece:
            return
        offset += len(piece)
        yield piece


def _unpacked(raw: IO[bytes]) -> Iterator[bytes | None]:
    """Yield what is in the members of a gzip file; None for one that is torn, after which the next one is looked for."""
    inflate, data = zlib.decompressobj(31), raw.read(_CHUNK)
    while data:
        try:
            piece = inflate.decompress(data, _CHUNK)
        except zlib.error:
            yield None
            inflate, data = zlib.decompressobj(31), _next_member(raw, data[1:])
            continue
        if piece:
            yield piece
        data = inflate.unused_data.lstrip(b"\x00") if inflate.eof else inflate.unconsumed_tail
        if inflate.eof:
            inflate = zlib.decompressobj(31)
        data = data or raw.read(_CHUNK)


def _next_member(raw: IO[bytes], data: bytes) -> bytes:
    """Return the bytes from the next member on; nothing if there is none."""
    while True:
        at = data.find(_GZIP_MEMBER)
        if at < 0:
            more = raw.read(_CHUNK)
            if not more:
                return b""
            data = data[-2:] + more
            continue
        data = data[at:]
        if len(data) < _CHUNK:
            data += raw.read(_CHUNK)
        try:
            if zlib.decompressobj(31).decompress(data, _RECORD):
                return data
        except zlib.error:
            pass
        data = data[1:]
