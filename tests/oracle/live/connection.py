"""A client's side of the remoting protocol, as little of it as a load needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
from collections.abc import Mapping
from typing import Any

from tests.oracle.live.namesrv import NameServer
from tests.wire.forge import request

_WAIT_S = 3


class Connection:
    """One connection to a name server, from an address of this machine. Raises OSError where it cannot be had."""

    def __init__(self, namesrv: NameServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._namesrv, self._reader, self._writer = namesrv, reader, writer
        self._opaque, self._waiting = random.randrange(1_000), dict[int, asyncio.Future[dict[str, Any]]]()
        self.is_over = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, namesrv: NameServer, host: str) -> Connection:
        """Return a new connection from `host`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", namesrv.port, local_addr=(host, 0))
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
        """End it with a RST."""
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
