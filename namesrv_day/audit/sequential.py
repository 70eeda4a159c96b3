"""A name server's life told once more, by another way than a night's: one registry, one event after the other.

Nothing is carried in slices, no beats are folded into runs, and orders are decided anew. What is taken as given are the
settings of each day. So what comes of it can be held against the published slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Histories, Interval
from namesrv_core.history.snapshot import Snapshot
from namesrv_core.inference.decisions import Decided, Placed, decide
from namesrv_core.inference.settings import Source, namesrv_of
from namesrv_core.machine.draft import Step
from namesrv_core.machine.events import ChannelDestroyed, StateKnown
from namesrv_core.machine.instants import NS_PER_US, US_PER_MS
from namesrv_core.machine.past import Past
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_core.replay.loop import TimedEvent, replay
from namesrv_day.arrow.rows import with_columns
from namesrv_day.arrow.sql import connection
from namesrv_day.day.context import NamesrvDay, SettleInput, Ticks, known_until, namesrv_day
from namesrv_day.day.day_events import BEATS
from namesrv_day.hours.condense import hours_from, leases_from
from namesrv_day.replay.slices import history_rows
from namesrv_day.settle.evidence import scan_closes
from namesrv_day.settle.races import Replayable
from namesrv_day.settle.settings import IDLE_LIMIT, phases_of, settings_of, under_idle_limit
from namesrv_day.settle.stalls import stalls
from schemas import bronze, codec, gold
from schemas.table import TIMESTAMP
from schemas.times import day_of, day_start_seq

SNAPSHOT_ID = "snapshot"
"""What the rows that a given snapshot brings have as `opened_by`."""


class Sequential:
    """The registry of one name server, from its first recorded event or from a snapshot on.

    `applied` counts the events that were applied, scans among them, by operation; `first` and `last` are the first and the
    last of them.
    """

    def __init__(self, namesrv_id: str, snapshot: Snapshot | None = None) -> None:
        self.applied: Counter[str] = Counter()
        self._decided: list[Decided] = []
        self.first: TimedEvent | None = None
        self.last: TimedEvent | None = None
        self._namesrv_id, self._snapshot = namesrv_id, snapshot
        self._registry: Registry | None = None
        self._histories = Histories()
        self._beats: dict[LiveKey, int] = {}

    @property
    def decisions(self) -> dict[str, int]:
        """Return which alternative was taken, from 0, by decision id."""
        return {of.race.decision_id: of.chosen for of in self._decided}

    def take(self, given: SettleInput, settings: pa.Table, until_us: int) -> None:
        """Apply the events of a day, of which the one before was taken, that took effect until an instant, inclusive.

        `given`: as for settling the day, without what is carried and without `hours`; `settings`: its namesrv_settings.
        Raises OrderError where the events do not increase.
        """
        context, ends = self._context(given, settings)
        from_seq = context.from_seq
        if self._snapshot is not None:
            from_seq = max(from_seq, (self._snapshot.at_us + 1) * NS_PER_US)
        if self._registry is None:
            self._registry = Registry(context.namesrv.at(from_seq).profile)
        registry = self._registry
        if self._snapshot is not None:
            context = replace(context, from_seq=from_seq, unknown_from_ms=None)
            self._restore(registry, self._snapshot, context)
        if registry.past is None and context.unknown_from_ms is not None:
            registry.past = Past(context.unknown_from_ms)
        context = replace(context, past_is_carried=registry.past is not None)
        day = Replayable(given, context, ends).whole._replace(start=registry.copy)
        day = day._replace(timed_events=[timed for timed in day.timed_events if timed.seq >= context.from_seq])
        decided, placed = decide(day) if day.observations else ([], [])
        self._decided += decided
        told = [timed for timed in _ordered(day.timed_events, placed) if timed.effect_us <= until_us]
        self._replay(registry, told, context, min(context.until_seq, (until_us + 1) * NS_PER_US))

    def rows(self, history: str) -> pa.Table:
        """Return what the registry holds now, as the rows of a history table that are open.

        Of broker_live_history with `last_update_timestamp`, the last beat that renewed the lease.
        """
        table = next(one for one in gold.HISTORY_TABLES if one.name == history)
        own = [one for one in self._histories.open_intervals() if f"{one.table}_history" == history]
        last = self.last
        day = None if last is None else day_of(last.effect_us)
        found = history_rows(table, own, {"namesrv_id": self._namesrv_id, "day": day})
        if table is not gold.BROKER_LIVE_HISTORY:
            return found
        beats = pa.array([self._beat_us(one) for one in own], pa.int64()).cast(TIMESTAMP)
        return found.append_column("last_update_timestamp", beats)

    def _context(self, given: SettleInput, settings: pa.Table) -> tuple[NamesrvDay, pa.Table]:
        """Return the day as its settings have it, and its ends of connections."""
        settled = settings_of(settings)
        namesrv = namesrv_of(settled, day_start_seq(given.day))
        is_given = any(setting.name == IDLE_LIMIT and setting.source is Source.GIVEN for setting in settled)
        live = self.rows(gold.BROKER_LIVE_HISTORY.name)
        live = with_columns(live, last_update_time=live["last_update_timestamp"])
        hours = _hours(live, {table.name: given.raw_beats(table.name) for table in BEATS})
        given = replace(given, today={**given.today, "hours": hours}, carried={gold.BROKER_LIVE_HISTORY.name: live})
        ends = under_idle_limit(given, namesrv, is_given=is_given)
        closes = [expiry.seq for expiry in scan_closes(given, ends, namesrv)]
        until_seq = known_until(given, pc.max(hours["last_us"]).as_py())
        return namesrv_day(given, namesrv, Ticks(phases_of(settled), closes, stalls(given)), until_seq), ends

    def _beat_us(self, live: Interval) -> int:
        return self._beats[LiveKey(*live.key)] * US_PER_MS  # type: ignore[arg-type]  # its keys are such

    def _restore(self, registry: Registry, snapshot: Snapshot, context: NamesrvDay) -> None:
        """Begin with a snapshot. Raises ValueError where it is of another generation than the name server."""
        self._snapshot = None
        if snapshot.profile.name != registry.profile.name:
            raise ValueError(
                f"the snapshot is of a {snapshot.profile.name} name server, this one is a {registry.profile.name}"
            )
        registry.past = Past(snapshot.at_us // US_PER_MS)
        known = TimedEvent(snapshot.at_us * NS_PER_US, SNAPSHOT_ID, snapshot.at_us, snapshot.event)
        self._replay(registry, [known], context, known.seq)

    def _replay(self, registry: Registry, told: list[TimedEvent], context: NamesrvDay, until_seq: int) -> None:
        for timed, step in replay(
            registry,
            told,
            context.namesrv,
            context.schedule,
            namesrv_id=self._namesrv_id,
            span=(context.from_seq, until_seq),
        ):
            self.applied[codec.operation_of(timed.event, None)] += 1
            self.first, self.last = self.first or timed, timed
            self._note_beats(timed, step)
            for _ in self._histories.record(
                step.changes, seq=timed.seq, event_id=timed.event_id, at_us=timed.effect_us, certainty=step.certainty
            ):
                pass

    def _note_beats(self, timed: TimedEvent, step: Step) -> None:
        """Note which leases were renewed when; beside the registry's own, since what it guesses after a gap is no beat."""
        at_ms = timed.effect_us // US_PER_MS
        told = dict(timed.event.beats) if isinstance(timed.event, StateKnown) else {}
        for change in step.changes:
            if change.table == "broker_live_table":
                key = LiveKey(*change.key)
                self._beats.pop(key, None)
                if change.value is not None:
                    self._beats[key] = told.get(key, at_ms)
        if step.refreshed is not None:
            self._beats[step.refreshed] = at_ms


def _hours(live: pa.Table, beats: Mapping[str, pa.Table]) -> pa.Table:
    """Return all beats of the day condensed; `live`: the open rows of broker_live_history when it began."""
    leases = leases_from(live, beats[bronze.REGISTRATIONS.name])
    return pa.concat_tables(hours_from(connection().from_arrow(rows), name, leases) for name, rows in beats.items())


def _ordered(timed_events: Sequence[TimedEvent], placed: list[Placed]) -> list[TimedEvent]:
    """Return events in the order in which they took effect."""
    moves: Mapping[str, Placed] = {of.event_id: of for of in placed}
    found = (_moved(timed, moves[timed.event_id]) if timed.event_id in moves else timed for timed in timed_events)
    return sorted(found, key=lambda timed: (timed.seq, timed.event_id))


def _moved(timed: TimedEvent, placed: Placed) -> TimedEvent:
    event = timed.event
    if placed.looked_up is not None and isinstance(event, ChannelDestroyed):
        event = event._replace(looked_up=placed.looked_up)
    return timed._replace(seq=placed.seq, effect_us=placed.seq // NS_PER_US, event=event)
