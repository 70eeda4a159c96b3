"""TCP segments, and the written forms of their addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import NamedTuple

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


class Endpoints:
    """The written forms of addresses and ports; kept, since captures repeat the same few."""

    def __init__(self) -> None:
        self._pairs: dict[bytes, tuple[str, str]] = {}

    def pairs(self, keys: Iterable[bytes]) -> list[tuple[str, str] | None]:
        """Return source and target for each key, as `pair` does; None for an empty one."""
        known = self._pairs
        return [known.get(key) or (self.pair(key) if key else None) for key in keys]

    def pair(self, key: bytes) -> tuple[str, str]:
        """Return source and target, of which `key` has both addresses and then both ports, as bytes."""
        found = self._pairs.get(key)
        if found is None:
            if len(self._pairs) >= _MAX_PAIRS:
                self._pairs.clear()
            size = (len(key) - 4) // 2
            found = self._pairs[key] = (_endpoint(key[:size], key[-4:-2]), _endpoint(key[size : 2 * size], key[-2:]))
        return found


def _endpoint(address: bytes, port: bytes) -> str:
    number = int.from_bytes(port, "big")
    if len(address) == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{number}"
    return f"[{socket.inet_ntop(socket.AF_INET6, address)}]:{number}"
