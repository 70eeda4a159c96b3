"""One topic's route through time: every change that clients see, and when it could not be served as it looks.

A sweep over the rows that make up the route, in the order in which the name server changed them. A step costs what it
changed, however many brokers the topic lies on: a change names the parts of the route that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal, NamedTuple

from namesrv_core.history.route_state import (
    OrphanKey,
    Position,
    Reason,
    RoutePart,
    RouteRow,
    RouteState,
    Size,
)
from namesrv_core.machine.profile import Namesrv

ChangeKind = Literal["appeared", "changed", "vanished"]


class RouteChange(NamedTuple):
    """A change of the route as clients see it: the parts that differ, and how large the whole was and is."""

    seq: int
    effect_us: int
    caused_by: str
    change: ChangeKind
    parts: tuple[RoutePart, ...]
    before: Size
    after: Size


class Orphan(NamedTuple):
    """An interval [from_us, to_us) in which `reason` held; None: open. `broker_name`: residual only."""

    reason: Reason
    broker_name: str | None
    from_us: int
    opened_by: str
    to_us: int | None = None
    closed_by: str | None = None


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
    start begins with the youngest row of the state. `namesrv`: as it is at the start.
    """
    rows = list(rows)
    state = RouteState(topic, namesrv)
    before = sorted((row for row in rows if row.opened.effect_us < start_us), key=lambda row: row.opened[:2])
    for row in before:
        state.put(row, present=True)
    carried = {(orphan.reason, orphan.broker_name): orphan for orphan in open_orphans if orphan.to_us is None}
    for reason, name in carried:
        if reason == "residual":
            state.expect_unlisted(name)
    state.end_step()
    orphans = _Orphans(carried)
    if before:
        orphans.begin(state.reasons(), max((row.opened for row in before), key=lambda opened: opened[:2]))
    changes: list[RouteChange] = []
    size = state.size()
    for cause, step in _steps(rows, start_us):
        for present, row in step:
            state.put(row, present=present)
        parts = state.end_step()
        if parts:
            old, size = size, state.size()
            kind = _kind(old, size)
            changes.append(RouteChange(cause.seq, cause.effect_us, cause.event_id, kind, parts, old, size))
        orphans.proceed(state.reasons(), cause)
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


def _kind(before: Size, after: Size) -> ChangeKind:
    if not before.groups:
        return "appeared"
    return "changed" if after.groups else "vanished"


def _orphan_order(orphan: Orphan) -> tuple[int, str, str, str]:
    return orphan.from_us, orphan.reason, orphan.broker_name or "", orphan.opened_by
