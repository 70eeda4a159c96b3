"""Settle what the replay of a name server's day starts from: its settings, its schedule, and whether something may have raced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from namesrv_core.inference.evidence import tally
from namesrv_core.inference.settings import Known, Votes
from namesrv_core.inference.settle import reconsidered
from namesrv_core.inference.settle import settle as settled_of
from namesrv_core.machine.schedule import Stall
from namesrv_day.day.context import NamesrvDay, SettleInput, Ticks, frame, namesrv_day
from namesrv_day.day.day_events import OTHERS, day_events
from namesrv_day.settle import evidence
from namesrv_day.settle.races import may_race
from namesrv_day.settle.settings import (
    IDLE_LIMIT,
    known_settings,
    namesrv_on,
    phases_of,
    settings_table,
    under_idle_limit,
)
from namesrv_day.settle.stalls import stalls
from schemas import bronze


@dataclass(frozen=True)
class Settled:
    """What is settled of one name server's day.

    `settings`: its rows of namesrv_settings; `others`: the day's events that are no beats (`day_events`), as they are to be
    replayed; `may_race`: whether the order of some events may be another one than recorded.
    `reconsidered_since`: the position since which earlier days were replayed with a value that turns out wrong; None: never.
    """

    settings: pa.Table
    context: NamesrvDay
    others: pa.Table
    may_race: bool
    reconsidered_since: int | None


def settle(given: SettleInput) -> Settled:
    """Return what is settled of the day. Each setting has its likeliest value; nothing is replayed to find it."""
    known = known_settings(given)
    known = _with(known, evidence.votes(given, known))
    stood = stalls(given)
    scans = evidence.scans(given, known, _ends(given, known, stood), stood)
    known = _with(known, scans.votes)
    context = _context(given, known, scans)
    if frame(given.today, bronze.ROUTE_OBSERVATIONS).num_rows:
        cast = tally(evidence.tick_votes(given, scans, context), known.lives)
        known = _with(known, cast)
        context = _context(given, known, scans) if cast else context
    of_day = {**given.today, bronze.CHANNEL_EVENTS.name: _ends(given, known, stood)}
    others = day_events(of_day, tables=OTHERS)
    return Settled(
        settings_table(known, given.namesrv_id, given.day, given.background.addresses),
        context,
        day_events(of_day, tables=OTHERS, with_answers=True) if context.has_unknown_past else others,
        may_race(given, others),
        min((setting.life_seq for setting in reconsidered(settled_of(known), known.before)), default=None),
    )


def _context(given: SettleInput, known: Known, scans: evidence.Scans) -> NamesrvDay:
    """Return the day as what is known has it."""
    phases = phases_of(settled_of(known))
    ticks = Ticks(phases, scans.closes, scans.stalls)
    return namesrv_day(given, namesrv_on(known, given.day), ticks)


def _ends(given: SettleInput, known: Known, stood: Sequence[Stall]) -> pa.Table:
    return under_idle_limit(given, namesrv_on(known, given.day), stood, is_given=IDLE_LIMIT in known.given)


def _with(known: Known, votes: list[Votes]) -> Known:
    return replace(known, votes=(*known.votes, *votes))
