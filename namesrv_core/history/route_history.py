"""The history of one topic's route: every change that clients see, and the times at which it could not be served.

It is a sweep over the intervals that make up the route, in the order in which the name server changed them. A route is
the result of `pickup_topic_route_data`, written by `route_json` in standard JSON, with its lists sorted by broker name.
A part is one element of a list, one entry of a map, or the order configuration. A step writes only the parts that it
changed, however many brokers have the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeVar

from namesrv_core.asking.answers import acts_for, broker_data, mapping, queue_data, routed, writer
from namesrv_core.history.intervals import By, Interval, Member, group_of
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.tables import MASTER_ID, PERM_WRITE, KvValue, LiveKey, QueueData, TopicQueueMappingInfo

K = TypeVar("K")
V = TypeVar("V")
ChangeKind = Literal["appeared", "changed", "vanished"]
Reason = Literal[
    "no_broker_address", "no_live_broker", "no_master", "no_writable_queue", "residual", "stale_order_conf"
]
OrphanKey = tuple[Reason, str | None]
Part = Literal["brokerDatas", "filterServerTable", "orderTopicConf", "queueDatas", "topicQueueMappingByBroker"]
PartKey = tuple[Part, str | None]
_EMPTY: Final = '{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'
_LABELS: Final[Mapping[Part, str]] = {
    "orderTopicConf": '"orderTopicConf":,',
    "topicQueueMappingByBroker": '"topicQueueMappingByBroker":{},',
}
"""Text that the JSON has only if there is such a part."""


class RoutePart(NamedTuple):
    """A changed part of a route: the field of the route, the name within it, and the new text.

    `name`: a broker name; for filterServerTable an address, for orderTopicConf None. `text`: an element of the list, an
    entry of the map with its key, or the value; None: the part is gone.
    """

    part: Part
    name: str | None
    text: str | None


class Size(NamedTuple):
    """Size of a route: number of groups (brokerDatas) and characters of its JSON; without a route 0 and 0."""

    groups: int
    length: int


REPORTED, NAMESRV = "reported", "namesrv"
"""Intervals that are no rows of histories: whether a master's registration lists the topic, by (topic, broker name), and
the name server from then on, a `Namesrv`. They are never closed."""


class _Group(NamedTuple):
    """Properties of a group in the route that decide whether the topic can be served."""

    keys: tuple[LiveKey, ...]
    is_live: bool
    has_master: bool
    is_writable: bool


class RouteState:
    """The rows of one topic's route and its JSON. Call `put` for each interval, then `end_step`. `namesrv`: the initial one."""

    def __init__(self, topic: str | None, namesrv: Namesrv) -> None:
        self._topic, self._namesrv, self._acts = topic, namesrv, acts_for(topic, namesrv)
        self._write = writer(namesrv, standard=True)
        self._queue_datas: dict[str | None, QueueData] = {}
        self._members: dict[str | None, dict[object, Member]] = {}
        self._filter_servers: dict[LiveKey, tuple[str, ...]] = {}
        self._mappings: dict[str | None, TopicQueueMappingInfo] = {}
        self._order_conf: str | None = None
        self._live: set[LiveKey] = set()
        self._listed: dict[str | None, bool] = {}
        self._groups: dict[str | None, _Group] = {}
        self._names_of_key: dict[LiveKey, set[str | None]] = {}
        self._texts: dict[PartKey, str] = {}
        self._holding: set[OrphanKey] = set()
        self._touched: set[str | None] = set()
        self._touched_keys: set[LiveKey] = set()
        self._touched_mappings: set[str | None] = set()
        self._is_conf_touched = False

    def put(self, row: Interval, *, present: bool) -> None:
        """Add or remove the row of an interval. Raises ValueError for an interval that is no part of a route."""
        value, key, name = row.value, row.key, _text(row.key[-1] if row.key else None)
        if row.table == "broker_live":
            live = LiveKey(*map(_text, key))
            (self._live.add if present else self._live.discard)(live)
            self._touched |= self._names_of_key.get(live, set())
        elif row.table == REPORTED:
            self._listed[name] = bool(value)
            self._touched.add(name)
        elif isinstance(value, Namesrv):
            # A new process or a changed configuration may change every part.
            self._namesrv, self._acts = value, acts_for(self._topic, value)
            self._write = writer(value, standard=True)
            self._touched |= {*self._queue_datas, *self._members}
            self._touched_keys |= {*self._filter_servers}
            self._touched_mappings |= {*self._mappings}
            self._is_conf_touched = True
        elif isinstance(value, Member):
            _set(self._members.setdefault(_text(key[0]), {}), key[1], value if present else None)
            self._touched.add(_text(key[0]))
        elif isinstance(value, QueueData):
            _set(self._queue_datas, name, value if present else None)
            self._touched.add(name)
        elif isinstance(value, KvValue):
            self._order_conf = value.text if present else None
            self._is_conf_touched = True
        elif isinstance(value, TopicQueueMappingInfo):
            _set(self._mappings, name, value if present else None)
            self._touched_mappings.add(name)
        elif row.table == "filter_server" and isinstance(value, tuple):
            _set(self._filter_servers, LiveKey(*map(_text, key)), value if present else None)
            self._touched_keys.add(LiveKey(*map(_text, key)))
        else:
            raise ValueError(f"interval of {row.table!r} with value {value!r}: no part of a route")

    def expect_unlisted(self, name: str | None) -> None:
        """Note that the last report of a broker name omitted the topic, unless a `REPORTED` interval was put for it."""
        self._listed.setdefault(name, False)
        self._touched.add(name)

    def end_step(self) -> tuple[RoutePart, ...]:
        """Return the parts changed by the rows put since the last step; all parts if the route appeared or vanished."""
        was_routed, moved, write = bool(self._groups), dict[PartKey, str | None](), self._write
        for name in self._touched:
            self._renew(name, moved)
        for key in self._touched_keys:
            servers = self._filter_servers.get(key) if self._names_of_key.get(key) else None
            text = None if servers is None else write.mapping([(key.broker_addr, write.strings(servers))])[1:-1]
            self._show(("filterServerTable", key.broker_addr), text, moved)
        for name in self._touched_mappings:
            info = self._mappings.get(name)
            text = None if info is None else write.mapping([(name, mapping(write, info))])[1:-1]
            self._show(("topicQueueMappingByBroker", name), text, moved)
        if self._is_conf_touched:
            served = self._order_conf if self._namesrv.config.order_message_enable else None
            self._show(("orderTopicConf", None), write.text(served), moved)
        if self._is_conf_touched or (self._touched and self._order_conf):
            self._hold(("stale_order_conf", None), stale_order_conf(self._order_conf, self._queue_datas))
        self._touched, self._touched_keys, self._touched_mappings, self._is_conf_touched = set(), set(), set(), False
        if not was_routed and not self._groups:
            return ()
        if not was_routed:
            parts: Iterable[tuple[PartKey, str | None]] = self._texts.items()
        elif self._groups:
            parts = ((key, self._texts.get(key)) for key, old in moved.items() if old != self._texts.get(key))
        else:
            parts = ((key, None) for key in {**self._texts, **moved} if moved.get(key, "") is not None)
        return tuple(sorted((RoutePart(*key, text) for key, text in parts), key=lambda one: (one.part, one.name or "")))

    def size(self) -> Size:
        """Return the size of the route."""
        if not self._groups:
            return Size(0, 0)
        parts = {part for part, _ in self._texts}
        commas, labels = len(self._texts) - len(parts), sum(len(_LABELS.get(part, "")) for part in parts)
        return Size(len(self._groups), len(_EMPTY) + commas + labels + sum(map(len, self._texts.values())))

    def reasons(self) -> set[OrphanKey]:
        """Return the reasons why the topic cannot be served as its route shows it; empty without queue data."""
        if not self._queue_datas:
            return set()
        found, groups = set(self._holding), self._groups.values()
        if not any(group.keys for group in groups):
            found.add(("no_broker_address", None))
        else:
            if not any(group.is_live for group in groups):
                found.add(("no_live_broker", None))
            if not any(group.has_master for group in groups):
                found.add(("no_master", None))
        if not any(group.is_writable for group in groups):
            found.add(("no_writable_queue", None))
        return found

    def _renew(self, name: str | None, moved: dict[PartKey, str | None]) -> None:
        """Recompute the route's parts of a broker name."""
        data, members = self._queue_datas.get(name), self._members.get(name)
        text = None if data is None else queue_data(self._write, name, data)
        self._show(("queueDatas", name), text, moved)
        if data is None:
            self._listed.pop(name, None)
        self._hold(("residual", name), not self._listed.get(name, True))
        old, new, text = self._groups.pop(name, None), None, None
        if data is not None and members:
            # A member without id is an empty group.
            in_order = sorted(members.items(), key=lambda member: (member[0] is None, member[0] or 0))
            shown = group_of(dict(in_order))
            assert shown is not None
            broker = routed(shown, data if self._acts else None)
            text = broker_data(self._write, name, broker)
            cluster = broker.cluster_name if self._namesrv.profile.live_key_has_cluster else None
            keys = tuple(LiveKey(cluster, addr) for _, addr in broker.broker_addrs)
            has_master = MASTER_ID in broker.addr_of
            is_live = not self._live.isdisjoint(keys)
            is_writable = has_master and bool(data.perm & PERM_WRITE) and data.write_queue_nums > 0
            new = self._groups[name] = _Group(keys, is_live, has_master, is_writable)
        self._show(("brokerDatas", name), text, moved)
        gone, come = (set(group.keys) if group is not None else set[LiveKey]() for group in (old, new))
        for key in gone:
            self._names_of_key[key].discard(name)
        for key in come:
            self._names_of_key.setdefault(key, set()).add(name)
        self._touched_keys |= (gone | come) & self._filter_servers.keys()

    def _show(self, key: PartKey, text: str | None, moved: dict[PartKey, str | None]) -> None:
        """Set a part, or remove it (None), and note its text before the step."""
        old = self._texts.get(key)
        if old == text:
            return
        moved.setdefault(key, old)
        _set(self._texts, key, text)

    def _hold(self, reason: OrphanKey, is_so: bool) -> None:  # noqa: FBT001
        (self._holding.add if is_so else self._holding.discard)(reason)


