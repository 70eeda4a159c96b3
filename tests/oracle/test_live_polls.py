"""A real name server, recorded by its packets and by questions at the same time: both tell one history."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from pathlib import Path

import pytest

from jobs.record.poll import Polling, poll
from schemas import gold
from tests.night.nights import night, rows
from tests.oracle.live.connection import Connection, Host
from tests.oracle.live.namesrv import NameServer
from tests.oracle.live.recorder import Recorder
from tests.wire.forge import register_json

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
EVERY_S, APART_S = 0.5, 2.5
"""From one round to the next, and from one change to the next."""


def _edges(warehouse: Path) -> list[tuple[str, str, str, int]]:
    """Return when brokers began and ended to offer topics, in order."""
    found = [
        (row["topic"], row["broker_name"], what, row[f"valid_{what}"])
        for row in rows(warehouse, gold.TOPIC_QUEUE_HISTORY)
        for what in ("from", "to")
        if row["topic"].startswith("T") and row[f"valid_{what}"] is not None
    ]
    return sorted(found, key=lambda edge: (edge[3] // 1_000_000, edge[:3]))


async def _recorded(server: NameServer, folder: Path) -> None:
    """Poll it while brokers register, change and go."""
    polling = asyncio.ensure_future(
        poll(
            [("127.0.0.1", server.port)], Polling(folder / "polls", EVERY_S, 100, first_wait_s=0.2, last_wait_s=0.5), 40
        )
    )
    connections = {name: await asyncio.wait_for(_opened(server, name), 60) for name in "ab"}
    for name, topics in (("a", "TU"), ("b", "TV"), ("b", ""), ("b", "TVW"), ("a", "")):
        broker = {"brokerName": f"broker-{name}", "brokerAddr": f"127.0.0.1:{20_000 + ord(name)}"}
        broker |= {"clusterName": "C", "brokerId": "0", "haServerAddr": "127.0.0.1:1"}
        body = register_json({f"T{topic}": 4 for topic in topics})
        answered = await connections[name].ask(103 if topics else 104, broker, body if topics else None)
        assert answered is not None
        assert answered["code"] == 0
        await asyncio.sleep(APART_S)
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)


async def _opened(server: NameServer, name: str) -> Connection:
    while True:
        with contextlib.suppress(OSError):
            return await Connection.open(server, Host(f"127.0.3.{ord(name)}"))
        await asyncio.sleep(0.2)


def test_polls_tell_what_packets_tell(tmp_path: Path) -> None:
    """Every change of a route, within the time to the next one, and none that the packets do not show; no answer is wrong."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        recorder = Recorder.of_loopback(tmp_path / "capture.pcap", [port])
    except (PermissionError, AttributeError):
        pytest.skip("needs Linux, and the right to open a packet socket")
    recorder.start()
    (tmp_path / "polls").mkdir()
    server = NameServer(tmp_path / "home", port, "5.4.0", {"serverChannelMaxIdleTimeSeconds": 120})
    try:
        asyncio.run(_recorded(server, tmp_path))
    finally:
        server.end(signal.SIGTERM)
        recorder.finish()
    packets, asked = (
        night(tmp_path / name, tmp_path / source) for name, source in (("w", "capture.pcap"), ("p", "polls"))
    )
    assert (packets.verify["mismatched"], asked.verify["mismatched"]) == (0, 0)
    true, found = _edges(tmp_path / "w"), _edges(tmp_path / "p")
    # The packets also show how the name server ended, which nobody could ask it.
    assert len(found) > 6
    # Of what changes at once polls may show one thing a round later than another.
    pairs = [*zip(sorted(true[: len(found)]), sorted(found), strict=True)]
    assert all(at[:3] == later[:3] and 0 < later[3] - at[3] < APART_S * 1_000_000 for at, later in pairs)
