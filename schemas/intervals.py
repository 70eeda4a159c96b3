"""Intervals to the columns of history tables and back.

Columns are sequences by name, as Arrow gives and takes them; times are microseconds since the epoch (UTC), positions are
`Position`, data versions plain records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from namesrv_core.history.intervals import Interval, Key, Member, Reported
from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.rows import BrokerLiveInfo, DataVersion, KvValue, LiveKey, QueueData, TopicQueueMappingInfo
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
    """The columns of key and value, how they are read, and what is written into them."""

    columns: tuple[str, ...]
    read: Callable[..., tuple[Key, object]]
    write: Callable[[Any, Any], tuple[Any, ...]]  # values of a history are typed by its table


_CODECS = {
    "topic_queue": _Codec(
        ("topic", "broker_name", *QueueData._fields),
        lambda topic, name, *data: ((topic, name), QueueData(*data)),
        lambda key, data: (*key, *data),
    ),
    "broker_addr": _Codec(
        ("broker_name", "broker_id", *Member._fields),
        lambda name, broker_id, *member: ((name, broker_id), Member(*member)),
        lambda key, member: (*key, *member),
    ),
    "cluster_addr": _Codec(
        ("cluster_name", "broker_name"), lambda *key: (key, True), lambda key, _: key
    ),
    "broker_live": _Codec(
        ("cluster_name", "broker_addr", *BrokerLiveInfo._fields),
        lambda cluster, addr, version, *info: (
            LiveKey(cluster, addr), BrokerLiveInfo(data_version_of(version), *info)
        ),
        lambda key, info: (*key, _record(info.data_version), *info[1:]),
    ),
    "filter_server": _Codec(
        ("cluster_name", "broker_addr", "filter_servers"),
        lambda cluster, addr, servers: (LiveKey(cluster, addr), tuple(servers)),
        lambda key, servers: (*key, list(servers)),
    ),
    "kv_config": _Codec(
        ("namespace", "config_key", "config_value"),
        lambda namespace, key, text: ((namespace, key), KvValue(text)),
        lambda key, value: (*key, value.text),
    ),
    "topic_queue_mapping": _Codec(
        TopicQueueMappingInfo._fields,
        lambda *mapping: (mapping[:2], TopicQueueMappingInfo(*mapping)),
        lambda _, mapping: mapping,
    ),
    "data_version": _Codec(
        ("cluster_name", "broker_name", "broker_addr", *Reported._fields),
        lambda cluster, name, addr, version, previous, is_regression: (
            (cluster, name, addr), Reported(data_version_of(version), data_version_of(previous), is_regression)
        ),
        lambda key, told: (*key, _record(told.data_version), _record(told.previous), told.is_regression),
    ),
}  # fmt: skip


def intervals_of(history: str, columns: Columns) -> list[Interval]:
    """Return the intervals of the rows of `history`, a history table."""
    table = history.removesuffix("_history")
    codec = _CODECS[table]
    unused = [None] * len(columns["valid_from"])
    shared = {**dict.fromkeys(_BEATS, unused), **{name: columns[name] for name in _SHARED if name in columns}}
    for name in _BEATS:
        shared[name] = [None if us is None else us // US_PER_MS for us in shared[name]]
    read = map(codec.read, *(columns[name] for name in codec.columns))
    rows = zip(read, *(shared[name] for name in _SHARED), strict=True)
    return [Interval(table, key, value, *rest) for (key, value), *rest in rows]


def columns_of(history: str, intervals: Sequence[Interval]) -> dict[str, list[Any]]:
    """Return the columns of the rows of `history` that intervals make; all but `namesrv_id` and `day`."""
    table = history.removesuffix("_history")
    codec = _CODECS[table]
    written = [codec.write(interval.key, interval.value) for interval in intervals]
    found = {name: list(map(itemgetter(number), written)) for number, name in enumerate(codec.columns)}
    found |= {name: list(map(itemgetter(number), intervals)) for number, name in enumerate(_SHARED, 3)}
    for name in _BEATS:
        beats = found.pop(name)
        if table == "broker_live":
            found[name] = [(ms or 0) * US_PER_MS for ms in beats]
    return found


def carried_over(interval: Interval) -> Interval:
    """Return an open interval as the next day starts with it."""
    if interval.first_update_ms == interval.last_update_ms:
        return interval
    return interval._replace(first_update_ms=interval.last_update_ms)


def _record(version: DataVersion | None) -> dict[str, Any] | None:
    return None if version is None else version._asdict()
