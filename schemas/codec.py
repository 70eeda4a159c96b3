"""Rows of recorded events and answers to core values. Intervals: `schemas.intervals`; other gold rows: `schemas.tables`.

Rows are plain dicts by column name, as Arrow gives and takes them; times are microseconds since the epoch (UTC).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from namesrv_core.history.snapshot import snapshot_of
from namesrv_core.history.verification import Observed
from namesrv_core.machine import events
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.question import Answer, Question
from namesrv_core.machine.register import REGISTER_FAILED
from namesrv_core.machine.rows import UNRECORDED, LiveKey, TopicConfig, TopicTable
from namesrv_wire import values
from namesrv_wire.errors import DecodeError
from namesrv_wire.logs.log_lines import logged
from namesrv_wire.rows import gap_end_ms

Row = Mapping[str, Any]


# -- events ------------------------------------------------------------------------------------------------------------


def event_of(row: Row, topic_tables: Mapping[str, TopicTable]) -> events.Event:
    """Return the core event of a bronze row; `kind` says which table it is from.

    Raises KeyError for a digest that is not in `topic_tables`, ValueError for an unknown kind.
    """
    kind, refusal = row["kind"], row.get("refusal")
    if kind == "responses":
        asked: Any
        if row["code"] == RequestCode.QUERY_DATA_VERSION:
            asked = _query_of(row)
        else:
            asked = _ADMIN[row["code"]](row) if row["code"] in _ADMIN else _registration_of(row, topic_tables)
        return events.ResponseObserved(asked, answer_of(row))
    if kind == "registrations" and refusal not in (None, REGISTER_FAILED):
        return events.RefusedRequest(refusal)
    event: events.Event
    if kind == "heartbeats":
        is_light = row["code"] == RequestCode.BROKER_HEARTBEAT
        event = events.BrokerHeartbeat(row["cluster_name"], row["broker_addr"]) if is_light else _query_of(row)
    elif kind == "registrations":
        registration = _registration_of(row, topic_tables)
        return registration if refusal is None else registration._replace(is_refused=True)
    elif kind == "unregistrations":
        event = events.UnregisterBroker(row["cluster_name"], row["broker_addr"], row["broker_name"], row["broker_id"])
    elif kind == "channel_events":
        found = row.get("looked_up")
        looked_up = None if found is None else LiveKey(found["cluster_name"], found["broker_addr"])
        event = events.ChannelDestroyed(row["channel_id"], row["remote_addr"], looked_up=looked_up)
    elif kind == "admin_events":
        event = _ADMIN[row["code"]](row)
    elif kind == "namesrv_events":
        event = _NAMESRV[row["namesrv_kind"]](row)
    elif kind == "route_observations":
        event = events.AnswerObserved(question_of(row), answer_of(row), row["request_seq"])
    elif kind == "snapshots":
        event = snapshot_of(row["snapshot"]).event
    else:
        raise ValueError(f"event {row['event_id']}: no event comes from table {kind!r}")
    return event if refusal is None else events.RefusedRequest(refusal, event)


def question_of(row: Row) -> Question:
    """Return what was asked, of a row of `route_observations`."""
    # Only a route comes in two dialects; one question for everyone else keeps its answer cached.
    standard = row["standard_json"] or row["code"] != RequestCode.GET_ROUTEINFO_BY_TOPIC
    return Question(row["code"], row["subject"], standard, row["scope"])


def answer_of(row: Row) -> Answer:
    """Return what was answered, of a row of `route_observations`, or of an event with the columns of an answer."""
    text = row["response_fields"]
    try:
        fields = () if text is None else values.header_fields_of(text)
    except DecodeError:  # a row that was stored long ago has what nobody can read: it counts as none
        fields = ()
    return Answer(row["response_code"], row["body"], row["remark"], fields)


def fields_json(answer: Answer) -> str | None:
    """Return an answer's header fields as JSON text; None for none."""
    return json.dumps(dict(answer.fields), sort_keys=True, separators=(",", ":")) if answer.fields else None


RESPONSE_TABLES: dict[str, tuple[int, ...]] = {
    "registrations": (RequestCode.REGISTER_BROKER,),
    "heartbeats": (RequestCode.QUERY_DATA_VERSION,),
    "admin_events": (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
}
"""Events whose responses say something about the registry: request codes by bronze table."""


def response_of(row: Row) -> Observed:
    """Return the response to an event as an observation; `row` is the event's, with the columns of an answer.

    Of a registration's topics the response depends on no more than whether there are none, one, or several.
    """
    digest = row.get("topic_config_digest")
    topics = [TopicConfig(str(number), 0, 0, 0, 0) for number in range(min(row.get("topic_count") or 0, 2))]
    event = event_of(row, {digest: TopicTable(topics)} if digest is not None else {})
    return Observed(row["event_id"], row["request_seq"], row["seq"], event, answer_of(row))


def _query_of(row: Row) -> events.QueryDataVersion:
    return events.QueryDataVersion(row["cluster_name"], row["broker_addr"], values.data_version_of(row["data_version"]))


def _registration_of(row: Row, topic_tables: Mapping[str, TopicTable]) -> events.RegisterBroker:
    digest, filters = row["topic_config_digest"], row["filter_servers"]
    return events.RegisterBroker(
        row["cluster_name"],
        row["broker_addr"],
        row["broker_name"],
        row["broker_id"] or 0,
        row["ha_server_addr"],
        values.data_version_of(row["data_version"]),
        None if digest is None else topic_tables[digest],
        None if filters is None else tuple(filters),
        row["channel_id"] or UNRECORDED,
        row["enable_acting_master"],
        row["heartbeat_timeout_ms"],
        row["zone_name"],
    )


_NAMESRV: dict[str, Callable[[Row], events.Event]] = {
    "started": lambda _: events.NamesrvStarted(),
    "stopped": lambda _: events.NamesrvStopped(),
    "logged": lambda row: events.ChangeLogged(*logged(row["properties"])),
    "recording_gap": lambda row: events.RecordingGap(gap_end_ms(row["properties"])),
}
_ADMIN: dict[int, Callable[[Row], events.Event]] = {
    100: lambda row: events.PutKvConfig(row["namespace"], row["config_key"], row["config_value"]),
    102: lambda row: events.DeleteKvConfig(row["namespace"], row["config_key"]),
    205: lambda row: events.WipeWritePerm(row["broker_name"]),
    216: lambda row: events.DeleteTopic(row["topic"], row["cluster_name"]),
    217: lambda row: events.RegisterTopic(row["topic"], values.queue_datas_of(row["queue_datas"])),
    318: lambda row: events.UpdateNamesrvConfig(row["config_value"]),
    327: lambda row: events.AddWritePerm(row["broker_name"]),
}
