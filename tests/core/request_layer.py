"""The request layer of a name server, whole: what it does with a request, the event that it is, and the answer.

`dispatch` decides, `serve` also applies. What the product has of this layer (headers, answers) is held against the real one by
way of it.

Source: RocketMQ 4.9.7 and 5.4.0 DefaultRequestProcessor, NettyRemotingAbstract.processRequestCommand; 5.4.0
ClientRequestProcessor, ZoneRouteRPCHook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from namesrv_core.asking.answers import (
    CRC32_MISMATCH,
    MISSING_BROKER_ID,
    QUESTIONS,
    STANDARD_JSON_SINCE,
    UNDECODABLE_BODY,
    answer,
    answer_to,
    question_of,
)
from namesrv_core.asking.requests import Fields, broker_header, crc32_matches, java_boolean, register_header
from namesrv_core.inference.configuration import properties_in
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, RequestCode, ResponseCode
from namesrv_core.machine.draft import NULL_POINTER, Step
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import DataVersion, QueueData, TopicTable
from namesrv_core.machine.step import apply_step, step

_SUCCESS = Answer(ResponseCode.SUCCESS, None)


_KNOWN = frozenset(RequestCode)
# Codes that 4.9.7 does not know.
_SINCE_5X = frozenset(
    {RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode.GET_BROKER_MEMBER_GROUP, RequestCode.BROKER_HEARTBEAT}
)


class RegisterBody(NamedTuple):
    """Body of REGISTER_BROKER. `topics` None: the table is null. `filter_servers` None leaves the stored list."""

    data_version: DataVersion | None
    topics: TopicTable | None
    filter_servers: tuple[str, ...] | None


class Undecodable(NamedTuple):
    """A body that the server cannot decode; `error` is how the exception's text begins, as far as it is known."""

    error: str = ""


class QueueDatas(NamedTuple):
    """Body of REGISTER_TOPIC_IN_NAMESRV: queue data by broker name, in the request's order; None for a null list."""

    queue_datas: tuple[tuple[str | None, QueueData], ...] | None


Body = RegisterBody | DataVersion | QueueDatas | str | Undecodable | None


class Request(NamedTuple):
    """One request; `version` is MQVersion's ordinal.

    `body` by code: RegisterBody (103), DataVersion or None (322), QueueDatas (217), properties text or None (318);
    `body_crc32` is the checksum of its bytes as the server counts it (31 bits), None without a body.
    """

    code: int
    fields: Fields
    version: int = 0
    body: Body = None
    body_crc32: int | None = None
    one_way: bool = False
    channel_id: str | None = None


class Served(NamedTuple):
    """What became of a request: the event (None for a question), what it does, and the answer (None: none is sent)."""

    event: events.Event | None
    step: Step | None
    answer: Answer | None


def serve(registry: Registry, request: Request, at_ms: int, namesrv: Namesrv) -> Served:
    """Return `dispatch` after applying it to `registry`."""
    served = dispatch(registry, request, at_ms, namesrv)
    if served.event is not None and served.step is not None:
        apply_step(registry, served.event, served.step, at_ms, namesrv)
    return served


def dispatch(registry: Registry, request: Request, at_ms: int, namesrv: Namesrv) -> Served:
    """Return what a request at `at_ms` (epoch milliseconds) is, does and is answered with. Nothing is changed.

    A one-way request has no answer, whatever it
    does. The body of GET_NAMESRV_CONFIG is not predicted: `inference.configuration` does.
    """
    served = _served(registry, request, at_ms, namesrv)
    return served._replace(answer=None) if request.one_way else served


def _served(registry: Registry, request: Request, at_ms: int, namesrv: Namesrv) -> Served:
    code, fields = request.code, request.fields
    if not _knows(code, namesrv):
        return Served(None, None, _unknown_code(code, namesrv))
    if code in QUESTIONS:
        standard = request.version >= STANDARD_JSON_SINCE or bool(java_boolean(fields.get("acceptStandardJsonOnly")))
        return Served(None, None, answer(registry, question_of(code, fields, standard_json=standard), namesrv))
    if code == RequestCode.GET_NAMESRV_CONFIG:
        return Served(None, None, _SUCCESS)
    event = event_of(request, namesrv)
    if event is None:
        error = request.body.error if isinstance(request.body, Undecodable) else NULL_POINTER
        return Served(None, None, Answer(ResponseCode.SYSTEM_ERROR, None, error))
    taken = step(registry, event, at_ms, namesrv)
    if isinstance(event, events.UpdateNamesrvConfig):
        return Served(event, taken, _config_answer(event, namesrv))
    answered = answer_to(event, taken, registry, namesrv)
    if event == events.RefusedRequest(UNDECODABLE_BODY) and isinstance(request.body, Undecodable):
        answered = answered._replace(remark=request.body.error)
    return Served(event, taken, answered)


