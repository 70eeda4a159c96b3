"""`record --listen` as a process of its own, and a client of a few lines that speaks both serializations."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from namesrv_wire.protocol.frames import JSON, ROCKETMQ, Frame, decode_frame
from tests.places import CHECKOUT
from tests.wire.forge import binary_header, frame, request


class Recording:
    """A process that records. `said`: what it has said once it has ended."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.folder, self.port, self.said = folder, port or free_port(), ""
        words = (
            str(CHECKOUT / "spark-submit.sh"),
            "record",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--output",
            str(folder),
        )
        self.process = subprocess.Popen([*words, *options], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "listening on" in line:
                break

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal; return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends; return its exit code."""
        assert self.process.stderr is not None
        self.said += self.process.stderr.read()
        self.process.stderr.close()
        return self.process.wait()


@contextlib.contextmanager
def recording(folder: Path, *options: str, port: int | None = None) -> Iterator[Recording]:
    """Record within a block, which ends with SIGTERM."""
    made = Recording(folder, *options, port=port)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            assert made.end() == 0, made.said


class Answered(NamedTuple):
    """An answer: its bytes, and what they say."""

    raw: bytes
    frame: Frame


class Client:
    """One connection to a name server."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 20, (source, 0))
        self._opaque = 0

    def send(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 493,
        serialization: int = JSON,
        one_way: bool = False,
    ) -> None:
        """Send a request."""
        self._opaque += 1
        flag = 2 * one_way
        if serialization == ROCKETMQ:
            fields = [(key.encode(), value.encode()) for key, value in (ext or {}).items()]
            header = binary_header(code, fields, opaque=self._opaque, version=version, flag=flag)
            self.socket.sendall(frame(header, body, ROCKETMQ))
        else:
            self.socket.sendall(request(code, ext, body, opaque=self._opaque, version=version, flag=flag))

    def receive(self) -> Answered | None:
        """Return the next answer; None: the connection is at its end."""
        head = self._exactly(4)
        if head is None:
            return None
        rest = self._exactly(struct.unpack(">i", head)[0])
        return None if rest is None else Answered(head + rest, decode_frame(head + rest))

    def ask(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", **more: int) -> Answered:
        """Return the answer to a request."""
        self.send(code, ext, body, **more)  # type: ignore[arg-type]
        answered = self.receive()
        assert answered is not None
        assert answered.frame.opaque == self._opaque
        return answered

    def close(self) -> None:
        """End it with a FIN."""
        self.socket.close()

    def reset(self) -> None:
        """End it with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _exactly(self, size: int) -> bytes | None:
        found = bytearray()
        while len(found) < size:
            try:
                more = self.socket.recv(min(1 << 16, size - len(found)))
            except ConnectionError:
                return None
            if not more:
                return None
            found += more
        return bytes(found)


def free_port(*beside: int) -> int:
    """Return a port that nobody listens at, nor at those so many ports beside it.

    None is one that the system gives to connections: one of these may have taken it before a server does.
    """
    while True:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as bound:
            for each in (0, *beside):
                bound.enter_context(socket.create_server(("127.0.0.1", port + each)))
            return port
