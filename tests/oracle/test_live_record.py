"""`record --listen` beside a real name server: the same requests, the same bytes."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from namesrv_core.asking.shown import read_json
from namesrv_wire.protocol.frames import JSON, ROCKETMQ
from schemas import bronze, gold
from schemas.table import Table
from tests.examples import great
from tests.night.nights import night, rows
from tests.night.test_logs import SHOWN
from tests.oracle.jvm import JvmUnavailableError, fetch_all
from tests.oracle.live.brokers import RealBroker, mqadmin
from tests.oracle.live.looks import differences
from tests.oracle.live.namesrv import NameServer
from tests.oracle.live.recorder import Recorder
from tests.oracle.request_makers import CHANNELS, Made, Maker
from tests.places import CHECKOUT
from tests.record.recording import Answered, Client, free_port, recording

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
REQUESTS = great(10_000)
_BROKER = ("clusterName", "brokerName", "brokerAddr", "brokerId")
_OWN = ("kvConfigPath", "configStorePath", "listenPort", "bindAddress", "rocketmqHome")


@pytest.fixture(scope="module", autouse=True)
def _all_downloaded() -> None:
    """Fetch what runs here first: a connection that waits for that for two minutes is closed as idle."""
    try:
        fetch_all()
    except JvmUnavailableError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def real(folder: Path, version: str, conf: dict[str, str]) -> Iterator[NameServer]:
    """Start a real name server, and end it."""
    server = NameServer(folder, free_port(), version, {"serverChannelMaxIdleTimeSeconds": 120, **conf})
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                Client(server.port).close()
                break
            assert server.process.poll() is None, (folder / "console.txt").read_text(encoding="utf-8")
            time.sleep(0.1)
        yield server
    finally:
        server.end(signal.SIGKILL)


def _is_usual(made: Made) -> bool:
    """Return whether a request leaves no null in a table, changes no configuration, and is not asked of a clock."""
    named = [made.ext.get(name) for name in _BROKER] if made.code in (103, 104) else ["x"]
    return made.code != 318 and "heartbeatTimeoutMillis" not in made.ext and all(named)


def _told(answered: Answered | None, theirs: Answered | None) -> object:
    """Return what is to be equal: all bytes, but for the text of an exception, and the places of files."""
    if answered is None or theirs is None:
        return answered
    frame = answered.frame
    if theirs.frame.code == 1 and "Exception" in (theirs.frame.remark or ""):
        return frame._replace(remark=None)
    if b"listenPort=" in frame.body:
        return [line for line in frame.body.decode().split("\n") if not line.startswith(_OWN)]
    return answered.raw


@pytest.mark.parametrize("version", ["4.9.7", "5.4.0"])
def test_it_answers_as_a_real_one_does(version: str, tmp_path: Path) -> None:
    """Random requests of both serializations over several connections: every answer is equal, byte for byte."""
    conf = {"orderMessageEnable": "true"}
    if version == "5.4.0":
        conf |= {"supportActingMaster": "true"}
    maker, chance, asked = Maker(0), random.Random(0), 0
    with real(tmp_path / "real", version, conf) as server:
        options = ("--profile", version, "--config", str(tmp_path / "real" / "namesrv.conf"))
        text = (tmp_path / "real" / "namesrv.conf").read_text(encoding="utf-8")
        (tmp_path / "real" / "namesrv.conf").write_text(text.replace("kv.json", "own-kv.json"), encoding="utf-8")
        with recording(tmp_path / "out", *options) as ours:
            pairs = {name: (Client(server.port), Client(ours.port)) for name in CHANNELS}
            while asked < REQUESTS:
                made = maker.request()
                if not _is_usual(made):
                    continue
                asked += 1
                serialization = chance.choice((JSON, ROCKETMQ))
                one_way = version == "4.9.7" and made.code in (-5, 0, 10, 34, 217, 300, 901, 904, 905, 999, 32_767)
                for client in pairs[made.channel]:
                    client.send(
                        made.code, made.ext, made.body or b"", version=made.version, serialization=serialization,
                        one_way=one_way,
                    )  # fmt: skip
                if one_way:  # 4.9.7 does not know it, and says nothing
                    continue
                theirs, own = (client.receive() for client in pairs[made.channel])
                assert _told(own, theirs) == _told(theirs, theirs), (made, serialization)
                if made.code == 104:
                    time.sleep(0.02)  # 5.4.0 works it off later


_SETTINGS = "supportActingMaster=true\norderMessageEnable=true\n"


def _until(what: Callable[[], object], said: Callable[[], object], wait_s: float = 240) -> None:
    """Wait until something is so. Raises AssertionError, with what is said, if it never is."""
    until = time.monotonic() + wait_s
    while not what():
        assert time.monotonic() < until, said()
        time.sleep(0.3)


@contextlib.contextmanager
def _brokers(folder: Path, namesrvs: list[str]) -> Iterator[dict[str, RealBroker]]:
    """Start a master and a slave of 5.4.0, and a master of 4.9.7."""
    made: dict[str, RealBroker] = {}
    try:
        for name, version, number in (("a", "5.4.0", 0), ("a", "5.4.0", 1), ("b", "4.9.7", 0)):
            home = folder / f"broker-{name}-{number}"
            made[f"{name}{number}"] = RealBroker(home, version, f"broker-{name}", number, namesrvs)
        yield made
    finally:
        for each in made.values():
            each.kill()


def _addrs(client: Client) -> dict[str, list[str]]:
    """Return the ids that each broker name has."""
    found = read_json(client.ask(106).frame.body.decode())["brokerAddrTable"]
    return {name: sorted(group["brokerAddrs"]) for name, group in found.items()}


def _route(client: Client, topic: str) -> dict[str, dict[str, Any]]:
    """Return the permissions and ids that a route shows, by broker name."""
    answered = client.ask(105, {"topic": topic, "acceptStandardJsonOnly": "true"}).frame
    if answered.code:
        return {}
    route = json.loads(answered.body)
    ids = {each["brokerName"]: sorted(each["brokerAddrs"]) for each in route["brokerDatas"]}
    return {each["brokerName"]: {"perm": each["perm"], "ids": ids[each["brokerName"]]} for each in route["queueDatas"]}


def test_real_brokers_and_clients_have_no_other(tmp_path: Path) -> None:
    """Brokers of 5.4.0 and 4.9.7, mqadmin's producer and consumer: topics, messages, permissions, a broker killed and back."""
    (tmp_path / "p").write_text(_SETTINGS, encoding="utf-8")
    with recording(tmp_path / "out", "--config", str(tmp_path / "p"), "--answers", "all") as ours:
        at, client = f"127.0.0.1:{ours.port}", Client(ours.port)
        with mqadmin(tmp_path / "admin", at) as admin, _brokers(tmp_path, [at]) as brokers:
            _until(lambda: _addrs(client) == {"broker-a": ["0", "1"], "broker-b": ["0"]}, lambda: _addrs(client))
            assert "create topic to" in admin("updateTopic", "-c", "C", "-t", "Made", "-r", "4", "-w", "4")
            _until(lambda: _route(client, "Made").keys() == {"broker-a", "broker-b"}, lambda: _route(client, "Made"))
            for topic, text in (("Made", "hello"), ("Auto", "there")):
                assert "SEND_OK" in admin("sendMessage", "-t", topic, "-p", text)
            _until(lambda: _route(client, "Auto"), lambda: _addrs(client))
            for topic, text in (("Made", "hello"), ("Auto", "there")):
                assert text in admin("consumeMessage", "-t", topic, "-g", "readers")
            assert "brokerDatas" in admin("topicRoute", "-t", "Made")
            assert "broker-b" in admin("clusterList")

            def is_wiped() -> bool:
                """Wipe; a broker that has just made a topic registers once more, and takes it back."""
                assert "wipe write perm of broker[broker-b]" in admin("wipeWritePerm", "-b", "broker-b")
                return bool(_route(client, "Made")["broker-b"]["perm"] == 4)

            _until(is_wiped, lambda: _route(client, "Made"))
            assert "add write perm of broker[broker-b]" in admin("addWritePerm", "-b", "broker-b")
            assert "SEND_OK" in admin("sendMessage", "-t", "Made", "-p", "again", "-b", "broker-b", "-i", "0")
            brokers["a0"].kill()
            _until(
                lambda: _route(client, "Made")["broker-a"] == {"perm": 4, "ids": ["0"]}, lambda: _route(client, "Made")
            )
            assert "SEND_OK" in admin("sendMessage", "-t", "Made", "-p", "while a is away")
            brokers["a0"].start()
            _until(
                lambda: _route(client, "Made")["broker-a"] == {"perm": 6, "ids": ["0", "1"]},
                lambda: _route(client, "Made"),
            )
            assert "hello" in admin("consumeMessage", "-t", "Made", "-g", "others")
            deleted = admin("deleteTopic", "-c", "C", "-t", "Made")
            assert "from NameServer success" in deleted, deleted
            _until(lambda: not _route(client, "Made"), lambda: _route(client, "Made"))
        _until(lambda: not _addrs(client), lambda: _addrs(client))
    said = night(tmp_path / "w", tmp_path / "out")
    assert (said.status, said.verify["mismatched"], said.errors, said.quarantined) == ("published", 0, [], 0)


