"""The recorder of real name servers records what TCP does, and nothing else."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from namesrv_wire.packets.capture import FIN, SYN
from namesrv_wire.packets.columns import read_capture
from tests.oracle.live.recorder import Recorder


def test_packets_of_a_port_are_recorded_once_and_in_order(tmp_path: Path) -> None:
    """A connection to the port that is asked for, and not the one beside it; both its ends, and its bytes."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [server.getsockname()[1] for server in servers]
    try:
        recorder = Recorder.of_loopback(tmp_path / "capture.pcap", ports[:1])
    except (PermissionError, AttributeError):
        pytest.skip("needs Linux, and the right to open a packet socket")
    recorder.start()
    for server, port in zip(servers, ports, strict=True):
        answering = threading.Thread(target=answer, args=(server,))
        answering.start()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"ask")
            assert client.recv(16) == b"answer"
        answering.join()
        server.close()
    recorder.finish()
    segments = list(read_capture(tmp_path / "capture.pcap"))
    assert {end for one in segments for end in (one.src, one.dst)} & {f"127.0.0.1:{ports[1]}"} == set()
    assert [one.payload for one in segments if one.payload] == [b"ask", b"answer"]
    assert sum(bool(one.flags & SYN) for one in segments) == 2
    assert sum(bool(one.flags & FIN) for one in segments) == 2
    assert [one.time_ns for one in segments] == sorted(one.time_ns for one in segments)


def answer(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(16)
        connection.sendall(b"answer")
        connection.recv(16)
