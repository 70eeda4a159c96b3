"""What a name server does with a request: the event that it is, and the answer.

The request layer as pure functions: `dispatch` decides, `serve` also applies. Questions are answered by
`namesrv_core.asking.answers`, everything else becomes an event for `namesrv_core.machine.step`.

Connections are no requests: the end of one, an exception on it and its idle limit (120 s) each come to
`ChannelDestroyed` (BrokerHousekeepingService). An idle channel and a reset one end twice: the idle event or the
exception first, then the close that follows it.

Source: RocketMQ 4.9.7 and 5.4.0 DefaultRequestProcessor, NettyRemotingAbstract.processRequestCommand; 5.4.0
ClientRequestProcessor, ZoneRouteRPCHook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from namesrv_core.asking.answers import (
    QUESTIONS,
    STANDARD_JSON_SINCE,
    answer,
    data_version_json,
    kv_list_json,
    question_of,
)
from namesrv_core.asking.requests import (
    QueueDatas,
    RegisterBody,
    Request,
    Undecodable,
    broker_header,
    crc32_matches,
    java_boolean,
    register_header,
)
from namesrv_core.machine import events
from namesrv_core.machine.codes import SINCE_5X, RequestCode, ResponseCode
from namesrv_core.machine.draft import NULL_POINTER, Outcome, Step
from namesrv_core.machine.heartbeat import QueryDataVersionResult
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.properties import properties_in
from namesrv_core.machine.question import Answer
from namesrv_core.machine.register import REGISTER_FAILED, RegisterResult
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import DataVersion
from namesrv_core.machine.step import apply_step, step

CRC32_MISMATCH = "crc32_mismatch"
UNDECODABLE_BODY = "undecodable_body"
MISSING_BROKER_ID = "missing_broker_id"
_REMARKS = {CRC32_MISMATCH: "crc32 not match", UNDECODABLE_BODY: "", MISSING_BROKER_ID: NULL_POINTER}
_COUNTS: dict[type, str] = {events.WipeWritePerm: "wipeTopicCount", events.AddWritePerm: "addTopicCount"}
MAX_REASON = 200
"""So many characters of a remark are kept as the reason of a refusal."""
_SUCCESS = Answer(ResponseCode.SUCCESS, None)
_KNOWN = frozenset(RequestCode)


class Served(NamedTuple):
    """What became of a request: the event (None for a question), what it does, and the answer (None: none is sent)."""

    event: events.Event | None
    step: Step | None
    answer: Answer | None


def serve(
    registry: Registry, request: Request, at_ms: int, namesrv: Namesrv, *, uptime_ms: int | None = None
) -> Served:
    """Return `dispatch` after applying it to `registry`."""
    served = dispatch(registry, request, at_ms, namesrv, uptime_ms=uptime_ms)
    if served.event is not None and served.step is not None:
        apply_step(registry, served.event, served.step, at_ms, namesrv)
    return served


def dispatch(
    registry: Registry, request: Request, at_ms: int, namesrv: Namesrv, *, uptime_ms: int | None = None
) -> Served:
    """Return what a request at `at_ms` (epoch milliseconds) is, does and is answered with. Nothing is changed.

    `uptime_ms`: milliseconds since the server started, None for long ago. A one-way request has no answer, whatever it
    does. The body of GET_NAMESRV_CONFIG is not predicted: `inference.configuration` does.
    """
    served = _served(registry, request, at_ms, namesrv, uptime_ms)
    return served._replace(answer=None) if request.one_way else served


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


def answer_to(event: events.Event, taken: Step, registry: Registry, namesrv: Namesrv) -> Answer:
    """Return the answer to the request that was `event` and did `taken`; `registry` as before or after it.

    An exception that leaves the processor becomes SYSTEM_ERROR with the exception's text.
    """
    if taken.exception is not None:
        return Answer(ResponseCode.SYSTEM_ERROR, None, taken.exception)
    if isinstance(event, events.RegisterBroker):
        return _registered(taken.result, registry, namesrv)
    if isinstance(event, events.UpdateNamesrvConfig):
        return _config_answer(event, namesrv)
    if taken.outcome == Outcome.REFUSED_REQUEST:
        reason = taken.result
        return Answer(
            ResponseCode.SYSTEM_ERROR, None, None if reason is None else _REMARKS.get(str(reason), str(reason))
        )
    return _reported(event, taken.result, namesrv)


def refusal_told(code: int | None, remark: str | None, topic_count: int | None = None) -> str | None:
    """Return why a request was refused, as its answer says: its remark, or its code; None for no answer, or success.

    `topic_count`: of a registration. Where no remark was recorded, one with a single topic was refused for that (5.x).
    """
    if code in (None, ResponseCode.SUCCESS):
        return None
    if remark:
        return remark[:MAX_REASON]
    return REGISTER_FAILED if (code, topic_count) == (ResponseCode.SYSTEM_ERROR, 1) else f"response code {code}"


def _reported(event: events.Event, result: object, namesrv: Namesrv) -> Answer:
    """Return SUCCESS with what the event returned."""
    if isinstance(result, QueryDataVersionResult):
        body = None if result.data_version is None else data_version_json(result.data_version, namesrv)
        return Answer(ResponseCode.SUCCESS, body, fields=(("changed", "true" if result.changed else "false"),))
    count = _COUNTS.get(type(event))
    return Answer(ResponseCode.SUCCESS, None, fields=((count, str(result)),) if count else ())


def _served(registry: Registry, request: Request, at_ms: int, namesrv: Namesrv, uptime_ms: int | None) -> Served:
    code, fields = request.code, request.fields
    if not _knows(code, namesrv):
        return Served(None, None, _unknown_code(code, namesrv))
    if code in QUESTIONS:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and _not_ready(namesrv, uptime_ms):
            return Served(None, None, Answer(ResponseCode.SYSTEM_ERROR, None, "name server not ready"))
        standard = request.version >= STANDARD_JSON_SINCE or bool(java_boolean(fields.get("acceptStandardJsonOnly")))
        return Served(None, None, answer(registry, question_of(code, fields, standard_json=standard), namesrv))
    if code == RequestCode.GET_NAMESRV_CONFIG:
        return Served(None, None, _SUCCESS)
    event = event_of(request, namesrv)
    if event is None:
        error = request.body.error if isinstance(request.body, Undecodable) else NULL_POINTER
        return Served(None, None, Answer(ResponseCode.SYSTEM_ERROR, None, error))
    taken = step(registry, event, at_ms, namesrv)
    answered = answer_to(event, taken, registry, namesrv)
    if event == events.RefusedRequest(UNDECODABLE_BODY) and isinstance(request.body, Undecodable):
        answered = answered._replace(remark=request.body.error)
    return Served(event, taken, answered)


def _is_old(namesrv: Namesrv) -> bool:
    return not namesrv.profile.has_topic_registration


def _knows(code: int, namesrv: Namesrv) -> bool:
    if code == RequestCode.ADD_WRITE_PERM_OF_BROKER:
        return namesrv.profile.has_add_write_perm
    return code in _KNOWN and (code not in SINCE_5X or not _is_old(namesrv))


def _unknown_code(code: int, namesrv: Namesrv) -> Answer | None:
    if not namesrv.profile.answers_unknown_codes:
        return None
    return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, f" request type {code} not supported")


def _not_ready(namesrv: Namesrv, uptime_ms: int | None) -> bool:
    config = namesrv.config
    return (
        config.need_wait_for_service
        and namesrv.profile.has_waiting
        and uptime_ms is not None
        and uptime_ms < config.wait_seconds_for_service * 1_000
    )


def _registered(result: object, registry: Registry, namesrv: Namesrv) -> Answer:
    if not isinstance(result, RegisterResult):
        return Answer(ResponseCode.SYSTEM_ERROR, None, REGISTER_FAILED)
    named = (("haServerAddr", result.ha_server_addr), ("masterAddr", result.master_addr))
    returns_body = namesrv.config.return_order_topic_config_to_broker
    return Answer(
        ResponseCode.SUCCESS,
        kv_list_json(registry, ORDER_TOPIC_CONFIG, namesrv) if returns_body else None,
        fields=tuple((name, value) for name, value in named if value is not None),
    )


def _config_answer(event: events.UpdateNamesrvConfig, namesrv: Namesrv) -> Answer:
    """Return the answer to UPDATE_NAMESRV_CONFIG: nothing is changed if a property of the black list is among them."""
    said = {} if event.properties is None else properties_in(event.properties)
    if said is None:
        return Answer(ResponseCode.SYSTEM_ERROR, None, "string2Properties error")
    profile = namesrv.profile
    listed = {*profile.config_black_list, *(namesrv.config.config_black_list.split(";"))}
    if said.keys() & (listed if profile.has_config_black_list else set(profile.config_black_list)):
        return Answer(ResponseCode.NO_PERMISSION, None, profile.black_list_remark)
    return _SUCCESS


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
