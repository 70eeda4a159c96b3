"""Capture files that are foreign, cut off or damaged."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_wire.errors import CaptureError
from namesrv_wire.packets.segments import CaptureStats
from tests.examples import examples
from tests.pcap import block, enhanced, interface, option, pcap, section
from tests.wire.capture_files import RAW, V4, ether, read
from tests.wire.counted import read_capture


@pytest.mark.parametrize(
    "content",
    [
        b"[2026-01-02 03:04:05] [INFO] boot",
        b"",
        b"PK\x03\x04zip",
        b"\x7fELF",
        b'{"a":1}',
        gzip.compress(b"no capture", mtime=0),
    ],
)
def test_foreign_files_are_refused_at_once(tmp_path: Path, content: bytes) -> None:
    """What is no capture says so, with the file and the byte."""
    with pytest.raises(CaptureError, match="at byte 0: not a capture"):
        read(tmp_path / "a", content)


def test_what_was_unpacked_in_front_of_damage_is_given_out(tmp_path: Path) -> None:
    """Every packet that is whole in the readable part of a cut-off compressed file comes out."""
    data = bytes(ether() / V4)
    content = gzip.compress(pcap([data + b"%d" % number for number in range(3_000)]))
    path = tmp_path / "a"
    for end in range(len(content) // 2, len(content) - 8, 397):
        path.write_bytes(content[:end])
        readable = zlib.decompressobj(wbits=31).decompress(content[:end])
        whole, at = 0, 24
        while at + 16 <= len(readable):
            at += 16 + int.from_bytes(readable[at + 8 : at + 12], "little")
            whole += at <= len(readable)
        stats = CaptureStats()
        with pytest.raises(CaptureError, match="compressed data"):
            list(read_capture(path, stats))
        assert stats.packets == whole > len(data)


FORMS = {
    "pcap": [pcap([], 101), pcap([RAW], 101)[24:], pcap([RAW], 101)[24:]],
    "pcap, big, ns": [pcap([], 101, ">", 0xA1B23C4D), pcap([RAW], 101, ">")[24:], pcap([RAW], 101, ">")[24:]],
    "pcapng": [section(), interface(), enhanced(RAW), block("<", 0xBAD, b"????"), enhanced(RAW)],
    "pcapng, big": [section(">"), interface(">"), enhanced(RAW, ">"), section(), interface(), enhanced(RAW)],
}


@pytest.mark.parametrize("packed", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_cut_at_every_byte(tmp_path: Path, form: str, packed: bool) -> None:  # noqa: FBT001
    """A cut between records is an end; any other one is an error behind the whole packets before it."""
    records = FORMS[form]
    content = b"".join(records)
    ends, packets_at = [0], [0]
    for record in records:
        ends.append(ends[-1] + len(record))
        packets_at.append(packets_at[-1] + (RAW in record))
    path = tmp_path / "a"
    for cut in range(len(content)):
        path.write_bytes(gzip.compress(content[:cut]) if packed else content[:cut])
        stats = CaptureStats()
        if cut in ends[1:]:
            list(read_capture(path, stats))
        else:
            with pytest.raises(CaptureError) as caught:
                list(read_capture(path, stats))
            assert caught.value.file == str(path)
            assert caught.value.offset <= cut
        assert stats.packets == max(n for n, end in zip(packets_at, ends, strict=True) if end <= cut)


def refused_cheaply(path: Path, content: bytes) -> CaptureError:
    """Return the error of a file, having seen that reading it took no more than the largest block."""
    list(read_capture_until_error(path, pcap([RAW], 101)))  # what is made once is made now
    tracemalloc.start()
    try:
        (error,) = read_capture_until_error(path, content)
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20
    finally:
        tracemalloc.stop()
    return error


def read_capture_until_error(path: Path, content: bytes) -> list[CaptureError]:
    path.write_bytes(content)
    try:
        list(read_capture(path))
    except CaptureError as error:
        return [error]
    return []


PACKINGS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gzip": gzip.compress}


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
@pytest.mark.parametrize("size", [2**32 - 1, 2**31 - 1, 2**20 + 1])
def test_a_lying_packet_length_is_refused(tmp_path: Path, size: int, packing: str) -> None:
    """A packet of 2 or 4 GiB is damage, not an allocation."""
    whole = pcap([bytes(ether() / V4)])
    content = whole + struct.pack("<IIII", 9, 9, size, size) + b"x"
    error = refused_cheaply(tmp_path / "a", PACKINGS[packing](content))
    assert error.offset == len(whole)
    assert "damaged header" in error.what


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [0, 4, 8, 11, 36, 2**22 + 16, 2**31 - 1, 2**32 - 4, 2**32 - 1])
def test_lying_pcapng_block_lengths_are_refused(tmp_path: Path, order: str, size: int, packing: str) -> None:
    """A block of any kind that is tiny, huge or longer than the file ends in an error at its first byte."""
    whole = section(order) + interface(order) + enhanced(RAW, order)
    mark = struct.pack(order + "I", 0x1A2B3C4D)
    for kind in (0, 1, 2, 3, 4, 6, 10, 0xBAD, 0x0A0D0D0A):
        content = whole + struct.pack(order + "II", kind, size) + mark + struct.pack(order + "I", 12)
        error = refused_cheaply(tmp_path / "a", PACKINGS[packing](content))
        assert len(whole) <= error.offset <= len(content)


@pytest.mark.parametrize("captured", [len(RAW) + 4, 2**31 - 1, 2**32 - 1])
def test_a_packet_larger_than_its_block_is_refused(tmp_path: Path, captured: int) -> None:
    """No packet reaches out of its block, whatever it says of its length."""
    whole = section() + interface()
    for damaged in (
        enhanced(RAW, captured=captured),
        enhanced(b"", captured=captured),
        block("<", 2, struct.pack("<HHIIII", 0, 0, 0, 0, captured, captured) + RAW),
        block("<", 3, struct.pack("<I", captured) + RAW),
        block("<", 6, b"\x00" * 8),
        block("<", 1, b"\x01\x00"),
        interface(options=option("<", 9, b"ab")),
        interface(options=option("<", 14, b"ab")),
    ):
        error = refused_cheaply(tmp_path / "a", whole + damaged + enhanced(RAW))
        assert error.offset == len(whole)


@pytest.mark.parametrize("damaged", [enhanced(RAW), enhanced(RAW, number=2**32 - 1), block("<", 3, bytes(8))])
def test_a_packet_of_no_interface_is_refused(tmp_path: Path, damaged: bytes) -> None:
    """The interface of a packet is one of its own section."""
    error = refused_cheaply(tmp_path / "a", section() + interface() + section() + damaged)
    assert "not described" in error.what


def test_too_many_interfaces_are_refused(tmp_path: Path) -> None:
    """What is kept of a file does not grow with it."""
    error = read_capture_until_error(tmp_path / "a", section() + interface() * 5_000)[0]
    assert (error.offset, error.what) == (28 + 4_096 * 20, "more than 4096 interfaces")


def test_lying_pcapng_section_headers_are_refused(tmp_path: Path) -> None:
    """Section lengths that are odd, tiny, huge or unequal end in an error, and so does a foreign mark."""
    start = struct.pack("<I", 0x0A0D0D0A)
    for size in (0, 13, 2**32 - 4, 28):
        with pytest.raises(CaptureError):
            read(tmp_path / "a", start + struct.pack("<IIHHqI", size, 0x1A2B3C4D, 1, 0, -1, 32))
    with pytest.raises(CaptureError, match=r"at byte 0: .*byte order magic"):
        read(tmp_path / "a", start + struct.pack("<IIHHqI", 28, 0x12345678, 1, 0, -1, 28))


@pytest.mark.parametrize("start", [b"\x0a\x0d\x0d", b"\xd4\xc3\xb2", b"\xa1\xb2\xc3\xd5", b"\x1f\x8b", b"\x00"])
def test_half_a_magic_is_foreign(tmp_path: Path, start: bytes) -> None:
    """A file that only resembles a capture is refused at its first byte."""
    for content in (start, start + b"\x00" * 64 if len(start) == 4 else start):
        (error,) = read_capture_until_error(tmp_path / "a", content)
        assert error.offset == 0


@settings(max_examples=examples(300))
@given(st.sampled_from(list(FORMS)), st.booleans(), st.data())
def test_no_damage_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    packed: bool,  # noqa: FBT001
    data: st.DataObject,
) -> None:
    """Whatever bytes are changed, a file is read or refused with `CaptureError`."""
    content = bytearray(b"".join(FORMS[form]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 4))
        content[at : at + 4] = data.draw(st.binary(min_size=1, max_size=4))
    path = tmp_path_factory.getbasetemp() / "damaged"
    for error in read_capture_until_error(path, gzip.compress(content) if packed else bytes(content)):
        assert 0 <= error.offset <= len(content)
