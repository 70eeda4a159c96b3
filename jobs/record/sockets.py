"""`record --listen`: be a name server that writes down all that it is asked and answers. Its sockets, and its event log's files.

No peer can take more than its share: of frames, connections, memory and time there are limits (`Limits`), and whoever reaches one
loses its own connection.

Source: RocketMQ 4.9.7 and 5.3.3 NettyRemotingServer, NettyDecoder, NettyConnectManageHandler.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import os
import resource
import signal
import time
from collections import Counter, OrderedDict
from pathlib import Path
from typing import NamedTuple

from jobs.errors import EXIT_OK, UsageError
from jobs.record.properties import properties_of
from jobs.record.segments import Segment, finish_left_over, left_over, make_folder, say
from jobs.record.service import Channel, Service, kv_entries_in, kv_events_in, write_kv
from namesrv_core.machine.profile import profile_named
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.errors import MAX_LENGTH, MIB, DecodeError
from namesrv_wire.packets.segments import address_of

_FRAMES_AT_ONCE = 64
_KV_FILE = ".kvConfig.json"
_SAY_AGAIN_S = 60.0
_WHY = {
    "connections": "no more than {0:,} at once (--connections)",
    "memory": "more waited than {1:,} bytes (--memory)",
    "time": "half a frame, or an answer that was not taken, for {2:g} s",
    "frame length": "a length that no frame has",
    "no frame": "what they sent is no frame",
}


class Limits(NamedTuple):
    """What a peer may take. `memory`: bytes that wait in all connections together, to be read or to be taken by their peers.

    `frame_s`: for so long a frame may come in, and a peer may not read. `pending`: so many bytes of
    answers wait for a peer before no more is read from it.
    """

    connections: int = 10_000
    memory: int = 256 * MIB
    frame_s: float = 60
    pending: int = 64 << 10


class Peer(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport
    channel: Channel

    def __init__(self, server: Server) -> None:
        self._server = server
        self.waiting = bytearray()
        """What has come in and is not worked off."""
        self.last = self._frame_since = time.monotonic()
        self.answers = 0
        """Bytes of answers that wait for the file."""
        self.closed_by = "client"
        self.kinds: tuple[str, ...] = ("close",)
        self.slow_since: float | None = None
        self.slow_bytes = 0
        self._is_stopped = self._goes_on = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=self._server.limits.pending)
        remote = address_of(*transport.get_extra_info("peername")[:2])
        self.channel = Channel(f"{remote}#{time.time_ns()}", remote)
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        """Work off what came in."""
        if self.transport.is_closing():
            return
        self.note_activity()
        if not self.waiting:
            self._frame_since = self.last
        self.waiting += data
        self._server.held += len(data)
        self.work()
        self._server.relieve()

    def note_activity(self) -> None:
        """Note that something came in or went out."""
        self.last = time.monotonic()
        if self.channel.id in self._server.peers:
            self._server.peers.move_to_end(self.channel.id)

    def work(self) -> None:
        """Answer whole frames, a few at a time, as long as the peer takes the answers."""
        self._goes_on = False
        at, waiting, count = 0, self.waiting, 0
        while len(waiting) - at >= 4 and not self.transport.is_closing():
            length = int.from_bytes(waiting[at : at + 4], "big", signed=True)
            if not 4 <= length <= MAX_LENGTH:
                self._server.drop(self, "frame length")
                break
            if len(waiting) - at < 4 + length:
                break
            if count == _FRAMES_AT_ONCE or self.slow_since is not None or self.answers > self._server.limits.pending:
                self._goes_on = True
                break
            data, at, count = bytes(waiting[at : at + 4 + length]), at + 4 + length, count + 1
            self._frame_since = self.last
            self._server.take(self, data)
        del waiting[:at]
        self._server.held -= at
        if self._goes_on != self._is_stopped and not self.transport.is_closing():
            self._is_stopped = self._goes_on
            (self.transport.pause_reading if self._goes_on else self.transport.resume_reading)()
        if self._goes_on and self.slow_since is None and not self.answers:
            asyncio.get_running_loop().call_soon(self.go_on)

    def go_on(self) -> None:
        """Work off what was left."""
        if self._goes_on and self.slow_since is None and not self.transport.is_closing():
            self.work()

    def is_late(self, now: float) -> bool:
        """Return whether half a frame waits for too long, or the peer does not read."""
        since = self.slow_since if self.slow_since is not None else self._frame_since if self.waiting else now
        return now - since > self._server.limits.frame_s

    def end(self) -> None:
        """End it, at once if it does not read."""
        (self.transport.abort if self.transport.get_write_buffer_size() else self.transport.close)()

    def pause_writing(self) -> None:
        """Note that the peer does not take its answers."""
        self.slow_since, self.slow_bytes = time.monotonic(), self.transport.get_write_buffer_size()
        self._server.slow[self.channel.id] = self
        self._server.slow_bytes += self.slow_bytes

    def resume_writing(self) -> None:
        """Go on, as the peer has taken them."""
        self.slow_since = None
        self._server.forget_slow(self)
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end."""
        if error is not None and self.closed_by == "client":
            self.kinds = ("exception", "close")
        self._server.held -= len(self.waiting)
        self.waiting.clear()
        self._server.closed(self)


