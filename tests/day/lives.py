"""A name server's life from lines of an event log, replayed day after day or cut anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule
from namesrv_day import hours as condense
from namesrv_day import replay as replaying
from namesrv_day.arrow import connection, empty, rows_of, table_of, with_microseconds
from namesrv_day.context import SCAN_LIFE, NamesrvDay
from namesrv_day.events import BEATS, OTHERS, day_events
from namesrv_day.hours import Folded, periods_of
from namesrv_day.replay import Replayed, ReplayInput, replay
from namesrv_wire.logs.event_log import Positions, rows_of_line
from schemas import bronze, gold
from schemas.times import day_of, day_start_seq

Line = dict[str, Any]
Tables = Mapping[str, pa.Table]
NAMESRV = "10.0.0.1:9876"
MIDNIGHT_MS = 1_767_398_400_000  # of 2026-01-03
HISTORIES = [table.name for table in gold.HISTORY_TABLES]


class Part(NamedTuple):
    """A part of a life: its first position, the one after its last, and its rows of the bronze event tables."""

    from_seq: int
    until_seq: int
    frames: dict[str, pa.Table]


class Life:
    """What was told of one name server. `outputs`, `reads`: what the last replay gave and read, part by part."""

    def __init__(self, told: Iterable[tuple[float, Line]], namesrv: Namesrv, *, begins_unseen: bool = False) -> None:
        """`told`: lines without what all have, each with its time in seconds from MIDNIGHT_MS.

        `begins_unseen`: the recording begins in the middle of the life.
        """
        self.namesrv = namesrv
        self.begins_unseen = begins_unseen
        self.outputs: list[Replayed] = []
        self.reads: list[list[pa.Table]] = []
        positions, found = Positions(), dict[str, dict[str, dict[str, Any]]]()
        for number, (at_s, line) in enumerate(sorted(told, key=lambda told: told[0]), 1):
            whole = {
                "schema": "namesrv-event/1",
                "namesrv_id": NAMESRV,
                "time": MIDNIGHT_MS + round(at_s * 1_000),
                **line,
            }
            for row in map(positions.placed, rows_of_line(json.dumps(whole).encode(), "a log", number)):
                key = row.values.get("event_id") or row.values["topic_config_digest"]
                found.setdefault(row.table, {})[key] = row.values
        self.configs = table_of(found.pop("topic_configs", {}).values(), bronze.TOPIC_CONFIGS_TABLE)
        self.rows = {
            table.name: [{**row, "day": day_of(row["effect_time"])} for row in found.get(table.name, {}).values()]
            for table in bronze.EVENT_TABLES
        }
        self.seqs = sorted(row["seq"] for rows in self.rows.values() for row in rows)

    @cached_property
    def schedule(self) -> ScanSchedule:
        """Return when it scans: since each of its starts."""
        starts = [row["seq"] for row in self.rows["namesrv_events"] if row["kind"] == "started"]
        epochs = [ScanEpoch(seq, seq) for seq in starts or self.seqs[:1]]
        return ScanSchedule(epochs, self.namesrv.scan_period_ms)

    def parts(self, cuts_s: Sequence[float]) -> Iterator[Part]:
        """Yield the parts between cuts, which are seconds from MIDNIGHT_MS; the last one ends with the last event."""
        cuts = [(MIDNIGHT_MS + round(at_s * 1_000)) * 1_000_000 for at_s in cuts_s]
        bounds = [
            day_start_seq(day_of(self.seqs[0] // 1_000)),
            *(cut for cut in cuts if self.seqs[0] < cut <= self.seqs[-1]),
        ]
        for begin, end in zip(bounds, [*bounds[1:], None], strict=True):
            rows = {
                table.name: table_of(
                    (r for r in self.rows[table.name] if begin <= r["seq"] and (end is None or r["seq"] < end)), table
                )
                for table in bronze.EVENT_TABLES
            }
            yield Part(begin, self.seqs[-1] + 999 if end is None else end, rows)

    def replayed(self, *, folds: bool = True, cuts_s: Sequence[float] = (0,)) -> dict[str, pa.Table]:
        """Return the rows of all tables that a replay writes, of all parts. `folds`: beats are runs where that may do."""
        return joined(self.replayed_parts(folds=folds, cuts_s=cuts_s))

    def replayed_parts(self, *, folds: bool = True, cuts_s: Sequence[float]) -> list[dict[str, pa.Table]]:
        """Return the same, part by part."""
        found, open_rows, halted = list[dict[str, pa.Table]](), dict[str, pa.Table](), False
        self.outputs, self.reads = [], []
        for part in self.parts(cuts_s):
            self.reads.append([])
            unknown_ms = part.from_seq // 1_000_000 if self.begins_unseen and not found else None
            past_is_carried = self.begins_unseen and bool(found)
            context = NamesrvDay(
                NAMESRV, self.namesrv, self.schedule, part.from_seq, part.until_seq, halted, unknown_ms, past_is_carried
            )
            found.append(self._replayed(part, context, open_rows, folds=folds))
            open_rows = {name: found[-1][name].filter(pc.field("closed_by").is_null()) for name in HISTORIES}
            open_rows[gold.PAST_KNOWLEDGE.name] = found[-1][gold.PAST_KNOWLEDGE.name]
            lives = [row["outcome"] for row in by_seq(found[-1]["event_outcomes"]) if row["outcome"] in SCAN_LIFE]
            halted = lives[-1] == "scan_failed" if lives else halted
        return found

    def _replayed(self, part: Part, context: NamesrvDay, open_rows: Tables, *, folds: bool) -> dict[str, pa.Table]:
        hours, beats = hours_of(part.frames, open_rows), day_events(part.frames, tables=BEATS)
        others = day_events(part.frames, tables=OTHERS)
        given = ReplayInput(
            context,
            day_of(part.from_seq // 1_000),
            hours,
            others,
            open_rows,
            lambda digests: self.configs.filter(pc.field("topic_config_digest").isin(digests)),
            lambda singles: self._read(beats, singles),
        )
        with pytest.MonkeyPatch.context() as patched:
            if not folds:
                patched.setattr(replaying, "folded", one_by_one)
            self.outputs.append(replay(given))
        return self.outputs[-1].tables

    def _read(self, beats: pa.Table, singles: pa.Table) -> pa.Table:
        """Return single beats as a reader does."""
        self.reads[-1].append(singles)
        return of_periods(beats, singles)


def of_periods(beats: pa.Table, periods: pa.Table) -> pa.Table:
    """Return those single beats (`day_events`) that took effect in some periods of their addresses (`fold.PERIODS`)."""
    wanted = {(row["broker_addr"], row["period"]) for row in periods.to_pylist()}
    places = zip(beats["broker_addr"].to_pylist(), beats["effect_us"].to_pylist(), strict=True)
    return beats.filter(pa.array([(addr, us // condense.PERIOD_US) in wanted for addr, us in places], pa.bool_()))


def one_by_one(hours: pa.Table, others: pa.Table, *_: object) -> Folded:
    """Return the beats of a day as none of them is a run."""
    none = hours.slice(0, 0).append_column("behind", pa.array([], pa.int64()))
    return Folded(periods_of(hours), none, others.slice(0, 0))


def joined(parts: Sequence[Tables]) -> dict[str, pa.Table]:
    return {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}


def unnumbered(tables: Tables) -> dict[str, pa.Table]:
    """Return the tables with positions that name the event only."""
    found = dict(tables)
    for name in HISTORIES:
        rows = tables[name]
        for column in ("opened_at", "closed_at", "entered_at", "outer_entered_at"):
            at = rows.schema.get_field_index(column)
            rows = rows.set_column(at, column, pc.struct_field(rows[column], "seq"))
        found[name] = rows
    return found


def hours_of(frames: Tables, open_rows: Tables) -> pa.Table:
    live = open_rows.get("broker_live_history", empty(gold.BROKER_LIVE_HISTORY))
    leases = condense.leases_from(live, frames["registrations"])
    found = [condense.hours_from(connection().from_arrow(frames[t.name]), t.name, leases) for t in BEATS]
    return pa.concat_tables(found)


def by_seq(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows_of(rows), key=lambda row: (row["seq"], row["event_id"]))


def told_apart(one: Tables, other: Tables) -> dict[str, list[str]]:
    """Return the rows, as text, that only one of the two has, by table."""
    found = {}
    for name in one:
        mine, others = (sorted(map(repr, with_microseconds(rows).to_pylist())) for rows in (one[name], other[name]))
        if mine != others:
            found[name] = [f"- {row}" for row in set(mine) - set(others)] + [
                f"+ {row}" for row in set(others) - set(mine)
            ]
    return found
