"""Answers amid changes that were under way together: each of them may have been made, or not yet.

A name server makes changes in several threads. In which order those take effect that were under way at the same time the wire
does not show; an answer that was given meanwhile shows any number of them. Cluster information is written from two tables, one
after the other and under no lock: a change may come in between; likewise between the parts of an answer about a version.

Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getAllClusterInfo; 5.4.0 DefaultRequestProcessor.queryBrokerTopicConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from namesrv_core.asking.body_json import same_json
from namesrv_core.history.timeline import StateChange, Walk
from namesrv_core.history.verification import Concerns, Observed, Verdict, answer_of, compared, proven_by
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import QueryDataVersion
from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.question import Answer, Question
from namesrv_core.machine.registry import Registry

MOST: Final = 8
"""So many changes are tried in any combination: 256 of them."""
_LOOKED_AT: Final = 64
_SECOND: Final = ',"clusterAddrTable":'


def overtaken(
    registry: Registry,
    timeline: Sequence[StateChange],
    verdicts: Sequence[Verdict],
    namesrv: Namesrv,
    concerns: Concerns,
    *,
    starts: Sequence[int] = (),
) -> dict[str, Verdict]:
    """Return by event id better verdicts, on answers that match a state with some, and not the first, of the changes under way.

    `verdicts`: what `verify`, which see for the rest, says of all answers, as those that match no state of the timeline. What one
    answer has shown, later ones must show. `concerns`: of the same timeline. `registry` is changed.
    """
    walk = Walk(registry, namesrv, starts)
    found, position, begins = dict[str, Verdict](), 0, set(starts)
    showing = [verdict for verdict in verdicts if verdict.shown]
    unmatched = [verdict.observed for verdict in verdicts if not verdict.matched]
    for observed in sorted(unmatched, key=lambda one: (one.request_seq, one.event_id)):
        while position < len(timeline) and timeline[position].seq <= observed.request_seq:
            walk.take(timeline[position])
            position += 1
        under_way = _under_way(timeline, position, observed)
        concerned = concerns.of(observed.question) if under_way else ()
        own = [number for number in under_way if number in concerned]
        if not 1 <= len(own) <= MOST or any(timeline[number - 1].seq in begins for number in own):
            continue
        proven = proven_by(showing, observed.request_seq)
        states = [
            (some, _expected(walk.registry, [timeline[number - 1] for number in some], observed, namesrv))
            for some in _combinations(timeline, own)
            if some.issuperset(number for number in own if number <= proven)
        ]
        judged = (
            compared(observed, expected) for expected in (*(said for _, said in states), *_torn(observed, states))
        )
        verdict = next((one for one in judged if one.matched), None)
        if verdict is not None:
            found[observed.event_id] = verdict._replace(in_flight=True)
    return found


def _under_way(timeline: Sequence[StateChange], position: int, observed: Observed) -> list[int]:
    """Return the numbers (from 1) of the changes that had arrived before an answer and took effect behind its question."""
    near = enumerate(timeline[position : position + _LOOKED_AT], position + 1)
    return [number for number, change in near if change.arrival_seq < observed.seq]


def _combinations(timeline: Sequence[StateChange], numbers: Sequence[int]) -> Iterator[frozenset[int]]:
    """Yield the changes in all combinations, few first. One that writes what an earlier one wrote comes only behind that."""
    rows = {number: {change[:2] for change in timeline[number - 1].changes} for number in numbers}
    needs = {
        number: {before for before in numbers if before < number and rows[before] & rows[number]} for number in numbers
    }
    for size in range(len(numbers) + 1):
        for some in combinations(numbers, size):
            if all(needs[number] <= set(some) for number in some):
                yield frozenset(some)


def _expected(registry: Registry, changes: Iterable[StateChange], observed: Observed, namesrv: Namesrv) -> Answer:
    state = registry.copy()
    for change in sorted(changes):
        state.apply(change.changes, change.seq // NS_PER_MS)
    return answer_of(state, observed.question, namesrv.at(observed.seq))


def _torn(observed: Observed, states: Sequence[tuple[frozenset[int], Answer]]) -> Iterator[Answer]:
    """Yield the answers of which the second part was made when more had changed than at the first."""
    if isinstance(observed.question, QueryDataVersion):
        firsts = [(some, said) for some, said in states if said.fields == observed.answered.fields]
        for other, said in states:
            if said.body == observed.answered.body:
                yield from (first._replace(body=said.body) for some, first in firsts if some < other)
    elif isinstance(observed.question, Question) and observed.question.code == RequestCode.GET_BROKER_CLUSTER_INFO:
        yield from _torn_cluster_info(observed.answered.body or "", states)


def _torn_cluster_info(body: str, states: Sequence[tuple[frozenset[int], Answer]]) -> Iterator[Answer]:
    addrs, _, clusters = body.partition(_SECOND)
    parts = [(some, said, *(said.body or "").partition(_SECOND)[::2]) for some, said in states]
    firsts = [(some, first) for some, _, first, _ in parts if same_json(f"{first}}}", f"{addrs}}}", ordered=False)]
    for other, said, _, second in parts:
        if same_json(f"{{{_SECOND[1:]}{second}", f"{{{_SECOND[1:]}{clusters}", ordered=False):
            yield from (said._replace(body=f"{first}{_SECOND}{second}") for some, first in firsts if some < other)
