"""What speaks for a setting while it is open: answers and closes of a day that only one of its values explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference import evidence, ticks
from namesrv_core.inference.races import Day
from namesrv_core.inference.settings import SCAN_PHASE, VERSION, Known, Value, Votes, namesrv_of
from namesrv_core.inference.settle import settle
from namesrv_core.machine.events import RegisterBroker
from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, CHANNEL_MAX_IDLE_MS, Namesrv, Profile, profile_named
from namesrv_core.machine.rows import TopicTable
from namesrv_core.machine.schedule import TICK_LATE_NS, BoundedSchedule, Stall
from namesrv_core.replay.loop import TimedEvent
from namesrv_day.arrow.rows import empty, rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import SettleInput, frame
from namesrv_day.day.day_events import BEATS
from namesrv_day.day.timed import topic_tables_of
from namesrv_day.hours.condense import PERIOD_US
from namesrv_day.settle.races import Replayable, in_periods
from namesrv_day.settle.settings import DELETION, IDLE_LIMIT, namesrv_on
from namesrv_day.settle.stalls import stalls
from namesrv_wire.streams.closing import EARLY_NS, LATE_NS
from schemas import bronze, gold
from schemas.sql_files import query

_VotesOf: TypeAlias = "dict[str, Callable[[SettleInput], Iterable[evidence.Vote]]]"
_LISTS = (206, 224, 311, 312, 313)
_PERIOD = "scan_period_ms"
_LAST_SEQ = (1 << 63) - 1


def votes(given: SettleInput, known: Known) -> list[Votes]:
    """Return what the day's answers and closes say, read as they are, about the settings that are open."""
    wanted = {setting.name for setting in settle(known) if setting.source.is_open}
    asked = _VOTES if frame(given.today, bronze.ROUTE_OBSERVATIONS).num_rows else _VOTES_WITHOUT_ANSWERS
    cast = [vote for name, votes_of in asked.items() if name in wanted for vote in votes_of(given)]
    return evidence.tally(cast, known.lives, known.statements)


class Scans(NamedTuple):
    """What a day's closes say about the scan's period and phase, where they stand (the first of each scan), and stalls."""

    votes: list[Votes]
    closes: list[int]
    stalls: list[Stall]


def scans(given: SettleInput, known: Known, ends: pa.Table) -> Scans:
    """Return what closes of brokers' connections say about when each process scans. `ends`: the day's channel_events."""
    closes, stood = scan_closes(given, ends, namesrv_on(known, given.day)), stalls(given)
    told: dict[int, list[evidence.Expiry]] = {life.from_seq: [] for life in known.lives}
    for expiry in closes:
        # Ticks that a stall has held up are made at its end, and say nothing of the timer.
        if not any(stall.from_seq <= expiry.seq <= stall.until_seq + TICK_LATE_NS for stall in stood):
            told[evidence.life_seq([*told], expiry.seq)].append(expiry)
    settings = {(s.life_seq, s.name): s for s in settle(known)}
    profiles = {life_seq: profile_named(str(settings[life_seq, VERSION].value)) for life_seq in told}
    cast = [
        vote
        for life_seq, expiries in told.items()
        if (period := settings.get((life_seq, _PERIOD))) is not None and period.source.is_open
        for vote in evidence.scan_period_votes(expiries, profiles[life_seq].scan_period_ms)
    ]
    of_period = evidence.tally(cast, known.lives, known.statements)
    settings |= {(s.life_seq, s.name): s for s in settle(replace(known, votes=[*known.votes, *of_period]))}
    cast = []
    for life_seq, expiries in told.items():
        period, phase = (settings.get((life_seq, name)) for name in (_PERIOD, SCAN_PHASE))
        period_ms = profiles[life_seq].scan_period_ms if period is None else int(period.value or 0)
        cast += evidence.scan_phase_votes(expiries, period_ms, None if phase is None else int(phase.value or 0))
    return Scans([*of_period, *evidence.tally(cast, known.lives)], [expiry.seq for expiry in closes], stood)


def scan_closes(given: SettleInput, ends: pa.Table, namesrv: Namesrv) -> list[evidence.Expiry]:
    """Return the closes by the server, of connections that were not idle, over which a broker's ended lease was held.

    The first of each scan, in order. `ends`: the day's channel_events. A stranger's connection has no lease.
    """
    begins = [(0, namesrv), *namesrv.later]
    stretches = zip(begins, [*(seq for seq, _ in namesrv.later), _LAST_SEQ], strict=True)
    return evidence.first_of_scans(
        expiry
        for (from_seq, one), until_seq in stretches
        for expiry in _expiries(
            given, ends.filter((pc.field("seq") >= from_seq) & (pc.field("seq") < until_seq)), one.profile
        )
    )


