"""A capture of the loopback interface, taken by a packet socket: Linux, and the right to open one (CAP_NET_RAW)."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Collection
from pathlib import Path

from jobs.fleet.packets import FILE_HEADER

_SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 33, 35
_SNAPSHOT = 1 << 18


class Recorder(threading.Thread):
    """Writes the TCP packets from and to `ports` into a pcap. Raises PermissionError without the right to."""

    def __init__(self, path: Path, ports: Collection[int]) -> None:
        super().__init__(daemon=True)
        self._ports, self._is_over, self.packets = frozenset(ports), False, 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.5)
        self._file = path.open("wb")
        self._file.write(FILE_HEADER)

    def run(self) -> None:
        """Record until `finish`."""
        while not self._is_over:
            try:
                data, ancillary, _, address = self._socket.recvmsg(_SNAPSHOT, 64)
            except TimeoutError:
                continue
            # On this interface each packet goes out and comes in: one of them is enough.
            if address[2] != socket.PACKET_OUTGOING and self._is_wanted(data):
                self.packets += 1
                at = struct.unpack("qq", ancillary[0][2]) if ancillary else divmod(time.time_ns(), 10**9)
                self._file.write(struct.pack("<IIII", *at, len(data), len(data)) + data)
        self._file.close()
        self._socket.close()

    def finish(self) -> None:
        """End the capture, and wait for that."""
        self._is_over = True
        self.join()

    def _is_wanted(self, data: bytes) -> bool:
        if data[12:14] != b"\x08\x00" or data[23] != socket.IPPROTO_TCP:
            return False
        return not self._ports.isdisjoint(struct.unpack_from("!HH", data, 14 + (data[14] & 15) * 4))
