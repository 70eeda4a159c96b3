"""One pack of replay units of a name server's day: beats, events and open rows in, slices of the day out.

Quiet units are tried and carried forward as columns. Of the others the core takes the events of eventful periods one by one,
and runs of heartbeats in between; a unit that turns out not to be quiet is replayed event by event.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Interval
from namesrv_core.machine.past import Fact
from namesrv_core.machine.quiet import NotQuietError
from namesrv_day.arrow.rows import conformed, empty, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay
from namesrv_day.day.day_events import Frames, topic_digests
from namesrv_day.day.start import capacities_in, facts_in, intervals_from, started
from namesrv_day.day.timed import Timed, topic_tables_of
from namesrv_day.hours import condense
from namesrv_day.plan import placing
from namesrv_day.plan.plan import raw_beats, raw_filter, runs, uneventful
from namesrv_day.replay.forward import forwarded, refreshes_hourly
from namesrv_day.replay.slices import history_rows, outcome_rows, refresh_rows
from namesrv_day.replay.trial import failed_trials, unsure
from namesrv_day.replay.unit import OutcomeOf, Refreshes, UnitReplay
from schemas import codec, gold
from schemas.table import STRING, Table
from schemas.times import day_start_us

_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class PackInput:
    """A pack of a plan, and what it reads.

    `nodes`: (node, unit, is_quiet) of the pack; `eventful`: (unit, period), at least of its units; `hours`: the beats of the
    day, at least its own; `others`: all other events of the day (`day_events`), at least its own, where they take effect.
    `open_rows`: what was open when the day began, and past_knowledge, at least its own; `capacities`: map_capacities of the
    day before. `topic_configs` gives the rows of digests; `raw_beats` the single beats (`day_events`) of (broker_addr, period),
    of an address that is NULL those without.
    """

    context: NamesrvDay
    day: dt.date
    nodes: pa.Table
    eventful: pa.Table
    hours: pa.Table
    others: pa.Table
    open_rows: Frames
    topic_configs: Callable[[pa.ChunkedArray], pa.Table]
    raw_beats: Callable[[pa.Table], pa.Table]
    capacities: pa.Table = field(default_factory=lambda: empty(gold.MAP_CAPACITIES))


@dataclass(frozen=True)
class PackOutput:
    """What a pack gives.

    `slices`: its rows of the history tables, refreshes_hourly and past_knowledge; `outcomes`: its part of event_outcomes (see
    `merged_outcomes`). `counters`: `events` that the core took, runs among them; `units` that it replayed, and of these the
    `loud_units`, which turned out not to be quiet; `quiet_units`, which were carried forward.
    """

    slices: dict[str, pa.Table]
    outcomes: pa.Table
    counters: dict[str, int]


def replay_pack(given: PackInput) -> PackOutput:
    """Return what becomes of a pack's units on the day. Raises OrderError where a unit's events do not increase."""
    profile, nodes = given.context.namesrv.profile, given.nodes
    quiet = nodes.filter(nodes["is_quiet"])
    work = _Replays(given)
    loud = work.take(nodes.filter(pc.invert(nodes["is_quiet"])), given.eventful) | _failed(given, quiet)
    work.take(*_event_by_event(given, loud))
    is_loud = pa.array(sorted(loud), STRING)
    quiet, others = (some.filter(pc.invert(pc.is_in(some["unit"], value_set=is_loud))) for some in (quiet, nodes))
    slices = work.histories(forwarded(given.open_rows, given.hours, quiet, profile))
    hours = refreshes_hourly(
        uneventful(given.hours, others, given.eventful), profile, refresh_rows(work.refreshes, work.same)
    )
    slices[gold.REFRESHES_HOURLY.name] = _on(given.day, hours, gold.REFRESHES_HOURLY)
    facts = (codec.past_row(fact, given.context.namesrv_id) for fact in work.facts)
    slices[gold.PAST_KNOWLEDGE.name] = table_of(facts, gold.PAST_KNOWLEDGE, day=given.day)
    work.counters.update(quiet_units=len(pc.unique(quiet["unit"])), loud_units=len(loud))
    return PackOutput(slices, pa.concat_tables(work.outcomes), dict(work.counters))


def merged_outcomes(parts: list[pa.Table]) -> pa.Table:
    """Return one row per event of the parts of event_outcomes that packs gave.

    An event that concerns all units counts as what it was where it changed most; changes and counts are added up.
    """
    plain = ", ".join(name for name in gold.EVENT_OUTCOMES.column_names if name not in _ADDED_UP)
    found = ask(_MERGED.format(plain=plain), {"outcomes": pa.concat_tables(parts)})
    return conformed(found, gold.EVENT_OUTCOMES)


_ADDED_UP = ("outcome", "changes", "detail", "notifications", "brokers_gone")
_MERGED = """
SELECT * REPLACE (
    coalesce(broker_name, brokers_gone[1].broker_name) AS broker_name,
    coalesce(broker_addr, brokers_gone[1].broker_addr) AS broker_addr,
    coalesce(cluster_name, brokers_gone[1].cluster_name) AS cluster_name
) FROM (SELECT {plain}, arg_max(outcome, (changes, outcome)) AS outcome, sum(changes) AS changes,
    if(count(detail) > 1, coalesce(CAST(sum(TRY_CAST(detail AS BIGINT)) AS VARCHAR), max(detail)), max(detail)) AS detail,
    nullif(list_sort(flatten(list(notifications) FILTER (len(notifications) > 0))), []) AS notifications,
    nullif(list_sort(flatten(list(brokers_gone) FILTER (len(brokers_gone) > 0))), []) AS brokers_gone
FROM outcomes GROUP BY {plain})
"""


def _failed(given: PackInput, quiet: pa.Table) -> set[str]:
    """Return the quiet units that are none: a beat of theirs does more than renew a lease."""
    if not quiet.num_rows:
        return set()
    hours = unsure(given.context, uneventful(given.hours, quiet, given.eventful), given.open_rows)
    if not hours.num_rows:
        return set()
    tried = quiet.filter(pc.is_in(quiet["unit"], value_set=hours["unit"].combine_chunks()))
    beats = runs(hours, given.context.namesrv.profile)
    open_rows = {name: placing.carried(rows, name, tried) for name, rows in given.open_rows.items()}
    return failed_trials(given.context, beats, open_rows, given.topic_configs)


def _event_by_event(given: PackInput, units: set[str]) -> tuple[pa.Table, pa.Table]:
    """Return the nodes of units, and all periods of the day as eventful ones."""
    first = day_start_us(given.day) // condense.PERIOD_US
    periods = range(first, first + _DAY_US // condense.PERIOD_US)
    eventful = {"unit": [unit for unit in units for _ in periods], "period": [*periods] * len(units)}
    nodes = given.nodes.filter(pc.is_in(given.nodes["unit"], value_set=pa.array(units, STRING)))
    return nodes, pa.table(eventful, schema=given.eventful.schema)


class _Replays:
    """What the replayed units have left so far."""

    def __init__(self, given: PackInput) -> None:
        self._given = given
        self._intervals: dict[str, list[Interval]] = defaultdict(list)
        self._kept: dict[str, list[pa.Table]] = defaultdict(list)
        self.same = {"namesrv_id": given.context.namesrv_id, "day": given.day}
        self.outcomes = [empty(gold.EVENT_OUTCOMES)]
        self.refreshes: list[Refreshes] = []
        self.facts: list[Fact] = []
        self.counters = Counter(events=0, units=0)

    def take(self, nodes: pa.Table, eventful: pa.Table) -> set[str]:
        """Replay the units of `nodes`; return those that are not quiet where they should be, and leave nothing."""
        given, refused, outcomes = self._given, set[str](), list[OutcomeOf]()
        if not nodes.num_rows:
            return refused
        carried = _Carried(given.open_rows, nodes)
        rows = _events(given, nodes, eventful)
        timed = Timed(rows, topic_tables_of(given.topic_configs(topic_digests(rows))))
        # Inner maps are looked at in their order by answers alone.
        capacities = [
            capacity
            for capacity in capacities_in({gold.MAP_CAPACITIES.name: given.capacities})
            if given.context.has_unknown_past or not capacity.is_inner
        ]
        for unit in (units := sorted(pc.unique(nodes["unit"]).to_pylist())):
            start_state = started(given.context, carried.intervals[unit], carried.facts[unit], capacities)
            replay = UnitReplay(given.context, start_state, timed.reports)
            try:
                replay.take(timed.numbered(*timed.spans.get(unit, (0, 0))))
            except NotQuietError:
                refused.add(unit)
                continue
            for interval in replay.intervals:
                if not carried.keep(interval):
                    self._intervals[interval.table].append(interval)
            outcomes += replay.outcomes
            self.refreshes += replay.refreshes
            self.facts += replay.facts
        self.counters.update(events=rows.num_rows, units=len(units) - len(refused))
        self.outcomes.append(outcome_rows(outcomes, timed, self.same))
        for name, kept in carried.kept():
            self._kept[name].append(kept)
        return refused

    def histories(self, forwarded: Frames) -> dict[str, pa.Table]:
        """Return the rows of the history tables, those among them that are carried `forwarded`."""
        found = {}
        for table in gold.HISTORY_TABLES:
            new = history_rows(table, self._intervals[table.name.removesuffix("_history")], self.same)
            kept = [*self._kept[table.name], *([forwarded[table.name]] if table.name in forwarded else [])]
            found[table.name] = pa.concat_tables([new, *(conformed(rows, table) for rows in kept)])
        return found


class _Carried:
    """The rows that were open when the day began, and those that it leaves as they were: these need not be built again."""

    def __init__(self, open_rows: Frames, nodes: pa.Table) -> None:
        self.intervals: dict[str, list[Interval]] = defaultdict(list)
        self.facts: dict[str, list[Fact]] = defaultdict(list)
        self._rows = {name: placing.carried(rows, name, nodes) for name, rows in open_rows.items()}
        self._row_of: dict[int, tuple[str, int]] = {}
        self._kept: dict[str, list[int]] = defaultdict(list)
        for name, rows in self._rows.items():
            units = rows["unit"].to_pylist()
            if name == gold.PAST_KNOWLEDGE.name:
                for unit, fact in zip(units, facts_in({name: rows}), strict=True):
                    self.facts[unit].append(fact)
                continue
            for row, (unit, interval) in enumerate(zip(units, intervals_from(name, rows), strict=True)):
                self.intervals[unit].append(interval)
                self._row_of[id(interval)] = name, row

    def keep(self, interval: Interval) -> bool:
        """Return whether an interval is a carried one that nothing has changed; its row is kept."""
        name, row = self._row_of.get(id(interval), (None, 0))
        if name is not None:
            self._kept[name].append(row)
        return name is not None

    def kept(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows that are kept, by table."""
        return ((name, self._rows[name].take(rows)) for name, rows in self._kept.items())


def _events(given: PackInput, nodes: pa.Table, eventful: pa.Table) -> pa.Table:
    """Return what the core takes of units: their events, with their `unit`, in no order."""
    beaten = raw_filter(nodes, eventful)
    hours = uneventful(given.hours, nodes, eventful)
    parts = [placing.placed(given.others, nodes), runs(hours, given.context.namesrv.profile)]
    if beaten.num_rows:
        beats = given.raw_beats(beaten)
        # Most columns are NULL in all of them; to look for what is eventful would copy these, too.
        looked_at = ("broker_addr", "effect_us")
        filled = [c for c in beats.column_names if c in looked_at or beats[c].null_count < beats.num_rows]
        parts.append(raw_beats(beats.select(filled), nodes, eventful))
    return pa.concat_tables(parts, promote_options="default")


def _on(day: dt.date, rows: pa.Table, table: Table) -> pa.Table:
    """Return rows with the columns of `table`, in its slice of a day."""
    found = conformed(rows, table)
    days = pa.repeat(pa.scalar(day), rows.num_rows)
    return found.set_column(found.schema.get_field_index("day"), found.schema.field("day"), days)
