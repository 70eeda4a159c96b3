"""What connections begin with that is no frame."""

from __future__ import annotations

import struct
from socket import AF_INET6, inet_aton, inet_pton

HELLO = bytes.fromhex("160301020001000200") + bytes(range(200))
SERVER_HELLO = bytes.fromhex("16030300050200000203") + bytes.fromhex("1703030004") + b"data"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 9876\r\n"
V2 = SIGNATURE + b"\x21\x11" + struct.pack(">H", 12 + 3) + inet_aton("192.0.2.7") + inet_aton("192.0.2.8")
V2 += struct.pack(">HH", 4711, 9876) + b"\x04\x00\x00"
V2_6 = (
    SIGNATURE + b"\x21\x21" + struct.pack(">H", 36) + inet_pton(AF_INET6, "fd00::7") + bytes(16) + b"\x12\x67\x26\x94"
)
OPENINGS = (HELLO, V1, V2, V2_6, b"GET / HTTP/1.0\r\n\r\n", bytes(64))
