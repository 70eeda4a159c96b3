"""Verification: is every recorded answer right according to the replayed registry?

An answer is right if it equals the registry's at some instant between its request and itself. A request makes its change
at some instant between its arrival and its response. An answer in between may already show the change; if one does,
every later question must be answered with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate, islice, takewhile
from typing import NamedTuple

from namesrv_core.asking.answers import LIST_CODES, answer, answer_to, remark_matches
from namesrv_core.asking.shown import Shown, ShownCluster, ShownTopics, read_json, same_json, shown_by, shown_of
from namesrv_core.history.intervals import StateChange
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.events import EVER, NS_PER_MS, Event, QueryDataVersion, RegisterBroker
from namesrv_core.machine.past import TablePart, parts_changed
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG, step
from namesrv_core.machine.tables import BrokerData


class Observed(NamedTuple):
    """A recorded answer, with the positions of the last byte of its request and of its own.

    `question` may be an event; the answer is then the response to it. It is compared with the response to the same
    request on the state that the event left, which is the same.
    """

    event_id: str
    request_seq: int
    seq: int
    question: Question | Event
    answered: Answer


class Verdict(NamedTuple):
    """Result of a comparison. `in_flight`: the answer differs at the state of its position, but matches another one.

    `expected`: the registry's answer at the matching state, or at the position of the answer if none matches. `shown`:
    number of changes that the answer proves to have been made, if some of them had not been responded to yet; else 0.
    """

    observed: Observed
    matched: bool
    same_order: bool
    same_bytes: bool
    in_flight: bool
    expected: Answer
    shown: int = 0


class _Window(NamedTuple):
    """The states that an answer may show, by number: the first, the last, and the nominal one at its position.

    `under_way`: later changes that may have been made by then, although a change before them cannot: requests of
    different duration overlap.
    """

    first: int
    last: int
    nominal: int
    under_way: tuple[int, ...] = ()


_MOST_UNDER_WAY = 8
"""So many overlapping requests are tried, the first: more wait for a lock, or come from a frozen server that catches up."""


class AnswerVerdicts(NamedTuple):
    """An answer with its verdicts, by number of changes made before; each holds until the next change that concerns it.

    `further`: if it matches none, its verdicts with one, two and more of the changes `under_way` made.
    """

    observed: Observed
    window: _Window
    verdicts: dict[int, Verdict]
    further: list[Verdict]

    def at(self, number: int) -> Verdict:
        """Return the verdict at a state of the window."""
        return self.verdicts[max(first for first in self.verdicts if first <= number)]


PartOf = Callable[[Observed, Answer], object | None]
"""Returns the part of an answer that is compared, if not all of it is."""


def verify(
    registry: Registry,
    timeline: Sequence[StateChange],
    observations: Sequence[Observed],
    namesrv: Namesrv,
    *,
    starts: Sequence[int] = (),
) -> list[Verdict]:
    """Return a verdict for each observation, in the order of the answers.

    `registry`: the state before `timeline`; it is changed. `starts`: positions at which the process restarted.
    Where `namesrv` changes, the timeline has a change without rows.
    """
    return chosen(all_verdicts(registry, timeline, observations, namesrv, starts=starts))


def all_verdicts(
    registry: Registry,
    timeline: Sequence[StateChange],
    observations: Sequence[Observed],
    namesrv: Namesrv,
    *,
    starts: Sequence[int] = (),
    part_of: PartOf | None = None,
    in_all: bool = False,
) -> list[AnswerVerdicts]:
    """Return each observation, in the order of the answers, with its verdicts at all states of its window; see `verify`.

    `in_all`: with the changes under way, whether it matches without them or not.
    """
    ordered = sorted(observations, key=lambda observed: (observed.seq, observed.event_id))
    effects, windows = [change.seq for change in timeline], list[_Window]()
    arrivals = [*accumulate((change.arrival_seq for change in reversed(timeline)), min, initial=EVER)][::-1]
    for observed in ordered:
        nominal = last = bisect_left(effects, observed.seq)  # changes derived from the answer itself come after it
        first = min(bisect_right(effects, observed.request_seq), nominal)
        while last < len(timeline) and timeline[last].arrival_seq < observed.seq:
            last += 1
        further = takewhile(lambda number: arrivals[number] < observed.seq, range(last, len(timeline)))  # noqa: B023
        under_way = (number for number in further if timeline[number].arrival_seq < observed.seq)
        windows.append(_Window(first, last, nominal, tuple(islice(under_way, _MOST_UNDER_WAY))))
    found = [AnswerVerdicts(observed, window, {}, []) for observed, window in zip(ordered, windows, strict=True)]
    concerns, to_compare = Concerns(registry, timeline, starts), defaultdict[int, list[AnswerVerdicts]](list)
    for one in found:
        first, last = one.window.first, one.window.last
        for number in {
            first,
            *concerns.between(one.observed.question, first, last),
            *([last] * bool(one.window.under_way)),
        }:
            to_compare[number].append(one)
    since = min([*effects[:1], *(one.seq for one in ordered[:1])], default=0) - 1
    states = _States(registry, timeline, namesrv, starts, part_of, since)
    for number in sorted(to_compare):
        states.advance_to(number)
        for one in to_compare[number]:
            one.verdicts[number] = states.compare(one.observed)
            if number == one.window.last and (in_all or not any(found.matched for found in one.verdicts.values())):
                one.further.extend(states.compare_further(one.observed, one.window.under_way))
    states.advance_to(len(timeline))
    return found


def chosen(answers: Iterable[AnswerVerdicts]) -> list[Verdict]:
    """Return one verdict for each answer: at the nominal state if it matches there, else at the first that it matches.

    States before one that an earlier answer has shown are impossible.
    """
    verdicts: list[Verdict] = []
    # Of the answers that showed changes ahead of their responses: their positions, and the most changes shown until then.
    showing, most = list[int](), [0]
    for one in answers:
        observed, window, verdict_at, further = one
        proven, nominal = most[bisect_right(showing, observed.request_seq)], one.at(window.nominal)
        ends = [*verdict_at, window.last + 1][1:]
        possible = [
            max(number, proven)
            for (number, verdict), end in zip(verdict_at.items(), ends, strict=True)
            if verdict.matched and end > proven
        ]
        if not possible:
            verdicts.append(next((verdict for verdict in further if verdict.matched), nominal._replace(matched=False)))
            continue
        number = window.nominal if nominal.matched and window.nominal >= proven else min(possible)
        shown = number if number > window.nominal else 0
        verdicts.append(one.at(number)._replace(in_flight=not nominal.matched, shown=shown))
        if shown:
            showing.append(observed.seq)
            most.append(max(most[-1], shown))
    return verdicts


class _States:
    """The registry as it moves along the timeline."""

    def __init__(
        self,
        registry: Registry,
        timeline: Sequence[StateChange],
        namesrv: Namesrv,
        starts: Sequence[int],
        part_of: PartOf | None,
        since: int,
    ) -> None:
        """`since`: a position before the timeline, or anywhere if that is empty."""
        self._registry = registry
        self._starts = sorted(starts, reverse=True)
        self._timeline = timeline
        self._namesrv = namesrv
        self._seq = since
        self._made = 0
        self._part_of = part_of
        self._further: dict[tuple[int, ...], Registry] = {}

    def advance_to(self, number: int) -> None:
        for change in self._timeline[self._made : number]:
            self._start_before(change.seq)  # after a stop, a start changes nothing
            self._registry.apply(change.changes, change.seq // NS_PER_MS)
            self._start_before(change.seq + 1)
            self._seq = self._seq if change.changes else change.seq
            self._further = {}
        self._made = number

    def _start_before(self, seq: int) -> None:
        """Restart the process for each start before `seq`."""
        while self._starts and self._starts[-1] < seq:
            self._registry.restart(self._namesrv.at(self._starts.pop()).profile)

    def compare(self, observed: Observed) -> Verdict:
        return self._compared(observed, self._registry, self._seq)

    def compare_further(self, observed: Observed, under_way: tuple[int, ...]) -> Iterator[Verdict]:
        """Yield the verdicts with the first of the changes `under_way` made, with the first two, and so on."""
        seq = self._seq
        for count in range(1, len(under_way) + 1):
            made = under_way[:count]
            change = self._timeline[made[-1]]
            seq = seq if change.changes else change.seq
            if made not in self._further:
                self._further[made] = self._further.get(made[:-1], self._registry).copy()
                self._further[made].apply(change.changes, change.seq // NS_PER_MS)
            yield self._compared(observed, self._further[made], seq)._replace(in_flight=True)

    def _compared(self, observed: Observed, registry: Registry, seq: int) -> Verdict:
        expected = answer_of(registry, observed.question, self._namesrv.at(seq))
        if self._part_of is None:
            return compared(observed, expected)
        is_same = self._part_of(observed, observed.answered) == self._part_of(observed, expected)
        return Verdict(observed, is_same, False, False, False, expected)


def compared(observed: Observed, expected: Answer) -> Verdict:
    """Return the verdict of comparing an answer with the expected one."""
    answered = observed.answered
    same_head = (
        answered.code == expected.code
        and answered.fields == expected.fields
        and remark_matches(answered.remark, expected.remark)
    )
    same_bytes = same_head and answered.body == expected.body
    same_order = same_bytes or (same_head and same_json(answered.body, expected.body, ordered=True))
    matched = same_order or (same_head and same_json(answered.body, expected.body, ordered=False))
    return Verdict(observed, matched, same_order, same_bytes, False, expected)


def answer_of(registry: Registry, question: Question | Event, namesrv: Namesrv) -> Answer:
    """Return the registry's answer to a question, or to a request that was already applied to it."""
    if isinstance(question, Question):
        return answer(registry, question, namesrv)
    return answer_to(question, step(registry, question, 0, namesrv), registry, namesrv)