class Server:
    """The sockets and the files."""

    def __init__(self, service: Service, folder: Path, of: str, kv_path: Path, limits: Limits, files: Files) -> None:
        self.limits, self.held = limits, 0
        self.peers: OrderedDict[str, Peer] = OrderedDict()
        """By the id of their channels; who was silent for longest is first."""
        self.slow, self.slow_bytes = OrderedDict[str, Peer](), 0
        """Those that do not take their answers, and how much waits for them."""
        self.failure = asyncio.get_running_loop().create_future()
        self._service, self._folder, self._of, self._kv_path, self._files = service, folder, of, kv_path, files
        self._segment = Segment(folder, of)
        self._segment_until = time.monotonic() + files.rotate_s
        self._idle_s = (service.namesrv.config.channel_max_idle_ms or 1 << 40) / 1_000
        self._out: list[tuple[Peer, bytes]] = []
        self._is_due = self._is_unsynced = False
        self._dropped: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- connections ---------------------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        """Take a connection, if there is room."""
        if len(self.peers) >= self.limits.connections:
            self._dropped["connections"] += 1
            peer.transport.abort()
            return
        self.peers[peer.channel.id] = peer

    def closed(self, peer: Peer) -> None:
        """Note that a connection is over."""
        self.forget_slow(peer)
        if self.peers.pop(peer.channel.id, None) is not None:
            self._service.ended(peer.channel, peer.kinds, peer.closed_by, int(1_000 * (time.monotonic() - peer.last)))
            self.soon()

    def forget_slow(self, peer: Peer) -> None:
        """Note that a peer has taken its answers, or never will."""
        if self.slow.pop(peer.channel.id, None) is not None:
            self.slow_bytes -= peer.slow_bytes

    def drop(self, peer: Peer, why: str) -> None:
        """End a connection that has reached a limit."""
        if not peer.transport.is_closing():
            self._dropped[why] += 1
            peer.closed_by = "namesrv"
            peer.transport.abort()

    def relieve(self) -> None:
        """End connections as long as too much waits, those first of which most does."""
        while self.held > self.limits.memory and self.peers:
            peer = max(self.peers.values(), key=lambda each: len(each.waiting))
            self.drop(peer, "memory")
            self.held -= len(peer.waiting)
            peer.waiting.clear()

    def take(self, peer: Peer, data: bytes) -> None:
        """Answer a frame, once what it says is written."""
        try:
            answer = self._service.take(data, peer.channel)
        except DecodeError:
            self.drop(peer, "no frame")
            return
        if answer is not None:
            peer.answers += len(answer)
            self._out.append((peer, answer))
        self.soon()

    def soon(self) -> None:
        """Have written what happened, together with all else that happens now."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write what happened, and then let answers leave."""
        self._is_due, service = False, self._service
        try:
            self.keep()
        except OSError as error:  # what is not written is not answered
            if not self.failure.done():
                self.failure.set_exception(error)
            return
        for channel_id in service.closing:
            peer = self.peers.pop(channel_id, None)  # that it ends is written already
            if peer is not None:
                peer.end()
        service.closing.clear()
        out, self._out = self._out, []
        for peer, answer in out:
            peer.answers -= len(answer)
            if not peer.transport.is_closing():
                peer.transport.write(answer)
                peer.note_activity()
        for to, data in service.notifications:
            task = asyncio.ensure_future(_notify(to, data))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        service.notifications.clear()
        for peer in dict.fromkeys(peer for peer, _ in out):
            peer.go_on()
        while self.slow and self.slow_bytes > self.limits.memory:
            peer = next(iter(self.slow.values()))
            self.forget_slow(peer)
            self.drop(peer, "memory")

    def keep(self) -> None:
        """Write what happened. Raises OSError."""
        service, segment = self._service, self._segment
        if service.lines:
            segment.write(*service.lines)
            service.lines.clear()
        if service.is_event:
            service.is_event, self._is_unsynced = False, True
            if self._files.sync_s is None:
                segment.sync()
                self._is_unsynced = False
        if service.kv_text is not None:
            write_kv(self._kv_path, service.kv_text, is_synced=self._files.sync_s is None)
            service.kv_text = None

    # -- time ----------------------------------------------------------------------------------------------------------

    async def scans(self) -> None:
        """Run scans, for ever."""
        while True:
            wait_s = self._service.pass_time()
            if self._service.lines:
                self.soon()
            await asyncio.sleep(wait_s)

    async def silences(self) -> None:
        """Close connections that are silent, or late with what they began, for ever."""
        looked_at = 0.0
        while True:
            now = time.monotonic()
            for peer in list(self.peers.values()):
                if now - peer.last < self._idle_s:
                    break
                peer.closed_by, peer.kinds = "namesrv", ("idle", "close")
                peer.end()
            if now >= looked_at + 1:
                looked_at = now
                for peer in [each for each in self.peers.values() if each.is_late(now)]:
                    self.drop(peer, "time")
            first = next(iter(self.peers.values()), None)
            await asyncio.sleep(min(1.0, max(0.01, first.last + self._idle_s - now)) if first else 1.0)

    async def files(self) -> None:
        """Begin new files, sync the one at hand, and print notes, for ever."""
        noted_at = 0.0
        while True:
            await asyncio.sleep(self._files.sync_s or 1.0)
            if self._is_unsynced:
                self._is_unsynced = False
                await asyncio.to_thread(self._segment.sync)
            if time.monotonic() >= self._segment_until or self._segment.bytes >= self._files.rotate_bytes:
                done, self._segment = self._segment, Segment(self._folder, self._of)
                self._segment_until = time.monotonic() + self._files.rotate_s
                await asyncio.to_thread(done.finish)
            if time.monotonic() >= noted_at and (self._dropped or self._service.notes):
                noted_at = time.monotonic() + _SAY_AGAIN_S
                self._say_dropped()
                for sentence in self._service.notes[:10]:
                    say(sentence)
            del self._service.notes[10:]
            if time.monotonic() < noted_at:
                self._service.notes.clear()

    def _say_dropped(self) -> None:
        for why, count in sorted(self._dropped.items()):
            say(f"{count:,} connections were closed: {_WHY[why].format(*self.limits)}")
        self._dropped.clear()

    def finish(self) -> None:
        """End: all is written and printed, and the connections are closed."""
        self._say_dropped()
        for peer in self.peers.values():
            peer.transport.abort()
        self.peers.clear()
        self._service.stop()
        self.keep()
        self._segment.sync()
        self._segment.finish()


