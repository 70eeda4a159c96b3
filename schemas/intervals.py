"""Intervals to the columns of history tables and back.

Columns are sequences by name, as Arrow gives and takes them; times are microseconds since the epoch (UTC), positions are
`Position`, data versions plain records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from namesrv_core.history.intervals import Interval, Member, Reported
from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.rows import UNRECORDED, BrokerLiveInfo, DataVersion, KvValue, QueueData, TopicQueueMappingInfo
from namesrv_wire.values import data_version_of

Columns = Mapping[str, Sequence[Any]]
_BEATS = ("first_update_time", "last_update_time")
# As the fields of an interval come after table, key and value.
_SHARED = (
    *("valid_from", "opened_by", "opened_at", "entered_at", "outer_entered_at"),
    *("valid_to", "closed_by", "closed_at", *_BEATS, "known_from", "beginning_seen"),
)
POSITIONS = tuple(name for name in _SHARED if name.endswith("_at"))
"""Columns that hold a `Position`, or None."""


class _Codec(NamedTuple):
    """The columns of the key and of the value, how a value is read from its columns, and what is written into them."""

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
        lambda told: (_record(told.data_version), _record(told.previous), told.is_regression),
    ),
}


def intervals_of(history: str, columns: Columns) -> list[Interval]:
    """Return the intervals of the rows of `history`, a history table."""
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
    """Return the columns of the rows of `history` that intervals make; all but `namesrv_id`."""
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
    """Return a live entry whose connection, if it was not recorded, is `missing`."""
    return live if live.channel_id else live._replace(channel_id=missing)


def _record(version: DataVersion | None) -> dict[str, Any] | None:
    return None if version is None else version._asdict()
