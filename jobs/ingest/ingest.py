"""Read captures and event logs into the bronze tables.

Reads   packet captures and JSON-lines event logs, files or folders
Writes  all bronze tables; a file that was read before, by content, changes nothing. What breaks a rule goes to quarantine; a file
        of which too much does is refused: nothing of it is kept but its row in `sources`, with the reason

Each table has one commit, and `sources` the last: a file is known from then on, and what was read of it is in the tables.
Until then readers see none of it, so that a run that dies leaves nothing that would have to be taken back.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import tempfile
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count, pairwise
from operator import itemgetter
from typing import Any

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
from jobs.store.places import local_path
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS
from namesrv_day.across.addresses import PLACED, own_positions, told_once
from namesrv_day.arrow.rows import rows_of, table_of, with_columns
from namesrv_wire.errors import PIECES
from namesrv_wire.lateness import Lateness
from namesrv_wire.limits import RECORDING_GAP_NS, SMALL_HOLE_NS
from namesrv_wire.rows import Values, gap_end_ms, gap_until
from schemas import bronze, times
from schemas.table import Table
from schemas.times import day_of

# -- addresses of name servers -----------------------------------------------------------------------------------------

_NAMED = (*bronze.RECORDED_TABLES, bronze.QUARANTINE)
_LIFE = ("started", "stopped", "observed_from", "recording_gap")
_ONE_DAY = dt.timedelta(days=1)


class Addresses:
    """What is known of the addresses of name servers: rows of the table `addresses`, as they are, and as they are to be.

    Rows of all addresses of one name server have its id: as conf/ or an event log says, or, where that is asked for, findings.
    Bronze rows keep the address that was used, so that what is known later, or was taken wrongly, changes ids alone.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._stored = {row["namesrv_addr"]: row for row in rows_of(warehouse.rows(bronze.ADDRESSES))}
        self._named, self._renamed_ids = _namesrv_of(self._stored.values()), set[str]()
        given = warehouse.conf.namesrv_of
        self._listed = {*given, *(name for name, said in warehouse.conf.namesrvs.items() if said.addresses is not None)}
        self._rows = {address: row for address, row in self._stored.items() if self._holds(row)}
        for address, name in given.items():
            self._take(address, name, "given")

    def _holds(self, row: Values) -> bool:
        """Return whether a stored row may stand: what conf/ said is no more than it says now, and wins over other sources."""
        address, name = row["namesrv_addr"], row["namesrv_id"]
        if row["source"] == "given" or (row["source"] == "joined" and not self._warehouse.conf.join_addresses):
            return False
        own = {name, address, *(other for other, of in self._named.items() if of == name)}
        return self._listed.isdisjoint((address, name)) and not any(pair <= own for pair in self._warehouse.conf.apart)

    def _take(self, address: str, name: str, source: str) -> None:
        """Have an address be another one of a name server, and so all that were the address's own."""
        for other, row in self._rows.items():
            if row["namesrv_id"] == address:
                self._rows[other] = {**row, "namesrv_id": name}
        row = {"namesrv_addr": address, "namesrv_id": name, "source": source}
        known = self._stored.get(address)
        self._rows[address] = known if known is not None and {**known, **row} == known else row

    @property
    def namesrv_of(self) -> dict[str, str]:
        """Return the name servers whose addresses are other than their ids."""
        return _namesrv_of(self._rows.values())

    @property
    def are_new(self) -> bool:
        """Return whether rows that are stored belong to other name servers by now."""
        return self._named != self.namesrv_of

    def state(self, stated: Mapping[str, str]) -> None:
        """Take in what event logs say."""
        for address, name in stated.items():
            of = self.namesrv_of.get(name, name)
            row = {"namesrv_addr": address, "namesrv_id": of, "source": "stated"}
            if address not in self.namesrv_of and address != of and self._holds(row):
                self._take(address, of, "stated")

    def join(self, groups: Iterable[Sequence[str]]) -> None:
        """Have the name servers of each group be one, called by the first, as findings suggest it."""
        for name, *others in groups:
            for other in others:
                self._take(other, name, "joined")

    def apply(self, days: Collection[dt.date]) -> set[dt.date]:
        """Have all rows belong to the name servers whose addresses they were met at; `days` have new rows.

        Nothing is committed. Returns further days whose rows have changed.
        """
        if changed := self._renamed():
            # What was carried through later days has changed as well.
            changed = {day for day in (*days_of(self._warehouse.recorded()), *days, *changed) if day >= min(changed)}
        several = {*self.namesrv_of.values(), *self._renamed_ids}
        if several and (days or changed):
            for day in sorted({*days, *changed}):
                _place(self._warehouse, several, day)
            changed |= _told_once(self._warehouse, several, min({*days, *changed}))
        if self._rows != self._stored:
            rows = [
                {**row, "ingest_run": row.get("ingest_run") or self._warehouse.run_id} for row in self._rows.values()
            ]
            noted = table_of(sorted(rows, key=itemgetter("namesrv_addr")), bronze.ADDRESSES)
            self._warehouse.write(bronze.ADDRESSES, noted, instead=self._warehouse.files(bronze.ADDRESSES))
        return changed

    # -- rows that change --------------------------------------------------------------------------------------------------

    def _renamed(self) -> set[dt.date]:
        """Have the rows belong to whom they do now; return the days on which some have changed."""
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


