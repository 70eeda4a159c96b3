"""TCP segments, and the written forms of their addresses."""

from __future__ import annotations

import socket
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from namesrv_wire.limits import FRAGMENT_NS, MAX_FRAGMENT_BYTES, MAX_FRAGMENT_PARTS, MAX_FRAGMENTED

FIN, SYN, RST, ACK = 1, 2, 4, 16
OUTGOING, INCOMING = -1, -2
_MAX_PAIRS = 200_000


class Segment(NamedTuple):
    """One TCP segment. `src`, `dst` are 'ip:port' or '[v6]:port'; `lost` payload bytes were not captured.

    `interface`: where it was seen, if the capture tells; OUTGOING or INCOMING if it tells no more than that; else 0.
    """

    packet_no: int
    time_ns: int
    src: str
    dst: str
    seq: int
    ack: int
    flags: int
    payload: bytes
    lost: int = 0
    interface: int = 0


def address_of(host: str, port: int) -> str:
    """Return ip:port, or [v6]:port, as rows have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def packed_address(host: bytes, port: bytes) -> str:
    """Return the same of an address and a port as packets have them."""
    family = socket.AF_INET if len(host) == 4 else socket.AF_INET6
    return address_of(socket.inet_ntop(family, host), int.from_bytes(port, "big"))


@lru_cache(_MAX_PAIRS)  # captures repeat the same few
def ends_of(key: bytes) -> tuple[str, str]:
    """Return source and target, of which `key` has both addresses and then both ports, as bytes."""
    size = (len(key) - 4) // 2
    return packed_address(key[:size], key[-4:-2]), packed_address(key[size : 2 * size], key[-2:])


@dataclass(slots=True)
class _Cut:
    """What there is of a packet: bytes by offset, of so many fragments; how long it is, once the last one was there.

    Once it is whole no bytes are kept: `told` has its fragments by offset and hash, since some may be there twice.
    """

    since_ns: int
    count: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)
    size: int | None = None
    told: frozenset[tuple[int, int]] = frozenset()


class Fragments:
    """Fragments that wait for others of their packets, so many and so long; `lost`: those that waited in vain."""

    def __init__(self) -> None:
        self.lost = 0
        self._cut: OrderedDict[bytes, _Cut] = OrderedDict()
        self._bytes = 0

    @property
    def waiting(self) -> int:
        """Return how many fragments wait."""
        return sum(cut.count for cut in self._cut.values())

    def add(self, key: bytes, offset: int, data: bytes, time_ns: int, *, is_last: bool) -> bytes | None:
        """Add a fragment of the packet that `key` stands for; return the packet if that is all of it now.

        One more sighting of a fragment of a packet that was whole is none of the next packet with the same number.
        """
        while self._cut:  # let go of what has waited too long, or is too much
            oldest, cut = next(iter(self._cut.items()))
            is_much = len(self._cut) >= MAX_FRAGMENTED or self._bytes > MAX_FRAGMENT_BYTES
            if not is_much and time_ns - cut.since_ns <= FRAGMENT_NS:
                break
            self.lost += self._drop(oldest)
        cut = self._cut.setdefault(key, _Cut(time_ns))
        if cut.told:
            if (offset, hash(data)) in cut.told:
                return None
            self._drop(key)
            cut = self._cut[key] = _Cut(time_ns)
        cut.count += 1
        if offset not in cut.parts and offset + len(data) <= 1 << 16:
            cut.parts[offset] = data
            self._bytes += len(data)
        if is_last:
            cut.size = offset + len(data)
        if cut.size is not None:
            whole = bytearray()
            for at, part in sorted(cut.parts.items()):  # of what is there twice, the first
                if at > len(whole):
                    break
                whole += part[len(whole) - at :]
            if len(whole) >= cut.size:
                told = frozenset((at, hash(part)) for at, part in cut.parts.items())
                self._drop(key)
                self._cut[key] = _Cut(time_ns, told=told)
                return bytes(whole[: cut.size])
        if len(cut.parts) > MAX_FRAGMENT_PARTS:
            self.lost += self._drop(key)
        return None

    def _drop(self, key: bytes) -> int:
        cut = self._cut.pop(key)
        self._bytes -= sum(map(len, cut.parts.values()))
        return cut.count
