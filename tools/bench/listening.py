"""`record --listen` beside a real name server of the same release: the same brokers, the same questions, and the CPU of each."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import resource
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.oracle.live.namesrv import NameServer
from tests.record.recording import free_port, recording
from tests.wire.forge import register_json, request

BROKERS, ROUTES_A_S, LOAD_S, AT_ONCE = 2_000, 1_000, 30, 64
"""A registration of each broker in `LOAD_S`; `AT_ONCE`: questions of a client that wait for their answers, at full speed."""
_TOPICS, _GROUP, _CLIENTS, _QUICKLY = 10, 4, 16, 40_000
_CONF = {"serverChannelMaxIdleTimeSeconds": 120}


class Took(NamedTuple):
    """Seconds of CPU of a server at the load; routes a second of CPU at full speed; a hash of what it answered."""

    load_s: float
    routes_a_cpu_s: float
    said: str


class _Peer(asyncio.Protocol):
    """A connection that counts answers; `last` is the last one."""

    def __init__(self) -> None:
        self.waiting, self.answers, self.last, self.news = bytearray(), 0, b"", asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Count whole answers."""
        self.waiting += data
        at = 0
        while len(self.waiting) - at >= 4:
            (length,) = struct.unpack_from(">i", self.waiting, at)
            if len(self.waiting) - at < 4 + length:
                break
            self.last, at = bytes(self.waiting[at : at + 4 + length]), at + 4 + length
            self.answers += 1
        del self.waiting[:at]
        self.news.set()

    async def until(self, answers: int) -> None:
        """Wait until so many have come."""
        while self.answers < answers:
            self.news.clear()
            await self.news.wait()


def listening(folder: Path, *, is_real: bool, load_s: float = LOAD_S) -> Took:
    """Start a name server, have it do the work, and end it. Raises JvmUnavailableError without Java."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * BROKERS)), hard))
    with (_real if is_real else _own)(folder) as (pid, port):
        return asyncio.run(_work(pid, port, load_s))


@contextlib.contextmanager
def _own(folder: Path) -> Iterator[tuple[int, int]]:
    with recording(folder / "own", "--profile", "5.4.0") as made:
        yield made.process.pid, made.port


@contextlib.contextmanager
def _real(folder: Path) -> Iterator[tuple[int, int]]:
    server = NameServer(folder / "real", free_port(), "5.4.0", _CONF)
    try:
        yield server.process.pid, server.port
    finally:
        server.end(signal.SIGKILL)


async def _work(pid: int, port: int, load_s: float) -> Took:
    async def connected() -> _Peer:
        loop, until = asyncio.get_running_loop(), time.monotonic() + 60
        while True:
            try:
                return (await loop.create_connection(_Peer, "127.0.0.1", port))[1]
            except OSError:  # noqa: PERF203  it begins to listen
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.2)

    brokers = [await connected() for _ in range(BROKERS)]
    clients = [await connected() for _ in range(_CLIENTS)]
    topics = [f"topic-{group}-{number}" for group in range(BROKERS // _GROUP) for number in range(_TOPICS)]
    registrations = [_registration(number) for number in range(BROKERS)]
    questions = [request(105, {"topic": topic, "acceptStandardJsonOnly": "true"}, version=493) for topic in topics]
    for peer, data in zip(brokers, registrations, strict=True):
        peer.transport.write(data)
    await asyncio.gather(*(peer.until(1) for peer in brokers))
    said = hashlib.sha256()
    for data in questions[::50]:
        clients[0].transport.write(data)
        await clients[0].until(clients[0].answers + 1)
        (header,) = struct.unpack_from(">i", clients[0].last, 4)
        said.update(clients[0].last[8 + (header & 0xFFFFFF) :])
    used = []
    for seconds in (load_s / 3, load_s):  # the first does not count
        used.append(_cpu_s(pid))
        await _loaded(seconds, list(zip(brokers, registrations, strict=True)), clients, questions)
    used.append(_cpu_s(pid))
    for count in (_QUICKLY // 4, _QUICKLY):
        used.append(_cpu_s(pid))
        await asyncio.gather(*(_asked(peer, questions, count // _CLIENTS) for peer in clients))
    took = Took(used[2] - used[1], _QUICKLY / (_cpu_s(pid) - used[4]), said.hexdigest())
    for peer in (*brokers, *clients):
        peer.transport.abort()
    return took


async def _loaded(
    seconds: float, brokers: list[tuple[_Peer, bytes]], clients: list[_Peer], questions: list[bytes]
) -> None:
    """Have brokers register and clients ask at the rates; return when all is answered."""
    begin, beats, asked = time.monotonic(), 0, 0
    wanted = {peer: peer.answers for peer in (*(peer for peer, _ in brokers), *clients)}
    while (passed := time.monotonic() - begin) < seconds:
        while beats < passed * BROKERS / LOAD_S:
            peer, data = brokers[beats % BROKERS]
            peer.transport.write(data)
            wanted[peer] += 1
            beats += 1
        while asked < passed * ROUTES_A_S:
            peer = clients[asked % _CLIENTS]
            peer.transport.write(questions[asked * 7 % len(questions)])
            wanted[peer] += 1
            asked += 1
        await asyncio.sleep(0.005)
    await asyncio.wait_for(asyncio.gather(*(peer.until(count) for peer, count in wanted.items())), 10)


async def _asked(peer: _Peer, questions: list[bytes], count: int) -> None:
    """Ask so many questions as fast as they are answered."""
    for first in range(0, count, AT_ONCE):
        some = [questions[number * 7 % len(questions)] for number in range(first, min(count, first + AT_ONCE))]
        wanted = peer.answers + len(some)
        peer.transport.write(b"".join(some))
        await peer.until(wanted)


def _registration(number: int) -> bytes:
    group, of = divmod(number, _GROUP)
    fields = {"clusterName": "C", "brokerName": f"broker-{number}", "brokerId": "0"}
    fields["brokerAddr"] = f"10.{of}.{group >> 8}.{group & 255}:10911"
    topics = {f"topic-{group}-{each}": 8 for each in range(_TOPICS)}
    return request(103, fields, register_json(topics), version=493)


def _cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has taken, on Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
