"""Gives the rows of all addresses of one name server its id: as conf/ says, as was found before, or as the rows themselves tell.

Bronze rows keep the address that was used, so that what is known later, or was taken wrongly, changes ids alone.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.staging import Staging
from jobs.ingest.telling import Recorded
from jobs.store.files import DataFile, bounds_of, read_files
from jobs.store.recorded import days_of
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.across import addresses
from namesrv_day.across.addresses import PLACED, Pair
from namesrv_day.arrow.rows import rows_of, table_of, with_columns
from namesrv_day.arrow.sql import apart
from schemas import bronze
from schemas.table import Table
from schemas.times import day_of

Values = dict[str, Any]
_NAMED = (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS, bronze.QUARANTINE)
_NOTHING = {"answers_for": 0, "answers_early": 0, "answers_against": 0, "brokers_at_both": 0, "evidence": []}
_LIFE = ("started", "stopped", "observed_from", "recording_gap")
_ONE_DAY = dt.timedelta(days=1)


class Addresses:
    """What is known of the addresses of name servers: rows of the table `addresses`, as they are, and as they are to be."""

    def __init__(self, house: Warehouse) -> None:
        self._house = house
        stored = list(rows_of(house.rows(bronze.ADDRESSES)))
        self._stored = {(row["namesrv_addr"], row["namesrv_id"]): row for row in stored}
        self._named, self._renamed_ids = _namesrv_of(stored), set[str]()
        self._changed = set[dt.date]()
        given = house.conf.namesrv_of
        listed = {name for name, said in house.conf.namesrvs.items() if said.addresses is not None}
        self._listed = listed | given.keys()
        self._rows = {key: row for key, row in self._stored.items() if self._holds(row)}
        for address, name in given.items():
            self._take(address, name, "given", _NOTHING)
            if (known := self._stored.get((address, name))) is not None and known["source"] == "given":
                self._rows[address, name] = known

    def _holds(self, row: Values) -> bool:
        """Return whether a stored row may stand: what conf/ said is no more than it says now, and wins over what was found."""
        return row["source"] != "given" and self._listed.isdisjoint((row["namesrv_addr"], row["namesrv_id"]))

    def _take(self, address: str, name: str, source: str, said: Values) -> None:
        """Have an address be another one of a name server, and so all that were the address's own."""
        for (addr, of), row in list(self._rows.items()):
            if of == address and row["is_one"]:
                del self._rows[addr, of]
                self._rows[addr, name] = {**row, "namesrv_id": name}
            elif addr == address or (address in (addr, of) and not row["is_one"]):
                del self._rows[addr, of]
        times = {"first_time": None, "last_time": None}
        row = {**times, **said, "namesrv_addr": address, "namesrv_id": name, "is_one": True, "source": source}
        self._rows[address, name] = row

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
            if address not in self.namesrv_of and address not in self._listed:
                self._take(address, self.namesrv_of.get(name, name), "stated", _NOTHING)

    def conclude_staged(self, staged: Staging, days: Collection[dt.date]) -> None:
        """Conclude what rows of `days` tell, with those that are staged, and have these leave with the ids that follow."""
        is_new = True
        with apart():
            while is_new:
                self._changed |= self._renamed()
                staged.namesrv_of = self.namesrv_of
                is_new = self._conclude(Recorded(self._house, days, staged), days)

    def apply(self, days: Collection[dt.date], *, is_concluded: bool = False) -> set[dt.date]:
        """Have all rows belong to the name servers whose addresses they were met at; `days` have new rows.

        Unless it `is_concluded`, concludes on the way what these tell about addresses. Nothing is committed. Returns further days
        whose rows have changed.
        """
        changed = self._changed | self._renamed()
        while not is_concluded and self._conclude(Recorded(self._house, days), days):
            changed |= self._renamed()
        if changed:
            # What was carried through later days has changed as well.
            changed = {day for day in (*days_of(self._house.recorded()), *days, *changed) if day >= min(changed)}
        several = {*self.namesrv_of.values(), *self._renamed_ids}
        if several and (days or changed):
            for day in sorted({*days, *changed}):
                _place(self._house, several, day)
            changed |= _told_once(self._house, several, min({*days, *changed}))
        if self._rows != self._stored:
            rows = [{**row, "ingest_run": row.get("ingest_run") or self._house.run_id} for row in self._rows.values()]
            noted = table_of(sorted(rows, key=lambda r: (r["namesrv_addr"], r["namesrv_id"])), bronze.ADDRESSES)
            self._house.write(bronze.ADDRESSES, noted, instead=self._house.files(bronze.ADDRESSES))
        return changed

    # -- what answers tell -----------------------------------------------------------------------------------------------

    def _conclude(self, rows: Recorded, days: Collection[dt.date]) -> bool:
        """Look at the rows of `days` for name servers that are one; return whether some were found."""
        house = self._house
        beats = rows.heard().filter(~pc.field("namesrv_id").isin(pa.array(sorted(self._listed), pa.string())))
        pairs = rows.pairs(beats) if addresses.may_be_one(beats) else []
        groups, brokers = addresses.taken_as_one(pairs), Counter(beats["namesrv_id"].to_pylist())
        for group in groups:
            name, *others = sorted(group, key=lambda one: (one not in house.conf.namesrvs, -brokers[one], one))
            for other in others:
                telling = [
                    pair for pair in pairs if other in (pair.one, pair.other) and {pair.one, pair.other} <= set(group)
                ]
                self._take(other, name, "inferred", _said(max(telling, key=lambda pair: pair.answers_for)))
        if not groups:
            looked_at = [
                key for key, row in self._rows.items() if not row["is_one"] and day_of(row["last_time"]) in days
            ]
            for key in looked_at:
                del self._rows[key]
            self._doubt([pair for pair in pairs if pair.is_doubtful])
            self._doubt(addresses.shared(rows.clusters()))
        return bool(groups)

    def _doubt(self, pairs: Iterable[Pair]) -> None:
        """Note what speaks for two that stay apart, and against one that seems to be several."""
        for pair in pairs:
            row = {"namesrv_addr": pair.one, "namesrv_id": pair.other, "is_one": False, "source": "inferred"}
            self._rows[pair.one, pair.other] = {**row, **_said(pair)}

    # -- rows that change --------------------------------------------------------------------------------------------------

    def _renamed(self) -> set[dt.date]:
        """Have the rows belong to whom they do now; return the days on which some have changed."""
        before, now, house = self._named, self.namesrv_of, self._house
        moved = {addr for addr in before.keys() | now.keys() if before.get(addr, addr) != now.get(addr, addr)}
        ids = {before.get(addr, addr) for addr in moved}
        self._named = now
        self._renamed_ids |= {*ids, *(now.get(addr, addr) for addr in moved)}
        if not moved:
            return set()
        whose = {addr: now.get(addr, addr) for addr in sorted(moved)}
        changed: set[dt.date] = set()
        for table in _NAMED:
            files = [file for file in house.files(table) if _may_have(file, ids)]
            changed |= _set(house, table, files, "namesrv_id", whose, by="namesrv_addr")
        names = house.rows(bronze.WATERMARKS)
        if names.num_rows:
            marks: dict[str, Values] = {}
            for row in sorted(rows_of(names), key=lambda row: row["latest_time"]):
                name = now.get(row["namesrv_id"], row["namesrv_id"])
                marks[name] = {**row, "namesrv_id": name}
            kept = table_of(marks.values(), bronze.WATERMARKS)
            house.write(bronze.WATERMARKS, kept, instead=house.files(bronze.WATERMARKS))
        return changed


