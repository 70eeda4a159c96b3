"""Rows to core values and back; intervals have a module of their own, `schemas.intervals`.

Rows are plain dicts by column name, as Arrow gives and takes them; times are microseconds since the epoch (UTC).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from namesrv_core.history.intervals import MapCapacity
from namesrv_core.history.snapshot import snapshot_of
from namesrv_core.history.verification import Observed
from namesrv_core.inference.settings import Setting, Source, text_of, value_of
from namesrv_core.machine import events
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.draft import Step
from namesrv_core.machine.past import ANY, Entity, Fact
from namesrv_core.machine.question import Answer, Question
from namesrv_core.machine.register import REGISTER_FAILED
from namesrv_core.machine.rows import UNRECORDED, LiveKey, TopicConfig, TopicTable
from namesrv_wire import values
from namesrv_wire.errors import DecodeError
from namesrv_wire.rows import gap_end_ms

Row = Mapping[str, Any]


# -- events ------------------------------------------------------------------------------------------------------------


def topic_table_of(row: Row) -> TopicTable:
    """Return the core's topic table of a `topic_configs` row."""
    return values.topic_table_of(row["topics"], row["mappings"])


def event_of(row: Row, topic_tables: Mapping[str, TopicTable]) -> events.Event:
    """Return the core event of a bronze row; `kind` says which table it is from.

    Raises KeyError for a digest that is not in `topic_tables`, ValueError for an unknown kind.
    """
    kind = row["kind"]
    if kind == "responses":
        return events.ResponseObserved(_asked_by(row, topic_tables), answer_of(row))
    refusal = row.get("refusal")
    if refusal is None:
        return _taken_of(row, topic_tables)
    if kind != "registrations":
        return events.RefusedRequest(refusal, _taken_of(row, topic_tables))
    if refusal == REGISTER_FAILED:
        return _registration_of(row, topic_tables)._replace(is_refused=True)
    return events.RefusedRequest(refusal)


def _taken_of(row: Row, topic_tables: Mapping[str, TopicTable]) -> events.Event:
    """Return the core event of a row of a table that was not refused."""
    kind = row["kind"]
    event: events.Event
    if kind == "heartbeats":
        event = _heartbeat_of(row)
    elif kind == "registrations":
        event = _registration_of(row, topic_tables)
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
    elif kind in _SHOWN:
        event = _SHOWN[kind](row)
    else:
        raise ValueError(f"event {row['event_id']}: no event comes from table {kind!r}")
    return event


def _asked_by(row: Row, topic_tables: Mapping[str, TopicTable]) -> Any:
    """Return the request of which a row has the response."""
    if row["code"] == RequestCode.QUERY_DATA_VERSION:
        return _query_of(row)
    return _ADMIN[row["code"]](row) if row["code"] in _ADMIN else _registration_of(row, topic_tables)


_SHOWN: dict[str, Callable[[Row], events.Event]] = {
    "route_observations": lambda row: events.AnswerObserved(question_of(row), answer_of(row), row["request_seq"]),
    "snapshots": lambda row: snapshot_of(row["snapshot"]).event,
}
_NAMESRV: dict[str, Callable[[Row], events.Event]] = {
    "started": lambda _: events.NamesrvStarted(),
    "stopped": lambda _: events.NamesrvStopped(),
    "recording_gap": lambda row: events.RecordingGap(gap_end_ms(row["properties"])),
}


def question_of(row: Row) -> Question:
    """Return what was asked, of a row of `route_observations`."""
    # Only a route comes in two dialects; one question for everyone else keeps its answer cached.
    standard = row["standard_json"] or row["code"] != RequestCode.GET_ROUTEINFO_BY_TOPIC
    return Question(row["code"], row["subject"], standard, row["scope"])


def answer_of(row: Row) -> Answer:
    """Return what was answered, of a row of `route_observations`, or of an event with the columns of an answer."""
    return Answer(row["response_code"], row["body"], row["remark"], _header_fields_of(row["response_fields"]))


