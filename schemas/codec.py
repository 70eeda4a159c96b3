"""Conversion of rows of events and answers to core values, and of intervals to and from columns of histories.

Other tables are converted in `schemas.tables`. Rows are plain dicts by column name; columns are sequences by name, as Arrow gives
and takes them. Times are microseconds since the epoch (UTC), positions `Position`, data versions plain records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from namesrv_core.history.intervals import Interval, Member, Reported
from namesrv_core.history.verification import Observed
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question, RequestCode
from namesrv_core.machine.events import US_PER_MS
from namesrv_core.machine.step import REGISTER_FAILED
from namesrv_core.machine.tables import (
    UNRECORDED,
    BrokerLiveInfo,
    DataVersion,
    KvValue,
    LiveKey,
    QueueData,
    TopicConfig,
    TopicQueueMappingInfo,
    TopicTable,
)
from namesrv_wire.json_text import data_version_of, header_fields_of, queue_datas_of
from namesrv_wire.logs.log_lines import logged
from namesrv_wire.rows import gap_end_ms

Row = Mapping[str, Any]


# -- events ------------------------------------------------------------------------------------------------------------


def event_of(row: Row, topic_tables: Mapping[str, TopicTable]) -> events.Event:
    """Return the core event of a bronze row; its `kind` is the name of its table.

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
    else:
        raise ValueError(f"event {row['event_id']}: no event comes from table {kind!r}")
    return event if refusal is None else events.RefusedRequest(refusal, event)


def topic_table_of(topics: Sequence[Row], mappings: Sequence[Row]) -> TopicTable:
    """Return the core topic table of the rows of topics and mappings."""
    return TopicTable([TopicConfig(**each) for each in topics], [TopicQueueMappingInfo(**each) for each in mappings])


def question_of(row: Row) -> Question:
    """Return the question of a row of `route_observations`."""
    # Only routes come in two JSON dialects; equal questions of all other codes share one cached answer.
    standard = row["standard_json"] or row["code"] != RequestCode.GET_ROUTEINFO_BY_TOPIC
    return Question(row["code"], row["subject"], standard, row["scope"])


def answer_of(row: Row) -> Answer:
    """Return the answer of a row of `route_observations`, or of an event's row with the columns of an answer."""
    text = row["response_fields"]
    fields = () if text is None else header_fields_of(text)
    return Answer(row["response_code"], row["body"], row["remark"], fields)


def fields_json(answer: Answer) -> str | None:
    """Return an answer's header fields as JSON text; None if it has none."""
    return json.dumps(dict(answer.fields), sort_keys=True, separators=(",", ":")) if answer.fields else None