def right_in_parts(
    registry: Registry,
    timeline: Sequence[StateChange],
    observations: Sequence[Observed],
    namesrv: Namesrv,
    *,
    starts: Sequence[int] = (),
) -> list[str]:
    """Return the ids of answers whose parts are each right at some instant of their window; parameters as in `verify`.

    Responses do not show in which order overlapping requests took effect. A part is the content of an answer about one
    broker, one name in a cluster, or one topic in a list.
    """
    at_all = all_verdicts(registry, timeline, observations, namesrv, starts=starts, in_all=True)
    return [one.observed.event_id for one in at_all if _is_right_in_parts(one, namesrv.at(one.observed.seq))]


def _is_right_in_parts(one: AnswerVerdicts, namesrv: Namesrv) -> bool:
    question, answered = one.observed.question, one.observed.answered
    if not isinstance(question, Question):
        return False
    states = map(one.at, range(one.window.first, one.window.last + 1))
    expected = [verdict.expected for verdict in (*states, *one.further)]
    if question.code == RequestCode.GET_BROKER_CLUSTER_INFO and (answered.remark or "").startswith(_TORN):
        # The server also serializes it without a lock, so a concurrent registration may end that with an exception.
        is_amid = one.window.first < one.window.last or bool(one.window.under_way)
        return answered.code == ResponseCode.SYSTEM_ERROR and is_amid
    asked = _ALL_TOPICS if question.code in LIST_CODES else question  # of every kind of topic list, its topics
    seen = [shown_by(asked, answer) for answer in (answered, *expected)]
    # Half of a single change is visible only without a lock: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.getAllClusterInfo,
    # or before 4.9.4 in a route, which is written of the table's own lists of queue data: pickupTopicRouteData.
    own_lists = [RequestCode.GET_ROUTEINFO_BY_TOPIC] * namesrv.profile.lists_queue_data
    if None in seen or len(seen) < (3 if question.code in (RequestCode.GET_BROKER_CLUSTER_INFO, *own_lists) else 4):
        return False
    shown, *held = (_parts(one) for one in seen if one is not None)
    return all(shown.get(part) in [of.get(part) for of in held] for part in set(shown).union(*held))