def _header_fields_of(text: str | None) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a stored answer; none, if a row that was stored long ago has what nobody can read."""
    try:
        return () if text is None else values.header_fields_of(text)
    except DecodeError:
        return ()


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


def _heartbeat_of(row: Row) -> events.Event:
    if row["code"] == _BROKER_HEARTBEAT:
        return events.BrokerHeartbeat(row["cluster_name"], row["broker_addr"])
    return _query_of(row)


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


_BROKER_HEARTBEAT = 904
_ADMIN: dict[int, Callable[[Row], events.Event]] = {
    100: lambda row: events.PutKvConfig(row["namespace"], row["config_key"], row["config_value"]),
    102: lambda row: events.DeleteKvConfig(row["namespace"], row["config_key"]),
    205: lambda row: events.WipeWritePerm(row["broker_name"]),
    216: lambda row: events.DeleteTopic(row["topic"], row["cluster_name"]),
    217: lambda row: events.RegisterTopic(row["topic"], values.queue_datas_of(row["queue_datas"])),
    318: lambda row: events.UpdateNamesrvConfig(row["config_value"]),
    327: lambda row: events.AddWritePerm(row["broker_name"]),
}


# -- outcomes ----------------------------------------------------------------------------------------------------------

_OPERATIONS: dict[type, str] = {
    events.RegisterBroker: "register_broker",
    events.UnregisterBroker: "unregister_broker",
    events.BrokerHeartbeat: "broker_heartbeat",
    events.QueryDataVersion: "query_data_version",
    events.ScanNotActiveBroker: "scan",
    events.ChannelDestroyed: "channel_close",
    events.WipeWritePerm: "wipe_write_perm",
    events.AddWritePerm: "add_write_perm",
    events.DeleteTopic: "delete_topic",
    events.RegisterTopic: "register_topic",
    events.PutKvConfig: "put_kv_config",
    events.DeleteKvConfig: "delete_kv_config",
    events.UpdateNamesrvConfig: "update_namesrv_config",
    events.RefusedRequest: "register_broker",
    events.AnswerObserved: "observed_answer",
    events.ResponseObserved: "observed_answer",
    events.StateKnown: "snapshot",
    events.NamesrvStarted: "namesrv_started",
    events.NamesrvStopped: "namesrv_stopped",
    events.RecordingGap: "recording_gap",
}


def operation_of(event: events.Event, channel_kind: str | None) -> str:
    """Return what `event_outcomes` calls an event; `channel_kind`: how a connection ended."""
    refused = event.asked if isinstance(event, events.RefusedRequest) else None
    operation = _OPERATIONS[type(refused or event)]
    return f"channel_{channel_kind or 'close'}" if operation == "channel_close" else operation


def detail_of(step: Step) -> str | None:
    """Return what `event_outcomes` says of a step beside its outcome: an exception, a reason or a count."""
    detail = step.exception or (step.swallowed[0] if step.swallowed else None)
    if detail is None and isinstance(step.result, (int, str)) and not isinstance(step.result, bool):
        detail = str(step.result)
    return detail


# -- a past that was not recorded ---------------------------------------------------------------------------------------


def past_row(fact: Fact, namesrv_id: str) -> dict[str, Any]:
    """Return the row of `fact` in `past_knowledge`, without `day`."""
    kind, one, other = fact.entity
    return {
        "namesrv_id": namesrv_id,
        "what": fact.what,
        "about": kind,
        "one": None if one is ANY or one is None else str(one),
        "other": None if other is ANY or other is None else str(other),
        "any_one": one is ANY,
        "any_other": other is ANY,
        "number": fact.number,
    }


def fact_of(row: Row) -> Fact:
    """Return the fact of a row of `past_knowledge`."""
    other = row["other"]
    if row["about"] == "broker_addr" and other is not None:
        other = int(other)
    entity = Entity(row["about"], ANY if row["any_one"] else row["one"], ANY if row["any_other"] else other)
    return Fact(row["what"], entity, row["number"])


# -- the capacities of maps ---------------------------------------------------------------------------------------------


def map_capacity_row(of: MapCapacity) -> dict[str, Any]:
    """Return the row of a map in `map_capacities`, without `namesrv_id` and `day`."""
    return {"map_table": of.table, "is_inner": of.is_inner, "outer_key": of.outer, "capacity": of.capacity}


def map_capacity_of(row: Row) -> MapCapacity:
    """Return what a row of `map_capacities` says."""
    return MapCapacity(row["map_table"], row["is_inner"], row["outer_key"], row["capacity"])


# -- settings ----------------------------------------------------------------------------------------------------------


def setting_rows(settings: Sequence[Setting], namesrv_id: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of `namesrv_settings`, without `day`; times are microseconds."""
    starts: dict[str, list[int]] = {}
    for setting in settings:
        starts.setdefault(setting.name, []).append(setting.from_seq)
    for setting in settings:
        until_seq = min((seq for seq in starts[setting.name] if seq > setting.from_seq), default=None)
        yield {
            "namesrv_id": namesrv_id,
            "setting": setting.name,
            "value": text_of(setting.value),
            "source": setting.source.value,
            "valid_from": setting.from_seq // 1_000 or None,
            "valid_to": None if until_seq is None else until_seq // 1_000,
            "from_seq": setting.from_seq,
            "process_seq": setting.life_seq,
            "restart_value": text_of(setting.restart_value),
            "answers_for": setting.answers_for,
            "answers_against": setting.answers_against,
            "evidence": list(setting.evidence),
        }


def setting_of(row: Row) -> Setting:
    """Return the setting of a row of `namesrv_settings`."""
    name = row["setting"]
    return Setting(
        name,
        value_of(name, row["value"]),
        Source(row["source"]),
        row["from_seq"],
        row["process_seq"],
        value_of(name, row["restart_value"]),
        tuple(row["evidence"]),
        row["answers_for"],
        row["answers_against"],
    )
