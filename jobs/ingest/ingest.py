"""Read captures and event logs into the bronze tables.

Reads   packet captures and JSON-lines event logs, files or folders
Writes  all bronze tables; a file with known content changes nothing. Rows that break a rule go to quarantine. A file with too
        many of these is refused: only its row in `sources` is kept, with the reason

Each table gets one commit, `sources` the last one. From that commit on a file is known, and its rows are in the tables.
Readers see none of them before it, so a run that dies leaves nothing to undo.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import count, pairwise
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import ClockError, GateError
from jobs.ingest.reading import Reading
from jobs.ingest.sources import Given, Ingested, Quarantined, ReadSource, Source, given_files
from jobs.ingest.staging import Staging, settle_staged, staging_in, take_out, write_staged
from jobs.passes import InProcess, Passes, Processes
from jobs.processes import cores, given_back, rarely_collected
from jobs.store.files import LONG_TEXTS, DataFile, read_files
from jobs.store.ledger import days_of
from jobs.store.places import local_path, temporary_folder
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.events import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS
from namesrv_day.arrow import ask, rows_of, table_of, with_columns
from namesrv_wire.errors import PIECES, RECORDING_GAP_NS, SMALL_HOLE_NS
from namesrv_wire.lateness import Lateness
from namesrv_wire.rows import Values, gap_end_ms, gap_until
from schemas import bronze, times
from schemas.sql_files import query
from schemas.table import Table
from schemas.times import day_of

_DYING_NS: Final = 1_000 * NS_PER_MS
"""A stopping process may still send packets for this long."""
_AT_ADDRESS: Final = "address_"
_NEVER: Final = 1 << 63

# -- facts that each address shows by itself ---------------------------------------------------------------------------


def new_kinds(
    facts: Sequence[Mapping[str, Any]], answered: Mapping[str, Sequence[int]], *, is_up: bool | None
) -> dict[str, str]:
    """Return the new kinds of facts by event id, for facts whose kind must change to hold for the whole name server.

    `facts`: of one name server, in order (event_id, namesrv_addr, seq, kind, properties). `answered`: by address, the
    positions of answers in order. `is_up`: whether the server ran before; None: unknown. A fact becomes `address_...` if it was
    shown before, or if answers of that time contradict it.
    """
    starts = [fact["seq"] for fact in facts if fact["kind"].removeprefix(_AT_ADDRESS) == "started"]

    def answers(seq: int, until_seq: int, but_at: str | None = None) -> bool:
        others = (seqs for addr, seqs in answered.items() if addr != but_at)
        first = (seqs[at] for seqs in others if (at := bisect_right(seqs, seq + _DYING_NS)) < len(seqs))
        return any(seq < until_seq for seq in first)

    changed, gap_until = {}, 0
    for fact in facts:
        kind = fact["kind"].removeprefix(_AT_ADDRESS)
        if kind == "stopped":
            at = bisect_right(starts, fact["seq"])
            until_seq = starts[at] if at < len(starts) else _NEVER
            # Of one address, too, several captures may show different connections: that all those of one ended is no stop.
            counts = is_up is not False and not answers(fact["seq"], until_seq)
            is_up = False if counts else is_up
        elif kind in ("started", "observed_from"):
            counts = is_up is None or (kind == "started" and not is_up)
            is_up = True
        elif kind == "recording_gap":
            until_seq = gap_end_ms(fact["properties"]) * NS_PER_MS
            counts = fact["seq"] >= gap_until and not answers(fact["seq"], until_seq, but_at=fact["namesrv_addr"])
            gap_until = until_seq if counts else gap_until
        else:
            continue
        wanted = kind if counts else f"{_AT_ADDRESS}{kind}"
        if wanted != fact["kind"]:
            changed[fact["event_id"]] = wanted
    return changed


# -- addresses of name servers -----------------------------------------------------------------------------------------

_NAMED = (*bronze.RECORDED_TABLES, bronze.QUARANTINE)
_LIFE = ("started", "stopped", "observed_from", "recording_gap")


class Addresses:
    """Addresses of name servers: the rows of the table `addresses`, as stored and as they are to be.

    Rows of all addresses of one name server have its id. The addresses come from conf/, from an event log, or, if asked for,
    from findings. Bronze rows keep the address that was used, so later or corrected knowledge changes only ids.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._stored = {row["namesrv_addr"]: row for row in rows_of(warehouse.rows(bronze.ADDRESSES))}
        self._named = {address: row["namesrv_id"] for address, row in self._stored.items()}
        self._renamed_ids = set[str]()
        given = warehouse.conf.namesrv_of
        self._listed = {*given, *(name for name, conf in warehouse.conf.namesrvs.items() if conf.addresses is not None)}
        self._rows = {address: row for address, row in self._stored.items() if self._holds(row)}
        for address, name in given.items():
            self._take(address, name, "given")

    def _holds(self, row: Values) -> bool:
        """Return whether a stored row stays: rows from conf/ are replaced by its current content, which wins over other sources."""
        address, name = row["namesrv_addr"], row["namesrv_id"]
        if row["source"] == "given" or (row["source"] == "joined" and not self._warehouse.conf.join_addresses):
            return False
        own = {name, address, *(other for other, of in self._named.items() if of == name)}
        return self._listed.isdisjoint((address, name)) and not any(pair <= own for pair in self._warehouse.conf.apart)

    def _take(self, address: str, name: str, source: str) -> None:
        """Make an address another one of a name server, together with all addresses that belonged to it."""
        for other, row in self._rows.items():
            if row["namesrv_id"] == address:
                self._rows[other] = {**row, "namesrv_id": name}
        row = {"namesrv_addr": address, "namesrv_id": name, "source": source}
        known = self._stored.get(address)
        self._rows[address] = known if known is not None and {**known, **row} == known else row

    @property
    def namesrv_of(self) -> dict[str, str]:
        """Return the name server of each address that is not an id itself."""
        return {address: row["namesrv_id"] for address, row in self._rows.items()}

    @property
    def are_new(self) -> bool:
        """Return whether stored rows now belong to other name servers."""
        return self._named != self.namesrv_of

    def state(self, stated: Mapping[str, str]) -> None:
        """Add the addresses that event logs state."""
        for address, name in stated.items():
            of = self.namesrv_of.get(name, name)
            row = {"namesrv_addr": address, "namesrv_id": of, "source": "stated"}
            if address not in self.namesrv_of and address != of and self._holds(row):
                self._take(address, of, "stated")

    def join(self, groups: Iterable[Sequence[str]]) -> None:
        """Make the name servers of each group one, with the id of the first, as findings suggest."""
        for name, *others in groups:
            for other in others:
                self._take(other, name, "joined")

    def apply(self, days: Collection[dt.date], beside: Collection[str] = ()) -> set[dt.date]:
        """Assign all rows to the name servers of the addresses at which they were recorded; `days` have new rows.

        `beside`: addresses at which these were recorded more than once at the same time, each time of other connections.
        Commits nothing. Returns further days with changed rows.
        """
        if changed := self._renamed():
            # State that later days carry on has changed as well.
            changed = {day for day in (*days_of(self._warehouse.recorded()), *days, *changed) if day >= min(changed)}
        several = {*self.namesrv_of.values(), *self._renamed_ids, *(self.namesrv_of.get(addr, addr) for addr in beside)}
        if several and (days or changed):
            for day in sorted({*days, *changed}):
                _place(self._warehouse, several, day)
            changed |= _count_once(self._warehouse, several, min({*days, *changed}))
        if self._rows != self._stored:
            rows = [
                {**row, "ingest_run": row.get("ingest_run") or self._warehouse.run_id} for row in self._rows.values()
            ]
            noted = table_of(sorted(rows, key=itemgetter("namesrv_addr")), bronze.ADDRESSES)
            self._warehouse.write(bronze.ADDRESSES, noted, instead=self._warehouse.files(bronze.ADDRESSES))
        return changed

    # -- rows that change --------------------------------------------------------------------------------------------------

    def _renamed(self) -> set[dt.date]:
        """Assign rows to their current name servers; return the days with changed rows."""
        before, now, warehouse = self._named, self.namesrv_of, self._warehouse
        moved = {addr for addr in before.keys() | now.keys() if before.get(addr, addr) != now.get(addr, addr)}
        ids = {before.get(addr, addr) for addr in moved}
        self._named = now
        self._renamed_ids |= {*ids, *(now.get(addr, addr) for addr in moved)}
        if not moved:
            return set()
        whose = {addr: now.get(addr, addr) for addr in sorted(moved)}
        changed: set[dt.date] = set()
        for table in _NAMED:
            files = [file for file in warehouse.files(table) if file.may_be_of(ids)]
            changed |= _set(warehouse, table, files, "namesrv_id", whose, by="namesrv_addr")
        names = warehouse.rows(bronze.WATERMARKS)
        if names.num_rows:
            marks: dict[str, Values] = {}
            for row in sorted(rows_of(names), key=lambda row: row["latest_time"]):
                name = now.get(row["namesrv_id"], row["namesrv_id"])
                marks[name] = {**row, "namesrv_id": name}
            kept = table_of(marks.values(), bronze.WATERMARKS)
            warehouse.write(bronze.WATERMARKS, kept, instead=warehouse.files(bronze.WATERMARKS))
        return changed


