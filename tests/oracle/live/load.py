"""What goes on at the name servers: brokers and clients at random, and what happens to the name servers themselves."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import Sequence
from typing import Any

from tests.oracle.live.connection import Connection, Host
from tests.oracle.live.namesrv import NameServer
from tests.oracle.request_makers import Maker

NAMES = ("bA", "bB", "bC", "bD")
"""Brokers' names; each has a master and a slave."""
CLUSTERS = "CD"
TOPICS = (*(f"Topic{number}" for number in range(14)), "Straße", "a b")
ZONES = ("z1", "Z1", "z2")
_ORDER = "ORDER_TOPIC_CONFIG"


class Load:
    """Brokers, clients and accidents until an instant (`until`, as `time.time`). `odd`: share of requests that no client makes.

    `names`, `topics`: what clients ask for. With an odd seed brokers and clients have zones, with an even one brokers have filter
    servers (`Maker` says why not both).
    """

    def __init__(self, seed: int, until: float, odd: float, names: Sequence[str], topics: Sequence[str]) -> None:
        self.chance, self._seed, self.until, self._odd = random.Random(seed), seed, until, odd
        self.names, self.topics, self.has_zones = names, topics, seed % 2 == 1

    def is_over(self) -> bool:
        """Return whether its time has passed."""
        return time.time() >= self.until

    async def broker(self, broker: Broker, namesrv: NameServer) -> None:
        """Be a broker of one name server: register, beat, change, fall silent, leave in any way, and come again."""
        while not self.is_over():
            try:
                connection = await Connection.open(namesrv, broker.host)
            except OSError:
                await asyncio.sleep(1)
                continue
            await connection.ask(103, *broker.registration(namesrv))
            while not (self.is_over() or connection.is_over):
                await asyncio.sleep(self.chance.choice((1, 2, 3)) * self.chance.uniform(0.8, 1.2))
                if await self._does(broker, connection, namesrv):
                    await asyncio.sleep(self.chance.uniform(0, 6))
                    break
            connection.close()

    async def _does(self, broker: Broker, connection: Connection, namesrv: NameServer) -> bool:
        """Do one thing that a broker does; return whether it leaves with it."""
        what, one_way = self.chance.random(), self.chance.random()
        version = json.dumps(broker.version).encode()
        if what < 0.5 and namesrv.is_5x:
            await connection.ask(904, broker.identity, is_one_way=one_way < 0.5)
        elif what < 0.7:
            answer = await connection.ask(322, broker.identity, version)
            if answer and answer.get("extFields", {}).get("changed") == "true":
                await connection.ask(103, *broker.registration(namesrv))
        elif what < 0.93:
            if what > 0.85:
                broker.change()
            await connection.ask(103, *broker.registration(namesrv), is_one_way=one_way < 0.1)
        elif what < 0.945:
            await asyncio.sleep(self.chance.choice((8, 18, 35)))
        elif what < 0.98:
            await self._leaves(broker, connection, what)
            return True
        elif what < 0.985:
            broker.broker_id = self.chance.choice((0, 1, 2))
            await connection.ask(103, *broker.registration(namesrv))
        else:
            await self._bursts(broker, connection, namesrv)
        return False

    async def _bursts(self, broker: Broker, connection: Connection, namesrv: NameServer) -> None:
        """Register and unregister several times at once, mostly without an answer: threads take the requests in any order."""
        asked = []
        for _ in range(self.chance.randrange(2, 5)):
            broker.change()
            leaves = self.chance.random() < 0.3
            made: tuple[Any, ...] = (104, broker.identity) if leaves else (103, *broker.registration(namesrv))
            asked.append(connection.ask(*made, is_one_way=self.chance.random() < 0.6))
        await asyncio.gather(*asked)

    async def _leaves(self, broker: Broker, connection: Connection, what: float) -> None:
        if what < 0.96:
            await connection.ask(104, broker.identity, is_one_way=what < 0.95)
        if what < 0.97:
            connection.close()
        else:
            connection.reset()

    async def client(self, namesrv: NameServer, number: int, host: Host) -> None:
        """Ask, now and then as an operator, now and then what nobody asks."""
        maker = Maker(2 * (self._seed * 100 + number) + self.has_zones)
        while not self.is_over():
            try:
                connection = await Connection.open(namesrv, host)
            except OSError:
                await asyncio.sleep(1)
                continue
            for _ in range(self.chance.randrange(20, 400)):
                if self.is_over() or connection.is_over:
                    break
                await asyncio.sleep(self.chance.expovariate(1 / 0.12))
                made = maker.request() if self.chance.random() < self._odd else None
                if made is None:
                    await connection.ask(*self._question(namesrv), cut_at=self.chance.choice((*(0,) * 30, 0.3)))
                elif made.code != 318:  # it would change what else it is told
                    await connection.ask(made.code, made.ext, made.body, version=made.version)
            if self.chance.random() < 0.3:
                connection.reset()
            connection.close()

    def _question(self, namesrv: NameServer) -> tuple[int, dict[str, str], bytes]:
        pick = self.chance.choice
        topic, name = pick(self.topics), pick(self.names)
        queues = [{"brokerName": self.names[1], "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}]
        weighed: list[tuple[float, int, dict[str, str]]] = [
            (30, 105, {"topic": topic}),
            (22, 105, {"topic": pick((topic, "none")), "acceptStandardJsonOnly": "true"}),
            (13, 106, {}),
            (10, 206, {}),
            (5, 224, {"cluster": pick(CLUSTERS)}),
            (3, pick((304, 311, 312, 313)), {}),
            (3, 101, {"namespace": _ORDER, "key": topic}),
            (2, 219, {"namespace": _ORDER}),
            (9 * self.has_zones, 105, {"topic": topic, "__ZONE_MODE": "true", "__ZONE_NAME": pick(ZONES)}),
            (4 * (namesrv.is_5x), 901, {"clusterName": pick(CLUSTERS), "brokerName": name}),
            (0.5, 205, {"brokerName": name}),
            (0.5, 327, {"brokerName": name}),
            (0.3, 216, {"topic": topic}),
            (0.3, 100, {"namespace": _ORDER, "key": topic, "value": "bA:4;bB:8"}),
            (0.2, 102, {"namespace": _ORDER, "key": topic}),
            (0.1, 217, {"topic": topic}),
            (0.3, 319, {}),
        ]
        _, code, ext = self.chance.choices(weighed, [weight for weight, *_ in weighed])[0]
        return code, ext, json.dumps({"queueDatas": queues}).encode() if code == 217 else b""

    async def accidents(self, namesrv: NameServer) -> None:
        """Stop, kill and freeze a name server now and then."""
        while not self.is_over():
            await asyncio.sleep(min(self.chance.uniform(25, 60), max(1, self.until - time.time())))
            what = self.chance.random()
            if self.is_over():
                return
            if what < 0.5:
                namesrv.end(signal.SIGTERM if what < 0.35 else signal.SIGKILL)
                await asyncio.sleep(self.chance.uniform(0.2, 8))
                namesrv.start()
            elif what < 0.65:
                namesrv.process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(self.chance.uniform(1, 12))
                namesrv.process.send_signal(signal.SIGCONT)


class Broker:
    """What a broker has, the same at all name servers: by its number a name, a cluster and an id, and some of `topics`."""

    def __init__(self, load: Load, number: int, host: Host) -> None:
        self._chance, self._all_topics, self._has_zones = load.chance, load.topics, load.has_zones
        self.name, self.broker_id, self.host = load.names[number // 2], number % 2, host
        self.cluster = CLUSTERS[number // 2 % 4 // 2]
        self.addr = f"{host.address}:{10_911 + number}"
        most = len(load.topics) // 2
        chance = load.chance
        self.topics = {topic: self._queues() for topic in chance.sample(load.topics, chance.randrange(1, most))}
        self.version = {"counter": 0, "stateVersion": 0, "timestamp": time.time_ns() // 10**6}
        self._lease, self._acts = chance.choice((None, "6000", "10000", "20000")), chance.random() < 0.6
        self._zone = chance.choice((None, *ZONES)) if load.has_zones else None

    @property
    def identity(self) -> dict[str, str]:
        """The header fields that name it."""
        named = {"clusterName": self.cluster, "brokerName": self.name, "brokerAddr": self.addr}
        return named | {"brokerId": str(self.broker_id)}

    def registration(self, namesrv: NameServer) -> tuple[dict[str, str], bytes]:
        """Return header fields and body of its registration."""
        ext = self.identity | {"haServerAddr": self.addr.replace(":109", ":119"), "compressed": "false"}
        if namesrv.is_5x:
            ext |= {"enableActingMaster": "true"} if self._acts else {}
            ext |= {"heartbeatTimeoutMillis": self._lease} if self._lease else {}
            ext |= {"__ZONE_NAME": self._zone} if self._zone else {}
        table = {topic: {"topicName": topic, **queues} for topic, queues in self.topics.items()}
        wrapper: dict[str, Any] = {"dataVersion": self.version, "topicConfigTable": table}
        filters = [] if self._has_zones else self._chance.choice(([], [], [f"{self.host.address}:7000"]))
        said = {"topicConfigSerializeWrapper": wrapper, "filterServerList": filters}
        return ext, json.dumps(said, ensure_ascii=False).encode()

    def change(self) -> None:
        """Have another topic, or one less."""
        if self._chance.random() < 0.5 and len(self.topics) > 1:
            self.topics.pop(self._chance.choice(sorted(self.topics)))
        else:
            self.topics[self._chance.choice(self._all_topics)] = self._queues()
        counter = self.version["counter"] + 1
        self.version = self.version | {"counter": counter, "timestamp": time.time_ns() // 10**6}

    def _queues(self) -> dict[str, Any]:
        pick = self._chance.choice
        numbers = {"readQueueNums": pick((4, 8, 16)), "writeQueueNums": pick((4, 8, 16))}
        kind = {"perm": pick((6, 6, 6, 4, 2)), "topicSysFlag": pick((0, 0, 0, 1))}
        return numbers | kind | {"topicFilterType": "SINGLE_TAG", "order": self._chance.random() < 0.1}
