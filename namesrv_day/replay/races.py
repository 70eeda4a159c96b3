"""A day's races for the core, which decides them by the day's answers while it replays the events."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.verification import Observed
from namesrv_core.inference.decisions import Decided, Deciding, Placed
from namesrv_core.inference.races import Day
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.registry import Registry
from namesrv_core.replay.loop import TimedEvent
from namesrv_day.arrow.rows import distinct, empty, rows_of, table_of
from namesrv_day.day.context import NamesrvDay
from namesrv_day.day.day_events import observation_rows
from schemas import codec, gold
from schemas.table import LONG, STRING, struct_of

MOVES = pa.schema(
    [("event_id", STRING), ("seq", LONG), ("looked_up", struct_of(cluster_name=STRING, broker_addr=STRING))]
)
"""Columns of events that take effect elsewhere than recorded."""
_PLACE = ("event_id", "request_seq", "seq")


class Decisions(NamedTuple):
    """Rows of order_decisions, and the events that they move (`MOVES`)."""

    order_decisions: pa.Table
    moves: pa.Table


NO_DECISIONS = Decisions(empty(gold.ORDER_DECISIONS), MOVES.empty_table())
"""What there is to say about a day on which nothing raced."""


def day_for_races(
    context: NamesrvDay, start: Registry, timed_events: Sequence[TimedEvent], requests: pa.Table, observations: pa.Table
) -> Day:
    """Return a day for the core.

    `start`: the registry with which it begins; `requests`: those among its events, with the columns of `day_events`;
    `observations`: its rows of route_observations.
    """
    ids = requests["event_id"].to_pylist()
    received = pc.multiply(requests["received_us"], NS_PER_US).to_pylist()
    return Day(
        lambda: start,
        timed_events,
        dict(zip(ids, received, strict=True)),
        frozenset(requests.filter(pc.field("arrival_us").is_valid())["event_id"].to_pylist()),
        Observations(observations),
        context.namesrv,
        context.schedule,
        context.namesrv_id,
        context.until_seq,
        context.from_seq - 1,
    )


def decisions_of(deciding: Deciding, namesrv_id: str, date: dt.date) -> Decisions:
    """Return what is decided of a day's races."""
    return Decisions(
        table_of(map(_decision_row, deciding.decided), gold.ORDER_DECISIONS, namesrv_id=namesrv_id, day=date),
        pa.Table.from_pylist([_move_row(event) for event in deciding.placed], schema=MOVES),
    )


class Observations(Sequence[Observed]):
    """The answers in order of (seq, event_id). They are made when the first is asked for; of a day there are millions."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows`: of `route_observations`, in any order."""
        self._rows = rows

    def __len__(self) -> int:
        return len(self._observed)

    @overload
    def __getitem__(self, at: int) -> Observed: ...

    @overload
    def __getitem__(self, at: slice) -> list[Observed]: ...

    def __getitem__(self, at: int | slice) -> Observed | list[Observed]:
        return self._observed[at]

    @cached_property
    def _observed(self) -> list[Observed]:
        """Return them all; what is said more than once is one question and one answer."""
        rows = observation_rows(self._rows)
        said, numbers = distinct(rows, [name for name in rows.column_names if name not in _PLACE])
        contents = [(codec.question_of(row), codec.answer_of(row)) for row in rows_of(said)]
        order = pc.sort_indices(rows, [("seq", "ascending"), ("event_id", "ascending")])
        places = (column.to_pylist() for column in rows.select(_PLACE).take(order).columns)
        of_each = map(contents.__getitem__, numbers[order.to_numpy()].tolist())
        return [Observed(*place, *content) for *place, content in zip(*places, of_each, strict=True)]


def _decision_row(decided: Decided) -> dict[str, Any]:
    race = decided.race
    channels = {getattr(timed.event, "channel_id", None) for timed in race.timed_events}
    return {
        "decision_id": race.decision_id,
        "kind": race.kind,
        "effect_time": race.timed_events[0].effect_us,
        "channel_ids": sorted(channel for channel in channels if channel is not None),
        "event_ids": [timed.event_id for timed in race.timed_events],
        "alternatives": [alternative.words for alternative in race.alternatives],
        "chosen": decided.chosen,
        "answers_for": len(decided.answers_for),
        "answers_against": len(decided.answers_against),
        "evidence_for": list(decided.answers_for),
        "evidence_against": list(decided.answers_against),
    }


def _move_row(placed: Placed) -> dict[str, Any]:
    looked_up = None if placed.looked_up is None else placed.looked_up._asdict()
    return {"event_id": placed.event_id, "seq": placed.seq, "looked_up": looked_up}