def _told_once(house: Warehouse, names: Collection[str], first: dt.date) -> set[dt.date]:
    """Have each fact since `first` about the life of name servers that have several addresses count once; return days changed."""
    is_life = pc.field("kind").isin([*_LIFE, *(f"address_{kind}" for kind in _LIFE)])
    columns = ["namesrv_id", "namesrv_addr", "seq", "event_id", "kind", "properties", "day"]
    days: set[dt.date] = set()
    for name in sorted(names):
        own = is_life & (pc.field("namesrv_id") == name)
        facts = sorted(rows_of(house.rows(bronze.NAMESRV_EVENTS, None, columns, own)), key=itemgetter("seq"))
        lives = [fact["kind"] for fact in facts if fact["day"] < first and fact["kind"] in _LIFE[:3]]
        fresh = [fact for fact in facts if fact["day"] >= first]
        told = {fact["day"] for fact in fresh if "stop" in fact["kind"] or "gap" in fact["kind"]}
        answered = _answered(house, name, min(told), max(told) + _ONE_DAY) if told else {}
        kinds = addresses.told_once(fresh, answered, is_up=lives[-1] != "stopped" if lives else None)
        changed = {fact["day"] for fact in fresh if fact["event_id"] in kinds}
        _set(house, bronze.NAMESRV_EVENTS, house.files(bronze.NAMESRV_EVENTS, changed), "kind", kinds)
        days |= changed
    return days


