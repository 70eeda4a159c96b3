"""Answers amid changes that were under way together: each of them may have been made, or not yet.

A name server makes changes in several threads. In which order those take effect that were under way at the same time the wire
does not show; an answer that was given meanwhile shows any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from namesrv_core.history.timeline import StateChange, Walk
from namesrv_core.history.verification import Concerns, Observed, Verdict, answer_of, compared
from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry

MOST: Final = 6
"""So many changes are tried in any combination: 64 of them."""
_LOOKED_AT: Final = 64


def overtaken(
    registry: Registry,
    timeline: Sequence[StateChange],
    observations: Sequence[Observed],
    namesrv: Namesrv,
    *,
    starts: Sequence[int] = (),
) -> dict[str, Verdict]:
    """Return by event id the verdicts on answers that match a state with some, and not the first, of the changes under way.

    To be asked of answers that match no state of the timeline (`verify`, which see for the rest). `registry` is changed.
    """
    concerns, walk = Concerns(registry, timeline, starts), Walk(registry, namesrv, starts)
    found, position, begins = dict[str, Verdict](), 0, set(starts)
    for observed in sorted(observations, key=lambda one: (one.request_seq, one.event_id)):
        while position < len(timeline) and timeline[position].seq <= observed.request_seq:
            walk.take(timeline[position])
            position += 1
        under_way = _under_way(timeline, position, observed)
        own = sorted(under_way & set(concerns.of(observed.question)))
        if not 2 <= len(own) <= MOST or any(timeline[number - 1].seq in begins for number in own):
            continue
        verdicts = (_judged(walk.registry, some, observed, namesrv) for some in _combinations(timeline, own))
        verdict = next((one for one in verdicts if one.matched), None)
        if verdict is not None:
            found[observed.event_id] = verdict._replace(in_flight=True)
    return found


def _under_way(timeline: Sequence[StateChange], position: int, observed: Observed) -> set[int]:
    """Return the numbers (from 1) of the changes that had arrived before an answer and took effect behind its question."""
    near = enumerate(timeline[position : position + _LOOKED_AT], position + 1)
    return {number for number, change in near if change.arrival_seq < observed.seq}


def _combinations(timeline: Sequence[StateChange], numbers: Sequence[int]) -> Iterator[list[StateChange]]:
    """Yield the changes in all combinations, few first. One that writes what an earlier one wrote comes only behind that."""
    rows = {number: {change[:2] for change in timeline[number - 1].changes} for number in numbers}
    needs = {
        number: {before for before in numbers if before < number and rows[before] & rows[number]} for number in numbers
    }
    for size in range(1, len(numbers) + 1):
        for some in combinations(numbers, size):
            if all(needs[number] <= set(some) for number in some):
                yield [timeline[number - 1] for number in some]


def _judged(registry: Registry, changes: Sequence[StateChange], observed: Observed, namesrv: Namesrv) -> Verdict:
    state = registry.copy()
    for change in changes:
        state.apply(change.changes, change.seq // NS_PER_MS)
    return compared(observed, answer_of(state, observed.question, namesrv.at(observed.seq)))