_TORN = "java.util.ConcurrentModificationException"
_ALL_TOPICS = Question(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


def _parts(shown: Shown) -> dict[tuple[str, object], object]:
    """Return the parts of an answer by kind and name."""
    found: dict[tuple[str, object], object] = {}
    for kind, value in zip(shown._fields, shown, strict=True):
        if isinstance(shown, ShownCluster) and kind == "clusters":
            found |= {(kind, (cluster, name)): True for cluster, names in shown.clusters.items() for name in names}
        elif isinstance(value, dict):
            for name, of in value.items():
                if isinstance(of, BrokerData):
                    found |= {(kind, (name, broker_id)): addr for broker_id, addr in of.broker_addrs}
                    of = of._replace(broker_addrs=())  # noqa: PLW2901  the group itself is a part, too
                found[kind, name] = of
        else:
            found |= {(kind, each): True for each in (value if isinstance(value, frozenset) else (value,))}
    return found


class Concerns:
    """Finds the changes of a timeline that can affect the answer to a question: for many questions with few changes.

    `numbers` of these changes (from 1, in order) by part of the registry that they touch.
    """

    def __init__(self, registry: Registry, timeline: Sequence[StateChange], starts: Sequence[int] = ()) -> None:
        """Parameters as in `verify`, but `registry` is not changed. Cost is linear in the changes of the timeline."""
        # A start that changes nothing shows with the next change, if there is one.
        numbers = (bisect_left(timeline, seq, key=lambda change: change.seq) + 1 for seq in starts)
        of_namesrv = {number for number, change in enumerate(timeline, 1) if not change.changes}
        of_namesrv |= {number for number in numbers if number <= len(timeline)}
        self.numbers: dict[TablePart, Sequence[int]] = {_NAMESRV: sorted(of_namesrv), _ALL: range(1, len(timeline) + 1)}
        self._names = {topic: set(rows.java_keys()) for topic, rows in registry.topic_queue_table.java_items()}
        self._addrs = {name: {*group.addr_of.values()} for name, group in registry.broker_addr_table.items()}
        found = defaultdict[TablePart, list[int]](list)
        for number, change in enumerate(timeline, 1):
            for part in {part for one in change.changes for part in parts_changed(one)}:
                found[part].append(number)
            for table, key, value in change.changes:
                if table == "topic_queue_table":
                    self._names.setdefault(key[0], set()).add(key[1])
                elif isinstance(value, BrokerData):
                    self._addrs.setdefault(key[0], set()).update(value.addr_of.values())
        self.numbers |= found

    def of(self, question: Question | Event) -> list[TablePart]:
        """Return the changed parts on which an answer depends: between two of their changes the answer stays the same."""
        if isinstance(question, RegisterBroker):
            members: Iterable[Name] = self._addrs.get(question.broker_name, ())
        else:
            members = self._names.get(question.subject, ()) if isinstance(question, Question) else ()
        parts = parts_read(question, members)
        return [part for part in ([_ALL] if parts is None else [_NAMESRV, *parts]) if part in self.numbers]

    def between(self, question: Question | Event, after: int, until: int) -> Iterator[int]:
        """Yield the numbers of changes that can affect an answer, after one number, up to the other."""
        for part in self.of(question):
            numbers = self.numbers[part]
            yield from numbers[bisect_right(numbers, after) : bisect_right(numbers, until)]


_NAMESRV: TablePart = ("namesrv",)
_ALL: TablePart = ("all",)
Name = str | None


def differs_by_unseen(question: Question, answered: Answer, expected: Answer, seen: Container[Name]) -> bool:
    """Return whether `answered` differs from `expected` only in broker names that are not in `seen`, those registered.

    A list of topics names no brokers; for it, whether it has all expected topics, and more.
    """
    if question.code == RequestCode.GET_BROKER_MEMBER_GROUP:
        return question.subject not in seen
    if question.code in LIST_CODES:
        return answered.code == ResponseCode.SUCCESS and _topics(expected) < _topics(answered)
    shown, held = shown_by(question, answered), shown_by(question, expected)
    if shown is None or held is None or isinstance(shown, ShownTopics) or isinstance(held, ShownTopics):
        return False
    return shown != held and shown_of(shown, seen) == shown_of(held, seen)


def _topics(answer: Answer) -> frozenset[Name]:
    try:
        return frozenset(read_json(answer.body or "")["topicList"])
    except (ValueError, KeyError, TypeError):
        return frozenset()


def parts_read(question: Question | Event, members: Iterable[str | None]) -> list[TablePart] | None:
    """Return the parts of the registry on which an answer depends. None: it may depend on any.

    `members`: for a route the topic's broker names, for a registration the addresses of its group.
    """
    if isinstance(question, QueryDataVersion):
        return [("broker_live_table", question.broker_addr)]
    if isinstance(question, RegisterBroker):  # its response shows the master, and a rival for its id refuses it
        live: list[TablePart] = [("broker_live_table", addr) for addr in members]
        return [("broker_addr_table", question.broker_name), *live, ("kv_config_table", ORDER_TOPIC_CONFIG)]
    if not isinstance(question, Question):
        return None
    code, subject = question.code, question.subject
    if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        own: list[TablePart] = [("topic_queue_table", subject), ("topic_queue_mapping_info_table", subject)]
        groups = [("broker_addr_table", name) for name in members]
        return [*own, *groups, ("filter_server_table",), ("kv_config_table", ORDER_TOPIC_CONFIG)]
    if code == RequestCode.GET_BROKER_MEMBER_GROUP:
        return [("broker_addr_table", subject)]
    if code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
        return [("kv_config_table", question.scope if code == RequestCode.GET_KV_CONFIG else subject)]
    topics: list[TablePart] = [("topic_queue_table",)] if code in LIST_CODES else []
    return [*topics, ("broker_addr_table",), ("cluster_addr_table",)]
