"""Settle what the replay of a name server's day starts from: its settings and its schedule of scans.

What speaks for a setting while it is open: answers and closes that only one of its values explains, as they are read.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import LIST_CODES
from namesrv_core.asking.shown import ShownCluster, shown_by
from namesrv_core.inference import evidence
from namesrv_core.inference.races import LAG_NS, REMOVAL_LAG_NS
from namesrv_core.inference.settings import (
    ADDRESSES,
    SCAN_PHASE,
    VERSION,
    Known,
    Life,
    Setting,
    Source,
    Votes,
    in_hindsight,
    namesrv_of,
    reconsidered,
    statement_of,
)
from namesrv_core.inference.settings import settle as settle_known
from namesrv_core.machine.codes import Answer, Question, RequestCode, ResponseCode
from namesrv_core.machine.events import EVER, NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import (
    BROKER_CHANNEL_EXPIRED_MS,
    CHANNEL_MAX_IDLE_MS,
    Namesrv,
    Profile,
    profile_named,
    profile_of_version,
)
from namesrv_core.machine.schedule import STALL_NS, TICK_LATE_NS, Hold, Stall, Timer
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG
from namesrv_day.arrow import Row, ask, empty, rows_of, table_of
from namesrv_day.context import NamesrvDay, SettleInput, frame, namesrv_day
from namesrv_day.events import BEATS, OTHERS, day_events, topic_tables_of
from namesrv_day.hours import LONGEST_LEASE_MS, PERIOD_US
from namesrv_wire.codes import version_name
from namesrv_wire.streams.connection import EARLY_NS, LATE_NS
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import BOOLEAN, LONG, STRING, STRINGS, TIMESTAMP
from schemas.tables.namesrv_settings import setting_of, setting_rows
from schemas.times import day_start_seq

DELETION, IDLE_LIMIT = "delete_topic_with_broker_registration", "channel_max_idle_ms"
_LISTS = {"enable_all_topic_list": (206,), "enable_topic_list": (224, 311, 312, 313)}
"""The switches for lists of topics, and the questions for these."""
_PERIOD, _RETURNED = "scan_period_ms", "return_order_topic_config_to_broker"
_SHOWN = (Source.STATED, Source.INFERRED)
# An idle close comes up to this long after its limit: measured 61 ms.
_IDLE_LATE_MS = 250


def namesrv_on(known: Known, day: dt.date) -> Namesrv:
    """Return the name server as it was when `day` began, with what it became later."""
    return namesrv_of(settle_known(known), day_start_seq(day))


def votes(given: SettleInput, known: Known) -> list[Votes]:
    """Return what the day's answers and closes say, read as they are, about the settings that are open."""
    settled = settle_known(known)
    wanted = {setting.name for setting in settled if setting.is_open} | known.shown_before.keys()
    cast = [
        evidence.Vote(name, row["value"], row["seq"], row["event_id"])
        for name, votes_of in _VOTES.items()
        if name in wanted
        for row in votes_of(given)
    ]
    profiles = {one.life_seq: profile_named(str(one.value)) for one in settled if one.name == VERSION}
    return [
        vote
        for vote in evidence.count_votes(cast, known.lives, known.statements)
        if vote.name != DELETION or profiles[vote.life_seq].deletes_unlisted_topics
    ]


