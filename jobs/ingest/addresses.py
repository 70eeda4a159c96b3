"""Gives the rows of all addresses of one name server its id: as conf/ or an event log says, or, where that is asked for, findings.

Bronze rows keep the address that was used, so that what is known later, or was taken wrongly, changes ids alone.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.files import LONG_TEXTS, DataFile, read_files
from jobs.store.ledger import days_of
from jobs.store.warehouse import Warehouse
from namesrv_day.across import addresses
from namesrv_day.across.addresses import PLACED
from namesrv_day.arrow.rows import rows_of, table_of, with_columns
from namesrv_wire.rows import Values
from schemas import bronze
from schemas.table import Table

_NAMED = (*bronze.RECORDED_TABLES, bronze.QUARANTINE)
_LIFE = ("started", "stopped", "observed_from", "recording_gap")
_ONE_DAY = dt.timedelta(days=1)


class Addresses:
    """What is known of the addresses of name servers: rows of the table `addresses`, as they are, and as they are to be."""

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
        kinds = addresses.told_once(fresh, answered, is_up=lives[-1] != "stopped" if lives else None)
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
        moved = addresses.own_positions(events)
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
