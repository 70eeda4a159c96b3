"""Settle what the replay of a name server's day starts from: its settings and its schedule."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.configuration import statement_of
from namesrv_core.inference.evidence import tally
from namesrv_core.inference.settings import (
    ADDRESSES,
    SCAN_PHASE,
    VERSION,
    Known,
    Life,
    Setting,
    Source,
    Statement,
    Votes,
    reconsidered,
)
from namesrv_core.inference.settings import settle as settled_of
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS, Namesrv, profile_of_version
from namesrv_core.machine.schedule import STALL_NS, Stall
from namesrv_day.arrow.rows import rows_of, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, SettleInput, frame, namesrv_day
from namesrv_day.day.day_events import BEATS, OTHERS, day_events
from namesrv_day.settle import evidence
from namesrv_day.settle.evidence import IDLE_LIMIT, namesrv_on
from namesrv_wire.codes import version_name
from namesrv_wire.streams.closing import LATE_NS
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import LONG
from schemas.tables.namesrv_settings import setting_of, setting_rows
from schemas.times import day_start_seq

Facts = Sequence[Mapping[str, Any]]


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


# -- how it was configured, as far as is known without its answers: what conf/ says, what it said itself ---------------


def known_settings(given: SettleInput) -> Known:
    """Return what is known of the name server's settings without its answers and closes."""
    facts = sorted([*rows_of(frame(given.today, bronze.NAMESRV_EVENTS)), *_changes(given)], key=_in_order)
    background = given.background
    before = {setting.name: setting for setting in settings_of(background.settings_before)}
    known = Known(
        _lives(facts, before, frame(given.today, bronze.ROUTE_OBSERVATIONS)),
        _statements(facts),
        given=background.given,
        before=before,
        hindsight=_hindsight(background.settings_later),
    )
    last = before.get(VERSION)
    is_carried = last is not None and last.source is not Source.GIVEN
    if not is_carried and is_open(known, VERSION):
        known = replace(known, fallback_version=_brokers_version(given))
    return known


def is_open(known: Known, name: str) -> bool:
    """Return whether evidence about setting `name` is looked for."""
    return any(setting.name == name and setting.source.is_open for setting in settled_of(known))


def phases_of(settings: Iterable[Setting]) -> dict[int, int]:
    """Return the phases of scans (microseconds after a multiple of the period) by the start of the process."""
    return {setting.life_seq: int(setting.value or 0) for setting in settings if setting.name == SCAN_PHASE}


def settings_table(known: Known, namesrv_id: str, day: dt.date, addresses: pa.Table) -> pa.Table:
    """Return the rows of `namesrv_settings`. `addresses`: rows of that table that name it; several addresses are one row."""
    settings = [*settled_of(known), *_addresses(addresses, namesrv_id)]
    return table_of(setting_rows(settings, namesrv_id), gold.NAMESRV_SETTINGS, day=day)


def settings_of(rows: pa.Table) -> list[Setting]:
    """Return the settings of one day and name server with which it is replayed, in order, of rows of `namesrv_settings`."""
    ordered = sorted(rows_of(rows), key=lambda row: (row["from_seq"], row["setting"]))
    return [setting_of(row) for row in ordered if row["setting"] != ADDRESSES]


def _addresses(addresses: pa.Table, namesrv_id: str) -> Iterable[Setting]:
    """Yield which addresses are the name server's, if that are several."""
    if others := sorted(row["namesrv_addr"] for row in rows_of(addresses) if row["namesrv_id"] == namesrv_id):
        value = ", ".join([namesrv_id, *others])
        yield Setting(ADDRESSES, value, Source.GIVEN, 0, 0, value)


def under_idle_limit(given: SettleInput, namesrv: Namesrv, stalls: Iterable[Stall], *, is_given: bool) -> pa.Table:
    """Return the day's ends of connections as the idle limits of `namesrv` have them, in order.

    `stalls`: when the name server stood still on it; `is_given`: by conf/.

    Captures are read with the default limit or the one given. Where it turns out to be longer, what the timer is said
    to have done did not happen, and the packet that came later was the end. Where it is shorter, a connection that was
    silent for longer had ended when the limit did, and the packet that told so was lost.
    """
    channel_events = frame(given.today, bronze.CHANNEL_EVENTS)
    # A connection keeps the limit with which it was opened.
    limits = [
        {"from_seq": seq, "until_seq": until_seq, "limit_ms": one.config.channel_max_idle_ms}
        for seq, until_seq, one in namesrv.stretches
        if not is_given
        if one.config.channel_max_idle_ms != CHANNEL_MAX_IDLE_MS
    ]
    if not limits:
        return channel_events.filter(pc.field("kind") != "late_close")
    found = ask(
        query("settle/under_limits"),
        {
            "ends": channel_events,
            "limits": pa.Table.from_pylist(limits, schema=_LIMITS),
            "stalls": pa.Table.from_pylist([stall._asdict() for stall in stalls], schema=_STALLS),
        },
        default_ms=CHANNEL_MAX_IDLE_MS,
        late_ms=LATE_NS // NS_PER_MS,
        day_seq=day_start_seq(given.day),
    )
    return found.cast(channel_events.schema)


