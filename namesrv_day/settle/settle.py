"""Settle what the replay of a name server's day starts from: its settings, its schedule, and the order of what raced."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.settings import Known, Votes
from namesrv_core.inference.settle import reconsidered
from namesrv_core.inference.settle import settle as settled_of
from namesrv_core.machine.profile import Namesrv
from namesrv_day.day.context import NamesrvDay, SettleInput, Ticks, known_until, namesrv_day
from namesrv_day.settle import evidence
from namesrv_day.settle.races import Decisions, decisions
from namesrv_day.settle.settings import (
    IDLE_LIMIT,
    known_settings,
    namesrv_on,
    phases_of,
    settings_table,
    under_idle_limit,
)

__all__ = ("SettleInput", "Settled", "settle")


@dataclass(frozen=True)
class Settled:
    """What is settled of one name server's day.

    `settings`: its rows of namesrv_settings; `channel_events`: the day's ends of connections as they are to be replayed;
    `decisions`: what answers say of the order of events that the wire does not show.
    `reconsidered_since`: the position since which earlier days were replayed with a value that turns out wrong; None: never.
    """

    settings: pa.Table
    context: NamesrvDay
    channel_events: pa.Table
    decisions: Decisions
    reconsidered_since: int | None

    @property
    def namesrv(self) -> Namesrv:
        """Return the name server as it was when the day began, with what it became later."""
        return self.context.namesrv


def settle(given: SettleInput) -> Settled:
    """Return what is settled of the day. Each setting has its likeliest value; nothing is replayed to find it."""
    known = known_settings(given)
    known = _with(known, evidence.votes(given, known))
    ends = under_idle_limit(given, namesrv_on(known, given.day), is_given=IDLE_LIMIT in known.given)
    scans = evidence.scans(given, known, ends)
    known = _with(known, scans.votes)
    settings = settled_of(known)
    until_seq = known_until(given, pc.max(given.today["hours"]["last_us"]).as_py())
    ticks = Ticks(phases_of(settings), scans.closes)
    return Settled(
        settings_table(known, given.namesrv_id, given.day, given.addresses),
        namesrv_day(given, namesrv_on(known, given.day), ticks, until_seq),
        ends,
        decisions(given, ends, until_seq),
        min((setting.life_seq for setting in reconsidered(settings, known.before)), default=None),
    )


def _with(known: Known, votes: list[Votes]) -> Known:
    return replace(known, votes=(*known.votes, *votes))
