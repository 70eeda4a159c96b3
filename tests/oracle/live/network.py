"""A network that is not a loopback: name servers, hosts, hosts behind NAT, and a router between them that loses packets.

| namespace | holds | addresses |
|---|---|---|
| servers | the name servers | 10.77.1.2, fd77:1::2 |
| direct | brokers and clients | 10.77.2.11 to .14, fd77:2::2 |
| behind | brokers and clients behind NAT: seen as 10.77.1.1 | 10.77.3.11 to .13 |
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from tests.oracle.live import namespaces
from tests.oracle.live.connection import Host
from tests.oracle.live.load import Load
from tests.oracle.live.recorder import Recorder
from tests.oracle.live.rewriting import Link, Masquerade
from tests.oracle.live.router import Router, Weather

SERVERS = ("10.77.1.2", "fd77:1::2")
NAMES = tuple(f"b{number:02}" for number in range(10))
TOPICS = (*(f"Topic{number}" for number in range(40)), "Straße", "a b")
_SUBNETS = {
    "servers": ("10.77.1.0/24", "fd77:1::/64"),
    "direct": ("10.77.2.0/24", "fd77:2::/64"),
    "behind": ("10.77.3.0/24",),
}
_HOSTS = {
    "servers": [SERVERS[0], SERVERS[1]],
    "direct": [f"10.77.2.{number}" for number in range(11, 15)] + ["fd77:2::2"],
    "behind": [f"10.77.3.{number}" for number in range(11, 14)],
}
_WHOLE, _SHORT = 1 << 18, 160


class Network:
    """The namespaces, and the router once it runs. Needs Linux and root; `remove` takes all of it away."""

    def __init__(self, seed: int) -> None:
        self._seed, self._mark = seed, f"ns{os.getpid()}"
        self.servers = f"{self._mark}-servers"
        self._links: dict[str, Link] = {}
        self.router: Router | None = None
        for name in ("router", *_SUBNETS):
            namespaces.add(f"{self._mark}-{name}")
        for name, subnets in _SUBNETS.items():
            widths = {":" in subnet: subnet.rpartition("/")[2] for subnet in subnets}
            addresses = [f"{host}/{widths[':' in host]}" for host in _HOSTS[name]]
            gateways = [subnet.replace("0/24", "1").replace("::/64", "::1") for subnet in subnets]
            host, own = namespaces.join(f"{self._mark}-{name}", f"{self._mark}-router", name, addresses, gateways)
            self._links[name] = Link(subnets, own, host)

    def hosts(self, name: str, *, over_ipv6: bool = False) -> list[Host]:
        """Return the hosts of a namespace that have addresses of one kind."""
        return [Host(one, f"{self._mark}-{name}") for one in _HOSTS[name] if (":" in one) == over_ipv6]

    def start(self, lost: float) -> Router:
        """Start to forward; `lost`: share of packets of TCP that are not."""
        masquerade = Masquerade(_SUBNETS["behind"][0], "10.77.1.1")
        weather = Weather(random.Random(self._seed), lost)
        self.router = Router(f"{self._mark}-router", self._links, masquerade, weather)
        self.router.start()
        return self.router

    def recorders(self, folder: Path) -> list[Recorder]:
        """Return recorders of one life: on the servers' interface, whole and cut (host, short), and on the router (any)."""
        here = {folder / "host.pcap": _WHOLE, folder / "short.pcap": _SHORT}
        return [
            Recorder.of_interface(self.servers, "eth0", here),
            Recorder.of_any(f"{self._mark}-router", folder / "any.pcap"),
        ]

    def remove(self) -> None:
        """End the router and remove the namespaces."""
        if self.router is not None:
            self.router.finish()
        namespaces.remove([f"{self._mark}-{name}" for name in ("router", *_SUBNETS)])


async def cuts(load: Load, router: Router) -> None:
    """Cut a fleet off from the name servers now and then."""
    while not load.is_over():
        await asyncio.sleep(load.chance.uniform(20, 80))
        name = load.chance.choice(("direct", "behind"))
        router.cut.add(name)
        await asyncio.sleep(load.chance.choice((0.5, 3, 12, 30)))
        router.cut.discard(name)
