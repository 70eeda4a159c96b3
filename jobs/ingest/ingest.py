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
from collections.abc import Collection, Mapping, Sequence
from itertools import count, pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import ClockError, GateError
from jobs.ingest.addresses import Addresses, note_renamed
from jobs.ingest.reading import Reading
from jobs.ingest.sources import Given, Ingested, Quarantined, ReadSource, Source, given_files
from jobs.ingest.staging import Staging, settle_staged, staging_in, write_staged
from jobs.passes import InProcess, Passes, Processes
from jobs.processes import cores, given_back, rarely_collected
from jobs.store.files import read_files
from jobs.store.places import local_path
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS
from namesrv_day.arrow.rows import rows_of, table_of
from namesrv_wire.errors import PIECES
from namesrv_wire.lateness import Lateness
from namesrv_wire.limits import RECORDING_GAP_NS, SMALL_HOLE_NS
from namesrv_wire.rows import Values, gap_end_ms, gap_until
from schemas import bronze, times
from schemas.table import Table
from schemas.times import day_of

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
            for file in warehouse.files(table, [gap["day"]]):
                rows = read_files(warehouse.path, table, [file])
                kept = rows.filter(pc.not_equal(rows["event_id"], gap["event_id"]))
                if kept.num_rows < rows.num_rows:
                    warehouse.write(table, kept, gap["day"], [file])
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