def _told_once(warehouse: Warehouse, names: Collection[str], first: dt.date) -> set[dt.date]:
    """Have each fact since `first` about the life of name servers that have several addresses count once; return days changed."""
    is_life = pc.field("kind").isin([*_LIFE, *(f"address_{kind}" for kind in _LIFE)])
    columns = ["namesrv_id", "namesrv_addr", "seq", "event_id", "kind", "properties", "day"]
    days: set[dt.date] = set()
    for name in sorted(names):
        own = is_life & (pc.field("namesrv_id") == name)
        facts = sorted(rows_of(warehouse.rows(bronze.NAMESRV_EVENTS, None, columns, own)), key=itemgetter("seq"))
        lives = [fact["kind"] for fact in facts if fact["day"] < first and fact["kind"] in _LIFE[:3]]
        fresh = [fact for fact in facts if fact["day"] >= first]
        told = {fact["day"] for fact in fresh if "stop" in fact["kind"] or "gap" in fact["kind"]}
        answered = dict[str, list[int]]()  # by address the positions at which it answered on these days
        for table in (bronze.ROUTE_OBSERVATIONS, bronze.HEARTBEATS, bronze.REGISTRATIONS) if told else ():
            of_days = {
                file.day
                for file in warehouse.files(table)
                if file.day is not None and min(told) <= file.day <= max(told) + _ONE_DAY
            }
            is_answer = (pc.field("namesrv_id") == name) & pc.field("response_code").is_valid()
            rows = warehouse.rows(table, of_days, ["namesrv_addr", "seq"], is_answer)
            for address in pc.unique(rows["namesrv_addr"]).to_pylist():
                of_address = rows.filter(pc.field("namesrv_addr") == address)
                answered.setdefault(address, []).extend(of_address["seq"].to_pylist())
        answered = {address: sorted(seqs) for address, seqs in answered.items()}
        kinds = told_once(fresh, answered, is_up=lives[-1] != "stopped" if lives else None)
        changed = {fact["day"] for fact in fresh if fact["event_id"] in kinds}
        _set(warehouse, bronze.NAMESRV_EVENTS, warehouse.files(bronze.NAMESRV_EVENTS, changed), "kind", kinds)
        days |= changed
    return days


def note_renamed(warehouse: Warehouse, addresses: Addresses, days: Collection[dt.date]) -> None:
    """Note in `sources` that rows of `days` have other ids now although no file was read: the days are to be replayed."""
    said = f"{warehouse.run_id} {sorted(addresses.namesrv_of.items())}"
    row = {
        "content_sha256": hashlib.sha256(said.encode()).hexdigest(),
        "source_file": "addresses",
        "kind": "addresses",
        "bytes": 0,
        "frames": 0,
        "verdict": bronze.ACCEPTED,
    }
    warehouse.write(bronze.SOURCES, table_of([row], bronze.SOURCES, days=sorted(days), ingest_run=warehouse.run_id))


def _namesrv_of(rows: Iterable[Values]) -> dict[str, str]:
    return {row["namesrv_addr"]: row["namesrv_id"] for row in rows}


# -- rewriting -------------------------------------------------------------------------------------------------------------


def _place(warehouse: Warehouse, names: Collection[str], day: dt.date) -> None:
    """Have no two events of a day of name servers with several addresses stand at one position."""
    own = pc.field("namesrv_id").isin(sorted(names))
    while True:
        rows = (warehouse.rows(table, [day], ["namesrv_id", "seq"], own) for table in bronze.EVENT_TABLES)
        places = pa.concat_tables(rows)
        if places.group_by(["namesrv_id", "seq"]).aggregate([]).num_rows == places.num_rows:
            return
        events = pa.concat_tables(warehouse.rows(table, [day], PLACED.names, own) for table in bronze.EVENT_TABLES)
        moved = own_positions(events)
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
    """Set one column of rows by another one of theirs; return the days on which some have changed."""
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


# -- gaps that are filled ----------------------------------------------------------------------------------------------

_GAPS = ("recording_gap", "address_recording_gap")
_SHORTEST_NS = CHANNEL_MAX_IDLE_MS * NS_PER_MS + RECORDING_GAP_NS


