"""The replay of a name server's day: events, beats and the state in which the day begins in, the day's tables out.

Beats are folded into runs by one statement (`hours.fold`), the registry is in memory, and the core takes one event after the other.
Rows of queues that nothing touches stay the columns that they are (`replay.queues`).
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Interval
from namesrv_core.history.verification import Observed
from namesrv_core.inference.decisions import Decided, Deciding
from namesrv_core.inference.races import Day
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import TopicTable
from namesrv_core.replay.loop import TimedEvent
from namesrv_day.arrow.rows import conformed, distinct, empty, rows_of, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, frame
from namesrv_day.day.day_events import Frames, moved, observation_rows, topic_digests
from namesrv_day.day.start import capacities_in, facts_in, intervals_in, started
from namesrv_day.day.timed import Timed, TopicTables
from namesrv_day.hours.fold import PERIODS, Folded, folded, periods_of
from namesrv_day.replay.notes import Notes, history_rows, outcome_rows
from namesrv_day.replay.queues import QueueRows, UnmetQueues
from schemas import bronze, codec, gold
from schemas.sql_files import query
from schemas.table import LONG, STRING, struct_of
from schemas.tables.state import past_row

_REQUEST = ("event_id", "received_us", "arrival_us")


@dataclass(frozen=True)
class ReplayInput:
    """A name server's day.

    `hours`: its condensed beats; `others`: all other events (`day_events`), where they were recorded; `open_rows`: what was open
    when it began, and past_knowledge; `capacities`: map_capacities of the day before. `topic_configs` gives the rows of digests;
    `single_beats` the beats (`day_events`) of some periods of addresses (`fold.PERIODS`), where they were recorded. `answers`: rows
    of route_observations, which decide what raced. `tell` is told what share of the events is taken.
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
    """What a day leaves: its rows of the history tables, order_decisions, past_knowledge and event_outcomes.

    `events`: how many the core took, runs of beats among them; `readings`: how often it was begun with other runs.
    """

    tables: dict[str, pa.Table]
    events: int
    readings: int


def replay(given: ReplayInput) -> Replayed:
    """Return what becomes of a name server on a day. Raises OrderError where its events do not increase.

    Where a beat that was taken to be part of a run did more than renew a lease, the day is begun again, with the beats of that time
    one by one; and with all of an address of which that is not enough. So it is where events that raced take effect elsewhere than
    they were recorded.
    """
    state, broken, readings = _State(given), PERIODS.empty_table(), 0
    decisions: pa.Table | None = None
    while True:
        beats = folded(given.hours, given.others, given.open_rows, given.context, broken)
        told = _told(given, beats)
        notes, unmet = state.begin(beats, told)
        deciding = None
        if decisions is None:
            timed = [timed for _, timed in told.timed.numbered()]
            deciding = Deciding(day_for_races(given.context, notes.registry, timed, told.requests, given.answers))
        notes.take(told.timed, deciding, given.tell)
        if deciding is not None:
            decisions, moves = decisions_of(deciding, given.context.namesrv_id, given.day)
            # From here on with its events where they take effect.
            beats_read = partial(_moved_beats, given.single_beats, moves)
            given = replace(given, others=moved(given.others, moves), single_beats=beats_read)
            if deciding.has_moved:
                continue
        readings += 1
        if not notes.broken:
            tables = _tables(given, notes, unmet, told.timed)
            return Replayed({**tables, gold.ORDER_DECISIONS.name: decisions}, told.events, readings)
        more = pa.table(dict(zip(PERIODS.names, zip(*notes.broken, strict=True), strict=True)), schema=PERIODS)
        if readings > 1:
            again = pc.is_in(beats.hours["broker_addr"], value_set=pc.unique(more["broker_addr"]))
            more = pa.concat_tables([more, periods_of(beats.hours.filter(again))])
        broken = pa.concat_tables([broken, more])


def _moved_beats(read: Callable[[pa.Table], pa.Table], moves: pa.Table, periods: pa.Table) -> pa.Table:
    return moved(read(periods), moves)


@dataclass(frozen=True)
class _Told:
    """The day's events for the core, and the topic tables that they name.

    `requests`: those among the events.
    """

    timed: Timed
    topics: TopicTables
    events: int
    requests: pa.Table


