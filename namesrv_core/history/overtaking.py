"""Answers amid changes that were under way together: each of them may have been made, or not yet.

A name server makes changes in several threads. In which order those take effect that were under way at the same time the wire
does not show; an answer that was given meanwhile shows any number of them. Cluster information is written from two tables, one
after the other and under no lock: a change may come in between; likewise between the parts of an answer about a version. It may
also end the answer: sets of names, addresses by id and in 4.x all maps throw when they are changed while they are written.

Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getAllClusterInfo; 5.4.0 DefaultRequestProcessor.queryBrokerTopicConfig.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from namesrv_core.asking.body_json import read_json, same_json
from namesrv_core.history.intervals import StateChange, Walk
from namesrv_core.history.verification import Concerns, Observed, Verdict, answer_of, compared, proven_by
from namesrv_core.machine.codes import Answer, Question, RequestCode
from namesrv_core.machine.events import QueryDataVersion
from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry

MOST: Final = 8
"""So many changes are tried in any combination: 256 of them. Of more, as after a start, the nearest one is looked for."""
_MOST_LOOKED_FOR: Final = 200
"""Answers for which that is done: it takes as many states as there are changes."""
_LOOKED_AT: Final = 64
_ANOTHER: Final = 1 << 20
Some = frozenset[int]
"""Changes that have been made, by their numbers."""
_SECOND: Final = ',"clusterAddrTable":'
_CLUSTER_INFO: Final = RequestCode.GET_BROKER_CLUSTER_INFO
_CONCURRENT_MODIFICATION: Final = "java.util.ConcurrentModificationException"


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
    walk, left = Walk(registry, namesrv, starts), _MOST_LOOKED_FOR
    found, position, begins = dict[str, Verdict](), 0, set(starts)
    showing = [verdict for verdict in verdicts if verdict.shown]
    unmatched = [verdict.observed for verdict in verdicts if not verdict.matched]
    for observed in sorted(unmatched, key=lambda one: (one.request_seq, one.event_id)):
        while position < len(timeline) and timeline[position].seq <= observed.request_seq:
            walk.take(timeline[position])
            position += 1
        near = enumerate(timeline[position : position + _LOOKED_AT], position + 1)
        # Numbers, from 1, of what had arrived before the answer and took effect after its question.
        under_way = [number for number, change in near if change.arrival_seq < observed.seq]
        concerned = concerns.of(observed.question) if under_way else ()
        own = [number for number in under_way if number in concerned]
        if not own or any(timeline[number - 1].seq in begins for number in own):
            continue
        is_info = _is_cluster_info(observed)
        if is_info and (observed.answered.remark or "").startswith(_CONCURRENT_MODIFICATION):  # while maps were written
            found[observed.event_id] = Verdict(observed, True, True, True, True, observed.answered)
            continue
        amid = _Amid(walk.registry, timeline, own, observed, namesrv)
        proven = proven_by(showing, observed.request_seq)
        kept = frozenset(number for number in own if number <= proven)
        is_few, left = len(own) <= MOST, left - (len(own) > MOST)
        possible = amid.combined(kept) if is_few else amid.nearest(kept) if left >= 0 else ()
        verdict = next((one for answer in possible if (one := compared(observed, answer)).matched), None)
        if verdict is not None:
            found[observed.event_id] = verdict._replace(in_flight=True)
    return found


class _Amid:
    """The states of a registry amid some changes under way, and what they answer to a question."""

    def __init__(
        self,
        registry: Registry,
        timeline: Sequence[StateChange],
        numbers: Sequence[int],
        observed: Observed,
        namesrv: Namesrv,
    ) -> None:
        self._registry, self._timeline, self._numbers = registry, timeline, numbers
        self._observed, self._namesrv = observed, namesrv
        rows = {number: {change[:2] for change in timeline[number - 1].changes} for number in numbers}
        # A change comes only after the earlier ones that wrote a row which it writes.
        self._needs = {
            number: frozenset(before for before in numbers if before < number and rows[before] & rows[number])
            for number in numbers
        }
        self._answers: dict[Some, Answer] = {}

    def combined(self, kept: Some) -> Iterator[Answer]:
        """Yield the answers of all combinations of the changes, few first; then those that are torn."""
        states = []
        for size in range(len(self._numbers) + 1):
            for some in map(frozenset, combinations(self._numbers, size)):
                if kept <= some and all(self._needs[number] <= some for number in some):
                    states.append((some, self._answer(some)))
                    yield states[-1][1]
        yield from _torn(self._observed, states)

    def nearest(self, kept: Some) -> Iterator[Answer]:
        """Yield the answers that are nearest to the one observed; of cluster information then that of the two nearest parts.

        They are looked for from where all has been made that was answered by then, and from where nothing has: what several
        changes put, none alone takes away.
        """
        told = self._observed.answered
        start = kept | {number for number in self._numbers if self._timeline[number - 1].seq <= self._observed.seq}

        def away(some: Some) -> int:
            said = self._answer(some)
            heads = (said.code != told.code) + (said.remark != told.remark) + (said.fields != told.fields)
            return heads + differing(said.body, told.body)

        for begin in (start, kept):
            yield self._answer(nearest(self._needs, begin, away, kept=kept))
        if not _is_cluster_info(self._observed):
            return
        parts = _parts(told.body)

        def away_in(part: int) -> Callable[[Some], int]:
            return lambda some: differing(_parts(self._answer(some).body)[part], parts[part])

        first = nearest(self._needs, start, away_in(0), kept=kept)
        second = nearest(self._needs, first, away_in(1), kept=kept | first)
        yield from _torn(self._observed, [(first, self._answer(first)), (second, self._answer(second))])

    def _answer(self, some: Some) -> Answer:
        if some not in self._answers:
            state = self._registry.copy()
            for change in sorted(self._timeline[number - 1] for number in some):
                state.apply(change.changes, change.seq // NS_PER_MS)
            self._answers[some] = answer_of(state, self._observed.question, self._namesrv.at(self._observed.seq))
        return self._answers[some]


def _is_cluster_info(observed: Observed) -> bool:
    return isinstance(observed.question, Question) and observed.question.code == _CLUSTER_INFO


def _torn(observed: Observed, states: Sequence[tuple[frozenset[int], Answer]]) -> Iterator[Answer]:
    """Yield the answers of which the second part was made when more had changed than at the first."""
    if isinstance(observed.question, QueryDataVersion):
        firsts = [(some, said) for some, said in states if said.fields == observed.answered.fields]
        for other, said in states:
            if said.body == observed.answered.body:
                yield from (first._replace(body=said.body) for some, first in firsts if some < other)
    elif _is_cluster_info(observed):
        addrs, clusters = _parts(observed.answered.body)
        parts = [(some, said, *_parts(said.body)) for some, said in states]
        heads = [(some, first) for some, _, first, _ in parts if same_json(first, addrs, ordered=False)]
        for other, said, _, second in parts:
            if same_json(second, clusters, ordered=False):
                yield from (said._replace(body=f"{first[:-1]},{second[1:]}") for some, first in heads if some < other)


def _parts(body: str | None) -> tuple[str, str]:
    """Return the two parts of cluster information, each as a text of JSON."""
    addrs, _, clusters = (body or "").partition(_SECOND)
    return f"{addrs}}}", f"{{{_SECOND[1:]}{clusters}"


def nearest(
    needs: Mapping[int, Some], start: Some, distance: Callable[[Some], int], *, kept: Some = frozenset()
) -> Some:
    """Return the changes, from `start` on, to which no single one more or less is nearer.

    `needs`: of each change those that come before it if it is made; `kept`: those that have been made in any case.
    """
    found, best, is_nearer = start, distance(start), True
    while best and is_nearer:
        is_nearer = False
        for number in needs:
            other = found ^ {number}
            if number in kept or any(not needs[one] <= other for one in other):
                continue
            if (away := distance(other)) < best:
                found, best, is_nearer = other, away, True
    return found


def differing(one: str | None, other: str | None) -> int:
    """Return in how many values two bodies differ; lists are compared as sets of their elements."""
    try:
        ones, others = (set() if body is None else set(_leaves(read_json(body), "")) for body in (one, other))
        return len(ones ^ others)
    except ValueError:
        return 0 if one == other else _ANOTHER


def _leaves(value: Any, where: str) -> Iterator[str]:  # any JSON value
    yield f"{where}{type(value).__name__}"
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _leaves(member, f"{where}/{key}")
    elif isinstance(value, list):
        yield from (f"{where}#{json.dumps(member, sort_keys=True)}" for member in value)
    else:
        yield f"{where}={value}"