def _period_us(polls: Path) -> int:
    """Return within what time each thing was asked again, in µs: two of the longest rounds that polls took."""
    asked = sorted(row["event_time"] for row in rows(polls, bronze.ROUTE_OBSERVATIONS) if row["code"] == 106)
    return int(2 * max(later - earlier for earlier, later in itertools.pairwise(asked)))


def _changes(
    warehouse: Path, table: Table, key: tuple[str, ...], said: tuple[str, ...]
) -> list[tuple[tuple[str, ...], object, int, int]]:
    """Return the changes of a history in order: whose, what it became (None: gone), when, and until when (µs)."""
    found: list[tuple[tuple[str, ...], object, int, int]] = []
    histories = defaultdict(list)
    for row in sorted(rows(warehouse, table), key=lambda row: row["valid_from"]):
        histories[tuple(row[name] for name in key)].append(row)
    for of, history in histories.items():
        edges: list[tuple[object, int]] = []
        for row in history:
            what = tuple(row[name] for name in said)
            if edges and edges[-1][1] == row["valid_from"]:
                edges.pop()
            if not edges or edges[-1][0] != what:
                edges.append((what, row["valid_from"]))
            if row["valid_to"] is not None:
                edges.append((None, row["valid_to"]))
        ends = [at for _, at in edges[1:]] + [1 << 62]
        found += [(of, what, at, end) for (what, at), end in zip(edges, ends, strict=True)]
    return sorted(found, key=lambda each: each[2])


