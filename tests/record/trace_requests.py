"""Events of a trace as the frames that a broker, a client or an administrator would send for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.wire.forge import request

Ev = Mapping[str, Any]
FIELDS = {
    "cluster": "clusterName",
    "addr": "brokerAddr",
    "name": "brokerName",
    "id": "brokerId",
    "ha": "haServerAddr",
    "acting": "enableActingMaster",
    "timeout": "heartbeatTimeoutMillis",
    "zone": "__ZONE_NAME",
    "topic": "topic",
    "ns": "namespace",
    "key": "key",
    "value": "value",
}
CODES = {
    "register": 103,
    "unregister": 104,
    "heartbeat": 904,
    "query_dv": 322,
    "wipe_perm": 205,
    "add_perm": 327,
    "delete_topic": 216,
    "register_topic": 217,
    "route": 105,
    "cluster_info": 106,
    "topic_list": 206,
    "system_topics": 304,
    "topics_by_cluster": 224,
    "unit_topics": 311,
    "unit_sub_topics": 312,
    "unit_sub_ununit_topics": 313,
    "member_group": 901,
    "kv_put": 100,
    "kv_get": 101,
    "kv_delete": 102,
    "kv_list": 219,
}


def request_of(ev: Ev, version: int) -> bytes | None:
    """Return the frame of the request that is the event; None where there is no request for it."""
    code = CODES.get(ev["op"])
    if code is None:
        return None
    ext = {FIELDS[key]: _text(value) for key, value in ev.items() if key in FIELDS and value is not None}
    if code == 224:
        ext = {"cluster": ext["clusterName"]} if "clusterName" in ext else {}
    if code == 105:
        ext["acceptStandardJsonOnly"] = "true"
    return request(code, ext, _body(ev), version=version)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _body(ev: Ev) -> bytes:
    if ev["op"] == "register":
        return _json(_register_body(ev))
    if ev["op"] == "query_dv":
        return _json(_version(ev["dv"]))
    if ev["op"] == "register_topic":
        return _json({"queueDatas": None if ev.get("queues") is None else [_queue(queue) for queue in ev["queues"]]})
    return b""


def _register_body(ev: Ev) -> dict[str, object]:
    topics = ev.get("topics")
    mapping = {
        topic: {"topic": topic, "bname": m["bname"], "totalQueues": m["totalQueues"], "epoch": m["epoch"]}
        for topic, m in (ev.get("mapping") or {}).items()
    }
    wrapper = {
        "dataVersion": _version(ev.get("dv")),
        "topicConfigTable": None if topics is None else {topic["name"]: _topic(topic) for topic in topics},
        "topicQueueMappingInfoMap": mapping,
    }
    return {"filterServerList": ev.get("filters"), "topicConfigSerializeWrapper": wrapper}


def _version(dv: Ev | None) -> dict[str, object] | None:
    return (
        None
        if dv is None
        else {"timestamp": dv["ts"], "counter": dv.get("counter"), "stateVersion": dv.get("state") or 0}
    )


def _topic(topic: Ev) -> dict[str, object]:
    return {"topicName": topic["name"], **_queues(topic)}


def _queue(queue: Ev) -> dict[str, object]:
    return {"brokerName": queue["name"], **_queues(queue)}


def _queues(fields: Ev) -> dict[str, object]:
    return {
        "readQueueNums": fields["r"],
        "writeQueueNums": fields["w"],
        "perm": fields["perm"],
        "topicSysFlag": fields["sys"],
    }


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
