"""Event traces: an exchange format of events in, results and states out, for comparing name servers with each other.

One JSON object a line. `ev` is the event (`op`, `t_ms` and the operation's own fields); `replayed` yields what the
event returned (`res`), the whole state after it (`st`) in a canonical form, and the first 16 hex digits of that form's
SHA-256 (`h`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from namesrv_core.asking import answers
from namesrv_core.machine.profile import PROFILES, Namesrv, NamesrvConfig
from namesrv_core.machine.registry import NULL_POINTER, Notification, Registry, Step
from namesrv_core.machine.step import QueryDataVersionResult, RegisterResult, apply_step, step
from namesrv_core.machine.tables import KvConfigTable
from tools.trace.state import (
    Json,
    group_json,
    mapping_json,
    name_json,
    queue_json,
    state_of,
    version_json,
)
from tools.trace.trace_events import event_of, flag, integer, members, text
from tools.trace.trace_state import StateText

_LIVE_ORDER_SHOWN = ("scan", "channel_destroy")
_SWALLOWED = {"swallowed": [NULL_POINTER]}
_CONFIG_NAMES = {
    "orderMessageEnable": "order_message_enable",
    "supportActingMaster": "support_acting_master",
    "deleteTopicWithBrokerRegistration": "delete_topic_with_broker_registration",
    "notifyMinBrokerIdChanged": "notify_min_broker_id_changed",
    "returnOrderTopicConfigToBroker": "return_order_topic_config_to_broker",
    "enableTopicList": "enable_topic_list",
    "enableAllTopicList": "enable_all_topic_list",
}


class TraceError(ValueError):
    """A line that is not an event of a trace."""


class Trace:
    """One name server driven by trace events; `profile` overrides the one that the first line names."""

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile
        self.namesrv = Namesrv()
        self.registry = Registry(self.namesrv.profile)
        self._state = StateText(self.registry)
        self.remotes: dict[str, str] = {}

    def take(self, ev: Mapping[str, Any]) -> Json:
        """Apply one event and return its `res`.

        Raises TraceError for an unknown operation, a missing field or one of another type; the state is then undefined.
        """
        if not isinstance(ev, Mapping):
            raise TraceError(f"event {ev!r}: not an object")
        try:
            return self._take(ev)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise TraceError(f"event {ev.get('op')!r}: {type(error).__name__} {error}") from error

    def state(self) -> Json:
        """Return the whole state in canonical form."""
        return state_of(self.registry)

    def state_hash(self) -> str:
        """Return the first 16 hex digits of the SHA-256 of the state's canonical JSON."""
        return self._state.digest()

    def _take(self, ev: Mapping[str, Any]) -> Json:
        op = ev["op"]
        if op == "init":
            return self._init(ev)
        if op in _QUERIES:
            return _QUERIES[op](self.registry, self.namesrv, ev)
        live_order = None
        if op in _LIVE_ORDER_SHOWN:
            live_order = [name_json(key) for key in self.registry.broker_live_table.java_keys()]
        event, at_ms = event_of(op, ev, self.remotes), integer(ev, "t_ms")
        taken = step(self.registry, event, at_ms, self.namesrv)
        apply_step(self.registry, event, taken, at_ms, self.namesrv)
        self._state.changed(taken.changes, taken.refreshed)
        # A trace calls the scan itself: there is no timer that an exception could end.
        self.registry.scan_halted = False
        res = _result(op, taken, live_order, self.namesrv)
        if op == "restart" and flag(ev, "keep_kv") is False:
            self.registry.kv_config_table = KvConfigTable()
            self._state = StateText(self.registry)
        return res

    def _init(self, ev: Mapping[str, Any]) -> Json:
        given = members(ev, "config")
        config: dict[str, Any] = {
            _CONFIG_NAMES[name]: bool(flag(given, name)) for name in given if name in _CONFIG_NAMES
        }
        self.namesrv = Namesrv(PROFILES[self._profile or ev["profile"]], NamesrvConfig(**config))
        self.registry = Registry(self.namesrv.profile)
        self._state = StateText(self.registry)
        channels = members(ev, "channels")
        self.remotes = {channel: remote for channel in channels if (remote := text(channels, channel)) is not None}
        return {}


def replayed(lines: Iterable[str | bytes], profile: str | None = None, *, states: bool = True) -> Iterator[Json]:
    """Yield `i`, `res`, `h` and, with `states`, `st` for each line. Raises TraceError naming the line, from 1."""
    trace = Trace(profile)
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            ev = record["ev"]
            res = trace.take(ev)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TraceError(f"line {number}: {error}") from error
        out = {"i": number - 1, "res": res, "h": trace.state_hash()}
        yield {**out, "st": trace.state()} if states else out


def _returned(op: str, taken: Step, live_order: list[str] | None, *, five: bool) -> Json:
    result = taken.result
    res: Json = {}
    if op == "register":
        plain = (
            {"haServerAddr": result.ha_server_addr, "masterAddr": result.master_addr}
            if isinstance(result, RegisterResult)
            else None
        )
        res["ret"] = plain
    elif op == "unregister" and five:
        res["submitted"] = True
    elif op == "query_dv" and isinstance(result, QueryDataVersionResult):
        res |= {"changed": result.changed, "dataVersion": version_json(result.data_version, five=five)}
    elif op in _LIVE_ORDER_SHOWN:
        res["liveOrder"] = live_order
        if op == "scan" and not five and taken.exception is None:
            res["removed"] = result
    elif op in ("wipe_perm", "add_perm"):
        res["count"] = result
    return res


