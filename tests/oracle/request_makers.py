"""Random requests for the request layer: ordinary ones, and ones that no broker sends."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

VERSIONS = (407, 493, 407, 493, 413, 412, 401, 400, 37, 36, 0, -1, 10_000)
UNKNOWN_CODES = (0, 10, 34, 300, 905, 999, 32_767, -5)
CHANNELS = tuple(f"c{n}" for n in range(6))
_CLUSTERS, _NAMES, _TOPICS = ("C", "D"), ("broker-a", "broker-b", "broker-c"), ("T0", "T1", "T2", "T3", "Straße")
_ADDRS = tuple(f"10.0.0.{n}:10911" for n in range(1, 6))
_ZONES = ("z1", "Z1", "z2")
_NAMESPACES = ("ORDER_TOPIC_CONFIG", "OTHER")
_ODD_NUMBERS = ("", "x", " 1", "+1", "-1", "0x1", "1.0", "99999999999999999999", "2147483648")


class Made(NamedTuple):
    """A request: code, version, header fields, body, sender."""

    code: int
    version: int
    ext: dict[str, str]
    body: bytes | None
    channel: str


class Maker:
    """Makes requests from a seed.

    Odd seeds ask for routes within a zone, even ones register filter servers. Not both: the zone filter reads the route
    from its JSON, and fastjson 2.0.43 was seen to give a key of filterServerTable as another address that it had read
    before.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._asks_in_zone = seed % 2 == 1

    def request(self) -> Made:
        """Return the next request."""
        code, make = self.random.choices(_MAKERS, _WEIGHTS)[0]
        ext, body = make(self)
        version = self.random.choice(VERSIONS)
        if code == 103:
            ext, body = self._registration(version)
        elif code < 0:
            code = self.random.choice(UNKNOWN_CODES)
        return Made(code, version, self._damaged(ext), body, self.random.choice(CHANNELS))

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _damaged(self, ext: dict[str, str]) -> dict[str, str]:
        """Return header fields of which now and then one is missing, empty, or beside many others."""
        fields = dict(ext)
        for name in ext:
            if self._chance(0.02):
                del fields[name]
            elif self._chance(0.01):
                fields[name] = ""
        if self._chance(0.05):
            fields["noSuchField"] = "x"
        return fields

    def _broker(self) -> dict[str, str]:
        broker_id = self.random.choice(_ODD_NUMBERS) if self._chance(0.03) else str(self.random.choice((0, 0, 1, 2, 3)))
        return {
            "clusterName": self.random.choice(_CLUSTERS),
            "brokerName": self.random.choice(_NAMES),
            "brokerAddr": self.random.choice(_ADDRS),
            "brokerId": broker_id,
        }

    def _registration(self, version: int) -> tuple[dict[str, str], bytes | None]:
        pick = self.random.choice
        ext = {**self._broker(), "haServerAddr": pick(_ADDRS).replace("911", "912")}
        if self._chance(0.6):
            ext["enableActingMaster"] = pick(("true", "TRUE", "false", "false", "1", ""))
        if self._chance(0.3):
            ext["heartbeatTimeoutMillis"] = pick(("6000", "10000", *_ODD_NUMBERS))
        if self._chance(0.3):
            ext["__ZONE_NAME"] = pick(_ZONES)
        compressed = self._chance(0.2)
        ext["compressed"] = pick(("true", "True")) if compressed else pick(("false", "yes"))
        body = self._register_body(version, compressed=compressed)
        if self._chance(0.5):
            checksum = zlib.crc32(body or b"") & 0x7FFFFFFF
            wrong = (checksum ^ 1, -1, *_ODD_NUMBERS)
            ext["bodyCrc32"] = str(pick(wrong)) if self._chance(0.15) else pick((str(checksum), "0"))
        return ext, body

    def _register_body(self, version: int, *, compressed: bool) -> bytes | None:
        if self._chance(0.03):
            return None
        some: list[list[str] | None] = [] if self._asks_in_zone else [["10.0.0.9:1"], ["10.0.0.9:1", "10.0.0.9:2"]]
        topics, filters = self._topics(), self.random.choice([[], None, *some])
        if compressed and version >= 37:
            body = self._compressed(version, topics, filters)
        else:
            wrapper = self._wrapper(topics)
            whole: Any = {"topicConfigSerializeWrapper": wrapper}
            if self._chance(0.9):
                whole["filterServerList"] = filters
            body = _text(whole if version >= 37 else wrapper)
        return self._maybe_broken(body, 0.05)

    def _maybe_broken(self, body: bytes, share: float) -> bytes:
        if not self._chance(share):
            return body
        return self.random.choice((body[: len(body) // 2], b"\x00\x01", b"{", b"[1,", b'{"a":', b"\xff" * 9))

    def _wrapper(self, topics: dict[str, Any]) -> dict[str, Any]:
        table: Any = None if self._chance(0.03) else topics
        wrapper = {
            "dataVersion": None if self._chance(0.02) and table else self.data_version(),
            "topicConfigTable": table,
        }
        if self._chance(0.02):
            del wrapper["topicConfigTable"]
        if self._chance(0.2):
            wrapper["topicQueueMappingInfoMap"] = {t: self._mapping(t) for t in self.random.sample(_TOPICS, 2)}
        return wrapper

    def _topics(self) -> dict[str, Any]:
        names = self.random.sample(_TOPICS, self.random.choice((0, 1, 2, 3, 4, 5)))
        return {name: {"topicName": name, **self._queues()} for name in names}

    def _queues(self) -> dict[str, Any]:
        pick = self.random.choice
        queues = {"readQueueNums": pick((4, 8)), "writeQueueNums": pick((4, 8)), "perm": pick((6, 6, 4, 2, 7))}
        queues["topicSysFlag"] = pick((0, 0, 1, 2, 3))
        if self._chance(0.1):
            del queues[pick(tuple(queues))]
        return queues

    def _mapping(self, topic: str) -> dict[str, Any]:
        pick = self.random.choice
        return {
            "topic": topic,
            "bname": pick(_NAMES),
            "totalQueues": pick((4, 8)),
            "epoch": pick((1, 2)),
            "dirty": False,
        }

    def data_version(self) -> dict[str, Any]:
        """Return a data version; a timestamp is always there, since the server's clock would fill it in."""
        pick = self.random.choice
        version: dict[str, Any] = {"timestamp": pick((1_000, 2_000)), "counter": pick((0, 1, 2))}
        if self._chance(0.7):
            version["stateVersion"] = pick((0, 0, 1, 2))
        if self._chance(0.05):
            del version["counter"]
        return version

    def _compressed(self, version: int, topics: dict[str, Any], filters: list[str] | None) -> bytes:
        lines = [
            f"{name} {t.get('readQueueNums', 16)} {t.get('writeQueueNums', 16)} {t.get('perm', 6)} SINGLE_TAG"
            for name, t in topics.items()
        ]
        blocks = [_text(self.data_version()), struct.pack(">i", len(lines)), *(line.encode() for line in lines)]
        parts = [_block(blocks[0]), blocks[1], *map(_block, blocks[2:]), _block(_text(filters or []))]
        if version >= 413:
            infos = [self._mapping(t) for t in self.random.sample(_TOPICS, self.random.choice((0, 2)))]
            parts += [struct.pack(">i", len(infos)), *(_block(_text(info)) for info in infos)]
        return zlib.compress(b"".join(parts))

    def unregistration(self) -> tuple[dict[str, str], bytes | None]:
        """Return UNREGISTER_BROKER."""
        return self._broker(), None

    def version_query(self) -> tuple[dict[str, str], bytes | None]:
        """Return QUERY_DATA_VERSION."""
        body = None if self._chance(0.05) else self._maybe_broken(_text(self.data_version()), 0.05)
        return self._broker(), body

    def named(self) -> tuple[dict[str, str], bytes | None]:
        """Return a request that names a broker and has no body."""
        return self._broker(), None

    def route(self) -> tuple[dict[str, str], bytes | None]:
        """Return GET_ROUTEINFO_BY_TOPIC."""
        ext = {"topic": self.random.choice((*_TOPICS, "nowhere"))}
        if self._chance(0.5):
            ext["acceptStandardJsonOnly"] = self.random.choice(("true", "false"))
        if self._asks_in_zone and self._chance(0.5):
            ext |= {
                "__ZONE_MODE": self.random.choice(("true", "false")),
                "__ZONE_NAME": self.random.choice((*_ZONES, " ")),
            }
        return ext, None

    def topic_deletion(self) -> tuple[dict[str, str], bytes | None]:
        """Return DELETE_TOPIC_IN_NAMESRV."""
        ext = {"topic": self.random.choice(_TOPICS)}
        if self._chance(0.6):
            ext["clusterName"] = self.random.choice((*_CLUSTERS, "", "nowhere"))
        return ext, None

    def topic_registration(self) -> tuple[dict[str, str], bytes | None]:
        """Return REGISTER_TOPIC_IN_NAMESRV."""
        ext = {"topic": self.random.choice((*_TOPICS, "T9"))}
        names = self.random.choices((*_NAMES, "nowhere"), k=self.random.choice((0, 1, 2, 3)))
        queues = None if self._chance(0.1) else [{"brokerName": name, **self._queues()} for name in names]
        body = None if self._chance(0.05) else self._maybe_broken(_text({"queueDatas": queues}), 0.1)
        return ext, body

    def kv(self) -> tuple[dict[str, str], bytes | None]:
        """Return a request about a KV entry."""
        value = self.random.choice(("broker-a:8", 'say "no"', "a\\b", "Straße;\t", ""))
        return {"namespace": self.random.choice(_NAMESPACES), "key": self.random.choice(_TOPICS), "value": value}, None

    def cluster(self) -> tuple[dict[str, str], bytes | None]:
        """Return GET_TOPICS_BY_CLUSTER."""
        return {"cluster": self.random.choice((*_CLUSTERS, "nowhere"))}, None

    def configuration(self) -> tuple[dict[str, str], bytes | None]:
        """Return UPDATE_NAMESRV_CONFIG: names that the server has not, those that it may not change, and what changes no table."""
        texts = (
            b"someKey=1", b"# kvConfigPath=x\nsomeKey = 2", b"kvConfigPath=/x", b" configStorePath : /x", b"a\\\n=b",
            b"rocketmqHome=/x", b"configBlackList=", b"kv\\\n  ConfigPath /x", b"bad=\\u12", b"\\u006bvConfigPath=x",
            b"some\\=kvConfigPath=1", b"", b"listenPort = +007\nserverWorkerThreads=x\nclusterTest:TRUE", b"listenPort=2147483648",
            b"serverSelectorThreads 5\nproductEnvName=a\\u0062 ", "productEnvName=Straße\nclusterTest=no".encode(),
            b"listenPort=0x10\nproductEnvName=\nserverSocketBacklog=-1", b"productEnvName=a=b\nproductEnvName = c:d",
        )  # fmt: skip
        return {}, self.random.choice(texts) or None

    def nothing(self) -> tuple[dict[str, str], bytes | None]:
        """Return a request without fields and body."""
        return {}, None


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


_WEIGHTED: list[tuple[int, Callable[[Maker], tuple[dict[str, str], bytes | None]], int]] = [
    (100, Maker.kv, 3),
    (101, Maker.kv, 3),
    (102, Maker.kv, 1),
    (103, Maker.nothing, 30),
    (104, Maker.unregistration, 5),
    (105, Maker.route, 12),
    (106, Maker.nothing, 2),
    (205, Maker.named, 2),
    (206, Maker.nothing, 2),
    (216, Maker.topic_deletion, 3),
    (217, Maker.topic_registration, 5),
    (219, Maker.kv, 3),
    (224, Maker.cluster, 2),
    (304, Maker.nothing, 1),
    (311, Maker.nothing, 1),
    (312, Maker.nothing, 1),
    (313, Maker.nothing, 1),
    (318, Maker.configuration, 3),
    (319, Maker.nothing, 1),
    (322, Maker.version_query, 6),
    (327, Maker.named, 2),
    (901, Maker.named, 3),
    (904, Maker.named, 4),
    (-1, Maker.nothing, 2),
]
_MAKERS = [(code, make) for code, make, _ in _WEIGHTED]
_WEIGHTS = [weight for _, _, weight in _WEIGHTED]
