"""Captures taken by packet sockets: Linux, and the right to open one (CAP_NET_RAW).

Of the loopback interface, of an interface in a namespace as Ethernet, and as `tcpdump -i any` does in Linux cooked v2.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tests.oracle.live.namespaces import inside

_SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _ALL = 33, 35, 3
_SNAPSHOT = 1 << 18
_MAGIC, _ETHERNET, _COOKED_2 = 0xA1B23C4D, 1, 276
Address = tuple[str, int, int, int, bytes]
"""Of a packet: its interface, protocol, kind (4: on its way out), the interface's kind, the sender's hardware address."""


class Recorder(threading.Thread):
    """Writes what a packet socket gets into pcap files, with all of a packet or its first bytes: `paths` has how many.

    `made_of` returns what of a packet is recorded; nothing, and it is not.
    """

    def __init__(
        self, tapped: socket.socket, paths: Mapping[Path, int], link: int, made_of: Callable[[bytes, Address], bytes]
    ) -> None:
        super().__init__(daemon=True)
        self._socket, self._made_of, self._is_over, self.packets = tapped, made_of, False, 0
        tapped.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        tapped.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        tapped.settimeout(0.5)
        self._files = [(path.open("wb"), kept) for path, kept in paths.items()]
        for file, kept in self._files:
            file.write(struct.pack("<IHHiIII", _MAGIC, 2, 4, 0, 0, kept, link))

    @classmethod
    def of_loopback(cls, path: Path, ports: Collection[int]) -> Recorder:
        """Record TCP over IPv4 from and to `ports`. Raises PermissionError without the right to."""

        def made_of(data: bytes, address: Address) -> bytes:
            # On this interface each packet goes out and comes in: one of them is enough.
            if address[2] == socket.PACKET_OUTGOING or data[12:14] != b"\x08\x00" or data[23] != socket.IPPROTO_TCP:
                return b""
            ends = struct.unpack_from("!HH", data, 14 + (data[14] & 15) * 4)
            return b"" if frozenset(ports).isdisjoint(ends) else data

        return cls(_tap(None, "lo", socket.SOCK_RAW), {path: _SNAPSHOT}, _ETHERNET, made_of)

    @classmethod
    def of_interface(cls, namespace: str, interface: str, paths: Mapping[Path, int]) -> Recorder:
        """Record all of an interface, whole packets or so many bytes of each."""
        return cls(_tap(namespace, interface, socket.SOCK_RAW), paths, _ETHERNET, lambda data, _: data)

    @classmethod
    def of_any(cls, namespace: str, path: Path) -> Recorder:
        """Record all interfaces of a namespace but its loopback, as `-i any` does."""
        with inside(namespace):
            numbers = {name: number for number, name in socket.if_nameindex()}

        def made_of(data: bytes, address: Address) -> bytes:
            name, protocol, kind, hardware, sender = address
            head = (protocol, 0, numbers[name], hardware, kind, len(sender), sender)
            return struct.pack("!HHIHBB8s", *head) + data if name != "lo" else b""

        return cls(_tap(namespace, None, socket.SOCK_DGRAM), {path: _SNAPSHOT}, _COOKED_2, made_of)

    def run(self) -> None:
        """Record until `finish`."""
        while not self._is_over:
            try:
                data, ancillary, _, address = self._socket.recvmsg(_SNAPSHOT, 64)
            except TimeoutError:
                continue
            made = self._made_of(data, address)
            if made:
                self.packets += 1
                at = struct.unpack("qq", ancillary[0][2]) if ancillary else divmod(time.time_ns(), 10**9)
                for file, kept in self._files:
                    file.write(struct.pack("<IIII", *at, len(made[:kept]), len(made)) + made[:kept])
        for file, _ in self._files:
            file.close()
        self._socket.close()

    def finish(self) -> None:
        """End the capture, and wait for that."""
        self._is_over = True
        self.join()


def _tap(namespace: str | None, interface: str | None, kind: int) -> socket.socket:
    with inside(namespace):
        tapped = socket.socket(socket.AF_PACKET, kind, socket.htons(_ALL))
    if interface is not None:
        tapped.bind((interface, _ALL))
    return tapped
