"""The rows of topics in, their route changes and orphan intervals out: `sweep_route` of the core, and rows at its edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.route_history import Member, Orphan, Position, RouteRow, RouteTable
from namesrv_core.machine.rows import KvValue, LiveKey, QueueData, TopicQueueMappingInfo
from namesrv_day.arrow.rows import rows_of

Row = Mapping[str, Any]


class RouteParts(NamedTuple):
    """What routes are made of: rows of a topic, of a broker name, or of an address; `None` is a key like others."""

    of_topic: Mapping[str | None, list[RouteRow]]
    of_name: Mapping[str | None, list[RouteRow]]
    of_addr: Mapping[str | None, list[RouteRow]]

    def with_topics(self, tables: Iterable[tuple[RouteTable, pa.Table]]) -> RouteParts:
        """Return the same with rows of other topics."""
        return self._replace(of_topic=route_parts(tables).of_topic)

    def rows(self, topic: str | None) -> Iterator[RouteRow]:
        """Yield the rows of a topic's route, also those of the groups on which it lies and of their addresses."""
        rows = self.of_topic.get(topic, [])
        yield from rows
        names = {row.key for row in rows if row.table == "topic_queue_table"}
        addrs = set()
        for name in names:
            for row in self.of_name.get(name, []):  # type: ignore[call-overload]  # the key of queue data is a name
                addrs.add(row.value.broker_addr)
                yield row
        for addr in addrs:
            yield from self.of_addr.get(addr, [])


def route_parts(tables: Iterable[tuple[RouteTable, pa.Table]]) -> RouteParts:
    """Return the parts of routes. `tables`: rows of the histories, and `reported`, each under the name of its route table."""
    parts: dict[str, dict[str | None, list[RouteRow]]] = {
        by: defaultdict(list) for by in ("topic", "broker_name", "broker_addr")
    }
    for table, rows in tables:
        by, key_and_value = _PARTS[table]
        for row in rows_of(rows):
            key, value = key_and_value(row)
            parts[by][row[by]].append(RouteRow(table, key, value, _opened(row), _closed(row)))
    return RouteParts(parts["topic"], parts["broker_name"], parts["broker_addr"])


def open_orphans(orphaned_topics: pa.Table) -> dict[str | None, list[Orphan]]:
    """Return rows of `orphaned_topics` that are open, by topic."""
    found = defaultdict(list)
    for row in rows_of(orphaned_topics.filter(pc.field("closed_by").is_null())):
        found[row["topic"]].append(Orphan(row["reason"], row["broker_name"], row["valid_from"], row["opened_by"]))
    return found


def _opened(row: Row) -> Position:
    return Position(row["opened_at"]["seq"], row["opened_at"]["no"], row["opened_by"], row["valid_from"])


def _closed(row: Row) -> Position | None:
    if row["closed_at"] is None:
        return None
    return Position(row["closed_at"]["seq"], row["closed_at"]["no"], row["closed_by"], row["valid_to"])


def _live_key(row: Row) -> LiveKey:
    return LiveKey(row["cluster_name"], row["broker_addr"])


def _queue_data(row: Row) -> tuple[object, object]:
    data = QueueData(row["read_queue_nums"], row["write_queue_nums"], row["perm"], row["topic_sys_flag"])
    return row["broker_name"], data


def _member(row: Row) -> tuple[object, object]:
    names = ("broker_name", "broker_id", "broker_addr", "cluster_name", "enable_acting_master", "zone_name")
    return None, Member(*(row[name] for name in names))


def _mapping(row: Row) -> tuple[object, object]:
    names = ("topic", "bname", "total_queues", "epoch", "dirty", "scope", "curr_id_map")
    return row["bname"], TopicQueueMappingInfo(*(row[name] for name in names))


_PARTS: Mapping[RouteTable, tuple[str, Callable[[Row], tuple[object, object]]]] = {
    "topic_queue_table": ("topic", _queue_data),
    "broker_addr_table": ("broker_name", _member),
    "broker_live_table": ("broker_addr", lambda row: (_live_key(row), None)),
    "filter_server_table": ("broker_addr", lambda row: (_live_key(row), tuple(row["filter_servers"]))),
    "kv_config_table": ("topic", lambda row: (None, KvValue(row["config_value"]))),
    "topic_queue_mapping_info_table": ("topic", _mapping),
    "reported": ("topic", lambda row: (row["broker_name"], row["listed"])),
}