def _count_once(warehouse: Warehouse, names: Collection[str], first: dt.date) -> set[dt.date]:
    """Count each fact since `first` about the life of name servers recorded several times at once; return the changed days."""
    is_life = pc.field("kind").isin([*_LIFE, *(f"address_{kind}" for kind in _LIFE)])
    columns = ["namesrv_id", "namesrv_addr", "seq", "event_id", "kind", "properties", "day"]
    days: set[dt.date] = set()
    for name in sorted(names):
        own = is_life & (pc.field("namesrv_id") == name)
        facts = sorted(rows_of(warehouse.rows(bronze.NAMESRV_EVENTS, None, columns, own)), key=itemgetter("seq"))
        lives = [fact["kind"] for fact in facts if fact["day"] < first and fact["kind"] in _LIFE[:3]]
        fresh = [fact for fact in facts if fact["day"] >= first]
        stopped = {fact["day"] for fact in fresh if "stop" in fact["kind"] or "gap" in fact["kind"]}
        answered = dict[str, list[int]]()  # positions of answers on these days, by address
        for table in (bronze.ROUTE_OBSERVATIONS, bronze.HEARTBEATS, bronze.REGISTRATIONS) if stopped else ():
            of_days = {
                file.day
                for file in warehouse.files(table)
                if file.day is not None and min(stopped) <= file.day <= max(stopped) + dt.timedelta(days=1)
            }
            is_answer = (pc.field("namesrv_id") == name) & pc.field("response_code").is_valid()
            rows = warehouse.rows(table, of_days, ["namesrv_addr", "seq"], is_answer)
            for address in pc.unique(rows["namesrv_addr"]).to_pylist():
                of_address = rows.filter(pc.field("namesrv_addr") == address)
                answered.setdefault(address, []).extend(of_address["seq"].to_pylist())
        answered = {address: sorted(seqs) for address, seqs in answered.items()}
        kinds = new_kinds(fresh, answered, is_up=lives[-1] != "stopped" if lives else None)
        changed = {fact["day"] for fact in fresh if fact["event_id"] in kinds}
        _set(warehouse, bronze.NAMESRV_EVENTS, warehouse.files(bronze.NAMESRV_EVENTS, changed), "kind", kinds)
        days |= changed
    return days