def weighed_deletion(known: Known, day: Day) -> list[Votes]:
    """Return what the answers say about topics that a registration leaves out: deleted or not, in two replays of `day`."""
    settled = settle(known)

    def under(value: Value) -> Day:
        assumed = [s._replace(value=value) if s.name == DELETION and s.source.is_open else s for s in settled]
        return day._replace(namesrv=namesrv_of(assumed, day.from_seq))

    return _weighed(DELETION, known, {value: under(value) for value in (False, True)})


def weighed_idle_limit(known: Known, channel_events: pa.Table, day: Day) -> list[Votes]:
    """Return what the answers say about the default idle limit and a longer one, in two replays of `day`.

    With a longer one the timer did nothing, and late packets were ends. `channel_events`: as recorded; `day` has them all.
    """
    late, timed = pc.field("kind") == "late_close", pc.field("closed_by") == "timer"
    silences = [_silence({**row, "how": "closed_late"}) for row in rows_of(channel_events.filter(late))]

    def without(ends: pc.Expression) -> Day:
        ids = set(channel_events.filter(ends)["event_id"].to_pylist())
        return day._replace(timed_events=[timed for timed in day.timed_events if timed.event_id not in ids])

    limits: dict[Value, Day] = {CHANNEL_MAX_IDLE_MS: without(late), evidence.longer_limit(silences): without(timed)}
    return _weighed(IDLE_LIMIT, known, limits)


def weighed_phase(known: Known, day: Replayable, closes: Sequence[int]) -> list[Votes]:
    """Return what the answers say about when scans ran, in two replays of `day`, if some did that none of the `closes` shows."""
    if all(removal.seq + 1 in closes for removal in day.asked(ticks.removals_of)):
        return []
    early, late = (day.under(BoundedSchedule(day.context.schedule, late=is_late)) for is_late in (False, True))
    told = early.asked(lambda one: late.asked(lambda other: sorted(ticks.told_by_answers(one, other))))
    starts = [life.from_seq for life in known.lives]
    by_life = groupby(told, key=lambda one: evidence.life_seq(starts, one.from_seq))
    of_lives = ([*own] for _, own in by_life)
    timed = ((own, day.context.schedule.timer_at(own[0].from_seq)) for own in of_lives)
    cast = [vote for own, timer in timed if timer is not None for vote in ticks.phase_votes(own, timer)]
    return evidence.tally(cast, known.lives)


def _weighed(name: str, known: Known, days: Mapping[Value, Day]) -> list[Votes]:
    return evidence.tally(evidence.weighed_votes(name, days), known.lives, known.statements)


def closes_late(given: SettleInput) -> bool:
    """Return whether a packet ended a connection after the default idle limit."""
    return bool(frame(given.today, bronze.CHANNEL_EVENTS).filter(pc.field("kind") == "late_close").num_rows)


def loses_topics(given: SettleInput) -> bool:
    """Return whether a registration leaves out a topic that an earlier one of its broker name had."""
    tables = ask(query("settle/topic_tables"), {"hours": given.today["hours"]})
    if not tables.num_rows:
        return False
    listed = topic_tables_of(given.topic_configs(pc.unique(tables["topic_config_digest"])))
    # The first and the last registration with a table tell as much as all of them.
    registered = [
        TimedEvent(row[at], "", 0, _registration(row["broker_name"], listed[row["topic_config_digest"]]))
        for row in rows_of(tables)
        for at in ("first_seq", "last_seq")
    ]
    return evidence.loses_topics(sorted(registered, key=lambda timed: timed.seq))


def _registration(broker_name: str | None, topics: TopicTable) -> RegisterBroker:
    return RegisterBroker(None, None, broker_name, 0, None, None, topics, None, None)


def _list_votes(codes: Iterable[int], given: SettleInput) -> Iterable[evidence.Vote]:
    """Read whether questions for lists of topics were refused."""
    rows = ask(
        """
        SELECT seq, event_id, code, response_code = 1 AS disabled FROM answers
        WHERE code IN $codes AND (response_code = 0 OR response_code = 1 AND remark = 'disable')
        """,
        {"answers": frame(given.today, bronze.ROUTE_OBSERVATIONS)},
        codes=list(codes),
    )
    return evidence.topic_list_votes(
        evidence.ListAnswer(row["seq"], row["event_id"], row["code"] == _LISTS[0], row["disabled"])
        for row in rows_of(rows)
    )


def _order_message_votes(given: SettleInput) -> Iterable[evidence.Vote]:
    """Read the topics' order configurations, and the routes of such topics or with an order configuration."""
    kept = frame(given.carried, gold.KV_CONFIG_HISTORY)
    requests = frame(given.today, bronze.ADMIN_EVENTS)
    confs = ask(query("settle/order_confs"), {"requests": requests, "kept": kept}, namespace=ORDER_TOPIC_CONFIG)
    answers = _routes(given, """contains(body, '"orderTopicConf"') OR subject IN (SELECT topic FROM rows)""", confs)
    return evidence.order_message_votes(answers, (evidence.OrderConf(**row) for row in rows_of(confs)))


