"""A router between network namespaces: it forwards, masquerades, and does what networks do to packets.

The kernel has no part in it: the router's interfaces have no addresses, and its neighbours know them by heart.
"""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Mapping

from tests.oracle.live.namespaces import inside
from tests.oracle.live.rewriting import Link, Masquerade, Packet

_ALL, _OTHERS_ONLY, _SOL_PACKET, _MOST = 3, 23, 263, 1 << 16
_HELD_S = 0.02


class Weather:
    """What becomes of packets of TCP: shares of them that are lost, doubled, or let one behind them pass."""

    def __init__(self, chance: random.Random, lost: float = 0.01, doubled: float = 0.002, late: float = 0.01) -> None:
        self._chance, self._shares = chance, (1 - lost - doubled - late, lost, doubled, late)

    def fate(self) -> str:
        """Return what becomes of the next packet."""
        return self._chance.choices(("passes", "lost", "doubled", "late"), self._shares)[0]


class Router(threading.Thread):
    """Forwards between the interfaces of a namespace until `finish`; nothing passes a link that is in `cut`."""

    def __init__(self, namespace: str, links: Mapping[str, Link], masquerade: Masquerade, weather: Weather) -> None:
        super().__init__(daemon=True)
        self._links, self._masquerade, self._weather, self._is_over = links, masquerade, weather, False
        self.cut: set[str] = set()
        self._held: dict[str, tuple[float, bytes]] = {}
        with inside(namespace):
            self._sockets = {name: self._socket(name) for name in links}
        self._names = {one.fileno(): name for name, one in self._sockets.items()}

    def run(self) -> None:
        """Forward."""
        poll = select.poll()
        for one in self._sockets.values():
            poll.register(one, select.POLLIN)
        while not self._is_over:
            for number, _ in poll.poll(10 if self._held else 200):
                name = self._names[number]
                self._came(name, self._sockets[name].recv(_MOST))
            for name, (since, frame) in list(self._held.items()):
                if time.monotonic() - since > _HELD_S:
                    del self._held[name]
                    self._sockets[name].send(frame)

    def finish(self) -> None:
        """End, and wait for that."""
        self._is_over = True
        self.join()
        for one in self._sockets.values():
            one.close()

    def _socket(self, name: str) -> socket.socket:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        one.setsockopt(_SOL_PACKET, _OTHERS_ONLY, 1)
        one.bind((name, _ALL))
        return one

    def _came(self, name: str, frame: bytes) -> None:
        packet = Packet(frame)
        fate = self._weather.fate() if packet.is_tcp else "passes"
        if not packet.is_ip or fate == "lost" or name in self.cut:
            return
        self._masquerade.translate(packet)
        to = next((other for other, link in self._links.items() if other != name and link.has(packet.target[0])), None)
        if to is None or to in self.cut:
            return
        out = packet.passed_on(self._links[to])
        if fate == "late" and to not in self._held:
            self._held[to] = time.monotonic(), out
            return
        for _ in range(1 + (fate == "doubled")):
            self._sockets[to].send(out)
        if to in self._held:
            self._sockets[to].send(self._held.pop(to)[1])
