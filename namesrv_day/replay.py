"""The replay of a name server's day: from its events, its beats and the state at its beginning to the day's tables.

One statement folds beats into runs (`namesrv_day.hours`). The core then applies one event after the other to the registry in
memory. A broker name's queue data enter the registry when they are first asked for, and a row becomes an interval when its key
changes. All other rows are carried into the next day as columns (`OpenQueues`).
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Histories, Interval, Member, Position
from namesrv_core.history.verification import Observed
from namesrv_core.inference.decisions import Decided, Deciding
from namesrv_core.inference.races import Day
from namesrv_core.machine import events
from namesrv_core.machine.events import NS_PER_US, US_PER_MS, RefreshRun, ScanNotActiveBroker
from namesrv_core.machine.past import ANY, GROUP, SETTLED, Entity, Part
from namesrv_core.machine.registry import Change, Outcome, Registry, Step
from namesrv_core.machine.step import live_key_of
from namesrv_core.machine.step import step as step_of
from namesrv_core.machine.tables import BrokerLiveInfo, LiveKey, QueueData, TopicTable
from namesrv_core.replay import loop
from namesrv_core.replay.loop import TimedEvent
from namesrv_day import hours
from namesrv_day.arrow import ask, conformed, distinct, empty, rows_of, table_of
from namesrv_day.context import NamesrvDay, capacities_in, facts_in, frame, intervals_from, intervals_in, started
from namesrv_day.events import (
    RESPONSE,
    RESPONSES,
    Frames,
    Report,
    Timed,
    TopicTables,
    moved,
    observation_rows,
    topic_digests,
)
from namesrv_day.hours import MARGIN_US, PERIODS, Folded, folded, periods_of
from schemas import bronze, codec, gold
from schemas.gold import TOPIC_QUEUE_HISTORY
from schemas.sql_files import query
from schemas.table import BOOLEAN, LONG, STRING, Table, struct_of
from schemas.tables.event_outcomes import detail_of, operation_of
from schemas.tables.state import past_row

_Text = str | None


class QueueRows:
    """The open rows of topic_queue_history with which a day begins."""

    def __init__(self, rows: pa.Table) -> None:
        self.as_read = rows

    @cached_property
    def rows(self) -> pa.Table:
        """Return the rows in one chunk, from which single rows can be taken."""
        return self.as_read.combine_chunks()

    @cached_property
    def of_names(self) -> dict[_Text, npt.NDArray[np.int64]]:
        """Return the numbers of each broker name's rows, in the order in which their keys entered the table."""
        return self._numbers("broker_name", "entered_at")

    @cached_property
    def of_topics(self) -> dict[_Text, npt.NDArray[np.int64]]:
        """Return the numbers of each topic's rows; the first knows best since when the topic is there."""
        return self._numbers("topic", "outer_entered_at")

    def _numbers(self, key: str, since: str) -> dict[_Text, npt.NDArray[np.int64]]:
        entered = self.rows[since].combine_chunks()
        names = self.rows[key].combine_chunks().dictionary_encode()
        of = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False)
        order = np.lexsort((entered.field("no").to_numpy(), entered.field("seq").to_numpy(), of))
        found, first = np.unique(of[order], return_index=True)
        keys = [None if number < 0 else names.dictionary[number].as_py() for number in found.tolist()]
        starts = [*first.tolist(), len(order)]
        return {name: order[start:end] for name, start, end in zip(keys, starts, starts[1:], strict=False)}


