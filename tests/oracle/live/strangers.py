"""Who else knocks at a name server's port: clients in TLS or behind a proxy, scanners, and what each of them was."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Sequence

from tests.oracle.live.connection import Connection, Host, connect
from tests.oracle.live.load import Load
from tests.oracle.live.namesrv import NameServer
from tests.wire.forge import request
from tests.wire.openings import V1, V2, V2_6

_PAUSE_S = 2.5
_SAID = {
    "http": b"GET / HTTP/1.1\r\nHost: namesrv\r\n\r\n",
    "zeros": bytes(64),
    "half_frame": request(105, {"topic": "Topic0"}, opaque=1)[:60],
    "silent_connection": b"",
}
_PROXIES = {"proxy 1": V1, "proxy 2": V2, "proxy 2, IPv6": V2_6}
_SPLIT = 0.3
"""Share of knocks whose first bytes come in two segments."""


class Strangers:
    """Knocks at random from some hosts; `knocks` counts those that were connected, by name."""

    def __init__(self, load: Load, hosts: Sequence[Host]) -> None:
        self._load, self._hosts, self.knocks = load, hosts, Counter[str]()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    async def knock(self, namesrv: NameServer) -> None:
        """Knock at a name server until the load is over."""
        chance = self._load.chance
        while not self._load.is_over():
            await asyncio.sleep(chance.expovariate(1 / _PAUSE_S))
            name, host = chance.choice((*_SAID, *_PROXIES, "tls")), chance.choice(self._hosts)
            with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError, ssl.SSLError):
                if name in _SAID:
                    await self._scan(namesrv, host, name)
                else:
                    await self._ask(namesrv, host, name)

    async def _scan(self, namesrv: NameServer, host: Host, name: str) -> None:
        said, chance = _SAID[name], self._load.chance
        made = await connect(namesrv, host)
        self.knocks[name] += 1
        with made:
            loop = asyncio.get_running_loop()
            cut = chance.randrange(1, len(said)) if said and chance.random() < _SPLIT else 0
            if cut:
                await loop.sock_sendall(made, said[:cut])
                await asyncio.sleep(0.02)
            await loop.sock_sendall(made, said[cut:])
            await asyncio.sleep(chance.choice((0, 0.1, 1, 4)))

    async def _ask(self, namesrv: NameServer, host: Host, name: str) -> None:
        first = _PROXIES.get(name, b"")
        tls = None if first else self._tls
        connection = await Connection.open(namesrv, host, tls=tls, first=first)
        self.knocks[name] += 1
        for _ in range(4):
            await connection.ask(105, {"topic": self._load.chance.choice(self._load.topics)})
        (connection.close if self._load.chance.random() < 0.7 or tls else connection.reset)()