def note_renamed(warehouse: Warehouse, addresses: Addresses, days: Collection[dt.date]) -> None:
    """Note in `sources` that rows of `days` have new ids although no file was read, so that these days are replayed."""
    text = f"{warehouse.run_id} {sorted(addresses.namesrv_of.items())}"
    row = {
        "content_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "source_file": "addresses",
        "kind": "addresses",
        "bytes": 0,
        "frames": 0,
        "verdict": bronze.ACCEPTED,
    }
    warehouse.write(bronze.SOURCES, table_of([row], bronze.SOURCES, days=sorted(days), ingest_run=warehouse.run_id))


# -- rewriting -------------------------------------------------------------------------------------------------------------


def _place(warehouse: Warehouse, names: Collection[str], day: dt.date) -> None:
    """Give events of a day, of name servers recorded several times at once, distinct positions.

    An event at the address that names the name server keeps its position; others move behind the last event of their microsecond.
    """
    placed = ["namesrv_id", "namesrv_addr", "event_id", "seq"]
    own = pc.field("namesrv_id").isin(sorted(names))
    while True:
        rows = (warehouse.rows(table, [day], ["namesrv_id", "seq"], own) for table in bronze.EVENT_TABLES)
        places = pa.concat_tables(rows)
        if places.group_by(["namesrv_id", "seq"]).aggregate([]).num_rows == places.num_rows:
            return
        events = pa.concat_tables(warehouse.rows(table, [day], placed, own) for table in bronze.EVENT_TABLES)
        moved = dict(zip(*ask(query("across/positions"), {"events": events}).to_pydict().values(), strict=True))
        for table in bronze.EVENT_TABLES:
            _set(warehouse, table, warehouse.files(table, [day]), "seq", moved)


