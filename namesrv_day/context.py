"""What the replay of a name server's day needs beside its events.

These are: the rows that were open when it began; its coverage (the recorded time, and interruptions of the process or of the
recording); its configuration and schedule of scans; the end of the log.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Histories, Interval, MapCapacity, Position, restored
from namesrv_core.inference.settings import Value
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import NS_PER_MS, NS_PER_US
from namesrv_core.machine.past import Fact, Past
from namesrv_core.machine.profile import SCAN_DELAY_MS, Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS, Hold, ScanEpoch, ScanSchedule, Stall
from namesrv_day.arrow import ask, conformed, empty, plain, rows_of, with_columns, with_microseconds
from namesrv_day.events import OTHERS, Frames
from schemas import bronze, gold
from schemas.bronze import NAMESRV_EVENTS, ROUTE_OBSERVATIONS
from schemas.codec import POSITIONS, intervals_of
from schemas.gold import EVENT_OUTCOMES, FINDINGS, PAST_KNOWLEDGE
from schemas.sql_files import query
from schemas.table import LONG, STRING, TIMESTAMP, Table
from schemas.tables.state import fact_of
from schemas.times import day_start_seq, day_start_us, instant_us

_ONE_DAY = dt.timedelta(days=1)
_ENDS = ("valid_to", "closed_by", "closed_at", "to_time", "ended_on")
_LAST = "last_update_time"
_ENTRY = ("namesrv_id", "cluster_name", "broker_addr", "first_update_time", "heartbeat_timeout_ms")


def alive(table: Table, day: dt.date, *, still: bool = False) -> pc.Expression:
    """Return the condition that an interval existed at some time of a day; `still`: at the end of the day."""
    begins, ends = map(pc.field, table.span)
    begin, end = start_in(table, day + _ONE_DAY if still else day), start_in(table, day + _ONE_DAY)
    return (begins < end) & (ends.is_null() | (ends >= begin))


def columns_for(table: Table, columns: Sequence[str]) -> list[str]:
    """Return the columns to read from a table of intervals in order to know `columns` as of a day."""
    more = [*table.span, *(_ENTRY if table is gold.BROKER_LIVE_HISTORY and _LAST in columns else ())]
    more += ["begun_with"] if "begun_with" in table.column_names else []
    return list(dict.fromkeys([*columns, *more]))


def as_of(table: Table, rows: pa.Table, day: dt.date, beats: pa.Table) -> pa.Table:
    """Return intervals that existed on a day, as they were known at its end.

    An interval that ended later is open, a row that became known later is a best guess, and a finding that goes on has the
    evidence with which it began. `beats`: rows of last_heartbeats of that day, with the last renewals of open live entries.
    """
    end = start_in(table, day + _ONE_DAY)
    goes_on = pc.fill_null(pc.greater_equal(rows[table.span[1]], end), fill_value=False)
    if pc.any(goes_on).as_py():
        masked = {name: _without(rows[name], goes_on) for name in _ENDS if name in rows.column_names}
        if "evidence" in rows.column_names and "begun_with" in rows.column_names:
            columns = (values.to_pylist() for values in (rows["evidence"], rows["begun_with"], goes_on))
            found = [ids[:count] if is_open else ids for ids, count, is_open in zip(*columns, strict=True)]
            masked["evidence"] = pa.array(found, rows["evidence"].type)
        rows = with_columns(rows, **masked)
    if "known_from" in rows.column_names:
        later = pc.fill_null(pc.greater_equal(rows["known_from"], end), fill_value=False)
        if pc.any(later).as_py():
            rows = with_columns(rows, known_from=_without(rows["known_from"], later))
    if table is gold.BROKER_LIVE_HISTORY and _LAST in rows.column_names:
        renewed = ask(query("day/last_updates"), {"live": rows, "beats": beats})
        rows = conformed(renewed, rows.schema)
    return rows


def beats_of(day: dt.date, live: pa.Table) -> pa.Table:
    """Return the rows of last_heartbeats of a day: live entries that were open at its end, except those known by a log."""
    is_open = pc.field("closed_by").is_null() & pc.field(_LAST).is_valid()
    return conformed(live.filter(is_open), gold.LAST_HEARTBEATS, day=day)


def stored(table: Table, rows: pa.Table) -> pa.Table:
    """Return intervals as stored: an open live entry has no last_update_time (`beats_of` has it)."""
    if table is not gold.BROKER_LIVE_HISTORY:
        return rows
    return with_columns(rows, last_update_time=_without(rows[_LAST], pc.is_null(rows["valid_to"])))


def on_a_day(table: Table) -> pa.Schema:
    """Return the columns of a history, and `day`, the day as of which its rows are read."""
    return plain(table.schema).append(pa.field("day", pa.date32()))


def _without(values: pa.ChunkedArray, gone: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(gone, pa.scalar(None, values.type), values)


def start_in(table: Table, day: dt.date) -> pa.Scalar:
    """Return the first value of a day in the type of the columns `table.span`, instants or dates."""
    if pa.types.is_date(table.schema.field(table.span[1]).type):
        return pa.scalar(day)
    return pa.scalar(day_start_us(day), pa.int64()).cast(TIMESTAMP)


_TABLES = (NAMESRV_EVENTS.name, EVENT_OUTCOMES.name, FINDINGS.name)


class Extent(NamedTuple):
    """First and last time at which something was recorded of a name server on a day, beats and answers included."""

    first: dt.datetime
    last: dt.datetime


def extent_of(today: Frames) -> Extent | None:
    """Return when something was recorded first and last; None: nothing was. `today`: as in `SettleInput`."""
    times = [today[table.name]["effect_time"] for table in (*OTHERS, ROUTE_OBSERVATIONS)]
    bounds = [
        pc.min_max(at) for at in (*times, *(today["hours"][name].cast(TIMESTAMP) for name in ("first_us", "last_us")))
    ]
    first = min((at for of in bounds if (at := of["min"].as_py()) is not None), default=None)
    last = max((at for of in bounds if (at := of["max"].as_py()) is not None), default=None)
    return None if first is None or last is None else Extent(first, last)


def recorded_day(namesrv_id: str, day: dt.date, tables: Frames, extent: Extent | None) -> list[dict[str, Any]]:
    """Return the day's row of `runs.coverage`; no row if nothing is recorded of the name server (no `extent`).

    `tables`: its namesrv_events and event_outcomes of the day, and its findings on that day.
    """
    if extent is None:
        return []
    marks = ask(query("day/marks"), {name: tables[name] for name in _TABLES}, day=day).to_pylist()
    if PAST_KNOWLEDGE.name in tables and is_logged(tables[PAST_KNOWLEDGE.name]):
        marks = [{**mark, "kind": "log_started"} if mark["kind"] == "started" else mark for mark in marks]
    times = {"first_time": extent.first, "last_time": extent.last}
    return [{"namesrv_id": namesrv_id, "day": day, **times, "marks": marks}]


def is_logged(past_knowledge: pa.Table) -> bool:
    """Return whether the name server is known only by its own log, which shows rows but not their absence."""
    settings = past_knowledge.filter((pc.field("about") == "is_logged") & (pc.field("number") != 0))
    return bool(settings.num_rows)


def started(
    context: NamesrvDay, carried: Iterable[Interval], facts: list[Fact], capacities: Iterable[MapCapacity]
) -> tuple[Registry, Histories]:
    """Return the registry and the open intervals with which a name server begins the day.

    `carried`: the open intervals; `facts`: the knowledge of the past; `capacities`: numbers of buckets of maps.
    """
    carried = list(carried)
    registry = Registry(context.namesrv.profile)
    registry.scan_halted = context.scan_halted
    registry.past = context.past_of(facts)
    restored(registry, carried, capacities)
    return registry, Histories(carried)


def intervals_in(rows: Frames) -> list[Interval]:
    """Return the intervals of the rows of history tables."""
    histories = [table.name for table in gold.HISTORY_TABLES if table.name in rows]
    return [interval for name in histories for interval in intervals_from(name, rows[name])]


def intervals_from(history: str, rows: pa.Table) -> list[Interval]:
    """Return the intervals of rows of one history table, in their order."""
    columns: dict[str, list[Any]] = {}
    for name, values in zip(rows.column_names, with_microseconds(rows).columns, strict=True):
        columns[name] = _positions_of(values) if name in POSITIONS else values.to_pylist()
    return intervals_of(history, columns)


def facts_in(rows: Frames) -> list[Fact]:
    """Return the knowledge of the past in the rows of past_knowledge."""
    name = gold.PAST_KNOWLEDGE.name
    return [fact_of(row) for row in rows_of(rows[name])] if name in rows else []


def capacities_in(rows: pa.Table) -> list[MapCapacity]:
    """Return the numbers of buckets in rows of map_capacities: of maps whose open rows do not tell it."""
    return [MapCapacity(**row) for row in rows_of(rows.select(MapCapacity._fields))]


def _positions_of(values: pa.ChunkedArray) -> list[Position | None]:
    seqs, numbers = (part.to_pylist() for part in values.combine_chunks().flatten())
    if not values.null_count:
        return list(map(Position, seqs, numbers))
    return [None if seq is None else Position(seq, no) for seq, no in zip(seqs, numbers, strict=True)]


BEGINNINGS = ("started", "observed_from")
"""Kinds of namesrv_events with which what is known of a process begins."""
SCAN_LIFE = ("scan_failed", "started", "stopped")
"""Outcomes that tell whether a name server's periodic scan still runs."""
IS_SCAN_LIFE = pc.field("outcome").isin(SCAN_LIFE)
Rows = Mapping[Table, pc.Expression]
"""Which rows of which tables."""
_CLOSED = pc.field("closed_by").is_valid()
LOOKED_BACK_AT: Rows = {
    gold.BROKER_ADDR_HISTORY: _CLOSED,
    gold.BROKER_LIVE_HISTORY: _CLOSED,
    gold.TOPIC_QUEUE_HISTORY: _CLOSED,
    gold.EVENT_OUTCOMES: IS_SCAN_LIFE
    | (pc.field("operation") == "delete_topic")
    | (pc.field("outcome") == "rejected_state_version"),
}
"""What findings of the next day look at beside what is open: what closed on the day, and events that explain it."""
_LAST_NS = NS_PER_US - 1


