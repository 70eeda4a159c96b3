"""Name servers with several addresses, and several behind one, as event logs of what brokers and clients ask and are answered."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_core import V5_4_0, Namesrv
from tests.ingest.given import START_MS, Line
from tests.night.server import Server

FIRST, SECOND = "10.0.0.1:9876", "10.0.0.2:9876"
OTHER, BALANCER = "[fd00::1]:9876", "10.0.0.9:9876"
LONG_S = 240


def process() -> Server:
    return Server(Namesrv(V5_4_0), START_MS)


class World:
    """Brokers that register every 10 s, and clients that ask every 2 s; what happens at which address is what `lines` has.

    `ways`: name of a broker, addresses that it registers at, and to which process each leads. `clients`: addresses that are
    asked, likewise. What a process is told twice at once it is told once.
    """

    def __init__(self, ways: dict[str, dict[str, Server]], clients: Iterable[tuple[str, Server]]) -> None:
        self.ways, self.clients = ways, list(clients)
        self.lines: list[Line] = []

    def run(self) -> list[Line]:
        """Return all lines, in order."""
        seen = {address for way in self.ways.values() for address in way} | {address for address, _ in self.clients}
        unheard = process()
        for address in sorted(seen):
            unheard.line(0, "namesrv", namesrv_id=address, event="started")
        self.lines += unheard.lines
        for second in range(1, LONG_S):
            for n, name in enumerate(sorted(self.ways)):
                # Brokers come one after the other: before that nobody shows them.
                if second >= 20 * n and second % 10 == n:
                    for address, server in self.ways[name].items():
                        at = f"10.1.0.{n + 1}:10911"
                        server.joins(second, name, "shared", name, addr=at, namesrv_id=address)
                        self.lines.append(server.lines[-1])
            if second % 2 == 0:
                for k, (address, server) in enumerate(self.clients):
                    for code, subject in ((106, None), (105, "shared")):
                        server.asks(second + 0.5 + k / 100, code, subject, namesrv_id=address)
                        self.lines.append(server.lines[-1])
        return self.lines


def of(lines: Iterable[Line], *addresses: str) -> list[Line]:
    return [line for line in lines if line["namesrv_id"] in addresses]


def dual_stack() -> list[Line]:
    """Return what is recorded of a process with two addresses, at each of which it has a broker, and of another one."""
    one, another = process(), process()
    ways = {"a": {FIRST: one, SECOND: another}, "b": {FIRST: one, SECOND: another}, "c": {OTHER: one}}
    return World(ways, [(FIRST, one), (OTHER, one), (SECOND, another)]).run()


def alternating() -> list[Line]:
    """Return what is recorded where all that is known of two processes is the balancer's address."""
    one, another = process(), process()
    ways = {"a": {BALANCER: one}, "b": {BALANCER: another}}
    return World(ways, [(BALANCER, one), (BALANCER, another)]).run()
