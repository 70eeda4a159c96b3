"""One topic's route through time: every change that clients see, and when it could not be served as it looks.

A sweep over the rows that make up the route, in the order in which the name server changed them. A step costs what it
changed, however many brokers the topic lies on: a change names the parts of the route that differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Literal, NamedTuple

from namesrv_core.history.route_state import OrphanKey, Reason, RoutePart, RouteRow, RouteState, Size
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
    topic: str | None, rows: Iterable[RouteRow], namesrv: Namesrv, *, start_us: int, open_orphans: Iterable[Orphan] = ()
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
    running: dict[OrphanKey, Orphan] = {}
    ended: list[Orphan] = []
    if before:
        youngest = max((row.opened for row in before), key=lambda opened: opened[:2])
        for key in state.reasons():
            running[key] = carried.get(key) or Orphan(*key, youngest.effect_us, youngest.event_id)

    moves = [(row.opened, True, row) for row in rows if row.opened.effect_us >= start_us]
    moves += [(row.closed, False, row) for row in rows if row.closed is not None]
    # An old row goes before a new one comes.
    moves.sort(key=lambda move: (move[0].seq, move[0].no, move[1], move[2].table, str(move[2].key)))
    changes: list[RouteChange] = []
    size = state.size()
    for _, group in groupby(moves, key=lambda move: move[0].seq):
        step = list(group)
        cause = step[0][0]
        for _, present, row in step:
            state.put(row, present=present)
        parts = state.end_step()
        if parts:
            old, size = size, state.size()
            kind: ChangeKind = "changed" if size.groups else "vanished"
            if not old.groups:
                kind = "appeared"
            changes.append(RouteChange(cause.seq, cause.effect_us, cause.event_id, kind, parts, old, size))
        holding = state.reasons()
        over = [key for key in running if key not in holding]
        ended += [running.pop(key)._replace(to_us=cause.effect_us, closed_by=cause.event_id) for key in over]
        for key in holding:
            running.setdefault(key, Orphan(*key, cause.effect_us, cause.event_id))

    orphans = (orphan for orphan in (*ended, *running.values()) if orphan.from_us != orphan.to_us)
    in_order = sorted(orphans, key=lambda o: (o.from_us, o.reason, o.broker_name or "", o.opened_by))
    return RouteHistory(tuple(changes), tuple(in_order))
