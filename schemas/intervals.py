"""Intervals to rows of history tables and back.

Rows are plain dicts by column name, as Arrow gives and takes them; times are microseconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from namesrv_core.history.intervals import Interval, Key, Member, Position, Reported
from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.rows import BrokerLiveInfo, DataVersion, KvValue, LiveKey
from namesrv_wire import values

Row = Mapping[str, Any]


def interval_row(interval: Interval, namesrv_id: str) -> dict[str, Any]:
    """Return the row of `interval` in the history table `<interval.table>_history`, without `day`."""
    return {
        "namesrv_id": namesrv_id,
        **_TO_COLUMNS[interval.table](interval.key, interval.value),
        "valid_from": interval.valid_from_us,
        "valid_to": interval.valid_to_us,
        "opened_by": interval.opened_by,
        "closed_by": interval.closed_by,
        "opened_at": interval.opened_at._asdict(),
        "closed_at": None if interval.closed_at is None else interval.closed_at._asdict(),
        "entered_at": interval.entered_at._asdict(),
        "outer_entered_at": None if interval.outer_entered_at is None else interval.outer_entered_at._asdict(),
        "known_from": interval.known_from_us,
        "beginning_seen": interval.beginning_seen,
        **(
            {
                "first_update_time": (interval.first_update_ms or 0) * US_PER_MS,
                "last_update_time": (interval.last_update_ms or 0) * US_PER_MS,
            }
            if interval.table == "broker_live"
            else {}
        ),
    }


def interval_of(history: str, row: Row) -> Interval:
    """Return the interval of a row of the table `history`; times in the row are microseconds."""
    table = history.removesuffix("_history")
    key, value = _FROM_COLUMNS[table](row)
    live = table == "broker_live"
    return Interval(
        table,
        key,
        value,
        row["valid_from"],
        row["opened_by"],
        _position(row["opened_at"]),
        _position(row["entered_at"]),
        _position_or_none(row["outer_entered_at"]),
        row["valid_to"],
        row["closed_by"],
        _position_or_none(row["closed_at"]),
        row["first_update_time"] // US_PER_MS if live else None,
        row["last_update_time"] // US_PER_MS if live else None,
        row["known_from"],
        row["beginning_seen"],
    )


def carried_over(interval: Interval) -> Interval:
    """Return an open interval as the next day starts with it."""
    return interval._replace(first_update_ms=interval.last_update_ms)


def _position(value: Row) -> Position:
    return Position(value["seq"], value["no"])


def _position_or_none(value: Row | None) -> Position | None:
    return None if value is None else _position(value)


def _version_struct(version: DataVersion | None) -> dict[str, Any] | None:
    return None if version is None else version._asdict()


def _live_columns(key: Key, value: Any) -> dict[str, Any]:  # values of a history are typed by its table
    return {
        "cluster_name": key[0],
        "broker_addr": key[1],
        "broker_name": value.broker_name,
        "data_version": _version_struct(value.data_version),
        "heartbeat_timeout_ms": value.heartbeat_timeout_ms,
        "channel_id": value.channel_id,
        "ha_server_addr": value.ha_server_addr,
    }


_TO_COLUMNS: dict[str, Any] = {
    "topic_queue": lambda key, value: {"topic": key[0], "broker_name": key[1], **value._asdict()},
    "broker_addr": lambda key, value: {"broker_name": key[0], "broker_id": key[1], **value._asdict()},
    "cluster_addr": lambda key, _: {"cluster_name": key[0], "broker_name": key[1]},
    "broker_live": _live_columns,
    "filter_server": lambda key, value: {
        "cluster_name": key[0],
        "broker_addr": key[1],
        "filter_servers": list(value),
    },
    "kv_config": lambda key, value: {"namespace": key[0], "config_key": key[1], "config_value": value.text},
    "topic_queue_mapping": lambda _, value: value._asdict(),
    "data_version": lambda key, value: {
        "cluster_name": key[0],
        "broker_name": key[1],
        "broker_addr": key[2],
        "data_version": _version_struct(value.data_version),
        "previous": _version_struct(value.previous),
        "is_regression": value.is_regression,
    },
}
_FROM_COLUMNS: dict[str, Any] = {
    "topic_queue": lambda row: ((row["topic"], row["broker_name"]), values.queue_data_of(row)),
    "broker_addr": lambda row: (
        (row["broker_name"], row["broker_id"]),
        Member(row["broker_addr"], row["cluster_name"], row["enable_acting_master"], row["zone_name"]),
    ),
    "cluster_addr": lambda row: ((row["cluster_name"], row["broker_name"]), True),
    "broker_live": lambda row: (
        LiveKey(row["cluster_name"], row["broker_addr"]),
        BrokerLiveInfo(
            values.data_version_of(row["data_version"]),
            row["heartbeat_timeout_ms"],
            row["channel_id"],
            row["ha_server_addr"],
            row["broker_name"],
        ),
    ),
    "filter_server": lambda row: (
        LiveKey(row["cluster_name"], row["broker_addr"]),
        tuple(row["filter_servers"]),
    ),
    "kv_config": lambda row: ((row["namespace"], row["config_key"]), KvValue(row["config_value"])),
    "topic_queue_mapping": lambda row: ((row["topic"], row["bname"]), values.mapping_of(row)),
    "data_version": lambda row: (
        (row["cluster_name"], row["broker_name"], row["broker_addr"]),
        Reported(
            values.data_version_of(row["data_version"]), values.data_version_of(row["previous"]), row["is_regression"]
        ),
    ),
}