class UnmetQueues:
    """These rows as `UnmetRows` of one registry."""

    def __init__(self, of: QueueRows) -> None:
        self._of = of
        self._met: set[_Text] = set()
        self._row_of: dict[tuple[_Text, ...], int] = {}
        self._made: list[int] = []

    def names(self, topic: _Text = None) -> list[_Text]:
        """See `UnmetRows`."""
        if topic is None:
            return [name for name in self._of.of_names if name not in self._met]
        rows = self._of.rows
        return pc.unique(rows["broker_name"].filter(pc.equal(rows["topic"], topic))).to_pylist()  # type: ignore[no-any-return]

    def of_name(self, broker_name: _Text) -> Iterable[tuple[_Text, QueueData]]:
        """See `UnmetRows`."""
        if broker_name in self._met:
            return ()
        self._met.add(broker_name)
        numbers = self._of.of_names.get(broker_name)
        if numbers is None:
            return ()
        rows = self._of.rows
        topics, *values = (rows[name].take(numbers).to_pylist() for name in ("topic", *QueueData._fields))
        self._row_of.update(((topic, broker_name), row) for topic, row in zip(topics, numbers.tolist(), strict=True))
        return list(zip(topics, map(QueueData, *values), strict=True))

    def entered(self, topic: object) -> tuple[Position, int] | None:
        """Return since when a topic has been in the table with which the day begins, and its number of rows; None: it is not."""
        numbers = self._of.of_topics.get(topic)  # type: ignore[call-overload]  # a key that is no text is none of these
        if numbers is None:
            return None
        return Position(**self._of.rows["outer_entered_at"][numbers[0]].as_py()), len(numbers)

    def touched(self, changes: Iterable[Change]) -> list[Interval]:
        """Return the open intervals of rows that `changes` change for the first time."""
        keys = (change.key for change in changes if change.table == "topic_queue_table")
        rows = [row for key in keys if (row := self._row_of.pop(key, None)) is not None]
        self._made += rows
        return intervals_from(TOPIC_QUEUE_HISTORY.name, self._of.rows.take(rows)) if rows else []

    @property
    def untouched(self) -> pa.Table:
        """Return the rows that no change has touched."""
        if not self._made:
            return self._of.as_read
        kept = np.ones(self._of.rows.num_rows, dtype=bool)
        kept[self._made] = False
        return self._of.rows.filter(pa.array(kept, BOOLEAN))


_REQUEST = ("event_id", "received_us", "arrival_us")


@dataclass(frozen=True)
class ReplayInput:
    """A name server's day.

    `hours`: its condensed beats; `others`: all other events (`day_events`), at their recorded positions; `open_rows`: rows
    open at its beginning, and past_knowledge; `capacities`: map_capacities of the day before. `topic_configs` reads rows by
    digest; `single_beats` reads the beats and the responses to them (`day_events`, at their recorded positions) of some
    periods of addresses (`fold.PERIODS`). `answers`: rows of route_observations, which decide races, too. `tell` is called
    with the share done.
    """

    context: NamesrvDay
    day: dt.date
    hours: pa.Table
    others: pa.Table
    open_rows: Frames
    topic_configs: Callable[[pa.ChunkedArray], pa.Table]
    single_beats: Callable[[pa.Table], pa.Table]
    capacities: pa.Table = field(default_factory=lambda: empty(gold.MAP_CAPACITIES))
    answers: pa.Table = field(default_factory=lambda: empty(bronze.ROUTE_OBSERVATIONS))
    tell: Callable[[float], None] | None = None


@dataclass(frozen=True)
class Replayed:
    """Result of a day: its rows of the history tables, order_decisions, past_knowledge and event_outcomes.

    `events`: number of events replayed, counting a run of beats as one; `readings`: number of replays, each with other runs.
    """

    tables: dict[str, pa.Table]
    events: int
    readings: int


def replay(given: ReplayInput) -> Replayed:
    """Return the result of a name server's day. Raises OrderError if its events do not increase.

    If a beat in a run did more than renew a lease, the replay starts again with the beats of that time one by one. If that
    does not suffice for an address, it starts again with all of its beats one by one. It also starts again if decisions
    on races move events from their recorded positions.
    """
    state, broken, readings = _State(given), PERIODS.empty_table(), 0
    recorded, decisions = given, None
    while True:
        beats = folded(given.hours, given.others, given.open_rows, given.context, broken)
        day_events = _CoreEvents(given, beats)
        notes, unmet = state.begin(beats, day_events)
        deciding = None
        if decisions is None:
            timed = [timed for _, timed in day_events.timed.numbered()]
            deciding = Deciding(day_for_races(given.context, notes.registry, timed, day_events, given.answers))
        notes.take(day_events.timed, deciding, given.tell)
        if notes.broken:
            readings += 1
            more = pa.table(dict(zip(PERIODS.names, zip(*notes.broken, strict=True), strict=True)), schema=PERIODS)
            if readings > 1:
                again = pc.is_in(beats.hours["broker_addr"], value_set=pc.unique(more["broker_addr"]))
                more = pa.concat_tables([more, periods_of(beats.hours.filter(again))])
            # Races were decided in a state in which too little had happened.
            broken, given, decisions = pa.concat_tables([broken, more]), recorded, None
            continue
        if deciding is not None:
            decisions, moves = decisions_of(deciding, given.context.namesrv_id, given.day)
            if deciding.has_moved:
                # From here on, with the events at the positions where they take effect.
                beats_read = partial(_moved_beats, given.single_beats, moves)
                given = replace(given, others=moved(given.others, moves), single_beats=beats_read)
                continue
        tables = _tables(given, notes, unmet, day_events.timed)
        return Replayed({**tables, gold.ORDER_DECISIONS.name: decisions}, day_events.events, readings + 1)


