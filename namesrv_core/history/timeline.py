"""Changes from intervals: the way back from the histories to the registry that they describe."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from namesrv_core.history.intervals import TABLE_OF, Interval, Key, Member, Position, group_of
from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Change, Registry


class StateChange(NamedTuple):
    """What changed at one position. `arrival_seq`: from when on it may have happened (a request: its last byte)."""

    seq: int
    arrival_seq: int
    changes: tuple[Change, ...]


class Walk:
    """A registry on its way along a timeline."""

    def __init__(self, registry: Registry, namesrv: Namesrv, starts: Iterable[int]) -> None:
        """`registry`: the state before the timeline, it is changed; `starts`: where the process started anew."""
        self.registry, self._namesrv = registry, namesrv
        self._starts = sorted(starts, reverse=True)

    def take(self, change: StateChange) -> bool:
        """Apply the next change; return whether the process started anew with it, or before."""
        left = len(self._starts)
        self._start_before(change.seq)  # after a stop, a start changes nothing
        self.registry.apply(change.changes, change.seq // NS_PER_MS)
        self._start_before(change.seq + 1)
        return len(self._starts) < left

    def end(self) -> Registry:
        """Return the registry as it is when the process has started for the last time."""
        self._start_before(self._starts[0] + 1 if self._starts else 0)
        return self.registry

    def _start_before(self, seq: int) -> None:
        """Let the process start anew where it did before `seq`."""
        while self._starts and self._starts[-1] < seq:
            self.registry.restart(self._namesrv.at(self._starts.pop()).profile)


def timeline_of(intervals: Iterable[Interval], from_seq: int, arrivals: dict[int, int]) -> list[StateChange]:
    """Return the changes from `from_seq` on that opened and closed `intervals`, in order.

    An interval that opened before `from_seq` is taken as known then (`history.restored`). `arrivals` gives, by
    position, when the event of that position had arrived, where that was earlier than its effect.
    """
    edges: list[tuple[Position, bool, str, Key, object | None]] = []
    groups: dict[object, dict[object, Member]] = {}
    for interval in intervals:
        if interval.opened_at.seq >= from_seq:
            edges.append((interval.opened_at, True, interval.table, interval.key, interval.value))
        elif interval.table == "broker_addr" and isinstance(interval.value, Member):
            groups.setdefault(interval.key[0], {})[interval.key[1]] = interval.value
        if interval.closed_at is not None and interval.closed_at.seq >= from_seq:
            edges.append((interval.closed_at, False, interval.table, interval.key, None))
    edges.sort(key=lambda edge: edge[:2])
    timeline = []
    for seq, of_seq in groupby(edges, key=lambda edge: edge[0].seq):
        own = list(of_seq)
        # A row that is closed and opened again was replaced in its place.
        replaced = {(at, table, key) for at, opens, table, key, _ in own if opens}
        changes: list[Change] = []
        touched: dict[object, None] = {}
        for at, opens, table, key, value in own:
            if not opens and (at, table, key) in replaced:
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
    return timeline