def scans(
    given: SettleInput, known: Known, ends: pa.Table, stalls: Sequence[Stall], holds: Sequence[Hold]
) -> tuple[list[Votes], list[int]]:
    """Return what closes of brokers' connections say about the scan's period and phase, and the first close of each scan.

    `ends`: the day's channel_events; `stalls`: when the name server was frozen on it; `holds`: when its tables were locked.
    """
    closes = scan_closes(given, ends, namesrv_on(known, given.day))
    of_lives: dict[int, list[evidence.Expiry]] = {life.from_seq: [] for life in known.lives}
    # A scan closes the first connection when the timer ticks, and the next after it has waited for the lock.
    at = [expiry.seq for expiry in closes]
    late = {
        seq
        for hold in holds
        for seq in at[bisect_left(at, hold.from_seq) + 1 : bisect_right(at, hold.until_seq + LAG_NS)]
    }
    for expiry in closes:
        # Ticks that a stall has held up are made at its end, and say nothing of the timer.
        if expiry.seq not in late and not any(
            stall.from_seq <= expiry.seq <= stall.until_seq + TICK_LATE_NS for stall in stalls
        ):
            of_lives[evidence.life_seq([*of_lives], expiry.seq)].append(expiry)
    settings = {(s.life_seq, s.name): s for s in settle_known(known)}
    profiles = {life_seq: profile_named(str(settings[life_seq, VERSION].value)) for life_seq in of_lives}
    cast = [
        vote
        for life_seq, expiries in of_lives.items()
        if (period := settings.get((life_seq, _PERIOD))) is not None
        if period.is_open or _PERIOD in known.shown_before
        for vote in evidence.scan_period_votes(expiries, profiles[life_seq].scan_period_ms)
    ]
    of_period = evidence.count_votes(cast, known.lives, known.statements)
    settings |= {(s.life_seq, s.name): s for s in settle_known(replace(known, votes=[*known.votes, *of_period]))}
    cast = []
    for life_seq, expiries in of_lives.items():
        period, phase = (settings.get((life_seq, name)) for name in (_PERIOD, SCAN_PHASE))
        period_ms = profiles[life_seq].scan_period_ms if period is None else int(period.value or 0)
        known_us = None if phase is None or phase.is_open else int(phase.value or 0)
        cast += evidence.scan_phase_votes(expiries, period_ms, known_us)
    return [*of_period, *evidence.count_votes(cast, known.lives)], at


def scan_closes(given: SettleInput, ends: pa.Table, namesrv: Namesrv) -> list[evidence.Expiry]:
    """Return the closes by the server, of connections that were not idle, over which a broker's ended lease was held.

    The first of each scan, in order. `ends`: the day's channel_events. A stranger's connection has no lease.
    """
    return evidence.first_of_scans(
        expiry
        for from_seq, until_seq, one in namesrv.spans
        for expiry in _expiries(
            given,
            ends.filter((pc.field("seq") >= from_seq) & (pc.field("seq") < (EVER if until_seq is None else until_seq))),
            one.profile,
        )
    )


def tick_votes(given: SettleInput, closes: Sequence[int], day: NamesrvDay) -> list[evidence.Vote]:
    """Return what the answers show about when scans ran that no packet shows: of brokers whose leases had ended."""
    spans, windows = [], dict[Timer, list[evidence.TickWindow]]()
    pauses: list[Stall | Hold] = [*day.schedule.stalls, *day.schedule.holds]
    for lapse in rows_of(_lapses(given, closes, day.namesrv, day.until_seq)):
        timer = day.schedule.timer_at(from_seq := lapse["from_seq"])
        # Ticks that a pause has held up say nothing of the timer.
        if timer is not None and not any(
            pause.from_seq < lapse["until_seq"] and from_seq <= pause.until_seq for pause in pauses
        ):
            until_seq = min(lapse["until_seq"], from_seq + timer.period_ns)
            spans.append({**lapse, "until_seq": until_seq, **timer._asdict()})
    if spans:
        tables = {"spans": pa.Table.from_pylist(spans, schema=_SPANS), **given.answers}
        for row in rows_of(ask(query("settle/ticks"), tables)):
            timer = Timer(*(row.pop(name) for name in Timer._fields))
            windows.setdefault(timer, []).append(evidence.TickWindow(**row))
    return [vote for timer, own in windows.items() for vote in evidence.phase_votes(own, timer)]