def _told(given: ReplayInput, beats: Folded) -> _Told:
    parts = [given.others, beats.runs]
    if beats.singles.num_rows:
        parts.append(given.single_beats(beats.singles))
    of_runs = topic_digests(beats.runs)
    now = topic_digests(pa.concat_tables([part.select(["topic_config_digest"]) for part in (parts[0], *parts[2:])]))
    topics = TopicTables(given.topic_configs(now), lambda: given.topic_configs(of_runs))
    rows = pa.concat_tables(parts, promote_options="default")
    requests = rows.filter(pc.field("received_us").is_valid()).select(_REQUEST)
    return _Told(Timed(rows, topics), topics, rows.num_rows, requests)


class _State:
    """The state in which the day begins: rows of queues as columns, where everything is known of the past, all else as objects."""

    def __init__(self, given: ReplayInput) -> None:
        self._given, context = given, given.context
        rows = {table.name: frame(given.open_rows, table) for table in gold.HISTORY_TABLES}
        self._queues = None if context.has_unknown_past else QueueRows(rows.pop(gold.TOPIC_QUEUE_HISTORY.name))
        self._intervals = intervals_in(rows)
        self._facts = facts_in(given.open_rows)
        # Inner maps are looked at in their order by answers alone.
        self._capacities = [
            capacity
            for capacity in capacities_in({gold.MAP_CAPACITIES.name: given.capacities})
            if context.has_unknown_past or not capacity.is_inner
        ]

    def begin(self, beats: Folded, told: _Told) -> tuple[Notes, UnmetQueues | None]:
        """Return notes of a replay that begins in this state."""
        context = self._given.context
        start = started(context, self._intervals, self._facts, self._capacities)
        if self._queues is None:
            return Notes(context, start, None), None
        unmet, complete = UnmetQueues(self._queues), dict[str | None, TopicTable]()
        if context.namesrv.profile.repairs_missing_topics:
            rows = _complete(self._given, beats.runs, told.topics.later)
            complete = {row["broker_name"]: told.topics[row["digest"]] for row in rows}
        start[0].topic_queue_table.begin_with(unmet, complete)
        return Notes(context, start, unmet), unmet


def _complete(given: ReplayInput, runs: pa.Table, configs: pa.Table) -> list[dict[str, str]]:
    """Return broker names with the digest of the topics that they register in runs, and have: 5.x brings back others."""
    queues = frame(given.open_rows, gold.TOPIC_QUEUE_HISTORY).select(["broker_name", "topic"])
    return ask(query("replay/complete"), {"runs": runs, "queues": queues, "configs": configs}).to_pylist()  # type: ignore[no-any-return]


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


# -- races: for the core, which decides them by the day's answers while it replays the events --------------------------

MOVES = pa.schema(
    [("event_id", STRING), ("seq", LONG), ("looked_up", struct_of(cluster_name=STRING, broker_addr=STRING))]
)
"""Columns of events that take effect elsewhere than recorded."""
_PLACE = ("event_id", "request_seq", "seq")


def day_for_races(
    context: NamesrvDay, start: Registry, timed_events: Sequence[TimedEvent], requests: pa.Table, observations: pa.Table
) -> Day:
    """Return a day for the core.

    `start`: the registry with which it begins; `requests`: those among its events, with the columns of `day_events`;
    `observations`: its rows of route_observations.
    """
    ids = requests["event_id"].to_pylist()
    received = pc.multiply(requests["received_us"], NS_PER_US).to_pylist()
    return Day(
        start,
        timed_events,
        dict(zip(ids, received, strict=True)),
        frozenset(requests.filter(pc.field("arrival_us").is_valid())["event_id"].to_pylist()),
        cache(lambda: observed_in(observations)),  # of a day there are millions
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
    """Return answers (`route_observations`) in order of (seq, event_id); what is said more than once is one question and answer."""
    rows = observation_rows(answers)
    said, numbers = distinct(rows, [name for name in rows.column_names if name not in _PLACE])
    contents = [(codec.question_of(row), codec.answer_of(row)) for row in rows_of(said)]
    order = pc.sort_indices(rows, [("seq", "ascending"), ("event_id", "ascending")])
    places = (column.to_pylist() for column in rows.select(_PLACE).take(order).columns)
    of_each = map(contents.__getitem__, numbers[order.to_numpy()].tolist())
    return [Observed(*place, *content) for *place, content in zip(*places, of_each, strict=True)]


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
