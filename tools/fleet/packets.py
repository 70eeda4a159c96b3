"""Packets as records of a capture file: Ethernet, IPv4 and TCP with true lengths and checksums, made many at a time.

Source: RFC 791, RFC 9293; the file format of libpcap with times in nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from namesrv_wire.packets.capture import SYN

NS_PER_S: Final = 1_000_000_000
SEGMENT_BYTES: Final = 1_460
"""Payload of a full packet: the MTU of 1,500 without the headers of IP and TCP."""
MSS_OPTION: Final = struct.pack(">BBH", 2, 4, SEGMENT_BYTES)
FILE_HEADER: Final = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
Fact = dict[str, Any]

_HEADERS, _IP, _TCP = 54, 14, 34
_WINDOW, _LIFETIME, _DO_NOT_FRAGMENT, _TCP_NUMBER = 502, 64, 0x4000, 6
_CONSTANT = struct.Struct(">2x4s2x4sHBxHHHBBH4s4s2s2sIIBBHHH")
_RECORD = np.dtype(
    [
        *(
            ("seconds", "<u4"),
            ("ns", "<u4"),
            ("captured", "<u4"),
            ("length", "<u4"),
            ("before", "S16"),
            ("total", ">u2"),
        ),
        *(("number", ">u2"), ("middle", "S4"), ("ip_sum", ">u2"), ("ends", "S12"), ("seq", ">u4"), ("ack", ">u4")),
        *(("offset", "u1"), ("flags", "u1"), ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2")),
    ]
)


class Packet(NamedTuple):
    """A packet that is not made yet. `way`: as `way_of` has it; `data`: the payload, of a SYN the options.

    `told`: a fact of which the truth says in which packet it is.
    """

    time_ns: int
    way: bytes
    seq: int
    ack: int
    flags: int
    data: bytes
    told: Fact | None


def way_of(source: str, target: str) -> bytes:
    """Return the headers of all packets from one ip:port to another, with zeros where packets differ."""
    (source_host, source_port), (target_host, target_port) = map(_end, (source, target))
    return _CONSTANT.pack(
        target_host, source_host, 0x0800, 0x45, 0, 0, _DO_NOT_FRAGMENT, _LIFETIME, _TCP_NUMBER, 0,
        source_host, target_host, source_port, target_port, 0, 0, 0, 0, _WINDOW, 0, 0,
    )  # fmt: skip


def records(packets: Sequence[Packet], first: int) -> bytes:
    """Return packets, numbered from `first`, as the bytes of a capture file."""
    if not packets:
        return b""
    times, ways, seqs, acks, flags, datas, _ = zip(*packets, strict=True)
    count = len(packets)
    made = np.empty(count, _RECORD)
    whole = made.view(np.uint8).reshape(count, _RECORD.itemsize)
    whole[:, 16:] = np.frombuffer(b"".join(ways), np.uint8).reshape(count, _HEADERS)
    sizes = np.fromiter(map(len, datas), np.int64, count)
    made["seconds"], made["ns"] = np.divmod(np.array(times, np.int64), NS_PER_S)
    made["captured"] = made["length"] = _HEADERS + sizes
    made["total"], made["number"] = _HEADERS - _IP + sizes, np.arange(first, first + count) & 0xFFFF
    made["seq"], made["ack"], made["flags"] = np.array(seqs, np.int64), np.array(acks, np.int64), flags
    made["offset"] = np.where(made["flags"] & SYN, 0x60, 0x50)
    words = whole[:, 16 + _IP :].view(">u2").astype(np.int64)
    made["ip_sum"] = 0xFFFF - words[:, : (_TCP - _IP) // 2].sum(1) % 0xFFFF
    # Sums of 16-bit words with their carries are remainders by 65,535; an odd last byte is the upper one of a word.
    said = np.array([int.from_bytes(data, "big") % 0xFFFF for data in datas], np.int64) << 8 * (sizes & 1)
    pseudo_header = words[:, 6:10].sum(1) + _TCP_NUMBER + _HEADERS - _TCP + sizes
    made["tcp_sum"] = 0xFFFF - (words[:, (_TCP - _IP) // 2 :].sum(1) + pseudo_header + said) % 0xFFFF
    heads, size = made.tobytes(), _RECORD.itemsize
    parts: list[bytes] = [b""] * (2 * count)
    parts[::2] = [heads[at : at + size] for at in range(0, len(heads), size)]
    parts[1::2] = datas
    return b"".join(parts)


def _end(endpoint: str) -> tuple[bytes, bytes]:
    host, port = endpoint.split(":")
    return bytes(map(int, host.split("."))), struct.pack(">H", int(port))