RESPONSE_TABLES: dict[str, tuple[int, ...]] = {
    "registrations": (RequestCode.REGISTER_BROKER,),
    "heartbeats": (RequestCode.QUERY_DATA_VERSION,),
    "admin_events": (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
}
"""Events whose responses say something about the registry: request codes by bronze table."""


def response_of(row: Row) -> Observed:
    """Return the response to an event as an observation; `row`: the event's row with the columns of an answer.

    A registration's response depends on its topics only by whether there are none, one, or several.
    """
    digest = row.get("topic_config_digest")
    topics = [TopicConfig(str(number), 0, 0, 0, 0) for number in range(min(row.get("topic_count") or 0, 2))]
    event = event_of(row, {digest: TopicTable(topics)} if digest is not None else {})
    return Observed(row["event_id"], row["request_seq"], row["seq"], event, answer_of(row))


def _query_of(row: Row) -> events.QueryDataVersion:
    return events.QueryDataVersion(row["cluster_name"], row["broker_addr"], data_version_of(row["data_version"]))


def _registration_of(row: Row, topic_tables: Mapping[str, TopicTable]) -> events.RegisterBroker:
    digest, filters = row["topic_config_digest"], row["filter_servers"]
    return events.RegisterBroker(
        row["cluster_name"],
        row["broker_addr"],
        row["broker_name"],
        row["broker_id"] or 0,
        row["ha_server_addr"],
        data_version_of(row["data_version"]),
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
    217: lambda row: events.RegisterTopic(row["topic"], queue_datas_of(row["queue_datas"])),
    318: lambda row: events.UpdateNamesrvConfig(row["config_value"]),
    327: lambda row: events.AddWritePerm(row["broker_name"]),
}


Columns = Mapping[str, Sequence[Any]]
_BEATS = ("first_update_time", "last_update_time")
# In the order of an interval's fields after table, key and value.
_SHARED = (
    *("valid_from", "opened_by", "opened_at", "entered_at", "outer_entered_at"),
    *("valid_to", "closed_by", "closed_at", *_BEATS, "known_from", "beginning_seen"),
)
POSITIONS = tuple(name for name in _SHARED if name.endswith("_at"))
"""Columns that hold a `Position`, or None."""


class _Codec(NamedTuple):
    """The columns of the key and of the value, and the functions that read a value from its columns and write it to them."""

    key: tuple[str, ...]
    value: tuple[str, ...]
    read: Callable[..., object]
    write: Callable[[Any], Sequence[Any]]  # values of a history are typed by its table


_CODECS = {
    "topic_queue": _Codec(("topic", "broker_name"), QueueData._fields, QueueData, tuple),
    "broker_addr": _Codec(("broker_name", "broker_id"), Member._fields, Member, tuple),
    "cluster_addr": _Codec(("cluster_name", "broker_name"), (), lambda: True, lambda _: ()),
    "broker_live": _Codec(
        ("cluster_name", "broker_addr"),
        BrokerLiveInfo._fields,
        lambda version, *rest: _with_channel(BrokerLiveInfo(data_version_of(version), *rest), UNRECORDED),
        lambda info: (_record(info.data_version), *_with_channel(info, None)[1:]),
    ),
    "filter_server": _Codec(
        ("cluster_name", "broker_addr"), ("filter_servers",), tuple, lambda servers: (list(servers),)
    ),
    "kv_config": _Codec(("namespace", "config_key"), ("config_value",), KvValue, tuple),
    "topic_queue_mapping": _Codec(("topic", "bname"), TopicQueueMappingInfo._fields, TopicQueueMappingInfo, tuple),
    "data_version": _Codec(
        ("cluster_name", "broker_name", "broker_addr"),
        Reported._fields,
        lambda version, previous, is_regression: Reported(
            data_version_of(version), data_version_of(previous), is_regression
        ),
        lambda answer: (_record(answer.data_version), _record(answer.previous), answer.is_regression),
    ),
}


def intervals_of(history: str, columns: Columns) -> list[Interval]:
    """Return the intervals of the columns of a history table; `history`: its name."""
    table = history.removesuffix("_history")
    codec, count = _CODECS[table], len(columns["valid_from"])
    beats = {
        name: [None if us is None else us // US_PER_MS for us in columns[name]] for name in _BEATS if name in columns
    }
    shared = {**dict.fromkeys(_BEATS, [None] * count), **columns, **beats}
    values = map(codec.read, *(columns[name] for name in codec.value)) if codec.value else repeat(codec.read(), count)
    keys = zip(*(columns[name] for name in codec.key), strict=True)
    return list(map(Interval, repeat(table, count), keys, values, *(shared[name] for name in _SHARED)))


def columns_of(history: str, intervals: Sequence[Interval]) -> dict[str, list[Any]]:
    """Return the columns of a history table for `intervals`, all except `namesrv_id`."""
    table = history.removesuffix("_history")
    codec = _CODECS[table]
    keys = [interval.key for interval in intervals]
    written = [codec.write(interval.value) for interval in intervals]
    found: dict[str, list[Any]] = {name: [key[number] for key in keys] for number, name in enumerate(codec.key)}
    found |= {name: [value[number] for value in written] for number, name in enumerate(codec.value)}
    found |= {name: [interval[number] for interval in intervals] for number, name in enumerate(_SHARED, 3)}
    beats = {name: found.pop(name) for name in _BEATS}
    if table == "broker_live":
        found |= {name: [None if ms is None else ms * US_PER_MS for ms in of_name] for name, of_name in beats.items()}
    return found


def _with_channel(live: BrokerLiveInfo, missing: str | None) -> BrokerLiveInfo:
    """Return a live entry with `missing` as its connection if none was recorded."""
    return live if live.channel_id else live._replace(channel_id=missing)


def _record(version: DataVersion | None) -> dict[str, Any] | None:
    return None if version is None else version._asdict()