def _lapses(given: SettleInput, closes: Sequence[int], namesrv: Namesrv, until_seq: int) -> pa.Table:
    """Return when leases ended, until the end of what is known, that no scan's packet and nothing else ended: `_LAPSES`."""
    profile, hours = namesrv.profile, given.today["hours"]
    leases: dict[str, Any] = {
        "with_cluster": profile.live_key_has_cluster,
        "own_lease": profile.own_heartbeat_timeout,
        "default_ms": BROKER_CHANNEL_EXPIRED_MS,
    }
    tables = {"hours": hours, "live": frame(given.carried, gold.BROKER_LIVE_HISTORY)}
    holes = ask(query("settle/holes"), tables, period_us=PERIOD_US, **leases)
    tables |= {
        "holes": holes,
        "channel_ends": frame(given.today, bronze.CHANNEL_EVENTS),
        "unregistrations": frame(given.today, bronze.UNREGISTRATIONS),
        "life": frame(given.today, bronze.NAMESRV_EVENTS),
        **_single_beats(given, holes),
    }
    return ask(
        query("settle/lapses"),
        tables,
        longest_ms=LONGEST_LEASE_MS,
        period_us=PERIOD_US,
        scan_ns=2 * namesrv.scan_period_ms * NS_PER_MS,
        one_scan_ns=evidence.ONE_SCAN_NS,
        closes=closes or [0],
        until_seq=until_seq,
        **leases,
    ).cast(_LAPSES)


def _deletion_votes(given: SettleInput) -> Iterable[Row]:
    """Read routes of topics that a registration left out, whether they still have its broker."""
    tables, answers = ask(query("settle/topic_tables"), {"hours": given.today["hours"]}), given.answers
    routes = answers["answers"].filter(pc.field("code") == RequestCode.GET_ROUTEINFO_BY_TOPIC)
    asked = {*pc.unique(routes["subject"]).to_pylist()}
    if not (tables.num_rows and asked):
        return
    listed = topic_tables_of(given.topic_configs(pc.unique(tables["topic_config_digest"])))
    of_names: dict[str | None, set[str]] = {}
    for row in rows_of(tables):
        of_names.setdefault(row["broker_name"], set()).add(row["topic_config_digest"])
    left_out = []
    for name, digests in of_names.items():
        if name is None:
            continue
        names = [listed[digest].names & asked for digest in digests]
        for topic in sorted(frozenset[str]().union(*names) - names[0].intersection(*names)):
            having = [digest for digest in digests if topic in listed[digest].names]
            left_out.append({"broker_name": name, "topic": topic, "digests": having})
    found = ask(
        query("settle/left_out"),
        {
            "left_out": pa.Table.from_pylist(left_out, schema=_LEFT_OUT),
            "hours": given.today["hours"],
            "ends": frame(given.today, bronze.CHANNEL_EVENTS),
            "unregistrations": frame(given.today, bronze.UNREGISTRATIONS),
            "requests": frame(given.today, bronze.ADMIN_EVENTS),
            "life": frame(given.today, bronze.NAMESRV_EVENTS),
        },
        of_topics=[RequestCode.DELETE_TOPIC_IN_NAMESRV.value, RequestCode.REGISTER_TOPIC_IN_NAMESRV.value],
        static=[digest for digest, table in listed.items() if table.mappings],
    )
    seen = ask(query("settle/kept"), {"left_out": found, **answers})
    kept, gone = seen.filter(pc.field("is_shown")), seen.filter(~pc.field("is_shown") & pc.field("is_masters"))
    if gone.num_rows:
        where = pc.field("broker_addr").isin(pc.unique(gone["broker_addr"]))
        beats = {t.name: given.raw_beats(t.name, columns=_BEATEN[t.name], where=where) for t in BEATS}
        gone = ask(query("settle/unlapsed"), {"answers": gone, **beats}, default_ms=BROKER_CHANNEL_EXPIRED_MS)
    for rows, value in ((kept, False), (gone, True)):
        yield from ({**row, "value": value} for row in rows_of(rows))


def _list_votes(codes: Sequence[int], given: SettleInput) -> Iterable[Row]:
    """Read whether questions for lists of topics were refused: then their switch is off."""
    found = ask(
        """
        SELECT seq, event_id, response_code = 0 AS value FROM answers
        WHERE code IN $codes AND (response_code = 0 OR response_code = 1 AND remark = 'disable')
        """,
        given.answers,
        codes=list(codes),
    )
    return rows_of(found)


def _order_message_votes(given: SettleInput) -> Iterable[Row]:
    """Read routes with an order configuration, and those without of topics that certainly had one while they were asked for."""
    tables = {
        "kept": frame(given.carried, gold.KV_CONFIG_HISTORY),
        "requests": frame(given.today, bronze.ADMIN_EVENTS),
        "life": frame(given.today, bronze.NAMESRV_EVENTS),
    }
    return rows_of(ask(query("settle/order_messages"), {**tables, **given.answers}, namespace=ORDER_TOPIC_CONFIG))


