"""A client's side of the remoting protocol, as little of it as a load needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.oracle.live.namespaces import inside
from tests.oracle.live.namesrv import NameServer
from tests.wire.forge import request

_WAIT_S, _CONNECT_S = 3, 4
_READING: set[asyncio.Task[None]] = set()
"""Readers of connections, also of those that nobody holds any more."""


class Host(NamedTuple):
    """Whence somebody connects: an address, and the namespace in which it is; None: this machine's own."""

    address: str
    namespace: str | None = None


async def connect(namesrv: NameServer, host: Host) -> socket.socket:
    """Return a socket that is connected to a name server. Raises OSError where there is none."""
    with inside(host.namespace):
        made = socket.socket(socket.AF_INET6 if ":" in host.address else socket.AF_INET)
    try:
        made.setblocking(False)
        made.bind((host.address, 0))
        there = namesrv.address_for(host.address), namesrv.port
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(made, there), _CONNECT_S)
    except BaseException as error:
        made.close()
        if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
            raise OSError("no answer") from error
        raise
    return made


class Connection:
    """One connection to a name server, from an address of this machine. Raises OSError where it cannot be had."""

    def __init__(self, namesrv: NameServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._namesrv, self._reader, self._writer = namesrv, reader, writer
        self._opaque, self._waiting = random.randrange(1_000), dict[int, asyncio.Future[dict[str, Any]]]()
        self.is_over = False
        reading = asyncio.create_task(self._read())
        _READING.add(reading)
        reading.add_done_callback(_READING.discard)

    @classmethod
    async def open(
        cls, namesrv: NameServer, host: Host, *, tls: ssl.SSLContext | None = None, first: bytes = b""
    ) -> Connection:
        """Return a new connection from `host`; `tls`: within TLS; `first`: what is sent before all else."""
        made = await connect(namesrv, host)
        named: dict[str, Any] = {"ssl": tls, "server_hostname": "", "ssl_handshake_timeout": _CONNECT_S} if tls else {}
        reader, writer = await asyncio.open_connection(sock=made, **named)
        writer.write(first)
        return cls(namesrv, reader, writer)

    async def ask(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        version: int | None = None,
        is_one_way: bool = False,
        cut_at: float = 0,
    ) -> dict[str, Any] | None:
        """Send a request, cut in two at a share of its bytes if wanted; return its answer's header, None if there is none."""
        if self.is_over:
            return None
        self._opaque += 1
        stated = self._namesrv.header_version if version is None else version
        data = request(code, ext, body or b"", opaque=self._opaque, version=stated, flag=2 * is_one_way)
        if cut_at:
            self._writer.write(data[: int(len(data) * cut_at)])
            await asyncio.sleep(0.01)
        self._writer.write(data[int(len(data) * cut_at) :])
        if is_one_way:
            return None
        answer = self._waiting[self._opaque] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(answer, _WAIT_S)
        except (TimeoutError, asyncio.TimeoutError, asyncio.CancelledError):
            return None

    def close(self) -> None:
        """End it with a FIN."""
        self._writer.close()

    def reset(self) -> None:
        """End it with a RST, unless it has ended."""
        if self._writer.transport.is_closing():
            return
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    async def _read(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while True:
                (length,) = struct.unpack("!i", await self._reader.readexactly(4))
                data = await self._reader.readexactly(length)
                size = int.from_bytes(data[1:4], "big")
                if data[0] == 0:
                    header = json.loads(data[4 : 4 + size])
                    answer = self._waiting.pop(header.get("opaque"), None)
                    if answer is not None and not answer.done():
                        answer.set_result(header)
        self.is_over = True
        for answer in self._waiting.values():
            answer.cancel()
