"""Requests with fields missing or out of the ordinary: what the real name server was seen to do with each of them."""

from __future__ import annotations

from typing import Any

from namesrv_core.machine.java_map import JavaMap, string_hash, string_map
from tools.trace.trace import Trace

Ev = dict[str, Any]

NULL_POINTER = "java.lang.NullPointerException"
TOPICS = [{"name": topic, "r": 4, "w": 4, "perm": 6, "sys": 0} for topic in ("T", "U")]


def played(version: str, *evs: Ev, **config: bool) -> tuple[list[Ev], Trace]:
    """Return the results of events, and the name server after them."""
    trace = Trace()
    channels = {"c": "127.0.0.1:50000", "d": "127.0.0.1:50001"}
    trace.take({"op": "init", "profile": version, "config": config, "channels": channels})
    return [trace.take({"t_ms": i, **ev}) for i, ev in enumerate(evs)], trace


def register(addr: str | None = "a", name: str | None = "b", **fields: Any) -> Ev:
    version = {"ts": 1, "counter": 1, "state": 0}
    ev: Ev = {"cluster": "C", "addr": addr, "name": name, "id": 0, "ch": "c", "dv": version, "topics": TOPICS}
    return {"op": "register", **ev, **fields}


def test_map_of_computed_keys_grows_one_key_later() -> None:
    """Such a map looks at the size before it adds a key, put afterwards."""
    computed: JavaMap[str | None, bool] = JavaMap(16, string_hash, concurrent=False, computes=True)
    put: JavaMap[str | None, bool] = string_map(16)
    for i in range(14):
        assert (computed.capacity, put.capacity) == (16, 32 if i == 13 else 16), i
        computed.put(f"k{i}", value=True)
        put.put(f"k{i}", value=True)
    assert computed.capacity == 32


def test_questions_without_a_subject() -> None:
    """5.x: a null topic or name is looked up in maps that take none, and a list of topics takes none either."""
    evs: list[Ev] = [register(), register(name=None), {"op": "route"}, {"op": "member_group"}, {"op": "system_topics"}]
    results, _ = played("5.4.0", *evs)
    assert [result["swallowed"] for result in results[1:]] == [[NULL_POINTER]] * 4
    assert results[2]["ret"] is None
    assert results[3]["brokerAddrs"] == {}
    assert results[4]["brokerAddr"] is None
    assert set(results[4]["topicList"]) <= {"C", "b"}
