"""`record --listen`: be a name server that records its own life, from its options to its end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import os
import resource
import signal
from pathlib import Path

from jobs.errors import EXIT_OK, UsageError
from jobs.record.properties import properties_of
from jobs.record.segments import finish_left_over, left_over, make_folder, say
from jobs.record.service import Service, kv_entries_in, kv_events_in
from jobs.record.sockets import Files, Limits, Peer, Server
from namesrv_core.machine.profile import profile_named
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.limits import MIB
from namesrv_wire.packets.capture import address_of

_KV_FILE = ".kvConfig.json"


def record(arguments: argparse.Namespace) -> int:
    """Be a name server until a signal, or for a time; return the exit code. Raises UsageError."""
    folder, (host, port) = Path(arguments.output), arguments.listen
    name = arguments.name or (host, port)
    try:
        profile = profile_named(arguments.profile)
        version = VERSION_NAMES.index(arguments.profile)
    except ValueError:
        raise UsageError(f"profile {arguments.profile}: a release of RocketMQ expected, as 4.9.7 or 5.4.0") from None
    make_folder(folder)
    if not _is_loopback(host):
        say(f"{host} is not this machine's own: whoever reaches it may register brokers, and delete topics")
    if _is_any(name[0]):
        raise UsageError(f"--listen {host}: say by --name host:port where brokers find it")
    config = None if arguments.config is None else Path(arguments.config)
    properties = properties_of(profile, config, (host, port), folder / _KV_FILE)
    for sentence in properties.said:
        say(sentence)
    of = address_of(*name)
    service = Service(properties, version, of, 0 if arguments.answers == "all" else 60)
    limits = Limits(arguments.connections, arguments.memory * MIB)
    files = Files(arguments.rotate, sync_s=arguments.sync)
    return asyncio.run(_serve(service, properties.kv_path, (folder, of, host, port), limits, files, arguments.for_s))


async def _serve(
    service: Service,
    kv_path: Path,
    place: tuple[Path, str, str, int],
    limits: Limits,
    files: Files,
    for_s: float | None,
) -> int:
    folder, of, host, port = place
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = limits.connections + 256
    if wanted > most != resource.RLIM_INFINITY:
        raise UsageError(f"--connections {limits.connections:,}: this process may open {most:,} files (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), most))
    server: Server | None = None

    def accepted() -> Peer:
        assert server is not None
        return Peer(server)

    try:
        listening = await loop.create_server(accepted, host, port, backlog=1_024, start_serving=False)
    except OSError as error:
        raise UsageError(f"--listen {host}:{port}: {os.strerror(error.errno or 0).lower()}") from error
    try:
        entries, namespaces = kv_entries_in(kv_path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{kv_path}: {error}") from error
    for path in left_over(folder, of):  # what a process that was killed has written here, and maybe not there
        with path.open("rb") as lines:
            entries += kv_events_in(lines)
    server = Server(service, folder, of, kv_path, limits, files)
    service.start(entries, namespaces)
    server.keep()
    for sentence in finish_left_over(folder, of):
        say(sentence)
    await listening.start_serving()
    say(f"listening on {host}:{port} as {of}, a {service.namesrv.profile.name}; it writes to {folder}")
    tasks = [asyncio.ensure_future(each) for each in (server.scans(), server.silences(), server.files())]
    stopped = asyncio.ensure_future(stop.wait())
    ends = [stopped, server.failure, *tasks]
    try:
        await asyncio.wait(ends, timeout=for_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.close()
        for task in ends:
            if task.done() and not task.cancelled() and task.exception() is not None:
                failed = task.exception()
                if isinstance(failed, OSError):
                    raise OSError(failed.errno, failed.strerror, str(folder)) from failed
                raise failed or RuntimeError
            task.cancel()
    server.finish()
    return EXIT_OK


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _is_any(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False