def _acting_master_votes(given: SettleInput) -> Iterable[evidence.Vote]:
    """Read routes of groups that allow acting masters, without a write bit, and who is a member of such a group."""
    which = """contains(body, '"enableActingMaster":true') AND regexp_matches(body, '"perm":[0145][,}]')"""
    answers = _routes(given, which)
    if not answers:
        return ()
    kept = frame(given.carried, gold.BROKER_ADDR_HISTORY)
    members = ask(query("settle/members"), {"hours": given.today["hours"], "kept": kept})
    return evidence.acting_master_votes(answers, [evidence.Membership(**row) for row in rows_of(members)])


def _routes(given: SettleInput, which: str, rows: pa.Table | None = None) -> list[evidence.RouteAnswer]:
    """Return the day's answers with a route of which the condition `which` holds; it may read `rows`."""
    answers = ask(
        f"""
        SELECT event_id, request_seq, seq, subject AS topic, body FROM answers
        WHERE code = 105 AND response_code = 0 AND ({which})
        """,  # noqa: S608  conditions of this module
        {"answers": frame(given.today, bronze.ROUTE_OBSERVATIONS)} | ({} if rows is None else {"rows": rows}),
    )
    return [evidence.RouteAnswer(**row) for row in rows_of(answers) if row["body"] is not None]


def _idle_votes(given: SettleInput) -> Iterable[evidence.Vote]:
    """Read how brokers' connections ended that were silent for the default limit or longer, and which did not end."""
    early_ms, late_ms = CHANNEL_MAX_IDLE_MS - EARLY_NS // NS_PER_MS, CHANNEL_MAX_IDLE_MS + LATE_NS // NS_PER_MS
    tables = {
        "ends": frame(given.today, bronze.CHANNEL_EVENTS),
        "life": frame(given.today, bronze.NAMESRV_EVENTS),
        "owners": _owners(given),
    }
    rows = ask(query("settle/silences"), tables, early_ms=early_ms, late_ms=late_ms)
    return evidence.idle_limit_votes([_silence(row) for row in rows_of(rows)], CHANNEL_MAX_IDLE_MS)


def _silence(row: Mapping[str, Any]) -> evidence.Silence:
    return evidence.Silence(row["seq"], row["event_id"], row["silent_ms"] or 0, row["how"])


def _expiries(given: SettleInput, ends: pa.Table, profile: Profile) -> list[evidence.Expiry]:
    """Return the same for closes of one generation, of each scan all; a process that stops closes all it has."""
    live, hours = frame(given.carried, gold.BROKER_LIVE_HISTORY), given.today["hours"]
    life = frame(given.today, bronze.NAMESRV_EVENTS)
    owned = ask(query("settle/owned"), {"ends": ends, "life": life, "owners": _owners(given)})
    if not owned.num_rows:
        return []
    spanning = ask(_SPANNING, {"owned": owned, "hours": hours}, period_us=PERIOD_US)
    asked = pc.field("broker_addr").isin(spanning["broker_addr"]) & in_periods(
        pc.unique(spanning["period"]).to_pylist()
    )
    single = {
        table.name: given.raw_beats(table.name, columns=_BEATEN[table.name], where=asked)
        if spanning.num_rows
        else empty(table)
        for table in BEATS
    }
    found = ask(
        query("settle/expiries"),
        {"owned": owned, "hours": hours, "live": live, **single},
        with_cluster=profile.live_key_has_cluster,
        own_lease=profile.own_heartbeat_timeout,
        default_ms=BROKER_CHANNEL_EXPIRED_MS,
    )
    return [evidence.Expiry(**row) for row in rows_of(found)]


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
_BEATEN = {
    bronze.HEARTBEATS.name: ("seq", "effect_time", "cluster_name", "broker_addr", "response_code"),
    bronze.REGISTRATIONS.name: (
        *("seq", "effect_time", "cluster_name", "broker_addr", "channel_id", "heartbeat_timeout_ms", "refusal"),
    ),
}


def _notification_votes(given: SettleInput) -> Iterable[evidence.Vote]:
    """Read what the server told brokers of the smallest id of their group, which it does with the option only."""
    told = frame(given.today, bronze.NAMESRV_EVENTS).filter(pc.field("kind") == "min_broker_id_notified")
    return (evidence.Vote("notify_min_broker_id_changed", True, r["seq"], r["event_id"]) for r in rows_of(told))


_VOTES_WITHOUT_ANSWERS: _VotesOf = {
    IDLE_LIMIT: _idle_votes,
    "notify_min_broker_id_changed": _notification_votes,
}
_VOTES: _VotesOf = {
    "order_message_enable": _order_message_votes,
    "support_acting_master": _acting_master_votes,
    "enable_all_topic_list": partial(_list_votes, _LISTS[:1]),
    "enable_topic_list": partial(_list_votes, _LISTS[1:]),
    **_VOTES_WITHOUT_ANSWERS,
}
"""What gives the votes about a setting."""