@dataclass(frozen=True)
class NamesrvDay:
    """One name server on one day: where its replay starts, and the end of what is known of it.

    `unknown_from_ms`: since when something is unknown of its past, if that is on this day; `past_is_carried`: something was
    unknown when the day began; `has_gap`: for a while of this day nothing was recorded of it.
    """

    namesrv_id: str
    namesrv: Namesrv
    schedule: ScanSchedule
    from_seq: int
    until_seq: int
    scan_halted: bool = False
    unknown_from_ms: int | None = None
    past_is_carried: bool = False
    has_gap: bool = False

    @property
    def has_unknown_past(self) -> bool:
        """Return whether something about the name server's past is not known at some time of this day."""
        return self.past_is_carried or self.unknown_from_ms is not None or self.has_gap

    def past_of(self, carried: Sequence[Fact]) -> Past | None:
        """Return what is known where the day begins; None: everything."""
        if not carried and self.unknown_from_ms is None:
            return None
        past = Past.load(carried) if carried else Past(self.unknown_from_ms or 0)
        past.phase_known = past.phase_known or self.schedule.knows_phase(self.from_seq)
        return past


class RawBeats(Protocol):
    """Reads the day's single heartbeats or registrations (`kind`): all columns or some, all rows or those `where`."""

    def __call__(
        self, kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> pa.Table:
        """Return the rows."""


DURING = pa.schema([("broker_addr", STRING), ("after", TIMESTAMP), ("last", TIMESTAMP)])
"""Some time of an address: from behind an instant to another one. Of an address that is NULL: of beats without any."""


class BeatsDuring(Protocol):
    """Reads columns of the day's single heartbeats or registrations (`kind`) that came within some time (`DURING`)."""

    def __call__(self, kind: str, columns: Sequence[str], during: pa.Table) -> pa.Table:
        """Return the rows."""


@dataclass(frozen=True)
class Background:
    """What is known of a name server beside what is recorded of it on a day.

    `settings_before`: its namesrv_settings of the last day before; `settings_later`: those of this day and later ones that this
    run has settled; `scan_life`: its event_outcomes of earlier days that `IS_SCAN_LIFE`; `given`: what conf/ says;
    `first_seen_seq`: the position of its first event ever, if no start of it is recorded; `going_on`: something is recorded of it
    after the day; `addresses`: the rows of that table that name it.
    """

    settings_before: pa.Table = field(default_factory=lambda: empty(gold.NAMESRV_SETTINGS))
    settings_later: pa.Table = field(default_factory=lambda: empty(gold.NAMESRV_SETTINGS))
    scan_life: pa.Table = field(default_factory=lambda: empty(gold.EVENT_OUTCOMES))
    given: Mapping[str, Value] = field(default_factory=dict)
    first_seen_seq: int | None = None
    going_on: bool = False
    addresses: pa.Table = field(default_factory=lambda: empty(bronze.ADDRESSES))


@dataclass(frozen=True)
class SettleInput:
    """One name server on one day, of which something is recorded on that day or settings are carried on.

    `today`: its rows of the event tables without heartbeats and registrations, of route_observations, and its `hours`. `carried`:
    the rows open when the last day before ended, and that day's past_knowledge; a table that is missing has no rows. `life`: its
    namesrv_events up to the day. `topic_configs` gives the tables of digests.
    """

    namesrv_id: str
    day: dt.date
    today: Frames
    raw_beats: RawBeats
    topic_configs: Callable[[pa.ChunkedArray], pa.Table]
    carried: Frames
    life: pa.Table
    background: Background

    @cached_property
    def answers(self) -> dict[str, pa.Table]:
        """Return the day's `answers` with numbers as bodies, and the `bodies`, each once: most are repeated again and again.

        Routes of one zone are left out: that a broker is not in them says nothing.
        """
        in_zone = (pc.field("code") == RequestCode.GET_ROUTEINFO_BY_TOPIC) & pc.field("scope").is_valid()
        answers = frame(self.today, bronze.ROUTE_OBSERVATIONS).filter(~in_zone)
        bodies = (
            answers["body"] if pa.types.is_dictionary(answers["body"].type) else answers["body"].dictionary_encode()
        )
        once = bodies.unify_dictionaries().combine_chunks()
        numbered = answers.set_column(answers.schema.get_field_index("body"), "body", once.indices.cast(LONG))
        texts = once.dictionary
        return {"answers": numbered, "bodies": pa.table({"number": pa.array(range(len(texts)), LONG), "text": texts})}


def _known_until(given: SettleInput) -> int:
    """Return the end of what is known of the day: its last position, in whole microseconds, or the day's end if it goes on."""
    if given.background.going_on:
        return day_start_seq(given.day + dt.timedelta(days=1))
    extent = extent_of(given.today)
    return day_start_seq(given.day) if extent is None else instant_us(extent.last) * NS_PER_US + _LAST_NS


def namesrv_day(
    given: SettleInput,
    namesrv: Namesrv,
    phases: Mapping[int, int],
    closes: Sequence[int] = (),
    stalls: Sequence[Stall] = (),
    holds: Sequence[Hold] = (),
) -> NamesrvDay:
    """Return the day of `namesrv`.

    What is known of when scans run: their phase by the start of the process, closes of the day that they made, stalls, holds.
    """
    life = list(rows_of(given.life.select(["seq", "kind", "day"])))
    starts = sorted((row for row in life if row["kind"] in BEGINNINGS), key=itemgetter("seq"))
    return NamesrvDay(
        given.namesrv_id,
        namesrv,
        ScanSchedule(_epochs(given, namesrv, starts, phases), namesrv.scan_period_ms, closes, stalls, holds),
        day_start_seq(given.day),
        _known_until(given),
        _is_halted(given.background.scan_life),
        _unknown_from_ms(given, starts, namesrv) if starts else _shown_from_ms(given),
        bool(frame(given.carried, gold.PAST_KNOWLEDGE).num_rows),
        any(row["kind"] == "recording_gap" and row["day"] == given.day for row in life),
    )


def frame(frames: Frames, table: Table) -> pa.Table:
    """Return the rows of `table` among `frames`; none where it is missing."""
    return frames[table.name] if table.name in frames else empty(table)


def _epochs(
    given: SettleInput, namesrv: Namesrv, starts: Sequence[Mapping[str, Any]], phases: Mapping[int, int]
) -> list[ScanEpoch]:
    first_seen_seq = given.background.first_seen_seq
    if not starts and first_seen_seq is not None:
        # An event log need not say when the server started; then any phase is as good as another.
        return [ScanEpoch(first_seen_seq, first_seen_seq, phases.get(0))]
    epochs = []
    for row in starts:
        seq, now = row["seq"], namesrv.at(row["seq"])
        early_ns = (SCAN_DELAY_MS - now.profile.scan_delay_ms) * NS_PER_MS
        origin_ns = seq - START_BEFORE_FIRST_ACCEPT_NS - early_ns
        epochs.append(ScanEpoch(seq, origin_ns, phases.get(seq), now.scan_period_ms))
    return epochs


def _is_halted(outcomes: pa.Table) -> bool:
    """Return whether an exception had ended the periodic scan by the end of the day before."""
    life = (row for row in rows_of(outcomes.select(["seq", "outcome"])) if row["outcome"] in SCAN_LIFE)
    last = max(life, key=itemgetter("seq"), default=None)
    return last is not None and last["outcome"] == "scan_failed"


def _shown_from_ms(given: SettleInput) -> int | None:
    """Return since when something is unknown of a name server of which nothing says when it began; None: not since the day.

    It began empty with what is recorded first, unless an answer shows a route before anybody has registered.
    """
    if given.background.settings_before.num_rows:
        return None  # it did not begin on the day
    early, first_seqs = frame(given.today, bronze.ROUTE_OBSERVATIONS), [given.background.first_seen_seq]
    is_one = pc.field("kind") == bronze.REGISTRATIONS.name
    registered_seq = pc.min(given.today["hours"].filter(is_one)["first_seq"]).as_py()
    early = early if registered_seq is None else early.filter(pc.field("seq") < registered_seq)
    shows = [
        row["code"] == RequestCode.GET_ROUTEINFO_BY_TOPIC or '"brokerAddrs"' in (row["body"] or "")
        for row in rows_of(early.select(["code", "response_code", "body"]))
        if row["response_code"] == 0
    ]
    first_seqs.append(pc.min(early["seq"]).as_py())
    return min(seq for seq in first_seqs if seq is not None) // NS_PER_MS if any(shows) else None


def _unknown_from_ms(given: SettleInput, known: Sequence[Mapping[str, Any]], namesrv: Namesrv) -> int | None:
    """Return since when something is unknown of a name server of which `known` tells in order; None: not since the day.

    A process that starts has its KV table from a file: what it shows of that before anybody has put an entry, or shows of it in
    routes, with orderMessageEnable.
    """
    if not known or known[0]["day"] != given.day:
        return None
    serves_orders = any(one.config.order_message_enable for *_, one in namesrv.spans)
    unknown = known[0]["kind"] != "started" or serves_orders or _shows_entries(given)
    return int(known[0]["seq"] // NS_PER_MS) if unknown else None


def _shows_entries(given: SettleInput) -> bool:
    """Return whether an answer of the day shows an entry of the KV table before anybody has put one."""
    put = frame(given.today, bronze.ADMIN_EVENTS).filter(pc.field("code") == RequestCode.PUT_KV_CONFIG.value)
    put_seq = pc.min(put["seq"]).as_py() or day_start_seq(given.day + dt.timedelta(days=1))
    lists = [RequestCode.GET_KVLIST_BY_NAMESPACE.value, RequestCode.GET_KV_CONFIG.value]
    shows = (pc.field("seq") < put_seq) & pc.field("code").isin(lists) & (pc.field("response_code") == 0)
    if frame(given.today, bronze.ROUTE_OBSERVATIONS).filter(shows).num_rows:
        return True
    # Of 4.x, and with returnOrderTopicConfigToBroker, the answer to each registration has them.
    has_rows = pc.match_substring_regex(pc.field("response_body"), r'"table":\s*\{\s*"')
    later = given.raw_beats(bronze.REGISTRATIONS.name, columns=["seq"], where=(pc.field("seq") < put_seq) & has_rows)
    return bool(later.num_rows)
