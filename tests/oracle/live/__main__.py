"""Record real name servers under a random load, and replay the recording: `python -m tests.oracle.live FOLDER --seed 7`.

One of 4.9.7 and two of 5.4.0, or of the releases named, with brokers and clients that do at random what such do, restarts and
freezes. Needs Linux, Java, the right to open a packet socket (root), and a network the first time. With `--network` they are in
namespaces of their own, behind a router that loses packets and masquerades, over IPv4 and IPv6, among strangers; three recordings
of one life are replayed: the servers' (host), the router's (any), and the servers' with 160 bytes of each packet (short). Exit
codes: 0 every answer is explained, and host and any tell one history; 1 not so, see FOLDER/warehouse-...; 2 usage, or something
is missing. FOLDER must
not exist.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from jobs.conf import NamesrvConf, PipelineConf
from tests.night.nights import night
from tests.oracle.jvm import JvmUnavailableError
from tests.oracle.live import load as loopback
from tests.oracle.live import network
from tests.oracle.live.connection import Host
from tests.oracle.live.load import Broker, Load
from tests.oracle.live.looks import differences, told
from tests.oracle.live.namespaces import NamespaceError
from tests.oracle.live.namesrv import NameServer, classpath, random_conf
from tests.oracle.live.recorder import Recorder
from tests.oracle.live.strangers import Strangers

_PORTS, _CLIENTS = 20_000, 3
Part = Coroutine[Any, Any, None]


def main(argv: Sequence[str] | None = None) -> int:
    """Record, replay, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.live", description=__doc__.partition(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--seed", type=int, default=1, help="of what happens; when it does is the machine's (default: 1)"
    )
    parser.add_argument("--seconds", type=float, default=150, help="how long (default: 150)")
    parser.add_argument(
        "--odd", type=float, default=0.03, help="share of requests that no client makes (default: 0.03)"
    )
    parser.add_argument(
        "--releases",
        nargs="+",
        default=["4.9.7", "5.4.0", "5.4.0"],
        help="of the name servers, which see the same brokers",
    )
    parser.add_argument("--calm", action="store_true", help="nothing happens to the name servers")
    parser.add_argument(
        "--late", action="store_true", help="record from a third of the time on, in the middle of their lives"
    )
    parser.add_argument("--network", action="store_true", help="hosts, a router and strangers instead of the loopback")
    parser.add_argument(
        "--lost", type=float, default=0.01, help="share of packets that the router loses (default: 0.01)"
    )
    given = parser.parse_args(argv)
    try:
        given.folder.mkdir(parents=True)
        for (
            version
        ) in given.releases:  # before the load's time begins, and before a server runs that would be left behind
            classpath(version)
        conf = asyncio.run(_on_a_network(given) if given.network else _on_loopback(given))
    except (PermissionError, FileExistsError, NamespaceError, JvmUnavailableError) as error:
        sys.stderr.write(f"namesrv-history: {error}\n")
        return 2
    return _replayed(given.folder, conf)


def _replayed(folder: Path, conf: PipelineConf) -> int:
    """Replay each recording; return whether an answer is wrong, or two recordings tell different histories.

    `conf`: what is to be said of the name servers. What is found without it is told, and judged by nobody: it may be in doubt.
    """
    is_wrong, paths = False, sorted(folder.glob("*.pcap"))
    for path in paths:
        said = night(folder / f"warehouse-{path.stem}", path, conf=conf)
        sys.stdout.write(told(path.name, said))
        is_wrong |= bool(said.verify.get("mismatched", True))  # nothing was verified of a refused file
    here, there = folder / "warehouse-host", folder / "warehouse-any"
    if not there.exists():
        return int(is_wrong)
    found = PipelineConf(join_addresses=True)
    sys.stdout.write(
        told("host.pcap, addresses as found", night(folder / "warehouse-found", folder / "host.pcap", conf=found))
    )
    differ = differences(here, there)
    sys.stdout.write("".join(f"host and any differ: {line}\n" for line in differ))
    return int(is_wrong or bool(differ))