def note_renamed(house: Warehouse, days: Collection[dt.date]) -> None:
    """Note in `sources` that rows of `days` have other ids now although no file was read: the days are to be replayed."""
    row = {
        "content_sha256": hashlib.sha256(house.run_id.encode()).hexdigest(),
        "source_file": "addresses",
        "kind": "addresses",
        "bytes": 0,
        "frames": 0,
        "verdict": bronze.ACCEPTED,
    }
    house.write(bronze.SOURCES, table_of([row], bronze.SOURCES, days=sorted(days), ingest_run=house.run_id))


def _namesrv_of(rows: Iterable[Values]) -> dict[str, str]:
    return {row["namesrv_addr"]: row["namesrv_id"] for row in rows if row["is_one"]}


def _said(pair: Pair) -> Values:
    return {
        "answers_for": pair.answers_for,
        "answers_early": pair.answers_early,
        "answers_against": pair.answers_against,
        "brokers_at_both": pair.at_both,
        "evidence": list(pair.evidence),
        "first_time": pair.first_seq // NS_PER_US,
        "last_time": pair.last_seq // NS_PER_US,
    }


# -- what was answered at each address ----------------------------------------------------------------------------------------


def _answered(house: Warehouse, name: str, first: dt.date, last: dt.date) -> dict[str, list[int]]:
    """Return by address the positions at which a name server answered on some days, in order."""
    found: dict[str, list[int]] = {}
    own = pc.field("namesrv_id") == name
    for table in (bronze.ROUTE_OBSERVATIONS, bronze.HEARTBEATS, bronze.REGISTRATIONS):
        days = {file.day for file in house.files(table) if file.day is not None and first <= file.day <= last}
        rows = house.rows(table, days, ["namesrv_addr", "seq"], own & pc.field("response_code").is_valid())
        for address in pc.unique(rows["namesrv_addr"]).to_pylist():
            found.setdefault(address, []).extend(rows.filter(pc.field("namesrv_addr") == address)["seq"].to_pylist())
    return {address: sorted(seqs) for address, seqs in found.items()}


# -- rewriting -------------------------------------------------------------------------------------------------------------


def _place(house: Warehouse, names: Collection[str], day: dt.date) -> None:
    """Have no two events of a day of name servers with several addresses stand at one position."""
    own = pc.field("namesrv_id").isin(sorted(names))
    while _clash(house.rows(table, [day], ["namesrv_id", "seq"], own) for table in bronze.EVENT_TABLES):
        events = pa.concat_tables(house.rows(table, [day], PLACED.names, own) for table in bronze.EVENT_TABLES)
        moved = addresses.own_positions(events)
        for table in bronze.EVENT_TABLES:
            _set(house, table, house.files(table, [day]), "seq", moved)


def _clash(parts: Iterable[pa.Table]) -> bool:
    places = pa.concat_tables(parts)
    return bool(places.group_by(["namesrv_id", "seq"]).aggregate([]).num_rows < places.num_rows)


def _set(
    house: Warehouse,
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
        known = read_files(house.path, table, [file], [by, column])
        at = pc.index_in(known[by], value_set=new["key"])
        wanted = pc.coalesce(pc.take(new["new"], at), known[column])
        if wanted.equals(known[column]):
            continue
        rows = read_files(house.path, table, [file])
        _rewrite(house, table, file, with_columns(rows, **{column: wanted}))
        days |= set() if file.day is None else {file.day}
    return days


def _rewrite(house: Warehouse, table: Table, file: DataFile, rows: pa.Table) -> None:
    """Have `rows`, in their order, instead of a file."""
    order = [(name, "ascending") for name in ("namesrv_id", "seq", table.key[0]) if name in table.column_names]
    house.write(table, rows.sort_by(order), file.day, [file])


def _may_have(file: DataFile, ids: Collection[str]) -> bool:
    low, high = bounds_of(file)
    return low is None or high is None or any(low <= name <= high for name in ids)
