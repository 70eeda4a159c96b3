"""What the first bytes of a connection are if they are no frame: a proxy's preamble, TLS, or a stranger's knock.

Source: 5.4.0 `NettyRemotingServer.HandshakeHandler` (first byte 0x16: TLS; PROXY detected by its signature), the PROXY
protocol's versions 1 and 2.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final, NamedTuple

from namesrv_wire.errors import Reason

_TLS_HANDSHAKE: Final = 0x16
_TLS_RECORDS: Final = frozenset(range(0x14, 0x18))
_MAX_TLS_RECORD: Final = (1 << 14) + 2_048
_METHODS: Final = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN", b"PRI "})
_PROXY_1, _PROXY_2 = b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n"
_MAX_PROXY_1: Final = 107
_TEXT_ADDRESSES: Final = {"TCP4": socket.AF_INET, "TCP6": socket.AF_INET6}
_BINARY_ADDRESSES: Final = {0x11: (socket.AF_INET, 4), 0x21: (socket.AF_INET6, 16)}


class Preamble(NamedTuple):
    """A proxy's words of `size` bytes, and the client's ip:port that they name; None if they name none."""

    size: int
    client: str | None


class Stranger(NamedTuple):
    """Whoever speaks something else, to the end of the connection."""

    reason: Reason
    detail: str


def opening_of(data: bytes) -> Preamble | Stranger | None:
    """Return what the first bytes of a connection are, of which at least four are here and begin no frame.

    A preamble of size 0 has not ended yet. None: nothing that is known.
    """
    if data[0] == _TLS_HANDSHAKE:
        return Stranger(Reason.TLS, "a TLS handshake: what follows cannot be read")
    if data[:4] in _METHODS:
        return Stranger(Reason.HTTP, "an HTTP request")
    if data.startswith(_PROXY_1) or _PROXY_1.startswith(data):
        return _version_1(data)
    if data.startswith(_PROXY_2) or _PROXY_2.startswith(data):
        return _version_2(data)
    if not any(data):
        return Stranger(Reason.ZEROS, "nothing but zeros")
    return None


def is_tls(data: bytes) -> bool:
    """Return whether a segment holds TLS records one after the other, the last of which may go on."""
    at = 0
    while at + 5 <= len(data):
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        if data[at] not in _TLS_RECORDS or data[at + 1] != 3 or data[at + 2] > 4 or not 0 < size <= _MAX_TLS_RECORD:
            return False
        at += 5 + size
    return at > 0


def _version_1(data: bytes) -> Preamble | Stranger:
    end = data.find(b"\r\n", 0, _MAX_PROXY_1)
    if end < 0:
        return Preamble(0, None) if len(data) < _MAX_PROXY_1 else _bad("no end of line in its first 107 bytes")
    words = data[:end].decode("latin-1").split(" ")
    if words[1] == "UNKNOWN":
        return Preamble(end + 2, None)
    try:
        family, source, _, port, _ = words[1:]
        socket.inet_pton(_TEXT_ADDRESSES[family], source)
        is_port = port.isascii() and port.isdigit() and int(port) <= 0xFFFF
    except (ValueError, KeyError, OSError):
        is_port = False
    if not is_port:
        return _bad("a line that names no two addresses and ports")
    return Preamble(end + 2, _endpoint(source, int(port)))


def _version_2(data: bytes) -> Preamble | Stranger:
    if len(data) < 16:
        return Preamble(0, None)
    command, family, size = data[12], data[13], int.from_bytes(data[14:16], "big")
    if command not in (0x20, 0x21):
        return _bad(f"version and command {command:#04x}")
    kind, width = _BINARY_ADDRESSES.get(family, (None, 0))
    if command == 0x21 and kind is not None and size < 2 * width + 4:
        return _bad(f"{size} bytes for two addresses of {width} bytes and two ports")
    if len(data) < 16 + size:
        return Preamble(0, None)
    if command == 0x20 or kind is None:
        return Preamble(16 + size, None)
    port = int.from_bytes(data[16 + 2 * width : 18 + 2 * width], "big")
    return Preamble(16 + size, _endpoint(socket.inet_ntop(kind, data[16 : 16 + width]), port))


def _endpoint(address: str, port: int) -> str:
    text = str(ip_address(address))
    return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"


def _bad(what: str) -> Stranger:
    return Stranger(Reason.BAD_PROXY_PREAMBLE, f"a PROXY preamble with {what}")