def _order_return_votes(given: SettleInput) -> Iterable[Row]:
    """Read whether responses to registrations have a body, where one has none although there certainly was what to return."""
    kept, requests = frame(given.carried, gold.KV_CONFIG_HISTORY), frame(given.today, bronze.ADMIN_EVENTS)
    if not any(pc.any(pc.equal(rows["namespace"], ORDER_TOPIC_CONFIG)).as_py() for rows in (kept, requests)):
        return ()
    tables = {"kept": kept, "requests": requests, "life": frame(given.today, bronze.NAMESRV_EVENTS)}
    has_body, found = pc.field("response_body").is_valid(), list[Row]()
    for returned in (False, True):
        where = (pc.field("response_code") == 0) & pc.field("response_fields").is_valid() & (has_body == returned)
        responses = given.raw_beats(bronze.REGISTRATIONS.name, columns=["seq", "event_id", "event_time"], where=where)
        rows = ask(query("settle/order_returns"), {"responses": responses, **tables}, namespace=ORDER_TOPIC_CONFIG)
        found += ({**row, "value": returned} for row in rows_of(rows))
        if not found:
            break  # as usual: that all have one needs no proof
    return found


def _acting_master_votes(given: SettleInput) -> Iterable[Row]:
    """Read routes of groups that allow acting masters, without a write bit, and who is a member, or is shown as one in clusters."""
    found = ask(
        """
        SELECT event_id, request_seq, seq, subject AS topic, text AS body FROM answers JOIN bodies ON body = number
        WHERE code = $code AND response_code = 0
            AND contains(text, '"enableActingMaster":true') AND regexp_matches(text, '"perm":[0145][,}]')
        """,
        given.answers,
        code=RequestCode.GET_ROUTEINFO_BY_TOPIC.value,
    )
    if not found.num_rows:
        return ()
    kept = frame(given.carried, gold.BROKER_ADDR_HISTORY)
    members = ask(query("settle/members"), {"hours": given.today["hours"], "kept": kept})
    memberships = [evidence.Membership(**row) for row in rows_of(members)]
    lists = ask(
        """
        SELECT min(seq) AS seq, text FROM answers JOIN bodies ON body = number
        WHERE code = $code AND response_code = 0 AND contains(text, '"enableActingMaster":true') GROUP BY text
        """,
        given.answers,
        code=RequestCode.GET_BROKER_CLUSTER_INFO.value,
    )
    for row in rows_of(lists):
        shown = shown_by(Question(RequestCode.GET_BROKER_CLUSTER_INFO), Answer(ResponseCode.SUCCESS, row["text"]))
        for name, group in shown.groups.items() if isinstance(shown, ShownCluster) else ():
            for broker_id, addr in group.broker_addrs if group.enable_acting_master else ():
                memberships.append(evidence.Membership(row["seq"], name, addr, broker_id))
    answers = (evidence.RouteAnswer(**row) for row in rows_of(found))
    return map(evidence.Vote._asdict, evidence.acting_master_votes(answers, memberships))


def _idle_votes(given: SettleInput) -> Iterable[Row]:
    """Read how brokers' connections ended that were silent for the default limit or longer, and which did not end."""
    tables = {
        "ends": frame(given.today, bronze.CHANNEL_EVENTS),
        "life": frame(given.today, bronze.NAMESRV_EVENTS),
        "owners": _owners(given),
    }
    early_ms, late_ms = CHANNEL_MAX_IDLE_MS - EARLY_NS // NS_PER_MS, CHANNEL_MAX_IDLE_MS + LATE_NS // NS_PER_MS
    limits = {
        "default_ms": CHANNEL_MAX_IDLE_MS,
        "early_ms": early_ms,
        "late_ms": late_ms,
        "idle_late_ms": _IDLE_LATE_MS,
    }
    return rows_of(ask(query("settle/silences"), tables, **limits))


