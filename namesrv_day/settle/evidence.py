"""What speaks for a setting while it is open: answers and closes that only one of its values explains, as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import or_
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference import evidence
from namesrv_core.inference.settings import SCAN_PHASE, VERSION, Known, Votes
from namesrv_core.inference.settle import settle
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, Namesrv, Profile, profile_named
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG
from namesrv_day.arrow.rows import empty, rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import SettleInput, frame
from namesrv_day.day.day_events import BEATS
from namesrv_day.hours.condense import PERIOD_US
from namesrv_day.settle.settings import namesrv_on
from schemas import bronze, gold
from schemas.sql_files import query
from schemas.table import LONG, STRING, TIMESTAMP

_TOPICS = pa.schema([("topic", STRING)])
_LISTS = {"enable_all_topic_list": (206,), "enable_topic_list": (224, 311, 312, 313)}
"""The switches for lists of topics, and the questions for these."""
_LAST_SEQ = (1 << 63) - 1


def votes(given: SettleInput, known: Known) -> list[Votes]:
    """Return what the day's answers and closes say, read as they are, about the settings that are open."""
    wanted = {setting.name for setting in settle(known) if setting.source.is_open}
    cast = [vote for name, votes_of in _VOTES.items() if name in wanted for vote in votes_of(given)]
    return evidence.tally(cast, known.lives, known.statements)


class Scans(NamedTuple):
    """What a day's closes say about when processes scan, and where they stand (the first of each scan)."""

    votes: list[Votes]
    closes: list[int]


def scans(given: SettleInput, known: Known, ends: pa.Table) -> Scans:
    """Return what closes of brokers' connections say about when each process scans. `ends`: the day's channel_events."""
    closes = scan_closes(given, ends, namesrv_on(known, given.day))
    told: dict[int, list[evidence.Expiry]] = {life.from_seq: [] for life in known.lives}
    for expiry in closes:
        told[evidence.life_seq([*told], expiry.seq)].append(expiry)
    settings = {(s.life_seq, s.name): s.value for s in settle(known)}
    cast = list[evidence.Vote]()
    for life_seq, expiries in told.items():
        default_ms = profile_named(str(settings[life_seq, VERSION])).scan_period_ms
        period_ms, phase_us = (
            settings.get((life_seq, "scan_period_ms"), default_ms),
            settings.get((life_seq, SCAN_PHASE)),
        )
        cast += evidence.scan_phase_votes(expiries, int(period_ms or 0), None if phase_us is None else int(phase_us))
    return Scans(evidence.tally(cast, known.lives), [expiry.seq for expiry in closes])


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


def answers_of(given: SettleInput) -> dict[str, pa.Table]:
    """Return the day's `answers` with numbers as bodies, and the `bodies`, each once: most are told again and again."""
    answers = frame(given.today, bronze.ROUTE_OBSERVATIONS)
    bodies = answers["body"] if pa.types.is_dictionary(answers["body"].type) else answers["body"].dictionary_encode()
    once = bodies.unify_dictionaries().combine_chunks()
    numbered = answers.set_column(answers.schema.get_field_index("body"), "body", once.indices.cast(LONG))
    texts = once.dictionary
    return {"answers": numbered, "bodies": pa.table({"number": pa.array(range(len(texts)), LONG), "text": texts})}


def _list_votes(name: str, codes: Sequence[int], given: SettleInput) -> Iterable[evidence.Vote]:
    """Read whether questions for lists of topics were refused: then their switch is off."""
    rows = ask(
        """
        SELECT seq, event_id, response_code = 0 AS is_on FROM answers
        WHERE code IN $codes AND (response_code = 0 OR response_code = 1 AND remark = 'disable')
        """,
        answers_of(given),
        codes=list(codes),
    )
    return (evidence.Vote(name, row["is_on"], row["seq"], row["event_id"]) for row in rows_of(rows))


def _order_message_votes(given: SettleInput) -> Iterable[evidence.Vote]:
    """Read the topics' order configurations, and the routes of such topics or with an order configuration."""
    kept = frame(given.carried, gold.KV_CONFIG_HISTORY)
    requests = frame(given.today, bronze.ADMIN_EVENTS)
    confs = ask(query("settle/order_confs"), {"requests": requests, "kept": kept}, namespace=ORDER_TOPIC_CONFIG)
    answers = _routes(given, """contains(text, '"orderTopicConf"')""", confs)
    return evidence.order_message_votes(answers, (evidence.OrderConf(**row) for row in rows_of(confs)))


def _acting_master_votes(given: SettleInput) -> Iterable[evidence.Vote]:
    """Read routes of groups that allow acting masters, without a write bit, and who is a member of such a group."""
    which = """contains(text, '"enableActingMaster":true') AND regexp_matches(text, '"perm":[0145][,}]')"""
    answers = _routes(given, which, _TOPICS.empty_table())
    if not answers:
        return ()
    kept = frame(given.carried, gold.BROKER_ADDR_HISTORY)
    members = ask(query("settle/members"), {"hours": given.today["hours"], "kept": kept})
    return evidence.acting_master_votes(answers, [evidence.Membership(**row) for row in rows_of(members)])


def _routes(given: SettleInput, which: str, others: pa.Table) -> list[evidence.RouteAnswer]:
    """Return the day's answers with a route of whose body the condition `which` holds, or of the topics of `others`."""
    tables = answers_of(given)
    found = ask(
        f"""
        SELECT event_id, request_seq, seq, subject AS topic, body FROM answers
        WHERE code = 105 AND response_code = 0 AND body IS NOT NULL
            AND (body IN (SELECT number FROM bodies WHERE {which}) OR subject IN (SELECT topic FROM others))
        """,  # noqa: S608  conditions of this module
        {**tables, "others": others},
    )
    numbers = pc.unique(found["body"])
    texts = dict(zip(numbers.to_pylist(), tables["bodies"]["text"].take(numbers).to_pylist(), strict=True))
    return [evidence.RouteAnswer(**{**row, "body": texts[row["body"]]}) for row in rows_of(found)]


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
    at = pc.field("effect_time")
    begins = [(period * PERIOD_US, (period + 1) * PERIOD_US) for period in pc.unique(asked["period"]).to_pylist()]
    spans = ((at >= pa.scalar(begin, TIMESTAMP)) & (at < pa.scalar(end, TIMESTAMP)) for begin, end in begins)
    where = reduce(or_, spans, pc.scalar(False)) & pc.field("broker_addr").isin(asked["broker_addr"])
    return {
        table.name: given.raw_beats(table.name, columns=_BEATEN[table.name], where=where)
        if asked.num_rows
        else empty(table)
        for table in BEATS
    }


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


_VOTES: dict[str, Callable[[SettleInput], Iterable[evidence.Vote]]] = {
    "order_message_enable": _order_message_votes,
    "support_acting_master": _acting_master_votes,
    "notify_min_broker_id_changed": _notification_votes,
    **{name: partial(_list_votes, name, codes) for name, codes in _LISTS.items()},
}
"""What gives the votes about a setting."""
