"""Settle what the replay of a name server's day starts from: its settings, its schedule, and whether something may have raced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.evidence import tally
from namesrv_core.inference.races import LAG_NS, REMOVAL_LAG_NS
from namesrv_core.inference.settings import Known, Votes
from namesrv_core.inference.settle import reconsidered
from namesrv_core.inference.settle import settle as settled_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.schedule import STALL_NS, Stall
from namesrv_day.arrow.rows import rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, SettleInput, Ticks, frame, namesrv_day
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
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import LONG


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


# -- races: whether anything may have raced, found without reading single beats ----------------------------------------

_MOST_SPANS = 100


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
