"""What a run changes in days that were published before: the rows of `restatements`.

A day is restated where a slice - one table, one name server - has other rows than the published one. A day that merely went
on, because it was the last one and every new event lies behind all that was known of it, is none.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_day.arrow.digest import digests_by
from namesrv_day.arrow.rows import table_of
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import IS_SCAN_LIFE, LOOKED_BACK_AT, frame
from namesrv_day.day.day_events import Frames
from schemas import gold
from schemas.sql_files import query
from schemas.table import Table

MAX_CHANGES = 100
"""Changed rows that are shown of one table's day, all name servers together; the counts are of all."""
MAX_EVENTS = 20
"""New events that are named."""
COMPARED = (*gold.HISTORY_TABLES, *gold.REPORT_TABLES)
SHOWN = (
    gold.TOPIC_QUEUE_HISTORY,
    gold.BROKER_ADDR_HISTORY,
    *(table for table in gold.REPORT_TABLES if table.shows_changes),
)
"""Tables of which the changed rows are shown: those that readers look at most."""
Rows = Mapping[Table, pc.Expression]
"""Which rows of which tables."""
_ALL = pc.scalar(True)
LIVES: Rows = {gold.EVENT_OUTCOMES: IS_SCAN_LIFE}
"""Of any earlier day, what a replay may look at."""
HELD: Rows = {table: pc.field(table.span[1]).is_null() for table in gold.INTERVAL_TABLES}
"""What is open at the end of a day: what a name server's tables hold, and what is told and not over."""
HANDED_ON: Rows = {
    gold.PAST_KNOWLEDGE: _ALL,
    gold.MAP_CAPACITIES: _ALL,
    gold.NAMESRV_SETTINGS: _ALL,
    gold.EXPIRED_BROKERS: pc.field("returned_time").is_null(),
    **LOOKED_BACK_AT,
}
"""What a day takes over from the day before beside that."""


def ends_otherwise(new: Frames, old: Frames, what: Rows) -> bool:
    """Return whether the rows `what` of a day are others in `new` than in `old`, whose tables may be missing."""

    def digest(frames: Frames, table: Table) -> object:
        return digests_by(frame(frames, table).filter(what[table]).select(table.column_names))

    return any(digest(new, table) != digest(old, table) for table in what)


# -- new events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewEvents:
    """Events and answers of a day, or of a part of it, that no published run covers.

    `first`: positions and ids of the first MAX_EVENTS; `last_known`: the position of the last one that is covered.
    """

    count: int = 0
    first: tuple[tuple[int, str], ...] = ()
    ingest_runs: frozenset[str] = frozenset()
    last_known: int | None = None

    def __add__(self, other: NewEvents) -> NewEvents:
        """Return those of both parts."""
        known = [seq for seq in (self.last_known, other.last_known) if seq is not None]
        first = sorted((*self.first, *other.first))[:MAX_EVENTS]
        runs = self.ingest_runs | other.ingest_runs
        return NewEvents(self.count + other.count, tuple(first), runs, max(known, default=None))

    @property
    def follow(self) -> bool:
        """Return whether all lie behind all others of the day, of which there are some."""
        return self.last_known is not None and all(seq > self.last_known for seq, _ in self.first)


Heard = Mapping[tuple[dt.date, str], NewEvents]
"""By day and name server."""


def new_events(recorded: pa.Table, covered: Collection[str]) -> dict[tuple[dt.date, str], NewEvents]:
    """Return what is new of each day and name server among rows (day, namesrv_id, seq, event_id, ingest_run).

    `covered`: the ingest runs whose rows are published.
    """
    found = ask(
        query("across/new_events"), {"recorded": recorded}, covered=sorted(covered), named=MAX_EVENTS
    ).to_pylist()
    return {
        (row["day"], row["namesrv_id"]): NewEvents(
            row["events"],
            tuple((event["seq"], event["event_id"]) for event in row["first"] or ()),
            frozenset(row["ingest_runs"] or ()),
            row["last_known"],
        )
        for row in found
    }


def added_up(parts: Iterable[Heard]) -> dict[tuple[dt.date, str], NewEvents]:
    """Return what is new of whole days, from what is new of their parts; only where something is."""
    total: dict[tuple[dt.date, str], NewEvents] = {}
    for part in parts:
        for key, events in part.items():
            total[key] = total.get(key, NewEvents()) + events
    return {key: events for key, events in total.items() if events.count}


