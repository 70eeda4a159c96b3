"""Settle what the replay of a name server's day starts from: its settings, its schedule, and the order of what raced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.settings import Known, Votes
from namesrv_core.inference.settle import reconsidered
from namesrv_core.inference.settle import settle as settled_of
from namesrv_core.machine.profile import Namesrv
from namesrv_day.day.context import NamesrvDay, SettleInput, Ticks, frame, known_until, namesrv_day
from namesrv_day.settle import evidence
from namesrv_day.settle.races import NO_DECISIONS, Replayable, decisions_of, may_race
from namesrv_day.settle.settings import (
    DELETION,
    IDLE_LIMIT,
    is_open,
    known_settings,
    namesrv_on,
    phases_of,
    settings_table,
    under_idle_limit,
)
from schemas import bronze

__all__ = ("SettleInput", "Settled", "settle")


@dataclass(frozen=True)
class Settled:
    """What is settled of one name server's day.

    `settings`: its rows of namesrv_settings; `order_decisions`: likewise; `moves`: (event_id, seq, looked_up) of the events
    that take effect elsewhere than recorded. `channel_events`: the day's ends of connections as they are to be replayed.
    `reconsidered_since`: the position since which earlier days were replayed with a value that turns out wrong; None: never.
    """

    settings: pa.Table
    context: NamesrvDay
    channel_events: pa.Table
    order_decisions: pa.Table
    moves: pa.Table
    reconsidered_since: int | None

    @property
    def namesrv(self) -> Namesrv:
        """Return the name server as it was when the day began, with what it became later."""
        return self.context.namesrv


def settle(given: SettleInput) -> Settled:
    """Return what is settled of the day."""
    known = known_settings(given)
    known = _with(known, evidence.votes(given, known))
    scans = evidence.scans(given, known, _ends(given, known))
    known, day = _weighed(given, _with(known, scans.votes), scans)
    context = replace(day.context, namesrv=namesrv_on(known, given.day))
    decisions = NO_DECISIONS
    if may_race(given, day.others):
        decisions = day.asked(lambda each: decisions_of(each._replace(namesrv=context.namesrv), given.day))
    return Settled(
        settings_table(known, given.namesrv_id, given.day, given.addresses),
        context,
        day.channel_events,
        decisions.order_decisions,
        decisions.moves,
        min((setting.life_seq for setting in reconsidered(settled_of(known), known.before)), default=None),
    )


def _weighed(given: SettleInput, known: Known, scans: evidence.Scans) -> tuple[Known, Replayable]:
    """Return what is known after weighing what only replays of the day tell, and the day under it."""
    day = _under(given, known, scans)
    if not frame(given.today, bronze.ROUTE_OBSERVATIONS).num_rows:  # answers alone tell which replay is right
        return known, day
    if is_open(known, IDLE_LIMIT) and evidence.closes_late(given):
        recorded = Replayable(given, day.context, frame(given.today, bronze.CHANNEL_EVENTS))
        known = _with(known, recorded.asked(partial(evidence.weighed_idle_limit, known, recorded.channel_events)))
        day = _under(given, known, scans)
    if phase := evidence.weighed_phase(known, day, scans.closes):
        known = _with(known, phase)
        day = _under(given, known, scans)
    if is_open(known, DELETION) and evidence.loses_topics(given):
        known = _with(known, day.asked(partial(evidence.weighed_deletion, known)))
    return known, day


def _under(given: SettleInput, known: Known, scans: evidence.Scans) -> Replayable:
    """Return the day as what is known has it."""
    namesrv = namesrv_on(known, given.day)
    phases = phases_of(settled_of(known))
    until_seq = known_until(given, pc.max(given.today["hours"]["last_us"]).as_py())
    context = namesrv_day(given, namesrv, Ticks(phases, scans.closes, scans.stalls), until_seq)
    return Replayable(given, context, _ends(given, known))


def _ends(given: SettleInput, known: Known) -> pa.Table:
    return under_idle_limit(given, namesrv_on(known, given.day), is_given=IDLE_LIMIT in known.given)


def _with(known: Known, votes: list[Votes]) -> Known:
    return replace(known, votes=(*known.votes, *votes))