def _expiries(given: SettleInput, ends: pa.Table, profile: Profile) -> list[evidence.Expiry]:
    """Return the same for closes of one generation, of each scan all; a process that stops closes all it has."""
    live, hours = frame(given.carried, gold.BROKER_LIVE_HISTORY), given.today["hours"]
    life = frame(given.today, bronze.NAMESRV_EVENTS)
    owned = ask(query("settle/owned"), {"ends": ends, "life": life, "owners": _owners(given)})
    if not owned.num_rows:
        return []
    spanning = ask(_SPANNING, {"owned": owned, "hours": hours}, period_us=PERIOD_US)
    single = _single_beats(given, spanning)
    found = ask(
        query("settle/expiries"),
        {"owned": owned, "hours": hours, "live": live, **single},
        with_cluster=profile.live_key_has_cluster,
        own_lease=profile.own_heartbeat_timeout,
        default_ms=BROKER_CHANNEL_EXPIRED_MS,
    )
    return [evidence.Expiry(**row) for row in rows_of(found)]


def _single_beats(given: SettleInput, asked: pa.Table) -> dict[str, pa.Table]:
    """Return single beats of addresses, each in some hours (`broker_addr`, `period`), or of others of them."""
    where = _during(pc.unique(asked["period"]).to_pylist()) & pc.field("broker_addr").isin(asked["broker_addr"])
    return {
        table.name: given.raw_beats(table.name, columns=_BEATEN[table.name], where=where)
        if asked.num_rows
        else empty(table)
        for table in BEATS
    }


def _during(periods: Iterable[int]) -> pc.Expression:
    """Return the condition that a beat took effect in one of these hours."""
    at, begins = pc.field("effect_time"), [(period * PERIOD_US, (period + 1) * PERIOD_US) for period in periods]
    spans = ((at >= pa.scalar(begin, TIMESTAMP)) & (at < pa.scalar(end, TIMESTAMP)) for begin, end in begins)
    return reduce(or_, spans, pc.scalar(False))


def _owners(given: SettleInput) -> pa.Table:
    """Return the connections of brokers."""
    tables = {"hours": given.today["hours"], "live": frame(given.carried, gold.BROKER_LIVE_HISTORY)}
    return ask(_OWNERS, tables)


_OWNERS = """
SELECT channel_id, broker_addr FROM hours WHERE kind = 'registrations' AND refusal IS NULL AND channel_id IS NOT NULL
UNION SELECT channel_id, broker_addr FROM live WHERE channel_id IS NOT NULL
"""
_SPANNING = """
SELECT DISTINCT broker_addr, first_us // $period_us AS period FROM owned JOIN hours USING (broker_addr)
WHERE first_us < close_us AND last_us >= close_us
"""
"""Where condensed beats do not tell which of them was the last before a close."""
_LAPSES = pa.schema([("broker_addr", STRING), ("beat_seq", LONG), ("from_seq", LONG), ("until_seq", LONG)])
"""Brokers, and between which positions answers are asked whether they are still there; since `beat_seq` they were."""
_SPANS = pa.schema([*_LAPSES, ("period_ns", LONG), ("tick", LONG), ("is_guess", BOOLEAN)])
"""The same with the timer of the process."""
_LEFT_OUT = pa.schema([("broker_name", STRING), ("topic", STRING), ("digests", STRINGS)])
_BEATEN = {
    bronze.HEARTBEATS.name: ("seq", "effect_time", "cluster_name", "broker_addr", "response_code"),
    bronze.REGISTRATIONS.name: (
        *("seq", "effect_time", "cluster_name", "broker_addr", "channel_id", "heartbeat_timeout_ms", "refusal"),
    ),
}


def _notification_votes(given: SettleInput) -> Iterable[Row]:
    """Read which brokers the server notified of the smallest id of their group, which it does with the option only."""
    notified = frame(given.today, bronze.NAMESRV_EVENTS).filter(pc.field("kind") == "min_broker_id_notified")
    return ({**row, "value": True} for row in rows_of(notified))


