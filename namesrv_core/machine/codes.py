"""Request and response codes of a name server; questions to it and its answers.

Source: RocketMQ 4.9.7 and 5.4.0 RequestCode, ResponseCode, RemotingSysResponseCode.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class RequestCode(IntEnum):
    """Every code that a 4.9.7 or 5.4.0 name server knows."""

    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904


class ResponseCode(IntEnum):
    """Response codes that a name server uses."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    REQUEST_CODE_NOT_SUPPORTED = 3
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22


class Question(NamedTuple):
    """A question to a name server: request code, subject, and whether the client accepts standard JSON only.

    `subject`: topic (105), cluster (224), key (101), namespace (219) or broker name (901). `scope`: zone to which the
    client restricts a route (105, 5.x), namespace of the key (101), cluster of the broker name (901).
    """

    code: int
    subject: str | None = None
    standard_json: bool = True
    scope: str | None = None


class Answer(NamedTuple):
    """A response: code, body text, remark and header fields.

    Some remarks end in text of the build or the JVM; an expected remark stops before it, as `remark_matches` knows.
    """

    code: int
    body: str | None
    remark: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