def fill_gaps(warehouse: Warehouse, days: Collection[dt.date]) -> set[dt.date]:
    """Have gaps in which `days` have rows by now be what is left of them; return the days on which facts have changed.

    That is the time before what came late, and behind it, if it is longer than a minute; and what reading both at once would
    have called a gap. Nothing is committed.
    """
    table, changed = bronze.NAMESRV_EVENTS, set[dt.date]()
    if not days:
        return changed
    first = min(days) - dt.timedelta(days=warehouse.conf.late_limit_days)
    looked_at = {file.day for file in warehouse.files(table) if file.day is not None and first <= file.day <= max(days)}
    gaps = list(rows_of(warehouse.rows(table, looked_at, filter=pc.field("kind").isin(_GAPS[:1]))))
    # Gaps may lie over each other, and what is left of two begin behind the same event.
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
    """Return the positions of what was recorded of the name server in a gap, in order."""
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


def _left_of(gap: Mapping[str, Any], seen: list[int], taken: set[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the rows of what is left of a gap, at positions of name servers that are not `taken`, and take these."""
    rows, edges = [], (gap["seq"], _until_ns(gap))
    for begin, end in pairwise([edges[0], *seen, edges[1]]):
        if end - begin <= (RECORDING_GAP_NS if begin == edges[0] or end == edges[1] else _SHORTEST_NS):
            continue
        row = {**gap, "properties": gap_until(begin, end)}
        row["evidence"] = f"no packet for {(end - begin) / 1e9:.3f} s; what came before and after was read apart"
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
    """Read `inputs`, files, folders or URLs, into the bronze tables of the warehouse; return what was read.

    `passes`: who calls the tasks that read and write; None: this process.

    Raises ClockError if all there was to read were files without order; GateError, before
    anything is committed, if a frame is unaccounted for.
    """
    with given_files(warehouse, inputs, passes or InProcess()) as given:
        result = read(warehouse, given, passes)
        commit_read(warehouse, result)
    return result


def commit_read(warehouse: Warehouse, result: Ingested) -> None:
    """Commit what was read. Raises ClockError if all there was to read were files without order."""
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
    """Read what is new of the files, and commit nothing; see `ingest`.

    A file that breaks a rule is left out, and so are those that are `refused` already: digest and reason. `waiting`: runs of which
    nothing is published, and what they have read is taken up; a file of theirs is no duplicate.
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
            result.sources.append(source.path.name)
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
    """Read files; return their rows for `sources`, and digests with reasons: of those that may not stay, and of refused logs.

    Of the first something was written, of the second nothing.
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
    folder = f"{tempfile.gettempdir()}/{warehouse.run_id}" if is_here else warehouse.staging
    with staging_in(folder, warehouse.run_id, warehouse.started.date(), namesrv_of) as staging:
        reading = Reading(warehouse, staging, lateness, result, passes)
        files = reading.read(sources)
        rows = [file.row for file in files]
        has_logs = any(source.is_log for source in sources)
        # What is new is told by what is there, and gets its place beside it.
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
    ):  # beside others, as in a folder of logs, it is no error
        result.errors += reading.foreign.values()
        reading.unused |= reading.foreign.keys()
    else:
        result.left_out += reading.foreign.values()
    if result.unaccounted:
        raise GateError(
            f"{result.unaccounted} frames are neither events, answers, duplicates, quarantined nor ignored; none of the files "
            "counts as read"
        )
    result.days = sorted({*result.days, *addresses.apply(result.days)})
    result.days = sorted({*result.days, *fill_gaps(warehouse, result.days)})
    _upsert(warehouse, bronze.OPEN_STREAMS, reading.open_streams)
    # Never beyond the run's own clock: else one event from the future would make everything after it too late.
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
    """Return the digests of the files that are refused, and why; `files`: in the order in which they were read.

    A file is refused if more of its frames or lines than the limits of the configuration let pass are in quarantine, copies too. If
    not most of it could be read, its row for `sources` says so.
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
        if (why := found.refusal(warehouse.conf, source.path.name, frames)) is not None:
            wrong[source.sha256] = why
        elif 2 * count > frames:
            row["verdict"] = bronze.UNREAD
            if row["error"] is None:
                row["error"] = said = found.told(source.path.name, frames)
                result.errors.append(said)
    return wrong


def join_addresses(warehouse: Warehouse, groups: Sequence[Sequence[str]]) -> None:
    """Have the name servers of each group be one, called by the first; the days of their rows are to be replayed."""
    addresses = Addresses(warehouse)
    addresses.join(groups)
    note_renamed(warehouse, addresses, addresses.apply(()))
    warehouse.hold_replaced()


def _fresh_sources(warehouse: Warehouse, given: Given, result: Ingested, waiting: Collection[str]) -> list[Source]:
    """Return the files that no run has noted, each content once, in order of time; note the others in `result`."""
    known = {source.sha256: source for source in warehouse.recorded()} if given.sources or given.known else {}
    fresh: dict[str, Source] = {}
    names = [(source.sha256, source.path.name) for source in given.sources]
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
    """Have `rows` in a small table, which is not cut by day, instead of those with their keys."""
    if rows:
        added, key = table_of(rows, table, ingest_run=warehouse.run_id), table.key[0]
        others = warehouse.rows(table, filter=~pc.field(key).isin(added[key]))
        warehouse.write(table, pa.concat_tables([others, added]), instead=warehouse.files(table))