def _notified(notification: Notification) -> Json:
    """Return a notification as JSON, with its request code."""
    return {
        "to": notification.to,
        "code": 905,
        "minBrokerId": notification.min_broker_id,
        "minBrokerAddr": notification.min_broker_addr,
        "offlineBrokerAddr": notification.offline_broker_addr,
        "haBrokerAddr": notification.ha_broker_addr,
        "brokerName": None,
    }


def _result(op: str, taken: Step, live_order: list[str] | None, namesrv: Namesrv) -> Json:
    five = namesrv.profile.live_key_has_cluster
    res = _returned(op, taken, live_order, five=five)
    if taken.exception:
        res["exception"] = taken.exception
    if taken.swallowed:
        res["swallowed"] = list(taken.swallowed)
    if taken.closed:
        res["closed"] = list(taken.closed)
    if taken.notifications:
        res["notify"] = [_notified(notification) for notification in taken.notifications]
    if five and taken.batch is not None:
        res["batch"] = taken.batch
    return res


def _route(registry: Registry, namesrv: Namesrv, ev: Mapping[str, Any]) -> Json:
    route = answers.pickup_topic_route_data(registry, text(ev, "topic"), namesrv)
    five = namesrv.profile.live_key_has_cluster
    if route is None:
        return {"ret": None, **(_SWALLOWED if five and text(ev, "topic") is None else {})}
    ret: Json = {
        "brokerDatas": [group_json(name, group, five=five) for name, group in route.broker_datas],
        "queueDatas": [queue_json(name, data) for name, data in route.queue_datas],
        "filterServerTable": {
            name_json(addr): None if servers is None else list(servers) for addr, servers in route.filter_server_table
        },
        "orderTopicConf": None,
    }
    if five:
        mappings = route.topic_queue_mapping_by_broker
        ret["topicQueueMappingByBroker"] = (
            None if mappings is None else {name_json(name): mapping_json(info) for name, info in mappings}
        )
    return {"ret": ret}


def _list(topics: list[str | None], broker_addr: str | None = None) -> Json:
    return {"topicList": sorted(topics, key=name_json), "brokerAddr": broker_addr}


def _units(registry: Registry, namesrv: Namesrv, *, unit: bool | None, sub: bool | None) -> Json:
    return _list(answers.unit_topic_list(registry, namesrv, unit=unit, sub=sub))


def _member_group(registry: Registry, _: Namesrv, ev: Mapping[str, Any]) -> Json:
    group = registry.broker_addr_table.get(text(ev, "name"))
    addrs = {str(broker_id): addr for broker_id, addr in group.broker_addrs} if group else {}
    shown: Json = {"cluster": text(ev, "cluster"), "brokerName": text(ev, "name"), "brokerAddrs": addrs}
    return shown if text(ev, "name") is not None else {**shown, **_SWALLOWED}


def _kv_get(registry: Registry, _: Namesrv, ev: Mapping[str, Any]) -> Json:
    entry = registry.kv_config_table.row((text(ev, "ns"), text(ev, "key")))
    return {"value": None if entry is None else entry.text}


def _kv_list(registry: Registry, _: Namesrv, ev: Mapping[str, Any]) -> Json:
    entries = registry.kv_config_table.get(text(ev, "ns"))
    if entries is None:
        return {"json": None}
    table = {key: value.text for key, value in entries.java_items() if value.text is not None}
    return {"json": json.dumps({"table": table}, separators=(",", ":"), ensure_ascii=False)}


def _cluster_info(registry: Registry, _: Namesrv, __: Mapping[str, Any]) -> Json:
    st = state_of(registry)
    return {"clusterAddrTable": st["clusterAddrTable"], "brokerAddrTable": st["brokerAddrTable"]}


def _topics_by_cluster(registry: Registry, namesrv: Namesrv, ev: Mapping[str, Any]) -> Json:
    listed = _list(answers.topics_by_cluster(registry, text(ev, "cluster"), namesrv))
    if text(ev, "cluster") in registry.cluster_addr_table:
        return listed
    return {**listed, **_SWALLOWED}


def _system_topics(registry: Registry, namesrv: Namesrv, _: Mapping[str, Any]) -> Json:
    listed = _list(*answers.system_topic_list(registry, namesrv))
    fails = namesrv.profile.topic_list == "newKeySet" and any(
        None in names for names in registry.cluster_addr_table.values()
    )
    return {**listed, **_SWALLOWED} if fails else listed


_QUERIES: dict[str, Callable[[Registry, Namesrv, Mapping[str, Any]], Json]] = {
    "route": _route,
    "cluster_info": _cluster_info,
    "topic_list": lambda registry, namesrv, _: _list(answers.all_topic_list(registry, namesrv)),
    "system_topics": _system_topics,
    "topics_by_cluster": _topics_by_cluster,
    "unit_topics": lambda registry, namesrv, _: _units(registry, namesrv, unit=True, sub=None),
    "unit_sub_topics": lambda registry, namesrv, _: _units(registry, namesrv, unit=None, sub=True),
    "unit_sub_ununit_topics": lambda registry, namesrv, _: _units(registry, namesrv, unit=False, sub=True),
    "member_group": _member_group,
    "kv_get": _kv_get,
    "kv_list": _kv_list,
}