_STALLS = pa.schema([("from_seq", pa.int64()), ("until_seq", pa.int64())])
_LIMITS = _STALLS.append(pa.field("limit_ms", pa.int64()))


def _hindsight(later: pa.Table) -> dict[tuple[str, int], Setting]:
    """Return what the first of the later days that did so found out about the start of a process."""
    rows = sorted(rows_of(later), key=lambda row: row["day"], reverse=True)
    starts = (row for row in rows if row["from_seq"] == row["process_seq"] and row["setting"] != ADDRESSES)
    found = map(setting_of, starts)
    return {(s.name, s.life_seq): s for s in found if s.source in (Source.STATED, Source.INFERRED)}


def _changes(given: SettleInput) -> Iterable[dict[str, Any]]:
    """Yield the changes of its configuration that the name server accepted, as facts of its life."""
    is_one = (pc.field("code") == RequestCode.UPDATE_NAMESRV_CONFIG) & ~pc.field("one_way")
    accepted = is_one & (pc.field("response_code") == ResponseCode.SUCCESS)
    for row in rows_of(frame(given.today, bronze.ADMIN_EVENTS).filter(accepted)):
        yield {**row, "kind": "changed", "properties": row["config_value"]}


def _in_order(fact: Mapping[str, Any]) -> tuple[int, str]:
    return fact["seq"], fact["event_id"]


def _lives(facts: Facts, before: Mapping[str, Setting], answers: pa.Table) -> list[Life]:
    """Return the processes of a day: the one that ran when it began, if any did, and those that started.

    `answers`: rows of route_observations, which state the version where no event does.
    """
    starts = sorted({fact["seq"] for fact in facts if fact["kind"] == "started"})
    if before:
        starts = [max(setting.life_seq for setting in before.values()), *starts]
    else:
        # Another recorder of it may have begun behind a start.
        observed = [fact["seq"] for fact in facts if fact["kind"] == "observed_from"]
        starts = [*[seq for seq in observed[:1] if seq < min(starts, default=seq + 1)], *starts] or [0]
    identified = [fact for fact in facts if fact["kind"] == "identified"]
    lives = []
    for number, (start, until) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
        own = (i for i in identified if (number == 0 or i["seq"] >= start) and (until is None or i["seq"] < until))
        # Within a process the version cannot change; the first answer tells it.
        first = next(own, None)
        if first is None and not identified and (number or not before):
            first = _first_answer(answers, start, until)
        lives.append(Life(start) if first is None else Life(start, _release(first["version"]), first["event_id"]))
    return lives


def _first_answer(answers: pa.Table, since_seq: int, until_seq: int | None) -> dict[str, Any] | None:
    """Return the first answer of a process that states its version, as a fact; None: there is none."""
    stated = (pc.field("response_version") > 0) & (pc.field("seq") >= since_seq)
    own = answers.filter(stated if until_seq is None else stated & (pc.field("seq") < until_seq))
    firsts = own.filter(pc.field("seq") == pc.min(own["seq"])).select(["event_id", "response_version"]).to_pylist()
    first = min(firsts, key=lambda row: row["event_id"], default=None)
    return None if first is None else {"event_id": first["event_id"], "version": first["response_version"]}


def _statements(facts: Facts) -> list[Statement]:
    return [
        statement_of(fact["seq"], fact["event_id"], fact["properties"] or "", changes=fact["kind"] == "changed")
        for fact in facts
        if fact["kind"] in ("configured", "changed")
    ]


def _brokers_version(given: SettleInput) -> str:
    """Return the version of the newest broker: a name server is of its brokers' generation, or newer."""
    column = "request_version"
    newest = pc.max(given.raw_beats(bronze.REGISTRATIONS.name, columns=[column])[column]).as_py()
    return _release(newest or 0)


def _release(version: int) -> str:
    """Return the release that a protocol version stands for, or that by whose rules it is replayed."""
    name = version_name(version)
    return name if name[:2] in ("4.", "5.") else profile_of_version(version).name


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
