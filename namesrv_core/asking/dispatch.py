"""What a name server answers to requests that are events; questions are answered by `namesrv_core.asking.answers`.

Connections are no requests: the end of one, an exception on it and its idle limit (120 s) each come to
`ChannelDestroyed` (BrokerHousekeepingService). An idle channel and a reset one end twice: the idle event or the
exception first, then the close that follows it.

Source: RocketMQ 4.9.7 and 5.4.0 DefaultRequestProcessor, NettyRemotingAbstract.processRequestCommand; 5.4.0
ClientRequestProcessor, ZoneRouteRPCHook.
"""

from __future__ import annotations

from namesrv_core.asking.answers import data_version_json, kv_list_json
from namesrv_core.machine import events
from namesrv_core.machine.codes import ResponseCode
from namesrv_core.machine.draft import NULL_POINTER, Outcome, Step
from namesrv_core.machine.heartbeat import QueryDataVersionResult
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.question import Answer
from namesrv_core.machine.register import REGISTER_FAILED, RegisterResult
from namesrv_core.machine.registry import Registry

CRC32_MISMATCH = "crc32_mismatch"
UNDECODABLE_BODY = "undecodable_body"
MISSING_BROKER_ID = "missing_broker_id"
_REMARKS = {CRC32_MISMATCH: "crc32 not match", UNDECODABLE_BODY: "", MISSING_BROKER_ID: NULL_POINTER}
_COUNTS: dict[type, str] = {events.WipeWritePerm: "wipeTopicCount", events.AddWritePerm: "addTopicCount"}
MAX_REASON = 200
"""So many characters of a remark are kept as the reason of a refusal."""


def answer_to(event: events.Event, taken: Step, registry: Registry, namesrv: Namesrv) -> Answer:
    """Return the answer to the request that was `event` and did `taken`; `registry` as before or after it.

    An exception that leaves the processor becomes SYSTEM_ERROR with the exception's text. What a release refuses to
    UPDATE_NAMESRV_CONFIG is not known here: its answer says it.
    """
    if taken.exception is not None:
        return Answer(ResponseCode.SYSTEM_ERROR, None, taken.exception)
    if isinstance(event, events.RegisterBroker):
        if not isinstance(taken.result, RegisterResult):
            return Answer(ResponseCode.SYSTEM_ERROR, None, REGISTER_FAILED)
        named = (("haServerAddr", taken.result.ha_server_addr), ("masterAddr", taken.result.master_addr))
        returns_body = namesrv.config.return_order_topic_config_to_broker
        body = kv_list_json(registry, ORDER_TOPIC_CONFIG, namesrv) if returns_body else None
        return Answer(ResponseCode.SUCCESS, body, fields=tuple((n, value) for n, value in named if value is not None))
    if taken.outcome == Outcome.REFUSED_REQUEST:
        reason = None if taken.result is None else str(taken.result)
        return Answer(ResponseCode.SYSTEM_ERROR, None, None if reason is None else _REMARKS.get(reason, reason))
    if isinstance(taken.result, QueryDataVersionResult):
        changed, version = taken.result
        body = None if version is None else data_version_json(version, namesrv)
        return Answer(ResponseCode.SUCCESS, body, fields=(("changed", "true" if changed else "false"),))
    count = _COUNTS.get(type(event))
    return Answer(ResponseCode.SUCCESS, None, fields=((count, str(taken.result)),) if count else ())


def refusal_told(code: int | None, remark: str | None, topic_count: int | None = None) -> str | None:
    """Return why a request was refused, as its answer says: its remark, or its code; None for no answer, or success.

    `topic_count`: of a registration. Where no remark was recorded, one with a single topic was refused for that (5.x).
    """
    if code in (None, ResponseCode.SUCCESS):
        return None
    if remark:
        return remark[:MAX_REASON]
    return REGISTER_FAILED if (code, topic_count) == (ResponseCode.SYSTEM_ERROR, 1) else f"response code {code}"
