"""A name server of a few lines, which answers from a registry that tests change, and targets that are none."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Awaitable, Callable

from namesrv_core.asking.answers import answer, question_of
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, RequestCode, ResponseCode
from namesrv_core.machine.profile import Namesrv, NamesrvConfig, profile_of_version
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.step import apply_step, step
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_wire.protocol.frames import decode_frame
from tests.wire.forge import response

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class StandIn:
    """Answers questions as a release does, unless `handler` does something else. `asked`: what it was asked, in order.

    `changed_us`: when something happened to it; `is_acting`: whether it has slaves act as masters, which it says of itself.
    """

    def __init__(self, handler: Handler | None = None, version: int = 493, *, is_acting: bool = False) -> None:
        self.handler, self.is_acting = handler, is_acting
        config = NamesrvConfig(support_acting_master=is_acting)
        self.version, self.namesrv = version, Namesrv(profile_of_version(version), config)
        self.registry = Registry(self.namesrv.profile)
        self.asked: list[tuple[int, str | None]] = []
        self.changed_us: list[int] = []
        self.server: asyncio.Server | None = None
        self.news = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []
        self.address = ("127.0.0.1", 0)

    async def start(self) -> None:
        """Listen, at the port where it did before."""
        self.server = await asyncio.start_server(self.handler or self._serve, *self.address)
        self.address = self.server.sockets[0].getsockname()[:2]

    def stop(self) -> None:
        """Listen no more, and end all connections."""
        if self.server is not None:
            self.server.close()
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    def do(self, event: events.Event) -> None:
        """Have something happen to it."""
        now_ms = time.time_ns() // 1_000_000
        self.changed_us.append(time.time_ns() // 1_000)
        apply_step(self.registry, event, step(self.registry, event, now_ms, self.namesrv), now_ms, self.namesrv)

    def register(self, name: str, *topics: str) -> None:
        """Have a master register."""
        table = TopicTable([TopicConfig(topic, 8, 8, 6, 0) for topic in (*topics, f"own-{name}")])
        version = DataVersion(0, len(self.changed_us), 1)
        addr = f"10.0.0.1:{1_000 + ord(name[-1])}"
        self.do(events.RegisterBroker("C", addr, name, 0, None, version, table, (), f"{name}#1"))

    def unregister(self, name: str) -> None:
        """Have a master go."""
        self.do(events.UnregisterBroker("C", f"10.0.0.1:{1_000 + ord(name[-1])}", name, 0))

    def count(self, code: int) -> int:
        """Return how often it was asked for something."""
        return sum(asked == code for asked, _ in self.asked)

    async def rounds(self, more: int) -> None:
        """Wait until as many more rounds have ended."""
        wanted = self.count(106) + more + 1
        while self.count(106) < wanted:
            self.news.clear()
            await self.news.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readexactly(4)
                asked = decode_frame(head + await reader.readexactly(struct.unpack(">i", head)[0]))
                self.asked.append((asked.code, asked.ext.get("topic")))
                self.news.set()
                if asked.code == RequestCode.GET_NAMESRV_CONFIG:
                    told = Answer(
                        ResponseCode.SUCCESS, f"listenPort=9876\nsupportActingMaster={str(self.is_acting).lower()}\n"
                    )
                else:
                    question = question_of(asked.code, asked.ext, standard_json=True)
                    told = answer(self.registry, question, self.namesrv)
                body = (told.body or "").encode()
                writer.write(response(asked.opaque, int(told.code), body, self.version, told.remark))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def sends(data: bytes) -> Handler:
    """Return a target that answers whatever it is asked with some bytes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4_096):
            writer.write(data)
        writer.close()

    return handler


async def closes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a target that closes each connection."""
    writer.close()


async def is_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a target that takes all and says nothing."""
    while await reader.read(4_096):
        pass
    writer.close()


HTTP = b"HTTP/1.1 400 Bad Request\r\nServer: x\r\nContent-Length: 0\r\n\r\n"
NO_CLUSTER = response(1, 0, json.dumps({"a": 1}).encode(), 493)
BROKER = response(1, 3, b"", 493, " request type 106 not supported")
TOO_LONG = struct.pack(">iI", 1 << 30, 100) + b"{" * 100
LONG_HEADER = struct.pack(">iI", 100, 200) + b"{" * 96
CUT = response(1, 0, b"{}", 493)[:-4]
GARBAGE = bytes(range(256))