def _config_answer(event: events.UpdateNamesrvConfig, namesrv: Namesrv) -> Answer:
    """Return the answer to UPDATE_NAMESRV_CONFIG of 4.9.7 or 5.4.0: some properties it never changes."""
    said = {} if event.properties is None else properties_in(event.properties)
    if said is None:
        return Answer(ResponseCode.SYSTEM_ERROR, None, "string2Properties error")
    refused = {"configStorePath", "kvConfigPath"} | (set() if _is_old(namesrv) else {"configBlackList", "rocketmqHome"})
    if said.keys().isdisjoint(refused):
        return _SUCCESS
    what = "config path" if _is_old(namesrv) else "config in black list."
    return Answer(ResponseCode.NO_PERMISSION, None, f"Can not update {what}")


def event_of(request: Request, namesrv: Namesrv) -> events.Event | None:
    """Return the event that a request is; None for a question, an unknown code, or a body that ends the request.

    A registration that the request layer refuses is a RefusedRequest.
    """
    code = request.code
    if code == RequestCode.REGISTER_BROKER and request.version < 0 and _is_old(namesrv):
        return events.RefusedRequest(UNDECODABLE_BODY)  # it looks at the version first, 5.x at the checksum
    make = _EVENTS.get(code) if _knows(code, namesrv) else None
    undecodable = isinstance(request.body, Undecodable) and code != RequestCode.REGISTER_BROKER
    # 4.9.7 reads the version that is asked about without looking whether there is a body.
    bodiless = code == RequestCode.QUERY_DATA_VERSION and request.body_crc32 is None and _is_old(namesrv)
    return None if make is None or undecodable or bodiless else make(request)


def _is_old(namesrv: Namesrv) -> bool:
    return not namesrv.profile.has_topic_registration


def _knows(code: int, namesrv: Namesrv) -> bool:
    if code == RequestCode.ADD_WRITE_PERM_OF_BROKER:
        return namesrv.profile.has_add_write_perm
    return code in _KNOWN and (code not in _SINCE_5X or not _is_old(namesrv))


def _unknown_code(code: int, namesrv: Namesrv) -> Answer | None:
    if _is_old(namesrv):
        return None
    return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, f" request type {code} not supported")


def _register_event(request: Request) -> events.Event:
    header, broker, body = register_header(request.fields), broker_header(request.fields), request.body
    if not crc32_matches(header, request.body_crc32):
        return events.RefusedRequest(CRC32_MISMATCH)
    if not isinstance(body, RegisterBody):
        return events.RefusedRequest(UNDECODABLE_BODY)
    if broker.broker_id is None:
        return events.RefusedRequest(MISSING_BROKER_ID)
    return events.RegisterBroker(
        broker.cluster_name,
        broker.broker_addr,
        broker.broker_name,
        broker.broker_id,
        header.ha_server_addr,
        body.data_version,
        body.topics,
        body.filter_servers,
        request.channel_id,
        header.enable_acting_master,
        header.heartbeat_timeout_ms,
        header.zone_name,
    )


def _unregister_event(request: Request) -> events.Event:
    return events.UnregisterBroker(*broker_header(request.fields))


def _query_event(request: Request) -> events.Event:
    broker = broker_header(request.fields)
    version = request.body if isinstance(request.body, DataVersion) else None
    return events.QueryDataVersion(broker.cluster_name, broker.broker_addr, version)


def _register_topic_event(request: Request) -> events.Event:
    queue_datas = request.body.queue_datas if isinstance(request.body, QueueDatas) else None
    return events.RegisterTopic(request.fields.get("topic"), queue_datas)


def _update_config_event(request: Request) -> events.Event:
    return events.UpdateNamesrvConfig(request.body if isinstance(request.body, str) else None)


_EVENTS: dict[int, Callable[[Request], events.Event]] = {
    RequestCode.PUT_KV_CONFIG: lambda asked: events.PutKvConfig(*map(asked.fields.get, ("namespace", "key", "value"))),
    RequestCode.DELETE_KV_CONFIG: lambda asked: events.DeleteKvConfig(*map(asked.fields.get, ("namespace", "key"))),
    RequestCode.REGISTER_BROKER: _register_event,
    RequestCode.UNREGISTER_BROKER: _unregister_event,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: lambda asked: events.WipeWritePerm(asked.fields.get("brokerName")),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: lambda asked: events.AddWritePerm(asked.fields.get("brokerName")),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: lambda asked: events.DeleteTopic(
        asked.fields.get("topic"), asked.fields.get("clusterName")
    ),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _register_topic_event,
    RequestCode.UPDATE_NAMESRV_CONFIG: _update_config_event,
    RequestCode.QUERY_DATA_VERSION: _query_event,
    RequestCode.BROKER_HEARTBEAT: lambda asked: events.BrokerHeartbeat(*broker_header(asked.fields)[:2]),
}