_VOTES: dict[str, Callable[[SettleInput], Iterable[Row]]] = {
    "order_message_enable": _order_message_votes,
    "support_acting_master": _acting_master_votes,
    **{name: partial(_list_votes, codes) for name, codes in _LISTS.items()},
    DELETION: _deletion_votes,
    IDLE_LIMIT: _idle_votes,
    "notify_min_broker_id_changed": _notification_votes,
    _RETURNED: _order_return_votes,
}
"""What gives the votes about a setting: rows with `seq`, `event_id`, and the `value` for which they speak."""


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
    known = _with(known, votes(given, known))
    stood, held = stalls(given), holds(given, known)
    phases, closes = scans(given, known, _ends(given, known, stood), stood, held)
    known = _with(known, phases)
    if frame(given.today, bronze.ROUTE_OBSERVATIONS).num_rows:
        asked = _context(given, known, closes, stood, held, with_hindsight=False)
        known = _with(known, evidence.count_votes(tick_votes(given, closes, asked), known.lives))
    context = _context(given, known, closes, stood, held)
    of_day = {**given.today, bronze.CHANNEL_EVENTS.name: _ends(given, known, stood)}
    return Settled(
        settings_table(known, given.namesrv_id, given.day, given.background.addresses),
        context,
        day_events(of_day, tables=OTHERS, with_answers=context.has_unknown_past),
        min(
            (s.life_seq for s in reconsidered(settle_known(known), {**known.before, **known.shown_before})),
            default=None,
        ),
    )


def _context(
    given: SettleInput,
    known: Known,
    closes: Sequence[int],
    stood: Sequence[Stall],
    held: Sequence[Hold],
    *,
    with_hindsight: bool = True,
) -> NamesrvDay:
    """Return the day as what is known has it; `with_hindsight`: with phases that a later day shows."""
    settled = [s for s in settle_known(known) if with_hindsight or not s.is_in_hindsight]
    return namesrv_day(given, namesrv_on(known, given.day), phases_of(settled), closes, stood, held)


def _ends(given: SettleInput, known: Known, stood: Sequence[Stall]) -> pa.Table:
    return under_idle_limit(given, namesrv_on(known, given.day), stood, is_given=IDLE_LIMIT in known.given)


def _with(known: Known, votes: list[Votes]) -> Known:
    return replace(known, votes=(*known.votes, *votes))


# -- how it was configured, as far as is known without its answers: what conf/ says, what it states itself ---------------


def known_settings(given: SettleInput) -> Known:
    """Return what is known of the name server's settings without its answers and closes."""
    is_one = (pc.field("code") == RequestCode.UPDATE_NAMESRV_CONFIG) & ~pc.field("one_way")
    accepted = is_one & (pc.field("response_code") == ResponseCode.SUCCESS)
    changes = (
        {**row, "kind": "changed", "properties": row["config_value"]}
        for row in rows_of(frame(given.today, bronze.ADMIN_EVENTS).filter(accepted))
    )
    facts = sorted(
        [*rows_of(frame(given.today, bronze.NAMESRV_EVENTS)), *changes],
        key=lambda fact: (fact["seq"], fact["event_id"]),
    )
    background = given.background
    before = {setting.name: setting for setting in settings_of(background.settings_before)}
    lives = _lives(facts, before, frame(given.today, bronze.ROUTE_OBSERVATIONS))
    # What this day itself has shown of a process that began before, when it may have had fewer rows.
    shown = _shown_on(given, before, lives[-1])
    # What later days show about the start of a process, and this one, if this run has settled it already.
    settled = sorted(rows_of(background.settings_later), key=lambda row: row["day"], reverse=True)
    starts = [row for row in settled if row["source"] in _SHOWN and row["from_seq"] == row["process_seq"]]
    found = [(row["day"], setting_of(row)) for row in starts]
    is_again = bool(settled) and settled[-1]["day"] == given.day
    as_before = before if is_again else {name: s for name, s in before.items() if name not in shown}
    again = {s.name: s for day, s in found if day == given.day and s.name in shown and s.life_seq == lives[0].from_seq}
    known = Known(
        lives,
        [
            statement_of(fact["seq"], fact["event_id"], fact["properties"] or "", changes=fact["kind"] == "changed")
            for fact in facts
            if fact["kind"] in ("configured", "changed")
        ],
        given=background.given,
        before={**as_before, **again},
        # The first of the later days that shows it counts. The last one knows what days show that this run has not settled.
        hindsight={
            (s.name, s.life_seq): in_hindsight(s)
            for day, s in found
            if day > given.day and (s.answers_for or day == settled[0]["day"])
        },
        shown_before=shown,
    )
    last = before.get(VERSION)
    is_carried = last is not None and last.source is not Source.GIVEN
    if not is_carried and is_open(known, VERSION):
        # A name server is of its newest broker's generation, or newer.
        column = "request_version"
        newest = pc.max(given.raw_beats(bronze.REGISTRATIONS.name, columns=[column])[column]).as_py()
        known = replace(known, fallback_version=_release(newest or 0))
    return known


