"""One topic's route through time: every change that clients see, and when it could not be served as it looks.

A sweep over the rows that make up the route, in the order in which the name server changed them. Its state is
a registry with this topic only: a route is what `pickup_topic_route_data` gives and `route_json` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal, NamedTuple

from namesrv_core.asking.answers import route_json
from namesrv_core.asking.queries import TopicRouteData, pickup_topic_route_data
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Change, Registry, TableName
from namesrv_core.machine.rows import (
    MASTER_ID,
    PERM_WRITE,
    BrokerData,
    KvValue,
    LiveKey,
    QueueData,
    TopicQueueMappingInfo,
)

RouteTable = Literal[
    "topic_queue_table",
    "broker_addr_table",
    "broker_live_table",
    "filter_server_table",
    "kv_config_table",
    "topic_queue_mapping_info_table",
    "reported",
]
ChangeKind = Literal["appeared", "changed", "vanished"]
Reason = Literal[
    "no_broker_address", "no_live_broker", "no_master", "no_writable_queue", "residual", "stale_order_conf"
]
_UNSEEN_BY_CLIENTS = frozenset({"broker_live_table", "reported"})


class Position(NamedTuple):
    """Where a change stands: seq of its event, number within it, the event and its time (µs)."""

    seq: int
    no: int
    event_id: str
    effect_us: int


class Member(NamedTuple):
    """One member of a group, with what the group itself carries; `broker_id` None: a group without member."""

    broker_name: str | None
    broker_id: int | None
    broker_addr: str | None
    cluster_name: str | None
    enable_acting_master: bool = False
    zone_name: str | None = None


class RouteRow(NamedTuple):
    """One interval of a row; `closed` None: still open.

    | table | key | value |
    |---|---|---|
    | topic_queue_table | broker name | QueueData |
    | broker_addr_table | None | Member |
    | broker_live_table | LiveKey | anything |
    | filter_server_table | LiveKey | tuple of addresses |
    | kv_config_table | None | order conf of the topic, KvValue |
    | topic_queue_mapping_info_table | bname | TopicQueueMappingInfo |
    | reported | broker name | whether the master's registration at `opened` lists the topic; never closed |
    """

    table: RouteTable
    key: object
    value: object
    opened: Position
    closed: Position | None = None


class RouteChange(NamedTuple):
    """A change of the route as clients see it, as standard JSON with the lists sorted by broker name."""

    seq: int
    effect_us: int
    caused_by: str
    change: ChangeKind
    route_before: str | None
    route_after: str | None


class Orphan(NamedTuple):
    """An interval [from_us, to_us) in which `reason` held; None: open. `broker_name`: residual only."""

    reason: Reason
    broker_name: str | None
    from_us: int
    opened_by: str
    to_us: int | None = None
    closed_by: str | None = None


OrphanKey = tuple[Reason, str | None]


class RouteHistory(NamedTuple):
    """What a sweep found, in order."""

    changes: tuple[RouteChange, ...]
    orphans: tuple[Orphan, ...]


def sweep_route(
    topic: str | None,
    rows: Iterable[RouteRow],
    namesrv: Namesrv,
    *,
    start_us: int,
    open_orphans: Iterable[Orphan] = (),
) -> RouteHistory:
    """Return the changes of the route of `topic` from `start_us` on, and its orphan intervals.

    Rows opened before `start_us` are the starting state and make no change. All changes with one seq are one
    step: what is between them is never seen. `open_orphans` are the intervals that were open before the
    start: where the reason still holds they keep their beginning; without one, a reason that holds at the
    start begins with the youngest row of the state.
    """
    rows = list(rows)
    state = _TopicState(topic, namesrv)
    before = sorted((row for row in rows if row.opened.effect_us < start_us), key=lambda row: row.opened[:2])
    for row in before:
        state.put(row, present=True)
    carried = {(orphan.reason, orphan.broker_name): orphan for orphan in open_orphans if orphan.to_us is None}
    for reason, name in carried:
        if reason == "residual":
            state.listed.setdefault(name, False)
    state.end_step()
    route = state.route()
    text = _route_text(route, namesrv)
    orphans = _Orphans(carried)
    if before:
        orphans.begin(state.reasons(route), max((row.opened for row in before), key=lambda opened: opened[:2]))
    changes: list[RouteChange] = []
    for cause, step in _steps(rows, start_us):
        for present, row in step:
            state.put(row, present=present)
        state.end_step()
        if any(row.table not in _UNSEEN_BY_CLIENTS for _, row in step):
            shown, route = route, state.route()
            old = text
            if route != shown and (text := _route_text(route, namesrv)) != old:
                kind = _kind(old, text)
                changes.append(RouteChange(cause.seq, cause.effect_us, cause.event_id, kind, old, text))
        orphans.proceed(state.reasons(route), cause)
    return RouteHistory(tuple(changes), orphans.found())


class _Orphans:
    """The orphan intervals of one sweep: those that run, and those that have ended."""

    def __init__(self, carried: Mapping[OrphanKey, Orphan]) -> None:
        self._carried = carried
        self._running: dict[OrphanKey, Orphan] = {}
        self._ended: list[Orphan] = []

    def begin(self, holding: set[OrphanKey], youngest: Position) -> None:
        """Begin what holds at the start, with the beginning that was carried over if there is one."""
        for key in holding:
            self._running[key] = self._carried.get(key) or Orphan(*key, youngest.effect_us, youngest.event_id)

    def proceed(self, holding: set[OrphanKey], cause: Position) -> None:
        """End what does not hold any more and begin what holds now."""
        ended = [key for key in self._running if key not in holding]
        self._ended += [
            self._running.pop(key)._replace(to_us=cause.effect_us, closed_by=cause.event_id) for key in ended
        ]
        for key in holding:
            self._running.setdefault(key, Orphan(*key, cause.effect_us, cause.event_id))

    def found(self) -> tuple[Orphan, ...]:
        """Return all intervals that are not empty, in order."""
        orphans = (orphan for orphan in (*self._ended, *self._running.values()) if orphan.from_us != orphan.to_us)
        return tuple(sorted(orphans, key=_orphan_order))


def _route_text(route: TopicRouteData | None, namesrv: Namesrv) -> str | None:
    return None if route is None else route_json(route, namesrv, standard=True)


def stale_order_conf(order_conf: str | None, queue_datas: Mapping[str | None, QueueData]) -> bool:
    """Return whether an order conf (name:queues;...) names a broker or queues that the route lacks."""
    for entry in (order_conf or "").split(";"):
        name, colon, count = entry.rpartition(":")
        if not entry.strip():
            continue
        queue_data = queue_datas.get(name)
        if not colon or not count.strip().isdecimal() or queue_data is None:
            return True
        if int(count) > queue_data.write_queue_nums:
            return True
    return False


def _steps(rows: list[RouteRow], start_us: int) -> Iterator[tuple[Position, list[tuple[bool, RouteRow]]]]:
    """Yield (cause, [(present, row)]) for each seq; an old row goes before a new one comes."""
    moves: list[tuple[Position, bool, RouteRow]] = []
    for row in rows:
        if row.opened.effect_us >= start_us:
            moves.append((row.opened, True, row))
        if row.closed is not None:
            moves.append((row.closed, False, row))
    moves.sort(key=lambda move: (move[0].seq, move[0].no, move[1], move[2].table, str(move[2].key)))
    for _, group in groupby(moves, key=lambda move: move[0].seq):
        step = list(group)
        yield step[0][0], [(opens, row) for _, opens, row in step]


class _TopicState:
    """A registry that holds one topic, and the members of the groups that it lies on."""

    def __init__(self, topic: str | None, namesrv: Namesrv) -> None:
        self.topic = topic
        self.namesrv = namesrv
        self.registry = Registry(namesrv.profile)
        self.queue_datas: dict[str | None, QueueData] = {}
        self.listed: dict[str | None, bool] = {}
        self._live: set[object] = set()
        self._order_conf: str | None = None
        self._members: dict[str | None, dict[int | None, Member]] = {}
        self._changed_groups: set[str | None] = set()

    def put(self, row: RouteRow, *, present: bool) -> None:
        """Take a row in, or out."""
        key, value = row.key, row.value
        stored = value if present else None
        if row.table == "broker_live_table":
            (self._live.add if present else self._live.discard)(key)
        elif row.table == "reported":
            self.listed[_text(key)] = bool(value)
        elif isinstance(value, Member):
            members = self._members.setdefault(value.broker_name, {})
            if present:
                members[value.broker_id] = value
            else:
                members.pop(value.broker_id, None)
            self._changed_groups.add(value.broker_name)
        elif isinstance(value, QueueData):
            if present:
                self.queue_datas[_text(key)] = value
            else:
                self.queue_datas.pop(_text(key), None)
            self._apply("topic_queue_table", (self.topic, _text(key)), stored)
        elif isinstance(value, KvValue):
            self._order_conf = value.text if present else None
            self._apply("kv_config_table", (ORDER_TOPIC_CONFIG, self.topic), stored)
        elif isinstance(value, TopicQueueMappingInfo):
            self._apply("topic_queue_mapping_info_table", (self.topic, _text(key)), stored)
        elif isinstance(key, LiveKey):
            self._apply("filter_server_table", key, stored)
        else:
            raise ValueError(f"row of table {row.table!r} with value {value!r}: expected what RouteRow describes")

    def end_step(self) -> None:
        """Build the groups that the step changed, and forget reports about queue data that are gone."""
        for name in self._changed_groups:
            self._apply("broker_addr_table", (name,), _group(self._members[name]))
        self._changed_groups.clear()
        for name in [name for name in self.listed if name not in self.queue_datas]:
            del self.listed[name]

    def route(self) -> TopicRouteData | None:
        """Return the route that the name server would answer with, its lists sorted by broker name."""
        route = pickup_topic_route_data(self.registry, self.topic, self.namesrv)
        if route is None:
            return None
        return route._replace(
            queue_datas=tuple(sorted(route.queue_datas, key=lambda entry: entry[0] or "")),
            broker_datas=tuple(sorted(route.broker_datas, key=lambda broker: broker.broker_name or "")),
        )

    def reasons(self, route: TopicRouteData | None) -> set[OrphanKey]:
        """Return why the topic cannot be served as `route` looks; empty where the topic has no queue data."""
        if not self.queue_datas:
            return set()
        found: set[OrphanKey] = {("residual", name) for name, listed in self.listed.items() if not listed}
        brokers = route.broker_datas if route is not None else ()
        keys = [
            LiveKey(broker.cluster_name if self.namesrv.profile.live_key_has_cluster else None, addr)
            for broker in brokers
            for _, addr in broker.broker_addrs
        ]
        with_master = {broker.broker_name for broker in brokers if MASTER_ID in dict(broker.broker_addrs)}
        if not keys:
            found.add(("no_broker_address", None))
        elif self._live.isdisjoint(keys):
            found.add(("no_live_broker", None))
        if keys and not with_master:
            found.add(("no_master", None))
        if not any(data.perm & PERM_WRITE and name in with_master for name, data in self.queue_datas.items()):
            found.add(("no_writable_queue", None))
        if stale_order_conf(self._order_conf, self.queue_datas):
            found.add(("stale_order_conf", None))
        return found

    def _apply(self, table: TableName, key: tuple[str | None, ...], value: object | None) -> None:
        self.registry.apply([Change(table, key, value)], 0)


def _group(members: Mapping[int | None, Member]) -> BrokerData | None:
    """Return the group of `members`; a member without id stands for a group that has none."""
    if not members:
        return None
    ids = sorted(broker_id for broker_id in members if broker_id is not None)
    group = members[ids[0] if ids else None]
    return BrokerData(
        group.cluster_name,
        tuple((broker_id, members[broker_id].broker_addr) for broker_id in ids),
        group.enable_acting_master,
        group.zone_name,
    )


def _kind(before: str | None, after: str | None) -> ChangeKind:
    if before is None:
        return "appeared"
    return "vanished" if after is None else "changed"


def _text(key: object) -> str | None:
    return None if key is None else str(key)


def _orphan_order(orphan: Orphan) -> tuple[int, str, str, str]:
    return orphan.from_us, orphan.reason, orphan.broker_name or "", orphan.opened_by
