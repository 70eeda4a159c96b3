"""The parts of a registry that an answer is made of: while none of them changes, it stays what it is."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_core.asking.answers import LIST_CODES
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import Event, QueryDataVersion
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.question import Question
from namesrv_core.machine.versions import Part


def parts_read(question: Question | Event, names: Iterable[str | None]) -> list[Part] | None:
    """Return the parts that an answer is made of; None: whatever there is. `names`: the topic's brokers, for a route."""
    if isinstance(question, QueryDataVersion):
        return [("broker_live_table", question.broker_addr)]
    if not isinstance(question, Question):
        return None
    code, subject = question.code, question.subject
    if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        own: list[Part] = [("topic_queue_table", subject), ("topic_queue_mapping_info_table", subject)]
        groups = [("broker_addr_table", name) for name in names]
        return [*own, *groups, ("filter_server_table",), ("kv_config_table", ORDER_TOPIC_CONFIG)]
    if code == RequestCode.GET_BROKER_MEMBER_GROUP:
        return [("broker_addr_table", subject)]
    if code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
        return [("kv_config_table", question.scope if code == RequestCode.GET_KV_CONFIG else subject)]
    topics: list[Part] = [("topic_queue_table",)] if code in LIST_CODES else []
    return [*topics, ("broker_addr_table",), ("cluster_addr_table",)]
