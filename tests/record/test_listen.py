"""`record --listen`: a name server for whoever asks, whose recording a night verifies, whatever peers do and however it ends."""

from __future__ import annotations

import gzip
import json
import random
import resource
import signal
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.record.properties import properties_of
from jobs.record.service import Channel, Service
from namesrv_core import V5_4_0
from namesrv_core.machine import events
from namesrv_wire.protocol.frames import JSON, ROCKETMQ, decode_frame
from schemas import bronze, gold
from tests.night.nights import night, rows
from tests.oracle.live.looks import differences
from tests.oracle.live.recorder import Recorder
from tests.record.recording import Client, Recording, free_port, recording
from tests.wire.forge import compressed_body, register_json, request

_QUICK = "serverChannelMaxIdleTimeSeconds=1\nscanNotActiveBrokerInterval=500\norderMessageEnable=true\n"


def broker(name: str, number: int = 0, **more: str) -> dict[str, str]:
    """Return the header fields of a broker."""
    addr = f"10.0.0.{ord(name[-1]) - 90}:{10_911 + number}"
    return {"clusterName": "C", "brokerName": name, "brokerAddr": addr, "brokerId": str(number), **more}


def lines_in(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the finished files."""
    files = sorted(folder.glob("*.jsonl.gz"))
    return [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]


def _life(client: Client, version: int, serialization: int) -> int:
    """Ask for whatever there is, in an order in which most of it does something; return how many questions those were."""
    more: dict[str, Any] = {"version": version, "serialization": serialization}
    topics = register_json({"T": 4, "U": 4})
    assert client.ask(103, broker("broker-a", haServerAddr="10.0.0.7:10912"), topics, **more).frame.code == 0
    slave = client.ask(103, broker("broker-a", 1, enableActingMaster="true"), topics, **more).frame
    assert slave.ext == {"masterAddr": "10.0.0.7:10911", "haServerAddr": "10.0.0.7:10912"}
    if version < 413:
        packed = compressed_body([b"V 8 8 6 SINGLE_TAG", b"W 8 8 6 SINGLE_TAG"])
        assert client.ask(103, broker("broker-c", compressed="true"), packed, **more).frame.code == 0
    client.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}, **more)
    route = client.ask(105, {"topic": "T", "acceptStandardJsonOnly": "true"}, **more).frame
    assert json.loads(route.body)["orderTopicConf"] == "broker-a:4"
    assert client.ask(105, {"topic": "X"}, **more).frame.code == 17
    assert client.ask(205, broker("broker-a"), **more).frame.ext == {"wipeTopicCount": "2"}
    client.ask(105, {"topic": "U"}, **more)
    assert client.ask(327, broker("broker-a"), **more).frame.ext == {"addTopicCount": "2"}
    query = client.ask(322, broker("broker-a"), b'{"counter":1,"stateVersion":0,"timestamp":5}', **more).frame
    assert query.ext == {"changed": "false"}
    asked = [(106, {}), (206, {}), (224, {"cluster": "C"}), (304, {}), (311, {}), (312, {}), (313, {})]
    asked += [(219, {"namespace": "ORDER_TOPIC_CONFIG"}), (101, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"})]
    asked += [(319, {})] + ([(901, broker("broker-a"))] if version > 413 else [])
    for code, ext in asked:
        assert client.ask(code, ext, **more).frame.code == 0, code
    refused = client.ask(318, {}, b"listenPort=1", **more).frame
    assert (refused.code, (refused.remark or "")[:14]) == (16, "Can not update")
    client.ask(216, {"topic": "U"}, **more)
    client.ask(102, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}, **more)
    if version > 413:
        client.send(904, broker("broker-a"), one_way=True, **more)
        queues = [{"brokerName": "broker-a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}]
        client.ask(217, {"topic": "R"}, json.dumps({"queueDatas": queues}).encode(), **more)
        assert client.ask(999, **more).frame.code == 3
    client.ask(105, {"topic": "R"}, **more)
    return 4 + len(asked)


@pytest.mark.slow
@pytest.mark.parametrize(("release", "version", "serialization"), [("4.9.7", 407, ROCKETMQ), ("5.4.0", 493, JSON)])
def test_a_night_verifies_its_recording(release: str, version: int, serialization: int, tmp_path: Path) -> None:
    """All requests, of both serializations; leases end, connections end, are reset and are idle: every answer is explained."""
    (tmp_path / "namesrv.properties").write_text(_QUICK, encoding="utf-8")
    options = ("--profile", release, "--config", str(tmp_path / "namesrv.properties"), "--answers", "all")
    with recording(tmp_path / "out", *options, "--sync", "event") as made:
        client = Client(made.port)
        questions = _life(client, version, serialization)
        more: dict[str, Any] = {"version": version, "serialization": serialization}
        for name, end in (("broker-x", Client.close), ("broker-y", Client.reset), ("broker-z", None)):
            other = Client(made.port)
            lease: dict[str, Any] = {"heartbeatTimeoutMillis": "200"} if name == "broker-z" else {}
            other.ask(103, broker(name, **lease), register_json({f"T-{name}": 4, "S": 1}), **more)
            if end is not None:
                end(other)
        early = night(tmp_path / "w", tmp_path / "out")  # of the file that is being written
        assert (early.verify["mismatched"], early.errors, early.quarantined) == (0, [], 0)
        assert other.receive() is None  # its lease ended, or (4.9.7 has none of its own) it was idle
        Client(made.port).ask(105, {"topic": "S"}, **more)
    said = night(tmp_path / "w", tmp_path / "out")
    assert (said.status, said.verify["mismatched"], said.errors, said.quarantined) == ("published", 0, [], 0)
    told = lines_in(tmp_path / "out")
    observed = [line for line in told if line["kind"] == "observation"]
    assert len(observed) == questions + 1
    assert len(rows(tmp_path / "w", bronze.ROUTE_OBSERVATIONS)) == len(observed)
    assert len(rows(tmp_path / "w", bronze.REGISTRATIONS)) == sum(line["kind"] == "registration" for line in told)
    ended = {row["topic"] for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY) if row["valid_to"]}
    assert ended >= {"T-broker-x", "T-broker-y", "T-broker-z", "U"}


@pytest.mark.slow
def test_it_records_what_packets_show(tmp_path: Path) -> None:
    """A capture of the same connections tells the same histories, and the same answers."""
    port = free_port()
    try:
        packets = Recorder.of_loopback(tmp_path / "capture.pcap", [port])
    except (PermissionError, AttributeError):
        pytest.skip("needs Linux, and the right to open a packet socket")
    packets.start()
    (tmp_path / "namesrv.properties").write_text("orderMessageEnable=true\n", encoding="utf-8")
    with pytest.raises(ConnectionError):  # so that the capture shows its start
        Client(port)
    with recording(tmp_path / "out", "--config", str(tmp_path / "namesrv.properties"), "--answers", "all", port=port):
        client = Client(port)
        _life(client, 493, JSON)
        other = Client(port)
        other.ask(103, broker("broker-x", heartbeatTimeoutMillis="1000"), register_json({"X": 4, "S": 1}))
        other.ask(103, broker("broker-y"), register_json({"Y": 4, "S": 1}))
        client.reset()
        assert other.receive() is None
        Client(port).ask(105, {"topic": "S"})
    packets.finish()
    said = [night(tmp_path / name, tmp_path / source) for name, source in (("w", "out"), ("p", "capture.pcap"))]
    assert [each.verify["mismatched"] for each in said] == [0, 0]
    assert said[0].observations == said[1].observations
    assert differences(tmp_path / "w", tmp_path / "p") == []


@pytest.mark.slow
def test_what_was_acknowledged_outlives_it(tmp_path: Path) -> None:
    """Killed at random instants while brokers register and entries are put; half a line at the end is cut, and said."""
    chance, port, acknowledged = random.Random(7), free_port(), list[str]()
    for number in range(4):
        made = Recording(tmp_path / "out", port=port)
        assert ("cut" in made.said) == (number > 0), made.said
        client, until = Client(port), time.monotonic() + chance.uniform(0.05, 0.3)

        def work(client: Client = client, number: int = number) -> None:
            for turn in range(100_000):
                name = f"T{number}-{turn}"
                try:
                    client.ask(
                        103, broker("broker-a"), register_json({name: 4, "S": 4}, dataVersion={"timestamp": turn})
                    )
                    client.ask(100, {"namespace": "N", "key": name, "value": "v"})
                except (AssertionError, OSError):
                    return
                acknowledged.append(name)

        working = threading.Thread(target=work)
        working.start()
        time.sleep(max(0.0, until - time.monotonic()))
        made.end(signal.SIGKILL)
        working.join()
        [live] = (tmp_path / "out").glob(".*.jsonl")
        with live.open("ab") as file:
            file.write(b"\0\0\0\n" if number % 2 else b'{"schema":"namesrv-ev')
    with recording(tmp_path / "out", "--profile", "5.4.0", port=port) as again:
        client = Client(again.port)
        told = json.loads(client.ask(219, {"namespace": "N"}).frame.body)["table"]
        assert told.keys() >= set(acknowledged)
    said = night(tmp_path / "w", tmp_path / "out")
    assert (said.verify["mismatched"], said.errors, said.quarantined) == (0, [], 0)
    history = rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY)
    assert {row["topic"] for row in history} >= set(acknowledged)
    assert len(acknowledged) > 20


@pytest.mark.slow
def test_peers_that_take_too_much_lose_their_own_connection(tmp_path: Path) -> None:
    """Lengths that lie, half frames, 10,000 connections, one that reads nothing: others are answered all the while."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if min(files[1] if files[1] != resource.RLIM_INFINITY else 1 << 20, 28_000) < 10_500:
        pytest.skip(f"needs 10,500 open files, {files[1]:,} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files[0], 10_500), files[1]))
    options = ("--connections", "8000", "--memory", "32")
    with recording(tmp_path / "out", *options) as made:
        good = Client(made.port)
        topics = {f"a-topic-with-a-rather-long-name-{n}": 4 for n in range(400)}
        good.ask(103, broker("broker-a"), register_json(topics))
        for lie in (-1, 0, 3, 1 << 24, 0x47455420, 0x7FFFFFFF):
            liar = Client(made.port)
            liar.socket.sendall(struct.pack(">i", lie) + b"x" * 100)
            assert liar.receive() is None, lie
        for header in (b"\0\0\0\x64{", b"\x07\0\0\x02{}", b"\0\0\0\x02[]", b"\x01\0\0\x04abcd"):
            liar = Client(made.port)
            liar.socket.sendall(struct.pack(">i", len(header)) + header)
            assert liar.receive() is None, header
        hogs = [Client(made.port) for _ in range(4)]
        for hog in hogs:  # 14 MiB of 15 each
            hog.socket.settimeout(5)
            try:
                hog.socket.sendall(struct.pack(">i", 15 << 20) + bytes(14 << 20))
            except OSError:
                hog.close()
        deaf = Client(made.port)
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.socket.settimeout(0.2)
        sent = 0
        while sent < 200_000:
            try:
                deaf.send(206)
            except OSError:
                break
            sent += 1
        assert sent < 200_000
        crowd = [Client(made.port) for _ in range(10_000)]
        good.socket.settimeout(5)
        for _ in range(20):
            assert good.ask(105, {"topic": "a-topic-with-a-rather-long-name-7"}).frame.code == 0
        refused = 0
        for one in crowd:
            one.socket.setblocking(False)
            try:
                refused += one.receive() is None
            except BlockingIOError:
                continue
        assert 2_000 <= refused <= 2_010
        for one in crowd[:8_000:1_000]:
            one.socket.settimeout(5)
            assert one.ask(106).frame.code == 0
        for one in crowd:
            one.close()
        peak_kib = int((Path(f"/proc/{made.process.pid}/status").read_text().partition("VmHWM:")[2]).split()[0])
        assert peak_kib < 400 << 10
    assert "connections were closed: no more than 8,000 at once (--connections)" in made.said
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert night(tmp_path / "w", tmp_path / "out").verify["mismatched"] == 0


def test_properties_of_its_file_hold(tmp_path: Path) -> None:
    """Nobody is told a route before its time; brokers are told who is the smallest; an equal answer is written once a minute."""
    text = "needWaitForService=true\nwaitSecondsForService=1\nnotifyMinBrokerIdChanged=true\nscanNotActiveBrokerInterval=x\n"
    (tmp_path / "p").write_text(text, encoding="utf-8")
    found = properties_of(V5_4_0, tmp_path / "p", ("127.0.0.1", 9_876), tmp_path / "kv")
    assert ["is no number" in said for said in found.notes] == [True]
    service, channel = Service(found, 493, "127.0.0.1:9876", 60), Channel("10.0.0.9:1#1", "10.0.0.9:1")
    service.start([events.PutKvConfig("N", "k", "v")], ["N", "E"])
    for number in (1, 0):
        service.take(request(103, broker("broker-a", number), register_json({"T": 4, "U": 4})), channel)
    [(to, told)] = service.notifications
    assert (to, decode_frame(told).ext["minBrokerId"], decode_frame(told).code) == ("10.0.0.7:10912", "0", 905)
    early = service.take(request(105, {"topic": "T"}), channel) or b""
    assert (decode_frame(early).code, decode_frame(early).remark) == (1, "name server not ready")
    time.sleep(1.0)
    service.lines.clear()
    for topic in "TTUTT":
        assert decode_frame(service.take(request(105, {"topic": topic}), channel) or b"").code == 0
    assert [json.loads(line)["subject"] for line in service.lines] == ["T", "U"]
    service.take(request(205, broker("broker-a")), channel)
    service.take(request(105, {"topic": "T"}), channel)
    assert [json.loads(line)["kind"] for line in service.lines[2:]] == ["admin", "observation"]


def test_it_says_what_is_not_as_it_should_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other machines reach it; a port that is taken; properties of another release, and those that change nothing."""
    (tmp_path / "p").write_text(
        "serverSelectorThreads=7\nsupportActingMaster=true\nfoo=1\nlistenPort=1\n", encoding="utf-8"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["record", "--output", str(tmp_path / "o"), "--listen", f"127.0.0.1:{port}"]
        assert main([*words, "--profile", "4.9.7", "--config", str(tmp_path / "p")]) == 2
    said = capsys.readouterr().err
    for part in (
        "Threads changes nothing",
        "supportActingMaster is none of 4.9.7",
        "foo is none",
        "listenPort=1 is not",
    ):
        assert part in said
    assert "address already in use" in said
    for more, why in (
        (("--listen", "0.0.0.0:1"), "--name host:port"),
        (("--listen", "127.0.0.1:1", "--profile", "6.0"), "a release"),
        (("--listen", "127.0.0.1:1", "--config", str(tmp_path / "none")), "No such file"),
    ):
        assert main(["record", "--output", str(tmp_path / "o"), *more]) == 2
        assert why in capsys.readouterr().err
    assert (
        main(
            [
                "record",
                "--output",
                str(tmp_path / "o"),
                "--listen",
                "0.0.0.0:1",
                "--name",
                "10.0.0.1:9876",
                "--for",
                "1",
            ]
        )
        == 0
    )
    assert "not this machine's own" in capsys.readouterr().err