class Files(NamedTuple):
    """How files are written: a new one after so many seconds or bytes; synced every so many seconds, None: before each answer."""

    rotate_s: float = 3_600
    rotate_bytes: int = 256 * MIB
    sync_s: float | None = 1.0


async def _notify(to: str, data: bytes) -> None:
    """Tell a broker something, if it can be reached."""
    host, _, port = to.rpartition(":")
    with contextlib.suppress(OSError, ValueError, OverflowError, asyncio.TimeoutError):
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), 3)
        writer.write(data)
        await asyncio.wait_for(writer.drain(), 3)
        writer.close()


# -- from its options to its end ---------------------------------------------------------------------------------------


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
    here, named = _ip_of(host), _ip_of(name[0])
    if host != "localhost" and not (here and here.is_loopback):
        say(f"{host} is not this machine's own: whoever reaches it may register brokers, and delete topics")
    if named and named.is_unspecified:
        raise UsageError(f"--listen {host}: say by --name host:port where brokers find it")
    config = None if arguments.config is None else Path(arguments.config)
    properties = properties_of(profile, config, (host, port), folder / _KV_FILE)
    for sentence in properties.notes:
        say(sentence)
    of = address_of(*name)
    service = Service(properties, version, of, 0 if arguments.answers == "all" else 60)
    return asyncio.run(_serve(service, properties.kv_path, of, arguments))


async def _serve(service: Service, kv_path: Path, of: str, arguments: argparse.Namespace) -> int:
    folder, (host, port) = Path(arguments.output), arguments.listen
    limits = Limits(arguments.connections, arguments.memory * MIB)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = limits.connections + 256
    if wanted > most != resource.RLIM_INFINITY:
        raise UsageError(f"--connections {limits.connections:,}: this process may open {most:,} files (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), most))
    server: Server  # there when it begins to serve
    try:
        listening = await loop.create_server(lambda: Peer(server), host, port, backlog=1_024, start_serving=False)
    except OSError as error:
        raise UsageError(f"--listen {host}:{port}: {os.strerror(error.errno or 0).lower()}") from error
    try:
        entries, namespaces = kv_entries_in(kv_path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{kv_path}: {error}") from error
    for path in left_over(folder, of):  # what a process that was killed has written here, and maybe not there
        with path.open("rb") as lines:
            entries += kv_events_in(lines)
    server = Server(service, folder, of, kv_path, limits, Files(arguments.rotate, sync_s=arguments.sync))
    service.start(entries, namespaces)
    server.keep()
    finish_left_over(folder, of)
    await listening.start_serving()
    say(f"listening on {host}:{port} as {of}, a {service.namesrv.profile.name}; it writes to {folder}")
    tasks = [asyncio.ensure_future(each) for each in (server.scans(), server.silences(), server.files())]
    stopped = asyncio.ensure_future(stop.wait())
    ends = [stopped, server.failure, *tasks]
    try:
        await asyncio.wait(ends, timeout=arguments.for_s, return_when=asyncio.FIRST_COMPLETED)
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


def _ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None