@contextlib.contextmanager
def _polled(folder: Path, port: int) -> Iterator[None]:
    """Ask a name server every second, by the command that users have."""
    words = ("record", "--poll", f"127.0.0.1:{port}", "--every", "1s", "--rate", "500", "--output", str(folder))
    polling = subprocess.Popen([str(CHECKOUT / "spark-submit.sh"), *words])
    try:
        yield
    finally:
        polling.send_signal(signal.SIGTERM)
        assert polling.wait() == 0


def test_beside_a_real_one_it_answers_the_same(tmp_path: Path) -> None:
    """The same real brokers know both; both are asked the same all the while, and answer the same bytes as soon as both know it.

    The packets of both are recorded, and the real one is polled. What it recorded of itself equals what its packets tell; every
    change of the real one's queue data, groups and clusters that lasted longer than a period is in the polled history within
    one, and no other is.
    """
    asked = equal = 0
    own_port = free_port()
    packets: list[Recorder] = []
    (tmp_path / "polls").mkdir()
    with real(tmp_path / "real", "5.4.0", {"supportActingMaster": "true", "orderMessageEnable": "true"}) as server:
        (tmp_path / "p").write_text(_SETTINGS, encoding="utf-8")
        try:
            packets += [Recorder.of_loopback(tmp_path / f"{port}.pcap", [port]) for port in (server.port, own_port)]
        except (PermissionError, AttributeError):
            pytest.skip("needs Linux, and the right to open a packet socket")
        for each in packets:
            each.start()
        with pytest.raises(ConnectionError):  # so that the packets show its start
            Client(own_port)
        options = ("--config", str(tmp_path / "p"), "--answers", "all")
        with recording(tmp_path / "out", *options, port=own_port) as ours, _polled(tmp_path / "polls", server.port):
            both = [f"127.0.0.1:{one.port}" for one in (server, ours)]
            clients = Client(server.port), Client(ours.port)

            def compare(seconds: float) -> None:
                nonlocal asked, equal
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    listed = json.loads(clients[0].ask(206).frame.body)["topicList"]
                    questions = [(106, {}), (206, {}), (224, {"cluster": "C"}), (304, {}), (105, {"topic": "nowhere"})]
                    questions += [(105, {"topic": topic, "acceptStandardJsonOnly": "true"}) for topic in listed]
                    questions += [(901, {"clusterName": "C", "brokerName": name}) for name in ("broker-a", "broker-b")]
                    for code, ext in questions:

                        def told(code: int = code, ext: dict[str, str] = ext) -> list[bytes]:
                            return [client.ask(code, ext).frame.body for client in clients]

                        asked += 1
                        first = told()
                        equal += first[0] == first[1]
                        if first[0] != first[1]:  # one of them knows it already
                            _until(lambda: len({*told()}) == 1, told, 60)
                    time.sleep(1)

            with _brokers(tmp_path, both) as brokers:
                _until(
                    lambda: all(len(_addrs(client).get("broker-a", ())) == 2 for client in clients),
                    lambda: [*map(_addrs, clients), *(broker.said() for broker in brokers.values())],
                )
                compare(3)
                with mqadmin(tmp_path / "admin", both[1]) as admin:
                    assert "create topic to" in admin("updateTopic", "-c", "C", "-t", "Made", "-r", "4", "-w", "4")
                compare(3)
                brokers["a1"].kill()
                compare(3)
                brokers["a0"].kill()
                compare(3)
                brokers["a0"].start()
                compare(10)
            compare(3)
        for each in packets:
            each.finish()
    assert equal > 0.9 * asked > 100, (equal, asked)
    sources = {"own": "out", "own-packets": f"{own_port}.pcap", "polls": "polls", "packets": f"{server.port}.pcap"}
    said = {name: night(tmp_path / f"w-{name}", tmp_path / source) for name, source in sources.items()}
    assert {name: each.verify["mismatched"] for name, each in said.items()} == dict.fromkeys(sources, 0)
    assert differences(tmp_path / "w-own", tmp_path / "w-own-packets") == []
    period_us = _period_us(tmp_path / "w-polls")
    for table, key, what in SHOWN[:3]:
        true, polled = (_changes(tmp_path / name, table, key, what) for name in ("w-packets", "w-polls"))
        lasting = [change for change in true if min(change[3], true[-1][2]) - change[2] > period_us]
        assert len(lasting) > {gold.TOPIC_QUEUE_HISTORY: 20}.get(table, 1), table.name
        missed = [
            change
            for change in lasting
            if not any(change[:2] == seen[:2] and 0 < seen[2] - change[2] <= period_us for seen in polled)
        ]
        invented = [
            seen
            for seen in polled
            if not any(change[:2] == seen[:2] and 0 < seen[2] - change[2] <= period_us for change in true)
        ]
        assert (table.name, missed, invented) == (table.name, [], [])
