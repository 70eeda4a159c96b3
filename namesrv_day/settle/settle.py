"""Settle what the replay of a name server's day starts from: its settings and its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.evidence import tally
from namesrv_core.inference.settings import Known, Votes
from namesrv_core.inference.settle import reconsidered
from namesrv_core.inference.settle import settle as settled_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.schedule import STALL_NS, Stall
from namesrv_day.arrow.rows import rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, SettleInput, frame, namesrv_day
from namesrv_day.day.day_events import BEATS, OTHERS, day_events
from namesrv_day.settle import evidence
from namesrv_day.settle.settings import (
    IDLE_LIMIT,
    known_settings,
    namesrv_on,
    phases_of,
    settings_table,
    under_idle_limit,
)
from schemas import bronze
from schemas.sql_files import query
from schemas.table import LONG


@dataclass(frozen=True)
class Settled:
    """What is settled of one name server's day.

    `settings`: its rows of namesrv_settings; `others`: the day's events that are no beats (`day_events`), as they are to be
    replayed.
    `reconsidered_since`: the position since which earlier days were replayed with a value that turns out wrong; None: never.
    """

    settings: pa.Table
    context: NamesrvDay
    others: pa.Table
    reconsidered_since: int | None


def settle(given: SettleInput) -> Settled:
    """Return what is settled of the day. Each setting has its likeliest value; nothing is replayed to find it."""
    known = known_settings(given)
    known = _with(known, evidence.votes(given, known))
    stood = stalls(given)
    votes, closes = evidence.scans(given, known, _ends(given, known, stood), stood)
    known = _with(known, votes)
    context = _context(given, known, closes, stood)
    if frame(given.today, bronze.ROUTE_OBSERVATIONS).num_rows:
        cast = tally(evidence.tick_votes(given, closes, context), known.lives)
        known = _with(known, cast)
        context = _context(given, known, closes, stood) if cast else context
    of_day = {**given.today, bronze.CHANNEL_EVENTS.name: _ends(given, known, stood)}
    return Settled(
        settings_table(known, given.namesrv_id, given.day, given.background.addresses),
        context,
        day_events(of_day, tables=OTHERS, with_answers=context.has_unknown_past),
        min((setting.life_seq for setting in reconsidered(settled_of(known), known.before)), default=None),
    )


def _context(given: SettleInput, known: Known, closes: Sequence[int], stood: Sequence[Stall]) -> NamesrvDay:
    """Return the day as what is known has it."""
    return namesrv_day(given, namesrv_on(known, given.day), phases_of(settled_of(known)), closes, stood)


def _ends(given: SettleInput, known: Known, stood: Sequence[Stall]) -> pa.Table:
    return under_idle_limit(given, namesrv_on(known, given.day), stood, is_given=IDLE_LIMIT in known.given)


def _with(known: Known, votes: list[Votes]) -> Known:
    return replace(known, votes=(*known.votes, *votes))


# -- stalls: what had arrived lay there, and nothing left it -----------------------------------------------------------

_ASKED = (bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)
_TOLD = pa.schema([("arrival_seq", LONG), ("seq", LONG)])


def stalls(given: SettleInput) -> list[Stall]:
    """Return the stretches of a second or longer in which a beat waited and the name server sent nothing to anybody.

    That somebody else waits for his answer proves nothing: he may be slow to take it.
    """
    if (pc.max(given.today["hours"]["lag_ns"]).as_py() or 0) < STALL_NS:
        return []
    answered = pc.field("response_code").is_valid()
    columns = ["seq", "event_time", "response_code"]
    beats = [given.raw_beats(table.name, columns=columns, where=answered) for table in BEATS]
    told = [_told(rows) for rows in (*(frame(given.today, t).filter(answered) for t in _ASKED), *beats)]
    tables = {
        "told": pa.concat_tables([_TOLD.empty_table(), *told]),
        "beats": pa.concat_tables([_TOLD.empty_table(), *map(_told, beats)]),
        "observed": frame(given.today, bronze.ROUTE_OBSERVATIONS),
        "ends": frame(given.today, bronze.CHANNEL_EVENTS),
    }
    return [Stall(**row) for row in rows_of(ask(query("settle/stalls"), tables, stall_ns=STALL_NS))]


def _told(rows: pa.Table) -> pa.Table:
    arrival = pc.multiply(pc.cast(rows["event_time"], LONG), NS_PER_US)
    return pa.table([arrival, rows["seq"]], schema=_TOLD)
