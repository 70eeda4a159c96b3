"""Decide what the wire does not show: which of several racing events of a name server's day came first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.decisions import Decided, Placed, decide
from namesrv_core.inference.races import LAG_NS, REMOVAL_LAG_NS, Day
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.rows import empty, rows_of, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, SettleInput, frame
from namesrv_day.day.day_events import BEATS, OTHERS, day_events, topic_digests
from namesrv_day.day.start import starting
from namesrv_day.day.timed import timed_events, topic_tables_of
from namesrv_day.hours.condense import PERIOD_US
from namesrv_day.hours.fold import folded, of_periods
from namesrv_day.settle.observations import Observations
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import LONG, STRING, TIMESTAMP, struct_of

MOVES = pa.schema(
    [("event_id", STRING), ("seq", LONG), ("looked_up", struct_of(cluster_name=STRING, broker_addr=STRING))]
)
"""Columns of events that take effect elsewhere than recorded."""
_MOST_SPANS = 100
_Answer = TypeVar("_Answer")


class Decisions(NamedTuple):
    """Rows of order_decisions, and the events that they move (`MOVES`)."""

    order_decisions: pa.Table
    moves: pa.Table


NO_DECISIONS = Decisions(empty(gold.ORDER_DECISIONS), MOVES.empty_table())
"""What there is to say about a day on which nothing raced."""


class Replayable:
    """A name server's day for the core, which looks for races in it. `channel_events`: its ends of connections."""

    def __init__(self, given: SettleInput, context: NamesrvDay, channel_events: pa.Table) -> None:
        self.context = context
        self.channel_events = channel_events
        self._given = given

    def asked(self, question: Callable[[Day], _Answer]) -> _Answer:
        """Return what the core answers about the day: of beats it gets single ones where something happens, and runs elsewhere."""
        return question(self.short)

    @cached_property
    def short(self) -> Day:
        """Return the day with runs of beats where that may do."""
        beats = folded(self._given.today["hours"], self.others, self._given.carried, self.context)
        periods = sorted(pc.unique(beats.singles["period"]).to_pylist())
        asked = pc.field("broker_addr").isin(beats.singles["broker_addr"].unique()) & in_periods(periods)
        singles = of_periods(self._singles(asked), beats.singles)
        return self._day(pa.concat_tables([self.others, singles, beats.runs], promote_options="default"))

    @cached_property
    def whole(self) -> Day:
        """Return the day with every single beat."""
        return self._day(pa.concat_tables([self.others, self._singles()]))

    @cached_property
    def others(self) -> pa.Table:
        """Return its events that are no beats."""
        frames = {**self._given.today, bronze.CHANNEL_EVENTS.name: self.channel_events}
        return day_events(frames, tables=OTHERS, with_answers=self.context.has_unknown_past)

    def _singles(self, where: pc.Expression | None = None) -> pa.Table:
        beats = {table.name: self._given.raw_beats(table.name, where=where) for table in BEATS}
        return day_events(beats, tables=BEATS, with_answers=self.context.has_unknown_past)

    def _day(self, events: pa.Table) -> Day:
        given, context, ordered = self._given, self.context, events.sort_by(_BY_SEQ)
        topic_tables = topic_tables_of(given.topic_configs(topic_digests(ordered)))
        registry, _ = starting(context, given.carried)
        requests = ordered.filter(pc.field("received_us").is_valid())
        received = pc.multiply(requests["received_us"], NS_PER_US).to_pylist()
        return Day(
            registry.copy,
            list(timed_events(ordered, topic_tables)),
            dict(zip(requests["event_id"].to_pylist(), received, strict=True)),
            frozenset(requests.filter(pc.field("arrival_us").is_valid())["event_id"].to_pylist()),
            Observations(frame(given.today, bronze.ROUTE_OBSERVATIONS)),
            context.namesrv,
            context.schedule,
            context.namesrv_id,
            context.until_seq,
            context.from_seq,
        )


def in_periods(periods: Sequence[int]) -> pc.Expression:
    """Return the condition that a row took effect in one of these periods."""
    instants = ((pa.scalar(n * PERIOD_US, TIMESTAMP) for n in (period, period + 1)) for period in periods)
    at = pc.field("effect_time")
    return reduce(or_, ((at >= begin) & (at < end) for begin, end in instants), pc.scalar(False))


def decisions_of(day: Day, date: dt.date) -> Decisions:
    """Return what the answers of a day say about its races."""
    decided, placed = decide(day)
    rows = (_decision_row(found) for found in decided)
    return Decisions(
        table_of(rows, gold.ORDER_DECISIONS, namesrv_id=day.namesrv_id, day=date),
        pa.Table.from_pylist([_move_row(event) for event in placed], schema=MOVES),
    )


_BY_SEQ = [("seq", "ascending"), ("event_id", "ascending")]


# -- may anything have raced? ------------------------------------------------------------------------------------------


def may_race(given: SettleInput, others: pa.Table) -> bool:
    """Return whether something may have raced on the day; the core looks closely. `others`: its events that are no beats.

    Single registrations are read only where they may matter: near other events, and of broker names that register
    anything else than what is known of them. In which order two brokers renew their leases is nobody's question.
    """
    hours = given.today["hours"]
    if (pc.max(hours["lag_ns"]).as_py() or 0) >= STALL_NS:
        return True
    tables = {"hours": hours, "live": frame(given.carried, gold.BROKER_LIVE_HISTORY)}
    if ask(query("settle/shared_ends"), {**tables, "events": others}, lag_ns=LAG_NS)["races"][0].as_py():
        return True
    effects = ask(query("settle/effects"), {**tables, "events": others})
    wanted = _near(effects)
    news = ask(query("settle/news"), tables)["broker_name"]
    if len(news):
        wanted.append(pc.field("broker_name").isin(news))
    if not wanted:
        return False
    found = given.raw_beats(bronze.REGISTRATIONS.name, columns=_RACING, where=reduce(or_, wanted))
    registered = day_events({bronze.REGISTRATIONS.name: found}, tables=(bronze.REGISTRATIONS,))
    effects = pa.concat_tables([effects, ask(query("settle/effects"), {**tables, "events": registered})])
    limits = {"lag_ns": LAG_NS, "removal_lag_ns": REMOVAL_LAG_NS, "stall_ns": STALL_NS}
    return bool(ask(query("settle/races"), {"effects": effects}, **limits)["races"][0].as_py())


def _near(effects: pa.Table) -> list[pc.Expression]:
    """Return when a registration may race with one of the effects: in one of these stretches of time."""
    # A request is under way from its arrival to its effect, no longer than this, or it is a stall.
    spans = ask(query("settle/spans"), {"effects": effects}, under_way_ns=2 * STALL_NS)
    if spans.num_rows > _MOST_SPANS:  # to read some more costs less than a long condition
        spans = ask("SELECT min(first_seq) AS first_seq, max(last_seq) AS last_seq FROM spans", {"spans": spans})
    return [(pc.field("seq") >= span["first_seq"]) & (pc.field("seq") <= span["last_seq"]) for span in rows_of(spans)]


_RACING = ("seq", "event_time", "effect_time", "response_code", "broker_name", "channel_id")


# -- rows ----------------------------------------------------------------------------------------------------------------


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


def _move_row(placed: Placed) -> dict[str, Any]:
    looked_up = None if placed.looked_up is None else placed.looked_up._asdict()
    return {"event_id": placed.event_id, "seq": placed.seq, "looked_up": looked_up}
