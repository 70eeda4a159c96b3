"""Registrations of which the wire does not show whether they came before the end of their connection.

The name server handles requests in one pool of threads and ends of connections in another. A registration without response is
taken to come just before the end of its connection, which takes its broker out. Behind it, the broker stays; and one that another
connection brought meanwhile goes with it if that came first. Answers tell, in which the broker stands or no longer does.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.arrow.rows import empty, rows_of, table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import SettleInput, frame
from namesrv_day.day.day_events import MOVES
from namesrv_day.settle.evidence import answers_of
from schemas import bronze, gold
from schemas.sql_files import query

LAG_NS = 10_000_000
"""A connection's end this close after a request races with it. Measured: one-way requests within 2 ms of a close."""
_LOOKED_BACK_NS = 120_000_000_000
_LONGEST_NS = 600_000_000_000
_COLUMNS = ("seq", "event_id", "event_time", "effect_time", "response_code", "broker_addr", "channel_id")


class Decisions(NamedTuple):
    """Rows of order_decisions, and the events that take effect elsewhere than recorded (`day_events.MOVES`)."""

    order_decisions: pa.Table
    moves: pa.Table


def decisions(given: SettleInput, ends: pa.Table, until_seq: int) -> Decisions:
    """Return what the answers say of the day's races. `ends`: its channel_events; `until_seq`: the end of what is known.

    The order that more of them show is taken; where nothing speaks for another one, the order that was recorded.
    """
    found, moves, told = [], [], defaultdict[int, list[dict[str, Any]]](list)
    races = _races(given, ends, until_seq)
    if races.num_rows:
        spans = races.select(["broker_addr", "beat_seq", "from_seq", "until_seq"])
        for seen in rows_of(ask(query("settle/standing"), {"spans": spans, **answers_of(given)})):
            told[seen["from_seq"]].append(seen)
    for race in rows_of(races):
        # Whom a registration over another connection brought in behind the end stays.
        stays = race["later_id"] is not None
        says = [[one["event_id"] for one in told[race["from_seq"]] if one["stands"] == it] for it in (stays, not stays)]
        chosen = int(len(says[1]) > len(says[0]))
        if chosen:
            to = (race["later_id"], race["seq"] - 1) if stays else (race["event_id"], race["close_seq"] + 1)
            moves.append(dict(zip(MOVES.names, to, strict=True)))
        found.append(_decision(race, chosen, says[chosen], says[1 - chosen]))
    same = {"namesrv_id": given.namesrv_id, "day": given.day}
    return Decisions(table_of(found, gold.ORDER_DECISIONS, **same), pa.Table.from_pylist(moves, schema=MOVES))


def _races(given: SettleInput, ends: pa.Table, until_seq: int) -> pa.Table:
    near = ask(_NEAR, {"hours": given.today["hours"], "ends": ends}, lag_us=LAG_NS // NS_PER_US + 1)
    raced = empty(bronze.REGISTRATIONS).select(_COLUMNS)
    registrations, unanswered = raced, raced
    if near.num_rows:
        where = pc.field("channel_id").isin(near["channel_id"].combine_chunks()) & ~pc.field("response_code").is_valid()
        unanswered = given.raw_beats(bronze.REGISTRATIONS.name, columns=_COLUMNS, where=where)
    if unanswered.num_rows:
        first_seq, last_seq = pc.min(unanswered["seq"]).as_py(), pc.max(unanswered["seq"]).as_py() + _LONGEST_NS
        where = pc.field("broker_addr").isin(pc.unique(unanswered["broker_addr"]))
        where &= (pc.field("seq") >= first_seq) & (pc.field("seq") <= last_seq)
        registrations = given.raw_beats(bronze.REGISTRATIONS.name, columns=_COLUMNS, where=where)
    tables = {
        "unanswered": unanswered,
        "registrations": registrations,
        "ends": ends,
        "unregistrations": frame(given.today, bronze.UNREGISTRATIONS),
        "life": frame(given.today, bronze.NAMESRV_EVENTS),
    }
    limits = {"lag_ns": LAG_NS, "looked_back_ns": _LOOKED_BACK_NS, "longest_ns": _LONGEST_NS, "until_seq": until_seq}
    return ask(query("settle/races"), tables, **limits)


_NEAR = """
SELECT DISTINCT channel_id FROM hours JOIN ends USING (channel_id)
WHERE hours.kind = 'registrations' AND seq // 1000 BETWEEN last_us AND last_us + $lag_us
"""


def _decision(race: Mapping[str, Any], chosen: int, said_for: list[str], said_against: list[str]) -> dict[str, Any]:
    kind, ids, channels = "register_and_close", [race["event_id"], race["close_id"]], [race["channel_id"]]
    alternatives = ["the registration, then the close", "the close, then the registration"]
    if race["later_id"] is not None:
        kind, ids = "overlapping_requests", [race["event_id"], race["later_id"]]
        alternatives = ["in the order of their responses", "the other way round"]
        channels = sorted([*channels, race["later_channel"]])
    return {
        "decision_id": hashlib.sha256(" ".join((kind, *ids)).encode()).hexdigest()[:32],
        "kind": kind,
        "effect_time": race["effect_us"],
        "channel_ids": channels,
        "event_ids": ids,
        "alternatives": alternatives,
        "chosen": chosen,
        "answers_for": len(said_for),
        "answers_against": len(said_against),
        "evidence_for": sorted(said_for),
        "evidence_against": sorted(said_against),
    }