async def _on_loopback(given: argparse.Namespace) -> PipelineConf:
    """Record name servers under a load on this machine's own addresses; return what is to be said of them: nothing."""
    load = Load(given.seed, time.time() + given.seconds, given.odd, loopback.NAMES, loopback.TOPICS)
    servers = _servers(given, load)
    brokers = [Broker(load, number, Host(f"127.0.1.{number + 1}")) for number in range(2 * len(load.names))]
    parts = [load.broker(broker, server) for broker in brokers for server in servers]
    numbers = [(server, 10 * n + at) for at, server in enumerate(servers) for n in range(_CLIENTS)]
    parts += [load.client(server, number, Host(f"127.0.2.{number + 1}")) for server, number in numbers]
    ports = [server.port for server in servers]
    await _recorded(given, load, servers, parts, lambda: [Recorder.of_loopback(given.folder / "capture.pcap", ports)])
    return PipelineConf()


async def _on_a_network(given: argparse.Namespace) -> PipelineConf:
    """Record name servers under a load that comes over a network; return what is to be said of them."""
    net = network.Network(given.seed)
    try:
        load = Load(given.seed, time.time() + given.seconds, given.odd, network.NAMES, network.TOPICS)
        router = net.start(given.lost)
        servers = _servers(given, load, addresses=network.SERVERS, namespace=net.servers)
        direct, behind, ipv6 = net.hosts("direct"), net.hosts("behind"), net.hosts("direct", over_ipv6=True)
        hosts = [*direct, *behind, *ipv6]
        brokers = [Broker(load, number, hosts[number % len(hosts)]) for number in range(2 * len(load.names))]
        parts = [load.broker(broker, server) for broker in brokers for server in servers]
        for at, server in enumerate(servers):
            some = (direct[0], direct[1], behind[0], behind[1], ipv6[0])
            parts += [load.client(server, 10 * n + at, host) for n, host in enumerate(some)]
        strangers = Strangers(load, hosts)
        parts += [strangers.knock(server) for server in servers]
        parts += [] if given.calm else [network.cuts(load, router)]
        await _recorded(given, load, servers, parts, lambda: net.recorders(given.folder))
        sys.stdout.write(f"strangers: {dict(sorted(strangers.knocks.items()))}\n")
        return conf_of(servers)
    finally:
        net.remove()


def conf_of(servers: Sequence[NameServer]) -> PipelineConf:
    """Return the configuration that says which addresses are one process, and when connections are idle.

    Where a fleet is cut off no packet shows that its connections were closed, and the limit may be below the default.
    """
    said = {}
    for server in servers:
        name, *others = (f"[{one}]:{server.port}" if ":" in one else f"{one}:{server.port}" for one in server.addresses)
        said[name] = NamesrvConf(addresses=(*others,), settings={"channel_max_idle_ms": server.idle_ms})
    return PipelineConf(namesrvs=said)


def _servers(given: argparse.Namespace, load: Load, **where: Any) -> list[NameServer]:
    first = _PORTS + given.seed % 500 * 20
    return [
        NameServer(given.folder / f"namesrv-{port}", port, version, random_conf(load.chance, version), **where)
        for port, version in enumerate(given.releases, first)
    ]


async def _recorded(
    given: argparse.Namespace,
    load: Load,
    servers: Sequence[NameServer],
    parts: Sequence[Part],
    recorders: Callable[[], list[Recorder]],
) -> None:
    """Record while `parts` go on, and what happens to the name servers."""
    recording = asyncio.create_task(_recording(recorders, given.seconds / 3 * given.late))
    try:
        accidents = [] if given.calm else [load.accidents(server) for server in servers]
        await asyncio.gather(*parts, *accidents)
    finally:
        for server in servers:
            server.end(signal.SIGKILL)
    await asyncio.sleep(1)
    for recorder in recording.result():
        recorder.finish()


async def _recording(recorders: Callable[[], list[Recorder]], after_s: float) -> list[Recorder]:
    await asyncio.sleep(after_s)
    started = recorders()
    for recorder in started:
        recorder.start()
    return started


if __name__ == "__main__":
    sys.exit(main())
