"""Whether anything of a name server's day may have raced: found without reading its single beats."""

from __future__ import annotations

from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.races import LAG_NS, REMOVAL_LAG_NS
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.rows import rows_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import SettleInput, frame
from namesrv_day.day.day_events import day_events
from schemas import bronze, gold
from schemas.sql_files import query

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