def causes_of(
    days: Collection[dt.date],
    published: Collection[dt.date],
    heard: Heard,
    others: Mapping[str, bool],
    resettled: Callable[[dt.date], bool],
) -> dict[str, bool] | None:
    """Return why published days may have changed by a run of `days`, beside new events; None: they have merely gone on.

    `published`: the days that were when the run began; `heard`: what is new of those that are among `days`; `others`: whether
    the configuration and the code are others than before. `resettled`: whether name servers were configured otherwise on a
    day, as far as is known now, than was published; it is only asked if that decides.
    """
    known = sorted(set(published) & set(days))
    if not known:
        return None
    goes_on = all(day == max(published) and events.follow for (day, _), events in heard.items())
    if known != [min(days)] or any(others.values()) or not goes_on:
        return dict(others)
    if heard or not resettled(known[0]):
        return None  # nothing before that day was replayed, and what was known of it stays
    return {**others, "configuration": True}


def settings_differ(new: pa.Table, old: pa.Table) -> bool:
    """Return whether rows of namesrv_settings have other values than others."""

    def values(rows: pa.Table) -> set[tuple[Any, ...]]:
        columns = rows.select(["namesrv_id", "setting", "from_seq", "value"]).columns
        return set(zip(*(column.to_pylist() for column in columns), strict=True))

    return values(new) != values(old)


# -- changed rows ------------------------------------------------------------------------------------------------------


def compare(new: Frames, old: Frames, day: dt.date) -> list[dict[str, Any]]:
    """Return the slices of a day that differ, as rows of `restatements` without what a run has to say of them.

    Both have all tables; of intervals those that were there on the day, as they were known when it ended. Rows are compared
    whole, and equal ones count as often as they are there.
    """
    found = []
    for table in COMPARED:
        if table.name not in new:
            continue
        sides = {side: frames[table.name].select(table.column_names) for side, frames in (("new", new), ("old", old))}
        if table.has_intervals:
            sides = {of: rows.append_column("day", pa.repeat(pa.scalar(day), len(rows))) for of, rows in sides.items()}
        hashed = f"hash({', '.join(table.column_names)})"
        slices = ask(query("across/changed_slices").format(hash=hashed), sides).to_pylist()
        changes = _changes(table, sides, hashed) if slices and table in SHOWN else {}
        found += [
            {**row, "table_name": table.name, "changes": changes.get((row["day"], row["namesrv_id"]), [])}
            for row in slices
        ]
    return found


def restatements(
    compared: Iterable[Mapping[str, Any]], heard: Heard, causes: Mapping[str, bool], last_day: dt.date, **runs: str
) -> pa.Table:
    """Return the rows of `restatements`. `compared`: what `compare` says of all name servers; `runs`: run_id, previous_run.

    `heard`, `causes`: see `causes_of`; `last_day`: the last that was published. What merely went on is left out.
    """
    others = [name for name, is_other in causes.items() if is_other]
    shown: Counter[tuple[dt.date, str]] = Counter()
    rows = []
    for row in sorted(compared, key=lambda row: (row["day"], row["table_name"], row["namesrv_id"])):
        events = heard.get((row["day"], row["namesrv_id"]), NewEvents())
        if row["day"] == last_day and events.follow:
            continue
        of_table = (row["day"], row["table_name"])
        changes = row["changes"][: MAX_CHANGES - shown[of_table]]
        shown[of_table] += len(changes)
        said = {
            "cause": "events" if events.count else (others or ["earlier_day"])[0],
            "ingest_runs": sorted(events.ingest_runs),
            "new_events": events.count,
            "event_ids": [event_id for _, event_id in events.first],
            "changes": changes,
        }
        rows.append({**row, **said})
    return table_of(rows, gold.RESTATEMENTS, **runs)


def _changes(table: Table, sides: Frames, hashed: str) -> dict[tuple[dt.date, str], list[dict[str, Any]]]:
    """Return the first rows of each slice that were added, removed or changed, told apart by the table's key."""
    key = [name for name in table.key if name not in ("day", "namesrv_id")]
    rest = [name for name in table.column_names if name not in table.key]
    structs = {
        part: "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"
        for part, names in (("key", key), ("rest", rest))
    }
    found: dict[tuple[dt.date, str], list[dict[str, Any]]] = {}
    for row in ask(query("across/changed_rows").format(hash=hashed, **structs), sides, shown=MAX_CHANGES).to_pylist():
        before, after = row["before"], row["after"]
        change = {
            "key": _json(row["key"], with_nulls=False),
            "change": "added" if before is None else "removed" if after is None else "changed",
            "before": None if before is None else _json(before),
            "after": None if after is None else _json(after),
        }
        found.setdefault((row["day"], row["namesrv_id"]), []).append(change)
    return found


def _json(value: Mapping[str, Any], *, with_nulls: bool = True) -> str:
    """Return a record as JSON text; its instants have milliseconds."""
    return json.dumps(_plain(value, with_nulls), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any, with_nulls: bool) -> Any:  # noqa: FBT001  handed on
    if isinstance(value, dict):
        return {name: _plain(part, with_nulls) for name, part in value.items() if with_nulls or part is not None}
    if isinstance(value, list):
        return [_plain(part, with_nulls) for part in value]
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, dt.date) else value