def _set(
    warehouse: Warehouse,
    table: Table,
    files: Iterable[DataFile],
    column: str,
    values: Mapping[str, Any],
    by: str = "event_id",
) -> set[dt.date]:
    """Set one column of rows, looked up by another column of theirs; return the days with changed rows."""
    new = pa.table({"key": list(values), "new": list(values.values())})
    days: set[dt.date] = set()
    for file in files:
        known = read_files(warehouse.path, table, [file], [by, column])
        at = pc.index_in(known[by], value_set=new["key"])
        wanted = pc.coalesce(pc.take(new["new"], at), known[column])
        if wanted.equals(known[column]):
            continue
        rows = read_files(warehouse.path, table, [file], once=LONG_TEXTS & {*table.column_names}).unify_dictionaries()
        order = [(name, "ascending") for name in ("namesrv_id", "seq", table.key[0]) if name in table.column_names]
        warehouse.write(table, with_columns(rows, **{column: wanted}).sort_by(order), file.day, [file])
        days |= set() if file.day is None else {file.day}
    return days


# -- filling gaps ------------------------------------------------------------------------------------------------------

_GAPS = ("recording_gap", "address_recording_gap")
_SHORTEST_NS = CHANNEL_MAX_IDLE_MS * NS_PER_MS + RECORDING_GAP_NS


