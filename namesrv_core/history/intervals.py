"""Intervals of rows (from when to when, opened and closed by which events) from changes, and changes from intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from namesrv_core.machine.events import US_PER_MS
from namesrv_core.machine.java_map import JavaMap
from namesrv_core.machine.registry import Certainty, Change, Registry, TableName
from namesrv_core.machine.tables import BrokerData, BrokerLiveInfo, DataVersion, LiveKey, NestedTable

Key = tuple[object, ...]
# Tables whose first key column is the key of an outer map.
_NESTED = frozenset({"topic_queue", "cluster_addr", "kv_config", "topic_queue_mapping", "broker_addr"})
HISTORY_OF: dict[TableName, str] = {
    "topic_queue_table": "topic_queue",
    "cluster_addr_table": "cluster_addr",
    "broker_live_table": "broker_live",
    "filter_server_table": "filter_server",
    "kv_config_table": "kv_config",
    "topic_queue_mapping_info_table": "topic_queue_mapping",
}

TABLE_OF: dict[str, TableName] = {history: table for table, history in HISTORY_OF.items()}


class Position(NamedTuple):
    """Position of a change: the seq of its event and its number within the event."""

    seq: int
    no: int


class By(NamedTuple):
    """Cause of a change: its position, the event, and when that took effect (microseconds since the epoch)."""

    at: Position
    event_id: str
    at_us: int


class Member(NamedTuple):
    """Value of a broker_addr interval: one member of a group, or the empty group itself.

    An empty group has `broker_addr` None, and id None in the key.
    """

    broker_addr: str | None
    cluster_name: str | None
    enable_acting_master: bool
    zone_name: str | None


class Reported(NamedTuple):
    """Value of a data_version interval: the version that a broker reported, and the one before."""

    data_version: DataVersion | None
    previous: DataVersion | None
    is_regression: bool


class Interval(NamedTuple):
    """One row of a history. Times in microseconds since the epoch; `valid_to_us` None: open.

    `entered_at` and `outer_entered_at`: positions at which the key, and the key of the outer map, entered their maps.
    `first_update_ms` and `last_update_ms`: broker_live only. `known_from_us`: since when the row is known; None: it is a
    best guess, in a recording that began mid-life. `beginning_seen`: whether the row began at `valid_from_us`;
    otherwise it may have begun earlier.
    """

    table: str
    key: Key
    value: object
    valid_from_us: int
    opened_by: str
    opened_at: Position
    entered_at: Position
    outer_entered_at: Position | None
    valid_to_us: int | None = None
    closed_by: str | None = None
    closed_at: Position | None = None
    first_update_ms: int | None = None
    last_update_ms: int | None = None
    known_from_us: int | None = None
    beginning_seen: bool = True

    @property
    def closed(self) -> By | None:
        """Return the cause of its closing; None: it is open."""
        if self.closed_at is None or self.closed_by is None or self.valid_to_us is None:
            return None
        return By(self.closed_at, self.closed_by, self.valid_to_us)


class MapCapacity(NamedTuple):
    """Number of buckets of a map in a registry: the table itself or, with `is_inner`, its inner map under `outer_key`."""

    map_table: TableName
    is_inner: bool
    outer_key: str | None
    capacity: int


class Histories:
    """The open intervals of one registry.

    `record` turns changes into closed intervals; `open_intervals` yields the remaining ones.
    """

    def __init__(self, carried: Iterable[Interval] = ()) -> None:
        """`carried`: the open intervals of the day before."""
        self._open: dict[str, dict[Key, Interval]] = {}
        # Of outer keys: the position at which each entered its table, and its number of rows.
        self._outer: dict[tuple[str, object], tuple[Position, int]] = {}
        self._topic_entered: Callable[[object], tuple[Position, int] | None] = _nowhere
        self._members: dict[object, dict[Key, None]] = {}
        self._beats: dict[Key, int] = {}  # last updates of open broker_live intervals that do not have them yet
        for interval in carried:
            self.carry(interval)
            if interval.outer_entered_at is not None:
                outer = (interval.table, interval.key[0])
                # Of several times that rows tell, the first counts.
                entered, members = self._outer.get(outer, (interval.outer_entered_at, 0))
                self._outer[outer] = (min(entered, interval.outer_entered_at), members + 1)

    def begin_with(self, entered: Callable[[object], tuple[Position, int] | None]) -> None:
        """Begin with rows of topic_queue that are carried when they change.

        `entered`: since when a topic has been there, and its number of such rows; None: it has none.
        """
        self._topic_entered = entered

    def record(
        self, changes: Iterable[Change], *, seq: int, event_id: str, at_us: int, certainty: Certainty | None = None
    ) -> Iterator[Interval]:
        """Yield the intervals that the changes of one event close. `certainty` None: all changes are certain."""
        for no, change in enumerate(changes):
            at = Position(seq, no)
            for table, key, value in self._rows_of(change):
                closed = self._replace(table, key, value, By(at, event_id, at_us), certainty)
                # A row that one event both puts and replaces was never visible.
                if closed is not None and closed.opened_at.seq != seq:
                    yield closed
        for table, key in certainty.known if certainty is not None else ():
            interval = self._open.get(table, {}).get(key)
            if interval is not None and interval.known_from_us is None:
                self._open[table][key] = interval._replace(known_from_us=at_us)

    def report_version(
        self, key: Key, version: DataVersion | None, *, seq: int, event_id: str, at_us: int
    ) -> Interval | None:
        """Note the data version that a broker reports; return the interval that it closes, if the version is new."""
        if self.has_reported(key, version):
            return None
        old = self._open.get("data_version", {}).get(key)
        before = old.value.data_version if old is not None and isinstance(old.value, Reported) else None
        regression = version is not None and before is not None and version.is_before(before)
        by = By(Position(seq, 0), event_id, at_us)
        return self._replace("data_version", key, Reported(version, before, regression), by)

    def has_reported(self, key: Key, version: DataVersion | None) -> bool:
        """Return whether `version` is the one that a broker reported last."""
        last = self._open.get("data_version", {}).get(key)
        return last is not None and isinstance(last.value, Reported) and last.value.data_version == version

    def refreshed(self, key: LiveKey, at_ms: int) -> None:
        """Note that the lease of a live entry was renewed."""
        self._beats[key] = at_ms

    def open_intervals(self) -> Iterator[Interval]:
        """Yield the open intervals."""
        for table, rows in self._open.items():
            if table == "broker_live":
                yield from (_beaten(interval, self._beats.get(key)) for key, interval in rows.items())
            else:
                yield from rows.values()

    def _rows_of(self, change: Change) -> Iterator[tuple[str, Key, object | None]]:
        """Yield (history, key, value) for one change; a change of a group becomes changes of its members.

        New and changed members come before removed ones, so that the group itself stays in its map throughout.
        """
        if change.table != "broker_addr_table":
            if change.table in HISTORY_OF:
                yield HISTORY_OF[change.table], tuple(change.key), change.value
            return
        name = change.key[0]
        members: dict[Key, Member] = {}
        if isinstance(change.value, BrokerData):
            group = change.value
            rest = (group.cluster_name, group.enable_acting_master, group.zone_name)
            members = {(name, broker_id): Member(addr, *rest) for broker_id, addr in group.broker_addrs}
            members = members or {(name, None): Member(None, *rest)}
        opened = self._open.get("broker_addr", {})
        before = self._members.pop(name, {})
        if members:
            self._members[name] = dict.fromkeys(members)
        for key, member in members.items():
            if key not in opened or opened[key].value != member:
                yield "broker_addr", key, member
        for key in before:
            if key not in members:
                yield "broker_addr", key, None

    def _replace(
        self, table: str, key: Key, value: object | None, by: By, certainty: Certainty | None = None
    ) -> Interval | None:
        """Close the open interval under `key`, open one for `value` if it is not None, and return the closed one."""
        at, event_id, at_us = by
        old, closed, outer = self._open.get(table, {}).pop(key, None), None, None
        is_live = table == "broker_live"
        beat_ms = self._beats.pop(key, None) if is_live else None
        if old is not None:
            # If the clock steps back, an entry may end before its last heartbeat.
            last_ms = None if beat_ms is None else min(beat_ms, at_us // US_PER_MS)
            closed = _beaten(old, last_ms)._replace(valid_to_us=at_us, closed_by=event_id, closed_at=at)
        if table in _NESTED and not (old is None and value is None):
            known = self._outer.get((table, key[0]))
            if known is None and table == "topic_queue":
                known = self._topic_entered(key[0])
            outer, members = known if known is not None and known[1] else (at, 0)
            self._outer[table, key[0]] = outer, members + (value is not None) - (old is not None)
        if value is not None:
            has_lease = isinstance(value, BrokerLiveInfo) and value.heartbeat_timeout_ms is not None
            self._open.setdefault(table, {})[key] = Interval(
                table,
                key,
                value,
                at_us,
                event_id,
                at,
                at if old is None else old.entered_at,
                outer,
                first_update_ms=at_us // US_PER_MS if is_live else None,
                last_update_ms=at_us // US_PER_MS if has_lease else None,
                known_from_us=at_us if certainty is None or (table, key) in certainty.known else None,
                beginning_seen=certainty is None or (table, key) in certainty.begun,
            )
        return closed

    def carry(self, interval: Interval) -> None:
        """Continue an open interval of the day before, which is counted already."""
        self._open.setdefault(interval.table, {})[interval.key] = interval
        if interval.table == "broker_addr":
            self._members.setdefault(interval.key[0], {})[interval.key] = None


def _nowhere(_: object) -> None:
    return None


def _beaten(interval: Interval, beat_ms: int | None) -> Interval:
    """Return an interval with the last update of its live entry; `beat_ms` None: it has that already."""
    return interval if beat_ms is None else interval._replace(last_update_ms=beat_ms)


def restored(registry: Registry, carried: Iterable[Interval], capacities: Iterable[MapCapacity] = ()) -> None:
    """Put the open intervals of the day before into an empty registry, in the order in which their keys entered its maps.

    `capacities`: those of maps that once held more keys, since a map never shrinks.
    """
    carried = list(carried)
    rows = [interval for interval in carried if interval.table in TABLE_OF]
    # Outer keys first: the order of rows within a topic tells nothing about the order of the topics.
    nested = (interval for interval in rows if interval.outer_entered_at is not None)
    for interval in sorted(nested, key=lambda interval: interval.outer_entered_at or interval.entered_at):
        table = registry.table(TABLE_OF[interval.table])
        if isinstance(table, NestedTable):
            table.reserve(interval.key[0])  # type: ignore[arg-type]
    for interval in sorted(rows, key=lambda interval: interval.entered_at):
        change = Change(TABLE_OF[interval.table], interval.key, interval.value)  # type: ignore[arg-type]
        registry.apply([change], interval.last_update_ms or 0)
    groups: dict[str | None, dict[object, Member]] = {}
    members = (interval for interval in carried if interval.table == "broker_addr")
    for interval in sorted(members, key=lambda one: (one.outer_entered_at or one.entered_at, one.entered_at)):
        name, broker_id = interval.key
        if not isinstance(interval.value, Member) or not (name is None or isinstance(name, str)):
            raise TypeError(f"broker_addr interval of {name!r}: {interval.value!r} is not a member of a group")
        groups.setdefault(name, {})[broker_id] = interval.value
    registry.apply([Change("broker_addr_table", (name,), group_of(of)) for name, of in groups.items()], 0)
    for name, is_inner, outer, capacity in capacities:
        own: JavaMap[Any, Any] = getattr(registry, name)
        found = own.get(outer) if is_inner else own
        if found is not None:
            found.resize(capacity)


def group_of(members: Mapping[object, Member]) -> BrokerData | None:
    """Return the group of `members`, given by id in their order; id None: an empty group. Without any: None."""
    if not members:
        return None
    first = next(iter(members.values()))
    addrs = tuple((broker_id, one.broker_addr) for broker_id, one in members.items() if isinstance(broker_id, int))
    return BrokerData(first.cluster_name, addrs, first.enable_acting_master, first.zone_name)


class StateChange(NamedTuple):
    """The changes at one position. `arrival_seq`: earliest position at which they may have happened (a request's last byte).

    Without `changes` it is the name server that changed: its configuration, or its process.
    """

    seq: int
    arrival_seq: int
    changes: tuple[Change, ...]


def timeline_of(
    intervals: Iterable[Interval], from_seq: int, arrivals: dict[int, int], of_namesrv: Iterable[int] = ()
) -> list[StateChange]:
    """Return the changes from `from_seq` on that opened and closed `intervals`, in order, and those `of_namesrv`, by position.

    Intervals that opened before `from_seq` are the state at the beginning (`restored`) and make no change. `arrivals`:
    by position, when the event of that position had arrived, if that was earlier than its effect.
    """
    edges: list[tuple[Position, bool, str, Key, object | None, bool]] = []
    groups: dict[object, dict[object, Member]] = {}
    for interval in intervals:
        if interval.opened_at.seq >= from_seq:
            stays = interval.entered_at.seq < interval.opened_at.seq
            edges.append((interval.opened_at, True, interval.table, interval.key, interval.value, stays))
        elif interval.table == "broker_addr" and isinstance(interval.value, Member):
            groups.setdefault(interval.key[0], {})[interval.key[1]] = interval.value
        if interval.closed_at is not None and interval.closed_at.seq >= from_seq:
            edges.append((interval.closed_at, False, interval.table, interval.key, None, False))
    edges.sort(key=lambda edge: edge[:2])
    timeline = [StateChange(seq, arrivals.get(seq, seq), ()) for seq in of_namesrv]
    for seq, of_seq in groupby(edges, key=lambda edge: edge[0].seq):
        own = list(of_seq)
        # What was replaced, maybe more than once, was in its map throughout, and keeps its place.
        replaced = {(table, key) for _, _, table, key, _, stays in own if stays}
        changes: list[Change] = []
        touched: dict[object, None] = {}
        for _, opens, table, key, value, _ in own:
            if not opens and (table, key) in replaced:
                continue
            if table == "broker_addr":
                members = groups.setdefault(key[0], {})
                if isinstance(value, Member):
                    members[key[1]] = value
                else:
                    members.pop(key[1], None)
                touched[key[0]] = None
            elif table in TABLE_OF:
                changes.append(Change(TABLE_OF[table], key, value))  # type: ignore[arg-type]
        changes += [Change("broker_addr_table", (name,), group_of(groups[name])) for name in touched]  # type: ignore[arg-type]
        timeline.append(StateChange(seq, arrivals.get(seq, seq), tuple(changes)))
    return sorted(timeline, key=lambda change: change.seq)