def _shown_on(given: SettleInput, settings: Mapping[str, Setting], last: Life) -> dict[str, Setting]:
    """Return the settings, known in hindsight, that events of the day show; `last`: the process that goes on after it."""
    found = [s for s in settings.values() if s.is_in_hindsight]
    firsts = pa.array([s.evidence[0] for s in found], STRING)
    rows = [frame(given.today, table)["event_id"] for table in (*OTHERS, bronze.ROUTE_OBSERVATIONS)]
    if any(s.name == _RETURNED and s.source is Source.INFERRED for s in found):
        rows.append(given.raw_beats(bronze.REGISTRATIONS.name, columns=["event_id"])["event_id"])
    shown = {of for ids in rows for of in ids.filter(pc.is_in(ids, value_set=firsts)).to_pylist()}
    return {s.name: s for s in found if s.evidence[0] in shown or s.life_seq != last.from_seq}


def is_open(known: Known, name: str) -> bool:
    """Return whether no day shows setting `name`."""
    return any(setting.name == name and setting.source.is_open for setting in settle_known(known))


def phases_of(settings: Iterable[Setting]) -> dict[int, int]:
    """Return the phases of scans (microseconds after a multiple of the period) by the start of the process."""
    return {setting.life_seq: int(setting.value or 0) for setting in settings if setting.name == SCAN_PHASE}


def settings_table(known: Known, namesrv_id: str, day: dt.date, addresses: pa.Table) -> pa.Table:
    """Return the rows of `namesrv_settings`. `addresses`: rows of that table that name it; several addresses are one row."""
    settings = settle_known(known)
    if others := sorted(row["namesrv_addr"] for row in rows_of(addresses) if row["namesrv_id"] == namesrv_id):
        value = ", ".join([namesrv_id, *others])
        settings.append(Setting(ADDRESSES, value, Source.GIVEN, 0, 0, value))
    return table_of(setting_rows(settings, namesrv_id), gold.NAMESRV_SETTINGS, day=day)


def settings_of(rows: pa.Table) -> list[Setting]:
    """Return the settings of one day and name server with which it is replayed, in order, of rows of `namesrv_settings`."""
    ordered = sorted(rows_of(rows), key=lambda row: (row["from_seq"], row["setting"]))
    return [setting_of(row) for row in ordered if row["setting"] != ADDRESSES]