def fill_gaps(warehouse: Warehouse, days: Collection[dt.date]) -> set[dt.date]:
    """Shorten gaps in which `days` now have rows to what is left of them; return the days with changed facts.

    Left are the times before and after the late rows, if longer than a minute, and any gap that reading both at once would have
    noted. Commits nothing.
    """
    table, changed = bronze.NAMESRV_EVENTS, set[dt.date]()
    if not days:
        return changed
    first = min(days) - dt.timedelta(days=warehouse.conf.late_limit_days)
    looked_at = {file.day for file in warehouse.files(table) if file.day is not None and first <= file.day <= max(days)}
    gaps = list(rows_of(warehouse.rows(table, looked_at, filter=pc.field("kind").isin(_GAPS[:1]))))
    # Gaps may overlap, and the remainders of two may begin after the same event.
    taken = {(gap["namesrv_id"], gap["seq"]) for gap in gaps}
    for gap in gaps:
        is_step = _until_ns(gap) - gap["seq"] <= SMALL_HOLE_NS
        if not is_step and day_of(_until_ns(gap) // NS_PER_US) >= min(days) and (seen := _seen_in(warehouse, gap)):
            left = _left_of(gap, seen, taken)
            take_out(warehouse, table, [gap["event_id"]], warehouse.files(table, [gap["day"]]))
            for day in sorted({row["day"] for row in left}):
                warehouse.write(table, table_of([row for row in left if row["day"] == day], table), day)
            changed |= {gap["day"], *(row["day"] for row in left)}
    return changed


def _until_ns(gap: Mapping[str, Any]) -> int:
    return gap_end_ms(gap["properties"]) * NS_PER_MS


def _seen_in(warehouse: Warehouse, gap: Mapping[str, Any]) -> list[int]:
    """Return the positions of a name server's recorded events in a gap, in order."""
    until = _until_ns(gap)
    within = (pc.field("namesrv_id") == gap["namesrv_id"]) & (pc.field("seq") > gap["seq"]) & (pc.field("seq") < until)
    first, last = gap["day"], day_of(until // NS_PER_US)
    found: set[int] = set()
    for table in bronze.RECORDED_TABLES:
        days = {file.day for file in warehouse.files(table) if file.day is not None and first <= file.day <= last}
        where = within
        if table is bronze.CHANNEL_EVENTS:
            where &= pc.field("closed_by") != "timer"
        elif table is bronze.NAMESRV_EVENTS:
            where &= ~pc.field("kind").isin(_GAPS)
        found.update(warehouse.rows(table, days, ["seq"], where)["seq"].to_pylist())
    return sorted(found)


_READ_APART = "; read apart from what came "


def _left_of(gap: Mapping[str, Any], seen: list[int], taken: set[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the rows for what is left of a gap, at positions not in `taken`, and add these to it."""
    rows, edges, sides = [], (gap["seq"], _until_ns(gap)), gap["evidence"].partition(_READ_APART)[2]
    for begin, end in pairwise([edges[0], *seen, edges[1]]):
        # An end that an event gave it, now or in an earlier night: whatever the nights, what is left is the same.
        at_event = [
            side
            for side, is_inner in (("before", begin != edges[0]), ("after", end != edges[1]))
            if is_inner or side in sides
        ]
        if end - begin <= (_SHORTEST_NS if len(at_event) == 2 else RECORDING_GAP_NS):
            continue
        row = {**gap, "properties": gap_until(begin, end)}
        row["evidence"] = f"no packet for {(end - begin) / 1e9:.3f} s{_READ_APART}{' and '.join(at_event)}"
        if begin != edges[0]:
            at = next(at for at in count(begin + 1) if (gap["namesrv_id"], at) not in taken)
            taken.add((gap["namesrv_id"], at))
            name = hashlib.sha256(f"gap {gap['namesrv_id']} {at}".encode()).hexdigest()[: len(gap["event_id"])]
            us = at // NS_PER_US
            row |= {"seq": at, "event_id": name, "event_time": us, "effect_time": us, "day": day_of(us)}
        rows.append(row)
    return rows


# -- reading -----------------------------------------------------------------------------------------------------------

IN_ORDER = (*(table for table in bronze.TABLES if table is not bronze.SOURCES), bronze.SOURCES)
"""The tables that reading changes, in the order of their commits."""
_PIECES = frozenset(reason.value for reason in PIECES)


def ingest(warehouse: Warehouse, inputs: Sequence[str], passes: Passes | None = None) -> Ingested:
    """Read `inputs` (files, folders or URLs) into the bronze tables of the warehouse; return the result.

    `passes`: runs the tasks that read and write; None: this process.

    Raises ClockError if the input was only files without order; GateError, before anything is committed, if a frame is
    unaccounted for.
    """
    with given_files(warehouse, inputs, passes or InProcess()) as given:
        result = read(warehouse, given, passes)
        commit_read(warehouse, result)
    return result


def commit_read(warehouse: Warehouse, result: Ingested) -> None:
    """Commit what was read. Raises ClockError if the input was only files without order."""
    warehouse.commit(IN_ORDER)
    if result.unordered and not result.events + result.observations + result.duplicates:
        raise ClockError(f"{'; '.join(result.errors)}. Nothing could be used: the captures' clocks jump back too far")


def read(
    warehouse: Warehouse,
    given: Given,
    passes: Passes | None = None,
    refused: Mapping[str, str] | None = None,
    waiting: Collection[str] = (),
) -> Ingested:
    """Read the new files without a commit; see `ingest`.

    A file that breaks a rule is left out, as are `refused` files, given by digest with the reason. `waiting`: runs of which nothing
    is published; their rows are used now, and their files do not count as duplicates.
    """
    left_out, runner = dict(refused or {}), passes or InProcess()
    if given.are_copies and not isinstance(runner, InProcess):
        share, runner = runner.share, Processes(cores())
        runner.share = share
    with rarely_collected(), given_back():
        while True:
            result = Ingested(empty=list(given.empty), errors=list(given.errors))
            fresh = _fresh_sources(warehouse, given, result, waiting)
            wanted = [source for source in fresh if source.sha256 not in left_out]
            rows, wrong, no_logs = _read(warehouse, wanted, result, runner)
            left_out |= wrong | no_logs
            if not wrong:
                break
            warehouse.discard()
    for source in fresh:
        if source.sha256 in left_out:
            rows.append({**source.row(error=left_out[source.sha256]), "verdict": bronze.REFUSED})
            result.errors.append(left_out[source.sha256])
            result.sources.append(source.name)
    if rows:
        counts, none = list(result.counts.items()), list[object]()
        days = [none if row["verdict"] == bronze.REFUSED else result.days for row in rows]
        listed = [{**row, "days": of} for row, of in zip(rows, days, strict=True)]
        warehouse.write(bronze.SOURCES, table_of(listed, bronze.SOURCES, counts=counts, ingest_run=warehouse.run_id))
    warehouse.hold_replaced()
    return result


def _read(
    warehouse: Warehouse, sources: Sequence[Source], result: Ingested, passes: Passes
) -> tuple[list[Values], dict[str, str], dict[str, str]]:
    """Read files; return their rows for `sources`, and digests with reasons of refused files, and of refused logs.

    Rows of the former were written and must be discarded; of the latter nothing was written.
    """
    addresses = Addresses(warehouse)
    if not sources:
        if addresses.are_new and (days := addresses.apply(())):
            note_renamed(warehouse, addresses, days)
        return [], {}, {}
    watermarks = {row["namesrv_id"]: row["latest_time"] for row in rows_of(warehouse.rows(bronze.WATERMARKS))}
    namesrv_of = addresses.namesrv_of
    of_addresses = {addr: watermarks[name] for addr, name in namesrv_of.items() if name in watermarks}
    lateness = Lateness(watermarks | of_addresses, warehouse.conf.late_limit_days, warehouse.until_us)
    is_here = local_path(warehouse.staging) is None and isinstance(passes, InProcess)
    with (
        temporary_folder("staging") if is_here else nullcontext(warehouse.staging) as folder,
        staging_in(f"{folder}", warehouse.run_id, warehouse.started.date(), namesrv_of) as staging,
    ):
        reading = Reading(warehouse, staging, lateness, result, passes)
        files = reading.read(sources)
        rows = [file.row for file in files]
        has_logs = any(source.kind != "capture" for source in sources)
        # Stored rows decide which rows are new, and where these are placed, so they are checked first.
        warehouse.hold(bronze.RECORDED_TABLES, staging.days)
        pa.default_memory_pool().release_unused()
        settle_staged(warehouse, staging, has_logs=has_logs)
        addresses.state(reading.stated)
        last_day = times.day_of(max(watermarks.values())) if watermarks else warehouse.started.date()
        write_staged(warehouse, staging, result, last_day)
        wrong = _refused(warehouse, staging, files, result)
    if wrong:
        return rows, wrong, reading.refused
    if (
        len(reading.foreign) == len(files) and not result.known_sources
    ):  # beside other files, as in a folder of logs, it is no error
        result.errors += reading.foreign.values()
        reading.unused |= reading.foreign.keys()
    else:
        result.left_out += reading.foreign.values()
    if result.unaccounted:
        raise GateError(
            f"{result.unaccounted} frames are neither events, answers, duplicates, quarantined nor ignored; none of the files "
            "counts as read"
        )
    result.days = sorted({*result.days, *addresses.apply(result.days, reading.beside)})
    result.days = sorted({*result.days, *fill_gaps(warehouse, result.days)})
    _upsert(warehouse, bronze.OPEN_STREAMS, reading.open_streams)
    # Never beyond the run's own clock: otherwise one event from the future would make all later ones too late.
    reached: dict[str, int] = {}
    for addr, us in sorted(lateness.latest_us.items(), key=itemgetter(1)):
        reached[addresses.namesrv_of.get(addr, addr)] = min(us, times.instant_us(warehouse.started))
    moved = [
        {"namesrv_id": name, "latest_time": us} for name, us in sorted(reached.items()) if us > watermarks.get(name, -1)
    ]
    _upsert(warehouse, bronze.WATERMARKS, moved)
    met = lateness.latest_us.keys() | watermarks.keys() | namesrv_of.keys()
    result.never_met = sorted(warehouse.conf.named - met)
    return [row for row in rows if row["content_sha256"] not in reading.unused], {}, reading.refused


def _refused(warehouse: Warehouse, staging: Staging, files: Sequence[ReadSource], result: Ingested) -> dict[str, str]:
    """Return the digests of files to refuse, with reasons; `files`: in the order in which they were read.

    A file is refused if more of its frames or lines, copies included, are in quarantine than the configured limits allow. If less
    than half of it could be read, its row for `sources` says so.
    """
    quarantined, starts = [Quarantined() for _ in files], [file.numbers.start for file in files]
    columns = ["_n", "reason", "source_offset", "detail"]
    is_any = bronze.QUARANTINE.name in staging.tables
    for rows in staging.columns(bronze.QUARANTINE.name, columns) if is_any else ():
        for number, reason, offset, detail in zip(*(rows[name].to_pylist() for name in columns), strict=True):
            of = staging.broken.get(number, number)
            at = bisect_right(starts, of) - 1
            if reason not in _PIECES and at >= 0 and of in files[at].numbers:
                quarantined[at].add(reason, offset, detail or "")
    wrong: dict[str, str] = {}
    for (source, row, _), found in zip(files, quarantined, strict=True):
        count, frames = found.counts.total(), row["frames"]
        if frames == 0 and row["error"] is not None:
            row["verdict"] = bronze.UNREAD
        if not count:
            continue
        if (why := found.refusal(warehouse.conf, source.name, frames)) is not None:
            wrong[source.sha256] = why
        elif 2 * count > frames:
            row["verdict"] = bronze.UNREAD
            if row["error"] is None:
                row["error"] = text = found.described(source.name, frames)
                result.errors.append(text)
    return wrong


def join_addresses(warehouse: Warehouse, groups: Sequence[Sequence[str]]) -> None:
    """Make the name servers of each group one, with the id of the first, and mark the days of their rows for replay."""
    addresses = Addresses(warehouse)
    addresses.join(groups)
    note_renamed(warehouse, addresses, addresses.apply(()))
    warehouse.hold_replaced()


def _fresh_sources(warehouse: Warehouse, given: Given, result: Ingested, waiting: Collection[str]) -> list[Source]:
    """Return the files that no run has noted, each content once, in order of time; note the others in `result`."""
    known = {source.sha256: source for source in warehouse.recorded()} if given.sources or given.known else {}
    fresh: dict[str, Source] = {}
    names = [(source.sha256, source.name) for source in given.sources]
    for source in given.sources:
        if source.sha256 not in known:
            fresh.setdefault(source.sha256, source)
    for sha256, name in [*names, *((sha256, known[sha256].name) for sha256 in given.known)]:
        before = known.get(sha256)
        if before is None:
            continue
        if before.verdict != bronze.ACCEPTED:
            result.errors.append(f"{before.error} (given before: `refused` lists and forgets such files)")
        if before.verdict != bronze.REFUSED and before.ingest_run not in waiting:
            result.frames += before.frames
            result.duplicates += before.frames
        if before.ingest_run not in waiting:
            result.known_sources.append(name)
    return list(fresh.values())


def _upsert(warehouse: Warehouse, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Write `rows` into a small table that is not cut by day, in place of those with their keys."""
    if rows:
        added, key = table_of(rows, table, ingest_run=warehouse.run_id), table.key[0]
        others = warehouse.rows(table, filter=~pc.field(key).isin(added[key]))
        warehouse.write(table, pa.concat_tables([others, added]), instead=warehouse.files(table))
