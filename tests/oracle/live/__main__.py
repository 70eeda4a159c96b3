"""Record real name servers under a random load, and replay the recording: `python -m tests.oracle.live FOLDER --seed 7`.

One of 4.9.7 and two of 5.4.0, with brokers and clients that do at random what such do, restarts and freezes. Needs Linux, Java, the
right to open a packet socket (root), and a network the first time. Exit codes: 0 every answer is explained; 1 some are not, see
FOLDER/warehouse; 2 usage, or something is missing. FOLDER/capture.pcap is the recording; it must not exist.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.night.nights import night
from tests.oracle.jvm import JvmUnavailableError
from tests.oracle.live.load import NAMES, Broker, Load
from tests.oracle.live.namesrv import NameServer, random_conf
from tests.oracle.live.recorder import Recorder

_PORTS, _VERSIONS, _CLIENTS = 20_000, ("4.9.7", "5.4.0", "5.4.0"), 3


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
    parser.add_argument("--calm", action="store_true", help="nothing happens to the name servers")
    parser.add_argument(
        "--late", action="store_true", help="record from a third of the time on, in the middle of their lives"
    )
    given = parser.parse_args(argv)
    try:
        given.folder.mkdir(parents=True)
        recorded = asyncio.run(record(given))
    except (PermissionError, FileExistsError, JvmUnavailableError) as error:
        sys.stderr.write(f"namesrv-history: {error}\n")
        return 2
    said = night(given.folder / "warehouse", recorded)
    sys.stdout.write(f"{said.verify}\n")
    return 1 if said.verify["mismatched"] else 0


async def record(given: argparse.Namespace) -> Path:
    """Record name servers under a load; return the capture."""
    load = Load(given.seed, time.time() + given.seconds, given.odd)
    ports = [_PORTS + given.seed % 500 * 20 + number for number in range(len(_VERSIONS))]
    path: Path = given.folder / "capture.pcap"
    recorder = asyncio.create_task(_recording(path, ports, given.seconds / 3 * given.late))
    servers = [
        NameServer(given.folder / f"namesrv-{port}", port, version, random_conf(load.chance, version))
        for port, version in zip(ports, _VERSIONS, strict=True)
    ]
    try:
        brokers = [Broker(load.chance, number) for number in range(2 * len(NAMES))]
        parts = [load.broker(broker, server) for broker in brokers for server in servers]
        parts += [load.client(server, 10 * n + at) for at, server in enumerate(servers) for n in range(_CLIENTS)]
        parts += [] if given.calm else [load.accidents(server) for server in servers]
        await asyncio.gather(*parts)
    finally:
        for server in servers:
            server.end(signal.SIGKILL)
    await asyncio.sleep(1)
    recorder.result().finish()
    return path


async def _recording(path: Path, ports: Sequence[int], after_s: float) -> Recorder:
    await asyncio.sleep(after_s)
    recorder = Recorder(path, ports)
    recorder.start()
    return recorder


if __name__ == "__main__":
    sys.exit(main())