def under_idle_limit(given: SettleInput, namesrv: Namesrv, stalls: Iterable[Stall], *, is_given: bool) -> pa.Table:
    """Return the day's ends of connections as the idle limits of `namesrv` have them, in order.

    `stalls`: when the name server was frozen on it; `is_given`: by conf/.

    Captures are read with the default limit or the one given. Where it turns out to be longer, what the timer is taken
    to have done did not happen, and the packet that came later was the end. Where it is shorter, a connection that was
    silent for longer had ended when the limit did, and the packet that showed it was lost.
    """
    channel_events = frame(given.today, bronze.CHANNEL_EVENTS)
    # A connection keeps the limit with which it was opened.
    limits = [
        {"from_seq": seq, "until_seq": until_seq, "limit_ms": one.config.channel_max_idle_ms}
        for seq, until_seq, one in namesrv.spans
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


def _release(version: int) -> str:
    """Return the release that a protocol version means, or that by whose rules it is replayed."""
    name = version_name(version)
    return name if name[:2] in ("4.", "5.") else profile_of_version(version).name


# -- stalls: what had arrived lay there, and nothing left it -----------------------------------------------------------

_ASKED = (bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)
_ANSWERED = pa.schema([("arrival_seq", LONG), ("seq", LONG)])


def stalls(given: SettleInput) -> list[Stall]:
    """Return the times of a second or longer in which a beat waited and the name server sent nothing to anybody.

    That somebody else waits for his answer proves nothing: he may be slow to take it.
    """
    if (pc.max(given.today["hours"]["lag_ns"]).as_py() or 0) < STALL_NS:
        return []
    answered = pc.field("response_code").is_valid()
    columns = ["seq", "event_time", "response_code"]
    beats = [given.raw_beats(table.name, columns=columns, where=answered) for table in BEATS]
    requests = [_answered(rows) for rows in (*(frame(given.today, t).filter(answered) for t in _ASKED), *beats)]
    tables = {
        "requests": pa.concat_tables([_ANSWERED.empty_table(), *requests]),
        "beats": pa.concat_tables([_ANSWERED.empty_table(), *map(_answered, beats)]),
        "observed": frame(given.today, bronze.ROUTE_OBSERVATIONS),
        "ends": frame(given.today, bronze.CHANNEL_EVENTS),
    }
    return [Stall(**row) for row in rows_of(ask(query("settle/stalls"), tables, stall_ns=STALL_NS))]


def _answered(rows: pa.Table) -> pa.Table:
    arrival = pc.multiply(pc.cast(rows["event_time"], LONG), NS_PER_US)
    return pa.table([arrival, rows["seq"]], schema=_ANSWERED)


# -- holds: somebody had the lock of the tables ------------------------------------------------------------------------

_EVERY_NS = 60_000 * NS_PER_MS
"""A broker registers as often at least. Source: RocketMQ 5.4.0 BrokerController.start, registerNameServerPeriod."""
_LOCKING = [*LIST_CODES, RequestCode.GET_ROUTEINFO_BY_TOPIC]


def holds(given: SettleInput, known: Known) -> list[Hold]:
    """Return the times in which the tables were locked for long, as shown by registrations that waited; 5.x only.

    To notify a broker of a new smallest id, it connects to it under the lock, for up to three seconds, or longer if it has to
    look up a name. Unregistrations are answered meanwhile, and applied after that. Who has the lock may show nowhere: it may be a
    removal, or a request whose connection ended.

    Source: RocketMQ 5.2.0 and 5.4.0 RouteInfoManager.notifyMinBrokerIdChanged.
    """
    spans = [span for span in namesrv_on(known, given.day).spans if span[2].profile.batches_unregistrations]
    late = given.today["hours"].filter(
        (pc.field("kind") == bronze.REGISTRATIONS.name) & (pc.field("lag_ns") > REMOVAL_LAG_NS)
    )
    if not spans or not late.num_rows:
        return []
    periods = pc.unique(pc.divide(late["first_us"], PERIOD_US)).to_pylist()
    rows = given.raw_beats(
        bronze.REGISTRATIONS.name, columns=["seq", "event_time", "response_code"], where=_during(periods)
    )
    tables = {
        "registered": _answered(rows).append_column("answered", pc.is_valid(rows["response_code"])),
        "observed": frame(given.today, bronze.ROUTE_OBSERVATIONS),
        "unregistrations": frame(given.today, bronze.UNREGISTRATIONS),
        "ends": frame(given.today, bronze.CHANNEL_EVENTS),
        "hours": given.today["hours"],
    }
    refused = ResponseCode.SYSTEM_ERROR.value
    values = {"lag_ns": REMOVAL_LAG_NS, "every_ns": _EVERY_NS, "locking": _LOCKING, "refused": refused}
    found: list[Hold] = []
    for row in rows_of(ask(query("settle/holds"), tables, **values)):
        hold = Hold(**row)
        if not any(seq <= hold.from_seq and (until is None or hold.from_seq < until) for seq, until, _ in spans):
            continue
        if found and hold.from_seq <= found[-1].until_seq + LAG_NS:  # who waited may have missed the moment between
            hold = Hold(found[-1].from_seq, max(found.pop().until_seq, hold.until_seq))
        found.append(hold)
    return found