def _moved_beats(read: Callable[[pa.Table], pa.Table], moves: pa.Table, periods: pa.Table) -> pa.Table:
    return moved(read(periods), moves)


class _CoreEvents:
    """The day's events for the core, the topic tables in them, their number, and the requests among them.

    `responses`: what was answered to them, which are events themselves only if they correct an unknown past.
    """

    def __init__(self, given: ReplayInput, beats: Folded) -> None:
        parts = [given.others, beats.runs]
        if beats.singles.num_rows:
            parts.append(given.single_beats(beats.singles))
        of_runs = topic_digests(beats.runs)
        now = topic_digests(pa.concat_tables([part.select(["topic_config_digest"]) for part in (parts[0], *parts[2:])]))
        self.topics = TopicTables(given.topic_configs(now), lambda: given.topic_configs(of_runs))
        rows = pa.concat_tables(parts, promote_options="default")
        self.responses = rows.filter(pc.field("kind") == RESPONSES)
        if not given.context.has_unknown_past:
            rows = rows.filter(pc.field("kind") != RESPONSES)
        self.timed, self.events = Timed(rows, self.topics), rows.num_rows
        self.requests = rows.filter(pc.field("received_us").is_valid()).select(_REQUEST)


class _State:
    """The state at the beginning of the day, as objects; queue rows stay columns if the past is completely known."""

    def __init__(self, given: ReplayInput) -> None:
        self._given, context = given, given.context
        rows = {table.name: frame(given.open_rows, table) for table in gold.HISTORY_TABLES}
        self._queues = None if context.has_unknown_past else QueueRows(rows.pop(gold.TOPIC_QUEUE_HISTORY.name))
        self._intervals = intervals_in(rows)
        self._facts = facts_in(given.open_rows)
        # Only answers depend on the order of inner maps.
        self._capacities = [
            capacity
            for capacity in capacities_in(given.capacities)
            if context.has_unknown_past or not capacity.is_inner
        ]

    def begin(self, beats: Folded, day_events: _CoreEvents) -> tuple[Notes, UnmetQueues | None]:
        """Return the notes of a new replay that begins in this state."""
        context = self._given.context
        start = started(context, self._intervals, self._facts, self._capacities)
        if self._queues is None:
            return Notes(context, start, None), None
        unmet, complete = UnmetQueues(self._queues), dict[str | None, TopicTable]()
        if context.namesrv.profile.repairs_missing_topics:
            # It brings back missing topics: of names that have all topics they register in runs, none is missing.
            queues = frame(self._given.open_rows, gold.TOPIC_QUEUE_HISTORY).select(["broker_name", "topic"])
            tables = {"runs": beats.runs, "queues": queues, "configs": day_events.topics.later}
            rows = ask(query("replay/complete"), tables).to_pylist()
            complete = {row["broker_name"]: day_events.topics[row["digest"]] for row in rows}
        start[0].topic_queue_table.begin_with(unmet, complete)
        start[1].begin_with(unmet.entered)
        return Notes(context, start, unmet), unmet


def _tables(given: ReplayInput, notes: Notes, unmet: UnmetQueues | None, timed: Timed) -> dict[str, pa.Table]:
    same = {"namesrv_id": given.context.namesrv_id, "day": given.day}
    intervals: dict[str, list[Interval]] = defaultdict(list)
    for interval in notes.intervals:
        intervals[f"{interval.table}_history"].append(interval)
    found = {table.name: history_rows(table, intervals[table.name], same) for table in gold.HISTORY_TABLES}
    if unmet is not None:
        queues = gold.TOPIC_QUEUE_HISTORY
        found[queues.name] = pa.concat_tables([found[queues.name], conformed(unmet.untouched, queues)])
    past = notes.registry.past
    facts = [] if past is None else [past_row(fact, given.context.namesrv_id) for fact in past.dump()]
    found[gold.PAST_KNOWLEDGE.name] = table_of(facts, gold.PAST_KNOWLEDGE, day=given.day)
    found[gold.EVENT_OUTCOMES.name] = outcome_rows(notes.outcomes, timed, same)
    return found


