"""What brokers, clients and name servers of a simulated fleet say: RemotingCommand frames with JSON and binary headers.

Source: RocketMQ 4.9.7 and 5.4.0 RemotingCommand.encode, RocketMQSerializable.rocketMQProtocolEncode, RegisterBrokerBody.encode.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from namesrv_core.machine import events
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.question import Answer
from namesrv_core.machine.rows import DataVersion
from namesrv_wire.protocol.bodies import Record
from namesrv_wire.protocol.frames import JSON, ONE_WAY, RESPONSE, ROCKETMQ
from namesrv_wire.values import topic_table_of
from tools.fleet.events import CLUSTER, broker_addr, broker_name, ha_addr, table_of_broker
from tools.fleet.fleet import LIGHT, Fleet

_LENGTHS, _OPAQUE = struct.Struct(">iI"), struct.Struct(">i")
_BINARY = struct.Struct(">hbh"), struct.Struct(">i")
# Topics in the bodies that are kept: what is beyond them is made again.
_KEPT_TOPICS: Final = 300_000


class Encoded(NamedTuple):
    """A frame that lacks only its number: what stands before the `opaque` in the header, what behind, and the body."""

    serialization: int
    before: bytes
    after: bytes
    body: bytes

    def frame(self, opaque: int) -> bytes:
        """Return the frame with its number."""
        number = _OPAQUE.pack(opaque) if self.serialization else b"%d" % opaque
        header = len(self.before) + len(number) + len(self.after)
        word = self.serialization << 24 | header
        return b"".join((_LENGTHS.pack(4 + header + len(self.body), word), self.before, number, self.after, self.body))


class Beat(NamedTuple):
    """One way in which a broker beats: the request, and the event that it is to the name server."""

    request: Encoded
    event: events.RegisterBroker | events.QueryDataVersion | events.BrokerHeartbeat
    one_way: bool


class Head(NamedTuple):
    """What a frame's header says besides its number, and how it is written."""

    code: int
    version: int
    ext: Mapping[str, str]
    serialization: int
    flag: int = 0
    remark: str | None = None


def encoded(head: Head, body: bytes = b"") -> Encoded:
    """Return a frame as Java would write it, but for its number."""
    code, version, ext, serialization, flag, remark = head
    if serialization == ROCKETMQ:
        fields = b"".join(_short(name) + _long(value) for name, value in ext.items())
        after = _OPAQUE.pack(flag) + _long(remark or "") + _OPAQUE.pack(len(fields)) + fields
        return Encoded(ROCKETMQ, _BINARY[0].pack(code, 0, version), after, body)
    header: dict[str, object] = {"code": code, "extFields": dict(ext), "flag": flag, "language": "JAVA", "opaque": 0}
    header |= {} if remark is None else {"remark": remark}
    header |= {"serializeTypeCurrentRPC": "JSON", "version": version}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    before, after = text.split(b'"opaque":0', 1)
    return Encoded(JSON, before + b'"opaque":', after, body)


def encoded_answer(answer: Answer, version: int, serialization: int) -> Encoded:
    """Return the name server's answer as a frame; it has the serialization of the question."""
    head = Head(answer.code, version, dict(answer.fields), serialization, RESPONSE, answer.remark)
    return encoded(head, b"" if answer.body is None else answer.body.encode())


class Beats:
    """The beats of a fleet's brokers, by broker and version of its topics."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        kept = max(16, _KEPT_TOPICS // max(1, fleet.topics))
        self.registration = lru_cache(kept)(self._registration)
        self.plain = lru_cache(1 << 16)(self._plain)

    def _registration(self, b: int, version: int, made_ms: int) -> Beat:
        """Return the registration of broker `b` with its topics after `version` changes, the last at `made_ms`."""
        fleet = self._fleet
        table = fleet.topic_table(*table_of_broker(fleet, b, version))
        body = _register_body(fleet, table.topics, version, made_ms)
        five = fleet.profile.own_heartbeat_timeout
        timeout_ms = fleet.timeout_in_header_ms
        ext = _broker(b) | {
            "haServerAddr": ha_addr(b),
            "compressed": "false",
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            **({"enableActingMaster": "false"} if five else {}),
            **({} if timeout_ms is None else {"heartbeatTimeoutMillis": str(timeout_ms)}),
        }
        event = events.RegisterBroker(
            CLUSTER, broker_addr(b), broker_name(b), 0, ha_addr(b), DataVersion(0, made_ms, version),
            topic_table_of(table.topics, []), (), None, False if five else None, timeout_ms,
        )  # fmt: skip
        return Beat(self._request(b, RequestCode.REGISTER_BROKER, ext, body), event, one_way=False)

    def _plain(self, b: int, version: int, made_ms: int) -> Beat:
        """Return the heartbeat of broker `b` that is no registration."""
        if self._fleet.form == LIGHT:
            light = events.BrokerHeartbeat(CLUSTER, broker_addr(b))
            request = self._request(b, RequestCode.BROKER_HEARTBEAT, _broker(b), b"", ONE_WAY)
            return Beat(request, light, one_way=True)
        body = json.dumps(_data_version(self._fleet, version, made_ms), separators=(",", ":")).encode()
        query = events.QueryDataVersion(CLUSTER, broker_addr(b), DataVersion(0, made_ms, version))
        return Beat(self._request(b, RequestCode.QUERY_DATA_VERSION, _broker(b), body), query, one_way=False)

    def _request(self, b: int, code: int, ext: Mapping[str, str], body: bytes, flag: int = 0) -> Encoded:
        """Every fourth broker has binary headers."""
        serialization = ROCKETMQ if b % 4 == 3 else JSON
        return encoded(Head(code, self._fleet.protocol, ext, serialization, flag), body)


def _broker(b: int) -> dict[str, str]:
    return {"brokerId": "0", "clusterName": CLUSTER, "brokerAddr": broker_addr(b), "brokerName": broker_name(b)}


def _register_body(fleet: Fleet, topics: list[Record], version: int, made_ms: int) -> bytes:
    five = fleet.profile.own_heartbeat_timeout
    table = {
        topic["topic"]: {
            **({"attributes": {}} if five else {}),
            "order": False,
            "perm": topic["perm"],
            "readQueueNums": topic["read_queue_nums"],
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic["topic"],
            "topicSysFlag": topic["topic_sys_flag"],
            "writeQueueNums": topic["write_queue_nums"],
        }
        for topic in topics
    }
    wrapper = {"dataVersion": _data_version(fleet, version, made_ms), "topicConfigTable": table}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":")).encode()


def _data_version(fleet: Fleet, version: int, made_ms: int) -> dict[str, int]:
    state = {"stateVersion": 0} if fleet.profile.has_state_version else {}
    return {"counter": version, **state, "timestamp": made_ms}


def _short(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _long(text: str) -> bytes:
    data = text.encode()
    return _OPAQUE.pack(len(data)) + data