def stale_order_conf(order_conf: str | None, queue_datas: Mapping[str | None, QueueData]) -> bool:
    """Return whether an order conf (name:queues;...) names a broker or queues that the route lacks."""
    for entry in (order_conf or "").split(";"):
        name, colon, count = entry.rpartition(":")
        queue_data = queue_datas.get(name)
        is_served = colon and count.strip().isdecimal() and queue_data and int(count) <= queue_data.write_queue_nums
        if entry.strip() and not is_served:
            return True
    return False


def _set(rows: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


def _text(key: object) -> str | None:
    return None if key is None else str(key)


class RouteChange(NamedTuple):
    """A change of the route as clients see it: the parts that differ, and the size of the whole before and after."""

    seq: int
    effect_us: int
    caused_by: str
    change: ChangeKind
    parts: tuple[RoutePart, ...]
    before: Size
    after: Size


class Orphan(NamedTuple):
    """An interval [from_us, to_us) in which `reason` held; `to_us` None: open. `broker_name`: residual only."""

    reason: Reason
    broker_name: str | None
    from_us: int
    opened_by: str
    to_us: int | None = None
    closed_by: str | None = None


class RouteHistory(NamedTuple):
    """Result of a sweep, in order."""

    changes: tuple[RouteChange, ...]
    orphans: tuple[Orphan, ...]


def sweep_route(
    topic: str | None, rows: Iterable[Interval], namesrv: Namesrv, *, start_us: int, open_orphans: Iterable[Orphan] = ()
) -> RouteHistory:
    """Return the changes of the route of `topic` from `start_us` on, and its orphan intervals.

    `rows`: intervals of histories, `REPORTED` and `NAMESRV`. Those opened before `start_us` are the initial state and make
    no change. All changes with one seq are one step: clients never see a state between them. `open_orphans`: intervals
    that were open before the start; they keep their beginning if their reason still holds. Any other reason that holds at
    the start begins with the youngest row of the initial state. `namesrv`: the one at the start.
    """
    rows = list(rows)
    state = RouteState(topic, namesrv)
    before = sorted((row for row in rows if row.valid_from_us < start_us), key=lambda row: row.opened_at)
    for row in before:
        state.put(row, present=True)
    carried = {(orphan.reason, orphan.broker_name): orphan for orphan in open_orphans if orphan.to_us is None}
    for reason, name in carried:
        if reason == "residual":
            state.expect_unlisted(name)
    state.end_step()
    running: dict[OrphanKey, Orphan] = {}
    ended: list[Orphan] = []
    if before:
        for key in state.reasons():
            running[key] = carried.get(key) or Orphan(*key, before[-1].valid_from_us, before[-1].opened_by)

    moves = [
        (By(row.opened_at, row.opened_by, row.valid_from_us), True, row)
        for row in rows
        if row.valid_from_us >= start_us
    ]
    moves += [(closed, False, row) for row in rows if (closed := row.closed) is not None]
    # An old row is removed before its replacement is added.
    moves.sort(key=lambda move: (move[0].at, move[1], move[2].table, str(move[2].key)))
    changes: list[RouteChange] = []
    size = state.size()
    for seq, group in groupby(moves, key=lambda move: move[0].at.seq):
        step = list(group)
        _, event_id, at_us = step[0][0]
        for _, present, row in step:
            state.put(row, present=present)
        parts = state.end_step()
        if parts:
            old, size = size, state.size()
            kind: ChangeKind = "changed" if size.groups else "vanished"
            if not old.groups:
                kind = "appeared"
            changes.append(RouteChange(seq, at_us, event_id, kind, parts, old, size))
        holding = state.reasons()
        over = [key for key in running if key not in holding]
        ended += [running.pop(key)._replace(to_us=at_us, closed_by=event_id) for key in over]
        for key in holding:
            running.setdefault(key, Orphan(*key, at_us, event_id))

    orphans = (orphan for orphan in (*ended, *running.values()) if orphan.from_us != orphan.to_us)
    in_order = sorted(orphans, key=lambda o: (o.from_us, o.reason, o.broker_name or "", o.opened_by))
    return RouteHistory(tuple(changes), tuple(in_order))