# -- notes of a replay: intervals, outcomes, and runs of beats that turned out to be none ------------------------------

_TELLING = (events.AnswerObserved, events.ResponseObserved, events.ChangeLogged)
_HEARTBEATS = (events.BrokerHeartbeat, events.QueryDataVersion)
_NAMELESS = (events.ScanNotActiveBroker, events.ChannelDestroyed, events.ChangeLogged)


class OutcomeOf(NamedTuple):
    """An event that did more than renew a lease. `number`: number of its content; None: a scan, which has none.

    Equal heartbeats of a broker are one row as long as it has no live entry: `events` of them, until `last_time`.
    """

    number: int | None
    seq: int
    event_id: str
    effect_time: int
    events: int
    last_time: int
    outcome: str
    detail: str | None
    changes: int
    notifications: list[dict[str, Any]] | None
    brokers_gone: list[dict[str, Any]] | None


class Notes:
    """Notes of one replay: call `take` with the day's events, then read the results.

    `broken`: periods of addresses whose beats were no runs after all. If there are any, all other results are invalid.
    """

    def __init__(
        self,
        day: NamesrvDay,
        start: tuple[Registry, Histories],
        unmet: UnmetQueues | None,
    ) -> None:
        """`unmet`: open rows that are in neither the registry nor the histories yet."""
        self._day, self._unmet = day, unmet
        # By key of a missing live entry and content of a heartbeat for it: the number of the outcome.
        self._unknown: dict[LiveKey, dict[object, int]] = defaultdict(dict)
        self.registry, self._histories = start
        # End of the runs of an address (us), by broker name or live entry that must not change during them.
        self._runs: dict[object, dict[str | None, int]] = defaultdict(dict)
        self._closed: list[Interval] = []
        self.outcomes: list[OutcomeOf] = []
        self.broken: set[tuple[str | None, int]] = set()

    @property
    def intervals(self) -> Iterator[Interval]:
        """Yield the closed intervals, then the open ones."""
        yield from self._closed
        yield from self._histories.open_intervals()

    def take(self, rows: Timed, deciding: Deciding | None = None, tell: Callable[[float], None] | None = None) -> None:
        """Replay the day's events, and decide races. Raises OrderError if the events do not increase.

        The notes are invalid once a decision moves an event from its recorded position (`Deciding.has_moved`).
        """
        day, number, before_us = self._day, 0, 0

        def numbered() -> Iterator[TimedEvent]:
            nonlocal number
            position = day.from_seq - 1
            for number, timed in rows.numbered(tell):  # noqa: B007  the loop below reads the number
                while deciding is not None and (deciding.has_moved or timed.seq >= deciding.next_seq):
                    if deciding.has_moved:
                        deciding.finish(self.registry, position)
                        return
                    deciding.decide_next(self.registry, position)
                position = timed.seq
                yield timed

        for timed, step in loop.replay(
            self.registry,
            numbered(),
            day.namesrv,
            day.schedule,
            namesrv_id=day.namesrv_id,
            # A tick at the very beginning of the day belongs to it.
            span=(day.from_seq - 1, day.until_seq),
        ):
            if deciding is not None and deciding.has_moved:
                return
            kind, past, turned = type(timed.event), self.registry.past, set[Entity]()
            if past is not None and past.turned:
                turned, past.turned = past.turned, turned
            if turned and self._runs:
                self._break_runs_about(turned, before_us, timed)
            before_us = timed.seq // NS_PER_US
            of = None if kind is events.ScanNotActiveBroker else number
            report = None if of is None else rows.reports[of]
            if isinstance(timed.event, events.RefreshRun):
                self._take_run(timed, timed.event, step, report, turns=bool(turned))
                continue
            if report is not None and not self._histories.has_reported(*report):
                self._report_version(timed, report)
            is_recorded = step.changes or (step.certainty is not None and step.certainty.known)
            closed = self._record(timed, step) if is_recorded else []
            if step.refreshed is not None:
                self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)
                if step.outcome is Outcome.REFRESHED:
                    continue
            if step.outcome is Outcome.UNKNOWN_BROKER and kind in _HEARTBEATS:
                key = live_key_of(day.namesrv.at(timed.seq), timed.event.cluster_name, timed.event.broker_addr)  # type: ignore[union-attr]
                self._note_unknown(key, timed, step, of)
            elif kind not in _TELLING or step.changes or step.outcome is Outcome.UNKNOWN_PAST:
                self._note(timed, step, of, closed if kind in _NAMELESS else [])

    def _break_runs_about(self, turned: set[Entity], from_us: int, timed: TimedEvent) -> None:
        """Break the runs during which the knowledge of their broker changed: at `timed`, or unseen since `from_us`."""
        names = {_name_of(entity) for entity in turned} - {None}
        runs = self._runs if ANY in names else {name: self._runs[name] for name in names if name in self._runs}
        for until in runs.values():
            for addr, until_us in until.items():
                if until_us >= from_us:
                    self._break(addr, from_us - MARGIN_US, min(until_us, timed.seq // NS_PER_US) + MARGIN_US)

    def _is_settled(self, step: Step) -> bool:
        past = self.registry.past
        return past is None or step.refreshed is None or past.knows(SETTLED, *step.refreshed)

    def _take_run(
        self, timed: TimedEvent, run: events.RefreshRun, step: Step, report: Report | None, *, turns: bool
    ) -> None:
        """Note a run of beats. It is broken if its first beat does more than renew a lease.

        Then the first beat is replayed singly, or all of them if the second would do more, too.
        """
        beat, first_us = run.beat, timed.seq // NS_PER_US
        is_reported = report is None or self._histories.has_reported(*report)
        if turns or not self._is_settled(step):
            self._break(beat.broker_addr, first_us, first_us if self._is_settled(step) else timed.effect_us)
        if not (_only_renews(step) and is_reported):
            again = step_of(self.registry, beat, timed.effect_us // US_PER_MS, self._day.namesrv.at(timed.seq))
            self._break(beat.broker_addr, first_us, first_us if _only_renews(again) else timed.effect_us)
            if report is not None and not is_reported:
                self._report_version(timed, report)
            self._record(timed, step)
        if step.refreshed is not None:
            self._histories.refreshed(step.refreshed, timed.effect_us // US_PER_MS)
            # It depends on its live entry, its broker's last report, and, if it registers, its broker name.
            reported = () if report is None else (report.broker,)
            named = (beat.broker_name,) if isinstance(beat, events.RegisterBroker) else ()
            for concerned in (step.refreshed, *reported, *named):
                until = self._runs[concerned]
                until[beat.broker_addr] = max(until.get(beat.broker_addr, 0), timed.effect_us)

    def _note_unknown(self, key: LiveKey, timed: TimedEvent, step: Step, number: int | None) -> None:
        """Note a heartbeat without a live entry, together with equal ones before as long as the entry was missing."""
        numbers, asked = self._unknown[key], (type(timed.event), timed.event)
        if asked not in numbers:
            numbers[asked] = len(self.outcomes)
            self._note(timed, step, number, [])
            return
        found = self.outcomes[numbers[asked]]
        self.outcomes[numbers[asked]] = found._replace(events=found.events + 1, last_time=timed.effect_us)

    def _break(self, broker_addr: str | None, from_us: int, until_us: int) -> None:
        first, last = ((us // hours.PERIOD_US) for us in (from_us, until_us))
        self.broken.update((broker_addr, period) for period in range(first, last + 1))

    def _break_runs(self, concerned: object, at_us: int) -> None:
        """Break the runs during which `concerned`, on which they depend, changes."""
        for addr, until_us in self._runs.get(concerned, {}).items():
            if at_us <= until_us:
                self._break(addr, at_us - MARGIN_US, at_us + MARGIN_US)

    def _report_version(self, timed: TimedEvent, report: Report) -> None:
        """Note a new data version, whatever the outcome of the event that reports it."""
        self._break_runs(report.broker, timed.effect_us)
        closed = self._histories.report_version(*report, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us)
        if closed is not None:
            self._closed.append(closed)

    def _record(self, timed: TimedEvent, step: Step) -> list[Interval]:
        if self._runs:
            for concerned in set(map(_concerned, step.changes)):
                self._break_runs(concerned, timed.effect_us)
        for change in step.changes if self._unknown else ():
            if change.table == "broker_live_table":
                self._unknown.pop(LiveKey(*change.key), None)
        for interval in () if self._unmet is None else self._unmet.touched(step.changes):
            self._histories.carry(interval)
        closed = [
            *self._histories.record(
                step.changes, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us, certainty=step.certainty
            )
        ]
        self._closed += closed
        return closed

    def _note(self, timed: TimedEvent, step: Step, number: int | None, removed: Iterable[Interval]) -> None:
        if isinstance(timed.event, events.RecordingGap):
            for key, beat_ms in self.registry.last_update_ms.items():
                self._histories.refreshed(key, beat_ms)
        sent = [notification._asdict() for notification in step.notifications] or None
        outcome, gone, at_us = step.outcome.value, _brokers_in(removed) or None, timed.effect_us
        when = at_us, 1, at_us
        outcome_of = OutcomeOf(
            number, timed.seq, timed.event_id, *when, outcome, detail_of(step), len(step.changes), sent, gone
        )
        self.outcomes.append(outcome_of)


def _only_renews(step: Step) -> bool:
    return step.outcome is Outcome.REFRESHED and not (step.changes or step.notifications)


def _concerned(change: Change) -> object:
    """Return the broker name or the live entry that a change concerns."""
    if change.table in ("broker_live_table", "filter_server_table"):
        return change.key
    return change.key[-1] if change.key else ()


def _name_of(entity: Entity) -> Part:
    """Return the broker name, or the live entry, that an entity concerns; None: neither."""
    kind, one, other = entity
    if kind in ("broker_live", "filter_server", SETTLED):
        return ANY if ANY in (one, other) else LiveKey(one, other)  # type: ignore[arg-type, return-value]
    if kind == "kv_config":
        return None
    return one if kind in ("broker_addr", GROUP) else other


def _brokers_in(removed: Iterable[Interval]) -> list[dict[str, Any]]:
    """Return the brokers whose group members, or live entries without one, were removed."""
    clusters: dict[tuple[Any, Any], str | None] = {}
    for interval in removed:
        if isinstance(interval.value, Member) and interval.value.broker_addr is not None:
            clusters[interval.key[0], interval.value.broker_addr] = interval.value.cluster_name
        elif isinstance(interval.value, BrokerLiveInfo):
            clusters.setdefault((interval.value.broker_name, interval.key[1]), LiveKey(*interval.key).cluster_name)  # type: ignore[arg-type]
    return [{"broker_name": name, "broker_addr": addr, "cluster_name": of} for (name, addr), of in clusters.items()]


# -- tables: all rows of the day are built at once, by column ----------------------------------------------------------

_SCAN = ScanNotActiveBroker()
_CONTENT = ("cluster_name", "broker_name", "broker_addr", "topic", "channel_id")


def history_rows(table: Table, intervals: Sequence[Interval], same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a history table from intervals; `same`: columns with one value in all rows."""
    return _table_of(table, codec.columns_of(table.name, intervals), same)


def outcome_rows(outcomes: Sequence[OutcomeOf], timed: Timed, same: Mapping[str, Any]) -> pa.Table:
    """Return the rows of event_outcomes for `outcomes`, whose contents `timed` has; `same`: as in `history_rows`.

    An event that names no broker gets the first broker that it removed.
    """
    columns: dict[str, Any] = {name: list(map(itemgetter(n), outcomes)) for n, name in enumerate(OutcomeOf._fields)}
    numbers = pa.array(columns["number"], LONG)
    columns |= {name: timed.contents[name].take(numbers) for name in _CONTENT if name in timed.contents.column_names}
    kinds = timed.contents["channel_kind"].take(numbers).to_pylist()
    of_numbers = (_SCAN if number is None else timed.events[number] for number in columns["number"])
    of_numbers = (event.beat if isinstance(event, RefreshRun) else event for event in of_numbers)
    columns["operation"] = list(map(operation_of, of_numbers, kinds))
    rows = _table_of(gold.EVENT_OUTCOMES, columns, same)
    return conformed(ask(_OUTCOMES, {"outcomes": rows}), gold.EVENT_OUTCOMES)


_OUTCOMES = """
SELECT * REPLACE (
    coalesce(broker_name, brokers_gone[1].broker_name) AS broker_name,
    coalesce(broker_addr, brokers_gone[1].broker_addr) AS broker_addr,
    coalesce(cluster_name, brokers_gone[1].cluster_name) AS cluster_name
) FROM (SELECT * REPLACE (list_sort(notifications) AS notifications, list_sort(brokers_gone) AS brokers_gone) FROM outcomes)
"""


def _table_of(table: Table, columns: Mapping[str, Any], same: Mapping[str, Any]) -> pa.Table:
    """Return columns, lists or arrays, as a table with the columns of `table`; a missing one is NULL."""
    types = {field.name: field.type for field in table.schema}
    arrays = {
        name: pa.array(values, types[name]) if isinstance(values, list) else values
        for name, values in columns.items()
        if name in types
    }
    return conformed(pa.table(arrays), table, **same)


# -- races: the core decides them by the day's answers during the replay -----------------------------------------------

MOVES = pa.schema(
    [("event_id", STRING), ("seq", LONG), ("looked_up", struct_of(cluster_name=STRING, broker_addr=STRING))]
)
"""Columns of events that decisions move from their recorded positions."""
_PLACE = ("event_id", "request_seq", "seq")


def day_for_races(
    context: NamesrvDay, start: Registry, timed_events: Sequence[TimedEvent], of: _CoreEvents, observations: pa.Table
) -> Day:
    """Return the day in the form in which the core decides its races.

    `start`: the registry at its beginning; `timed_events`: the events in `of`; `observations`: its rows of route_observations.
    """
    requests = of.requests
    ids = requests["event_id"].to_pylist()
    received = pc.multiply(requests["received_us"], NS_PER_US).to_pylist()
    return Day(
        start,
        timed_events,
        dict(zip(ids, received, strict=True)),
        frozenset(requests.filter(pc.field("arrival_us").is_valid())["event_id"].to_pylist()),
        cache(lambda: sorted([*observed_in(observations), *_responses_in(of)], key=itemgetter(2, 0))),  # maybe millions
        context.namesrv,
        context.schedule,
        context.namesrv_id,
        context.until_seq,
        context.from_seq - 1,
    )


def decisions_of(deciding: Deciding, namesrv_id: str, date: dt.date) -> tuple[pa.Table, pa.Table]:
    """Return the rows of order_decisions of a day, and the events that they move (`MOVES`)."""
    return (
        table_of(map(_decision_row, deciding.decided), gold.ORDER_DECISIONS, namesrv_id=namesrv_id, day=date),
        pa.Table.from_pylist(
            [
                event._asdict() | {"looked_up": event.looked_up and event.looked_up._asdict()}
                for event in deciding.placed
            ],
            schema=MOVES,
        ),
    )


def observed_in(answers: pa.Table) -> list[Observed]:
    """Return answers (`route_observations`) in order of (seq, event_id); equal ones share one question and answer."""
    rows = observation_rows(answers)
    distinct_rows, numbers = distinct(rows, [name for name in rows.column_names if name not in _PLACE])
    contents = [(codec.question_of(row), codec.answer_of(row)) for row in rows_of(distinct_rows)]
    order = pc.sort_indices(rows, [("seq", "ascending"), ("event_id", "ascending")])
    places = (column.to_pylist() for column in rows.select(_PLACE).take(order).columns)
    of_each = map(contents.__getitem__, numbers[order.to_numpy()].tolist())
    return [Observed(*place, *content) for *place, content in zip(*places, of_each, strict=True)]


def _responses_in(of: _CoreEvents) -> Iterator[Observed]:
    """Yield the responses to events: a version query's shows which registration came last."""
    asked = dict(zip(of.responses["event_id"].to_pylist(), of.responses["request_seq"].to_pylist(), strict=True))
    for _, (seq, event_id, _, event) in Timed(of.responses, of.topics).numbered():
        yield Observed(event_id.removesuffix(RESPONSE), asked[event_id], seq, *event)


def _decision_row(decided: Decided) -> dict[str, Any]:
    race = decided.race
    channels = {getattr(timed.event, "channel_id", None) for timed in race.timed_events}
    return {
        "decision_id": race.decision_id,
        "kind": race.kind,
        "effect_time": race.timed_events[0].effect_us,
        "channel_ids": sorted(channel for channel in channels if channel is not None),
        "event_ids": [timed.event_id for timed in race.timed_events],
        "alternatives": [alternative.words for alternative in race.alternatives],
        "chosen": decided.chosen,
        "answers_for": len(decided.answers_for),
        "answers_against": len(decided.answers_against),
        "evidence_for": list(decided.answers_for),
        "evidence_against": list(decided.answers_against),
    }
